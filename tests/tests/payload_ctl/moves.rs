//! There and back, while clients read and write, with commands that are killed in the middle.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use helenus_cluster::Cluster;
use helenus_payload::{Decoder, MARKER};
use helenus_tests::proxy::Proxy;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::clients::{Client, int, now_us, seed};
use crate::statements::document;
use crate::{Node, eventually, shared};

const CLIENTS: i32 = 3;
/// Partitions that no client writes, and their rows.
const OLD: std::ops::Range<i32> = 100..140;
const OLD_ROWS: i32 = 25;
const TTL_S: i32 = 50_000;

/// A value with what CQL tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Value {
    text: String,
    written_us: i64,
    expires: bool,
}

/// Values by key.
type Values = BTreeMap<(i32, i32), Value>;

/// Fills a table past the proxies: documents with times of their own, some of which expire.
fn fill(node: &mut Node, table: &str, seed: u64) -> Values {
    node.run(&format!(
        "CREATE TABLE {table} (k int, c int, doc text, n int, PRIMARY KEY (k, c))"
    ));
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut values = Values::new();
    let begin = now_us() - 1_000_000_000;
    for k in OLD {
        let mut batch = "BEGIN UNLOGGED BATCH ".to_owned();
        for c in 0..OLD_ROWS {
            let value = Value {
                text: document(&mut rng),
                written_us: begin + i64::from(k * 1_000 + c),
                expires: c % 5 == 0,
            };
            let ttl = if value.expires { TTL_S } else { 0 };
            batch.push_str(&format!(
                "UPDATE {table} USING TIMESTAMP {} AND TTL {ttl} SET doc = '{}' WHERE k = {k} AND c = {c}; ",
                value.written_us,
                value.text.replace('\'', "''")
            ));
            values.insert((k, c), value);
        }
        node.run(&format!("{batch}APPLY BATCH"));
    }
    values
}

/// The values of a column, encoded or not, as the node has them.
fn values(node: &mut Node, table: &str, column: &str) -> Values {
    let rows = node.run(&format!(
        "SELECT k, c, {column}, WRITETIME({column}), TTL({column}) FROM {table}"
    ));
    let mut values = Values::new();
    for row in rows {
        let [Some(k), Some(c), Some(value), Some(written), ttl] = &row[..] else {
            continue;
        };
        let ttl = ttl.as_deref().map(|ttl| int(ttl).expect("a number"));
        // Less is left than at first, and more than if it had begun anew.
        assert!(ttl.is_none_or(|ttl| ttl > TTL_S - 1_000), "{ttl:?} is left");
        let value = Value {
            text: text_of(value),
            written_us: i64::from_be_bytes(written[..].try_into().expect("a time")),
            expires: ttl.is_some(),
        };
        let key = (int(k).expect("a key"), int(c).expect("a key"));
        values.insert(key, value);
    }
    values
}

/// Encoded values are told by their lengths and first bytes only: what they were written with is in the catalogue.
fn text_of(value: &[u8]) -> String {
    if value.first() != Some(&MARKER) {
        return String::from_utf8(value.to_vec()).expect("a text");
    }
    let mut text = String::new();
    let _ = Decoder::default().decode(value, &(), 1 << 20, &mut text);
    text
}

/// Values that were moved so many times are as late in microseconds.
fn moved(values: &Values, times: i64) -> Values {
    let later = values.iter().map(|(key, value)| {
        let value = Value {
            written_us: value.written_us + times,
            ..value.clone()
        };
        (*key, value)
    });
    later.collect()
}

fn old_of(mut values: Values) -> Values {
    values.retain(|(k, _), _| OLD.contains(k));
    values
}

fn without_texts(values: Values) -> Values {
    let empty = values.into_iter().map(|(key, value)| {
        let text = String::new();
        (key, Value { text, ..value })
    });
    empty.collect()
}

/// Two proxies and clients of theirs, that end when the work is done.
fn with_clients(cluster: &Cluster, table: &'static str, seed: u64, work: impl FnOnce()) {
    let settings = ["payload.enabled=true"];
    let proxies =
        [0, 1].map(|_| Proxy::start(&cluster.contact_points(), &settings).expect("a proxy"));
    let addresses = [proxies[0].address, proxies[1].address];
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|partition| {
                let mut client =
                    Client::new(addresses, table, partition, seed).expect("two sessions");
                let ends = &ends;
                scope.spawn(move || {
                    let done = client.run(ends);
                    // The others need not go on.
                    ends.store(true, Ordering::Relaxed);
                    done.unwrap_or_else(|e| panic!("HELENUS_SEED={seed}: {e:#}"));
                    client
                })
            })
            .collect();
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        ends.store(true, Ordering::Relaxed);
        for client in clients {
            let client = client.join().expect("no wrong answer");
            let (writes, reads) = (client.writes, client.reads);
            println!(
                "{writes} writes, {} of them twice, {reads} reads",
                client.repeated
            );
            assert!(
                client.repeated > 20 && reads > 100,
                "hardly anything was done"
            );
        }
        if let Err(why) = worked {
            std::panic::resume_unwind(why);
        }
    });
}

