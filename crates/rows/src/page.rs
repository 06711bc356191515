//! How many rows to ask for at a time: several answers are held at once, here and by nodes.

use crate::row::Row;

/// Rows of one answer, at most, and of the first one.
pub const PAGE_ROWS: i32 = 1_000;
pub const PAGE_ROWS_FIRST: i32 = 50;
/// Bytes that an answer should hold.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

/// Rows of this size that make an answer; none if there is no row to tell.
pub fn page_rows(read: &[Row]) -> Option<i32> {
    let bytes: usize = read.iter().map(Row::size).sum();
    let rows = PAGE_BYTES.checked_mul(read.len())? / bytes.max(1);
    let rows = i32::try_from(rows).unwrap_or(PAGE_ROWS);
    (!read.is_empty()).then_some(rows.clamp(1, PAGE_ROWS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Cell;

    #[test]
    fn large_rows_are_read_in_pages_of_few() {
        let row = |bytes: usize| Row {
            partition: vec![Some(vec![0; 4])],
            clustering: Some(vec![Some(vec![0; 4])]),
            cells: vec![Cell {
                column: 0,
                element: None,
                value: vec![0; bytes],
                timestamp: Some(1),
                ttl: 0,
            }],
        };
        let rows = |bytes: usize, rows: usize| page_rows(&vec![row(bytes); rows]);
        assert_eq!(rows(10, 50), Some(PAGE_ROWS));
        assert_eq!(rows(PAGE_BYTES / 10, 3), Some(9));
        assert_eq!(rows(2 * PAGE_BYTES, 1), Some(1));
        assert_eq!(rows(10, 0), None);
    }
}
