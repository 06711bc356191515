use std::collections::VecDeque;
use std::time::Duration;

use slotmap::SlotMap;

use super::*;
use crate::config::Config;
use crate::keys::LinkKey;
use crate::output::Output;
use crate::shared::{Common, Shared};
use crate::snapshot::Snapshot;
use crate::testing::node;

const NODE: NodeIndex = NodeIndex(0);

/// The queue of one node, in which nothing waits.
fn queues() -> (Context, Queues) {
    let mut workers = queues_of(1, Config::default());
    workers.remove(0)
}

/// The queues of so many workers for one node, in which nothing waits.
fn queues_of(workers: usize, config: Config) -> Vec<(Context, Queues)> {
    let now = crate::testing::begin();
    let common = Arc::new(Common::new(config, 1 << 30, now));
    common.store(Snapshot::builder().epoch(1).nodes([node(0)]).build());
    let worker = |index| {
        let shared = Arc::new(Shared::new(common.clone()));
        let cx = Context::new(shared, index, workers, 1, now, Duration::ZERO);
        let mut queues = Queues::default();
        queues.adopt_nodes(&cx);
        (cx, queues)
    };
    (0..workers).map(worker).collect()
}

fn offer(queues: &mut Queues, cx: &Context, class: Class) -> Admission {
    let of = Candidate {
        key: NodeRequestKey::default(),
        class,
        bytes: 100,
        job: Job::of_work(100),
    };
    match queues.offer(cx, NODE, of, Payer::default) {
        Admitted::Go(admission) => admission,
        Admitted::Waits(_) => panic!("{class:?} waits"),
        Admitted::Refused(why) => panic!("{class:?}: {why}"),
    }
}

#[test]
fn a_scan_takes_a_permit_of_its_node_and_nothing_else_does() {
    let (cx, mut queues) = queues();
    assert_eq!((queues.scans(NODE), queues.scans_about()), (0, false));
    let scan = offer(&mut queues, &cx, Class::Scan);
    assert!(scan.permit.is_some());
    assert_eq!((queues.scans(NODE), queues.scans_about()), (1, true));
    for class in Class::ALL {
        if class != Class::Scan {
            let admission = offer(&mut queues, &cx, class);
            assert!(admission.permit.is_none(), "{class:?}");
        }
    }
    drop(scan);
    assert!(!queues.scans_about(), "the permit is returned");
}

#[test]
fn while_nobody_waits_for_what_has_all_permits_no_scan_is_refused_for_that() {
    let mut config = Config::default();
    config.scheduling.scan_wait_max_ms = 5_000;
    config.scheduling.scan_slots = 1;
    config.scheduling.scan_slots_idle = 1;
    config.scheduling.scan_slots_max = 1;
    let (mut cx, mut queues) = queues_of(1, config).remove(0);
    let refused_of = |cx: &mut Context, queues: &mut Queues| {
        let mut refused = 0;
        for _ in 0..40 {
            cx.now += Duration::from_millis(50);
            let of = Candidate {
                key: NodeRequestKey::default(),
                class: Class::Scan,
                bytes: 100,
                job: Job::of_work(500_000),
            };
            let admitted = queues.offer(cx, NODE, of, Payer::default);
            refused += usize::from(matches!(admitted, Admitted::Refused(_)));
        }
        refused
    };
    let mut at_node = offer(&mut queues, &cx, Class::Scan);
    assert!(refused_of(&mut cx, &mut queues) > 0, "the node is slow");
    let until = cx.now + Duration::from_secs(10);
    queues.keep_permit(&cx, &mut at_node, LinkKey::default(), 1, until);
    assert_eq!(refused_of(&mut cx, &mut queues), 0, "the node may be done");
    cx.now = until;
    queues.return_permits(&mut cx);
    assert!(!queues.nodes[0].shared.are_all_kept(1));
}

/// Pieces of scans that a node serves at a time.
const PERMITS: u32 = 2;
const PIECE_US: u32 = 10_000;

/// A worker, and the tenants of its scans that have not been sent.
struct Worker {
    cx: Context,
    queues: Queues,
    scans: SlotMap<NodeRequestKey, (u32, Option<Waiting>)>,
}

