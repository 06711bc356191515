//! The optional agent in real nodes: what starts first, what nodes report, what clients and operators see of
//! it, and that a node starts whatever is wrong with it.
//!
//! Needs Java 17 and Maven. `cargo test -p helenus-tests --test agent -- --ignored --nocapture` measures.

mod load;
mod measure;
mod reports;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use helenus_cluster::{Cluster, ClusterSpec};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, envelope, op};

use load::{ROWS, check_point, fill, scans};

/// One cluster at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The agent's jar, built from the sources beside these.
fn jar() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent");
    let folder = folder.canonicalize().expect("the agent's sources");
    let built = Command::new("mvn")
        .args(["-q", "-B", "-DskipTests", "-f"])
        .arg(folder.join("pom.xml"))
        .arg("package")
        .status()
        .expect("mvn runs");
    assert!(built.success(), "the agent does not build");
    folder.join("target/helenus-agent.jar")
}

/// A node on which reads have to wait soon.
fn narrow() -> ClusterSpec {
    helenus_tests::ephemeral()
        .yaml("concurrent_reads", "2")
        // The rows are written to a node that has just started, on a machine that may be busy.
        .yaml("write_request_timeout", "60s")
}

fn client(address: SocketAddr) -> Client<std::net::TcpStream> {
    Client::ready(address, 4).expect("a client")
}

/// The rows of `helenus_agent.read_order`, by class.
fn counters(address: SocketAddr) -> BTreeMap<String, Counters> {
    let cql = "SELECT class, waiting, started, due, overtook, prioritized, wait_us_max \
               FROM helenus_agent.read_order";
    let number = |cell: &Option<Vec<u8>>| {
        let cell = cell.as_ref().expect("a number");
        cell.iter().fold(0_i64, |n, byte| n << 8 | i64::from(*byte))
    };
    let rows = client(address).query(cql).expect("counters");
    let row = |row: Vec<Option<Vec<u8>>>| {
        let class = String::from_utf8(row[0].clone().expect("a class")).expect("text");
        let counters = Counters {
            waiting: number(&row[1]),
            started: number(&row[2]),
            due: number(&row[3]),
            overtook: number(&row[4]),
            prioritized: number(&row[5]),
            wait_us_max: number(&row[6]),
        };
        (class, counters)
    };
    rows.into_iter().map(row).collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Counters {
    waiting: i64,
    started: i64,
    due: i64,
    overtook: i64,
    prioritized: i64,
    wait_us_max: i64,
}

#[test]
fn points_go_first_and_nothing_else_changes() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = Instant::now();
    // No scan may run out of time, however busy the machine.
    let spec = [
        "read_request_timeout",
        "range_request_timeout",
        "native_transport_timeout",
    ]
    .into_iter()
    .fold(narrow(), |spec, key| spec.yaml(key, "60s"))
    .agent(jar())
    .jvm_arg("-Dhelenus.agent.wait_max_ms=20");
    let mut cluster = Cluster::up(spec).expect("a node");
    let node = cluster.contact_points()[0];
    fill(node);

    // Scans wait all the time, and points come one after another.
    let before = counters(node);
    let scanning = thread::spawn(move || scans(node, 40, 160, 2000));
    let mut points = client(node);
    let mut seen = Vec::new();
    let mut asked = 0;
    while !scanning.is_finished() {
        check_point(&mut points, asked * 7 % ROWS);
        asked += 1;
        let rows = points
            .query("SELECT thread_id, task FROM system_views.queries")
            .expect("queries");
        let text = |cell: &Option<Vec<u8>>| {
            String::from_utf8_lossy(cell.as_deref().unwrap_or_default()).into_owned()
        };
        seen.extend(
            rows.iter()
                .map(|row| (text(&row[0]), text(&row[1])))
                .filter(|(thread, task)| {
                    thread.starts_with("ReadStage") && task.starts_with("SELECT")
                }),
        );
    }
    assert_eq!(scanning.join().expect("no scan fails"), 160);
    assert!(!seen.is_empty(), "system_views.queries shows no read");
    let after = counters(node);
    println!("{asked} points beside 160 scans: {after:?}");
    let (point, range) = (after["point_local"], after["range"]);
    assert!(point.started - before["point_local"].started >= i64::from(asked));
    assert!(range.started - before["range"].started >= 160);
    assert!(point.overtook > 0, "no point has overtaken a range read");
    assert!(range.due > 0, "no range read was ever due");
    // Reads that are due have waited for longer than `wait_max_ms`.
    assert!(range.wait_us_max >= 20_000);
    assert_eq!((point.waiting, range.waiting, range.overtook), (0, 0, 0));
    assert_eq!(after["point_remote"].started, 0);

    priorities(node);
    scans_through_helenus_have_priorities(node);

    // The stage behind the agent is still the one that operators know.
    cluster
        .nodetool(1, &["setconcurrency", "ReadStage", "3"])
        .expect("resized");
    let pools = "SELECT active_tasks_limit, completed_tasks, pending_tasks FROM system_views.thread_pools WHERE name = 'ReadStage'";
    let pool = client(node).query(pools).expect("pools").remove(0);
    let number = |cell: &Option<Vec<u8>>| {
        cell.iter()
            .flatten()
            .fold(0_i64, |n, b| n << 8 | i64::from(*b))
    };
    assert_eq!(number(&pool[0]), 3);
    assert!(number(&pool[1]) >= i64::from(asked) + 160);
    assert_eq!(number(&pool[2]), 0);

    // A node that joins later has it too, and its reads of others' rows are told apart there.
    cluster.add_node().expect("a second node");
    let second = cluster.contact_points()[1];
    let mut points = client(second);
    for key in 0..200 {
        check_point(&mut points, key);
    }
    assert_eq!(scans(second, 4, 8, ROWS), 8);
    let (first, second) = (counters(node), counters(second));
    assert!(first["point_remote"].started > 0, "{first:?}");
    assert!(second["point_local"].started > 0, "{second:?}");
    assert!(second["range"].started > 0, "{second:?}");
    println!("agent: {:.1} s", begin.elapsed().as_secs_f64());
}

