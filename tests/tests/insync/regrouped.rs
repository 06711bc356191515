//! A node joins the data center of a copy and leaves it again, while clients of two proxies write and read: lists are made
//! for the owners that ranges have by then, and no acknowledged write is lost or missing from a read.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use helenus_cluster::Cluster;
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, QUORUM};
use serde_json::Value;

use crate::writes::{COPIES, ON, data_centers, keys_of, replace};
use crate::{TURN, eventually, joined, lists, run, uuid};

/// What a client has seen.
#[derive(Default)]
struct Seen {
    acknowledged: BTreeSet<i32>,
    /// Acknowledged, and not found by a read through another proxy that came later.
    missing: Vec<i32>,
    /// Times between two rounds in which nothing was refused, that were longer than a tenth of a second.
    pauses: Vec<Duration>,
    last_error: Option<String>,
}

struct Worker {
    stop: Arc<AtomicBool>,
    /// Rounds in which nothing was refused.
    rounds: Arc<AtomicU64>,
    thread: JoinHandle<Seen>,
}

impl Worker {
    fn start(proxies: [SocketAddr; 2]) -> Worker {
        let (stop, rounds): (Arc<AtomicBool>, Arc<AtomicU64>) = Default::default();
        let (is_over, done) = (stop.clone(), rounds.clone());
        let thread = thread::spawn(move || work(proxies, &is_over, &done));
        Worker {
            stop,
            rounds,
            thread,
        }
    }

    /// Once clients have gone on for a while.
    fn stop(self) -> Seen {
        let before = self.rounds.load(Ordering::Relaxed);
        eventually("clients go on", || {
            self.rounds.load(Ordering::Relaxed) > before + 100
        });
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}

/// Writes a row through one of the proxies and reads it through the other, in turn.
fn work(proxies: [SocketAddr; 2], is_over: &AtomicBool, rounds: &AtomicU64) -> Seen {
    let client = |address| Client::ready(address, 5).expect("a client");
    let mut clients = proxies.map(client);
    let (mut seen, mut succeeded) = (Seen::default(), Instant::now());
    for key in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let insert = format!("INSERT INTO shop.orders (k, a, b, v) VALUES ({key}, 1, 2, {key})");
        let one = usize::try_from(key % 2).expect("a number");
        let written = clients[one].try_query(&insert, QUORUM).expect("an answer");
        if let Err(fault) = written {
            seen.last_error = Some(format!("{fault:?}"));
            continue;
        }
        seen.acknowledged.insert(key);
        // And one that is there for long, of any part of the ring.
        let reads = [(1 - one, key), (one, key / 2)];
        let reads = reads.map(|(one, key)| (key, has(&mut clients[one], key)));
        let is_missing = |(key, found): &(i32, Option<bool>)| {
            *found == Some(false) && seen.acknowledged.contains(key)
        };
        let missing = reads.iter().filter(|read| is_missing(read));
        seen.missing.extend(missing.map(|(key, _)| *key));
        if reads.iter().any(|(_, found)| found.is_none()) {
            continue;
        }
        rounds.fetch_add(1, Ordering::Relaxed);
        let pause = succeeded.elapsed();
        if pause > Duration::from_millis(100) {
            seen.pauses.push(pause);
        }
        // All that was written is read in the end.
        thread::sleep(Duration::from_millis(5));
        succeeded = Instant::now();
    }
    seen
}

/// Whether a read at QUORUM finds a row; None if it is refused.
fn has(client: &mut Client<std::net::TcpStream>, key: i32) -> Option<bool> {
    let select = format!("SELECT v FROM shop.orders WHERE k = {key}");
    let answer = client.try_query(&select, QUORUM).expect("an answer");
    Some(!answer.ok()?.rows().expect("rows").is_empty())
}

/// The owners of the first copy, if all copies are in sync in all groups.
fn in_sync(proxy: &Proxy) -> Option<BTreeSet<String>> {
    let lists = lists(proxy);
    let groups = lists["copies"].as_array()?;
    let copies = |group: &Value| group["copies"].as_array().cloned().unwrap_or_default();
    let mut all = groups.iter().flat_map(copies);
    let is_in_sync = all.all(|copy| copy["state"] == "in sync");
    let owner = |group: &Value| Some(group["copies"][0]["host_id"].as_str()?.to_owned());
    let owners: Option<BTreeSet<String>> = groups.iter().map(owner).collect();
    owners.filter(|owners| is_in_sync && !owners.is_empty() && owners.len() == groups.len())
}

