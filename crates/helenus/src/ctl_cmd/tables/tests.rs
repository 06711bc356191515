use super::*;
use serde_json::json;

#[test]
fn nothing_that_controls_a_terminal_is_printed() {
    let evil = "a\u{1b}[2Jb\r\nc\u{9b}31m";
    let value = json!({
        "all": 1, "silent_workers": 0,
        "clients": [{ "id": "1", "application": evil, "driver": evil, "keyspace": evil }],
    });
    let shown = text(What::Clients, &value, 10).expect("text");
    let is_wrong = |c: char| c.is_control() && c != '\n';
    assert!(!shown.contains(is_wrong), "{shown:?}");
    assert_eq!(shown.lines().count(), 3, "{shown:?}");
    let shown = pause(&json!({ "keyspace": evil, "left_s": 1, "waiting_max": 1 }));
    assert!(!shown.contains(char::is_control), "{shown:?}");
}

#[test]
fn slow_requests_show_where_their_time_went() {
    let value = json!({
        "slow_ms": 100, "slow_scan_ms": 2000, "left_out": 3, "silent_workers": 1,
        "slow": [{
            "at_unix_ms": 1, "statement": "SELECT v FROM t WHERE k = ?", "keyspace": "shop",
            "role": "app", "client": "10.0.0.1:5", "opcode": "QUERY", "class": "point",
            "execution": "whole", "took_us": 250_000, "queued_us": 100_000, "at_nodes_us": 149_000,
            "elsewhere_us": 1_000, "slowest_node": "10.0.0.9:9042", "node_requests": 1,
            "attempts": 2, "hedged": true, "shared": false, "error": "READ_TIMEOUT"
        }]
    });
    let shown = text(What::Slow, &value, 20).expect("a table");
    for part in [
        "250.0 ms",
        "100.0 ms",
        "149.0 ms",
        "1.0 ms",
        "10.0.0.9:9042",
        "whole, hedged, READ_TIMEOUT",
        "[shop] SELECT v FROM t WHERE k = ?",
        "3 more were too many",
        "1 worker has not answered",
        "from 100 ms on",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

#[test]
fn what_is_too_much_or_missing_is_said() {
    let rules = json!([{"name": "a", "matched": 5, "refused": 1}, {"name": "b"}]);
    let shown = text(What::Rules, &rules, 1).expect("a table");
    assert!(shown.contains("1 more: --limit"), "{shown}");
    let none = text(What::Pauses, &json!([]), 20).expect("a table");
    assert!(none.contains("(none)"), "{none}");
    let long = "é".repeat(200);
    assert_eq!(cut(&long).chars().count(), STATEMENT_CHARS_MAX + 1);
}

#[test]
fn settings_are_shown_as_they_are_written() {
    let value = json!({"admin": {"token": null, "slow_ms": 100}, "rules": []});
    let shown = text(What::Config, &value, 20).expect("TOML");
    assert!(shown.contains("[admin]\nslow_ms = 100"), "{shown}");
}

#[test]
fn a_reload_says_what_needs_a_restart() {
    let value = json!({"changed": ["admin.token"], "needs_restart": ["listen.address"]});
    let said = reloaded(&value);
    assert!(said.contains("changed: admin.token"), "{said}");
    assert!(said.contains("restart: listen.address"), "{said}");
}
#[test]
fn workers_that_have_not_disconnected_anybody_yet_are_told() {
    let told = |silent: u64| killed(&json!({ "killed": 3, "silent_workers": silent }));
    assert_eq!(told(0), "3 clients are disconnected\n");
    assert!(told(1).contains("1 worker has not answered"));
    assert!(told(2).contains("2 workers have not answered"));
}
