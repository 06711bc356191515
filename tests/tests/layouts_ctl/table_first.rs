//! TRUNCATE and ALTER TABLE … DROP of tables with layouts, and `helenus layouts truncate`.

use std::net::TcpStream;
use std::process::Stdio;
use std::thread;

use helenus_tests::proxy::{Proxy, helenus};
use helenus_tests::raw::{Client, ONE};

use crate::sweep::{ON, PATIENCE, assert_equal, make, read};
use crate::{Node, ask as run, eventually};

type Connected = Client<TcpStream>;

fn connected(node: &Node) -> (Proxy, Connected) {
    let proxy = Proxy::start(&[node.address], &ON).expect("a proxy");
    let client = Client::ready(proxy.address, 5).expect("a client");
    (proxy, client)
}

/// A table with a layout in its keyspace, and a row.
fn make_beside(node: &mut Node, keyspace: &str) {
    node.table(
        keyspace,
        &format!("CREATE TABLE {keyspace}.t (k int, a int, b int, v int, PRIMARY KEY (k, a, b))"),
    );
    node.run(&format!(
        "INSERT INTO {keyspace}.t (k, a, b, v) VALUES (1, 2, 3, 4) USING TIMESTAMP 1000"
    ));
    let table = format!("{keyspace}.t");
    node.layouts(&["create", &table, "--no-proxies", "--layout", "x=b,a"])
        .succeeded();
}

#[test]
fn a_truncated_table_shows_nothing_of_before_on_any_proxy_and_its_layouts_are_compared() {
    let mut node = Node::take();
    make(&mut node, "emptied", 4);
    let mut proxies = [connected(&node), connected(&node)];
    for (proxy, client) in &mut proxies {
        eventually("the layout is read", PATIENCE, || {
            read(proxy, client, "emptied", 1) == (10, true)
        });
    }
    run(&mut proxies[0].1, "TRUNCATE emptied.t");
    for (proxy, client) in &mut proxies {
        for k in 0..4 {
            assert_eq!(read(proxy, client, "emptied", k).0, 0);
        }
    }
    let insert = "INSERT INTO emptied.t (k, a, b, v) VALUES (1, 2, 3, 4)";
    let [(first, client), (second, others)] = &mut proxies;
    run(client, insert);
    assert_eq!(
        read(first, client, "emptied", 1),
        (1, false),
        "of the table"
    );
    eventually("the catalogue says so", PATIENCE, || {
        node.states("emptied", "t")["x"] == "behind"
    });
    eventually("the other proxy knows", PATIENCE, || {
        read(second, others, "emptied", 1) == (1, false)
    });
    // It can be repeated at any time.
    run(others, "TRUNCATE emptied.t");
    assert_eq!(read(first, client, "emptied", 1), (0, false));
    run(client, insert);
    // What the last TRUNCATE has told may come only when a sweep has begun, which begins again then.
    eventually("a sweep opens the layout", PATIENCE, || {
        let swept = node.layouts(&["sweep", "emptied.t", "--once"]);
        swept.code == Some(0) && node.states("emptied", "t")["x"] == "ready"
    });
    assert_equal(&mut node, "emptied");
    eventually("the layout is read again", PATIENCE, || {
        read(first, client, "emptied", 1) == (1, true)
    });
}

#[test]
fn a_dropped_column_is_gone_from_layouts_and_its_values_stay_away_when_it_is_added_again() {
    let mut node = Node::take();
    make(&mut node, "leaner", 2);
    make_beside(&mut node, "leanest");
    let (_proxy, mut client) = connected(&node);
    for (keyspace, physical) in [
        ("leaner", "leaner__layouts.t__layout_x"),
        ("leanest", "leanest.t__layout_x"),
    ] {
        let refused = client.try_query(&format!("ALTER TABLE {keyspace}.t DROP a"), ONE);
        assert!(refused.expect("an answer").is_err(), "a column of the key");
        for statement in ["DROP v", "DROP IF EXISTS v", "ADD v int"] {
            run(
                &mut client,
                &format!("ALTER TABLE {keyspace}.t {statement}"),
            );
        }
        node.layouts(&["status", &format!("{keyspace}.t")])
            .succeeded();
        let insert = format!("INSERT INTO {keyspace}.t (k, a, b, v) VALUES (9, 9, 9, 9)");
        // Until the proxy has looked at the tables again, it writes what it knows.
        eventually("the column is written again", PATIENCE, || {
            client.try_query(&insert, ONE).expect("an answer").is_ok()
        });
        for table in [&format!("{keyspace}.t"), physical] {
            let values = node.run(&format!("SELECT k, v FROM {table}"));
            let told: Vec<_> = values.iter().filter(|row| row[1].is_some()).collect();
            assert_eq!(told.len(), 1, "{table}: {values:?}");
        }
        node.layouts(&["verify", &format!("{keyspace}.t")])
            .succeeded();
    }
}

