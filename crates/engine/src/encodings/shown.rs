//! What is to become of an answer about a table with encoded columns.

use std::sync::Arc;

use helenus_wire::Malformed;

use super::{EncodedColumn, EncodedTable, Written};

/// What a client request has to do with encoded columns.
#[derive(Debug)]
pub(crate) struct OnEncoded {
    pub table: Arc<EncodedTable>,
    pub shown: Shown,
}

/// How the columns of an answer become those that the client has asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shown {
    #[default]
    AsItCame,
    /// They are told by their names: all columns of the table.
    ByName,
    Behind(Behind),
    /// Each row is one JSON document; its members are told by their names, or stand behind others.
    Json(Option<Behind>),
}

/// Behind what the client has selected stand columns of encoded values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    pub count: usize,
    pub texts: Box<[BehindText]>,
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
    /// Texts are not deleted any more: one that is there was written past the proxies, and would hide for ever
    /// what is written through them.
    Encoded,
}

impl Counts {
    pub(crate) fn of(column: &EncodedColumn) -> Counts {
        match column.written {
            Written::EncodedOnly => Counts::Encoded,
            _ => Counts::Text,
        }
    }

    /// Whether the encoded value is shown, which is there; `has_text`: so is the text.
    pub(super) fn is_encoded(self, has_text: bool) -> bool {
        self == Counts::Encoded || !has_text
    }
}

impl Behind {
    /// What becomes of so many columns, those behind included.
    pub(super) fn pairs(&self, columns: usize) -> Vec<Pair> {
        let own = columns.saturating_sub(self.count);
        let mut pairs = vec![Pair::AsItCame; own];
        pairs.resize(columns, Pair::LeftOut);
        for text in &self.texts {
            if let Some(pair) = pairs.get_mut(text.at).filter(|_| text.at < own) {
                *pair = Pair::Text(own + text.behind, text.counts);
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
    Text(usize, Counts),
    LeftOut,
}
