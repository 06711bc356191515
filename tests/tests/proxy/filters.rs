//! Scans that filter, stretch by stretch of the ring: the same bytes as from a node, and others that go in
//! between.

use std::io::Write;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Answer, Client, ONE, envelope, op};
use helenus_tests::scenes;
use helenus_tests::scenes::Scenes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::node::two;
use crate::scans::{Ask, paged, pages};
use crate::{eventually, metric, turn};

/// Of two rows each.
const PARTITIONS: i32 = 40_000;
/// One partition in so many has a value.
const VALUES: i32 = 997;
const WRITE_TIMEOUT: i32 = 0x1100;
const WRITE_FAILURE: i32 = 0x1500;

scenes!(
    filters;
    pages_are_those_of_a_node,
    small_tables_are_not_cut,
    a_filter_that_finds_nothing_is_overtaken,
);

fn filters(scenes: &mut Scenes) {
    let _turn = turn("filters", Duration::from_secs(420));
    let points = two().contact_points();
    let seed = match std::env::var("HELENUS_SEED") {
        Ok(seed) => seed.parse().expect("HELENUS_SEED is a number"),
        Err(_) => rand::rng().random(),
    };
    println!("seed {seed} (set HELENUS_SEED to replay)");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    {
        let proxy = Proxy::start_patient(&points, &[]).expect("proxy");
        fill(points[0]);
        scenes.scene("pages_are_those_of_a_node", || {
            pages_are_those_of_a_node(points[0], &proxy, &mut rng);
        });
        scenes.scene("small_tables_are_not_cut", || {
            small_tables_are_not_cut(&proxy)
        });
    }
    let settings = [
        "scheduling.scan_slots=1",
        "scheduling.scan_slots_idle=1",
        "scheduling.scan_slots_max=1",
    ];
    let proxy = Proxy::start_patient(&points, &settings).expect("proxy");
    scenes.scene("a_filter_that_finds_nothing_is_overtaken", || {
        a_filter_that_finds_nothing_is_overtaken(&proxy);
    });
}

fn fill(node: SocketAddr) {
    let mut client = Client::ready(node, 5).expect("client");
    for cql in [
        "CREATE KEYSPACE f WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE f.t (k int, c int, v int, w text, PRIMARY KEY (k, c))",
        "CREATE TABLE f.small (k int PRIMARY KEY, v int)",
    ] {
        client.query(cql).expect(cql);
    }
    let rows = (0..PARTITIONS).flat_map(|k| [(k, 0), (k, 1)]);
    let rows = rows.map(|(k, c)| {
        let row = [k, c, k % VALUES].map(|n| n.to_be_bytes().to_vec());
        [&row[..], &[vec![b'w'; 80]]].concat()
    });
    let cql = "INSERT INTO f.t (k, c, v, w) VALUES (?, ?, ?, ?)";
    insert(&mut client, cql, &rows.collect::<Vec<_>>());
    let rows = (0..200_i32).map(|k| [k, k % 7].map(|n| n.to_be_bytes().to_vec()).to_vec());
    let cql = "INSERT INTO f.small (k, v) VALUES (?, ?)";
    insert(&mut client, cql, &rows.collect::<Vec<_>>());
}

/// A node that is busy with something else may not get to all of them in time, nor have heard of the table: those
/// are sent again.
fn insert(client: &mut Client<std::net::TcpStream>, cql: &str, rows: &[Vec<Vec<u8>>]) {
    let insert = client.prepare(cql).expect(cql);
    let mut attempts = 20;
    for some in rows.chunks(500) {
        let mut left: Vec<i16> = (1..).take(some.len()).collect();
        while !left.is_empty() {
            assert!(attempts > 0, "writes go on timing out");
            for stream in &left {
                let values = &some[*stream as usize - 1];
                let body = paged(client, &Ask::Prepared(&insert, values), None, None);
                client.send(*stream, op::EXECUTE, &body).expect("sent");
            }
            let answers = left.iter().map(|_| client.receive().expect("an answer"));
            left = answers.filter_map(failed).collect();
            if !left.is_empty() {
                attempts -= 1;
                thread::sleep(Duration::from_millis(250));
            }
        }
    }
}

/// The stream of a write that has timed out, or whose replica did not know the table.
fn failed(answer: Answer) -> Option<i16> {
    let stream = answer.stream;
    let fault = answer.judged().expect("an answer").err()?;
    let is_known = [WRITE_TIMEOUT, WRITE_FAILURE].contains(&fault.code);
    assert!(is_known, "{fault:?}");
    Some(stream)
}

