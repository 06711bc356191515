//! A statement about a table that is carried out on its layouts, too: GRANT, REVOKE, ALTER TABLE and TRUNCATE.
//!
//! **Rights, options and new columns** come to one layout after the other, and then to the table. If one of them fails, the
//! client hears so and may try again; until then the role has the right, or the table the option or column, on some of them
//! only. Columns that a layout has already are then left out.
//!
//! TRUNCATE, where layouts are derived, and ALTER TABLE … DROP are carried out on the table first. What that refuses, layouts do
//! not get.
//!
//! **TRUNCATE** empties the layouts side by side. A write beside it may reach the table before it is emptied and a layout
//! afterwards, or the reverse, so layouts are compared as a whole then ([`News::Truncated`]). This is told
//!
//! - once the table has been emptied, or may have been: from then on this proxy reads the table, and others as soon as they
//!   have heard of it. Until then they read layouts that have been emptied, too, when the client hears;
//! - again at the end: somebody may have begun to compare a layout that was emptied only then.
//!
//! A proxy that dies in between has not answered its client; what the layouts still have is found by the next round of the
//! sweep, or goes when the client repeats the statement.
//!
//! **Columns** are dropped from one layout after the other ([`super::dropped_columns`]).

use std::sync::Arc;
use std::time::Instant;

use helenus_layout::plan::{LogicalTable, qualified, qualified_table};
use helenus_wire::{ErrorBody, Opcode, Version, code, write};

use crate::exec::context::ExecContext;
use crate::exec::outcome::{Failure, KeptAnswer, Outcome, Response, Step};
use crate::exec::strategy::Strategy;
use crate::features;
use crate::features::layouts::derived::Output as News;
use crate::keys::{LinkKey, NodeRequestKey};
use crate::output::Output;
use crate::pipeline::node_request::{Form, Prediction, Target};
use crate::pipeline::query::Query;

#[derive(Debug)]
pub(crate) struct Carried {
    what: What,
    table: Arc<LogicalTable>,
    /// The statement on each layout that it is carried out on; before them on the table, unless that is last.
    texts: Vec<String>,
    /// Those that are under way, by their number.
    sent: Vec<(u16, NodeRequestKey)>,
    /// How many have been sent.
    begun: usize,
    /// The client's own request, where the table is last.
    own: Option<NodeRequestKey>,
    /// The table's, for the client.
    answer: Option<KeptAnswer>,
    /// Over which the last answer came.
    link: Option<LinkKey>,
    /// Why a layout has not followed.
    failed: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    LayoutsFirst,
    Truncate,
    DropColumns,
}

impl Carried {
    /// To layouts with these texts, and then to the table as the client has sent it.
    pub(crate) fn layouts_first(table: Arc<LogicalTable>, texts: Vec<String>) -> Carried {
        Carried::new(What::LayoutsFirst, texts, table)
    }

    /// TRUNCATE of a table whose layouts are derived.
    pub(crate) fn truncate(table: Arc<LogicalTable>) -> Carried {
        let copies = table.copies.iter().map(|copy| qualified(&table, copy));
        let tables = std::iter::once(qualified_table(&table)).chain(copies);
        let texts = tables.map(|table| format!("TRUNCATE TABLE {table}"));
        Carried::new(What::Truncate, texts.collect(), table.clone())
    }

    /// ALTER TABLE … DROP, as it is on the table and then on its layouts.
    pub(crate) fn drop_columns(table: Arc<LogicalTable>, texts: Vec<String>) -> Carried {
        Carried::new(What::DropColumns, texts, table)
    }

    fn new(what: What, texts: Vec<String>, table: Arc<LogicalTable>) -> Carried {
        Carried {
            what,
            table,
            texts,
            sent: Vec::new(),
            begun: 0,
            own: None,
            answer: None,
            link: None,
            failed: None,
        }
    }

    /// Sends what is next, if there is something.
    fn send(&mut self, cx: &mut ExecContext<'_>) -> bool {
        let Some(text) = self.texts.get(self.begun) else {
            return false;
        };
        let query = query_of(cx, text, send_before(cx, &self.table));
        let part = u16::try_from(self.begun).unwrap_or(u16::MAX);
        let sent = cx.send_part(part, query, Prediction::Learned, Target::ANY);
        self.sent.push((part, sent));
        self.begun += 1;
        true
    }

    /// Sends the next of the layouts, or the client's own request when all have answered.
    fn send_or_own(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        if !self.send(cx) {
            cx.todo.send_before = send_before(cx, &self.table);
            let target = cx.target.clone();
            self.own = Some(cx.send_whole(Form::Own, Prediction::Learned, target));
        }
        Step::Wait
    }

