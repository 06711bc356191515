//! A statement over a part of the ring: an EXECUTE of the statement with two markers more. To parse a
//! text takes a node about as long as to read a hundred rows, so that pages are read as any other until
//! the nodes have it prepared. Counts, and what the nodes will not prepare, are QUERYs with the bounds
//! in their text meanwhile.

use std::sync::{Arc, MutexGuard, PoisonError};

use helenus_cql::{PreparedRange, RangeValue, prepared_range, takes_token_range, token_range};
use helenus_policy::ring::NodeIndex;
use helenus_wire::{
    ErrorBody, Opcode, Page, PreparedView, ResultKind, ValueRef, code, result_kind, write_execute,
    write_query,
};

use crate::cut::options;
use crate::prepared::{Prepared, Statement};
use crate::request::{Origin, Request};
use crate::worker::{Key, State};

/// A text that clients have not prepared is prepared over parts of the ring at this page.
const PAGES_TO_PREPARE: u8 = 2;

/// What the nodes know of a statement over parts of the ring.
#[derive(Debug)]
pub enum InRange {
    /// Nothing. So many pages could have been read in parts.
    Unknown {
        pages: u8,
    },
    Asked,
    Known(Arc<Prepared>),
    /// They will not have this text.
    Refused(Box<str>),
}

impl Default for InRange {
    fn default() -> Self {
        InRange::Unknown { pages: 0 }
    }
}

/// How the parts of a page are asked for: all in one way, whatever becomes known meanwhile.
#[derive(Debug)]
pub enum RangeForm {
    /// A QUERY with the bounds in its text.
    Text,
    /// An EXECUTE, with what its markers stand for.
    Prepared(Arc<Prepared>, Vec<RangeValue>),
}

impl RangeForm {
    pub fn opcode(&self) -> Opcode {
        match self {
            RangeForm::Text => Opcode::Query,
            RangeForm::Prepared(..) => Opcode::Execute,
        }
    }

    /// The statement of an EXECUTE.
    pub fn prepared(&self) -> Option<&Arc<Prepared>> {
        match self {
            RangeForm::Text => None,
            RangeForm::Prepared(prepared, _) => Some(prepared),
        }
    }
}

impl Statement {
    fn in_range(&self) -> MutexGuard<'_, InRange> {
        self.in_range.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A part of an EXECUTE was not taken for what it is: from now on the bounds are in the text.
    pub fn distrust_range(&self) -> bool {
        let mut known = self.in_range();
        let InRange::Known(prepared) = &*known else {
            return false;
        };
        *known = InRange::Refused(prepared.statement.text.clone());
        true
    }

    /// PREPARE came to nothing, for a reason that may pass.
    pub fn forget_range(&self) {
        *self.in_range() = InRange::default();
    }
}

impl State {
    /// How a request's statement is asked for over parts of the ring.
    pub fn range_form(&self, request: &Request) -> RangeForm {
        self.prepared_form(request).unwrap_or(RangeForm::Text)
    }

    fn prepared_form(&self, request: &Request) -> Option<RangeForm> {
        let statement = request.statement.as_ref()?;
        let prepared = match &*statement.in_range() {
            InRange::Known(prepared) => prepared.clone(),
            _ => return None,
        };
        let range = self.prepared_range(request)?;
        let keyspace = prepared.keyspace.as_deref();
        if *prepared.statement.text != *range.text || keyspace != keyspace_of(request) {
            // The key has other names now, or the text means another keyspace's table here.
            statement.forget_range();
            return None;
        }
        // Its columns may have changed since.
        let prepared = self.prepared.get(&prepared.id).cloned().unwrap_or(prepared);
        Some(RangeForm::Prepared(prepared, range.values))
    }

    /// The body of a request's statement over a part of the ring, in the nodes' version: above one
    /// token, up to another, where given.
    pub fn range_body(
        &self,
        request: &Request,
        form: &RangeForm,
        above: Option<i64>,
        up_to: Option<i64>,
        page: Page<'_>,
    ) -> Option<Vec<u8>> {
        let (options, _) = options(request)?;
        let version = self.snapshot.version;
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
        let above = above.unwrap_or(own.0).to_be_bytes();
        let up_to = up_to.unwrap_or(own.1).to_be_bytes();
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

    /// Whether a page may be read in parts; if not yet, has the nodes prepare them once that is worth
    /// it.
    pub fn prepare_range(&mut self, key: Key) -> bool {
        let Some(request) = self.requests.get(key.index as usize) else {
            return false;
        };
        let Some(statement) = request.statement.clone() else {
            return false;
        };
        let range = match &mut *statement.in_range() {
            InRange::Known(_) => return true,
            InRange::Asked => return false,
            InRange::Unknown { pages } if request.prepared.is_none() => {
                *pages = pages.saturating_add(1);
                if *pages < PAGES_TO_PREPARE {
                    return false;
                }
                self.prepared_range(request)
            }
            InRange::Unknown { .. } => self.prepared_range(request),
            InRange::Refused(text) => self.prepared_range(request).filter(|r| *r.text != **text),
        };
        // Where it cannot be prepared, its text will do.
        let Some(range) = range else { return true };
        let keyspace: Option<Box<str>> = keyspace_of(request).map(Into::into);
        let pool = request.pool;
        let derived = Arc::new(Statement::new(&range.text));
        let nodes = self.snapshot.nodes.len();
        *statement.in_range() = InRange::Asked;
        self.turn = self.turn.wrapping_add(1);
        let sent = (0..nodes).any(|step| {
            let node = NodeIndex(((self.turn as usize + step) % nodes) as u16);
            let origin = Origin::InRange(statement.clone());
            let linked = self.pools.get(pool).is_some_and(|p| p.has_link(node));
            linked && self.prepare_on(&derived, keyspace.as_deref(), node, pool, origin)
        });
        if !sent {
            statement.forget_range();
        }
        false
    }

    /// A node has answered to the PREPARE of a statement over parts of the ring.
    pub fn on_range_prepared(
        &mut self,
        key: Key,
        statement: &Statement,
        node: NodeIndex,
        opcode: Opcode,
        content: &[u8],
    ) {
        let known = if opcode == Opcode::Result
            && matches!(result_kind(content), Ok(ResultKind::Prepared))
            && let Ok(view) = PreparedView::parse(content, self.snapshot.version)
        {
            self.on_prepared(key, node, content);
            self.prepared(view.id).map(InRange::Known)
        } else {
            let refused = ErrorBody::parse(content)
                .is_ok_and(|e| matches!(e.code, code::INVALID | code::SYNTAX));
            let request = self.request(key).filter(|_| refused);
            let text = request.and_then(|r| Some(r.statement.as_ref()?.text.clone()));
            text.map(InRange::Refused)
        };
        *statement.in_range() = known.unwrap_or_default();
        self.drop_request(key);
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
        let (keyspace, table) = match &request.prepared {
            Some(prepared) => prepared.table.as_ref().map(|(ks, t)| (&**ks, &**t))?,
            None => statement.table(keyspace_of(request))?,
        };
        let columns = self.snapshot.partition_key(keyspace, table)?;
        let columns: Vec<&str> = columns.iter().map(|c| &*c.name).collect();
        let select = statement.facts.select.as_deref()?;
        takes_token_range(&statement.facts, select, &columns).then_some(columns)
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
