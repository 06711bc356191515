//! Statements whose meaning is known: from their text, and from what a node said on PREPARE.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use helenus_cql::{Facts, Kind, Term, encode_literal};
use helenus_policy::token::composite_key;
use helenus_wire::{PreparedView, ValueRef, Values};

use crate::execution::in_range::InRange;
use crate::snapshot::Snapshot;
use crate::statement::in_keys::InKeys;
use crate::statement::learned::Learned;
use crate::statement::system::{self, SystemQuery};

/// What a text asks for.
#[derive(Debug)]
pub struct Statement {
    pub text: Box<str>,
    pub facts: Facts,
    /// A read of tables that exist once per node and must always come from the same one, whatever
    /// the keyspace in force.
    node_local: bool,
    /// A read whose answer may serve several clients that ask at the same time.
    pub shareable: bool,
    /// A read of `system.local`, `system.peers` or `system.peers_v2` that the proxy answers.
    pub(crate) system: Option<SystemQuery>,
    pub(crate) learned: Learned,
    /// The statement over parts of the ring.
    pub(crate) in_range: Mutex<InRange>,
}

/// A statement as the key of a map, by its text.
#[derive(Clone, Debug)]
pub(crate) struct Text(pub Arc<Statement>);

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0.text
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for Text {}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As that of the str that it stands for.
        self.0.text.hash(state);
    }
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
    /// Whether clients may know it with other columns than its result has by now. Those of v3 and v4
    /// then always get the columns with the rows.
    columns_changed: AtomicBool,
    pub(crate) key: Recipe,
    /// What is known of an `IN` on its partition key.
    pub(crate) in_keys: Option<InKeys>,
    /// Names of the markers by position.
    pub names: Vec<Box<str>>,
}

/// How to build a statement's routing key from its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recipe {
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

    /// Bytes that it takes.
    pub(crate) fn byte_len(&self) -> usize {
        let rest = size_of::<Statement>() - size_of::<Facts>();
        rest + self.text.len() + self.facts.byte_len()
    }

    /// Whether it reads tables that exist once per node and must always come from the same one.
    pub(crate) fn is_node_local(&self, keyspace: Option<&str>) -> bool {
        let unnamed = self.facts.keyspace.is_none() && self.is_read();
        self.node_local || unnamed && keyspace.is_some_and(is_node_local)
    }

    /// Whether the statement may be sent again although the first try may have had an effect.
    pub(crate) fn idempotent(&self) -> bool {
        self.facts.idempotent
    }

    pub(crate) fn is_read(&self) -> bool {
        self.facts.kind == Kind::Select
    }

    /// Keyspace and table, given the session's keyspace.
    pub(crate) fn table<'a>(&'a self, session: Option<&'a str>) -> Option<(&'a str, &'a str)> {
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
    pub(crate) fn recipe(&self, session: Option<&str>, snapshot: &Snapshot) -> Recipe {
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
            columns_changed: AtomicBool::new(false),
            key,
            names: view.markers.iter().map(|m| m.name.into()).collect(),
        }
    }
}

impl Prepared {
    /// Bytes that it takes, its statement included.
    pub(crate) fn byte_len(&self) -> usize {
        let names: usize = self.names.iter().map(|name| name.len()).sum();
        let names = names + self.names.len() * size_of::<Box<str>>();
        let own = size_of::<Prepared>() + 2 * self.id.len() + self.result_metadata.len();
        own + names + self.statement.byte_len()
    }

    /// Clients may know it with other columns from now on.
    pub fn note_changed(&self) {
        self.columns_changed.store(true, Ordering::Release);
    }

    pub(crate) fn may_have_changed(&self) -> bool {
        self.columns_changed.load(Ordering::Acquire)
    }

    /// Whether a node's answer to PREPARE describes the same result.
    pub(crate) fn has_result_of(&self, view: &PreparedView<'_>) -> bool {
        self.result_metadata_id.as_deref() == view.result_metadata_id
            && *self.result_metadata == *view.result_metadata
    }
}

/// A statement's place in the table that all workers share. Once it has lost that, another version of it
/// may take it, unseen by the workers that still have this one.
#[derive(Debug)]
pub(crate) struct Published(pub Arc<Prepared>);

impl Drop for Published {
    fn drop(&mut self) {
        self.0.note_changed();
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
    pub(crate) fn build(&self, values: &Values<'_>, names: &[Box<str>], out: &mut Vec<u8>) -> bool {
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
