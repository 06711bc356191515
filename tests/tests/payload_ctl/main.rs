//! `helenus payload` on a real node: columns are encoded and taken back while clients read and write them
//! through two proxies, and commands are killed in the middle.
//!
//! Needs Java 17 (and Maven for the first run) and `cargo build -p helenus` in the same profile. All tests
//! share one node; each has tables of its own.

mod clients;
mod encrypted;
mod late;
mod moves;
mod refusals;
#[path = "../payload/session.rs"]
#[allow(dead_code)]
mod session;
#[path = "../payload/statements.rs"]
#[allow(dead_code)]
mod statements;

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use helenus_cluster::{ClientTls, Cluster, Connection, Consistency, Rows};
use helenus_tests::catalogue::place;
use helenus_tests::proxy::helenus;
use helenus_tests::{kinds, pool};

/// Whoever runs proxies that others must not see takes it alone.
static CLUSTER: LazyLock<RwLock<Cluster>> = LazyLock::new(|| {
    RwLock::new(pool::take(kinds::brisk().tls(ClientTls::Optional)).expect("a node"))
});

fn shared() -> RwLockReadGuard<'static, Cluster> {
    CLUSTER.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone() -> RwLockWriteGuard<'static, Cluster> {
    CLUSTER.write().unwrap_or_else(PoisonError::into_inner)
}

/// The node, past all proxies.
struct Node {
    connection: Connection,
    address: SocketAddr,
}

impl Node {
    fn of(cluster: &Cluster) -> Node {
        Node {
            connection: cluster.connect(1).expect("a connection"),
            address: cluster.address(1).expect("an address"),
        }
    }

    fn run(&mut self, cql: &str) -> Rows {
        self.connection
            .query(cql, Consistency::One)
            .unwrap_or_else(|e| panic!("{cql}: {e}"))
    }

    fn keyspace(&mut self, keyspace: &str) {
        self.run(&format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let contact = self.address.to_string();
        let mut command = helenus(&["payload"]).expect("a program");
        command.args(arguments).args(["--contact", &contact]);
        command.stdin(Stdio::null());
        command
    }

    /// `helenus payload` with these arguments, run to its end.
    fn payload(&self, arguments: &[&str]) -> Outcome {
        Outcome::of(&mut self.command(arguments))
    }

    fn begin(&self, arguments: &[&str]) -> Child {
        self.command(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts")
    }

    /// The state of a column, if it is in the catalogue.
    fn state(&mut self, keyspace: &str, table: &str, column: &str) -> Option<String> {
        let rows = self.run(&format!(
            "SELECT state FROM helenus.catalogue WHERE {}",
            place(keyspace, table, "encoding", column)
        ));
        let bytes = rows.into_iter().next()?.into_iter().next()??;
        Some(String::from_utf8(bytes).expect("a text"))
    }

    /// Ranges whose values have been moved.
    fn ranges_moved(&mut self, keyspace: &str, table: &str, column: &str) -> usize {
        let rows = self.run(&format!(
            "SELECT range_end FROM helenus.encoding_progress WHERE keyspace_name = '{keyspace}' AND \
             table_name = '{table}' AND column_name = '{column}'"
        ));
        rows.len()
    }
}

/// A command's exit code and output.
#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Outcome {
    fn of(command: &mut Command) -> Outcome {
        let output = command.output().expect("it starts");
        Outcome {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn succeeded(self) -> Outcome {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// It failed, and said this.
    fn failed(self, why: &str) -> Outcome {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert!(self.err.contains(why), "no {why:?} in {self:?}");
        self
    }

    /// The arguments were refused, and this is why.
    fn usage(self, why: &str) -> Outcome {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert!(self.err.contains(why), "no {why:?} in {self:?}");
        self
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// Asks again until the answer is yes.
fn eventually(what: &str, mut ask: impl FnMut() -> bool) {
    let begin = Instant::now();
    let patience = Duration::from_secs(120);
    while !ask() {
        assert!(begin.elapsed() < patience, "not in {patience:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
