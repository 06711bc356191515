//! A command that stood still after it had looked into the catalogue, until another had taken over.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use helenus_tests::proxy::helenus;
use helenus_tests::relay::{Hold, Relay};

use crate::{Node, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

/// A command that stands still when it is told to.
struct Late {
    command: Child,
    hold: Arc<Hold>,
    _relay: Relay,
}

impl Late {
    fn begin(node: &Node, arguments: &[&str]) -> Late {
        let hold = Arc::new(Hold::default());
        let ip = node.address.ip().to_string();
        let relay = Relay::holding(&ip, node.address, hold.clone()).expect("a relay");
        let contact = relay.address.to_string();
        let arguments = [&["layouts"], arguments, &["--contact", &contact]].concat();
        let mut command = helenus(&arguments).expect("a program");
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Late {
            command: command.spawn().expect("it starts"),
            hold,
            _relay: relay,
        }
    }

    /// Each look reads the catalogue twice: it is to go on with what the second reading tells, and nothing else.
    fn stands_still_behind_a_look(&self) {
        self.hold.arm("FROM helenus.catalogue", 1);
        eventually("it has looked", PATIENCE, || self.hold.is_holding());
    }

    /// Lets it go on; returns its errors at the end.
    fn goes_on(self) -> String {
        self.hold.release();
        let output = self.command.wait_with_output().expect("it ends");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

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
    let late = Late::begin(&node, &["rebuild", "late.t"]);
    eventually("the layout is closed", PATIENCE, || {
        node.states("late", "t")["x"] == "writing"
    });
    late.stands_still_behind_a_look();
    node.layouts(&create).succeeded();
    assert_eq!(node.states("late", "t")["x"], "ready");
    let said = late.goes_on();
    assert!(said.contains("changed by somebody else"), "{said}");
    assert_eq!(node.run("SELECT k FROM late.t__layout_x").len(), 50);
    node.layouts(&["drop", "late.t", "--all", "--no-proxies"])
        .succeeded();
}

#[test]
fn a_layout_that_another_command_has_made_anew_is_not_dropped() {
    let mut node = Node::take();
    node.table(
        "anew",
        "CREATE TABLE anew.t (k int, a int, b int, PRIMARY KEY (k, a, b))",
    );
    let create = ["create", "anew.t", "--layout", "x=b,a"];
    node.layouts(&[&create[..], &["--no-proxies"]].concat())
        .succeeded();
    let late = Late::begin(&node, &["drop", "anew.t", "--layout", "x"]);
    eventually("the layout is out of the catalogue", PATIENCE, || {
        node.states("anew", "t").is_empty()
    });
    late.stands_still_behind_a_look();
    node.layouts(&create).succeeded();
    let said = late.goes_on();
    assert!(said.contains("created meanwhile"), "{said}");
    assert_eq!(node.states("anew", "t")["x"], "ready");
    assert!(node.run("SELECT k FROM anew.t__layout_x").is_empty());
    node.layouts(&["drop", "anew.t", "--all", "--no-proxies"])
        .succeeded();
}
