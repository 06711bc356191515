//! Answers about tables with encoded columns, as clients are to see them.

use helenus_wire::{Malformed, RowsView, write};

use super::coding::Coding;
use super::{EncodedColumn, EncodedTable, Written};

/// How the columns of an answer become those that the client has asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shown {
    #[default]
    AsItCame,
    /// They are told by their names: all columns of the table.
    ByName,
    /// Behind what the client has selected stand so many columns of encoded values.
    Behind {
        count: usize,
        texts: Box<[BehindText]>,
    },
}

/// A selected column of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BehindText {
    /// Its place among those selected.
    pub at: usize,
    /// The place of its encoded values among those behind.
    pub behind: usize,
    pub counts: Counts,
}

/// Which of a text and an encoded value counts if there are both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// It may have been written past the proxies, and whoever writes the other deletes it.
    Text,
    /// Where texts are not deleted any more: whatever is one was there before, or was written past the proxies.
    Encoded,
}

impl Counts {
    pub(crate) fn of(column: &EncodedColumn) -> Counts {
        match column.written {
            Written::EncodedOnly => Counts::Encoded,
            _ => Counts::Text,
        }
    }
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
    Text(usize, Counts),
    LeftOut,
}

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
    let columns = match of {
        Shown::AsItCame => return Ok(None),
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
    let mut out = Vec::with_capacity(prelude.len() + content.len() * 2);
    out.extend_from_slice(prelude);
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
                Column::LeftOut => continue,
                Column::Text(hidden, Counts::Text) if cell.is_none() => cells.get(*hidden),
                Column::Text(hidden, Counts::Encoded) => cells.get(*hidden),
                Column::AsItCame | Column::Text(..) => None,
            };
            match stored.copied().flatten() {
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

fn by_name(table: &EncodedTable, page: &RowsView<'_>) -> Vec<Column> {
    let place = |name: &str| page.columns.iter().position(|column| column.name == name);
    let columns = page.columns.iter().map(|column| {
        if table.hidden_by(column.name).is_some() {
            return Column::LeftOut;
        }
        let of = table.column(column.name);
        let text = of.and_then(|of| Some(Column::Text(place(&of.hidden)?, Counts::of(of))));
        text.unwrap_or(Column::AsItCame)
    });
    columns.collect()
}

fn behind(
    page: &RowsView<'_>,
    count: usize,
    texts: &[BehindText],
) -> Result<Vec<Column>, Malformed> {
    let own = page.column_count.checked_sub(count);
    let own = own.ok_or(Malformed("an answer has too few columns"))?;
    let mut columns = vec![Column::AsItCame; own];
    columns.resize(page.column_count, Column::LeftOut);
    for text in texts {
        if let Some(column) = columns.get_mut(text.at).filter(|_| text.at < own) {
            *column = Column::Text(own + text.behind, text.counts);
        }
    }
    Ok(columns)
}
