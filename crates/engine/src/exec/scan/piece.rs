//! Learning from the rows of a scan.

use helenus_wire::RowsView;

use crate::exec::context::ExecContext;
use crate::exec::scan::in_range::partition_columns;

/// Visibility of the partitions of a result's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Partitions {
    Visible,
    Hidden,
}

/// `Visible` if the query's result shows which partitions its rows are in.
pub(crate) fn partitions_of(cx: &ExecContext<'_>) -> Partitions {
    match partition_columns(cx.query, &cx.engine.snapshot) {
        Some(_) => Partitions::Visible,
        None => Partitions::Hidden,
    }
}

/// Learns from rows how many are in a partition, if they show it.
pub(crate) fn look_at_partitions(cx: &mut ExecContext<'_>, page: &RowsView<'_>) -> Partitions {
    let random = cx.engine.random();
    let Some(columns) = partition_columns(cx.query, &cx.engine.snapshot) else {
        return Partitions::Hidden;
    };
    if let Some(learned) = cx.learned()
        && learned.spread.wants_partitions(page.row_count, random)
        && let Some(rows) = rows_in_partition(page, &columns)
    {
        learned.spread.note_partition_rows(rows);
    }
    Partitions::Visible
}

/// How many rows of a page are in the partition of a row, on average over the rows. These columns make
/// up the partition key.
fn rows_in_partition(page: &RowsView<'_>, columns: &[usize]) -> Option<f64> {
    let mut cells: Vec<_> = columns.iter().map(|column| page.rows_by(*column)).collect();
    let mut before: Vec<Option<&[u8]>> = Vec::new();
    let mut row = Vec::with_capacity(columns.len());
    let (mut run, mut squares) = (0_f64, 0_f64);
    for _ in 0..page.row_count {
        row.clear();
        for column in &mut cells {
            row.push(column.next()?.ok()?.1);
        }
        if row != before {
            squares += run * run;
            run = 0.0;
            std::mem::swap(&mut row, &mut before);
        }
        run += 1.0;
    }
    squares += run * run;
    (page.row_count > 0).then(|| squares / page.row_count as f64)
}

#[cfg(test)]
mod tests {
    use helenus_wire::write;

    use super::*;

    /// A page of rows with these two columns, without specifications of them.
    fn rows(rows: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [2, 4, 2, rows.len() as i32] {
            write::i32(&mut out, number);
        }
        for (a, b) in rows {
            write::bytes(&mut out, Some(a.as_bytes()));
            write::bytes(&mut out, Some(b.as_bytes()));
        }
        out
    }

    #[test]
    fn rows_tell_how_many_are_in_a_partition() {
        let body = rows(&[
            ("a", "x"),
            ("a", "y"),
            ("b", "y"),
            ("b", "y"),
            ("b", "y"),
            ("c", "y"),
        ]);
        let page = RowsView::parse(&body).expect("rows");
        let of = |columns: &[usize]| rows_in_partition(&page, columns);
        assert_eq!(of(&[0]), Some((4.0 + 9.0 + 1.0) / 6.0));
        assert_eq!(of(&[1]), Some((1.0 + 25.0) / 6.0));
        assert_eq!(of(&[1, 0]), Some((1.0 + 1.0 + 9.0 + 1.0) / 6.0));
        let nothing = rows(&[]);
        let nothing = RowsView::parse(&nothing).expect("rows");
        assert_eq!(rows_in_partition(&nothing, &[0]), None);
    }
}
