//! Commands before nodes without a proxy: what is refused, given up, and gone on with.

use serde_json::json;

use crate::{Nodes, eventually};

const COLUMNS: &str = "k int, a int, b int, v int, PRIMARY KEY (k, a, b)";

fn create(table: &str) -> Vec<&str> {
    let of = ["create", table, "--no-proxies", "--mode", "replace"];
    let layouts = ["--layout", "x=b,a@dc2", "--layout", "y=a,b@dc3"];
    [&of[..], &layouts].concat()
}

fn stage(nodes: &mut Nodes, keyspace: &str, stage: &str) {
    nodes.run(&format!(
        "UPDATE helenus.copies SET stage = '{stage}' WHERE keyspace_name = '{keyspace}' AND table_name = 't'"
    ));
}

/// As `drop` leaves it that was interrupted, `restarts` of each node before now.
fn drained(nodes: &mut Nodes, keyspace: &str, restarts: i32) {
    let of = |node: usize, nodes: &mut Nodes| {
        let select = "SELECT host_id, gossip_generation FROM system.local";
        let rows = nodes.connections[node].query(select, helenus_cluster::Consistency::One);
        let row = rows.expect("a row").remove(0);
        let id: String = row[0]
            .iter()
            .flatten()
            .map(|b| format!("{b:02x}"))
            .collect();
        let parts = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]];
        (parts.join("-"), crate::int(&row[1]) - restarts)
    };
    let [(x, of_x), (y, of_y)] = [1, 2].map(|node| of(node, nodes));
    let place = format!("keyspace_name = '{keyspace}' AND table_name = 't'");
    nodes.run(&format!(
        "DELETE FROM helenus.copies WHERE {place} AND owners = [{x}, {y}]"
    ));
    nodes.run(&format!(
        "UPDATE helenus.copies SET stage = 'draining', sources = {{0, 1}}, boots = {{{x}: {of_x}, {y}: {of_y}}} \
         WHERE {place}"
    ));
}

#[test]
fn rows_that_cannot_be_copied_back_stop_nobody() {
    let mut nodes = Nodes::shared();
    nodes.table("brief", COLUMNS);
    nodes.run("ALTER TABLE brief.t WITH default_time_to_live = 100000");
    nodes.succeeds(&create("brief.t"));
    for layout in ["x", "y"] {
        nodes.run(&format!(
            "INSERT INTO brief__t__{layout}.t (k, a, b) VALUES (1, 1, 2)"
        ));
    }
    let drop_all = ["drop", "brief.t", "--all", "--no-proxies"];
    nodes.refused(&drop_all, "Give each of them a value");
    nodes.run("ALTER TABLE brief.t WITH read_repair = 'NONE'");
    eventually("reads repair nothing", || {
        let (_, _, why) = nodes.layouts(&drop_all);
        why.contains("ALTER TABLE brief.t WITH read_repair = 'BLOCKING'")
    });
    nodes.run("ALTER TABLE brief.t WITH read_repair = 'BLOCKING'");
    assert_eq!(nodes.stage("brief.t"), (json!("replace"), json!("in use")));
    // Other data centers than those of the copies.
    let other = ["--layout", "x=b,a@dc3", "--layout", "y=a,b@dc2"];
    nodes.refused(
        &[
            &["create", "brief.t", "--no-proxies", "--mode", "replace"][..],
            &other,
        ]
        .concat(),
        "repeat the command that has begun",
    );
    // The catalogue has lost that clients use the copies.
    nodes.run("DELETE FROM helenus.copies WHERE keyspace_name = 'brief' AND table_name = 't'");
    nodes.refused(&drop_all, "brief.t is empty");
    nodes.refused(&create("brief.t"), "brief.t is empty");
    for layout in ["x", "y"] {
        nodes.run(&format!("TRUNCATE brief__t__{layout}.t"));
    }
    nodes.succeeds(&drop_all);
    assert!(nodes.names("brief").is_empty());
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let mut nodes = Nodes::shared();
    nodes.table("never", COLUMNS);
    nodes.run("CREATE TYPE never.address (street text)");
    nodes.run("CREATE TABLE never.lists (k int, a int, b int, v list<int>, PRIMARY KEY (k, a, b))");
    nodes.run(
        "CREATE TABLE never.types (k int, a int, b int, v frozen<address>, PRIMARY KEY (k, a, b))"
            .replace("<address>", "<never.address>")
            .as_str(),
    );
    nodes.run("CREATE TABLE never.indexed (k int, a int, b int, v int, PRIMARY KEY (k, a, b))");
    nodes.run("CREATE INDEX ON never.indexed (v)");
    let of = |table: &'static str, layouts: &[&'static str]| {
        let begin = ["create", table, "--no-proxies", "--mode", "replace"];
        let layouts = layouts.iter().flat_map(|layout| ["--layout", *layout]);
        begin.into_iter().chain(layouts).collect::<Vec<_>>()
    };
    let two = ["x=b,a@dc2", "y=a,b@dc3"];
    for (arguments, why) in [
        (of("never.t", &two[..1]), "2 to 5 layouts"),
        (
            of("never.t", &["x=b,a@dc2", "y=a,b@dc2"]),
            "both to be in data center dc2",
        ),
        (
            of("never.t", &["x=b,a@dc2", "y=a,b@dc9"]),
            "only dc1, dc2, dc3",
        ),
        (
            of("never.t", &["x=b,a@dc2", "y=a,b"]),
            "needs a data center",
        ),
        (of("never.lists", &two), "use --mode add"),
        (of("never.types", &two), "user's type"),
        (of("never.indexed", &two), "has an index"),
        (
            [of("never.t", &two), vec!["--consistency", "quorum"]].concat(),
            "needs all nodes",
        ),
        (
            vec!["create", "never.t", "--no-proxies", "--layout", "x=b,a@dc2"],
            "--mode replace",
        ),
    ] {
        nodes.refused(&arguments, why);
    }
    assert!(nodes.names("never").is_empty());

    // A keyspace of somebody else.
    nodes.run(
        "CREATE KEYSPACE never__t__x WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}",
    );
    nodes.refused(&of("never.t", &two), "is not that of a copy");
    nodes.run("DROP KEYSPACE never__t__x");
    nodes.succeeds(&["create", "never.t", "--no-proxies", "--layout", "x=b,a"]);
    nodes.refused(&create("never.t"), "drop them first");
}

