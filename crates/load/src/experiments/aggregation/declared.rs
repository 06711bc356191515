//! The experiment as data: its cells, and what is told of them. Helenus has the documented keys; other arms' keys
//! are prefixed with the arm's name.

use super::cells::{BOTH, Job, Kind, SHARE_OF_FRAMES, What};
use super::{Aggregation, HELENUS, MERGED, ROUND_ROBIN, TOKEN_AWARE};
use crate::experiments::arms::{Arm, ratio_key};
use crate::experiments::experiment::{Cell, Experiment, named};
use crate::report::Report;
use crate::report::chart::Chart;
use crate::report::figures::{Figure, NODE_CPU_US, P99_US, PER_SECOND, PROXY_CPU_US};
use crate::report::ratios::{Ratios, Side, Value};
use crate::report::spread::Spread;
use crate::report::svg::{Line, LineChart};
use crate::workload::cas::Learns;
use std::collections::BTreeSet;

/// The fewest clients with which merged writes are compared.
const MERGING_CLIENTS_MIN: usize = 256;
const P50_US: Figure = Figure::Of(|phase| Some(phase.latency.us_p50 as f64));
const P999_US: Figure = Figure::Of(|phase| Some(phase.latency.us_p999 as f64));
const SYSCALLS: Figure = Figure::Extra("syscalls_per_query");
const PER_FRAME: Figure = Figure::Extra("queries_per_frame");
const SUCCESSES: Figure = Figure::Extra("cas_successes_per_second");

impl Aggregation {
    pub(super) fn declared(&self) -> Experiment<Job> {
        let cells = self.jobs().into_iter().map(|job| {
            let parts = self.arms.iter().map(|arm| job.what.has(arm.part));
            Cell::of_some(job.name(), job, parts)
        });
        let cells: Vec<Cell<Job>> = cells.collect();
        let (ratios, charts) = (self.ratios(&cells), self.charts(&cells));
        Experiment {
            arms: self.arms().cloned().collect(),
            rounds: self.rounds,
            // Cells are shortened to meet it.
            until: None,
            watched: self.watched.clone(),
            cells,
            ratios,
            charts,
        }
    }

    /// Sets what follows from the phases.
    pub(super) fn finish(&self, report: &mut Report) {
        let experiment = self.declared();
        experiment.finish(report);
        let saturated = named(&experiment.cells, Job::is_saturating);
        for arm in experiment.arms.iter().map(Arm::name) {
            if arm != TOKEN_AWARE {
                worst_cell(report, self.rounds, arm, &saturated);
            }
        }
        let frames = self.frames(report);
        report.charts.extend(frames);
    }

