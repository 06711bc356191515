//! What would io_uring bring to a proxy of Helenus's shape? See README.md.

mod back_end;
mod client;
mod compare;
mod counts;
mod node;
mod process;
mod relay;
mod report;

use std::io::{BufRead, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use serde::Serialize;

use back_end::Kind;
use client::{Client, Load};
use counts::Calls;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures a small relay on epoll and on io_uring; without a subcommand, all of it.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    plan: Plan,
}

/// What is compared.
#[derive(Args, Clone, Serialize)]
struct Plan {
    /// Back ends; the first is the base of all ratios
    #[arg(long, value_enum, value_delimiter = ',', default_values_t =
        [Kind::Epoll, Kind::EpollBare, Kind::Uring, Kind::UringInc, Kind::UringGather, Kind::UringCoop])]
    back_ends: Vec<Kind>,
    /// Connections, and requests under way on each of them
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1x1,16x1,128x1,1000x1,16x32"
    )]
    loads: Vec<Load>,
    /// Slices of time a back end and load
    #[arg(long, default_value_t = 10)]
    slices: usize,
    /// Length of a slice
    #[arg(long, default_value_t = 1000)]
    slice_ms: u64,
    /// Where to put the results, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The processes that a comparison starts.
#[derive(Subcommand)]
enum Role {
    /// Answers requests
    Node,
    /// Passes requests on to nodes
    Relay {
        #[arg(long, value_enum)]
        back_end: Kind,
        #[arg(long, value_delimiter = ',')]
        nodes: Vec<SocketAddr>,
    },
    /// Asks, for as many milliseconds as each line of standard input says
    Client {
        #[arg(long)]
        relay: SocketAddr,
        #[arg(long)]
        load: Load,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.role {
        None => {
            for kind in &cli.plan.back_ends {
                if let Err(e) = kind.probe() {
                    let name = kind.name();
                    eprintln!("io_uring as `{name}` wants it is not available here: {e:#}");
                    return ExitCode::from(2);
                }
            }
            compare::run(cli.plan)
        }
        Some(Role::Node) => run_node(),
        Some(Role::Relay { back_end, nodes }) => run_relay(back_end, &nodes),
        Some(Role::Client { relay, load }) => run_client(relay, load),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_node() -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    say(&listener.local_addr()?)?;
    // Whoever started this process holds its standard input open.
    std::thread::spawn(|| {
        std::io::stdin().lines().for_each(drop);
        std::process::exit(0);
    });
    node::serve(&listener)
}

fn run_relay(back_end: Kind, nodes: &[SocketAddr]) -> Result<()> {
    ensure!(
        nodes.len() == relay::LINKS,
        "{} nodes, please",
        relay::LINKS
    );
    let mut links = Vec::new();
    for node in nodes {
        let link = TcpStream::connect(node).with_context(|| format!("no node at {node}"))?;
        link.set_nodelay(true)?;
        link.set_nonblocking(true)?;
        links.push(link);
    }
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    say(&listener.local_addr()?)?;
    std::thread::spawn(|| {
        for _ in std::io::stdin().lines().map_while(Result::ok) {
            if say(&Calls::now()).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
    back_end.back_end().run(listener, links)
}

fn run_client(relay: SocketAddr, load: Load) -> Result<()> {
    let mut client = Client::connect(relay, load)?;
    for line in std::io::stdin().lock().lines() {
        let ms = line?.trim().parse().context("milliseconds, please")?;
        say(&client.run(Duration::from_millis(ms))?)?;
    }
    Ok(())
}

/// One line of JSON to whoever started this process.
fn say(what: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, what)?;
    writeln!(out)?;
    Ok(out.flush()?)
}
