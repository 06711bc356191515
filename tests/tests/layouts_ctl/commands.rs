//! The commands, with no proxy running.

use std::process::Stdio;
use std::thread;
use std::time::Duration;

use helenus_tests::catalogue::place;
use helenus_tests::proxy::helenus;

use crate::{Node, eventually};

const ORDERS: &str = "region int, day date, clerk text, id int, total double, note text, \
                      boss text static, PRIMARY KEY ((region), day, clerk, id)";
const ALL: &str = "region, day, clerk, id, total, note, boss, WRITETIME(total), WRITETIME(note), \
                   WRITETIME(boss)";

/// Rows of several shapes: whole ones, some without values, some of several times, some that expire,
/// some partitions with static columns only.
fn fill(node: &mut Node, table: &str, rows: u32) {
    for region in 0..rows.div_ceil(100) {
        let mut batch = "BEGIN UNLOGGED BATCH ".to_owned();
        for id in 0..100.min(rows - region * 100) {
            let (day, clerk) = (1 + id % 28, id % 7);
            let key = format!("{region}, '2024-02-{day:02}', 'clerk {clerk}', {id}");
            let time = 1_000_000 + u64::from(id);
            batch.push_str(&match id % 10 {
                0 => format!(
                    "INSERT INTO {table} (region, day, clerk, id) VALUES ({key}) USING TIMESTAMP {time}; "
                ),
                1 => format!(
                    "INSERT INTO {table} (region, day, clerk, id, total, note) \
                     VALUES ({key}, {id}.5, 'it''s') USING TIMESTAMP {time} AND TTL 100000; "
                ),
                2 => format!(
                    "INSERT INTO {table} (region, day, clerk, id, total) VALUES ({key}, 0) \
                     USING TIMESTAMP {time}; UPDATE {table} USING TIMESTAMP {} AND TTL 90000 \
                     SET note = 'later' WHERE region = {region} AND day = '2024-02-{day:02}' AND \
                     clerk = 'clerk {clerk}' AND id = {id}; ",
                    time + 5
                ),
                _ => format!(
                    "INSERT INTO {table} (region, day, clerk, id, total, note) \
                     VALUES ({key}, {id}.25, '') USING TIMESTAMP {time}; "
                ),
            });
        }
        batch.push_str("APPLY BATCH");
        node.run(&batch);
        if region % 3 == 0 {
            node.run(&format!(
                "UPDATE {table} USING TIMESTAMP 77 SET boss = 'b{region}' WHERE region = {region}"
            ));
        }
    }
    node.run(&format!(
        "UPDATE {table} USING TIMESTAMP 78 SET boss = 'alone' WHERE region = -1"
    ));
}

