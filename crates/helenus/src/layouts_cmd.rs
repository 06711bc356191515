//! `helenus layouts`: heterogeneous replicas.

use clap::{Args, Subcommand};
use helenus_advise::layouts::{advise, calibrate};
use helenus_console::terminal::{run_orderly, run_to_end};
use helenus_migrate::layouts::{
    CreateArgs, create, distrust, rebuild, remove, status, sweep, truncate, verify,
};

/// Copies of a table in different clustering orders, designed from the workload.
#[derive(Args)]
pub(crate) struct LayoutsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Choose clustering orders for the copies of a table, from its statements, written down or counted by
    /// proxies, and a sample of its rows. Nothing is created.
    Advise(advise::AdviseArgs),
    Calibrate(calibrate::CalibrateArgs),
    Create(CreateArgs),
    Status(status::StatusArgs),
    Verify(verify::VerifyArgs),
    Sweep(sweep::SweepArgs),
    Distrust(distrust::DistrustArgs),
    Rebuild(rebuild::RebuildArgs),
    Truncate(truncate::TruncateArgs),
    Drop(remove::DropArgs),
}

pub(crate) fn run(args: LayoutsArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Advise(args) => run_to_end(async move { advise::run(&args).await }),
        Action::Calibrate(args) => run_orderly(calibrate::run(args)),
        Action::Create(args) => run_to_end(create::run(args)),
        Action::Status(args) => run_to_end(status::run(args)),
        Action::Verify(args) => run_to_end(verify::run(args)),
        Action::Sweep(args) => run_orderly(sweep::run(args)),
        Action::Distrust(args) => run_to_end(distrust::run(args)),
        Action::Rebuild(args) => run_to_end(rebuild::run(args)),
        Action::Truncate(args) => run_to_end(truncate::run(args)),
        Action::Drop(args) => run_to_end(remove::run(args)),
    }
}
