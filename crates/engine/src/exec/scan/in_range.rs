//! A statement over a part of the ring: an EXECUTE of the statement with two markers more. To parse a
//! text takes a node about as long as to read a hundred rows, so that pages are read as any other until
//! the nodes have it prepared, and aggregates of more than one part wait for that. Statements that the
//! nodes do not prepare are sent as QUERYs with the bounds in their text.

use std::sync::Arc;
use std::time::Duration;

use helenus_cql::{
    PreparedRange, RangeValue, Selected, prepared_range, takes_token_range, token_range,
};
use helenus_wire::{Opcode, Page, ValueRef, Version, write_execute, write_query};

use crate::context::Context;
use crate::exec::context::{ExecContext, RangePrepare};
use crate::exec::scan::token_splits::{Stretch, options};
use crate::keys::ClientRequestKey;
use crate::pipeline::query::Query;
use crate::snapshot::{KeyColumn, Snapshot};
use crate::statement::prepared::{Prepared, Statement};

pub(crate) use crate::statement::prepared::{InRange, Waiter};

/// A text that clients have not prepared is prepared over parts of the ring at this page.
const PAGES_TO_PREPARE: u8 = 2;
/// How long nodes are not asked again to prepare what they have refused.
pub(crate) const REFUSED_FOR: Duration = Duration::from_secs(600);

/// Progress of the preparation that parts of a request need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preparation {
    /// In the form that [`range_form`] tells.
    Done,
    /// The nodes are being asked.
    UnderWay,
    /// Not worth it yet.
    NotYet,
}

/// How the parts of a page are asked for: all in one way, whatever becomes known meanwhile.
#[derive(Debug)]
pub(crate) enum RangeForm {
    /// A QUERY with the bounds in its text.
    Text,
    /// An EXECUTE, with what its markers stand for.
    Prepared(Arc<Prepared>, Vec<RangeValue>),
}

impl RangeForm {
    pub(crate) fn opcode(&self) -> Opcode {
        match self {
            RangeForm::Text => Opcode::Query,
            RangeForm::Prepared(..) => Opcode::Execute,
        }
    }

    /// The statement of an EXECUTE.
    pub(crate) fn prepared(&self) -> Option<&Arc<Prepared>> {
        match self {
            RangeForm::Text => None,
            RangeForm::Prepared(prepared, _) => Some(prepared),
        }
    }
}

/// Notes what the nodes know now; what has waited for it.
pub(crate) fn settle_range(statement: &Statement, known: InRange) -> Vec<Waiter> {
    match std::mem::replace(&mut *statement.in_range(), known) {
        InRange::Asked(waiting) => waiting,
        _ => Vec::new(),
    }
}

/// How a query's statement is asked for over parts of the ring.
pub(crate) fn range_form(query: &Query, cx: &Context) -> RangeForm {
    prepared_form(query, cx).unwrap_or(RangeForm::Text)
}

fn prepared_form(query: &Query, cx: &Context) -> Option<RangeForm> {
    let statement = query.statement.as_ref()?;
    let prepared = match &*statement.in_range() {
        InRange::Known(prepared) => prepared.clone(),
        _ => return None,
    };
    let prepared = cx.shared.newest(prepared);
    let range = derive(query, &cx.snapshot)?;
    let keyspace = prepared.keyspace.as_deref();
    if *prepared.statement.text != *range.text || keyspace != keyspace_of(query) {
        // The key has other names now, or the text means another keyspace's table here.
        statement.forget_range();
        return None;
    }
    Some(RangeForm::Prepared(prepared, range.values))
}

/// A query's statement over parts of the ring.
pub(crate) struct RangeQuery<'a> {
    pub query: &'a Query,
    pub snapshot: &'a Snapshot,
    pub form: &'a RangeForm,
    /// The statement's own bounds.
    pub bounds: Stretch,
    pub now_in_seconds: Option<i32>,
}