#[test]
fn rows_are_copied_with_their_times() {
    let mut node = Node::take();
    node.table("times", &format!("CREATE TABLE times.orders ({ORDERS}) WITH \
        CLUSTERING ORDER BY (day DESC, clerk ASC, id ASC) AND comment = 'it''s (fine) AND good' \
        AND gc_grace_seconds = 86401 AND compression = {{'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}}"));
    fill(&mut node, "times.orders", 1_000);
    let created = node.layouts(&[
        "create",
        "times.orders",
        "--no-proxies",
        "--json",
        "--layout",
        "a=clerk,day,id",
        "--layout",
        "b=id,clerk,day",
    ]);
    let report = created.succeeded().json();
    assert_eq!(
        (&report["rows"], &report["rows_copied"]),
        (&1_000.into(), &1_000.into())
    );
    let own = node.rows("times.orders", ALL);
    assert_eq!(own.len(), 1_001, "one partition has a static column only");
    for layout in ["a", "b"] {
        let physical = format!("times.orders__layout_{layout}");
        assert_eq!(node.rows(&physical, ALL), own, "{layout}");
        let ttls = node.rows(&physical, "TTL(total), TTL(note), id");
        let left = |row: &Vec<Option<Vec<u8>>>, column: usize| {
            let bytes = row[column].clone()?;
            Some(i32::from_be_bytes(bytes.try_into().expect("an int")))
        };
        let both = ttls
            .iter()
            .filter(|row| left(row, 0).is_some_and(|s| (99_000..=100_000).contains(&s)));
        let one = ttls
            .iter()
            .filter(|row| left(row, 0).is_none() && left(row, 1).is_some_and(|s| s <= 90_000));
        assert_eq!((both.count(), one.count()), (100, 100));
    }
    assert_eq!(
        node.states("times", "orders")
            .into_values()
            .collect::<Vec<_>>(),
        ["ready", "ready"]
    );
    let of = |table: &str| {
        format!(
            "SELECT comment, gc_grace_seconds, compression FROM system_schema.tables \
         WHERE keyspace_name = 'times' AND table_name = '{table}'"
        )
    };
    assert_eq!(node.run(&of("orders")), node.run(&of("orders__layout_a")));
    // Each column keeps its direction.
    let days =
        node.run("SELECT day FROM times.orders__layout_a WHERE region = 1 AND clerk = 'clerk 1'");
    assert!(
        days.len() > 2 && days.is_sorted_by(|a, b| a >= b),
        "{days:?}"
    );
    let status = node
        .layouts(&["status", "times.orders", "--json"])
        .succeeded()
        .json();
    let status = &status["tables"][0];
    assert_eq!(status["rows"], 1_000);
    assert_eq!(status["distinct_values"]["clerk"], 7);
    assert_eq!(status["layouts"][1]["clustering"][0], "id");
    node.layouts(&["verify", "times.orders"]).succeeded();
    // Once more does nothing.
    let again = node
        .layouts(&["create", "times.orders", "--layout", "a=clerk,day,id"])
        .succeeded();
    assert!(again.out.contains("already"), "{again:?}");
}

#[test]
fn sets_and_maps_are_copied_with_the_times_of_their_elements() {
    let mut node = Node::take();
    node.table(
        "bags",
        "CREATE TABLE bags.t (k int, a int, b int, v int, m map<int, text>, s set<text>, \
         o map<text, int> static, PRIMARY KEY (k, a, b))",
    );
    for cql in [
        "INSERT INTO bags.t (k, a, b, v, m, s) VALUES (1, 1, 1, 1, {1: 'a', 2: ''}, {'x', 'y'}) USING TIMESTAMP 100",
        "UPDATE bags.t USING TIMESTAMP 200 AND TTL 90000 SET m = m + {3: 'c', 1: 'later'}, s = s + {'z'} WHERE k = 1 AND a = 1 AND b = 1",
        "UPDATE bags.t USING TIMESTAMP 50 SET m = m + {9: 'older'} WHERE k = 1 AND a = 2 AND b = 1",
        "UPDATE bags.t USING TIMESTAMP 60 SET o = o + {'one': 1, 'two': 2} WHERE k = 1",
        "UPDATE bags.t USING TIMESTAMP 70 SET o['two'] = 3 WHERE k = 1",
        "UPDATE bags.t USING TIMESTAMP 60 SET o = {'alone': 1} WHERE k = 2",
    ] {
        node.run(cql);
    }
    let create = ["create", "bags.t", "--no-proxies", "--layout", "x=b,a"];
    if helenus_tests::cassandra_version().starts_with('4') {
        node.layouts(&create).failed("before Cassandra 5.0");
        return;
    }
    node.layouts(&create).succeeded();
    let columns = "k, a, b, v, m, s, o, WRITETIME(v), WRITETIME(m), WRITETIME(s), WRITETIME(o)";
    let own = node.rows("bags.t", columns);
    assert_eq!(own.len(), 3);
    assert_eq!(node.rows("bags.t__layout_x", columns), own);
    let lives =
        node.run("SELECT TTL(m), TTL(s) FROM bags.t__layout_x WHERE k = 1 AND b = 1 AND a = 1");
    let own_lives = node.run("SELECT TTL(m), TTL(s) FROM bags.t WHERE k = 1 AND a = 1 AND b = 1");
    let lens = |rows: &helenus_cluster::Rows| {
        rows[0]
            .iter()
            .map(|c| c.as_ref().map(Vec::len))
            .collect::<Vec<_>>()
    };
    assert_eq!(lens(&lives), lens(&own_lives), "the same elements expire");
    for cql in [
        "DELETE m[2] FROM bags.t WHERE k = 1 AND a = 1 AND b = 1",
        "DELETE s['x'] FROM bags.t WHERE k = 1 AND a = 1 AND b = 1",
        "UPDATE bags.t SET m[9] = 'newer', s = s + {'new'} WHERE k = 1 AND a = 2 AND b = 1",
        "DELETE o['one'] FROM bags.t WHERE k = 1",
        "DELETE m FROM bags.t__layout_x WHERE k = 7 AND a = 7 AND b = 7",
    ] {
        node.run(cql);
    }
    node.layouts(&["verify", "bags.t"]).failed("3 rows");
    node.layouts(&["verify", "bags.t", "--repair"]).succeeded();
    let own = node.rows("bags.t", columns);
    assert_eq!(node.rows("bags.t__layout_x", columns), own);
}

