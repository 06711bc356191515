//! Copies in sync before three real nodes: proxies join their list, are evicted, come back and leave; writes reach all
//! copies (`writes`), batches, too (`batches`); what is given up is made good (`given_up`); copies come back (`returning`); several partitions
//! are read (`several`); the node of the last one is restarted (`last`); and a node joins and leaves (`regrouped`).
//!
//! Needs Java 17 (and Maven for the first run) and `cargo build -p helenus` in the same profile. Tables of
//! mode `replace` are made by hand here, with lists as the tests want them; commands are tried in `replace`.

mod batches;
mod given_up;
mod last;
mod regrouped;
mod returning;
mod several;
mod writes;

use std::process::{Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use helenus_cluster::{Cluster, Connection, Consistency, Rows};
use helenus_tests::proxy::{Proxy, helenus};
use serde_json::Value;

const ON: [&str; 2] = ["layouts.enabled=true", "listen.workers=1"];
/// A proxy reads the catalogue of layouts every three seconds, joins for a lease, and is evicted after two seconds.
/// A copy that is evicted again and again, because its node is slow, waits for twice as long each time.
const PATIENCE: Duration = Duration::from_secs(300);

/// One cluster at a time.
static TURN: Mutex<()> = Mutex::new(());

fn run(connection: &mut Connection, cql: &str) -> Rows {
    connection
        .query(cql, Consistency::Quorum)
        .unwrap_or_else(|e| panic!("{cql}: {e}"))
}

/// What a proxy knows of the lists; null if it takes no part.
fn lists(proxy: &Proxy) -> Value {
    let (_, body) = proxy.admin_get("/api/lists", None).expect("lists");
    serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e}: {body}"))
}

/// The state of a proxy as this one knows it.
fn state(lists: &Value, number: &Value) -> Option<String> {
    let proxies = lists["proxies"].as_array()?;
    let one = proxies.iter().find(|proxy| proxy["number"] == *number)?;
    Some(one["state"].as_str()?.to_owned())
}

/// `helenus layouts status --json`, which must end with this code.
fn status(contact: &str, code: i32) -> Value {
    let arguments = ["layouts", "status", "--json", "--contact", contact];
    let mut command = helenus(&arguments).expect("a program");
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"))
}

