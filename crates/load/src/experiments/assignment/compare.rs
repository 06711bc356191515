//! Ratios of the experiment.

use super::cells::{Cell, Job};
use super::experiment::{Assignment, Scenario};
use super::figures::{RANK_CORRELATION, SECOND_ATTEMPTS, SENT_TO_NODES};
use crate::experiments::arms::{JAVA, ROUND_ROBIN, TOKEN_AWARE, per_round, ratio_key};
use crate::measure::{Latency, Phase};
use crate::report::Report;

/// The documented keys.
pub const ASSIGNMENT_KEYS: [&str; 12] = [
    "idle_vs_best_arm",
    "stressed_throughput_vs_best_direct",
    "stressed_p99_vs_best_direct",
    "stressed_client_errors",
    "frozen_node_p99_raise_ms",
    "stalling_node_p99_raise_ms",
    "compacting_node_p99_raise_ms",
    "slow_node_p99_vs_healthy",
    "slow_disk_p99_vs_healthy",
    "prediction_rank_correlation",
    "hedge_extra_load",
    "frozen_hedge_extra_load",
];
const DIRECT: [&str; 3] = [TOKEN_AWARE, ROUND_ROBIN, JAVA];

/// Of the reads, if there are any, or else of the scans. Failures count with the client's time-out.
pub fn latency(phase: &Phase) -> Option<Latency> {
    let mut kinds = phase.by_kind.values();
    let used = kinds.find(|kind| kind.ops + kind.failed > 0)?;
    used.with_failures
}

fn throughput(phase: &Phase) -> Option<f64> {
    Some(phase.ops_per_second)
}

fn p99_ms(phase: &Phase) -> Option<f64> {
    Some(latency(phase)?.us_p99 as f64 / 1000.0)
}

type Quantity = fn(&Phase) -> Option<f64>;

impl Assignment {
    pub(super) fn compare(&self, report: &mut Report) {
        let stressed = self.used(Scenario::Stressed);
        for arm in &self.arms {
            let arm = &*arm.endpoint.name;
            let is_direct = DIRECT.contains(&arm);
            let set = |report: &mut Report, key: &str, values: Vec<f64>| {
                report.set_ratio(ratio_key(arm, key), &values);
            };
            if !is_direct {
                let others = |name: &str| name != arm;
                let mut idle = self.used(Scenario::Idle);
                idle.retain(|cell| cell.job != Job::Mixed);
                let values = self.against_best(report, arm, &idle, others, throughput);
                set(report, "idle_vs_best_arm", values);
                let direct = |name: &str| DIRECT.contains(&name);
                let values = self.against_best(report, arm, &stressed, direct, throughput);
                set(report, "stressed_throughput_vs_best_direct", values);
                let values = self.against_best(report, arm, &stressed, direct, p99_inverse);
                let values = values.iter().map(|ratio| 1.0 / ratio).collect();
                set(report, "stressed_p99_vs_best_direct", values);
            }
            let errors = self.errors(report, arm, &stressed);
            set(report, "stressed_client_errors", errors);
            let scenarios = self.scenarios.iter();
            let all: Vec<Cell> = scenarios.flat_map(|&of| self.cells(of)).collect();
            let errors = self.errors(report, arm, &all);
            set(report, "client_errors", errors);
            for (scenario, key) in [
                (Scenario::Frozen, "frozen_node_p99_raise_ms"),
                (Scenario::Stalling, "stalling_node_p99_raise_ms"),
                (Scenario::Compacting, "compacting_node_p99_raise_ms"),
            ] {
                let raise = self.worst_level(report, arm, scenario, |with, before| with - before);
                set(report, key, raise);
            }
            for (scenario, key) in [
                (Scenario::Idle, "hedge_extra_load"),
                (Scenario::Frozen, "frozen_hedge_extra_load"),
            ] {
                set(report, key, self.hedged(report, arm, scenario));
            }
            set(report, RANK_CORRELATION, self.correlations(report, arm));
            for (scenario, key) in [
                (Scenario::SlowNetwork, "slow_node_p99_vs_healthy"),
                (Scenario::SlowDisk, "slow_disk_p99_vs_healthy"),
            ] {
                let ratio = self.worst_level(report, arm, scenario, |with, before| with / before);
                set(report, key, ratio);
            }
        }
    }

