//! All writes to copies in sync of one worker that are under way.

use std::sync::Arc;
use std::time::Instant;

use helenus_layout::plan::LogicalTable;
use helenus_policy::ring::NodeIndex;
use slotmap::SlotMap;

use crate::copies::{Eviction, Lists};
use crate::execution::copied_write::CopiedWrite;
use crate::keys::CopiedWriteKey;

/// How many a worker has under way at most: what comes in a second or two while a node is lost. They are counted
/// in memory as well (`limits.memory_max`), but each of them is also looked at every tick.
pub(crate) const WRITES_MAX: usize = 16_384;
/// The same eviction is asked for again after this time, in microseconds.
const EVICTION_AGAIN_US: u64 = 1_000_000;

/// The writes to copies of one worker, until all required copies have them.
pub(crate) struct CopiedWrites {
    writes: SlotMap<CopiedWriteKey, CopiedWrite>,
    /// See [`WRITES_MAX`].
    pub max: usize,
    /// Those of which something is to be judged.
    touched: Vec<CopiedWriteKey>,
    /// Those whose intent may not be recorded yet.
    unrecorded: Vec<CopiedWriteKey>,
    /// The lists by which all were looked at last.
    seen: Arc<Lists>,
    /// When all were looked at last, once a tick.
    looked: Instant,
    /// What was asked for, and when it may be asked for again.
    evictions: Vec<(Eviction, u64)>,
    /// The last timestamp that was given to a write.
    timestamp_us: i64,
}

impl CopiedWrites {
    pub(crate) fn new(now: Instant) -> CopiedWrites {
        CopiedWrites {
            writes: SlotMap::default(),
            max: WRITES_MAX,
            touched: Vec::new(),
            unrecorded: Vec::new(),
            seen: Arc::default(),
            looked: now,
            evictions: Vec::new(),
            timestamp_us: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.writes.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.writes.len() >= self.max
    }

    pub(crate) fn insert(&mut self, write: CopiedWrite) -> CopiedWriteKey {
        let key = self.writes.insert(write);
        self.unrecorded.push(key);
        key
    }

    pub(crate) fn get_mut(&mut self, key: CopiedWriteKey) -> Option<&mut CopiedWrite> {
        self.writes.get_mut(key)
    }

    pub(crate) fn get(&self, key: CopiedWriteKey) -> Option<&CopiedWrite> {
        self.writes.get(key)
    }

    pub(crate) fn remove(&mut self, key: CopiedWriteKey) -> Option<CopiedWrite> {
        self.writes.remove(key)
    }

    pub(crate) fn keys(&self) -> Vec<CopiedWriteKey> {
        self.writes.keys().collect()
    }

    /// Something of a write is to be judged. Returns whether the clock has to be asked for.
    pub(crate) fn touch(&mut self, key: CopiedWriteKey) -> bool {
        self.touched.push(key);
        self.touched.len() == 1
    }

    pub(crate) fn take_touched(&mut self) -> Vec<CopiedWriteKey> {
        std::mem::take(&mut self.touched)
    }

    /// Those to be looked at because something was published: all if the lists are others; otherwise an intent
    /// was recorded.
    pub(crate) fn published(&mut self, lists: &Arc<Lists>) -> Vec<CopiedWriteKey> {
        self.forget_recorded();
        if Arc::ptr_eq(&self.seen, lists) {
            return self.unrecorded.clone();
        }
        self.seen = lists.clone();
        self.keys()
    }

    /// Forgets which writes have ended, or were found to be recorded, of those whose intents may not be.
    fn forget_recorded(&mut self) {
        let writes = &self.writes;
        let is_waiting = |write: &CopiedWrite| !write.is_recorded();
        self.unrecorded
            .retain(|key| writes.get(*key).is_some_and(is_waiting));
    }

    /// All are looked at now, once a tick: for how long they were not, in microseconds.
    pub(crate) fn look(&mut self, now: Instant) -> u64 {
        self.forget_recorded();
        let before = std::mem::replace(&mut self.looked, now);
        let us = now.saturating_duration_since(before).as_micros();
        u64::try_from(us).unwrap_or(u64::MAX)
    }

    /// An eviction, if it is to be asked for: each once a second. `version`: of the list by which the copy was
    /// found.
    pub(crate) fn eviction_due(
        &mut self,
        table: &LogicalTable,
        owners: &[NodeIndex],
        (copy, version): (usize, u64),
        now_us: u64,
    ) -> Option<Eviction> {
        self.evictions.retain(|(_, again_us)| now_us < *again_us);
        let is_it = |of: &Eviction| {
            (of.copy, of.version) == (copy, version)
                && *of.owners == *owners
                && (&of.keyspace, &of.table) == (&table.keyspace, &table.name)
        };
        if self.evictions.iter().any(|(of, _)| is_it(of)) {
            return None;
        }
        let eviction = Eviction {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            owners: owners.into(),
            copy,
            version,
        };
        let again_us = now_us + EVICTION_AGAIN_US;
        self.evictions.push((eviction.clone(), again_us));
        Some(eviction)
    }

    /// A timestamp for a write whose client has none: that time, but later than all before.
    pub(crate) fn timestamp_us(&mut self, since_1970_us: i64) -> i64 {
        self.timestamp_us = since_1970_us.max(self.timestamp_us.saturating_add(1));
        self.timestamp_us
    }
}