/// A node with a few permits for scans and the workers that send them. Each answer is followed by the next
/// piece of the same scan.
struct Scans {
    workers: Vec<Worker>,
    /// In the order in which they are answered.
    at_node: VecDeque<(usize, NodeRequestKey, Admission)>,
    messages: VecDeque<usize>,
    /// Messages between workers arrive only after the next answer.
    late: bool,
    served: [u32; 4],
}

impl Scans {
    fn new(workers: usize, late: bool) -> Scans {
        let mut config = Config::default();
        config.scheduling.scan_slots = PERMITS;
        config.scheduling.scan_slots_idle = PERMITS;
        config.scheduling.scan_slots_max = PERMITS;
        // Nothing is due, and nothing sheds.
        config.scheduling.scan_wait_max_ms = 600_000;
        config.scheduling.standing_scan_wait_max_ms = 0;
        let workers = queues_of(workers, config).into_iter();
        let workers = workers.map(|(cx, queues)| Worker {
            cx,
            queues,
            scans: SlotMap::default(),
        });
        Scans {
            workers: workers.collect(),
            at_node: VecDeque::new(),
            messages: VecDeque::new(),
            late,
            served: [0; 4],
        }
    }

    /// A tenant begins so many scans at a worker.
    fn begin(&mut self, worker: usize, tenant: u32, scans: usize) {
        for _ in 0..scans {
            let key = self.workers[worker].scans.insert((tenant, None));
            self.offer(worker, key);
        }
        self.settle();
    }

    fn offer(&mut self, worker: usize, key: NodeRequestKey) {
        let Worker { cx, queues, scans } = &mut self.workers[worker];
        let of = Candidate {
            key,
            class: Class::Scan,
            bytes: 100,
            job: Job::of_work(PIECE_US),
        };
        let (tenant, waiting) = &mut scans[key];
        let payer = || Payer {
            tenant: *tenant,
            flow: 0,
        };
        match queues.offer(cx, NODE, of, payer) {
            Admitted::Go(admission) => self.at_node.push_back((worker, key, admission)),
            Admitted::Waits(of) => *waiting = Some(of),
            Admitted::Refused(why) => panic!("{why}"),
        }
    }

    /// The node answers the piece that it has had for the longest time.
    fn answer(&mut self) {
        let (worker, key, admission) = self.at_node.pop_front().expect("a piece at the node");
        let late = std::mem::take(&mut self.messages);
        let Worker { cx, queues, scans } = &mut self.workers[worker];
        cx.now += Duration::from_micros(PIECE_US.into());
        let answered = Answered {
            predicted_us: PIECE_US,
            known_us: PIECE_US,
            service_us: PIECE_US,
            is_error: false,
        };
        self.served[scans[key].0 as usize] += 1;
        queues.leave_node(cx, admission, Class::Scan, Some(answered));
        self.offer(worker, key);
        self.settle();
        late.into_iter().for_each(|worker| self.wake(worker));
        self.settle();
    }

    fn pump(&mut self, at: usize, may_scan: bool) {
        let Worker { cx, queues, scans } = &mut self.workers[at];
        loop {
            let waiting = |key| Some((100, scans.get(key)?.1?));
            let Some((key, admission)) = queues.poll(cx, NODE, may_scan, waiting) else {
                break;
            };
            self.at_node.push_back((at, key, admission));
        }
        queues.say_waiting(cx, NODE);
    }

    fn wake(&mut self, at: usize) {
        let Worker { cx, queues, .. } = &mut self.workers[at];
        queues.on_woken(cx, NODE);
        self.pump(at, true);
        let Worker { cx, queues, .. } = &mut self.workers[at];
        queues.pass_permit_on(cx, NODE);
    }

