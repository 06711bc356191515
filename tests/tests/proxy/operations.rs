//! Before the cluster answers, and settings that change while clients are served.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use helenus_cluster::Cluster;
use helenus_tests::proxy::{Options, Proxy, free_addresses};
use helenus_tests::raw::{Client, ONE, PATIENCE, op};
use helenus_tests::relay::Relay;
use helenus_tests::scenes::Scenes;
use helenus_tests::{kinds, pool, scenes};

use crate::{eventually, serves, turn};

scenes!(
    before_the_cluster_answers_and_reload;
    alive_but_not_ready,
    a_corrected_mistake_needs_no_restart,
    changes_at_once,
    needs_a_restart,
    changes_nothing,
    secrets_in_files_are_read_when_they_change,
    clients_outlive_reloads,
    a_node_is_found_at_another_address,
    limits_follow_the_nodes_own_time_outs,
);

fn before_the_cluster_answers_and_reload(scenes: &mut Scenes) {
    let _turn = turn("operations", Duration::from_secs(240));
    let cluster = pool::take(kinds::impatient()).expect("a node");
    let own = tempfile::tempdir().expect("a folder");
    let path = own.path().join("helenus.toml");
    let (address, admin) = free_addresses("127.0.0.1").expect("ports");
    // Nobody listens where the node is said to be.
    let (nobody, other) = free_addresses("127.0.0.1").expect("ports");
    let mut file = Settings {
        listen: address,
        admin,
        contact_points: vec![nobody],
        rest: String::new(),
    };
    file.write(&path);
    let mut proxy = Proxy::launch(&Options {
        config: Some(&path),
        addresses: Some((address, admin)),
        ..Options::default()
    })
    .expect("proxy");

    scenes.scene("alive_but_not_ready", || {
        alive_but_not_ready(&proxy, nobody)
    });
    scenes.scene("a_corrected_mistake_needs_no_restart", || {
        file.contact_points = cluster.contact_points();
        file.write(&path);
        proxy.reload().expect("SIGHUP");
        proxy.wait_ready().expect("ready");
        eventually("ready", PATIENCE, || get(&proxy, "/ready").0 == 200);
        assert!(serves(address));
        let (status, metrics) = get(&proxy, "/metrics");
        assert_eq!(status, 200);
        assert!(metrics.contains("\nhelenus_node_info{"), "{metrics}");
    });
    let mut before = Client::ready(address, 5).expect("client");
    scenes.scene("changes_at_once", || {
        changes_at_once(&proxy, &mut file, &path)
    });
    scenes.scene("needs_a_restart", || {
        needs_a_restart(&proxy, &mut file, &path, other);
    });
    scenes.scene("changes_nothing", || changes_nothing(&proxy, &file, &path));
    scenes.scene("secrets_in_files_are_read_when_they_change", || {
        secrets_in_files_are_read_when_they_change(&proxy, &mut file, &path);
    });
    scenes.scene("clients_outlive_reloads", || {
        let rows = before.query("SELECT key FROM system.local");
        assert_eq!(rows.expect("still served").len(), 1);
        assert!(proxy.is_running());
    });
    drop(proxy);
    scenes.scene("a_node_is_found_at_another_address", || {
        a_node_is_found_at_another_address(&cluster);
    });
    scenes.scene("limits_follow_the_nodes_own_time_outs", || {
        limits_follow_the_nodes_own_time_outs(&cluster);
    });
}

/// The only node dies, and comes back where only the contact points, old and then new, know it to be.
fn a_node_is_found_at_another_address(cluster: &Cluster) {
    let node = cluster.contact_points()[0];
    let relay = |ip: &str| Relay::start(ip, node).expect("a relay");
    let first = relay("127.8.8.1");
    let second = relay("127.8.8.2");
    let own = tempfile::tempdir().expect("a folder");
    let path = own.path().join("helenus.toml");
    let addresses = free_addresses("127.0.0.1").expect("ports");
    let mut file = Settings {
        listen: addresses.0,
        admin: addresses.1,
        contact_points: vec![first.address, second.address],
        rest: "[links]\nbackoff_max_ms = 500\n".to_owned(),
    };
    file.write(&path);
    let mut proxy = Proxy::launch(&Options {
        config: Some(&path),
        addresses: Some(addresses),
        ..Options::default()
    })
    .expect("proxy");
    proxy.wait_ready().expect("ready");
    let mut client = Client::ready(proxy.address, 5).expect("client");
    // Of a table that nodes answer for.
    let query = "SELECT key FROM system.local WHERE key IN ('local')";
    let mut is_served = || client.query(query).is_ok_and(|rows| rows.len() == 1);
    assert!(is_served());

    drop(first);
    eventually(
        "the node is found at another contact point",
        PATIENCE,
        &mut is_served,
    );
    drop(second);
    let third = relay("127.8.8.3");
    file.contact_points = vec![third.address];
    file.write(&path);
    assert!(!is_served(), "no known address is right");
    proxy.reload().expect("SIGHUP");
    eventually(
        "the node is found at a new contact point",
        PATIENCE,
        &mut is_served,
    );
    proxy.expect_logged("changed: cluster.contact_points");
    let (_, json) = get(&proxy, "/api/snapshot");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let states: Vec<_> = json["nodes"].as_array().expect("nodes").iter().collect();
    let states: Vec<_> = states.iter().map(|node| node["state"].as_str()).collect();
    assert_eq!(states, [Some("gone"), Some("gone"), Some("up")]);
}

