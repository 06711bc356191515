//! Helenus: a CQL proxy that makes Apache Cassandra answer sooner.

mod check_cmd;
mod cluster_cmd;
mod serve_cmd;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A CQL proxy that makes Apache Cassandra answer sooner.
#[derive(Parser)]
#[command(name = "helenus", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the proxy.
    Serve(serve_cmd::ServeArgs),
    /// Look at the configuration and the cluster without serving anybody.
    Check(check_cmd::CheckArgs),
    /// Run real Cassandra nodes on this machine.
    Cluster(cluster_cmd::ClusterArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve_cmd::run(args),
        Command::Check(args) => return check_cmd::run(args),
        Command::Cluster(args) => cluster_cmd::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("helenus: {e:#}");
            ExitCode::FAILURE
        }
    }
}
