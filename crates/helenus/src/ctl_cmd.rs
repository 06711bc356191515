//! `helenus ctl`: shows what a running proxy does, and tells it what to do.

mod log;
mod rules;
mod tables;
mod what;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, Subcommand, ValueEnum};
use helenus_console::admin::{Answer, Target};
use helenus_console::cells::{json_line, print_error, printable_lines};
use helenus_console::quantities::parse_time;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use self::what::What;

/// See what a running proxy does, and tell it what to do.
///
/// It asks one proxy's admin server: over its socket on the same machine (no token needed), or over HTTP. Without
/// `--socket` and `--admin` it takes /run/helenus/admin.sock if that is there, else http://127.0.0.1:9180.
///
/// Exit codes: 0 done, 1 no answer, 2 the proxy refuses (no such client, nothing paused, settings that are
/// wrong), 3 it wants a token, or another one.
#[derive(Args)]
pub(crate) struct CtlArgs {
    #[command(flatten)]
    target: Target,
    /// Print the proxy's answer as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show something
    Show(ShowArgs),
    /// Disconnect a client, at once, or all that are idle
    Kill(KillArgs),
    /// Let requests of a role or about a keyspace wait in the proxy
    ///
    /// It ends by itself. What is too much gets OVERLOADED. Drivers give up after a time of their own, often 2 to
    /// 12 seconds: a longer pause is felt.
    Pause(PauseArgs),
    /// End a pause: what waits goes on
    Resume(Paused),
    /// Read settings and certificates again, as on SIGHUP
    Reload,
    /// Connect to nodes anew: each connection is replaced, and closed once all that it carries is answered
    Reconnect(ReconnectArgs),
    /// Show the last lines of the log, or change for a while what is logged
    Log(LogArgs),
    /// Stop the proxy, as on SIGTERM: clients move to other proxies, and no answer is lost
    Drain,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct KillArgs {
    /// As `helenus ctl show clients` shows it
    client: Option<String>,
    /// All that wait for nothing and have sent nothing for so long, as 90s, 10m or 2h
    #[arg(long, value_name = "TIME", value_parser = idle_s)]
    idle: Option<u32>,
}

/// A time of at least a second, in seconds.
fn idle_s(text: &str) -> Result<u32> {
    let seconds = u32::try_from(parse_time(text)?.as_secs())?;
    ensure!(seconds > 0, "write a time from 1s on, as 90s, 10m or 2h");
    Ok(seconds)
}

impl KillArgs {
    fn path(&self) -> String {
        match (&self.client, self.idle) {
            (Some(client), _) => {
                let id = utf8_percent_encode(client, NON_ALPHANUMERIC).to_string();
                // Ids have nothing to be encoded but their hyphen.
                format!("/api/clients/{}/kill", id.replace("%2D", "-"))
            }
            (None, idle) => format!("/api/clients/kill?idle_s={}", idle.unwrap_or_default()),
        }
    }
}

#[derive(Args)]
struct LogArgs {
    /// Lines at most
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=5000))]
    limit: u16,
    /// Log this for a while: a level (error, warn, info, debug), or PART=LEVEL as in helenus_proxy=debug,
    /// several of them separated by commas. What log.filter says of other parts stays in force
    #[arg(long, value_name = "FILTER", conflicts_with = "reset")]
    level: Option<String>,
    /// How long that is logged, as 30s, 10m or 1h; 1h at most
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = time_s, conflicts_with = "reset", requires = "level")]
    seconds: u32,
    /// Log what log.filter says
    #[arg(long)]
    reset: bool,
}

/// A time up to an hour, in seconds.
fn time_s(text: &str) -> Result<u32> {
    let seconds = parse_time(text)?.as_secs();
    ensure!(
        (1..=3_600).contains(&seconds),
        "write a time from 1s to 1h, as 30s, 10m or 1h"
    );
    Ok(seconds as u32)
}

