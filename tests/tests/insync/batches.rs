//! Batches of one partition through two proxies, to a table whose replicas are copies in sync and to an ordinary one:
//! all copies have the same rows, written at the same time and with the same time to live, and the ordinary table, too.

use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use helenus_cluster::{Cluster, Connection};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, ONE, Prepared, QUORUM, op};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::writes::{COPIES, ON, in_sync, replace, three_data_centers};
use crate::{TURN, eventually, joined, run};

const BATCHES: usize = 300;
const KEYS: i32 = 6;
const TABLES: [&str; 2] = ["shop.orders", "shop.plain"];
const ALL: u16 = 5;
const TIMESTAMP: u32 = 0x20;
const NOW: u32 = 0x100;
/// How far a time to live may be another, in seconds, where each coordinator counts from its own clock.
const SECONDS: i32 = 5;

/// A statement with `TABLE` in it, and its values if it is prepared.
#[derive(Clone, Debug)]
struct Written {
    text: String,
    values: Option<Vec<i32>>,
}

/// What is sent to both tables.
#[derive(Clone, Debug)]
enum Batch {
    /// Its number, and its statements.
    Message(u8, Vec<Written>),
    Text(String),
    /// The prepared text, whose markers stand for these.
    Prepared(Vec<i32>),
}

const INSERT: &str = "INSERT INTO TABLE (k, a, b, v) VALUES (?, ?, ?, ?)";
const TEXT: &str = "BEGIN BATCH USING TIMESTAMP 2000 INSERT INTO TABLE (k, a, b, v) VALUES (?, ?, ?, ?); \
                    UPDATE TABLE USING TTL 1000 SET v = ? WHERE k = ? AND a = ? AND b = ? APPLY BATCH";

fn any(rng: &mut ChaCha8Rng, bound: i32) -> i32 {
    (rng.next_u32() % bound as u32) as i32
}

fn statement(rng: &mut ChaCha8Rng, key: i32, may_be_timed: bool) -> Written {
    let (a, b, v) = (any(rng, 3), any(rng, 3), any(rng, 100));
    let time = 1_000 + any(rng, 2_000);
    let timed = may_be_timed && any(rng, 3) == 0;
    let and_time = if timed {
        format!(" AND TIMESTAMP {time}")
    } else {
        String::new()
    };
    let using_time = if timed {
        format!(" USING TIMESTAMP {time}")
    } else {
        String::new()
    };
    let row = format!("WHERE k = {key} AND a = {a} AND b = {b}");
    let text = match any(rng, 7) {
        0..3 => {
            return Written {
                text: INSERT.to_owned(),
                values: Some(vec![key, a, b, v]),
            };
        }
        3 => format!(
            "INSERT INTO TABLE (k, a, b, v) VALUES ({key}, {a}, {b}, {v}) USING TTL 900{and_time}"
        ),
        4 => format!(
            "UPDATE TABLE USING TTL {}{and_time} SET v = {v} {row}",
            600 + v
        ),
        5 => format!("DELETE FROM TABLE{using_time} {row}"),
        _ => match any(rng, 6) {
            0 => format!("DELETE FROM TABLE{using_time} WHERE k = {key}"),
            _ => format!("DELETE v FROM TABLE{using_time} {row}"),
        },
    };
    Written { text, values: None }
}

fn batch(rng: &mut ChaCha8Rng) -> Batch {
    let key = any(rng, KEYS);
    let count = 1 + any(rng, 5);
    match any(rng, 5) {
        0 => {
            let (a, b, v) = (any(rng, 3), any(rng, 3), any(rng, 100));
            Batch::Prepared(vec![key, a, b, v, v + 1, key, b, a])
        }
        1 => {
            let whole = any(rng, 2) == 0;
            let texts = (0..count).map(|_| {
                let written = statement(rng, key, !whole);
                let mut values = written.values.unwrap_or_default().into_iter();
                let literal = |piece: &str| match values.next() {
                    Some(value) => format!("{piece}{value}"),
                    None => piece.to_owned(),
                };
                written.text.split('?').map(literal).collect::<String>()
            });
            let texts: Vec<String> = texts.collect();
            let kind = if any(rng, 2) == 0 { "" } else { "UNLOGGED " };
            let using = if whole { " USING TIMESTAMP 1900" } else { "" };
            Batch::Text(format!(
                "BEGIN {kind}BATCH{using} {}; APPLY BATCH",
                texts.join("; ")
            ))
        }
        _ => {
            let statements = (0..count).map(|_| statement(rng, key, true)).collect();
            Batch::Message(any(rng, 2) as u8, statements)
        }
    }
}

