//! Ratios of the experiment: an arm's times over those of the direct token-aware driver, so smaller
//! is better. The speed-ups (idle scan, aggregates, several keys) are the inverse.

use super::cells::{self, Job};
use super::figures::{mean_ms, p99_ms, times};
use super::further::FurtherCell;
use super::mix::Mixed;
use super::selection::CellKind;
use super::{KINDS, Scheduling};
use crate::experiments::arms::{Arm, HELENUS, TOKEN_AWARE, ratio_key};
use crate::experiments::experiment::{Cell, named};
use crate::report::Report;
use crate::report::figures::{Figure, PER_SECOND};
use crate::report::ratios::{Ratios, Side, Value};
use crate::report::spread::Spread;

/// The documented keys.
pub const SCHEDULING_KEYS: [&str; 18] = [
    "point_mean_vs_direct_5050",
    "point_p99_vs_direct_5050",
    "scan_mean_vs_direct_5050",
    "scan_p99_vs_direct_5050",
    "point_mean_vs_direct_9010",
    "point_p99_vs_direct_9010",
    "worst_cell_vs_direct",
    "idle_scan_speedup",
    "idle_aggregates_speedup",
    "several_keys_speedup",
    "storm_point_p99_vs_unloaded",
    "point_p99_beside_large_reads_vs_direct",
    "index_read_p99_beside_scans_vs_direct",
    "wide_partition_scan_vs_direct",
    "open_loop_point_mean_vs_direct",
    "open_loop_point_p99_vs_direct",
    "open_loop_scan_mean_vs_direct",
    "open_loop_scan_p99_vs_direct",
];

/// A cell with at least this many clients counts as loaded.
const LOADED_CLIENTS: usize = 250;
const EVEN: &str = "5050";
const MOSTLY_POINTS: &str = "9010";
/// The 9:1 ratios use the cell with the most clients up to this number.
const MOSTLY_POINTS_CLIENTS: usize = 1000;

impl Scheduling {
    pub(super) fn ratios(&self, cells: &[Cell<Job>]) -> Ratios {
        let of = |is_meant: fn(&Job) -> bool| named(cells, is_meant);
        let (even, mostly_points) = self.compared();
        let idle = of(|job| matches!(job, Job::IdleScan));
        let aggregates = of(|job| matches!(job, Job::IdleAggregates));
        let several = of(|job| matches!(job, Job::Several(_)));
        let storm = of(|job| matches!(job, Job::Storm(_)));
        let unloaded = of(|job| matches!(job, Job::Unloaded(_)));
        let [points, scans] = KINDS;
        let mut ratios = Ratios::default();
        for arm in self.arms.iter().map(Arm::name) {
            let key = |key: &str| ratio_key(arm, key);
            for (cells, mix) in [(&even, EVEN), (&mostly_points, MOSTLY_POINTS)] {
                for (kind, statistic, of) in times() {
                    let key = key(&format!("{kind}_{statistic}_vs_direct_{mix}"));
                    ratios.over(key, arm, TOKEN_AWARE, cells, of);
                }
            }
            for (of, cells) in [
                ("idle_scan_speedup", &idle),
                ("idle_aggregates_speedup", &aggregates),
                ("several_keys_speedup", &several),
            ] {
                let side = |arm| Side::new(arm, cells, mean_ms(scans));
                let speedup = Value::Quotient(side(TOKEN_AWARE), side(arm));
                if arm != TOKEN_AWARE {
                    ratios.add(key(of), speedup);
                }
            }
            let side = |cells: &[String]| Side::new(arm, cells, p99_ms(points));
            let raise = Value::Quotient(side(&storm), side(&unloaded));
            ratios.add(key("storm_point_p99_vs_unloaded"), raise);
            self.add_plain(&mut ratios, arm, cells);
            self.add_further(&mut ratios, arm, cells);
        }
        ratios
    }

    /// Of the plain client, over all mixes with the same number of clients, over the same client directly at
    /// the nodes: times (smaller is better) and throughput.
    fn add_plain(&self, ratios: &mut Ratios, arm: &str, cells: &[Cell<Job>]) {
        for &clients in self.plain.iter().flat_map(|plain| &plain.clients) {
            for (apart, prefix) in [(false, "plain"), (true, "plain_apart")] {
                let cells = named(
                    cells,
                    |job| matches!(job, Job::Plain(of) if of.clients == clients && of.apart == apart),
                );
                let key = |of: String| {
                    let key = format!("{prefix}_{of}_vs_direct_{clients}");
                    ratio_key(arm, &key)
                };
                for (kind, statistic, of) in times() {
                    let key = key(format!("{kind}_{statistic}"));
                    ratios.over(key, arm, TOKEN_AWARE, &cells, of);
                }
                let key = key("throughput".into());
                ratios.over(key, arm, TOKEN_AWARE, &cells, PER_SECOND);
            }
        }
    }

