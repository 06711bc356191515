//! The context of every station: the time, the settings, the cluster; and where outputs go.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::features;
use crate::memory::Ledger;
use crate::output::Output;
use crate::shared::{Shared, WorkerMessage};
use crate::snapshot::Snapshot;

/// The surroundings of one worker's stations.
pub(crate) struct Context {
    pub shared: Arc<Shared>,
    pub snapshot: Arc<Snapshot>,
    /// Which worker this is.
    pub index: usize,
    pub workers: usize,
    /// When the worker began.
    pub origin: Instant,
    /// Time of the event that is being dealt with.
    pub now: Instant,
    /// How long after the beginning of 1970 the last tick was, and when.
    pub wall: (Duration, Instant),
    /// Bytes held for clients and nodes.
    pub memory: Rc<Ledger>,
    pub features: features::InContext,
    /// Grows with every routed request; spreads them over equals.
    pub rotation: u64,
    /// Work to be done outside of the engine.
    pub outputs: VecDeque<Output>,
    rng: u64,
}

impl Context {
    pub(crate) fn new(
        shared: Arc<Shared>,
        index: usize,
        workers: usize,
        seed: u64,
        now: Instant,
        since_1970: Duration,
    ) -> Context {
        let snapshot = shared.snapshot.load_full();
        Context {
            snapshot,
            memory: Ledger::new(shared.memory.clone(), shared.memory_max()),
            shared,
            index,
            workers,
            origin: now,
            now,
            wall: (since_1970, now),
            features: features::InContext::default(),
            rotation: seed,
            outputs: VecDeque::new(),
            rng: seed | 1,
        }
    }

    /// Time since the beginning of 1970.
    pub(crate) fn since_1970(&self) -> Duration {
        let (since_1970, at) = self.wall;
        since_1970 + self.now.saturating_duration_since(at)
    }

    /// Microseconds from the worker's beginning to the event that is being dealt with.
    pub(crate) fn now_us(&self) -> u64 {
        self.now.saturating_duration_since(self.origin).as_micros() as u64
    }

    /// A cheap random number for jitter.
    pub(crate) fn random(&mut self) -> u64 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        self.rng
    }

    /// Asks for something to be done outside of the engine.
    pub(crate) fn ask(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// Sends a message to another worker; false if that has ended.
    pub(crate) fn tell(&mut self, worker: usize, message: WorkerMessage) -> bool {
        let there = self.shared.is_running(worker);
        if there {
            self.ask(Output::Tell(worker, message));
        }
        there
    }
}
