//! `helenus layouts` on a real node: layouts are created, compared, repaired and dropped while clients
//! write, and past them.
//!
//! Needs Java 17 (and Maven for the first run) and `cargo build -p helenus` in the same profile. All
//! tests share one node, several at a time (`--test-threads`), and mostly wait; each has tables of its own.

mod calibrate;
mod catalogue;
mod clients;
mod commands;
mod derived;
mod encrypted;
mod hints;
mod in_use;
mod late;
mod learned;
mod mishaps;
mod partitions;
mod proxies;
mod restored;
mod rights;
mod ring;
mod sweep;
mod table_first;
mod three;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use helenus_catalogue::{Flag, SELECT_FLAGS, TableKey};
use helenus_cluster::{Cluster, Connection, Consistency, Rows};
use helenus_tests::catalogue::change_by;
use helenus_tests::proxy::{Proxy, helenus};
use helenus_tests::raw::{Client, ONE};
use helenus_tests::turns::Turn;
use helenus_tests::{kinds, pool};

static CLUSTER: LazyLock<RwLock<Cluster>> = LazyLock::new(|| {
    let cluster = pool::take(kinds::brisk()).expect("a node");
    let mut node = cluster.connect(1).expect("a connection");
    for cql in [
        "CREATE KEYSPACE first WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE first.t (k int, a int, b int, PRIMARY KEY (k, a, b))",
    ] {
        node.query(cql, Consistency::One).expect(cql);
    }
    // The catalogue is made once, not by several commands at a time.
    let contact = cluster.address(1).expect("an address").to_string();
    let create = [
        "layouts",
        "create",
        "first.t",
        "--no-proxies",
        "--layout",
        "x=b,a",
    ];
    let mut create = helenus(&create).expect("a program");
    Outcome::of(create.args(["--contact", &contact])).succeeded();
    RwLock::new(cluster)
});

/// One cluster beside the node at a time.
static SECOND: Mutex<()> = Mutex::new(());

fn second() -> MutexGuard<'static, ()> {
    SECOND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The node, for one test.
struct Node {
    connection: Connection,
    address: SocketAddr,
    /// The cluster, for as long as the test lasts.
    turn: Turn,
}

impl Node {
    /// Beside other tests.
    fn take() -> Node {
        Node::of(Turn::shared(&CLUSTER))
    }

    /// For a test that counts what is there, or needs a node that does nothing else.
    fn alone() -> Node {
        Node::of(Turn::alone(&CLUSTER))
    }

    fn of(turn: Turn) -> Node {
        Node {
            connection: turn.connect(1).expect("a connection"),
            address: turn.address(1).expect("an address"),
            turn,
        }
    }

    /// Runs a statement on the node, past all proxies.
    fn run(&mut self, cql: &str) -> Rows {
        self.connection
            .query(cql, Consistency::One)
            .unwrap_or_else(|e| panic!("{cql}: {e}"))
    }

    /// A table of a keyspace of its own, with these rows to start from.
    fn table(&mut self, keyspace: &str, definition: &str) {
        self.run(&format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ));
        self.run(definition);
    }

    /// All rows of a table and their times, without regard to their order.
    fn rows(&mut self, table: &str, columns: &str) -> Vec<Vec<Option<Vec<u8>>>> {
        let mut rows = self.run(&format!("SELECT {columns} FROM {table}"));
        rows.sort();
        rows
    }

    /// `helenus layouts` with these arguments.
    fn layouts(&self, arguments: &[&str]) -> Outcome {
        let contact = self.address.to_string();
        let mut command = helenus(&["layouts"]).expect("a program");
        Outcome::of(command.args(arguments).args(["--contact", &contact]))
    }

    fn states(&mut self, keyspace: &str, table: &str) -> BTreeMap<String, String> {
        let rows = self.run(&format!(
            "SELECT item, state FROM helenus.catalogue WHERE part = 'all' AND keyspace_name = '{keyspace}' AND \
             table_name = '{table}' AND kind = 'layout'"
        ));
        let text = |cell: &Option<Vec<u8>>| {
            let bytes = cell.clone().unwrap_or_default();
            String::from_utf8(bytes).expect("a text")
        };
        let named = rows.iter().map(|row| (text(&row[0]), text(&row[1])));
        named.collect()
    }

    /// Changes the catalogue by hand.
    fn change(&mut self, statement: &str) {
        change_by(|text: &str| self.run(text), statement);
    }

    /// The flags of a table.
    fn flags(&mut self, keyspace: &str, table: &str) -> Vec<i64> {
        let key = TableKey::new(keyspace, table);
        let names = self
            .run(SELECT_FLAGS)
            .into_iter()
            .filter_map(|row| row.into_iter().next()?);
        let names = names.map(|name| String::from_utf8(name).expect("a text"));
        let flags = names.filter_map(|name| Flag::parse(&name));
        flags
            .filter(|flag| flag.table == key)
            .map(|flag| flag.number)
            .collect()
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
    /// Runs the command to its end.
    fn of(command: &mut Command) -> Outcome {
        let output = command.stdin(Stdio::null()).output().expect("it starts");
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

/// A counter or gauge, named with its labels.
fn metric(proxy: &Proxy, name: &str) -> u64 {
    let (_, page) = proxy.admin_get("/metrics", None).expect("metrics");
    let mut lines = page.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("no {name}: {page}"));
    value.parse().expect("a number")
}

/// Asks again until the answer is yes.
/// Of an error that tells that nothing was sent: on a busy machine a proxy loses its lease at times.
const NOT_SENT: &str = "the catalogue could not be read";

/// Asks at ONE, again where nothing was sent.
fn ask(client: &mut Client<TcpStream>, cql: &str) {
    let begin = Instant::now();
    loop {
        let fault = match client.try_query(cql, ONE).expect("an answer") {
            Ok(_) => return,
            Err(fault) => fault,
        };
        let may_repeat = fault.message.contains(NOT_SENT) && begin.elapsed() < sweep::PATIENCE;
        assert!(may_repeat, "{cql}: {fault:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn eventually(what: &str, patience: Duration, mut ask: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !ask() {
        assert!(begin.elapsed() < patience, "not in {patience:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
