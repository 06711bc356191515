//! Which tables have encoded columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_catalogue::{Form, Written};
use helenus_payload::{Codec, DictionaryId, Learned};
use rustc_hash::FxHashMap;

use crate::rewrite::leases::Flagged;

/// End of the name of a column of encoded values.
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
    /// Dictionaries with which values of any of its columns were written.
    pub dictionaries: BTreeMap<DictionaryId, Arc<Learned>>,
}

/// A column of type text that has one of encoded values beside it. Not static, nor part of the primary key.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedColumn {
    pub name: String,
    /// The column of type blob.
    pub hidden: String,
    /// The two columns are as the catalogue says. If not, nothing that needs them is sent.
    pub fits: bool,
    pub written: Written,
    /// Where a row's value is looked for first, while it may be in either column.
    pub first: Form,
    pub codec: Codec,
    /// The dictionary of new values, if the codec needs one.
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

    /// True if nothing has changed: what was derived from the other one is still right.
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
    pub(crate) fn hidden_by(&self, hidden: &str) -> Option<&EncodedColumn> {
        self.columns.iter().find(|column| column.hidden == hidden)
    }
}