fn host(cluster: &Cluster, node: u16) -> String {
    let mut node = cluster.connect(node).expect("a connection");
    uuid(&run(&mut node, "SELECT host_id FROM system.local")[0][0])
}

/// All that was acknowledged is found through each proxy, and is on all copies.
fn check(cluster: &Cluster, proxies: &[Proxy; 2], (what, seen): (&str, &Seen)) {
    let total: Duration = seen.pauses.iter().sum();
    println!(
        "{what}: {} writes acknowledged, nothing for {total:.1?} in {} pauses, the longest {:.1?}; last error: {:?}",
        seen.acknowledged.len(),
        seen.pauses.len(),
        seen.pauses.iter().max().copied().unwrap_or_default(),
        seen.last_error
    );
    assert_eq!(seen.missing, [0; 0], "{}", proxies[0].log());
    assert!(!seen.acknowledged.is_empty());
    for copy in 0..COPIES.len() {
        let keys = keys_of(cluster, copy);
        let missing: Vec<_> = seen.acknowledged.difference(&keys).collect();
        assert!(missing.is_empty(), "copy {copy}: {missing:?}");
    }
    for proxy in proxies {
        let mut client = Client::ready(proxy.address, 5).expect("a client");
        for key in &seen.acknowledged {
            let mut found = None;
            eventually("the read is answered", || {
                found = has(&mut client, *key);
                found.is_some()
            });
            assert_eq!(found, Some(true), "key {key}");
        }
    }
}

#[test]
fn lists_follow_a_node_that_joins_and_leaves_while_clients_write_and_read() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    // A process that is starved of CPU is not dead, and a node that leaves waits for twice the longest write.
    let spec = data_centers()
        .yaml("phi_convict_threshold", "14")
        .yaml("write_request_timeout", "4s");
    let mut cluster = Cluster::up(spec).expect("three nodes");
    replace(&cluster);
    let points = cluster.contact_points();
    let proxies = [(); 2].map(|()| Proxy::start(&points, &ON).expect("a proxy"));
    proxies.iter().for_each(|proxy| _ = joined(proxy));
    let first = host(&cluster, 1);
    let owned_by = |hosts: &[&String]| {
        let hosts: BTreeSet<String> = hosts.iter().map(|host| (*host).clone()).collect();
        proxies
            .iter()
            .all(|proxy| in_sync(proxy).as_ref() == Some(&hosts))
    };
    eventually("the copies are known", || owned_by(&[&first]));
    let addresses = proxies.each_ref().map(|proxy| proxy.address);

    let worker = Worker::start(addresses);
    let begun = Instant::now();
    let number = cluster.add_node().expect("a node joins");
    println!("node {number} has joined after {:.1?}", begun.elapsed());
    let new = host(&cluster, number);
    eventually("the copy of the new owner is in sync", || {
        owned_by(&[&first, &new])
    });
    println!("its copy is in sync after {:.1?}", begun.elapsed());
    let seen = worker.stop();
    check(&cluster, &proxies, ("a node joins", &seen));
    for said in [
        "parts of the ring have other owners",
        "copy 0 of shop.orders is equal to the others, and in sync",
    ] {
        let says = |proxy: &Proxy| proxy.log().contains(said);
        assert!(proxies.iter().any(says), "{said}: {}", proxies[0].log());
    }

    let worker = Worker::start(addresses);
    let begun = Instant::now();
    cluster.remove_node(number).expect("it leaves");
    println!("node {number} has left after {:.1?}", begun.elapsed());
    eventually("the copy of the old owner is in sync in all ranges", || {
        owned_by(&[&first])
    });
    println!("its ranges are in sync after {:.1?}", begun.elapsed());
    let seen = worker.stop();
    check(&cluster, &proxies, ("it leaves", &seen));
}
