//! `helenus layouts create|drop --mode replace` while proxies are killed and nodes are away, on two data centers of two
//! nodes with several tokens each, so that there are several groups of ranges: commands come to their end, clients of the
//! other proxies go on, and the table is what an ordinary one is that got the same statements.
//!
//! Needs Java 17 (and Maven for the first run) and `cargo build -p helenus` in the same profile.

mod at_once;
mod away;
mod clients;
mod rights;
mod ring;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clients::{COLUMNS, Cells, Clients, Seen};
use helenus_cluster::{Cluster, Connection, Consistency};
use helenus_tests::proxy::{Proxy, helenus};
use serde_json::Value;

const ON: [&str; 4] = [
    "layouts.enabled=true",
    "listen.workers=1",
    "cluster.local_dc=dc1",
    "cluster.allow_remote_dc=true",
];
const PATIENCE: Duration = Duration::from_secs(300);
/// A command that takes longer is stuck.
const JOB_MAX: Duration = Duration::from_secs(900);
const LAYOUTS: [&str; 4] = ["--layout", "x=b,a@dc1", "--layout", "y=a,b@dc2"];

struct Site {
    cluster: Cluster,
    proxies: Vec<Proxy>,
}

impl Site {
    fn up() -> Site {
        // Schema changes are flushed: a node is killed, and must know its tables when it comes back.
        let spec = helenus_tests::ephemeral()
            .nodes(4)
            .num_tokens(4)
            .place("dc1", "r1")
            .place("dc2", "r1")
            .yaml("auto_snapshot", "false")
            .yaml("native_transport_timeout", "1s")
            .yaml("truncate_request_timeout", "10s")
            .yaml("phi_convict_threshold", "14");
        let cluster = Cluster::up(spec).expect("four nodes");
        let site = Site {
            cluster,
            proxies: Vec::new(),
        };
        for keyspace in ["shop", "plain"] {
            site.run(&format!(
                "CREATE KEYSPACE {keyspace} WITH replication = \
                 {{'class': 'NetworkTopologyStrategy', 'dc1': 2, 'dc2': 1}}"
            ));
        }
        site
    }

    fn proxy(&mut self) {
        let proxy = Proxy::start(&self.cluster.contact_points(), &ON).expect("a proxy");
        self.proxies.push(proxy);
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.proxies.iter().map(|proxy| proxy.address).collect()
    }

    fn node(&self, number: u16) -> Connection {
        self.cluster.connect(number).expect("a connection")
    }

    /// Past all proxies.
    fn run(&self, cql: &str) -> Vec<Cells> {
        let rows = self.node(1).query(cql, Consistency::Quorum);
        rows.unwrap_or_else(|e| panic!("{cql}: {e}"))
    }

    fn tables(&self, name: &str) {
        for keyspace in ["shop", "plain"] {
            self.run(&format!("CREATE TABLE {keyspace}.{name} ({COLUMNS})"));
        }
        let select = format!("SELECT k FROM plain.{name} LIMIT 1");
        for number in 1..=4 {
            let mut node = self.node(number);
            eventually("the node knows the table", || {
                node.query(&select, Consistency::All).is_ok()
            });
        }
    }

    fn begin(&self, arguments: &[&str]) -> Job {
        let contact = self.cluster.address(1).expect("an address").to_string();
        let files = [(); 2].map(|()| tempfile::NamedTempFile::new().expect("a file"));
        let [out, err] = [0, 1].map(|at| files[at].reopen().expect("a file"));
        let mut command = helenus(&["layouts"]).expect("a program");
        command.args(arguments).args(["--contact", &contact]);
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        Job {
            what: arguments.join(" "),
            child: command.spawn().expect("it starts"),
            files,
            begun: Instant::now(),
        }
    }

    /// Mode and stage of a table; none while the nodes do not tell.
    fn stage(&self, name: &str) -> Option<(String, String)> {
        let mut node = self.cluster.connect(1).ok()?;
        let mut first = |column: &str, table: &str| {
            let select = format!(
                "SELECT {column} FROM helenus.{table} WHERE keyspace_name = 'shop' AND table_name = '{name}' LIMIT 1"
            );
            let rows = node.query(&select, Consistency::One).ok()?;
            let cell = rows.first().and_then(|row| row[0].clone());
            String::from_utf8(cell.unwrap_or_default()).ok()
        };
        Some((first("mode", "layouts")?, first("stage", "copies")?))
    }