    /// The table has answered.
    fn follow(&mut self, cx: &mut ExecContext<'_>, response: &Response<'_>) {
        self.answer = Some(KeptAnswer::of_response(response));
        self.link = Some(response.link);
        self.tell(cx);
        while self.send(cx) && self.what == What::Truncate {}
    }

    fn refused<'a>(&self, cx: &mut ExecContext<'_>, failure: Failure<'a>) -> Step<'a> {
        let is_untouched = matches!(
            failure.error.code,
            code::UNAVAILABLE | code::OVERLOADED | code::IS_BOOTSTRAPPING
        );
        if !is_untouched && !failure.is_refusal() {
            self.tell(cx);
        }
        Step::Failed(failure)
    }

    /// Layouts of a truncated table are not read until they have been compared.
    fn tell(&self, cx: &mut ExecContext<'_>) {
        if self.what != What::Truncate {
            return;
        }
        let LogicalTable { keyspace, name, .. } = &*self.table;
        let doubts = &cx.engine.shared.features.layouts.doubts;
        doubts.add((keyspace, name), &[None], cx.engine.now);
        let news = News::Truncated(keyspace.clone(), name.clone());
        let output = features::Output::Layouts(news);
        cx.engine.ask(Output::Feature(output));
    }

    fn on_layout(&mut self, cx: &mut ExecContext<'_>, at: usize, outcome: &Outcome<'_>) {
        match outcome {
            Outcome::Answered(response) => {
                self.link = Some(response.link);
                self.send(cx);
            }
            Outcome::Failed(failure) => {
                let why = self.half_done(at, failure.error.message);
                self.failed.get_or_insert(why);
            }
        }
    }

    /// A layout has not followed the table.
    fn half_done(&self, at: usize, why: &str) -> String {
        let LogicalTable { keyspace, name, .. } = &*self.table;
        let copy = at.checked_sub(1).and_then(|at| self.table.copies.get(at));
        let layout = copy.map_or_else(String::new, |copy| qualified(&self.table, copy));
        match self.what {
            What::Truncate => format!(
                "Helenus: {keyspace}.{name} has been truncated, and its layout {layout} has not, which is not read until it \
                 has been compared; repeat the statement: {why}"
            ),
            What::LayoutsFirst | What::DropColumns => format!(
                "Helenus: {keyspace}.{name} has been altered, and its layout {layout} has not, which is not read until it has; \
                 repeat the statement with IF EXISTS behind DROP: {why}"
            ),
        }
    }

    /// Answers once nothing is under way any more.
    fn go_on(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        if !self.sent.is_empty() {
            return Step::Wait;
        }
        self.tell(cx);
        if let Some(text) = &self.failed {
            let code = match self.what {
                What::Truncate => code::TRUNCATE,
                What::LayoutsFirst | What::DropColumns => code::SERVER,
            };
            let error = ErrorBody {
                code,
                message: text,
                fields: &[],
            };
            return Step::Kept(KeptAnswer::of_error(error, cx.engine.snapshot.version()));
        }
        match (self.answer.take(), self.link) {
            (Some(answer), Some(link)) if self.what == What::DropColumns => {
                Step::Agreed(answer, link)
            }
            (Some(answer), _) => Step::Kept(answer),
            (None, _) => Step::Wait,
        }
    }
}

impl Strategy for Carried {
    fn begin(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        if self.what == What::LayoutsFirst {
            return self.send_or_own(cx);
        }
        self.send(cx);
        Step::Wait
    }

    fn on_part<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        part: u16,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        self.sent.retain(|(of, _)| *of != part);
        if self.what == What::LayoutsFirst {
            return match outcome {
                Outcome::Answered(_) => self.send_or_own(cx),
                Outcome::Failed(failure) => Step::Failed(failure),
            };
        }
        match (part, outcome) {
            (0, Outcome::Failed(failure)) => return self.refused(cx, failure),
            (0, Outcome::Answered(response)) => self.follow(cx, &response),
            (at, outcome) => self.on_layout(cx, at.into(), &outcome),
        }
        self.go_on(cx)
    }

    fn whole(&self) -> Option<NodeRequestKey> {
        self.own
    }

    fn children(&self) -> Vec<NodeRequestKey> {
        self.sent.iter().map(|(_, sent)| *sent).collect()
    }

    fn awaits(&self, part: u16, child: NodeRequestKey) -> bool {
        self.sent.contains(&(part, child))
    }

    fn name(&self) -> &'static str {
        "a table and its layouts"
    }
}

/// Until when the next step may be sent: the steps before may have taken longer than a lease. As long as the table has the
/// layouts that it had, they go on under a new one.
fn send_before(cx: &ExecContext<'_>, table: &LogicalTable) -> Option<Instant> {
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

/// A text of the proxy's own in place of the client's request.
fn query_of(cx: &ExecContext<'_>, text: &str, send_before: Option<Instant>) -> Query {
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
