//! `helenus mirror`: sends the reads of a running proxy's clients to one or two other endpoints as well.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use helenus_console::admin::capture::{asked_for, refused};
use helenus_console::admin::{Coming, Target};
use helenus_console::cells::{print_error, printable};
use helenus_console::figures::number;
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::quantities::{parse_bytes, parse_time};
use helenus_console::terminal::{Stop, run_orderly};
use helenus_load::mirror::{CLIENTS, Interval, Limits, Mirror, Options, Outcome, Progress, Source};

use crate::endpoint_args::EndpointArgs;
use crate::played::{Words, groups, known, not_played, print, tell};
use crate::result_file::ResultFile;

/// Nothing of it is kept, so it may be as much as comes.
const CAPTURE_BYTES_MAX: u64 = 1 << 40;
/// How long the proxy may take to begin a capture.
const PATIENCE: Duration = Duration::from_secs(10);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Send the reads of a running proxy's clients to a second cluster as well, and compare.
///
/// It captures what the proxy is asked, with values, and sends each read a second later. Writes are never sent. What
/// falls behind is dropped and counted; the proxy and its clients never wait. With one endpoint, latencies, errors
/// and sizes of answers are compared with those that the clients got; with two, their answers row for row. Ctrl-C
/// ends it with the summary.
///
/// It needs the proxy's socket, or the token that may change things, and admin.show_keys. Exit codes are those of
/// `helenus capture`; it is 1 as well where an endpoint cannot be reached when it begins.
#[derive(Args, Debug)]
pub struct MirrorArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    to: EndpointArgs,
    /// How long, such as 90s, 10m or 1h; a day at most
    #[arg(long = "for", default_value = "10m", value_parser = parse_time, value_name = "TIME")]
    time: Duration,
    /// Share of the clients' connections whose reads are sent, above 0 up to 1
    #[arg(long, default_value_t = 1.0)]
    share: f64,
    /// Connections to each endpoint
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    connections: u16,
    /// Reads that wait for answers at most; the others are behind
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "N")]
    in_flight: u32,
    /// Reads that may be behind; the oldest of more are dropped
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "N")]
    behind_max: u32,
    /// Bytes of reads that wait, on time or behind, or are under way; more are dropped
    #[arg(long, default_value = "64MiB", value_parser = parse_bytes, value_name = "SIZE")]
    behind_bytes_max: u64,
    /// A read that was answered so long ago when its turn comes is dropped; from 2s to 10m
    #[arg(long, default_value = "5s", value_parser = parse_time, value_name = "TIME")]
    lag_max: Duration,
    /// Statements, and reasons why something was not played, that are shown at most, the most frequent first
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs `helenus mirror`.
///
/// # Errors
/// Options that do not fit, an endpoint or a proxy that cannot be reached, or a result that cannot be written.
pub fn run(args: MirrorArgs) -> Result<ExitCode> {
    let options = args.options()?;
    let path = asked_for(args.time, args.share, CAPTURE_BYTES_MAX, true)?;
    let endpoints = args.to.endpoints()?;
    ensure!(
        endpoints.iter().all(|of| of.name != CLIENTS),
        "name the endpoint otherwise: {CLIENTS} is what the clients' own answers are called"
    );
    let (server, token) = args.target.server()?;
    let file = args.json.as_deref().map(ResultFile::open).transpose()?;
    raise_open_files_limit();
    let mut code = ExitCode::SUCCESS;
    run_orderly(async {
        let mut stop = Stop::new()?;
        // Before the proxy is asked: otherwise it would begin in vain.
        let opening = Mirror::open(&endpoints, options);
        let mirror = stop.unless(opening).await?;
        let asking = server.stream(&path, token.as_deref(), PATIENCE);
        let coming = match stop.unless(asking).await? {
            Ok(coming) => coming,
            Err(answer) => {
                code = refused(answer);
                return Ok(());
            }
        };
        let names: Vec<String> = endpoints.iter().map(|of| printable(&of.name)).collect();
        let on_progress = |progress: Progress| tell(&progress_line(&progress, &names));
        let outcome = mirror.run(Body(coming), stop.asked(), on_progress).await?;
        let written = file.map(|file| file.write(&outcome)).transpose();
        print(&shown(&outcome, args.limit));
        written?;
        if let Some(why) = &outcome.broken_off {
            print_error(&format!("it has broken off: {why}"));
            code = ExitCode::FAILURE;
        }
        Ok(())
    })?;
    Ok(code)
}

