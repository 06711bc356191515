//! The result of an experiment: raw numbers of every arm, and ratios with their spread.

use crate::measure::Phase;
use crate::progress::IntervalStats;
use crate::report::machine::Machine;
use crate::report::spread::Spread;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) mod chart;
pub mod compare;
pub mod figures;
pub mod hdr_log;
pub mod html;
pub(crate) mod json;
pub mod machine;
pub(crate) mod ratios;
pub mod spread;
pub mod svg;

/// Cell name → one phase per round.
pub type Cells = BTreeMap<String, Vec<Phase>>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    pub experiment: String,
    pub command: String,
    pub machine: Machine,
    pub rounds: usize,
    /// Conditions that were the same for all arms.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    pub arms: BTreeMap<String, Cells>,
    #[serde(default)]
    pub ratios: BTreeMap<String, Spread>,
    /// Caveats for reading the numbers.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Arm → one entry per second of its turns.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub timeline: BTreeMap<String, Vec<IntervalStats>>,
    /// Plots of the page, as SVG. If empty, the page plots the cells itself.
    #[serde(skip)]
    pub charts: Vec<String>,
}

impl Report {
    pub fn new(experiment: &str, command: String, machine: Machine, rounds: usize) -> Self {
        Self {
            experiment: experiment.into(),
            command,
            machine,
            rounds,
            settings: BTreeMap::new(),
            arms: BTreeMap::new(),
            ratios: BTreeMap::new(),
            notes: Vec::new(),
            timeline: BTreeMap::new(),
            charts: Vec::new(),
        }
    }

    pub fn add(&mut self, arm: &str, cell: &str, phase: Phase) {
        let cells = self.arms.entry(arm.to_owned()).or_default();
        cells.entry(cell.to_owned()).or_default().push(phase);
    }

    pub fn phases(&self, arm: &str, cell: &str) -> &[Phase] {
        self.arms
            .get(arm)
            .and_then(|cells| cells.get(cell))
            .map_or(&[], Vec::as_slice)
    }

    /// Adds a caveat, once.
    pub fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// For each round, a value computed from two arms' phases of one cell.
    pub fn compare(
        &self,
        arm: &str,
        baseline: &str,
        cell: &str,
        value: impl Fn(&Phase, &Phase) -> f64,
    ) -> Vec<f64> {
        let pairs = self
            .phases(arm, cell)
            .iter()
            .zip(self.phases(baseline, cell));
        pairs.map(|(one, other)| value(one, other)).collect()
    }

    /// Does nothing if no round has a finite value.
    pub fn set_ratio(&mut self, key: impl Into<String>, values: &[f64]) {
        if let Some(spread) = Spread::of(values) {
            self.ratios.insert(key.into(), spread);
        }
    }

    pub fn errors_total(&self) -> u64 {
        let phases = self
            .arms
            .values()
            .flat_map(|cells| cells.values().flatten());
        phases.map(Phase::errors_total).sum()
    }

    /// Reads what [`Report::write_json`] or a ramp has written, also by earlier versions.
    pub fn read_json(path: &Path) -> Result<Self> {
        read_json(path)
    }

    pub fn write_json(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        write(path, &(text + "\n"))
    }
}

pub(crate) fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a report of Helenus", path.display()))
}

pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Recorder;
    use std::time::Duration;

    fn file(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("helenus-report-{name}-{}.json", std::process::id()))
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut recorder = Recorder::new(2);
        recorder.record(0, Duration::from_micros(250), Ok(()));
        recorder.record(1, Duration::from_micros(250), Err("overloaded"));
        let cost = Some(Duration::from_secs(1));
        let mut phase = recorder.into_phase(&["read", "scan"], Duration::from_secs(1), cost);
        phase.extra.insert("queries_per_frame".into(), 2.5);
        let used = crate::measure::ProcessUse {
            cpu_seconds: 0.5,
            cpu_us_per_op: 250.0,
            resident_kib: 7,
        };
        phase.processes.insert("proxy".into(), used);
        let machine = Machine::here(Path::new("/"));
        let mut report = Report::new("x", "a b".into(), machine, 1);
        report.add("helenus", "64 clients", phase.clone());
        report.set_ratio("r", &[0.5, 0.25]);
        report.settings.insert("seed".into(), "1".into());
        report.notes.push("A note.".into());
        report
            .timeline
            .insert("helenus".into(), vec![IntervalStats::default()]);
        report.write_json(&file("all")).unwrap();
        let read = Report::read_json(&file("all")).unwrap();
        assert_eq!(read.phases("helenus", "64 clients"), [phase]);
        let text = |report: &Report| serde_json::to_value(report).unwrap();
        assert_eq!(text(&read), text(&report));
        std::fs::remove_file(file("all")).unwrap();
    }

    #[test]
    fn reports_of_earlier_versions_are_read_and_what_is_no_number_is_none() {
        let old = r#"{"experiment": "x", "command": "c", "rounds": 2, "ratios": {}, "notes": [],
            "machine": {"cores": 2, "processor": "p", "memory_mib": 5, "storage": "ext4 on /dev/sda",
                "kernel": "6", "versions": {}},
            "arms": {"a": {"64 clients": [{"ops": 0, "errors": {}, "seconds": 0.0,
                "ops_per_second": null, "latency_us_mean": 0.0, "latency_us_p50": 0,
                "latency_us_p95": 0, "latency_us_p99": 0, "latency_us_p999": 0,
                "latency_us_max": 0, "by_kind": {}, "processes": {}, "extra": {"y": null}}]}},
            "something": "new"}"#;
        std::fs::write(file("old"), old).unwrap();
        let report = Report::read_json(&file("old")).unwrap();
        assert!(report.machine.storage_profile.is_none());
        let phase = &report.phases("a", "64 clients")[0];
        assert!(phase.ops_per_second.is_nan() && phase.extra["y"].is_nan());
        std::fs::write(file("old"), r#"{"rows": 5}"#).unwrap();
        let error = Report::read_json(&file("old")).unwrap_err();
        assert!(error.to_string().contains("is not a report of Helenus"));
        std::fs::remove_file(file("old")).unwrap();
    }

    #[test]
    fn the_page_shows_the_storage() {
        use crate::storage::{Device, Storage};
        let device = Device {
            device: "/dev/nvme0n1".into(),
            file_system: "xfs".into(),
            rotational: Some(false),
        };
        let machine = Machine::default().with_storage(Storage {
            device,
            figures: None,
            not_measured: Some("only 3 MiB are free".into()),
        });
        let page = crate::report::html::page(&Report::new("x", String::new(), machine, 1));
        assert!(
            page.contains("<td>xfs on /dev/nvme0n1 (solid state)"),
            "{page}"
        );
        assert!(page.contains("<td>none: only 3 MiB are free"), "{page}");
    }
}
