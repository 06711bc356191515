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

    /// The same for values in the order of the markers, of which several may have the same name.
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
        let Some(key) = snapshot.partition_key(keyspace, table.as_str()) else {
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
        if has_several_keys(facts, view) {
            return Recipe::default();
        }
        let parts = view.partition_key.iter().map(|i| Part::Marker(*i));
        Recipe {
            parts: parts.collect(),
        }
    }

    /// Builds the routing key into `out`; false if a value is missing.
    pub(super) fn build(&self, values: &Values<'_>, names: &[Box<str>], out: &mut Vec<u8>) -> bool {
        let value = |part: &Part| match part {
            Part::Marker(index) if values.named => values.named(names.get(*index as usize)?),
            Part::Marker(index) => values.get(*index as usize),
            Part::Name(name) => values.named(name),
            Part::Bytes(_) => None,
        };
        self.build_of(value, out)
    }

    /// The same of values in the order of the markers.
    pub(super) fn build_in_order(&self, values: &[ValueRef<'_>], out: &mut Vec<u8>) -> bool {
        let value = |part: &Part| match part {
            Part::Marker(index) => values.get(*index as usize).copied(),
            Part::Name(_) | Part::Bytes(_) => None,
        };
        self.build_of(value, out)
    }

    fn build_of<'v>(
        &'v self,
        value: impl Fn(&Part) -> Option<ValueRef<'v>>,
        out: &mut Vec<u8>,
    ) -> bool {
        out.clear();
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

/// Whether a node's markers of the partition key are among those of an `IN`: `k IN (?, ?)`.
fn has_several_keys(facts: &Facts, view: &PreparedView<'_>) -> bool {
    let mut ins = facts.select.iter().flat_map(|s| &s.ins);
    let marked = view.partition_key.iter();
    let names: Vec<&str> = marked
        .filter_map(|at| Some(view.markers.get(usize::from(*at))?.name))
        .collect();
    ins.any(|relation| relation.columns.iter().any(|c| names.contains(&c.as_str())))
}
