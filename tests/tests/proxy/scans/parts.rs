//! Pages and aggregates in parts.

use std::net::{SocketAddr, TcpStream};

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, op};

use super::PARTITIONS;
use super::paging::{Ask, paged, pages, pages_as_driver};
use crate::metric;

/// The nodes need not parse what is asked of them for every part.
pub(super) fn parts_are_prepared(nodes: &[SocketAddr], proxy: &Proxy) {
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

/// A text means another table where a request names its keyspace.
pub(super) fn keyspaces_of_requests_count(node: SocketAddr, proxy: &Proxy) {
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
                    assert!(answer.has_rows().expect("a RESULT"), "rows");
                    let state = answer.paging_state().expect("rows");
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

/// Functions of the keyspace's own go before Cassandra's of the same name.
pub(super) fn own_aggregates_are_not_split(node: SocketAddr, proxy: &Proxy) {
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

/// Rows of other columns than a client knows come with their metadata, as from a node.
pub(super) fn statements_outlive_their_columns(node: SocketAddr, proxy: &Proxy) {
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
pub(super) fn clients_of_v4_get_the_columns_of_an_altered_in(proxy: &Proxy) {
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

/// A table with this number of rows in each partition.
pub(super) fn fill_partitions(proxy: &Proxy, table: &str, rows: impl Iterator<Item = usize>) {
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
pub(super) fn wide_partitions_are_read_once(node: SocketAddr, proxy: &Proxy) {
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

pub(super) fn few_parts_of_thin_partitions_are_in_vain(node: SocketAddr, proxy: &Proxy) {
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
pub(super) fn aggregates_of_many_parts_are_those_of_a_node(node: SocketAddr, proxy: &Proxy) {
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
pub(super) fn pages_of_wide_and_thin_partitions_are_those_of_a_node(
    node: SocketAddr,
    proxy: &Proxy,
) {
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

pub(super) fn extremes_of_descending_columns_are_those_of_a_node(node: SocketAddr, proxy: &Proxy) {
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

/// An error in one request is not held against its statement.
pub(super) fn a_read_that_nodes_refuse_switches_nothing_off(node: SocketAddr, proxy: &Proxy) {
    // One that filters is read in parts if it takes long, which depends on the node.
    let by_token = ("SELECT * FROM s.thin WHERE token(k) > ?", i64::MIN + 1);
    let filtering = "SELECT * FROM s.thin WHERE c < ? ALLOW FILTERING";
    is_refused_and_read_on(node, proxy, by_token.0, &by_token.1.to_be_bytes(), true);
    is_refused_and_read_on(node, proxy, filtering, &1_i32.to_be_bytes(), false);
    assert_eq!(metric(proxy, "helenus_scans_not_in_parts_total"), 0.0);
}

fn is_refused_and_read_on(
    node: SocketAddr,
    proxy: &Proxy,
    cql: &str,
    bound: &[u8],
    in_parts_each_time: bool,
) {
    let mut direct = Client::ready(node, 5).expect("direct");
    let mut through = Client::ready(proxy.address, 5).expect("through");
    let (known, prepared) = (direct.prepare(cql), through.prepare(cql));
    let (known, prepared) = (known.expect(cql), prepared.expect(cql));
    let values = [bound.to_vec()];
    let in_parts = || metric(proxy, "helenus_scans_in_parts_total");
    let all = |client: &mut Client<TcpStream>, prepared| {
        pages(client, &Ask::Prepared(prepared, &values), Some(1_000))
    };
    let expected = all(&mut direct, &known);
    // How many rows lie where is learned from the first.
    assert!(expected == all(&mut through, &prepared));
    for _ in 0..3 {
        let before = in_parts();
        assert!(expected == all(&mut through, &prepared));
        assert!(!in_parts_each_time || in_parts() > before, "{cql}");
        // A value that is none of its type, and a consistency level that is not for ranges.
        let good = paged(&direct, &Ask::Prepared(&known, &values), Some(1_000), None);
        let mut broken = good.clone();
        let with_length = |value: &[u8]| [&(value.len() as u32).to_be_bytes(), value].concat();
        let whole = with_length(bound);
        let at = broken.windows(whole.len()).position(|w| w == whole);
        let at = at.expect("the value's length, and the value");
        broken.splice(at..at + whole.len(), with_length(&bound[1..]));
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
}

/// In parts, too, which are prepared from some time on and then have metadata of their own.
pub(super) fn texts_get_no_metadata_if_they_want_none(node: SocketAddr, proxy: &Proxy) {
    for version in [4, 5] {
        let mut direct = Client::ready(node, version).expect("direct");
        let mut through = Client::ready(proxy.address, version).expect("through");
        let in_parts = || metric(proxy, "helenus_scans_in_parts_total");
        let before = in_parts();
        for cql in ["SELECT count(*) FROM s.t", "SELECT k, c FROM s.t"] {
            let expected = pages(&mut direct, &Ask::Bare(cql), Some(60));
            assert!(expected != pages(&mut direct, &Ask::Text(cql), Some(60)));
            for round in 0..5 {
                let got = pages(&mut through, &Ask::Bare(cql), Some(60));
                assert!(got == expected, "v{version}, round {round}: {cql}");
            }
        }
        assert!(in_parts() > before);
    }
}
