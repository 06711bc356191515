//! The plots of the experiment's page.

use super::cells::{BOTH, Cell, Job, Kind, SHARE_OF_FRAMES};
use super::compare::{extra, node_cpu_us};
use super::{Aggregation, PROXY_PROCESS};
use crate::measure::Phase;
use crate::report::Report;
use crate::report::plot::{self, Quantity, median};
use crate::report::svg::{Line, LineChart};
use std::collections::BTreeSet;

impl Aggregation {
    pub(super) fn plots(&self, report: &Report) -> Vec<String> {
        let throughput = |phase: &Phase| Some(phase.ops_per_second);
        let p99 = |phase: &Phase| Some(phase.latency.us_p99 as f64);
        let proxy_cpu = |phase: &Phase| Some(phase.processes.get(PROXY_PROCESS)?.cpu_us_per_op);
        let mut out = Vec::new();
        for kind in BOTH {
            let name = match kind {
                Kind::Insert => "INSERTs",
                Kind::Read => "Reads",
            };
            let mut lines = |what: &str, axis: &str, of: Quantity| {
                let title = format!("{name}: {what}");
                out.extend(self.over_clients(report, kind, &title, axis, of));
            };
            lines("throughput", "queries/s", &throughput);
            lines("99th percentile", "µs", &p99);
            lines("CPU time of the nodes", "µs per query", &node_cpu_us);
            lines("CPU time of the proxy", "µs per query", &proxy_cpu);
            let calls = extra("syscalls_per_query");
            lines("system calls of the proxy", "per query", &calls);
            lines("queries in a frame", "mean", &extra("queries_per_frame"));
        }
        let cells = |wanted: fn(&Job) -> bool| -> Vec<Cell> {
            self.cells()
                .into_iter()
                .filter(|cell| wanted(&cell.job))
                .collect()
        };
        let ycsb = cells(|job| matches!(job, Job::Ycsb(_)));
        out.extend(self.bars(report, "YCSB", "operations/s", &ycsb, &throughput));
        let same_rate = cells(|job| matches!(job, Job::SameRate(_)));
        let p50 = |phase: &Phase| Some(phase.latency.us_p50 as f64);
        let p999 = |phase: &Phase| Some(phase.latency.us_p999 as f64);
        for (name, of) in [
            ("Median", &p50 as Quantity),
            ("99th percentile", &p99),
            ("99.9th percentile", &p999),
        ] {
            let title = format!("{name} at equal offered rate");
            out.extend(self.bars(report, &title, "µs", &same_rate, of));
        }
        let many = cells(|job| matches!(job, Job::ManyClients(_)));
        let title = "Many plain connections, one request at a time";
        out.extend(self.bars(report, title, "queries/s", &many, &throughput));
        let hot = cells(|job| matches!(job, Job::HotZipf | Job::HotViral));
        out.extend(self.bars(report, "Hot keys", "reads/s", &hot, &throughput));
        let cas = cells(|job| matches!(job, Job::Cas(_)));
        let successes = extra("cas_successes_per_second");
        let title = "Compare-and-set on one row";
        out.extend(self.bars(report, title, "successes/s", &cas, &successes));
        out.extend(self.frames(report));
        out
    }

    /// Medians over the rounds, by number of clients. None if nothing was measured.
    fn over_clients(
        &self,
        report: &Report,
        kind: Kind,
        title: &str,
        axis: &str,
        of: Quantity,
    ) -> Option<String> {
        let cell = |&clients: &usize| {
            let job = Job::KeyValue(kind);
            (clients.to_string(), Cell { job, clients }.name())
        };
        let cells: Vec<(String, String)> = self.clients.iter().map(cell).collect();
        plot::lines(report, &self.names(), (title, axis, "clients"), &cells, of)
    }

    fn bars(
        &self,
        report: &Report,
        title: &str,
        axis: &str,
        cells: &[Cell],
        of: Quantity,
    ) -> Option<String> {
        let cells: Vec<String> = cells.iter().map(Cell::name).collect();
        plot::bars(report, &self.names(), (title, axis), &cells, of)
    }

    fn names(&self) -> Vec<&str> {
        self.arms.iter().map(|arm| &*arm.endpoint.name).collect()
    }

    /// Distribution of queries per frame, for INSERTs from the most clients.
    fn frames(&self, report: &Report) -> Option<String> {
        let (kind, clients) = (Kind::Insert, *self.clients.iter().max()?);
        let job = Job::KeyValue(kind);
        let cell = Cell { job, clients }.name();
        let phases = |arm: &str| report.phases(arm, &cell);
        let mut bounds: BTreeSet<String> = BTreeSet::new();
        for arm in &self.arms {
            for phase in phases(&arm.endpoint.name) {
                let names = phase.extra.keys();
                bounds.extend(
                    names.filter_map(|name| Some(name.strip_prefix(SHARE_OF_FRAMES)?.to_owned())),
                );
            }
        }
        let line = |colour: usize, name: &str| {
            let share = |bound: &String| {
                let key = format!("{SHARE_OF_FRAMES}{bound}");
                median(phases(name), &|phase: &Phase| {
                    phase.extra.get(&key).copied()
                })
            };
            let points = bounds.iter().enumerate();
            let points = points.filter_map(|(at, bound)| Some((at as f64, share(bound)? * 100.0)));
            Line {
                name: name.to_owned(),
                colour,
                points: points.collect(),
            }
        };
        let arms = self.arms.iter().enumerate();
        let series = arms.map(|(colour, arm)| line(colour, &arm.endpoint.name));
        let series: Vec<Line> = series.filter(|line| !line.points.is_empty()).collect();
        let chart = LineChart {
            title: format!("Queries in a frame ({cell})"),
            axis: "% of frames".into(),
            across: "queries in a frame, up to".into(),
            names: bounds
                .iter()
                .map(|bound| bound.trim_start_matches('0').to_owned())
                .collect(),
            series,
        };
        (!chart.series.is_empty()).then(|| chart.svg())
    }
}
