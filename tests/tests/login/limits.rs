//! Rules for roles, networks and applications, of a proxy that reloads them.

use std::fmt::Write as _;
use std::net::TcpStream;
use std::path::Path;

use helenus_tests::proxy::{Options, Proxy, free_addresses};
use helenus_tests::raw::{Client, ONE, op};
use helenus_tests::scripted::{self, Node, PASSWORD_AUTHENTICATOR};
use serde_json::Value;

use crate::{SETTINGS, asked, asked_from, client, eventually};

const OVERLOADED: i32 = 0x1001;
const UNAUTHORIZED: i32 = 0x2100;
const READ: &str = "SELECT token FROM k.t WHERE k = 1";

fn write_settings(path: &Path, proxy: (std::net::SocketAddr, std::net::SocketAddr), rules: &str) {
    let (address, admin) = proxy;
    let mut text = format!("[listen]\naddress = '{address}'\n[admin]\naddress = '{admin}'\n");
    writeln!(text, "{rules}").expect("written");
    std::fs::write(path, text).expect("a file");
}

fn started(nodes: &[Node], path: &Path, rules: &str) -> Proxy {
    let addresses = free_addresses("127.78.0.1").expect("ports");
    write_settings(path, addresses, rules);
    let points: Vec<_> = nodes.iter().map(|node| node.address).collect();
    let mut proxy = Proxy::launch(&Options {
        contact_points: &points,
        settings: &SETTINGS,
        config: Some(path),
        addresses: Some(addresses),
        ..Options::default()
    })
    .expect("spawned");
    proxy.wait_ready().expect("ready");
    proxy
}

/// The code and text of the error that a read is answered with.
fn refusal(client: &mut Client<TcpStream>) -> Option<(i32, String)> {
    let answer = client.try_query(READ, ONE).expect("an answer");
    answer.err().map(|fault| (fault.code, fault.message))
}

fn rules(proxy: &Proxy) -> Vec<Value> {
    let (_, page) = proxy.admin_get("/api/rules", None).expect("rules");
    serde_json::from_str(&page).expect("a list")
}

#[test]
fn rules_are_for_the_clients_that_they_name_and_change_under_them() {
    let nodes = scripted::start(1).expect("a node");
    nodes[0].set_authenticator(Some(PASSWORD_AUTHENTICATOR));
    let own = tempfile::tempdir().expect("a folder");
    let path = own.path().join("helenus.toml");
    let role =
        "[[rules]]\nname = 'no reports'\nrole = ['reporting', 'other']\ndeny = 'at night only'\n";
    let network = "[[rules]]\nname = 'abroad'\nclient = '127.0.0.2'\nin_flight = 0\n";
    let named =
        "[[rules]]\nname = 'batch job'\napplication = 'nightly'\nrequests_per_second = 0.001\n";
    let proxy = started(&nodes, &path, &format!("{role}{network}{named}"));
    let mut app = client(&proxy, "app");
    let mut reporting = client(&proxy, "reporting");
    assert_eq!(refusal(&mut app), None);
    let (code, text) = refusal(&mut reporting).expect("a refusal");
    assert_eq!(code, UNAUTHORIZED);
    assert!(
        text.contains("rule \"no reports\" denies this: at night only"),
        "{text}"
    );
    // Noise before the name changes nothing, and its driver can still look around.
    let mut noisy = asked(&proxy);
    let answer = noisy.log_in(b"noise\0reporting\0pw").expect("an answer");
    assert_eq!(answer.opcode, op::AUTH_SUCCESS);
    assert!(refusal(&mut noisy).is_some());
    assert_eq!(
        noisy
            .query("SELECT * FROM system.local")
            .expect("rows")
            .len(),
        1
    );
    let mut abroad = asked_from([127, 0, 0, 2], &proxy);
    assert_eq!(
        abroad.log_in(b"\0app\0pw").expect("an answer").opcode,
        op::AUTH_SUCCESS
    );
    let (code, text) = refusal(&mut abroad).expect("a refusal");
    assert!(
        code == OVERLOADED && text.contains("rule \"abroad\""),
        "{text}"
    );
    let mut nightly = Client::connect(proxy.address, 4).expect("connect");
    nightly
        .hello(&[("APPLICATION_NAME", "nightly")])
        .expect("an answer");
    assert_eq!(
        nightly.log_in(b"\0app\0pw").expect("an answer").opcode,
        op::AUTH_SUCCESS
    );
    assert_eq!(refusal(&mut nightly), None);
    assert_eq!(
        refusal(&mut nightly).map(|(code, _)| code),
        Some(OVERLOADED)
    );

    let before = rules(&proxy);
    assert_eq!(
        (&before[0]["refused"], &before[0]["role"][1]),
        (&2.into(), &"other".into())
    );
    // The roles change places; what was counted stays.
    let role = role.replace("['reporting', 'other']", "'app'");
    write_settings(&path, (proxy.address, proxy.admin), &role);
    proxy.reload().expect("a signal");
    eventually("the rules change", || rules(&proxy).len() == 1);
    eventually("they are in force", || refusal(&mut app).is_some());
    assert_eq!(refusal(&mut reporting), None);
    assert!(refusal(&mut abroad).is_some_and(|(code, _)| code == UNAUTHORIZED));
    let after = rules(&proxy);
    assert!(after[0]["refused"].as_u64() >= Some(4), "{after:?}");
    assert_eq!(after[0]["role"], "app");
}
