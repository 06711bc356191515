//! Before the first round, and between turns: a table for all arms, their warm-up, and nodes that settle.

use super::arms::Arm;
use crate::ramp::warmup::Warmup;
use crate::run::{Limit, Plan, run_closed};
use crate::workload::keys::Keys;
use crate::workload::kv::{KeyValue, Mix, Table};
use anyhow::{Context, Result};
use scylla::statement::Consistency;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One arm's turn in a warm-up that ends when throughput is steady.
const WINDOW: Duration = Duration::from_secs(1);
const FILLING_CLIENTS: usize = 64;
/// The nodes have settled when so many answers in a row were quick.
const QUICK_IN_A_ROW: usize = 20;

/// Creates and fills a table at a level, and opens a session of each arm.
pub(crate) async fn open_table(
    arms: &[Arm],
    table: &Table,
    filled_at: Option<Consistency>,
    mix: Mix,
    say: &mut dyn FnMut(String),
) -> Result<Vec<Arc<KeyValue>>> {
    let first = &arms.first().context("no arms to compare")?.endpoint;
    table.create(&first.connect().await?).await?;
    say(format!("filling {} rows", table.keys));
    let filling = first.at(filled_at.unwrap_or(first.consistency));
    table
        .fill(&filling, FILLING_CLIENTS, Arc::default())
        .await?;
    let mut open = Vec::new();
    for arm in arms {
        let keys = Keys::uniform(table.keys);
        let opened = KeyValue::open(&arm.endpoint, table, keys, mix, 1).await;
        open.push(Arc::new(opened.with_context(|| arm.name().to_owned())?));
    }
    Ok(open)
}

/// Whose turn it is in a warm-up of this time, and how many turns the arm has had before: short turns, so
/// that what the nodes learn meanwhile is not charged to one arm. `kinds` of turns are had by all arms alike;
/// with none, only the time counts.
pub(crate) fn turns(
    time: Duration,
    turn: Duration,
    arms: usize,
    kinds: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let turns = (time.as_secs_f64() / turn.as_secs_f64()).ceil() as usize;
    let turns = turns.next_multiple_of((arms * kinds).max(1));
    (0..turns).map(move |turn| (turn % arms, turn / arms))
}

/// All arms in turn, until throughput no longer rises by itself.
pub(crate) async fn warm_up(
    arms: &[Arm],
    open: &[Arc<KeyValue>],
    clients: usize,
    time_max: Duration,
    say: &mut dyn FnMut(String),
) {
    let began = Instant::now();
    let mut warmups = vec![Warmup::default(); open.len()];
    while began.elapsed() < time_max && !warmups.iter().all(Warmup::has_settled) {
        for ((arm, sessions), warmup) in arms.iter().zip(open).zip(&mut warmups) {
            let plan = Plan::new(clients, Limit::Time(WINDOW));
            let ops = run_closed(sessions, &plan).await.ops_per_second;
            say(format!("warming up: {}, {ops:.0} queries/s", arm.name()));
            warmup.on_window(ops);
        }
    }
}

/// Asks the nodes again and again until they have settled, that is, respond quickly; false if they have not
/// by then. A query that timed out at its client may still be running on the nodes.
pub(crate) async fn settle(
    time_max: Duration,
    quick: Duration,
    mut ask: impl AsyncFnMut(usize) -> bool,
) -> bool {
    let (began, mut in_a_row, mut number) = (Instant::now(), 0, 0);
    while in_a_row < QUICK_IN_A_ROW {
        let left = time_max.saturating_sub(began.elapsed());
        if left.is_zero() {
            return false;
        }
        let sent = Instant::now();
        let answered = tokio::time::timeout(left, ask(number)).await;
        let is_quick = matches!(answered, Ok(true)) && sent.elapsed() <= quick;
        in_a_row = if is_quick { in_a_row + 1 } else { 0 };
        number += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    true
}
