//! Ratios of the experiment: an arm's times over those of the direct token-aware driver, so smaller
//! is better. The speed-ups (idle scan, aggregates, several keys) are the inverse.

use super::cells::{self, IDLE, IDLE_AGGREGATES, SEVERAL_CLIENTS};
use super::mix::{Mix, Mixed};
use super::selection::CellKind;
use super::{KINDS, Scheduling};
use crate::experiments::arms::{HELENUS, TOKEN_AWARE, per_round, ratio_key};
use crate::measure::{Latency, Phase};
use crate::report::Report;
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

pub(super) type Statistic = (&'static str, fn(&Latency) -> f64);
pub(super) const MEAN: Statistic = ("mean", |latency| latency.us_mean);
pub(super) const P99: Statistic = ("p99", |latency| latency.us_p99 as f64);
pub(super) const STATISTICS: [Statistic; 2] = [MEAN, P99];

/// Including failures. None if there was no query of this kind.
pub(super) fn latency(phase: &Phase, kind: &str) -> Option<Latency> {
    let measured = phase.by_kind.get(kind)?;
    (measured.ops + measured.failed > 0).then(|| measured.with_failures.unwrap_or(measured.latency))
}

impl Scheduling {
    pub(super) fn compare(&self, report: &mut Report) {
        let (even, mostly_points) = self.compared();
        let alone = [
            ("idle_scan_speedup", vec![IDLE.to_owned()]),
            ("idle_aggregates_speedup", vec![IDLE_AGGREGATES.to_owned()]),
            (
                "several_keys_speedup",
                SEVERAL_CLIENTS.map(cells::several).to_vec(),
            ),
        ];
        for arm in &self.arms {
            let name = &*arm.endpoint.name;
            let is_baseline = name == TOKEN_AWARE;
            for (cells, mix, kinds) in [
                (&even, EVEN, &KINDS[..]),
                (&mostly_points, MOSTLY_POINTS, &KINDS[..]),
            ] {
                for kind in kinds.iter().filter(|_| !is_baseline && !cells.is_empty()) {
                    for (statistic, of) in STATISTICS {
                        let key = format!("{kind}_{statistic}_vs_direct_{mix}");
                        let values = self.quotients(report, name, cells, kind, of);
                        report.set_ratio(ratio_key(name, &key), &values);
                    }
                }
            }
            if !is_baseline {
                self.worst_cell(report, name);
                for (key, cells) in &alone {
                    let slower = self.quotients(report, name, cells, KINDS[1], MEAN.1);
                    let speedup: Vec<f64> = slower.iter().map(|ratio| 1.0 / ratio).collect();
                    report.set_ratio(ratio_key(name, key), &speedup);
                }
            }
            self.storm_against_unloaded(report, name);
        }
        self.note_failures(report);
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

    /// For each round, the geometric mean over the cells of arm / direct.
    pub(super) fn quotients(
        &self,
        report: &Report,
        arm: &str,
        cells: &[String],
        kind: &str,
        of: fn(&Latency) -> f64,
    ) -> Vec<f64> {
        per_round(self.rounds, cells, |cell, round| {
            let value = |arm: &str| {
                let phase = report.phases(arm, cell).get(round)?;
                Some(of(&latency(phase, kind)?))
            };
            Some(value(arm)? / value(TOKEN_AWARE)?)
        })
    }

    /// The largest ratio, by its median over the rounds, among all mixed cells and among mean point
    /// time, mean scan time and time per query.
    fn worst_cell(&self, report: &mut Report, arm: &str) {
        let mut worst: Option<(Spread, String)> = None;
        for &Mixed { mix, clients, .. } in &self.mixed {
            let cell = cells::mixed_name(mix, clients);
            let one = std::slice::from_ref(&cell);
            let [points, scans] = KINDS.map(|kind| self.quotients(report, arm, one, kind, MEAN.1));
            let per_query = report.compare(arm, TOKEN_AWARE, &cell, |arm, direct| {
                direct.ops_per_second / arm.ops_per_second
            });
            for (what, values) in [
                ("points", points),
                ("scans", scans),
                ("throughput", per_query),
            ] {
                let Some(spread) = Spread::of(&values) else {
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

    fn storm_against_unloaded(&self, report: &mut Report, arm: &str) {
        let Some(storm) = self.storm else { return };
        let p99 = |cell: &str, round: usize| {
            let phase = report.phases(arm, cell).get(round)?;
            Some(P99.1(&latency(phase, KINDS[0])?))
        };
        let rounds = [(cells::storm_points(storm), cells::unloaded(storm))];
        let values = per_round(self.rounds, &rounds, |(storm, unloaded), round| {
            Some(p99(storm, round)? / p99(unloaded, round)?)
        });
        report.set_ratio(ratio_key(arm, "storm_point_p99_vs_unloaded"), &values);
    }

    fn note_failures(&self, report: &mut Report) {
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

    /// The mixes in the order given, with their numbers of clients.
    pub(super) fn by_mix(&self) -> Vec<(Mix, Vec<usize>)> {
        let mut mixes: Vec<(Mix, Vec<usize>)> = Vec::new();
        for mixed in &self.mixed {
            match mixes.iter_mut().find(|(mix, _)| *mix == mixed.mix) {
                Some((_, clients)) => clients.push(mixed.clients),
                None => mixes.push((mixed.mix, vec![mixed.clients])),
            }
        }
        for (_, clients) in &mut mixes {
            clients.sort_unstable();
        }
        mixes
    }
}
