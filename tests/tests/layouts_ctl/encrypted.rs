//! The commands with nodes that want TLS and a client's certificate, and with one that has no TLS.

use std::path::Path;

use helenus_cluster::{ClientTls, Cluster, Consistency};
use helenus_tests::proxy::helenus;

use crate::{Node, Outcome};

/// `helenus layouts` with all of these arguments.
fn layouts(parts: &[&[&str]]) -> Outcome {
    let mut command = helenus(&["layouts"]).expect("a program");
    Outcome::of(command.args(parts.concat()))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn layouts_come_and_go_over_tls() {
    // One cluster at a time.
    let plain = Node::take();
    let spec = helenus_tests::ephemeral().nodes(2).tls(ClientTls::Mutual);
    let mut cluster = Cluster::up(spec).expect("two nodes");
    let mut node = cluster.connect(1).expect("a connection");
    let mut run = |cql: &str| {
        node.query(cql, Consistency::One)
            .unwrap_or_else(|e| panic!("{cql}: {e}"))
    };
    run(
        "CREATE KEYSPACE e WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
    );
    run("CREATE TABLE e.t (k int, a int, b int, PRIMARY KEY (k, a, b))");
    for k in 0..100 {
        run(&format!("INSERT INTO e.t (k, a, b) VALUES ({k}, 2, 3)"));
    }

    let files = cluster.tls_files().expect("certificates");
    let folder = tempfile::tempdir().expect("a folder");
    let [ca, certificate, key] =
        [&files.ca_pem, &files.client_cert_pem, &files.client_key_pem].map(|path| text(path));
    let own = cluster.address(1).expect("an address").to_string();
    let contact = ["--contact", &own];
    let trust = ["--tls-ca", &ca];
    let shown = ["--tls-cert", &certificate, "--tls-key", &key];

    // What is wrong is said at once, with what to do.
    let status: &[&str] = &["status"];
    layouts(&[status, &contact]).failed("the node may require TLS; set --tls-ca");
    layouts(&[status, &contact, &trust]).failed("set --tls-cert and --tls-key");
    let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let foreign = folder.path().join("foreign.pem");
    std::fs::write(&foreign, stranger.cert.pem()).expect("written");
    let foreign = ["--tls-ca", &text(&foreign)];
    layouts(&[status, &contact, &foreign, &shown]).failed("no authority in --tls-ca has signed");
    let other_name: &[&str] = &["--tls-server-name", "db.example"];
    layouts(&[status, &contact, &trust, &shown, other_name])
        .failed("set --tls-server-name to one of them");
    let unencrypted = plain.address.to_string();
    layouts(&[status, &["--contact", &unencrypted], &trust, &shown])
        .failed("does not seem to speak TLS on this port; leave out --tls-ca");

    let over_tls = [&contact[..], &trust, &shown].concat();
    let create: &[&str] = &["create", "e.t", "--no-proxies", "--layout", "x=b,a"];
    layouts(&[create, &over_tls]).succeeded();
    // Once more from the proxy's settings, which name the other node.
    let other = cluster.address(2).expect("an address").to_string();
    let settings = folder.path().join("helenus.toml");
    let toml = format!(
        "[cluster]\ncontact_points = [{other:?}]\n[cluster.tls]\nca = {ca:?}\ncertificate = {certificate:?}\n\
         key = {key:?}\nverify_names = true\n"
    );
    std::fs::write(&settings, toml).expect("written");
    let settings = ["--config", &text(&settings)];
    let found = layouts(&[&["status", "e.t", "--json"], &settings])
        .succeeded()
        .json();
    assert_eq!(
        found["tables"][0]["layouts"][0]["state"], "ready",
        "{found}"
    );
    let same = layouts(&[&["verify", "e.t", "--json"], &settings]).succeeded();
    assert!(same.out.contains("100"), "{same:?}");
    layouts(&[&["rebuild", "e.t", "--no-proxies"], &settings]).succeeded();
    layouts(&[&["drop", "e.t", "--all", "--no-proxies"], &over_tls]).succeeded();
    assert_eq!(
        run(
            "SELECT layout FROM helenus.layouts WHERE keyspace_name = 'e' AND table_name = 't' AND layout = 'x'"
        ),
        Vec::<Vec<_>>::new()
    );

    // A node is named by its own address, not by the one through which it is reached.
    cluster.kill(2).expect("killed");
    let refused = layouts(&[create, &over_tls]).failed("cannot be reached");
    assert!(refused.err.contains(&other), "{refused:?}");
}
