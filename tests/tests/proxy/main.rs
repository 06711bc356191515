//! The proxy before real Cassandra: nodes that die, freeze, leave and join; clients that are hostile,
//! many, or somebody else.
//!
//! Needs Java 17 (and Maven for the first run) and `cargo build -p helenus` in the same profile.
//! The tests take turns. Those that only use nodes share one cluster of one and one of two (`node`), which live until
//! the last test has ended; beside these runs what the test whose turn it is has started. `--nocapture` shows what was
//! measured.

mod again;
mod aggregation;
mod chosen;
mod data_centres;
mod drain;
mod ends;
mod faults;
mod filters;
mod handover;
mod hostile;
mod identity;
mod keys;
mod limits;
mod links;
mod memory;
mod merged;
mod mirrored;
mod node;
mod old;
mod operations;
mod operators;
mod oversized;
mod prepared;
mod proxies;
mod roles;
mod scans;
mod schema;
mod system;
mod tls;
mod try_before;
mod tunnel;

use std::net::SocketAddr;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use helenus_cluster::{Cluster, ClusterSpec, Connection, Consistency};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::Client;

static TURN: Mutex<()> = Mutex::new(());

/// The turn of one test, bounded in time.
struct Turn {
    name: &'static str,
    begin: Instant,
    _only: MutexGuard<'static, ()>,
    _ended: Sender<()>,
}

/// Waits for this test's turn. A test that takes longer than `limit` from then on ends the whole
/// run; the guards of cluster and proxy then clean up.
fn turn(name: &'static str, limit: Duration) -> Turn {
    let only = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (ended, end) = mpsc::channel::<()>();
    thread::spawn(move || {
        if end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name} takes longer than {limit:?}: giving up");
            std::process::exit(124);
        }
    });
    Turn {
        name,
        begin: Instant::now(),
        _only: only,
        _ended: ended,
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        println!("{}: {:.1} s", self.name, self.begin.elapsed().as_secs_f64());
    }
}

fn one_node(spec: ClusterSpec) -> Cluster {
    Cluster::up(spec.nodes(1)).expect("a node")
}

/// Runs statements on a node, past the proxy.
fn directly(node: &mut Connection, statements: &[&str]) {
    for cql in statements {
        node.query(cql, Consistency::One).expect(cql);
    }
}

/// Asks again until the answer is yes.
fn eventually(what: &str, patience: Duration, mut ask: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !ask() {
        assert!(begin.elapsed() < patience, "not in {patience:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
    begin.elapsed()
}

/// True if a new client is served.
fn serves(address: SocketAddr) -> bool {
    let ask = || {
        let mut client = Client::ready(address, 4)?;
        client.query("SELECT key FROM system.local")
    };
    ask().is_ok_and(|rows| rows.len() == 1)
}

/// The sum of a metric's samples; `name` may end in a label, as in `name{class="scan"`.
fn metric(proxy: &Proxy, name: &str) -> f64 {
    let (_, page) = proxy.admin_get("/metrics", None).expect("metrics");
    let (name, label) = name.split_once('{').unwrap_or((name, ""));
    let samples: Vec<f64> = page
        .lines()
        .filter(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', '{']) && rest.contains(label))
        })
        .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
        .collect();
    assert!(!samples.is_empty(), "no metric {name}:\n{page}");
    samples.iter().sum()
}
