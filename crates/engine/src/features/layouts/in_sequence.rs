//! A statement about a table that is carried out on its layouts one after the other, and then on the table:
//! GRANT, REVOKE, and ALTER TABLE of options and new columns ([`super::table_first`] is the other way round). If one of them fails, the client hears so and may try
//! again; until then the role has the right, or the table the option or column, on some of them only. Columns that a
//! layout has already are then left out.

use std::sync::Arc;
use std::time::Instant;

use helenus_layout::plan::LogicalTable;
use helenus_wire::{Opcode, Version, write};

use crate::exec::context::ExecContext;
use crate::exec::outcome::{Outcome, Step};
use crate::exec::strategy::Strategy;
use crate::keys::NodeRequestKey;
use crate::pipeline::node_request::{Form, Prediction, Target};
use crate::pipeline::query::Query;

#[derive(Debug)]
pub(crate) struct InSequence {
    table: Arc<LogicalTable>,
    /// The statement on each of its layouts that it is carried out on.
    texts: Vec<String>,
    /// How many of them have been carried out.
    done: usize,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Layout(Option<NodeRequestKey>),
    Table(NodeRequestKey),
}

impl InSequence {
    pub(crate) fn new(table: Arc<LogicalTable>, texts: Vec<String>) -> InSequence {
        InSequence {
            table,
            texts,
            done: 0,
            state: State::Layout(None),
        }
    }

    /// Sends what is next.
    fn send(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        let send_before = send_before(cx, &self.table);
        self.state = match self.texts.get(self.done) {
            Some(text) => {
                let query = query_of(cx, text, send_before);
                let part = u16::try_from(self.done).unwrap_or(u16::MAX);
                let sent = cx.send_part(part, query, Prediction::Learned, Target::ANY);
                State::Layout(Some(sent))
            }
            None => {
                cx.todo.send_before = send_before;
                let target = cx.target.clone();
                State::Table(cx.send_whole(Form::Own, Prediction::Learned, target))
            }
        };
        Step::Wait
    }
}

/// Until when the next step of a statement about a table may be sent: the steps before may have taken longer than a lease. As
/// long as the table has the layouts that it had, they go on under a new one.
pub(super) fn send_before(cx: &ExecContext<'_>, table: &LogicalTable) -> Option<Instant> {
    let first = cx.query.send_before?;
    let held = cx.engine.shared.leases.held(cx.engine.now);
    let newest = cx.engine.shared.snapshot.load();
    let now = newest
        .features()
        .layouts
        .table(&table.keyspace, &table.name);
    let names = |table: &LogicalTable| -> Vec<String> {
        let copies = table.copies.iter();
        copies.map(|copy| copy.physical.clone()).collect()
    };
    let is_still = now.is_some_and(|now| names(now) == names(table));
    held.catalogue.filter(|_| is_still).or(Some(first))
}

impl Strategy for InSequence {
    fn begin(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        self.send(cx)
    }

    fn on_part<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        _part: u16,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        match outcome {
            Outcome::Answered(_) => {
                self.done += 1;
                self.send(cx)
            }
            Outcome::Failed(failure) => Step::Failed(failure),
        }
    }

    fn whole(&self) -> Option<NodeRequestKey> {
        match self.state {
            State::Table(key) => Some(key),
            State::Layout(_) => None,
        }
    }

    fn children(&self) -> Vec<NodeRequestKey> {
        match self.state {
            State::Layout(key) => key.into_iter().collect(),
            State::Table(_) => Vec::new(),
        }
    }

    fn awaits(&self, part: u16, child: NodeRequestKey) -> bool {
        let is_next = usize::from(part) == self.done;
        is_next && matches!(self.state, State::Layout(Some(key)) if key == child)
    }

    fn name(&self) -> &'static str {
        "layouts in sequence"
    }
}

/// A text of the proxy's own in place of the client's request.
pub(super) fn query_of(cx: &ExecContext<'_>, text: &str, send_before: Option<Instant>) -> Query {
    let own = cx.query;
    let version = cx.engine.snapshot.version();
    let mut body = Vec::with_capacity(text.len() + 16);
    write::long_string(&mut body, text);
    write::u16(&mut body, own.consistency.0);
    match version {
        Version::V5 => write::u32(&mut body, 0),
        _ => body.push(0),
    }
    Query {
        pool: own.pool,
        class: own.class,
        resendable: own.resendable,
        consistency: own.consistency,
        table: own.table.clone(),
        send_before,
        ..Query::new(Opcode::Query, version, body)
    }
}
