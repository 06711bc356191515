use std::sync::Arc;
use std::time::Duration;

use helenus_policy::route::{Locality, NodeTable};

use super::*;
use crate::config::Config;
use crate::shared::{Common, Shared};
use crate::snapshot::{Node, Snapshot};

/// A worker without links, before this many nodes.
fn worker(nodes: u8) -> Engine {
    let config = Config::default();
    let begin = crate::testing::begin();
    let common = Common::new(config, 1 << 30, begin);
    let node = |number| Node {
        address: SocketAddr::from(([10, 0, 0, number], 9042)),
        host_id: [number; 16],
        dc: String::new(),
        rack: String::new(),
        release_version: String::new(),
        processors: None,
        timeouts: None,
        gone: false,
    };
    common.store(Snapshot {
        epoch: 1,
        nodes: (0..nodes).map(node).collect(),
        places: NodeTable::from_localities((0..nodes).map(|_| Locality::LocalDc)),
        ..Snapshot::unknown()
    });
    Engine::new(
        Arc::new(Shared::new(Arc::new(common))),
        0,
        1,
        1,
        begin,
        Duration::ZERO,
    )
}

#[test]
fn nodes_that_logins_could_not_reach_are_tried_last_until_they_answer() {
    let mut state = worker(5);
    let first = |state: &mut Engine| state.nodes_for_login()[0].0.0;
    let firsts = |state: &mut Engine| {
        let mut firsts: Vec<u16> = (0..20).map(|_| first(state)).collect();
        firsts.sort_unstable();
        firsts.dedup();
        firsts
    };
    assert_eq!(firsts(&mut state), [0, 1, 2, 3, 4]);
    let failed = |nodes: &[u16]| Met {
        failed: nodes
            .iter()
            .map(|node| (NodeIndex(*node), "refused".to_owned()))
            .collect(),
        answered: None,
    };
    // Ten at a time, before the next try is due.
    for _ in 0..10 {
        state.note_met(&failed(&[0, 1, 2]));
    }
    assert_eq!(state.links.failures(NodeIndex(0)), 1);
    assert_eq!(firsts(&mut state), [3, 4]);
    state.note_met(&failed(&[3, 4]));
    // All the same: nothing better is known.
    assert_eq!(firsts(&mut state), [0, 1, 2, 3, 4]);
    let until = state.cx.now + Duration::from_secs(60);
    state.links.suspect(NodeIndex(1), until);
    state.note_met(&Met {
        failed: Vec::new(),
        answered: Some(NodeIndex(1)),
    });
    assert_eq!(firsts(&mut state), [1]);
}
