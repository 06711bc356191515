//! Layouts of a table to which clients write all the time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use helenus_tests::proxy::{Proxy, helenus};
use helenus_tests::raw::Client;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Node, Outcome, ask, eventually, metric};

const COLUMNS: &str = "k, a, b, v, w, s, WRITETIME(v), WRITETIME(w), WRITETIME(s)";
const ON: [&str; 2] = ["layouts.enabled=true", "listen.workers=1"];

/// A client that writes until it is told to stop.
struct Writer {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(address: SocketAddr, table: &'static str, seed: u64) -> Writer {
        let (stop, written) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (ends, counts) = (stop.clone(), written.clone());
        let thread = thread::spawn(move || {
            let mut draw = ChaCha8Rng::seed_from_u64(seed);
            let mut client = Client::ready(address, if seed.is_multiple_of(2) { 4 } else { 5 })
                .expect("a client");
            while !ends.load(Ordering::Relaxed) {
                let cql = statement(table, &mut draw);
                ask(&mut client, &cql);
                counts.fetch_add(1, Ordering::Relaxed);
                // Leaves some of the machine to the commands, and to tests beside this one.
                thread::sleep(Duration::from_millis(2));
            }
        });
        Writer {
            stop,
            written,
            thread,
        }
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the writer has failed");
        self.written.load(Ordering::Relaxed)
    }
}

/// A write to one of a few hundred rows, so that most are written more than once.
fn statement(table: &str, draw: &mut ChaCha8Rng) -> String {
    let mut number = |below: u32| draw.random_range(0..below);
    let (k, a, b) = (number(10), number(8), number(8));
    let key = format!("k = {k} AND a = {a} AND b = {b}");
    match number(12) {
        0..=4 => format!(
            "INSERT INTO {table} (k, a, b, v, w) VALUES ({k}, {a}, {b}, {}, 'w{}')",
            number(1000),
            number(1000)
        ),
        5..=6 => format!("UPDATE {table} SET v = {} WHERE {key}", number(1000)),
        7 => format!("UPDATE {table} USING TTL 100000 SET w = 'short' WHERE {key}"),
        8..=9 => format!("DELETE FROM {table} WHERE {key}"),
        10 => format!("UPDATE {table} SET s = 's{}' WHERE k = {k}", number(1000)),
        _ if number(10) == 0 => format!("DELETE FROM {table} WHERE k = {k}"),
        _ => format!("INSERT INTO {table} (k, a, b) VALUES ({k}, {a}, {b})"),
    }
}

/// `helenus layouts` with these arguments, beside what follows.
pub(crate) fn command(node: &Node, arguments: &[&str]) -> JoinHandle<Outcome> {
    let mut command = helenus(&["layouts"]).expect("a program");
    let contact = node.address.to_string();
    command.args(arguments).args(["--contact", &contact]);
    thread::spawn(move || Outcome::of(&mut command))
}

