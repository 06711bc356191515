//! The plots of the experiment's page.

use super::cells::{self, IDLE};
use super::compare::latency;
use super::plain::PlainCell;
use super::{KINDS, Scheduling};
use crate::experiments::arms::HELENUS;
use crate::measure::Phase;
use crate::report::Report;
use crate::report::plot;

/// The paper's names of its variants, in its order.
const PAPER_VARIANTS: [&str; 6] = ["O", "ReS", "P", "ReS+P", "P+RaS", "A"];

impl Scheduling {
    /// Charts like the paper's figures 5 to 8: mean times of its variants by number of clients, for each
    /// mix and kind of query. Empty if none of the variants was measured.
    fn figures(&self, report: &Report) -> Vec<String> {
        let names = PAPER_VARIANTS.map(|variant| format!("{HELENUS}-{variant}"));
        let is_arm = |name: &&str| self.arms.iter().any(|arm| arm.endpoint.name == *name);
        let arms: Vec<&str> = names.iter().map(String::as_str).filter(is_arm).collect();
        let mut out = Vec::new();
        for (mix, clients) in self.by_mix() {
            let of_clients = clients.iter();
            let cells: Vec<String> = of_clients
                .map(|&clients| cells::mixed_name(mix, clients))
                .collect();
            for (kind, what) in KINDS.into_iter().zip(["Single queries", "Range queries"]) {
                let title = format!("{what}, {mix}: the paper's variants");
                let mean_ms = |phase: &Phase| Some(latency(phase, kind)?.us_mean / 1000.0);
                let heads = (&*title, "mean, ms");
                out.extend(plot::bars(report, &arms, heads, &cells, &mean_ms));
            }
        }
        out
    }

    pub(super) fn plots(&self, report: &Report) -> Vec<String> {
        let arms: Vec<&str> = self.arms.iter().map(|arm| &*arm.endpoint.name).collect();
        let mean_ms =
            |kind: &'static str| move |phase: &Phase| Some(latency(phase, kind)?.us_mean / 1000.0);
        let p99_ms = |kind: &'static str| {
            move |phase: &Phase| Some(latency(phase, kind)?.us_p99 as f64 / 1000.0)
        };
        let failed = |phase: &Phase| Some(phase.errors_total() as f64);
        let throughput = |phase: &Phase| Some(phase.ops_per_second);
        let [point, scan] = KINDS;
        let mut out = self.figures(report);
        for (mix, clients) in self.by_mix() {
            let positions: Vec<(String, String)> = clients
                .iter()
                .map(|&clients| (clients.to_string(), cells::mixed_name(mix, clients)))
                .collect();
            let mut lines = |what: &str, axis: &str, of: plot::Quantity| {
                let title = format!("{mix}: {what}");
                let heads = (&*title, axis, "clients");
                out.extend(plot::lines(report, &arms, heads, &positions, of));
            };
            lines("mean of the point reads", "ms", &mean_ms(point));
            lines("mean of the scans", "ms", &mean_ms(scan));
            lines("99th percentile of the point reads", "ms", &p99_ms(point));
            lines("99th percentile of the scans", "ms", &p99_ms(scan));
            lines("throughput", "queries/s", &throughput);
            lines("failed queries", "queries", &failed);
        }
        let idle = [IDLE.to_owned()];
        let heads = ("One client reads a whole table", "mean, ms");
        out.extend(plot::bars(report, &arms, heads, &idle, &mean_ms(scan)));
        if let Some(plain) = &self.plain {
            let cells: Vec<String> = plain.cells().iter().map(PlainCell::name).collect();
            let heads = ("Plain client: point reads", "99th percentile, ms");
            out.extend(plot::bars(report, &arms, heads, &cells, &p99_ms(point)));
            let heads = ("Plain client: scans", "mean, ms");
            out.extend(plot::bars(report, &arms, heads, &cells, &mean_ms(scan)));
        }
        if let Some(further) = &self.further {
            let cells = further.cells().into_iter();
            let cells: Vec<String> = cells.map(|cell| further.name(cell)).collect();
            let heads = (
                "Beside long work, and at fixed rates: points",
                "99th percentile, ms",
            );
            out.extend(plot::bars(report, &arms, heads, &cells, &p99_ms(point)));
            let heads = ("Wide partitions, and at fixed rates: scans", "mean, ms");
            out.extend(plot::bars(report, &arms, heads, &cells, &mean_ms(scan)));
        }
        if let Some(storm) = self.storm {
            let cells = [cells::unloaded(storm), cells::storm_points(storm)];
            let heads = ("Point reads in a storm of scans", "99th percentile, ms");
            out.extend(plot::bars(report, &arms, heads, &cells, &p99_ms(point)));
        }
        out
    }
}
