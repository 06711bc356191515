//! Scans in pieces: the same bytes as from a node, and points that do not wait for them.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use helenus_cluster::Cluster;
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Answer, Client, ONE, op};

use crate::{metric, turn};

const PARTITIONS: usize = 70;

#[test]
fn scans() {
    let _turn = turn("scans", Duration::from_secs(300));
    let cluster = Cluster::up(helenus_tests::ephemeral().nodes(2)).expect("two nodes");
    let points = cluster.contact_points();
    // Some rows a piece: a scan on its own takes larger ones, 8 KiB here.
    let proxy = Proxy::start(&points, &["scheduling.piece_kib=1"]).expect("proxy");
    fill(points[0]);
    for version in [3, 4, 5] {
        pages_are_those_of_a_node(points[0], &proxy, version);
    }
    let pieces = metric(&proxy, "helenus_scan_pieces_total");
    let scans = metric(&proxy, "helenus_scans_in_pieces_total");
    assert!(pieces > scans + 300.0, "{pieces} pieces of {scans} scans");
    forged_paging_states_get_the_nodes_own_error(points[0], &proxy);
    points_pass_scans(&proxy);
    clients_that_leave_leave_nothing_behind(&proxy);
}

fn fill(node: SocketAddr) {
    let mut client = Client::ready(node, 5).expect("client");
    for cql in [
        "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE s.t (k int, c int, v text, st text static, PRIMARY KEY (k, c))",
    ] {
        client.query(cql).expect(cql);
    }
    // The other node must have heard of it, too.
    thread::sleep(Duration::from_secs(2));
    for k in 0..PARTITIONS {
        let padding = "x".repeat(k * 37 % 2_400);
        for c in 0..k % 5 {
            let cql = format!("INSERT INTO s.t (k, c, v) VALUES ({k}, {c}, '{k} {c} {padding}')");
            client.query(&cql).expect(&cql);
        }
        if k % 3 == 0 {
            let cql = format!("INSERT INTO s.t (k, st) VALUES ({k}, 'static {k}')");
            client.query(&cql).expect(&cql);
        }
    }
}

/// A QUERY with a page size and a paging state.
fn paged(
    client: &Client<TcpStream>,
    cql: &str,
    size: Option<i32>,
    state: Option<&[u8]>,
) -> Vec<u8> {
    let mut body = (cql.len() as u32).to_be_bytes().to_vec();
    body.extend_from_slice(cql.as_bytes());
    body.extend_from_slice(&ONE.to_be_bytes());
    let flags = size.map_or(0, |_| 4) | state.map_or(0, |_| 8);
    match client.version {
        5.. => body.extend_from_slice(&u32::to_be_bytes(flags)),
        _ => body.push(flags as u8),
    }
    if let Some(size) = size {
        body.extend_from_slice(&size.to_be_bytes());
    }
    if let Some(state) = state {
        body.extend_from_slice(&(state.len() as u32).to_be_bytes());
        body.extend_from_slice(state);
    }
    body
}