/// A client of one proxy.
struct Session {
    client: Client<TcpStream>,
    /// By table: of one row, and of a batch.
    prepared: Vec<[Prepared; 2]>,
}

impl Session {
    fn new(proxy: &Proxy, version: u8) -> Session {
        let mut client = Client::ready(proxy.address, version).expect("a client");
        let mut of = |text: &str| client.prepare(text).expect("it is prepared");
        let prepared = TABLES
            .map(|table| [INSERT, TEXT].map(|text| of(&text.replace("TABLE", table))))
            .into();
        Session { client, prepared }
    }

    /// The same batch to a table, at this time of its client's. `now`: what v5 says of the time of day.
    fn write(&mut self, batch: &Batch, table: usize, (timestamp, now): (i64, i32)) -> bool {
        let (opcode, body) = self.body(batch, table, (timestamp, now));
        let answer = self.client.call(opcode, &body).expect("an answer");
        match answer.judged().expect("a result or an error") {
            Ok(_) => true,
            Err(fault) => {
                assert_ne!(fault.code, 0x2200, "{batch:?}: {fault:?}");
                false
            }
        }
    }

    fn body(&self, batch: &Batch, table: usize, (timestamp, now): (i64, i32)) -> (u8, Vec<u8>) {
        let text = |text: &str, body: &mut Vec<u8>| {
            let text = text.replace("TABLE", TABLES[table]);
            body.extend((text.len() as u32).to_be_bytes());
            body.extend(text.bytes());
        };
        let values = |values: &[i32], body: &mut Vec<u8>| {
            body.extend((values.len() as u16).to_be_bytes());
            for value in values {
                body.extend(4_i32.to_be_bytes());
                body.extend(value.to_be_bytes());
            }
        };
        let id = |of: &Prepared, body: &mut Vec<u8>| {
            body.extend((of.id.len() as u16).to_be_bytes());
            body.extend(&of.id);
        };
        let [insert, whole] = &self.prepared[table];
        let mut body = Vec::new();
        let (opcode, bound) = match batch {
            Batch::Message(kind, statements) => {
                body.push(*kind);
                body.extend((statements.len() as u16).to_be_bytes());
                for statement in statements {
                    body.push(u8::from(statement.values.is_some()));
                    match &statement.values {
                        Some(_) => id(insert, &mut body),
                        None => text(&statement.text, &mut body),
                    }
                    values(statement.values.as_deref().unwrap_or_default(), &mut body);
                }
                (op::BATCH, None)
            }
            Batch::Text(whole) => {
                text(whole, &mut body);
                (op::QUERY, None)
            }
            Batch::Prepared(bound) => {
                id(whole, &mut body);
                if let Some(id) = &whole.result_id {
                    body.extend((id.len() as u16).to_be_bytes());
                    body.extend(id);
                }
                (op::EXECUTE, Some(bound))
            }
        };
        body.extend(QUORUM.to_be_bytes());
        let with_values = u32::from(bound.is_some());
        match self.client.version {
            5.. => body.extend((TIMESTAMP | NOW | with_values).to_be_bytes()),
            _ => body.push((TIMESTAMP | with_values) as u8),
        }
        if let Some(bound) = bound {
            values(bound, &mut body);
        }
        body.extend(timestamp.to_be_bytes());
        if self.client.version >= 5 {
            body.extend(now.to_be_bytes());
        }
        (opcode, body)
    }
}

/// A row's a, b, v, time of writing, and time to live.
type Row = (Vec<Option<Vec<u8>>>, Option<i32>);

