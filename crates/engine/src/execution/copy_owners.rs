//! Which nodes hold the copies in sync of what is read or written, by a snapshot.

use helenus_layout::plan::LogicalTable;
use helenus_policy::ring::{NodeIndex, Ring};
use helenus_policy::token::{Partitioner, Token};

use crate::execution::token_splits::Stretch;
use crate::snapshot::Snapshot;

/// What is read of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The partition with this token.
    Partition(i64),
    Stretch(Stretch),
}

/// The nodes of the copies of a stretch of the ring.
pub(crate) struct Run {
    pub owners: Box<[NodeIndex]>,
    pub stretch: Stretch,
}

/// Why copies have no owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotOne {
    pub keyspace: String,
    /// How many replicas a partition has there.
    pub replicas: usize,
}

impl NotOne {
    pub(crate) fn text(&self) -> String {
        let NotOne { keyspace, replicas } = self;
        format!(
            "keyspace {keyspace} has {replicas} replicas of this partition where it should have one; give it a \
             replication factor of 1"
        )
    }
}

/// The node of each copy of a partition by this snapshot.
pub(crate) fn owners_now<'a>(
    snapshot: &'a Snapshot,
    table: &'a LogicalTable,
    token: i64,
) -> impl Iterator<Item = Result<NodeIndex, NotOne>> + 'a {
    let ring = snapshot.ring.as_ref();
    let slot = ring.map(|ring| ring.slot(&Token::Murmur3(token)));
    owners_of_slot(snapshot, table, slot)
}

fn owners_of_slot<'a>(
    snapshot: &'a Snapshot,
    table: &'a LogicalTable,
    slot: Option<usize>,
) -> impl Iterator<Item = Result<NodeIndex, NotOne>> + 'a {
    table.copies.iter().map(move |copy| {
        let owners = snapshot.keyspaces.get(&copy.keyspace);
        match owners.zip(slot).map(|(owners, slot)| owners.of_slot(slot)) {
            Some([owner]) => Ok(*owner),
            owners => Err(NotOne {
                keyspace: copy.keyspace.clone(),
                replicas: owners.map_or(0, <[NodeIndex]>::len),
            }),
        }
    })
}

/// Whether a table has the copies that it had, and these nodes own them: others may have been written since.
pub(crate) fn has_copies_on(
    snapshot: &Snapshot,
    (table, extent): (&LogicalTable, Extent),
    owners: &[NodeIndex],
) -> bool {
    let known = snapshot.layouts.replaced(&table.keyspace, &table.name);
    let is_owned = |table| match extent {
        Extent::Partition(token) => {
            let now = owners_now(snapshot, table, token);
            now.eq(owners.iter().map(|owner| Ok(*owner)))
        }
        Extent::Stretch(stretch) => first_run(snapshot, table, stretch)
            .is_ok_and(|run| *run.owners == *owners && run.stretch == stretch),
    };
    known.is_some_and(|known| known.has_copies_of(table)) && is_owned(table)
}

/// The first part of a stretch whose copies have the same owners throughout.
pub(crate) fn first_run(
    snapshot: &Snapshot,
    table: &LogicalTable,
    stretch: Stretch,
) -> Result<Run, NotOne> {
    let ring = snapshot.ring.as_ref();
    let ring = ring.filter(|ring| ring.partitioner() == Partitioner::Murmur3);
    let Some(ring) = ring else {
        return owners_of_slot(snapshot, table, None)
            .collect::<Result<_, _>>()
            .map(|owners| Run { owners, stretch });
    };
    let mut slot = ring.slot(&Token::Murmur3(stretch.above.saturating_add(1)));
    let owners: Box<[NodeIndex]> =
        owners_of_slot(snapshot, table, Some(slot)).collect::<Result<_, _>>()?;
    let is_same = |slot: usize| {
        let of_slot = owners_of_slot(snapshot, table, Some(slot));
        of_slot.eq(owners.iter().map(|owner| Ok(*owner)))
    };
    let mut end = end_of(ring, slot, stretch.above);
    // What is behind the last token belongs to the first slot.
    while end < stretch.up_to {
        slot = if slot + 1 == ring.len() { 0 } else { slot + 1 };
        if !is_same(slot) {
            break;
        }
        end = end_of(ring, slot, end);
    }
    let up_to = end.min(stretch.up_to);
    let stretch = Stretch { up_to, ..stretch };
    Ok(Run { owners, stretch })
}

/// Where a slot ends that begins behind a token.
fn end_of(ring: &Ring, slot: usize, above: i64) -> i64 {
    match ring.end_token(slot) {
        Some(Token::Murmur3(end)) if end > above => end,
        _ => i64::MAX,
    }
}
