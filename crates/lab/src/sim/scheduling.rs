//! `helenus sim scheduling`: the setting of the experiment, and its runs.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use helenus_console::settings::config_of;
use helenus_sim::scheduling::{Arm, Calibration, Setup, run as simulate};

use super::compare;
use super::paper;
use super::parallel::in_parallel;
use super::tables::{self, Cell};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// `helenus bench scheduling`: 3 nodes, a proxy and the clients on one machine with two cores; 10
    /// tables of 10,000 rows; 8 to 1,000 clients.
    Bench,
    /// 12 nodes with machines of their own, 1,000 tables of 10,000 rows, 2,000 queries.
    Paper,
    /// 100 nodes, 10 proxies that do not know what the others do, 100 tables of 100,000 rows, 20,000
    /// queries.
    Large,
    /// One node that is offered more points than it serves, and a few writes: how many of each are answered
    /// within two seconds. `--mix` is without effect.
    Overload,
}

#[derive(Args)]
pub(super) struct SchedulingArgs {
    /// Defaults for the other settings.
    #[arg(long, value_enum, default_value = "bench")]
    preset: Preset,
    /// Nodes.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    nodes: Option<u32>,
    /// Cores of each machine.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: Option<u32>,
    /// Threads of a node's READ stage (`concurrent_reads`).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    read_threads: Option<u32>,
    /// Proxies.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    proxies: Option<u32>,
    /// Worker threads of each proxy.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: Option<u32>,
    /// Numbers of clients, one cell of the experiment for each [default: the preset's].
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Vec<u32>,
    /// Ratios of points to scans, adding up to ten, one cell of the experiment for each.
    #[arg(long, value_delimiter = ',', default_value = "9:1,5:5", value_parser = points_in_ten)]
    mix: Vec<u32>,
    /// Total queries per cell.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    queries: Option<u32>,
    /// Queries before those that count, for proxies to learn from.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    warmup: Option<u32>,
    /// Tables, and rows of each.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tables: Option<u32>,
    /// Rows of each table.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rows: Option<u32>,
    /// Maximum rows of a scan, drawn uniformly from 1.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    scan_rows: Option<u32>,
    /// Rows have this part of their bytes in memory.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    shrink: Option<u32>,
    /// What things cost, as `helenus sim calibrate` has measured it [default: what this version was
    /// calibrated with].
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Arms to run, by names with commas between them [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    arms: Vec<String>,
    /// An additional arm with its own settings, separated by spaces.
    #[arg(long = "variant", value_name = "NAME:SECTION.KEY=VALUE")]
    variants: Vec<String>,
    /// A report of `helenus bench scheduling` to put beside the simulation.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Seed; the same seed repeats a result.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write all figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn points_in_ten(text: &str) -> Result<u32, String> {
    let parts = text.split_once(':');
    let parts = parts.and_then(|(a, b)| Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?)));
    match parts {
        Some((points, ranges)) if points <= 10 && ranges == 10 - points => Ok(points),
        _ => Err("two numbers that add up to ten, as in 9:1".to_owned()),
    }
}

