//! Flags, and a catalogue that cannot be read or has lost what it said.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use helenus_tests::catalogue::place;
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, QUORUM};
use helenus_tests::scenes;
use helenus_tests::scenes::Scenes;

use crate::in_use::command;
use crate::sweep::a_replica_is_away;
use crate::three::{Three, replicated, run};
use crate::{Node, Outcome, eventually, ring, second};

const COLUMNS: &str = "k int, a int, b int, v int, PRIMARY KEY (k, a, b)";
/// A lease lasts ten seconds, and nodes take a while to notice that one of them is down.
const PATIENCE: Duration = Duration::from_secs(60);
const OVERLOADED: i32 = 0x1001;

fn create(node: &Node, table: &str, layout: &str) -> Outcome {
    node.layouts(&["create", table, "--no-proxies", "--layout", layout])
}

#[test]
fn a_table_is_flagged_from_its_first_layout_to_its_last() {
    let mut node = Node::take();
    node.table("flagged", &format!("CREATE TABLE flagged.t ({COLUMNS})"));
    node.run("CREATE TABLE flagged.u (k int, a int, b int, c int, PRIMARY KEY (k, a, b, c))");
    let drop = |node: &Node, what: &[&str]| {
        node.layouts(&[&["drop", "flagged.u", "--no-proxies"], what].concat())
    };
    create(&node, "flagged.u", "x=b,a,c").succeeded();
    let first = node.flags("flagged", "u");
    assert_eq!(first.len(), 1);
    create(&node, "flagged.u", "y=c,a,b").succeeded();
    drop(&node, &["--layout", "x"]).succeeded();
    assert_eq!(node.flags("flagged", "u"), first);
    assert!(node.flags("flagged", "t").is_empty());
    // A command was interrupted before it flagged the table: whoever goes on does so.
    let flag = format!("\"layouts flagged.u {}\"", first[0]);
    node.run(&format!("DROP TYPE helenus.{flag}"));
    let y = place("flagged", "u", "layout", "y");
    node.change(&format!(
        "UPDATE helenus.catalogue SET state = 'writing' WHERE {y}"
    ));
    create(&node, "flagged.u", "y=c,a,b").succeeded();
    assert_eq!(node.flags("flagged", "u"), first);
    // Another was interrupted while it dropped the last layout.
    node.change(&format!("DELETE FROM helenus.catalogue WHERE {y}"));
    let status = node.layouts(&["status", "flagged.u"]);
    let status = status.failed("1 tables of layouts are in no catalogue");
    assert!(status.out.contains("they were being dropped"), "{status:?}");
    drop(&node, &["--all"]).succeeded();
    assert!(node.flags("flagged", "u").is_empty());
    let left =
        node.run("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'flagged'");
    assert_eq!(left.len(), 2, "the layout's table was dropped, too");
    // Each time has a flag of its own. A flag that another command may have left from an earlier time goes.
    node.run(&format!("CREATE TYPE helenus.{flag} (flag int)"));
    node.layouts(&["status", "flagged.u"]).failed("has lost");
    drop(&node, &["--all"]).succeeded();
    create(&node, "flagged.u", "x=b,a,c").succeeded();
    let later = node.flags("flagged", "u");
    assert!(later[0] > first[0], "{later:?} after {first:?}");
    node.run(&format!("CREATE TYPE helenus.{flag} (flag int)"));
    create(&node, "flagged.u", "y=c,a,b").succeeded();
    assert_eq!(node.flags("flagged", "u"), later);
}

