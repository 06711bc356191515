//! The parts of every simulated proxy: engines that share settings and a snapshot, and the bytes that
//! wait on their connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_engine::Engine;
use helenus_engine::output::Outgoing;
use helenus_engine::shared::{Common, Shared};

/// The time on the wall clock when a run begins.
pub(crate) const WALL: Duration = Duration::from_secs(1_700_000_000);

/// One worker of one proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    pub proxy: usize,
    pub worker: usize,
}

/// The engines of a proxy's workers.
pub(crate) fn engines(
    common: &Arc<Common>,
    workers: usize,
    seed: u64,
    now: Instant,
) -> impl Iterator<Item = Engine> {
    let common = common.clone();
    (0..workers).map(move |index| {
        let shared = Arc::new(Shared::new(common.clone()));
        let seed = seed ^ (index as u64 + 1) << 32;
        Engine::new(shared, index, workers, seed, now, WALL)
    })
}

/// The bytes that wait to be written.
pub(crate) fn all_of(outgoing: &mut impl Outgoing) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let pending = outgoing.pending();
        if pending.is_empty() {
            return bytes;
        }
        bytes.extend_from_slice(pending);
        let len = pending.len();
        outgoing.advance(len);
    }
}