#[test]
fn a_layout_created_while_clients_write_misses_nothing() {
    let mut node = Node::take();
    node.table(
        "busy",
        "CREATE TABLE busy.t (k int, a int, b int, v int, w text, s text static, PRIMARY KEY (k, a, b))",
    );
    let seed = std::env::var("HELENUS_SEED").map_or(7, |seed| seed.parse().expect("a number"));
    println!("HELENUS_SEED={seed}");
    // Whole rows: of a row whose values are deleted one by one, CQL does not tell whether it stays.
    for k in 0..10 {
        for a in 0..8 {
            let rows: Vec<String> = (0..8)
                .map(|b| {
                    format!("INSERT INTO busy.t (k, a, b, v, w) VALUES ({k}, {a}, {b}, 1, 'old');")
                })
                .collect();
            node.run(&format!(
                "BEGIN UNLOGGED BATCH {} APPLY BATCH",
                rows.join(" ")
            ));
        }
    }
    let proxies: Vec<Proxy> = (0..2)
        .map(|_| Proxy::start(&[node.address], &ON).expect("a proxy"))
        .collect();
    let writers: Vec<Writer> = (seed..)
        .zip(&proxies)
        .map(|(seed, proxy)| Writer::start(proxy.address, "busy.t", seed))
        .collect();
    eventually("rows are written", Duration::from_secs(20), || {
        writers
            .iter()
            .all(|w| w.written.load(Ordering::Relaxed) > 100)
    });
    // With all its waiting: proxies are running. Meanwhile somebody adds a column to the table alone.
    let creating = command(&node, &["create", "busy.t", "--layout", "x=b,a", "--json"]);
    eventually("the layout has a table", Duration::from_secs(30), || {
        !node
            .run("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'busy' AND table_name = 't__layout_x'")
            .is_empty()
    });
    node.run("ALTER TABLE busy.t ADD early int");
    let report = creating.join().expect("the command").succeeded();
    println!("{}", report.out);
    let found = "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'busy' AND table_name = \
                 't__layout_x' AND column_name = 'early'";
    assert_eq!(node.run(found).len(), 1, "the layout has followed");
    node.layouts(&["verify", "busy.t"]).succeeded();
    let written: u64 = writers.into_iter().map(Writer::stop).sum();
    println!("{written} writes meanwhile");
    node.layouts(&["verify", "busy.t"]).succeeded();
    let own = node.rows("busy.t", COLUMNS);
    assert_eq!(node.rows("busy.t__layout_x", COLUMNS), own);
    // A column more, which clients write at once; one of the proxies is told by the other's event.
    let mut client = Client::ready(proxies[0].address, 5).expect("a client");
    let writers: Vec<Writer> = (seed + 20..)
        .zip(&proxies)
        .map(|(seed, proxy)| Writer::start(proxy.address, "busy.t", seed))
        .collect();
    client
        .query("ALTER TABLE busy.t ADD (more int, \"Of k\" text static)")
        .expect("columns are added");
    for (proxy, k) in proxies.iter().zip(20..) {
        let mut client = Client::ready(proxy.address, 5).expect("a client");
        for cql in [
            format!("INSERT INTO busy.t (k, a, b, more) VALUES ({k}, 1, 2, 3)"),
            format!("UPDATE busy.t SET \"Of k\" = 'all' WHERE k = {k}"),
        ] {
            ask(&mut client, &cql);
        }
    }
    node.layouts(&["verify", "busy.t"]).succeeded();
    writers.into_iter().map(Writer::stop).for_each(drop);
    let columns = "k, a, b, v, w, more, \"Of k\", WRITETIME(more)";
    let own = node.rows("busy.t", columns);
    assert_eq!(own.iter().filter(|row| row[5].is_some()).count(), 2);
    assert_eq!(node.rows("busy.t__layout_x", columns), own);
    // Rebuilt and dropped while clients write.
    let writers: Vec<Writer> = (seed + 10..)
        .zip(&proxies)
        .map(|(seed, proxy)| Writer::start(proxy.address, "busy.t", seed))
        .collect();
    // Values of a column that comes just before the layout is emptied must come back as well.
    let rebuilding = command(&node, &["rebuild", "busy.t"]);
    eventually("it is no longer read", Duration::from_secs(30), || {
        node.states("busy", "t")["x"] == "writing"
    });
    for cql in [
        "ALTER TABLE busy.t ADD late int",
        "INSERT INTO busy.t (k, a, b, late) VALUES (30, 1, 2, 3)",
    ] {
        client.query(cql).expect(cql);
    }
    rebuilding.join().expect("the command").succeeded();
    for table in ["busy.t", "busy.t__layout_x"] {
        let found = node
            .rows(table, "k, late")
            .into_iter()
            .filter(|row| row[1].is_some());
        assert_eq!(found.count(), 1, "{table}");
    }
    node.layouts(&["verify", "busy.t"]).succeeded();
    node.layouts(&["drop", "busy.t", "--all"]).succeeded();
    let written: u64 = writers.into_iter().map(Writer::stop).sum();
    println!("{written} writes while it was rebuilt and dropped, none of them refused");
}

#[test]
fn a_distrusted_layout_is_not_read_before_it_is_rebuilt() {
    let mut node = Node::take();
    node.table(
        "restored",
        "CREATE TABLE restored.t (k int, a int, b int, v int, PRIMARY KEY (k, a, b))",
    );
    node.run("INSERT INTO restored.t (k, a, b, v) VALUES (1, 1, 3, 1)");
    let create = ["create", "restored.t", "--no-proxies", "--layout", "x=b,a"];
    node.layouts(&create).succeeded();
    let proxy = Proxy::start(&[node.address], &ON).expect("a proxy");
    let mut client = Client::ready(proxy.address, 5).expect("a client");
    // How many rows are found, and whether in the layout.
    let mut read = || {
        let before = metric(&proxy, "helenus_layout_reads_total");
        let select = "SELECT v FROM restored.t WHERE k = 1 AND b = 3 ALLOW FILTERING";
        let rows = client.query(select).expect("rows").len();
        (rows, metric(&proxy, "helenus_layout_reads_total") > before)
    };
    assert_eq!(read(), (1, true));
    node.layouts(&["distrust", "restored.t"]).succeeded();
    assert_eq!(node.states("restored", "t")["x"], "writing");
    node.run("INSERT INTO restored.t (k, a, b, v) VALUES (1, 2, 3, 2)");
    assert_eq!(read(), (2, false), "the layout lacks one");
    node.layouts(&["rebuild", "restored.t"]).succeeded();
    eventually("the layout is read again", Duration::from_secs(20), || {
        read() == (2, true)
    });
    node.layouts(&["drop", "restored.t", "--all", "--no-proxies"])
        .succeeded();
}
