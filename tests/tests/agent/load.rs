//! The table, and clients that check what they read.

use std::collections::HashSet;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use helenus_tests::raw::{Client, ONE, op};

pub(crate) const ROWS: u32 = 4000;

/// The row of a key: 1 KB.
pub(crate) fn value(key: u32) -> Vec<u8> {
    key.to_be_bytes().repeat(256)
}

/// Creates the table and fills it.
pub(crate) fn fill(node: SocketAddr) {
    let mut client = super::client(node);
    for cql in [
        "CREATE KEYSPACE t WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE t.t (k int PRIMARY KEY, v blob)",
    ] {
        client.query(cql).expect(cql);
    }
    for key in 0..ROWS {
        let hex: String = value(key)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let cql = format!("INSERT INTO t.t (k, v) VALUES ({key}, 0x{hex})");
        let body = client.query_body(&cql, ONE);
        client.send(key as i16, op::QUERY, &body).expect("sent");
        // A hundred under way.
        if key >= 100 {
            client
                .receive()
                .expect("an answer")
                .judged()
                .expect("a result")
                .expect("written");
        }
    }
    for _ in 0..100 {
        client
            .receive()
            .expect("an answer")
            .judged()
            .expect("a result")
            .expect("written");
    }
}

pub(crate) fn check_point(client: &mut Client<TcpStream>, key: u32) {
    let rows = client
        .query(&format!("SELECT v FROM t.t WHERE k = {key}"))
        .expect("a point");
    assert_eq!(rows, [[Some(value(key))]], "key {key}");
}

/// Keeps `at_once` scans of `limit` rows under way until `total` are answered, and checks each.
pub(crate) fn scans(node: SocketAddr, at_once: u32, total: u32, limit: u32) -> u32 {
    let begin = Instant::now();
    let mut client = super::client(node);
    let cql = format!("SELECT k, v FROM t.t LIMIT {limit}");
    let body = client.query_body(&cql, ONE);
    let mut sent = 0;
    let mut answered = 0;
    while answered < total {
        while sent < total && sent - answered < at_once {
            client
                .send(1 + sent as i16, op::QUERY, &body)
                .expect("sent");
            sent += 1;
        }
        let answer = client.receive().expect("an answer");
        let rows = answer.judged().expect("a result").expect("no error");
        check_scan(&rows.rows().expect("rows"), limit);
        answered += 1;
        assert!(
            begin.elapsed() < super::PATIENCE,
            "{answered} of {total} scans"
        );
    }
    answered
}

fn check_scan(rows: &[Vec<Option<Vec<u8>>>], limit: u32) {
    let mut keys = HashSet::new();
    for row in rows {
        let bytes = row[0].as_deref().expect("a key");
        let key = u32::from_be_bytes(bytes.try_into().expect("an int"));
        assert_eq!(row[1].as_deref(), Some(&*value(key)), "key {key}");
        keys.insert(key);
    }
    assert_eq!((keys.len(), rows.len()), (limit as usize, limit as usize));
}
