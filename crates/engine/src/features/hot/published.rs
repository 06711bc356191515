//! The partitions that workers are asked for most, as each worker publishes them about once a second.
//!
//! Bounded: [`PUBLISHED_MAX`] partitions of at most about 250 bytes for each worker.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use helenus_policy::hot::{Entry, Summary};

use crate::stats::TableStats;

/// Partitions that a worker publishes at most.
pub const PUBLISHED_MAX: usize = 100;
/// Bytes of a partition's key that are kept at most.
pub const KEY_BYTES_MAX: usize = 64;

/// A partition's name for people.
#[derive(Clone, Debug)]
pub struct Label {
    /// Its counters: beyond `admin.tables_max`, those of all further tables.
    pub table: Arc<TableStats>,
    /// Of the role that asks for it, where it can be told.
    pub role: Option<Arc<str>>,
    /// None unless keys may be shown.
    pub key: Option<Key>,
}

/// A partition's routing key, or its first bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    bytes: [u8; KEY_BYTES_MAX],
    len: u8,
    /// It is longer.
    pub is_cut: bool,
}

impl Key {
    pub fn new(of: &[u8]) -> Key {
        let len = of.len().min(KEY_BYTES_MAX);
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes[..len].copy_from_slice(&of[..len]);
        Key {
            bytes,
            len: len as u8,
            is_cut: of.len() > len,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Without its bytes: values that clients store are not for logs.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.len)
    }
}

/// The hot partitions of one worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfWorker {
    pub summary: Summary<Label>,
    /// Tokens of partitions whose reads it spreads over all replicas.
    pub spread: Vec<i64>,
}

/// The hottest partitions of all workers.
#[derive(Debug, Default)]
pub struct HotPartitions(Mutex<Vec<OfWorker>>);

/// The hottest partitions of a proxy.
#[derive(Clone, Debug, Default)]
pub struct Hottest {
    pub summary: Summary<Label>,
    /// Tokens of partitions whose reads some worker spreads over all replicas.
    pub spread: BTreeSet<i64>,
}

impl Hottest {
    /// True if a partition's reads go to all of its replicas.
    pub fn is_spread(&self, entry: &Entry<Label>) -> bool {
        self.spread.contains(&entry.partition.token)
    }
}

impl HotPartitions {
    pub(crate) fn publish(&self, worker: usize, of: OfWorker) {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if workers.len() <= worker {
            workers.resize_with(worker + 1, OfWorker::default);
        }
        workers[worker] = of;
    }

    pub(crate) fn forget_worker(&self, worker: usize) {
        self.publish(worker, OfWorker::default());
    }

    /// Those of all workers together, `max` at most.
    pub fn hottest(&self, max: usize) -> Hottest {
        // Copied first: workers may wait for the lock.
        let workers = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let spread = workers.iter().flat_map(|of| &of.spread).copied().collect();
        let summaries: Vec<Summary<Label>> = workers.into_iter().map(|of| of.summary).collect();
        Hottest {
            summary: Summary::merged(&summaries, max),
            spread,
        }
    }
}
