//! Mishaps: two commands at once, a catalogue that says nonsense, tables changed by hand.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use helenus_tests::catalogue::place;
use helenus_tests::proxy::helenus;
use rustix::process::{Pid, Signal, kill_process};

use crate::{Node, eventually};

const COLUMNS: &str = "k int, a int, b int, v int, PRIMARY KEY (k, a, b)";
const CREATE: [&str; 4] = ["--no-proxies", "--layout", "x=b,a", "--json"];

fn create(node: &Node, table: &str) -> crate::Outcome {
    node.layouts(&[&["create", table][..], &CREATE].concat())
}

fn set(node: &mut Node, keyspace: &str, assignment: &str) {
    let place = place(keyspace, "t", "layout", "x");
    node.change(&format!(
        "UPDATE helenus.catalogue SET {assignment} WHERE {place}"
    ));
}

#[test]
fn a_layout_that_was_opened_meanwhile_is_not_dropped() {
    let mut node = Node::take();
    node.table("race", &format!("CREATE TABLE race.t ({COLUMNS})"));
    create(&node, "race.t").succeeded();
    set(&mut node, "race", "state = 'writing'");
    let contact = node.address.to_string();
    let drop = ["layouts", "drop", "race.t", "--all", "--contact", &contact];
    let mut dropping = helenus(&drop).expect("a program");
    let dropping = dropping
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // It waits until nobody reads the layout; then a command that had filled it ends.
    thread::sleep(Duration::from_secs(5));
    set(&mut node, "race", "state = 'ready'");
    let output = dropping.wait_with_output().expect("ended");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("changed by somebody else"), "{said}");
    // Proxies read it: it must be written for as long as they do.
    assert_eq!(node.states("race", "t")["x"], "ready");
    node.layouts(&["verify", "race.t"]).succeeded();
}

#[test]
fn only_tables_of_layouts_are_emptied_or_dropped() {
    let mut node = Node::take();
    node.table("wrong", &format!("CREATE TABLE wrong.t ({COLUMNS})"));
    node.run("INSERT INTO wrong.t (k, a, b, v) VALUES (1, 2, 3, 4)");
    create(&node, "wrong.t").succeeded();
    set(&mut node, "wrong", "physical = 't'");
    let no_proxies = "--no-proxies";
    node.layouts(&["rebuild", "wrong.t", no_proxies])
        .failed("never named");
    node.layouts(&["verify", "wrong.t", "--repair"])
        .failed("never named");
    let dropped = node.layouts(&["drop", "wrong.t", no_proxies, "--all"]);
    assert!(dropped.succeeded().err.contains("it is not dropped"));
    assert_eq!(node.run("SELECT k FROM wrong.t").len(), 1);
    // The layout's own table was forgotten by that.
    node.layouts(&["drop", "wrong.t", no_proxies, "--layout", "x"])
        .succeeded();
    // A table that somebody has altered.
    create(&node, "wrong.t").succeeded();
    node.run("ALTER TABLE wrong.t__layout_x ADD w int");
    node.layouts(&["verify", "wrong.t"]).succeeded();
    let half = node.layouts(&["status", "wrong.t"]);
    assert!(
        half.failed("1 layouts")
            .out
            .contains("has w int, and wrong.t has not")
    );
    node.run("ALTER TABLE wrong.t__layout_x DROP v");
    let lacking = node.layouts(&["status", "wrong.t"]);
    assert!(
        lacking
            .failed("1 layouts")
            .out
            .contains("does not have v int as")
    );
    for command in [
        &["verify", "wrong.t"][..],
        &["rebuild", "wrong.t", no_proxies],
    ] {
        node.layouts(command).failed("does not have the columns");
    }
    assert_eq!(node.run("SELECT k FROM wrong.t__layout_x").len(), 1);
    assert_eq!(node.states("wrong", "t")["x"], "ready", "it is not touched");
}

#[test]
fn many_rows_that_differ_are_judged_at_the_same_time() {
    let mut node = Node::take();
    node.table("many", &format!("CREATE TABLE many.t ({COLUMNS})"));
    create(&node, "many.t").succeeded();
    let rows: Vec<String> = (0..400)
        .map(|a| format!("INSERT INTO many.t (k, a, b, v) VALUES (1, {a}, 3, 4);"))
        .collect();
    node.run(&format!(
        "BEGIN UNLOGGED BATCH {} APPLY BATCH",
        rows.join(" ")
    ));
    let begin = Instant::now();
    node.layouts(&["verify", "many.t"]).failed("400 rows");
    // Each is looked at twice, half a second apart.
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(100), "{took:?}");
    node.layouts(&["verify", "many.t", "--repair"]).succeeded();
    assert_eq!(node.run("SELECT k FROM many.t__layout_x").len(), 400);
}

