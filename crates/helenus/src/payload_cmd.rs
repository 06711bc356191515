//! `helenus payload`: JSON documents as compact bytes.

mod advise;
#[cfg(feature = "lab")]
pub(crate) mod beforehand;
mod column;
mod dictionary;
mod disable;
pub(crate) mod documents;
mod enable;
mod entry;
mod journey;
pub(crate) mod measure;
mod moving;
mod pace;
mod proxies;
pub(crate) mod report;
pub(crate) mod sample;
mod show;
mod status;
mod target;
#[cfg(test)]
mod testing;
mod values;

use clap::{Args, Subcommand};
use helenus_console::terminal::run_to_end;

/// Compact storage of columns that hold JSON documents.
#[derive(Args)]
pub(crate) struct PayloadArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Advise(advise::AdviseArgs),
    Enable(enable::EnableArgs),
    Status(status::StatusArgs),
    Disable(disable::DisableArgs),
}

pub(crate) fn run(args: PayloadArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Advise(args) => run_to_end(advise::run(args)),
        Action::Enable(args) => run_to_end(enable::run(args)),
        Action::Status(args) => run_to_end(status::run(args)),
        Action::Disable(args) => run_to_end(disable::run(args)),
    }
}
