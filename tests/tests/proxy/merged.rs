//! Writes of several clients in one batch: what comes of them is what came of each by itself.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Answer, Client, Prepared, QUORUM, envelope, frame, op};

use crate::{eventually, metric};

/// Statements on a table, of two values each.
const WRITES: [&str; 8] = [
    "INSERT INTO a.{} (k, c, v) VALUES (?, ?, 'inserted')",
    "INSERT INTO a.{} (k, c, v) VALUES (?, ?, 'to vanish') USING TTL 1000;",
    "UPDATE a.{} SET v = 'updated' WHERE k = ? AND c = ? /* a comment */",
    "UPDATE a.{} USING TTL 2000 SET w = 'both' WHERE k = ? AND c = ?",
    "DELETE v FROM a.{} WHERE k = ? AND c = ?",
    "DELETE FROM a.{} WHERE k = ? AND c = ?",
    "DELETE FROM a.{} WHERE k = ? AND c > ?",
    "INSERT INTO a.{} (k, s) VALUES (?, ?)",
];
const PARTITIONS: i32 = 40;

pub(crate) fn writes_keep_what_they_are(points: &[SocketAddr]) {
    let settings = ["aggregation.merge_writes=[\"a\"]"];
    let proxy = Proxy::start_patient(points, &settings).expect("proxy");
    let mut client = Client::ready(proxy.address, 5).expect("client");
    for cql in [
        "CREATE TABLE a.alone (k int, c int, v text, w text, s int static, PRIMARY KEY (k, c))",
        "CREATE TABLE a.together (k int, c int, v text, w text, s int static, PRIMARY KEY (k, c))",
        "CREATE TABLE a.wrong (k int, c int, w text, PRIMARY KEY (k, c))",
        "CREATE TABLE a.counted (k int PRIMARY KEY, n counter)",
    ] {
        client.query(cql).expect(cql);
    }
    for version in [5, 4] {
        together_is_as_alone(&proxy, points[0], version);
        one_that_is_wrong_is_told_alone(&proxy, points[0], version);
    }
    counters_are_deleted_one_by_one(&proxy);
}

fn merged(proxy: &Proxy) -> f64 {
    metric(proxy, "helenus_writes_merged_total")
}

fn together_is_as_alone(proxy: &Proxy, node: SocketAddr, version: u8) {
    let mut client = Client::ready(proxy.address, version).expect("client");
    let mut direct = Client::ready(node, version).expect("client");
    for (number, write) in WRITES.iter().enumerate() {
        let of = |client: &mut Client<TcpStream>, table| {
            let text = write.replace("{}", table);
            client.prepare(&text).expect("prepared")
        };
        let (alone, together) = (of(&mut direct, "alone"), of(&mut client, "together"));
        // Neither in the order of the partitions nor in that of the statements.
        let asked: Vec<(i32, i32, i64)> = (0..PARTITIONS)
            .map(|k| {
                let at = i64::from((k * 17 + number as i32 * 23) % 89);
                (k, k % 3, 1_000_000 + at)
            })
            .collect();
        for &(k, c, at) in &asked {
            let body = stamped(&direct, &alone, &[&int(k), &int(c)], at);
            let answer = direct.call(op::EXECUTE, &body).expect("an answer");
            assert_eq!(answer.opcode, op::RESULT, "{write}");
        }
        // The first ones go by themselves, while the nodes are being told.
        let before = merged(proxy);
        eventually("writes are merged", Duration::from_secs(20), || {
            let bodies: Vec<Vec<u8>> = asked
                .iter()
                .map(|&(k, c, at)| stamped(&client, &together, &[&int(k), &int(c)], at))
                .collect();
            for answer in packet(&mut client, &bodies) {
                assert_eq!(
                    answer.body,
                    1_i32.to_be_bytes(),
                    "{write}: no rows, no warning"
                );
            }
            merged(proxy) > before
        });
        let rows = |table: &str| {
            let columns = "k, c, v, w, s, writetime(v), writetime(w), writetime(s)";
            let cql = format!("SELECT {columns} FROM a.{table}");
            let mut reader = Client::ready(node, 5).expect("client");
            reader.query(&cql).expect("rows")
        };
        assert_eq!(rows("together"), rows("alone"), "after {write}");
    }
    assert_eq!(
        metric(proxy, "helenus_write_batches_parted_total"),
        0.0 + parted_before(version)
    );
}

