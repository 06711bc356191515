//! Reads of tables whose columns are encoded while they wait.

use std::sync::Arc;

use helenus_cql::Name;

use crate::encodings::{EncodedTable, Encodings};
use crate::engine::Engine;
use crate::keys::NodeRequestKey;
use crate::query::Query;

impl Engine {
    /// Whether a read may not be sent now: what is known of encoded columns is too old, or the table's columns
    /// have been encoded since it began.
    #[inline]
    pub(crate) fn is_blind(&self, key: NodeRequestKey) -> bool {
        if !self.cx.shared.config.payload.enabled {
            return false;
        }
        let owner = self
            .requests
            .nodes
            .get(key)
            .and_then(|of| of.owner.client());
        let client = owner.and_then(|owner| self.requests.clients.get(owner));
        let Some(known) = client.and_then(|client| client.encodings.as_ref()) else {
            return false;
        };
        if !self.cx.shared.layouts.is_held(self.cx.now) {
            return true;
        }
        // Loaded anew: whoever has renewed the lease has stored it before.
        let newest = self.cx.shared.snapshot.load();
        if Arc::ptr_eq(known, &newest.encodings) {
            return false;
        }
        let known = client.and_then(|client| client.encoded.as_deref());
        let asked = client.map(|client| &client.query);
        let known = known.map(|of| &*of.table);
        asked.is_some_and(|query| {
            let (keyspace, table) = named_by(query);
            table.is_some_and(|table| has_more_in(&newest.encodings, (keyspace, table), known))
        })
    }
}

/// Keyspace and table of a read, as far as they are certain.
fn named_by(query: &Query) -> (Option<&str>, Option<&str>) {
    match (&query.prepared, &query.statement) {
        (Some(prepared), _) => {
            let table = prepared.table.as_ref();
            table.map_or((None, None), |(ks, table)| (Some(&**ks), Some(&**table)))
        }
        // The request itself may name the keyspace that is in force.
        (None, Some(statement)) => (
            statement.facts.keyspace.as_ref().map(Name::as_str),
            statement.facts.table.as_ref().map(Name::as_str),
        ),
        (None, None) => (None, None),
    }
}

/// The same of tables with this name, in any keyspace if none is named.
fn has_more_in(
    newest: &Encodings,
    (keyspace, table): (Option<&str>, &str),
    known: Option<&EncodedTable>,
) -> bool {
    let tables = newest.tables.iter();
    let mut of = tables.filter(|(name, _)| keyspace.is_none_or(|keyspace| *name == keyspace));
    of.any(|(name, tables)| {
        let table = tables.get(table);
        let known = known.filter(|known| known.keyspace == **name);
        table.is_some_and(|table| has_more(table, known))
    })
}

/// Whether there are columns of encoded values, or dictionaries of theirs, that were not known of.
fn has_more(table: &EncodedTable, known: Option<&EncodedTable>) -> bool {
    let is_known = |name: &str| {
        let known = known.and_then(|table| table.column(name));
        known.is_some_and(|column| column.written.has_encoded())
    };
    let mut columns = table.columns.iter();
    let is_learned = |id| known.is_some_and(|table| table.dictionaries.contains_key(id));
    columns.any(|column| column.written.has_encoded() && !is_known(&column.name))
        || known.is_some() && !table.dictionaries.keys().all(is_learned)
}
