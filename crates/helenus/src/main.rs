//! Helenus: a CQL proxy that makes Apache Cassandra answer sooner.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod admin_url;
mod bench_cmd;
mod busy_cmd;
mod check_cmd;
mod cluster_cmd;
mod demo_cmd;
mod health_cmd;
mod layouts_cmd;
mod load_cmd;
mod manual_cmd;
mod node_cpus;
mod node_storage;
mod nodetool;
mod online;
mod payload_cmd;
mod probe_cmd;
mod serve_cmd;
mod sim_cmd;
mod stored_documents;
mod testbed;
mod top_cmd;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

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
    /// Check the configuration and the cluster without serving clients.
    Check(check_cmd::CheckArgs),
    Health(health_cmd::HealthArgs),
    /// Print the configuration reference (Markdown), or the JSON schema of the settings.
    Reference {
        /// Print the JSON schema.
        #[arg(long)]
        json_schema: bool,
    },
    Man(manual_cmd::ManArgs),
    Completions(manual_cmd::CompletionsArgs),
    Bench(bench_cmd::BenchArgs),
    #[command(hide = true)]
    Busy(busy_cmd::BusyArgs),
    Cluster(cluster_cmd::ClusterArgs),
    Demo(demo_cmd::DemoArgs),
    Layouts(layouts_cmd::LayoutsArgs),
    Load(load_cmd::LoadCommand),
    Payload(payload_cmd::PayloadArgs),
    #[command(hide = true)]
    ProbeStorage(probe_cmd::ProbeArgs),
    Sim(sim_cmd::SimArgs),
    Top(top_cmd::TopArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve_cmd::run(args),
        Command::Check(args) => return check_cmd::run(args),
        Command::Bench(args) => return shown(bench_cmd::run(args)),
        Command::Health(args) => return health_cmd::run(args),
        Command::Man(args) => manual_cmd::man(args, Cli::command()),
        Command::Completions(args) => manual_cmd::completions(args, Cli::command()),
        Command::Reference { json_schema } => {
            if json_schema {
                println!("{:#}", helenus_proxy::reference::schema());
            } else {
                print!("{}", helenus_proxy::reference::markdown());
            }
            Ok(())
        }
        Command::Busy(args) => busy_cmd::run(args),
        Command::Cluster(args) => cluster_cmd::run(args),
        Command::Demo(args) => demo_cmd::run(args),
        Command::Layouts(args) => layouts_cmd::run(args),
        Command::Load(args) => load_cmd::run(args),
        Command::Payload(args) => payload_cmd::run(args),
        Command::ProbeStorage(args) => probe_cmd::run(&args),
        Command::Sim(args) => sim_cmd::run(args),
        Command::Top(args) => top_cmd::run(args),
    };
    shown(result.map(|()| ExitCode::SUCCESS))
}

fn shown(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("helenus: {error:#}");
        ExitCode::FAILURE
    })
}
