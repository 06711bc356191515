//! The same operations directly and through the proxy, over twin keyspaces: the answers must be the
//! same, byte for byte, less what docs/transparency.md names.
//!
//! `HELENUS_SEED` replays a run, `HELENUS_DIFFERENTIAL_OPS` sets its length.

mod client;
mod compare;
mod generator;
mod request;
mod schema;
mod stand;
mod values;

use anyhow::{Context, Result, bail};
use client::{Client, Dialect};
use compare::{Seen, see};
use generator::{Child, Generator, Op, What, plain};
use helenus_wire::{Compression, Version, code, flags};
use request::Side;
use stand::Stand;

const TWINS: [&str; 2] = ["twin_a", "twin_b"];
const PAGES_MAX: usize = 30;
/// Stands for the opcode of an answer that never came.
const CLOSED: u8 = 0xff;

/// Versions and compressions, each for a share of the operations.
const DIALECTS: [(Version, Compression); 6] = [
    (Version::V4, Compression::None),
    (Version::V5, Compression::None),
    (Version::V3, Compression::None),
    (Version::V5, Compression::Lz4),
    (Version::V4, Compression::Lz4),
    (Version::V3, Compression::Snappy),
];

#[derive(Debug, Default)]
struct Counts {
    operations: usize,
    answers: usize,
    rows: usize,
    errors: usize,
    warnings: usize,
    schema_changes: usize,
    pages: usize,
    prepared_again: usize,
    reconnects: usize,
    differences: Vec<String>,
}

/// Both connections of one dialect.
struct Twins<'a> {
    clients: [Client; 2],
    sides: [Side; 2],
    /// What was prepared, in the order of the sides' ids.
    texts: Vec<What>,
    admin: &'a mut helenus_cluster::Connection,
    counts: &'a mut Counts,
}

#[test]
fn the_proxy_answers_as_a_node_does() -> Result<()> {
    let seed = match std::env::var("HELENUS_SEED") {
        Ok(seed) => seed.parse().context("HELENUS_SEED is not a number")?,
        Err(_) => rand::random(),
    };
    let operations: usize = match std::env::var("HELENUS_DIFFERENTIAL_OPS") {
        Ok(n) => n.parse().context("HELENUS_DIFFERENTIAL_OPS")?,
        Err(_) => 5_000,
    };
    println!("seed {seed} (set HELENUS_SEED to replay), {operations} operations");
    let stand = Stand::up()?;
    let mut counts = Counts::default();
    if let Err(error) = run(&stand, seed, operations, &mut counts) {
        println!("the proxy's log:\n{}", stand.proxy_log());
        println!("after {} operations", counts.operations);
        return Err(error);
    }
    println!(
        "{} operations, {} answers of which {} errors, {} with rows, {} further pages, {} with \
         warnings, {} schema changes; {} prepared again directly; {} reconnected; {} differences",
        counts.operations,
        counts.answers,
        counts.errors,
        counts.rows,
        counts.pages,
        counts.warnings,
        counts.schema_changes,
        counts.prepared_again,
        counts.reconnects,
        counts.differences.len()
    );
    assert!(
        counts.differences.is_empty(),
        "seed {seed}:\n{}",
        counts.differences.join("\n\n")
    );
    assert!(counts.operations >= operations, "the run was cut short");
    assert!(
        counts.errors < counts.answers / 2,
        "most answers were errors: hardly anything was compared"
    );
    Ok(())
}

fn run(stand: &Stand, seed: u64, operations: usize, counts: &mut Counts) -> Result<()> {
    let mut admin = stand.cluster.connect(1)?;
    let vectors = std::env::var("HELENUS_DIFFERENTIAL_CASSANDRA")
        .map_or(true, |version| !version.starts_with('4'));
    let mut generator = Generator::new(seed, vectors);
    for (round, (version, compression)) in DIALECTS.into_iter().enumerate() {
        println!(
            "{version:?} {compression:?}, operation {}",
            counts.operations
        );
        let dialect = Dialect {
            version,
            compression,
        };
        let side = |keyspace| Side {
            keyspace,
            version,
            known: Vec::new(),
        };
        let mut twins = Twins {
            clients: [
                Client::connect(stand.cluster.address(1)?, dialect)?,
                Client::connect(stand.address, dialect)?,
            ],
            sides: TWINS.map(side),
            texts: Vec::new(),
            admin: &mut admin,
            counts: &mut *counts,
        };
        generator.prepared.clear();
        if round == 0 {
            let nodes = stand.cluster.nodes().len().min(3);
            twins.apply(&plain(format!(
                "CREATE KEYSPACE {{ks}} WITH replication = \
                 {{'class': 'SimpleStrategy', 'replication_factor': {nodes}}}"
            )))?;
            let text = "CREATE TYPE {ks}.u1 (a int, b text, c frozen<list<int>>)";
            twins.apply(&plain(text.to_owned()))?;
            for _ in 0..5 {
                let op = generator.create_table();
                twins.apply(&op)?;
            }
        }
        let until = operations * (round + 1) / DIALECTS.len();
        while twins.counts.operations < until {
            let op = generator.next();
            let prepared = twins.apply(&op)?;
            if let (true, What::Prepare(template, _)) = (prepared, op.what) {
                generator.prepared.push(template);
            }
            if twins.counts.differences.len() >= differences_max() {
                bail!("{}", counts.differences.join("\n\n"));
            }
        }
    }
    Ok(())
}

/// How many differences a run collects before it ends.
fn differences_max() -> usize {
    std::env::var("HELENUS_DIFFERENTIAL_KEEP")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(10)
}

