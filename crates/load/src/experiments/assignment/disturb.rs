//! Reads in an open loop, without and with a fault of one node.

use super::declared::{Job, Load};
use super::experiment::{Assignment, Faults, Scenario};
use super::open::Open;
use crate::recording::Recording;
use crate::run::Plan;
use anyhow::Result;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::pin::pin;
use std::time::{Duration, Instant};

/// A node that stalls stands still for a time between these, and runs on for as long.
const STALL_SECONDS: std::ops::Range<f64> = 0.2..1.0;
/// Reads fill the page cache again: a table that is larger than it never fits.
const EVICT_EVERY: Duration = Duration::from_millis(250);

impl Assignment {
    /// For how long a cell of one node's fault, or of what that is compared with, is measured.
    pub(super) fn open_time(&self, job: &Job) -> Duration {
        match (job.scenario, job.load) {
            (Scenario::SlowNetwork | Scenario::SlowDisk, _) => self.cell_time,
            (_, Load::Fault) => 2 * self.around_freeze + self.freeze,
            _ => self.freeze,
        }
    }

    pub(super) async fn open_loop(
        &self,
        open: &Open,
        plan: &Plan,
        job: &Job,
        round: usize,
        faults: &mut dyn Faults,
    ) -> Result<Recording> {
        let rate = Some(self.rate_per_second);
        let reads = open.record(job.level, false, rate, plan);
        let has_fault = job.load == Load::Fault;
        match job.scenario {
            Scenario::SlowDisk => {
                faults.slow_disk(has_fault)?;
                let recording = self.without_cache(reads, faults).await;
                faults.slow_disk(false)?;
                recording
            }
            Scenario::SlowNetwork => {
                faults.slow_network(has_fault)?;
                let recording = reads.await;
                faults.slow_network(false)?;
                recording
            }
            _ if !has_fault => reads.await,
            scenario => {
                let fault = self.disturb(scenario, round, faults);
                let (recording, fault) = tokio::join!(reads, fault);
                fault?;
                if scenario == Scenario::Compacting {
                    faults.compact(&self.users.keyspace, false)?;
                }
                recording
            }
        }
    }

    /// While nodes find nothing of the table in the page cache but what they have just read.
    async fn without_cache(
        &self,
        reads: impl Future<Output = Result<Recording>>,
        faults: &mut dyn Faults,
    ) -> Result<Recording> {
        let mut reads = pin!(reads);
        loop {
            faults.evict(&self.users.keyspace)?;
            if let Ok(recording) = tokio::time::timeout(EVICT_EVERY, &mut reads).await {
                return recording;
            }
        }
    }

    /// One node's fault in the middle of the measured time.
    async fn disturb(
        &self,
        scenario: Scenario,
        round: usize,
        faults: &mut dyn Faults,
    ) -> Result<()> {
        tokio::time::sleep(self.cell_warmup + self.around_freeze).await;
        match scenario {
            Scenario::Compacting => {
                // The last compaction is waited for after the measurement: that blocks.
                faults.compact(&self.users.keyspace, true)
            }
            Scenario::Stalling => {
                let mut rng = ChaCha8Rng::seed_from_u64(self.seed.wrapping_add(round as u64));
                let until = Instant::now() + self.freeze;
                while Instant::now() < until {
                    let stall = Duration::from_secs_f64(rng.random_range(STALL_SECONDS));
                    faults.freeze()?;
                    tokio::time::sleep(stall).await;
                    faults.thaw()?;
                    tokio::time::sleep(stall).await;
                }
                Ok(())
            }
            _ => {
                faults.freeze()?;
                tokio::time::sleep(self.freeze).await;
                faults.thaw()
            }
        }
    }
}
