//! Conditional writes of one partition one after another, over all workers of the proxy.

use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use helenus_policy::turns::{TurnLimits, Turns};
use rustc_hash::FxHasher;

use crate::config::Aggregation;
use crate::keys::{ClientRequestKey, SessionKey};
use crate::support::sync::Mutex;

const WAITING_MAX: usize = 4_096;
const KEYS_MAX: usize = 65_536;

/// A client connection: its worker and its session.
pub(crate) type Owner = (usize, SessionKey);

/// A conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub worker: usize,
    pub request: ClientRequestKey,
    pub partition: u64,
}

/// A request's part in taking turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It asks for its turn on this partition before it begins.
    Wants(u64),
    /// It waits for its turn on this partition.
    Waits(u64),
    Has(u64),
}

/// Who may write conditionally, for all workers. Its lock is taken only for conditional writes, each
/// of which costs four round trips between nodes.
pub struct SharedTurns {
    turns: Mutex<Turns<u64, Owner, Write>>,
    origin: Instant,
}

impl SharedTurns {
    pub(crate) fn new(settings: &Aggregation, now: Instant) -> SharedTurns {
        SharedTurns {
            turns: Mutex::new(Turns::new(limits(settings))),
            origin: now,
        }
    }

    /// Puts other bounds in force, also for who waits already.
    pub fn adopt(&self, settings: &Aggregation) {
        self.with(self.origin, |turns, _| turns.set_limits(limits(settings)));
    }

    pub(crate) fn with<R>(
        &self,
        now: Instant,
        act: impl FnOnce(&mut Turns<u64, Owner, Write>, u64) -> R,
    ) -> R {
        let now_us = now.saturating_duration_since(self.origin).as_micros() as u64;
        match self.turns.lock() {
            Ok(mut turns) => act(&mut turns, now_us),
            Err(poisoned) => act(&mut poisoned.into_inner(), now_us),
        }
    }

    /// A time that they have told of.
    pub(crate) fn instant(&self, us: u64) -> Instant {
        self.origin + Duration::from_micros(us)
    }

    /// Conditional writes that wait.
    pub fn waiting(&self) -> usize {
        self.with(self.origin, |turns, _| turns.waiting())
    }

    /// Partitions that some conditional write has, or is kept for.
    pub fn partitions(&self) -> usize {
        self.with(self.origin, |turns, _| turns.keys())
    }
}

fn limits(settings: &Aggregation) -> TurnLimits {
    TurnLimits {
        wait_max_us: settings.lwt_wait_max_ms * 1_000,
        grace_us: settings.lwt_grace_ms * 1_000,
        waiting_max: WAITING_MAX,
        keys_max: KEYS_MAX,
    }
}

/// Names a partition as one role sees it; two that share a name would only wait for each other.
pub(crate) fn partition_name(role: u32, keyspace: &str, table: &str, key: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    (role, keyspace, table, key).hash(&mut hasher);
    hasher.finish()
}
