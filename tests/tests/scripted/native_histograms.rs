//! Metrics in Protobuf, as Prometheus asks for them with its feature of native histograms.

use std::io::{Read, Write};
use std::net::TcpStream;

use helenus_tests::protobuf::{Message, Value, packed, take, varint, zigzag};
use helenus_tests::proxy::Proxy;

use crate::client;
use crate::nodes::{Nodes, Reply, Spec};

const ACCEPT: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
    encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,\
    text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

/// Head and body of the page of metrics.
fn page(proxy: &Proxy) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(proxy.admin).expect("the admin server");
    let head = format!(
        "GET /metrics HTTP/1.1\r\nHost: {}\r\nAccept: {ACCEPT}\r\nConnection: close\r\n\r\n",
        proxy.admin
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer
        .windows(4)
        .position(|of| of == b"\r\n\r\n")
        .expect("a head");
    let head = String::from_utf8(answer[..end].to_vec()).expect("text");
    (head, answer[end + 4..].to_vec())
}

#[test]
fn prometheus_gets_native_histograms_if_it_asks_and_the_settings_say_so() {
    let nodes = Nodes::start(Spec::default());
    nodes.follow(|_| Reply::Rows);
    let plain = Proxy::start(&nodes.addresses[..1], &["listen.workers=1"]).expect("proxy");
    let (head, _) = page(&plain);
    assert!(head.contains("text/plain"), "{head}");
    let settings = ["listen.workers=1", "admin.native_histograms=true"];
    let proxy = Proxy::start(&nodes.addresses[..1], &settings).expect("proxy");
    let mut client = client(&proxy);
    for _ in 0..50 {
        client
            .query("SELECT count(*) FROM ks.t WHERE k = 1")
            .expect("rows");
    }
    let (status, text) = proxy.admin_get("/metrics", None).expect("metrics");
    assert_eq!(status, 200);
    let (head, body) = page(&proxy);
    assert!(head.contains("application/vnd.google.protobuf"), "{head}");
    let mut rest = &body[..];
    let mut names = Vec::new();
    let mut native = 0;
    while !rest.is_empty() {
        let len = varint(&mut rest).expect("a length") as usize;
        let family = take(&mut rest, len).expect("a family");
        let family = Message::parse(family).expect("a family");
        names.push(family.text(1).expect("a name").to_owned());
        for metric in family.messages(4).expect("metrics") {
            for histogram in metric.messages(7).expect("histograms") {
                native += usize::from(judge(&names[names.len() - 1], &histogram));
            }
        }
    }
    // The families are those of the text, but for families without samples.
    let in_text = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let in_text: Vec<&str> = in_text.filter_map(|line| line.split(' ').next()).collect();
    for name in &names {
        assert!(in_text.contains(&name.as_str()), "{name}");
    }
    assert!(
        names
            .iter()
            .any(|name| name == "helenus_request_duration_seconds")
    );
    assert!(native >= 8, "{native}: one for each class at least");
}

/// True if a histogram is native; then its buckets have all that it counts.
fn judge(name: &str, histogram: &Message) -> bool {
    let count = histogram.number(1).unwrap_or(0);
    let spans = histogram.messages(12).expect("spans");
    if spans.is_empty() {
        assert!(name.ends_with("_per_frame"), "{name}");
        return false;
    }
    assert_eq!(histogram.number(5).map(zigzag), Some(3), "the schema");
    let deltas: Vec<u64> = match histogram.all(13).next() {
        Some(Value::Bytes(bytes)) => packed(bytes).expect("deltas"),
        Some(Value::Number(_)) => panic!("one by one"),
        None => Vec::new(),
    };
    let length: u64 = spans.iter().filter_map(|span| span.number(2)).sum();
    assert_eq!(length, deltas.len() as u64);
    let (mut in_bucket, mut sum) = (0, 0);
    for delta in deltas {
        in_bucket += zigzag(delta);
        assert!(in_bucket >= 0);
        sum += in_bucket as u64;
    }
    assert_eq!(sum + histogram.number(7).unwrap_or(0), count, "{name}");
    let classic = histogram.messages(3).expect("buckets");
    let last = classic.last().expect("a bucket");
    assert_eq!(last.number(1).unwrap_or(0), count);
    true
}
