//! Helenus: a CQL proxy that makes Apache Cassandra answer sooner.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod capture_cmd;
mod check_cmd;
mod ctl_cmd;
mod health_cmd;
mod layouts_cmd;
mod log_layer;
mod log_output;
mod manual_cmd;
mod panics;
mod payload_cmd;
mod serve_cmd;

#[cfg(not(feature = "lab"))]
mod lab_program;

#[cfg(not(feature = "lab"))]
use std::ffi::OsString;
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
        /// Print the constants that only the test tools change, to compare.
        #[cfg(feature = "lab")]
        #[arg(long, conflicts_with = "json_schema")]
        lab: bool,
    },
    Man(manual_cmd::ManArgs),
    Completions(manual_cmd::CompletionsArgs),
    #[cfg(feature = "lab")]
    Bench(helenus_lab::bench::BenchArgs),
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    Busy(helenus_lab::busy::BusyArgs),
    #[cfg(feature = "lab")]
    Cluster(helenus_lab::cluster::ClusterArgs),
    Capture(capture_cmd::CaptureCommand),
    Ctl(ctl_cmd::CtlArgs),
    #[cfg(feature = "lab")]
    Demo(helenus_lab::demo::DemoArgs),
    Layouts(layouts_cmd::LayoutsArgs),
    #[cfg(feature = "lab")]
    Load(helenus_lab::load::LoadCommand),
    #[cfg(feature = "lab")]
    Mirror(helenus_lab::mirror::MirrorArgs),
    Payload(payload_cmd::PayloadArgs),
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    ProbeStorage(helenus_lab::probe::ProbeArgs),
    #[cfg(feature = "lab")]
    Replay(helenus_lab::replay::ReplayArgs),
    #[cfg(feature = "lab")]
    Sim(helenus_lab::sim::SimArgs),
    Top(helenus_top::TopArgs),
    /// What this program does not know: a command of the laboratory, or a mistake.
    #[cfg(not(feature = "lab"))]
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

fn main() -> ExitCode {
    if let Err(why) = helenus_catalogue::waits::check() {
        return shown(Err(anyhow::Error::msg(why)));
    }
    let result = match Cli::parse().command {
        Command::Serve(args) => serve_cmd::run(args),
        Command::Check(args) => return check_cmd::run(args),
        #[cfg(feature = "lab")]
        Command::Bench(args) => return shown(helenus_lab::bench::run(args)),
        Command::Capture(command) => return capture_cmd::run(command),
        Command::Ctl(args) => return ctl_cmd::run(args),
        Command::Health(args) => return health_cmd::run(args),
        Command::Man(args) => manual_cmd::man(args, Cli::command()),
        Command::Completions(args) => manual_cmd::completions(args, Cli::command()),
        Command::Reference {
            json_schema: true, ..
        } => {
            println!("{:#}", helenus_proxy::reference::schema_of_operators());
            Ok(())
        }
        #[cfg(feature = "lab")]
        Command::Reference { lab: true, .. } => {
            print!("{}", helenus_proxy::reference::markdown_of_lab());
            Ok(())
        }
        Command::Reference { .. } => {
            print!("{}", helenus_proxy::reference::markdown());
            Ok(())
        }
        #[cfg(feature = "lab")]
        Command::Busy(args) => helenus_lab::busy::run(args),
        #[cfg(feature = "lab")]
        Command::Cluster(args) => helenus_lab::cluster::run(args),
        #[cfg(feature = "lab")]
        Command::Demo(args) => helenus_lab::demo::run(args),
        Command::Layouts(args) => layouts_cmd::run(args),
        #[cfg(feature = "lab")]
        Command::Load(args) => helenus_lab::load::run(args),
        #[cfg(feature = "lab")]
        Command::Mirror(args) => return shown(helenus_lab::mirror::run(args)),
        Command::Payload(args) => payload_cmd::run(args),
        #[cfg(feature = "lab")]
        Command::ProbeStorage(args) => helenus_lab::probe::run(&args),
        #[cfg(feature = "lab")]
        Command::Replay(args) => helenus_lab::replay::run(args),
        #[cfg(feature = "lab")]
        Command::Sim(args) => helenus_lab::sim::run(args),
        Command::Top(args) => helenus_top::run(args),
        #[cfg(not(feature = "lab"))]
        Command::Other(words) => lab_program::run(&words, Cli::command()),
    };
    shown(result.map(|()| ExitCode::SUCCESS))
}

fn shown(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        helenus_console::cells::print_error(&error);
        ExitCode::FAILURE
    })
}
