//! Answers about tables with encoded columns, as clients are to see them.

use helenus_wire::{Malformed, RowsView, write};

use super::EncodedTable;
use super::coding::Coding;
use super::json::shown_document;
use super::shown::{Behind, Counts, Pair, Shown, Unshown};

/// The content of a RESULT of kind Rows with texts in place of encoded values, behind its prelude.
/// `limit_bytes`: what it may have.
pub(crate) fn shown(
    coding: &mut Coding,
    table: &EncodedTable,
    of: &Shown,
    (prelude, content): (&[u8], &[u8]),
    limit_bytes: usize,
) -> Result<Option<Vec<u8>>, Unshown> {
    let page = RowsView::parse(content)?;
    let mut out = Vec::with_capacity(prelude.len() + content.len() * 2);
    out.extend_from_slice(prelude);
    let columns = match of {
        Shown::AsItCame => return Ok(None),
        Shown::ByName => by_name(table, &page),
        Shown::Behind(behind) if page.column_count < behind.count => {
            return Err(Malformed("an answer has too few columns").into());
        }
        Shown::Behind(behind) => behind.pairs(page.column_count),
        Shown::Json(behind) => {
            documents(coding, table, behind.as_ref(), &page, limit_bytes, &mut out)?;
            return Ok(Some(out));
        }
    };
    if columns.iter().all(|column| *column == Pair::AsItCame) {
        return Ok(None);
    }
    let is_kept = |at: usize| columns.get(at) != Some(&Pair::LeftOut);
    page.write_head_of_columns(is_kept, &mut out);
    let mut failed = None;
    let mut row = 0;
    page.for_each_row(0, |_, cells| {
        row += 1;
        if failed.is_some() {
            return;
        }
        for (at, (column, cell)) in columns.iter().zip(cells).enumerate() {
            let stored = match column {
                Pair::LeftOut => continue,
                Pair::AsItCame => None,
                Pair::Text(hidden, counts) => {
                    let stored = cells.get(*hidden).copied().flatten();
                    stored.filter(|_| counts.is_encoded(cell.is_some()))
                }
            };
            match stored {
                None => write::bytes(&mut out, *cell),
                Some(stored) => {
                    let left = limit_bytes.saturating_sub(out.len());
                    match coding.decode(table, stored, left) {
                        Ok(text) => write::bytes(&mut out, Some(text.as_bytes())),
                        Err(e) => {
                            let name = page.columns.get(at).map_or("", |column| column.name);
                            failed = Some(format!("column {name}, row {row} of the page: {e}"));
                            return;
                        }
                    }
                }
            }
        }
    })?;
    match failed {
        Some(why) => Err(Unshown::Value(why)),
        None => Ok(Some(out)),
    }
}

/// Rows that are one JSON document each.
fn documents(
    coding: &mut Coding,
    table: &EncodedTable,
    behind: Option<&Behind>,
    page: &RowsView<'_>,
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), Unshown> {
    page.write_head_of_columns(|_| true, out);
    let mut failed = None;
    page.for_each_row(0, |_, cells| {
        for cell in cells {
            let document = cell.map(std::str::from_utf8).and_then(Result::ok);
            if failed.is_some() {
                return;
            }
            let Some(document) = document else {
                write::bytes(out, *cell);
                continue;
            };
            let left = limit_bytes.saturating_sub(out.len());
            match shown_document(coding, table, behind, document, left) {
                Ok(shown) => write::bytes(out, Some(shown.as_bytes())),
                Err(unshown) => failed = Some(unshown),
            }
        }
    })?;
    failed.map_or(Ok(()), Err)
}

fn by_name(table: &EncodedTable, page: &RowsView<'_>) -> Vec<Pair> {
    let place = |name: &str| page.columns.iter().position(|column| column.name == name);
    let columns = page.columns.iter().map(|column| {
        if table.hidden_by(column.name).is_some() {
            return Pair::LeftOut;
        }
        let of = table.column(column.name);
        let text = of.and_then(|of| Some(Pair::Text(place(&of.hidden)?, Counts::of(of))));
        text.unwrap_or(Pair::AsItCame)
    });
    columns.collect()
}
