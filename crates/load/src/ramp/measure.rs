//! One window of a ramp.

use super::evidence::{Probe, Use};
use super::pools::Pools;
use crate::interleaved::{LoadModel, record};
use crate::measure::Phase;
use crate::run::{Limit, Plan, Progress};
use crate::workload::Workload;
use std::sync::Arc;
use std::time::Duration;

/// The windows of a ramp: their probes and their length.
#[derive(Debug)]
pub struct Windows {
    pub probe: Probe,
    /// None if the nodes cannot be asked.
    pub pools: Option<Pools>,
    /// Measured.
    pub time: Duration,
    /// Before it, at the same load; not measured.
    pub warmup: Duration,
    pub progress: Arc<Progress>,
}

impl Windows {
    /// Measures one window and returns what was in use. In an open loop `clients` are only the
    /// sessions that are used in turn.
    pub async fn measure<W: Workload>(
        &self,
        workload: &Arc<W>,
        load: LoadModel,
        clients: usize,
        seed: u64,
    ) -> (Phase, Vec<Use>) {
        let mut plan = Plan::new(clients, Limit::Time(self.time));
        plan.warmup = self.warmup;
        plan.seed = seed;
        plan.watched = self.probe.watched.clone();
        plan.progress = self.progress.clone();
        // Discards the samples of an earlier window.
        self.take_pools();
        let mark = self.probe.mark();
        let phase = record(workload, load, &plan)
            .await
            .into_phase(&workload.kinds());
        let mut uses = self.probe.since(&mark, &phase);
        uses.extend(self.take_pools());
        (phase, uses)
    }

    fn take_pools(&self) -> Vec<Use> {
        self.pools.as_ref().map(Pools::take).unwrap_or_default()
    }
}