/// Batches that have parted on purpose, in the version before.
fn parted_before(version: u8) -> f64 {
    if version == 5 { 0.0 } else { 1.0 }
}

fn one_that_is_wrong_is_told_alone(proxy: &Proxy, node: SocketAddr, version: u8) {
    let mut client = Client::ready(proxy.address, version).expect("client");
    let mut direct = Client::ready(node, version).expect("client");
    let text = format!("INSERT INTO a.wrong (k, c, w) VALUES (?, ?, 'v{version}')");
    let prepared = client.prepare(&text).expect("prepared");
    let bodies = |client: &Client<TcpStream>, wrong: Option<usize>| -> Vec<Vec<u8>> {
        let body = |at: usize| {
            let c = match wrong == Some(at) {
                true => vec![1; 3],
                false => int(100 + i32::from(version)).to_vec(),
            };
            stamped(client, &prepared, &[&int(at as i32), &c], 2_000_000)
        };
        (0..10).map(body).collect()
    };
    let before = merged(proxy);
    eventually("writes are merged", Duration::from_secs(20), || {
        let right = bodies(&client, None);
        packet(&mut client, &right);
        merged(proxy) > before
    });
    let own = direct.prepare(&text).expect("prepared");
    let wrong = stamped(&direct, &own, &[&int(3), &[1; 3]], 2_000_000);
    let expected = direct.call(op::EXECUTE, &wrong).expect("an answer");
    let expected = expected.fault().expect("an error");
    let bodies = bodies(&client, Some(3));
    let answers = packet(&mut client, &bodies);
    for (at, answer) in answers.iter().enumerate() {
        if at == 3 {
            let fault = answer.fault().expect("an error");
            assert_eq!(
                (fault.code, fault.message),
                (expected.code, expected.message.clone())
            );
        } else {
            assert_eq!(answer.body, 1_i32.to_be_bytes());
        }
    }
    let parted = metric(proxy, "helenus_write_batches_parted_total");
    assert_eq!(parted, parted_before(version) + 1.0);
}

/// Nodes refuse counters in such a batch, which no client hears of.
fn counters_are_deleted_one_by_one(proxy: &Proxy) {
    let mut client = Client::ready(proxy.address, 5).expect("client");
    for k in 0..10 {
        let cql = format!("UPDATE a.counted SET n = n + 1 WHERE k = {k}");
        client.query(&cql).expect(&cql);
    }
    let text = "DELETE FROM a.counted WHERE k = ?";
    let prepared = client.prepare(text).expect("prepared");
    let bodies: Vec<Vec<u8>> = (0..10)
        .map(|k| client.execute_body(&prepared, &[&int(k)], QUORUM))
        .collect();
    for answer in packet(&mut client, &bodies) {
        assert_eq!(answer.body, 1_i32.to_be_bytes());
    }
    let left = client.query("SELECT k FROM a.counted").expect("rows");
    assert!(left.is_empty(), "{left:?}");
}

fn int(value: i32) -> [u8; 4] {
    value.to_be_bytes()
}

/// An EXECUTE that says when it was written.
fn stamped(
    client: &Client<TcpStream>,
    prepared: &Prepared,
    values: &[&[u8]],
    timestamp: i64,
) -> Vec<u8> {
    let mut body = client.execute_body(prepared, values, QUORUM);
    let result_id = prepared.result_id.as_ref().map_or(0, |id| 2 + id.len());
    let flags = 2 + prepared.id.len() + result_id + 2 + if client.version >= 5 { 3 } else { 0 };
    body[flags] |= 0x20;
    body.extend(timestamp.to_be_bytes());
    body
}

/// Sends EXECUTEs in one packet; the answers in their order.
fn packet(client: &mut Client<TcpStream>, bodies: &[Vec<u8>]) -> Vec<Answer> {
    let version = client.version;
    let mut payload = Vec::new();
    for (stream, body) in (1..).zip(bodies) {
        payload.extend(envelope(version, stream, op::EXECUTE, body));
    }
    let bytes = if version >= 5 {
        frame(&payload)
    } else {
        payload
    };
    client.stream.write_all(&bytes).expect("sent");
    let mut answers: Vec<Answer> = bodies
        .iter()
        .map(|_| client.receive().expect("answer"))
        .collect();
    answers.sort_by_key(|answer| answer.stream);
    answers
}