impl RangeQuery<'_> {
    /// The body over one part, in the nodes' version: above one token, up to another, where given.
    pub(crate) fn body(
        &self,
        above: Option<i64>,
        up_to: Option<i64>,
        page: Page<'_>,
    ) -> Option<Vec<u8>> {
        let version = self.snapshot.version();
        let (mut options, _) = options(self.query)?;
        // One time decides for all parts which cells have expired.
        let now_in_seconds = self.now_in_seconds.filter(|_| version == Version::V5);
        options.now_in_seconds = options.now_in_seconds.or(now_in_seconds);
        let mut body = Vec::with_capacity(self.query.body.len() + 64);
        let RangeForm::Prepared(prepared, values) = self.form else {
            let statement = self.query.statement.as_ref()?;
            let facts = &statement.facts;
            let select = facts.select.as_deref()?;
            let columns = key_columns(self.query, self.snapshot)?;
            let range = token_range(&statement.text, facts, select, &columns, above, up_to)?;
            let (text, gone) = (&range.text, &range.markers_gone);
            let keyspace = keyspace_of(self.query);
            return write_query(text, &options, gone, page, version, keyspace, &mut body)
                .then_some(body);
        };
        let above = above.unwrap_or(self.bounds.above).to_be_bytes();
        let up_to = up_to.unwrap_or(self.bounds.up_to).to_be_bytes();
        // Looking for each from the first on would take them all as often as there are.
        let own: Vec<ValueRef<'_>> = options.values.iter().map(|(_, value)| value).collect();
        let value = |value: &RangeValue| match value {
            RangeValue::Own(index) => own.get(usize::from(*index)).copied(),
            RangeValue::Above => Some(ValueRef::Set(&above)),
            RangeValue::UpTo => Some(ValueRef::Set(&up_to)),
        };
        let values: Option<Vec<ValueRef<'_>>> = values.iter().map(value).collect();
        let ids = prepared.ids();
        write_execute(ids, &options, &values?, page, version, &mut body);
        Some(body)
    }
}

/// Has the nodes prepare a query's statement over parts of the ring, where that is worth it. `waiter`
/// goes on when they have answered.
pub(crate) fn prepare_range(
    cx: &mut ExecContext<'_>,
    waiter: Option<ClientRequestKey>,
) -> Preparation {
    let query = cx.query;
    let Some(statement) = &query.statement else {
        return Preparation::NotYet;
    };
    let waiter = waiter.map(|request| Waiter {
        worker: cx.engine.index,
        request,
    });
    let snapshot = &cx.engine.snapshot;
    // Other workers ask the same: it is one of them that has the nodes prepare it.
    let mut known = statement.in_range();
    let range = match &mut *known {
        InRange::Known(_) => return Preparation::Done,
        InRange::Asked(waiting) => {
            waiting.extend(waiter);
            return Preparation::UnderWay;
        }
        InRange::Unknown { pages } if query.prepared.is_none() && waiter.is_none() => {
            *pages = pages.saturating_add(1);
            if *pages < PAGES_TO_PREPARE {
                return Preparation::NotYet;
            }
            derive(query, snapshot)
        }
        InRange::Unknown { .. } => derive(query, snapshot),
        InRange::Refused { text, until } => {
            let expired = *until <= cx.engine.now;
            let range = derive(query, snapshot);
            range.filter(|range| expired || *range.text != **text)
        }
    };
    // Where it cannot be prepared, its text will do.
    let Some(range) = range else {
        return Preparation::Done;
    };
    *known = InRange::Asked(waiter.into_iter().collect());
    drop(known);
    cx.todo.prepare = Some(RangePrepare {
        statement: statement.clone(),
        derived: Arc::new(Statement::new(&range.text)),
        keyspace: keyspace_of(query).map(Into::into),
    });
    Preparation::UnderWay
}

