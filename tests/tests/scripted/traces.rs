//! Traces of requests, before a collector that does what it is told.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use helenus_tests::collector::{Collector, Said, Span};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, ONE, op};
use helenus_wire::{code, write};

use crate::nodes::{Nodes, Reply, Spec};
use crate::{client, metric};

/// No read of the table has anything of this.
const READ: &str = "SELECT count(*) FROM ks.t WHERE k = 4711";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const PATIENCE: Duration = Duration::from_secs(20);

fn proxy(nodes: &Nodes, collector: &Collector, settings: &[&str]) -> Proxy {
    let endpoint = collector.setting();
    let mut all = vec!["listen.workers=1", "assignment.hedging=false", &endpoint];
    all.extend(settings);
    Proxy::start(&nodes.addresses[..1], &all).expect("proxy")
}

/// Waits for what comes about by itself.
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            begin.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the proxy has links to all nodes, so that there is another where one refuses.
fn wait_for_links(proxy: &Proxy, nodes: &Nodes) {
    eventually("links to all nodes", || {
        let (_, page) = proxy.admin_get("/metrics", None).expect("metrics");
        let links = page
            .lines()
            .filter(|line| line.starts_with("helenus_node_links_up{"));
        let up = links.filter(|line| !line.ends_with(" 0"));
        (up.count() == nodes.addresses.len()).then_some(())
    });
}

/// The spans of so many requests, once they have come.
fn spans(collector: &Collector, requests: usize) -> Vec<Span> {
    eventually("spans", || {
        let (spans, _) = collector.spans().expect("spans");
        let roots = spans.iter().filter(|span| span.kind == 2).count();
        assert!(roots <= requests, "{roots} requests: {spans:#?}");
        (roots == requests).then_some(spans)
    })
}

/// A read whose custom payload names a parent.
fn read_followed(client: &mut Client<TcpStream>, sampled: &str) {
    let parent = format!("00-{TRACE}-{PARENT}-{sampled}");
    read_with(client, parent.as_bytes());
}

fn read_with(client: &mut Client<TcpStream>, parent: &[u8]) {
    let mut body = Vec::new();
    write::u16(&mut body, 2);
    write::string(&mut body, "other");
    write::bytes(&mut body, Some(b"x"));
    write::string(&mut body, "traceparent");
    write::bytes(&mut body, Some(parent));
    body.extend(client.query_body(READ, ONE));
    let answer = client
        .call_flagged(op::QUERY, 0x04, &body)
        .expect("an answer");
    answer.judged().expect("an answer").expect("rows");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is(span: &Span, key: &str, expected: &str) {
    let found = span.attributes.get(key).map(String::as_str);
    assert_eq!(found, Some(expected), "{key} of {span:#?}");
}

#[test]
fn a_request_becomes_a_span_with_its_attempts_below_and_no_values() {
    let nodes = Nodes::start(Spec::default());
    let collector = Collector::start().expect("a collector");
    let mut headers = tempfile::NamedTempFile::new().expect("a file");
    writeln!(headers, "authorization: Bearer hush").expect("written");
    let file = format!("tracing.headers_file={}", headers.path().display());
    let settings = [
        "tracing.sample_ratio=1.0",
        "tracing.service_name=orders",
        "tracing.resource={\"deployment.environment.name\"=\"test\"}",
        &file,
    ];
    let proxy = proxy(&nodes, &collector, &settings);
    let mut client = client(&proxy);
    wait_for_links(&proxy, &nodes);
    // The first that is asked does not even try.
    let tried = std::sync::atomic::AtomicUsize::new(0);
    nodes.follow(
        move |_| match tried.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => Reply::Error(code::IS_BOOTSTRAPPING),
            _ => Reply::Rows,
        },
    );
    client.query(READ).expect("rows");
    let asked: Vec<usize> = nodes.asked().iter().map(|asked| asked.node).collect();
    assert_eq!(asked.len(), 2);
    let spans = spans(&collector, 1);
    let root = spans
        .iter()
        .find(|span| span.kind == 2)
        .expect("the request");
    assert_eq!(root.name, "SELECT ks.t");
    assert!(root.parent_span_id.is_empty());
    for (key, value) in [
        ("db.system.name", "cassandra"),
        ("db.namespace", "ks"),
        ("db.collection.name", "t"),
        ("db.operation.name", "SELECT"),
        ("db.query.text", "SELECT count(*) FROM ks.t WHERE k = ?"),
        ("cassandra.consistency.level", "one"),
        ("client.address", "127.0.0.1"),
    ] {
        is(root, key, value);
    }
    let mut attempts: Vec<&Span> = spans.iter().filter(|span| span.kind == 3).collect();
    attempts.sort_by_key(|span| span.start_ns);
    assert_eq!(attempts.len(), 2, "{spans:#?}");
    for (attempt, node) in attempts.iter().zip(&asked) {
        let address = nodes.addresses[*node];
        is(attempt, "network.peer.address", &address.ip().to_string());
        is(attempt, "network.peer.port", &address.port().to_string());
        assert!(attempt.attributes.contains_key("cassandra.coordinator.id"));
    }
    is(attempts[0], "helenus.attempt.end", "error");
    is(attempts[0], "error.type", "IS_BOOTSTRAPPING");
    assert!(attempts[0].is_error && !attempts[1].is_error && !root.is_error);
    is(attempts[1], "helenus.attempt.end", "answered");
    assert!(attempts[0].end_ns <= attempts[1].start_ns);
    let ids: BTreeSet<&[u8]> = spans.iter().map(|span| &span.span_id[..]).collect();
    assert_eq!(ids.len(), spans.len());
    for child in spans.iter().filter(|span| span.kind != 2) {
        assert_eq!(
            (&child.trace_id, &child.parent_span_id),
            (&root.trace_id, &root.span_id)
        );
        assert!(root.start_ns <= child.start_ns && child.start_ns <= child.end_ns);
        assert!(child.end_ns <= root.end_ns);
    }
    let (_, resource) = collector.spans().expect("spans");
    assert_eq!(resource["service.name"], "orders");
    assert_eq!(resource["deployment.environment.name"], "test");
    assert_eq!(resource["service.instance.id"], proxy.address.to_string());
    for post in collector.posts() {
        assert!(
            post.head.starts_with("POST /v1/traces HTTP/1.1\r\n"),
            "{}",
            post.head
        );
        assert!(
            post.head.contains("application/x-protobuf"),
            "{}",
            post.head
        );
        assert!(
            post.head.contains("authorization: Bearer hush"),
            "{}",
            post.head
        );
        let body = String::from_utf8_lossy(&post.body);
        assert!(!body.contains("4711"), "{body}");
    }
    eventually("counted", || {
        (metric(&proxy, "helenus_traces_exported_total") >= 1.0).then_some(())
    });
    assert!(!proxy.log().contains("hush"));
}

