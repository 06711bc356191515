//! Nodes that join, leave and are away for long, while clients use tables with derived layouts.
//!
//! Clients judge what they read at QUORUM. In the end layouts have what their tables have.

use std::thread;

use helenus_cluster::{Connection, Consistency, Rows};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::Client;

use crate::clients::{Clients, Failed};
use crate::sweep::{COLUMNS, ON, PATIENCE, read};
use crate::three::{Three, run};
use crate::{eventually, metric};

/// Keyspaces of a table each: its layout has one replica, or three.
const ALONE: &str = "alone";
const AMONG: &str = "among";
/// The node that is stopped for long, and the one that leaves.
const STOPPED: u16 = 3;
const LEAVING: u16 = 2;

fn seed() -> u64 {
    let seed = std::env::var("HELENUS_SEED").map_or(7, |seed| seed.parse().expect("a number"));
    println!("HELENUS_SEED={seed}");
    seed
}

fn make(three: &Three, keyspace: &str, replicas: u32) {
    let replication =
        |of: u32| format!("{{'class': 'SimpleStrategy', 'replication_factor': {of}}}");
    let mut node = three.cluster.connect(1).expect("a connection");
    for cql in [
        format!(
            "CREATE KEYSPACE {keyspace} WITH replication = {}",
            replication(3)
        ),
        format!("CREATE TABLE {keyspace}.t (k int, a int, b int, v int, PRIMARY KEY (k, a, b))"),
    ] {
        run(&mut node, &cql);
    }
    let (table, replication) = (format!("{keyspace}.t"), replication(replicas));
    let create = ["create", &table, "--no-proxies", "--layout", "x=b,a"];
    let more = ["--replication", &replication];
    three.layouts(1, &[&create[..], &more].concat()).succeeded();
}

fn proxy(three: &Three) -> Proxy {
    Proxy::start_patient(&three.cluster.contact_points(), &ON).expect("a proxy")
}

fn go_on(clients: &Clients) {
    let before = clients.rounds();
    eventually("clients go on", PATIENCE, || clients.rounds() > before + 60);
}

/// No read has failed, and none at QUORUM was wrong.
fn assert_fine(clients: Clients) {
    let Failed { reads, writes } = clients.stop();
    println!("{} writes have failed: {writes:#?}", writes.len());
    assert!(
        reads.is_empty(),
        "{} reads have failed: {reads:#?}",
        reads.len()
    );
}

/// Both take too long for each `./test`.
fn is_short() -> bool {
    let is_short = std::env::var_os("HELENUS_LONG").is_none();
    if is_short {
        println!("left out without HELENUS_LONG");
    }
    is_short
}

/// One node joins, and one of the others leaves.
pub(crate) fn a_node_joins_and_another_leaves(three: &mut Three) {
    if is_short() {
        return;
    }
    make(three, ALONE, 1);
    make(three, AMONG, 3);
    let proxy = proxy(three);
    let clients = Clients::start(proxy.address, ALONE, 6, 0..24, seed());
    let of_layout = || metric(&proxy, "helenus_layout_reads_total");
    go_on(&clients);
    let before = of_layout();
    three.cluster.add_node().expect("it joins");
    go_on(&clients);
    let joined = of_layout();
    three.cluster.remove_node(LEAVING).expect("it leaves");
    go_on(&clients);
    assert!(
        before < joined && joined < of_layout(),
        "the layout is read"
    );
    assert_fine(clients);
}

