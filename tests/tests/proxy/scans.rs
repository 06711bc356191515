//! Scans in pieces: the same bytes as from a node, and points that do not wait for them.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use helenus_cluster::{Cluster, Partitioner};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Answer, Client, Fault, ONE, Prepared, op};

use crate::{keys, metric, turn};

const PARTITIONS: usize = 70;

#[test]
fn scans() {
    let _turn = turn("scans", Duration::from_secs(420));
    let cluster = Cluster::up(helenus_tests::ephemeral().nodes(2)).expect("two nodes");
    let points = cluster.contact_points();
    fill(points[0]);
    {
        let proxy = Proxy::start(&points, &["scheduling.parallel_rows=8"]).expect("proxy");
        keys::several_keys(points[0], &proxy);
        // Twice, since it is learned from the first how many rows lie where.
        for (version, sizes) in [(5, &SOME_SIZES[..]), (3, &SOME_SIZES), (5, &ALL_SIZES)] {
            pages_are_those_of_a_node(points[0], &proxy, version, sizes);
        }
        let in_parts = metric(&proxy, "helenus_scans_in_parts_total");
        println!("{in_parts} pages in parts");
        assert!(in_parts > 50.0, "{in_parts} pages in parts");
        parts_are_prepared(&points, &proxy);
        keyspaces_of_requests_count(points[0], &proxy);
        own_aggregates_are_not_split(points[0], &proxy);
        statements_outlive_their_columns(points[0], &proxy);
        clients_of_v4_get_the_columns_of_an_altered_in(&proxy);
        wide_partitions_are_read_once(points[0], &proxy);
        few_parts_of_thin_partitions_are_in_vain(points[0], &proxy);
        aggregates_of_many_parts_are_those_of_a_node(points[0], &proxy);
        pages_of_wide_and_thin_partitions_are_those_of_a_node(points[0], &proxy);
        extremes_of_descending_columns_are_those_of_a_node(points[0], &proxy);
        a_read_that_nodes_refuse_switches_nothing_off(points[0], &proxy);
        long_is_what_takes_long(&proxy);
    }
    {
        let settings = ["scheduling.parallel_rows=8", "scheduling.variant=\"A\""];
        let proxy = Proxy::start(&points, &settings).expect("proxy");
        pages_are_those_of_a_node(points[0], &proxy, 5, &SOME_SIZES);
        let in_parts = metric(&proxy, "helenus_scans_in_parts_total");
        assert!(in_parts > 20.0, "{in_parts} pages in parts");
    }
    // Some rows a piece: a scan on its own takes larger ones, 8 KiB here.
    let settings = ["scheduling.piece_kib=1", "scheduling.parallel_rows=0"];
    let proxy = Proxy::start(&points, &settings).expect("proxy");
    for (version, sizes) in [(3, &SOME_SIZES[..]), (4, &SOME_SIZES), (5, &ALL_SIZES)] {
        pages_are_those_of_a_node(points[0], &proxy, version, sizes);
    }
    let pieces = metric(&proxy, "helenus_scan_pieces_total");
    let scans = metric(&proxy, "helenus_scans_in_pieces_total");
    assert!(pieces > scans + 300.0, "{pieces} pieces of {scans} scans");
    assert_eq!(metric(&proxy, "helenus_scans_in_parts_total"), 0.0);
    forged_paging_states_get_the_nodes_own_error(points[0], &proxy);
    points_pass_scans(&proxy);
    clients_that_leave_leave_nothing_behind(&proxy);
    drop(proxy);
    // Points and scans both wait for every node: whose turn it is changes all the time.
    let settings = [
        "scheduling.piece_kib=1",
        "scheduling.window_min=1",
        "scheduling.window_max=1",
        "scheduling.scan_slots=1",
        "scheduling.scan_slots_idle=1",
        "scheduling.scan_slots_max=1",
        "listen.workers=4",
    ];
    let proxy = Proxy::start(&points, &settings).expect("proxy");
    points_and_scans_wait(&proxy);
    clients_that_leave_leave_nothing_behind(&proxy);
    pages_are_those_of_a_node(points[0], &proxy, 5, &SOME_SIZES);
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
    let proxy = Proxy::start(&points, &settings).expect("proxy");
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

/// What is asked for, page by page.
pub(crate) enum Ask<'a> {
    Text(&'a str),
    Prepared(&'a Prepared, &'a [Vec<u8>]),
}

impl Ask<'_> {
    pub(crate) fn opcode(&self) -> u8 {
        match self {
            Ask::Text(_) => op::QUERY,
            Ask::Prepared(..) => op::EXECUTE,
        }
    }
}