#[test]
fn rows_and_their_times_go_over_and_back() {
    let mut nodes = Nodes::shared();
    nodes.table("times", COLUMNS);
    for k in 0..20 {
        let ttl = if k % 2 == 0 { 0 } else { 10_000 };
        nodes.run(&format!(
            "INSERT INTO times.t (k, a, b, v) VALUES ({k}, 1, 2, {k}) USING TIMESTAMP {} AND TTL {ttl}",
            1_000 + k
        ));
    }
    let made = nodes.json(&create("times.t"));
    assert_eq!(
        (&made["rows"], &made["rows_copied"]),
        (&json!(20), &json!(20))
    );
    assert_eq!(made["layouts"][0]["data_center"], "dc2");
    let select = |table: &str| format!("SELECT k, v, WRITETIME(v) FROM {table}");
    let of = |nodes: &mut Nodes, table: &str| {
        let mut rows = nodes.run(&select(table));
        rows.sort();
        rows
    };
    let copied = of(&mut nodes, "times__t__x.t");
    assert_eq!(copied.len(), 20);
    assert_eq!(copied, of(&mut nodes, "times__t__y.t"));
    assert!(of(&mut nodes, "times.t").is_empty());
    let ttl = nodes.run("SELECT TTL(v) FROM times__t__y.t WHERE k = 1");
    assert!((1..=10_000).contains(&crate::int(&ttl[0][0])));
    assert_eq!(nodes.stage("times.t"), (json!("replace"), json!("in use")));
    // Nobody is there who would bring it back.
    nodes.refused(
        &["rebuild", "times.t", "--layout", "x"],
        "only proxies bring a copy back",
    );

    // One copy differs.
    nodes.succeeds(&["verify", "times.t"]);
    nodes.run("DELETE FROM times__t__y.t WHERE k = 3");
    nodes.refused(&["verify", "times.t"], "1 rows of copies");
    nodes.refused(&["verify", "times.t", "--repair"], "rebuild");
    nodes.run("INSERT INTO times__t__y.t (k, a, b, v) VALUES (3, 1, 2, 3)");
    nodes.run("INSERT INTO times__t__x.t (k, a, b, v) VALUES (3, 1, 2, 3)");

    // `create` was interrupted before the table was emptied.
    stage(&mut nodes, "times", "open");
    nodes.run("INSERT INTO times.t (k, a, b, v) VALUES (1, 1, 2, 1) USING TIMESTAMP 1001");
    nodes.refused(&["drop", "times.t", "--all", "--no-proxies"], "--undo");
    nodes.succeeds(&create("times.t"));
    assert!(of(&mut nodes, "times.t").is_empty());

    // `drop` was interrupted, and no copy has nodes that have run all the time since.
    let drop_all = ["drop", "times.t", "--all", "--no-proxies"];
    let undo = ["drop", "times.t", "--undo", "--no-proxies"];
    drained(&mut nodes, "times", 1);
    nodes.refused(&drop_all, "no copy of times.t");
    nodes.refused(&undo, "no copy of times.t");
    nodes.refused(&create("times.t"), "--undo");
    // They have: it is given up.
    drained(&mut nodes, "times", 0);
    nodes.run("INSERT INTO times.t (k, a, b, v) VALUES (99, 1, 2, 99)");
    nodes.succeeds(&undo);
    assert_eq!(nodes.stage("times.t"), (json!("replace"), json!("in use")));
    assert!(of(&mut nodes, "times.t").is_empty());
    nodes.refused(&undo, "is not being dropped");
    // They have not, and one of them is taken in spite of that.
    drained(&mut nodes, "times", 1);
    nodes.refused(
        &[&drop_all[..], &["--from", "z"]].concat(),
        "does not have all rows",
    );
    let dropped = nodes.json(&[&drop_all[..], &["--from", "y"]].concat());
    assert_eq!(dropped["rows"], 20, "{dropped}");
    let back = of(&mut nodes, "times.t");
    let without = |rows: &[Vec<Option<Vec<u8>>>]| {
        let rows = rows.iter().filter(|row| crate::int(&row[0]) != 3);
        rows.cloned().collect::<Vec<_>>()
    };
    assert_eq!(without(&back), without(&copied));
    let ttl = nodes.run("SELECT TTL(v) FROM times.t WHERE k = 1");
    assert!((1..=10_000).contains(&crate::int(&ttl[0][0])));
    assert!(nodes.names("times").is_empty());
}