    fn until(&self, name: &str, mode: &str, stage: &str) {
        eventually(&format!("{name} is {mode}, {stage}"), || {
            self.stage(name) == Some((mode.to_owned(), stage.to_owned()))
        });
    }

    /// The states of the table itself, and of its copies, in all lists.
    fn states(&self, name: &str) -> [Vec<String>; 2] {
        let table = format!("shop.{name}");
        let (_, out, _) = self.begin(&["status", &table, "--json"]).end();
        let status: Value = serde_json::from_str(&out).unwrap_or_default();
        let lists = status["copies"].as_array().cloned().unwrap_or_default();
        let tables = lists.iter().map(|list| &list["table_itself"]);
        let copies = lists.iter().filter_map(|list| list["copies"].as_array());
        let state = |of: &Value| of["state"].as_str().map(str::to_owned);
        [
            tables.filter_map(state).collect(),
            copies.flatten().filter_map(state).collect(),
        ]
    }

    /// Until the first copy joins, or has joined.
    fn copies_join(&self, name: &str) {
        eventually("copies join", || {
            self.states(name)[1].iter().any(|state| state != "out")
        });
    }

    /// Until all copies are in sync, and the table is in no list.
    fn copies_alone(&self, name: &str) {
        eventually("all copies are in sync", || {
            let [table, copies] = self.states(name);
            let is_in_sync = |state: &String| state == "in sync";
            table.iter().all(|state| state == "out")
                && !copies.is_empty()
                && copies.iter().all(is_in_sync)
        });
    }

    /// The command, again if it says that it is to be run again.
    fn finish(&self, mut job: Job, arguments: &[&str]) {
        for begun in 1.. {
            let (succeeded, out, err) = job.end();
            if succeeded {
                println!("{}: {begun} attempts", arguments.join(" "));
                return;
            }
            assert!(begun < 8, "{arguments:?}: {out}{err}");
            thread::sleep(Duration::from_secs(3));
            job = self.begin(arguments);
        }
    }

    /// Clients go on for a while, and end; what clients use now is what the ordinary table is.
    fn end(&self, clients: Clients, name: &str, used: Used) {
        say("the last command has ended", &clients.seen());
        let before = clients.writes();
        eventually("clients go on", || clients.writes() > before + 100);
        say("by itself", &clients.end());
        self.check_used(name, used);
    }

    /// The commands are at their end, and what clients use now is what the ordinary table is.
    fn check_used(&self, name: &str, used: Used) {
        let stage = self.stage(name).expect("the nodes tell");
        match used {
            Used::Table => {
                assert_eq!(stage, (String::new(), String::new()));
                self.check(name, &format!("shop.{name}"));
            }
            Used::Copies => {
                assert_eq!(stage, ("replace".to_owned(), "in use".to_owned()));
                self.copies_alone(name);
                for layout in ["x", "y"] {
                    self.check(name, &format!("shop__{name}__{layout}.{name}"));
                }
            }
        }
    }

    /// The command, begun again when it has failed, until that is so.
    fn go_on(
        &self,
        mut job: Job,
        (arguments, what): (&[&str], &str),
        is_so: impl Fn() -> bool,
    ) -> Job {
        eventually(what, || {
            if !job.is_running() {
                let again = self.begin(arguments);
                let (succeeded, out, err) = std::mem::replace(&mut job, again).end();
                assert!(!succeeded, "at its end before {what}: {out}{err}");
            }
            is_so()
        });
        job
    }

    /// The rows of a table by keys, at ALL.
    fn rows(&self, columns: &str, table: &str) -> BTreeMap<[Option<Vec<u8>>; 3], Cells> {
        let select = format!("SELECT k, a, b, {columns} FROM {table}");
        let mut rows = None;
        eventually(&select, || {
            rows = self.node(1).query(&select, Consistency::All).ok();
            rows.is_some()
        });
        let key = |row: &Cells| [0, 1, 2].map(|at| row[at].clone());
        let rows = rows.into_iter().flatten();
        rows.map(|row| (key(&row), row[3..].to_vec())).collect()
    }

