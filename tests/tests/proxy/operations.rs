//! Before the cluster answers, and settings that change while clients are served.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use helenus_tests::proxy::{Options, Proxy, free_addresses};
use helenus_tests::raw::{Client, PATIENCE};

use crate::{eventually, one_node, serves, turn};

#[test]
fn before_the_cluster_answers_and_reload() {
    let _turn = turn("operations", Duration::from_secs(240));
    let cluster = one_node(helenus_tests::ephemeral());
    let own = tempfile::tempdir().expect("a folder");
    let path = own.path().join("helenus.toml");
    let (address, admin) = free_addresses("127.0.0.1").expect("ports");
    // Nobody listens where the node is said to be.
    let (nobody, other) = free_addresses("127.0.0.1").expect("ports");
    let mut file = Settings {
        listen: address,
        admin,
        contact_point: nobody,
        rest: String::new(),
    };
    file.write(&path);
    let mut proxy = Proxy::launch(&Options {
        config: Some(&path),
        addresses: Some((address, admin)),
        ..Options::default()
    })
    .expect("proxy");

    alive_but_not_ready(&proxy, nobody);
    // The mistake is found and corrected, without a restart.
    file.contact_point = cluster.contact_points()[0];
    file.write(&path);
    proxy.reload().expect("SIGHUP");
    proxy.wait_ready().expect("ready");
    eventually("ready", PATIENCE, || get(&proxy, "/ready").0 == 200);
    assert!(serves(address));
    let (status, metrics) = get(&proxy, "/metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("\nhelenus_node_info{"), "{metrics}");

    let mut before = Client::ready(address, 5).expect("client");
    changes_at_once(&proxy, &mut file, &path);
    needs_a_restart(&proxy, &mut file, &path, other);
    changes_nothing(&proxy, &file, &path);
    let rows = before.query("SELECT key FROM system.local");
    assert_eq!(rows.expect("still served").len(), 1);
    assert!(proxy.is_running());
}

fn alive_but_not_ready(proxy: &Proxy, nobody: SocketAddr) {
    eventually("the admin server answers", PATIENCE, || {
        proxy.admin_get("/health", None).is_ok()
    });
    assert_eq!(get(proxy, "/health"), (200, "ok\n".to_owned()));
    eventually("the reason is known", PATIENCE, || {
        get(proxy, "/ready").1.contains("refused")
    });
    let (status, reason) = get(proxy, "/ready");
    println!("before any node answers: {status} {}", reason.trim());
    assert_eq!(status, 503);
    assert!(reason.contains("cluster.contact_points"), "{reason}");
    assert!(reason.contains(&nobody.to_string()), "{reason}");
    let (status, metrics) = get(proxy, "/metrics");
    assert_eq!(status, 200);
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("series and value");
        assert!(
            series.starts_with(|c: char| c.is_ascii_lowercase()),
            "{line}"
        );
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    assert!(metrics.contains("\nhelenus_snapshot_epoch 0\n"));
    let (status, json) = get(proxy, "/api/snapshot");
    assert_eq!(status, 200);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["ready"], false);
    assert_eq!(json["nodes"], serde_json::json!([]));
}

fn changes_at_once(proxy: &Proxy, file: &mut Settings, path: &Path) {
    file.rest = "[admin]\ntoken = 'secret'\n\
                 [limits]\nclients_max = 3\nhandshake_timeout_ms = 1000\n\
                 [log]\nfilter = 'info,helenus_proxy::session=debug'\n"
        .to_owned();
    file.write(path);
    assert!(!proxy.log().contains("closing a client"));
    let known = proxy.log().len();
    proxy.reload().expect("SIGHUP");
    eventually("reloaded", PATIENCE, || {
        proxy.log()[known..].contains("settings reloaded; changed: ")
    });
    let log = proxy.log();
    for key in ["admin.token", "limits.clients_max", "log.filter"] {
        assert!(log.contains(key), "{key}: {log}");
    }
    assert!(!log.contains("secret"), "a secret in the log: {log}");
    assert_eq!(get(proxy, "/metrics").0, 401);
    let with_token = proxy.admin_get("/metrics", Some("secret"));
    assert_eq!(with_token.expect("an answer").0, 200);
    // Workers take their settings over between two turns.
    eventually("a fourth client is refused", PATIENCE, || {
        let clients: Vec<_> = (0..4).map(|_| Client::ready(proxy.address, 4)).collect();
        clients.iter().any(Result::is_err)
    });
    eventually("a line of the level debug", PATIENCE, || {
        if let Ok(mut client) = Client::connect(proxy.address, 4) {
            // What is no header at all.
            let _ = std::io::Write::write_all(&mut client.stream, &[0x04; 64]);
            let _ = client.receive();
        }
        proxy.log().contains("closing a client")
    });
}

fn needs_a_restart(proxy: &Proxy, file: &mut Settings, path: &Path, other: SocketAddr) {
    let right = std::mem::replace(&mut file.listen, other);
    file.rest = "[links]\nper_node = 9\nsilence_ms = 900\n".to_owned();
    file.write(path);
    proxy.reload().expect("SIGHUP");
    for key in ["listen.address", "links.per_node"] {
        eventually(key, PATIENCE, || {
            proxy.log().contains(&format!("{key} needs a restart"))
        });
    }
    // What is no longer in the file has its default again.
    eventually("no token is asked for", PATIENCE, || {
        get(proxy, "/health").0 == 200
    });
    eventually("clients are let in", PATIENCE, || serves(proxy.address));
    file.listen = right;
}

fn changes_nothing(proxy: &Proxy, file: &Settings, path: &Path) {
    let missing = path.with_file_name("missing.pem");
    let tls = format!(
        "[admin]\ntoken = 'x'\n[listen.tls]\ncertificate = '{0}'\nkey = '{0}'\n",
        missing.display()
    );
    for (rest, why) in [
        ("[limits]\nclients_maximum = 3\n", "clients_maximum"),
        (
            "[links]\nprotocol_max = 3\n",
            "links.protocol_max must be 4 or 5",
        ),
        ("[log]\nfilter = 'a=b=c'\n", "log.filter"),
        (&tls, "missing.pem"),
        ("[limits\n", "helenus.toml is wrong"),
    ] {
        let bad = Settings {
            rest: rest.to_owned(),
            ..*file
        };
        let known = proxy.log().len();
        bad.write(path);
        proxy.reload().expect("SIGHUP");
        eventually(why, PATIENCE, || {
            let log = proxy.log();
            log[known..].contains("nothing reloaded") && log[known..].contains(why)
        });
        assert!(serves(proxy.address), "{why}");
        assert_eq!(get(proxy, "/health").0, 200, "{why}");
    }
}

fn get(proxy: &Proxy, path: &str) -> (u16, String) {
    proxy.admin_get(path, None).expect("an answer")
}

/// A settings file.
struct Settings {
    listen: SocketAddr,
    admin: SocketAddr,
    contact_point: SocketAddr,
    /// Further sections; those of `[admin]` come as a part of it.
    rest: String,
}

impl Settings {
    fn write(&self, path: &Path) {
        let rest = match self.rest.strip_prefix("[admin]\n") {
            Some(rest) => rest.to_owned(),
            None => self.rest.clone(),
        };
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[listen]\naddress = '{}'\n[cluster]\ncontact_points = ['{}']\n\
             [admin]\naddress = '{}'\n{rest}",
            self.listen, self.contact_point, self.admin
        );
        std::fs::write(path, text).expect("written");
    }
}