/// The node says nothing for longer than it may take for anything.
fn limits_follow_the_nodes_own_time_outs(cluster: &Cluster) {
    let silent = ["links.silence_ms=60000", "links.probe_timeout_ms=60000"];
    let proxy = Proxy::start(&cluster.contact_points(), &silent).expect("proxy");
    let mut client = Client::ready(proxy.address, 5).expect("client");
    for cql in [
        "CREATE KEYSPACE o WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE o.t (k int PRIMARY KEY)",
        "SELECT k FROM o.t WHERE k = 1",
    ] {
        client.query(cql).expect(cql);
    }
    eventually("the node has told its settings", PATIENCE, || {
        proxy.log().contains("a node has told of itself")
    });
    cluster.pause(1).expect("paused");
    for (stream, cql) in [(1, "TRUNCATE o.t"), (2, "SELECT k FROM o.t WHERE k = 1")] {
        let body = client.query_body(cql, ONE);
        client.send(stream, op::QUERY, &body).expect("sent");
    }
    for (stream, limit) in [(2, "within 6s"), (1, "within 8s")] {
        let answer = client.receive().expect("an answer");
        let fault = answer.fault().expect("an error");
        println!("unanswered: {}", fault.message);
        assert_eq!(answer.stream, stream, "{fault:?}");
        assert!(fault.message.contains(limit), "{fault:?}");
    }
    cluster.resume(1).expect("resumed");
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
                 [log]\nfilter = 'info,helenus_engine::session=debug'\n"
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
    assert_eq!(get(proxy, "/metrics?token=secret").0, 401);
    for probe in ["/health", "/ready"] {
        assert_eq!(get(proxy, probe).0, 200, "{probe} needs no token");
    }
    assert_eq!(get(proxy, "/").0, 200, "the page asks for the token itself");
    // Workers take their settings over between two turns.
    eventually("a fourth client is refused", PATIENCE, || {
        let clients: Vec<_> = (0..4).map(|_| Client::ready(proxy.address, 4)).collect();
        clients.iter().any(Result::is_err)
    });
    eventually("a line of the level debug", PATIENCE, || {
        if let Ok(mut client) = Client::connect(proxy.address, 4) {
            // Bytes that are no header at all.
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
    // A setting that is no longer in the file has its default again.
    eventually("no token is asked for", PATIENCE, || {
        get(proxy, "/metrics").0 == 200
    });
    let rebound = proxy.admin_call("/metrics", "Host: rebound.example\r\n");
    let (head, _) = rebound.expect("an answer");
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
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
        (
            "[admin]\ntoken = 'x'\ntoken_file = '/x'\n",
            "admin.token and admin.token_file are both set",
        ),
        (&tls, "missing.pem"),
        ("[limits\n", "helenus.toml is wrong"),
    ] {
        let bad = Settings {
            rest: rest.to_owned(),
            contact_points: file.contact_points.clone(),
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
        assert_eq!(get(proxy, "/metrics").0, 200, "{why}");
    }
}

fn secrets_in_files_are_read_when_they_change(proxy: &Proxy, file: &mut Settings, path: &Path) {
    let token = path.with_file_name("token");
    std::fs::write(&token, "first-secret\n").expect("written");
    file.rest = format!("[admin]\ntoken_file = '{}'\n", token.display());
    file.write(path);
    proxy.reload().expect("SIGHUP");
    let accepted = |token: &str| {
        let answer = proxy.admin_get("/metrics", Some(token));
        answer.expect("an answer").0 == 200
    };
    eventually("the token of the file counts", PATIENCE, || {
        get(proxy, "/metrics").0 == 401 && accepted("first-secret")
    });
    // Nobody tells the proxy.
    std::fs::write(&token, "second-secret").expect("written");
    eventually("the new token counts", PATIENCE, || {
        accepted("second-secret")
    });
    assert!(!accepted("first-secret"));
    let known = proxy.log().len();
    std::fs::write(&token, "").expect("written");
    eventually("an empty file is named", PATIENCE, || {
        proxy.log()[known..].contains("admin.token_file: ")
    });
    assert!(accepted("second-secret"));
    let log = proxy.log();
    assert!(!log.contains("-secret"), "a secret in the log: {log}");
    file.rest = String::new();
    file.write(path);
    proxy.reload().expect("SIGHUP");
    eventually("no token is asked for", PATIENCE, || {
        get(proxy, "/metrics").0 == 200
    });
}

fn get(proxy: &Proxy, path: &str) -> (u16, String) {
    proxy.admin_get(path, None).expect("an answer")
}

/// A settings file.
struct Settings {
    listen: SocketAddr,
    admin: SocketAddr,
    contact_points: Vec<SocketAddr>,
    /// Further sections; those of `[admin]` come as a part of it.
    rest: String,
}

impl Settings {
    fn write(&self, path: &Path) {
        let rest = match self.rest.strip_prefix("[admin]\n") {
            Some(rest) => rest.to_owned(),
            None => self.rest.clone(),
        };
        let points: Vec<String> = self
            .contact_points
            .iter()
            .map(SocketAddr::to_string)
            .collect();
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[listen]\naddress = '{}'\n[cluster]\ncontact_points = {:?}\n\
             [admin]\naddress = '{}'\n{rest}",
            self.listen, points, self.admin
        );
        std::fs::write(path, text).expect("written");
    }
}