#[test]
fn a_table_and_its_layouts_are_emptied_while_clients_write() {
    let mut node = Node::take();
    make_beside(&mut node, "cleared");
    make(&mut node, "cleared_far", 4);
    let (_proxy, mut client) = connected(&node);
    for keyspace in ["cleared", "cleared_far"] {
        let table = format!("{keyspace}.t");
        let truncate = ["truncate", &table, "--json"];
        node.layouts(&truncate).failed("--yes");
        let refused = client.try_query("TRUNCATE cleared.t", ONE);
        let refused = refused.expect("an answer").expect_err("it is refused");
        assert!(
            refused
                .message
                .contains("helenus layouts truncate cleared.t"),
            "{refused:?}"
        );
        // True if it was acknowledged: a proxy that has lost its lease, on a busy machine, refuses for a moment.
        let insert = |client: &mut Connected, a: usize| {
            let cql = format!("INSERT INTO {table} (k, a, b, v) VALUES (5, {a}, 3, 1)");
            let answer = client.try_query(&cql, ONE).expect("an answer");
            answer.map_err(|fault| println!("{cql}: {fault:?}")).is_ok()
        };
        assert!(insert(&mut client, 0));
        let node = &mut node;
        let (mut asked, mut written) = (0, 0);
        thread::scope(|scope| {
            let contact = node.address.to_string();
            let emptying = scope.spawn(move || {
                let mut command = helenus(&["layouts"]).expect("a program");
                command
                    .args(truncate)
                    .args(["--yes", "--contact", &contact]);
                crate::Outcome::of(&mut command)
            });
            while !emptying.is_finished() {
                asked += 1;
                written += usize::from(insert(&mut client, asked));
                thread::yield_now();
            }
            emptying.join().expect("it ends").succeeded();
        });
        eventually("it is written again", PATIENCE, || {
            insert(&mut client, asked + 1)
        });
        assert!(written > 10, "{written} of {asked}");
        let own = node.run(&format!("SELECT k, a FROM {table}")).len();
        assert!((1..=asked + 1).contains(&own), "{own} of {asked}");
        assert_eq!(node.states(keyspace, "t")["x"], "ready");
        if keyspace == "cleared" {
            node.layouts(&["verify", &table]).succeeded();
            continue;
        }
        // What a busy node has only noted as a hint, or a client has not heard of, comes later.
        eventually("the layout equals its table", PATIENCE, || {
            let swept = node.layouts(&["sweep", &table, "--once"]);
            swept.code == Some(0) && node.layouts(&["verify", &table]).code == Some(0)
        });
    }
}

#[test]
fn a_truncate_that_was_killed_can_be_run_again() {
    let mut node = Node::take();
    make_beside(&mut node, "cut");
    let contact = node.address.to_string();
    let arguments = ["layouts", "truncate", "cut.t", "--yes"];
    let mut command = helenus(&arguments).expect("a program");
    command.args(["--contact", &contact]);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut killed = command.spawn().expect("it starts");
    eventually("the layout is put aside", PATIENCE, || {
        node.states("cut", "t")["x"] == "writing"
    });
    killed.kill().expect("killed");
    killed.wait().expect("it has ended");
    let again = ["truncate", "cut.t", "--yes", "--no-proxies"];
    node.layouts(&again).succeeded();
    assert_eq!(node.states("cut", "t")["x"], "ready");
    for table in ["cut.t", "cut.t__layout_x"] {
        assert!(node.run(&format!("SELECT k FROM {table}")).is_empty());
    }
}

#[test]
fn a_column_that_was_dropped_of_the_table_alone_shows_nothing_of_before_when_it_is_added_again() {
    let mut node = Node::take();
    make_beside(&mut node, "half");
    let (_proxy, mut client) = connected(&node);
    let of_layout = "SELECT v FROM half.t WHERE k = 1 AND b = 3 ALLOW FILTERING";
    let shows = |client: &mut Connected, value: Option<i32>| {
        let rows = client.query(of_layout).expect("rows");
        rows == [[value.map(|value| value.to_be_bytes().to_vec())]]
    };
    // It is read.
    node.run("UPDATE half.t__layout_x SET v = 5 WHERE k = 1 AND b = 3 AND a = 2");
    eventually("the layout is read", PATIENCE, || {
        shows(&mut client, Some(5))
    });
    // As a DROP leaves them that has failed on the layout, and an ADD of whoever did not repeat it.
    node.run("ALTER TABLE half.t DROP v");
    node.run("ALTER TABLE half.t ADD v int");
    eventually("the table is read", PATIENCE, || shows(&mut client, None));
    let status = node.layouts(&["status", "half.t"]);
    let status = status.failed("not as they should be");
    assert!(status.out.contains("was not dropped"), "{status:?}");
    node.layouts(&["rebuild", "half.t"]).succeeded();
    node.layouts(&["status", "half.t"]).succeeded();
    // A proxy that knows says what comes first.
    node.run("ALTER TABLE half.t DROP v");
    let add = "ALTER TABLE half.t ADD v int";
    eventually("the proxy knows", PATIENCE, || {
        let refused = client.try_query(add, ONE).expect("an answer");
        let fault = refused.expect_err("the layout still has it");
        fault.message.contains("DROP IF EXISTS v")
    });
    run(&mut client, "ALTER TABLE half.t DROP IF EXISTS v");
    eventually("it is added again", PATIENCE, || {
        client.try_query(add, ONE).expect("an answer").is_ok()
    });
    assert!(shows(&mut client, None));
    node.layouts(&["status", "half.t"]).succeeded();
}
