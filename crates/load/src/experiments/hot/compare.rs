//! Ratios of the experiment.

use super::cells::{Cell, Load};
use super::experiment::{FIRST_REPLICA, Hot};
use super::reads::KINDS;
use crate::experiments::arms::{ROUND_ROBIN, TOKEN_AWARE, per_round, ratio_key};
use crate::measure::Phase;
use crate::report::Report;

/// The documented keys.
pub const HOT_KEYS: [&str; 6] = [
    "hot_key_vs_direct",
    "hot_key_vs_token_aware",
    "hot_key_vs_round_robin",
    "hot_other_keys_p99",
    "hot_other_keys_p99_vs_token_aware",
    "client_errors",
];

/// The 99th percentile of the reads of keys that are not hot, in milliseconds.
pub(super) fn others_p99_ms(phase: &Phase) -> Option<f64> {
    let others = phase.by_kind.get(KINDS[1])?;
    (others.ops > 0).then_some(others.latency.us_p99 as f64 / 1000.0)
}

impl Hot {
    pub(super) fn compare(&self, report: &mut Report) {
        for arm in &self.arms {
            let arm = &*arm.endpoint.name;
            let set = |report: &mut Report, key: &str, values: &[f64]| {
                report.set_ratio(ratio_key(arm, key), values);
            };
            for (key, other) in [
                ("hot_key_vs_direct", FIRST_REPLICA),
                ("hot_key_vs_token_aware", TOKEN_AWARE),
                ("hot_key_vs_round_robin", ROUND_ROBIN),
            ] {
                if arm != other {
                    set(report, key, &self.throughput_over(report, arm, other));
                }
            }
            set(report, "hot_other_keys_p99", &self.raise(report, arm));
            if arm != TOKEN_AWARE {
                let values = self.p99_over(report, arm, TOKEN_AWARE);
                set(report, "hot_other_keys_p99_vs_token_aware", &values);
            }
            set(report, "client_errors", &self.errors(report, arm));
        }
    }

    fn phase<'r>(
        &self,
        report: &'r Report,
        arm: &str,
        cell: Cell,
        round: usize,
    ) -> Option<&'r Phase> {
        report.phases(arm, &cell.name()).get(round)
    }

    /// With the hot key, for each round, over the numbers of clients.
    fn throughput_over(&self, report: &Report, arm: &str, other: &str) -> Vec<f64> {
        let closed: Vec<Load> = self.loads().filter(|load| *load != Load::Open).collect();
        per_round(self.rounds, &closed, |load, round| {
            let cell = Cell {
                load: *load,
                is_hot: true,
            };
            let of = |arm| Some(self.phase(report, arm, cell, round)?.ops_per_second);
            Some(of(arm)? / of(other).filter(|ops| *ops > 0.0)?)
        })
    }

    /// The factor by which the hot key raises the others' 99th percentile, at the same rate.
    fn raise(&self, report: &Report, arm: &str) -> Vec<f64> {
        let of_round = |round| {
            let p99 = |is_hot| {
                let load = Load::Open;
                others_p99_ms(self.phase(report, arm, Cell { load, is_hot }, round)?)
            };
            Some(p99(true)? / p99(false)?)
        };
        (0..self.rounds).filter_map(of_round).collect()
    }

    /// The others' 99th percentile beside the hot key, over that of another arm.
    fn p99_over(&self, report: &Report, arm: &str, other: &str) -> Vec<f64> {
        let cell = Cell {
            load: Load::Open,
            is_hot: true,
        };
        let of_round = |round| {
            let of = |arm| others_p99_ms(self.phase(report, arm, cell, round)?);
            Some(of(arm)? / of(other)?)
        };
        (0..self.rounds).filter_map(of_round).collect()
    }

    fn errors(&self, report: &Report, arm: &str) -> Vec<f64> {
        let of_round = |round| {
            let cells = self.cells();
            let phases = cells
                .iter()
                .filter_map(|cell| self.phase(report, arm, *cell, round));
            phases.map(|phase| phase.errors_total() as f64).sum()
        };
        (0..self.rounds).map(of_round).collect()
    }
}
