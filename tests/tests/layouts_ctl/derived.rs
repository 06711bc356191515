//! Derived layouts, which are held in a keyspace of their own.

use crate::Node;

const ONE: &str = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
const COLUMNS: &str = "k, a, b, v, s, WRITETIME(v), WRITETIME(s)";

/// A table with rows of several times, one without values, and one partition with a static column only.
fn fill(node: &mut Node, keyspace: &str) {
    node.table(
        keyspace,
        &format!(
            "CREATE TABLE {keyspace}.t (k int, a int, b text, v int, s text static, PRIMARY KEY (k, a, b)) WITH \
             CLUSTERING ORDER BY (a DESC, b ASC) AND gc_grace_seconds = 86401 AND comment = 'it''s'"
        ),
    );
    for k in 0..4 {
        let mut batch = "BEGIN UNLOGGED BATCH ".to_owned();
        for at in 0..50 {
            batch.push_str(&format!(
                "INSERT INTO {keyspace}.t (k, a, b, v, s) VALUES ({k}, {}, 'b{at}', {at}, 's{k}') USING TIMESTAMP {}; ",
                at % 7,
                1_000 + at
            ));
        }
        batch.push_str("APPLY BATCH");
        node.run(&batch);
    }
    for cql in [
        "INSERT INTO {}.t (k, a, b) VALUES (5, 1, 'bare') USING TIMESTAMP 0",
        "UPDATE {}.t USING TIMESTAMP 78 SET s = 'alone' WHERE k = -1",
    ] {
        node.run(&cql.replace("{}", keyspace));
    }
}

