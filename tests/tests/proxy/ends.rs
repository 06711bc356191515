//! Very many requests that end at the same moment, or whose clients do.

use std::time::{Duration, Instant};

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, ONE, op};

use crate::node::shared;
use crate::{eventually, metric, serves, turn};

/// How often a worker looks for what is due.
const TICK: Duration = Duration::from_millis(100);
/// Those of the proxy whose wakes are counted.
const WORKERS: f64 = 2.0;
/// The runtime counts three for each tick: it wakes once on the way, when a wait of more than 64 ms comes into its finer
/// wheel, and looks at its sockets before it sleeps. One more is for probes of links that were quiet, and their answers.
const SLEEPS_PER_TICK: f64 = 4.0;
/// Fewer than wait for one partition at most.
const WRITES: i16 = 4_000;

/// Each of them that gets its turn fails at once, and hands the turn on.
#[test]
fn a_dead_node_ends_thousands_of_waiting_conditional_writes() {
    let _turn = turn("conditional writes", Duration::from_secs(180));
    let mut node = shared();
    node.keyspace("ends", &["CREATE TABLE ends.t (k int PRIMARY KEY, v int)"]);
    let settings = [
        "listen.workers=1",
        "aggregation.lwt_turns=true",
        "aggregation.lwt_wait_max_ms=10000",
    ];
    let points = node.cluster().contact_points();
    let mut proxy = Proxy::start(&points, &settings).expect("proxy");
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let body = client.query_body("UPDATE ends.t SET v = 1 WHERE k = 1 IF v = 2", ONE);
    // However slowly they are sent, none is carried out meanwhile.
    node.cluster().pause(1).expect("paused");
    for stream in 0..WRITES {
        client.send(stream, op::QUERY, &body).expect("sent");
    }
    eventually("they wait", Duration::from_secs(10), || {
        metric(&proxy, "helenus_lwt_waiting") > f64::from(WRITES) / 2.0
    });
    node.cluster().kill(1).expect("killed");
    let mut answered = vec![0; WRITES as usize];
    for _ in 0..WRITES {
        let answer = client.receive().expect("each is answered");
        answered[answer.stream as usize] += 1;
    }
    assert!(answered.iter().all(|answers| *answers == 1));
    assert!(proxy.is_running());
    assert_eq!(metric(&proxy, "helenus_lwt_waiting"), 0.0);
    node.cluster().start(1).expect("started");
    eventually("clients are served again", Duration::from_secs(30), || {
        serves(proxy.address)
    });
}

#[test]
fn scans_of_clients_that_have_left_are_not_run_and_leave_the_proxy_idle() {
    let _turn = turn("scans left", Duration::from_secs(180));
    let mut node = shared();
    node.keyspace(
        "lefts",
        &["CREATE TABLE lefts.t (k int PRIMARY KEY, v text)"],
    );
    let settings = [
        "listen.workers=2",
        "scheduling.scan_slots=1",
        "scheduling.scan_slots_idle=1",
        "scheduling.scan_slots_max=1",
    ];
    let points = node.cluster().contact_points();
    let proxy = Proxy::start(&points, &settings).expect("proxy");
    let mut filler = Client::ready(proxy.address, 5).expect("client");
    let insert = filler
        .prepare("INSERT INTO lefts.t (k, v) VALUES (?, ?)")
        .expect("prepared");
    for k in 0..2_000_i32 {
        let written = filler.execute(&insert, &[&k.to_be_bytes(), &[b'v'; 500]], ONE);
        written.expect("answer").expect("written");
    }
    for round in 0..8 {
        let clients: Vec<Client<_>> = (0..30)
            .map(|_| Client::ready(proxy.address, 5).expect("client"))
            .map(|mut client| {
                let body = client.query_body("SELECT count(*) FROM lefts.t", ONE);
                for stream in 0..6 {
                    client.send(stream, op::QUERY, &body).expect("sent");
                }
                client
            })
            .collect();
        eventually("scans wait", Duration::from_secs(10), || {
            metric(&proxy, "helenus_node_queued_requests{class=\"scan\"") > 20.0
        });
        drop(clients);
        eventually("none waits any more", Duration::from_secs(10), || {
            metric(&proxy, "helenus_node_queued_requests") == 0.0
                && metric(&proxy, "helenus_node_scan_slots_taken") == 0.0
        });
        assert!(serves(proxy.address), "round {round}");
    }
    // Nothing is left to be done: the workers sleep, but for their ticks, once the node has answered what nobody waits
    // for any more.
    let wakes = || metric(&proxy, "helenus_worker_sleeps_total");
    eventually("the workers are idle", Duration::from_secs(30), || {
        let (begin, before) = (Instant::now(), wakes());
        std::thread::sleep(Duration::from_secs(2));
        let (woken, ticks) = (wakes() - before, begin.elapsed().div_duration_f64(TICK));
        println!("{woken} wakes of two workers in {ticks:.0} ticks");
        woken <= WORKERS * SLEEPS_PER_TICK * ticks.ceil()
    });
    assert!(metric(&proxy, "helenus_requests_cancelled_total") > 100.0);
}
