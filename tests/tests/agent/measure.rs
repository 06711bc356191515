//! Points beside scans, directly on a node with two read threads: without the agent, with it, and with it
//! where due reads always go first. Printed and not judged; the same data and load in each arm.

use std::net::SocketAddr;
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use helenus_cluster::{Cluster, ClusterSpec};
use helenus_tests::raw::{ONE, op};

use super::load::{ROWS, fill};
use super::{TURN, client, jar, narrow};

const SCANS_AT_ONCE: u32 = 60;
const POINT_CLIENTS: u32 = 4;
const WARM_UP: Duration = Duration::from_secs(8);
const MEASURED: Duration = Duration::from_secs(20);

#[test]
#[ignore = "measures, and takes minutes"]
fn points_beside_scans() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let agent = jar();
    let with = |every: u32| {
        let every = format!("-Dhelenus.agent.due_every={every}");
        roomy().agent(&agent).jvm_arg(every)
    };
    println!(
        "{SCANS_AT_ONCE} scans of {ROWS} rows at once, {POINT_CLIENTS} point clients, {MEASURED:?}"
    );
    println!(
        "| node | points | mean ms | p99 ms | max ms | scans/s | scan mean ms | failed points + scans |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    arm("without the agent", roomy());
    arm("agent, every 10th start to due reads", with(10));
    arm("agent, every 2nd start to due reads", with(2));
    arm("agent, all starts to due reads", with(1));
}

/// Sixty answers of 4 MB take more than a test's usual heap.
fn roomy() -> ClusterSpec {
    narrow().heap_mib(1536).direct_mib(512)
}

fn arm(name: &str, spec: ClusterSpec) {
    let cluster = Cluster::up(spec).expect("a node");
    let node = cluster.contact_points()[0];
    fill(node);
    // Each arm starts with everything in one table file.
    cluster.nodetool(1, &["flush"]).expect("flushed");
    let begin = Instant::now();
    let scanning = thread::spawn(move || scan(node, begin));
    let threads: Vec<_> = (0..POINT_CLIENTS)
        .map(|first| thread::spawn(move || point(node, begin, first)))
        .collect();
    let (mut points, mut points_failed) = (Vec::new(), 0);
    for thread in threads {
        let (times, failed) = thread.join().expect("a point client");
        points.extend(times);
        points_failed += failed;
    }
    let (scans, scans_failed) = scanning.join().expect("the scans");
    points.sort_by(f64::total_cmp);
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
    let p99 = points
        .get(points.len() * 99 / 100)
        .copied()
        .unwrap_or(f64::NAN);
    println!(
        "| {name} | {} | {:.1} | {p99:.1} | {:.1} | {:.1} | {:.0} | {points_failed} + {scans_failed} |",
        points.len(),
        mean(&points),
        points.last().copied().unwrap_or(f64::NAN),
        scans.len() as f64 / MEASURED.as_secs_f64(),
        mean(&scans),
    );
}

/// Times in milliseconds of what ended after the warm-up, and how many failed.
fn point(node: SocketAddr, begin: Instant, first: u32) -> (Vec<f64>, u32) {
    let mut client = super::client(node);
    let (mut times, mut failed) = (Vec::new(), 0);
    let mut key = first;
    while begin.elapsed() < WARM_UP + MEASURED {
        let asked = Instant::now();
        let cql = format!("SELECT v FROM t.t WHERE k = {}", key % ROWS);
        let answer = client.try_query(&cql, ONE);
        let good = matches!(&answer, Ok(Ok(_)));
        if answer.is_err() {
            // An overfull node answers on another stream.
            client = super::client(node);
        }
        key += 7;
        if begin.elapsed() > WARM_UP {
            failed += u32::from(!good);
            if good {
                times.push(asked.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    (times, failed)
}

/// Keeps the scans under way; their times, and how many the node has refused or given up.
fn scan(node: SocketAddr, begin: Instant) -> (Vec<f64>, u32) {
    let mut client = client(node);
    let body = client.query_body(&format!("SELECT k, v FROM t.t LIMIT {ROWS}"), ONE);
    let mut asked = vec![Instant::now(); SCANS_AT_ONCE as usize + 1];
    for stream in 1..=SCANS_AT_ONCE {
        client.send(stream as i16, op::QUERY, &body).expect("sent");
    }
    let (mut times, mut failed) = (Vec::new(), 0);
    while begin.elapsed() < WARM_UP + MEASURED {
        let answer = client.receive().expect("an answer");
        let stream = answer.stream;
        let time = asked[stream as usize].elapsed().as_secs_f64() * 1e3;
        if begin.elapsed() > WARM_UP {
            match answer.judged().expect("a result") {
                Ok(_) => times.push(time),
                Err(_) => failed += 1,
            }
        }
        asked[stream as usize] = Instant::now();
        client.send(stream, op::QUERY, &body).expect("sent");
    }
    (times, failed)
}
