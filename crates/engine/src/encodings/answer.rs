//! Answers about tables with encoded columns, as clients are to see them.

use helenus_wire::{Malformed, RowsView, write};

use super::EncodedTable;
use super::coding::Coding;
use super::json::shown_document;
use super::shown::{Behind, Pair, Shown, Unshown};

/// The content of a RESULT of kind Rows with texts in place of encoded values. `limit_bytes`: what it may have.
pub(crate) fn shown(
    coding: &mut Coding,
    table: &EncodedTable,
    of: &Shown,
    content: &[u8],
    limit_bytes: usize,
) -> Result<Option<Vec<u8>>, Unshown> {
    let page = RowsView::parse(content)?;
    let columns = match of {
        Shown::ByName => by_name(table, &page),
        Shown::Behind(behind) if page.column_count < behind.count => {
            return Err(Malformed("an answer has too few columns").into());
        }
        Shown::Behind(behind) => behind.pairs(page.column_count),
        Shown::Json(behind) => {
            return documents(
                coding,
                table,
                behind.as_ref(),
                &page,
                content.len(),
                limit_bytes,
            )
            .map(Some);
        }
    };
    if columns.iter().all(|column| *column == Pair::AsItCame) {
        return Ok(None);
    }
    let is_kept = |at: usize| columns.get(at) != Some(&Pair::LeftOut);
    let mut out = Vec::with_capacity(content.len() * 2);
    page.write_head_of_columns(is_kept, &mut out);
    let mut failed = None;
    page.for_each_row(0, |_, cells| {
        if failed.is_some() {
            return;
        }
        for (column, cell) in columns.iter().zip(cells) {
            let hidden = match column {
                Pair::LeftOut => continue,
                Pair::AsItCame => None,
                Pair::Text(hidden) => cells.get(*hidden).copied().flatten(),
            };
            // The text counts: it may have been written past the proxies.
            match hidden.filter(|_| cell.is_none()) {
                None => write::bytes(&mut out, *cell),
                Some(stored) => {
                    let left = limit_bytes.saturating_sub(out.len());
                    match coding.decode(table, stored, left) {
                        Ok(text) => write::bytes(&mut out, Some(text.as_bytes())),
                        Err(e) => {
                            failed = Some(e.to_string());
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
    size: usize,
    limit_bytes: usize,
) -> Result<Vec<u8>, Unshown> {
    let mut out = Vec::with_capacity(size);
    page.write_head_of_columns(|_| true, &mut out);
    let mut failed = None;
    page.for_each_row(0, |_, cells| {
        for cell in cells {
            let document = cell.map(std::str::from_utf8).and_then(Result::ok);
            if failed.is_some() {
                return;
            }
            let Some(document) = document else {
                write::bytes(&mut out, *cell);
                continue;
            };
            let left = limit_bytes.saturating_sub(out.len());
            match shown_document(coding, table, behind, document, left) {
                Ok(shown) => write::bytes(&mut out, Some(shown.as_bytes())),
                Err(unshown) => failed = Some(unshown),
            }
        }
    })?;
    failed.map_or(Ok(out), Err)
}

fn by_name(table: &EncodedTable, page: &RowsView<'_>) -> Vec<Pair> {
    let place = |name: &str| page.columns.iter().position(|column| column.name == name);
    let columns = page.columns.iter().map(|column| {
        if table.hidden_by(column.name).is_some() {
            return Pair::LeftOut;
        }
        let hidden = table.column(column.name).and_then(|of| place(&of.hidden));
        hidden.map_or(Pair::AsItCame, Pair::Text)
    });
    columns.collect()
}
