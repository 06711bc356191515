//! A statement over a part of the ring: an EXECUTE of the statement with two markers more. To parse a
//! text takes a node about as long as to read a hundred rows, so that pages are read as any other until
//! the nodes have it prepared, and aggregates of more than one part wait for that. What the nodes do
//! not prepare is sent as QUERYs with the bounds in their text.

use std::sync::Arc;
use std::time::Duration;

use helenus_cql::{
    PreparedRange, RangeValue, Selected, prepared_range, takes_token_range, token_range,
};
use helenus_policy::ring::NodeIndex;
use helenus_wire::{
    ErrorBody, Opcode, Page, PreparedView, ResultKind, ValueRef, Version, code, result_kind,
    write_execute, write_query,
};

use crate::engine::{Engine, RequestKey};
use crate::execution::token_splits::options;
use crate::request::{Origin, Request};
use crate::shared::WorkerMessage;
use crate::snapshot::KeyColumn;
use crate::statement::prepared::{Prepared, Statement};

pub(crate) use crate::statement::prepared::{InRange, Waiter};

/// A text that clients have not prepared is prepared over parts of the ring at this page.
const PAGES_TO_PREPARE: u8 = 2;
/// How long nodes are not asked again to prepare what they have refused.
const REFUSED_FOR: Duration = Duration::from_secs(600);

/// Whether parts of a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preparation {
    /// In the form that [`Engine::range_form`] tells.
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

impl Engine {
    /// How a request's statement is asked for over parts of the ring.
    pub(crate) fn range_form(&self, request: &Request) -> RangeForm {
        self.prepared_form(request).unwrap_or(RangeForm::Text)
    }

    fn prepared_form(&self, request: &Request) -> Option<RangeForm> {
        let statement = request.statement.as_ref()?;
        let prepared = match &*statement.in_range() {
            InRange::Known(prepared) => prepared.clone(),
            _ => return None,
        };
        let prepared = self.cx.shared.newest(prepared);
        let range = self.prepared_range(request)?;
        let keyspace = prepared.keyspace.as_deref();
        if *prepared.statement.text != *range.text || keyspace != keyspace_of(request) {
            // The key has other names now, or the text means another keyspace's table here.
            statement.forget_range();
            return None;
        }
        Some(RangeForm::Prepared(prepared, range.values))
    }

    /// The body of a request's statement over a part of the ring, in the nodes' version: above one
    /// token, up to another, where given.
    pub(crate) fn range_body(
        &self,
        request: &Request,
        form: &RangeForm,
        above: Option<i64>,
        up_to: Option<i64>,
        page: Page<'_>,
    ) -> Option<Vec<u8>> {
        let version = self.cx.snapshot.version;
        let (mut options, _) = options(request)?;
        // What expires does so for all parts at once.
        let now_in_seconds = request.scan.as_ref().and_then(|scan| scan.now_in_seconds);
        let now_in_seconds = now_in_seconds.filter(|_| version == Version::V5);
        options.now_in_seconds = options.now_in_seconds.or(now_in_seconds);
        let mut body = Vec::with_capacity(request.body.len() + 64);
        let RangeForm::Prepared(prepared, values) = form else {
            let statement = request.statement.as_ref()?;
            let facts = &statement.facts;
            let select = facts.select.as_deref()?;
            let columns = self.key_columns(request)?;
            let range = token_range(&statement.text, facts, select, &columns, above, up_to)?;
            let (text, gone) = (&range.text, &range.markers_gone);
            let keyspace = keyspace_of(request);
            return write_query(text, &options, gone, page, version, keyspace, &mut body)
                .then_some(body);
        };
        let own = request.scan.as_ref()?.bounds()?;
        let above = above.unwrap_or(own.above).to_be_bytes();
        let up_to = up_to.unwrap_or(own.up_to).to_be_bytes();
        let value = |value: &RangeValue| match value {
            RangeValue::Own(index) => options.values.get(usize::from(*index)),
            RangeValue::Above => Some(ValueRef::Set(&above)),
            RangeValue::UpTo => Some(ValueRef::Set(&up_to)),
        };
        let values: Option<Vec<ValueRef<'_>>> = values.iter().map(value).collect();
        let id = (&*prepared.id, prepared.result_metadata_id.as_deref());
        write_execute(id, &options, &values?, page, version, &mut body);
        Some(body)
    }

