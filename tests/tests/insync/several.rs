//! Reads of several partitions of a table whose replicas are copies in sync, one of which is spread over two nodes,
//! compared with an ordinary table that has the same rows.

use std::net::TcpStream;

use helenus_cluster::{Cluster, Connection};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Answer, Client, Fault, QUORUM, op};

use crate::writes::ON;
use crate::{TURN, eventually, joined, lists, on, run, uuid};

const KEYS: i32 = 40;
/// Of two layouts, in the order of their numbers: the first one has the table's own order.
const COPIES: [(&str, &str, &str); 2] = [("shop_a", "dc1", "a, b"), ("shop_b", "dc2", "b, a")];
const COLUMNS: &str = "(k int, a int, b int, v int, PRIMARY KEY";

/// `shop.orders` with a copy on two nodes and one on the third, as a command would make it, and `shop.plain`.
fn replace(cluster: &Cluster) {
    let (mut hosts, mut slots) = (Vec::new(), Vec::new());
    for number in 1..=3 {
        let mut node = cluster.connect(number).expect("a connection");
        let rows = run(
            &mut node,
            "SELECT host_id, gossip_generation, tokens FROM system.local",
        );
        let tokens = texts(rows[0][2].as_deref().expect("tokens"));
        let of_node = tokens.iter().map(|token| {
            let token: i64 = token.parse().expect("a number");
            (token, usize::from(number))
        });
        // The third one is alone in its data center, and owns all.
        slots.extend(of_node.filter(|(_, number)| *number < 3));
        let generation = rows[0][1].clone().expect("a generation");
        let generation = i32::from_be_bytes(generation.try_into().expect("an int"));
        hosts.push((uuid(&rows[0][0]), generation));
    }
    let mut node = cluster.connect(1).expect("a connection");
    let both = "{'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1}";
    run(
        &mut node,
        &format!("CREATE KEYSPACE shop WITH replication = {both}"),
    );
    for table in ["orders", "plain", "other"] {
        run(
            &mut node,
            &format!("CREATE TABLE shop.{table} {COLUMNS} (k, a, b))"),
        );
    }
    let contact = cluster.address(1).expect("an address").to_string();
    // The catalogue, by a layout of another table.
    on(
        &contact,
        &["create", "shop.other", "--no-proxies", "--layout", "x=b,a"],
    );
    for (keyspace, data_center, order) in COPIES {
        let one = format!("{{'class': 'NetworkTopologyStrategy', '{data_center}': 1}}");
        let order_list = order.replace(", ", "', '");
        for cql in [
            format!("CREATE KEYSPACE {keyspace} WITH replication = {one}"),
            format!("CREATE TABLE {keyspace}.orders {COLUMNS} (k, {order}))"),
            format!(
                "INSERT INTO helenus.layouts (keyspace_name, table_name, mode, layout, physical, physical_keyspace, \
                 clustering, state) VALUES ('shop', 'orders', 'replace', '{keyspace}', 'orders', '{keyspace}', \
                 ['{order_list}'], 'ready')"
            ),
        ] {
            run(&mut node, &cql);
        }
    }
    slots.sort_unstable();
    let (other, other_generation) = &hosts[2];
    for (number, (host, generation)) in (1..).zip(&hosts[..2]) {
        let ranges = ranges(&slots, number);
        let ranges: Vec<String> = ranges.iter().map(i64::to_string).collect();
        let ranges = ranges.join(", ");
        run(
            &mut node,
            &format!(
                "INSERT INTO helenus.copies (keyspace_name, table_name, owners, version, in_sync, joining, since, \
                 boot, ranges) VALUES ('shop', 'orders', [{host}, {other}], 1, {{0, 1}}, {{}}, [1, 1], [{generation}, \
                 {other_generation}], [{ranges}])"
            ),
        );
    }
}

/// A set of texts.
fn texts(mut set: &[u8]) -> Vec<String> {
    let number = |set: &mut &[u8]| {
        let (bytes, rest) = set.split_first_chunk::<4>().expect("four bytes");
        *set = rest;
        u32::from_be_bytes(*bytes) as usize
    };
    let count = number(&mut set);
    let mut texts = Vec::new();
    for _ in 0..count {
        let length = number(&mut set);
        let (text, rest) = set.split_at(length);
        set = rest;
        texts.push(String::from_utf8(text.to_vec()).expect("UTF-8"));
    }
    texts
}

/// Where the ranges of a node begin and end: those up to its tokens, each merged with the next one if that is its own.
fn ranges(slots: &[(i64, usize)], number: usize) -> Vec<i64> {
    let mut ranges = Vec::new();
    // What is behind the last token belongs to the first one.
    let last = slots.first().map(|(_, owner)| (i64::MAX, *owner));
    let mut after = i64::MIN;
    for (token, owner) in slots.iter().copied().chain(last) {
        if owner == number {
            match ranges.last() == Some(&after) {
                true => *ranges.last_mut().expect("one") = token,
                false => ranges.extend([after, token]),
            }
        }
        after = token;
    }
    ranges
}

