//! Reports of nodes on themselves, who gets them, and what becomes of them.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use helenus_cluster::Cluster;
use helenus_tests::proxy::{self, Proxy};
use helenus_tests::raw::{Client, ONE};
use helenus_tests::reporter::Reporter;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{TURN, client, jar};

const PORT: u16 = 9181;
/// Of reporters that the test itself runs in place of the agents'.
const OTHER_PORT: u16 = 9182;
const KEYS: i32 = 100;
const PATIENCE: Duration = Duration::from_secs(20);

fn eventually(what: &str, mut ask: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !ask() {
        assert!(begin.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// A metric of one node, if it is there.
fn metric(proxy: &Proxy, name: &str, node: SocketAddr) -> Option<f64> {
    let (_, page) = proxy.admin_get("/metrics", None).expect("metrics");
    let begin = format!("{name}{{node=\"{node}\"");
    let mut samples = page.lines().filter(|line| line.starts_with(&begin));
    samples.next()?.rsplit(' ').next()?.parse().ok()
}

fn fill(proxy: SocketAddr) {
    let mut client = client(proxy);
    let class = "{'class': 'SimpleStrategy', 'replication_factor': 2}";
    for cql in [
        &format!("CREATE KEYSPACE r WITH replication = {class}"),
        "CREATE TABLE r.t (k int PRIMARY KEY, v text)",
    ] {
        client.query(cql).expect(cql);
    }
    for key in 0..KEYS {
        let cql = format!("INSERT INTO r.t (k, v) VALUES ({key}, 'v{key}')");
        client.try_query(&cql, 2).expect("an answer").expect(&cql);
    }
}

/// Reads every key, and checks what it reads.
fn read_all(client: &mut Client<TcpStream>) {
    let prepared = client
        .prepare("SELECT v FROM r.t WHERE k = ?")
        .expect("prepared");
    for key in 0..KEYS {
        let answer = client.execute(&prepared, &[&key.to_be_bytes()], ONE);
        let rows = answer
            .expect("an answer")
            .expect("a row")
            .rows()
            .expect("rows");
        assert_eq!(rows, [[Some(format!("v{key}").into_bytes())]]);
    }
}

/// The share of the reads of all keys, several times over, that each of two nodes gets.
fn shares(proxy: &Proxy, nodes: &[SocketAddr]) -> [f64; 2] {
    let mut client = client(proxy.address);
    let name = "helenus_node_read_requests_total";
    let count = |at: usize| metric(proxy, name, nodes[at]).unwrap_or(0.0);
    let before = [count(0), count(1)];
    for _ in 0..4 {
        read_all(&mut client);
    }
    let got = [count(0) - before[0], count(1) - before[1]];
    let all = got[0] + got[1];
    assert!(all >= 4.0 * f64::from(KEYS), "{got:?}");
    got.map(|of| of / all)
}

#[test]
fn nodes_report_to_those_that_know_the_secret_and_replicas_are_chosen_by_it() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = Instant::now();
    let spec = helenus_tests::ephemeral().nodes(2).agent(jar());
    let cluster = Cluster::up(spec).expect("two nodes");
    let nodes = cluster.contact_points();
    let secret = cluster.report_secret_file().expect("an agent");
    let secret = format!(
        "assignment.reports_secret_file={:?}",
        secret.display().to_string()
    );
    let reports = "assignment.reports=true";

    let passed = |what| println!("{what}: {:.1} s", begin.elapsed().as_secs_f64());
    passed("nodes");

    the_table_shows_it(nodes[0]);
    passed("table");
    let proxy = Proxy::start(&nodes, &[reports, &secret]).expect("a proxy");
    // Through Helenus, which waits until both nodes know the table.
    fill(proxy.address);
    reports_arrive(&proxy, &nodes);
    passed("reports");
    a_wrong_secret_is_refused(&cluster, &nodes);
    passed("wrong secret");
    check_tells(&nodes, &secret);
    passed("check");
    garbage_and_slow_clients_harm_nothing(&proxy, &nodes);
    passed("garbage");
    replicas_are_chosen_by_reports(&nodes);
    passed("choice");
}

fn the_table_shows_it(node: SocketAddr) {
    let mut client = client(node);
    let cql = "SELECT host_id, age_ms, cpu_node, cpu_process, cores, heap_used, heap_max, read_max \
               FROM helenus_agent.resources";
    let mut rows = Vec::new();
    let age_ms = |row: &[Option<Vec<u8>>]| {
        let bytes = row[1].clone().expect("an age");
        i64::from_be_bytes(bytes.try_into().expect("a long"))
    };
    // Measured every second, unless the node stood still just then.
    eventually("a fresh row of resources", || {
        rows = client.query(cql).expect("resources");
        rows.first().is_some_and(|row| age_ms(row) < 2_000)
    });
    let cell = |at: usize| rows[0][at].clone().unwrap_or_default();
    let own = client
        .query("SELECT host_id FROM system.local")
        .expect("an id");
    assert_eq!(rows[0][0], own[0][0]);
    let double = |at| f64::from_be_bytes(cell(at).try_into().expect("a double"));
    let long = |at| i64::from_be_bytes(cell(at).try_into().expect("a long"));
    assert!((0.0..=1.0).contains(&double(2)) && (0.0..=1.0).contains(&double(3)));
    assert!(double(4) > 0.0, "cores");
    assert!(0 < long(5) && long(5) <= long(6), "heap");
    assert_eq!(cell(7), 32_i32.to_be_bytes(), "threads of the READ stage");
}

fn reports_arrive(proxy: &Proxy, nodes: &[SocketAddr]) {
    for node in nodes {
        let of = |name: &str| metric(proxy, name, *node);
        eventually("reports", || of("helenus_node_reports_total") > Some(5.0));
        assert_eq!(of("helenus_node_reporter_up"), Some(1.0));
        // One comes every second; on a busy machine none needs to be in time.
        eventually("a fresh report", || {
            of("helenus_node_report_age_seconds") < Some(2.0)
        });
        for name in ["cpu", "memory", "collecting"] {
            let name = format!("helenus_node_report_{name}_ratio");
            let share = of(&name).expect(&name);
            assert!((0.0..=1.0).contains(&share), "{name} {share}");
        }
        assert!(of("helenus_node_report_memory_ratio") > Some(0.0));
        assert_eq!(of("helenus_node_reports_rejected_total"), Some(0.0));
    }
    let (_, view) = proxy.admin_get("/api/snapshot", None).expect("a view");
    let view: serde_json::Value = serde_json::from_str(&view).expect("JSON");
    for node in view["nodes"].as_array().expect("nodes") {
        assert_eq!(node["report"]["connected"], true, "{node}");
        assert!(node["report"]["resources"]["heap_max"].as_u64() > Some(0));
    }
}

fn a_wrong_secret_is_refused(cluster: &Cluster, nodes: &[SocketAddr]) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(b"quite another secret").expect("written");
    let wrong = format!(
        "assignment.reports_secret_file={:?}",
        file.path().display().to_string()
    );
    for (setting, told) in [
        (wrong.as_str(), "refuses the secret"),
        ("assignment.policy=\"resource-v1\"", "wants a secret"),
    ] {
        let proxy = Proxy::start(nodes, &["assignment.reports=true", setting]).expect("a proxy");
        eventually(told, || proxy.log().contains(told));
        assert_eq!(
            metric(&proxy, "helenus_node_reporter_up", nodes[0]),
            Some(0.0)
        );
        assert_eq!(
            metric(&proxy, "helenus_node_report_age_seconds", nodes[0]),
            None
        );
        // Without reports it does its work.
        read_all(&mut client(proxy.address));
    }
    let log = fs::read_to_string(cluster.dir().join("node1/logs/system.log")).expect("a log");
    let refused = "Helenus agent: a connection for reports was refused";
    assert!(log.contains(refused), "{log}");
}

fn check_tells(nodes: &[SocketAddr], secret: &str) {
    let json = |settings: &[&str]| -> serde_json::Value {
        let text = proxy::check(&nodes[..1], settings).expect("a check");
        serde_json::from_str(&text).expect("JSON")
    };
    let good = json(&["assignment.reports=true", secret]);
    for node in good["nodes"].as_array().expect("nodes") {
        assert!(node["report"]["age_ms"].is_u64(), "{node}");
        assert!(node["report"]["cpu"].as_f64().is_some(), "{node}");
    }
    let bad = json(&["assignment.reports=true"]);
    assert!(bad["nodes"][0]["report"].is_null());
    assert!(
        bad["advice"].to_string().contains("wants a secret"),
        "{bad}"
    );
    assert_eq!(bad["problems"], serde_json::json!([]), "{bad}");
}

fn garbage_and_slow_clients_harm_nothing(proxy: &Proxy, nodes: &[SocketAddr]) {
    let seed: u64 = rand::rng().random();
    println!("garbage: seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let reporter = SocketAddr::new(nodes[0].ip(), PORT);
    let received = || metric(proxy, "helenus_node_reports_total", nodes[0]).unwrap_or(0.0);
    let is_over = AtomicBool::new(false);
    let reads = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut points = client(proxy.address);
            while !is_over.load(Ordering::Relaxed) {
                read_all(&mut points);
                reads.fetch_add(1, Ordering::Relaxed);
            }
        });
        let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(reporter)).collect();
        for _ in 0..200 {
            let Ok(mut stream) = TcpStream::connect(reporter) else {
                continue;
            };
            let mut garbage = vec![0; random.random_range(73..500)];
            random.fill_bytes(&mut garbage);
            stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
            // The node may have hung up before all is written.
            let _ = stream.write_all(&garbage);
            let mut rest = Vec::new();
            let ended = stream.read_to_end(&mut rest);
            let timed_out = ended.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock);
            assert!(
                !timed_out && rest.len() <= 40,
                "it goes on after garbage: {rest:?}"
            );
        }
        let before = received();
        eventually("reports in spite of it", || received() > before + 5.0);
        drop(silent);
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(reads.load(Ordering::Relaxed) > 0);
    let rejected = metric(proxy, "helenus_node_reports_rejected_total", nodes[0]);
    assert_eq!(rejected, Some(0.0));
}

