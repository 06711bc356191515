//! The charts of the experiment.

use super::cells::cell;
use super::experiment::Scale;
use crate::progress::IntervalStats;
use crate::report::Report;
use crate::report::plot::lines;
use crate::report::svg::{Line, LineChart};

impl Scale {
    pub(super) fn plots(&self, report: &Report, nodes: usize) -> Vec<String> {
        let arms: Vec<&str> = self.arms.iter().map(|arm| &*arm.endpoint.name).collect();
        let mut charts = Vec::new();
        for &clients in &self.clients {
            let cells: Vec<(String, String)> = (1..=nodes)
                .map(|nodes| (nodes.to_string(), cell(nodes, clients)))
                .collect();
            let title = format!("Throughput of {clients} clients");
            let heads = (&*title, "queries/s", "nodes");
            charts.extend(lines(report, &arms, heads, &cells, &|phase| {
                Some(phase.ops_per_second)
            }));
        }
        for node in 2..=nodes {
            let title = format!("p99 of each second, node {node} joins");
            charts.extend(self.seconds(report, node, &title, "ms", &|second| {
                second.latency_us_p99 as f64 / 1000.0
            }));
            let title = format!("Throughput of each second, node {node} joins");
            charts.extend(self.seconds(report, node, &title, "queries/s", &|second| {
                second.ops_per_second
            }));
        }
        charts
    }

    fn seconds(
        &self,
        report: &Report,
        node: usize,
        title: &str,
        axis: &str,
        of: &dyn Fn(&IntervalStats) -> f64,
    ) -> Option<String> {
        let arms = self.arms.iter().enumerate();
        let series: Vec<Line> = arms
            .filter_map(|(colour, arm)| {
                let name = &arm.endpoint.name;
                let seconds = report.timeline.get(&format!("{name}, node {node}"))?;
                Some(Line {
                    name: name.clone(),
                    colour,
                    points: seconds
                        .iter()
                        .map(|second| (second.at_seconds, of(second)))
                        .collect(),
                })
            })
            .collect();
        let chart = LineChart {
            title: title.into(),
            axis: axis.into(),
            across: "seconds; the join begins after the steady state".into(),
            names: Vec::new(),
            series,
        };
        (!chart.series.is_empty()).then(|| chart.svg())
    }
}
