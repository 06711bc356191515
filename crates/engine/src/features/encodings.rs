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
//! The states of a column ([`helenus_catalogue::Written`]) are passed one by one, in either direction, each only when every proxy
//! knows the one before: neighbours get along with each other, others need not. A driver may send a write
//! again, with the same timestamp, through a proxy that knows another state. Of a text and an encoded value with
//! the same time each would have the other deleted, and deletions win; so there is a state between in which both
//! are written.
//!
//! A proxy's knowledge of the catalogue is good for a lease ([`crate::rewrite::leases`]). A proxy that did
//! not know of an encoded column would read nulls; so without a lease it neither reads nor writes.

mod answer;
mod answers;
mod coding;
mod json;
mod plan;
mod reads;
mod refusals;
mod requests;
mod shown;
mod tables;

use std::sync::{Arc, Mutex, PoisonError};

pub(super) use self::answers::on_answered;
/// A worker's state: the tools that write and read values of encoded columns.
pub(super) use self::coding::Coding as State;
use self::plan::EncodedPlan;
pub(super) use self::reads::is_blind;
pub(super) use self::requests::on_admitted;
use self::shown::OnEncoded;
pub use self::tables::{EncodedColumn, EncodedTable, Encodings, SUFFIX};
use crate::config::Config;
use crate::context::Context;
use crate::pipeline::engine::Engine;
use crate::snapshot::Snapshot;
use crate::statement::prepared::Statement;

/// The part of a request that deals with encoded columns.
#[derive(Default)]
pub(crate) struct InRequest {
    encoded: Option<Box<OnEncoded>>,
}

/// Knowledge of encoded columns when a read began.
#[derive(Default)]
pub(crate) struct InRead {
    known: Option<Arc<Encodings>>,
}

/// A statement's plan for the case that its table has encoded columns, once it is made.
#[derive(Debug, Default)]
pub(crate) struct InStatement(Mutex<Option<EncodedPlan<Statement>>>);

/// There is a new snapshot.
pub(super) fn on_snapshot(engine: &mut Engine) {
    engine.features_mut().encodings.forget_old();
}

/// True if a read may join this request: its answer is shown by what was known of encoded columns when it began.
#[inline]
pub(super) fn may_join(cx: &Context, read: &InRead) -> bool {
    let now = &cx.snapshot.features().encodings;
    let is_as_now = |known: &Arc<Encodings>| Arc::ptr_eq(known, now);
    read.known.as_ref().is_none_or(is_as_now)
}

/// True if clients see less of the schema than there is.
pub(super) fn hides(config: &Config) -> bool {
    config.payload.enabled
}

/// True if clients do not see a column. Without a keyspace or table: of any.
pub(super) fn hides_column(
    snapshot: &Snapshot,
    keyspace: Option<&str>,
    table: Option<&str>,
    column: &str,
) -> bool {
    let is = |asked: Option<&str>, name: &str| asked.is_none_or(|asked| asked == name);
    let tables = &snapshot.features().encodings.tables;
    let of_keyspaces = tables.iter().filter(|(name, _)| is(keyspace, name));
    let mut of = of_keyspaces.flat_map(|(_, tables)| tables.values());
    of.any(|of| is(table, &of.name) && of.hidden_by(column).is_some())
}

/// The plan of a statement where columns of its table are encoded. Known texts take as much memory again.
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
