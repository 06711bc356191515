//! The dashboard of a proxy whose nodes and whose admin server both ask who one is.

use std::collections::BTreeSet;

use helenus_tests::proxy::Proxy;
use helenus_tests::scripted;
use serde_json::Value;

use crate::{client, eventually, proxy, served_as};

const TOKEN: &str = "everything";
const READ_TOKEN: &str = "only-read";
const READS: u64 = 40;

/// What the page asks the proxy for.
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

#[test]
fn the_dashboard_shows_nodes_that_ask_for_logins_to_whoever_has_a_token() {
    let nodes = scripted::start(2).expect("nodes");
    let token = format!("admin.token={TOKEN}");
    let read_token = format!("admin.read_token={READ_TOKEN}");
    let proxy = proxy(&nodes, &[&token, &read_token]);
    let mut app = client(&proxy, "app");
    for _ in 0..READS {
        assert_eq!(served_as(&mut app).expect("served"), "\0app\0pw");
    }

    // The page has no data, so that a browser can show it before it has a token.
    let (status, page) = proxy.admin_get("/", None).expect("the page");
    assert_eq!(status, 200);
    assert!(page.contains("id=\"token\""), "it asks for the token");
    for secret in [TOKEN, READ_TOKEN, "scripted", "control"] {
        assert!(!page.contains(&format!("\"{secret}\"")), "{secret}");
    }
    let paths = asked_by(&page);
    for path in ["/api/history", "/api/snapshot", "/api/summary"] {
        assert!(paths.contains(path), "{paths:?}");
    }
    for path in &paths {
        let refused = |token| proxy.admin_get(path, token).expect("an answer");
        for token in [None, Some("wrong"), Some("")] {
            let (status, body) = refused(token);
            assert_eq!(status, 401, "{path} with {token:?}: {body}");
            assert!(!body.contains("127."), "{path} with {token:?}: {body}");
        }
        for token in [TOKEN, READ_TOKEN] {
            json(&proxy, path, token);
        }
    }

    for token in [TOKEN, READ_TOKEN] {
        the_tiles_have_values(&proxy, token);
    }
    the_read_token_changes_nothing(&proxy);
    assert_eq!(served_as(&mut app).expect("served"), "\0app\0pw");
}

fn the_tiles_have_values(proxy: &Proxy, token: &str) {
    // A step is a second long.
    eventually("requests and nodes are in the history", || {
        let history = json(proxy, "/api/history?coarse=none", token);
        let steps = history["fine"]["steps"].as_array().expect("steps");
        let requests: u64 = steps
            .iter()
            .flat_map(|step| step["classes"].as_object().expect("classes").values())
            .map(|class| sum_of_pairs(&class["latency"]))
            .sum();
        let gauges = steps.last().map(|step| &step["gauges"]);
        let is = |name: &str, number: u64| gauges.is_some_and(|of| of[name] == number);
        requests >= READS && is("nodes", 2) && is("nodes_up", 2) && is("clients", 1)
    });
    let snapshot = json(proxy, "/api/snapshot", token);
    assert_eq!(snapshot["cluster"], "scripted");
    assert_eq!(snapshot["ready"], true, "{snapshot}");
    let nodes = snapshot["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 2);
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
    assert_eq!(clients["clients"][0]["role"], "app", "{clients}");
}

fn the_read_token_changes_nothing(proxy: &Proxy) {
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
    let (status, body) = post(READ_TOKEN);
    assert_eq!(status, "403", "{body}");
    assert!(body.contains("this token only reads"), "{body}");
    let (status, body) = post("wrong");
    assert_eq!(status, "401", "{body}");
    // Nothing is paused, which only who may change something is told.
    let (status, body) = post(TOKEN);
    assert!(
        !["401", "403"].contains(&status.as_str()),
        "{status} {body}"
    );
}
