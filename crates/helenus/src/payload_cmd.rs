//! `helenus payload`: JSON documents as compact bytes.

use clap::{Args, Subcommand};
use helenus_advise::payload::advise;
use helenus_console::terminal::run_to_end;
use helenus_migrate::payload::{disable, enable, status};

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