    /// Has the nodes prepare a request's statement over parts of the ring, where that is worth it. An
    /// aggregate waits for it: it is resumed when they have answered.
    pub(crate) fn prepare_range(&mut self, key: RequestKey) -> Preparation {
        let Some(request) = self.requests.get(key) else {
            return Preparation::NotYet;
        };
        let (Some(statement), Some(scan)) = (request.statement.clone(), &request.scan) else {
            return Preparation::NotYet;
        };
        let waiter = scan.is_folded().then_some(Waiter {
            worker: self.cx.index,
            request: key,
        });
        // Other workers ask the same: it is one of them that has the nodes prepare it.
        let mut known = statement.in_range();
        let range = match &mut *known {
            InRange::Known(_) => return Preparation::Done,
            InRange::Asked(waiting) => {
                waiting.extend(waiter);
                return Preparation::UnderWay;
            }
            InRange::Unknown { pages } if request.prepared.is_none() && waiter.is_none() => {
                *pages = pages.saturating_add(1);
                if *pages < PAGES_TO_PREPARE {
                    return Preparation::NotYet;
                }
                self.prepared_range(request)
            }
            InRange::Unknown { .. } => self.prepared_range(request),
            InRange::Refused { text, until } => {
                let expired = *until <= self.cx.now;
                let range = self.prepared_range(request);
                range.filter(|range| expired || *range.text != **text)
            }
        };
        // Where it cannot be prepared, its text will do.
        let Some(range) = range else {
            return Preparation::Done;
        };
        *known = InRange::Asked(waiter.into_iter().collect());
        drop(known);
        let keyspace: Option<Box<str>> = keyspace_of(request).map(Into::into);
        let pool = request.pool;
        let derived = Arc::new(Statement::new(&range.text));
        let nodes = self.cx.snapshot.nodes.len();
        self.turn = self.turn.wrapping_add(1);
        let sent = (0..nodes).any(|step| {
            let node = NodeIndex(((self.turn as usize + step) % nodes) as u16);
            let origin = Origin::InRange(statement.clone());
            let linked = self.pools.get(pool).is_some_and(|p| p.has_link(node));
            linked && self.prepare_on(&derived, keyspace.as_deref(), node, pool, origin)
        });
        if sent {
            return Preparation::UnderWay;
        }
        // Those that have come to wait meanwhile go on as they are, too.
        self.settle_range(&statement, InRange::default(), Some(key));
        Preparation::NotYet
    }

    /// A node has answered to the PREPARE of a statement over parts of the ring.
    pub(crate) fn on_range_prepared(
        &mut self,
        key: RequestKey,
        statement: &Statement,
        node: NodeIndex,
        opcode: Opcode,
        content: &[u8],
    ) {
        let known = if opcode == Opcode::Result
            && matches!(result_kind(content), Ok(ResultKind::Prepared))
            && let Ok(view) = PreparedView::parse(content, self.cx.snapshot.version)
        {
            self.on_prepared(key, node, content);
            self.prepared(view.id).map(InRange::Known)
        } else {
            let refused = ErrorBody::parse(content)
                .is_ok_and(|e| matches!(e.code, code::INVALID | code::SYNTAX));
            let until = self.cx.now + REFUSED_FOR;
            let request = self.request(key).filter(|_| refused);
            let text = request.and_then(|r| Some(r.statement.as_ref()?.text.clone()));
            text.map(|text| InRange::Refused { text, until })
        };
        self.drop_request(key);
        self.settle_range(statement, known.unwrap_or_default(), None);
    }

    /// The PREPARE of a statement over parts of the ring came to nothing, for a reason that may pass.
    pub(crate) fn on_range_lost(&mut self, key: RequestKey, statement: &Statement) {
        self.drop_request(key);
        self.settle_range(statement, InRange::default(), None);
    }

    /// Notes what the nodes know now, and resumes the aggregates that have waited for it, except this
    /// worker's own.
    fn settle_range(&mut self, statement: &Statement, known: InRange, own: Option<RequestKey>) {
        let before = std::mem::replace(&mut *statement.in_range(), known);
        let InRange::Asked(waiting) = before else {
            return;
        };
        for Waiter { worker, request } in waiting {
            match worker == self.cx.index {
                true if own == Some(request) => {}
                true => self.resume_aggregate(request),
                false => {
                    let message = WorkerMessage::Aggregate(request);
                    self.cx.tell(worker, message);
                }
            }
        }
    }

    fn prepared_range(&self, request: &Request) -> Option<PreparedRange> {
        let statement = request.statement.as_ref()?;
        let facts = &statement.facts;
        let (options, _) = options(request)?;
        if options.values.named {
            return None;
        }
        let markers = options.values.count;
        if let Some(prepared) = &request.prepared
            && prepared.names.len() != usize::from(markers)
        {
            return None;
        }
        let columns = self.key_columns(request)?;
        prepared_range(
            &statement.text,
            facts,
            facts.select.as_deref()?,
            &columns,
            markers,
        )
    }

    /// The partition key of a request's table, if its statement can be had over a part of the ring.
    fn key_columns(&self, request: &Request) -> Option<Vec<&str>> {
        let statement = request.statement.as_ref()?;
        let (keyspace, table) = table_of(request)?;
        let columns = self.cx.snapshot.partition_key(keyspace, table)?;
        let columns: Vec<&str> = columns.iter().map(|c| &*c.name).collect();
        let select = statement.facts.select.as_deref()?;
        takes_token_range(&statement.facts, select, &columns).then_some(columns)
    }

    /// The result's columns that make up the partition key, if all of it is selected.
    pub(crate) fn partition_columns(&self, request: &Request) -> Option<Vec<usize>> {
        let statement = request.statement.as_ref()?;
        let select = statement.facts.select.as_deref()?;
        let (keyspace, table) = table_of(request)?;
        let key = self.cx.snapshot.partition_key(keyspace, table)?;
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
}

/// The keyspace that a request's statement lacks in its text.
fn keyspace_of(request: &Request) -> Option<&str> {
    let statement = request.statement.as_ref()?;
    match &request.prepared {
        _ if statement.facts.keyspace.is_some() => None,
        Some(prepared) => prepared.keyspace.as_deref(),
        None => {
            let own = options(request).and_then(|(options, _)| options.keyspace);
            own.or(request.keyspace.as_deref())
        }
    }
}

/// The keyspace and table that a request reads.
pub(crate) fn table_of(request: &Request) -> Option<(&str, &str)> {
    match &request.prepared {
        Some(prepared) => prepared.table.as_ref().map(|(ks, t)| (&**ks, &**t)),
        None => request.statement.as_ref()?.table(keyspace_of(request)),
    }
}