/// Payloads of all shapes: only a whole priority counts, and no other has any effect.
fn priorities(node: SocketAddr) {
    let prioritized = || counters(node)["point_local"].prioritized;
    let before = prioritized();
    let mut client = client(node);
    let urgent = (-5_i32).to_be_bytes();
    let payloads: [(&str, Option<&[u8]>); 6] = [
        ("helenus-priority", Some(&urgent[..3])),
        ("helenus-priority", Some(&[0; 5])),
        ("helenus-priority", Some(&[])),
        ("helenus-priority", None),
        ("another-key", Some(&urgent)),
        ("helenus-priority", Some(&0_i32.to_be_bytes())),
    ];
    for (key, value) in payloads {
        ask_with_payload(&mut client, key, value);
        assert_eq!(prioritized(), before, "{key} {value:?}");
    }
    ask_with_payload(&mut client, "helenus-priority", Some(&urgent));
    assert_eq!(prioritized(), before + 1);
    // The thread may also serve the next request, which has none.
    for key in 0..50 {
        check_point(&mut client, key);
    }
    assert_eq!(prioritized(), before + 1);
}

/// The proxy tells the node what is left of its scans, if it shall.
fn scans_through_helenus_have_priorities(node: SocketAddr) {
    let prioritized = || counters(node)["range"].prioritized;
    for (tells, setting) in [
        (false, None),
        (true, Some("scheduling.agent_priority=true")),
    ] {
        let settings: Vec<&str> = setting.into_iter().collect();
        let proxy = Proxy::start(&[node], &settings).expect("proxy");
        let before = prioritized();
        assert_eq!(scans(proxy.address, 2, 4, ROWS), 4);
        assert_eq!(prioritized() > before, tells, "{settings:?}");
    }
}

/// A point read in a request that carries a custom payload.
fn ask_with_payload(client: &mut Client<std::net::TcpStream>, key: &str, value: Option<&[u8]>) {
    use std::io::Write;
    let mut body = 1_u16.to_be_bytes().to_vec();
    body.extend((key.len() as u16).to_be_bytes());
    body.extend(key.as_bytes());
    body.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
    body.extend(value.unwrap_or_default());
    body.extend(client.query_body("SELECT v FROM t.t WHERE k = 1", 1));
    let mut message = envelope(4, 7, op::QUERY, &body);
    message[1] |= 0x04;
    client.stream.write_all(&message).expect("sent");
    let answer = client.receive().expect("an answer");
    assert_eq!(answer.stream, 7);
    let rows = answer.judged().expect("a result").expect("no error").rows();
    assert_eq!(rows.expect("rows"), [[Some(load::value(1))]]);
}

/// A setting that makes no sense: the node starts, says so, and is a node without the agent.
#[test]
fn a_node_starts_without_the_agent_rather_than_not() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let spec = narrow()
        .agent(jar())
        .jvm_arg("-Dhelenus.agent.wait_max_ms=soon");
    let cluster = Cluster::up(spec).expect("a node");
    let log = std::fs::read_to_string(cluster.dir().join("node1/logs/system.log")).expect("a log");
    let told = log
        .lines()
        .find(|line| line.starts_with("WARN") && line.contains("Helenus agent: not installed"))
        .expect("a warning");
    assert!(
        told.contains("-Dhelenus.agent.wait_max_ms=soon: want a whole number"),
        "{told}"
    );
    let node = cluster.contact_points()[0];
    fill(node);
    assert_eq!(scans(node, 4, 8, 500), 8);
    ask_with_payload(&mut client(node), "helenus-priority", Some(&[0, 0, 0, 1]));
    let fault = client(node)
        .try_query("SELECT class FROM helenus_agent.read_order", 1)
        .expect("an answer")
        .expect_err("no such table");
    assert!(fault.message.contains("helenus_agent"), "{fault:?}");
}

/// Patience for a whole load: generous, but no test hangs.
const PATIENCE: Duration = Duration::from_secs(60);
