//! Memory that the proxy holds for clients that do not read, or that all want the same.

use std::net::TcpStream;
use std::time::Duration;

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, ONE, op};

use crate::node::shared;
use crate::{eventually, metric, serves, turn};

const OVERLOADED: i32 = 0x1001;
const MIB: u64 = 1024;
/// What may be held over `limits.memory_max`: workers learn of each other's pages only when these are there.
const OVER_MIB: f64 = 20.0;
/// Rows of 1 KiB: pages of 5 MB.
const ROWS: i32 = 5_000;
/// One such page, rounded up.
const PAGE_MIB: u64 = 6;
/// Memory in use at any moment and not counted: on each of two links of each of two workers, a page that is read,
/// and one that is put together, in buffers that have up to twice its room.
const UNDER_WAY_MIB: u64 = 2 * 8 * PAGE_MIB;
/// Memory that a proxy takes for itself when it begins to work, and that its allocator keeps.
const OWN_MIB: u64 = 24;

/// A table of such a page.
fn table(points: &[std::net::SocketAddr]) {
    let mut client = Client::ready(points[0], 5).expect("client");
    let insert = client
        .prepare("INSERT INTO mem.t (k, v) VALUES (?, ?)")
        .expect("prepared");
    for k in 0..ROWS {
        let written = client.execute(&insert, &[&k.to_be_bytes(), &[b'v'; 1024]], ONE);
        written.expect("answer").expect("written");
    }
}

/// Each of them asks for the whole page and does not read it.
fn ask(proxy: &Proxy, number: usize, version: impl Fn(usize) -> u8) -> Vec<Client<TcpStream>> {
    (0..number)
        .map(|n| {
            let mut client = Client::ready(proxy.address, version(n)).expect("client");
            let body = client.query_body("SELECT k, v FROM mem.t", ONE);
            client.send(1, op::QUERY, &body).expect("sent");
            client
        })
        .collect()
}

/// The most that was ever resident, over what it was before, is within a bound.
fn grew(proxy: &Proxy, before_kib: u64, what: &str, bound_mib: u64) {
    let peak_kib = proxy.resident_peak_kib().expect("memory");
    let grown = peak_kib.saturating_sub(before_kib) / MIB;
    println!("{what}: {grown} MiB more at most, {bound_mib} MiB allowed");
    assert!(grown <= bound_mib, "{what}: {grown} MiB");
}

fn memory_returns(proxy: &Proxy) {
    eventually("nothing is held", Duration::from_secs(10), || {
        metric(proxy, "helenus_memory_held_bytes") == 0.0
    });
}

#[test]
fn one_page_for_many_clients_is_held_once() {
    let _turn = turn("shared page", Duration::from_secs(240));
    let mut node = shared();
    node.keyspace("mem", &["CREATE TABLE mem.t (k int PRIMARY KEY, v text)"]);
    let points = node.cluster().contact_points();
    table(&points);
    // All wait for the one scan slot, so that those behind the first share their page.
    let settings = [
        "listen.workers=1",
        "scheduling.scan_slots=1",
        "scheduling.scan_slots_idle=1",
        "scheduling.scan_slots_max=1",
    ];
    let proxy = Proxy::start_patient(&points, &settings).expect("proxy");
    assert!(serves(proxy.address));
    let before = proxy.resident_kib().expect("memory");
    let mut clients = ask(&proxy, 300, |n| if n % 3 == 0 { 4 } else { 5 });
    eventually("all are answered", Duration::from_secs(60), || {
        metric(&proxy, "helenus_node_queued_requests") == 0.0
            && metric(&proxy, "helenus_node_in_flight_requests") == 0.0
    });
    let shared = metric(&proxy, "helenus_reads_shared_total") as u64;
    assert!(shared > 250, "{shared}");
    // How many reads there are depends on how clients arrive. Each has one page, in a buffer that has up to twice its
    // room; copied for each client it would be 1,500 MiB.
    let pages = 300 - shared;
    let bound = 2 * pages * PAGE_MIB + UNDER_WAY_MIB + OWN_MIB;
    grew(&proxy, before, "300 clients with a page of 5 MB", bound);
    let first = clients[1].receive().expect("a page");
    assert_eq!(
        first
            .clone()
            .judged()
            .expect("page")
            .expect("rows")
            .rows()
            .expect("rows")
            .len(),
        ROWS as usize
    );
    for (n, client) in clients.iter_mut().enumerate().skip(2) {
        let page = client.receive().expect("a page");
        if n % 3 == 0 {
            assert_eq!(page.rows().expect("rows").len(), ROWS as usize, "{n}");
        } else {
            assert!(page.body == first.body, "{n}");
        }
        // It is still of use to the proxy.
        assert_eq!(
            client
                .query("SELECT k FROM mem.t WHERE k = 1")
                .expect("rows")
                .len(),
            1
        );
    }
    drop(clients);
    memory_returns(&proxy);
}

