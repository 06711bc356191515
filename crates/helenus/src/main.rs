//! The command-line program.

mod bench_cmd;
mod cluster_cmd;
mod demo_cmd;
mod load_cmd;
mod stand;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(bench_cmd::BenchArgs),
    Cluster(cluster_cmd::ClusterArgs),
    Demo(demo_cmd::DemoArgs),
    Load(load_cmd::LoadArgs),
}

fn main() -> std::process::ExitCode {
    let result = match Cli::parse().command {
        Command::Bench(args) => bench_cmd::run(args),
        Command::Cluster(args) => cluster_cmd::run(args),
        Command::Demo(args) => demo_cmd::run(args),
        Command::Load(args) => load_cmd::run(args),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
