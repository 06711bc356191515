//! Writes of one statement that leave as one batch.
//!
//! A write may join another that has not left the proxy, if both are of the same statement, role,
//! consistency level and owners, and of different partitions. They go as one unlogged batch, each with its
//! client's own timestamp: to the owners it is what the single writes would have been, to the coordinator
//! one request. Nothing waits for it: what would leave at once anyway goes alone.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_wire::{Consistency, Values, Version};
use rustc_hash::FxHasher;

use crate::config::Aggregation;
use crate::features::Slot;
use crate::keys::{ClientRequestKey, PoolKey};
use crate::pipeline::retry::resendable::Resendable;
use crate::snapshot::batch_limits::BatchLimits;
use crate::statement::prepared::Prepared;

/// The most partitions in a batch: nodes warn of more.
const PARTITIONS_MAX: usize = 10;
/// Statements and owners remembered. Two that meet in one group are not merged, which is harmless.
const GROUPS: usize = 256;
/// The most owners of a partition.
const OWNERS_MAX: usize = 8;
/// Bytes that a node counts for a value beside its own: timestamp, time to live and time of deletion.
const BYTES_PER_VALUE: usize = 32;
/// A node counts that for each element of a collection, so that it has more bytes than in the request.
const GROWTH: usize = 4;
/// Others join a write for that long at most: if it waits for longer, they shall not fail with it.
const JOINED_FOR: Duration = Duration::from_millis(100);

/// How a client request goes with others.
#[derive(Debug, Default)]
pub(crate) enum Merge {
    /// By itself.
    #[default]
    Alone,
    /// Others may join it until it leaves.
    Open(Batch),
    /// It has left, with those that have joined it.
    Left(Batch),
    /// It has joined another, and gets its answer.
    Joined,
    /// By itself, after a batch that may have been applied.
    Parted,
}

/// A write and those that have joined it.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub members: Vec<ClientRequestKey>,
    /// Each one's statement with a marker for its timestamp, if clients have sent one, and the marker's number.
    pub timed: Option<(Arc<Prepared>, u16)>,
}

impl Merge {
    pub(crate) fn batch(&self) -> Option<&Batch> {
        match self {
            Merge::Open(batch) | Merge::Left(batch) => Some(batch),
            Merge::Alone | Merge::Joined | Merge::Parted => None,
        }
    }

    /// True if others share its batch, which it leads.
    pub(crate) fn leads(&self) -> bool {
        self.members() > 0
    }

    /// How many others share its batch.
    pub(crate) fn members(&self) -> usize {
        self.batch().map_or(0, |batch| batch.members.len())
    }

    /// True if others may still join it, or have joined it.
    pub(crate) fn is_open(&self) -> bool {
        self.batch().is_some()
    }

    /// After which losses its batch may be sent again.
    #[inline]
    pub(crate) fn resendable(&self) -> Resendable {
        // Each of several writes would undo, by a later time, what others have written meanwhile.
        let is_untimed = |batch: &Batch| !batch.members.is_empty() && batch.timed.is_none();
        match self.batch().is_some_and(is_untimed) {
            true => Resendable::IfNotBegun,
            false => Resendable::Always,
        }
    }

    pub(crate) fn has_joined(&self) -> bool {
        matches!(self, Merge::Joined)
    }

    pub(crate) fn has_parted(&self) -> bool {
        matches!(self, Merge::Parted)
    }

    /// The requests that have joined it, which it does not answer for any more.
    pub(crate) fn take_members(&mut self) -> Vec<ClientRequestKey> {
        match self {
            Merge::Open(batch) | Merge::Left(batch) => std::mem::take(&mut batch.members),
            Merge::Alone | Merge::Joined | Merge::Parted => Vec::new(),
        }
    }

    /// [`Merge::take_members`]; `others` if it leads none.
    #[inline]
    pub(crate) fn members_or(&mut self, others: Vec<ClientRequestKey>) -> Vec<ClientRequestKey> {
        match self {
            Merge::Open(_) | Merge::Left(_) => self.take_members(),
            Merge::Alone | Merge::Joined | Merge::Parted => others,
        }
    }

    /// It leaves: no more can join it. False if it has left before.
    pub(crate) fn close(&mut self) -> bool {
        let Merge::Open(batch) = self else {
            return false;
        };
        *self = Merge::Left(std::mem::take(batch));
        true
    }
}

/// True if others share the batch of a request.
#[inline]
pub(super) fn leads(slot: &Slot) -> bool {
    slot.rare().is_some_and(|rare| rare.merge.leads())
}

/// The requests that have joined one, which it does not answer for any more.
#[inline]
pub(super) fn take_members(slot: &mut Slot) -> Vec<ClientRequestKey> {
    let rare = slot.rare_mut();
    rare.map_or_else(Vec::new, |rare| rare.merge.take_members())
}

