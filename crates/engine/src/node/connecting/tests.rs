use std::net::SocketAddr;
use std::sync::Arc;

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::{Locality, NodeTable};
use helenus_wire::{Opcode, Version};

use super::*;
use crate::config::Config;
use crate::engine::TICK;
use crate::output::Output;
use crate::shared::{Common, Shared};
use crate::snapshot::Snapshot;
use crate::testing::{bytes_of, dial_all, node, open_links, take_sent};

const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// A worker before one node that asks for no login, and wants one link to it.
fn worker() -> Engine {
    let mut config = Config::default();
    config.links.per_node = 1;
    config.links.connect_timeout_ms = CONNECT_TIMEOUT.as_millis() as u64;
    config.links.backoff_min_ms = 1_000;
    let begin = crate::testing::begin();
    let common = Common::new(config, 1 << 30, begin);
    common.store(Snapshot {
        epoch: 1,
        cluster_name: "ours".to_owned(),
        nodes: vec![node(0)],
        places: NodeTable::from_localities([Locality::LocalDc]),
        ..Snapshot::unknown()
    });
    let shared = Arc::new(Shared::new(Arc::new(common)));
    Engine::new(shared, 0, 1, 1, begin, Duration::ZERO)
}

fn wait(engine: &mut Engine, time: Duration) {
    let end = engine.now() + time;
    while engine.now() < end {
        let next = engine.now() + TICK;
        engine.on_deadline(next, Duration::ZERO);
        assert_eq!(engine.contradictions(), Vec::<String>::new());
    }
}

fn has_link(engine: &Engine) -> bool {
    let mut pools = engine.links.pools.keys();
    pools.any(|pool| engine.links.has_link(pool, NodeIndex(0)))
}

fn failures(engine: &Engine) -> u32 {
    engine.links.failures(NodeIndex(0))
}

#[test]
fn a_node_that_does_not_go_on_is_given_up_and_tried_again() {
    let mut engine = worker();
    let now = engine.now();
    let (_, silent) = dial_all(&mut engine, now)[0];
    // Each answer in time does not help if all of them together take too long.
    wait(&mut engine, CONNECT_TIMEOUT * 2);
    let ready = bytes_of((Version::V4, false), 1, Opcode::Ready, &[]);
    let now = engine.now();
    engine.on_link_bytes(now, silent, &ready);
    wait(&mut engine, CONNECT_TIMEOUT - TICK);
    assert!(engine.is_link_open(silent));
    assert_eq!(failures(&engine), 0);
    wait(&mut engine, TICK);
    assert!(!engine.is_link_open(silent));
    assert_eq!(failures(&engine), 1);
    let now = engine.now();
    assert_eq!(dial_all(&mut engine, now), []);
    wait(&mut engine, Duration::from_secs(1));
    let now = engine.now();
    let (node, link) = open_links(&mut engine, now, Version::V4)[0];
    assert_eq!((node, engine.is_link_open(link)), (NodeIndex(0), true));
    assert!(has_link(&engine));
    assert_eq!(failures(&engine), 0);
}

#[test]
fn a_connection_that_is_made_too_late_is_not_wanted() {
    let mut engine = worker();
    let Some(Output::Dial(key, address)) = engine.poll_output() else {
        panic!("no connection is wanted");
    };
    assert_eq!(address, SocketAddr::from(([10, 0, 0, 0], 9042)));
    wait(&mut engine, CONNECT_TIMEOUT * 3);
    assert_eq!(failures(&engine), 1);
    let now = engine.now();
    assert!(!engine.on_dialed(now, key, Ok(Dialed::default())));
    assert!(!engine.on_dialed(now, key, Err("refused".to_owned())));
    assert_eq!(failures(&engine), 1, "once");
}

#[test]
fn a_worker_that_has_stood_still_reads_before_it_judges() {
    let mut engine = worker();
    let now = engine.now();
    let (_, link) = dial_all(&mut engine, now)[0];
    let later = now + CONNECT_TIMEOUT * 100;
    engine.on_deadline(later, Duration::ZERO);
    assert!(engine.is_link_open(link), "its answers may lie there");
    engine.on_deadline(later + TICK, Duration::ZERO);
    assert!(!engine.is_link_open(link));
}

#[test]
fn a_connection_that_cannot_be_written_to_ends_when_it_is_told_why() {
    let mut engine = worker();
    let now = engine.now();
    let (_, link) = dial_all(&mut engine, now)[0];
    while engine.poll_output().is_some() {}
    let sent = crate::output::Sent {
        writes: 0,
        bytes: 0,
        then: crate::output::Then::Broken,
    };
    engine.on_link_sent(engine.now(), link, sent);
    let looked_at = matches!(engine.poll_output(), Some(Output::Link(key)) if key == link);
    assert!(looked_at && engine.is_link_open(link));
    engine.on_link_closed(now, link, "broken pipe", None);
    assert!(!engine.is_link_open(link));
    assert!(take_sent(&mut engine, link).is_empty());
    assert_eq!(failures(&engine), 1);
    // Nothing is told of it twice.
    engine.on_link_closed(now, link, "broken pipe", None);
    assert_eq!(failures(&engine), 1);
    assert_eq!(engine.contradictions(), Vec::<String>::new());
}
