//! Schema changes while not all nodes are there.

use std::thread;
use std::time::Instant;

use helenus_cluster::{Cluster, Consistency};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, ONE, PATIENCE, op};

use crate::eventually;

/// A flag of an answer.
const WARNING: u8 = 0x08;
const DISAGREE: &str = "do not agree on the schema";

/// On a cluster of three nodes, of which the third is restarted.
pub(crate) fn changes_with_a_node_away(cluster: &mut Cluster) {
    let points = [
        cluster.address(1).expect("node"),
        cluster.address(2).expect("node"),
    ];
    // Nothing but Cassandra decides that the third node is down.
    let patient = [
        "cluster.schema_agreement_max_ms=3000",
        "links.probe_timeout_ms=60000",
    ];
    // Less than six changes would wait for, one after the other; more than a busy machine takes for all at once.
    let short = ["limits.request_timeout_ms=16000", "listen.workers=1"];
    let proxy = Proxy::start(&points, &[&patient[..], &short].concat()).expect("proxy");
    let mut client = Client::ready(proxy.address, 5).expect("client");
    client
        .query("CREATE TABLE f.silent (k int PRIMARY KEY)")
        .expect("created");
    has_links_to_all(&proxy);
    cluster.pause(3).expect("paused");
    // Once its silence has been noticed nothing is sent there; but the links stand.
    for k in 0..20 {
        let select = format!("SELECT k FROM f.silent WHERE k = {k}");
        client
            .query(&select)
            .expect("sent to another node in the end");
    }
    waiting_changes_do_not_fail_and_do_not_hold_up_events(cluster, &proxy);
    cluster.resume(3).expect("resumed");

    let proxy = Proxy::start(&points, &[]).expect("proxy");
    has_links_to_all(&proxy);
    cluster.kill(3).expect("killed");
    // One knows by an event that the node is down, the other finds none of it.
    let later = Proxy::start(&points, &[]).expect("proxy");
    for proxy in [&proxy, &later] {
        changes_do_not_wait_for_a_node_that_is_down(cluster, proxy);
    }
    cluster.start(3).expect("started");
    changes_wait_for_a_node_that_is_back(cluster, &proxy);
}

/// Six changes at a time, each of which waits as long as it may: together longer than a request may.
fn waiting_changes_do_not_fail_and_do_not_hold_up_events(cluster: &Cluster, proxy: &Proxy) {
    let mut listener = Client::ready(proxy.address, 5).expect("client");
    listener.register(&["SCHEMA_CHANGE"]).expect("registered");
    let changes: Vec<_> = (0..6)
        .map(|number| {
            let address = proxy.address;
            thread::spawn(move || {
                let mut client = Client::ready(address, 5).expect("client");
                let create = format!("CREATE TABLE f.held_{number} (k int PRIMARY KEY)");
                let outcome = client.try_query(&create, ONE).expect("an answer");
                (Instant::now(), outcome)
            })
        })
        .collect();
    let event = listener.receive().expect("an event");
    let heard = Instant::now();
    assert_eq!((event.stream, event.opcode), (-1, op::EVENT));
    for change in changes {
        let (answered, outcome) = change.join().expect("a client");
        let answer = outcome.expect("executed");
        assert!(heard < answered, "the event came behind the answers");
        // One proxy shows drivers one version, whatever the nodes have. This is how they hear of it.
        let said = String::from_utf8_lossy(&answer.body);
        let without = cluster.address(3).expect("node").to_string();
        assert!(
            answer.flags & WARNING != 0 && said.contains(&without),
            "{said}"
        );
    }
    proxy.expect_logged(DISAGREE);
    let mut node = cluster.connect(1).expect("node");
    for number in 0..6 {
        let select = format!("SELECT k FROM f.held_{number}");
        // While a node is away no agreement is reached: others may know of it a little later.
        eventually("a table", PATIENCE, || {
            node.query(&select, Consistency::One).is_ok()
        });
    }
}

fn changes_do_not_wait_for_a_node_that_is_down(cluster: &Cluster, proxy: &Proxy) {
    let mut client = Client::ready(proxy.address, 5).expect("client");
    // Directly first: what Cassandra itself takes.
    let mut node = cluster.connect(1).expect("node");
    let steps = |name: &str| {
        let name = format!("f.{name}_{}", proxy.address.port());
        [
            format!("CREATE TABLE {name} (k int PRIMARY KEY)"),
            format!("ALTER TABLE {name} ADD v int"),
            format!("DROP TABLE {name}"),
        ]
    };
    for cql in steps("direct") {
        let begin = Instant::now();
        node.query(&cql, Consistency::One).expect(&cql);
        println!("{cql}: {:?} directly", begin.elapsed());
    }
    for cql in steps("away") {
        let begin = Instant::now();
        client.query(&cql).expect(&cql);
        println!("{cql}: {:?} through the proxy", begin.elapsed());
    }
    // It would have been waited for until the end.
    assert!(!proxy.log().contains(DISAGREE), "{}", proxy.log());
}

fn changes_wait_for_a_node_that_is_back(cluster: &Cluster, proxy: &Proxy) {
    has_links_to_all(proxy);
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let mut node = cluster.connect(3).expect("node");
    let mut is_known_at_once = |name: &str| {
        let create = format!("CREATE TABLE f.{name} (k int PRIMARY KEY)");
        client.query(&create).expect("created");
        let select = format!("SELECT k FROM f.{name}");
        node.query(&select, Consistency::One).is_ok()
    };
    // Connections stand before Cassandra reports the node as up. Until then it is waited for only if it responds soon,
    // and just started it may not.
    let mut number = 0;
    eventually("the node is waited for", PATIENCE, || {
        number += 1;
        is_known_at_once(&format!("soon_{number}"))
    });
    for round in 0..5 {
        assert!(is_known_at_once(&format!("back_{round}")), "{round}");
    }
}

fn has_links_to_all(proxy: &Proxy) {
    eventually("links to all nodes", PATIENCE, || {
        let (_, json) = proxy.admin_get("/api/snapshot", None).expect("an answer");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let nodes = json["nodes"].as_array().expect("nodes");
        nodes.iter().all(|node| node["links_up"].as_u64() > Some(0))
    });
}
