//! Commands that take long, on a terminal: an orderly stop, and progress.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The user asked to stop (SIGINT or SIGTERM).
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// True if whoever looks at a terminal wants colours: <https://no-color.org>.
pub fn wants_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Runs `work` on one thread per core until it ends or SIGINT or SIGTERM arrives (exit code 130).
/// Either way everything that `work` owns is dropped, which stops nodes and proxies.
pub fn run_to_end(work: impl Future<Output = Result<()>>) -> Result<()> {
    run_orderly(async {
        let mut stop = Stop::new()?;
        stop.unless(work).await
    })
}

/// [`run_to_end`] for work that watches for the signals itself, because it has something to put in order on a
/// cluster before it ends.
pub fn run_orderly(work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the client's threads")?;
    let result = runtime.block_on(work);
    // The thread that waits for starting nodes cannot be interrupted; their guard kills them once
    // this process is gone.
    runtime.shutdown_background();
    if result
        .as_ref()
        .is_err_and(|error| error.is::<Interrupted>())
    {
        eprintln!(
            "Interrupted: nodes and proxies that this command has started are stopped. If it was changing \
             layouts or encoded columns of a table, what it had begun stays: \
             `helenus layouts status` and `helenus payload status` show how to go on."
        );
        std::process::exit(130);
    }
    result
}

/// SIGINT and SIGTERM, which are remembered from when this is made.
pub struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    pub fn new() -> Result<Stop> {
        Ok(Stop {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for one of them.
    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Does the work until its end or a signal; then the error is [`Interrupted`].
    pub async fn unless<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            result = work => result,
            () = self.asked() => Err(Interrupted.into()),
        }
    }
}

/// Waits for SIGINT or SIGTERM.
pub async fn stopped() -> Result<()> {
    Stop::new()?.asked().await;
    Ok(())
}

/// A progress line, shown on a terminal.
pub fn spinner(message: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(message.to_owned());
    bar.set_style(
        ProgressStyle::with_template("  {spinner} {msg} ({elapsed})")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Shows each line on a spinner. Where there is no terminal, it is printed with the seconds since `began`.
pub fn narrate(bar: &ProgressBar, began: Instant) -> impl FnMut(String) + use<> {
    let bar = bar.clone();
    move |line| match bar.is_hidden() {
        true => eprintln!("{:6.1} s  {line}", began.elapsed().as_secs_f64()),
        false => bar.set_message(line),
    }
}
