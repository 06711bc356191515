//! All writes to copies in sync of one worker that are under way.

mod evictions;
pub(crate) mod shares;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use helenus_layout::plan::LogicalTable;
use helenus_policy::ring::NodeIndex;
use slotmap::SlotMap;

use self::evictions::Evictions;
use self::shares::{Share, Shares};
use crate::copies::{Eviction, Lists};
use crate::execution::copied_write::{CopiedWrite, Passed};
use crate::keys::CopiedWriteKey;
use crate::memory::Ledger;
use crate::statement::layout_plan::Plan;
use crate::statement::prepared::{Prepared, Statement};
use crate::tick::TICK;

/// How many a worker has under way at most: what comes in a second or two while a node is lost. They are counted
/// in memory as well (`limits.memory_max`), but each of them is also looked at every tick.
pub(crate) const WRITES_MAX: usize = 16_384;
/// Those that nobody waits for any more are at most one in so many, and hold at most this part of
/// `limits.memory_max` while no more than that is left of it: they must not keep others out.
pub(crate) const ALONE_SHARE: usize = 4;
/// Between two ticks that are further apart, in microseconds, a worker may not have read what has come.
const STALL_US: u64 = 2 * TICK.as_micros() as u64;

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
    /// That was after a stall.
    has_stalled: bool,
    evictions: Evictions,
    shares: Shares,
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
            has_stalled: false,
            evictions: Evictions::default(),
            shares: Shares::default(),
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

    /// All are looked at now, once a tick. `now_us`: in the time of the lists.
    pub(crate) fn look(&mut self, now: Instant, now_us: u64) -> Passed {
        self.forget_recorded();
        self.evictions.tick(now_us);
        self.shares.tick();
        let before = std::mem::replace(&mut self.looked, now);
        let us = now.saturating_duration_since(before).as_micros();
        let us = u64::try_from(us).unwrap_or(u64::MAX);
        let has_stalled = us > STALL_US;
        let stalled_before = std::mem::replace(&mut self.has_stalled, has_stalled);
        Passed {
            us,
            now_us,
            is_first_stall: has_stalled && !stalled_before,
        }
    }

    /// Of those that nobody waits for, what is more than their share: of their number the oldest, of their bytes the
    /// largest. `bytes_max`: of what they may hold, if that is bounded now.
    pub(crate) fn too_many_alone(&self, bytes_max: Option<usize>) -> Vec<CopiedWriteKey> {
        let alone = self.writes.iter();
        let alone = alone.filter(|(_, write)| write.waits.is_none());
        let alone = alone.map(|(key, write)| (write.began_us(), write.bytes(), key));
        let excess = |number: usize, bytes: usize| {
            let bytes = bytes_max.map_or(0, |max| bytes.saturating_sub(max));
            (number.saturating_sub(self.max / ALONE_SHARE), bytes)
        };
        let count = |(number, bytes): (usize, usize), (_, of, _): (u64, usize, CopiedWriteKey)| {
            (number + 1, bytes + of)
        };
        let (number, bytes) = alone.clone().fold((0, 0), count);
        let (oldest, _) = match excess(number, bytes) {
            (0, 0) => return Vec::new(),
            excess => excess,
        };
        let mut alone: Vec<_> = alone.collect();
        alone.sort_unstable();
        let mut ended: Vec<_> = alone.drain(..oldest).collect();
        let (number, bytes) = alone.iter().copied().fold((0, 0), count);
        let (_, mut largest) = excess(number, bytes);
        alone.sort_unstable_by_key(|(_, bytes, _)| *bytes);
        while largest > 0
            && let Some(of) = alone.pop()
        {
            largest = largest.saturating_sub(of.1);
            ended.push(of);
        }
        ended.into_iter().map(|(.., key)| key).collect()
    }

    /// An eviction, if it is to be asked for: each once a second. `version`: of the list by which the copy was
    /// found.
    pub(crate) fn eviction_due(
        &mut self,
        table: &LogicalTable,
        owners: &[NodeIndex],
        found: (usize, u64),
        now_us: u64,
    ) -> Option<Eviction> {
        self.evictions.due(table, owners, found, now_us)
    }

    /// The same of a copy that does not have a write, or whose node was restarted, if it can be evicted by these
    /// lists.
    pub(crate) fn eviction_due_for(
        &mut self,
        key: CopiedWriteKey,
        copy: usize,
        lists: &Lists,
        now_us: u64,
    ) -> Option<Eviction> {
        let write = self.writes.get(key)?;
        let list = *write.view(lists)?.copies.last_read()?;
        list.evict(copy).ok()?;
        let found = (copy, list.version());
        self.evictions
            .due(&write.table, &write.owners, found, now_us)
    }

    /// What a write holds of what is prepared.
    pub(crate) fn share(
        &mut self,
        plan: &Arc<Plan<Statement>>,
        prepared: &Arc<Prepared>,
        memory: &Rc<Ledger>,
    ) -> Rc<Share> {
        self.shares.of(plan, prepared, memory)
    }

    /// A timestamp for a write whose client has none: that time, but later than all before.
    pub(crate) fn timestamp_us(&mut self, since_1970_us: i64) -> i64 {
        self.timestamp_us = since_1970_us.max(self.timestamp_us.saturating_add(1));
        self.timestamp_us
    }
}
