//! Runs of a simulation, as many at a time as there are cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What has come of each setup, in their order.
pub(super) fn in_parallel<S: Sync, R: Send>(setups: &[S], run: impl Fn(&S) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(setups.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(setup) = setups.get(at) else {
                        break;
                    };
                    let result = run(setup);
                    if let Ok(mut done) = done.lock() {
                        done.push((at, result));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
