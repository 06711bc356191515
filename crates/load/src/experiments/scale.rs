//! The experiment `scale`: what further nodes bring, and what their joining costs.
//!
//! - **Cells**: half reads, half writes of a key-value table from 10, 40, 100 and 400 clients in a
//!   closed loop, with one node, then with each further one. The arms take turns in slices within a
//!   round, in an order that rotates, so drift affects them alike.
//! - **Joins**: a node joins only once, so both arms run *side by side*, with the same number of
//!   clients each; they compete for the nodes. Percentiles are of single seconds: the *steady* ones
//!   before the join, and those from the start of the new node's process until it is ready and
//!   [`Scale::settling`] has passed.
//! - **Knee**: a [ramp](crate::ramp) through Helenus with one node, against the highest throughput
//!   of a grid of loads, each measured in every round.
//!
//! Sessions stay open from the first cell to the last, so new nodes are noticed as an application's
//! driver would notice them.

use crate::experiments::arms::watched_with;
use crate::experiments::prepare;
use crate::interleaved::{Interleaved, LoadModel};
use crate::process::Watched;
use crate::ramp::capacity::{Capacity, Unit, UsesByLoad};
use crate::ramp::evidence::Probe;
use crate::ramp::measure::Windows;
use crate::ramp::search::{Policy, Search};
use crate::ramp::steps::{Limits, Window};
use crate::report::Report;
use crate::workload::kv::Mix;
use anyhow::{Context, Result};
use std::sync::Arc;

mod declared;
mod experiment;
mod join;

pub use crate::experiments::arms::{HELENUS, TOKEN_AWARE};
use declared::grid_cell;
pub use experiment::{Scale, Sessions};

const WARMUP_CLIENTS: usize = 32;

impl Scale {
    /// Creates and fills the table.
    pub async fn prepare(&self, say: &mut dyn FnMut(String)) -> Result<Vec<Sessions>> {
        prepare::open_table(&self.arms, &self.table, None, Mix::of_reads(0.5), say).await
    }

    /// All arms in turn, until throughput no longer rises by itself.
    pub async fn warm_up(&self, open: &[Sessions], say: &mut dyn FnMut(String)) {
        prepare::warm_up(&self.arms, open, WARMUP_CLIENTS, self.warmup_max, say).await;
    }

    /// The cells with so many nodes.
    pub async fn cells(
        &self,
        open: &[Sessions],
        nodes: usize,
        watched: &[Watched],
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let experiment = self.declared(nodes, watched);
        let measured = experiment.measure(report, say, async |cell, round, report, say| {
            let plan = Interleaved::closed(cell.job, self.cell_time, self.slices, self.seed);
            let sessions = |arm: usize| open[arm].clone();
            let phases = experiment.in_slices(&plan, cell, round, sessions, report, say);
            phases.await
        });
        measured.await
    }

    /// Ramps the last arm, then measures the grid of loads; both with one node.
    pub async fn knee(
        &self,
        open: &[Sessions],
        watched: &[Watched],
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<Capacity> {
        let (arm, sessions) = self
            .arms
            .iter()
            .zip(open)
            .find(|(arm, _)| arm.name() == HELENUS)
            .context("there is no arm of Helenus")?;
        let windows = Windows {
            probe: Probe::new(watched_with(watched, arm.proxy_pid)),
            pools: None,
            time: self.window,
            warmup: self.window / 5,
            progress: Arc::default(),
        };
        let limits = Limits {
            latency_us_p99_max: None,
            error_share_max: 0.001,
            achieved_share_min: None,
        };
        let most = self.grid.iter().max().copied().unwrap_or(512) as u64;
        let mut search = Search::new(Policy::new(1, most, limits));
        let mut uses = UsesByLoad::new();
        let mut seed = self.seed;
        while let Some(load) = search.poll_load() {
            seed = seed.wrapping_add(1);
            let measured = windows.measure(sessions, LoadModel::Closed, load as usize, seed);
            let (phase, used) = measured.await;
            let ops = phase.ops_per_second;
            say(format!("ramp: {load} clients, {ops:.0} queries/s"));
            search.on_window(load, Window::of(&phase));
            uses.entry(load).or_default().push(used);
        }
        let capacity = Capacity::of(&search, Unit::Clients, &uses, Some(1), None);
        let mut grid = self.grid.clone();
        // Measured again beside the grid, so that drift since the ramp can be told from its error.
        grid.extend(capacity.knee.as_ref().map(|knee| knee.load as usize));
        grid.sort_unstable();
        grid.dedup();
        for round in 0..self.rounds.max(3) {
            for turn in crate::report::spread::rotation(grid.len(), round) {
                let clients = grid[turn];
                seed = seed.wrapping_add(1);
                let measured = windows.measure(sessions, LoadModel::Closed, clients, seed);
                let (phase, _) = measured.await;
                say(format!("grid: {clients} clients"));
                report.add(HELENUS, &grid_cell(clients), phase);
            }
        }
        Ok(capacity)
    }
}

#[cfg(test)]
mod tests;
