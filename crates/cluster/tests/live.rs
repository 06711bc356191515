//! One real node through its whole life. Needs Java 17, and Maven for the first run.

use std::fs;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use helenus_cluster::{Cluster, ClusterSpec, Consistency, RunState};
use rustix::process::{Pid, Signal, kill_process};

/// Nodes that live for seconds, in which Java's optimizing compiler costs more than it gains.
fn spec() -> ClusterSpec {
    ClusterSpec::ephemeral().short_lived()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn one_node_lives_and_leaves_nothing() {
    let begin = Instant::now();
    let mut cluster = Cluster::up(spec()).expect("up");
    println!("up after {:.1} s", begin.elapsed().as_secs_f64());
    let (dir, address) = (cluster.dir().to_owned(), cluster.contact_points()[0]);
    assert!(cluster.status().is_whole(), "{:?}", cluster.status());

    let mut node = cluster.connect(1).expect("connected");
    let mut run = |cql: &str| node.query(cql, Consistency::One).expect(cql);
    run(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run("CREATE TABLE k.t (a int PRIMARY KEY, b text)");
    run("INSERT INTO k.t (a, b) VALUES (1, 'one')");
    let row = vec![vec![Some(b"one".to_vec())]];
    assert_eq!(run("SELECT b FROM k.t WHERE a = 1"), row);

    // Frozen: the kernel still accepts connections, and nobody answers.
    cluster.pause(1).expect("paused");
    until("paused", || {
        cluster.status().nodes[0].state == RunState::Paused
    });
    TcpStream::connect(address).expect("the port stays open");
    assert!(!cluster.status().is_whole());
    cluster.resume(1).expect("resumed");
    until("resumed", || cluster.status().is_whole());

    let process = cluster.process(1).expect("node 1").expect("a process");
    cluster.kill(1).expect("killed");
    assert!(!process.is_alive());
    assert!(TcpStream::connect(address).is_err());
    assert!(cluster.pause(1).is_err(), "a dead node cannot be paused");

    // The schema is written with a flush, so it must be there again, whatever else the kill cost.
    cluster.start(1).expect("started");
    let mut node = cluster.connect(1).expect("connected again");
    let schema = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'k'";
    let rows = node.query(schema, Consistency::One).expect("schema");
    assert_eq!(rows, [[Some(b"t".to_vec())]]);
    assert!(
        cluster
            .nodetool(1, &["status"])
            .expect("nodetool")
            .contains("UN  127.")
    );
    assert!(cluster.nodetool(1, &["no-such-command"]).is_err());

    let process = cluster.process(1).expect("node 1").expect("a process");
    cluster.down(false).expect("down");
    assert!(!process.is_alive());
    assert!(!fs::exists(&dir).expect("looked"));
    assert!(TcpStream::connect(address).is_err());
}

/// On a busy machine the only node that a new one can ask may not answer in time.
#[test]
fn a_node_whom_nobody_answered_is_started_once_more() {
    let frozen = Arc::new(AtomicI32::new(0));
    let told = Arc::new(AtomicU32::new(0));
    let progress = {
        let (frozen, told) = (frozen.clone(), told.clone());
        move |line: &str| {
            println!("{line}");
            if line.contains("starting it again") {
                told.fetch_add(1, Ordering::Relaxed);
                let pid = Pid::from_raw(frozen.load(Ordering::Relaxed)).expect("a pid");
                kill_process(pid, Signal::CONT).expect("resumed");
            }
        }
    };
    let mut cluster = Cluster::up_with(spec(), Arc::new(progress)).expect("one node");
    let process = cluster.process(1).expect("node 1").expect("a process");
    frozen.store(process.pid as i32, Ordering::Relaxed);
    cluster.pause(1).expect("paused");
    let number = cluster.add_node().expect("a second node");
    assert_eq!((number, told.load(Ordering::Relaxed)), (2, 1));
    // The first has just been resumed, and may need a moment to answer.
    until("whole", || cluster.status().is_whole());
}

#[test]
fn a_dead_node_is_replaced_by_one_with_its_tokens_and_data() {
    let spec = spec().nodes(2).heap_mib(512);
    let mut cluster = Cluster::up(spec).expect("two nodes");
    let mut first = cluster.connect(1).expect("connected");
    let mut run = |cql: &str| first.query(cql, Consistency::All).expect(cql);
    run(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
    );
    run("CREATE TABLE k.t (a int PRIMARY KEY, b int)");
    for key in 0..20 {
        let cql = format!("INSERT INTO k.t (a, b) VALUES ({key}, {key})");
        // The other node may not have heard of the table yet.
        until(&cql, || first.query(&cql, Consistency::All).is_ok());
    }
    let mut second = cluster.connect(2).expect("connected");
    let of_itself = "SELECT tokens FROM system.local";
    let tokens = second.query(of_itself, Consistency::One).expect("tokens");
    let refused = cluster.replace_node(2).expect_err("it lives").to_string();
    assert!(refused.contains("node 2 runs"), "{refused}");
    assert!(cluster.replace_node(7).is_err(), "there is none");

    cluster.kill(2).expect("killed");
    let number = cluster.replace_node(2).expect("replaced");
    assert_eq!(number, 3);
    let mut new = cluster.connect(3).expect("connected");
    let taken = new.query(of_itself, Consistency::One).expect("tokens");
    assert_eq!(taken, tokens);
    // The first no longer knows the dead one, and everything is on both.
    until("whole", || cluster.status().is_whole());
    let rows = new
        .query("SELECT a FROM k.t", Consistency::All)
        .expect("rows");
    assert_eq!(rows.len(), 20);
    cluster.kill(1).expect("killed");
    let rows = new
        .query("SELECT a FROM k.t", Consistency::One)
        .expect("rows");
    assert_eq!(rows.len(), 20, "streamed");
    // It starts again like any other.
    cluster.start(1).expect("started");
}

/// A panic unwinds through the cluster; the next test run must find the machine clean.
#[test]
fn a_panic_leaves_nothing() {
    let (tell, told) = std::sync::mpsc::channel();
    let owner = std::thread::spawn(move || {
        let cluster = Cluster::up(spec()).expect("up");
        let process = cluster.process(1).expect("node 1").expect("a process");
        tell.send((cluster.dir().to_owned(), process))
            .expect("told");
        panic!("on purpose");
    });
    let (dir, process) = told.recv().expect("the cluster came up");
    assert!(owner.join().is_err());
    assert!(!process.is_alive());
    assert!(!fs::exists(&dir).expect("looked"));
}
