//! The log of a running proxy, as operators see and change it.

use std::process::Command;

use helenus_tests::proxy::{Proxy, helenus};
use serde_json::Value;

use crate::nodes::{Nodes, Spec};

/// Exit code, output and errors of `helenus ctl`.
fn ctl(socket: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let words = [&["ctl", "--socket", socket], arguments].concat();
    let mut command: Command = helenus(&words).expect("the program");
    let output = command.output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn shown(socket: &str) -> Value {
    let (code, out, error) = ctl(socket, &["log", "--limit", "1000", "--json"]);
    assert_eq!(code, Some(0), "{error}");
    serde_json::from_str(&out).expect("JSON")
}

fn has_line(of: &Value, level: &str, part: &str) -> bool {
    let mut lines = of["lines"].as_array().into_iter().flatten();
    lines.any(|line| {
        line["level"] == level && line["text"].as_str().is_some_and(|of| of.contains(part))
    })
}

#[test]
fn an_operator_sees_the_log_and_changes_for_a_while_what_is_logged() {
    let nodes = Nodes::start(Spec::default());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("admin.sock");
    let socket = path.to_str().expect("a path");
    let setting = format!("admin.socket={socket}");
    let settings = ["listen.workers=1", "admin.token=hush-hush", &setting];
    let proxy = Proxy::start(&nodes.addresses[..1], &settings).expect("proxy");
    let before = shown(socket);
    let written = proxy.log();
    assert!(
        written.contains("ready for clients") && !written.contains('\u{1b}'),
        "no terminal: {written}"
    );
    assert!(has_line(&before, "INFO", "ready for clients"), "{before:#}");
    assert_eq!(
        (&before["filter"], &before["until_unix_ms"]),
        (&"info".into(), &Value::Null)
    );
    let (code, out, _) = ctl(socket, &["log"]);
    assert_eq!(code, Some(0));
    assert!(
        out.contains("INFO  helenus_proxy::server: ready for clients"),
        "{out}"
    );
    assert!(out.ends_with("log.filter is in force: info\n"), "{out}");

    let (code, out, error) = ctl(
        socket,
        &["log", "--level", "helenus_engine=debug", "--for", "1h"],
    );
    assert_eq!(code, Some(0), "{error}");
    assert!(
        out.contains("info,helenus_engine=debug is in force until 2"),
        "{out}"
    );
    // Settings that are read again leave it in force.
    let (code, ..) = ctl(socket, &["reload"]);
    assert_eq!(code, Some(0));
    assert_eq!(shown(socket)["filter"], "info,helenus_engine=debug");
    let (code, _, error) = ctl(socket, &["log", "--level", "helenus_engine=loud"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("is not a filter"), "{error}");

    let (code, out, _) = ctl(socket, &["log", "--reset"]);
    assert_eq!(code, Some(0));
    assert_eq!(out, "log.filter is in force: info\n");
    assert!(has_line(
        &shown(socket),
        "WARN",
        "an operator changes the log's filter"
    ));

    // It ends by itself.
    let (code, ..) = ctl(socket, &["log", "--level", "debug", "--for", "1s"]);
    assert_eq!(code, Some(0));
    let begin = std::time::Instant::now();
    while shown(socket)["filter"] != "info" {
        assert!(begin.elapsed().as_secs() < 20, "it does not end");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(!format!("{:#}", shown(socket)).contains("hush"));
    // Its lines may quote values of clients: that is for those who may act.
    let (status, _) = proxy.admin_get("/api/log", None).expect("an answer");
    assert_eq!(status, 401);
    let (status, _) = proxy
        .admin_get("/api/log", Some("hush-hush"))
        .expect("an answer");
    assert_eq!(status, 200);
}

#[test]
fn who_may_only_read_sees_no_lines() {
    let nodes = Nodes::start(Spec::default());
    let settings = ["listen.workers=1", "admin.read_token=reader"];
    let proxy = Proxy::start(&nodes.addresses[..1], &settings).expect("proxy");
    let (status, why) = proxy
        .admin_get("/api/log", Some("reader"))
        .expect("an answer");
    assert_eq!(status, 403);
    assert!(why.contains("admin.token"), "{why}");
}
