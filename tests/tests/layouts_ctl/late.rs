//! A command that stood still after it had looked into the catalogue, until another had taken over.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use helenus_tests::proxy::helenus;
use helenus_tests::relay::{Hold, Relay};

use crate::{Node, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_layout_that_another_command_has_filled_is_not_emptied() {
    let mut node = Node::take();
    node.table(
        "late",
        "CREATE TABLE late.t (k int, a int, b int, PRIMARY KEY (k, a, b))",
    );
    for k in 0..50 {
        node.run(&format!("INSERT INTO late.t (k, a, b) VALUES ({k}, 2, 3)"));
    }
    let create = ["create", "late.t", "--layout", "x=b,a"];
    node.layouts(&[&create[..], &["--no-proxies"]].concat())
        .succeeded();
    let hold = Arc::new(Hold::default());
    let ip = node.address.ip().to_string();
    let relay = Relay::holding(&ip, node.address, hold.clone()).expect("a relay");
    let contact = relay.address.to_string();
    let rebuild = ["layouts", "rebuild", "late.t", "--contact", &contact];
    let mut first = helenus(&rebuild).expect("a program");
    let first = first.stdout(Stdio::null()).stderr(Stdio::piped());
    let first = first.spawn().expect("it starts");
    eventually("the layout is closed", PATIENCE, || {
        node.states("late", "t")["x"] == "writing"
    });
    // Each look reads the catalogue twice: it is to go on with what the second reading tells, and nothing else.
    hold.arm("FROM helenus.catalogue", 1);
    eventually("it is about to empty the layout", PATIENCE, || {
        hold.is_holding()
    });
    node.layouts(&create).succeeded();
    assert_eq!(node.states("late", "t")["x"], "ready");
    hold.release();
    let output = first.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("changed by somebody else"), "{said}");
    assert_eq!(node.run("SELECT k FROM late.t__layout_x").len(), 50);
    node.layouts(&["drop", "late.t", "--all", "--no-proxies"])
        .succeeded();
}
