//! `helenus capture`: records a sample of what a running proxy is asked, and shows what was recorded.

mod show;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};

use crate::admin_call::Coming;
use crate::admin_server::Answer;
use crate::cells::printable_lines;
use crate::ctl_cmd::Target;
use crate::quantities::{parse_bytes, parse_time};
use crate::terminal::stopped;

/// Record a sample of what a running proxy is asked, to play it elsewhere (`helenus-lab replay`).
///
/// Whole connections are recorded, so that order and concurrency stay. The file has statements without values,
/// hashes of partition keys, times, sizes and errors; with --values also the values. It ends when its time or
/// size is reached, or with Ctrl-C.
///
/// It needs the proxy's socket, or the token that may change things. Exit codes are those of `helenus ctl`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct CaptureCommand {
    #[command(flatten)]
    args: CaptureArgs,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Show what was recorded
    Show(show::ShowArgs),
}

#[derive(Args)]
struct CaptureArgs {
    /// File to write; it must not exist
    #[arg(required = true)]
    file: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
    /// How long, such as 90s, 10m or 1h; a day at most
    #[arg(long = "for", default_value = "10m", value_parser = parse_time, value_name = "TIME")]
    time: Duration,
    /// Share of the clients' connections, above 0 up to 1
    #[arg(long, default_value_t = 1.0)]
    share: f64,
    /// It ends when the file has this size, such as 64KiB, 256MiB or 2GiB
    #[arg(long, default_value = "256MiB", value_parser = parse_bytes, value_name = "SIZE")]
    bytes_max: u64,
    /// Also record the values of clients' statements; the proxy must have admin.show_keys on
    #[arg(long)]
    values: bool,
}

pub(crate) fn run(command: CaptureCommand) -> ExitCode {
    let done = match &command.action {
        Some(Action::Show(args)) => show::run(args).map(|()| ExitCode::SUCCESS),
        None => record(&command.args),
    };
    done.unwrap_or_else(|e| {
        eprintln!("helenus: {}", printable_lines(&format!("{e:#}")));
        ExitCode::FAILURE
    })
}

fn record(args: &CaptureArgs) -> Result<ExitCode> {
    let path = args.path()?;
    let file = args.file.as_deref().context("name the file to write")?;
    let (server, token) = args.target.server()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        let patience = Duration::from_secs(10);
        match server.stream(&path, token.as_deref(), patience).await? {
            Ok(coming) => receive(coming, file).await.map(Ok),
            Err(refused) => Ok(Err(refused)),
        }
    });
    // Otherwise the end of a name resolution would be waited for.
    runtime.shutdown_background();
    let (why, code) = match done? {
        Ok(()) => {
            println!("{}: {}", file.display(), summary(file)?);
            return Ok(ExitCode::SUCCESS);
        }
        Err(Answer::Refused(why)) => (why, 2),
        Err(Answer::NotAllowed(why)) => (why, 3),
        Err(Answer::NotKnown(why)) => (why, 1),
        Err(Answer::Done(_)) => ("this is no capture".to_owned(), 1),
    };
    eprintln!("helenus: {why}");
    Ok(ExitCode::from(code))
}

impl CaptureArgs {
    /// What the proxy is asked for.
    fn path(&self) -> Result<String> {
        let ppm = (self.share * 1e6).round();
        ensure!(
            (1.0..=1e6).contains(&ppm),
            "--share must be from 0.000001 to 1, the share of connections that are recorded"
        );
        let seconds = self.time.as_secs_f64().ceil();
        Ok(format!(
            "/api/capture?seconds={seconds}&share_ppm={ppm}&bytes_max={}&values={}",
            self.bytes_max, self.values
        ))
    }
}

/// Until it ends, or the user wants no more.
async fn receive(mut coming: Coming, path: &Path) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut file = create(path).with_context(cannot)?;
    let mut stop = std::pin::pin!(stopped());
    loop {
        let next = tokio::select! {
            next = coming.next() => next,
            stopped = &mut stop => {
                stopped?;
                break;
            }
        };
        match next {
            Ok(Some(bytes)) => file.write_all(&bytes).with_context(cannot)?,
            Ok(None) => break,
            Err(e) => {
                eprintln!("helenus: {e:#}: the proxy may have stopped; what has come is kept");
                break;
            }
        }
    }
    Ok(())
}

/// For its owner only: it may have values.
fn create(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// One line.
fn summary(path: &Path) -> Result<String> {
    let mut reader = show::open(path)?;
    let mut requests = 0_u64;
    while reader.next_chunk(|_| requests += 1)? {}
    let lost = reader.mark().lost;
    Ok(format!(
        "{requests} requests of {} statements, {lost} missing: helenus capture show",
        reader.statements().len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        command: CaptureCommand,
    }

    fn parsed(line: &str) -> Result<CaptureCommand, clap::Error> {
        let words = std::iter::once("capture").chain(line.split(' '));
        Alone::try_parse_from(words).map(|alone| alone.command)
    }

    #[test]
    fn options_become_what_the_proxy_is_asked() {
        let line = "x.cap --for 90s --share 0.01 --bytes-max 64KiB --values --socket /s";
        let command = parsed(line).unwrap_or_else(|e| panic!("{e}"));
        let asked = "/api/capture?seconds=90&share_ppm=10000&bytes_max=65536&values=true";
        assert_eq!(command.args.path().unwrap(), asked);
        for wrong in ["x.cap --share 0", "x.cap --share 1.1", "x.cap --share -1"] {
            let of = parsed(wrong).ok().map(|command| command.args.path());
            assert!(of.is_none_or(|path| path.is_err()), "{wrong}");
        }
    }

    #[test]
    fn showing_needs_a_file_and_nothing_else() {
        let command = parsed("show x.cap").unwrap_or_else(|e| panic!("{e}"));
        assert!(command.action.is_some());
        assert!(parsed("show").is_err());
        assert!(parsed("--for 10s").is_err());
    }
}
