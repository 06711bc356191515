//! One arm's turn in one of these cells.

use super::queries::{FurtherPattern, FurtherQueries};
use super::{Further, FurtherCell};
use crate::experiments::arms::watched_with;
use crate::experiments::scheduling::experiment::Scheduling;
use crate::experiments::scheduling::mix::Mix;
use crate::experiments::scheduling::open::{Open, limit};
use crate::experiments::scheduling::queries::QueryPattern;
use crate::measure::Phase;
use crate::recording::Recording;
use crate::report::Report;
use crate::run::{Limit, Plan, record_closed, record_open};
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// How long long work runs alone before what is sent beside it.
const LEAD: Duration = Duration::from_secs(2);
/// An open loop takes the driver's sessions in turn.
const OPEN_CLIENTS: usize = 64;
/// Scans of wide partitions with one client; with more clients it grows with the square root of their
/// number.
const WIDE_SCANS: u64 = 100;
/// Queries of each pattern by which an arm is warmed up, and their clients.
const WARMUP_QUERIES: u64 = 24;
const WARMUP_CLIENTS: usize = 4;

impl Scheduling {
    /// The rate of an open loop in this round. `None` for other cells.
    pub(in crate::experiments::scheduling) async fn open_rate(
        &self,
        open: &Open,
        cell: FurtherCell,
        round: usize,
        report: &mut Report,
    ) -> Result<Option<f64>> {
        let (FurtherCell::OpenLoop(mix), Some(further)) = (cell, &self.further) else {
            return Ok(None);
        };
        let queries = self.queries(open, 0, QueryPattern::Mixed(mix), round as u64);
        let limit = Limit::Time(further.capacity_time);
        let recording = record_closed(&queries, &Plan::new(further.capacity_clients, limit)).await;
        let phase = self.phase(recording);
        let per_second = phase.ops_per_second;
        ensure!(per_second > 0.0, "the direct driver gets no answers");
        let name = format!("{mix}, {} clients, capacity", further.capacity_clients);
        report.add(&self.arms[0].endpoint.name, &name, phase);
        Ok(Some(per_second * further.open_share))
    }

    pub(in crate::experiments::scheduling) async fn measure_further(
        &self,
        arm: usize,
        open: &Open,
        cell: FurtherCell,
        round: usize,
        report: &mut Report,
    ) -> Result<Recording> {
        let further = self.further.as_ref().context("no further cells")?;
        let plan = |clients, limit| Plan {
            watched: watched_with(&self.watched, self.arms[arm].proxy_pid),
            ..Plan::new(clients, limit)
        };
        let timed = |clients| plan(clients, Limit::Time(further.time));
        let own = |pattern| self.further_queries(open, arm, pattern, round as u64);
        let common = |mix| self.queries(open, arm, QueryPattern::Mixed(mix), round as u64);
        let beside = |clients| Plan::new(clients, Limit::Time(LEAD + further.time));
        let (recording, background) = match cell {
            FurtherCell::LargeReads => {
                let (readers, points) = (own(FurtherPattern::LargeReads)?, common(Mix::POINTS));
                let (readers_plan, points_plan) = (beside(further.readers), timed(OPEN_CLIENTS));
                let (readers, points) = tokio::join!(
                    record_closed(&readers, &readers_plan),
                    later(record_open(
                        &points,
                        further.points_per_second,
                        &points_plan
                    ))
                );
                (points, Some(readers))
            }
            FurtherCell::LookUps => {
                let (scans, look_ups) = (common(Mix::SCANS), own(FurtherPattern::LookUps)?);
                let (scans_plan, look_ups_plan) = (beside(further.scanners), timed(OPEN_CLIENTS));
                let rate = further.look_ups_per_second;
                let (scans, look_ups) = tokio::join!(
                    record_closed(&scans, &scans_plan),
                    later(record_open(&look_ups, rate, &look_ups_plan))
                );
                (look_ups, Some(scans))
            }
            FurtherCell::WideScans(clients) => {
                let limit = limit(WIDE_SCANS * clients.isqrt() as u64, self.cell_time);
                let scans = own(FurtherPattern::WideScans)?;
                (record_closed(&scans, &plan(clients, limit)).await, None)
            }
            FurtherCell::OpenLoop(mix) => {
                let rate = open.rate.context("no rate for an open loop")?;
                (
                    record_open(&common(mix), rate, &timed(OPEN_CLIENTS)).await,
                    None,
                )
            }
        };
        if let (Some(name), Some(background)) = (further.beside_name(cell), background) {
            let arm = &self.arms[arm].endpoint.name;
            report.add(arm, &name, self.phase(background));
        }
        Ok(recording)
    }

    /// Every arm gets the same few queries before the first round.
    pub(in crate::experiments::scheduling) async fn warm_up_further(
        &self,
        open: &Open,
        arm: usize,
    ) -> Result<Vec<Phase>> {
        let mut phases = Vec::new();
        for cell in self.further.iter().flat_map(Further::cells) {
            if let Some(pattern) = FurtherPattern::of(cell)
                && self.kinds.contains(&cell.kind())
            {
                let queries = self.further_queries(open, arm, pattern, u64::MAX)?;
                let plan = Plan::new(WARMUP_CLIENTS, Limit::Ops(WARMUP_QUERIES));
                phases.push(self.phase(record_closed(&queries, &plan).await));
            }
        }
        Ok(phases)
    }

    fn further_queries(
        &self,
        open: &Open,
        arm: usize,
        pattern: FurtherPattern,
        round: u64,
    ) -> Result<Arc<FurtherQueries>> {
        let further = open.further.as_ref().context("no tables for these cells")?;
        let (contents, statements) = further;
        Ok(Arc::new(FurtherQueries {
            sessions: open.sessions[arm].clone(),
            statements: statements[arm].clone(),
            index: open.index.clone(),
            contents: contents.clone(),
            pattern,
            time_out: self.time_out,
            seed: self.seed.wrapping_add(round),
            next: AtomicU64::new(0),
        }))
    }
}

async fn later<T>(what: impl Future<Output = T>) -> T {
    tokio::time::sleep(LEAD).await;
    what.await
}
