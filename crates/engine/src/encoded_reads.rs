//! Reads of tables whose columns are encoded while they wait.

use std::sync::Arc;

use helenus_cql::Name;

use crate::encodings::{EncodedColumn, EncodedTable, Encodings, Written};
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

/// Whether there are columns that are looked at in vain by now, or dictionaries, that were not known of.
fn has_more(table: &EncodedTable, known: Option<&EncodedTable>) -> bool {
    let was = |column: &EncodedColumn| {
        let known = known.and_then(|table| table.column(&column.name));
        let known = known.filter(|known| known.hidden == column.hidden);
        known.map_or(Written::Announced, |known| known.written)
    };
    let mut columns = table.columns.iter();
    let is_learned = |id| known.is_some_and(|table| table.dictionaries.contains_key(id));
    columns.any(|column| !was(column).sees_all_of(column.written))
        || known.is_some() && !table.dictionaries.keys().all(is_learned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use helenus_payload::Codec;

    use super::*;

    fn table(written: Written, hidden: &str) -> EncodedTable {
        EncodedTable {
            keyspace: "ks".to_owned(),
            name: "t".to_owned(),
            columns: vec![EncodedColumn {
                fits: true,
                name: "doc".to_owned(),
                hidden: hidden.to_owned(),
                written,
                codec: Codec::Raw,
                dictionary: None,
            }],
            dictionaries: BTreeMap::new(),
        }
    }

    #[test]
    fn a_read_goes_on_while_it_looks_where_values_are_written() {
        use Written::{Announced, Both, Encoded, EncodedOnly, Text};
        for (began, goes_on) in [
            (Announced, &[Announced][..]),
            (Text, &Written::ALL),
            (Both, &Written::ALL),
            (Encoded, &Written::ALL),
            // It looks at encoded values alone.
            (EncodedOnly, &[Encoded, EncodedOnly]),
        ] {
            for newest in Written::ALL {
                let (known, newest_table) = (table(began, "a"), table(newest, "a"));
                assert_eq!(
                    has_more(&newest_table, Some(&known)),
                    !goes_on.contains(&newest),
                    "{began:?}, now {newest:?}"
                );
            }
        }
        // The column has been taken back and encoded again meanwhile.
        let known = table(EncodedOnly, "a");
        assert!(has_more(&table(EncodedOnly, "b"), Some(&known)));
        assert!(has_more(&table(EncodedOnly, "a"), None));
    }
}
