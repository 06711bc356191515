//! How an answer about a table with encoded columns is shown to clients.

use std::sync::Arc;

use helenus_catalogue::Form;
use helenus_wire::Malformed;

use super::{EncodedColumn, EncodedTable};

/// The encoded columns that a client request is about.
#[derive(Debug)]
pub(crate) struct OnEncoded {
    pub table: Arc<EncodedTable>,
    /// Further ones that a batch writes.
    pub others: Box<[Arc<EncodedTable>]>,
    pub shown: Shown,
}

impl OnEncoded {
    /// Names of the columns of encoded values, each with the name that clients use.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let tables = std::iter::once(&self.table).chain(&self.others);
        let columns = tables.flat_map(|table| &table.columns);
        columns.map(|of| (&*of.hidden, &*of.name))
    }
}

/// How the columns of an answer become those that the client has asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shown {
    #[default]
    PassThrough,
    /// They are told by their names: all columns of the table.
    ByName,
    Selected(Selection),
    /// Each row is one JSON document; its members are told by their names, or are those of a selection.
    Json(Option<Selection>),
}

/// The columns that a client has selected, with encoded values in place of texts or behind all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// How many columns stand behind those that the client has selected.
    pub behind: usize,
    pub texts: Box<[SelectedText]>,
}

/// A selected column of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SelectedText {
    /// Its place among those selected.
    pub at: usize,
    pub from: TextFrom,
}

/// Where the text of a selected column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextFrom {
    /// From the text column; if that has none, from the encoded values that have this place among the columns
    /// behind.
    Behind(usize),
    /// From the encoded values that have this place among the columns behind; where there is none, from the text
    /// column.
    FirstBehind(usize),
    /// From the encoded values, which stand in its place. They get the name of the column with this number,
    /// unless the client has given them one.
    InPlace(Option<usize>),
}

impl Selection {
    /// The treatment of so many columns, those behind included.
    pub(super) fn pairs(&self, columns: usize) -> Vec<Pair> {
        let own = columns.saturating_sub(self.behind);
        let mut pairs = vec![Pair::PassThrough; own];
        pairs.resize(columns, Pair::LeftOut);
        for text in &self.texts {
            if let Some(pair) = pairs.get_mut(text.at).filter(|_| text.at < own) {
                *pair = match text.from {
                    TextFrom::Behind(at) => Pair::Text(own + at),
                    TextFrom::FirstBehind(at) => Pair::EncodedFirst(own + at),
                    TextFrom::InPlace(named) => Pair::InPlace(named),
                };
            }
        }
        pairs
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

/// The treatment of one column, or of a member of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    PassThrough,
    /// A text; where there is none, the encoded value in that column: the text may have been written past the
    /// proxies, and whoever writes the other deletes it.
    Text(usize),
    /// [`Self::Text`] in the other order: the encoded value first.
    EncodedFirst(usize),
    /// The encoded value in that column, whatever text there is: one that was written past the proxies would
    /// hide for ever what is written through them.
    Encoded(usize),
    /// The encoded value that stands here, see [`TextFrom::InPlace`].
    InPlace(Option<usize>),
    LeftOut,
}

impl Pair {
    /// Of a column whose encoded values are in that one.
    pub(super) fn of(column: &EncodedColumn, hidden: usize) -> Pair {
        match (column.written.has_texts(), column.first) {
            (true, Form::Text) => Pair::Text(hidden),
            (true, Form::Encoded) => Pair::EncodedFirst(hidden),
            (false, _) => Pair::Encoded(hidden),
        }
    }
}
