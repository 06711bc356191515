//! `helenus replay`: plays a capture against one or two endpoints and compares them.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Args;
use helenus_console::cells::printable;
use helenus_console::figures::number;
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::run_to_end;
use helenus_load::replay::{Options, Outcome, run as play};

use crate::endpoint_args::EndpointArgs;
use crate::played::{Words, groups, not_played, print, tell};
use crate::result_file::ResultFile;

/// Play a capture (`helenus capture`) against one or two endpoints, and compare latencies and answers.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// The capture
    file: PathBuf,
    #[command(flatten)]
    to: EndpointArgs,
    /// Times the recorded rate, from 0.01 to 100
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// Send as soon as a connection has no more requests in flight than in the capture, instead of at the
    /// recorded times
    #[arg(long, conflicts_with = "speed")]
    closed: bool,
    /// Pieces of the capture; the endpoints take turns with each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// First write a row for each partition key of the capture, through the first endpoint: it changes data
    #[arg(long)]
    fill: bool,
    /// Also play writes: they change data, once for each endpoint
    #[arg(long)]
    writes: bool,
    /// Statements, and reasons why something was not played, that are shown at most, the most frequent first
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs `helenus replay`.
///
/// # Errors
/// Options that do not fit, a capture that cannot be read, or an endpoint that cannot be reached.
pub fn run(args: ReplayArgs) -> Result<()> {
    ensure!(
        (0.01..=100.0).contains(&args.speed),
        "--speed must be from 0.01 to 100"
    );
    let endpoints = args.to.endpoints()?;
    let file = args.json.as_deref().map(ResultFile::open).transpose()?;
    raise_open_files_limit();
    run_to_end(async move {
        let options = Options {
            speed: args.speed,
            is_closed: args.closed,
            rounds: args.rounds as usize,
            writes: args.writes,
            fill: args.fill,
        };
        let rounds = args.rounds;
        let on_turn = |round: usize, name: &str| {
            tell(&format!(
                "round {} of {rounds}: {}",
                round + 1,
                printable(name)
            ));
        };
        let outcome = play(&args.file, &endpoints, options, on_turn).await?;
        let written = file.map(|file| file.write(&outcome)).transpose();
        print(&shown(&outcome, args.limit));
        written?;
        if args.writes && endpoints.len() == 2 {
            tell("writes were played in between, so answers may differ because of them");
        }
        if let Some(why) = &outcome.broken_off {
            bail!(
                "only {} of {rounds} rounds were played: {why}",
                outcome.rounds
            );
        }
        Ok(())
    })
}

fn shown(outcome: &Outcome, limit: usize) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    if let Some(rows) = outcome.filled_rows {
        line(format!("{rows} rows were written for the capture's keys"));
    }
    line(format!(
        "{} requests for each of {}, {} rounds",
        outcome.requests,
        outcome.endpoints.join(" and "),
        outcome.rounds
    ));
    for (name, pace) in outcome.endpoints.iter().zip(&outcome.pace) {
        let Some(pace) = pace else { continue };
        let (reached, wanted) = (number(pace.reached_per_s), number(pace.wanted_per_s));
        let (p99, max) = (number(pace.late_p99_ms), number(pace.late_max_ms));
        line(format!(
            "{}: {reached} of {wanted} requests/s, sent {p99} ms (p99) and {max} ms (max) after they were due",
            printable(name)
        ));
        if pace.fell_behind() {
            line(format!(
                "warning: {} did not get the recorded load, and its latencies include the delay: play with a smaller \
                 --speed, or on a machine that has more processors",
                printable(name)
            ));
        }
    }
    let is_compared = outcome.endpoints.len() == 2;
    let words = is_compared.then_some(Words {
        compared: "answers of reads compared",
        different: "with different rows",
    });
    let arms = &outcome.endpoints;
    let shown = groups(&outcome.groups, arms, is_compared, words, limit);
    shown.into_iter().for_each(&mut line);
    let reasons = not_played(&outcome.not_played, limit);
    reasons.into_iter().for_each(&mut line);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: ReplayArgs,
    }

    #[test]
    fn a_closed_loop_has_no_speed() {
        let parsed = |line: &str| {
            let words = ["replay", "x.cap", "--endpoint", "a=h:1"].into_iter();
            Alone::try_parse_from(words.chain(line.split_whitespace()))
        };
        let alone = parsed("--closed").unwrap_or_else(|e| panic!("{e}"));
        assert!(alone.args.closed && alone.args.to.endpoints().is_ok());
        assert!(parsed("--closed --speed 2").is_err());
    }
}
