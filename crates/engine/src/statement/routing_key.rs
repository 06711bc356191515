//! The routing key of a statement: the bytes of its partition key, from the values bound to it.

use helenus_cql::{Facts, Kind, Term, encode_literal};
use helenus_policy::token::composite_key;
use helenus_wire::{PreparedView, ValueRef, Values};
use serde::{Deserialize, Serialize};

use crate::snapshot::Snapshot;

/// How to build a statement's routing key from its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Recipe {
    /// In the order of the partition key; empty if the key cannot be known.
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Part {
    Marker(u16),
    Name(Box<str>),
    Bytes(#[serde(with = "serde_bytes")] Box<[u8]>),
}

impl Recipe {
    /// As far as text and schema tell.
    pub(super) fn of_text(whole: &Facts, session: Option<&str>, snapshot: &Snapshot) -> Recipe {
        let named = |at: u16| {
            let (name, _) = whole.named_markers.iter().find(|(_, of)| *of == at)?;
            Some(Part::Name(name.as_str().into()))
        };
        Recipe::of_terms(whole, session, snapshot, named)
    }

    /// The recipe for values in the order of the markers, of which several may have the same name.
    pub(super) fn in_order(whole: &Facts, session: Option<&str>, snapshot: &Snapshot) -> Recipe {
        Recipe::of_terms(whole, session, snapshot, |at| Some(Part::Marker(at)))
    }

    /// One of the statements in a text. `names`: of the text's markers, if it was prepared.
    pub(super) fn of_inner(
        facts: &Facts,
        session: Option<&str>,
        names: &[Box<str>],
        snapshot: &Snapshot,
    ) -> Recipe {
        match names {
            [] => Recipe::of_text(facts, session, snapshot),
            _ => Recipe::in_order(facts, session, snapshot),
        }
    }

    /// `named`: what a marker with a name is, by its number among all.
    fn of_terms(
        whole: &Facts,
        session: Option<&str>,
        snapshot: &Snapshot,
        named: impl Fn(u16) -> Option<Part>,
    ) -> Recipe {
        let facts = match whole.kind {
            Kind::Batch => match whole.inner.first() {
                Some(first) => first,
                None => return Recipe::default(),
            },
            _ => whole,
        };
        let keyspace = facts.keyspace.as_ref().map(|k| k.as_str()).or(session);
        let (Some(keyspace), Some(table)) = (keyspace, facts.table.as_ref()) else {
            return Recipe::default();
        };
        let Some(key) = snapshot.schema().partition_key(keyspace, table.as_str()) else {
            return Recipe::default();
        };
        let parts = key.iter().map(|column| {
            let term = facts
                .key_terms
                .iter()
                .find(|t| t.column.as_str() == column.name)?;
            Some(match &term.term {
                Term::Marker(index) => Part::Marker(*index),
                Term::NamedMarker(index) => named(*index)?,
                Term::Literal(literal) => {
                    Part::Bytes(encode_literal(literal, &column.cql_type)?.into())
                }
                Term::Other => return None,
            })
        });
        Recipe {
            parts: parts.collect::<Option<Vec<_>>>().unwrap_or_default(),
        }
    }

    /// As far as a node, text and schema tell.
    pub(super) fn of_prepared(
        facts: &Facts,
        keyspace: Option<&str>,
        view: &PreparedView<'_>,
        snapshot: &Snapshot,
    ) -> Recipe {
        if view.partition_key.is_empty() {
            // A key that is partly literal, or of a batch: the text knows more than the node says.
            return Recipe::in_order(facts, keyspace, snapshot);
        }
        if has_several_keys(facts, keyspace, view, snapshot) {
            return Recipe::default();
        }
        let parts = view.partition_key.iter().map(|i| Part::Marker(*i));
        Recipe {
            parts: parts.collect(),
        }
    }

    /// Builds the routing key into `out`; false if a value is missing.
    pub(super) fn build(&self, values: &Values<'_>, names: &[Box<str>], out: &mut Vec<u8>) -> bool {
        out.clear();
        let value = |part: &'_ Part| -> Option<ValueRef<'_>> {
            match part {
                Part::Marker(index) if values.named => values.named(names.get(*index as usize)?),
                Part::Marker(index) => values.get(*index as usize),
                Part::Name(name) => values.named(name),
                Part::Bytes(_) => None,
            }
        };
        let set = |part| match value(part) {
            Some(ValueRef::Set(bytes)) => Some(bytes),
            _ => None,
        };
        match self.parts.as_slice() {
            [] => false,
            [Part::Bytes(bytes)] => {
                out.extend_from_slice(bytes);
                true
            }
            [one] => match set(one) {
                Some(bytes) => {
                    out.extend_from_slice(bytes);
                    true
                }
                None => false,
            },
            parts => {
                let components: Option<Vec<&[u8]>> = parts
                    .iter()
                    .map(|part| match part {
                        Part::Bytes(bytes) => Some(&**bytes),
                        part => set(part),
                    })
                    .collect();
                match components {
                    Some(components) => composite_key(components.into_iter(), out),
                    None => false,
                }
            }
        }
    }
}

/// True if a node's markers of the partition key are among those of an `IN`: `k IN (?, ?)`.
fn has_several_keys(
    facts: &Facts,
    session: Option<&str>,
    view: &PreparedView<'_>,
    snapshot: &Snapshot,
) -> bool {
    let mut ins = facts.select.iter().flat_map(|s| &s.ins).peekable();
    if ins.peek().is_none() {
        return false;
    }
    let keyspace = facts
        .keyspace
        .as_ref()
        .map(|name| name.as_str())
        .or(session);
    let table = facts.table.as_ref().map(|name| name.as_str());
    let key = keyspace
        .zip(table)
        .and_then(|(keyspace, table)| snapshot.schema().partition_key(keyspace, table));
    let names: Vec<&str> = match key {
        Some(key) => key.iter().map(|column| &*column.name).collect(),
        // Markers without names of their own have the columns'.
        None => {
            let marked = view.partition_key.iter();
            let markers = marked.filter_map(|at| view.markers.get(usize::from(*at)));
            markers.map(|marker| marker.name).collect()
        }
    };
    ins.any(|relation| relation.columns.iter().any(|c| names.contains(&c.as_str())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use helenus_cql::facts;
    use helenus_wire::{Version, write};

    use super::*;
    use crate::snapshot::KeyColumn;

    /// A node's description of a statement on `app.orders`, whose key is bound by the last marker.
    fn described(markers: &[&str]) -> Vec<u8> {
        let mut body = Vec::new();
        write::i32(&mut body, 4);
        write::short_bytes(&mut body, b"id");
        write::u32(&mut body, 1);
        write::u32(&mut body, markers.len() as u32);
        write::u32(&mut body, 1);
        body.extend((markers.len() as u16 - 1).to_be_bytes());
        write::string(&mut body, "app");
        write::string(&mut body, "orders");
        for marker in markers {
            write::string(&mut body, marker);
            body.extend(2_u16.to_be_bytes());
        }
        write::u32(&mut body, 4);
        write::u32(&mut body, 0);
        body
    }

    #[test]
    fn several_keys_are_not_taken_for_the_last_of_them() {
        let key: Arc<[KeyColumn]> = Arc::new([KeyColumn {
            name: "customer".into(),
            cql_type: "bigint".into(),
            is_masked: false,
        }]);
        let snapshot = Snapshot::builder().table("app", "orders", key).build();
        for (text, markers) in [
            (
                "SELECT * FROM app.orders WHERE customer IN (?, ?)",
                ["customer", "customer"],
            ),
            (
                "SELECT * FROM app.orders WHERE customer IN (:a, :b)",
                ["a", "b"],
            ),
        ] {
            let body = described(&markers);
            let view = PreparedView::parse(&body, Version::V4).expect("PREPARED");
            assert_eq!(view.partition_key, [1]);
            let recipe = Recipe::of_prepared(&facts(text), None, &view, &snapshot);
            assert_eq!(recipe, Recipe::default(), "{text}");
        }
        let body = described(&["day", "a"]);
        let view = PreparedView::parse(&body, Version::V4).expect("PREPARED");
        let text = "SELECT * FROM app.orders WHERE day IN (:day) AND customer = :a";
        let recipe = Recipe::of_prepared(&facts(text), None, &view, &snapshot);
        assert_eq!(recipe.parts, [Part::Marker(1)]);
    }
}