#[test]
fn what_has_begun_is_given_up_with_all_rows_in_the_table() {
    let mut nodes = Nodes::shared();
    nodes.table("again", COLUMNS);
    nodes.run("INSERT INTO again.t (k, a, b, v) VALUES (1, 1, 2, 1)");
    nodes.succeeds(&create("again.t"));
    // As it is before the lists are added: the copies may have anything.
    nodes.run("DELETE FROM helenus.copies WHERE keyspace_name = 'again' AND table_name = 't'");
    nodes.run(
        "UPDATE helenus.copies SET stage = 'filling', created = 1 WHERE keyspace_name = 'again' AND table_name = 't'",
    );
    nodes.run("INSERT INTO again.t (k, a, b, v) VALUES (2, 1, 2, 2)");
    nodes.succeeds(&["drop", "again.t", "--all", "--no-proxies"]);
    assert!(nodes.names("again").is_empty());
    assert_eq!(nodes.rows_at(0, "again.t").len(), 1);

    // Gone on with: what the table has is what counts.
    nodes.succeeds(&create("again.t"));
    nodes.run("DELETE FROM helenus.copies WHERE keyspace_name = 'again' AND table_name = 't'");
    nodes.run(
        "UPDATE helenus.copies SET stage = 'filling', created = 1 WHERE keyspace_name = 'again' AND table_name = 't'",
    );
    nodes.run("INSERT INTO again.t (k, a, b, v) VALUES (3, 1, 2, 3)");
    nodes.refused(
        &[
            "create",
            "again.t",
            "--no-proxies",
            "--mode",
            "replace",
            "--layout",
            "x=b,a@dc1",
            "--layout",
            "z=a,b@dc2",
        ],
        "repeat the command that has begun",
    );
    // What fails while clients wait lets them go on with the table.
    nodes.run("ALTER TABLE again.t WITH default_time_to_live = 100000");
    nodes.run("INSERT INTO again.t (k, a, b) VALUES (4, 1, 2)");
    assert_eq!(nodes.stage("again.t"), (json!("replace"), json!("filling")));
    nodes.refused(&create("again.t"), "clients use again.t itself again");
    assert_eq!(
        nodes.stage("again.t"),
        (json!("replacing"), json!("filling"))
    );
    nodes.run("DELETE FROM again.t WHERE k = 4");
    nodes.run("ALTER TABLE again.t WITH default_time_to_live = 0");
    nodes.succeeds(&create("again.t"));
    for (node, table) in [(1, "again__t__x.t"), (2, "again__t__y.t")] {
        let rows = nodes.rows_at(node, table);
        assert_eq!(rows, [((3, 1), 3)].into(), "{table}");
    }
    nodes.succeeds(&["drop", "again.t", "--all", "--no-proxies"]);
    assert_eq!(nodes.rows_at(0, "again.t"), [((3, 1), 3)].into());

    // Tables that an interrupted `drop` has left.
    nodes.run(
        "CREATE KEYSPACE again__t__x WITH replication = {'class': 'NetworkTopologyStrategy', 'dc2': 1}",
    );
    nodes.run("CREATE TABLE again__t__x.t (k int, a int, b int, v int, PRIMARY KEY (k, b, a))");
    let left = nodes.status("again.t")["tables"][0]["left_behind"].clone();
    assert_eq!(left, json!(["again__t__x.t"]));
    // Or that somebody else has made.
    nodes.run("INSERT INTO again__t__x.t (k, a, b) VALUES (1, 1, 1)");
    let drop_all = ["drop", "again.t", "--all", "--no-proxies"];
    nodes.refused(&drop_all, "the catalogue does not know it");
    nodes.run("TRUNCATE again__t__x.t");
    nodes.succeeds(&["drop", "again.t", "--all", "--no-proxies"]);
    assert!(nodes.names("again").is_empty());
}
