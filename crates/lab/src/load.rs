//! `helenus load`: generates load on a CQL endpoint, or on several in turn.

mod connection;
mod fits;
mod live;
mod nodes;
mod options;
mod parse;
mod ramp;
mod result;
mod stop;
mod target;

pub(crate) use live::show;
pub(crate) use parse::{Arm, parse_arm, parse_watched};

use crate::command_line::command_line;
use anyhow::{Result, bail, ensure};
use clap::{Args, Subcommand};
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::run_to_end;
use helenus_load::client::endpoint::Endpoint;
use helenus_load::interleaved::{ArmRun, Interleaved, LoadModel};
use helenus_load::process::Watched;
use helenus_load::report::Report;
use helenus_load::report::hdr_log::HdrLog;
use helenus_load::run::Limit;
use helenus_load::workload::Workload;
use helenus_load::workload::any_workload::AnyWorkload;
use helenus_load::workload::script::Script;
use live::{Live, Watch};
use options::LoadArgs;
use ramp::RampArgs;
use std::sync::Arc;
use std::time::Duration;

/// In a shorter slice a few hundred clients have barely ramped up after a change of arm.
const SLICE_MIN: Duration = Duration::from_millis(250);

/// Generate load on any CQL endpoint, or on several in turn, and measure it.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LoadCommand {
    #[command(flatten)]
    args: LoadArgs,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand, Debug)]
enum Action {
    Ramp(Box<RampArgs>),
}

/// Runs `helenus load`.
///
/// # Errors
/// Options that do not fit, or endpoints that cannot be reached.
pub fn run(command: LoadCommand) -> Result<()> {
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
    args.check()?;
    let target = &args.target;
    let endpoints = target.endpoints()?;
    let hdr = args.hdr.as_deref().map(HdrLog::create).transpose()?;
    let cluster = nodes::local(None, None, &endpoints[0].0)?;
    let machine = target::describe(cluster.as_ref(), target.measure_storage).await?;
    let script = target.read_script()?;
    target
        .prepare_data(&endpoints[0].0, script.as_ref())
        .await?;
    let arm_runs = args.open(&endpoints, script.as_ref()).await?;
    let names: Vec<String> = endpoints
        .iter()
        .map(|(each, _)| each.name.clone())
        .collect();
    let command = command_line();
    let mut report = Report::new("load", command, machine, args.rounds());
    report.settings = args.settings();
    let kinds: Vec<String> = arm_runs.first().map_or_else(Vec::new, |arm| {
        let kinds = arm.workload.kinds().into_iter();
        kinds.map(str::to_owned).collect()
    });
    let hdr = hdr.map(|log| (kinds, log));
    let plan = args.interleaved(hdr.as_ref().map(|(kinds, _)| kinds.len()));
    let watch = Watch {
        slow: args.stop.slow(),
        hdr,
        quiet: target.quiet,
    };
    let live = Live::start(plan.progress.clone(), names.clone(), watch);
    let cell = args.cell_name();
    for round in 0..args.rounds() {
        let limit = args.turn(round, &plan);
        let phases = plan
            .round_of_turns(&arm_runs, round, limit, &mut |arm| live.turn(arm))
            .await;
        for (name, phase) in names.iter().zip(phases) {
            if let Some(phase) = phase {
                report.add(name, &cell, phase);
            }
        }
    }
    let ran = live.began().elapsed();
    let seen = live.stop().await?;
    report.timeline = seen.timeline;
    let stopped = args.stop.reason(&plan.progress, seen.slow.as_deref());
    if let Some(why) = &stopped {
        let seconds = ran.as_secs_f64();
        let note = format!("Stopped after {seconds:.1} s, warm-up included: {why}.");
        report.notes.push(note);
    }
    result::compare(&mut report, &names, &cell);
    hand_over(&args, &mut report, &names, &cell)?;
    if let Some(why) = stopped {
        bail!("the run was stopped: {why}");
    }
    succeeded(&report, &names, &cell)
}

