//! The live display of a running load.

use super::stop::Slow;
use anyhow::Result;
use helenus_console::terminal::spinner;
use helenus_load::progress::{IntervalMeter, IntervalStats};
use helenus_load::report::hdr_log::HdrLog;
use helenus_load::report::svg::number;
use helenus_load::run::Progress;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Each second's throughput, percentiles and errors: one line updated in place on a terminal,
/// otherwise one line per second on stderr. A turn shorter than a second gets a line of its own.
pub(super) struct Live {
    task: tokio::task::JoinHandle<()>,
    bar: indicatif::ProgressBar,
    state: Arc<State>,
}

struct State {
    progress: Arc<Progress>,
    arms: Vec<String>,
    began: Instant,
    arm: AtomicUsize,
    /// With the time of the last sample.
    meter: Mutex<(IntervalMeter, Instant)>,
    timeline: Mutex<BTreeMap<String, Vec<IntervalStats>>>,
    bar: indicatif::ProgressBar,
    quiet: bool,
    slow: Mutex<(Slow, Option<String>)>,
    /// Names of the kinds of query, and where their histograms go.
    hdr: Option<(Vec<String>, HdrLog)>,
}

/// The further tasks of a live display.
pub(super) struct Watch {
    pub(super) slow: Slow,
    pub(super) hdr: Option<(Vec<String>, HdrLog)>,
    pub(super) quiet: bool,
}

/// The results of a display that has ended.
pub(super) struct Seen {
    pub(super) timeline: BTreeMap<String, Vec<IntervalStats>>,
    /// Why the run was stopped, if it was too slow.
    pub(super) slow: Option<String>,
}

/// Rates over a shorter interval, such as from a tick to the end of a turn, are noise: no line.
const SHORTEST: Duration = Duration::from_millis(200);

impl Live {
    pub(super) fn start(progress: Arc<Progress>, arms: Vec<String>, watch: Watch) -> Self {
        let Watch { slow, hdr, quiet } = watch;
        let bar = match quiet {
            true => indicatif::ProgressBar::hidden(),
            false => spinner("load"),
        };
        let began = Instant::now();
        let state = Arc::new(State {
            progress,
            arms,
            began,
            arm: AtomicUsize::new(0),
            meter: Mutex::new((IntervalMeter::default(), began)),
            timeline: Mutex::default(),
            bar: bar.clone(),
            quiet,
            slow: Mutex::new((slow, None)),
            hdr,
        });
        let ticking = state.clone();
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_secs(1));
            tick.tick().await;
            loop {
                tick.tick().await;
                ticking.sample(ticking.arm.load(Ordering::Relaxed));
            }
        });
        Self { task, bar, state }
    }

    /// Starts this arm's turn.
    pub(super) fn turn(&self, arm: usize) {
        let before = self.state.arm.load(Ordering::Relaxed);
        if before != arm {
            self.state.sample(before);
            self.state.arm.store(arm, Ordering::Relaxed);
        }
        self.state.slow().0.reset();
    }

    pub(super) fn began(&self) -> Instant {
        self.state.began
    }

    /// Ends the display.
    ///
    /// # Errors
    /// If the histograms could not be written.
    pub(super) async fn stop(mut self) -> Result<Seen> {
        self.task.abort();
        // Once it has ended, the state has no other owner.
        let _ = (&mut self.task).await;
        self.state.sample(self.state.arm.load(Ordering::Relaxed));
        let seen = Seen {
            timeline: std::mem::take(&mut *self.state.timeline()),
            slow: self.state.slow().1.take(),
        };
        if let Some(state) = Arc::get_mut(&mut self.state)
            && let Some((_, log)) = state.hdr.take()
        {
            log.finish()?;
        }
        Ok(seen)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.task.abort();
        self.bar.finish_and_clear();
    }
}

impl State {
    fn sample(&self, arm: usize) {
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let passed = now - meter.1;
        meter.1 = now;
        let stats = meter.0.sample(&self.progress, now - self.began, passed);
        drop(meter);
        let name = self.arms.get(arm).map_or("", String::as_str);
        if let Some((kinds, log)) = &self.hdr {
            let start = (now - self.began).saturating_sub(passed);
            for (kind, latency_ns) in kinds.iter().zip(self.progress.take_intervals()) {
                log.add(format!("{name}.{kind}"), latency_ns, start, passed);
            }
        }
        if passed < SHORTEST {
            return;
        }
        self.watch(&stats, passed);
        let mut timeline = self.timeline();
        timeline.entry(name.to_owned()).or_default().push(stats);
        drop(timeline);
        if self.quiet {
            return;
        }
        let line = format!(
            "{name}: {} ops/s  p50 {} µs  p99 {} µs  {} errors/s",
            number(stats.ops_per_second),
            number(stats.latency_us_p50 as f64),
            number(stats.latency_us_p99 as f64),
            number(stats.errors_per_second)
        );
        if std::io::stderr().is_terminal() {
            self.bar.set_message(line);
        } else {
            eprintln!("{:7.1} s  {line}", stats.at_seconds);
        }
    }
}

impl State {
    fn timeline(&self) -> MutexGuard<'_, BTreeMap<String, Vec<IntervalStats>>> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slow(&self) -> MutexGuard<'_, (Slow, Option<String>)> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the run if it has been too slow for too long.
    fn watch(&self, stats: &IntervalStats, passed: Duration) {
        if !self.progress.is_measuring() {
            return;
        }
        let mut slow = self.slow();
        if let Some(why) = slow.0.on_interval(stats, passed) {
            slow.1.get_or_insert(why);
            self.progress.stop();
        }
    }
}

/// A live line with the queries per second, refreshed four times a second.
pub(crate) struct Shown {
    task: tokio::task::JoinHandle<()>,
    bar: indicatif::ProgressBar,
}

impl Shown {
    pub(crate) fn stop(self) {
        drop(self);
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.task.abort();
        self.bar.finish_and_clear();
    }
}

pub(crate) fn show(progress: Arc<Progress>, what: String) -> Shown {
    let bar = spinner(&what);
    let line = bar.clone();
    let task = tokio::spawn(async move {
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(250)).await;
            let done = progress.done.load(Ordering::Relaxed);
            let failed = progress.failed.load(Ordering::Relaxed);
            let rate = (done - before) * 4;
            line.set_message(format!("{what}: {done} done, {rate}/s, {failed} failed"));
            before = done;
        }
    });
    Shown { task, bar }
}