    fn ratios(&self, cells: &[Cell<Job>]) -> Ratios {
        let of = |what: What| named(cells, |job| job.what == what);
        let saturated = |kind: Kind| {
            named(cells, |job| {
                job.what == What::KeyValue(kind) && job.is_saturating()
            })
        };
        let same_rate = named(cells, |job| matches!(job.what, What::SameRate(_)));
        let many = named(cells, |job| matches!(job.what, What::ManyClients(_)));
        let (zipf, viral) = (of(What::HotZipf), of(What::HotViral));
        let cas = of(What::Cas(Learns::FromAttempts));
        let read_cas = of(What::Cas(Learns::ByReading));
        let mut ratios = Ratios::default();
        let arms = self.arms().map(Arm::name);
        for (index, arm) in arms.clone().enumerate() {
            if arm == TOKEN_AWARE {
                continue;
            }
            let key = |key: &str| ratio_key(arm, key);
            for kind in BOTH {
                for baseline in [TOKEN_AWARE, ROUND_ROBIN] {
                    let short = baseline.trim_start_matches("direct-").replace('-', "_");
                    let key = key(&format!("{}_vs_{short}", kind.name()));
                    ratios.over(key, arm, baseline, &saturated(kind), PER_SECOND);
                }
            }
            for cell in cells {
                if let What::Ycsb(which) = cell.job.what {
                    let key = key(&format!("ycsb_{which:?}_vs_token_aware").to_lowercase());
                    let cell = std::slice::from_ref(&cell.name);
                    ratios.over(key, arm, TOKEN_AWARE, cell, PER_SECOND);
                }
            }
            // Windows are not measured with YCSB.
            let own = cells.iter();
            let own = own.filter(|cell| cell.job.is_saturating() && cell.arms.contains(&index));
            let own: Vec<String> = own.map(|cell| cell.name.clone()).collect();
            for (of, cells, figure) in [
                ("p99_vs_token_aware_same_rate", &same_rate, P99_US),
                ("many_clients_vs_direct", &many, PER_SECOND),
                ("zipfian_reads_vs_token_aware", &zipf, PER_SECOND),
                ("viral_reads_vs_token_aware", &viral, PER_SECOND),
                ("cas_vs_direct", &cas, SUCCESSES),
                ("read_cas_vs_direct", &read_cas, SUCCESSES),
                ("node_cpu_vs_token_aware", &own, NODE_CPU_US),
            ] {
                ratios.over(key(of), arm, TOKEN_AWARE, cells, figure);
            }
            for (of, figure) in [
                ("syscalls_per_query", SYSCALLS),
                ("queries_per_frame", PER_FRAME),
                ("cpu_us_per_query", PROXY_CPU_US),
            ] {
                ratios.add(key(of), Value::Mean(Side::new(arm, &own, figure)));
            }
        }
        // INSERTs of many clients: what waits together can be merged.
        let merging = named(cells, |job| {
            job.what == What::KeyValue(Kind::Insert) && job.clients >= MERGING_CLIENTS_MIN
        });
        let variant = |name: &str| format!("{HELENUS}-{name}");
        let (merged, direct) = (variant(MERGED), TOKEN_AWARE.to_owned());
        let [sharing_on, sharing_off] = ["sharing-on", "sharing-off"].map(variant);
        let [queue_on, queue_off] = ["queue-on", "queue-off"].map(variant);
        let sharing = [&sharing_on, &sharing_off];
        let queue = [&queue_on, &queue_off];
        let merged = [&merged, &direct];
        for (key, [arm, other], cells, of) in [
            ("insert_merged_vs_token_aware", merged, &merging, PER_SECOND),
            ("insert_merged_p99_vs_token_aware", merged, &merging, P99_US),
            (
                "zipfian_reads_sharing_on_vs_off",
                sharing,
                &zipf,
                PER_SECOND,
            ),
            ("viral_reads_sharing_on_vs_off", sharing, &viral, PER_SECOND),
            ("cas_queue_on_vs_off", queue, &cas, SUCCESSES),
            ("read_cas_queue_on_vs_off", queue, &read_cas, SUCCESSES),
        ] {
            ratios.over(key.into(), arm, other, cells, of);
        }
        // In each round, summed over Helenus's arms.
        let both = [cas, read_cas].concat();
        for (key, figure) in [
            ("lost_updates", "cas_lost"),
            ("surplus_updates", "cas_surplus"),
            ("unknown_updates", "cas_unknown"),
        ] {
            let helenus = arms.clone().filter(|arm| arm.starts_with(HELENUS));
            let sides = helenus.map(|arm| Side::new(arm, &both, Figure::Extra(figure)));
            ratios.add(key.into(), Value::Sum(sides.collect()));
        }
        ratios
    }