fn create(keyspace: &str, more: &[&'static str]) -> Vec<String> {
    let table = format!("{keyspace}.t");
    let create = ["create", &table, "--no-proxies", "--layout", "x=b,a"];
    create.iter().chain(more).map(ToString::to_string).collect()
}

impl Node {
    fn layouts_of(&self, arguments: &[String]) -> crate::Outcome {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.layouts(&arguments)
    }

    /// Of one name.
    fn has_keyspace(&mut self, name: &str) -> bool {
        let text = format!(
            "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = '{name}'"
        );
        !self.run(&text).is_empty()
    }
}

#[test]
fn a_derived_layout_is_filled_compared_and_repaired() {
    let mut node = Node::take();
    fill(&mut node, "elsewhere");
    // Nothing is changed by what is refused.
    for (more, why) in [
        (&["--keyspace", "far"][..], "--replication"),
        (&["--replication", "dc1: 1"], "is no replication"),
    ] {
        node.layouts_of(&create("elsewhere", more)).usage(why);
    }
    for (keyspace, why) in [
        ("elsewhere", "the keyspace of elsewhere.t itself"),
        ("helenus", "choose another"),
        ("system_auth", "choose another"),
    ] {
        let more = ["--replication", ONE, "--keyspace", keyspace];
        node.layouts_of(&create("elsewhere", &more)).failed(why);
    }
    let grace = |table: &str, seconds: u32| {
        format!("ALTER TABLE {table} WITH gc_grace_seconds = {seconds}")
    };
    node.run(&grace("elsewhere.t", 7_200));
    node.layouts_of(&create("elsewhere", &["--replication", ONE]))
        .failed("ALTER TABLE elsewhere.t WITH gc_grace_seconds = 10800");
    node.run(&grace("elsewhere.t", 86_401));
    node.run(
        "CREATE TABLE elsewhere.u (k int, a int, b int, f frozen<set<int>>, PRIMARY KEY (k, a, b))",
    );
    assert!(!node.has_keyspace("elsewhere__layouts"));
    node.layouts_of(&create("elsewhere", &["--replication", ONE]))
        .succeeded();
    let own = node.rows("elsewhere.t", COLUMNS);
    assert_eq!(own.len(), 202);
    assert_eq!(node.rows("elsewhere__layouts.t__layout_x", COLUMNS), own);
    let options = "SELECT comment, gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = '{}' AND \
                   table_name = '{}'";
    let options =
        |keyspace: &str, table: &str| options.replacen("{}", keyspace, 1).replace("{}", table);
    let of_table = node.run(&options("elsewhere", "t"));
    assert_eq!(
        node.run(&options("elsewhere__layouts", "t__layout_x")),
        of_table
    );
    node.run(&grace("elsewhere__layouts.t__layout_x", 7_200));
    let status = node.layouts(&["status", "elsewhere.t"]);
    let status = status.failed("not as they should be");
    assert!(status.out.contains("hints live no longer"), "{status:?}");
    node.run(&grace("elsewhere__layouts.t__layout_x", 86_401));
    let status = node
        .layouts(&["status", "elsewhere.t", "--json"])
        .succeeded();
    let layout = &status.json()["tables"][0]["layouts"][0];
    assert_eq!(
        (&layout["kind"], &layout["keyspace"], &layout["physical"]),
        (
            &"derived".into(),
            &"elsewhere__layouts".into(),
            &"t__layout_x".into()
        )
    );
    let replication = layout["replication"].as_str().expect("a text");
    assert!(
        replication.contains("'replication_factor': '1'"),
        "{layout}"
    );
    // A table's layouts are all of one kind, and a keyspace is replicated in one way.
    let another = ["create", "elsewhere.t", "--no-proxies", "--layout", "y=b,a"];
    node.layouts(&another).failed("all of one kind");
    let two = "{'class': 'SimpleStrategy', 'replication_factor': 2}";
    node.layouts(&[
        "create",
        "elsewhere.u",
        "--no-proxies",
        "--layout",
        "x=b,a",
        "--replication",
        two,
    ])
    .failed("choose another with --keyspace");
    // Who may read that keyspace as a whole would read a layout of another one.
    node.table(
        "nowhere",
        "CREATE TABLE nowhere.t (k int, a int, b int, PRIMARY KEY (k, a, b))",
    );
    node.layouts(&[
        "create",
        "nowhere.t",
        "--no-proxies",
        "--layout",
        "x=b,a",
        "--replication",
        ONE,
        "--keyspace",
        "elsewhere__layouts",
    ])
    .failed("whose keyspace has rights of its own");
    // Interrupted, it goes on, also if the replication is not said again.
    node.layouts(&["distrust", "elsewhere.t", "--no-proxies"])
        .succeeded();
    assert_eq!(node.states("elsewhere", "t")["x"], "writing");
    node.layouts_of(&create(
        "elsewhere",
        &["--replication", ONE, "--keyspace", "far"],
    ))
    .failed("held in the keyspace elsewhere__layouts");
    node.layouts_of(&create("elsewhere", &[])).succeeded();
    assert_eq!(node.states("elsewhere", "t")["x"], "ready");
    // Writes that proxies' requests have missed, and that somebody has made there.
    for cql in [
        "DELETE FROM elsewhere__layouts.t__layout_x USING TIMESTAMP 1003 WHERE k = 1 AND a = 3 AND b = 'b3'",
        "DELETE FROM elsewhere.t WHERE k = 2 AND a = 4 AND b = 'b4'",
        "UPDATE elsewhere.t SET v = 99, s = 'new' WHERE k = 3 AND a = 5 AND b = 'b5'",
        "INSERT INTO elsewhere__layouts.t__layout_x (k, a, b, v) VALUES (9, 9, 'extra', 9)",
    ] {
        node.run(cql);
    }
    // The first was deleted with its own time, and cannot be written again.
    node.layouts(&["verify", "elsewhere.t"]).failed("5 rows");
    // Nothing is deleted from a derived layout but by a sweep.
    node.layouts(&["verify", "elsewhere.t", "--repair"])
        .failed("3 rows");
    node.layouts(&["sweep", "elsewhere.t", "--once", "--no-proxies"])
        .failed("1 partitions in doubt");
    node.layouts(&["verify", "elsewhere.t"]).failed("1 rows");
    node.layouts(&["rebuild", "elsewhere.t", "--no-proxies"])
        .succeeded();
    node.layouts(&["verify", "elsewhere.t"]).succeeded();
    let own = node.rows("elsewhere.t", COLUMNS);
    assert_eq!(node.rows("elsewhere__layouts.t__layout_x", COLUMNS), own);
}

#[test]
fn a_derived_layout_that_is_gone_is_made_anew() {
    let mut node = Node::take();
    fill(&mut node, "unheld");
    node.layouts_of(&create("unheld", &["--replication", ONE]))
        .succeeded();
    let own = node.rows("unheld.t", COLUMNS);
    let rebuild = ["rebuild", "unheld.t", "--no-proxies"];
    node.run("DROP TABLE unheld__layouts.t__layout_x");
    let status = node.layouts(&["status", "unheld.t"]);
    let status = status.failed("not as they should be");
    assert!(status.out.contains("rebuild` makes it anew"), "{status:?}");
    node.layouts(&rebuild).succeeded();
    assert_eq!(node.rows("unheld__layouts.t__layout_x", COLUMNS), own);
    node.run("DROP KEYSPACE unheld__layouts");
    node.layouts(&rebuild).failed("say with --replication");
    assert_eq!(
        node.states("unheld", "t")["x"],
        "ready",
        "nothing was begun"
    );
    node.layouts(&[&rebuild[..], &["--replication", ONE]].concat())
        .succeeded();
    assert_eq!(node.rows("unheld__layouts.t__layout_x", COLUMNS), own);
    node.layouts(&["status", "unheld.t"]).succeeded();
    // The entry was removed, and then the program died: its table is still there.
    let place = helenus_tests::catalogue::place("unheld", "t", "layout", "x");
    node.change(&format!("DELETE FROM helenus.catalogue WHERE {place}"));
    let status = node.layouts(&["status", "unheld.t", "--json"]);
    let status = status.failed("1 tables of layouts are in no catalogue");
    let left = &status.json()["tables"][0]["left_behind"];
    assert_eq!(left[0], "unheld__layouts.t__layout_x");
    // In a keyspace with something else, that is left.
    node.run("CREATE TABLE unheld__layouts.mine (k int PRIMARY KEY)");
    let drop = [
        "drop",
        "unheld.t",
        "--no-proxies",
        "--layout",
        "x",
        "--json",
    ];
    let dropped = node.layouts(&drop).succeeded();
    assert!(dropped.json()["keyspace_dropped"].is_null(), "{dropped:?}");
    let tables =
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'unheld__layouts'";
    assert_eq!(node.run(tables).len(), 1);
    node.run("DROP TABLE unheld__layouts.mine");
    node.layouts_of(&create("unheld", &["--replication", ONE]))
        .succeeded();
    let dropped = node.layouts(&drop).succeeded();
    assert_eq!(dropped.json()["keyspace_dropped"], "unheld__layouts");
    assert!(!node.has_keyspace("unheld__layouts"));
    assert_eq!(node.rows("unheld.t", COLUMNS), own);
}

#[test]
fn a_table_that_has_lost_its_rows_is_filled_from_a_derived_layout() {
    let mut node = Node::take();
    fill(&mut node, "origin");
    node.run(
        "CREATE TABLE origin.u (k int, a int, b int, f frozen<set<int>>, PRIMARY KEY (k, a, b))",
    );
    node.layouts(&["create", "origin.u", "--no-proxies", "--layout", "x=b,a"])
        .succeeded();
    let own = node.rows("origin.t", COLUMNS);
    let more = ["--replication", ONE, "--keyspace", "origin_far"];
    node.layouts_of(&create("origin", &more)).succeeded();
    node.run("TRUNCATE origin.t");
    let restore = |table| ["rebuild", table, "--no-proxies", "--table", "--from", "x"];
    node.layouts(&restore("origin.u"))
        .failed("only a derived layout");
    node.layouts(&restore("origin.t"))
        .failed("deletions are not carried");
    assert!(node.rows("origin.t", COLUMNS).is_empty());
    node.layouts(&["rebuild", "origin.t", "--table"])
        .usage("--from");
    let agreed = [&restore("origin.t")[..], &["--yes", "--json"]].concat();
    let report = node.layouts(&agreed).succeeded().json();
    assert_eq!(
        (&report["rows"], &report["from"]),
        (&201.into(), &"x".into())
    );
    assert_eq!(node.rows("origin.t", COLUMNS), own);
    node.layouts(&["verify", "origin.t"]).succeeded();
    // Of a keyspace that was named, nobody knows whose it is.
    node.layouts(&["drop", "origin.t", "--no-proxies", "--all"])
        .succeeded();
    assert!(node.has_keyspace("origin_far"));
}
