//! `helenus capture`: records a sample of what a running proxy is asked, and shows what was recorded.

mod show;

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, Subcommand};
use helenus_console::admin::capture::{asked_for, refused};
use helenus_console::admin::{Coming, Target};
use helenus_console::cells::{print_error, printable};
use helenus_console::quantities::{parse_bytes, parse_time};
use helenus_console::terminal::stopped;

/// Record a sample of what a running proxy is asked, to play it elsewhere (`helenus-lab replay`).
///
/// Whole connections are recorded, so that order and concurrency stay. The file has statements without values,
/// hashes of partition keys, times, sizes and errors; with --values also the values. It ends when its time or
/// size is reached, or with Ctrl-C.
///
/// It needs the proxy's socket, or the token that may change things. Exit codes are those of `helenus ctl`; it
/// is 1 as well where the capture breaks off, and what has come is kept.
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
        print_error(&e);
        ExitCode::FAILURE
    })
}

fn record(args: &CaptureArgs) -> Result<ExitCode> {
    let path = args.path()?;
    let target = args.file.as_deref().context("name the file to write")?;
    let (server, token) = args.target.server()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Before the proxy is asked: otherwise it would begin in vain.
    let mut file = Kept::create(target)?;
    let done = runtime.block_on(async {
        let patience = Duration::from_secs(10);
        match server.stream(&path, token.as_deref(), patience).await? {
            Ok(coming) => receive(coming, &mut file).await.map(Ok),
            Err(refused) => Ok(Err(refused)),
        }
    });
    // Otherwise the end of a name resolution would be waited for.
    runtime.shutdown_background();
    if file.bytes > 0 {
        let name = printable(&target.display().to_string());
        match summary(target) {
            Ok(summary) => println!("{name}: {summary}"),
            Err(e) => print_error(&e),
        }
    }
    match done? {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(answer) => Ok(refused(answer)),
    }
}

impl CaptureArgs {
    /// Path and query of the request to the proxy.
    fn path(&self) -> Result<String> {
        ensure!(
            (64 << 10..=16 << 30).contains(&self.bytes_max),
            "--bytes-max must be from 64KiB to 16GiB"
        );
        asked_for(self.time, self.share, self.bytes_max, self.values)
    }
}

/// Until it ends, or the user wants no more.
async fn receive(mut coming: Coming, file: &mut Kept) -> Result<()> {
    let mut stop = std::pin::pin!(stopped());
    loop {
        let next = tokio::select! {
            next = coming.next() => next,
            stopped = &mut stop => {
                stopped?;
                break;
            }
        };
        let broken = "the capture has broken off: the proxy has stopped, or has given this reader up because it took \
                      nothing for 30 s; its log says which. What has come is kept";
        match next.context(broken)? {
            Some(bytes) => file.write(&bytes)?,
            None => break,
        }
    }
    file.finish()
}

/// The file of a capture. Without anything in it, it is removed.
struct Kept {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Kept {
    /// For its owner only: it may have values.
    fn create(path: &Path) -> Result<Kept> {
        let mut options = OpenOptions::new();
        let created = options.write(true).create_new(true).mode(0o600).open(path);
        let file = created.map_err(|e| {
            let advice = match e.kind() {
                ErrorKind::AlreadyExists => "remove it, or name another file",
                ErrorKind::NotFound => "make its folder first",
                ErrorKind::PermissionDenied => "name a file in a folder that you may write",
                _ => "name another file",
            };
            anyhow!("cannot create {}: {e}: {advice}", path.display())
        })?;
        Ok(Kept {
            path: path.to_owned(),
            file,
            bytes: 0,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all(bytes);
        self.done(written)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Some file systems tell only now that they are full.
    fn finish(&self) -> Result<()> {
        self.done(self.file.sync_all())
    }

    fn done(&self, written: std::io::Result<()>) -> Result<()> {
        written.with_context(|| {
            format!(
                "cannot write {}: the capture has ended, and what has come is kept; make room, or give a smaller \
                 --bytes-max or --share",
                self.path.display()
            )
        })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.bytes == 0 {
            // It is of no use to anybody.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// One line.
fn summary(path: &Path) -> Result<String> {
    let mut reader = show::open(path)?;
    let mut requests = 0_u64;
    while reader.next_chunk(|_| requests += 1)? {}
    let lost = reader.mark().lost;
    Ok(format!(
        "{requests} requests of {} statements, {lost} missing; {}",
        reader.statements().len(),
        show::end(&reader)
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
        for wrong in [
            "x.cap --share 0",
            "x.cap --share 1.1",
            "x.cap --share -1",
            "x.cap --for 0s",
            "x.cap --for 25h",
            "x.cap --bytes-max 1KiB",
            "x.cap --bytes-max 17GiB",
        ] {
            let of = parsed(wrong).ok().map(|command| command.args.path());
            assert!(of.is_none_or(|path| path.is_err()), "{wrong}");
        }
    }

    #[test]
    fn files_are_their_owners_and_vanish_if_nothing_comes() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.cap");
        drop(Kept::create(&path).unwrap());
        assert!(!path.exists());
        let mut kept = Kept::create(&path).unwrap();
        kept.write(b"some").unwrap();
        drop(kept);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = Kept::create(&path).err().unwrap().to_string();
        assert!(again.contains("name another file"), "{again}");
        assert_eq!(std::fs::read(&path).unwrap(), b"some");
        let nowhere = folder.path().join("none/x.cap");
        let missing = Kept::create(&nowhere).err().unwrap().to_string();
        assert!(missing.contains("make its folder first"), "{missing}");
    }

    #[test]
    fn showing_needs_a_file_and_nothing_else() {
        let command = parsed("show x.cap").unwrap_or_else(|e| panic!("{e}"));
        assert!(command.action.is_some());
        assert!(parsed("show").is_err());
        assert!(parsed("--for 10s").is_err());
    }
}