    fn charts(&self, cells: &[Cell<Job>]) -> Vec<Chart> {
        let mut charts = Vec::new();
        for (kind, name) in [(Kind::Insert, "INSERTs"), (Kind::Read, "Reads")] {
            let position = |cell: &Cell<Job>| {
                let is_of_kind = cell.job.what == What::KeyValue(kind);
                is_of_kind.then(|| (cell.job.clients.to_string(), cell.name.clone()))
            };
            for (what, axis, of) in [
                ("throughput", "queries/s", PER_SECOND),
                ("99th percentile", "µs", P99_US),
                ("CPU time of the nodes", "µs per query", NODE_CPU_US),
                ("CPU time of the proxy", "µs per query", PROXY_CPU_US),
                ("system calls of the proxy", "per query", SYSCALLS),
                ("queries in a frame", "mean", PER_FRAME),
            ] {
                let title = format!("{name}: {what}");
                let positions = cells.iter().filter_map(position).collect();
                charts.push(Chart::lines((&title, axis, "clients"), positions, of));
            }
        }
        let of = |is_meant: fn(What) -> bool| named(cells, |job| is_meant(job.what));
        let ycsb = of(|what| matches!(what, What::Ycsb(_)));
        let same_rate = of(|what| matches!(what, What::SameRate(_)));
        let many = of(|what| matches!(what, What::ManyClients(_)));
        let hot = of(|what| matches!(what, What::HotZipf | What::HotViral));
        let cas = of(|what| matches!(what, What::Cas(_)));
        let at_rate = |what: &str| format!("{what} at equal offered rate");
        let many_title = "Many plain connections, one request at a time";
        charts.extend([
            Chart::bars("YCSB", "operations/s", &ycsb, PER_SECOND),
            Chart::bars(&at_rate("Median"), "µs", &same_rate, P50_US),
            Chart::bars(&at_rate("99th percentile"), "µs", &same_rate, P99_US),
            Chart::bars(&at_rate("99.9th percentile"), "µs", &same_rate, P999_US),
            Chart::bars(many_title, "queries/s", &many, PER_SECOND),
            Chart::bars("Hot keys", "reads/s", &hot, PER_SECOND),
            Chart::bars("Compare-and-set on one row", "successes/s", &cas, SUCCESSES),
        ]);
        charts
    }

    /// Distribution of queries per frame, for INSERTs from the most clients.
    fn frames(&self, report: &Report) -> Option<String> {
        let job = Job {
            what: What::KeyValue(Kind::Insert),
            clients: *self.clients.iter().max()?,
        };
        let cell = job.name();
        let arms = || self.arms().map(Arm::name);
        let mut bounds: BTreeSet<&str> = BTreeSet::new();
        for phase in arms().flat_map(|arm| report.phases(arm, &cell)) {
            let names = phase.extra.keys();
            bounds.extend(names.filter_map(|name| name.strip_prefix(SHARE_OF_FRAMES)));
        }
        let line = |(colour, name): (usize, &str)| {
            let share = |bound: &str| {
                let key = format!("{SHARE_OF_FRAMES}{bound}");
                let phases = report.phases(name, &cell).iter();
                let values = phases.filter_map(|phase| phase.extra.get(&key).copied());
                Some(Spread::of(&values.collect::<Vec<f64>>())?.median)
            };
            let points = bounds.iter().enumerate();
            let points = points.filter_map(|(at, bound)| Some((at as f64, share(bound)? * 100.0)));
            Line {
                name: name.to_owned(),
                colour,
                points: points.collect(),
            }
        };
        let series = arms().enumerate().map(line);
        let series: Vec<Line> = series.filter(|line| !line.points.is_empty()).collect();
        let bounds = bounds.iter();
        let chart = LineChart {
            title: format!("Queries in a frame ({cell})"),
            axis: "% of frames".into(),
            across: "queries in a frame, up to".into(),
            names: bounds
                .map(|bound| bound.trim_start_matches('0').to_owned())
                .collect(),
            series,
        };
        (!chart.series.is_empty()).then(|| chart.svg())
    }
}

/// The cell in which an arm is worst, by the median over the rounds.
fn worst_cell(report: &mut Report, rounds: usize, arm: &str, cells: &[String]) {
    let spreads = cells.iter().filter_map(|cell| {
        let side = |arm| Side::new(arm, std::slice::from_ref(cell), PER_SECOND);
        let value = Value::Quotient(side(arm), side(TOKEN_AWARE));
        Some((value.spread(report, rounds)?, cell))
    });
    let worst = spreads.min_by(|left, right| left.0.median.total_cmp(&right.0.median));
    if let Some((spread, cell)) = worst {
        let key = ratio_key(arm, "worst_cell_vs_token_aware");
        report.notes.push(format!("{key} is the cell: {cell}."));
        report.ratios.insert(key, spread);
    }
}
