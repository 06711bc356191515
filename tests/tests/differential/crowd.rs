//! Many requests in flight at once, over several connections, that commute: whatever order they are carried out in,
//! each has one right answer. So reads that share an answer, writes that leave as one batch, turns of conditional writes
//! and queues are compared, which one request at a time never meets.
//!
//! Rows that are written are written once, and read afterwards; those that are read are not written; of conditional
//! writes that meet, one is applied, and the others are told of it.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use helenus_wire::{Opcode, RowsView, strip_prelude};
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::client::{Answer, Client};
use crate::compare::{Seen, see};
use crate::generator::{ALL, Bound, Child, Options, QUORUM, Template, What, plain};
use crate::request::Side;
use crate::twins::Twins;
use crate::values::Ty;

/// Connections of each side.
const CONNECTIONS: usize = 3;
/// Requests over each of them at a time; far fewer wait at a node than it may refuse.
const REQUESTS: usize = 80;

/// One table that is only read, one that is written, counters, and one for conditional writes.
const TABLES: [&str; 4] = [
    "CREATE TABLE {ks}.still (p int, c int, v text, PRIMARY KEY (p, c))",
    "CREATE TABLE {ks}.crowd (p int, c int, v text, n int, PRIMARY KEY (p, c))",
    "CREATE TABLE {ks}.tally (p int PRIMARY KEY, n counter)",
    "CREATE TABLE {ks}.once (p int PRIMARY KEY, v int)",
];
const PARTITIONS: i32 = 5;
const ROWS: i32 = 12;

/// Statements to prepare, in this order.
const PREPARED: [(&str, &[&str]); 4] = [
    (
        "INSERT INTO {ks}.crowd (p, c, v, n) VALUES (?, ?, ?, ?)",
        &["int", "int", "text", "int"],
    ),
    (
        "SELECT v FROM {ks}.still WHERE p = ? AND c = ?",
        &["int", "int"],
    ),
    ("SELECT * FROM {ks}.still WHERE p IN ?", &["list"]),
    (
        "UPDATE {ks}.tally SET n = n + ? WHERE p = ?",
        &["bigint", "int"],
    ),
];
const INSERT: usize = 0;
const READ: usize = 1;
const READ_MANY: usize = 2;
const COUNT: usize = 3;

/// The kind of a request, for what is compared of it.
enum Kind {
    /// Both sides give equal answers.
    Same,
    /// A conditional write of this key, which would write this value.
    Once { key: i32, value: i32 },
}

struct Request {
    what: What,
    kind: Kind,
}

/// The tables, and the rows that are only read. Nothing of a crowd is one of the lane's operations.
pub(crate) fn begin(twins: &mut Twins<'_>) -> Result<()> {
    let operations = twins.counts.operations;
    for text in TABLES {
        twins.apply_at_once(&plain(text.to_owned()))?;
    }
    for p in 0..PARTITIONS {
        let row = |c| {
            format!(
                "INSERT INTO {{ks}}.still (p, c, v) VALUES ({p}, {c}, 'v{p}.{c}') USING TIMESTAMP 1"
            )
        };
        let rows: Vec<String> = (0..ROWS).map(row).collect();
        let text = format!("BEGIN UNLOGGED BATCH {}; APPLY BATCH", rows.join("; "));
        let mut op = plain(text);
        if let What::Query(_, options) = &mut op.what {
            options.consistency = ALL;
        }
        twins.apply_at_once(&op)?;
    }
    twins.counts.operations = operations;
    Ok(())
}