/// A page of a statement's rows.
fn page(
    client: &mut Client<TcpStream>,
    text: &str,
    (size, state): (Option<i32>, Option<&[u8]>),
) -> Result<Answer, Fault> {
    let mut body = client.query_body(text, QUORUM);
    let flags = body.len() - 1;
    body[flags] = (u8::from(size.is_some()) * 4) | (u8::from(state.is_some()) * 8);
    body.extend(size.into_iter().flat_map(i32::to_be_bytes));
    if let Some(state) = state {
        body.extend((state.len() as u32).to_be_bytes());
        body.extend(state);
    }
    let answer = client.call(op::QUERY, &body).expect("an answer");
    answer.judged().expect("a result or an error")
}

type Row = Vec<Option<Vec<u8>>>;

/// All rows of a statement, in pages of so many, of one proxy after the other.
fn rows(clients: &mut [Client<TcpStream>], text: &str, size: Option<i32>) -> Vec<Row> {
    let (mut rows, mut state): (Vec<Row>, Option<Vec<u8>>) = (Vec::new(), None);
    for at in 0.. {
        let client = at % clients.len();
        let got = page(&mut clients[client], text, (size, state.as_deref()));
        let got = got.unwrap_or_else(|e| panic!("{text}: {e:?}"));
        let more = got.rows().expect("rows");
        assert!(
            size.is_none_or(|size| more.len() <= size as usize),
            "{text}"
        );
        rows.extend(more);
        state = got.paging_state().expect("rows");
        if state.is_none() {
            break;
        }
    }
    rows
}

fn write(clients: &mut [Client<TcpStream>]) {
    for key in 0..KEYS {
        for row in 0..key % 7 {
            for table in ["orders", "plain"] {
                let insert = format!(
                    "INSERT INTO shop.{table} (k, a, b, v) VALUES ({key}, {}, {row}, {}) USING TIMESTAMP 1",
                    10 - row / 2,
                    key * 10 + row
                );
                eventually("it is acknowledged", || {
                    clients[0]
                        .try_query(&insert, QUORUM)
                        .expect("an answer")
                        .is_ok()
                });
            }
        }
    }
}

/// Tokens of the keys, from the lowest on.
fn tokens(node: &mut Connection) -> Vec<i64> {
    let rows = run(node, "SELECT DISTINCT k, token(k) FROM shop.plain");
    let token =
        |row: &Row| i64::from_be_bytes(row[1].clone().expect("one").try_into().expect("a bigint"));
    rows.iter().map(token).collect()
}