/// A query's statement over a part of the ring, as it can be prepared.
fn derive(query: &Query, snapshot: &Snapshot) -> Option<PreparedRange> {
    let statement = query.statement.as_ref()?;
    let facts = &statement.facts;
    let (options, _) = options(query)?;
    if options.values.named {
        return None;
    }
    let markers = options.values.count;
    if let Some(prepared) = &query.prepared
        && prepared.names.len() != usize::from(markers)
    {
        return None;
    }
    let columns = key_columns(query, snapshot)?;
    let select = facts.select.as_deref()?;
    prepared_range(&statement.text, facts, select, &columns, markers)
}

/// The partition key of a query's table, if its statement can be had over a part of the ring.
fn key_columns<'a>(query: &Query, snapshot: &'a Snapshot) -> Option<Vec<&'a str>> {
    let statement = query.statement.as_ref()?;
    let (keyspace, table) = table_of(query)?;
    let columns = snapshot.schema().partition_key(keyspace, table)?;
    let columns: Vec<&str> = columns.iter().map(|c| &*c.name).collect();
    let select = statement.facts.select.as_deref()?;
    takes_token_range(&statement.facts, select, &columns).then_some(columns)
}

/// The result's columns that make up the partition key, if all of it is selected.
pub(crate) fn partition_columns(query: &Query, snapshot: &Snapshot) -> Option<Vec<usize>> {
    let statement = query.statement.as_ref()?;
    let select = statement.facts.select.as_deref()?;
    let (keyspace, table) = table_of(query)?;
    let key = snapshot.schema().partition_key(keyspace, table)?;
    if key.iter().any(|column| column.is_masked) {
        return None;
    }
    let position = |column: &KeyColumn| match &select.columns {
        // They come first.
        Selected::All => key.iter().position(|c| c.name == column.name),
        Selected::Columns(columns) => columns.iter().position(|selected| {
            let name = selected.column.as_ref();
            name.is_some_and(|name| name.as_str() == column.name)
        }),
    };
    match select.json {
        true => None,
        false => key.iter().map(position).collect(),
    }
}

/// The keyspace that a query's statement lacks in its text.
fn keyspace_of(query: &Query) -> Option<&str> {
    let statement = query.statement.as_ref()?;
    match &query.prepared {
        _ if statement.facts.keyspace.is_some() => None,
        Some(prepared) => prepared.keyspace.as_deref(),
        None => {
            let own = options(query).and_then(|(options, _)| options.keyspace);
            own.or(query.keyspace.as_deref())
        }
    }
}

/// The keyspace and table that a query reads.
pub(crate) fn table_of(query: &Query) -> Option<(&str, &str)> {
    match &query.prepared {
        Some(prepared) => prepared.table.as_ref().map(|(ks, t)| (&**ks, &**t)),
        None => query.statement.as_ref()?.table(keyspace_of(query)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the key of a table, `(a, b)`, stands in what is selected.
    fn found(text: &str, masked: Option<usize>) -> Option<Vec<usize>> {
        let mut key = ["a", "b"].map(|name| KeyColumn {
            name: name.to_owned(),
            cql_type: "int".to_owned(),
            is_masked: false,
        });
        if let Some(at) = masked {
            key[at].is_masked = true;
        }
        let snapshot = Snapshot::builder().table("app", "t", key).build();
        let query = Query {
            statement: Some(Arc::new(Statement::new(text))),
            ..Query::new(Opcode::Query, Version::V5, Vec::new())
        };
        partition_columns(&query, &snapshot)
    }

    #[test]
    fn a_partition_is_known_by_what_is_shown_unless_it_is_masked() {
        for (text, expected) in [
            ("SELECT * FROM app.t", Some(vec![0, 1])),
            ("SELECT v, b, a FROM app.t", Some(vec![2, 1])),
            ("SELECT v, a FROM app.t", None),
            ("SELECT JSON a, b FROM app.t", None),
        ] {
            assert_eq!(found(text, None), expected, "{text}");
            for masked in [0, 1] {
                assert_eq!(found(text, Some(masked)), None, "{text}");
            }
        }
    }
}