/// A QUERY or an EXECUTE with a page size and a paging state.
pub(crate) fn paged(
    client: &Client<TcpStream>,
    ask: &Ask<'_>,
    size: Option<i32>,
    state: Option<&[u8]>,
) -> Vec<u8> {
    let mut body = Vec::new();
    let mut flags = size.map_or(0, |_| 4) | state.map_or(0, |_| 8);
    let mut values: &[Vec<u8>] = &[];
    match ask {
        Ask::Text(cql) => {
            body.extend_from_slice(&(cql.len() as u32).to_be_bytes());
            body.extend_from_slice(cql.as_bytes());
        }
        Ask::Prepared(prepared, bound) => {
            for id in [Some(&prepared.id), prepared.result_id.as_ref()] {
                let Some(id) = id else { continue };
                body.extend_from_slice(&(id.len() as u16).to_be_bytes());
                body.extend_from_slice(id);
            }
            // Without metadata, as drivers ask.
            flags |= 2 | u32::from(!bound.is_empty());
            values = bound;
        }
    }
    body.extend_from_slice(&ONE.to_be_bytes());
    match client.version {
        5.. => body.extend_from_slice(&u32::to_be_bytes(flags)),
        _ => body.push(flags as u8),
    }
    if !values.is_empty() {
        body.extend_from_slice(&(values.len() as u16).to_be_bytes());
        for value in values {
            body.extend_from_slice(&(value.len() as u32).to_be_bytes());
            body.extend_from_slice(value);
        }
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
pub(crate) fn paging_state(answer: &Answer) -> Option<Vec<u8>> {
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

/// All pages of a result, byte for byte but for the paging states.
pub(crate) fn pages(
    client: &mut Client<TcpStream>,
    ask: &Ask<'_>,
    size: Option<i32>,
) -> Vec<(u8, Vec<u8>)> {
    try_pages(client, ask, size).unwrap_or_else(|fault| panic!("{fault:?}"))
}

fn try_pages(
    client: &mut Client<TcpStream>,
    ask: &Ask<'_>,
    size: Option<i32>,
) -> Result<Vec<(u8, Vec<u8>)>, Fault> {
    let mut pages = Vec::new();
    let mut state = None;
    loop {
        let body = paged(client, ask, size, state.as_deref());
        let answer = client.call(ask.opcode(), &body).expect("an answer");
        let answer = answer.judged().expect("an answer")?;
        state = paging_state(&answer);
        let mut body = answer.body;
        if let Some(state) = &state {
            // It is the next page that proves it. A node words it differently for v3, and behind a
            // partition of static columns only it names a row of the partition before, if that was
            // on the same page of the node's.
            let at = body.windows(state.len()).position(|w| w == state);
            let at = at.expect("the state just found");
            body.drain(at - 4..at + state.len());
        }
        pages.push((answer.flags, body));
        if state.is_none() {
            return Ok(pages);
        }
        assert!(pages.len() < 10_000, "it does not end");
    }
}

/// What is asked of every cluster.
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
/// What means something where tokens are numbers.
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

/// The nodes need not parse what is asked of them for every part.
fn parts_are_prepared(nodes: &[SocketAddr], proxy: &Proxy) {
    let executed = |name: &str| -> f64 {
        let of_node = |node: &SocketAddr| {
            let mut client = Client::ready(*node, 5).expect("client");
            let cql = format!("SELECT value FROM system_views.cql_metrics WHERE name = '{name}'");
            let rows = client.query(&cql).expect("rows");
            let value = rows[0][0].as_deref().expect("a value");
            f64::from_be_bytes(value.try_into().expect("a double"))
        };
        nodes.iter().map(of_node).sum()
    };
    let counts = || ["regular", "prepared"].map(|n| executed(&format!("{n}_statements_executed")));
    let mut through = Client::ready(proxy.address, 5).expect("through");
    let cql = "SELECT * FROM s.t";
    let prepared = through.prepare(cql).expect(cql);
    let before = counts();
    let parts_before = metric(proxy, "helenus_scan_pieces_total");
    for _ in 0..5 {
        pages(&mut through, &Ask::Prepared(&prepared, &[]), Some(47));
    }
    let parts = metric(proxy, "helenus_scan_pieces_total") - parts_before;
    let [regular, prepared] = counts();
    println!(
        "{parts} pieces: {} texts parsed, {} statements executed",
        regular - before[0],
        prepared - before[1]
    );
    assert!(parts > 20.0 && prepared - before[1] >= parts);
    // Of its own and of the proxy's control connection.
    assert!(regular - before[0] < parts / 2.0);
}

/// The same text means another table where a request names its keyspace.
fn keyspaces_of_requests_count(node: SocketAddr, proxy: &Proxy) {
    let mut direct = Client::ready(node, 5).expect("direct");
    let mut through = Client::ready(proxy.address, 5).expect("through");
    for cql in [
        "CREATE KEYSPACE o WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE o.t (id int PRIMARY KEY, w int)",
    ] {
        through.query(cql).expect(cql);
    }
    for id in 0..90 {
        let cql = format!("INSERT INTO o.t (id, w) VALUES ({id}, {id})");
        through.query(&cql).expect(&cql);
    }
    through.query("USE s").expect("USE");
    direct.query("USE s").expect("USE");
    for _ in 0..4 {
        for keyspace in [None, Some("o"), Some("s")] {
            let mut body = paged(&direct, &Ask::Text("SELECT * FROM t"), Some(20), None);
            let flags_at = 4 + "SELECT * FROM t".len() + 2;
            if let Some(keyspace) = keyspace {
                body[flags_at + 3] |= 0x80;
                body.extend_from_slice(&(keyspace.len() as u16).to_be_bytes());
                body.extend_from_slice(keyspace.as_bytes());
            }
            let ask = |client: &mut Client<TcpStream>| {
                let mut pages = Vec::new();
                let mut asked = body.clone();
                loop {
                    let answer = client.call(op::QUERY, &asked).expect("an answer");
                    assert_eq!(answer.opcode, op::RESULT, "{:?}", answer.fault());
                    let state = paging_state(&answer);
                    pages.push(answer.body.len() - state.as_ref().map_or(0, Vec::len));
                    let Some(state) = state else { return pages };
                    // Behind the page size, and in front of the keyspace.
                    asked.clone_from(&body);
                    asked[flags_at + 3] |= 8;
                    let mut with_state = (state.len() as u32).to_be_bytes().to_vec();
                    with_state.extend_from_slice(&state);
                    asked.splice(flags_at + 8..flags_at + 8, with_state);
                }
            };
            assert_eq!(ask(&mut direct), ask(&mut through), "{keyspace:?}");
        }
    }
}

/// Rows of other columns than a client knows come with their metadata, as from a node.
/// Functions of the keyspace's own go before Cassandra's of the same name.
fn own_aggregates_are_not_split(node: SocketAddr, proxy: &Proxy) {
    let mut direct = Client::ready(node, 5).expect("direct");
    let mut through = Client::ready(proxy.address, 5).expect("through");
    let in_parts = || metric(proxy, "helenus_scans_in_parts_total");
    let before = in_parts();
    // A text is split wherever that can be, on a table of which nothing is known yet.
    for table in ["s.one", "s.other"] {
        let cql = format!("CREATE TABLE {table} (k int, c int, PRIMARY KEY (k, c))");
        through.query(&cql).expect(&cql);
        for key in 0..PARTITIONS {
            let cql = format!("INSERT INTO {table} (k, c) VALUES ({key}, {})", key % 7);
            through.query(&cql).expect(&cql);
        }
    }
    let cql = "SELECT max(c) FROM s.one";
    through.query(cql).expect(cql);
    assert!(in_parts() > before, "Cassandra's own");
    for cql in [
        "CREATE FUNCTION s.later(a int, b int) CALLED ON NULL INPUT RETURNS int LANGUAGE java \
         AS 'return b;'",
        "CREATE AGGREGATE s.max(int) SFUNC later STYPE int INITCOND 0",
    ] {
        through.query(cql).expect(cql);
    }
    let (before, cql) = (in_parts(), "SELECT max(c) FROM s.other");
    let expected = direct.query(cql).expect(cql);
    assert_eq!(through.query(cql).expect(cql), expected);
    assert_eq!(in_parts(), before, "not what it seems to be");
    for cql in ["DROP AGGREGATE s.max", "DROP FUNCTION s.later"] {
        through.query(cql).expect(cql);
    }
}

fn statements_outlive_their_columns(node: SocketAddr, proxy: &Proxy) {
    let mut direct = Client::ready(node, 5).expect("direct");
    let mut through = Client::ready(proxy.address, 5).expect("through");
    let cql = "SELECT * FROM s.t";
    let prepared = through.prepare(cql).expect(cql);
    let ask = Ask::Prepared(&prepared, &[]);
    let before = pages(&mut through, &ask, Some(23));
    let altered = "ALTER TABLE s.t ADD further int";
    through.query(altered).expect(altered);
    // A node forgets the statement; the client still has the old columns in mind.
    direct.prepare(cql).expect(cql);
    let expected = pages(&mut direct, &ask, Some(23));
    assert_ne!(before, expected);
    assert!(expected == pages_as_driver(&mut through, cql, &ask));
    // Also a client that has not listened to the new columns.
    for _ in 0..3 {
        assert!(expected == pages(&mut through, &ask, Some(23)));
    }
    let dropped = "ALTER TABLE s.t DROP further";
    through.query(dropped).expect(dropped);
    direct.prepare(cql).expect(cql);
    let expected = pages(&mut direct, &ask, Some(23));
    assert!(expected == pages_as_driver(&mut through, cql, &ask));
    assert!(expected == pages(&mut through, &ask, Some(23)));
}

/// One of two clients has heard that the columns are others; the other would take new ones for old.
fn clients_of_v4_get_the_columns_of_an_altered_in(proxy: &Proxy) {
    let mut clients = [4, 4, 5].map(|v| Client::ready(proxy.address, v).expect("client"));
    for cql in [
        "CREATE TABLE s.told (k int PRIMARY KEY, a int)",
        "INSERT INTO s.told (k, a) VALUES (1, 1)",
    ] {
        clients[2].query(cql).expect(cql);
    }
    let cql = "SELECT * FROM s.told WHERE k IN (?, ?, ?, ?, ?, ?)";
    let keys = [1_i32, 2, 3, 4, 5, 6].map(i32::to_be_bytes);
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let before = metric(proxy, "helenus_reads_by_owner_total");
    let known = clients.each_mut().map(|c| c.prepare(cql).expect(cql));
    let [first, second, _] = &mut clients;
    for client in [&mut *first, &mut *second] {
        let answer = client.execute_known(&known[0], &keys).expect("an answer");
        assert_eq!(answer.expect("rows").columns().expect("rows"), (2, false));
    }
    let altered = "ALTER TABLE s.told ADD b int";
    first.query(altered).expect(altered);
    let mut told = 0;
    for _ in 0..8 {
        let answer = first.execute_known(&known[0], &keys).expect("an answer");
        told += usize::from(answer.is_err());
        first.prepare(cql).expect(cql);
        if let Ok(answer) = second.execute_known(&known[1], &keys).expect("an answer") {
            assert_eq!(answer.columns().expect("rows"), (3, true));
        }
    }
    assert!(told > 0, "nobody was told");
    let by_owner = metric(proxy, "helenus_reads_by_owner_total") - before;
    assert!(by_owner > 4.0, "{by_owner} reads by owner");
}

/// All pages; where the answer is that the statement is not known, it is prepared again, once.
fn pages_as_driver(client: &mut Client<TcpStream>, cql: &str, ask: &Ask<'_>) -> Vec<(u8, Vec<u8>)> {
    match try_pages(client, ask, Some(23)) {
        Ok(pages) => pages,
        Err(fault) => {
            assert_eq!(fault.code, 0x2500, "{fault:?}");
            client.prepare(cql).expect(cql);
            pages(client, ask, Some(23))
        }
    }
}

/// A table with this number of rows in each partition.
fn fill_partitions(proxy: &Proxy, table: &str, rows: impl Iterator<Item = usize>) {
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let cql = format!("CREATE TABLE {table} (k int, c int, v text, PRIMARY KEY (k, c))");
    client.query(&cql).expect(&cql);
    let cql = format!("INSERT INTO {table} (k, c, v) VALUES (?, ?, ?)");
    let insert = client.prepare(&cql).expect(&cql);
    let rows = rows.enumerate();
    let rows: Vec<(usize, usize)> = rows
        .flat_map(|(k, n)| (0..n).map(move |c| (k, c)))
        .collect();
    for some in rows.chunks(500) {
        for (stream, (k, c)) in (1..).zip(some) {
            let values = [k, c].map(|n| (*n as i32).to_be_bytes().to_vec());
            let values = [&values[..], &[b"some text".to_vec()]].concat();
            let body = paged(&client, &Ask::Prepared(&insert, &values), None, None);
            client.send(stream, op::EXECUTE, &body).expect("sent");
        }
        for _ in some {
            let answer = client.receive().expect("an answer");
            assert_eq!(answer.opcode, op::RESULT, "{:?}", answer.fault());
        }
    }
}

/// Reads all of a result twice, and says how many pages were read in parts, how many pieces that took,
/// and how many parts were in vain.
fn read_twice(node: SocketAddr, proxy: &Proxy, cql: &str, size: i32) -> [f64; 4] {
    let mut direct = Client::ready(node, 5).expect("direct");
    let mut through = Client::ready(proxy.address, 5).expect("through");
    let (known, prepared) = (direct.prepare(cql), through.prepare(cql));
    let (known, prepared) = (known.expect(cql), prepared.expect(cql));
    let counts = || {
        ["scans_in_parts", "scan_pieces", "scan_parts_wasted"]
            .map(|name| metric(proxy, &format!("helenus_{name}_total")))
    };
    let before = counts();
    let expected = pages(&mut direct, &Ask::Prepared(&known, &[]), Some(size));
    for _ in 0..2 {
        let got = pages(&mut through, &Ask::Prepared(&prepared, &[]), Some(size));
        assert!(expected == got, "{cql}");
    }
    let after = counts();
    let [in_parts, pieces, wasted] = [0, 1, 2].map(|at| after[at] - before[at]);
    let pages = 2.0 * expected.len() as f64;
    println!("{cql}: {pages} pages, {in_parts} in parts, {pieces} pieces, {wasted} in vain");
    [pages, in_parts, pieces, wasted]
}

/// A partition that is a good part of a page makes parts that are empty or too large.
fn wide_partitions_are_read_once(node: SocketAddr, proxy: &Proxy) {
    fill_partitions(proxy, "s.wide", (0..8).map(|_| 400));
    let cql = "SELECT * FROM s.wide";
    let [pages, in_parts, pieces, wasted] = read_twice(node, proxy, cql, 100);
    assert_eq!((in_parts, wasted), (0.0, 0.0));
    assert_eq!(pieces, pages, "one a page");
    // Without the key in sight it takes a page more to know.
    let [pages, in_parts, pieces, wasted] = read_twice(node, proxy, "SELECT v FROM s.wide", 100);
    assert!(in_parts <= 3.0, "{in_parts} pages in parts");
    assert!(wasted < 30.0 && pieces - wasted < pages + 20.0);
}

fn few_parts_of_thin_partitions_are_in_vain(node: SocketAddr, proxy: &Proxy) {
    fill_partitions(proxy, "s.thin", (0..20_000).map(|_| 1));
    for cql in ["SELECT * FROM s.thin", "SELECT v FROM s.thin"] {
        let [pages, in_parts, pieces, wasted] = read_twice(node, proxy, cql, 1_000);
        assert!(
            in_parts > pages * 0.7,
            "{in_parts} of {pages} pages in parts"
        );
        assert!(wasted < pieces / 5.0, "{wasted} of {pieces} in vain");
    }
}

/// Of a table with several times as many rows as a part goes over.
fn aggregates_of_many_parts_are_those_of_a_node(node: SocketAddr, proxy: &Proxy) {
    let mut direct = Client::ready(node, 5).expect("direct");
    let mut through = Client::ready(proxy.address, 5).expect("through");
    let pieces = || metric(proxy, "helenus_scan_pieces_total");
    for cql in [
        "SELECT count(*) FROM s.thin",
        "SELECT count(v), sum(k), min(k), max(k), min(v), count(*) FROM s.thin",
        "SELECT count(*), sum(c), max(v) FROM s.thin WHERE v > 'some' ALLOW FILTERING",
        "SELECT count(*), max(k) FROM s.thin WHERE token(k) > -4611686018427387904",
    ] {
        let expected = pages(&mut direct, &Ask::Text(cql), None);
        let before = pieces();
        for _ in 0..3 {
            assert!(
                expected == pages(&mut through, &Ask::Text(cql), None),
                "{cql}"
            );
        }
        let parts = pieces() - before;
        assert!(parts > 6.0, "{parts} parts of three: {cql}");
    }
}

/// Where a page in parts meets a wide partition, it ends in that.
fn pages_of_wide_and_thin_partitions_are_those_of_a_node(node: SocketAddr, proxy: &Proxy) {
    let rows = (0..3_000).map(|k| if k % 1_500 == 7 { 300 } else { 1 });
    fill_partitions(proxy, "s.mixed", rows);
    let mut all_in_parts = 0.0;
    for cql in [
        "SELECT * FROM s.mixed",
        "SELECT v FROM s.mixed",
        "SELECT c, v FROM s.mixed PER PARTITION LIMIT 170",
        "SELECT * FROM s.mixed LIMIT 1999",
    ] {
        for size in [100, 170] {
            let [_, in_parts, pieces, wasted] = read_twice(node, proxy, cql, size);
            assert!(wasted < pieces / 4.0, "{wasted} of {pieces} in vain");
            all_in_parts += in_parts;
        }
    }
    assert!(all_in_parts > 20.0, "{all_in_parts} pages in parts");
}

fn extremes_of_descending_columns_are_those_of_a_node(node: SocketAddr, proxy: &Proxy) {
    let mut direct = Client::ready(node, 5).expect("direct");
    let mut through = Client::ready(proxy.address, 5).expect("through");
    let cql = "CREATE TABLE s.d (k int, c int, d text, e int, PRIMARY KEY (k, c, d)) \
               WITH CLUSTERING ORDER BY (c DESC, d ASC)";
    through.query(cql).expect(cql);
    for k in 0..40 {
        for c in 0..5 {
            let cql = format!(
                "INSERT INTO s.d (k, c, d, e) VALUES ({k}, {c}, 'd{}', {k})",
                c + k
            );
            through.query(&cql).expect(&cql);
        }
    }
    for cql in [
        "SELECT min(c), max(c), count(*) FROM s.d",
        "SELECT min(d), max(d) FROM s.d",
        "SELECT max(e), min(k) FROM s.d",
    ] {
        let expected = direct.query(cql).expect(cql);
        for _ in 0..3 {
            assert_eq!(through.query(cql).expect(cql), expected, "{cql}");
        }
    }
}

/// What is wrong with one request is not held against its statement.
fn a_read_that_nodes_refuse_switches_nothing_off(node: SocketAddr, proxy: &Proxy) {
    let mut direct = Client::ready(node, 5).expect("direct");
    let mut through = Client::ready(proxy.address, 5).expect("through");
    let cql = "SELECT * FROM s.thin WHERE c < ? ALLOW FILTERING";
    let (known, prepared) = (direct.prepare(cql), through.prepare(cql));
    let (known, prepared) = (known.expect(cql), prepared.expect(cql));
    let one = [1_i32.to_be_bytes().to_vec()];
    let in_parts = || metric(proxy, "helenus_scans_in_parts_total");
    for _ in 0..3 {
        let expected = pages(&mut direct, &Ask::Prepared(&known, &one), Some(1_000));
        let before = in_parts();
        assert!(expected == pages(&mut through, &Ask::Prepared(&prepared, &one), Some(1_000)));
        assert!(in_parts() > before);
        // A value that is none of its type, and a consistency level that is not for ranges.
        let good = paged(&direct, &Ask::Prepared(&known, &one), Some(1_000), None);
        let mut broken = good.clone();
        let value = broken
            .windows(8)
            .position(|w| w == [0, 0, 0, 4, 0, 0, 0, 1]);
        let value = value.expect("the value's length, and the value");
        broken.splice(value..value + 8, [0, 0, 0, 3, 0, 0, 1]);
        let mut serial = good;
        let consistency = known.id.len() + known.result_id.as_ref().map_or(0, Vec::len) + 4;
        serial[consistency + 1] = 8;
        for (bad, what) in [(broken, "a broken value"), (serial, "SERIAL")] {
            let ask = |client: &mut Client<TcpStream>| {
                let answer = client.call(op::EXECUTE, &bad).expect("an answer");
                (answer.opcode, answer.body)
            };
            let expected = ask(&mut direct);
            // Releases differ in what they say to SERIAL.
            assert!(expected.0 == op::ERROR || what == "SERIAL", "{what}");
            assert!(expected == ask(&mut through), "{what}");
        }
    }
    assert_eq!(metric(proxy, "helenus_scans_not_in_parts_total"), 0.0);
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

/// Points come back while scans wait in their queue.
fn points_pass_scans(proxy: &Proxy) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = &stop;
        for _ in 0..40 {
            scope.spawn(move || {
                let mut client = Client::ready(proxy.address, 5).expect("client");
                while !stop.load(Ordering::Relaxed) {
                    pages(&mut client, &Ask::Text("SELECT * FROM s.t"), Some(5_000));
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

/// A look-up in an index is a scan, but soon needs no slot; a large partition is none, but soon needs one.
fn long_is_what_takes_long(proxy: &Proxy) {
    const READS_MAX: usize = 2_000;
    fill_partitions(proxy, "s.large", std::iter::once(30_000));
    let sent = |class: &str| {
        let name = format!("helenus_node_scheduled_total{{class=\"{class}\"");
        metric(proxy, &name)
    };
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let mut reads_until_sent_as = |class: &str, cql: &str| {
        let prepared = client.prepare(cql).expect(cql);
        let before = sent(class);
        for read in 1..=READS_MAX {
            let answer = client.execute_known(&prepared, &[]).expect("an answer");
            assert!(answer.is_ok(), "{cql}: {:?}", answer.err());
            if read % 10 == 0 && sent(class) > before {
                println!("{cql} is sent as a {class} within {read} reads");
                return;
            }
        }
        panic!("{cql} is not sent as a {class} in {READS_MAX} reads");
    };
    reads_until_sent_as("slice", "SELECT k FROM s.t WHERE c = 3 LIMIT 1");
    reads_until_sent_as("scan", "SELECT * FROM s.large WHERE k = 0");
}

/// Windows so narrow that points queue, too; a scan slot that was lost or counted twice would show.
fn points_and_scans_wait(proxy: &Proxy) {
    thread::scope(|scope| {
        for client in 0..48 {
            scope.spawn(move || {
                let mut own = Client::ready(proxy.address, 5).expect("client");
                for round in 0..60 {
                    if client % 4 == 0 && round % 4 == 0 {
                        pages(&mut own, &Ask::Text("SELECT * FROM s.t"), Some(50));
                    } else {
                        let k = (client * 60 + round) % PARTITIONS;
                        let rows = own.query(&format!("SELECT c FROM s.t WHERE k = {k}"));
                        assert!(rows.is_ok(), "{rows:?}");
                    }
                }
            });
        }
    });
    for class in ["point", "scan"] {
        let name = format!("helenus_node_wait_seconds_count{{class=\"{class}\"");
        let waited = metric(proxy, &name);
        assert!(waited > 0.0, "no {class} waited");
    }
}

fn clients_that_leave_leave_nothing_behind(proxy: &Proxy) {
    for _ in 0..20 {
        let mut client = Client::ready(proxy.address, 5).expect("client");
        let body = paged(&client, &Ask::Text("SELECT * FROM s.t"), None, None);
        client.send(1, op::QUERY, &body).expect("sent");
    }
    let begin = Instant::now();
    loop {
        let in_flight = metric(proxy, "helenus_node_in_flight_requests");
        let queued = metric(proxy, "helenus_node_queued_requests{class=\"scan\"");
        let slots = metric(proxy, "helenus_node_scan_slots_taken");
        if in_flight == 0.0 && queued == 0.0 && slots == 0.0 {
            break;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "{in_flight} in flight, {queued} queued, {slots} scan slots taken"
        );
        thread::sleep(Duration::from_millis(50));
    }
}
