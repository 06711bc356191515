//! Ratios of the experiment.

use super::cells::{Cell, DISK, DISK_BYTES, SYNTHETIC, WRITES};
use super::experiment::Layouts;
use super::queries::{KINDS, Kind};
use super::synthetic::{CALIBRATED, RANK_CORRELATION, REPEATED};
use super::tables::Form;
use crate::experiments::arms::{TOKEN_AWARE, ratio_key};
use crate::measure::{Latency, Phase};
use crate::report::Report;
use scylla::statement::Consistency;

/// Names of arms that ask the nodes directly, beside the best single layout.
pub const DECLARED: &str = "direct-declared";
pub const SAI: &str = "direct-sai";
pub const VIEWS: &str = "direct-views";
pub const HAND_COPIED: &str = "direct-hand-copied";
/// Arms with derived layouts: beside all replicas of the table, and in place of one of them.
pub const DERIVED: &str = "helenus-derived";
pub const EQUAL_DISK: &str = "helenus-equal-disk";

/// The documented keys, but for `anneal_gap_max`, which needs no cluster.
pub const LAYOUTS_KEYS: [&str; 13] = [
    "hr_speedup_vs_tr",
    "hr_speedup_vs_sai",
    "hr_speedup_vs_views",
    "hr_vs_hand_copied",
    "load_time_vs_tr",
    "disk_vs_tr",
    "write_vs_sai",
    "write_vs_views",
    "cost_rank_correlation",
    "quorum_vs_one",
    "reads_with_a_node_down_failed",
    "hr_vs_best_single_at_equal_disk",
    "write_one_derived_vs_table",
];

/// Of one query's reads, with failures at the client's time-out; None if there were none.
pub fn latency(phase: &Phase) -> Option<Latency> {
    let mut kinds = phase.by_kind.values();
    let used = kinds.find(|kind| kind.ops + kind.failed > 0)?;
    used.with_failures
}

fn rows_per_second(phase: &Phase) -> Option<f64> {
    (phase.ops > 0).then_some(phase.ops_per_second)
}

fn disk_bytes(phase: &Phase) -> Option<f64> {
    phase.extra.get(DISK_BYTES).copied()
}

impl Layouts {
    pub(super) fn compare(&self, report: &mut Report) {
        let with_layouts = self.arms.iter();
        let with_layouts = with_layouts.filter(|arm| self.copies[arm.copies].form == Form::Layouts);
        for arm in with_layouts {
            let arm = &*arm.arm.endpoint.name;
            self.compare_reads(report, arm);
            self.compare_writes(report, arm);
        }
        self.compare_derived(report);
        self.compare_failures(report);
        let cells = self.synthetic.iter().map(|each| each.cell());
        let phases = cells.flat_map(|cell| report.phases(SYNTHETIC, &cell).to_vec());
        let phases: Vec<Phase> = phases.collect();
        for key in [RANK_CORRELATION, CALIBRATED, REPEATED] {
            let values = phases
                .iter()
                .filter_map(|phase| phase.extra.get(key).copied());
            report.set_ratio(key, &values.collect::<Vec<_>>());
        }
    }

    fn compare_reads(&self, report: &mut Report, arm: &str) {
        let one = self.levels.first().copied().unwrap_or(Consistency::One);
        for (key, other) in [
            ("hr_speedup_vs_tr", TOKEN_AWARE),
            ("hr_speedup_vs_declared", DECLARED),
            ("hr_speedup_vs_sai", SAI),
            ("hr_speedup_vs_views", VIEWS),
        ] {
            let both = self.slower(report, (other, one), (arm, one), &Kind::ALL);
            report.set_ratio(ratio_key(arm, key), &both);
            for kind in Kind::ALL {
                let values = self.slower(report, (other, one), (arm, one), &[kind]);
                let key = format!("{key}.{}", KINDS[kind as usize]);
                report.set_ratio(ratio_key(arm, &key), &values);
            }
        }
        let values = self.slower(report, (arm, one), (HAND_COPIED, one), &Kind::ALL);
        report.set_ratio(ratio_key(arm, "hr_vs_hand_copied"), &values);
        if self.levels.contains(&Consistency::Quorum) && one == Consistency::One {
            let quorum = Consistency::Quorum;
            let values = self.slower(report, (arm, quorum), (arm, one), &Kind::ALL);
            report.set_ratio(ratio_key(arm, "quorum_vs_one"), &values);
        }
    }

    fn compare_writes(&self, report: &mut Report, arm: &str) {
        for (key, other) in [
            ("write_vs_sai", SAI),
            ("write_vs_views", VIEWS),
            ("write_vs_hand_copied", HAND_COPIED),
        ] {
            let values = ratios(report, arm, other, WRITES, rows_per_second);
            report.set_ratio(ratio_key(arm, key), &values);
        }
        let values = ratios(report, TOKEN_AWARE, arm, WRITES, rows_per_second);
        report.set_ratio(ratio_key(arm, "load_time_vs_tr"), &values);
        let values = ratios(report, arm, TOKEN_AWARE, DISK, disk_bytes);
        report.set_ratio(ratio_key(arm, "disk_vs_tr"), &values);
    }

    /// Derived layouts at the disk of a single order, and what one costs writes.
    fn compare_derived(&self, report: &mut Report) {
        let one = Consistency::One;
        let reads = self.slower(report, (TOKEN_AWARE, one), (EQUAL_DISK, one), &Kind::ALL);
        report.set_ratio("hr_vs_best_single_at_equal_disk", &reads);
        let writes = ratios(report, DERIVED, TOKEN_AWARE, WRITES, rows_per_second);
        report.set_ratio("write_one_derived_vs_table", &writes);
    }

    /// In each round, over all cells with a paused node that were measured.
    fn compare_failures(&self, report: &mut Report) {
        let cells = self.cells(true);
        let arms = self.arms.iter().filter(|arm| arm.with_paused_node);
        for arm in arms {
            let name = &arm.arm.endpoint.name;
            let failed = |round: usize| {
                let phases = cells.iter();
                let phases = phases.filter_map(|cell| report.phases(name, &cell.name()).get(round));
                let errors = phases.map(|phase| phase.errors_total() as f64);
                errors.reduce(|sum, errors| sum + errors)
            };
            let values: Vec<f64> = (0..self.rounds).filter_map(failed).collect();
            report.set_ratio(ratio_key(name, "reads_with_a_node_down_failed"), &values);
        }
    }

    /// For each round, the mean latency of one arm over that of another, each at its level.
    fn slower(
        &self,
        report: &Report,
        slow: (&str, Consistency),
        fast: (&str, Consistency),
        kinds: &[Kind],
    ) -> Vec<f64> {
        let mean = |(arm, level): (&str, Consistency), round: usize| -> Option<f64> {
            let of_kind = |&kind: &Kind| {
                let cell = Cell {
                    kind,
                    level,
                    node_paused: false,
                };
                let phase = report.phases(arm, &cell.name()).get(round)?;
                Some(latency(phase)?.us_mean)
            };
            kinds.iter().map(of_kind).sum()
        };
        let of_round = |round| Some(mean(slow, round)? / mean(fast, round)?);
        (0..self.rounds).filter_map(of_round).collect()
    }
}

/// For each round in which both have a value.
fn ratios(
    report: &Report,
    over: &str,
    under: &str,
    cell: &str,
    of: fn(&Phase) -> Option<f64>,
) -> Vec<f64> {
    let pairs = report.phases(over, cell).iter();
    let pairs = pairs.zip(report.phases(under, cell));
    let values = pairs.filter_map(|(over, under)| Some(of(over)? / of(under)?));
    values.collect()
}
