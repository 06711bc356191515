//! Ratios of the experiment. Helenus has the documented keys; other arms' keys are prefixed with
//! the arm's name.

use super::cells::{BOTH, Cell, Job, Kind};
use super::{Aggregation, Arm, HELENUS, MERGED, PROXY_PROCESS, ROUND_ROBIN, TOKEN_AWARE};
use crate::experiments::arms::{per_round, ratio_key};
use crate::measure::Phase;
use crate::report::Report;
use crate::report::spread::Spread;
use crate::workload::cas::Learns;

/// The fewest clients with which merged writes are compared.
const MERGING_CLIENTS_MIN: usize = 256;

type Quantity<'a> = &'a dyn Fn(&Phase) -> Option<f64>;

fn throughput(phase: &Phase) -> Option<f64> {
    Some(phase.ops_per_second)
}

fn p99(phase: &Phase) -> Option<f64> {
    Some(phase.latency.us_p99 as f64)
}

/// CPU time of all nodes per query.
pub(super) fn node_cpu_us(phase: &Phase) -> Option<f64> {
    let nodes = phase
        .processes
        .iter()
        .filter(|(name, _)| name.starts_with("node"));
    nodes
        .map(|(_, used)| used.cpu_us_per_op)
        .reduce(|sum, each| sum + each)
}

pub(super) fn extra(name: &'static str) -> impl Fn(&Phase) -> Option<f64> {
    move |phase| phase.extra.get(name).copied()
}

impl Aggregation {
    pub(super) fn compare(&self, report: &mut Report) {
        let cells = self.cells();
        let with = |wanted: &dyn Fn(&Cell) -> bool| -> Vec<Cell> {
            cells.iter().copied().filter(wanted).collect()
        };
        let saturated =
            |kind: Kind| with(&|cell| cell.job == Job::KeyValue(kind) && cell.is_saturating());
        let all_saturated = with(&Cell::is_saturating);
        let same_rate = with(&|cell| matches!(cell.job, Job::SameRate(_)));
        let many = with(&|cell| matches!(cell.job, Job::ManyClients(_)));
        let hot = |job: Job| with(&move |cell| cell.job == job);
        let cas = hot(Job::Cas(Learns::FromAttempts));
        let read_cas = hot(Job::Cas(Learns::ByReading));
        for (index, arm) in self.arms.iter().enumerate() {
            let name = &*arm.endpoint.name;
            if name == TOKEN_AWARE {
                continue;
            }
            // Windows are not measured with YCSB.
            let own = |cell: &Cell| self.taking_part(cell).contains(&index);
            let own_saturated = with(&|cell| cell.is_saturating() && own(cell));
            for kind in BOTH {
                for baseline in [TOKEN_AWARE, ROUND_ROBIN] {
                    if name != baseline {
                        let key = format!("{}_vs_{}", kind.name(), short(baseline));
                        self.ratio(report, arm, &key, baseline, &saturated(kind), &throughput);
                    }
                }
            }
            self.worst_cell(report, arm, &all_saturated);
            for core in all_saturated
                .iter()
                .filter(|cell| matches!(cell.job, Job::Ycsb(_)))
            {
                let Job::Ycsb(which) = core.job else { continue };
                let key = format!("ycsb_{which:?}_vs_token_aware").to_lowercase();
                self.ratio(report, arm, &key, TOKEN_AWARE, &[*core], &throughput);
            }
            let key = "p99_vs_token_aware_same_rate";
            self.ratio(report, arm, key, TOKEN_AWARE, &same_rate, &p99);
            self.ratio(
                report,
                arm,
                "many_clients_vs_direct",
                TOKEN_AWARE,
                &many,
                &throughput,
            );
            for (job, key) in [
                (Job::HotZipf, "zipfian_reads_vs_token_aware"),
                (Job::HotViral, "viral_reads_vs_token_aware"),
            ] {
                self.ratio(report, arm, key, TOKEN_AWARE, &hot(job), &throughput);
            }
            let successes = extra("cas_successes_per_second");
            self.ratio(report, arm, "cas_vs_direct", TOKEN_AWARE, &cas, &successes);
            let key = "read_cas_vs_direct";
            self.ratio(report, arm, key, TOKEN_AWARE, &read_cas, &successes);
            let key = "node_cpu_vs_token_aware";
            self.ratio(report, arm, key, TOKEN_AWARE, &own_saturated, &node_cpu_us);
            for (key, of) in [
                ("syscalls_per_query", extra("syscalls_per_query")),
                ("queries_per_frame", extra("queries_per_frame")),
            ] {
                self.value(report, arm, key, &own_saturated, &of);
            }
            self.value(report, arm, "cpu_us_per_query", &own_saturated, &|phase| {
                Some(phase.processes.get(PROXY_PROCESS)?.cpu_us_per_op)
            });
        }
        self.compare_merged(report, &cells);
        for (key, cells, of) in [
            (
                "zipfian_reads_sharing_on_vs_off",
                hot(Job::HotZipf),
                &throughput as Quantity,
            ),
            (
                "viral_reads_sharing_on_vs_off",
                hot(Job::HotViral),
                &throughput,
            ),
            (
                "cas_queue_on_vs_off",
                cas.clone(),
                &extra("cas_successes_per_second"),
            ),
            (
                "read_cas_queue_on_vs_off",
                read_cas.clone(),
                &extra("cas_successes_per_second"),
            ),
        ] {
            let what = match key.contains("sharing") {
                true => "sharing",
                false => "queue",
            };
            let side = |side: &str| format!("{HELENUS}-{what}-{side}");
            let values = self.quotients(report, &side("on"), &side("off"), &cells, of);
            report.set_ratio(key, &values);
        }
        self.count_lost(report, &[cas, read_cas].concat());
    }