#[test]
fn columns_are_encoded_while_clients_use_them() {
    let cluster = shared();
    let mut node = Node::of(&cluster);
    let seed = seed();
    node.keyspace("there");
    let before = fill(&mut node, "there.t", seed);
    with_clients(&cluster, "there.t", seed, || {
        let enable = [
            "enable",
            "there.t",
            "doc",
            "--codec",
            "shape",
            "--yes",
            "--parallel",
            "1",
        ];
        let slowly = [&enable[..], &["--rows-per-second", "150"]].concat();
        let mut first = node.begin(&slowly);
        eventually("the column is announced", || {
            has_catalogue(&mut node) && node.state("there", "t", "doc").is_some()
        });
        first.kill().expect("it runs");
        first.wait().expect("it ends");
        let hidden = "SELECT type FROM system_schema.columns WHERE keyspace_name = 'there' AND table_name = 't' \
                      AND column_name = 'doc__encoded'";
        let mut second = node.begin(&slowly);
        eventually("values are moved", || {
            assert_eq!(second.try_wait().expect("a process"), None, "it has ended");
            node.ranges_moved("there", "t", "doc") > 2
        });
        second.kill().expect("it runs");
        second.wait().expect("it ends");
        assert_eq!(node.state("there", "t", "doc").as_deref(), Some("encoded"));
        assert_eq!(node.run(hidden).len(), 1);
        let status = node.payload(&["status", "there.t", "--json"]).succeeded();
        let column = &status.json()["tables"][0]["columns"][0];
        assert!(column["ranges_moved"].as_u64() > Some(2), "{column}");
        assert!(
            column["next"]
                .as_str()
                .is_some_and(|of| of.contains("payload enable"))
        );

        let third = node
            .payload(&[&enable[..], &["--json"]].concat())
            .succeeded()
            .json();
        assert_eq!(third["state"], "encoded_only");
        let moved = third["values_moved"].as_u64().expect("a number");
        let all = before.len() as u64;
        assert!(
            moved > 0 && moved < all,
            "{moved} of {all}: it has begun anew"
        );
        // Once more: nothing is left to be done.
        let again = node
            .payload(&[&enable[..], &["--json"]].concat())
            .succeeded()
            .json();
        assert_eq!(again["values_moved"], serde_json::Value::Null);
    });
    assert_eq!(values(&mut node, "there.t", "doc"), Values::new());
    let encoded = old_of(values(&mut node, "there.t", "doc__encoded"));
    assert_eq!(
        without_texts(encoded),
        without_texts(moved(&before, 1)),
        "times of writing and what is left of times to live"
    );
    let proxy =
        Proxy::start(&cluster.contact_points(), &["payload.enabled=true"]).expect("a proxy");
    assert_eq!(texts_through(&proxy, "there.t"), texts_of(&before));
    let status = node
        .payload(&["status", "there.t", "--count", "--json"])
        .succeeded()
        .json();
    let column = &status["tables"][0]["columns"][0];
    assert_eq!(
        (&column["texts"], &column["next"]),
        (&0.into(), &serde_json::Value::Null)
    );
    assert!(column["encoded"].as_u64() >= Some(before.len() as u64));
    // A column that is encoded can be measured, and written with another codec.
    node.payload(&["advise", "there.t", "doc"]).succeeded();
}