#[test]
fn a_client_says_which_of_its_requests_are_followed_and_nodes_get_what_it_sent() {
    let nodes = Nodes::start(Spec::default());
    let collector = Collector::start().expect("a collector");
    let settings = ["tracing.sample_ratio=0.0", "tracing.slow=false"];
    let proxy = proxy(&nodes, &collector, &settings);
    let mut client = client(&proxy);
    nodes.follow(|_| Reply::Rows);
    client.query(READ).expect("rows");
    read_followed(&mut client, "00");
    read_followed(&mut client, "01");
    let payloads: Vec<usize> = nodes
        .asked()
        .iter()
        .map(|asked| asked.payload.len())
        .collect();
    assert_eq!(payloads[0], 0);
    let sent = 2 + (2 + 5 + 4 + 1) + (2 + 11 + 4 + 55);
    assert_eq!(payloads[1..], [sent, sent]);
    let spans = spans(&collector, 1);
    let root = spans
        .iter()
        .find(|span| span.kind == 2)
        .expect("the request");
    assert_eq!(
        (hex(&root.trace_id), hex(&root.parent_span_id)),
        (TRACE.into(), PARENT.into())
    );
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE));
}

#[test]
fn a_collector_that_is_down_holds_nothing_up_and_what_it_misses_is_counted() {
    let nodes = Nodes::start(Spec::default());
    let collector = Collector::start().expect("a collector");
    // It is busy, then says nothing, then does not want them.
    collector.answer(vec![Said::Status(503), Said::Nothing, Said::Status(400)]);
    let settings = ["tracing.sample_ratio=1.0", "tracing.timeout_ms=200"];
    let proxy = proxy(&nodes, &collector, &settings);
    let mut client = client(&proxy);
    nodes.follow(|_| Reply::Rows);
    for _ in 0..3 {
        client.query(READ).expect("rows");
    }
    // Three attempts at one message, which is then given up.
    eventually("given up", || {
        (metric(&proxy, "helenus_traces_dropped_total") >= 3.0).then_some(())
    });
    assert!(collector.posts().len() >= 3);
    assert_eq!(metric(&proxy, "helenus_traces_exported_total"), 0.0);
    let warning = "spans cannot be sent to the collector";
    let log = proxy.expect_logged(warning);
    assert_eq!(log.matches(warning).count(), 1, "{log}");
    client.query(READ).expect("rows");
    eventually("taken", || {
        (metric(&proxy, "helenus_traces_exported_total") >= 1.0).then_some(())
    });
    proxy.expect_logged("takes spans again");
    // Traces that are left when the proxy ends are sent.
    client.query(READ).expect("rows");
    drop(client);
    let before = collector.posts().len();
    let mut proxy = proxy;
    proxy.terminate().expect("told to end");
    proxy.wait(PATIENCE).expect("ended");
    assert_eq!(collector.posts().len(), before + 1);
}

