//! `helenus capture` beside a proxy before scripted nodes.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use helenus_tests::capturing::Capturing;
use helenus_tests::proxy::{Proxy, helenus};
use helenus_wire::{Opcode, code};
use rustix::process::Signal;

use crate::client;
use crate::nodes::{Nodes, Reply, Spec};

const READ: &str = "SELECT v FROM ks.t WHERE k = 471147114";
const SHOWN: &str = "SELECT v FROM ks.t WHERE k = ?";

struct Before {
    nodes: Nodes,
    proxy: Proxy,
    folder: tempfile::TempDir,
}

impl Before {
    fn start(settings: &[&str]) -> Before {
        let folder = tempfile::tempdir().expect("a folder");
        let nodes = Nodes::start(Spec::default());
        let socket = format!(
            "admin.socket='{}'",
            folder.path().join("admin.sock").display()
        );
        let settings = [&["listen.workers=2", &socket], settings].concat();
        let proxy = Proxy::start(&nodes.addresses[..1], &settings).expect("proxy");
        Before {
            nodes,
            proxy,
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn capture(&self, file: &str, options: &[&str]) -> Capturing {
        let socket = self.path("admin.sock");
        Capturing::begin(&socket, self.path(file), options).expect("a capture")
    }

    /// Exit code and errors of a capture that is refused.
    fn refused(&self, options: &[&str]) -> (i32, String) {
        let file = self.path("refused.cap");
        let file = file.to_str().expect("a path");
        let arguments = [&["capture", file], options].concat();
        let output = helenus(&arguments)
            .expect("a command")
            .output()
            .expect("it runs");
        assert!(!self.path("refused.cap").exists());
        let error = String::from_utf8(output.stderr).expect("text");
        (output.status.code().expect("a code"), error)
    }
}

/// A command whose output nobody reads, and what it writes to this file.
fn unread(arguments: &[&str], json: &Path) -> (ExitStatus, serde_json::Value) {
    let written = ["--json", json.to_str().expect("a path")];
    let mut command = helenus(&[arguments, &written].concat()).expect("a command");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    drop((child.stdout.take(), child.stderr.take()));
    let status = child.wait().expect("it ends");
    let bytes = std::fs::read(json).expect("a result");
    (status, serde_json::from_slice(&bytes).expect("JSON"))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_capture_has_what_was_asked_and_how_it_was_answered_but_no_values() {
    let before = Before::start(&[]);
    let mut clients: Vec<_> = (0..4).map(|_| client(&before.proxy)).collect();
    let prepared = clients[0].prepare(SHOWN).expect("prepared");
    let capturing = before.capture("a.cap", &[]);
    for client in &mut clients {
        for _ in 0..5 {
            client.query(READ).expect("rows");
        }
        client.query(&READ.replace('4', "5")).expect("rows");
    }
    let bound = 471_147_114_i32.to_be_bytes();
    let answer = clients[0].execute(&prepared, &[&bound], 1);
    answer.expect("an answer").expect("rows");
    before.nodes.follow(|_| Reply::Error(code::OVERLOADED));
    clients[0].query(READ).expect_err("refused");
    let all = capturing.until("all requests", |of| of.requests.len() >= 26);
    let all = all.expect("captured");
    let (status, captured) = capturing.end().expect("it ends");
    assert!(status.success());
    assert_eq!(captured.requests.len(), all.requests.len());
    assert_eq!((captured.requests.len(), captured.mark.lost), (26, 0));
    let texts: Vec<_> = captured
        .statements
        .iter()
        .map(|of| of.text.as_str())
        .collect();
    assert_eq!(texts, [SHOWN]);
    let connections = captured
        .requests
        .iter()
        .map(|of| (of.worker, of.request.connection));
    let mut connections: Vec<_> = connections.collect();
    connections.sort_unstable();
    connections.dedup();
    assert_eq!(connections.len(), 4);
    // One key was asked 22 times, by text and by value, and another 4 times.
    let hot = captured
        .requests
        .iter()
        .filter(|of| of.request.key == captured.requests[0].request.key);
    assert_eq!(hot.count(), 22);
    let of_execute = captured
        .requests
        .iter()
        .filter(|of| of.request.opcode == Opcode::Execute as u8);
    assert_eq!(of_execute.count(), 1);
    let errors = captured.requests.iter().filter_map(|of| of.answer?.error);
    assert_eq!(errors.collect::<Vec<_>>(), [code::OVERLOADED as u32]);
    for secret in [&b"471147114"[..], b"571157115", &bound] {
        assert!(!contains(&captured.bytes, secret));
    }
    let shown = helenus(&[
        "capture",
        "show",
        before.path("a.cap").to_str().expect("a path"),
    ]);
    let shown = shown.expect("a command").output().expect("it runs").stdout;
    let shown = String::from_utf8(shown).expect("text");
    assert!(
        shown.contains(SHOWN) && shown.contains("26 requests on 4 connections"),
        "{shown}"
    );
    assert!(shown.contains("2 partition keys"), "{shown}");
}

#[test]
fn values_are_recorded_only_where_settings_and_operator_want_it() {
    let before = Before::start(&["admin.token=all", "admin.read_token=some"]);
    let admin = before.proxy.admin.to_string();
    let socket = before.path("admin.sock");
    let socket = ["--socket", socket.to_str().expect("a path")];
    let (code, why) = before.refused(&[&socket[..], &["--values"]].concat());
    assert!(code == 2 && why.contains("admin.show_keys"), "{code} {why}");
    std::fs::write(before.path("some"), "some").expect("written");
    let token = before.path("some");
    let token = token.to_str().expect("a path");
    let (code, why) = before.refused(&["--admin", &admin, "--admin-token-file", token]);
    assert_eq!(code, 3, "{why}");
    let (code, why) = before.refused(&["--admin", &admin]);
    assert_eq!(code, 3, "{why}");
    // One at a time, until its reader goes.
    let first = before.capture("first.cap", &[]);
    let (code, why) = before.refused(&socket);
    assert!(code == 2 && why.contains("one at a time"), "{code} {why}");
    drop(first);
    let begun = std::time::Instant::now();
    loop {
        let options: &[&str] = &[];
        let again = Capturing::begin(
            &before.path("admin.sock"),
            before.path("again.cap"),
            options,
        );
        if again.is_ok() {
            break;
        }
        assert!(
            begun.elapsed() < helenus_tests::raw::PATIENCE,
            "still under way"
        );
    }
}

#[test]
fn a_reader_that_stands_still_loses_requests_and_delays_no_client() {
    let before = Before::start(&["admin.show_keys=true"]);
    let capturing = before.capture("slow.cap", &["--values"]);
    capturing.signal(Signal::STOP).expect("stopped");
    let mut client = client(&before.proxy);
    // More than the channel and the socket's buffers have room for.
    let filler = "x".repeat(60_000);
    let asked = 600;
    for n in 0..asked {
        let text = format!("SELECT v FROM ks.t WHERE k = {n} -- {filler}\n");
        client.query(&text).expect("rows");
    }
    capturing.signal(Signal::CONT).expect("goes on");
    let all =
        |of: &helenus_tests::capturing::Captured| of.mark.lost + of.requests.len() as u64 == asked;
    let captured = capturing
        .until("all are there or counted", all)
        .expect("captured");
    assert!(captured.mark.lost > 0 && !captured.requests.is_empty());
    // With values, the text is there.
    assert!(contains(&captured.bytes, filler.as_bytes()));
}

#[test]
fn results_are_whole_though_nobody_reads_the_output() {
    let before = Before::start(&["admin.show_keys=true"]);
    let mut client = client(&before.proxy);
    let prepared = client.prepare(SHOWN).expect("prepared");
    let capturing = before.capture("a.cap", &["--values"]);
    for key in 0..10_i32 {
        let answer = client.execute(&prepared, &[&key.to_be_bytes()], 1);
        answer.expect("an answer").expect("rows");
    }
    let all = capturing.until("all requests", |of| of.requests.len() >= 10);
    all.expect("captured");
    capturing.end().expect("it ends");
    let (socket, file) = (before.path("admin.sock"), before.path("a.cap"));
    let [socket, file] = [&socket, &file].map(|path| path.to_str().expect("a path"));
    let to = format!("to={}", before.proxy.address);
    let replay = ["replay", file, "--endpoint", &to, "--closed"];
    let (status, result) = unread(&replay, &before.path("replayed.json"));
    assert!(status.success(), "{status}");
    assert_eq!(result["requests"], 10, "{result:#}");
    let mirror = [
        "mirror",
        "--socket",
        socket,
        "--endpoint",
        &to,
        "--for",
        "1s",
    ];
    let (status, result) = unread(&mirror, &before.path("mirrored.json"));
    assert!(status.success(), "{status}");
    assert_eq!(result["arms"], serde_json::json!(["clients", "to"]));
}

#[test]
fn a_mirror_that_is_refused_leaves_no_file_of_its_own() {
    let before = Before::start(&[]);
    let (socket, json) = (before.path("admin.sock"), before.path("result.json"));
    let to = format!("to={}", before.proxy.address);
    let mirror = || {
        let [socket, json] = [&socket, &json].map(|path| path.to_str().expect("a path"));
        let arguments = [
            "mirror",
            "--socket",
            socket,
            "--endpoint",
            &to,
            "--json",
            json,
        ];
        let output = helenus(&arguments).expect("a command").output();
        let output = output.expect("it runs");
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{why}");
        assert!(why.contains("admin.show_keys"), "{why}");
    };
    mirror();
    assert!(!json.exists());
    std::fs::write(&json, "earlier").expect("written");
    mirror();
    assert_eq!(std::fs::read(&json).expect("kept"), b"earlier");
}
