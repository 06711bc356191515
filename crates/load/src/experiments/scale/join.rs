//! Clients that run while a node joins.

use super::declared::join_cell;
use super::experiment::{Scale, Sessions};
use crate::measure::{ErrorKind, Phase, Recorder};
use crate::progress::{IntervalMeter, IntervalStats, Progress};
use crate::report::Report;
use crate::report::spread::Spread;
use crate::run::client_rng;
use crate::workload::Workload;
use anyhow::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Before the steady state: clients and connections get going.
const START: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);

/// The clients of one arm, and what they have seen.
struct Clients {
    progress: Arc<Progress>,
    /// Since the join began.
    recorder: Arc<Mutex<Recorder>>,
    meter: IntervalMeter,
    seconds: Vec<IntervalStats>,
}

/// Flags that all clients look at.
#[derive(Debug, Default)]
struct Flags {
    has_begun: AtomicBool,
    has_ended: AtomicBool,
}

impl Scale {
    /// Runs the clients of all arms side by side, awaits `join` and adds a cell for it.
    ///
    /// # Errors
    /// Those of `join`.
    pub async fn join<T>(
        &self,
        open: &[Sessions],
        node: usize,
        join: impl Future<Output = Result<T>>,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<T> {
        say(format!("steady state before node {node} joins"));
        let flags = Arc::new(Flags::default());
        let mut tasks = JoinSet::new();
        let mut arms: Vec<Clients> = open
            .iter()
            .map(|sessions| start(sessions, self.join_clients, self.seed, &flags, &mut tasks))
            .collect();
        let began = Instant::now();
        tokio::time::sleep(START).await;
        watch(&mut arms, began, tokio::time::sleep(self.steady)).await;
        let steady_seconds = arms.first().map_or(0, |arm| arm.seconds.len());
        say(format!("node {node} is joining"));
        flags.has_begun.store(true, Ordering::Relaxed);
        let joining = Instant::now();
        let joined = watch(&mut arms, began, join).await;
        let join_seconds = joining.elapsed().as_secs_f64();
        if joined.is_ok() {
            watch(&mut arms, began, tokio::time::sleep(self.settling)).await;
        }
        let window = joining.elapsed();
        flags.has_ended.store(true, Ordering::Relaxed);
        while tasks.join_next().await.is_some() {}
        for (arm, clients) in self.arms.iter().zip(arms) {
            let name = &arm.endpoint.name;
            let (steady, during) = clients
                .seconds
                .split_at(steady_seconds.min(clients.seconds.len()));
            let mut phase = take(&clients.recorder, window);
            describe(&mut phase, steady, during, join_seconds);
            report
                .timeline
                .insert(format!("{name}, node {node}"), clients.seconds.clone());
            report.add(name, &join_cell(node), phase);
        }
        joined
    }
}

/// Adds the figures of single seconds.
pub(super) fn describe(
    phase: &mut Phase,
    steady: &[IntervalStats],
    during: &[IntervalStats],
    join_seconds: f64,
) {
    let p99 = |seconds: &[IntervalStats]| -> Vec<f64> {
        let answered = seconds.iter().filter(|second| second.ops_per_second > 0.0);
        answered
            .map(|second| second.latency_us_p99 as f64)
            .collect()
    };
    let mut set = |name: &str, value: f64| phase.extra.insert(name.to_owned(), value);
    set("join_seconds", join_seconds);
    if let Some(steady) = Spread::of(&p99(steady)) {
        set("steady_p99_us", steady.median);
        // The worst second of an equally quiet time is worse than its median, too.
        set("steady_p99_us_worst", steady.max);
    }
    if let Some(during) = Spread::of(&p99(during)) {
        set("join_p99_us_worst", during.max);
        set("join_p99_us_median", during.median);
    }
    let silent = during.iter().filter(|second| second.ops_per_second == 0.0);
    set("seconds_without_answer", silent.count() as f64);
    let failing = during
        .iter()
        .filter(|second| second.errors_per_second > 0.0);
    set("seconds_with_errors", failing.count() as f64);
}

fn take(recorder: &Mutex<Recorder>, window: Duration) -> Phase {
    let kinds = crate::workload::kv::KINDS;
    let mut recorder = recorder.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = std::mem::replace(&mut *recorder, Recorder::new(kinds.len()));
    taken.into_phase(&kinds, window, None)
}

fn start(
    sessions: &Sessions,
    clients: usize,
    seed: u64,
    flags: &Arc<Flags>,
    tasks: &mut JoinSet<()>,
) -> Clients {
    let progress = Arc::new(Progress::with_latencies());
    let recorder = Arc::new(Mutex::new(Recorder::new(crate::workload::kv::KINDS.len())));
    for client in 0..clients {
        let (sessions, progress) = (sessions.clone(), progress.clone());
        let (recorder, flags) = (recorder.clone(), flags.clone());
        let mut rng = client_rng(seed, client as u64);
        tasks.spawn(async move {
            while !flags.has_ended.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let (kind, outcome): (usize, Result<(), ErrorKind>) =
                    sessions.call(client, &mut rng).await;
                let latency = begun.elapsed();
                progress.note(client, latency, outcome);
                if flags.has_begun.load(Ordering::Relaxed) {
                    let mut recorder = recorder.lock().unwrap_or_else(PoisonError::into_inner);
                    recorder.record(kind, latency, outcome);
                }
            }
        });
    }
    Clients {
        progress,
        recorder,
        meter: IntervalMeter::default(),
        seconds: Vec::new(),
    }
}

/// Samples each arm once a second until `work` is done.
async fn watch<T>(arms: &mut [Clients], began: Instant, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    let mut before = Instant::now();
    // Operations before this belong to no second.
    for arm in arms.iter_mut() {
        arm.meter.sample(&arm.progress, Duration::ZERO, SECOND);
    }
    let mut tick = tokio::time::interval_at((before + SECOND).into(), SECOND);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = tick.tick() => {}
        }
        let now = Instant::now();
        for arm in arms.iter_mut() {
            let sample = arm.meter.sample(&arm.progress, now - began, now - before);
            arm.seconds.push(sample);
        }
        before = now;
    }
}