fn hand_over(args: &LoadArgs, report: &mut Report, names: &[String], cell: &str) -> Result<()> {
    print!("{}", result::summary(report, names, cell));
    for note in &report.notes {
        println!("{note}");
    }
    if let Some(path) = &args.target.json {
        report.write_json(path)?;
    }
    if let Some(path) = &args.target.html {
        report.charts = result::charts(report, names, cell);
        report.write_html(path)?;
    }
    Ok(())
}

fn succeeded(report: &Report, names: &[String], cell: &str) -> Result<()> {
    for name in names {
        let phases = report.phases(name, cell).iter();
        if phases.map(|phase| phase.ops).sum::<u64>() == 0 {
            bail!("no query to {name} succeeded");
        }
    }
    Ok(())
}

impl LoadArgs {
    fn check(&self) -> Result<()> {
        if let Some(rate) = self.rate {
            ensure!(
                rate > 0.0 && rate.is_finite(),
                "--rate must be a positive number"
            );
        }
        ensure!(
            self.duration.is_none_or(|duration| !duration.is_zero()),
            "--duration must be above 0"
        );
        ensure!(
            self.slice.is_none_or(|slice| slice >= SLICE_MIN),
            "--slice must be at least {SLICE_MIN:?}"
        );
        let rounds = self.rounds() as u64;
        ensure!(
            self.operations
                .is_none_or(|operations| operations >= rounds),
            "--operations must not be below the number of rounds, {rounds}"
        );
        self.stop.check()
    }

    async fn open(
        &self,
        endpoints: &[(Endpoint, Option<u32>)],
        script: Option<&Script>,
    ) -> Result<Vec<ArmRun<AnyWorkload>>> {
        let target = &self.target;
        let mut arm_runs = Vec::new();
        for (endpoint, pid) in endpoints {
            let (sessions, operations) = (self.sessions(), self.operations_expected());
            let workload = target.workload(endpoint, script, sessions, operations);
            let workload = Arc::new(workload.await?);
            let mut watched = target.watch.clone();
            watched.push(Watched::this_process());
            watched.extend(pid.map(|pid| Watched::new("proxy", pid)));
            arm_runs.push(ArmRun { workload, watched });
        }
        Ok(arm_runs)
    }

    /// Without --operations they follow from the rate, or are a guess of what two cores can do.
    fn operations_expected(&self) -> u64 {
        let per_second = self.rate.unwrap_or(10_000.0);
        let warmup = (self.warmup * self.rounds() as u32).as_secs_f64();
        let measured = match (self.operations, self.time()) {
            (Some(operations), _) => operations,
            (None, time) => (per_second * time.unwrap_or_default().as_secs_f64()) as u64,
        };
        measured.saturating_add((per_second * warmup) as u64)
    }

    /// The end of each turn of a round.
    fn turn(&self, round: usize, plan: &Interleaved) -> Limit {
        let time = plan.time / plan.slices as u32;
        let Some(operations) = self.operations else {
            return Limit::Time(time);
        };
        let (rounds, round) = (self.rounds() as u64, round as u64);
        let ops = operations / rounds + u64::from(round < operations % rounds);
        match self.duration {
            Some(_) => Limit::Within { ops, time },
            None => Limit::Ops(ops),
        }
    }

    /// With histograms of so many kinds of query.
    fn interleaved(&self, kinds: Option<usize>) -> Interleaved {
        let time = self.time().unwrap_or_default() / self.rounds() as u32;
        let slices = self.slice.map_or(1, |slice| {
            (time.as_secs_f64() / slice.as_secs_f64().max(1e-3))
                .round()
                .max(1.0) as usize
        });
        let progress = self.stop.progress();
        // In later turns the arm is warm already and its clients only have to ramp up again.
        let ramp_up = match self.time() {
            Some(_) => (time / slices as u32 / 8).max(Duration::from_millis(50)),
            None => Duration::from_millis(250),
        };
        Interleaved {
            clients: self.clients as usize,
            load: self.rate.map_or(LoadModel::Closed, LoadModel::Open),
            time,
            slices,
            warmup_first: self.warmup,
            warmup: self.warmup.min(ramp_up),
            seed: self.target.seed,
            progress: Arc::new(match kinds {
                Some(kinds) => progress.with_intervals(kinds),
                None => progress,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
