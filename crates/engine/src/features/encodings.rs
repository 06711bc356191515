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

mod answer;
mod answers;
mod coding;
mod json;
mod plan;
mod reads;
mod refusals;
mod requests;
mod shown;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use helenus_catalogue::{Form, Written};
use helenus_payload::{Codec, DictionaryId, Learned};
use rustc_hash::FxHashMap;

pub(super) use self::answers::on_answered;
/// What a worker keeps: what values of encoded columns are written and read with.
pub(super) use self::coding::Coding as State;
use self::plan::EncodedPlan;
pub(super) use self::reads::is_blind;
pub(super) use self::requests::on_admitted;
use self::shown::OnEncoded;
use crate::config::Config;
use crate::context::Context;
use crate::engine::Engine;
use crate::rewrite::leases::Flagged;
use crate::snapshot::Snapshot;
use crate::statement::prepared::Statement;

/// What the name of the column of encoded values ends with.
pub const SUFFIX: &str = "__encoded";

/// What is kept of a request.
#[derive(Default)]
pub(crate) struct InRequest {
    /// What it has to do with encoded columns.
    encoded: Option<Box<OnEncoded>>,
    /// What was known of encoded columns when it began, if it is a read.
    known: Option<Arc<Encodings>>,
}

/// What is kept with a statement: what it becomes where its table has encoded columns.
#[derive(Debug, Default)]
pub(crate) struct InStatement(Mutex<Option<EncodedPlan<Statement>>>);

/// There is a new snapshot.
pub(super) fn on_snapshot(engine: &mut Engine) {
    engine.features.encodings.forget_old();
}

/// Whether a read may join this request: its answer is shown by what was known of encoded columns when it began.
#[inline]
pub(super) fn may_join(cx: &Context, request: &InRequest) -> bool {
    let now = &cx.snapshot.features.encodings;
    let is_as_now = |known: &Arc<Encodings>| Arc::ptr_eq(known, now);
    request.known.as_ref().is_none_or(is_as_now)
}

/// Whether clients see less of the schema than there is.
pub(super) fn hides(config: &Config) -> bool {
    config.payload.enabled
}

/// Whether clients do not see a column. Without a keyspace or table: of any.
pub(super) fn hides_column(
    snapshot: &Snapshot,
    (keyspace, table): (Option<&str>, Option<&str>),
    column: &str,
) -> bool {
    let is = |asked: Option<&str>, name: &str| asked.is_none_or(|asked| asked == name);
    let tables = &snapshot.features.encodings.tables;
    let of_keyspaces = tables.iter().filter(|(name, _)| is(keyspace, name));
    let mut of = of_keyspaces.flat_map(|(_, tables)| tables.values());
    of.any(|of| is(table, &of.name) && of.hidden_by(column).is_some())
}

/// What a statement becomes where columns of its table are encoded. Known texts take as much memory again.
fn plan_of(
    statement: &Statement,
    table: &Arc<EncodedTable>,
    coding: &mut State,
) -> EncodedPlan<Statement> {
    let known = statement.features.encodings.0.lock();
    let mut known = known.unwrap_or_else(PoisonError::into_inner);
    if let Some(of) = &*known
        && Arc::ptr_eq(&of.table, table)
    {
        return of.clone();
    }
    let made = EncodedPlan::of(table, &statement.text, &statement.facts, coding);
    if statement.keeps_plans() {
        *known = Some(made.clone());
    }
    made
}

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
