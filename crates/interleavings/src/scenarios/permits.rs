use std::collections::VecDeque;

use helenus_policy::ring::NodeIndex;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::sync::mpsc::{Receiver, Sender};
use shuttle::thread;

use super::{begin, channels};
use crate::Class;
use crate::shared_node::{ScanPermit, SharedNode, SharedNodes};

const WORKERS: usize = 3;
const SCANS: usize = 2;
const PERMITS: u32 = 1;
const WORK_US: u32 = 10_000;

enum Message {
    /// There may be a permit.
    Permit,
    /// All scans have been served.
    Over,
}

/// State that all workers share.
struct Common {
    node: Arc<SharedNode>,
    at_node: AtomicUsize,
    served: AtomicUsize,
    tell: Vec<Sender<Message>>,
}

/// A worker whose scans are those of one tenant.
struct Worker {
    common: Arc<Common>,
    own: usize,
    queued: usize,
    at_node: VecDeque<ScanPermit>,
}

/// Three workers each send two scans to a node that takes one at a time, and wake each other when it has answered. No more
/// are there at a time, and all are served without anybody looking by itself.
pub fn permits() {
    let nodes = SharedNodes::new(begin());
    let (tell, receivers) = channels::<Message>(WORKERS);
    let common = Arc::new(Common {
        node: nodes.of(NodeIndex(0), PERMITS),
        at_node: AtomicUsize::new(0),
        served: AtomicUsize::new(0),
        tell,
    });
    let workers: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(own, messages)| {
            let common = common.clone();
            thread::spawn(move || {
                let worker = Worker {
                    common,
                    own,
                    queued: 0,
                    at_node: VecDeque::new(),
                };
                worker.run(&messages);
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("no worker panics");
    }
    assert_eq!(common.node.leak_check(), None);
}

impl Worker {
    fn run(mut self, messages: &Receiver<Message>) {
        for _ in 0..SCANS {
            self.offer();
            self.answer();
        }
        loop {
            match messages.recv().expect("others are there") {
                Message::Permit => self.on_permit(),
                Message::Over => return,
            }
            self.answer();
        }
    }

    /// A scan comes: it takes a permit if no others wait, and waits with them otherwise.
    fn offer(&mut self) {
        let node = &self.common.node;
        node.say_waiting(self.own, Some(PERMITS));
        let is_first = !node.others_wait(self.own) && self.queued == 0;
        let permit = is_first.then(|| node.try_take(PERMITS)).flatten();
        match permit {
            Some(permit) => self.begin(permit),
            None => {
                if self.queued == 0 {
                    let shares = &self.common.node.shares;
                    shares.enter(Class::Scan, self.own, self.own as u32);
                }
                self.queued += 1;
            }
        }
        self.say_waiting();
        self.pump();
    }

    fn begin(&mut self, permit: ScanPermit) {
        let before = self.common.at_node.fetch_add(1, Ordering::SeqCst);
        assert!(before < PERMITS as usize, "{before} others are at the node");
        self.at_node.push_back(permit);
    }

    /// Says what is true of its scans.
    fn say_waiting(&self) {
        let waits = (self.queued > 0).then_some(PERMITS);
        self.common.node.say_waiting(self.own, waits);
    }

    /// The node answers all that it has of this worker.
    fn answer(&mut self) {
        while let Some(permit) = self.at_node.pop_front() {
            self.common.at_node.fetch_sub(1, Ordering::SeqCst);
            drop(permit);
            self.say_waiting();
            if !self.wake_next() {
                self.pump();
            }
            let served = self.common.served.fetch_add(1, Ordering::SeqCst) + 1;
            if served == WORKERS * SCANS {
                for worker in &self.common.tell {
                    let _ = worker.send(Message::Over);
                }
            }
        }
    }

    /// The worker whose scan is next is told, if it is another one.
    fn wake_next(&self) -> bool {
        let next = self.common.node.next_waiting(self.own);
        next.is_some_and(|next| self.wake(next))
    }

    fn wake(&self, worker: usize) -> bool {
        if self.common.node.begin_to_wake(worker) {
            let _ = self.common.tell[worker].send(Message::Permit);
        }
        true
    }

    fn on_permit(&mut self) {
        self.common.node.on_woken(self.own);
        self.pump();
        self.wake_next();
    }

    /// Sends what may go, unless others come first, who are told.
    fn pump(&mut self) {
        while self.queued > 0 {
            let node = &self.common.node;
            self.say_waiting();
            if !node.has_free(PERMITS) {
                break;
            }
            let others = node.others_wait(self.own);
            let before = others.then(|| node.next_before(self.own)).flatten();
            if before.is_some_and(|worker| self.wake(worker)) {
                break;
            }
            let Some(permit) = node.try_take(PERMITS) else {
                break;
            };
            self.queued -= 1;
            let shares = &self.common.node.shares;
            shares.charge(Class::Scan, self.own as u32, WORK_US);
            if self.queued == 0 {
                shares.leave(Class::Scan, self.own, self.own as u32);
            }
            self.begin(permit);
        }
        self.say_waiting();
    }
}