/// Properties that all writes of a batch share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Common {
    /// A hash of the prepared statement's id.
    pub id_hash: u64,
    pub pool: PoolKey,
    pub consistency: Consistency,
    /// Means nothing to a plain write, but says which nodes may have it.
    pub serial_consistency: Option<Consistency>,
    pub version: Version,
    /// Clients have said when they wrote.
    pub timed: bool,
    /// In ascending order, the rest is `u16::MAX`.
    pub owners: [u16; OWNERS_MAX],
}

impl Common {
    pub(crate) fn hash_of(id: &[u8]) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write(id);
        hasher.finish()
    }

    /// Owners in an order of their own; `None` if there are none, or too many.
    pub(crate) fn owners(nodes: impl ExactSizeIterator<Item = u16>) -> Option<[u16; OWNERS_MAX]> {
        if nodes.len() == 0 || nodes.len() > OWNERS_MAX {
            return None;
        }
        let mut owners = [u16::MAX; OWNERS_MAX];
        for (place, node) in owners.iter_mut().zip(nodes) {
            *place = node;
        }
        owners.sort_unstable();
        Some(owners)
    }
}

/// One write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct One {
    pub common: Common,
    /// Slot of the ring, and the hash of the key.
    pub partition: (u32, u32),
    /// About what a node will count for it.
    pub bytes: usize,
}

impl One {
    /// About what a node counts for a statement with these values, rather more than less.
    pub(crate) fn bytes_of(text: &str, values: &Values<'_>) -> usize {
        text.len() + usize::from(values.count) * BYTES_PER_VALUE + GROWTH * values.byte_len()
    }
}

#[derive(Clone, Copy)]
struct Group {
    common: Common,
    /// The request that carries the others.
    leader: ClientRequestKey,
    since: Instant,
    partitions: [(u32, u32); PARTITIONS_MAX],
    len: usize,
    bytes: usize,
}

/// The writes of one worker that others may join.
#[derive(Default)]
pub(crate) struct Merging {
    /// Keyspaces, and tables as `keyspace.table`; `*` for all.
    tables: Vec<Box<str>>,
    /// Limits below which no node warns.
    limits: BatchLimits,
    groups: Vec<Option<Group>>,
}

impl Merging {
    /// Puts other settings in force. Writes that have been merged stay so.
    pub(crate) fn adopt(&mut self, settings: &Aggregation) {
        let tables = settings.merge_writes.iter();
        self.tables = tables.map(|name| (**name).into()).collect();
        let groups = if self.tables.is_empty() { 0 } else { GROUPS };
        self.groups.resize(groups, None);
    }

    /// Puts other limits of nodes in force.
    pub(crate) fn adopt_limits(&mut self, limits: impl Iterator<Item = BatchLimits>) {
        self.limits = limits.reduce(BatchLimits::and).unwrap_or_default();
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.tables.is_empty()
    }

    /// True if writes to a table may be merged.
    pub(crate) fn covers(&self, keyspace: &str, table: &str) -> bool {
        self.tables.iter().any(|of| match of.split_once('.') {
            Some((of, name)) => of == keyspace && name == table,
            None => **of == *keyspace || &**of == "*",
        })
    }

    /// The request that a write may join, if that has not left yet.
    pub(crate) fn leader(&self, one: &One, now: Instant) -> Option<ClientRequestKey> {
        let group = self.groups.get(place(&one.common))?.as_ref()?;
        if now.saturating_duration_since(group.since) > JOINED_FOR {
            return None;
        }
        let fits = group.len < self.limits.partitions_max.min(PARTITIONS_MAX)
            && group.bytes + one.bytes <= self.limits.bytes_max;
        let is_new = !group.partitions[..group.len].contains(&one.partition);
        (group.common == one.common && fits && is_new).then_some(group.leader)
    }

    /// It has joined the one that it was told.
    pub(crate) fn note_joined(&mut self, one: &One) {
        let group = self.groups.get_mut(place(&one.common));
        if let Some(group) = group.and_then(Option::as_mut)
            && let Some(partition) = group.partitions.get_mut(group.len)
        {
            *partition = one.partition;
            group.len += 1;
            group.bytes += one.bytes;
        }
    }

    /// Others may join it.
    pub(crate) fn begin(&mut self, one: &One, leader: ClientRequestKey, now: Instant) {
        if let Some(group) = self.groups.get_mut(place(&one.common)) {
            let mut partitions = [(0, 0); PARTITIONS_MAX];
            partitions[0] = one.partition;
            *group = Some(Group {
                common: one.common,
                leader,
                partitions,
                since: now,
                len: 1,
                bytes: one.bytes,
            });
        }
    }
}

fn place(common: &Common) -> usize {
    let mut hasher = FxHasher::default();
    common.hash(&mut hasher);
    // The multiplication leaves the entropy in the high bits.
    (hasher.finish() >> 32) as usize % GROUPS
}
