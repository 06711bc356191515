//! Connections to nodes: those of keyspaces, and what is lost with one.

use std::time::Duration;

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, ONE, op};

use crate::node::{Shared, shared};
use crate::{directly, eventually, metric, serves, turn};

const INVALID: i32 = 0x2200;
const WRITE_TIMEOUT: i32 = 0x1100;
const KEYSPACES: usize = 40;
/// Nodes of v4 cannot be told the keyspace of a request, so each keyspace has links of its own.
const SETTINGS: [&str; 3] = [
    "links.protocol_max=4",
    "limits.special_links_max=16",
    "listen.workers=1",
];

fn keyspaces(node: &mut Shared) {
    let mut direct = node.connect();
    for n in 0..KEYSPACES {
        let create = format!(
            "CREATE KEYSPACE IF NOT EXISTS links{n} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        );
        let table = format!("CREATE TABLE IF NOT EXISTS links{n}.t (k int PRIMARY KEY)");
        directly(&mut direct, &[&create, &table]);
    }
}

#[test]
fn keyspaces_beyond_the_bound_take_the_place_of_idle_ones() {
    let _turn = turn("links of keyspaces", Duration::from_secs(180));
    let mut node = shared();
    keyspaces(&mut node);
    let points = node.cluster().contact_points();
    let proxy = Proxy::start(&points, &SETTINGS).expect("proxy");
    let mut client = Client::ready(proxy.address, 4).expect("client");
    let mut first = Client::ready(proxy.address, 4).expect("client");
    first.query("USE links0").expect("USE");
    let known = first.prepare("SELECT k FROM t").expect("prepared");
    for round in 0..3 {
        for n in 0..KEYSPACES {
            client.query(&format!("USE links{n}")).expect("USE");
            let rows = client.try_query("SELECT k FROM t", ONE).expect("answer");
            rows.unwrap_or_else(|fault| panic!("round {round}, links{n}: {fault:?}"));
        }
    }
    // The keyspace is gone, its link as well, and the node has forgotten what was prepared there.
    directly(&mut node.connect(), &["DROP KEYSPACE links0"]);
    for _ in 0..3 {
        let outcome = first.execute(&known, &[], ONE).expect("answer");
        let fault = outcome.expect_err("the keyspace is gone");
        assert_eq!(fault.code, INVALID, "{fault:?}");
    }
    client.query("SELECT k FROM t").expect("others are served");
}

/// Dropping it silently would be worse than saying that nobody knows.
#[test]
fn a_write_lost_with_its_node_is_answered_as_perhaps_applied() {
    let _turn = turn("lost write", Duration::from_secs(180));
    let mut node = shared();
    node.keyspace("lost", &["CREATE TABLE lost.t (k int PRIMARY KEY, v int)"]);
    let points = node.cluster().contact_points();
    let proxy = Proxy::start(&points, &["listen.workers=1"]).expect("proxy");
    let mut client = Client::ready(proxy.address, 5).expect("client");
    // It can be repeated, and so it is; but there is nobody to repeat it to.
    let insert = "INSERT INTO lost.t (k, v) VALUES (1, 2)";
    client.query(insert).expect("written");
    node.cluster().pause(1).expect("paused");
    let body = client.query_body(insert, ONE);
    client.send(9, op::QUERY, &body).expect("sent");
    eventually("it is in flight", Duration::from_secs(5), || {
        metric(&proxy, "helenus_node_in_flight_requests") >= 1.0
    });
    node.cluster().kill(1).expect("killed");
    let fault = client.receive().expect("answer").fault().expect("an error");
    assert_eq!(fault.code, WRITE_TIMEOUT, "{fault:?}");
    node.cluster().start(1).expect("started");
    eventually("clients are served again", Duration::from_secs(30), || {
        serves(proxy.address)
    });
    eventually("nothing is in flight", Duration::from_secs(5), || {
        metric(&proxy, "helenus_node_in_flight_requests") == 0.0
    });
}

/// While a node stands still all that it was sent stays in flight.
#[test]
fn in_flight_on_a_node_is_bounded_in_requests_and_bytes_over_all_workers() {
    let _turn = turn("bound of a node", Duration::from_secs(180));
    let mut node = shared();
    node.keyspace("brim", &["CREATE TABLE brim.t (k int PRIMARY KEY, v text)"]);
    let points = node.cluster().contact_points();
    let settings = [
        "listen.workers=2",
        "links.node_in_flight_max=64",
        "links.node_bytes_max=1048576",
        // It is not to be given up meanwhile.
        "links.silence_ms=60000",
        "links.probe_timeout_ms=60000",
        "scheduling.point_wait_max_ms=60000",
        "scheduling.write_wait_max_ms=60000",
    ];
    let proxy = Proxy::start(&points, &settings).expect("proxy");
    let in_flight = || metric(&proxy, "helenus_node_in_flight_requests");
    let queued = || metric(&proxy, "helenus_node_queued_requests");
    let long = "x".repeat(100_000);
    // Of keys of their own, or one read would serve all.
    let cql = |writes: bool, key: i16| match writes {
        false => format!("SELECT v FROM brim.t WHERE k = {key}"),
        true => format!("INSERT INTO brim.t (k, v) VALUES ({key}, '{long}')"),
    };
    for (writes, number, max) in [(false, 100, 64.0), (true, 20, 12.0)] {
        // So many that some come to each worker.
        let mut clients: Vec<_> = (0..8)
            .map(|_| Client::ready(proxy.address, 5).expect("client"))
            .collect();
        // Each worker has its link before the node stands still.
        for client in &mut clients {
            client.query(&cql(false, 0)).expect("rows");
        }
        node.cluster().pause(1).expect("paused");
        for (client, first) in clients.iter_mut().zip((0..).step_by(1_000)) {
            for stream in 0..number {
                let body = client.query_body(&cql(writes, first + stream), ONE);
                client.send(stream, op::QUERY, &body).expect("sent");
            }
        }
        let sent = f64::from(8 * number);
        eventually("all have come", Duration::from_secs(10), || {
            in_flight() + queued() >= sent
        });
        // One more of each worker, where two take the last place at the same moment.
        assert!(in_flight() <= max + 2.0, "{} in flight", in_flight());
        assert!(in_flight() >= max / 2.0, "{} in flight", in_flight());
        node.cluster().resume(1).expect("resumed");
        for client in &mut clients {
            for _ in 0..number {
                let answer = client.receive().expect("answer").judged();
                answer.expect("answer").expect("no error");
            }
        }
        eventually("nothing is left", Duration::from_secs(5), || {
            in_flight() + queued() == 0.0
        });
    }
}
