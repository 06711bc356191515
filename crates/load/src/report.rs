//! The result of an experiment: raw numbers of every arm, and ratios with their spread.

use crate::machine::Machine;
use crate::measure::Phase;
use crate::progress::IntervalStats;
use crate::spread::Spread;
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Cell name → one phase per round.
pub type Cells = BTreeMap<String, Vec<Phase>>;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub experiment: String,
    pub command: String,
    pub machine: Machine,
    pub rounds: usize,
    /// Conditions that were the same for all arms.
    pub settings: BTreeMap<String, String>,
    pub arms: BTreeMap<String, Cells>,
    pub ratios: BTreeMap<String, Spread>,
    /// Caveats for reading the numbers.
    pub notes: Vec<String>,
    /// Arm → one entry per second of its turns.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
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

    pub fn write_json(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        write(path, &(text + "\n"))
    }
}

pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
