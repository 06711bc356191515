//! The charts of the experiment's page.

use super::cells::{self, IDLE};
use super::figures::{mean_ms, p99_ms};
use super::mix::Mix;
use super::plain::PlainCell;
use super::{KINDS, Scheduling};
use crate::experiments::arms::{Arm, HELENUS};
use crate::report::chart::Chart;
use crate::report::figures::{ERRORS, PER_SECOND};

/// The paper's names of its variants, in its order.
const PAPER_VARIANTS: [&str; 6] = ["O", "ReS", "P", "ReS+P", "P+RaS", "A"];

impl Scheduling {
    /// Charts like the paper's figures 5 to 8: mean times of its variants by number of clients, for each
    /// mix and kind of query. Nothing is drawn if none of the variants was measured.
    fn figures(&self) -> Vec<Chart> {
        let names = PAPER_VARIANTS.map(|variant| format!("{HELENUS}-{variant}"));
        let is_arm = |name: &&str| self.arms.iter().map(Arm::name).any(|arm| arm == *name);
        let arms: Vec<&str> = names.iter().map(String::as_str).filter(is_arm).collect();
        let mut charts = Vec::new();
        for (mix, clients) in self.by_mix() {
            let cells = clients.iter();
            let cells: Vec<String> = cells.map(|&of| cells::mixed_name(mix, of)).collect();
            for (kind, what) in KINDS.into_iter().zip(["Single queries", "Range queries"]) {
                let title = format!("{what}, {mix}: the paper's variants");
                let chart = Chart::bars(&title, "mean, ms", &cells, mean_ms(kind));
                charts.push(chart.of_arms(&arms));
            }
        }
        charts
    }

    pub(super) fn charts(&self) -> Vec<Chart> {
        let [point, scan] = KINDS;
        let mut charts = self.figures();
        for (mix, clients) in self.by_mix() {
            let position =
                |&clients: &usize| (clients.to_string(), cells::mixed_name(mix, clients));
            for (what, axis, of) in [
                ("mean of the point reads", "ms", mean_ms(point)),
                ("mean of the scans", "ms", mean_ms(scan)),
                ("99th percentile of the point reads", "ms", p99_ms(point)),
                ("99th percentile of the scans", "ms", p99_ms(scan)),
                ("throughput", "queries/s", PER_SECOND),
                ("failed queries", "queries", ERRORS),
            ] {
                let (title, positions) = (format!("{mix}: {what}"), clients.iter().map(position));
                charts.push(Chart::lines(
                    (&title, axis, "clients"),
                    positions.collect(),
                    of,
                ));
            }
        }
        let mut bars = |title, axis, cells: &[String], of| {
            charts.push(Chart::bars(title, axis, cells, of));
        };
        let idle = [IDLE.to_owned()];
        bars(
            "One client reads a whole table",
            "mean, ms",
            &idle,
            mean_ms(scan),
        );
        let tail = "99th percentile, ms";
        if let Some(plain) = &self.plain {
            let cells: Vec<String> = plain.cells().iter().map(PlainCell::name).collect();
            bars("Plain client: point reads", tail, &cells, p99_ms(point));
            bars("Plain client: scans", "mean, ms", &cells, mean_ms(scan));
        }
        if let Some(further) = &self.further {
            let cells = further.cells().into_iter();
            let cells: Vec<String> = cells.map(|cell| further.name(cell)).collect();
            let title = "Beside long work, and at fixed rates: points";
            bars(title, tail, &cells, p99_ms(point));
            let title = "Wide partitions, and at fixed rates: scans";
            bars(title, "mean, ms", &cells, mean_ms(scan));
        }
        if let Some(storm) = self.storm {
            let cells = [cells::unloaded(storm), cells::storm_points(storm)];
            bars(
                "Point reads in a storm of scans",
                tail,
                &cells,
                p99_ms(point),
            );
        }
        charts
    }

    /// The mixes in the order given, with their numbers of clients.
    fn by_mix(&self) -> Vec<(Mix, Vec<usize>)> {
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
