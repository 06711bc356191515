//! The catalogue as a proxy knows it.

use std::time::Duration;

use helenus_tests::catalogue::place;
use helenus_tests::proxy::{Proxy, check};

use crate::{Node, eventually, metric};

const ON: [&str; 2] = ["layouts.enabled=true", "listen.workers=1"];
/// A proxy reads the catalogue every three seconds.
const PATIENCE: Duration = Duration::from_secs(15);

/// The layouts that a proxy knows, by what it does with them.
fn known(proxy: &Proxy, state: &str) -> u64 {
    metric(proxy, &format!("helenus_layouts{{state=\"{state}\"}}"))
}

fn holds_lease(proxy: &Proxy) -> bool {
    let (_, page) = proxy.admin_get("/metrics", None).expect("metrics");
    page.contains("helenus_catalogue_lease_held{of=\"catalogue\"} 1")
}

#[test]
fn a_proxy_follows_the_catalogue_and_says_what_does_not_fit() {
    let mut node = Node::alone();
    let columns = "k int, a int, b int, v int, PRIMARY KEY (k, a, b)";
    node.table("seen", &format!("CREATE TABLE seen.t ({columns})"));
    let proxy = Proxy::start(&[node.address], &ON).expect("a proxy");
    assert!(
        holds_lease(&proxy),
        "it had read the catalogue before it was ready"
    );
    let (read, written, wrong) = (
        known(&proxy, "read"),
        known(&proxy, "written"),
        known(&proxy, "wrong"),
    );
    let create = ["create", "seen.t", "--no-proxies", "--layout", "x=b,a"];
    node.layouts(&create).succeeded();
    eventually("the layout is read", PATIENCE, || {
        known(&proxy, "read") == read + 1
    });
    let ready = check(&[node.address], &ON).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&ready).expect("JSON");
    let problems = report["problems"].to_string();
    assert!(!problems.contains("seen.t"), "{problems}");
    assert_eq!(report["layouts"]["ready"], read + 1);
    // Somebody has written to the catalogue by hand: the order is a lie, and one table is not there.
    let [x, y] = ["x", "y"].map(|layout| place("seen", "t", "layout", layout));
    node.change(&format!(
        "UPDATE helenus.catalogue SET clustering = ['a', 'b'] WHERE {x}"
    ));
    node.change(&format!(
        "UPDATE helenus.catalogue SET physical = 't__layout_y', clustering = ['b', 'a'], state = 'ready' WHERE {y}"
    ));
    eventually("the lies are noticed", PATIENCE, || {
        let now = ["read", "written", "wrong"].map(|state| known(&proxy, state));
        now == [read, written + 1, wrong + 2]
    });
    proxy.expect_logged("layout x of seen.t is not read");
    let log = proxy.expect_logged("layout y of seen.t is not written");
    let told = log.matches("layout y of seen.t is not written").count();
    let report = check(&[node.address], &ON).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let problems = report["problems"].to_string();
    assert!(
        problems.contains("layout y of seen.t is not written"),
        "{problems}"
    );
    node.layouts(&["status", "seen.t"])
        .failed("2 layouts are not as they should be");
    node.change(&format!("DELETE FROM helenus.catalogue WHERE {y}"));
    node.layouts(&["drop", "seen.t", "--no-proxies", "--all"])
        .succeeded();
    eventually("it is forgotten", PATIENCE, || {
        let now = ["read", "written", "wrong"].map(|state| known(&proxy, state));
        now == [read, written, wrong]
    });
    assert!(holds_lease(&proxy));
    assert_eq!(told, 1, "it was told more than once");
}

#[test]
fn without_the_setting_nobody_asks() {
    let node = Node::take();
    let proxy = Proxy::start(&[node.address], &["listen.workers=1"]).expect("a proxy");
    let (_, page) = proxy.admin_get("/metrics", None).expect("metrics");
    assert!(!page.contains("helenus_layouts"), "{page}");
}
