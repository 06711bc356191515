//! The dashboard of a proxy whose nodes and whose admin server both ask who one is.

use helenus_tests::dashboard::{Shown, check};
use helenus_tests::scripted;

use crate::{client, proxy, served_as};

#[test]
fn the_dashboard_shows_nodes_that_ask_for_logins_to_whoever_has_a_token() {
    let nodes = scripted::start(2).expect("nodes");
    let settings = ["admin.token=everything", "admin.read_token=only-read"];
    let proxy = proxy(&nodes, &settings);
    let mut app = client(&proxy, "app");
    for _ in 0..40 {
        assert_eq!(served_as(&mut app).expect("served"), "\0app\0pw");
    }
    let shown = Shown {
        tokens: ["everything", "only-read"],
        cluster: "scripted",
        nodes: nodes.len(),
        role: "app",
        requests: 40,
    };
    check(&proxy, &shown);
    assert_eq!(served_as(&mut app).expect("served"), "\0app\0pw");
}
