//! `helenus top`: watches proxies in the terminal.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod app;
mod asking;
mod columns;
mod details;
mod draw;
mod history;
mod keys;
mod live;
mod moments;
mod plain;
mod proxy;
mod snapshot;
mod tab;
#[cfg(test)]
mod testing;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Args;
use helenus_admin_api::Keys;
use helenus_console::admin::{AdminUrl, Answer, Server, token_of};
use helenus_console::cells::{json_line, print_error, printable};
use keys::{Merged, table};
use serde::Deserialize;

use self::app::App;
use self::asking::Servers;
use self::plain::Plain;
use self::tab::Tab;

const PATIENCE: Duration = Duration::from_secs(10);

/// Watch proxies in the terminal: rates, nodes, clients, statements, slow requests, errors, hot partitions.
///
/// `?` shows the keys. It asks the admin servers that `helenus ctl` asks: without `--admin` and `--socket`
/// /run/helenus/admin.sock if that is there, else http://127.0.0.1:9180. Several proxies are shown together, or
/// one after the other with `[` and `]`. Without colours if NO_COLOR is set.
///
/// For scripts: --once prints once, --json prints JSON; exit code 1 if no proxy answers, with --once if any of them
/// does not.
#[derive(Args)]
pub struct TopArgs {
    /// Admin servers of proxies, separated by commas
    #[arg(long, visible_alias = "url", value_name = "URL", value_delimiter = ',')]
    admin: Vec<AdminUrl>,
    /// Sockets of proxies on this machine (admin.socket), separated by commas
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    socket: Vec<PathBuf>,
    /// File with the token of the admin servers: admin.token, or admin.read_token, which only shows
    #[arg(long, visible_alias = "token-file", value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// What is shown first, or printed
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "keys")]
    tab: Option<Tab>,
    /// The partitions with the most predicted work, of all proxies added up (docs/hot.md)
    #[arg(long)]
    keys: bool,
    /// Rows that are printed
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Seconds between two looks
    #[arg(long, default_value_t = 1.0)]
    every: f64,
    /// Print once, without a terminal
    #[arg(long)]
    once: bool,
    /// Print JSON, one document a line
    #[arg(long)]
    json: bool,
}

/// Until the user wants no more; with `--once`, once.
///
/// # Errors
/// Options that do not fit, no terminal to draw on, or, with `--once`, a proxy that does not answer.
pub fn run(args: TopArgs) -> Result<()> {
    ensure!(
        args.every.is_finite() && (0.1..=3600.0).contains(&args.every),
        "--every must be from 0.1 to 3600"
    );
    let token = args.admin_token_file.as_deref().map(token_of).transpose()?;
    let servers = Servers {
        list: servers_of(&args).into(),
        token: token.map(Into::into),
    };
    let is_plain = args.once || args.json;
    // Programs read the hot partitions from a pipe, look by look.
    let is_piped = args.keys && !std::io::stdout().is_terminal();
    if !is_plain && !is_piped {
        live::ensure_terminal()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        if args.keys && (is_plain || is_piped) {
            return watch_keys(&args, &servers).await;
        }
        let names = servers.list.iter().map(name_of).collect();
        let every_ms = (args.every * 1e3).round() as u64;
        let tab = match args.keys {
            true => Tab::Keys,
            false => args.tab.unwrap_or_default(),
        };
        let app = App::new(names, tab, every_ms);
        match is_plain {
            true => {
                let plain = Plain {
                    limit: args.limit.into(),
                    once: args.once,
                    json: args.json,
                };
                plain::run(app, servers, &plain).await
            }
            false => live::run(app, servers).await,
        }
    });
    // Otherwise the end of a name resolution would be waited for.
    runtime.shutdown_background();
    ended
}

fn servers_of(args: &TopArgs) -> Vec<Server> {
    let sockets = args.socket.iter().map(|path| Server::of(Some(path), None));
    let urls = args.admin.iter().map(|url| Server::of(None, Some(url)));
    let mut servers: Vec<Server> = sockets.chain(urls).collect();
    if servers.is_empty() {
        servers.push(Server::of(None, None));
    }
    servers
}

/// As short as it is clear.
fn name_of(server: &Server) -> String {
    let name = server.name();
    name.strip_prefix("http://").unwrap_or(&name).to_owned()
}

async fn watch_keys(args: &TopArgs, servers: &Servers) -> Result<()> {
    loop {
        let (views, mut failures) = look_at_keys(servers).await;
        if args.once || views.is_empty() {
            // Nothing to show: whoever watches may wait for it, a script must know.
            if let Some(failure) = failures.pop() {
                return Err(failure);
            }
        }
        let merged = Merged::of(&views, args.limit.into());
        let failures = failures.iter().map(|e| printable(&format!("{e:#}")));
        let failures: Vec<String> = failures.collect();
        show_keys(args, &merged, &failures)?;
        if args.once {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs_f64(args.every)).await;
    }
}

/// Asks all proxies at once.
async fn look_at_keys(servers: &Servers) -> (Vec<Keys>, Vec<anyhow::Error>) {
    let token = servers.token.as_deref();
    let asked = servers.list.iter().map(async |server| {
        match server.ask(false, "/api/keys", token, PATIENCE).await? {
            Answer::Done(value) => Ok(Keys::deserialize(value)?),
            Answer::Refused(why) | Answer::NotAllowed(why) | Answer::NotKnown(why) => bail!(why),
        }
    });
    let (mut views, mut failures) = (Vec::new(), Vec::new());
    for answer in futures::future::join_all(asked).await {
        match answer {
            Ok(view) => views.push(view),
            Err(e) => failures.push(e),
        }
    }
    (views, failures)
}

fn show_keys(args: &TopArgs, merged: &Merged, failures: &[String]) -> Result<()> {
    if args.json {
        println!("{}", json_line(merged)?);
        for failure in failures {
            print_error(failure);
        }
        return Ok(());
    }
    println!("{}", merged.headline());
    println!("{}", table(merged));
    if !merged.keys_shown {
        println!(
            "Partitions are named by their tokens: to find one, SELECT … WHERE token(…) = …, or set \
             admin.show_keys."
        );
    }
    for failure in failures {
        println!("Not counted: {failure}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: TopArgs,
    }

    fn parsed(line: &str) -> Result<TopArgs, clap::Error> {
        let words = std::iter::once("top").chain(line.split_whitespace());
        Alone::try_parse_from(words).map(|alone| alone.args)
    }

    #[test]
    fn proxies_are_named_by_addresses_and_sockets() {
        let names = |line: &str| {
            let args = parsed(line).unwrap_or_else(|e| panic!("{line}: {e}"));
            let servers = servers_of(&args);
            servers.iter().map(name_of).collect::<Vec<_>>()
        };
        let line = "--admin http://a:9180,b:9180 --admin c:1 --socket /x --keys";
        assert_eq!(names(line), ["/x", "a:9180", "b:9180", "c:1"]);
        assert_eq!(names("--tab slow --once").len(), 1);
        for line in [
            "--tab nothing",
            "--keys --tab slow",
            "--admin https://a:1",
            "--limit 0",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