    /// This table is what the ordinary one is.
    fn check(&self, name: &str, table: &str) {
        let plain = format!("plain.{name}");
        let columns = "s, v, w, WRITETIME(s), WRITETIME(v), WRITETIME(w)";
        let expected = self.rows(columns, &plain);
        let times = self.rows("TTL(s), TTL(v), TTL(w)", &plain);
        let found = self.rows(columns, table);
        let lacking = expected
            .iter()
            .filter(|(key, row)| found.get(*key) != Some(row));
        let lacking: Vec<_> = lacking
            .map(|(key, row)| (key, row, found.get(key)))
            .collect();
        let more = found.iter().filter(|(key, _)| !expected.contains_key(*key));
        let more: Vec<_> = more.collect();
        assert!(
            lacking.is_empty() && more.is_empty(),
            "{table}: {} of {} rows differ: {lacking:?}; {more:?}",
            lacking.len(),
            expected.len()
        );
        let found = self.rows("TTL(s), TTL(v), TTL(w)", table);
        let mut most = 0;
        for (key, row) in &times {
            for (one, other) in row.iter().zip(&found[key]) {
                let [one, other] = [one, other].map(|cell| cell.as_deref().map(int));
                assert_eq!(one.is_some(), other.is_some(), "{table}: {key:?}");
                most = most.max((one.unwrap_or(0) - other.unwrap_or(0)).abs());
            }
        }
        println!(
            "{table}: {} rows as in {plain}, times to live within {most} s",
            expected.len()
        );
        assert!(most < 150);
    }
}

fn int(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(bytes.try_into().expect("an int"))
}

/// What clients use once a command is at its end.
#[derive(Clone, Copy)]
enum Used {
    Table,
    Copies,
}

/// A command. It is killed with this value.
struct Job {
    what: String,
    child: Child,
    files: [tempfile::NamedTempFile; 2],
    begun: Instant,
}

impl Job {
    /// Whether it has succeeded, and what it has said.
    fn end(mut self) -> (bool, String, String) {
        while self.is_running() {
            let tried = self.begun.elapsed();
            assert!(tried < JOB_MAX, "{}: {}", self.what, self.said()[1]);
            thread::sleep(Duration::from_millis(20));
        }
        let status = self.child.wait().expect("it ends");
        let [out, err] = self.said();
        if !self.what.starts_with("status") {
            println!(
                "  {:?} {} after {:.1?}: {}",
                self.what,
                if status.success() {
                    "has succeeded"
                } else {
                    "has failed"
                },
                self.begun.elapsed(),
                err.trim()
            );
        }
        (status.success(), out, err)
    }

    fn said(&self) -> [String; 2] {
        let said = self.files.each_ref();
        said.map(|file| fs::read_to_string(file.path()).expect("a text"))
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(what: &str, seen: &Seen) {
    println!(
        "{what}: {} writes; longest {:.1?} ({}); {} differ; errors {:#?}",
        seen.writes,
        seen.longest.0,
        seen.longest.1,
        seen.differing.len(),
        seen.errors
    );
    for differing in seen.differing.iter().take(5) {
        println!("  {differing}");
    }
    assert!(
        seen.differing.is_empty(),
        "acknowledged writes are missing from reads"
    );
}

/// Asks again until the answer is yes.
fn eventually(what: &str, mut ask: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !ask() {
        assert!(begin.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn seed() -> u64 {
    let seed = match std::env::var("HELENUS_SEED") {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => rand::random::<u32>().into(),
    };
    println!("seed {seed} (HELENUS_SEED)");
    seed
}

/// Each with nodes that were not disturbed before, as far as that goes.
type Trouble = fn(&mut Site, u64);
const TROUBLES: [(&str, Trouble); 5] = [
    ("brief", away::briefly),
    ("away", away::while_members_join),
    ("emptied", away::while_the_table_is_emptied),
    ("two", at_once::two_commands),
    ("ring", ring::a_node_joins_and_leaves),
];

/// `brief`, or those that `HELENUS_TROUBLES` names, in commas.
#[test]
fn commands_come_to_their_end_and_nothing_is_lost() {
    let wanted = std::env::var("HELENUS_TROUBLES").unwrap_or_else(|_| "brief".to_owned());
    let mut wanted: Vec<&str> = wanted.split(',').collect();
    if let Some(at) = wanted.iter().position(|name| *name == "rights") {
        wanted.remove(at);
        rights::roles_keep_their_rights();
    }
    if wanted.is_empty() {
        return;
    }
    let seed = seed();
    let mut site = Site::up();
    site.proxy();
    site.proxy();
    for name in wanted {
        let trouble = TROUBLES.iter().find(|(of, _)| *of == name);
        let (_, trouble) = trouble.unwrap_or_else(|| panic!("no trouble is named {name}"));
        println!("--- {name}");
        let begun = Instant::now();
        trouble(&mut site, seed);
        println!("--- {name}: {:.1?}", begun.elapsed());
    }
}
