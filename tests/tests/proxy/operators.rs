//! Operators' view and actions, on the day something is wrong: with `helenus ctl` and the admin API.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use helenus_tests::proxy::{Proxy, helenus};
use helenus_tests::raw::{Client, ONE, PATIENCE, op};
use helenus_tests::scenes;
use helenus_tests::scenes::Scenes;
use serde_json::Value;

use crate::node::shared;
use crate::{directly, eventually, serves, turn};

const SCAN: &str = "SELECT v FROM ctl.t WHERE v = 'secret' ALLOW FILTERING";
const SCAN_SHOWN: &str = "SELECT v FROM ctl.t WHERE v = ? ALLOW FILTERING";
const READ: &str = "SELECT v FROM ctl.t WHERE k = ?";

scenes!(
    operators_see_what_is_wrong_and_act;
    a_slow_scan_shows_where_its_time_went,
    an_error_is_counted_by_its_code,
    a_client_shows_its_driver_and_can_be_killed,
    what_is_paused_waits_and_none_of_it_is_lost,
    tokens_are_told_apart,
    settings_are_shown_and_reloaded,
    the_proxy_is_drained,
);

fn operators_see_what_is_wrong_and_act(scenes: &mut Scenes) {
    let _turn = turn("operators", Duration::from_secs(180));
    let mut cluster = shared();
    cluster.keyspace("ctl", &["CREATE TABLE ctl.t (k int PRIMARY KEY, v text)"]);
    let mut node = cluster.connect();
    for k in 0..100 {
        directly(
            &mut node,
            &[&format!("INSERT INTO ctl.t (k, v) VALUES ({k}, 'v{k}')")],
        );
    }
    let own = tempfile::tempdir().expect("a folder");
    let socket = own.path().join("admin.sock");
    let tokens = own.path().join("read-token");
    std::fs::write(&tokens, "only-read").expect("written");
    let proxy = Proxy::start(
        &cluster.cluster().contact_points(),
        &[
            &format!("admin.socket='{}'", socket.display()),
            "admin.token=everything",
            "admin.read_token=only-read",
            "admin.slow_scan_ms=1",
            "admin.slow_ms=60000",
        ],
    )
    .expect("proxy");

    scenes.scene("a_slow_scan_shows_where_its_time_went", || {
        a_slow_scan_shows_where_its_time_went(&proxy, &socket);
    });
    scenes.scene("an_error_is_counted_by_its_code", || {
        an_error_is_counted_by_its_code(&proxy, &socket);
    });
    scenes.scene("a_client_shows_its_driver_and_can_be_killed", || {
        a_client_shows_its_driver_and_can_be_killed(&proxy, &socket);
    });
    scenes.scene("what_is_paused_waits_and_none_of_it_is_lost", || {
        what_is_paused_waits_and_none_of_it_is_lost(&proxy, &socket);
    });
    scenes.scene("tokens_are_told_apart", || {
        tokens_are_told_apart(&proxy, &tokens)
    });
    scenes.scene("settings_are_shown_and_reloaded", || {
        settings_are_shown_and_reloaded(&proxy, &socket);
    });
    scenes.scene("the_proxy_is_drained", || {
        the_proxy_is_drained(proxy, &socket)
    });
}

/// Exit code, output and errors of `helenus ctl` over this socket.
fn ctl(socket: &Path, arguments: &[&str]) -> (i32, String, String) {
    let socket = socket.to_str().expect("a path");
    run(&[&["ctl", "--socket", socket], arguments].concat())
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = helenus(arguments)
        .expect("a command")
        .output()
        .expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("a code");
    (code, text(output.stdout), text(output.stderr))
}