/// The rows of a table as a node has them, as they would live at this time of day.
fn rows(client: &mut Client<TcpStream>, table: &str, level: u16, now: i32) -> Vec<Row> {
    let mut all = Vec::new();
    for key in 0..KEYS {
        let select =
            format!("SELECT k, a, b, v, writetime(v), ttl(v) FROM {table} WHERE k = {key}");
        let mut body = client.query_body(&select, level);
        let flags = body.len() - 4;
        body[flags..].copy_from_slice(&NOW.to_be_bytes());
        body.extend(now.to_be_bytes());
        let answer = client.call(op::QUERY, &body).expect("an answer");
        let answer = answer.judged().expect("an answer");
        let answer = answer.unwrap_or_else(|e| panic!("{select}: {e:?}"));
        for mut row in answer.rows().expect("rows") {
            let ttl = row.pop().flatten();
            let ttl = ttl.map(|ttl| i32::from_be_bytes(ttl.try_into().expect("an int")));
            all.push((row, ttl));
        }
    }
    all.sort();
    all
}

/// The same rows, whose times to live differ by so many seconds at most.
fn check(rows: &[Row], expected: &[Row], seconds: i32, what: &str) {
    assert_eq!(rows.len(), expected.len(), "{what}: {rows:?} {expected:?}");
    for (row, expected) in rows.iter().zip(expected) {
        let is_near = match (row.1, expected.1) {
            (Some(one), Some(other)) => (one - other).abs() <= seconds,
            (one, other) => one == other,
        };
        assert!(
            row.0 == expected.0 && is_near,
            "{what}: {row:?} {expected:?}"
        );
    }
}

fn warm_up(cluster: &Cluster, node: &mut Connection) {
    let columns = "(k int, a int, b int, v int, PRIMARY KEY (k, a, b))";
    run(node, &format!("CREATE TABLE shop.plain {columns}"));
    for number in 1..=3 {
        let mut own = cluster.connect(number).expect("a connection");
        eventually("the node knows the table", || {
            let select = "SELECT k FROM shop.plain LIMIT 1";
            own.query(select, helenus_cluster::Consistency::One).is_ok()
        });
    }
}

#[test]
fn batches_are_on_all_copies_what_they_are_on_an_ordinary_table() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let seed = std::env::var("HELENUS_SEED").map_or(7, |seed| seed.parse().expect("a number"));
    println!("HELENUS_SEED={seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let cluster = three_data_centers();
    let mut node = replace(&cluster);
    warm_up(&cluster, &mut node);
    let points = cluster.contact_points();
    let proxies = [(); 2].map(|()| Proxy::start(&points, &ON).expect("a proxy"));
    for proxy in &proxies {
        joined(proxy);
        eventually("the copies are known", || in_sync(proxy).len() == 3);
    }
    let mut sessions = [Session::new(&proxies[0], 5), Session::new(&proxies[1], 4)];
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("a time").as_secs() as i32;
    for number in 0..BATCHES {
        let batch = batch(&mut rng);
        let session = &mut sessions[number % 2];
        let times = (1_000 + number as i64 * 10 / 3, now + any(&mut rng, 3));
        for table in 0..TABLES.len() {
            eventually("it is acknowledged", || session.write(&batch, table, times));
        }
    }
    eventually("all are in sync", || in_sync(&proxies[0]).len() == 3);
    let is_undisturbed = proxies
        .iter()
        .all(|proxy| !proxy.log().contains("copies were evicted"));
    let mut clients: Vec<Client<TcpStream>> = (1..=3)
        .map(|number| {
            let address = cluster.address(number).expect("an address");
            Client::ready(address, 5).expect("a client")
        })
        .collect();
    let plain = rows(&mut clients[0], TABLES[1], ALL, now);
    let timed = plain.iter().filter(|(_, ttl)| ttl.is_some()).count();
    println!("{} rows, {timed} with a time to live", plain.len());
    assert!(plain.len() > 10 && timed > 2);
    let mut copies = Vec::new();
    for (copy, keyspace) in COPIES.iter().enumerate() {
        let of_copy = rows(&mut clients[copy], &format!("{keyspace}.orders"), ONE, now);
        check(&of_copy, &plain, SECONDS, keyspace);
        copies.push(of_copy);
    }
    // All copies were told one time, unless one has come back.
    if is_undisturbed {
        assert!(copies.iter().all(|copy| *copy == copies[0]), "{copies:?}");
    }
}
