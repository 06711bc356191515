//! `helenus sim capacity`: what many nodes would carry, from a ramp over few.

mod ramp;
mod results;
mod show;

use anyhow::{Result, ensure};
use clap::Args;
use helenus_sim::capacity;
use helenus_sim::capacity::sweep::{self, Errors};
use helenus_sim::queueing::{Curve, Demand, Extent, Policy, Setup, run as simulate};
use ramp::Measured;
use results::Results;
use std::path::PathBuf;

use super::parallel::in_parallel;

#[derive(Args)]
pub(super) struct CapacityArgs {
    /// Report of a ramp: `helenus load ramp … --json FILE`
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Nodes that the ramp was measured over [default: as its report says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    measured_nodes: Option<u16>,
    /// Nodes to simulate
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    nodes: u16,
    /// Proxies before them; none knows what the others do
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    proxies: u16,
    /// Replicas of a key [default: 3, or all nodes if there are fewer]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=8))]
    replicas: Option<u16>,
    /// Share of queries, from 0 to 1, that go to all replicas instead of one
    #[arg(long, default_value_t = 0.0, value_parser = parse_share, value_name = "SHARE")]
    writes: f64,
    /// Keys
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    keys: u32,
    /// Exponent of the keys' popularity (YCSB: 0.99); 0 for all alike
    #[arg(long, default_value_t = 0.0, value_parser = parse_exponent)]
    zipf: f64,
    /// Policies by which proxies choose replicas (`assignment.policy`)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "earliest-finish,token-aware"
    )]
    policies: Vec<Policy>,
    /// Offered queries per second [default: from a tenth to 110 % of what the nodes could carry]
    #[arg(long, value_delimiter = ',', value_parser = parse_rate, value_name = "OPS")]
    rate: Vec<f64>,
    /// One way between proxy and node, in microseconds, besides what the ramp has measured
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    hop_us: u64,
    /// Queries counted in each run; more take longer and vary less
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    queries: u32,
    /// Seed; the same seed repeats a result
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write all figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(super) fn capacity(args: &CapacityArgs) -> Result<()> {
    let measured = Measured::read(&args.from, args.measured_nodes)?;
    let setup = args.setup(&measured)?;
    let errors = Errors::of(&sweep::repeat(&measured.curve, args.seed));
    show::model(&measured, &setup, &errors);
    let results = simulate_all(args, &setup, &measured.curve);
    for each in &results {
        show::results(&setup, each);
    }
    match &args.json {
        Some(path) => show::write_json(path, &measured, &setup, &errors, &results),
        None => Ok(()),
    }
}

impl CapacityArgs {
    fn setup(&self, measured: &Measured) -> Result<Setup> {
        let replicas = self.replicas.unwrap_or(3.min(self.nodes));
        ensure!(
            replicas <= self.nodes,
            "--replicas {replicas} are more than --nodes {}",
            self.nodes
        );
        Ok(Setup {
            seed: self.seed,
            nodes: self.nodes,
            proxies: self.proxies.into(),
            replicas,
            keys: self.keys as usize,
            zipf: self.zipf,
            write_share: self.writes,
            hop_us: self.hop_us,
            extent: Extent::Requests(self.queries as usize),
            ..capacity::setup(measured.curve.clone(), Demand::Clients(1))
        })
    }
}

fn simulate_all(args: &CapacityArgs, setup: &Setup, curve: &Curve) -> Vec<Results> {
    let loads = sweep::loads(curve, setup.nodes);
    let rates = match args.rate.is_empty() {
        true => sweep::rates(setup),
        false => args.rate.clone(),
    };
    let setups: Vec<Setup> = args
        .policies
        .iter()
        .flat_map(|&policy| {
            let setup = Setup {
                policy,
                ..setup.clone()
            };
            let closed = loads
                .iter()
                .map(|&clients| sweep::with_clients(&setup, clients));
            let open = rates.iter().map(|&rate| Setup {
                demand: Demand::Rate(rate),
                ..setup.clone()
            });
            closed.chain(open).collect::<Vec<Setup>>()
        })
        .collect();
    let mut outcomes = in_parallel(&setups, simulate).into_iter();
    let results = args.policies.iter().map(|&policy| Results {
        policy,
        closed: loads
            .iter()
            .copied()
            .zip(outcomes.by_ref().take(loads.len()))
            .collect(),
        open: rates
            .iter()
            .copied()
            .zip(outcomes.by_ref().take(rates.len()))
            .collect(),
    });
    results.collect()
}

fn parse_share(text: &str) -> Result<f64> {
    let share: f64 = text.parse()?;
    ensure!((0.0..=1.0).contains(&share), "from 0 to 1");
    Ok(share)
}

fn parse_exponent(text: &str) -> Result<f64> {
    let exponent: f64 = text.parse()?;
    ensure!((0.0..=5.0).contains(&exponent), "from 0 to 5");
    Ok(exponent)
}

fn parse_rate(text: &str) -> Result<f64> {
    let rate: f64 = text.parse()?;
    ensure!(
        (1.0..=1e9).contains(&rate),
        "from 1 to 1,000,000,000 queries per second"
    );
    Ok(rate)
}

#[cfg(test)]
mod tests;
