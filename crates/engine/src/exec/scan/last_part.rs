//! A page that ends within one of its parts: the rows in front of its end, and the paging state there.
//!
//! The paper's variants ask every node for the whole of what is missing, so the last part that is needed
//! mostly has more rows than the page has room for. A state between two partitions says no more than the
//! key of the one before it. Within a partition it would have to name the row, in the node's own encoding:
//! such a page is completed by another request.

use helenus_policy::token::composite_key;
use helenus_wire::{PageStart, RowsView};

use crate::exec::context::ExecContext;
use crate::exec::scan::in_range::partition_columns;

/// Rows of a part, and the paging state behind them.
pub(in crate::exec) struct Beginning<'a> {
    pub bytes: &'a [u8],
    pub state: Option<Vec<u8>>,
}

/// The first rows of a part. `ends`: nothing comes behind them, because the LIMIT is reached. `None` if
/// their paging state cannot be known.
pub(in crate::exec) fn beginning<'a>(
    cx: &ExecContext<'_>,
    page: &RowsView<'a>,
    rows: usize,
    ends: bool,
) -> Option<Beginning<'a>> {
    if ends {
        let bytes = page.first_rows(rows)?;
        return Some(Beginning { bytes, state: None });
    }
    let columns = partition_columns(cx.query, &cx.engine.snapshot)?;
    beginning_of(page, rows, &columns)
}

/// The same, of rows of which these columns make up the partition key, in its order.
fn beginning_of<'a>(page: &RowsView<'a>, rows: usize, columns: &[usize]) -> Option<Beginning<'a>> {
    let last = rows.checked_sub(1)?;
    let key_of = |row: usize| -> Option<Vec<u8>> {
        let cells = columns
            .iter()
            .map(|column| page.rows_by(*column).nth(row)?.ok()?.1);
        let cells: Vec<&[u8]> = cells.collect::<Option<_>>()?;
        let mut key = Vec::new();
        composite_key(cells.into_iter(), &mut key).then_some(key)
    };
    let key = key_of(last)?;
    let goes_on_behind = match rows < page.row_count {
        true => key_of(rows)? == key,
        false => page.paging_state.is_some(),
    };
    let state = PageStart::behind_partition(&key, 0).write();
    (!goes_on_behind && !key.is_empty()).then_some(Beginning {
        bytes: page.first_rows(rows)?,
        state: Some(state),
    })
}

#[cfg(test)]
mod tests {
    use helenus_wire::write;

    use super::*;

    /// A page of rows with these two columns, without specifications of them.
    fn rows(rows: &[(&str, &str)], state: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::new();
        write::i32(&mut out, 2);
        write::i32(&mut out, 4 | state.map_or(0, |_| 2));
        write::i32(&mut out, 2);
        if let Some(state) = state {
            write::bytes(&mut out, Some(state));
        }
        write::i32(&mut out, rows.len() as i32);
        for (a, b) in rows {
            write::bytes(&mut out, Some(a.as_bytes()));
            write::bytes(&mut out, Some(b.as_bytes()));
        }
        out
    }

    /// The bytes of so many rows, and the key of the state behind them.
    fn check(body: &[u8], rows: usize, columns: &[usize], expected: Option<&[u8]>) {
        let page = RowsView::parse(body).expect("rows");
        let found = beginning_of(&page, rows, columns);
        let key = found.as_ref().map(|found| {
            let state = found.state.as_deref().expect("a state");
            assert_eq!(page.first_rows(rows), Some(found.bytes));
            PageStart::parse(state).expect("a paging state").key
        });
        assert_eq!(key, expected, "{rows} rows");
    }

    #[test]
    fn a_page_ends_between_partitions_only() {
        let body = rows(&[("a", "x"), ("a", "y"), ("b", "y"), ("c", "y")], None);
        check(&body, 1, &[0], None);
        check(&body, 2, &[0], Some(b"a"));
        check(&body, 3, &[0], Some(b"b"));
        check(&body, 4, &[0], Some(b"c"));
        check(&body, 5, &[0], None);
        check(&body, 0, &[0], None);
        // Both columns are the key.
        check(&body, 1, &[1, 0], Some(b"\0\x01x\0\0\x01a\0"));
    }

    #[test]
    fn what_goes_on_behind_the_last_row_may_go_on_in_its_partition() {
        let body = rows(&[("a", "x"), ("b", "y")], Some(b"state"));
        check(&body, 1, &[0], Some(b"a"));
        check(&body, 2, &[0], None);
    }
}