    /// All workers do what is to be done; messages are delivered unless they are late.
    fn settle(&mut self) {
        loop {
            for at in 0..self.workers.len() {
                while let Some((_, may_scan)) = self.workers[at].queues.poll_noted() {
                    self.pump(at, may_scan);
                }
                while let Some(output) = self.workers[at].cx.outputs.pop_front() {
                    match output {
                        Output::Tell(worker, WorkerMessage::ScanPermit(NODE)) => {
                            self.messages.push_back(worker);
                        }
                        _ => panic!("an output that is no message"),
                    }
                }
            }
            // A node that has nothing to do answers nothing that a message could come after.
            let is_late = self.late && !self.at_node.is_empty();
            if is_late {
                break;
            }
            match self.messages.pop_front() {
                Some(worker) => self.wake(worker),
                None => break,
            }
        }
    }

    /// The shares of tenants in what is served next.
    fn shares(&mut self) -> [f64; 4] {
        (0..200).for_each(|_| self.answer());
        let before = self.served;
        (0..2_000).for_each(|_| {
            self.answer();
            let free = PERMITS as usize - self.at_node.len();
            assert!(free == 0 || self.late, "{free} permits are free");
        });
        std::array::from_fn(|at| f64::from(self.served[at] - before[at]) / 2_000.0)
    }
}

#[test]
fn who_has_connections_to_all_workers_gets_no_more_than_who_has_one() {
    for late in [false, true] {
        let mut scans = Scans::new(4, late);
        for worker in 0..4 {
            scans.begin(worker, 0, 3);
        }
        scans.begin(2, 1, 3);
        let [wide, narrow, ..] = scans.shares();
        assert!(
            (0.48..0.52).contains(&narrow),
            "{wide} {narrow}, late {late}"
        );
    }
}

#[test]
fn who_asks_for_less_than_its_share_gets_it_and_the_others_share_the_rest() {
    let mut scans = Scans::new(3, false);
    // One scan at a time on a node that serves two: never more than a half.
    scans.begin(0, 1, 4);
    scans.begin(1, 1, 4);
    scans.begin(1, 2, 8);
    scans.begin(2, 3, 4);
    let shares = scans.shares();
    for share in &shares[1..] {
        assert!((0.31..0.36).contains(share), "{shares:?}");
    }
}

#[test]
fn few_scans_of_one_tenant_are_not_passed_by_new_ones_of_another() {
    // No queue is ever long: each piece that follows could take the permit of the one before.
    for late in [false, true] {
        let mut scans = Scans::new(3, late);
        scans.begin(0, 0, 1);
        scans.begin(1, 0, 1);
        scans.begin(2, 1, 2);
        let [one, other, ..] = scans.shares();
        assert!((0.45..0.55).contains(&other), "{one} {other}, late {late}");
    }
}

#[test]
fn a_scan_leaves_a_worker_of_many_some_room_for_everything_else() {
    let mut config = Config::default();
    let other = |last| std::net::SocketAddr::from(([10, 1, 0, last], 9042));
    config.listen.proxies = vec![other(1), other(2)];
    let mut workers = queues_of(8, config);
    let (cx, queues) = &mut workers[0];
    let _scan = offer(queues, cx, Class::Scan);
    assert_eq!(queues.window(NODE), 16);
    // Nor does it come to a share of the least window when answers are late.
    let mut least = 16;
    for batch in 0..60 {
        for _ in 0..32 {
            let answered = Answered {
                predicted_us: 100,
                known_us: 100,
                service_us: if batch == 0 { 100 } else { 1_000 },
                is_error: false,
            };
            let point = offer(queues, cx, Class::Point);
            queues.leave_node(cx, point, Class::Point, Some(answered));
            least = least.min(queues.window(NODE));
        }
    }
    assert_eq!(least, 8);
}

#[test]
fn what_a_proxy_that_is_down_would_have_is_for_the_others() {
    let mut config = Config::default();
    let other = |last| std::net::SocketAddr::from(([10, 1, 0, last], 9042));
    let slots = |config: &Config| settings(config, 1, None).scan_slots_max;
    let alone = slots(&config);
    config.listen.proxies = vec![other(1), other(2)];
    assert_eq!(slots(&config), alone.div_ceil(3));
    config.listen.proxies_down = 1;
    assert_eq!(slots(&config), alone.div_ceil(2));
    // The list may have become shorter since they were counted.
    config.listen.proxies_down = 3;
    assert_eq!(slots(&config), alone);
}
