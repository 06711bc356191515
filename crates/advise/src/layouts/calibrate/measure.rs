//! Times the queries, one at a time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use helenus_layout::Timed;
use helenus_migrate::nodes::cluster::Cluster;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

use super::queries::{Answer, Probe, probes};

/// Fewer rounds say too little.
const ROUNDS_MIN: usize = 3;
/// More say nothing new.
const ROUNDS_MAX: usize = 200;
/// The part of the time that only warms the node up: its compiler, and its caches.
const WARMUP: f64 = 0.25;

pub(super) struct Measured {
    pub probes: Vec<Probe>,
    /// One for each of these.
    pub timed: Vec<Timed>,
    pub rounds: usize,
}

/// Asks all queries in each round, until `until`; if these are too few rounds then, until `latest`.
pub(super) async fn measure(
    cluster: &Cluster,
    table: &str,
    until: Instant,
    latest: Instant,
) -> Result<Measured> {
    let probes = probes();
    let mut statements = Vec::new();
    for probe in &probes {
        let mut prepared = cluster.session.prepare(probe.text(table)).await?;
        prepared.set_consistency(Consistency::LocalOne);
        prepared.set_is_idempotent(true);
        statements.push(prepared);
    }
    let mut timed: Vec<Timed> = probes
        .iter()
        .map(|probe| Timed {
            work: probe.work(),
            times_us: Vec::new(),
            held_out: probe.held_out,
        })
        .collect();
    let left = until.saturating_duration_since(Instant::now());
    let warm = Instant::now() + left.mul_f64(WARMUP);
    let (mut turn, mut rounds) = (0, 0);
    'rounds: while rounds < ROUNDS_MAX {
        let counts = Instant::now() >= warm;
        for step in 0..probes.len() {
            let end = if rounds >= ROUNDS_MIN { until } else { latest };
            if Instant::now() >= end {
                break 'rounds;
            }
            // Each round begins with another query, and none always comes behind the same.
            let at = place(step, turn, probes.len());
            let took = ask(cluster, &statements[at], &probes[at], turn).await?;
            if counts {
                timed[at].times_us.push(took.as_secs_f64() * 1e6);
            }
            // The node is busy for half of the time at most.
            tokio::time::sleep(took).await;
        }
        turn += 1;
        rounds += usize::from(counts);
    }
    if rounds < ROUNDS_MIN {
        bail!(
            "only {rounds} rounds of {} queries were done, and {ROUNDS_MIN} are needed: the node is slow or busy. \
             Try again with more --seconds, or when there is less load",
            probes.len()
        );
    }
    Ok(Measured {
        probes,
        timed,
        rounds,
    })
}

/// The query at a step of a round: another order in each.
fn place(step: usize, turn: u32, count: usize) -> usize {
    // Steps that have no divisor in common with the number of queries come by each of them.
    let strides: Vec<usize> = (1..count)
        .filter(|stride| is_coprime(*stride, count))
        .collect();
    let stride = strides
        .get(turn as usize % strides.len().max(1))
        .copied()
        .unwrap_or(1);
    (turn as usize + step * stride) % count
}

fn is_coprime(a: usize, b: usize) -> bool {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

/// How long a client waits, and sorts.
async fn ask(
    cluster: &Cluster,
    statement: &PreparedStatement,
    probe: &Probe,
    turn: u32,
) -> Result<Duration> {
    let values = probe.values(turn);
    let begin = Instant::now();
    let answer = cluster.session.execute_unpaged(statement, values).await;
    let answer = answer
        .with_context(|| format!("a query of the calibration failed ({})", probe.describe()))?;
    if probe.answer == Answer::Sorted {
        let rows = answer.into_rows_result()?;
        let mut rows: Vec<(i32, i32, i32, i64)> = rows.rows()?.collect::<Result<_, _>>()?;
        rows.sort_by_key(|(a, b, c, _)| (*c, *b, *a));
        std::hint::black_box(&rows);
    }
    Ok(begin.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_asks_every_query_once_in_another_order() {
        let order =
            |turn: u32| -> Vec<usize> { (0..44).map(|step| place(step, turn, 44)).collect() };
        for turn in 0..100 {
            let mut sorted = order(turn);
            sorted.sort_unstable();
            assert_eq!(sorted, (0..44).collect::<Vec<_>>(), "round {turn}");
            assert_ne!(order(turn), order(turn + 1));
        }
    }
}
