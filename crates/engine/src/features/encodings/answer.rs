//! Answers about tables with encoded columns, as clients are to see them.

use helenus_wire::{ColumnSpec, ColumnType, Malformed, RowsView, write};

use super::EncodedTable;
use super::coding::Coding;
use super::json::shown_document;
use super::shown::{Pair, Selection, Shown, Unshown};

/// The content of a RESULT of kind Rows with texts in place of encoded values, behind its prelude.
/// `limit_bytes`: what it may have.
pub(crate) fn shown(
    coding: &mut Coding,
    table: &EncodedTable,
    of: &Shown,
    prelude: &[u8],
    content: &[u8],
    limit_bytes: usize,
) -> Result<Option<Vec<u8>>, Unshown> {
    let page = RowsView::parse(content)?;
    let mut out = Vec::with_capacity(prelude.len() + content.len() * 2);
    out.extend_from_slice(prelude);
    let columns = match of {
        Shown::PassThrough => return Ok(None),
        Shown::ByName => by_name(table, &page),
        Shown::Selected(of) if page.column_count < of.behind => {
            return Err(Malformed("an answer has too few columns").into());
        }
        Shown::Selected(of) => of.pairs(page.column_count),
        Shown::Json(of) => {
            documents(coding, table, of.as_ref(), &page, limit_bytes, &mut out)?;
            return Ok(Some(out));
        }
    };
    if columns.iter().all(|column| *column == Pair::PassThrough) {
        return Ok(None);
    }
    let is_kept = |at: usize| columns.get(at) != Some(&Pair::LeftOut);
    let as_told = |at, spec| match columns.get(at) {
        Some(Pair::InPlace(named)) => as_text(table, *named, spec),
        _ => spec,
    };
    page.write_head_of_columns(is_kept, as_told, &mut out);
    let mut failed = None;
    let mut row = 0;
    page.for_each_row(0, |_, cells| {
        row += 1;
        if failed.is_some() {
            return;
        }
        for (at, (column, cell)) in columns.iter().zip(cells).enumerate() {
            let stored_in = |hidden: usize| cells.get(hidden).copied().flatten();
            let (text, stored) = match *column {
                Pair::LeftOut => continue,
                Pair::Text(hidden) if cell.is_none() => (None, stored_in(hidden)),
                Pair::PassThrough | Pair::Text(_) => (*cell, None),
                Pair::EncodedFirst(hidden) => (*cell, stored_in(hidden)),
                Pair::Encoded(hidden) => (None, stored_in(hidden)),
                Pair::InPlace(_) => (None, *cell),
            };
            let Some(stored) = stored else {
                write::bytes(&mut out, text);
                continue;
            };
            let left = limit_bytes.saturating_sub(out.len());
            match coding.decode(table, stored, left) {
                Ok(text) => write::bytes(&mut out, Some(text.as_bytes())),
                Err(e) => {
                    let spec = page.columns.get(at).map(|spec| as_told(at, *spec));
                    let name = spec.map_or("", |spec| spec.name);
                    failed = Some(format!("column {name}, row {row} of the page: {e}"));
                    return;
                }
            }
        }
    })?;
    match failed {
        Some(why) => Err(Unshown::Value(why)),
        None => Ok(Some(out)),
    }
}

/// The metadata for clients of a column of encoded values that stands in place of a text column.
fn as_text<'a>(
    table: &'a EncodedTable,
    named: Option<usize>,
    spec: ColumnSpec<'a>,
) -> ColumnSpec<'a> {
    let column = named.and_then(|at| table.columns.get(at));
    ColumnSpec {
        name: column.map_or(spec.name, |column| &column.name),
        column_type: ColumnType::VARCHAR,
        ..spec
    }
}

/// Rows that are one JSON document each.
fn documents(
    coding: &mut Coding,
    table: &EncodedTable,
    of: Option<&Selection>,
    page: &RowsView<'_>,
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), Unshown> {
    page.write_head_of_columns(|_| true, |_, spec| spec, out);
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
            match shown_document(coding, table, of, document, left) {
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
        let text = of.and_then(|of| Some(Pair::of(of, place(&of.hidden)?)));
        text.unwrap_or(Pair::PassThrough)
    });
    columns.collect()
}