    fn add_further(&self, ratios: &mut Ratios, arm: &str, cells: &[Cell<Job>]) {
        let of = |is_meant: fn(FurtherCell) -> bool| {
            named(
                cells,
                |job| matches!(job, Job::Further(of) if is_meant(*of)),
            )
        };
        let beside = |cell| -> Vec<String> {
            let further = self.further.iter();
            further.filter_map(|of| of.beside_name(cell)).collect()
        };
        let large = of(|cell| cell == FurtherCell::LargeReads);
        let large_beside = beside(FurtherCell::LargeReads);
        let look_ups = of(|cell| cell == FurtherCell::LookUps);
        let look_ups_beside = beside(FurtherCell::LookUps);
        let wide = of(|cell| matches!(cell, FurtherCell::WideScans(_)));
        let open = of(|cell| matches!(cell, FurtherCell::OpenLoop(_)));
        let [point, scan] = KINDS;
        let (p99, mean, scans) = (p99_ms(point), mean_ms(point), mean_ms(scan));
        let beside: [(&str, &[String], Figure); 7] = [
            ("point_p99_beside_large_reads_vs_direct", &large, p99),
            ("point_mean_beside_large_reads_vs_direct", &large, mean),
            ("large_read_mean_vs_direct", &large_beside, scans),
            ("index_read_p99_beside_scans_vs_direct", &look_ups, p99),
            ("index_read_mean_beside_scans_vs_direct", &look_ups, mean),
            (
                "scan_mean_beside_index_reads_vs_direct",
                &look_ups_beside,
                scans,
            ),
            ("wide_partition_scan_vs_direct", &wide, scans),
        ];
        for (key, cells, of) in beside {
            ratios.over(ratio_key(arm, key), arm, TOKEN_AWARE, cells, of);
        }
        for (kind, statistic, of) in times() {
            let key = format!("open_loop_{kind}_{statistic}_vs_direct");
            ratios.over(ratio_key(arm, &key), arm, TOKEN_AWARE, &open, of);
        }
    }

    /// The cells that the 5:5 keys and the 9:1 keys are computed from.
    pub(super) fn compared(&self) -> (Vec<String>, Vec<String>) {
        let of_mix = |key: &'static str| {
            let mixed = self.mixed.iter().copied();
            mixed.filter(move |mixed| mixed.mix.key() == key)
        };
        let name = |mixed: Mixed| cells::mixed_name(mixed.mix, mixed.clients);
        let even = of_mix(EVEN).filter(|mixed| mixed.clients >= LOADED_CLIENTS);
        let most = of_mix(MOSTLY_POINTS)
            .filter(|mixed| (LOADED_CLIENTS..=MOSTLY_POINTS_CLIENTS).contains(&mixed.clients))
            .max_by_key(|mixed| mixed.clients);
        (
            even.map(name).collect(),
            most.map(name).into_iter().collect(),
        )
    }

    /// The largest ratio, by its median over the rounds, among all mixed cells and among mean point
    /// time, mean scan time and time per query.
    pub(super) fn worst_cell(&self, report: &mut Report, arm: &str) {
        let mut worst: Option<(Spread, String)> = None;
        for &Mixed { mix, clients, .. } in &self.mixed {
            let cell = cells::mixed_name(mix, clients);
            let side = |arm, of| Side::new(arm, std::slice::from_ref(&cell), of);
            let slower = |of| Value::Quotient(side(arm, of), side(TOKEN_AWARE, of));
            let fewer = Value::Quotient(side(TOKEN_AWARE, PER_SECOND), side(arm, PER_SECOND));
            let [points, scans] = KINDS.map(|kind| slower(mean_ms(kind)));
            for (what, value) in [("points", points), ("scans", scans), ("throughput", fewer)] {
                let Some(spread) = value.spread(report, self.rounds) else {
                    continue;
                };
                if worst
                    .as_ref()
                    .is_none_or(|(worst, _)| spread.median > worst.median)
                {
                    worst = Some((spread, format!("{cell}, by its {what}")));
                }
            }
        }
        if let Some((spread, cell)) = worst {
            let key = ratio_key(arm, "worst_cell_vs_direct");
            report.notes.push(format!("{key} is the cell {cell}."));
            report.ratios.insert(key, spread);
        }
    }

    pub(super) fn note_failures(&self, report: &mut Report) {
        let mut lines = Vec::new();
        for (arm, cells) in &report.arms {
            let mut failed = [0; 2];
            for phase in cells.values().flatten() {
                for (sum, kind) in failed.iter_mut().zip(KINDS) {
                    *sum += phase.by_kind.get(kind).map_or(0, |kind| kind.failed);
                }
            }
            let [points, scans] = failed;
            if points + scans > 0 {
                lines.push(format!(
                    "{arm}: {points} point reads and {scans} scans failed over all cells."
                ));
            }
        }
        report.notes.extend(lines);
        if !self.kinds.contains(&CellKind::Mixed) {
            return;
        }
        let (even, mostly_points) = self.compared();
        report.notes.push(format!(
            "The keys of 5:5 are over the cells [{}], those of 9:1 over [{}]. {HELENUS}'s keys have \
             no prefix; those of other arms have the arm's name.",
            even.join("; "),
            mostly_points.join("; ")
        ));
    }
}