#[test]
fn reads_of_several_partitions_are_those_of_an_ordinary_table() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let spec = helenus_tests::ephemeral()
        .nodes(3)
        .place("dc1", "r1")
        .place("dc1", "r1")
        .place("dc2", "r1");
    let cluster = Cluster::up(spec).expect("three nodes");
    replace(&cluster);
    let points = cluster.contact_points();
    let proxies = [(); 2].map(|()| Proxy::start(&points, &ON).expect("a proxy"));
    for proxy in &proxies {
        joined(proxy);
        eventually("the copies are known", || {
            let copies = lists(proxy)["copies"].clone();
            copies.as_array().is_some_and(|groups| groups.len() == 2)
        });
    }
    let mut clients: Vec<Client<TcpStream>> = proxies
        .iter()
        .zip([5, 4])
        .map(|(proxy, version)| Client::ready(proxy.address, version).expect("a client"))
        .collect();
    write(&mut clients);
    let mut node = cluster.connect(1).expect("a connection");
    let tokens = tokens(&mut node);
    let (low, middle, high) = (tokens[3], tokens[15], tokens[28]);
    let listed: Vec<String> = (-3..KEYS)
        .rev()
        .chain([5, 9])
        .map(|key| key.to_string())
        .collect();
    let listed = listed.join(", ");
    let statements = [
        "SELECT * FROM shop.TABLE".to_owned(),
        "SELECT k, a, v, writetime(v) FROM shop.TABLE LIMIT 50".to_owned(),
        "SELECT v, k FROM shop.TABLE PER PARTITION LIMIT 2".to_owned(),
        "SELECT v, k FROM shop.TABLE PER PARTITION LIMIT 2 LIMIT 33".to_owned(),
        "SELECT DISTINCT k FROM shop.TABLE".to_owned(),
        "SELECT JSON k, v FROM shop.TABLE LIMIT 20".to_owned(),
        "SELECT k, count(v) FROM shop.TABLE GROUP BY k".to_owned(),
        "SELECT k, a, max(v) FROM shop.TABLE GROUP BY k, a LIMIT 31".to_owned(),
        "SELECT * FROM shop.TABLE WHERE v > 100 AND v < 300 ALLOW FILTERING".to_owned(),
        "SELECT * FROM shop.TABLE WHERE a = 9 ALLOW FILTERING".to_owned(),
        "SELECT count(*), max(v), min(v), sum(v) FROM shop.TABLE".to_owned(),
        "SELECT count(*) FROM shop.TABLE WHERE v > 100 ALLOW FILTERING".to_owned(),
        format!("SELECT * FROM shop.TABLE WHERE token(k) > {low} AND token(k) <= {high}"),
        format!("SELECT * FROM shop.TABLE WHERE token(k) >= {low} AND token(k) < {high}"),
        format!("SELECT * FROM shop.TABLE WHERE token(k) > {middle} LIMIT 10"),
        format!("SELECT * FROM shop.TABLE WHERE token(k) <= {middle}"),
        format!("SELECT * FROM shop.TABLE WHERE token(k) = {middle}"),
        format!("SELECT * FROM shop.TABLE WHERE token(k) > {high} AND token(k) <= {low}"),
        format!(
            "SELECT * FROM shop.TABLE WHERE token(k) > {low} AND token(k) <= -9223372036854775808"
        ),
        format!("SELECT count(*) FROM shop.TABLE WHERE token(k) > {low}"),
        format!("SELECT * FROM shop.TABLE WHERE k IN ({listed})"),
        format!("SELECT v, k FROM shop.TABLE WHERE k IN ({listed}) LIMIT 17"),
        format!("SELECT v FROM shop.TABLE WHERE k IN ({listed}) PER PARTITION LIMIT 1"),
        format!("SELECT * FROM shop.TABLE WHERE k IN ({listed}) AND a > 8"),
        format!("SELECT * FROM shop.TABLE WHERE k IN ({listed}) AND b = 2 ALLOW FILTERING"),
        format!("SELECT * FROM shop.TABLE WHERE k IN ({listed}) AND a IN (9, 10)"),
        format!("SELECT DISTINCT k FROM shop.TABLE WHERE k IN ({listed})"),
        format!("SELECT k, count(v) FROM shop.TABLE WHERE k IN ({listed}) GROUP BY k"),
        format!("SELECT count(*), sum(v) FROM shop.TABLE WHERE k IN ({listed})"),
        "SELECT * FROM shop.TABLE WHERE k IN ()".to_owned(),
        "SELECT * FROM shop.TABLE WHERE k IN (17)".to_owned(),
    ];
    for (small, statement) in [1, 2].iter().cycle().zip(&statements) {
        let plain = run(&mut node, &statement.replace("TABLE", "plain"));
        let of_copies = statement.replace("TABLE", "orders");
        // Pages of a row or two are most of the requests: of each statement one or the other, or both.
        let skipped = (!helenus_tests::is_long()).then_some(3 - small);
        for size in [None, Some(1), Some(2), Some(7), Some(100)] {
            if size.is_some() && size == skipped {
                continue;
            }
            let got = rows(&mut clients, &of_copies, size);
            assert_eq!(got, plain, "{statement} in pages of {size:?}");
        }
        println!("{} rows: {statement}", plain.len());
    }
    // As a prepared statement, whose columns the client knows.
    let expected = run(
        &mut node,
        "SELECT v, k FROM shop.plain WHERE k IN (30, 4, 11)",
    );
    let mut list = 3_i32.to_be_bytes().to_vec();
    for key in [30_i32, 4, 11] {
        list.extend(4_i32.to_be_bytes());
        list.extend(key.to_be_bytes());
    }
    for client in &mut clients {
        let text = "SELECT v, k FROM shop.orders WHERE k IN ?";
        let prepared = client.prepare(text).expect("it is prepared");
        let scan = client
            .prepare("SELECT v, k FROM shop.orders")
            .expect("it is prepared");
        let all = run(&mut node, "SELECT v, k FROM shop.plain");
        for _ in 0..3 {
            let answer = client
                .execute_known(&prepared, &[&list])
                .expect("an answer");
            assert_eq!(answer.expect("rows").rows().expect("rows"), expected);
            let answer = client.execute_known(&scan, &[]).expect("an answer");
            assert_eq!(answer.expect("rows").rows().expect("rows"), all);
        }
    }
    // A page of one statement is none of another.
    let first = page(
        &mut clients[0],
        "SELECT * FROM shop.orders",
        (Some(5), None),
    );
    let state = first
        .expect("rows")
        .paging_state()
        .expect("rows")
        .expect("more");
    let of_keys = format!("SELECT * FROM shop.orders WHERE k IN ({listed})");
    let refused = page(&mut clients[1], &of_keys, (Some(5), Some(&state)));
    assert_eq!(refused.expect_err("it is none").code, 0x000A);
}
