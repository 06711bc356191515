//! Scans in pieces: the same bytes as from a node, and points that do not wait for them.

mod paging;
mod parts;
mod turns;

use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use helenus_cluster::{Cluster, Partitioner};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, op};
use helenus_tests::scenes;
use helenus_tests::scenes::Scenes;

use crate::node::two;
use crate::{keys, metric, turn};
pub(crate) use paging::{Ask, paged, pages};
use parts::*;
use turns::*;

const PARTITIONS: usize = 70;

scenes!(
    scans;
    several_keys,
    pages_in_parts_are_those_of_a_node,
    parts_are_prepared,
    texts_get_no_metadata_if_they_want_none,
    keyspaces_of_requests_count,
    own_aggregates_are_not_split,
    statements_outlive_their_columns,
    clients_of_v4_get_the_columns_of_an_altered_in,
    wide_partitions_are_read_once,
    few_parts_of_thin_partitions_are_in_vain,
    aggregates_of_many_parts_are_those_of_a_node,
    pages_of_wide_and_thin_partitions_are_those_of_a_node,
    extremes_of_descending_columns_are_those_of_a_node,
    a_read_that_nodes_refuse_switches_nothing_off,
    long_is_what_takes_long,
    pages_of_variant_a_are_those_of_a_node,
    pages_in_pieces_are_those_of_a_node,
    forged_paging_states_get_the_nodes_own_error,
    points_pass_scans,
    clients_that_leave_leave_nothing_behind,
    points_and_scans_wait,
    pages_that_waited_are_those_of_a_node,
);

/// A comparison of a node and a proxy.
type OfBoth = fn(SocketAddr, &Proxy);