impl MirrorArgs {
    fn options(&self) -> Result<Options> {
        let lag = Duration::from_secs(2)..=Duration::from_secs(600);
        ensure!(
            lag.contains(&self.lag_max),
            "--lag-max must be from 2s to 10m"
        );
        ensure!(
            (1 << 20..=16 << 30).contains(&self.behind_bytes_max),
            "--behind-bytes-max must be from 1MiB to 16GiB"
        );
        Ok(Options {
            connections: self.connections.into(),
            in_flight_max: self.in_flight as usize,
            limits: Limits {
                behind_max: self.behind_max as usize,
                bytes_max: self.behind_bytes_max as usize,
                lag_max: self.lag_max,
            },
            progress: PROGRESS_INTERVAL,
        })
    }
}

/// The answer of the proxy, as it comes.
struct Body(Coming);

impl Source for Body {
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(self.0.next().await?.map(|bytes| bytes.to_vec()))
    }
}

fn progress_line(progress: &Progress, names: &[String]) -> String {
    let names = std::iter::once(CLIENTS).chain(names.iter().map(String::as_str));
    let of = names.zip(&progress.of).map(|(name, of)| {
        let Interval {
            p50_ms,
            p99_ms,
            errors,
        } = of;
        let mut said = format!("{name} p50 {} p99 {} ms", known(*p50_ms), known(*p99_ms));
        if *errors > 0 {
            said.push_str(&format!(" ({errors} errors)"));
        }
        said
    });
    let of: Vec<String> = of.collect();
    format!(
        "{:6.0} s  {} reads/s, {:.1} s behind, {} dropped, {} lost by the proxy; {}; {} differences",
        progress.since_began.as_secs_f64(),
        number(progress.sent_per_s),
        progress.behind.as_secs_f64(),
        progress.dropped,
        progress.lost,
        of.join(", "),
        progress.differences
    )
}

fn shown(outcome: &Outcome, limit: usize) -> String {
    let mut lines = vec![format!(
        "{} reads in {:.0} s; {} dropped ({} behind, {} too much memory, {} too late), {} lost by the proxy, {} \
         unfinished",
        outcome.played,
        outcome.seconds,
        outcome.dropped,
        outcome.dropped_behind,
        outcome.dropped_bytes,
        outcome.dropped_late,
        outcome.lost,
        outcome.unfinished
    )];
    let words = match outcome.arms.len() {
        2 => Words {
            compared: "answers compared with those of clients",
            different: "of another size",
        },
        _ => Words {
            compared: "answers of both endpoints compared",
            different: "with different rows",
        },
    };
    lines.extend(groups(
        &outcome.groups,
        &outcome.arms,
        false,
        Some(words),
        limit,
    ));
    lines.extend(not_played(&outcome.not_played, limit));
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: MirrorArgs,
    }

    fn parsed(line: &str) -> Result<MirrorArgs> {
        let words = ["mirror", "--endpoint", "second=h:1"].into_iter();
        Ok(Alone::try_parse_from(words.chain(line.split_whitespace()))?.args)
    }

    #[test]
    fn options_have_bounds() {
        let options = parsed("").and_then(|args| args.options());
        let Options {
            connections,
            limits,
            ..
        } = options.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((connections, limits.behind_max), (8, 10_000));
        assert_eq!(
            (limits.bytes_max, limits.lag_max),
            (64 << 20, Duration::from_secs(5))
        );
        for wrong in [
            "--lag-max 1s",
            "--lag-max 11m",
            "--behind-max 0",
            "--behind-bytes-max 1KiB",
            "--connections 0",
            "--in-flight 0",
        ] {
            let options = parsed(wrong).and_then(|args| args.options());
            assert!(options.is_err(), "{wrong}");
        }
    }

    #[test]
    fn progress_says_who_is_slow() {
        let interval = |p50_ms, errors| Interval {
            p50_ms,
            p99_ms: Some(12.0),
            errors,
        };
        let progress = Progress {
            since_began: Duration::from_secs(15),
            sent_per_s: 1234.0,
            dropped: 7,
            lost: 0,
            behind: Duration::from_millis(1_500),
            of: vec![interval(Some(0.5), 0), interval(None, 3)],
            differences: 2,
        };
        let line = progress_line(&progress, &["second".to_owned()]);
        assert_eq!(
            line,
            "    15 s  1,234 reads/s, 1.5 s behind, 7 dropped, 0 lost by the proxy; clients p50 0.50 p99 12.0 ms, \
             second p50 – p99 12.0 ms (3 errors); 2 differences"
        );
    }
}