#[test]
fn a_collector_that_talks_nonsense_holds_nothing_up() {
    let nodes = Nodes::start(Spec::default());
    let collector = Collector::start().expect("a collector");
    let endless = [
        &b"HTTP/1.1 200 OK\r\nX-Long: "[..],
        &vec![b'x'; 10 * 1024 * 1024],
    ]
    .concat();
    let large = [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n"[..],
        &vec![0xff; 10_000_000],
    ]
    .concat();
    let nonsense = b"\x1b[2J\x00SSH-2.0-none\r\n\r\n".to_vec();
    collector.answer(vec![
        Said::Bytes(nonsense),
        Said::Bytes(endless),
        Said::Bytes(large),
    ]);
    let proxy = proxy(&nodes, &collector, &["tracing.sample_ratio=1.0"]);
    let mut client = client(&proxy);
    nodes.follow(|_| Reply::Rows);
    client.query(READ).expect("rows");
    eventually("given up", || {
        client.query(READ).expect("rows");
        (metric(&proxy, "helenus_traces_dropped_total") >= 1.0).then_some(())
    });
    assert!(!proxy.log().contains("\u{1b}[2J"), "{}", proxy.log());
    eventually("taken", || {
        (metric(&proxy, "helenus_traces_exported_total") >= 1.0).then_some(())
    });
}

#[test]
fn what_is_no_parent_counts_as_none() {
    let nodes = Nodes::start(Spec::default());
    let collector = Collector::start().expect("a collector");
    let settings = ["tracing.sample_ratio=0.0", "tracing.slow=false"];
    let proxy = proxy(&nodes, &collector, &settings);
    let mut client = client(&proxy);
    nodes.follow(|_| Reply::Rows);
    let good = format!("00-{TRACE}-{PARENT}-01");
    for cut in [0, 1, 2, 3, 34, 35, 52, 54] {
        read_with(&mut client, &good.as_bytes()[..cut]);
    }
    for wrong in [
        good.replace("00-4", "ff-4"),
        good.to_uppercase(),
        good.clone() + "-01",
        good.replace(TRACE, &"0".repeat(32)),
        good.replace(PARENT, &"0".repeat(16)),
        good.replace('-', "\0"),
        "\u{1b}".repeat(55),
        "ä".repeat(30_000),
    ] {
        read_with(&mut client, wrong.as_bytes());
    }
    read_with(&mut client, &[0xff; 55]);
    read_with(&mut client, &vec![b'0'; 1 << 20]);
    read_with(&mut client, good.as_bytes());
    spans(&collector, 1);
}

#[test]
fn settings_that_cannot_be_meant_are_refused_and_others_take_effect_at_once() {
    let nodes = Nodes::start(Spec::default());
    for (settings, named) in [
        (
            vec!["tracing.endpoint=https://otel:4318"],
            "tracing.endpoint",
        ),
        (vec!["tracing.sample_ratio=2.0"], "tracing.sample_ratio"),
        (
            vec!["tracing.headers_file=/nowhere"],
            "tracing.headers_file",
        ),
    ] {
        let report =
            helenus_tests::proxy::check(&nodes.addresses[..1], &settings).expect("a report");
        assert!(report.contains(named), "{report}");
    }
    let collector = Collector::start().expect("a collector");
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let (address, admin) = helenus_tests::proxy::free_addresses("127.0.0.1").expect("ports");
    let base = format!(
        "[listen]\naddress = \"{address}\"\nworkers = 1\n[cluster]\ncontact_points = [\"{}\"]\n\
         [admin]\naddress = \"{admin}\"\n",
        nodes.addresses[0]
    );
    file.write_all(base.as_bytes()).expect("written");
    let mut proxy = Proxy::launch(&helenus_tests::proxy::Options {
        config: Some(file.path()),
        addresses: Some((address, admin)),
        ..Default::default()
    })
    .expect("proxy");
    proxy.wait_ready().expect("ready");
    let mut client = client(&proxy);
    nodes.follow(|_| Reply::Rows);
    client.query(READ).expect("rows");
    write!(
        file,
        "[tracing]\nendpoint = \"http://{}\"\nsample_ratio = 1.0\n",
        collector.address
    )
    .expect("written");
    proxy.reload().expect("told to reload");
    eventually("reloaded", || {
        proxy.log().contains("settings reloaded").then_some(())
    });
    client.query(READ).expect("rows");
    spans(&collector, 1);
}