/// One crowd on each side, and the comparison of what all were told and of what is there then. `number`: of this crowd
/// in its keyspace.
pub(crate) fn run(twins: &mut Twins<'_>, seed: u64, number: i32) -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (number as u64 + 1) << 40);
    let requests = requests(&mut rng, number);
    let mut seen = Vec::new();
    for at in 0..2 {
        let mut side = Side {
            keyspace: twins.sides[at].keyspace.clone(),
            version: twins.sides[at].version,
            known: Vec::new(),
        };
        let mut clients = (0..CONNECTIONS)
            .map(|_| twins.clients[at].again())
            .collect::<Result<Vec<Client>>>()?;
        for (text, markers) in PREPARED {
            let template = Template {
                text: text.to_owned(),
                markers: vec![(None, Ty::Native("int")); markers.len()],
                keyed: true,
            };
            let (opcode, body) = side.body(&What::Prepare(template, false), None);
            let answer = clients[0].ask(opcode, 0, &body)?;
            let known = see(&answer, side.version, &side.keyspace, &side.keyspace)?.prepared;
            side.known.extend(known);
        }
        ensure!(
            side.known.len() == PREPARED.len(),
            "side {at} prepares nothing"
        );
        for (client, some) in clients.iter_mut().zip(requests.chunks(REQUESTS)) {
            let all: Vec<(Opcode, Vec<u8>)> = some
                .iter()
                .map(|request| side.body(&request.what, None))
                .collect();
            client.send_all(&all)?;
        }
        let mut answers = Vec::new();
        for (client, some) in clients.iter_mut().zip(requests.chunks(REQUESTS)) {
            answers.extend(client.receive_all(some.len())?);
        }
        seen.push(answers);
    }
    let [direct, proxied] = [&seen[0], &seen[1]];
    for (at, request) in requests.iter().enumerate() {
        compare(twins, request, [&direct[at], &proxied[at]])?;
    }
    for answers in [direct, proxied] {
        only_one_is_applied(twins, &requests, answers)?;
    }
    twins.counts.crowds += requests.len();
    let operations = twins.counts.operations;
    for text in ["SELECT * FROM {ks}.crowd", "SELECT * FROM {ks}.tally"] {
        twins.apply_at_once(&plain(text.to_owned()))?;
    }
    twins.counts.operations = operations;
    Ok(())
}

fn int(n: i32) -> Bound {
    Bound::Bytes(n.to_be_bytes().to_vec())
}

fn requests(rng: &mut ChaCha8Rng, number: i32) -> Vec<Request> {
    let mut requests: Vec<Request> = (0..(CONNECTIONS * REQUESTS) as i32)
        .map(|n| {
            // Each row is written by one request of one crowd.
            let row = number * 10_000 + n;
            let (what, kind) = request(rng, number, row);
            Request { what, kind }
        })
        .collect();
    requests.shuffle(rng);
    requests
}

fn request(rng: &mut ChaCha8Rng, number: i32, row: i32) -> (What, Kind) {
    let clock = 1_600_000_000_000_000 + i64::from(row);
    let options = |values: Vec<Bound>| Options {
        consistency: QUORUM,
        values,
        timestamp: Some(clock),
        ..Options::default()
    };
    let (p, c) = (rng.random_range(0..PARTITIONS), rng.random_range(0..ROWS));
    // Counted from the latest.
    let execute = |which: usize, values: Vec<Bound>| {
        What::Execute(PREPARED.len() - 1 - which, options(values))
    };
    let text = |text: String| What::Query(text, options(Vec::new()));
    let v = Bound::Bytes(format!("w{row}").into_bytes());
    let what = match rng.random_range(0..20) {
        // Many of the same, which share.
        0..3 => execute(READ, vec![int(0), int(0)]),
        3..5 => text("SELECT * FROM {ks}.still WHERE p = 1".to_owned()),
        5 => execute(READ, vec![int(p), int(c)]),
        6 => {
            let mut list = 2_i32.to_be_bytes().to_vec();
            for p in [p, (p + 1) % PARTITIONS] {
                list.extend(4_i32.to_be_bytes());
                list.extend(p.to_be_bytes());
            }
            execute(READ_MANY, vec![Bound::Bytes(list)])
        }
        7 => text(format!(
            "SELECT c, v FROM {{ks}}.still WHERE p = {p} AND c > {c} ORDER BY c DESC"
        )),
        8 => text("SELECT count(*) FROM {ks}.still".to_owned()),
        9 => text("SELECT p, c FROM {ks}.still".to_owned()),
        // Many of one statement, which leave together.
        10..14 => execute(INSERT, vec![int(p), int(row), v, int(row)]),
        14 => text(format!(
            "INSERT INTO {{ks}}.crowd (p, c, v) VALUES ({p}, {row}, 'text')"
        )),
        15 => {
            let insert = || {
                let values = vec![int(p), int(row), Bound::Bytes(b"batch".to_vec()), int(1)];
                Child::Prepared(PREPARED.len() - 1 - INSERT, values)
            };
            let kind = *[0, 1].choose(rng).unwrap();
            let other = format!(
                "UPDATE {{ks}}.crowd SET n = 7 WHERE p = {} AND c = {row}",
                (p + 1) % PARTITIONS
            );
            What::Batch(
                kind,
                vec![insert(), Child::Text(other, Vec::new())],
                options(Vec::new()),
            )
        }
        16 => {
            let one = Bound::Bytes(1_i64.to_be_bytes().to_vec());
            let mut what = execute(COUNT, vec![one, int(p)]);
            if let What::Execute(_, options) = &mut what {
                options.timestamp = None;
            }
            what
        }
        17 => text("SELECT v FROM {ks}.nothing WHERE p = 1".to_owned()),
        18 => execute(READ, vec![Bound::Bytes(vec![1, 2, 3]), int(c)]),
        _ => {
            let (key, value) = (number * 10 + rng.random_range(0..3), row);
            let cql =
                format!("INSERT INTO {{ks}}.once (p, v) VALUES ({key}, {value}) IF NOT EXISTS");
            let mut what = text(cql);
            if let What::Query(_, options) = &mut what {
                options.timestamp = None;
            }
            return (what, Kind::Once { key, value });
        }
    };
    (what, Kind::Same)
}

