//! Queries that leave together, reads that share one answer, conditional writes that take turns.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Answer, Client, ONE, QUORUM, envelope, frame, op};
use helenus_tests::scenes;
use helenus_tests::scenes::Scenes;

use crate::node::two;
use crate::{merged, metric, turn};

const CLIENTS: usize = 12;
const INCREMENTS: usize = 15;

scenes!(
    queries_of_many_clients;
    identical_reads_are_sent_once,
    no_read_misses_an_acknowledged_write,
    large_answers_get_links_of_their_own,
    conditional_writes_lose_nothing,
    reads_are_not_shared_without_the_setting,
    merged_writes_keep_what_they_are,
    every_mode_answers,
);

fn queries_of_many_clients(scenes: &mut Scenes) {
    let _turn = turn("aggregation", Duration::from_secs(300));
    let points = two().contact_points();
    {
        // Few in flight, so that reads wait for each other, too.
        let settings = [
            "aggregation.share_in_flight_max=2",
            "aggregation.lwt_turns=true",
        ];
        let proxy = Proxy::start_patient(&points, &settings).expect("proxy");
        let mut client = Client::ready(proxy.address, 5).expect("client");
        for cql in [
            "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
            "CREATE TABLE a.t (k int PRIMARY KEY, v int)",
            "INSERT INTO a.t (k, v) VALUES (1, 0)",
            "INSERT INTO a.t (k, v) VALUES (2, 0)",
        ] {
            client.query(cql).expect(cql);
        }
        scenes.scene("identical_reads_are_sent_once", || {
            identical_reads_are_sent_once(&proxy);
        });
        scenes.scene("no_read_misses_an_acknowledged_write", || {
            no_read_misses_an_acknowledged_write(&proxy);
            assert!(metric(&proxy, "helenus_reads_parked_total") > 0.0);
        });
        scenes.scene("large_answers_get_links_of_their_own", || {
            large_answers_get_links_of_their_own(&proxy);
        });
        scenes.scene("conditional_writes_lose_nothing", || {
            conditional_writes_lose_nothing(&proxy, 2);
            assert!(metric(&proxy, "helenus_lwt_waited_total") > 0.0);
        });
    }
    scenes.scene("reads_are_not_shared_without_the_setting", || {
        let off = "aggregation.share_reads=false";
        let proxy = Proxy::start_patient(&points, &[off]).expect("proxy");
        let answers = packet(&proxy, &["SELECT v FROM a.t WHERE k = 1"; 20]);
        assert_eq!(answers.len(), 20);
        assert_eq!(metric(&proxy, "helenus_reads_shared_total"), 0.0);
    });
    scenes.scene("merged_writes_keep_what_they_are", || {
        merged::writes_keep_what_they_are(&points);
    });
    for settings in [
        &["aggregation.mode=\"window\"", "aggregation.window_us=0"][..],
        &["aggregation.mode=\"window\"", "aggregation.window_us=30"],
        &["aggregation.mode=\"window\"", "aggregation.window_us=5000"],
        &["aggregation.mode=\"adaptive\""],
    ] {
        scenes.scene("every_mode_answers", || {
            let proxy = Proxy::start_patient(&points, settings).expect("proxy");
            every_mode_answers(&proxy, settings);
        });
    }
}

/// Small ones shall not wait behind them.
fn large_answers_get_links_of_their_own(proxy: &Proxy) {
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let value = "ab".repeat(50_000);
    for cql in [
        "CREATE TABLE a.large (k int PRIMARY KEY, v blob)",
        &format!("INSERT INTO a.large (k, v) VALUES (1, 0x{value})"),
    ] {
        client.query(cql).expect("written");
    }
    let links = || metric(proxy, "helenus_node_links_up");
    let before = links();
    let begin = Instant::now();
    while links() <= before {
        let rows = client
            .query("SELECT v FROM a.large WHERE k = 1")
            .expect("read");
        let length = rows[0][0].as_ref().map(Vec::len);
        assert_eq!(length, Some(50_000));
        assert!(begin.elapsed() < Duration::from_secs(20), "no further link");
    }
    let rows = client
        .query("SELECT v FROM a.large WHERE k = 1")
        .expect("read");
    assert_eq!(rows[0][0].as_ref().map(Vec::len), Some(50_000));
}

