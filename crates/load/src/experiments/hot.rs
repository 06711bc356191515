//! The experiment `hot`: one key that gets most of the reads, on nodes that all have it.
//!
//! - **Cells.** Reads at ONE of a key-value table: `hot`, with 80 % for one key and the rest spread evenly
//!   over all others, and `even`, as many reads without a hot key. In a closed loop with so many clients,
//!   which shows how much is served; and in an open one, at the same rate with and without the hot key, which
//!   shows what readers of the other keys notice.
//! - **Arms.** A driver that always asks the first replica of a key, as one that keeps a fixed order does
//!   ([`FIRST_REPLICA`]); one that asks the replicas in turn; one that asks all nodes in turn; Helenus, and
//!   Helenus without some of what it does about hot keys.
//! - **Alike for all arms.** The same table, driver, keys and warm-up. The arms take turns in slices, in an
//!   order that rotates. The rate of the open loop is a share of what the token-aware driver reaches in a
//!   closed one without a hot key, measured once before the first round, so all of the nodes could serve it.
//! - **Failures** are counted, and are not in the percentiles.

use crate::experiments::arms::{Arm, TOKEN_AWARE, describe};
use crate::experiments::prepare::{open_table, turns};
use crate::interleaved::{Interleaved, LoadModel};
use crate::report::Report;
use crate::run::{Limit, Plan, run_closed};
use crate::workload::kv::Mix;
use anyhow::{Context, Result, ensure};
use declared::Job;
use reads::HotReads;
use scylla::statement::Consistency;
use std::sync::Arc;
use std::time::Duration;

mod declared;
mod experiment;
mod reads;
#[cfg(test)]
mod tests;

pub use declared::HOT_KEYS;
pub use experiment::{FIRST_REPLICA, Hot, Rate, Sessions};

/// Clients of warm-up and calibration.
const WARMUP_CLIENTS: usize = 64;
const WARMUP_TURN: Duration = Duration::from_secs(1);

impl Hot {
    /// Creates and fills the table, and opens the sessions of all arms.
    pub async fn prepare(&self, say: &mut dyn FnMut(String)) -> Result<Vec<Sessions>> {
        let has = |name: &str| self.arms.iter().map(Arm::name).any(|arm| arm == name);
        ensure!(
            has(FIRST_REPLICA) && has(TOKEN_AWARE),
            "{FIRST_REPLICA} and {TOKEN_AWARE} must take part"
        );
        // Reads at ONE find the rows on any replica.
        let everywhere = Some(Consistency::All);
        open_table(&self.arms, &self.table, everywhere, Mix::READS, say).await
    }

    /// Warms all arms up alike, runs all rounds and fills `report`.
    pub async fn run(
        &self,
        open: &[Sessions],
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        self.warm_up(open, say).await;
        let rate = self.calibrate(open, say).await?;
        self.describe(report, rate);
        let experiment = self.declared();
        let measured = experiment.run(report, say, async |cell, round, report, say| {
            let plan = self.interleaved(&cell.job, rate);
            let reads = |arm: usize| self.reads(&open[arm], cell.job.is_hot);
            let phases = experiment.in_slices(&plan, cell, round, reads, report, say);
            phases.await
        });
        measured.await
    }

    /// Every arm as often as the others, with the hot key and without.
    async fn warm_up(&self, open: &[Sessions], say: &mut dyn FnMut(String)) {
        for (arm, before) in turns(self.warmup, WARMUP_TURN, open.len(), 2) {
            let reads = self.reads(&open[arm], before % 2 == 1);
            let plan = Plan::new(WARMUP_CLIENTS, Limit::Time(WARMUP_TURN));
            let phase = run_closed(&reads, &plan).await;
            let (name, ops) = (self.arms[arm].name(), phase.ops_per_second);
            say(format!("warming up: {name}, {ops:.0} reads/s"));
        }
    }

    /// Reads per second of the open loop.
    async fn calibrate(&self, open: &[Sessions], say: &mut dyn FnMut(String)) -> Result<f64> {
        let share = match self.rate {
            Rate::PerSecond(rate) => return Ok(rate),
            Rate::Share(share) => share,
        };
        say("measuring what the nodes can do".to_owned());
        let mut arms = self.arms.iter().zip(open);
        let (_, sessions) = arms
            .find(|(arm, _)| arm.name() == TOKEN_AWARE)
            .context("there is no token-aware arm")?;
        let plan = Plan::new(WARMUP_CLIENTS, Limit::Time(2 * WARMUP_TURN));
        let phase = run_closed(&self.reads(sessions, false), &plan).await;
        ensure!(
            phase.ops_per_second > 0.0,
            "no read of the calibration was answered: {:?}",
            phase.errors
        );
        Ok((share * phase.ops_per_second).max(1.0))
    }

    fn reads(&self, sessions: &Sessions, is_hot: bool) -> Arc<HotReads> {
        let share = if is_hot { self.hot_share } else { 0.0 };
        Arc::new(HotReads::new(sessions, self.table.keys, share))
    }

    fn interleaved(&self, job: &Job, rate: f64) -> Interleaved {
        let (clients, load) = match job.clients {
            Some(clients) => (clients, LoadModel::Closed),
            None => (1, LoadModel::Open(rate)),
        };
        Interleaved {
            clients,
            load,
            time: self.cell_time,
            slices: self.slices,
            // Long enough to see that a key is hot.
            warmup_first: Duration::from_secs(1),
            warmup: Duration::from_millis(500),
            seed: self.seed,
            progress: Arc::default(),
        }
    }

    fn describe(&self, report: &mut Report, rate: f64) {
        let settings = [
            ("rows", self.table.keys.to_string()),
            ("bytes of a value", self.table.value_bytes.to_string()),
            ("share of the hot key", self.hot_share.to_string()),
            ("reads per second in the open loop", format!("{rate:.0}")),
            ("seconds per cell", self.cell_time.as_secs_f64().to_string()),
        ];
        let (endpoint, replication) = (&self.arms[0].endpoint, self.table.replication);
        describe(report, endpoint, replication, self.seed, settings);
        report.notes.push(
            "What other keys notice is measured in an open loop, at the same rate with and without the hot \
             key; all nodes together could serve it if they shared it evenly. A closed loop shows how much \
             is served."
                .into(),
        );
    }
}