/// Reporters say what the test wants; the nodes are as idle as each other.
fn replicas_are_chosen_by_reports(nodes: &[SocketAddr]) {
    let start = |at: usize, cpu: u16| {
        let id = client(nodes[at])
            .query("SELECT host_id FROM system.local")
            .expect("an id");
        let id = id[0][0]
            .clone()
            .expect("an id")
            .try_into()
            .expect("16 bytes");
        Reporter::start(SocketAddr::new(nodes[at].ip(), OTHER_PORT), id, cpu).expect("a reporter")
    };
    let reporters = [start(0, 9_500), start(1, 500)];
    let port = format!("assignment.reports_port={OTHER_PORT}");
    let settings = [
        "assignment.reports=true",
        "assignment.policy=\"resource-v1\"",
        &port,
    ];
    let proxy = Proxy::start(nodes, &settings).expect("a proxy");
    let age_s = |at: usize| metric(&proxy, "helenus_node_report_age_seconds", nodes[at]);
    let cpu = |at: usize| metric(&proxy, "helenus_node_report_cpu_ratio", nodes[at]);
    eventually("reports", || age_s(0).is_some() && age_s(1).is_some());
    // Workers look every 100 ms.
    let leaves = |at: usize| shares(&proxy, nodes)[at] < 0.05;
    eventually("a busy node is avoided", || leaves(0));

    reporters[0].set_cpu(500);
    reporters[1].set_cpu(9_500);
    eventually("the other report", || {
        cpu(1) > Some(0.9) && cpu(0) < Some(0.1)
    });
    eventually("now the other one is avoided", || leaves(1));

    drop(reporters);
    eventually("the reports grow old", || {
        age_s(0) > Some(5.5) && age_s(1) > Some(5.5)
    });
    let [one, other] = shares(&proxy, nodes);
    // Of 400 reads that fall on either alike, four standard deviations.
    assert!(
        (0.4..=0.6).contains(&one),
        "as token-aware: {one} and {other}"
    );
    assert_eq!(
        metric(&proxy, "helenus_node_reporter_up", nodes[0]),
        Some(0.0)
    );
}
