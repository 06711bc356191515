//! `helenus layouts sweep`: derived layouts get what they have missed.

use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use helenus_tests::catalogue::place;
use helenus_tests::proxy::{Proxy, helenus};
use helenus_tests::raw::{Client, ONE};

use crate::three::{Three, run};
use crate::{Node, ask, eventually, metric};

const ONE_REPLICA: &str = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
pub(crate) const COLUMNS: &str = "k, a, b, v, WRITETIME(v)";
pub(crate) const ON: [&str; 2] = ["layouts.enabled=true", "listen.workers=1"];
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A table with a derived layout, and ten rows in each of some partitions.
pub(crate) fn make(node: &mut Node, keyspace: &str, partitions: i32) {
    node.table(
        keyspace,
        &format!("CREATE TABLE {keyspace}.t (k int, a int, b int, v int, PRIMARY KEY (k, a, b))"),
    );
    for k in 0..partitions {
        let rows: Vec<String> = (0..10)
            .map(|a| format!("INSERT INTO {keyspace}.t (k, a, b, v) VALUES ({k}, {a}, 3, {a});"))
            .collect();
        node.run(&format!(
            "BEGIN UNLOGGED BATCH {} APPLY BATCH",
            rows.join(" ")
        ));
    }
    let table = format!("{keyspace}.t");
    let create = ["create", &table, "--no-proxies", "--layout", "x=b,a"];
    let created = node.layouts(&[&create[..], &["--replication", ONE_REPLICA]].concat());
    let told = created.succeeded().out;
    assert!(
        told.contains("`helenus layouts sweep`, which must run"),
        "{told}"
    );
}

/// How many partitions are in doubt.
fn doubts(node: &mut Node, keyspace: &str) -> usize {
    let of_table = format!("keyspace_name = '{keyspace}' AND table_name = 't'");
    node.run(&format!(
        "SELECT ring_token FROM helenus.layout_doubts WHERE {of_table}"
    ))
    .len()
}

pub(crate) fn assert_equal(node: &mut Node, keyspace: &str) {
    let own = node.rows(&format!("{keyspace}.t"), COLUMNS);
    assert!(!own.is_empty());
    let copy = format!("{keyspace}__layouts.t__layout_x");
    assert_eq!(node.rows(&copy, COLUMNS), own);
}

/// How many rows of a partition are found at ONE, and whether in the layout.
pub(crate) fn read(
    proxy: &Proxy,
    client: &mut Client<TcpStream>,
    keyspace: &str,
    k: i32,
) -> (usize, bool) {
    let before = metric(proxy, "helenus_layout_reads_total");
    let select = format!("SELECT v FROM {keyspace}.t WHERE k = {k} AND b = 3 ALLOW FILTERING");
    let rows = client.query(&select).expect("rows");
    let is_of_layout = metric(proxy, "helenus_layout_reads_total") > before;
    (rows.len(), is_of_layout)
}

#[test]
fn what_a_layout_cannot_be_told_is_read_from_the_table_until_a_sweep_has_compared_it() {
    let mut node = Node::take();
    make(&mut node, "doubted", 4);
    let proxy = Proxy::start(&[node.address], &ON).expect("a proxy");
    let mut client = Client::ready(proxy.address, 5).expect("a client");
    for k in 0..4 {
        eventually("the layout is read", PATIENCE, || {
            read(&proxy, &mut client, "doubted", k) == (10, true)
        });
    }
    ask(&mut client, "DELETE FROM doubted.t WHERE k = 1 AND a >= 4");
    ask(
        &mut client,
        "INSERT INTO doubted.t (k, a, b, v) VALUES (2, 50, 3, 1) IF NOT EXISTS",
    );
    assert_eq!(read(&proxy, &mut client, "doubted", 1), (4, false));
    assert_eq!(read(&proxy, &mut client, "doubted", 2), (11, false));
    assert_eq!(read(&proxy, &mut client, "doubted", 3), (10, true));
    eventually("the doubts are stored", PATIENCE, || {
        doubts(&mut node, "doubted") == 2
    });
    let status = node.layouts(&["status", "doubted.t", "--json"]).succeeded();
    let sweep = &status.json()["tables"][0]["sweep"];
    assert_eq!(sweep["partitions_in_doubt"], 2, "{sweep}");
    assert!(sweep["in_doubt_since_ms"].as_i64() > Some(0), "{sweep}");
    node.layouts(&["verify", "doubted.t"]).failed("7 rows");
    let swept = node
        .layouts(&["sweep", "doubted.t", "--once", "--json"])
        .succeeded();
    let done = &swept.json()["tables"][0];
    assert_eq!(
        (&done["partitions_settled"], &done["partitions_in_doubt"]),
        (&2.into(), &0.into())
    );
    assert_eq!(doubts(&mut node, "doubted"), 0);
    assert_equal(&mut node, "doubted");
    for (k, rows) in [(1, 4), (2, 11)] {
        eventually("the layout is read again", PATIENCE, || {
            read(&proxy, &mut client, "doubted", k) == (rows, true)
        });
    }
}

