//! Closed and open loops over a workload.

use crate::measure::{Phase, Recorder};
use crate::process::{self, Watched};
pub use crate::progress::Progress;
use crate::recording::Recording;
use crate::workload::Workload;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

#[derive(Clone, Copy, Debug)]
pub enum Limit {
    Time(Duration),
    /// Total operations over all clients.
    Ops(u64),
    /// Total operations, but none is started after this time.
    Within {
        ops: u64,
        time: Duration,
    },
}

impl Limit {
    pub(crate) fn time(self) -> Option<Duration> {
        match self {
            Self::Time(time) | Self::Within { time, .. } => Some(time),
            Self::Ops(_) => None,
        }
    }

    fn ops(self) -> Option<u64> {
        match self {
            Self::Ops(ops) | Self::Within { ops, .. } => Some(ops),
            Self::Time(_) => None,
        }
    }
}

/// The parameters of a run, apart from its workload.
#[derive(Clone, Debug)]
pub struct Plan {
    pub clients: usize,
    /// Operations started in this time are performed but not recorded.
    pub warmup: Duration,
    pub limit: Limit,
    pub seed: u64,
    pub watched: Vec<Watched>,
    pub progress: Arc<Progress>,
}

impl Plan {
    pub fn new(clients: usize, limit: Limit) -> Self {
        Self {
            clients,
            warmup: Duration::ZERO,
            limit,
            seed: 1,
            watched: Vec::new(),
            progress: Arc::default(),
        }
    }
}

/// With more operations than this in flight in an open loop, the endpoint is not keeping up at all.
/// Further ones are counted as errors instead of being queued without a bound.
const IN_FLIGHT_MAX: u64 = 20_000;

/// Pause of a client without a connection before its next operation. These fail at once, and would leave
/// the driver no time to connect.
const CONNECTING_PAUSE: Duration = Duration::from_millis(10);

/// How soon a warm-up notices that the run is stopped.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// Recorders shared by the clients; several, to keep contention low.
struct Shards(Vec<Mutex<Recorder>>);

impl Shards {
    fn new(kinds: usize) -> Self {
        Self((0..8).map(|_| Mutex::new(Recorder::new(kinds))).collect())
    }

