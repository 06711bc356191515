//! `helenus layouts` with copies in place of replicas: rows go over to the copies and back while clients write and read
//! through a proxy, commands are interrupted, and what cannot be done is refused.
//!
//! Needs Java 17 (and Maven for the first run) and `cargo build -p helenus` in the same profile. Tests share three nodes,
//! each in a data center of its own; each has tables of its own. Those without proxies mostly wait, and run at the same
//! time (`--test-threads`); those with proxies take turns.

mod commands;
mod history;
mod in_use;
mod refilled;

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::{LazyLock, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use helenus_cluster::{Cluster, Connection, Consistency, Rows};
use helenus_tests::proxy::helenus;
use helenus_tests::turns::Turn;
use serde_json::Value;

/// The nodes die with this process.
static CLUSTER: LazyLock<RwLock<Cluster>> = LazyLock::new(|| {
    let spec = helenus_tests::ephemeral()
        .nodes(3)
        .place("dc1", "r1")
        .place("dc2", "r1")
        .place("dc3", "r1")
        .yaml("auto_snapshot", "false")
        // The commands wait for as long as nodes may still carry out what they have been sent.
        .yaml("native_transport_timeout", "1s")
        .yaml("truncate_request_timeout", "10s")
        .jvm_arg("-Dcassandra.test.flush_local_schema_changes=false");
    let cluster = Cluster::up(spec).expect("three nodes");
    let mut node = cluster.connect(1).expect("a connection");
    for cql in [
        "CREATE KEYSPACE first WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1, 'dc3': 1}",
        "CREATE TABLE first.t (k int, a int, b int, PRIMARY KEY (k, a, b))",
    ] {
        node.query(cql, Consistency::Quorum).expect(cql);
    }
    // The catalogue is made once, not by several commands at a time.
    let contact = cluster.address(1).expect("an address").to_string();
    let create = [
        "create",
        "first.t",
        "--no-proxies",
        "--layout",
        "x=b,a",
        "--contact",
        &contact,
    ];
    let mut command = helenus(&["layouts"]).expect("a program");
    let made = command.args(create).stdin(Stdio::null()).output();
    let made = made.expect("it starts");
    assert!(made.status.success(), "{made:?}");
    RwLock::new(cluster)
});
const PATIENCE: Duration = Duration::from_secs(180);

/// The nodes, for one test.
struct Nodes {
    connections: Vec<Connection>,
    contact: String,
    cluster: Turn,
}

impl Nodes {
    /// For a test that runs proxies, which see the tables of all tests.
    fn take() -> Nodes {
        Nodes::of(Turn::alone(&CLUSTER))
    }

    /// For one that runs none.
    fn shared() -> Nodes {
        Nodes::of(Turn::shared(&CLUSTER))
    }

    fn of(cluster: Turn) -> Nodes {
        let connect = |number| cluster.connect(number).expect("a connection");
        Nodes {
            connections: (1..=3).map(connect).collect(),
            contact: cluster.address(1).expect("an address").to_string(),
            cluster,
        }
    }

    /// Runs a statement on a node, past all proxies.
    fn run(&mut self, cql: &str) -> Rows {
        self.connections[0]
            .query(cql, Consistency::Quorum)
            .unwrap_or_else(|e| panic!("{cql}: {e}"))
    }

    fn table(&mut self, keyspace: &str, columns: &str) {
        self.run(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1, 'dc3': 1}}"
        ));
        self.run(&format!("CREATE TABLE {keyspace}.t ({columns})"));
        let select = format!("SELECT k FROM {keyspace}.t LIMIT 1");
        for connection in &mut self.connections {
            eventually("the node knows the table", || {
                connection.query(&select, Consistency::All).is_ok()
            });
        }
    }

    /// `k`, `a` and `v` of all rows of a table, as this node has them.
    fn rows_at(&mut self, node: usize, table: &str) -> BTreeMap<(i32, i32), i32> {
        let select = format!("SELECT k, a, v FROM {table}");
        let rows = self.connections[node].query(&select, Consistency::One);
        let rows = rows.unwrap_or_else(|e| panic!("{select}: {e}"));
        let row = |row: &Vec<Option<Vec<u8>>>| {
            let [k, a, v] = [0, 1, 2].map(|at| int(&row[at]));
            ((k, a), v)
        };
        rows.iter().map(row).collect()
    }

    fn names(&mut self, keyspaces_of: &str) -> Vec<String> {
        let rows = self.run("SELECT keyspace_name FROM system_schema.keyspaces");
        let name = |row: &Vec<Option<Vec<u8>>>| {
            String::from_utf8(row[0].clone().expect("a name")).expect("a text")
        };
        let prefix = format!("{keyspaces_of}__");
        let mut names: Vec<String> = rows.iter().map(name).collect();
        names.retain(|name| name.starts_with(&prefix));
        names.sort();
        names
    }

    /// `helenus layouts` with these arguments.
    fn begin(&self, arguments: &[&str]) -> Child {
        let mut command = helenus(&["layouts"]).expect("a program");
        command.args(arguments).args(["--contact", &self.contact]);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    }

    /// The same, to its end: whether it succeeded, and what it has said.
    fn layouts(&self, arguments: &[&str]) -> (bool, String, String) {
        let output = self.begin(arguments).wait_with_output().expect("it ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.success(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let (succeeded, out, err) = self.layouts(arguments);
        assert!(succeeded, "{arguments:?}: {out}{err}");
        out
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let out = self.succeeds(&[arguments, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
    }

    /// It fails with a message that has these words.
    fn refused(&self, arguments: &[&str], words: &str) {
        let (succeeded, out, err) = self.layouts(arguments);
        assert!(
            !succeeded && err.contains(words),
            "{arguments:?}: {out}{err}"
        );
    }

    /// What `status` says of a table, with which nothing may be wrong.
    fn status(&self, table: &str) -> Value {
        self.json(&["status", table])
    }

    /// Mode and stage of a table.
    fn stage(&self, table: &str) -> (Value, Value) {
        let status = self.status(table);
        let of = &status["tables"][0];
        (of["mode"].clone(), of["stage"].clone())
    }
}

fn int(cell: &Option<Vec<u8>>) -> i32 {
    let bytes = cell.clone().expect("a value").try_into().expect("an int");
    i32::from_be_bytes(bytes)
}

/// Asks again until the answer is yes.
fn eventually(what: &str, mut ask: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !ask() {
        assert!(begin.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
