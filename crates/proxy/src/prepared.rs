//! Statements whose meaning is known: from their text, and from what a node said on PREPARE.

use std::sync::{Arc, Mutex};

use helenus_cql::{Facts, Kind, Term, encode_literal};
use helenus_policy::token::composite_key;
use helenus_wire::{PreparedView, ValueRef, Values};

use crate::in_keys::InKeys;
use crate::in_range::InRange;
use crate::learned::Learned;
use crate::snapshot::Snapshot;
use crate::system::{self, SystemQuery};

/// What a text asks for.
#[derive(Debug)]
pub struct Statement {
    pub text: Box<str>,
    pub facts: Facts,
    /// A read of tables that exist once per node and must always come from the same one.
    pub node_local: bool,
    /// A read whose answer may serve several clients that ask at the same time.
    pub shareable: bool,
    /// A read of `system.local`, `system.peers` or `system.peers_v2` that the proxy answers.
    pub system: Option<SystemQuery>,
    pub learned: Learned,
    /// The statement over parts of the ring.
    pub(crate) in_range: Mutex<InRange>,
}

/// A statement known by id.
#[derive(Debug)]
pub struct Prepared {
    pub id: Box<[u8]>,
    pub statement: Arc<Statement>,
    /// Keyspace in force when it was prepared; needed to prepare it again.
    pub keyspace: Option<Box<str>>,
    /// Keyspace and table that it reads or writes, if there is just one.
    pub table: Option<(Box<str>, Box<str>)>,
    pub result_metadata_id: Option<Box<[u8]>>,
    /// The specifications of its result's columns.
    pub result_metadata: Box<[u8]>,
    pub key: Recipe,
    /// What is known of an `IN` on its partition key.
    pub in_keys: Option<InKeys>,
    /// Names of the markers by position.
    pub names: Vec<Box<str>>,
}

/// How to build a statement's routing key from its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// In the order of the partition key; empty if the key cannot be known.
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Marker(u16),
    Name(Box<str>),
    Bytes(Box<[u8]>),
}

impl Statement {
    pub fn new(text: &str) -> Statement {
        let facts = helenus_cql::facts(text);
        let keyspace = facts.keyspace.as_ref().map(|name| name.as_str());
        let system = system::parse(&facts);
        let node_local =
            facts.kind == Kind::Describe || matches!(keyspace, Some(ks) if is_node_local(ks));
        // A function may give each caller something else: uuid(), or one of the user's.
        let shareable = facts.kind == Kind::Select
            && !node_local
            && facts.select.as_ref().is_some_and(|s| !s.calls);
        Statement {
            shareable,
            text: text.into(),
            facts,
            node_local,
            system,
            learned: Learned::default(),
            in_range: Mutex::default(),
        }
    }

    /// Whether the statement may be sent again although the first try may have had an effect.
    pub fn idempotent(&self) -> bool {
        self.facts.idempotent
    }

    pub fn is_read(&self) -> bool {
        self.facts.kind == Kind::Select
    }

    /// Keyspace and table, given the session's keyspace.
    pub fn table<'a>(&'a self, session: Option<&'a str>) -> Option<(&'a str, &'a str)> {
        let table = self.facts.table.as_ref()?;
        let keyspace = self
            .facts
            .keyspace
            .as_ref()
            .map(|k| k.as_str())
            .or(session)?;
        Some((keyspace, table.as_str()))
    }

    /// The recipe for the routing key as far as text and schema tell.
    pub fn recipe(&self, session: Option<&str>, snapshot: &Snapshot) -> Recipe {
        let facts = match self.facts.kind {
            Kind::Batch => match self.facts.inner.first() {
                Some(first) => first,
                None => return Recipe::default(),
            },
            _ => &self.facts,
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
                Term::NamedMarker(index) => {
                    let name = self.facts.named_markers.iter().find(|(_, i)| i == index)?;
                    Part::Name(name.0.as_str().into())
                }
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
}

/// Whether a node's markers of the partition key are among those of an `IN`: `k IN (?, ?)`.
fn has_several_keys(statement: &Statement, view: &PreparedView<'_>) -> bool {
    let mut ins = statement.facts.select.iter().flat_map(|s| &s.ins);
    let marked = view.partition_key.iter();
    let names: Vec<&str> = marked
        .filter_map(|at| Some(view.markers.get(usize::from(*at))?.name))
        .collect();
    ins.any(|relation| relation.columns.iter().any(|c| names.contains(&c.as_str())))
}

/// Tables of these keyspaces hold what one node knows, not what the cluster stores.
fn is_node_local(keyspace: &str) -> bool {
    matches!(
        keyspace,
        "system" | "system_views" | "system_virtual_schema" | "system_schema"
    )
}

impl Prepared {
    pub fn new(
        statement: Arc<Statement>,
        keyspace: Option<&str>,
        view: &PreparedView<'_>,
        snapshot: &Snapshot,
    ) -> Prepared {
        let table = view
            .markers
            .first()
            .or(view.result_columns.first())
            .map(|spec| (spec.keyspace.into(), spec.table.into()));
        let key = if view.partition_key.is_empty() {
            // A key that is partly literal, or of a batch: the text knows more than the node says.
            statement
                .recipe(keyspace, snapshot)
                .by_position(&view.markers)
        } else if has_several_keys(&statement, view) {
            Recipe::default()
        } else {
            Recipe {
                parts: view
                    .partition_key
                    .iter()
                    .map(|i| Part::Marker(*i))
                    .collect(),
            }
        };
        let table = table.or_else(|| {
            let (ks, table) = statement.table(keyspace)?;
            Some((ks.into(), table.into()))
        });
        let in_keys = table
            .as_ref()
            .and_then(|(keyspace, table): &(Box<str>, Box<str>)| {
                InKeys::of(&statement, snapshot.partition_key(keyspace, table)?)
            });
        Prepared {
            id: view.id.into(),
            table,
            in_keys,
            statement,
            keyspace: keyspace.map(Into::into),
            result_metadata_id: view.result_metadata_id.map(Into::into),
            result_metadata: view.result_metadata.into(),
            key,
            names: view.markers.iter().map(|m| m.name.into()).collect(),
        }
    }
}

impl Recipe {
    /// A prepared statement's named markers have positions, too: those of its marker list.
    fn by_position(mut self, markers: &[helenus_wire::ColumnSpec<'_>]) -> Recipe {
        for part in &mut self.parts {
            if let Part::Name(name) = part
                && let Some(at) = markers.iter().position(|m| m.name == &**name)
            {
                *part = Part::Marker(at as u16);
            }
        }
        self
    }

    /// Builds the routing key into `out`; false if a value is missing.
    pub fn build(&self, values: &Values<'_>, names: &[Box<str>], out: &mut Vec<u8>) -> bool {
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
