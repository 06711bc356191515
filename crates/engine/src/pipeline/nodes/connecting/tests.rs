use std::net::SocketAddr;
use std::sync::Arc;

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::{Locality, NodeTable};
use helenus_wire::{Opcode, Version};

use super::*;
use crate::config::Config;
use crate::output::{LinkEnd, Output};
use crate::shared::{Common, Shared};
use crate::snapshot::Snapshot;
use crate::support::tick::TICK;
use crate::testing::{bytes_of, dial_all, node, open_links, take_sent};

const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// A worker before one node that asks for no login, and wants one link to it.
fn worker() -> Engine {
    worker_before(1, 1)
}

/// A worker before so many nodes, with so many links to each.
fn worker_before(nodes: u8, links: usize) -> Engine {
    let mut config = Config::default();
    config.links.per_node = links;
    config.links.connect_timeout_ms = CONNECT_TIMEOUT.as_millis() as u64;
    config.links.backoff_min_ms = 1_000;
    let begin = crate::testing::begin();
    let common = Common::new(config, 1 << 30, begin);
    let places = (0..nodes).map(|_| Locality::LocalDc);
    let snapshot = Snapshot::builder()
        .epoch(1)
        .cluster_name("ours")
        .nodes((0..nodes).map(node))
        .places(NodeTable::from_localities(places));
    common.store(snapshot.build());
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
    let mut pools = engine.links.pool_keys();
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
    assert!(!engine.on_dialed(
        now,
        key,
        Err(crate::output::NotDialed::Lost("refused".to_owned()))
    ));
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
    engine.on_link_closed(now, link, (LinkEnd::ByNode, "broken pipe"), None);
    assert!(!engine.is_link_open(link));
    assert!(take_sent(&mut engine, link).is_empty());
    assert_eq!(failures(&engine), 1);
    // Nothing is told of it twice.
    engine.on_link_closed(now, link, (LinkEnd::ByNode, "broken pipe"), None);
    assert_eq!(failures(&engine), 1);
    assert_eq!(engine.contradictions(), Vec::<String>::new());
}

/// Longer than a node may be away without beginning with little.
const LONG: Duration = Duration::from_secs(15);

/// For so long, all connections that are wanted are refused.
fn wait_in_vain(engine: &mut Engine, time: Duration) {
    let end = engine.now() + time;
    while engine.now() < end {
        let next = engine.now() + TICK;
        engine.on_deadline(next, Duration::ZERO);
        while let Some(output) = engine.poll_output() {
            if let Output::Dial(key, _) = output {
                engine.on_dialed(
                    next,
                    key,
                    Err(crate::output::NotDialed::Lost("refused".to_owned())),
                );
            }
        }
    }
}

/// The nodes to which links are opened, in their order, until there are so many.
fn come_back(engine: &mut Engine, links: usize) -> Vec<NodeIndex> {
    let mut back = Vec::new();
    while back.len() < links {
        wait(engine, TICK);
        let now = engine.now();
        let opened = open_links(engine, now, Version::V4);
        back.extend(opened.into_iter().map(|(node, _)| node));
    }
    back
}

fn lose(engine: &mut Engine, links: &[(NodeIndex, LinkKey)], which: impl Fn(NodeIndex) -> bool) {
    let now = engine.now();
    for (_, link) in links.iter().filter(|(node, _)| which(*node)) {
        engine.on_link_closed(now, *link, (LinkEnd::ByNode, "gone"), None);
    }
}

#[test]
fn a_node_that_was_away_by_itself_begins_with_little() {
    let mut engine = worker_before(3, 1);
    let now = engine.now();
    let links = open_links(&mut engine, now, Version::V4);
    let usual = engine.queues.window(NodeIndex(0));
    lose(&mut engine, &links, |node| node == NodeIndex(0));
    wait_in_vain(&mut engine, LONG);
    assert_eq!(come_back(&mut engine, 1), [NodeIndex(0)]);
    assert!(engine.queues.window(NodeIndex(0)) < usual / 2);
    assert_eq!(engine.queues.window(NodeIndex(1)), usual);

    // Not if it was away for a moment only.
    let mut engine = worker_before(3, 1);
    let links = open_links(&mut engine, now, Version::V4);
    lose(&mut engine, &links, |node| node == NodeIndex(0));
    wait_in_vain(&mut engine, Duration::from_secs(2));
    assert_eq!(come_back(&mut engine, 1), [NodeIndex(0)]);
    assert_eq!(engine.queues.window(NodeIndex(0)), usual);
}

#[test]
fn nodes_that_were_all_away_are_used_as_before() {
    let mut engine = worker_before(3, 1);
    let now = engine.now();
    let links = open_links(&mut engine, now, Version::V4);
    let usual = engine.queues.window(NodeIndex(0));
    lose(&mut engine, &links, |_| true);
    wait_in_vain(&mut engine, LONG);
    let mut back = come_back(&mut engine, 3);
    back.sort_unstable();
    assert_eq!(back, [0, 1, 2].map(NodeIndex));
    for node in back {
        assert_eq!(engine.queues.window(node), usual, "{node:?}");
    }
}

#[test]
fn a_node_to_which_another_link_is_up_was_not_away() {
    let mut engine = worker_before(2, 2);
    let now = engine.now();
    let links = open_links(&mut engine, now, Version::V4);
    assert_eq!(links.len(), 4);
    let usual = engine.queues.window(NodeIndex(0));
    let of_first = links.iter().find(|(node, _)| *node == NodeIndex(0));
    let (_, lost) = *of_first.expect("a link");
    engine.on_link_closed(now, lost, (LinkEnd::ByNode, "gone"), None);
    wait_in_vain(&mut engine, LONG);
    assert_eq!(come_back(&mut engine, 1), [NodeIndex(0)]);
    assert_eq!(engine.queues.window(NodeIndex(0)), usual);
}