fn pages_are_those_of_a_node(node: SocketAddr, proxy: &Proxy, rng: &mut ChaCha8Rng) {
    let cut = || metric(proxy, "helenus_scans_in_stretches_total");
    for cql in [
        "SELECT k, c, v FROM f.t WHERE v = ? ALLOW FILTERING",
        "SELECT k, c FROM f.t WHERE v = ? LIMIT 1 ALLOW FILTERING",
        "SELECT w FROM f.t WHERE v = ? LIMIT 41 ALLOW FILTERING",
        "SELECT JSON k, v FROM f.t WHERE v = ? ALLOW FILTERING",
        "SELECT * FROM f.t WHERE c > -1 AND v = ? PER PARTITION LIMIT 1 ALLOW FILTERING",
        "SELECT c FROM f.t WHERE token(k) > -4611686018427387904 AND v = ? ALLOW FILTERING",
        "SELECT k, w FROM f.t WHERE v < ? LIMIT 700 ALLOW FILTERING",
    ] {
        let before = cut();
        check(node, proxy, cql, rng);
        assert!(cut() > before, "{cql} is not cut");
    }
    let wasted = metric(proxy, "helenus_scan_parts_wasted_total");
    let pieces = metric(proxy, "helenus_scan_pieces_total");
    println!(
        "{} pages in stretches, {pieces} pieces, {wasted} in vain",
        cut()
    );
}

/// Of a value that some partitions have, as a text and prepared, and of one that none has.
fn check(node: SocketAddr, proxy: &Proxy, cql: &str, rng: &mut ChaCha8Rng) {
    let version = rng.random_range(3..=5);
    let mut direct = Client::ready(node, version).expect("direct");
    let mut through = Client::ready(proxy.address, version).expect("through");
    let (known, prepared) = (direct.prepare(cql), through.prepare(cql));
    let (known, prepared) = (known.expect(cql), prepared.expect(cql));
    let some = rng.random_range(1..VALUES);
    for (value, is_text) in [(some, true), (some, false), (-1, false)] {
        let size = match rng.random_range(0..4) {
            0 => None,
            1 => Some(5_000),
            _ => Some(rng.random_range(7..=120)),
        };
        let text = cql.replace('?', &value.to_string());
        let values = [value.to_be_bytes().to_vec()];
        let [expected, got] = match is_text {
            true => {
                let ask = Ask::Text(&text);
                [
                    pages(&mut direct, &ask, size),
                    pages(&mut through, &ask, size),
                ]
            }
            false => [
                pages(&mut direct, &Ask::Prepared(&known, &values), size),
                pages(&mut through, &Ask::Prepared(&prepared, &values), size),
            ],
        };
        let shape = |pages: &[(u8, Vec<u8>)]| pages.iter().map(|p| p.1.len()).collect::<Vec<_>>();
        assert!(
            expected == got,
            "v{version}, page size {size:?}, text {is_text}, {value}: {cql}\n{:?}\n{:?}",
            shape(&expected),
            shape(&got)
        );
    }
}

/// Once it is known how little they take.
fn small_tables_are_not_cut(proxy: &Proxy) {
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let cql = "SELECT k FROM f.small WHERE v = ? ALLOW FILTERING";
    let prepared = client.prepare(cql).expect(cql);
    let counts = || {
        ["scans_in_stretches", "scan_pieces"]
            .map(|name| metric(proxy, &format!("helenus_{name}_total")))
    };
    // A node that is busy with something else may make it seem larger for a while.
    eventually("a small table is known", Duration::from_secs(20), || {
        let before = counts();
        for value in 0..7_i32 {
            let values = [value.to_be_bytes().to_vec()];
            pages(&mut client, &Ask::Prepared(&prepared, &values), Some(100));
        }
        let after = counts();
        after[0] == before[0] && after[1] == before[1] + 7.0
    });
}

/// With one scan at a time on each node: those that come after it, in one segment with it, are answered before it,
/// in whatever time its pieces are read. A machine may be so fast that there are but few of them: then another round
/// tells.
fn a_filter_that_finds_nothing_is_overtaken(proxy: &Proxy) {
    let pieces = || metric(proxy, "helenus_scan_pieces_total");
    let mut client = Client::ready(proxy.address, 4).expect("client");
    let ask = |client: &Client<_>, stream, cql: &str| {
        envelope(4, stream, op::QUERY, &client.query_body(cql, ONE))
    };
    for round in 1..=20 {
        let before = pieces();
        let filter = "SELECT k FROM f.t WHERE v = -1 LIMIT 1 ALLOW FILTERING";
        let mut segment = ask(&client, 0, filter);
        for stream in 1..=3 {
            // Of a new text nobody knows that it is short: it needs a scan slot as well.
            let cql = format!("SELECT k FROM f.small LIMIT {}", 3 * round + stream);
            segment.extend(ask(&client, stream, &cql));
        }
        client.stream.write_all(&segment).expect("sent");
        let answers: Vec<i16> = (0..4)
            .map(|_| client.receive().expect("an answer"))
            .map(|answer| {
                let rows = answer.rows().expect("rows").len();
                let expected = if answer.stream == 0 {
                    0
                } else {
                    3 * round + answer.stream
                };
                assert_eq!(rows, expected as usize);
                answer.stream
            })
            .collect();
        let pieces = pieces() - before - 3.0;
        if pieces >= 6.0 {
            println!("a filter of {pieces} pieces, round {round}: {answers:?}");
            assert_eq!(answers.last(), Some(&0), "{answers:?} with {pieces} pieces");
            return;
        }
    }
    panic!("no filter has come in six pieces");
}