#[test]
fn what_was_written_past_proxies_is_found_and_repaired() {
    let mut node = Node::take();
    node.table("past", &format!("CREATE TABLE past.orders ({ORDERS})"));
    fill(&mut node, "past.orders", 300);
    node.layouts(&[
        "create",
        "past.orders",
        "--no-proxies",
        "--layout",
        "a=clerk,day,id",
    ])
    .succeeded();
    let at = |region: u32, day: u32, clerk: u32, id: u32| {
        format!(
            "region = {region} AND day = '2024-02-{day:02}' AND clerk = 'clerk {clerk}' AND id = {id}"
        )
    };
    for cql in [
        "INSERT INTO past.orders (region, day, clerk, id, total) VALUES (0, '2024-03-01', 'new', 1, 1)",
        "INSERT INTO past.orders (region, day, clerk, id) VALUES (50, '2024-03-01', 'bare', 1)",
        &format!("DELETE FROM past.orders WHERE {}", at(0, 4, 3, 3)),
        &format!("DELETE note FROM past.orders WHERE {}", at(0, 5, 4, 4)),
        &format!("UPDATE past.orders SET total = 99 WHERE {}", at(1, 5, 4, 4)),
        "UPDATE past.orders SET boss = 'new' WHERE region = 1",
        "DELETE boss FROM past.orders WHERE region = 0",
        // In the layout only.
        "INSERT INTO past.orders__layout_a (region, day, clerk, id, total) \
         VALUES (2, '2024-03-02', 'extra', 1, 1)",
    ] {
        node.run(cql);
    }
    let found = node
        .layouts(&["verify", "past.orders", "--json"])
        .failed("8 rows");
    let report = &found.json()["layouts"][0];
    let counts = [
        "rows_missing",
        "rows_extra",
        "rows_different",
        "rows_repaired",
    ];
    // Two rows and a static one are new; static columns of a partition count as a row.
    assert_eq!(
        counts.map(|c| report[c].as_u64()),
        [Some(3), Some(3), Some(2), Some(0)]
    );
    assert!(
        !report["ranges_differing"]
            .as_array()
            .expect("ranges")
            .is_empty()
    );
    node.layouts(&["verify", "past.orders", "--repair"])
        .succeeded();
    node.layouts(&["verify", "past.orders"]).succeeded();
    let own = node.rows("past.orders", ALL);
    assert_eq!(node.rows("past.orders__layout_a", ALL), own);
    // A row of the layout that is later than the table's cannot be repaired by its times, but rebuilt.
    node.run(&format!(
        "UPDATE past.orders__layout_a USING TIMESTAMP 9000000000000000 SET total = 5 WHERE {}",
        at(2, 5, 4, 4)
    ));
    node.layouts(&["verify", "past.orders", "--repair"])
        .failed("rebuild");
    node.layouts(&["rebuild", "past.orders", "--no-proxies"])
        .succeeded();
    node.layouts(&["verify", "past.orders"]).succeeded();
    assert_eq!(node.rows("past.orders__layout_a", ALL), own);
    assert_eq!(node.states("past", "orders")["a"], "ready");
}