    /// INSERTs of many clients: what waits together can be merged.
    fn compare_merged(&self, report: &mut Report, cells: &[Cell]) {
        let is_meant = |cell: &&Cell| {
            cell.job == Job::KeyValue(Kind::Insert) && cell.clients >= MERGING_CLIENTS_MIN
        };
        let cells: Vec<Cell> = cells.iter().filter(is_meant).copied().collect();
        let merged = format!("{HELENUS}-{MERGED}");
        for (key, of) in [
            ("insert_merged_vs_token_aware", &throughput as Quantity),
            ("insert_merged_p99_vs_token_aware", &p99),
        ] {
            let values = self.quotients(report, &merged, TOKEN_AWARE, &cells, of);
            report.set_ratio(key, &values);
        }
    }

    fn ratio(
        &self,
        report: &mut Report,
        arm: &Arm,
        key: &str,
        baseline: &str,
        cells: &[Cell],
        of: Quantity,
    ) {
        let values = self.quotients(report, &arm.endpoint.name, baseline, cells, of);
        report.set_ratio(ratio_key(&arm.endpoint.name, key), &values);
    }

    /// For each round, the geometric mean over the cells of `of(arm) / of(baseline)`.
    fn quotients(
        &self,
        report: &Report,
        arm: &str,
        baseline: &str,
        cells: &[Cell],
        of: Quantity,
    ) -> Vec<f64> {
        per_round(self.rounds, cells, |cell, round| {
            let of_arm = of(report.phases(arm, &cell.name()).get(round)?)?;
            let of_baseline = of(report.phases(baseline, &cell.name()).get(round)?)?;
            Some(of_arm / of_baseline)
        })
    }

    /// For each round, the geometric mean over the cells.
    fn value(&self, report: &mut Report, arm: &Arm, key: &str, cells: &[Cell], of: Quantity) {
        let name = &*arm.endpoint.name;
        let values = per_round(self.rounds, cells, |cell, round| {
            of(report.phases(name, &cell.name()).get(round)?)
        });
        report.set_ratio(ratio_key(&arm.endpoint.name, key), &values);
    }

    fn worst_cell(&self, report: &mut Report, arm: &Arm, cells: &[Cell]) {
        let name = &*arm.endpoint.name;
        let spread = |cell: &Cell| {
            let ratios = report.compare(name, TOKEN_AWARE, &cell.name(), |one, direct| {
                one.ops_per_second / direct.ops_per_second
            });
            Some((Spread::of(&ratios)?, cell.name()))
        };
        let worst = cells
            .iter()
            .filter_map(spread)
            .min_by(|left, right| left.0.median.total_cmp(&right.0.median));
        if let Some((spread, cell)) = worst {
            let key = ratio_key(name, "worst_cell_vs_token_aware");
            report.notes.push(format!("{key} is the cell: {cell}."));
            report.ratios.insert(key, spread);
        }
    }

    /// Lost, surplus and unknown updates in each round, summed over Helenus's arms.
    fn count_lost(&self, report: &mut Report, cas: &[Cell]) {
        for (key, figure) in [
            ("lost_updates", "cas_lost"),
            ("surplus_updates", "cas_surplus"),
            ("unknown_updates", "cas_unknown"),
        ] {
            let of = extra(figure);
            let mut by_round = vec![None; self.rounds];
            let helenus = |arm: &&Arm| arm.endpoint.name.starts_with(HELENUS);
            for arm in self.arms.iter().filter(helenus) {
                for cell in cas {
                    let phases = report.phases(&arm.endpoint.name, &cell.name());
                    for (sum, phase) in by_round.iter_mut().zip(phases) {
                        if let Some(count) = of(phase) {
                            *sum.get_or_insert(0.0) += count;
                        }
                    }
                }
            }
            let values: Vec<f64> = by_round.into_iter().flatten().collect();
            report.set_ratio(key, &values);
        }
    }
}

fn short(baseline: &str) -> String {
    baseline.trim_start_matches("direct-").replace('-', "_")
}