impl LogArgs {
    /// True if the request changes something, and its path.
    fn path(&self) -> (bool, String) {
        match (&self.level, self.reset) {
            (Some(filter), _) => {
                let filter = utf8_percent_encode(filter, NON_ALPHANUMERIC);
                let seconds = self.seconds;
                (
                    true,
                    format!("/api/log/filter?filter={filter}&seconds={seconds}"),
                )
            }
            (None, true) => (true, "/api/log/reset".to_owned()),
            (None, false) => (false, format!("/api/log?limit={}", self.limit)),
        }
    }
}

#[derive(Args)]
struct ReconnectArgs {
    /// Only to this node; all if it is left out
    #[arg(long, value_name = "ADDRESS:PORT")]
    node: Option<SocketAddr>,
}

#[derive(Args)]
struct ShowArgs {
    what: What,
    /// Rows at most
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Which clients come first
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Sort {
    #[default]
    InFlight,
    Requests,
    Bytes,
    Age,
    Idle,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Paused {
    #[arg(long)]
    role: Option<String>,
    /// As in the schema: upper and lower case matter
    #[arg(long)]
    keyspace: Option<String>,
}

#[derive(Args)]
struct PauseArgs {
    #[command(flatten)]
    paused: Paused,
    /// Seconds until it ends by itself
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
    /// Requests that wait at most; further ones get OVERLOADED
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    waiting_max: u32,
}

impl ShowArgs {
    /// Path and query of the request.
    fn path(&self) -> String {
        let limit = self.limit;
        match self.what {
            What::Clients => {
                let sort = match self.sort {
                    Sort::InFlight => "in_flight",
                    Sort::Requests => "requests",
                    Sort::Bytes => "bytes",
                    Sort::Age => "age",
                    Sort::Idle => "idle",
                };
                format!("/api/clients?sort={sort}&limit={limit}")
            }
            What::Statements => format!("/api/statements?limit={}", limit.min(512)),
            What::Slow => format!("/api/slow?limit={limit}"),
            What::Errors => format!("/api/errors?limit={limit}"),
            What::Events => format!("/api/events?limit={limit}"),
            What::Keys => "/api/keys".to_owned(),
            What::Nodes => "/api/nodes".to_owned(),
            What::Pools => format!("/api/pools?limit={limit}"),
            What::Queues => "/api/queues".to_owned(),
            What::Rules => "/api/rules".to_owned(),
            What::Pauses => "/api/pauses".to_owned(),
            What::Config => "/api/config".to_owned(),
            What::Proxies => "/api/proxies".to_owned(),
        }
    }
}

impl Paused {
    fn query(&self) -> String {
        let value = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        match (&self.role, &self.keyspace) {
            (Some(role), _) => format!("role={}", value(role)),
            (None, keyspace) => format!("keyspace={}", value(keyspace.as_deref().unwrap_or(""))),
        }
    }
}

pub(crate) fn run(args: CtlArgs) -> ExitCode {
    match answer_of(&args) {
        Ok(Answer::Done(value)) => {
            if let Err(e) = show(&args, &value) {
                print_error(&e);
                return ExitCode::FAILURE;
            }
            ExitCode::SUCCESS
        }
        Ok(Answer::Refused(why)) => {
            print_error(&why);
            ExitCode::from(2)
        }
        Ok(Answer::NotAllowed(why)) => {
            print_error(&why);
            ExitCode::from(3)
        }
        Ok(Answer::NotKnown(why)) => {
            print_error(&why);
            ExitCode::FAILURE
        }
        Err(e) => {
            print_error(&e);
            ExitCode::FAILURE
        }
    }
}

fn answer_of(args: &CtlArgs) -> Result<Answer> {
    let (server, token) = args.target.server()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (is_action, path, patience) = match &args.command {
        Command::Show(show) => (false, show.path(), 10),
        Command::Kill(kill) => (true, kill.path(), 10),
        Command::Pause(pause) => {
            let (of, seconds, max) = (pause.paused.query(), pause.seconds, pause.waiting_max);
            let path = format!("/api/pause?{of}&seconds={seconds}&waiting_max={max}");
            (true, path, 10)
        }
        Command::Resume(of) => (true, format!("/api/resume?{}", of.query()), 10),
        Command::Reload => (true, "/api/reload".to_owned(), 60),
        Command::Reconnect(ReconnectArgs { node: None }) => (true, "/api/reconnect".to_owned(), 10),
        Command::Reconnect(ReconnectArgs { node: Some(node) }) => {
            let node = utf8_percent_encode(&node.to_string(), NON_ALPHANUMERIC).to_string();
            (true, format!("/api/reconnect?node={node}"), 10)
        }
        Command::Log(log) => {
            let (is_action, path) = log.path();
            (is_action, path, 10)
        }
        Command::Drain => (true, "/api/drain".to_owned(), 10),
    };
    let asked = server.ask(
        is_action,
        &path,
        token.as_deref(),
        Duration::from_secs(patience),
    );
    let answer = runtime.block_on(asked);
    // Otherwise the end of a name resolution would be waited for.
    runtime.shutdown_background();
    answer
}

fn show(args: &CtlArgs, value: &Value) -> Result<()> {
    if args.json {
        println!("{}", json_line(value)?);
        return Ok(());
    }
    // Whatever is in it: a terminal may read it.
    let text = printable_lines(&text_of(&args.command, value)?);
    println!("{}", text.trim_end_matches('\n'));
    Ok(())
}

fn text_of(command: &Command, value: &Value) -> Result<String> {
    Ok(match command {
        Command::Show(show) => tables::text(show.what, value, show.limit.into())?,
        Command::Kill(KillArgs {
            client: Some(client),
            ..
        }) => format!("client {client} is disconnected"),
        Command::Kill(_) => tables::killed(value),
        Command::Pause(_) => tables::pause(value),
        Command::Resume(_) => format!(
            "resumed: {} requests that waited go on, {} were refused",
            value["waiting"], value["refused"]
        ),
        Command::Reload => tables::reloaded(value),
        Command::Reconnect(_) => format!(
            "{} connections to {} nodes are being replaced: helenus ctl show nodes",
            value["links"], value["nodes"]
        ),
        Command::Log(_) => log::text(value),
        Command::Drain => format!(
            "the proxy stops: {} clients move to others, {} s at most",
            value["clients"], value["at_most_s"]
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: CtlArgs,
    }

    fn parsed(line: &str) -> Result<CtlArgs, clap::Error> {
        let words = std::iter::once("ctl").chain(line.split(' '));
        Alone::try_parse_from(words).map(|alone| alone.args)
    }

    #[test]
    fn commands_are_understood_with_options_in_any_place() {
        for line in [
            "show clients --sort bytes --limit 5 --json",
            "--socket /x show slow",
            "show errors --admin 127.0.0.1:9180 --admin-token-file /t",
            "show errors --url http://127.0.0.1:9180",
            "kill 0-1",
            "kill --idle 10m",
            "pause --keyspace shop --seconds 5 --waiting-max 9",
            "resume --role app",
            "reload",
            "reconnect",
            "reconnect --node 10.0.0.1:9042",
            "drain --json",
            "log",
            "log --limit 5 --json",
            "log --level helenus_proxy=debug --for 1h",
            "log --level debug --for 10",
            "log --reset",
        ] {
            let error = parsed(line).err().map(|e| e.to_string());
            assert_eq!(error, None, "{line}");
        }
        for line in [
            "show",
            "show nothing",
            "kill",
            "kill 0-1 --idle 10m",
            "kill --idle 0s",
            "reconnect --node somewhere",
            "pause",
            "pause --role a --keyspace b",
            "pause --role a --seconds 601",
            "show slow --socket /x --admin 127.0.0.1:1",
            "log --level debug --for 61m",
            "log --level debug --for 0s",
            "log --level debug --for m",
            "log --level debug --reset",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn names_are_encoded() {
        let of = Paused {
            role: Some("a&b=c d".to_owned()),
            keyspace: None,
        };
        assert_eq!(of.query(), "role=a%26b%3Dc%20d");
    }
}