#[test]
fn answers_beyond_the_bound_are_refused_and_clients_that_stand_still_make_way() {
    let _turn = turn("memory bound", Duration::from_secs(240));
    let mut node = shared();
    node.keyspace("mem", &["CREATE TABLE mem.t (k int PRIMARY KEY, v text)"]);
    let points = node.cluster().contact_points();
    table(&points);
    let settings = [
        "limits.memory_max=67108864",
        "aggregation.share_reads=false",
    ];
    let proxy = Proxy::start_patient(&points, &settings).expect("proxy");
    assert!(serves(proxy.address));
    let before = proxy.resident_kib().expect("memory");
    let mut clients = ask(&proxy, 60, |_| 5);
    eventually("all are answered", Duration::from_secs(60), || {
        metric(&proxy, "helenus_node_queued_requests") == 0.0
            && metric(&proxy, "helenus_node_in_flight_requests") == 0.0
    });
    let held = metric(&proxy, "helenus_memory_held_bytes");
    assert!(held <= (64.0 + OVER_MIB) * 1024.0 * 1024.0, "{held}");
    let bound = 2 * 64 + UNDER_WAY_MIB + OWN_MIB;
    grew(&proxy, before, "60 pages of 5 MB that nobody reads", bound);
    // The latest first: they have been refused while the memory was full.
    let mut refused = 0;
    for client in clients.iter_mut().rev() {
        // Those that had not read anything for long are cut.
        let Ok(answer) = client.receive() else {
            continue;
        };
        match answer.judged().expect("answer") {
            Ok(page) => assert_eq!(page.rows().expect("rows").len(), ROWS as usize),
            Err(fault) => {
                assert_eq!(fault.code, OVERLOADED, "{fault:?}");
                assert!(fault.message.contains("limits.memory_max"), "{fault:?}");
                refused += 1;
                // It lives on, and is served as soon as others have made way.
                eventually("it is served", Duration::from_secs(30), || {
                    let rows = client.query("SELECT k FROM mem.t WHERE k = 1");
                    rows.is_ok_and(|rows| rows.len() == 1)
                });
            }
        }
    }
    assert!((1..60).contains(&refused), "{refused} of 60 were refused");
    drop(clients);
    memory_returns(&proxy);
    // Nobody reads, and nobody leaves: whoever comes later is served all the same.
    let unread = ask(&proxy, 20, |_| 4);
    let mut late = Client::ready(proxy.address, 5).expect("client");
    eventually(
        "clients that stand still make way",
        Duration::from_secs(30),
        || late.query("SELECT k, v FROM mem.t").is_ok(),
    );
    drop(unread);
    memory_returns(&proxy);
}

/// Whoever announces large messages and does not finish them holds no memory for ever.
#[test]
fn unfinished_messages_count_and_are_bounded() {
    let _turn = turn("unfinished messages", Duration::from_secs(120));
    let mut node = shared();
    let points = node.cluster().contact_points();
    let proxy = Proxy::start_patient(&points, &["limits.memory_max=33554432"]).expect("proxy");
    let before = proxy.resident_kib().expect("memory");
    let mut hostile: Vec<TcpStream> = Vec::new();
    for _ in 0..40 {
        let mut client = Client::ready(proxy.address, 4).expect("client");
        let mut bytes = helenus_tests::raw::envelope(4, 1, op::QUERY, &vec![b'x'; 8 << 20]);
        bytes.truncate(4 << 20);
        client.stream.set_nonblocking(false).expect("set");
        // It may be closed before all is written.
        let _ = std::io::Write::write_all(&mut client.stream, &bytes);
        hostile.push(client.stream);
    }
    let bound = 2 * 32 + OWN_MIB;
    grew(
        &proxy,
        before,
        "40 times 4 MiB of unfinished messages",
        bound,
    );
    drop(hostile);
    memory_returns(&proxy);
    assert!(serves(proxy.address));
}

/// Texts are remembered with what is known of them, which takes ten times their length here.
#[test]
fn remembered_texts_are_bounded_in_bytes() {
    let _turn = turn("remembered texts", Duration::from_secs(180));
    let mut node = shared();
    let points = node.cluster().contact_points();
    let settings = ["limits.statements_bytes_max=16777216", "listen.workers=1"];
    let proxy = Proxy::start_patient(&points, &settings).expect("proxy");
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let before = proxy.resident_kib().expect("memory");
    for n in 0..2_000 {
        let list: Vec<String> = (0..2_500).map(|k| (k + n).to_string()).collect();
        let cql = format!("SELECT v FROM nowhere.t WHERE k IN ({})", list.join(","));
        let fault = client.try_query(&cql, ONE).expect("answer");
        fault.expect_err("there is no such keyspace");
    }
    grew(
        &proxy,
        before,
        "2,000 texts of 2,500 terms each",
        16 + OWN_MIB,
    );
}
