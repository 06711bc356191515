//! Clustering orders: in which order a table or a layout sorts its rows.

use std::cmp::Ordering;

use super::Row;

/// Places of the columns in the table's own order, as a table sorts by them, and which of them descend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) struct Order {
    pub columns: [usize; 3],
    /// By place in the table's own order.
    pub descending: [bool; 3],
}

impl Order {
    pub(in crate::chaos) fn own(descending: [bool; 3]) -> Order {
        Order {
            columns: [0, 1, 2],
            descending,
        }
    }

    pub(in crate::chaos) fn compare(&self, one: &Row, other: &Row) -> Ordering {
        let mut by_column = self.columns.iter().map(|at| {
            let ascending = one[*at].cmp(&other[*at]);
            match self.descending[*at] {
                true => ascending.reverse(),
                false => ascending,
            }
        });
        by_column
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// A row as a paging state holds it: its values in the order of the table that is read.
    pub(in crate::chaos) fn mark(&self, row: &Row) -> Vec<u8> {
        let values = self.columns.iter().flat_map(|at| row[*at].to_be_bytes());
        values.collect()
    }

    /// The row of a mark. That of another table is another row.
    pub(in crate::chaos) fn row_of(&self, mark: &[u8]) -> Option<Row> {
        if mark.len() != 24 {
            return None;
        }
        let mut row = [0; 3];
        for (at, bytes) in self.columns.iter().zip(mark.chunks_exact(8)) {
            row[*at] = i64::from_be_bytes(bytes.try_into().ok()?);
        }
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_column_by_column() {
        let order = Order {
            columns: [2, 0, 1],
            descending: [true, false, false],
        };
        assert!(order.compare(&[0, 0, 1], &[2, 2, 2]).is_lt(), "c first");
        assert!(order.compare(&[0, 0, 1], &[2, 0, 1]).is_gt(), "a descends");
        assert!(order.compare(&[1, 2, 1], &[1, 2, 1]).is_eq());
    }

    #[test]
    fn a_mark_means_another_row_elsewhere() {
        let layout = Order {
            columns: [2, 0, 1],
            descending: [false; 3],
        };
        let mark = layout.mark(&[0, 1, 2]);
        assert_eq!(layout.row_of(&mark), Some([0, 1, 2]));
        assert_eq!(Order::own([false; 3]).row_of(&mark), Some([2, 0, 1]));
        assert_eq!(layout.row_of(&mark[1..]), None);
    }
}
