use helenus_policy::turns::{Condition, Entered, Left};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;
use slotmap::KeyData;

use super::{begin, channels};
use crate::config::Aggregation;
use crate::keys::{ClientRequestKey, SessionKey};
use crate::lwt_queue::{SharedTurns, Write};

const WORKERS: usize = 3;
const WRITES: usize = 2;
const PARTITION: u64 = 7;

/// Three workers each write a partition on a condition, twice, with conditions that hold and that do not. One has the turn
/// at a time, and all get it.
pub fn turns() {
    let settings = Aggregation {
        lwt_turns: true,
        lwt_grace_ms: 0,
        ..Aggregation::default()
    };
    let turns = Arc::new(SharedTurns::new(&settings, begin()));
    let running = Arc::new(AtomicUsize::new(0));
    let (senders, receivers) = channels::<(Write, bool)>(WORKERS);
    let workers: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(worker, granted)| {
            let (turns, running, senders) = (turns.clone(), running.clone(), senders.clone());
            thread::spawn(move || {
                for number in 0..WRITES {
                    let key = KeyData::from_ffi((1 << 32) | (number as u64 + 1));
                    let write = Write {
                        worker,
                        request: ClientRequestKey::from(key),
                        partition: PARTITION,
                    };
                    let owner = (worker, SessionKey::from(key));
                    let entered = turns.with(begin(), |turns, now_us| {
                        turns.enter(PARTITION, owner, write, now_us)
                    });
                    let with_turn = match entered {
                        Entered::Run(own) => {
                            assert_eq!(own, write);
                            true
                        }
                        Entered::Waits => {
                            let (own, with_turn) = granted.recv().expect("its turn comes");
                            assert_eq!(own, write);
                            with_turn
                        }
                        Entered::NoTurn(_) => false,
                    };
                    if !with_turn {
                        continue;
                    }
                    assert_eq!(
                        running.fetch_add(1, Ordering::SeqCst),
                        0,
                        "two have the turn"
                    );
                    running.fetch_sub(1, Ordering::SeqCst);
                    let condition = [Condition::Held, Condition::Failed][(worker + number) % 2];
                    let left = turns.with(begin(), |turns, now_us| {
                        turns.leave(PARTITION, condition, now_us)
                    });
                    let told = match left {
                        Left::Next(next) => vec![(next, true)],
                        Left::Aside(all) => all.into_iter().map(|next| (next, false)).collect(),
                        Left::Idle => Vec::new(),
                        Left::Grace { .. } => panic!("there are no graces"),
                    };
                    for (next, with_turn) in told {
                        let sent = senders[next.worker].send((next, with_turn));
                        sent.expect("whoever waits is there");
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("no worker panics");
    }
    assert_eq!((turns.waiting(), turns.partitions()), (0, 0));
}
