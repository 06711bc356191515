//! Links that an operator has replaced.

use helenus_tests::proxy::{Proxy, helenus};
use helenus_tests::scripted::{self, Node, Verdict};

use crate::{client, eventually, proxy, served_as};

const TOKEN: &[u8] = b"\0app\0pw";

/// Links that are up.
fn links(proxy: &Proxy) -> u64 {
    let (_, page) = proxy.admin_get("/metrics", None).expect("metrics");
    let mut lines = page.lines();
    let line = lines.find(|line| line.starts_with("helenus_node_links_up{"));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no links are counted:\n{page}"))
}

/// How often the role was judged.
fn logins(node: &Node) -> usize {
    let logins = node.logins();
    logins.iter().filter(|token| *token == TOKEN).count()
}

fn judge(node: &Node, verdict: Verdict) {
    node.set_judge(move |token| match token {
        TOKEN => verdict.clone(),
        _ => Verdict::Accept,
    });
}

#[test]
fn a_link_is_kept_until_another_one_is_there() {
    let nodes = scripted::start(1).expect("a node");
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("admin.sock").display().to_string();
    let proxy = proxy(&nodes, &[&format!("admin.socket={socket:?}")]);
    let mut client = client(&proxy, "app");
    // One at the worker that has the client.
    eventually("its link is there", || links(&proxy) == 1);

    judge(&nodes[0], Verdict::Close);
    let before = logins(&nodes[0]);
    let mut command = helenus(&["ctl", "--socket", &socket, "reconnect"]).expect("a command");
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 connections to 1 nodes"), "{output:?}");
    eventually("no other can be opened", || {
        proxy
            .log()
            .contains("connections are kept, as no others can be opened")
    });
    assert!(logins(&nodes[0]) > before);
    assert_eq!(links(&proxy), 1);
    assert_eq!(served_as(&mut client).expect("served"), "\0app\0pw");

    judge(&nodes[0], Verdict::Accept);
    let before = logins(&nodes[0]);
    eventually("another one is opened", || {
        assert_eq!(served_as(&mut client).expect("served"), "\0app\0pw");
        logins(&nodes[0]) > before
    });
    eventually("the old one is closed", || {
        proxy.log().contains("link closed") && links(&proxy) == 1
    });
    assert_eq!(served_as(&mut client).expect("served"), "\0app\0pw");
}