#[test]
fn a_table_that_the_catalogue_has_lost_is_told_and_got_rid_of() {
    let mut node = Node::take();
    node.table("lost", &format!("CREATE TABLE lost.t ({COLUMNS})"));
    node.run("INSERT INTO lost.t (k, a, b, v) VALUES (1, 2, 3, 4)");
    create(&node, "lost.t", "x=b,a").succeeded();
    let of_table = "part = 'all' AND keyspace_name = 'lost' AND table_name = 't'";
    node.change(&format!("DELETE FROM helenus.catalogue WHERE {of_table}"));
    let advice = "run `nodetool repair -full helenus` on all nodes";
    for command in [&["status"][..], &["status", "lost.t"]] {
        let status = node.layouts(command).failed("has lost what it said");
        assert!(status.out.contains(advice), "{status:?}");
    }
    for command in [
        &["create", "lost.t", "--no-proxies", "--layout", "x=b,a"][..],
        &["rebuild", "lost.t", "--no-proxies"],
        &["verify", "lost.t"],
    ] {
        node.layouts(command).failed(advice);
    }
    node.layouts(&["drop", "lost.t", "--no-proxies", "--all"])
        .succeeded();
    assert!(node.flags("lost", "t").is_empty());
    node.layouts(&["status", "lost.t"]).succeeded();
    create(&node, "lost.t", "x=b,a").succeeded();
    assert_eq!(node.run("SELECT k FROM lost.t__layout_x").len(), 1);
}

#[test]
fn commands_on_several_tables_do_not_disturb_each_other() {
    let mut node = Node::take();
    let tables = ["apart.t", "apart.u", "apart.v"];
    for table in tables {
        node.table("apart", &format!("CREATE TABLE {table} ({COLUMNS})"));
    }
    let commands = tables.map(|table| {
        let create = ["create", table, "--no-proxies", "--layout", "x=b,a"];
        command(&node, &create)
    });
    for command in commands {
        command.join().expect("it ends").succeeded();
    }
    for table in ["t", "u", "v"] {
        assert_eq!(node.states("apart", table)["x"], "ready");
    }
}

fn client(proxy: &Proxy) -> Client<std::net::TcpStream> {
    Client::ready(proxy.address, 5).expect("a client")
}

/// A write to the table with a layout; why it was refused, if it was.
fn order(client: &mut Client<std::net::TcpStream>, a: i32) -> Result<(), String> {
    let cql = format!("INSERT INTO shop.orders (k, a, b, v) VALUES (1, {a}, 3, 4)");
    let outcome = client.try_query(&cql, QUORUM).expect("an answer");
    outcome.map(|_| ()).map_err(|fault| {
        assert_eq!(fault.code, OVERLOADED, "{fault:?}");
        fault.message
    })
}

scenes!(
    the_catalogue_is_away;
    a_table_without_layouts_is_written_while_the_catalogue_cannot_be_read,
    no_write_misses_the_layouts_of_a_table_that_the_catalogue_has_lost,
    no_read_and_no_write_fails_while_a_replica_of_a_derived_layout_is_away,
    no_read_fails_while_a_node_joins_and_another_leaves,
    a_sweep_brings_what_a_node_has_missed_that_was_away_for_longer_than_hints_are_kept,
);

fn the_catalogue_is_away(scenes: &mut Scenes) {
    let _second = second();
    let mut three = Three::up();
    scenes.scene(
        "a_table_without_layouts_is_written_while_the_catalogue_cannot_be_read",
        || it_cannot_be_read(&mut three),
    );
    // Whatever became of the one before.
    three.all_up();
    // Its replication is another afterwards.
    scenes.scene(
        "no_write_misses_the_layouts_of_a_table_that_the_catalogue_has_lost",
        || it_has_lost_a_table(&mut three),
    );
    three.all_up();
    scenes.scene(
        "no_read_and_no_write_fails_while_a_replica_of_a_derived_layout_is_away",
        || a_replica_is_away(&mut three),
    );
    three.all_up();
    // The nodes are others afterwards.
    let joins = "no_read_fails_while_a_node_joins_and_another_leaves";
    scenes.scene(joins, || ring::a_node_joins_and_another_leaves(&mut three));
    scenes.scene(
        "a_sweep_brings_what_a_node_has_missed_that_was_away_for_longer_than_hints_are_kept",
        || ring::a_node_is_away(&mut three),
    );
    // Of all that clients have done before.
    scenes.scene(joins, || ring::layouts_are_equal(&three));
}

