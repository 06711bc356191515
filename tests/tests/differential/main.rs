//! Operations directly and through the proxy, over twin keyspaces: the answers must be the same, byte for byte,
//! less what docs/transparency.md names.
//!
//! Several lanes run side by side before one cluster, each with a seed, keyspaces and connections of
//! its own; within a lane nothing overlaps. CONTRIBUTING.md tells how to run it longer and to replay.

mod client;
mod compare;
mod crowd;
mod generator;
mod request;
mod schema;
mod testbed;
mod twins;
mod values;

use std::str::FromStr;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use client::{Client, Dialect};
use generator::{Generator, What, plain};
use helenus_wire::{Compression, Version};
use request::Side;
use testbed::Testbed;
use twins::{Counts, Twins};

/// Versions and compressions, each for a share of every lane's operations.
const DIALECTS: [(Version, Compression); 6] = [
    (Version::V4, Compression::None),
    (Version::V5, Compression::None),
    (Version::V3, Compression::None),
    (Version::V5, Compression::Lz4),
    (Version::V4, Compression::Lz4),
    (Version::V3, Compression::Snappy),
];

/// One thread's task.
#[derive(Clone, Copy, Debug)]
struct Lane {
    number: usize,
    seed: u64,
    operations: usize,
    /// How many differences it collects before it ends.
    differences_max: usize,
    /// Print every operation.
    trace: bool,
    /// The nodes know vectors.
    vectors: bool,
}

/// A number from the environment.
fn setting<T: FromStr>(name: &str, default: T) -> Result<T> {
    match std::env::var(name) {
        Ok(text) => text.parse().map_err(|_| anyhow!("{name} is not a number")),
        Err(_) => Ok(default),
    }
}

#[test]
fn the_proxy_answers_as_a_node_does() -> Result<()> {
    let seed: u64 = setting("HELENUS_SEED", rand::random::<u32>().into())?;
    let lanes: usize = setting("HELENUS_DIFFERENTIAL_SEEDS", DIALECTS.len())?.max(1);
    let operations = setting("HELENUS_DIFFERENTIAL_OPS", 5_000_usize)?.div_ceil(lanes);
    let differences_max = setting("HELENUS_DIFFERENTIAL_KEEP", 10)?;
    let cassandra = helenus_tests::cassandra_version();
    println!(
        "seeds {seed} to {} (HELENUS_SEED, HELENUS_DIFFERENTIAL_SEEDS), {operations} operations \
         each, Cassandra {cassandra}",
        seed + lanes as u64 - 1
    );
    let began = Instant::now();
    let nodes = setting("HELENUS_DIFFERENTIAL_NODES", 3)?;
    let testbed = Testbed::up(nodes, operations * lanes)?;
    println!("ready after {:.0?}", began.elapsed());
    let began = Instant::now();
    let lanes = (0..lanes).map(|number| Lane {
        number,
        seed: seed + number as u64,
        operations,
        differences_max,
        trace: std::env::var_os("HELENUS_DIFFERENTIAL_TRACE").is_some(),
        vectors: !cassandra.starts_with('4'),
    });
    let ends: Vec<_> = std::thread::scope(|scope| {
        let testbed = &testbed;
        let threads: Vec<_> = lanes
            .map(|lane| (lane, scope.spawn(move || lane.run(testbed))))
            .collect();
        let end = |(lane, thread): (Lane, std::thread::ScopedJoinHandle<'_, _>)| {
            let panicked = |_| (Counts::default(), Err(anyhow!("it panicked")));
            (lane, thread.join().unwrap_or_else(panicked))
        };
        threads.into_iter().map(end).collect()
    });
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    for (lane, (of_lane, end)) in ends {
        if end.is_ok() && of_lane.operations < lane.operations {
            failures.push(format!("{lane:?} was cut short"));
        }
        if end.is_err() || !of_lane.differences.is_empty() {
            failures.push(format!(
                "{}\n{} differences; replay with HELENUS_SEED={} HELENUS_DIFFERENTIAL_SEEDS=1 \
                 HELENUS_DIFFERENTIAL_OPS={}",
                end.err()
                    .map_or(String::new(), |e| format!("{lane:?}: {e:#}")),
                of_lane.differences.len(),
                lane.seed,
                lane.operations
            ));
        }
        counts.add(of_lane);
    }
    println!(
        "{} operations in {:.0?}, {} answers of which {} errors, {} with rows, {} further pages, {} \
         with warnings, {} schema changes; {} beside others; {} prepared again directly; {} reconnected; {:?} given \
         up by nodes, directly and through the proxy; {} differences",
        counts.operations,
        began.elapsed(),
        counts.answers,
        counts.errors,
        counts.rows,
        counts.pages,
        counts.warnings,
        counts.schema_changes,
        counts.crowds,
        counts.prepared_again,
        counts.reconnects,
        counts.timed_out,
        counts.differences.len()
    );
    if !failures.is_empty() {
        println!("the proxy's log:\n{}", testbed.proxy.log());
        for node in testbed.cluster.nodes() {
            println!("node {node}:\n{}", testbed.cluster.log_tail(node));
        }
        bail!("{}", failures.join("\n"));
    }
    // Nodes have a minute for everything, and what they never answer is not asked. One or two are a busy machine's; the
    // proxy may have no more of them than a direct connection, but for as few.
    let [direct, proxied] = counts.timed_out;
    assert!(
        direct <= 2 && proxied <= 2,
        "{direct} directly and {proxied} through the proxy were given up by nodes"
    );
    assert!(
        counts.errors < counts.answers / 2,
        "most answers were errors: hardly anything was compared"
    );
    Ok(())
}

