//! Costs of reads on a real node, and what becomes of them.

use std::process::Stdio;
use std::time::Duration;

use helenus_tests::proxy::helenus;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{Node, Outcome, eventually};

const COEFFICIENTS: [&str; 6] = [
    "request_us",
    "slice_us",
    "row_us",
    "block_us",
    "compare_us",
    "write_row_us",
];

/// Keyspaces that a calibration has made.
fn keyspaces(node: &mut Node) -> Vec<String> {
    let rows = node.run("SELECT keyspace_name FROM system_schema.keyspaces");
    let names = rows.iter().filter_map(|row| row[0].clone());
    let names = names.map(|name| String::from_utf8_lossy(&name).into_owned());
    names
        .filter(|name| name.starts_with("helenus_calibrate_"))
        .collect()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn coefficients_are_measured_and_used() {
    let mut node = Node::alone();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| {
        folder
            .path()
            .join(name)
            .to_str()
            .expect("a path")
            .to_owned()
    };
    let costs = file("costs.json");
    let found = node.layouts(&["calibrate", "--json", "--seconds", "25", "--out", &costs]);
    let found = found.succeeded();
    assert_eq!(keyspaces(&mut node), [""; 0]);
    let report = found.json();
    println!("{report:#}");
    for name in COEFFICIENTS {
        let value = number(&report["coefficients"][name]);
        assert!(value.is_finite() && value >= 0.0, "{name}: {value}");
    }
    for name in ["request_us", "row_us", "write_row_us"] {
        assert!(number(&report["coefficients"][name]) > 0.0, "{name}");
    }
    assert!(number(&report["condition"]) < 100.0);
    // A node that does nothing else is predicted well enough to tell cheap from dear.
    assert!(
        number(&report["held_out"]["rank_correlation"]) > 0.5,
        "{report:#}"
    );
    let kept: Value =
        serde_json::from_str(&std::fs::read_to_string(&costs).expect("a file")).expect("JSON");
    assert_eq!(kept, report);
    // A design with them, without the nodes.
    let (workload, rows) = (file("workload.cql"), file("rows.csv"));
    let statement = "SELECT sum(v) FROM k.t WHERE p = ? AND b = ? ALLOW FILTERING";
    let table = "CREATE TABLE k.t (p int, a int, b int, v int, PRIMARY KEY (p, a, b));";
    std::fs::write(&workload, format!("{table}\n{statement}\n")).expect("a file");
    let lines = (0..2_000).map(|n| format!("1,{n},{}\n", n % 20));
    std::fs::write(&rows, format!("p,a,b\n{}", lines.collect::<String>())).expect("a file");
    let advise = ["advise", "--workload", &workload, "--rows", &rows, "--json"];
    let command = |more: &[&str]| {
        let mut command = helenus(&["layouts"]).expect("a program");
        Outcome::of(command.args(advise).args(more))
    };
    let typical = command(&[]).succeeded().json();
    let calibrated = command(&["--coefficients", &costs]).succeeded().json();
    assert_eq!(typical["coefficients"], "typical");
    assert_eq!(calibrated["coefficients"], "calibrated");
    for at in 0..3 {
        let clustering = |of: &Value| of["layouts"][at]["clustering"].clone();
        assert_eq!(clustering(&calibrated), clustering(&typical), "rows decide");
    }
    assert_ne!(calibrated["cost_us_now"], typical["cost_us_now"]);
    command(&["--coefficients", &rows]).failed("is no file of coefficients");
    node.layouts(&["calibrate", "--out", "/nowhere/costs.json"])
        .failed("cannot write /nowhere/costs.json");
}

#[test]
fn an_interrupted_calibration_leaves_nothing() {
    let mut node = Node::alone();
    for signal in [Signal::INT, Signal::TERM] {
        let contact = node.address.to_string();
        let mut command =
            helenus(&["layouts", "calibrate", "--contact", &contact]).expect("a program");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        eventually("a keyspace", Duration::from_secs(60), || {
            !keyspaces(&mut node).is_empty()
        });
        let pid = Pid::from_raw(child.id() as i32).expect("a process");
        kill_process(pid, signal).expect("a signal");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert_eq!(keyspaces(&mut node), [""; 0], "{output:?}");
    }
}

/// One that was killed leaves its keyspace, and the next run says so.
#[test]
fn what_a_killed_calibration_has_left_is_told() {
    let mut node = Node::alone();
    let left = "helenus_calibrate_0123456789abcdef";
    node.run(&format!(
        "CREATE KEYSPACE {left} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    ));
    let contact = node.address.to_string();
    let mut command = helenus(&["layouts", "calibrate", "--contact", &contact]).expect("a program");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    eventually("a keyspace of its own", Duration::from_secs(60), || {
        keyspaces(&mut node).len() == 2
    });
    let pid = Pid::from_raw(child.id() as i32).expect("a process");
    kill_process(pid, Signal::INT).expect("a signal");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("DROP KEYSPACE {left}")), "{said}");
    assert_eq!(
        keyspaces(&mut node),
        [left],
        "that of others is not touched"
    );
    node.run(&format!("DROP KEYSPACE {left}"));
}
