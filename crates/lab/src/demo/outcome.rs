//! Results of a comparison of the demo: in the terminal, and on the page.

use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_load::measure::{Kind, Latency, Phase};
use helenus_load::report::Report;
use helenus_load::report::spread::Spread;
use helenus_load::report::svg::{BarChart, Group, number};
use std::collections::BTreeSet;

/// Both arms' rounds.
pub(super) struct Outcome {
    pub names: [String; 2],
    /// Queries per second that both were sent.
    pub rate: f64,
    pub phases: [Vec<Phase>; 2],
    /// At the nodes, if they were counted.
    pub connections: Option<[usize; 2]>,
}

impl Outcome {
    /// Medians over the rounds, side by side. Failures count with the client's time-out.
    pub(super) fn table(&self) -> TextTable {
        let mut table = TextTable::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_header(["", &self.names[0], &self.names[1]]);
        let mut row = |name: String, value: &dyn Fn(&Phase) -> Option<f64>| {
            let cells = self.phases.each_ref().map(|phases| median(phases, value));
            table.add_row([name, cells[0].clone(), cells[1].clone()]);
        };
        for kind in self.kinds() {
            for (name, figure) in [
                ("mean", mean_ms as Figure),
                ("p50", p50_ms),
                ("p99", p99_ms),
            ] {
                let of = |phase: &Phase| latency(phase, kind).map(figure);
                row(format!("{kind}: {name}, ms"), &of);
            }
        }
        let failed = self.phases.each_ref().map(|phases| {
            let failed: u64 = phases.iter().map(Phase::errors_total).sum();
            failed.to_string()
        });
        table.add_row(["failed or wrong answers", &failed[0], &failed[1]]);
        if let Some(connections) = self.connections {
            let [one, other] = connections.map(|count| count.to_string());
            table.add_row(["connections at the nodes", &one, &other]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    /// Failures by kind; empty if nothing failed.
    pub(super) fn failures(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, phases) in self.names.iter().zip(&self.phases) {
            for (error, times) in phases.iter().flat_map(|phase| &phase.errors) {
                lines.push(format!("{name}: {error}: {times}"));
            }
        }
        lines
    }

    /// Adds it to a report, with a plot.
    pub(super) fn add_to(&self, report: &mut Report, title: &str) {
        let cell = format!("{title}, {} queries/s", number(self.rate));
        for (name, phases) in self.names.iter().zip(&self.phases) {
            for phase in phases {
                report.add(name, &cell, phase.clone());
            }
        }
        let group = |kind: &str| Group {
            name: kind.to_owned(),
            values: self
                .phases
                .each_ref()
                .map(|phases| {
                    let values = phases.iter().filter_map(|phase| latency(phase, kind));
                    Spread::of(&values.map(p99_ms).collect::<Vec<f64>>())
                })
                .to_vec(),
        };
        let chart = BarChart {
            title: cell,
            axis: "99th percentile, ms".into(),
            series: self.names.to_vec(),
            colours: Vec::new(),
            groups: self.kinds().into_iter().map(group).collect(),
        };
        report.charts.push(chart.svg());
    }

    /// The kinds of queries that there were.
    fn kinds(&self) -> BTreeSet<&str> {
        let phases = self.phases.iter().flatten();
        let kinds = phases.flat_map(|phase| &phase.by_kind);
        let used = kinds.filter(|(_, kind)| is_used(kind));
        used.map(|(name, _)| name.as_str()).collect()
    }
}

type Figure = fn(Latency) -> f64;

fn mean_ms(latency: Latency) -> f64 {
    latency.us_mean / 1000.0
}

fn p50_ms(latency: Latency) -> f64 {
    latency.us_p50 as f64 / 1000.0
}

fn p99_ms(latency: Latency) -> f64 {
    latency.us_p99 as f64 / 1000.0
}

fn is_used(kind: &Kind) -> bool {
    kind.ops + kind.failed > 0
}

fn latency(phase: &Phase, kind: &str) -> Option<Latency> {
    let kind = phase.by_kind.get(kind).filter(|kind| is_used(kind))?;
    kind.with_failures
}

fn median(phases: &[Phase], value: &dyn Fn(&Phase) -> Option<f64>) -> String {
    let values: Vec<f64> = phases.iter().filter_map(value).collect();
    Spread::of(&values).map_or_else(|| "–".into(), |spread| number(spread.median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_load::measure::Recorder;
    use helenus_load::report::machine::Machine;
    use std::time::Duration;

    fn phase(latency_ms: u64, failed: u64) -> Phase {
        let mut recorder = Recorder::new(2);
        for _ in 0..90 {
            recorder.record(0, Duration::from_millis(latency_ms), Ok(()));
        }
        for _ in 0..failed {
            recorder.record(0, Duration::ZERO, Err("client timeout"));
        }
        let time_out = Some(Duration::from_secs(2));
        recorder.into_phase(&["one flight", "report"], Duration::from_secs(1), time_out)
    }

    fn outcome() -> Outcome {
        Outcome {
            names: ["direct".into(), "through".into()],
            rate: 90.0,
            phases: [vec![phase(3, 10)], vec![phase(4, 0)]],
            connections: None,
        }
    }

    #[test]
    fn the_table_has_what_was_asked_and_failures_cost_time() {
        let table = outcome().table().to_string();
        let line = |name: &str| {
            let line = table.lines().find(|line| line.contains(name));
            line.unwrap_or_else(|| panic!("no {name}:\n{table}"))
                .to_owned()
        };
        let p99 = line("one flight: p99, ms");
        assert!(p99.contains("2,00"), "{p99}");
        assert!(line("failed or wrong answers").contains("10"));
        assert!(!table.contains("report"), "nobody asked for one:\n{table}");
        assert_eq!(outcome().failures(), ["direct: client timeout: 10"]);
    }

    #[test]
    fn the_page_shows_the_comparison() {
        let machine = Machine::default();
        let mut report = Report::new("demo", "helenus demo".into(), machine, 1);
        outcome().add_to(&mut report, "a node frozen for 5 s");
        let page = helenus_load::report::html::page(&report);
        for text in [
            "helenus demo",
            "a node frozen for 5 s, 90",
            "one flight",
            "99th",
        ] {
            assert!(page.contains(text), "{text} is missing");
        }
        assert_eq!(report.errors_total(), 10);
    }
}
