use super::*;
use crate::measure::ErrorKind;
use std::sync::atomic::AtomicUsize;

/// A server that answers immediately except for one stall. Virtual time is no use here, since the
/// open loop sends from a real thread; only lower bounds are asserted, which hold on a slow
/// machine.
#[derive(Default)]
struct Stalling {
    calls: AtomicUsize,
    stall_on: Option<usize>,
    stall: Duration,
    gate: tokio::sync::Mutex<()>,
}

impl Workload for Stalling {
    fn kinds(&self) -> Vec<&str> {
        vec!["even", "odd"]
    }

    async fn call(&self, _client: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let _serial = self.gate.lock().await;
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if Some(call) == self.stall_on {
            tokio::time::sleep(self.stall).await;
        }
        (call % 2, if call % 10 == 9 { Err("tenth") } else { Ok(()) })
    }
}

async fn run_open(workload: &Arc<Stalling>, rate_per_second: f64, plan: &Plan) -> Phase {
    let recorded = record_open(workload, rate_per_second, plan).await;
    recorded.into_phase(&workload.kinds())
}

#[test]
fn the_schedule_does_not_drift() {
    let schedule = Schedule::new(3.0);
    assert_eq!(schedule.intended(0), Duration::ZERO);
    assert_eq!(schedule.intended(3), Duration::from_secs(1));
    assert_eq!(schedule.intended(3_000_000), Duration::from_secs(1_000_000));
    assert_eq!(schedule.first_at_or_after(Duration::ZERO), 0);
    assert_eq!(schedule.first_at_or_after(Duration::from_millis(1)), 1);
    assert_eq!(schedule.first_at_or_after(Duration::from_secs(10)), 30);
}

#[tokio::test]
async fn a_closed_loop_performs_exactly_its_operations_and_counts_errors() {
    let workload = Arc::new(Stalling::default());
    let plan = Plan::new(7, Limit::Ops(100));
    let phase = run_closed(&workload, &plan).await;
    assert_eq!(workload.calls.load(Ordering::Relaxed), 100);
    assert_eq!(phase.ops, 90);
    assert_eq!(phase.errors["tenth"], 10);
    assert_eq!(phase.by_kind["even"].ops, 50);
    assert_eq!(phase.by_kind["odd"].ops, 40);
    assert_eq!(plan.progress.done.load(Ordering::Relaxed), 90);
}

#[tokio::test]
async fn warm_up_is_not_recorded() {
    let workload = Arc::new(Stalling::default());
    let plan = Plan {
        warmup: Duration::from_millis(20),
        ..Plan::new(1, Limit::Ops(5))
    };
    let phase = run_closed(&workload, &plan).await;
    assert_eq!(phase.ops + phase.errors_total(), 5);
    assert!(workload.calls.load(Ordering::Relaxed) > 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_loop_charges_a_stall_to_all_that_had_to_wait() {
    let stall = Duration::from_millis(200);
    let workload = Arc::new(Stalling {
        stall_on: Some(0),
        stall,
        ..Stalling::default()
    });
    // 100 operations within 100 ms; the first holds up all others for 200 ms.
    let phase = run_open(&workload, 1000.0, &Plan::new(4, Limit::Ops(100))).await;
    assert_eq!(phase.ops + phase.errors_total(), 100);
    // Even the last, scheduled at 99 ms, waits at least 100 ms. If only the stalled one were
    // charged, the median would be near zero.
    assert!(phase.latency.us_p50 >= 100_000, "{:?}", phase.latency);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_loop_measures_the_processes_it_is_told_to() {
    let workload = Arc::new(Stalling::default());
    let plan = Plan {
        watched: vec![Watched::this_process()],
        ..Plan::new(1, Limit::Ops(10))
    };
    let phase = run_open(&workload, 1e5, &plan).await;
    assert!(phase.processes["client"].resident_kib > 0);
}

#[tokio::test]
async fn a_closed_loop_ends_when_enough_operations_have_failed() {
    let workload = Arc::new(Stalling::default());
    let plan = Plan {
        progress: Arc::new(Progress::default().stop_after_failed(3)),
        ..Plan::new(1, Limit::Ops(1_000))
    };
    let phase = run_closed(&workload, &plan).await;
    assert_eq!((phase.ops, phase.errors["tenth"]), (27, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_loop_ends_when_enough_operations_have_failed() {
    let workload = Arc::new(Stalling::default());
    let plan = Plan {
        progress: Arc::new(Progress::default().stop_after_failed(3)),
        warmup: Duration::from_secs(3600),
        ..Plan::new(1, Limit::Ops(u64::MAX))
    };
    let phase = run_open(&workload, 1e5, &plan).await;
    assert!(plan.progress.failed.load(Ordering::Relaxed) >= 3);
    assert_eq!(phase.ops, 0);
}