/// Sends queries in one packet; the answers in the order of the queries.
fn packet(proxy: &Proxy, queries: &[&str]) -> Vec<Answer> {
    packet_of(proxy, queries.len(), |client, at| {
        client.query_body(queries[at], ONE)
    })
}

fn packet_of(
    proxy: &Proxy,
    count: usize,
    body: impl Fn(&Client<TcpStream>, usize) -> Vec<u8>,
) -> Vec<Answer> {
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let mut payload = Vec::new();
    for at in 0..count {
        let body = body(&client, at);
        payload.extend(envelope(5, at as i16 + 1, op::QUERY, &body));
    }
    client.stream.write_all(&frame(&payload)).expect("sent");
    let mut answers: Vec<Answer> = (0..count)
        .map(|_| client.receive().expect("answer"))
        .collect();
    answers.sort_by_key(|a| a.stream);
    let streams: Vec<i16> = answers.iter().map(|a| a.stream).collect();
    let expected: Vec<i16> = (1..=count as i16).collect();
    assert_eq!(streams, expected, "one answer to each");
    answers
}

fn identical_reads_are_sent_once(proxy: &Proxy) {
    let shared = || metric(proxy, "helenus_reads_shared_total");
    let sent = || metric(proxy, "helenus_node_requests_total");
    let same = "SELECT k, v FROM a.t WHERE k = 1";
    let before = (shared(), sent());
    let answers = packet(proxy, &[same; 100]);
    assert_eq!(shared() - before.0, 99.0);
    assert_eq!(sent() - before.1, 1.0);
    for answer in &answers {
        assert_eq!(answer.body, answers[0].body);
        assert_eq!(answer.rows().expect("rows").len(), 1);
    }
    // Drivers send a default timestamp with reads, too; it makes no difference to them.
    let before = (shared(), sent());
    let stamped = |client: &Client<TcpStream>, at: i64| {
        let mut body = client.query_body(same, ONE);
        body.truncate(body.len() - 4);
        body.extend(0x20_u32.to_be_bytes());
        body.extend(at.to_be_bytes());
        body
    };
    let answers = packet_of(proxy, 20, |client, at| stamped(client, at as i64));
    assert!(answers.iter().all(|a| a.body == answers[0].body));
    assert_eq!((shared() - before.0, sent() - before.1), (19.0, 1.0));
    // An error is everybody's, too.
    let answers = packet(proxy, &["SELECT nothing FROM a.t WHERE k = 1"; 10]);
    for answer in &answers {
        assert_eq!(answer.fault().expect("an error").code, 0x2200);
    }
    // Reads that give each caller something else, and writes, are never shared.
    let before = shared();
    let answers = packet(proxy, &["SELECT uuid() FROM a.t WHERE k = 1"; 10]);
    let mut bodies: Vec<&[u8]> = answers.iter().map(|a| &a.body[..]).collect();
    bodies.sort_unstable();
    bodies.dedup();
    assert_eq!(bodies.len(), 10);
    packet(proxy, &["INSERT INTO a.t (k, v) VALUES (9, 9)"; 10]);
    let different: Vec<String> = (0..10)
        .map(|k| format!("SELECT v FROM a.t WHERE k = {k}"))
        .collect();
    packet(
        proxy,
        &different.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    assert_eq!(shared(), before);
}

/// A register with one writer: every read must give a value that was current at some moment between
/// its question and its answer.
fn no_read_misses_an_acknowledged_write(proxy: &Proxy) {
    let (started, acknowledged) = (AtomicI32::new(0), AtomicI32::new(0));
    let end = AtomicBool::new(false);
    let address = proxy.address;
    let read = |client: &mut Client<TcpStream>| {
        let text = "SELECT v FROM a.t WHERE k = 1";
        let answer = client.try_query(text, QUORUM).expect("answer");
        let rows = answer.expect("rows").rows().expect("rows");
        number(rows[0][0].as_deref())
    };
    thread::scope(|threads| {
        for _ in 0..CLIENTS {
            threads.spawn(|| {
                let mut client = Client::ready(address, 5).expect("client");
                let mut last = 0;
                while !end.load(Ordering::SeqCst) {
                    let least = acknowledged.load(Ordering::SeqCst);
                    let value = read(&mut client);
                    let most = started.load(Ordering::SeqCst);
                    assert!(
                        (least.max(last)..=most).contains(&value),
                        "{value}, not {least}..={most} or before {last}"
                    );
                    last = value;
                }
            });
        }
        let mut writer = Client::ready(address, 5).expect("client");
        let begin = Instant::now();
        let mut value = 0;
        while begin.elapsed() < Duration::from_secs(4) {
            value += 1;
            started.store(value, Ordering::SeqCst);
            let cql = format!("UPDATE a.t SET v = {value} WHERE k = 1");
            let answer = writer.try_query(&cql, QUORUM).expect("answer");
            answer.expect("written");
            acknowledged.store(value, Ordering::SeqCst);
            assert_eq!(read(&mut writer), value, "its own write");
        }
        end.store(true, Ordering::SeqCst);
        println!(
            "{value} writes, {} reads shared, {} waited",
            metric(proxy, "helenus_reads_shared_total"),
            metric(proxy, "helenus_reads_parked_total"),
        );
    });
}

/// Clients increment one row by compare-and-set, all at once.
fn conditional_writes_lose_nothing(proxy: &Proxy, key: i32) {
    let begin = Instant::now();
    let address = proxy.address;
    let unknown: usize = thread::scope(|threads| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| threads.spawn(|| increment(address, key)))
            .collect();
        clients.into_iter().map(|c| c.join().expect("client")).sum()
    });
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let text = format!("SELECT v FROM a.t WHERE k = {key}");
    // SERIAL, so that what Paxos has accepted is seen.
    let answer = client.try_query(&text, 8).expect("answer");
    let rows = answer.expect("rows").rows().expect("rows");
    let value = number(rows[0][0].as_deref()) as usize;
    let certain = CLIENTS * INCREMENTS;
    println!(
        "{certain} increments by {CLIENTS} clients in {:.1} s, {unknown} unknown",
        begin.elapsed().as_secs_f64()
    );
    assert!(
        (certain..=certain + unknown).contains(&value),
        "{value} after {certain} increments"
    );
}