    fn with(&self, client: usize, change: impl FnOnce(&mut Recorder)) {
        let shard = &self.0[client % self.0.len()];
        change(&mut shard.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn merged(&self, kinds: usize) -> Recorder {
        let mut merged = Recorder::new(kinds);
        for shard in &self.0 {
            merged.merge(&shard.lock().unwrap_or_else(PoisonError::into_inner));
        }
        merged
    }
}

/// A closed loop: each client sends its next operation when the previous one is answered.
pub async fn run_closed<W: Workload>(workload: &Arc<W>, plan: &Plan) -> Phase {
    record_closed(workload, plan)
        .await
        .into_phase(&workload.kinds())
}

/// Like [`run_closed`], but returns a recording that further slices can be merged into.
pub async fn record_closed<W: Workload>(workload: &Arc<W>, plan: &Plan) -> Recording {
    let kinds = workload.kinds().len();
    let shards = Arc::new(Shards::new(kinds));
    let measured_from = Instant::now() + plan.warmup;
    let deadline = plan.limit.time().map(|time| measured_from + time);
    let left = Arc::new(AtomicU64::new(plan.limit.ops().unwrap_or(u64::MAX)));
    let mut clients = JoinSet::new();
    plan.progress.set_measuring(plan.warmup.is_zero());
    for client in 0..plan.clients {
        let (workload, shards, left) = (workload.clone(), shards.clone(), left.clone());
        let progress = plan.progress.clone();
        let mut rng = client_rng(plan.seed, client as u64);
        clients.spawn(async move {
            loop {
                let started = Instant::now();
                let measured = started >= measured_from;
                if deadline.is_some_and(|deadline| started >= deadline)
                    || progress.is_stopped()
                    || measured && !take_one(&left)
                {
                    return;
                }
                let (kind, outcome) = workload.call(client, &mut rng).await;
                let latency = started.elapsed();
                progress.note(client, latency, outcome);
                if measured {
                    shards.with(client, |recorder| recorder.record(kind, latency, outcome));
                    if outcome.is_ok() {
                        progress.note_measured(client, kind, latency);
                    }
                }
                if let Err("no connection") = outcome {
                    tokio::time::sleep(CONNECTING_PAUSE).await;
                }
            }
        });
    }
    warm_up_until(measured_from, &plan.progress).await;
    let cpu = CpuMark::now(&plan.watched);
    join_all(clients, &shards).await;
    let window = measured_from.elapsed();
    cpu.finish(shards.merged(kinds), window)
}

/// Operations are sent on schedule, whether or not earlier ones are answered, and each latency
/// counts from the scheduled time: when the endpoint stalls, all operations held up by it show it
/// (no coordinated omission). `plan.clients` is only the number of sessions used round-robin.
pub async fn record_open<W: Workload>(
    workload: &Arc<W>,
    rate_per_second: f64,
    plan: &Plan,
) -> Recording {
    let kinds = workload.kinds().len();
    let shards = Arc::new(Shards::new(kinds));
    let schedule = Schedule::new(rate_per_second);
    let unmeasured = schedule.first_at_or_after(plan.warmup);
    let by_time = plan.limit.time();
    let by_time = by_time.map(|time| schedule.first_at_or_after(plan.warmup + time));
    let by_count = plan.limit.ops().map(|ops| unmeasured.saturating_add(ops));
    let total = by_time
        .unwrap_or(u64::MAX)
        .min(by_count.unwrap_or(u64::MAX));
    let started = Instant::now();
    let in_flight = Arc::new(AtomicU64::new(0));
    let runtime = tokio::runtime::Handle::current();
    plan.progress.set_measuring(plan.warmup.is_zero());

    // Sent from a dedicated thread: the runtime's timer has a granularity of a millisecond, coarser
    // than the differences being measured.
    let (workload_sent, shards_sent) = (workload.clone(), shards.clone());
    let (plan_sent, in_flight_sent) = (plan.clone(), in_flight.clone());
    let sender = tokio::task::spawn_blocking(move || {
        for number in 0..total {
            let intended = started + schedule.intended(number);
            std::thread::sleep(intended.saturating_duration_since(Instant::now()));
            if plan_sent.progress.is_stopped() {
                return;
            }
            let client = (number % plan_sent.clients.max(1) as u64) as usize;
            let measured = number >= unmeasured;
            let shards = shards_sent.clone();
            if in_flight_sent.load(Ordering::Relaxed) >= IN_FLIGHT_MAX {
                plan_sent.progress.failed.fetch_add(1, Ordering::Relaxed);
                if measured {
                    shards.with(client, |recorder| recorder.count_error("not sent", 1));
                }
                continue;
            }
            in_flight_sent.fetch_add(1, Ordering::Relaxed);
            let (workload, in_flight) = (workload_sent.clone(), in_flight_sent.clone());
            let progress = plan_sent.progress.clone();
            let mut rng = client_rng(plan_sent.seed, number);
            runtime.spawn(async move {
                let (kind, outcome) = workload.call(client, &mut rng).await;
                let latency = intended.elapsed();
                progress.note(client, latency, outcome);
                if measured {
                    shards.with(client, |recorder| recorder.record(kind, latency, outcome));
                    if outcome.is_ok() {
                        progress.note_measured(client, kind, latency);
                    }
                }
                in_flight.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    warm_up_until(started + plan.warmup, &plan.progress).await;
    let cpu = CpuMark::now(&plan.watched);
    if sender.await.is_err() {
        shards.with(0, |recorder| recorder.count_error("client failed", 1));
    }
    while in_flight.load(Ordering::Relaxed) > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let window = (started + plan.warmup).elapsed();
    cpu.finish(shards.merged(kinds), window)
}

/// Ends sooner if the run is stopped.
async fn warm_up_until(measured_from: Instant, progress: &Progress) {
    while Instant::now() < measured_from && !progress.is_stopped() {
        let next = measured_from.min(Instant::now() + STOP_CHECK);
        tokio::time::sleep_until(next.into()).await;
    }
    progress.set_measuring(true);
}

/// Evenly spaced times, computed from the start so that rounding never accumulates.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    per_second: f64,
}

impl Schedule {
    /// Rates below one per thousand seconds are raised to that.
    pub fn new(rate_per_second: f64) -> Self {
        Self {
            per_second: rate_per_second.max(1e-3),
        }
    }

    pub fn intended(self, number: u64) -> Duration {
        Duration::from_nanos((number as f64 * 1e9 / self.per_second).round() as u64)
    }

    /// The number of the first operation that is not before `time`.
    pub fn first_at_or_after(self, time: Duration) -> u64 {
        // A billionth of an operation of slack absorbs floating-point error.
        (time.as_secs_f64() * self.per_second - 1e-9).ceil() as u64
    }
}

/// CPU time of the watched processes at the start of the measurement.
pub(crate) struct CpuMark(Vec<(Watched, Duration)>);

impl CpuMark {
    pub(crate) fn now(watched: &[Watched]) -> Self {
        Self(
            watched
                .iter()
                .filter_map(|process| Some((process.clone(), process::cpu_time(process.pid).ok()?)))
                .collect(),
        )
    }

    pub(crate) fn finish(self, recorder: Recorder, window: Duration) -> Recording {
        let mut processes = BTreeMap::new();
        for (process, before) in self.0 {
            // A process that has exited gets no figure rather than a wrong one.
            let Ok(after) = process::cpu_time(process.pid) else {
                continue;
            };
            let resident_kib = process::resident_kib(process.pid).unwrap_or(0);
            processes.insert(process.name, (after.saturating_sub(before), resident_kib));
        }
        Recording {
            recorder,
            window,
            processes,
        }
    }
}

async fn join_all(mut clients: JoinSet<()>, shards: &Shards) {
    while let Some(ended) = clients.join_next().await {
        if ended.is_err() {
            shards.with(0, |recorder| recorder.count_error("client failed", 1));
        }
    }
}

fn take_one(left: &AtomicU64) -> bool {
    left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(1)
    })
    .is_ok()
}

pub(crate) fn client_rng(seed: u64, client: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(client);
    rng
}

#[cfg(test)]
mod tests;
