//! Rows that are written at once.

use crate::row::Row;

/// Rows and bytes of one batch.
const BATCH_ROWS: usize = 32;
const BATCH_BYTES: usize = 32 * 1024;

/// Neighbours of one partition, not too many: what a node carries out as one mutation.
pub fn batches(rows: &[Row]) -> Vec<&[Row]> {
    let mut bytes = 0;
    let mut count = 0;
    let of_one = |a: &Row, b: &Row| {
        (bytes, count) = (bytes + a.size(), count + 1);
        let fits = count < BATCH_ROWS && bytes + b.size() <= BATCH_BYTES;
        let is_one = fits && a.partition == b.partition;
        if !is_one {
            (bytes, count) = (0, 0);
        }
        is_one
    };
    rows.chunk_by(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Cell;

    #[test]
    fn a_batch_is_of_one_partition_and_not_too_large() {
        let row = |key: u8, bytes: usize| Row {
            partition: vec![Some(vec![key])],
            clustering: Some(vec![Some(vec![1])]),
            cells: vec![Cell {
                column: 0,
                element: None,
                value: vec![0; bytes],
                timestamp: Some(1),
                ttl: 0,
            }],
        };
        let lens = |rows: &[Row]| batches(rows).iter().map(|b| b.len()).collect::<Vec<_>>();
        assert_eq!(lens(&[]), [0; 0]);
        let small: Vec<Row> = (0..70).map(|at| row(at / 65, 1)).collect();
        assert_eq!(lens(&small), [32, 32, 1, 5]);
        let third = BATCH_BYTES / 3;
        let large = [third, third, third, 1, 2 * BATCH_BYTES, 1].map(|bytes| row(1, bytes));
        assert_eq!(lens(&large), [2, 2, 1, 1]);
    }
}
