//! The commands with nodes that want TLS and a client's certificate, and with one that has no TLS.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use helenus_cluster::{ClientTls, Cluster, Consistency};
use helenus_tests::proxy::helenus;

use crate::{Node, Outcome, eventually, second};

const PATIENCE: Duration = Duration::from_secs(60);

/// `helenus layouts` with all of these arguments.
fn layouts(parts: &[&[&str]]) -> Outcome {
    let mut command = helenus(&["layouts"]).expect("a program");
    Outcome::of(command.args(parts.concat()))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A command that is killed with this value.
struct Loading(Child);

impl Drop for Loading {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `helenus load` with the driver, which is told of one node and reaches both.
fn load_is_encrypted(cluster: &mut Cluster, over_tls: &[&str]) {
    let mut second = cluster.connect(2).expect("a connection");
    let load = [
        "load",
        "--keys",
        "500",
        "--clients",
        "8",
        "--warmup",
        "0s",
        "--quiet",
        "--keyspace",
        "loaded",
    ];
    let mut command = helenus(&[&load[..], &["--duration", "60s"], over_tls].concat());
    let command = command.as_mut().expect("a program").stdout(Stdio::null());
    let mut child = Loading(command.spawn().expect("it runs"));
    let clients = "SELECT driver_name, ssl_enabled FROM system_views.clients";
    eventually("the driver's connections", PATIENCE, || {
        let ended = child.0.try_wait().expect("known");
        assert!(ended.is_none(), "{ended:?}");
        let rows = second.query(clients, Consistency::One).expect("clients");
        let is_driver = |row: &&Vec<Option<Vec<u8>>>| {
            let name = row[0].as_deref().unwrap_or_default();
            String::from_utf8_lossy(name).contains("Rust Driver")
        };
        let mut drivers = rows.iter().filter(is_driver).peekable();
        drivers.peek().is_some() && drivers.all(|row| row[1].as_deref() == Some(&[1]))
    });
    drop(child);
    let mut all = helenus(&[&load[..], &["--operations", "300"], over_tls].concat());
    let all = Outcome::of(all.as_mut().expect("a program")).succeeded();
    assert!(all.out.contains(" 0 failed"), "{all:?}");
    // The certificate is asked for.
    let [contact, point, trust, ca, ..] = over_tls else {
        panic!("{over_tls:?}");
    };
    let mut without = helenus(&[&load[..], &[contact, point, trust, ca]].concat());
    Outcome::of(without.as_mut().expect("a program")).failed("--tls-cert");
}

#[test]
fn layouts_come_and_go_over_tls() {
    let plain = Node::take();
    let _second = second();
    let spec = helenus_tests::ephemeral()
        .nodes(2)
        .tls(ClientTls::Mutual)
        .yaml("native_transport_timeout", "2s");
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

    // Each error is said at once, with what to do.
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
            "SELECT item FROM helenus.catalogue WHERE part = 'all' AND keyspace_name = 'e' AND table_name = 't'"
        ),
        Vec::<Vec<_>>::new()
    );

    load_is_encrypted(&mut cluster, &over_tls);

    // A node is named by its own address, not by the one through which it is reached.
    cluster.kill(2).expect("killed");
    let refused = layouts(&[create, &over_tls]).failed("cannot be reached");
    assert!(refused.err.contains(&other), "{refused:?}");
}
