//! Proxies that answer as real ones do, for tests.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::app::{App, Ask, Input, Wish};
use super::proxy::{Failed, Why};
use super::tab::{Feed, Tab};

pub(super) const NOW_MS: u64 = 1_700_000_000_000;

/// The answer of a proxy, so many looks after the first.
pub(super) fn answer(ask: &Ask, look: u64) -> Result<Value, Failed> {
    Ok(match ask.feed {
        Feed::Snapshot => snapshot(look),
        Feed::Clients => clients(),
        Feed::Statements => statements(),
        Feed::Slow => slow(),
        Feed::Errors => errors(look),
        Feed::Keys => keys(),
        Feed::Queues => json!([
            {"node": "10.0.0.1:9042", "class": "point", "queued": 2, "dispatched": 9000, "aged": 0,
             "refused": 0, "expired": 0, "shed": 0, "wait_us_p50": 90, "wait_us_p99": 2400},
            {"node": "10.0.0.2:9042", "class": "scan", "queued": 7, "dispatched": 300, "aged": 1,
             "refused": 3, "expired": 0, "shed": 0, "wait_us_p50": null, "wait_us_p99": null},
        ]),
        Feed::Pools => json!({"has_more": false, "silent_workers": 1, "pools": [
            {"role": "app", "role_number": 1, "node": "10.0.0.1:9042", "clients": 40, "links": 2,
             "opening": 0, "special_links": 1, "in_flight": 3},
        ]}),
        Feed::Events | Feed::History => {
            return Err(Failed {
                text: "it does not know that".to_owned(),
                why: Why::NotKnown,
            });
        }
    })
}

fn snapshot(look: u64) -> Value {
    let latency = json!({
        "count": 100 * look, "sum_us": 0, "buckets": [[3, 90 * look], [5, 10 * look]]
    });
    let node = |address: &str, state: &str| {
        json!({
            "address": address, "dc": "dc1", "rack": "r1", "release_version": "5.0.5", "state": state,
            "links_up": 2, "in_flight": 3, "queued": 1, "scan_slots_taken": 1, "slowdown": 1.25,
            "counters": {"requests": 500 * look, "errors": 2 * look, "timeouts": 0},
            "latency": latency,
        })
    };
    let idle = json!({"count": 0, "sum_us": 0, "buckets": []});
    json!({
        "version": "0.1.0", "started_unix_ms": NOW_MS - 3_600_000, "now_unix_ms": NOW_MS + look * 1_000,
        "cluster": "Test Cluster", "ready": true, "ready_reason": null, "clients": 42,
        "resident_bytes": 50 << 20, "cpu_seconds": look as f64 / 4.0,
        "bounds_us": [100, 200, 400, 800, 1600, 3200],
        "classes": [
            {"class": "point", "latency": latency, "queued": 2},
            {"class": "scan", "latency": idle, "queued": 1},
            {"class": "write", "latency": latency, "queued": 0},
        ],
        "nodes": [node("10.0.0.1:9042", "up"), node("10.0.0.2:9042", "down")],
        "layouts": null,
    })
}

fn clients() -> Value {
    let client = |number: u64| {
        json!({
            "id": format!("1f-0-{number}"), "address": format!("10.1.0.{number}:50000"), "role": "app",
            "driver": "Java Driver", "driver_version": "4.17", "application": "shop", "protocol": 5,
            "tls": false, "compression": "none", "keyspace": "shop", "in_flight": number % 7,
            "requests": 1_000 * number, "bytes_in": 2_048 * number, "bytes_out": 4_096 * number,
            "age_s": 60.0 * number as f64, "idle_s": 0.1, "ready": true, "held": false
        })
    };
    let rows: Vec<Value> = (1..=40).map(client).collect();
    json!({"all": 42, "silent_workers": 0, "clients": rows})
}

fn statements() -> Value {
    json!({"silent_workers": 0, "statements": [
        {"statement": "SELECT * FROM shop.orders WHERE id = ?", "keyspace": null, "role": "app",
         "calls_per_s": 900.0, "rows_per_s": 900.0, "bytes_per_s": 90_000.0, "errors_per_s": 0.0,
         "time_share": 0.75, "mean_us": 800.0, "p99_us": 2_500.0, "at_nodes_mean_us": 700.0,
         "at_nodes_p99_us": 2_000.0},
        {"statement": "SELECT id FROM orders ALLOW FILTERING", "keyspace": "shop", "role": "report",
         "calls_per_s": 0.1, "rows_per_s": 5_000.0, "bytes_per_s": 4_000_000.0, "errors_per_s": 0.1,
         "time_share": 0.25, "mean_us": 2_500_000.0, "p99_us": 9_000_000.0,
         "at_nodes_mean_us": 2_400_000.0, "at_nodes_p99_us": 8_000_000.0},
    ]})
}

