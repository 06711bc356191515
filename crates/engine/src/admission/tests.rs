use std::net::SocketAddr;
use std::time::Duration;

use super::*;
use crate::config::Config;
use crate::shared::{Common, Shared};
use crate::snapshot::{Node, Snapshot};

const NODE: NodeIndex = NodeIndex(0);

/// The queue of one node, in which nothing waits.
fn queues() -> (Context, Queues) {
    let now = crate::testing::begin();
    let common = Arc::new(Common::new(Config::default(), 1 << 30, now));
    common.store(Snapshot {
        epoch: 1,
        nodes: vec![Node {
            address: SocketAddr::from(([10, 0, 0, 0], 9042)),
            host_id: [0; 16],
            dc: String::new(),
            rack: String::new(),
            release_version: String::new(),
            processors: None,
            timeouts: None,
            gone: false,
        }],
        ..Snapshot::unknown()
    });
    let shared = Arc::new(Shared::new(common));
    let cx = Context::new(shared, 0, 1, 1, now, Duration::ZERO);
    let mut queues = Queues::default();
    queues.adopt_nodes(&cx);
    (cx, queues)
}

fn offer(queues: &mut Queues, cx: &Context, class: Class) -> Admission {
    let of = Candidate {
        key: NodeRequestKey::default(),
        class,
        bytes: 100,
        job: Job::of_work(100),
    };
    match queues.offer(cx, NODE, of) {
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