impl Twins<'_> {
    /// Applies an operation to both sides and follows its pages; true if it prepared a statement.
    fn apply(&mut self, op: &Op) -> Result<bool> {
        self.counts.operations += 1;
        let mut states: [Option<Vec<u8>>; 2] = [None, None];
        for page in 0..PAGES_MAX {
            let seen = [
                self.ask(0, op, states[0].as_deref())?,
                self.ask(1, op, states[1].as_deref())?,
            ];
            self.count(&seen[0]);
            if !seen[0].same(&seen[1]) {
                self.report(op, page, &seen);
            }
            let broken = |s: &Seen| s.opcode == CLOSED || s.error == Some(code::PROTOCOL);
            if seen.iter().any(broken) {
                self.reconnect()?;
                return Ok(false);
            }
            if seen.iter().any(|s| s.schema_change) {
                self.counts.schema_changes += 1;
                Stand::agree(self.admin)?;
            }
            let [direct, proxied] = seen;
            if let (Some(direct), Some(proxied)) = (direct.prepared, proxied.prepared) {
                self.sides[0].known.push(direct);
                self.sides[1].known.push(proxied);
                self.texts.push(op.what.clone());
                return Ok(true);
            }
            for (side, new) in self
                .sides
                .iter_mut()
                .zip([direct.metadata_id, proxied.metadata_id])
            {
                if let (Some(id), What::Execute(back, _)) = (new, &op.what) {
                    let at = side.at(*back);
                    side.known[at].metadata_id = id;
                }
            }
            states = [direct.paging_state, proxied.paging_state];
            if states.iter().any(|state| state.is_none()) {
                return Ok(false);
            }
            self.counts.pages += 1;
        }
        Ok(false)
    }

    /// One request on one side.
    fn ask(&mut self, at: usize, op: &Op, state: Option<&[u8]>) -> Result<Seen> {
        let version = self.sides[at].version;
        let header_flags = if op.tracing { flags::TRACING } else { 0 };
        for _ in 0..3 {
            let (opcode, body) = self.sides[at].body(&op.what, state);
            let answer = match self.clients[at].ask(opcode, header_flags, &body) {
                Ok(answer) => answer,
                Err(error) => {
                    println!("side {at}: {error:#}");
                    return Ok(Seen {
                        opcode: CLOSED,
                        ..Seen::default()
                    });
                }
            };
            let seen = see(&answer, version, TWINS[1], TWINS[0])?;
            if seen.error != Some(code::UNPREPARED) || at != 0 {
                return Ok(seen);
            }
            if let Some(refused) = self.prepare_again(op)? {
                return Ok(refused);
            }
        }
        bail!("the node forgets what it prepares: {op:?}")
    }

    /// What every driver does when a node has forgotten a statement; the proxy does it by itself.
    /// Returns the refusal if it cannot be prepared any more.
    fn prepare_again(&mut self, op: &Op) -> Result<Option<Seen>> {
        let backs: Vec<usize> = match &op.what {
            What::Execute(back, _) => vec![*back],
            What::Batch(_, children, _) => children
                .iter()
                .filter_map(|child| match child {
                    Child::Prepared(back, _) => Some(*back),
                    Child::Text(..) => None,
                })
                .collect(),
            _ => Vec::new(),
        };
        self.counts.prepared_again += 1;
        for back in backs {
            let index = self.sides[0].at(back);
            let (opcode, body) = self.sides[0].body(&self.texts[index], None);
            let answer = self.clients[0].ask(opcode, 0, &body)?;
            let seen = see(&answer, self.sides[0].version, TWINS[1], TWINS[0])?;
            match &seen.prepared {
                // The old metadata id stays: its owner has not yet heard of other columns.
                Some(known) => self.sides[0].known[index].id.clone_from(&known.id),
                None => return Ok(Some(seen)),
            }
        }
        Ok(None)
    }

    fn count(&mut self, seen: &Seen) {
        self.counts.answers += 1;
        self.counts.errors += usize::from(seen.error.is_some());
        self.counts.warnings += usize::from(seen.warned);
        self.counts.rows += usize::from(seen.rows);
    }

    fn report(&mut self, op: &Op, page: usize, seen: &[Seen; 2]) {
        let statement = match &op.what {
            What::Execute(back, _) => format!("{:?}", self.texts[self.sides[0].at(*back)]),
            _ => String::new(),
        };
        let side = |seen: &Seen| {
            format!(
                "opcode {:#04x} flags {:#04x} error {:x?}\n  {}\n  {}",
                seen.opcode,
                seen.flags,
                seen.error,
                seen.body
                    .iter()
                    .map(|b| format!("{b:02x}"))
                    .collect::<String>(),
                String::from_utf8_lossy(&seen.body).escape_debug(),
            )
        };
        let text = format!(
            "operation {} ({:?}), page {page}: {op:?} {statement}\ndirect:  {}\nproxied: {}",
            self.counts.operations,
            self.sides[0].version,
            side(&seen[0]),
            side(&seen[1])
        );
        println!("DIFFERENCE {text}");
        self.counts.differences.push(text);
    }

    /// Connections that broke a rule may be closed by either server; both begin anew.
    fn reconnect(&mut self) -> Result<()> {
        self.counts.reconnects += 1;
        for (client, side) in self.clients.iter_mut().zip(&self.sides) {
            client.reconnect()?;
            // What was prepared without a keyspace must find it again.
            let What::Query(text, options) = plain("USE {ks}".to_owned()).what else {
                continue;
            };
            let (opcode, body) = side.body(&What::Query(text, options), None);
            client.ask(opcode, 0, &body)?;
        }
        Ok(())
    }
}