#[test]
fn a_row_of_which_cql_does_not_tell_when_it_expires_is_not_repaired() {
    let mut node = Node::take();
    node.table(
        "fading",
        &format!("CREATE TABLE fading.t ({COLUMNS}) WITH default_time_to_live = 10000"),
    );
    create(&node, "fading.t").succeeded();
    node.run("INSERT INTO fading.t (k, a, b, v) VALUES (1, 2, 3, 4)");
    node.run("DELETE v FROM fading.t WHERE k = 1 AND a = 2 AND b = 3");
    node.layouts(&["verify", "fading.t", "--repair"])
        .failed("1 rows");
    // It would stay for ever.
    assert!(node.run("SELECT k FROM fading.t__layout_x").is_empty());
}

#[test]
fn rows_that_were_read_do_not_wait_to_be_written() {
    let mut node = Node::take();
    node.table("slow", &format!("CREATE TABLE slow.t ({COLUMNS})"));
    for a in 0..60 {
        node.run(&format!(
            "INSERT INTO slow.t (k, a, b, v) VALUES (1, {a}, 3, 4)"
        ));
    }
    let contact = node.address.to_string();
    let slowly = [
        "--rows-per-second",
        "1",
        "--parallel",
        "1",
        "--contact",
        &contact,
    ];
    let arguments = [&["layouts", "create", "slow.t"][..], &CREATE, &slowly].concat();
    let mut creating = helenus(&arguments).expect("a program");
    let mut creating = creating
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    eventually("filling has begun", Duration::from_secs(60), || {
        let tables = node.run(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'helenus' AND \
             table_name = 'catalogue'",
        );
        !tables.is_empty() && node.states("slow", "t").contains_key("x")
    });
    // A page is paid for with as many seconds as it has rows.
    eventually("rows are written", Duration::from_secs(20), || {
        !node.run("SELECT k FROM slow.t__layout_x").is_empty()
    });
    assert!(matches!(creating.try_wait(), Ok(None)), "it goes slowly");
    creating.kill().expect("killed");
    creating.wait().expect("ended");
}

#[test]
fn an_interrupted_layout_of_what_was_an_empty_table_is_finished() {
    let mut node = Node::take();
    node.table(
        "lists",
        "CREATE TABLE lists.t (k int, a int, b int, l list<int>, PRIMARY KEY (k, a, b))",
    );
    create(&node, "lists.t").succeeded();
    // As if it had been interrupted, and clients have written to both since.
    set(&mut node, "lists", "state = 'writing'");
    for table in ["lists.t", "lists.t__layout_x"] {
        node.run(&format!(
            "INSERT INTO {table} (k, a, b, l) VALUES (1, 2, 3, [4])"
        ));
    }
    create(&node, "lists.t").succeeded();
    assert_eq!(node.states("lists", "t")["x"], "ready");
    // Rows that the layout has missed are not copied.
    set(&mut node, "lists", "state = 'writing'");
    node.run("INSERT INTO lists.t (k, a, b, l) VALUES (1, 3, 3, [4])");
    create(&node, "lists.t").failed("1 rows");
    assert_eq!(node.states("lists", "t")["x"], "writing");
}

#[test]
fn a_command_that_stood_still_while_another_took_over_copies_nothing_more() {
    let mut node = Node::take();
    node.table("stood", &format!("CREATE TABLE stood.t ({COLUMNS})"));
    for k in 0..60 {
        node.run(&format!(
            "INSERT INTO stood.t (k, a, b, v) VALUES ({k}, 2, 3, 4)"
        ));
    }
    let contact = node.address.to_string();
    let slowly = [
        "--rows-per-second",
        "3",
        "--parallel",
        "1",
        "--contact",
        &contact,
    ];
    let arguments = [&["layouts", "create", "stood.t"][..], &CREATE, &slowly].concat();
    let mut creating = helenus(&arguments).expect("a program");
    let creating = creating.stdout(Stdio::null()).stderr(Stdio::piped());
    let creating = creating.spawn().expect("it starts");
    eventually("rows are copied", Duration::from_secs(60), || {
        node.states("stood", "t").contains_key("x")
            && !node.run("SELECT k FROM stood.t__layout_x").is_empty()
    });
    let signalled = |signal| kill_process(Pid::from_child(&creating), signal).expect("it runs");
    signalled(Signal::STOP);
    create(&node, "stood.t").succeeded();
    assert_eq!(node.run("SELECT k FROM stood.t__layout_x").len(), 60);
    node.run("TRUNCATE stood.t__layout_x");
    signalled(Signal::CONT);
    let output = creating.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("changed by somebody else"), "{said}");
    let written = node.run("SELECT k FROM stood.t__layout_x");
    assert!(written.is_empty(), "{} rows", written.len());
    node.layouts(&["drop", "stood.t", "--no-proxies", "--all"])
        .succeeded();
}
