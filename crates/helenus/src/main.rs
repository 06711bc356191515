//! The command-line program.

mod cluster_cmd;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Cluster(cluster_cmd::ClusterArgs),
}

fn main() -> std::process::ExitCode {
    let result = match Cli::parse().command {
        Command::Cluster(args) => cluster_cmd::run(args),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
