//! What is to become of an answer about a table with encoded columns.

use std::sync::Arc;

use helenus_wire::Malformed;

use super::EncodedTable;

/// What a client request has to do with encoded columns.
#[derive(Debug)]
pub(crate) struct OnEncoded {
    pub table: Arc<EncodedTable>,
    pub shown: Shown,
}

/// How the columns of an answer become those that the client has asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shown {
    /// They are told by their names: all columns of the table.
    #[default]
    ByName,
    Behind(Behind),
    /// Each row is one JSON document; its members are told by their names, or stand behind others.
    Json(Option<Behind>),
}

/// Behind what the client has selected stand columns of encoded values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    pub count: usize,
    /// Which of the selected columns holds a text, and the place of its encoded values among those behind.
    pub texts: Box<[(usize, usize)]>,
}

impl Behind {
    /// What becomes of so many columns, those behind included.
    pub(super) fn pairs(&self, columns: usize) -> Vec<Pair> {
        let own = columns.saturating_sub(self.count);
        let mut pairs = vec![Pair::AsItCame; own];
        pairs.resize(columns, Pair::LeftOut);
        for (text, hidden) in &self.texts {
            if let Some(pair) = pairs.get_mut(*text).filter(|_| *text < own) {
                *pair = Pair::Text(own + hidden);
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

/// What becomes of one column, or of a member of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    AsItCame,
    /// A text, whose encoded value may be in that column.
    Text(usize),
    LeftOut,
}
