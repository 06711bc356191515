//! `helenus layouts`: heterogeneous replicas.

mod admin;
mod advise;
mod backfill;
mod calibrate;
pub(crate) mod coefficients;
mod compare;
mod create;
mod create_args;
mod definition;
mod drift;
mod entry;
mod fill;
mod following;
mod json;
mod learned;
mod names;
mod ranges;
mod read_rows;
mod rebuild;
mod remove;
mod removed;
mod repair;
mod report;
mod request;
mod rules;
mod sample_nodes;
mod schema;
mod show;
mod sources;
mod status;
mod times;
mod values;
mod verdict;
mod verify;
mod work;
mod workload;
mod writer;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use clap::{Args, Subcommand};
use helenus_console::terminal::{run_orderly, run_to_end};

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
    Create(create_args::CreateArgs),
    Status(status::StatusArgs),
    Verify(verify::VerifyArgs),
    Rebuild(rebuild::RebuildArgs),
    Drop(remove::DropArgs),
}

pub(crate) fn run(args: LayoutsArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Advise(args) => run_to_end(async move { advise::run(&args).await }),
        Action::Calibrate(args) => run_orderly(calibrate::run(args)),
        Action::Create(args) => run_to_end(create::run(args)),
        Action::Status(args) => run_to_end(status::run(args)),
        Action::Verify(args) => run_to_end(verify::run(args)),
        Action::Rebuild(args) => run_to_end(rebuild::run(args)),
        Action::Drop(args) => run_to_end(remove::run(args)),
    }
}
