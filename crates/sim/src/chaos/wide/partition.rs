//! What a replica holds of one partition of a table: cells and deletions, each with its timestamp.

use std::collections::BTreeMap;

use super::Row;

/// What a write does to one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum Change {
    Put(Row, i64),
    DeleteRow(Row),
    DeletePartition,
    /// All rows with this value of the first column.
    DeleteSlice(i64),
}

impl Change {
    pub(in crate::chaos) fn touches(&self, row: &Row) -> bool {
        match self {
            Change::Put(of, _) | Change::DeleteRow(of) => of == row,
            Change::DeletePartition => true,
            Change::DeleteSlice(first) => row[0] == *first,
        }
    }

    /// What a row that it touches holds behind it.
    pub(in crate::chaos) fn value(&self) -> Option<i64> {
        match self {
            Change::Put(_, value) => Some(*value),
            Change::DeleteRow(_) | Change::DeletePartition | Change::DeleteSlice(_) => None,
        }
    }
}

/// When a row was written or deleted last, and what it holds since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::chaos) struct Written {
    pub timestamp: i64,
    pub value: Option<i64>,
}

impl Written {
    /// Of two writes at one time the deletion counts, as in Cassandra.
    fn rank(&self) -> (i64, bool, Option<i64>) {
        (self.timestamp, self.value.is_none(), self.value)
    }

    fn newest(self, other: Written) -> Written {
        match self.rank() >= other.rank() {
            true => self,
            false => other,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::chaos) struct Partition {
    /// When all of it was deleted last; 0: never.
    deleted: i64,
    /// The same of slices, by the value of their first column.
    slices: BTreeMap<i64, i64>,
    rows: BTreeMap<Row, Written>,
}

impl Partition {
    pub(in crate::chaos) fn apply(&mut self, change: &Change, timestamp: i64) {
        let row = match change {
            Change::Put(row, _) | Change::DeleteRow(row) => *row,
            Change::DeletePartition => {
                self.deleted = self.deleted.max(timestamp);
                return;
            }
            Change::DeleteSlice(first) => return self.note_slice(*first, timestamp),
        };
        let value = change.value();
        self.note(row, Written { timestamp, value });
    }

    fn note_slice(&mut self, first: i64, timestamp: i64) {
        let known = self.slices.entry(first).or_insert(timestamp);
        *known = timestamp.max(*known);
    }

    fn note(&mut self, row: Row, written: Written) {
        let known = self.rows.entry(row).or_insert(written);
        *known = known.newest(written);
    }

    /// Takes over what another replica, or another table, has of it.
    pub(in crate::chaos) fn merge(&mut self, other: &Partition) {
        self.deleted = self.deleted.max(other.deleted);
        for (first, timestamp) in &other.slices {
            self.note_slice(*first, *timestamp);
        }
        for (row, written) in &other.rows {
            self.note(*row, *written);
        }
    }

    /// What a row holds, and since when.
    pub(in crate::chaos) fn of_row(&self, row: &Row) -> Written {
        let deleted = Written {
            timestamp: self
                .slices
                .get(&row[0])
                .map_or(self.deleted, |at| self.deleted.max(*at)),
            value: None,
        };
        let written = self.rows.get(row).copied().unwrap_or_default();
        written.newest(deleted)
    }

    /// Rows that are there, with their values.
    pub(in crate::chaos) fn live(&self) -> impl Iterator<Item = (Row, i64)> + '_ {
        let rows = self.rows.keys();
        rows.filter_map(|row| Some((*row, self.of_row(row).value?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Row = [1, 2, 0];

    #[test]
    fn the_newest_counts_in_whatever_order_it_comes() {
        let changes = [
            (Change::Put(ROW, 7), 10),
            (Change::DeletePartition, 11),
            (Change::Put(ROW, 8), 12),
            (Change::DeleteRow(ROW), 12),
            (Change::Put([0, 0, 0], 9), 11),
        ];
        let mut forward = Partition::default();
        let mut backward = Partition::default();
        changes.iter().for_each(|(c, at)| forward.apply(c, *at));
        changes
            .iter()
            .rev()
            .for_each(|(c, at)| backward.apply(c, *at));
        assert_eq!(forward, backward);
        assert_eq!(
            forward.live().count(),
            0,
            "a deletion counts at equal times"
        );
        forward.apply(&Change::Put(ROW, 5), 13);
        assert_eq!(forward.live().collect::<Vec<_>>(), [(ROW, 5)]);
    }

    #[test]
    fn merged_replicas_have_what_either_has() {
        let (mut one, mut other) = (Partition::default(), Partition::default());
        one.apply(&Change::Put(ROW, 7), 10);
        other.apply(&Change::DeletePartition, 9);
        other.apply(&Change::Put([0, 0, 0], 6), 8);
        one.merge(&other);
        assert_eq!(one.live().collect::<Vec<_>>(), [(ROW, 7)]);
        assert_eq!(one.of_row(&[2, 2, 2]).timestamp, 9);
    }
}