#[test]
fn one_sweep_makes_a_damaged_layout_equal() {
    let mut node = Node::take();
    make(&mut node, "damaged", 30);
    let sweep = ["sweep", "damaged.t", "--no-proxies", "--once"];
    let copy = "damaged__layouts.t__layout_x";
    // It loses all, has something of its own, and what it has of one row is older.
    for cql in [
        format!("TRUNCATE {copy}"),
        format!("INSERT INTO {copy} (k, a, b, v) VALUES (7, 77, 3, 1)"),
        format!("INSERT INTO {copy} (k, a, b, v) VALUES (777, 1, 1, 1)"),
        format!("INSERT INTO {copy} (k, a, b, v) VALUES (8, 1, 3, 100) USING TIMESTAMP 5"),
    ] {
        node.run(&cql);
    }
    node.layouts(&["verify", "damaged.t"]).failed("302 rows");
    let swept = node
        .layouts(&[&sweep[..], &["--json"]].concat())
        .succeeded();
    let done = &swept.json()["tables"][0];
    assert_eq!(
        (&done["rows"], &done["rows_repaired"]),
        (&300.into(), &302.into()),
        "{done}"
    );
    assert_equal(&mut node, "damaged");
    // A row of the layout was deleted later than it was written: nothing brings it back but filling the layout anew.
    node.run(&format!(
        "DELETE FROM {copy} WHERE k = 3 AND a = 3 AND b = 3"
    ));
    for _ in 0..2 {
        node.layouts(&sweep)
            .failed("1 partitions in doubt are not equal yet");
        assert_eq!(doubts(&mut node, "damaged"), 1, "it is read from the table");
    }
    node.layouts(&["rebuild", "damaged.t", "--no-proxies"])
        .succeeded();
    node.layouts(&sweep).succeeded();
    assert_eq!(doubts(&mut node, "damaged"), 0);
    assert_equal(&mut node, "damaged");
    node.layouts(&["drop", "damaged.t", "--no-proxies", "--all"])
        .succeeded();
    let notes = "SELECT layout FROM helenus.layout_sweeps WHERE keyspace_name = 'damaged' AND table_name = 't'";
    assert!(node.run(notes).is_empty());
    node.layouts(&sweep).failed("has no derived layouts");
}

#[test]
fn a_layout_that_is_behind_is_read_again_after_a_sweep() {
    let mut node = Node::take();
    make(&mut node, "behind", 4);
    let proxy = Proxy::start(&[node.address], &ON).expect("a proxy");
    let mut client = Client::ready(proxy.address, 5).expect("a client");
    eventually("it is read", PATIENCE, || {
        read(&proxy, &mut client, "behind", 1) == (10, true)
    });
    let x = place("behind", "t", "layout", "x");
    node.change(&format!(
        "UPDATE helenus.catalogue SET state = 'behind' WHERE {x}"
    ));
    eventually("it is not read", PATIENCE, || {
        read(&proxy, &mut client, "behind", 1) == (10, false)
    });
    let status = node.layouts(&["status", "behind.t"]);
    let status = status.failed("not as they should be");
    assert!(
        status.out.contains("`helenus layouts sweep` compares it"),
        "{status:?}"
    );
    // Proxies go on writing it until nobody reads it any more.
    let mut rows = 10;
    eventually("it is not written", PATIENCE, || {
        let write = format!("INSERT INTO behind.t (k, a, b, v) VALUES (1, {rows}, 3, 1)");
        client.query(&write).expect("written");
        let missed = "SELECT a FROM behind__layouts.t__layout_x WHERE k = 1 AND b = 3 AND a =";
        let is_missed = node.run(&format!("{missed} {rows}")).is_empty();
        rows += 1;
        is_missed
    });
    node.run("INSERT INTO behind__layouts.t__layout_x (k, a, b, v) VALUES (2, 77, 3, 1)");
    let swept = node
        .layouts(&["sweep", "behind.t", "--once", "--json"])
        .succeeded();
    assert_eq!(swept.json()["tables"][0]["layouts_read_again"], 1);
    assert_eq!(node.states("behind", "t")["x"], "ready");
    assert_equal(&mut node, "behind");
    eventually("it is read again", PATIENCE, || {
        read(&proxy, &mut client, "behind", 1) == (rows, true)
    });
}