fn it_cannot_be_read(three: &mut Three) {
    let proxy = three.proxy();
    let mut through = client(&proxy);
    order(&mut through, 0).expect("the catalogue can be read");
    let holder = three.holder;
    three.cluster.kill(holder).expect("killed");
    eventually("the table with a layout is refused", PATIENCE, || {
        order(&mut through, 1).is_err_and(|why| why.contains("the catalogue"))
    });
    let by = three.others()[0];
    let mut direct = Client::ready(three.address(by), 5).expect("a client");
    let written = |client: &mut Client<std::net::TcpStream>| {
        let writes = (0..400).map(|k| format!("INSERT INTO shop.plain (k, v) VALUES ({k}, 1)"));
        writes
            .filter(|cql| client.try_query(cql, QUORUM).expect("an answer").is_ok())
            .count()
    };
    assert_eq!(written(&mut direct), 400);
    assert_eq!(written(&mut through), 400);
    let select = "SELECT v FROM shop.orders WHERE k = 1 AND b = 3 ALLOW FILTERING";
    // Nodes that have not noticed yet that one is down may wait for it in vain.
    eventually("reads are answered from the table", PATIENCE, || {
        through
            .try_query(select, QUORUM)
            .expect("an answer")
            .is_ok()
    });
    // A proxy that was just started knows nothing but the flags.
    let restarted = three.proxy();
    let mut through = client(&restarted);
    assert_eq!(written(&mut through), 400);
    let why = order(&mut through, 2).expect_err("it has a layout");
    assert!(why.contains("the catalogue"), "{why}");
    three.cluster.start(holder).expect("started");
    eventually("the table is written again", PATIENCE, || {
        order(&mut through, 3).is_ok()
    });
}

fn it_has_lost_a_table(three: &mut Three) {
    let proxy = three.proxy();
    let mut through = client(&proxy);
    let (holder, by) = (three.holder, three.others()[0]);
    let mut node = three.cluster.connect(by).expect("a connection");
    let mut acknowledged = BTreeSet::new();
    let mut write = |client: &mut Client<std::net::TcpStream>, a: i32| {
        let outcome = order(client, a);
        if outcome.is_ok() {
            acknowledged.insert(a);
        }
        outcome
    };
    // It may have been started before its nodes know of each other that they are up.
    eventually("the catalogue can be read", PATIENCE, || {
        write(&mut through, 0).is_ok()
    });
    (1..50).for_each(|a| write(&mut through, a).expect("written"));
    // Two empty replicas of three tell the same: that there is nothing.
    three.cluster.kill(holder).expect("killed");
    run(&mut node, &replicated("ALTER", "helenus", 3));
    let (began, mut a) = (Instant::now(), 50);
    while began.elapsed() < Duration::from_secs(25) {
        // Refused or not: what counts is where it is.
        let _ = write(&mut through, a);
        a += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    let why = write(&mut through, a).expect_err("what it had read is too old");
    assert!(why.contains("the catalogue"), "{why}");
    let restarted = three.proxy();
    let mut again = client(&restarted);
    for a in a + 1..a + 20 {
        let why = write(&mut again, a).expect_err("the flag says that it has layouts");
        assert!(why.contains("nodetool repair -full helenus"), "{why}");
    }
    three.layouts(by, &["status"]).failed("has lost");
    three.cluster.start(holder).expect("started");
    for number in 1..=3 {
        let repaired = three
            .cluster
            .nodetool(number, &["repair", "-full", "helenus"]);
        repaired.expect("repaired");
    }
    for (number, client) in [&mut through, &mut again].into_iter().enumerate() {
        let a = 100_000 + number as i32;
        eventually("the table is written again", PATIENCE, || {
            write(client, a).is_ok()
        });
    }
    three.layouts(by, &["status"]).succeeded();
    let mut rows = |table: &str| -> BTreeSet<i32> {
        let rows = run(&mut node, &format!("SELECT a FROM shop.{table}"));
        let cells = rows.into_iter().filter_map(|row| row[0].clone());
        cells
            .map(|cell| i32::from_be_bytes(cell.try_into().expect("an int")))
            .collect()
    };
    let (table, layout) = (rows("orders"), rows("orders__layout_x"));
    assert!(acknowledged.len() >= 52 && acknowledged.is_subset(&table));
    assert_eq!(table, layout, "a row is in one of them alone");
}