/// A node is stopped while clients go on, and nodes keep hints for it in the first part of that time only.
pub(crate) fn a_node_is_away(three: &mut Three) {
    if is_short() {
        return;
    }
    let proxy = proxy(three);
    let alone = Clients::start(proxy.address, ALONE, 6, 24..48, seed() + 100);
    let among = Clients::start(proxy.address, AMONG, 2, 0..8, seed() + 200);
    let mut client = Client::ready(proxy.address, 5).expect("a client");
    go_on(&alone);
    three.cluster.stop(STOPPED).expect("stopped");
    let mut node = three.cluster.connect(1).expect("a connection");
    let is_away = |k: &i32| {
        let select = format!("SELECT k FROM alone__layouts.t__layout_x WHERE k = {k}");
        node.query(&select, Consistency::One).is_err()
    };
    let its: Vec<i32> = (24..48).filter(is_away).collect();
    assert!(!its.is_empty(), "it has no partition of the layout");
    let before = alone.written(&its);
    eventually("writes are kept as hints", PATIENCE, || {
        alone.written(&its) > before + 20
    });
    // It has been away for longer by now: a coordinator says after its write time-out that it has taken what it keeps
    // nowhere. The proxy still goes by the three hours that nodes told it before.
    set_hint_window(three, "1");
    let before = alone.written(&its);
    eventually("writes come to nobody", PATIENCE, || {
        alone.written(&its) > before + 12
    });
    three.cluster.start(STOPPED).expect("started");
    let before = alone.written(&its);
    eventually("the layout is written again", PATIENCE, || {
        alone.written(&its) > before + 5
    });
    assert_fine(alone);
    assert_fine(among);
    let differs = || {
        let layout = rows_of_all(three, "alone__layouts.t__layout_x");
        layout != rows_of_all(three, "alone.t")
    };
    assert!(differs(), "it has missed nothing");
    let mut repaired = 0;
    let mut sweep = || {
        let sweep = ["sweep", "alone.t", "among.t", "--once", "--json"];
        let swept = three.layouts(1, &sweep).succeeded().json();
        println!("{swept}");
        repaired += swept["tables"][0]["rows_repaired"].as_u64().unwrap_or(0);
    };
    sweep();
    // Hints that were kept in the first part of that time may come after it: what they bring the next round compares.
    eventually("rounds make it equal", PATIENCE, || {
        !differs() || {
            sweep();
            !differs()
        }
    });
    layouts_are_equal(three);
    assert!(repaired > 0, "nothing was repaired");
    eventually("the layout is read again", PATIENCE, || {
        let mut of_layout = its.iter().map(|k| read(&proxy, &mut client, ALONE, *k).1);
        of_layout.all(|is_of_layout| is_of_layout)
    });
}

/// For nodes that are up: how long they keep hints for one that is not.
fn set_hint_window(three: &Three, ms: &str) {
    let cluster = &three.cluster;
    let up = cluster.nodes().into_iter().filter(|of| *of != STOPPED);
    thread::scope(|scope| {
        for number in up {
            scope.spawn(move || {
                cluster
                    .nodetool(number, &["setmaxhintwindow", ms])
                    .expect("set")
            });
        }
    });
}

fn rows_of(node: &mut Connection, table: &str, level: Consistency) -> Rows {
    let select = format!("SELECT {COLUMNS} FROM {table}");
    let mut rows = node.query(&select, level).expect("rows");
    rows.sort();
    rows
}

/// As all replicas together have them.
fn rows_of_all(three: &Three, table: &str) -> Rows {
    let mut node = three.cluster.connect(1).expect("a connection");
    rows_of(&mut node, table, Consistency::All)
}

/// All layouts have what their tables have, and each replica of the one with three by itself.
pub(crate) fn layouts_are_equal(three: &Three) {
    if is_short() {
        return;
    }
    let [alone, among] =
        [ALONE, AMONG].map(|keyspace| rows_of_all(three, &format!("{keyspace}.t")));
    assert!(!alone.is_empty() && !among.is_empty());
    assert_eq!(rows_of_all(three, "alone__layouts.t__layout_x"), alone);
    for number in three.cluster.nodes() {
        let mut node = three.cluster.connect(number).expect("a connection");
        let own = rows_of(&mut node, "among__layouts.t__layout_x", Consistency::One);
        assert_eq!(own, among, "on node {number}");
    }
}
