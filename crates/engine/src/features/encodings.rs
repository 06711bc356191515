//! Columns whose JSON documents are stored as compact bytes, and stay text for clients.
//!
//! The text column stays in the table. Beside it is a column of type blob, which clients do not see, and
//! which holds the encoded values. A row has its value in one of the two: whoever writes one of them deletes
//! the other with the same timestamp, and whoever reads asks for both, until no row has a text any more. So rows may be moved from one column to
//! the other, and proxies may disagree for a while on which one is written, without a wrong answer. Where a
//! value has been before there may be a deletion with its own timestamp, which would hide it; so a value that is
//! moved gets a time that is one microsecond later.
//!
//! A row may have a value in both columns, if a client writes with an older timestamp than that of the value there is:
//! where texts are not written any more, or encoded values not yet, nothing deletes what comes later into the other column.
//! Every write since has touched the column in which all values were before, so what that has is the newest
//! ([`EncodedColumn::first`]).
//!
//! The states of a column ([`Written`]) are passed one by one, in either direction, each only when every proxy
//! knows the one before: neighbours get along with each other, others need not. A driver may send a write
//! again, with the same timestamp, through a proxy that knows another state. Of a text and an encoded value with
//! the same time each would have the other deleted, and deletions win; so there is a state between in which both
//! are written.
//!
//! As with layouts, what a proxy knows of the catalogue is good for a lease ([`crate::rewrite::leases`]). A proxy that did not
//! know of an encoded column would read nulls; so without a lease it neither reads nor writes.

pub(crate) mod answer;
pub(crate) mod answers;
pub(crate) mod coding;
pub(crate) mod json;
pub(crate) mod plan;
pub(crate) mod reads;
pub(crate) mod refusals;
pub(crate) mod requests;
pub(crate) mod shown;

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_catalogue::{Form, Written};
use helenus_payload::{Codec, DictionaryId, Learned};
use rustc_hash::FxHashMap;

use crate::rewrite::leases::Flagged;

/// What the name of the column of encoded values ends with.
pub const SUFFIX: &str = "__encoded";

/// The tables with encoded columns.
#[derive(Clone, Debug, Default)]
pub struct Encodings {
    /// By keyspace and table.
    pub tables: FxHashMap<String, FxHashMap<String, Arc<EncodedTable>>>,
    /// These, and all others that may have encoded columns.
    pub flagged: Flagged,
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
    /// Where a row's value is looked for first, while it may be in either column.
    pub first: Form,
    pub codec: Codec,
    /// What new values are written with, if the codec needs it.
    pub dictionary: Option<DictionaryId>,
}

impl Encodings {
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Adds a table with encoded columns, which is flagged thereby.
    pub fn add(&mut self, table: Arc<EncodedTable>) {
        self.flagged.add(&table.keyspace, &table.name);
        let of_keyspace = self.tables.entry(table.keyspace.clone()).or_default();
        of_keyspace.insert(table.name.clone(), table);
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
