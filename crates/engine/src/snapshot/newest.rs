//! The newest snapshot, where all threads find it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};

use crate::snapshot::Snapshot;

/// The newest snapshot and, cheap to look at, its epoch.
#[derive(Debug)]
pub struct Newest {
    snapshot: ArcSwap<Snapshot>,
    epoch: AtomicU64,
}

impl Default for Newest {
    fn default() -> Newest {
        Newest {
            snapshot: ArcSwap::from_pointee(Snapshot::unknown()),
            epoch: AtomicU64::new(0),
        }
    }
}

impl Newest {
    /// For a look at it.
    pub fn load(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// To be kept.
    pub fn load_full(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn store(&self, snapshot: Snapshot) {
        let epoch = snapshot.epoch();
        self.snapshot.store(Arc::new(snapshot));
        self.epoch.store(epoch, Ordering::Release);
    }
}