    /// The cells of a scenario, if it is part of the run.
    fn used(&self, scenario: Scenario) -> Vec<Cell> {
        match self.scenarios.contains(&scenario) {
            true => self.cells(scenario),
            false => Vec::new(),
        }
    }

    fn value(
        &self,
        report: &Report,
        arm: &str,
        cell: &Cell,
        round: usize,
        of: Quantity,
    ) -> Option<f64> {
        of(report.phases(arm, &cell.name(self)).get(round)?)
    }

    /// For each round, the geometric mean over the cells of `of(arm)` over the greatest of others.
    fn against_best(
        &self,
        report: &Report,
        arm: &str,
        cells: &[Cell],
        is_other: impl Fn(&str) -> bool,
        of: Quantity,
    ) -> Vec<f64> {
        per_round(self.rounds, cells, |cell, round| {
            let names = self.arms.iter().map(|arm| &*arm.endpoint.name);
            let others = names.filter(|name| is_other(name));
            let best = others
                .filter_map(|name| self.value(report, name, cell, round, of))
                .reduce(f64::max)?;
            Some(self.value(report, arm, cell, round, of)? / best)
        })
    }

    /// In each round, over all cells that were measured.
    fn errors(&self, report: &Report, arm: &str, cells: &[Cell]) -> Vec<f64> {
        let count = |round| {
            let each = cells.iter().filter_map(|cell| {
                self.value(report, arm, cell, round, |phase| {
                    Some(phase.errors_total() as f64)
                })
            });
            each.reduce(|sum, errors| sum + errors)
        };
        (0..self.rounds).filter_map(count).collect()
    }

    /// Second attempts ÷ requests sent to nodes, in each round over the cells of a scenario.
    fn hedged(&self, report: &Report, arm: &str, scenario: Scenario) -> Vec<f64> {
        let cells = self.used(scenario);
        let sum = |round, figure: Quantity| {
            let values = cells.iter();
            let values = values.filter_map(|cell| self.value(report, arm, cell, round, figure));
            values.reduce(|sum, value| sum + value)
        };
        let share = |round| {
            let hedged = sum(round, |phase| phase.extra.get(SECOND_ATTEMPTS).copied())?;
            let sent = sum(round, |phase| phase.extra.get(SENT_TO_NODES).copied())?;
            (sent > 0.0).then_some(hedged / sent)
        };
        (0..self.rounds).filter_map(share).collect()
    }

    fn correlations(&self, report: &Report, arm: &str) -> Vec<f64> {
        let mut cells = self.used(Scenario::Idle);
        cells.retain(|cell| cell.job == Job::Mixed);
        let of_cell = |cell: &Cell| report.phases(arm, &cell.name(self));
        let phases = cells.iter().flat_map(of_cell);
        let values = phases.filter_map(|phase| phase.extra.get(RANK_CORRELATION).copied());
        values.collect()
    }

    /// Effect of a fault on the 99th percentile, in milliseconds with and before it: for each round
    /// the greatest over the consistency levels.
    fn worst_level(
        &self,
        report: &Report,
        arm: &str,
        scenario: Scenario,
        of: impl Fn(f64, f64) -> f64,
    ) -> Vec<f64> {
        let cells = self.used(scenario);
        let of_level = |level: usize, round: usize| {
            let p99 = |is_before: bool| {
                let is_wanted =
                    |cell: &&Cell| cell.level == level && (cell.job == Job::Steady) == is_before;
                let cell = cells.iter().find(is_wanted)?;
                self.value(report, arm, cell, round, p99_ms)
            };
            Some(of(p99(false)?, p99(true)?))
        };
        let of_round = |round| {
            let levels = (0..self.levels.len()).filter_map(|level| of_level(level, round));
            levels.reduce(f64::max)
        };
        (0..self.rounds).filter_map(of_round).collect()
    }
}

/// Greater is better, as with throughput.
fn p99_inverse(phase: &Phase) -> Option<f64> {
    Some(1.0 / p99_ms(phase)?)
}