/// A sweep that goes on until it is told to stop.
fn begin(node: &Node, arguments: &[&str]) -> Child {
    let contact = node.address.to_string();
    let mut command = helenus(&["layouts", "sweep", "--no-proxies"]).expect("a program");
    command.args(arguments).args(["--contact", &contact]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

/// Ends of ranges, and when they were compared.
fn compared(node: &mut Node, keyspace: &str) -> Vec<Vec<Option<Vec<u8>>>> {
    node.run(&format!(
        "SELECT range_end, compared FROM helenus.layout_sweeps WHERE keyspace_name = '{keyspace}' AND table_name = 't'"
    ))
}

#[test]
fn a_sweep_that_was_killed_is_gone_on_with() {
    let mut node = Node::take();
    make(&mut node, "killed", 60);
    let mut first = begin(&node, &["killed.t", "--rows-per-second", "100"]);
    eventually("some ranges are compared", PATIENCE, || {
        !compared(&mut node, "killed").is_empty()
    });
    first.kill().expect("killed");
    first.wait().expect("it has ended");
    let before = compared(&mut node, "killed");
    assert!((1..16).contains(&before.len()), "{before:?}");
    let second = begin(&node, &["killed.t"]);
    eventually("all ranges are compared", PATIENCE, || {
        compared(&mut node, "killed").len() == 16
    });
    let after = compared(&mut node, "killed");
    assert!(
        before.iter().all(|range| after.contains(range)),
        "{before:?}, {after:?}"
    );
    // SIGTERM ends it in order.
    let pid = second.id().to_string();
    let told = std::process::Command::new("kill").arg(&pid).status();
    assert!(told.expect("a program").success());
    let ended = second.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{ended:?}");
    node.layouts(&["status", "killed.t"]).succeeded();
}

#[test]
fn layouts_whose_rows_have_no_times_are_not_derived() {
    let mut node = Node::take();
    node.table(
        "untimed",
        "CREATE TABLE untimed.t (k int, a int, b int, l list<int>, PRIMARY KEY (k, a, b))",
    );
    node.run("CREATE TYPE untimed.pair (x int, y int)");
    node.run("CREATE TABLE untimed.u (k int, a int, b int, p frozen<pair>, PRIMARY KEY (k, a, b))");
    for (table, why) in [
        ("untimed.t", "does not tell when the elements of lists"),
        ("untimed.u", "which only its own keyspace has"),
    ] {
        let create = ["create", table, "--no-proxies", "--layout", "x=b,a"];
        let derived = [&create[..], &["--replication", ONE_REPLICA]].concat();
        let refused = node.layouts(&derived).failed(why);
        assert!(
            refused.err.contains("Leave --replication out"),
            "{refused:?}"
        );
        node.layouts(&create).succeeded();
    }
}

/// Tells a client to stop when it is dropped.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A client that writes and reads at ONE until it is told to stop. Returns how many requests it has sent.
fn use_table(proxy: &Proxy, stop: &AtomicBool) -> usize {
    let mut client = Client::ready(proxy.address, 5).expect("a client");
    let mut ask = |cql: &str| {
        let answer = client.try_query(cql, ONE).expect("an answer");
        answer.unwrap_or_else(|fault| panic!("{cql}: {fault:?}"));
    };
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let (k, a) = (count % 50, count / 50);
        // Of many values, so that the layout reads fewer rows.
        let b = a % 5;
        ask(&format!(
            "INSERT INTO near.t (k, a, b, v) VALUES ({k}, {a}, {b}, {count}) USING TIMESTAMP {}",
            count + 1
        ));
        ask(&format!(
            "SELECT v FROM near.t WHERE k = {k} AND b = {b} ALLOW FILTERING"
        ));
        count += 1;
        thread::sleep(Duration::from_millis(5));
    }
    count
}

/// Of three nodes, each with all of the layout, one is killed while clients use the table, and started again.
pub(crate) fn a_replica_is_away(three: &mut Three) {
    let proxy = three.proxy();
    // Through the proxy, which answers when all nodes know.
    let mut client = Client::ready(proxy.address, 5).expect("a client");
    for cql in [
        "CREATE KEYSPACE near WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
        "CREATE TABLE near.t (k int, a int, b int, v int, PRIMARY KEY (k, a, b))",
    ] {
        client.query(cql).expect(cql);
    }
    let stop = AtomicBool::new(false);
    let (stop, proxy) = (&stop, &proxy);
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 3}";
    let create = [
        "create",
        "near.t",
        "--layout",
        "x=b,a",
        "--replication",
        replication,
    ];
    let read = || metric(proxy, "helenus_layout_reads_total");
    let count = thread::scope(|scope| {
        // Also if something fails: whoever it is that waits for the other.
        let ends = Ends(stop);
        let user = scope.spawn(move || use_table(proxy, stop));
        three.layouts(1, &create).succeeded();
        let before = read();
        eventually("the layout is read", PATIENCE, || read() > before + 20);
        three.cluster.kill(3).expect("killed");
        let before = read();
        eventually("it is read without one of its replicas", PATIENCE, || {
            read() > before + 500
        });
        drop(ends);
        user.join().expect("no read and no write has failed")
    });
    assert!(count > 500, "{count}");
    three.cluster.start(3).expect("started");
    let mut node = three.cluster.connect(1).expect("a connection");
    let mut hints = || {
        let kept = run(&mut node, "SELECT * FROM system_views.pending_hints");
        kept.is_empty()
    };
    eventually("hints are delivered", PATIENCE, &mut hints);
    eventually("the nodes are up", PATIENCE, || {
        three.layouts(1, &["verify", "near.t"]).code == Some(0)
    });
    three.layouts(1, &["status", "near.t"]).succeeded();
}
