//! `helenus layouts`: heterogeneous replicas.

mod advise;
mod json;
mod read_rows;
mod report;
mod schema;
mod show;
mod values;
mod workload;

#[cfg(test)]
mod tests;

use clap::{Args, Subcommand};

/// Copies of a table in different clustering orders, designed from the workload.
#[derive(Args)]
pub(crate) struct LayoutsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Choose clustering orders for the copies of a table, from its statements and a sample of its
    /// rows. Nothing is created.
    Advise(advise::AdviseArgs),
}

pub(crate) fn run(args: LayoutsArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Advise(args) => advise::run(&args),
    }
}