pub(super) fn scheduling(args: &SchedulingArgs) -> Result<()> {
    let setups = args.setups()?;
    let arms = args.arms()?;
    let cells = simulate_all(&setups, &arms);
    for cell in &cells {
        println!("{}\n{}\n", cell.name, tables::table(cell));
        if cell.setup.offered.is_some() {
            println!("{}\n", tables::offered(cell));
        }
    }
    if let Some(table) = paper::table(&cells) {
        println!("The paper's variants: mean of points / of scans in ms\n{table}\n");
    }
    if let Some(path) = &args.compare {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let report = serde_json::from_str(&text)
            .with_context(|| format!("{} is no report", path.display()))?;
        println!("{}\n", compare::table(&report, &cells));
    }
    let base = &setups[0];
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&tables::json(base, &cells))?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &args.html {
        std::fs::write(path, tables::page(base, &cells, &paper::figures(&cells)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

impl SchedulingArgs {
    fn setups(&self) -> Result<Vec<Setup>> {
        let preset = match self.preset {
            Preset::Bench => Setup::bench(),
            Preset::Paper => Setup::paper(),
            Preset::Large => Setup::large(),
            Preset::Overload => Setup::overload(),
        };
        let costs = match &self.calibration {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                Calibration::parse(&text).map_err(|e| anyhow!("{}: {e}", path.display()))?
            }
            None => preset.costs,
        };
        let clients: &[u32] = match (self.clients.is_empty(), self.preset) {
            (false, _) => &self.clients,
            (true, Preset::Bench) => &[8, 32, 250, 1000],
            (true, Preset::Overload) => &[preset.clients],
            (true, _) => &[125, 250, 500, 1000],
        };
        let mixes: &[u32] = match self.preset {
            Preset::Overload => &[preset.points_in_ten],
            _ => &self.mix,
        };
        let mut setups = Vec::new();
        for &points_in_ten in mixes {
            for &clients in clients {
                // As many as the benchmark asks.
                let few = self.preset == Preset::Bench && clients < 125;
                let queries = if few { 300 } else { preset.queries };
                setups.push(Setup {
                    seed: self.seed,
                    nodes: self.nodes.unwrap_or(preset.nodes),
                    cores: self.cores.unwrap_or(preset.cores),
                    read_threads: self.read_threads.unwrap_or(preset.read_threads),
                    proxies: self.proxies.unwrap_or(preset.proxies),
                    workers: self.workers.unwrap_or(preset.workers),
                    clients,
                    points_in_ten,
                    queries: self.queries.unwrap_or(queries),
                    warmup: self.warmup.unwrap_or(preset.warmup),
                    tables: self.tables.unwrap_or(preset.tables),
                    rows: self.rows.unwrap_or(preset.rows),
                    scan_rows_max: self.scan_rows.unwrap_or(preset.scan_rows_max),
                    shrink: self.shrink.unwrap_or(preset.shrink),
                    costs,
                    ..preset
                });
            }
        }
        match setups.is_empty() {
            true => bail!("--clients and --mix need at least one value"),
            false => Ok(setups),
        }
    }

    fn arms(&self) -> Result<Vec<(String, Arm)>> {
        let mut arms = Arm::all();
        for name in &self.arms {
            if !arms.iter().any(|(of, _)| of == name) {
                let known: Vec<&str> = arms.iter().map(|(of, _)| &**of).collect();
                bail!("there is no arm {name}: choose among {}", known.join(", "));
            }
        }
        // The first one is what the others are compared with.
        arms.retain(|(name, arm)| {
            matches!(arm, Arm::Direct) || self.arms.is_empty() || self.arms.contains(name)
        });
        for text in &self.variants {
            let (name, settings) = text
                .split_once(':')
                .context("write --variant as name:section.key=value")?;
            let settings: Vec<String> = settings.split_whitespace().map(str::to_owned).collect();
            let config = config_of(&settings).with_context(|| format!("--variant {name}"))?;
            arms.push((name.to_owned(), Arm::Proxied(Box::new(config))));
        }
        Ok(arms)
    }
}

/// Runs all arms of all cells.
fn simulate_all(setups: &[Setup], arms: &[(String, Arm)]) -> Vec<Cell> {
    let begin = Instant::now();
    let runs = setups.iter();
    let runs = runs.flat_map(|setup| arms.iter().map(move |(_, arm)| (setup, arm)));
    let runs: Vec<(&Setup, &Arm)> = runs.collect();
    let mut outcomes = in_parallel(&runs, |(setup, arm)| simulate(setup, arm, begin)).into_iter();
    let cell = |setup: &Setup| Cell {
        name: format!(
            "{}:{}, {} clients",
            setup.points_in_ten,
            10 - setup.points_in_ten,
            setup.clients
        ),
        setup: *setup,
        arms: arms
            .iter()
            .map(|(name, _)| name.clone())
            .zip(outcomes.by_ref())
            .collect(),
    };
    setups.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_make_ten() {
        assert_eq!(points_in_ten("9:1"), Ok(9));
        assert_eq!(points_in_ten("0:10"), Ok(0));
        for wrong in ["", "9", "9:2", "11:-1", "11:4294967295", "a:b"] {
            assert!(points_in_ten(wrong).is_err(), "{wrong}");
        }
    }
}
