//! Columns whose JSON documents are stored as compact bytes, and stay text for clients.
//!
//! The text column stays in the table. Beside it is a column of type blob, which clients do not see, and
//! which holds the encoded values. A row has its value in one of the two: whoever writes one of them deletes
//! the other with the same timestamp, and whoever reads asks for both, until no row has a text any more. So rows may be moved from one column to
//! the other, and proxies may disagree for a while on which one is written, without a wrong answer. Where a
//! value has been before there may be a deletion with its own timestamp, which would hide it; so a value that is
//! moved gets a time that is one microsecond later.
//!
//! The states of a column ([`Written`]) are passed one by one, in either direction, each only when every proxy
//! knows the one before: neighbours get along with each other, others need not. A driver may send a write
//! again, with the same timestamp, through a proxy that knows another state. Of a text and an encoded value with
//! the same time each would have the other deleted, and deletions win; so there is a state between in which both
//! are written.
//!
//! As with layouts ([`crate::layouts`]), what a proxy knows of the catalogue is good for a lease. A proxy that
//! did not know of an encoded column would read nulls; so without a lease it neither reads nor writes.

pub(crate) mod answer;
pub(crate) mod coding;
pub(crate) mod json;
pub(crate) mod shown;

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_payload::{Codec, DictionaryId, Learned};
use rustc_hash::FxHashMap;

/// What the name of the column of encoded values ends with.
pub const SUFFIX: &str = "__encoded";

/// The tables with encoded columns.
#[derive(Clone, Debug, Default)]
pub struct Encodings {
    /// By keyspace and table.
    pub tables: FxHashMap<String, FxHashMap<String, Arc<EncodedTable>>>,
}

/// A table with encoded columns.
#[derive(Debug)]
pub struct EncodedTable {
    pub keyspace: String,
    pub name: String,
    pub columns: Vec<EncodedColumn>,
    /// What values of any of its columns were written with.
    pub dictionaries: BTreeMap<DictionaryId, Arc<Learned>>,
}

/// A column of type text that has one of encoded values beside it. Not static, nor part of the primary key.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedColumn {
    pub name: String,
    /// The column of type blob.
    pub hidden: String,
    /// Whether the two columns are as the catalogue says. If not, nothing that needs them is sent.
    pub fits: bool,
    pub written: Written,
    pub codec: Codec,
    /// What new values are written with, if the codec needs it.
    pub dictionary: Option<DictionaryId>,
}

/// Which of the two columns is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The text alone: the other column may not be there yet, or is about to be dropped. Clients do not see it.
    Announced,
    /// The text; the encoded value is deleted. Before rows are encoded, and while they are taken back.
    Text,
    /// The same value in both.
    Both,
    /// The encoded value; the text is deleted.
    Encoded,
    /// The encoded value, and no row has a text any more.
    EncodedOnly,
}

impl Written {
    /// In the order in which a column is encoded.
    pub const ALL: [Written; 5] = [
        Written::Announced,
        Written::Text,
        Written::Both,
        Written::Encoded,
        Written::EncodedOnly,
    ];

    /// As the catalogue names it.
    pub fn name(self) -> &'static str {
        match self {
            Written::Announced => "announced",
            Written::Text => "text",
            Written::Both => "both",
            Written::Encoded => "encoded",
            Written::EncodedOnly => "encoded_only",
        }
    }

    pub fn of_name(name: &str) -> Option<Written> {
        Written::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether rows may have values in the column of encoded ones.
    pub(crate) fn has_encoded(self) -> bool {
        self != Written::Announced
    }

    /// Whether rows may have values in the text column.
    pub(crate) fn has_texts(self) -> bool {
        self != Written::EncodedOnly
    }

    /// Whether a read that was made for this state finds every value while the column is in the other: one that
    /// looks at one of the two columns needs all proxies to write that.
    pub(crate) fn sees_all_of(self, other: Written) -> bool {
        match self {
            Written::Announced => !other.has_encoded(),
            Written::Text | Written::Both | Written::Encoded => true,
            // In the state both, other proxies may write texts already.
            Written::EncodedOnly => other.is_encoded(),
        }
    }

    /// Whether the text is not written any more.
    pub(crate) fn is_encoded(self) -> bool {
        matches!(self, Written::Encoded | Written::EncodedOnly)
    }
}

impl Encodings {
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    pub fn table(&self, keyspace: &str, table: &str) -> Option<&Arc<EncodedTable>> {
        self.tables.get(keyspace)?.get(table)
    }
}

impl EncodedTable {
    pub fn column(&self, name: &str) -> Option<&EncodedColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Whether nothing has changed: what was derived from the other one is still right.
    pub fn is_still(&self, other: &EncodedTable) -> bool {
        let dictionaries = self.dictionaries.iter();
        (&self.keyspace, &self.name) == (&other.keyspace, &other.name)
            && self.columns == other.columns
            && self.dictionaries.len() == other.dictionaries.len()
            && dictionaries.zip(&other.dictionaries).all(
                |((id, learned), (other_id, other_learned))| {
                    id == other_id && Arc::ptr_eq(learned, other_learned)
                },
            )
    }

    /// A column that is not as the catalogue says.
    pub(crate) fn misfit(&self) -> Option<&EncodedColumn> {
        self.columns.iter().find(|column| !column.fits)
    }

    /// The column whose encoded values this one holds.
    pub fn hidden_by(&self, hidden: &str) -> Option<&EncodedColumn> {
        self.columns.iter().find(|column| column.hidden == hidden)
    }
}