/// The paging state of a RESULT of kind Rows.
fn paging_state(answer: &Answer) -> Option<Vec<u8>> {
    let mut body = &answer.body[..];
    if answer.flags & 8 != 0 {
        let mut count = u16::from_be_bytes(body[..2].try_into().expect("two bytes"));
        body = &body[2..];
        while count > 0 {
            let len = usize::from(u16::from_be_bytes(body[..2].try_into().expect("two bytes")));
            body = &body[2 + len..];
            count -= 1;
        }
    }
    let int = |at: usize| i32::from_be_bytes(body[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(int(0), 2, "rows");
    (int(4) & 2 != 0).then(|| body[16..16 + int(12) as usize].to_vec())
}

/// All pages of a result, byte for byte.
fn pages(client: &mut Client<TcpStream>, cql: &str, size: Option<i32>) -> Vec<(u8, Vec<u8>)> {
    let mut pages = Vec::new();
    let mut state = None;
    loop {
        let body = paged(client, cql, size, state.as_deref());
        let answer = client.call(op::QUERY, &body).expect(cql);
        assert_eq!(answer.opcode, op::RESULT, "{cql}: {:?}", answer.fault());
        state = paging_state(&answer);
        let mut body = answer.body;
        if let (3, Some(state)) = (client.version, &state) {
            // A node words it differently for v3, and understands both.
            let at = body.windows(state.len()).position(|w| w == state);
            let at = at.expect("the state just found");
            body.drain(at - 4..at + state.len());
        }
        pages.push((answer.flags, body));
        if state.is_none() {
            return pages;
        }
        assert!(pages.len() < 10_000, "{cql} does not end");
    }
}

fn pages_are_those_of_a_node(node: SocketAddr, proxy: &Proxy, version: u8) {
    let mut direct = Client::ready(node, version).expect("direct");
    let mut through = Client::ready(proxy.address, version).expect("through");
    for cql in [
        "SELECT * FROM s.t",
        "SELECT * FROM s.t LIMIT 40",
        "SELECT * FROM s.t LIMIT 41",
        "SELECT DISTINCT k, st FROM s.t",
        "SELECT DISTINCT k FROM s.t LIMIT 40",
        "SELECT * FROM s.t PER PARTITION LIMIT 1",
        "SELECT * FROM s.t PER PARTITION LIMIT 2 LIMIT 33",
        "SELECT k, c FROM s.t WHERE c = 2 ALLOW FILTERING",
        "SELECT k, c, v FROM s.t WHERE c > 1 LIMIT 30 ALLOW FILTERING",
        "SELECT JSON * FROM s.t LIMIT 25",
        "SELECT k, st FROM s.t WHERE token(k) > 0",
        "SELECT * FROM s.t WHERE token(k) >= -4611686018427387904 AND token(k) < 4611686018427387904",
        "SELECT * FROM s.t WHERE token(k) > 9223372036854775807",
        "SELECT count(*) FROM s.t",
        "SELECT k, max(c) FROM s.t GROUP BY k",
        "SELECT writetime(v) AS w, ttl(v) FROM s.t",
        "SELECT * FROM s.t WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8, 9)",
        "SELECT * FROM s.t WHERE k = 14",
    ] {
        for size in [None, Some(-1), Some(1), Some(7), Some(5_000)] {
            let expected = pages(&mut direct, cql, size);
            let got = pages(&mut through, cql, size);
            assert!(
                expected == got,
                "v{version}, page size {size:?}: {cql}\n{:?}\n{:?}",
                expected.iter().map(|p| p.1.len()).collect::<Vec<_>>(),
                got.iter().map(|p| p.1.len()).collect::<Vec<_>>(),
            );
        }
    }
}

fn forged_paging_states_get_the_nodes_own_error(node: SocketAddr, proxy: &Proxy) {
    let mut direct = Client::ready(node, 5).expect("direct");
    let mut through = Client::ready(proxy.address, 5).expect("through");
    let forged: [&[u8]; 5] = [
        b"\0",
        b"nonsense",
        &[0xff; 40],
        &[4, 0, 0, 0, 1, 200],
        &[4, 0, 0, 0, 1, 0, 5, 5],
    ];
    for state in forged {
        let body = paged(&direct, "SELECT k FROM s.t", Some(10), Some(state));
        let ask = |client: &mut Client<TcpStream>| {
            let answer = client.call(op::QUERY, &body).expect("an answer");
            (answer.opcode, answer.body)
        };
        assert!(ask(&mut direct) == ask(&mut through), "{state:?}");
    }
}

/// Points come back while scans wait in their queue.
fn points_pass_scans(proxy: &Proxy) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = &stop;
        for _ in 0..40 {
            scope.spawn(move || {
                let mut client = Client::ready(proxy.address, 5).expect("client");
                while !stop.load(Ordering::Relaxed) {
                    pages(&mut client, "SELECT * FROM s.t", Some(5_000));
                }
            });
        }
        let mut client = Client::ready(proxy.address, 5).expect("client");
        let begin = Instant::now();
        let mut points = 0;
        while points < 200 {
            let rows = client
                .query("SELECT c FROM s.t WHERE k = 14")
                .expect("rows");
            assert_eq!(rows.len(), 4);
            points += 1;
        }
        stop.store(true, Ordering::Relaxed);
        let waited = metric(proxy, "helenus_node_wait_seconds_count{class=\"scan\"");
        println!(
            "200 points among 40 scans: {:?}; {waited} pieces waited",
            begin.elapsed()
        );
        assert!(waited > 0.0, "scans wait for slots");
    });
}

fn clients_that_leave_leave_nothing_behind(proxy: &Proxy) {
    for _ in 0..20 {
        let mut client = Client::ready(proxy.address, 5).expect("client");
        let body = paged(&client, "SELECT * FROM s.t", None, None);
        client.send(1, op::QUERY, &body).expect("sent");
    }
    let begin = Instant::now();
    loop {
        let in_flight = metric(proxy, "helenus_node_in_flight_requests");
        let queued = metric(proxy, "helenus_node_queued_requests{class=\"scan\"");
        if in_flight == 0.0 && queued == 0.0 {
            break;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "{in_flight} in flight, {queued} queued"
        );
        thread::sleep(Duration::from_millis(50));
    }
}
