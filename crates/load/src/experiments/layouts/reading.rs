//! Reads: checked, warmed up and measured.

use super::cells;
use super::experiment::{Contender, Layouts, Open};
use super::queries::{KINDS, Kind};
use super::reads::{Reader, Reads, WRONG};
use crate::experiments::arms::watched_with;
use crate::measure::Phase;
use crate::report::Report;
use crate::report::figures::at_cost;
use crate::run::{Limit, Plan, record_closed};
use crate::workload::fill::{fill, pause_before};
use anyhow::{Context, Result, anyhow, ensure};
use scylla::statement::Consistency;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// One arm's turn in the warm-up before the first round.
const WARMUP_TURN: Duration = Duration::from_secs(1);
/// Clients that check instances before the first round.
const CHECKING_CLIENTS: usize = 8;
/// For how long views may be behind.
const CATCH_UP: Duration = Duration::from_secs(120);
/// The nodes have settled when so many reads in a row have each taken no longer than [`QUICK`].
const QUICK_IN_A_ROW: usize = 20;
const QUICK: Duration = Duration::from_millis(100);

impl Layouts {
    pub(super) async fn reader(&self, arm: &Contender, level: Consistency) -> Result<Arc<Reader>> {
        let endpoint = arm.arm.endpoint.at(level);
        Reader::open(&endpoint, &self.copies[arm.copies], &self.instances).await
    }

    /// All instances at ALL, so that later reads at ONE have no excuse; of an arm that takes long, as many as
    /// it answers in [`Layouts::check_time`]. Views may be behind.
    pub(super) async fn check_answers(
        &self,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        for (number, arm) in self.arms.iter().enumerate() {
            let (name, of) = (&arm.arm.endpoint.name, self.arms.len());
            say(format!("checking answers: {name}, {}/{of}", number + 1));
            let reader = self.reader(arm, Consistency::All).await?;
            for kind in Kind::ALL {
                let checked = self.ask_all(&reader, kind).await;
                let query = KINDS[kind as usize];
                let checked = checked.with_context(|| format!("{query} of {name}"))?;
                let all = self.instances.0.len();
                if checked < all {
                    report.notes.push(format!(
                        "Before the rounds {name} was asked {checked} of the {all} instances of {query} at \
                         ALL: it is too slow for more."
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns how many instances were answered, and rightly.
    async fn ask_all(&self, reader: &Arc<Reader>, kind: Kind) -> Result<usize> {
        let (began, time) = (Instant::now(), self.check_time);
        let right = Arc::new(AtomicUsize::new(0));
        let (of_reader, of_right) = (reader.clone(), right.clone());
        let ask = move |number: u64| {
            let (reader, right) = (of_reader.clone(), of_right.clone());
            async move {
                // One for each client in any case.
                if number >= CHECKING_CLIENTS as u64 && began.elapsed() >= time {
                    return Ok(());
                }
                loop {
                    match reader.ask(kind, number as usize).await {
                        Ok(()) => {
                            right.fetch_add(1, Ordering::Relaxed);
                            return Ok(());
                        }
                        Err(WRONG) if began.elapsed() < CATCH_UP => pause_before(1).await,
                        Err(WRONG) => return Err(anyhow!(WRONG)),
                        // Slow is not wrong.
                        Err(_) if began.elapsed() >= time => return Ok(()),
                        Err(error) => return Err(anyhow!(error)),
                    }
                }
            }
        };
        fill(self.instances.0.len() as u64, CHECKING_CLIENTS, ask).await?;
        Ok(right.load(Ordering::Relaxed))
    }

    pub(super) async fn warm_up(&self, open: &[Open], say: &mut dyn FnMut(String)) -> Result<()> {
        let turns = self.warmup.as_secs_f64() / WARMUP_TURN.as_secs_f64();
        // Every arm as often as the others, with both queries.
        let turns = (turns.ceil() as usize).next_multiple_of(2 * open.len());
        for turn in 0..turns {
            let arm = turn % open.len();
            let (name, left) = (&self.arms[arm].arm.endpoint.name, turns - turn);
            say(format!("warming up: {name} ({left} s left)"));
            let reads = Reads {
                reader: open[arm].readers[0].clone(),
                kind: Kind::ALL[turn / open.len() % 2],
            };
            let plan = Plan::new(self.clients, Limit::Time(WARMUP_TURN));
            let recording = record_closed(&Arc::new(reads), &plan).await;
            right(&recording.into_phase(&KINDS), name)?;
        }
        Ok(())
    }

    pub(super) async fn read(
        &self,
        arm: usize,
        open: &Open,
        cell: &cells::Reads,
        round: usize,
        report: &mut Report,
    ) -> Result<()> {
        let (arm, name) = (&self.arms[arm].arm, cell.name());
        let arm_name = &arm.endpoint.name;
        let level = self.levels.iter().position(|&level| level == cell.level);
        let reader = level.and_then(|level| open.readers.get(level));
        let reads = Arc::new(Reads {
            reader: reader.context("no such consistency level")?.clone(),
            kind: cell.kind,
        });
        let mut plan = Plan {
            warmup: self.cell_warmup,
            // Every arm of a round gets the same instances in the same order.
            seed: self.seed.wrapping_add(round as u64),
            watched: watched_with(&self.watched, arm.proxy_pid),
            ..Plan::new(self.clients, Limit::Time(self.cell_time))
        };
        let time_out = Some(self.time_out);
        let recording = record_closed(&reads, &plan).await;
        let mut phase = recording.into_phase_at_cost(&KINDS, time_out);
        if at_cost::MEAN_MS.of(&phase).is_none() {
            // The queries of the warm-up took longer than the cell.
            plan.warmup = Duration::ZERO;
            let recording = record_closed(&reads, &plan).await;
            phase = recording.into_phase_at_cost(&KINDS, time_out);
        }
        right(&phase, arm_name)?;
        report.add(arm_name, &name, phase);
        Ok(())
    }

    /// Waits until reads sent straight to the nodes are quick again.
    pub(super) async fn settle(&self, direct: &Open, report: &mut Report) {
        let (began, mut quick) = (Instant::now(), 0);
        let mut number = 0;
        while quick < QUICK_IN_A_ROW {
            let left = self.settle_max.saturating_sub(began.elapsed());
            if left.is_zero() {
                let limit = self.settle_max.as_secs_f64();
                let note = format!("After a pause the nodes had not settled within {limit} s.");
                if !report.notes.contains(&note) {
                    report.notes.push(note);
                }
                return;
            }
            number = (number + 1) % self.instances.0.len();
            let sent = Instant::now();
            let answered =
                tokio::time::timeout(left, direct.readers[0].ask(Kind::Q1, number)).await;
            let is_quick = matches!(answered, Ok(Ok(()))) && sent.elapsed() <= QUICK;
            quick = if is_quick { quick + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn right(phase: &Phase, arm: &str) -> Result<()> {
    let wrong = phase.errors.get(WRONG).copied().unwrap_or(0);
    ensure!(wrong == 0, "{arm} has given {wrong} wrong answers");
    Ok(())
}