fn compare(twins: &mut Twins<'_>, request: &Request, answers: [&Answer; 2]) -> Result<()> {
    let [theirs, ours] = [1, 0].map(|at| twins.sides[at].keyspace.clone());
    let version = twins.sides[0].version;
    let see = |answer: &Answer| see(answer, version, &theirs, &ours);
    let seen: [Seen; 2] = [see(answers[0])?, see(answers[1])?];
    // Of conditional writes that collide, nodes leave some undecided.
    if matches!(request.kind, Kind::Once { .. }) {
        return Ok(());
    }
    for (at, answer) in answers.iter().enumerate() {
        twins.note_time_out(at, answer, &seen[at]);
    }
    if !seen[0].same(&seen[1]) {
        twins.differ(&format!("in a crowd: {:?}", request.what), &seen);
    }
    Ok(())
}

/// The answers to the conditional writes of one key.
#[derive(Debug, Default)]
struct Told {
    applied: Vec<i32>,
    /// Values that were shown to those not applied.
    shown: Vec<i32>,
    /// Nodes did not say what became of these.
    undecided: Vec<i32>,
}

impl Told {
    /// One has written the key for the first time, and the others are shown what.
    fn is_right(&self) -> bool {
        let winner = match self.applied[..] {
            [value] => Some(value),
            [] => self.shown.first().copied(),
            _ => None,
        };
        match winner {
            Some(winner) => {
                let is_known = self.applied.contains(&winner) || self.undecided.contains(&winner);
                is_known && self.shown.iter().all(|was| *was == winner)
            }
            None => self.applied.is_empty() && !self.undecided.is_empty(),
        }
    }
}

/// Of those that would write one key for the first time, one does, and the others are shown what it wrote.
fn only_one_is_applied(
    twins: &mut Twins<'_>,
    requests: &[Request],
    answers: &[Answer],
) -> Result<()> {
    let mut told = BTreeMap::<i32, Told>::new();
    for (request, answer) in requests.iter().zip(answers) {
        let Kind::Once { key, value } = request.kind else {
            continue;
        };
        let of_key = told.entry(key).or_default();
        if answer.opcode != Opcode::Result as u8 {
            of_key.undecided.push(value);
            continue;
        }
        let (_, content) = strip_prelude(answer.flags, &answer.body)?;
        let view = RowsView::parse(content)?;
        let row = view.rows().next().transpose()?.unwrap_or_default();
        match row[..] {
            [Some([1])] => of_key.applied.push(value),
            [Some([0]), _, Some(was)] => of_key.shown.push(i32::from_be_bytes(was.try_into()?)),
            _ => ensure!(false, "{row:?} of a conditional write"),
        }
    }
    for (key, told) in told {
        if !told.is_right() {
            twins.note_difference(format!("key {key}: {told:?}"));
        }
    }
    Ok(())
}
