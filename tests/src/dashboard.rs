//! The content of a proxy's dashboard, and who may see it.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::proxy::Proxy;
use crate::raw::PATIENCE;

/// The expected content.
pub struct Shown<'a> {
    /// `admin.token` and `admin.read_token`.
    pub tokens: [&'a str; 2],
    pub cluster: &'a str,
    pub nodes: usize,
    /// The role of the only client.
    pub role: &'a str,
    /// Requests of clients, at least.
    pub requests: u64,
}

/// Checks that the page has no data, that all it asks for wants a token, what its tiles get with either token, and that
/// the one that only reads changes nothing.
pub fn check(proxy: &Proxy, shown: &Shown<'_>) {
    // The page has no data, so that a browser can show it before it has a token.
    let (status, page) = proxy.admin_get("/", None).expect("the page");
    assert_eq!(status, 200);
    assert!(page.contains("id=\"token\""), "it asks for the token");
    for secret in [shown.tokens[0], shown.tokens[1], shown.cluster] {
        assert!(!page.contains(&format!("\"{secret}\"")), "{secret}");
    }
    let paths = asked_by(&page);
    for path in ["/api/history", "/api/snapshot", "/api/summary"] {
        assert!(paths.contains(path), "{paths:?}");
    }
    for path in &paths {
        for token in [None, Some("wrong"), Some("")] {
            let (status, body) = proxy.admin_get(path, token).expect("an answer");
            assert_eq!(status, 401, "{path} with {token:?}: {body}");
            assert!(!body.contains("127."), "{path} with {token:?}: {body}");
        }
        for token in shown.tokens {
            json(proxy, path, token);
        }
    }
    for token in shown.tokens {
        the_tiles_have_values(proxy, token, shown);
    }
    the_read_token_changes_nothing(proxy, shown.tokens);
}

/// The names of `/api/` that the page asks for.
fn asked_by(page: &str) -> BTreeSet<String> {
    let names = page.split("api/").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_lowercase());
        &rest[..end.unwrap_or(rest.len())]
    });
    names.map(|name| format!("/api/{name}")).collect()
}

fn json(proxy: &Proxy, path: &str, token: &str) -> Value {
    let (status, body) = proxy.admin_get(path, Some(token)).expect("an answer");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {e}: {body}"))
}

/// The second numbers of pairs.
fn sum_of_pairs(pairs: &Value) -> u64 {
    let pairs = pairs.as_array().expect("pairs").iter();
    pairs.skip(1).step_by(2).filter_map(Value::as_u64).sum()
}

fn the_tiles_have_values(proxy: &Proxy, token: &str, shown: &Shown<'_>) {
    // A step is a second long.
    let begin = Instant::now();
    while !is_in_history(&json(proxy, "/api/history?coarse=none", token), shown) {
        assert!(begin.elapsed() < PATIENCE, "not in the history");
        thread::sleep(Duration::from_millis(50));
    }
    let snapshot = json(proxy, "/api/snapshot", token);
    assert_eq!(snapshot["cluster"], shown.cluster);
    assert_eq!(snapshot["ready"], true, "{snapshot}");
    let nodes = snapshot["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), shown.nodes);
    for node in nodes {
        assert_eq!(node["state"], "up", "{node}");
        assert!(node["links_up"].as_u64() >= Some(1), "{node}");
    }
    let summary = json(proxy, "/api/summary?seconds=300&points=60", token);
    let per_s = |of: &Value| of["requests_per_s"].as_f64().expect("a rate");
    let nodes = summary["nodes"].as_array().expect("nodes");
    assert!(nodes.iter().map(per_s).sum::<f64>() > 0.0, "{summary}");
    let clients = json(proxy, "/api/clients", token);
    assert_eq!(clients["all"], 1, "{clients}");
    assert_eq!(clients["clients"][0]["role"], shown.role, "{clients}");
}

/// True if its steps tell of all requests, and the last one of all nodes and the client.
fn is_in_history(history: &Value, shown: &Shown<'_>) -> bool {
    let steps = history["fine"]["steps"].as_array().expect("steps");
    let classes = steps
        .iter()
        .flat_map(|step| step["classes"].as_object().expect("classes").values());
    let requests: u64 = classes.map(|class| sum_of_pairs(&class["latency"])).sum();
    let gauges = steps.last().map(|step| &step["gauges"]);
    let is = |name: &str, number: usize| gauges.is_some_and(|of| of[name] == number);
    let nodes = is("nodes", shown.nodes) && is("nodes_up", shown.nodes);
    requests >= shown.requests && nodes && is("clients", 1)
}

fn the_read_token_changes_nothing(proxy: &Proxy, [all, read]: [&str; 2]) {
    let post = |token: &str| {
        let headers = format!(
            "Host: {}\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n",
            proxy.admin
        );
        let (head, body) = proxy
            .admin_request("POST", "/api/resume?role=app", &headers)
            .expect("an answer");
        let status = head.split(' ').nth(1).map(str::to_owned);
        (status.expect("a status"), body)
    };
    let (status, body) = post(read);
    assert_eq!(status, "403", "{body}");
    assert!(body.contains("this token only reads"), "{body}");
    let (status, body) = post("wrong");
    assert_eq!(status, "401", "{body}");
    // Nothing is paused, which only who may change something is told.
    let (status, body) = post(all);
    assert!(
        !["401", "403"].contains(&status.as_str()),
        "{status} {body}"
    );
}