fn scans(scenes: &mut Scenes) {
    let _turn = turn("scans", Duration::from_secs(420));
    let points = two().contact_points();
    fill(points[0]);
    {
        let proxy = Proxy::start_patient(&points, &["scheduling.parallel_rows=8"]).expect("proxy");
        let node = points[0];
        scenes.scene("several_keys", || keys::several_keys(node, &proxy));
        scenes.scene("pages_in_parts_are_those_of_a_node", || {
            // Twice, since it is learned from the first how many rows lie where.
            for (version, sizes) in [(5, &SOME_SIZES[..]), (3, &SOME_SIZES), (5, &ALL_SIZES)] {
                pages_are_those_of_a_node(node, &proxy, version, sizes);
            }
            let in_parts = metric(&proxy, "helenus_scans_in_parts_total");
            println!("{in_parts} pages in parts");
            assert!(in_parts > 50.0, "{in_parts} pages in parts");
        });
        scenes.scene("parts_are_prepared", || parts_are_prepared(&points, &proxy));
        let of_both: [(&'static str, OfBoth); 10] = [
            (
                "texts_get_no_metadata_if_they_want_none",
                texts_get_no_metadata_if_they_want_none,
            ),
            ("keyspaces_of_requests_count", keyspaces_of_requests_count),
            ("own_aggregates_are_not_split", own_aggregates_are_not_split),
            (
                "statements_outlive_their_columns",
                statements_outlive_their_columns,
            ),
            (
                "clients_of_v4_get_the_columns_of_an_altered_in",
                |_, proxy| clients_of_v4_get_the_columns_of_an_altered_in(proxy),
            ),
            (
                "wide_partitions_are_read_once",
                wide_partitions_are_read_once,
            ),
            (
                "few_parts_of_thin_partitions_are_in_vain",
                few_parts_of_thin_partitions_are_in_vain,
            ),
            (
                "aggregates_of_many_parts_are_those_of_a_node",
                aggregates_of_many_parts_are_those_of_a_node,
            ),
            (
                "pages_of_wide_and_thin_partitions_are_those_of_a_node",
                pages_of_wide_and_thin_partitions_are_those_of_a_node,
            ),
            (
                "extremes_of_descending_columns_are_those_of_a_node",
                extremes_of_descending_columns_are_those_of_a_node,
            ),
        ];
        for (name, act) in of_both {
            scenes.scene(name, || act(node, &proxy));
        }
        scenes.scene("a_read_that_nodes_refuse_switches_nothing_off", || {
            a_read_that_nodes_refuse_switches_nothing_off(node, &proxy);
        });
        scenes.scene("long_is_what_takes_long", || {
            long_is_what_takes_long(&proxy)
        });
    }
    scenes.scene("pages_of_variant_a_are_those_of_a_node", || {
        let settings = ["scheduling.parallel_rows=8", "scheduling.variant=\"A\""];
        let proxy = Proxy::start_patient(&points, &settings).expect("proxy");
        pages_are_those_of_a_node(points[0], &proxy, 5, &SOME_SIZES);
        let in_parts = metric(&proxy, "helenus_scans_in_parts_total");
        assert!(in_parts > 20.0, "{in_parts} pages in parts");
    });
    in_pieces(scenes, &points);
    that_wait(scenes, &points);
}

fn in_pieces(scenes: &mut Scenes, points: &[SocketAddr]) {
    // Some rows a piece: a scan on its own takes larger ones, 8 KiB here.
    let settings = ["scheduling.piece_kib=1", "scheduling.parallel_rows=0"];
    let proxy = Proxy::start_patient(points, &settings).expect("proxy");
    scenes.scene("pages_in_pieces_are_those_of_a_node", || {
        for (version, sizes) in [(3, &SOME_SIZES[..]), (4, &SOME_SIZES), (5, &ALL_SIZES)] {
            pages_are_those_of_a_node(points[0], &proxy, version, sizes);
        }
        let pieces = metric(&proxy, "helenus_scan_pieces_total");
        let scans = metric(&proxy, "helenus_scans_in_pieces_total");
        assert!(pieces > scans + 300.0, "{pieces} pieces of {scans} scans");
        assert_eq!(metric(&proxy, "helenus_scans_in_parts_total"), 0.0);
    });
    scenes.scene("forged_paging_states_get_the_nodes_own_error", || {
        forged_paging_states_get_the_nodes_own_error(points[0], &proxy);
    });
    scenes.scene("points_pass_scans", || points_pass_scans(&proxy));
    scenes.scene("clients_that_leave_leave_nothing_behind", || {
        clients_that_leave_leave_nothing_behind(&proxy);
    });
}

/// Points and scans both wait for every node: whose turn it is changes all the time.
fn that_wait(scenes: &mut Scenes, points: &[SocketAddr]) {
    let settings = [
        "scheduling.piece_kib=1",
        "scheduling.window_min=1",
        "scheduling.window_max=1",
        "scheduling.scan_slots=1",
        "scheduling.scan_slots_idle=1",
        "scheduling.scan_slots_max=1",
        "listen.workers=4",
    ];
    let proxy = Proxy::start_patient(points, &settings).expect("proxy");
    scenes.scene("points_and_scans_wait", || points_and_scans_wait(&proxy));
    scenes.scene("clients_that_leave_leave_nothing_behind", || {
        clients_that_leave_leave_nothing_behind(&proxy);
    });
    scenes.scene("pages_that_waited_are_those_of_a_node", || {
        pages_are_those_of_a_node(points[0], &proxy, 5, &SOME_SIZES);
    });
}

/// Where keys have an order, rows come in pieces.
#[test]
fn scans_of_ordered_keys() {
    let _turn = turn("scans of ordered keys", Duration::from_secs(240));
    let spec = helenus_tests::ephemeral()
        .nodes(2)
        .partitioner(Partitioner::ByteOrderedPartitioner)
        .initial_tokens(["0000000a", "00000028"]);
    let cluster = Cluster::up(spec).expect("two nodes");
    let points = cluster.contact_points();
    fill(points[0]);
    let settings = ["scheduling.piece_kib=1", "scheduling.parallel_rows=8"];
    let proxy = Proxy::start_patient(&points, &settings).expect("proxy");
    let mut direct = Client::ready(points[0], 5).expect("direct");
    let mut through = Client::ready(proxy.address, 5).expect("through");
    let cql = "SELECT k, c, v FROM s.t WHERE token(k) > token(?) AND token(k) <= token(?)";
    for sizes in [&SOME_SIZES[..], &ALL_SIZES] {
        texts_are_answered_as_by_a_node(&mut direct, &mut through, &TEXTS, sizes);
        let (known, prepared) = (direct.prepare(cql), through.prepare(cql));
        let (known, prepared) = (known.expect(cql), prepared.expect(cql));
        let values = [8_i32, 44].map(|k| k.to_be_bytes().to_vec());
        for size in [None, Some(9), Some(23)] {
            let expected = pages(&mut direct, &Ask::Prepared(&known, &values), size);
            assert!(expected == pages(&mut through, &Ask::Prepared(&prepared, &values), size));
        }
    }
    let pieces = metric(&proxy, "helenus_scan_pieces_total");
    assert!(pieces > 300.0, "{pieces} pieces");
    assert_eq!(metric(&proxy, "helenus_scans_in_parts_total"), 0.0);
}

fn fill(node: SocketAddr) {
    let mut client = Client::ready(node, 5).expect("client");
    for cql in [
        "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE s.t (k int, c int, v text, st text static, PRIMARY KEY (k, c))",
        "CREATE INDEX ON s.t (c)",
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

/// Statements for every cluster.
const TEXTS: [&str; 25] = [
    "SELECT * FROM s.t",
    "SELECT * FROM s.t LIMIT 40",
    "SELECT * FROM s.t LIMIT 41",
    "SELECT DISTINCT k, st FROM s.t",
    "SELECT DISTINCT k FROM s.t LIMIT 40",
    "SELECT * FROM s.t PER PARTITION LIMIT 1",
    "SELECT * FROM s.t PER PARTITION LIMIT 2 LIMIT 33",
    "SELECT k, c FROM s.t WHERE c = 2 ALLOW FILTERING",
    "SELECT k, c, v FROM s.t WHERE c > 1 LIMIT 30 ALLOW FILTERING",
    "SELECT k, c, v FROM s.t WHERE c = 1",
    "SELECT JSON * FROM s.t LIMIT 25",
    "SELECT count(*) FROM s.t",
    "SELECT count(*) AS number FROM s.t WHERE c > 1 ALLOW FILTERING",
    "SELECT JSON count(*) FROM s.t",
    "SELECT count(*) FROM s.t LIMIT 1",
    "SELECT count(*) FROM s.t WHERE c = 1",
    "SELECT count(v), sum(c), min(c), max(c) FROM s.t",
    "SELECT max(v), min(st), count(*) AS number FROM s.t WHERE c > 0 ALLOW FILTERING",
    "SELECT sum(c), max(c) FROM s.t WHERE c = 77 ALLOW FILTERING",
    "SELECT avg(c), sum(c) FROM s.t",
    "SELECT min(c), k FROM s.t",
    "SELECT k, max(c) FROM s.t GROUP BY k",
    "SELECT writetime(v) AS w, ttl(v) FROM s.t",
    "SELECT * FROM s.t WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8, 9)",
    "SELECT * FROM s.t WHERE k = 14",
];
/// Page sizes: all of them where rows come in another way, some where only their form is another.
const ALL_SIZES: [Option<i32>; 7] = [
    None,
    Some(-1),
    Some(1),
    Some(7),
    Some(23),
    Some(47),
    Some(5_000),
];
const SOME_SIZES: [Option<i32>; 3] = [None, Some(7), Some(23)];
/// Statements that mean something where tokens are numbers.
const TEXTS_OF_NUMBERS: [&str; 5] = [
    "SELECT k, st FROM s.t WHERE token(k) > 0",
    "SELECT * FROM s.t WHERE token(k) >= -4611686018427387904 AND token(k) < 4611686018427387904",
    "SELECT * FROM s.t WHERE token(k) > 9223372036854775807",
    "SELECT count(1) FROM s.t WHERE token(k) > -99 AND token(k) <= 4611686018427387904",
    "SELECT * FROM s.t WHERE token(k) >= token(33) LIMIT 40",
];

fn texts_are_answered_as_by_a_node(
    direct: &mut Client<TcpStream>,
    through: &mut Client<TcpStream>,
    texts: &[&str],
    sizes: &[Option<i32>],
) {
    for cql in texts {
        for size in sizes.iter().copied() {
            let expected = pages(direct, &Ask::Text(cql), size);
            let got = pages(through, &Ask::Text(cql), size);
            assert!(
                expected == got,
                "v{}, page size {size:?}: {cql}\n{:?}\n{:?}",
                through.version,
                expected.iter().map(|p| p.1.len()).collect::<Vec<_>>(),
                got.iter().map(|p| p.1.len()).collect::<Vec<_>>(),
            );
        }
    }
}

fn pages_are_those_of_a_node(node: SocketAddr, proxy: &Proxy, version: u8, sizes: &[Option<i32>]) {
    let mut direct = Client::ready(node, version).expect("direct");
    let mut through = Client::ready(proxy.address, version).expect("through");
    texts_are_answered_as_by_a_node(&mut direct, &mut through, &TEXTS, sizes);
    texts_are_answered_as_by_a_node(&mut direct, &mut through, &TEXTS_OF_NUMBERS, sizes);
    let long = |n: i64| n.to_be_bytes().to_vec();
    let int = |n: i32| n.to_be_bytes().to_vec();
    for (cql, values) in [
        ("SELECT * FROM s.t", vec![]),
        (
            "SELECT count(*) FROM s.t WHERE token(k) > ?",
            vec![long(-77)],
        ),
        (
            "SELECT sum(c), max(v) FROM s.t WHERE token(k) > ?",
            vec![long(-77)],
        ),
        ("SELECT v, c FROM s.t LIMIT ?", vec![int(60)]),
        (
            "SELECT * FROM s.t WHERE token(k) > ? AND token(k) <= ? PER PARTITION LIMIT ?",
            vec![long(-1 << 61), long(1 << 62), int(2)],
        ),
        (
            "SELECT k, v FROM s.t WHERE c > :least AND token(k) < :below ALLOW FILTERING",
            vec![int(0), long(1 << 62)],
        ),
    ] {
        // The node first: Helenus prepares ahead on every node, and a node that is asked twice at a
        // time to prepare what it does not know forgets for a moment what it has just answered.
        let prepared = direct.prepare(cql).expect(cql);
        let again = through.prepare(cql).expect(cql);
        assert_eq!(prepared.id, again.id);
        let ask = Ask::Prepared(&prepared, &values);
        for size in [None, Some(9), Some(23), Some(47), Some(5_000)] {
            let expected = pages(&mut direct, &ask, size);
            let got = pages(&mut through, &ask, size);
            assert!(expected == got, "v{version}, page size {size:?}: {cql}");
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
        let ask = Ask::Text("SELECT k FROM s.t");
        let body = paged(&direct, &ask, Some(10), Some(state));
        let sent = |client: &mut Client<TcpStream>| {
            let answer = client.call(op::QUERY, &body).expect("an answer");
            (answer.opcode, answer.body)
        };
        assert!(sent(&mut direct) == sent(&mut through), "{state:?}");
    }
}
