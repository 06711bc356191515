//! Reads of tables whose columns are encoded while they wait.

use std::sync::Arc;

use crate::encodings::EncodedTable;
use crate::engine::Engine;
use crate::keys::NodeRequestKey;

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
        let table = asked.and_then(|query| match (&query.prepared, &query.statement) {
            (Some(prepared), _) => prepared.table.as_ref().map(|(ks, t)| (&**ks, &**t)),
            (None, Some(statement)) => statement.table(query.keyspace.as_deref()),
            (None, None) => None,
        });
        let table = table.and_then(|(keyspace, table)| newest.encodings.table(keyspace, table));
        table.is_some_and(|table| has_more(table, known.map(|of| &*of.table)))
    }
}

/// Whether there are columns of encoded values that were not known of.
fn has_more(table: &EncodedTable, known: Option<&EncodedTable>) -> bool {
    let is_known = |name: &str| {
        let known = known.and_then(|table| table.column(name));
        known.is_some_and(|column| column.written.has_encoded())
    };
    let mut columns = table.columns.iter();
    columns.any(|column| column.written.has_encoded() && !is_known(&column.name))
}