fn slow() -> Value {
    let request = |ago_s: u64, took_us: u64, statement: &str| {
        json!({
            "at_unix_ms": NOW_MS - ago_s * 1_000, "statement": statement, "keyspace": "shop",
            "role": "app", "client": "10.1.0.7:50000", "opcode": "EXECUTE", "class": "point",
            "consistency": "LOCAL_QUORUM", "execution": "whole", "took_us": took_us,
            "queued_us": took_us / 4, "at_nodes_us": took_us / 2, "elsewhere_us": took_us / 4,
            "slowest_us": took_us / 2, "slowest_node": "10.0.0.2:9042", "nodes": ["10.0.0.2:9042"],
            "node_requests": 1, "attempts": 1, "hedged": false, "shared": false, "bytes": 512,
            "error": null
        })
    };
    json!({"slow_ms": 100, "slow_scan_ms": 2_000, "left_out": 3, "silent_workers": 0, "slow": [
        request(2, 250_000, "SELECT v FROM orders WHERE id = ?"),
        request(90, 1_400_000, "SELECT a, b, c\nFROM orders WHERE id = ? AND day > ? ORDER BY day DESC"),
    ]})
}

fn errors(look: u64) -> Value {
    json!({"silent_workers": 0, "by_code": [
        {"error": "READ_TIMEOUT", "code": 0x1200, "count": 3 * look, "last": null},
        {"error": "INVALID", "code": 0x2200, "count": 5, "last": null},
    ], "recent": [{
        "at_unix_ms": NOW_MS - 5_000, "error": "READ_TIMEOUT", "statement": "SELECT v FROM orders WHERE id = ?",
        "keyspace": "shop", "role": "app", "client": "10.1.0.7:50000", "opcode": "EXECUTE",
        "message": "Operation timed out", "node": "10.0.0.2:9042"
    }]})
}

fn keys() -> Value {
    json!({
        "keys_shown": false, "work_us_per_s": 1_000.0, "floor_us_per_s": 1.0, "reads_per_s": 10.0,
        "writes_per_s": 1.0,
        "keys": [{
            "keyspace": "shop", "table": "orders", "role": "app", "role_number": 1, "token": "-5",
            "key": null, "share": 0.5, "work_us_per_s": 500.0, "error_us_per_s": 0.0,
            "shared_us_per_s": 0.0, "reads_per_s": 9.0, "writes_per_s": 0.0, "bytes_per_s": 2_048.0,
            "spread": true
        }]
    })
}

/// A state after some looks, one a second, at proxies that all answer but for those named.
pub(super) fn looked(names: &[&str], tab: Tab, looks: u64, silent: &[usize]) -> App {
    let mut app = App::new(
        names.iter().map(|name| (*name).to_owned()).collect(),
        tab,
        1_000,
    );
    for look in 1..=looks {
        let now_ms = NOW_MS + look * 1_000;
        for ask in app.due(now_ms) {
            let answer = match silent.contains(&ask.proxy) {
                true => Err(Failed {
                    text: "Connection refused".to_owned(),
                    why: Why::NoAnswer,
                }),
                false => answer(&ask, look),
            };
            app.update(Input::Answered(ask, answer), now_ms);
        }
    }
    app
}

/// Presses keys: characters, and names in brackets.
pub(super) fn press(app: &mut App, keys: &str) -> Option<Wish> {
    let mut wish = None;
    let mut rest = keys;
    while let Some(first) = rest.chars().next() {
        let (code, length) = named(rest).unwrap_or((KeyCode::Char(first), first.len_utf8()));
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        wish = app.on_key(key, app.now_ms);
        rest = &rest[length..];
    }
    wish
}

fn named(keys: &str) -> Option<(KeyCode, usize)> {
    let names = [
        ("<enter>", KeyCode::Enter),
        ("<esc>", KeyCode::Esc),
        ("<tab>", KeyCode::Tab),
        ("<back>", KeyCode::Backspace),
        ("<backtab>", KeyCode::BackTab),
        ("<end>", KeyCode::End),
        ("<pgdn>", KeyCode::PageDown),
        ("<down>", KeyCode::Down),
    ];
    let found = names.into_iter().find(|(name, _)| keys.starts_with(name));
    found.map(|(name, code)| (code, name.len()))
}