#[test]
fn an_interrupted_create_goes_on_where_it_was() {
    let mut node = Node::take();
    node.table("broken", &format!("CREATE TABLE broken.orders ({ORDERS})"));
    fill(&mut node, "broken.orders", 3_000);
    let contact = node.address.to_string();
    let arguments = [
        "layouts",
        "create",
        "broken.orders",
        "--no-proxies",
        "--layout",
        "a=clerk,day,id",
    ];
    let slow = [
        "--rows-per-second",
        "500",
        "--parallel",
        "1",
        "--contact",
        &contact,
    ];
    let mut command = helenus(&arguments).expect("a program");
    let mut child = command
        .args(slow)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut copied = 0;
    eventually("some ranges are copied", Duration::from_secs(60), || {
        if node
            .run(
                "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'helenus' AND \
            table_name = 'layout_progress'",
            )
            .is_empty()
        {
            return false;
        }
        copied = node
            .run(
                "SELECT * FROM helenus.layout_progress WHERE keyspace_name = 'broken' AND \
            table_name = 'orders' AND layout = 'a'",
            )
            .len();
        thread::sleep(Duration::from_millis(200));
        copied >= 3
    });
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(node.states("broken", "orders")["a"], "writing");
    let status = node
        .layouts(&["status", "broken.orders", "--json"])
        .succeeded()
        .json();
    let layout = &status["tables"][0]["layouts"][0];
    let ranges = layout["ranges"].as_u64().expect("a number");
    assert!(
        (3..ranges).contains(&layout["ranges_copied"].as_u64().expect("a number")),
        "{layout}"
    );
    let again = node.layouts(&[
        "create",
        "broken.orders",
        "--no-proxies",
        "--json",
        "--layout",
        "a=clerk,day,id",
    ]);
    let report = again.succeeded().json();
    assert_eq!(report["rows"], 3_000);
    let copied = report["rows_copied"].as_u64().expect("a number");
    assert!(
        (1..3_000).contains(&copied),
        "{copied} rows were copied the second time"
    );
    let own = node.rows("broken.orders", ALL);
    assert_eq!(node.rows("broken.orders__layout_a", ALL), own);
    assert_eq!(node.states("broken", "orders")["a"], "ready");
    let left = node.run(
        "SELECT * FROM helenus.layout_progress WHERE keyspace_name = 'broken' AND table_name = 'orders' AND \
         layout = 'a'",
    );
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn dropped_layouts_leave_nothing_behind() {
    let mut node = Node::take();
    node.table("gone", &format!("CREATE TABLE gone.orders ({ORDERS})"));
    fill(&mut node, "gone.orders", 100);
    let own = node.rows("gone.orders", ALL);
    let create = [
        "create",
        "gone.orders",
        "--no-proxies",
        "--layout",
        "a=clerk,day,id",
        "--layout",
        "b=id,day,clerk",
    ];
    node.layouts(&create).succeeded();
    node.layouts(&["drop", "gone.orders", "--no-proxies"])
        .usage("--layout");
    node.layouts(&["drop", "gone.orders", "--no-proxies", "--layout", "c"])
        .failed("no layout c");
    node.layouts(&["drop", "gone.orders", "--no-proxies", "--layout", "a"])
        .succeeded();
    assert_eq!(
        node.states("gone", "orders")
            .into_keys()
            .collect::<Vec<_>>(),
        ["b"]
    );
    let tables = |node: &mut Node| {
        node.run("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'gone'")
            .len()
    };
    assert_eq!(tables(&mut node), 2);
    node.layouts(&["drop", "gone.orders", "--no-proxies", "--all"])
        .succeeded();
    assert_eq!(
        (tables(&mut node), node.states("gone", "orders").len()),
        (1, 0)
    );
    assert_eq!(node.rows("gone.orders", ALL), own);
    node.layouts(&["drop", "gone.orders", "--no-proxies", "--all"])
        .failed("no layouts");
    // The entry was removed, and then the program died: its table is still there.
    node.layouts(&[
        "create",
        "gone.orders",
        "--no-proxies",
        "--layout",
        "a=clerk,day,id",
    ])
    .succeeded();
    let place = place("gone", "orders", "layout", "a");
    node.change(&format!("DELETE FROM helenus.catalogue WHERE {place}"));
    node.layouts(&[
        "create",
        "gone.orders",
        "--no-proxies",
        "--layout",
        "a=clerk,day,id",
    ])
    .failed("finish dropping");
    let status = node
        .layouts(&["status", "gone.orders", "--json"])
        .failed("1 tables of layouts are in no catalogue");
    assert_eq!(
        status.json()["tables"][0]["left_behind"][0],
        "orders__layout_a"
    );
    node.layouts(&["drop", "gone.orders", "--no-proxies", "--layout", "a"])
        .succeeded();
    assert_eq!(tables(&mut node), 1);
    // A later life of the same name.
    node.layouts(&[
        "create",
        "gone.orders",
        "--no-proxies",
        "--layout",
        "a=id,clerk,day",
    ])
    .succeeded();
    assert_eq!(node.rows("gone.orders__layout_a", ALL), own);
}

#[test]
fn what_cannot_have_layouts_is_refused_with_the_reason() {
    let mut node = Node::take();
    node.table(
        "no",
        "CREATE TABLE no.few (k int, a int, v int, PRIMARY KEY (k, a))",
    );
    for cql in [
        "CREATE TABLE no.counters (k int, a int, b int, n counter, PRIMARY KEY (k, a, b))",
        "CREATE TABLE no.hasty (k int, a int, b int, v int, PRIMARY KEY (k, a, b)) WITH gc_grace_seconds = 600",
        "CREATE TABLE no.fleeting (k int, a int, b int, PRIMARY KEY (k, a, b)) WITH default_time_to_live = 60",
        "CREATE TABLE no.bags (k int, a int, b int, s list<int>, PRIMARY KEY (k, a, b))",
        "INSERT INTO no.bags (k, a, b, s) VALUES (1, 2, 3, [4])",
        "CREATE TABLE no.\"Good\" (k int, a int, \"B\" int, f frozen<set<int>>, PRIMARY KEY (k, a, \"B\"))",
        "INSERT INTO no.\"Good\" (k, a, \"B\", f) VALUES (1, 2, 3, {4})",
        "CREATE TABLE no.a_name_of_forty_characters_which_is_quite (k int, a int, b int, PRIMARY KEY (k, a, b))",
    ] {
        node.run(cql);
    }
    let create = |node: &Node, table: &str, layouts: &[&str]| {
        let mut arguments = vec!["create", table, "--no-proxies"];
        for layout in layouts {
            arguments.extend(["--layout", layout]);
        }
        node.layouts(&arguments)
    };
    let ba = ["x=b,a"];
    for (table, why) in [
        ("no.few", "only one order"),
        ("no.counters", "counter"),
        ("no.hasty", "gc_grace_seconds"),
        ("no.fleeting", "expire"),
        ("no.bags", "column s is a list<int>"),
        ("no.thing", "there is no table no.thing"),
        (
            "no.a_name_of_forty_characters_which_is_quite",
            "longer than",
        ),
    ] {
        create(&node, table, &ba).failed(why);
    }
    let good = "no.\"Good\"";
    for (layouts, why) in [
        (&["x=a,B"][..], "once"),
        (&["x=\"B\""], "once"),
        (&["x=\"B\",a,a"], "once"),
        (&["x=\"B\",f"], "once"),
        (&["x=a,\"B\""], "the table's own order"),
        (&["x=\"B\",a", "y=\"B\",a"], "same name or the same order"),
        (&[], "there is no layout to create"),
    ] {
        create(&node, good, layouts).failed(why);
    }
    create(&node, good, &["X=a"]).usage("lower-case");
    create(&node, good, &["x"]).usage("NAME=column");
    create(&node, "Good", &["x=a"]).usage("KEYSPACE.TABLE");
    let tables = node
        .run("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'no'")
        .len();
    assert_eq!(tables, 7, "a refusal has left a table behind");
    create(&node, good, &["x=\"B\",a"]).succeeded();
    let found = node.run("SELECT k, a, \"B\", f FROM no.\"Good__layout_x\"");
    assert_eq!(found, node.run("SELECT k, a, \"B\", f FROM no.\"Good\""));
    create(&node, good, &["y=\"B\",a"]).failed("the order of layout x");
    create(&node, "no.\"Good__layout_x\"", &["y=a,\"B\""]).failed("holds a layout of no.Good");
    node.layouts(&["verify", good, "--layout", "z"])
        .failed("only x");
    node.layouts(&["verify", "no.few"]).failed("has no layouts");
    // This table may have layouts while it is empty.
    node.run("TRUNCATE no.bags");
    create(&node, "no.bags", &ba).succeeded();
    let status = node.layouts(&["status", "no.\"Good\""]).succeeded();
    assert!(
        status.out.contains("Good__layout_x") && status.out.contains("ready"),
        "{status:?}"
    );
    node.run("DROP TABLE no.\"Good__layout_x\"");
    node.layouts(&["status", "no.\"Good\""])
        .failed("not as they should be");
    node.layouts(&["drop", good, "--no-proxies", "--all"])
        .succeeded();
}

#[test]
fn a_design_is_created_as_advised() {
    let mut node = Node::take();
    node.table("design", &format!("CREATE TABLE design.orders ({ORDERS})"));
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("a path");
    let design = |mode: &str, table: &str| {
        serde_json::json!({
            "table": table, "mode": mode,
            "layouts": [{ "name": "A", "clustering": ["clerk", "id", "day"] }],
        })
    };
    let create = ["create", "design.orders", "--no-proxies", "--design", path];
    for (text, why) in [
        ("{".to_owned(), "no output of"),
        (
            design("replace", "design.orders").to_string(),
            "were removed",
        ),
        (
            design("add", "design.others").to_string(),
            "not for design.orders",
        ),
        (
            "{\"table\": \"orders\", \"mode\": \"add\", \"layouts\": [{}]}".to_owned(),
            "without a name",
        ),
    ] {
        std::fs::write(path, text).expect("written");
        node.layouts(&create).failed(why);
    }
    std::fs::write(path, design("add", "design.orders").to_string()).expect("written");
    node.layouts(&create).succeeded();
    assert_eq!(node.states("design", "orders")["a"], "ready");
}

#[test]
fn what_earlier_versions_had_is_told() {
    let mut node = Node::alone();
    node.table("taken", &format!("CREATE TABLE taken.orders ({ORDERS})"));
    let create = ["create", "taken.orders", "--no-proxies", "--layout"];
    let create = [&create[..], &["a=clerk,id,day"]].concat();
    node.layouts(&[&create[..], &["--mode", "replace"]].concat())
        .usage("were removed");
    // Their catalogue.
    node.run("CREATE TABLE helenus.layouts (keyspace_name text PRIMARY KEY)");
    for command in [
        &create[..],
        &["status"],
        &["drop", "taken.orders", "--no-proxies", "--all"],
    ] {
        node.layouts(command).failed("of an earlier version");
    }
    node.run("DROP TABLE helenus.layouts");
    node.layouts(&create).succeeded();
}
