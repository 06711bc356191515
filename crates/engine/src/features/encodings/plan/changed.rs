//! A statement as it is on the nodes, and where its values come from.

use std::sync::{Arc, OnceLock};

use crate::features::encodings::EncodedTable;
use crate::features::encodings::shown::Shown;
use crate::statement::of_text::OfText;

/// A statement as it is on the nodes.
#[derive(Debug)]
pub(crate) struct Changed<S> {
    pub text: Box<str>,
    pub sources: Box<[Source]>,
    /// Those with encoded columns, by number.
    pub tables: Box<[Arc<EncodedTable>]>,
    pub shown: Shown,
    statement: OnceLock<Arc<S>>,
}

impl<S> Changed<S> {
    pub(super) fn new(
        text: String,
        sources: Vec<Source>,
        tables: Vec<Arc<EncodedTable>>,
        shown: Shown,
    ) -> Self {
        Changed {
            text: text.into(),
            sources: sources.into(),
            tables: tables.into(),
            shown,
            statement: OnceLock::new(),
        }
    }
}

impl<S: OfText> Changed<S> {
    /// As a statement that the nodes can prepare.
    pub(crate) fn statement(&self) -> &Arc<S> {
        let made = || Arc::new(S::of_text(&self.text));
        self.statement.get_or_init(made)
    }
}

/// Where the value of a marker comes from. Numbers are those of the client's markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Own(u16),
    /// It is encoded, for that column.
    Encoded(u16, ColumnNumber),
    /// Null, or not set if the client's is not set.
    Emptied(u16),
    /// It is a row of the table with that number, as a JSON document.
    Json(u16, usize),
    /// Null if the client's is null, else not set; null in protocols that know no such thing.
    Cleared(u16),
}

/// A column of one of a statement's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnNumber {
    pub table: usize,
    pub column: usize,
}
