//! A command that stood still after it had looked into the catalogue, until another had taken over.

use std::process::Stdio;
use std::sync::Arc;

use helenus_tests::relay::{Hold, Relay};

use crate::{Node, eventually, shared};

#[test]
fn a_column_that_another_command_fills_again_is_not_dropped() {
    let cluster = shared();
    let mut node = Node::of(&cluster);
    node.keyspace("late");
    node.run("CREATE TABLE late.t (k int PRIMARY KEY, doc text)");
    for k in 0..50 {
        node.run(&format!(
            "INSERT INTO late.t (k, doc) VALUES ({k}, '{{\"k\": {k}}}')"
        ));
    }
    let enable = [
        "enable",
        "late.t",
        "doc",
        "--codec",
        "cbor",
        "--yes",
        "--no-proxies",
    ];
    node.payload(&enable).succeeded();
    let hold = Arc::new(Hold::default());
    let ip = node.address.ip().to_string();
    let relay = Relay::holding(&ip, node.address, hold.clone()).expect("a relay");
    let through = Node {
        connection: cluster.connect(1).expect("a connection"),
        address: relay.address,
    };
    let mut command = through.command(&["disable", "late.t", "doc"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let first = command.spawn().expect("it starts");
    eventually("all values are texts again", || {
        node.state("late", "t", "doc").as_deref() == Some("announced")
    });
    // It has looked into the catalogue, and looks whether there is a column to drop.
    hold.arm(
        "FROM system_schema.columns WHERE keyspace_name = 'late' AND table_name = 't'",
        0,
    );
    eventually("it is about to drop the column", || hold.is_holding());
    node.payload(&enable).succeeded();
    hold.release();
    let output = first.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("changed by somebody else"), "{said}");
    assert_eq!(
        node.state("late", "t", "doc").as_deref(),
        Some("encoded_only")
    );
    let encoded = node.run("SELECT doc__encoded FROM late.t");
    assert_eq!(encoded.iter().filter(|row| row[0].is_some()).count(), 50);
}
