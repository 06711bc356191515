//! `helenus payload`: JSON documents as compact bytes.

mod advise;
mod column;
pub(crate) mod documents;
pub(crate) mod measure;
pub(crate) mod report;
pub(crate) mod sample;
mod show;

use clap::{Args, Subcommand};

use crate::testbed::run_to_end;

/// Compact storage of columns that hold JSON documents.
#[derive(Args)]
pub(crate) struct PayloadArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Advise(advise::AdviseArgs),
}

pub(crate) fn run(args: PayloadArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Advise(args) => run_to_end(advise::run(args)),
    }
}