/// Asks again until the answer is yes.
fn eventually(what: &str, mut ask: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !ask() {
        assert!(begin.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until this proxy is in sync; its number.
fn joined(proxy: &Proxy) -> Value {
    eventually("it is in sync", || lists(proxy)["state"] == "in sync");
    lists(proxy)["number"].clone()
}

fn layouts(contact: &str, arguments: &[&str]) -> Output {
    let mut command = helenus(&["layouts"]).expect("a program");
    command.args(arguments).args(["--contact", contact]);
    command.stdin(Stdio::null()).output().expect("it starts")
}

/// `helenus layouts`, which must succeed.
fn on(contact: &str, arguments: &[&str]) {
    let output = layouts(contact, arguments);
    assert!(output.status.success(), "{output:?}");
}

/// `helenus layouts`, which must fail with a message that has these words.
fn refused(contact: &str, arguments: &[&str], words: &str) {
    let output = layouts(contact, arguments);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && why.contains(words),
        "{output:?}"
    );
}

/// A table with a layout in mode `replace`, and the list of its copies, of which the last one is joining.
fn replace(node: &mut Connection, contact: &str) {
    on(
        contact,
        &["create", "shop.orders", "--no-proxies", "--layout", "x=b,a"],
    );
    let hosts = run(node, "SELECT host_id FROM system.local");
    let peers = run(node, "SELECT host_id FROM system.peers_v2");
    let owners: Vec<String> = hosts
        .iter()
        .chain(&peers)
        .map(|row| uuid(&row[0]))
        .collect();
    assert_eq!(owners.len(), 3);
    run(
        node,
        &format!(
            "INSERT INTO helenus.copies (keyspace_name, table_name, owners, version, in_sync, joining, since, boot, ranges) \
             VALUES ('shop', 'orders', [{}], 3, {{0, 1}}, {{2}}, [1, 1, 3], [1, 1, 2], [{}, {}])",
            owners.join(", "),
            i64::MIN,
            i64::MAX
        ),
    );
}

fn uuid(cell: &Option<Vec<u8>>) -> String {
    let hex: String = cell
        .iter()
        .flatten()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

#[test]
fn proxies_join_are_evicted_come_back_and_leave() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let spec = helenus_tests::ephemeral()
        .nodes(3)
        .yaml("auto_snapshot", "false")
        .jvm_arg("-Dcassandra.test.flush_local_schema_changes=false");
    let cluster = Cluster::up(spec).expect("three nodes");
    let points = cluster.contact_points();
    let contact = cluster.address(3).expect("an address").to_string();
    let mut node = cluster.connect(3).expect("a connection");
    run(
        &mut node,
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
    );
    run(
        &mut node,
        "CREATE TABLE shop.orders (k int, a int, b int, PRIMARY KEY (k, a, b))",
    );
    replace(&mut node, &contact);
    let first = Proxy::start(&points, &ON).expect("a proxy");
    assert_eq!(lists(&first), Value::Null, "no table is in mode `replace`");
    run(
        &mut node,
        "UPDATE helenus.layouts SET mode = 'replace' WHERE keyspace_name = 'shop' AND table_name = 'orders'",
    );
    let mut second = Proxy::start(&points, &ON).expect("a proxy");
    let numbers = [joined(&first), joined(&second)];
    eventually("each knows the other", || {
        let know = |proxy| {
            numbers
                .iter()
                .all(|of| state(&lists(proxy), of).as_deref() == Some("in sync"))
        };
        know(&first) && know(&second)
    });

    let shown = status(&contact, 0);
    assert_eq!(shown["proxies"]["problem"], Value::Null);
    assert_eq!(shown["proxies"]["proxies"][0]["state"], "in sync");
    assert_eq!(shown["copies"][0]["copies"][2]["state"], "joining");
    eventually("the newcomer would be compared", || {
        lists(&second)["copies"][0]["copies"][2]["next"] == "compare"
    });

    // It gives no sign of life any more.
    first.kill().expect("killed");
    eventually("the other evicts it", || {
        state(&lists(&second), &numbers[0]).as_deref() == Some("out")
    });
    drop(first);
    let first = Proxy::start(&points, &ON).expect("a proxy");
    let again = joined(&first);
    assert!(!numbers.contains(&again), "{again} of {numbers:?}");
    eventually("both know that", || {
        lists(&first)["version"] == lists(&second)["version"]
    });

    // A node stands still, whichever the proxies use, and a list changes meanwhile.
    for paused in 1..=2 {
        cluster.pause(paused).expect("paused");
        let mut third = Proxy::start(&points, &ON).expect("a proxy");
        eventually("the others know the newcomer", || {
            let number = joined(&third);
            let knows = |proxy| state(&lists(proxy), &number).as_deref() == Some("in sync");
            knows(&first) && knows(&second)
        });
        eventually("all have a lease", || {
            let proxies = [&first, &second, &third];
            proxies.iter().all(|proxy| lists(proxy)["lease_ms"] != 0)
        });
        cluster.resume(paused).expect("resumed");
        let number = joined(&third);
        third.terminate().expect("a signal");
        third.wait(PATIENCE).expect("it ends");
        eventually("the others know that it has left", || {
            let knows = |proxy| state(&lists(proxy), &number).as_deref() == Some("out");
            knows(&first) && knows(&second)
        });
    }

    // The copy has not been promoted by anybody.
    assert_eq!(lists(&first)["copies"][0]["copies"][2]["state"], "joining");
    // It may have been evicted meanwhile, and have come back under another number.
    let number = joined(&second);
    second.terminate().expect("a signal");
    second.wait(PATIENCE).expect("it ends");
    assert!(
        second.log().contains("the list of proxies says now: out"),
        "{}",
        second.log()
    );
    eventually("it has left", || {
        state(&lists(&first), &number).as_deref() == Some("out")
    });

    // Somebody writes to the list by hand.
    run(
        &mut node,
        "UPDATE helenus.proxies SET version = 1000 WHERE name = 'proxies'",
    );
    eventually("the lie is noticed", || {
        lists(&first)["problems"]
            .as_array()
            .is_some_and(|problems| problems.len() == 1)
    });
    eventually("without a lease", || lists(&first)["lease_ms"] == 0);
    let problem = status(&contact, 1)["proxies"]["problem"].clone();
    assert!(
        problem.as_str().is_some_and(|why| why.contains("1000")),
        "{problem}"
    );
}