#[test]
fn columns_are_taken_back_while_clients_use_them() {
    let cluster = shared();
    let mut node = Node::of(&cluster);
    let seed = seed();
    node.keyspace("back");
    let before = fill(&mut node, "back.t", seed + 1);
    let described =
        "SELECT column_name, type, kind FROM system_schema.columns WHERE keyspace_name = 'back'";
    let columns = node.run(described);
    let enable = [
        "enable",
        "back.t",
        "doc",
        "--codec",
        "zstd",
        "--yes",
        "--no-proxies",
    ];
    node.payload(&enable).succeeded();
    with_clients(&cluster, "back.t", seed, || {
        let slowly = [
            "disable",
            "back.t",
            "doc",
            "--parallel",
            "1",
            "--rows-per-second",
            "150",
        ];
        let mut first = node.begin(&slowly);
        eventually("values are moved", || {
            assert_eq!(first.try_wait().expect("a process"), None, "it has ended");
            node.state("back", "t", "doc").as_deref() == Some("text")
                && node.ranges_moved("back", "t", "doc") > 2
        });
        first.kill().expect("it runs");
        first.wait().expect("it ends");
        let disable = ["disable", "back.t", "doc", "--json"];
        let second = node.payload(&disable).succeeded().json();
        let moved = second["values_moved"].as_u64().expect("a number");
        assert!(
            moved > 0 && moved < before.len() as u64,
            "{moved}: it has begun anew"
        );
        node.payload(&disable).failed("is not encoded");
    });
    assert_eq!(
        node.run(described),
        columns,
        "as if it had never been encoded"
    );
    let texts = old_of(values(&mut node, "back.t", "doc"));
    assert_eq!(texts, moved(&before, 2));
    // Another time: the column of encoded values must be another, since nodes remember the one that was dropped.
    let again = node
        .payload(&[&enable[..], &["--json"]].concat())
        .succeeded()
        .json();
    assert_eq!(again["hidden"], "doc__encoded2");
    let proxy =
        Proxy::start(&cluster.contact_points(), &["payload.enabled=true"]).expect("a proxy");
    assert_eq!(texts_through(&proxy, "back.t"), texts_of(&before));
}

fn stopped(child: &Child, signal: Signal) {
    let pid = Pid::from_child(child);
    kill_process(pid, signal).expect("it runs");
}

#[test]
fn a_command_that_stood_still_while_another_took_over_moves_nothing_more() {
    let cluster = shared();
    let mut node = Node::of(&cluster);
    node.keyspace("stale");
    let before = fill(&mut node, "stale.t", seed() + 2);
    let enable = [
        "enable",
        "stale.t",
        "doc",
        "--codec",
        "cbor",
        "--yes",
        "--no-proxies",
        "--parallel",
        "1",
        "--rows-per-second",
        "150",
    ];
    let mut command = node.command(&enable);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let first = command.spawn().expect("it starts");
    eventually("values are moved", || {
        has_catalogue(&mut node) && node.ranges_moved("stale", "t", "doc") > 2
    });
    stopped(&first, Signal::STOP);
    // It settles in each state, so that there is time before it drops the column.
    let mut second = node.begin(&["disable", "stale.t", "doc"]);
    eventually("all values are texts again", || {
        node.state("stale", "t", "doc").as_deref() == Some("announced")
    });
    stopped(&first, Signal::CONT);
    assert!(second.wait().expect("it ends").success());
    let output = first.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("changed by somebody else"), "{said}");
    let texts = values(&mut node, "stale.t", "doc");
    assert_eq!(texts_of(&texts), texts_of(&before));
}

fn has_catalogue(node: &mut Node) -> bool {
    let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'helenus'";
    node.run(tables).len() >= 3
}

fn texts_of(values: &Values) -> BTreeMap<(i32, i32), String> {
    let texts = values.iter();
    texts
        .map(|(key, value)| (*key, value.text.clone()))
        .collect()
}

/// The documents that nobody has written since, as clients read them.
fn texts_through(proxy: &Proxy, table: &str) -> BTreeMap<(i32, i32), String> {
    let mut session = crate::session::Session::open(proxy.address, 5).expect("a session");
    let select = format!("SELECT k, c, doc FROM {table}");
    let rows = session.client.query(&select).expect("rows");
    let mut texts = BTreeMap::new();
    for row in rows {
        let [Some(k), Some(c), Some(doc)] = &row[..] else {
            continue;
        };
        let key = (int(k).expect("a key"), int(c).expect("a key"));
        texts.insert(key, String::from_utf8(doc.clone()).expect("a text"));
    }
    texts.retain(|(k, _), _| OLD.contains(k));
    texts
}

/// Long enough for a proxy that has ended to be gone from a node's list of clients.
pub(crate) fn until_gone(node: &mut Node) {
    let proxies = "SELECT driver_name FROM system_views.clients";
    eventually("no proxy is left", || {
        let rows = node.run(proxies);
        let is_proxy = |row: &Vec<Option<Vec<u8>>>| row[0].as_deref() == Some(b"Helenus");
        !rows.iter().any(is_proxy)
    });
}
