//! Reads of tables whose columns are encoded while they wait.

use std::sync::Arc;

use helenus_catalogue::Written;
use helenus_cql::lexer::{Lexer, TokenKind};
use helenus_cql::{Name, Selected, fold_identifier};

use crate::features::encodings::{EncodedColumn, EncodedTable, Encodings};
use crate::keys::NodeRequestKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::query::Query;
use crate::statement::prepared::Statement;

/// True if a read may not be sent now: the knowledge of encoded columns is too old, or the table's columns
/// have been encoded since it began.
#[inline]
pub(in crate::features) fn is_blind(engine: &Engine, key: NodeRequestKey) -> bool {
    if !engine.cx().shared.config.payload.enabled {
        return false;
    }
    let owner = engine.requests().nodes.get(key).and_then(|of| of.client());
    let client = owner.and_then(|owner| engine.requests().clients.get(owner));
    let features = client.map(|client| &client.features);
    let Some(known) = features.and_then(|of| of.encodings.known.as_ref()) else {
        return false;
    };
    let held = engine.cx().shared.leases.held(engine.now());
    let newest = engine.cx().shared.snapshot.load();
    if held.flags.is_none() || held.catalogue.is_none() {
        let flagged = &newest.features().encodings.flagged;
        let need = match client.map(|client| named_by(&client.query)) {
            Some((Some(keyspace), Some(table))) => flagged.need(Some((keyspace, table))),
            Some((None, Some(table))) => flagged.need_in_any_keyspace(table),
            _ => flagged.need_of_any(),
        };
        if held.until(need).is_none() {
            return true;
        }
    }
    if Arc::ptr_eq(known, &newest.features().encodings) {
        return false;
    }
    let rare = features.and_then(|of| of.rare());
    let known = rare.and_then(|rare| rare.encodings.encoded.as_deref());
    let asked = client.map(|client| &client.query);
    let known = known.map(|of| &*of.table);
    asked.is_some_and(|query| {
        let (keyspace, table) = named_by(query);
        let prepared = query.prepared.as_ref().map(|prepared| &prepared.statement);
        let statement = prepared.or(query.statement.as_ref());
        let looks_at = |name: &str| statement.is_none_or(|of| may_look_at(of, name));
        table.is_some_and(|table| {
            has_more_in(
                &newest.features().encodings,
                keyspace,
                table,
                known,
                &looks_at,
            )
        })
    })
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

/// True if a read may depend on a column of its table.
fn may_look_at(statement: &Statement, name: &str) -> bool {
    let Some(select) = statement.facts.select.as_deref() else {
        return true;
    };
    let text = &*statement.text;
    let is_it = |start, end| {
        text.get(start..end)
            .map(fold_identifier)
            .is_none_or(|of| of.as_str() == name)
    };
    select.columns == Selected::All
        || Lexer::new(text)
            .filter(|token| matches!(token.kind, TokenKind::Word | TokenKind::QuotedName))
            .any(|token| is_it(token.start, token.end))
}

/// [`has_more`] for tables with this name, in any keyspace if none is named.
fn has_more_in(
    newest: &Encodings,
    keyspace: Option<&str>,
    table: &str,
    known: Option<&EncodedTable>,
    looks_at: &dyn Fn(&str) -> bool,
) -> bool {
    let tables = newest.tables.iter();
    let mut of = tables.filter(|(name, _)| keyspace.is_none_or(|keyspace| *name == keyspace));
    of.any(|(name, tables)| {
        let table = tables.get(table);
        let known = known.filter(|known| known.keyspace == **name);
        table.is_some_and(|table| has_more(table, known, looks_at))
    })
}

/// True if there are columns that are looked at in vain by now, or dictionaries, that were not known of. Columns
/// that the read does not look at do not count.
fn has_more(
    table: &EncodedTable,
    known: Option<&EncodedTable>,
    looks_at: &dyn Fn(&str) -> bool,
) -> bool {
    // The request to nodes may name the one or the other column of the two.
    let looked_at = |column: &&EncodedColumn| {
        let was = known.and_then(|table| table.column(&column.name));
        looks_at(&column.name)
            || looks_at(&column.hidden)
            || was.is_some_and(|was| looks_at(&was.hidden))
    };
    let looked_at: Vec<&EncodedColumn> = table.columns.iter().filter(looked_at).collect();
    let was = |column: &EncodedColumn| {
        let known = known.and_then(|table| table.column(&column.name));
        let known = known.filter(|known| known.hidden == column.hidden);
        known.map_or(Written::Announced, |known| known.written)
    };
    let is_learned = |id| known.is_some_and(|table| table.dictionaries.contains_key(id));
    let is_changed = |column: &&EncodedColumn| !was(column).sees_all_of(column.written);
    looked_at.iter().any(is_changed)
        || !looked_at.is_empty() && known.is_some() && !table.dictionaries.keys().all(is_learned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use helenus_catalogue::Form;
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
                first: Form::Text,
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
                    has_more(&newest_table, Some(&known), &|_| true),
                    !goes_on.contains(&newest),
                    "{began:?}, now {newest:?}"
                );
            }
        }
        // The column has been taken back and encoded again meanwhile.
        let known = table(EncodedOnly, "a");
        assert!(has_more(&table(EncodedOnly, "b"), Some(&known), &|_| true));
        assert!(has_more(&table(EncodedOnly, "a"), None, &|_| true));
    }

    #[test]
    fn a_read_goes_on_if_it_does_not_look_at_columns_that_have_changed() {
        let (known, newest) = (
            table(Written::EncodedOnly, "doc__encoded"),
            table(Written::Both, "doc__encoded"),
        );
        for (text, stops) in [
            ("SELECT COUNT(*) FROM ks.t", false),
            ("SELECT k, docs, \"Doc\" FROM ks.t WHERE k = 'doc'", false),
            ("SELECT * FROM ks.t", true),
            ("SELECT JSON * FROM ks.t", true),
            ("SELECT k, DOC FROM ks.t", true),
            ("SELECT COUNT(doc) FROM ks.t", true),
            (
                "SELECT k FROM ks.t WHERE \"doc\" = 'x' ALLOW FILTERING",
                true,
            ),
            ("SELECT k, \"doc__encoded\" FROM ks.t", true),
        ] {
            let statement = Statement::new(text);
            let looks_at = |name: &str| may_look_at(&statement, name);
            assert_eq!(has_more(&newest, Some(&known), &looks_at), stops, "{text}");
        }
    }
}
