//! The experiment as data: its cells, and what is told of them. Helenus has the documented keys; keys of other arms with
//! layouts are prefixed with the arm's name.

use super::cells::{DISK, DISK_BYTES, Reads, SYNTHETIC, WRITES};
use super::experiment::Layouts;
use super::queries::{KINDS, Kind};
use super::synthetic::{CALIBRATED, RANK_CORRELATION, REPEATED};
use super::tables::Form;
use crate::experiments::arms::{Arm, TOKEN_AWARE, ratio_key};
use crate::experiments::experiment::{Cell, Experiment, named};
use crate::measure::Phase;
use crate::report::Report;
use crate::report::chart::Chart;
use crate::report::figures::{Figure, PER_SECOND, at_cost};
use crate::report::ratios::{Ratios, Side, Value};
use scylla::statement::Consistency;

/// Names of arms that ask the nodes directly, beside the best single layout.
pub const DECLARED: &str = "direct-declared";
pub const SAI: &str = "direct-sai";
pub const VIEWS: &str = "direct-views";
pub const HAND_COPIED: &str = "direct-hand-copied";
/// Arms with derived layouts: beside all replicas of the table, and each in place of one of them.
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

const WRITTEN: Figure = Figure::Of(|phase| (phase.ops > 0).then_some(phase.ops_per_second));
const BYTES: Figure = Figure::Extra(DISK_BYTES);
const DISK_MB: Figure = Figure::Of(|phase| Some(phase.extra.get(DISK_BYTES)? / 1e6));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Read(Reads),
    /// All queries of a synthetic table.
    Synthetic(usize),
}

impl Layouts {
    /// `with_nodes`: one can be paused.
    pub(super) fn declared(&self, with_nodes: bool) -> Experiment<Job> {
        let read = |reads: Reads| {
            let takes_part = |of: &super::Contender| !reads.node_paused || of.with_paused_node;
            let arms = self.arms.iter().map(takes_part);
            Cell {
                // Without it ratios would be missing.
                is_needed: !reads.node_paused,
                ..Cell::of_some(reads.name(), Job::Read(reads), arms)
            }
        };
        let synthetic =
            |(at, of): (usize, &super::Synthetic)| Cell::of_all(of.cell(), Job::Synthetic(at), 0);
        let mut cells: Vec<Cell<Job>> = self.reads(false).into_iter().map(read).collect();
        cells.extend(self.synthetic.iter().enumerate().map(synthetic));
        if with_nodes {
            cells.extend(self.reads(true).into_iter().map(read));
        }
        Experiment {
            arms: self.arms.iter().map(|of| of.arm.clone()).collect(),
            rounds: self.rounds,
            until: self.until,
            watched: self.watched.clone(),
            ratios: self.ratios(&cells),
            charts: self.charts(&cells),
            cells,
        }
    }

