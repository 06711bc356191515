//! Which ranges have which owners, of each table with copies in place of replicas.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_engine::copy_rings::RingId;
use helenus_engine::snapshot::{HostId, Snapshot};
use helenus_layout::insync::{Owners, Ranges};
use helenus_layout::plan::LogicalTable;
use helenus_policy::token::Token;
use helenus_rows::Range;

use super::asked::TableName;

/// Of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub ring: RingId,
    pub groups: BTreeMap<Owners, Ranges>,
}

pub(super) type OwnedOfTables = BTreeMap<TableName, Owned>;

/// Found once for each snapshot.
#[derive(Debug, Default)]
pub(super) struct Rings {
    epoch: u64,
    tables: Arc<OwnedOfTables>,
}

impl Rings {
    /// Without the tables of which that is not known.
    pub(super) fn of(&mut self, snapshot: &Snapshot) -> Arc<OwnedOfTables> {
        if self.epoch != snapshot.epoch {
            let tables = snapshot.layouts.all_replaced().filter_map(|table| {
                let groups = owned(snapshot, table).ok()?.into_iter();
                let of = |ranges: Vec<Range>| {
                    Ranges::new(ranges.iter().map(|range| (range.after, range.end)))
                };
                let ring = snapshot.copy_rings.of(&table.keyspace, &table.name);
                let groups = groups
                    .map(|(owners, ranges)| (owners, of(ranges)))
                    .collect();
                let name = (table.keyspace.clone(), table.name.clone());
                Some((name, Owned { ring, groups }))
            });
            self.tables = Arc::new(tables.collect());
            self.epoch = snapshot.epoch;
        }
        self.tables.clone()
    }
}

/// All ranges of the ring by the owners of a table's copies, in the order of the copies.
///
/// # Errors
/// A sentence that says why that is not known.
pub(super) fn owned(
    snapshot: &Snapshot,
    table: &LogicalTable,
) -> Result<BTreeMap<Vec<HostId>, Vec<Range>>, String> {
    let ring = snapshot.ring.as_ref();
    let ring = ring.ok_or_else(|| "the ring is not known".to_owned())?;
    let mut groups: BTreeMap<Vec<HostId>, Vec<Range>> = BTreeMap::new();
    for slot in 0..ring.len() {
        let bounds = ring.start_token(slot).zip(ring.end_token(slot));
        let Some((Token::Murmur3(after), Token::Murmur3(end))) = bounds else {
            return Err(
                "the cluster's partitioner is not Murmur3Partitioner, with which alone copies can be compared"
                    .to_owned(),
            );
        };
        let owner = |keyspace: &String| {
            let owners = snapshot
                .keyspaces
                .get(keyspace)
                .map(|sets| sets.of_slot(slot));
            match owners {
                Some([owner]) => snapshot
                    .nodes
                    .get(owner.as_usize())
                    .map(|node| node.host_id),
                _ => None,
            }
        };
        let owners = table.copies.iter().map(|copy| {
            let keyspace = &copy.keyspace;
            owner(keyspace).ok_or_else(|| {
                format!(
                    "keyspace {keyspace} does not have one replica of each partition: give it a replication factor of 1"
                )
            })
        });
        let ranges = groups.entry(owners.collect::<Result<_, _>>()?).or_default();
        ranges.extend(unwrapped(after, end));
    }
    Ok(groups)
}

/// A range that goes over the end of the ring is two.
fn unwrapped(after: i64, end: i64) -> impl Iterator<Item = Range> {
    let ranges = match after < end {
        true => [Some(Range { after, end }), None],
        false => {
            let (first, last) = (i64::MIN, i64::MAX);
            [
                Some(Range { after, end: last }).filter(|range| range.after < range.end),
                Some(Range { after: first, end }).filter(|range| range.after < range.end),
            ]
        }
    };
    ranges.into_iter().flatten()
}