/// Increments until it has surely done so often enough; returns how many may have been done beyond.
fn increment(address: std::net::SocketAddr, key: i32) -> usize {
    let mut client = Client::ready(address, 5).expect("client");
    let (mut old, mut done, mut unknown) = (0, 0, 0);
    while done < INCREMENTS {
        let cql = format!(
            "UPDATE a.t SET v = {} WHERE k = {key} IF v = {old}",
            old + 1
        );
        match client.try_query(&cql, QUORUM).expect("answer") {
            Ok(answer) => {
                let rows = answer.rows().expect("rows");
                if rows[0][0].as_deref() == Some(&[1]) {
                    done += 1;
                    old += 1;
                } else {
                    old = number(rows[0][1].as_deref());
                }
            }
            Err(_) => unknown += 1,
        }
    }
    unknown
}

fn every_mode_answers(proxy: &Proxy, settings: &[&str]) {
    let address = proxy.address;
    thread::scope(|threads| {
        for client in 0..4 {
            threads.spawn(move || {
                for round in 0..20 {
                    let mut client_ = Client::ready(address, 3 + client % 3).expect("client");
                    for stream in 1..=50 {
                        let k = i16::from(client) * 10_000 + round * 100 + stream;
                        let cql = format!("INSERT INTO a.t (k, v) VALUES ({k}, {k})");
                        let body = client_.query_body(&cql, ONE);
                        client_.send(stream, op::QUERY, &body).expect("sent");
                    }
                    let mut seen: Vec<i16> = (0..50)
                        .map(|_| {
                            let answer = client_.receive().expect("answer");
                            assert_eq!(answer.opcode, op::RESULT);
                            answer.stream
                        })
                        .collect();
                    seen.sort_unstable();
                    assert_eq!(seen, (1..=50).collect::<Vec<i16>>());
                }
            });
        }
    });
    let queries = metric(
        proxy,
        "helenus_node_queries_per_frame_sum{direction=\"sent\"",
    );
    let frames = metric(
        proxy,
        "helenus_node_queries_per_frame_count{direction=\"sent\"",
    );
    assert!(queries >= 4_000.0 && frames > 0.0);
    println!("{settings:?}: {:.1} queries a frame", queries / frames);
}

fn number(cell: Option<&[u8]>) -> i32 {
    i32::from_be_bytes(cell.expect("a value").try_into().expect("an int"))
}
