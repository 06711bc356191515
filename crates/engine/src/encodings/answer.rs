//! Answers about tables with encoded columns, as clients are to see them.

use helenus_wire::{Malformed, RowsView, write};

use super::EncodedTable;
use super::coding::Coding;

/// How the columns of an answer become those that the client has asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shown {
    /// They are told by their names: all columns of the table.
    #[default]
    ByName,
    /// Behind what the client has selected stand so many columns of encoded values.
    Behind {
        count: usize,
        /// Which of the selected columns holds a text, and the place of its encoded values among those behind.
        texts: Box<[(usize, usize)]>,
    },
}

/// Why an answer cannot be shown.
#[derive(Debug)]
pub(crate) enum Unshown {
    Malformed(Malformed),
    /// A value cannot be read, for this reason.
    Value(String),
}

impl From<Malformed> for Unshown {
    fn from(of: Malformed) -> Self {
        Unshown::Malformed(of)
    }
}

/// What becomes of one column.
#[derive(Clone, Copy, Debug)]
enum Column {
    AsItCame,
    /// A text, whose encoded value may be in that column.
    Text(usize),
    LeftOut,
}

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
        Shown::Behind { count, texts } => behind(&page, *count, texts)?,
    };
    if columns
        .iter()
        .all(|column| matches!(column, Column::AsItCame))
    {
        return Ok(None);
    }
    let is_kept = |at: usize| !matches!(columns.get(at), Some(Column::LeftOut));
    let mut out = Vec::with_capacity(content.len() * 2);
    page.write_head_of_columns(is_kept, &mut out);
    let mut failed = None;
    page.for_each_row(0, |_, cells| {
        if failed.is_some() {
            return;
        }
        for (column, cell) in columns.iter().zip(cells) {
            let hidden = match column {
                Column::LeftOut => continue,
                Column::AsItCame => None,
                Column::Text(hidden) => cells.get(*hidden).copied().flatten(),
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

fn by_name(table: &EncodedTable, page: &RowsView<'_>) -> Vec<Column> {
    let place = |name: &str| page.columns.iter().position(|column| column.name == name);
    let columns = page.columns.iter().map(|column| {
        if table.hidden_by(column.name).is_some() {
            return Column::LeftOut;
        }
        let hidden = table.column(column.name).and_then(|of| place(&of.hidden));
        hidden.map_or(Column::AsItCame, Column::Text)
    });
    columns.collect()
}

fn behind(
    page: &RowsView<'_>,
    count: usize,
    texts: &[(usize, usize)],
) -> Result<Vec<Column>, Malformed> {
    let own = page.column_count.checked_sub(count);
    let own = own.ok_or(Malformed("an answer has too few columns"))?;
    let mut columns = vec![Column::AsItCame; own];
    columns.resize(page.column_count, Column::LeftOut);
    for (text, hidden) in texts {
        if let Some(column) = columns.get_mut(*text).filter(|_| *text < own) {
            *column = Column::Text(own + hidden);
        }
    }
    Ok(columns)
}
