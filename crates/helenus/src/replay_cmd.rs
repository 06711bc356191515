//! `helenus replay`: plays a capture against one or two endpoints and compares them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use helenus_load::endpoint::{Endpoint, Policy};
use helenus_load::replay::{Group, Options, Outcome, run as play};
use helenus_load::spread::Spread;

use crate::cells::printable;
use crate::figures::number;
use crate::load_cmd::{Arm, parse_arm};
use crate::open_files::raise_open_files_limit;
use crate::quantities::parse_time;
use crate::terminal::run_to_end;

/// Characters of a statement that are shown.
const STATEMENT_CHARS_MAX: usize = 60;

/// Play a capture (`helenus capture`) against one or two endpoints, and compare latencies and answers.
#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    /// The capture
    file: PathBuf,
    /// Where to send, NAME=HOST:PORT[,HOST:PORT]; once, or twice to compare
    #[arg(long = "endpoint", required = true, value_parser = parse_arm, value_name = "NAME=HOST:PORT")]
    endpoints: Vec<Arm>,
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
    /// Role, if the cluster requires authentication; the password is read from HELENUS_LOAD_PASSWORD
    #[arg(long)]
    username: Option<String>,
    /// How long to wait for an answer
    #[arg(long, default_value = "30s", value_parser = parse_time, value_name = "TIME")]
    request_timeout: Duration,
    /// Statements, and reasons why something was not played, that are shown at most, the most frequent first
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: ReplayArgs) -> Result<()> {
    ensure!(
        (0.01..=100.0).contains(&args.speed),
        "--speed must be from 0.01 to 100"
    );
    let endpoints = args.endpoints()?;
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
            eprintln!("round {} of {rounds}: {}", round + 1, printable(name));
        };
        let outcome = play(&args.file, &endpoints, options, on_turn).await?;
        print!("{}", shown(&outcome, args.limit));
        if let Some(path) = &args.json {
            let json = serde_json::to_vec_pretty(&outcome)?;
            std::fs::write(path, json)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if args.writes && endpoints.len() == 2 {
            eprintln!("writes were played in between, so answers may differ because of them");
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

impl ReplayArgs {
    fn endpoints(&self) -> Result<Vec<Endpoint>> {
        let password = std::env::var("HELENUS_LOAD_PASSWORD");
        let credentials = match (&self.username, password) {
            (None, _) => None,
            (Some(user), Ok(password)) => Some((user.clone(), password)),
            (Some(_), Err(_)) => bail!("--username needs the password in HELENUS_LOAD_PASSWORD"),
        };
        ensure!(
            self.endpoints.len() <= 2,
            "give --endpoint once, or twice to compare"
        );
        if let [first, second] = &self.endpoints[..] {
            ensure!(
                first.name != second.name,
                "two endpoints are named {}",
                first.name
            );
        }
        let endpoints = self.endpoints.iter().map(|of| {
            let contact_points = of.contact_points.clone();
            let mut endpoint = Endpoint::new(of.name.clone(), contact_points, Policy::RoundRobin);
            endpoint.credentials.clone_from(&credentials);
            endpoint.request_timeout = self.request_timeout;
            endpoint
        });
        Ok(endpoints.collect())
    }
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
    let (statements, others): (Vec<&Group>, Vec<&Group>) = outcome
        .groups
        .iter()
        .partition(|group| group.kind == "statement");
    line(latencies(outcome, others.iter().copied()));
    let most = statements.iter().copied().take(limit);
    line(latencies(outcome, most));
    if statements.len() > limit {
        line(format!(
            "{} more statements: --limit",
            statements.len() - limit
        ));
    }
    if outcome.endpoints.len() == 2 {
        let all = others.iter().find(|group| group.kind == "all");
        line(all.map_or_else(|| "no answers to compare".to_owned(), |all| answers(all)));
        for group in statements
            .iter()
            .filter(|group| group.compared > group.same)
            .take(limit)
        {
            line(format!("  {}: {}", name(group), answers(group)));
        }
    }
    let mut not_played: Vec<_> = outcome.not_played.iter().collect();
    not_played.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (why, count) in not_played.iter().take(limit) {
        line(format!("not played: {count} {}", printable(why)));
    }
    if not_played.len() > limit {
        let more = not_played.len() - limit;
        line(format!("not played for {more} more reasons: --limit"));
    }
    out
}

/// How the answers compare.
fn answers(group: &Group) -> String {
    let mut said = format!(
        "{} answers of reads compared, {} the same",
        group.compared, group.same
    );
    for (count, what) in [
        (group.reordered, "with the same rows in another order"),
        (group.different, "with different rows"),
        (group.failed, "of which one or both were errors"),
        (
            group.undecided,
            "not the same, of statements that call functions",
        ),
    ] {
        if count > 0 {
            said.push_str(&format!(", {count} {what}"));
        }
    }
    said
}

fn name(group: &Group) -> String {
    let name = printable(&group.name);
    match name.chars().count() > STATEMENT_CHARS_MAX {
        true => name
            .chars()
            .take(STATEMENT_CHARS_MAX)
            .chain(['…'])
            .collect(),
        false => name,
    }
}

fn latencies<'a>(outcome: &Outcome, groups: impl Iterator<Item = &'a Group>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec![String::new()];
    for endpoint in &outcome.endpoints {
        let of = |what: &str| format!("{}\n{what}", printable(endpoint));
        header.extend(["answered", "errors", "p50 ms", "p99 ms"].map(of));
    }
    if outcome.endpoints.len() == 2 {
        header.extend(["p50 ratio", "p99 ratio"].map(str::to_owned));
    }
    table.set_header(header);
    for group in groups {
        let mut cells = vec![name(group)];
        for of in &group.of {
            let errors: u64 = of.errors.values().sum();
            cells.extend([of.answered.to_string(), errors.to_string()]);
            cells.extend([of.p50_ms, of.p99_ms].map(number));
        }
        if outcome.endpoints.len() == 2 {
            cells.extend([group.ratio_p50, group.ratio_p99].map(ratio));
        }
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn ratio(of: Option<Spread>) -> String {
    of.map_or_else(String::new, |of| {
        format!(
            "{} ({}–{})",
            number(of.median),
            number(of.min),
            number(of.max)
        )
    })
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

    fn endpoints(line: &str) -> Result<Vec<Endpoint>> {
        let words = std::iter::once("replay").chain(line.split(' '));
        Alone::try_parse_from(words)?.args.endpoints()
    }

    #[test]
    fn there_are_one_or_two_endpoints_with_names_of_their_own() {
        let two = endpoints("x.cap --endpoint a=127.0.0.1:1 --endpoint b=127.0.0.1:2,127.0.0.1:3");
        let two = two.unwrap();
        assert_eq!((two.len(), two[1].contact_points.len()), (2, 2));
        for wrong in [
            "x.cap",
            "x.cap --endpoint a",
            "x.cap --endpoint a=h:1 --endpoint a=h:2",
            "x.cap --endpoint a=h:1 --endpoint b=h:2 --endpoint c=h:3",
            "x.cap --endpoint a=h:1 --closed --speed 2",
        ] {
            assert!(endpoints(wrong).is_err(), "{wrong}");
        }
    }
}
