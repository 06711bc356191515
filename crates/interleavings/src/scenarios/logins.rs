use std::net::{IpAddr, Ipv4Addr};

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::sync::mpsc::Sender;
use shuttle::thread;
use slotmap::{Key, KeyData};

use super::{begin, channels};
use crate::keys::SessionKey;
use crate::login_queue::{Admission, Applicant, LoginLimits, Logins, Notice};

const WORKERS: usize = 3;
const LOGINS: usize = 2;
const LIMITS: LoginLimits = LoginLimits {
    total: 2,
    per_address: 1,
};

/// Three workers each let two clients in, of two addresses; one worker ends in the middle. No more are judged at a time
/// than may be, and everybody else has a turn.
pub fn logins() {
    let logins = Arc::new(Logins::default());
    let judged = Arc::new(AtomicUsize::new(0));
    let (senders, receivers) = channels::<Notice>(WORKERS);
    let workers: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(worker, notices)| {
            let (logins, judged, senders) = (logins.clone(), judged.clone(), senders.clone());
            thread::spawn(move || {
                for number in 0..LOGINS {
                    let key = KeyData::from_ffi((1 << 32) | (number as u64 + 1));
                    let session = SessionKey::from(key);
                    assert!(!session.is_null());
                    let applicant = Applicant { worker, session };
                    let peer = IpAddr::V4(Ipv4Addr::new(10, 0, 0, number as u8));
                    let (admission, told) = logins.ask(applicant, peer, LIMITS, begin());
                    tell(&senders, told);
                    let is_judged = match admission {
                        Admission::Go => true,
                        Admission::Refused => panic!("few wait"),
                        // The last worker ends while it waits, or is judged.
                        Admission::Wait if worker == WORKERS - 1 => break,
                        Admission::Wait => {
                            let notice = notices.recv().expect("a notice comes");
                            assert_eq!(notice.to, applicant);
                            notice.is_granted
                        }
                    };
                    assert!(is_judged, "no place is given to another");
                    let before = judged.fetch_add(1, Ordering::SeqCst);
                    assert!(before < LIMITS.total, "{before} others are judged");
                    judged.fetch_sub(1, Ordering::SeqCst);
                    if worker == WORKERS - 1 {
                        break;
                    }
                    tell(&senders, logins.end(applicant, false, begin()));
                }
                if worker == WORKERS - 1 {
                    logins.forget_worker(worker);
                    // As the others do with their next tick.
                    tell(&senders, logins.grant(begin()));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("no worker panics");
    }
    assert_eq!(logins.counts(), (0, 0));
}

/// A worker that has ended takes no notices.
fn tell(senders: &[Sender<Notice>], notices: Vec<Notice>) {
    for notice in notices {
        let _ = senders[notice.to.worker].send(notice);
    }
}