    fn ratios(&self, cells: &[Cell<Job>]) -> Ratios {
        let first = self.levels.first().copied().unwrap_or(Consistency::One);
        let at = |level: Consistency, kinds: &[Kind]| {
            named(cells, |job| match job {
                Job::Read(of) => !of.node_paused && of.level == level && kinds.contains(&of.kind),
                Job::Synthetic(_) => false,
            })
        };
        // Of means over both queries, as in the paper.
        let slower = |slow: (&str, &[String]), fast: (&str, &[String])| {
            let [slow, fast] = [slow, fast].map(|(arm, of)| Side::new(arm, of, at_cost::MEAN_MS));
            Value::Totals(slow, fast)
        };
        let reads = at(first, &Kind::ALL);
        let (writes, disks) = ([WRITES.to_owned()], [DISK.to_owned()]);
        let mut ratios = Ratios::default();
        let with_layouts = self.arms.iter();
        let with_layouts = with_layouts.filter(|arm| self.copies[arm.copies].form == Form::Layouts);
        for arm in with_layouts.map(|arm| arm.arm.name()) {
            for (key, other) in [
                ("hr_speedup_vs_tr", TOKEN_AWARE),
                ("hr_speedup_vs_declared", DECLARED),
                ("hr_speedup_vs_sai", SAI),
                ("hr_speedup_vs_views", VIEWS),
            ] {
                ratios.add(ratio_key(arm, key), slower((other, &reads), (arm, &reads)));
                for kind in Kind::ALL {
                    let key = format!("{key}.{}", KINDS[kind as usize]);
                    let reads = at(first, &[kind]);
                    ratios.add(ratio_key(arm, &key), slower((other, &reads), (arm, &reads)));
                }
            }
            let key = ratio_key(arm, "hr_vs_hand_copied");
            ratios.add(key, slower((arm, &reads), (HAND_COPIED, &reads)));
            let quorum = at(Consistency::Quorum, &Kind::ALL);
            if !quorum.is_empty() && first == Consistency::One {
                let key = ratio_key(arm, "quorum_vs_one");
                ratios.add(key, slower((arm, &quorum), (arm, &reads)));
            }
            for (key, other) in [
                ("write_vs_sai", SAI),
                ("write_vs_views", VIEWS),
                ("write_vs_hand_copied", HAND_COPIED),
            ] {
                ratios.over(ratio_key(arm, key), arm, other, &writes, WRITTEN);
            }
            let key = ratio_key(arm, "load_time_vs_tr");
            ratios.over(key, TOKEN_AWARE, arm, &writes, WRITTEN);
            ratios.over(
                ratio_key(arm, "disk_vs_tr"),
                arm,
                TOKEN_AWARE,
                &disks,
                BYTES,
            );
        }
        // At the disk of a single order, and what one layout costs writes.
        let one = at(Consistency::One, &Kind::ALL);
        let key = "hr_vs_best_single_at_equal_disk".to_owned();
        ratios.add(key, slower((TOKEN_AWARE, &one), (EQUAL_DISK, &one)));
        let key = "write_one_derived_vs_table".to_owned();
        ratios.over(key, DERIVED, TOKEN_AWARE, &writes, WRITTEN);
        let paused = named(cells, |job| matches!(job, Job::Read(of) if of.node_paused));
        for arm in self.arms.iter().filter(|arm| arm.with_paused_node) {
            let name = arm.arm.name();
            let key = ratio_key(name, "reads_with_a_node_down_failed");
            ratios.errors(key, name, &paused);
        }
        ratios
    }

    fn charts(&self, cells: &[Cell<Job>]) -> Vec<Chart> {
        let mut fast: Vec<&str> = self.arms.iter().map(|of| Arm::name(&of.arm)).collect();
        // It is so slow that the others could not be told apart beside it.
        fast.retain(|arm| *arm != DECLARED);
        let reads = |paused: bool| {
            named(
                cells,
                |job| matches!(job, Job::Read(of) if of.node_paused == paused),
            )
        };
        let (all, paused) = (reads(false), reads(true));
        let (writes, disks) = ([WRITES.to_owned()], [DISK.to_owned()]);
        let declared = format!("Mean latency, with {DECLARED}");
        let mean = at_cost::MEAN_MS;
        vec![
            Chart::bars("Mean latency", "ms", &all, mean).of_arms(&fast),
            Chart::bars(&declared, "ms", &all, mean),
            Chart::bars("99th percentile", "ms", &all, at_cost::P99_MS).of_arms(&fast),
            Chart::bars("While a node is paused", "mean latency, ms", &paused, mean),
            Chart::bars("Writing", "orders/s", &writes, PER_SECOND),
            Chart::bars("Size on disk", "MB on all nodes", &disks, DISK_MB),
        ]
    }

    /// What is told of the synthetic tables, of all rounds alike.
    pub(super) fn correlate(&self, report: &mut Report) {
        let cells = self.synthetic.iter().map(|each| each.cell());
        let phases = cells.flat_map(|cell| report.phases(SYNTHETIC, &cell).to_vec());
        let phases: Vec<Phase> = phases.collect();
        for key in [RANK_CORRELATION, CALIBRATED, REPEATED] {
            let values = phases.iter();
            let values = values.filter_map(|phase| phase.extra.get(key).copied());
            report.set_ratio(key, &values.collect::<Vec<_>>());
        }
    }
}
