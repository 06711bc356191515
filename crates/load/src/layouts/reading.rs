//! Reads: checked, warmed up and measured.

use super::cells::Cell;
use super::experiment::{Contender, Layouts, Open, at};
use super::queries::{KINDS, Kind};
use super::reads::{Reader, Reads, WRONG};
use crate::arms::watched_with;
use crate::fill::{fill, pause_before};
use crate::measure::Phase;
use crate::report::Report;
use crate::run::{Limit, Plan, record_closed};
use anyhow::{Context, Result, anyhow, ensure};
use scylla::statement::Consistency;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One arm's turn in the warm-up before the first round.
const WARMUP_TURN: Duration = Duration::from_secs(1);
/// Clients that check all instances before the first round.
const CHECKING_CLIENTS: usize = 16;
/// For how long views may be behind.
const CATCH_UP: Duration = Duration::from_secs(120);
/// The nodes have settled when so many reads in a row have each taken no longer than [`QUICK`].
const QUICK_IN_A_ROW: usize = 20;
const QUICK: Duration = Duration::from_millis(100);

impl Layouts {
    pub(super) async fn reader(&self, arm: &Contender, level: Consistency) -> Result<Arc<Reader>> {
        let endpoint = at(&arm.arm.endpoint, level);
        Reader::open(&endpoint, &self.copies[arm.copies], &self.instances).await
    }

    /// All instances at ALL, so that later reads at ONE have no excuse. Views may be behind.
    pub(super) async fn check_answers(&self, say: &mut dyn FnMut(String)) -> Result<()> {
        for arm in &self.arms {
            let name = &arm.arm.endpoint.name;
            say(format!("checking all answers: {name}"));
            let reader = self.reader(arm, Consistency::All).await?;
            let count = self.instances.0.len() as u64;
            let began = Instant::now();
            for kind in Kind::ALL {
                let reader = reader.clone();
                let ask = move |number: u64| {
                    let reader = reader.clone();
                    async move {
                        loop {
                            match reader.ask(kind, number as usize).await {
                                Err(WRONG) if began.elapsed() < CATCH_UP => pause_before(1).await,
                                other => return other.map_err(|error| anyhow!(error)),
                            }
                        }
                    }
                };
                let asked = fill(count, CHECKING_CLIENTS, ask).await;
                asked.with_context(|| format!("{} of {name}", KINDS[kind as usize]))?;
            }
        }
        Ok(())
    }

    pub(super) async fn warm_up(&self, open: &[Open], say: &mut dyn FnMut(String)) -> Result<()> {
        let turns = self.warmup.as_secs_f64() / WARMUP_TURN.as_secs_f64();
        // Every arm as often as the others, with both queries.
        let turns = (turns.ceil() as usize).next_multiple_of(2 * open.len());
        for turn in 0..turns {
            let arm = turn % open.len();
            let name = &self.arms[arm].arm.endpoint.name;
            say(format!("warming up: {name}"));
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
        cell: &Cell,
        round: usize,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let (arm, name, of) = (&self.arms[arm].arm, cell.name(), self.rounds);
        let arm_name = &arm.endpoint.name;
        say(format!("round {}/{of}: {name}: {arm_name}", round + 1));
        let level = self.levels.iter().position(|&level| level == cell.level);
        let reader = level.and_then(|level| open.readers.get(level));
        let reads = Arc::new(Reads {
            reader: reader.context("no such consistency level")?.clone(),
            kind: cell.kind,
        });
        let plan = Plan {
            warmup: self.cell_warmup,
            // The same instances in the same order for every arm of a round.
            seed: self.seed.wrapping_add(round as u64),
            watched: watched_with(&self.watched, arm.proxy_pid),
            ..Plan::new(self.clients, Limit::Time(self.cell_time))
        };
        let recording = record_closed(&reads, &plan).await;
        let phase = recording.into_phase_at_cost(&KINDS, Some(self.time_out));
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