impl Lane {
    fn run(self, testbed: &Testbed) -> (Counts, Result<()>) {
        let mut counts = Counts::default();
        let end = self.all_dialects(testbed, &mut counts);
        (counts, end)
    }

    fn all_dialects(self, testbed: &Testbed, counts: &mut Counts) -> Result<()> {
        // Keyspaces, and what the generator believes of them, are made anew whenever nodes have lost something.
        let mut generation = 0;
        let mut generator = None;
        let mut round = 0;
        while round < DIALECTS.len() {
            // Lanes begin with different dialects; a replayed seed with the one it had.
            let first = (self.seed % DIALECTS.len() as u64) as usize;
            let (version, compression) = DIALECTS[(first + round) % DIALECTS.len()];
            println!(
                "seed {}: {version:?} {compression:?} from operation {}",
                self.seed, counts.operations
            );
            let dialect = Dialect {
                version,
                compression,
            };
            let side = |name| Side {
                keyspace: format!("twin_{name}{}_{generation}", self.number),
                version,
                known: Vec::new(),
            };
            let mut admin = testbed.cluster.connect(1)?;
            let mut twins = Twins {
                seed: self.seed,
                trace: self.trace,
                clients: [
                    Client::connect(testbed.cluster.address(1)?, dialect)?,
                    Client::connect(testbed.proxy.address, dialect)?,
                ],
                sides: ["a", "b"].map(side),
                texts: Vec::new(),
                admin: &mut admin,
                counts: &mut *counts,
            };
            if generator.is_none() {
                let nodes = testbed.cluster.nodes().len();
                let mut new = Generator::new(self.seed + (generation << 32), self.vectors);
                begin(&mut twins, &mut new, nodes)?;
                generator = Some(new);
            }
            let of_round = generator.as_mut().map_or(Ok(Then::Anew), |generator| {
                self.one_dialect(&mut twins, generator, round)
            });
            match of_round? {
                Then::GoOn => round += 1,
                Then::Anew => (generator, generation) = (None, generation + 1),
            }
        }
        Ok(())
    }

    /// One dialect's share of the operations, and a crowd.
    fn one_dialect(
        self,
        twins: &mut Twins<'_>,
        generator: &mut Generator,
        round: usize,
    ) -> Result<Then> {
        generator.prepared.clear();
        let until = self.operations * (round + 1) / DIALECTS.len();
        let given_up = twins.counts.timed_out;
        while twins.counts.operations < until {
            let op = generator.next();
            let before = twins.counts.differences.len();
            let prepared = twins.apply(&op)?;
            if twins.counts.timed_out != given_up {
                // Cassandra has lost a write. The rows that it left are unknown, so that these twins need not be
                // equal from here on, nor in this.
                twins.counts.differences.truncate(before);
                println!("seed {}: a node gave up on {op:?}", self.seed);
                return Ok(Then::Anew);
            }
            if let (true, What::Prepare(template, _)) = (prepared, op.what) {
                generator.prepared.push(template);
            }
            if twins.counts.differences.len() >= self.differences_max {
                bail!("too many differences");
            }
        }
        let before = twins.counts.differences.len();
        crowd::run(twins, self.seed, round as i32)?;
        if twins.counts.timed_out != given_up {
            twins.counts.differences.truncate(before);
            return Ok(Then::Anew);
        }
        Ok(Then::GoOn)
    }
}

/// The next step after twins were compared.
enum Then {
    GoOn,
    Anew,
}

/// The keyspaces and the first tables. All lanes do this at once.
fn begin(twins: &mut Twins<'_>, generator: &mut Generator, nodes: usize) -> Result<()> {
    let keyspace = plain(format!(
        "CREATE KEYSPACE {{ks}} WITH replication = \
         {{'class': 'SimpleStrategy', 'replication_factor': {}}}",
        nodes.min(3)
    ));
    let text = "CREATE TYPE {ks}.u1 (a int, b text, c frozen<list<int>>)";
    twins.apply_at_once(&keyspace)?;
    twins.apply_at_once(&plain(text.to_owned()))?;
    for _ in 0..5 {
        twins.apply_at_once(&generator.create_table())?;
    }
    crowd::begin(twins)
}
