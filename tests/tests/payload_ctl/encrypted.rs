//! The commands over TLS.

use std::path::Path;

use crate::{Node, shared};

#[test]
fn a_column_is_encoded_and_taken_back_over_tls() {
    let cluster = shared();
    let mut node = Node::of(&cluster);
    node.keyspace("tls");
    node.run("CREATE TABLE tls.t (k int PRIMARY KEY, doc text)");
    for k in 0..50 {
        node.run(&format!(
            "INSERT INTO tls.t (k, doc) VALUES ({k}, '{{\"number\":{k}}}')"
        ));
    }
    let files = cluster.tls_files().expect("certificates");
    let path = |path: &Path| path.display().to_string();
    let (ca, certificate) = (path(&files.ca_pem), path(&files.client_cert_pem));
    let payload = |arguments: &[&str], tls: &[&str]| node.payload(&[arguments, tls].concat());
    let trust = ["--tls-ca", &ca];

    payload(&["advise", "tls.t", "doc"], &trust).succeeded();
    let enable = [
        "enable",
        "tls.t",
        "doc",
        "--codec",
        "cbor",
        "--yes",
        "--no-proxies",
    ];
    payload(&enable, &trust).succeeded();
    let status = ["status", "tls.t", "--json"];
    let found = payload(&status, &trust).succeeded().json();
    let column = &found["tables"][0]["columns"][0];
    assert_eq!(column["codec"], "cbor", "{found}");
    payload(&status, &["--tls-ca", &certificate]).failed("no authority in --tls-ca has signed");
    let wrong_name = [&trust[..], &["--tls-server-name", "db.example"]].concat();
    payload(&status, &wrong_name).failed("set --tls-server-name to one of them");
    let disable = ["disable", "tls.t", "doc", "--no-proxies"];
    payload(&disable, &trust).succeeded();
    assert_eq!(node.state("tls", "t", "doc"), None);
    let rows = node.run("SELECT doc FROM tls.t WHERE k = 7");
    assert_eq!(rows[0][0].as_deref(), Some(&b"{\"number\":7}"[..]));
}
