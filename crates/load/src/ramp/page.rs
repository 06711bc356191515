//! A ramp's files: JSON, and a page.

use super::capacity::Capacity;
use super::plots;
use crate::report::{Report, read_json, write};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Serialize)]
struct WithCapacity<'a> {
    #[serde(flatten)]
    report: &'a Report,
    capacity: &'a Capacity,
}

/// The report, with one further key: `capacity`.
///
/// # Errors
/// If the file cannot be written.
pub fn write_json(report: &Report, capacity: &Capacity, path: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(&WithCapacity { report, capacity })?;
    write(path, &(text + "\n"))
}

/// Reads the two back.
///
/// # Errors
/// If the file cannot be read, or is not of a ramp.
pub fn read(path: &Path) -> Result<(Report, Capacity)> {
    #[derive(Deserialize)]
    struct Read {
        #[serde(flatten)]
        report: Report,
        capacity: Option<Capacity>,
    }
    let read: Read = read_json(path)?;
    let capacity = read.capacity.with_context(|| {
        format!(
            "{} is a report of `{}`, not of a ramp: `helenus load ramp … --json FILE` writes one",
            path.display(),
            read.report.experiment
        )
    })?;
    Ok((read.report, capacity))
}

/// # Errors
/// If the file cannot be written.
pub fn write_html(report: &Report, capacity: &Capacity, path: &Path) -> Result<()> {
    let mut report = report.clone();
    report.charts = plots::parts(capacity);
    report.write_html(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ramp::capacity::{Unit, UsesByLoad};
    use crate::ramp::search::{Policy, Search};
    use crate::ramp::steps::{Limits, Window};
    use crate::report::machine::Machine;

    #[test]
    fn the_capacity_stands_beside_the_raw_numbers() {
        let limits = Limits {
            latency_us_p99_max: None,
            error_share_max: 0.001,
            achieved_share_min: None,
        };
        let mut search = Search::new(Policy::new(1, 64, limits));
        while let Some(load) = search.poll_load() {
            let window = Window {
                ops_per_second: (load as f64).min(10.0) * 100.0,
                latency_us_p50: 900.0,
                latency_us_p99: 1_800.0,
                error_share: 0.0,
            };
            search.on_window(load, window);
        }
        let uses = UsesByLoad::new();
        let capacity = Capacity::of(&search, Unit::Clients, &uses, Some(1), Some(200.0));
        let report = Report::new("load ramp", "a < b".into(), Machine::default(), 1);
        let file = |end: &str| {
            std::env::temp_dir().join(format!("helenus-ramp-{}.{end}", std::process::id()))
        };
        write_json(&report, &capacity, &file("json")).unwrap();
        write_html(&report, &capacity, &file("html")).unwrap();
        let json = std::fs::read_to_string(file("json")).unwrap();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["experiment"], "load ramp");
        assert_eq!(value["capacity"]["unit"], "clients");
        assert_eq!(value["capacity"]["ended"], "flat");
        let knee = &value["capacity"]["knee"];
        assert_eq!(knee["ops_per_second"]["median"], 1_000.0);
        assert_eq!(knee["latency_us_p99"], 1_800.0);
        assert_eq!(value["capacity"]["headroom"]["rule"], "share");
        let (same_report, same_capacity) = read(&file("json")).unwrap();
        assert_eq!(same_report.command, report.command);
        let text = |capacity: &Capacity| serde_json::to_value(capacity).unwrap();
        assert_eq!(text(&same_capacity), text(&capacity));
        let page = std::fs::read_to_string(file("html")).unwrap();
        assert!(page.contains("<title>helenus load ramp</title>") && page.contains("a &lt; b"));
        assert!(page.contains("add a node at 700 operations/s"));
        for end in ["json", "html"] {
            std::fs::remove_file(file(end)).unwrap();
        }
        assert!(write_json(&report, &capacity, Path::new("/nowhere/x.json")).is_err());
    }
}
