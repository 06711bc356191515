//! Hints with writes to a layout, of which the table is dropped.

use std::process::Stdio;
use std::time::Duration;

use helenus_cluster::{Cluster, Consistency};
use helenus_tests::proxy::helenus;

use crate::{Node, Outcome, eventually};

#[test]
fn a_layout_is_not_dropped_while_hints_of_it_are_kept() {
    // Nothing else makes these nodes slow: it depends on when one takes the other to be down.
    let _turn = Node::alone();
    // A node tells of hints that it has written down for a node that it takes to be up: soon after they have
    // come, and for longer after that one was killed than usual.
    let spec = helenus_tests::ephemeral()
        .nodes(2)
        .place("near", "rack1")
        .place("far", "rack1")
        .yaml("hints_flush_period", "1s")
        .yaml("phi_convict_threshold", "16");
    let mut cluster = Cluster::up(spec).expect("two nodes");
    let contact = cluster.address(1).expect("an address").to_string();
    let mut node = cluster.connect(1).expect("a connection");
    let mut run = |cql: &str| {
        node.query(cql, Consistency::One)
            .unwrap_or_else(|e| panic!("{cql}: {e}"))
    };
    for (keyspace, replicas) in [("d", "'near': 1"), ("h", "'near': 1, 'far': 1")] {
        run(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy', {replicas}}}"
        ));
        run(&format!(
            "CREATE TABLE {keyspace}.t (k int, a int, b int, PRIMARY KEY (k, a, b))"
        ));
    }
    // Before the others: the catalogue is where this table is.
    let create = [
        "layouts",
        "create",
        "d.t",
        "--no-proxies",
        "--layout",
        "x=b,a",
        "--replication",
        "{'class': 'NetworkTopologyStrategy', 'far': 1}",
        "--contact",
        &contact,
    ];
    Outcome::of(&mut helenus(&create).expect("a program")).succeeded();
    let create = [
        "layouts",
        "create",
        "h.t",
        "--no-proxies",
        "--layout",
        "x=b,a",
        "--contact",
        &contact,
    ];
    Outcome::of(&mut helenus(&create).expect("a program")).succeeded();
    cluster.kill(2).expect("killed");
    // As proxies write it: one mutation, and one hint.
    eventually("a hint is kept", Duration::from_secs(60), || {
        run(
            "BEGIN UNLOGGED BATCH INSERT INTO h.t (k, a, b) VALUES (1, 2, 3); \
             INSERT INTO h.t__layout_x (k, a, b) VALUES (1, 2, 3); APPLY BATCH",
        );
        !run("SELECT * FROM system_views.pending_hints").is_empty()
    });
    // The copying would fail, so it is not begun.
    run("CREATE TABLE h.u (k int, a int, b int, PRIMARY KEY (k, a, b))");
    let create = [
        "layouts",
        "create",
        "h.u",
        "--no-proxies",
        "--layout",
        "x=b,a",
        "--contact",
        &contact,
    ];
    Outcome::of(&mut helenus(&create).expect("a program")).failed("cannot be reached");
    let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'h' AND table_name = 'u__layout_x'";
    assert!(run(tables).is_empty());
    run("DROP TABLE h.u");
    drop_derived(&cluster, &contact);
    // Kept also when the other node is back.
    cluster
        .nodetool(1, &["pausehandoff"])
        .expect("no hints are delivered");
    cluster.start(2).expect("started");
    let drop = [
        "layouts",
        "drop",
        "h.t",
        "--all",
        "--no-proxies",
        "--contact",
        &contact,
    ];
    let mut dropping = helenus(&drop).expect("a program");
    let mut dropping = dropping.stdout(Stdio::null()).spawn().expect("it starts");
    eventually(
        "the catalogue has forgotten it",
        Duration::from_secs(60),
        || {
            let rows = run(
                "SELECT item FROM helenus.catalogue WHERE part = 'all' AND keyspace_name = 'h' AND table_name = 't' AND \
                 kind = 'layout'",
            );
            rows.is_empty()
        },
    );
    std::thread::sleep(Duration::from_secs(5));
    assert!(matches!(dropping.try_wait(), Ok(None)), "it waits");
    run("SELECT * FROM h.t__layout_x");
    let handoff = cluster.nodetool(1, &["resumehandoff"]);
    handoff.expect("hints are delivered");
    assert!(dropping.wait().expect("ended").success());
    let mut other = cluster.connect(2).expect("a connection");
    let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'h'";
    let tables = other.query(tables, Consistency::One).expect("rows");
    assert_eq!(tables.len(), 1);
    // The hint's row for the table itself has arrived: nobody else can be asked.
    cluster.kill(1).expect("killed");
    eventually(
        "the row is on the second node",
        Duration::from_secs(60),
        || {
            let rows = other.query("SELECT * FROM h.t WHERE k = 1", Consistency::One);
            rows.is_ok_and(|rows| rows.len() == 1)
        },
    );
}

/// Drops the layout of `d.t`, of which one node keeps hints for the other, which is down: they are about the layout alone.
fn drop_derived(cluster: &Cluster, contact: &str) {
    let mut node = cluster.connect(1).expect("a connection");
    let insert = "INSERT INTO d__layouts.t__layout_x (k, a, b) VALUES (1, 2, 3)";
    let at_one = node.query(insert, Consistency::One);
    at_one.expect_err("its only replica is down");
    node.query(insert, Consistency::Any).expect("a hint");
    let kept = node.query("SELECT * FROM system_views.pending_hints", Consistency::One);
    assert!(!kept.expect("rows").is_empty());
    let drop = [
        "layouts",
        "drop",
        "d.t",
        "--all",
        "--no-proxies",
        "--contact",
        contact,
    ];
    let dropped = Outcome::of(&mut helenus(&drop).expect("a program")).succeeded();
    assert!(
        dropped.out.contains("dropped the keyspace d__layouts"),
        "{dropped:?}"
    );
    let kept = node.query("SELECT * FROM system_views.pending_hints", Consistency::One);
    assert!(!kept.expect("rows").is_empty());
    let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'd__layouts'";
    let tables = node.query(tables, Consistency::One).expect("rows");
    assert!(tables.is_empty(), "{tables:?}");
}
