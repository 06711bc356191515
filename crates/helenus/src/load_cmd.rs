//! `helenus load`: generates load on a CQL endpoint, or on several in turn.

mod live;
mod nodes;
mod options;
mod parse;
mod ramp;
mod result;
mod target;

pub(crate) use live::show;
pub(crate) use parse::parse_watched;

use crate::open_files::raise_open_files_limit;
use crate::terminal::run_to_end;
use anyhow::{Result, bail, ensure};
use clap::{Args, Subcommand};
use helenus_load::interleaved::{ArmRun, Interleaved, LoadModel};
use helenus_load::process::Watched;
use helenus_load::report::Report;
use helenus_load::run::Progress;
use live::Live;
use options::LoadArgs;
use ramp::RampArgs;
use std::sync::Arc;
use std::time::Duration;

/// In a shorter slice a few hundred clients have barely ramped up after a change of arm.
const SLICE_MIN: Duration = Duration::from_millis(250);

/// Generate load on any CQL endpoint, or on several in turn, and measure it.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct LoadCommand {
    #[command(flatten)]
    args: LoadArgs,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand, Debug)]
enum Action {
    Ramp(Box<RampArgs>),
}

pub(crate) fn run(command: LoadCommand) -> Result<()> {
    match command.action {
        Some(Action::Ramp(args)) => ramp::run(*args),
        None => run_load(command.args),
    }
}

fn run_load(args: LoadArgs) -> Result<()> {
    let open_files = raise_open_files_limit();
    let needed = u64::from(args.sessions()) * args.target.arms.len().max(1) as u64 + 100;
    ensure!(
        needed <= open_files,
        "only {open_files} open files are allowed and {needed} are needed: raise `ulimit -n` or \
         lower --clients"
    );
    run_to_end(load(args))
}

async fn load(args: LoadArgs) -> Result<()> {
    if let Some(rate) = args.rate {
        ensure!(
            rate > 0.0 && rate.is_finite(),
            "--rate must be a positive number"
        );
    }
    ensure!(!args.duration.is_zero(), "--duration must be above 0");
    ensure!(
        args.slice.is_none_or(|slice| slice >= SLICE_MIN),
        "--slice must be at least {SLICE_MIN:?}"
    );
    let target = &args.target;
    let endpoints = target.endpoints()?;
    let cluster = nodes::local(None, None, &endpoints[0].0)?;
    let machine = target::describe(cluster.as_ref(), target.measure_storage).await?;
    let script = target.read_script()?;
    target.prepare_data(&endpoints[0], script.as_ref()).await?;
    let mut arm_runs = Vec::new();
    for (endpoint, pid) in &endpoints {
        let workload = target
            .workload(
                endpoint,
                script.as_ref(),
                args.sessions(),
                args.operations_expected(),
            )
            .await?;
        let mut watched = target.watch.clone();
        watched.push(Watched::this_process());
        watched.extend(pid.map(|pid| Watched::new("proxy", pid)));
        arm_runs.push(ArmRun {
            workload: Arc::new(workload),
            watched,
        });
    }
    let names: Vec<String> = endpoints
        .iter()
        .map(|(each, _)| each.name.clone())
        .collect();
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let rounds = args.rounds();
    let mut report = Report::new("load", command, machine, rounds);
    report.settings = args.settings();
    let plan = args.interleaved();
    let live = Live::start(plan.progress.clone(), names.clone(), target.quiet);
    let cell = args.cell_name();
    for round in 0..rounds {
        let phases = plan
            .round(&arm_runs, round, &mut |arm| live.turn(arm))
            .await;
        for (name, phase) in names.iter().zip(phases) {
            report.add(name, &cell, phase);
        }
    }
    report.timeline = live.stop();
    result::compare(&mut report, &names, &cell);
    print!("{}", result::summary(&report, &names, &cell));
    if let Some(path) = &target.json {
        report.write_json(path)?;
    }
    if let Some(path) = &target.html {
        report.charts = result::charts(&report, &names, &cell);
        report.write_html(path)?;
    }
    for name in &names {
        let ops: u64 = report
            .phases(name, &cell)
            .iter()
            .map(|phase| phase.ops)
            .sum();
        if ops == 0 {
            bail!("no query to {name} succeeded");
        }
    }
    Ok(())
}

impl LoadArgs {
    /// The duration is given instead of YCSB's operation count, which follows from the rate, or is a
    /// guess of what two cores can do.
    fn operations_expected(&self) -> u64 {
        let per_second = self.rate.unwrap_or(10_000.0);
        let seconds = (self.duration + self.warmup * self.rounds() as u32).as_secs_f64();
        (per_second * seconds) as u64
    }

    fn interleaved(&self) -> Interleaved {
        let time = self.duration / self.rounds() as u32;
        let slices = self.slice.map_or(1, |slice| {
            (time.as_secs_f64() / slice.as_secs_f64().max(1e-3))
                .round()
                .max(1.0) as usize
        });
        Interleaved {
            clients: self.clients as usize,
            load: self.rate.map_or(LoadModel::Closed, LoadModel::Open),
            time,
            slices,
            warmup_first: self.warmup,
            // In later turns the arm is warm already and its clients only have to ramp up again.
            warmup: self
                .warmup
                .min((time / slices as u32 / 8).max(Duration::from_millis(50))),
            seed: self.target.seed,
            progress: Arc::new(Progress::with_latencies()),
        }
    }
}

#[cfg(test)]
mod tests;