/// The output of a command that succeeds, as JSON.
fn json(socket: &Path, arguments: &[&str]) -> Value {
    let (code, out, error) = ctl(socket, &[arguments, &["--json"]].concat());
    assert_eq!(code, 0, "{arguments:?}: {error}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

fn a_slow_scan_shows_where_its_time_went(proxy: &Proxy, socket: &Path) {
    let mut client = Client::ready(proxy.address, 5).expect("client");
    // One of these takes a millisecond: nodes and proxy have just begun.
    eventually("a slow scan is shown", PATIENCE, || {
        client.query(SCAN).expect("rows");
        let slow = json(socket, &["show", "slow", "--limit", "1000"]);
        let mut scans = slow["slow"].as_array().expect("a list").iter();
        scans.any(|of| of["statement"] == SCAN_SHOWN)
    });
    let slow = json(socket, &["show", "slow", "--limit", "1000"]);
    assert!(!slow.to_string().contains("secret"), "{slow}");
    let scans = slow["slow"].as_array().expect("a list");
    let of = scans
        .iter()
        .find(|of| of["statement"] == SCAN_SHOWN)
        .expect("it");
    assert_eq!(of["class"], "scan");
    let number = |name: &str| of[name].as_u64().expect(name);
    assert!(
        number("took_us") >= 1_000 && number("at_nodes_us") > 0,
        "{of}"
    );
    assert!(
        number("node_requests") >= 1 && number("attempts") >= 1,
        "{of}"
    );
    assert!(
        of["slowest_node"]
            .as_str()
            .is_some_and(|node| node.contains(":")),
        "{of}"
    );
    assert!(
        of["client"]
            .as_str()
            .is_some_and(|client| client.starts_with("127.")),
        "{of}"
    );
    let (code, table, _) = ctl(socket, &["show", "slow"]);
    assert!(code == 0 && table.contains("at nodes"), "{table}");
    // One answer in 16 is counted.
    for _ in 0..64 {
        client.query(SCAN).expect("rows");
    }
    let costs = json(socket, &["show", "statements"]);
    let mut statements = costs["statements"].as_array().expect("a list").iter();
    let cost = statements
        .find(|of| of["statement"] == SCAN_SHOWN)
        .expect("counted");
    assert!(cost["calls_per_s"].as_f64() > Some(0.0), "{cost}");
    assert!(cost["p99_us"].as_f64() > Some(0.0), "{cost}");
}

fn an_error_is_counted_by_its_code(proxy: &Proxy, socket: &Path) {
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let wrong = "SELECT nothing FROM ctl.t WHERE k = 4711";
    let fault = client
        .try_query(wrong, ONE)
        .expect("an answer")
        .expect_err("an error");
    assert_eq!(fault.code, 0x2200);
    let (_, metrics) = proxy
        .admin_get("/metrics", Some("only-read"))
        .expect("metrics");
    let line = "helenus_errors_total{code=\"0x2200\",error=\"INVALID\"} 1";
    assert!(metrics.contains(line), "{metrics}");
    let errors = json(socket, &["show", "errors"]);
    let mut codes = errors["by_code"].as_array().expect("a list").iter();
    let of = codes.find(|of| of["error"] == "INVALID").expect("the code");
    assert_eq!((&of["count"], &of["code"]), (&1.into(), &0x2200.into()));
    let last = &of["last"];
    assert_eq!(last["statement"], "SELECT …");
    assert!(
        last["node"].is_string() && last["message"].is_null(),
        "{last}"
    );
    assert!(!errors.to_string().contains("4711"), "{errors}");
}

fn a_client_shows_its_driver_and_can_be_killed(proxy: &Proxy, socket: &Path) {
    let mut client = Client::connect(proxy.address, 4).expect("client");
    let names = [
        ("DRIVER_NAME", "Driver of the test"),
        ("DRIVER_VERSION", "1.2"),
        ("APPLICATION_NAME", "shop"),
    ];
    client.hello(&names).expect("ready");
    client
        .query("SELECT k FROM ctl.t WHERE k = 1")
        .expect("served");
    let clients = json(socket, &["show", "clients", "--sort", "age"]);
    let mut list = clients["clients"].as_array().expect("a list").iter();
    let of = list
        .find(|of| of["driver"] == "Driver of the test")
        .expect("the client");
    assert_eq!(
        (&of["driver_version"], &of["application"]),
        (&"1.2".into(), &"shop".into())
    );
    assert_eq!(
        (&of["protocol"], &of["tls"], &of["ready"]),
        (&4.into(), &false.into(), &true.into())
    );
    assert_eq!((&of["requests"], &of["in_flight"]), (&1.into(), &0.into()));
    assert!(clients["all"].as_u64() >= Some(1) && clients["silent_workers"] == 0);
    let id = of["id"].as_str().expect("an id");
    let (code, out, error) = ctl(socket, &["kill", id]);
    assert_eq!((code, error.as_str()), (0, ""), "{out}");
    let mut rest = Vec::new();
    let end = client.stream.read_to_end(&mut rest);
    assert!(end.is_err() || rest.is_empty(), "the connection is closed");
    eventually("it is gone", PATIENCE, || ctl(socket, &["kill", id]).0 == 2);
    assert!(serves(proxy.address), "others are served");
}

fn what_is_paused_waits_and_none_of_it_is_lost(proxy: &Proxy, socket: &Path) {
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let read = client.prepare(READ).expect("prepared");
    let (code, out, error) = ctl(socket, &["pause", "--keyspace", "ctl", "--seconds", "60"]);
    assert_eq!(code, 0, "{error}");
    assert!(out.contains("keyspace ctl is paused"), "{out}");
    for k in 0..100_i32 {
        let body = client.execute_body(&read, &[&k.to_be_bytes()], ONE);
        client.send(k as i16 + 1, op::EXECUTE, &body).expect("sent");
    }
    let waiting = || json(socket, &["show", "pauses"])[0]["waiting"].as_u64();
    eventually("all of them wait", PATIENCE, || waiting() == Some(100));
    // Who connects meanwhile can.
    assert!(serves(proxy.address));
    let (code, out, _) = ctl(socket, &["resume", "--keyspace", "ctl"]);
    assert!(code == 0 && out.contains("100 requests"), "{out}");
    let mut streams: Vec<i16> = (0..100)
        .map(|_| {
            let answer = client.receive().expect("an answer");
            assert_eq!(answer.opcode, op::RESULT);
            assert_eq!(answer.rows().expect("rows").len(), 1);
            answer.stream
        })
        .collect();
    streams.sort_unstable();
    assert_eq!(streams, (1..=100).collect::<Vec<i16>>());
    let (code, _, error) = ctl(socket, &["resume", "--keyspace", "ctl"]);
    assert!(code == 2 && error.contains("not paused"), "{error}");

    // A request too many is refused, and the pause ends by itself.
    let short = [
        "pause",
        "--keyspace",
        "ctl",
        "--seconds",
        "1",
        "--waiting-max",
        "1",
    ];
    assert_eq!(ctl(socket, &short).0, 0);
    for stream in [1, 2] {
        let body = client.execute_body(&read, &[&7_i32.to_be_bytes()], ONE);
        client.send(stream, op::EXECUTE, &body).expect("sent");
    }
    let refused = client
        .receive()
        .expect("an answer")
        .fault()
        .expect("an error");
    assert_eq!(refused.code, 0x1001);
    assert!(
        refused.message.contains("keyspace ctl is paused"),
        "{}",
        refused.message
    );
    assert_eq!(client.receive().expect("an answer").opcode, op::RESULT);
}

fn tokens_are_told_apart(proxy: &Proxy, read_token: &Path) {
    let status = |path: &str, token| proxy.admin_get(path, token).expect("an answer").0;
    for path in [
        "/api/clients",
        "/api/slow",
        "/api/errors",
        "/api/statements",
        "/api/config",
    ] {
        assert_eq!(status(path, None), 401, "{path}");
        assert_eq!(status(path, Some("wrong")), 401, "{path}");
        assert_eq!(status(path, Some("only-read")), 200, "{path}");
        assert_eq!(status(path, Some("everything")), 200, "{path}");
    }
    let admin = format!("http://{}", proxy.admin);
    let file = read_token.to_str().expect("a path");
    let with_token = |arguments: &[&str]| {
        run(&[
            &["ctl", "--admin", &admin, "--admin-token-file", file],
            arguments,
        ]
        .concat())
    };
    assert_eq!(with_token(&["show", "nodes"]).0, 0);
    for action in [
        &["reload"][..],
        &["drain"],
        &["kill", "0-1"],
        &["resume", "--role", "x"],
    ] {
        let (code, _, error) = with_token(action);
        assert_eq!(code, 3, "{action:?}");
        assert!(error.contains("only reads"), "{error}");
    }
    let (code, _, error) = run(&["ctl", "--admin", &admin, "show", "nodes"]);
    assert!(code == 3 && error.contains("--admin-token-file"), "{error}");
    let (code, _, error) = run(&["ctl", "--admin", "127.0.0.1:1", "show", "nodes"]);
    assert!(
        code == 1 && error.contains("is the proxy running"),
        "{error}"
    );
}

fn settings_are_shown_and_reloaded(proxy: &Proxy, socket: &Path) {
    let (code, shown, _) = ctl(socket, &["show", "config"]);
    assert!(code == 0 && shown.contains("slow_scan_ms = 1"), "{shown}");
    assert!(
        !shown.contains("everything") && !shown.contains("only-read"),
        "{shown}"
    );
    let (code, said, _) = ctl(socket, &["reload"]);
    assert!(
        code == 0 && said.contains("no setting has changed"),
        "{said}"
    );
    proxy.expect_logged("certificates reloaded");
    for what in ["keys", "nodes", "pools", "queues", "rules", "proxies"] {
        let (code, table, error) = ctl(socket, &["show", what]);
        assert!(code == 0 && !table.is_empty(), "{what}: {error}");
    }
}

fn the_proxy_is_drained(mut proxy: Proxy, socket: &Path) {
    let (code, said, error) = ctl(socket, &["drain"]);
    assert!(
        code == 0 && said.contains("the proxy stops"),
        "{said}{error}"
    );
    let status = proxy.wait(PATIENCE).expect("it ends");
    assert!(status.success(), "{status}");
    assert!(!socket.exists(), "the socket is removed");
}
