//! A write of a table and its derived layouts, all side by side.
//!
//! While the table refuses writes, the layouts follow once it has taken one: what it has refused is not in them then.

use std::sync::Arc;

use helenus_layout::plan::LogicalTable;
use helenus_policy::schedule::Class;
use helenus_wire::{Consistency, ErrorBody, Version, code};

use crate::exec::context::ExecContext;
use crate::exec::outcome::{FailedBy, Failure, KeptAnswer, Outcome, Step};
use crate::exec::strategy::Strategy;
use crate::features;
use crate::features::layouts::derived::news::{Doubted, Missed, Output as OfLayouts};
use crate::features::layouts::derived::parts::Part;
use crate::keys::NodeRequestKey;
use crate::output::Output;
use crate::pipeline::fail::timed_out::timed_out;
use crate::pipeline::node_request::{Form, Prediction, Target};
use crate::pipeline::query::Query;
use crate::pipeline::retry::resendable::Resendable;
use crate::stats::add;

/// How often a layout's request is sent, to another node each time.
const ATTEMPTS_MAX: u8 = 3;

#[derive(Debug)]
pub(crate) struct FollowedWrite {
    state: State,
    table: OfTable,
    layouts: Vec<OfLayout>,
    written: Partitions,
    /// What its client will hear, once nothing is under way.
    answer: Option<KeptAnswer>,
    /// Tables whose layouts cannot be told exactly, and are compared with them.
    compared: Vec<Arc<LogicalTable>>,
    /// Bytes that it holds, as far as they are counted.
    counted: usize,
}

/// The partitions with layouts that are written.
#[derive(Debug)]
pub(crate) struct Partitions {
    /// Their tokens, where these are known.
    pub tokens: Vec<Option<i64>>,
    /// Nodes carry out all of the write in the table's keyspace, or none of it.
    pub is_one_mutation: bool,
}

impl Partitions {
    /// Those of one statement; `None` if it may be about several.
    pub(crate) fn of_one(token: Option<i64>) -> Partitions {
        Partitions {
            tokens: vec![token],
            is_one_mutation: token.is_some(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Made,
    Table(NodeRequestKey),
    Layouts,
}

/// What is known of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfTable {
    Unknown,
    HasIt,
    MayHaveIt,
    Refused,
}

#[derive(Debug)]
struct OfLayout {
    part: Part,
    sent: Option<NodeRequestKey>,
    attempts: u8,
    not_taken: Option<NotTaken>,
    /// A node may have it.
    may_have_it: bool,
}

impl OfLayout {
    /// Nothing is under way to it, and no node can have it.
    fn is_untouched(&self) -> bool {
        self.sent.is_none() && !self.may_have_it
    }
}

/// Why no coordinator has taken what is for a layout.
#[derive(Debug)]
struct NotTaken {
    why: String,
    /// Others will be taken: what is missed is these partitions.
    may_pass: bool,
    /// Where the next attempt goes; `None`: to its owners.
    next: Option<Target>,
}

impl FollowedWrite {
    pub(crate) fn new(
        parts: Vec<Part>,
        mut written: Partitions,
        compared: Vec<Arc<LogicalTable>>,
    ) -> FollowedWrite {
        written.tokens.sort_unstable();
        written.tokens.dedup();
        let of_layout = |part| OfLayout {
            part,
            sent: None,
            attempts: 0,
            not_taken: None,
            may_have_it: false,
        };
        FollowedWrite {
            state: State::Made,
            table: OfTable::Unknown,
            layouts: parts.into_iter().map(of_layout).collect(),
            written,
            answer: None,
            compared,
            counted: 0,
        }
    }

    fn count(&mut self, cx: &ExecContext<'_>, bytes: usize) {
        cx.memory().add(bytes);
        self.counted += bytes;
    }

    /// Whether something may have been written nevertheless.
    fn leaves_open(&self, failure: &Failure<'_>) -> bool {
        if failure.in_doubt {
            return true;
        }
        match failure.error.code {
            code::WRITE_TIMEOUT
            | code::WRITE_FAILURE
            | code::CDC_WRITE_FAILURE
            | code::CAS_WRITE_UNKNOWN
            | code::SERVER => true,
            // It may have completed a conditional write.
            code::READ_TIMEOUT | code::READ_FAILURE => !self.compared.is_empty(),
            // Of several partitions some may have been written before; and what is compared may have completed an
            // earlier conditional write.
            _ if failure.by != FailedBy::Proxy && !failure.is_refusal() => {
                !self.written.is_one_mutation || !self.compared.is_empty()
            }
            _ => false,
        }
    }

    /// What has become of the table is known. Unless it has refused, layouts that were not asked are asked now.
    fn on_table(
        &mut self,
        cx: &mut ExecContext<'_>,
        table: OfTable,
        answer: KeptAnswer,
    ) -> Step<'static> {
        self.count(cx, answer.body.len());
        self.answer = Some(answer);
        self.table = table;
        self.state = State::Layouts;
        self.go_on(cx)
    }

    /// Sends what is for the layouts that were not asked yet, or whose node has not taken it and another one may.
    fn send_what_is_left(&mut self, cx: &mut ExecContext<'_>) {
        for at in 0..self.layouts.len() {
            let of = &mut self.layouts[at];
            if of.sent.is_some() || of.attempts >= ATTEMPTS_MAX {
                continue;
            }
            match of.not_taken.take() {
                Some(not_taken) => self.send(cx, at, not_taken.next),
                None if of.attempts == 0 => self.send(cx, at, None),
                None => {}
            }
        }
    }

    /// The table has refused: what no node has had yet is sent to no layout.
    fn withhold_unsent(&mut self, cx: &mut ExecContext<'_>) {
        for of in &mut self.layouts {
            if let Some(child) = of.sent.filter(|child| cx.is_unsent(*child)) {
                cx.todo.cancel.push(child);
                of.sent = None;
            }
        }
    }

    /// Sends what is for a layout, to its owners first or as a target says.
    fn send(&mut self, cx: &mut ExecContext<'_>, at: usize, target: Option<Target>) {
        let Some(of) = self.layouts.get_mut(at) else {
            return;
        };
        of.attempts += 1;
        let own = cx.query;
        let prepared = of.part.prepared.clone();
        let query = Query {
            pool: own.pool,
            class: Class::Write,
            // It has a timestamp of its own, and lists are written as a whole.
            resendable: Resendable::Always,
            consistency: Consistency::ANY,
            keyspace: of.part.keyspace.clone(),
            table: own.table.clone(),
            statement: prepared.as_ref().map(|of| of.statement.clone()),
            prepared,
            // By then who changes the catalogue relies on it; what the table has is sent all the same.
            send_before: match self.table {
                OfTable::Unknown => own.send_before,
                _ => None,
            },
            ..Query::new(of.part.opcode, own.version, of.part.body.clone())
        };
        let part = u16::try_from(at).unwrap_or(u16::MAX);
        let target = target.unwrap_or_else(|| of.part.target.clone());
        of.sent = Some(cx.send_part(part, query, Prediction::Learned, target));
    }

    /// No coordinator has taken what is for a layout. What one does not know, of schema or rights, the next one may.
    fn on_not_taken(&mut self, at: usize, failure: &Failure<'_>) {
        let leaves_open = self.leaves_open(failure);
        let Some(of) = self.layouts.get_mut(at) else {
            return;
        };
        of.may_have_it |= leaves_open;
        let untried = failure.untried.filter(|plan| !plan.is_empty());
        of.not_taken = Some(NotTaken {
            why: failure.error.message.to_owned(),
            may_pass: !failure.is_refusal(),
            next: untried.map(Target::Planned),
        });
    }

    /// Answers once nothing is under way any more.
    fn go_on(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        match self.table {
            OfTable::Unknown => return Step::Wait,
            OfTable::HasIt | OfTable::MayHaveIt => self.send_what_is_left(cx),
            OfTable::Refused => {}
        }
        if self.layouts.iter().any(|of| of.sent.is_some()) {
            return Step::Wait;
        }
        let Some(answer) = self.answer.take() else {
            return Step::Wait;
        };
        self.doubt(cx);
        let missed = match self.table {
            OfTable::Refused => None,
            _ => self.miss(cx),
        };
        match missed {
            Some(text) if self.table == OfTable::HasIt => Step::Kept(unknown(cx, &text)),
            // Its client hears already that nobody knows.
            Some(_) | None => Step::Kept(answer),
        }
    }

    /// Somebody is to compare its partitions with the table. Until then the table is read.
    fn doubt(&self, cx: &mut ExecContext<'_>) {
        let tables = self.doubted_tables();
        if tables.is_empty() {
            return;
        }
        let doubts = &cx.engine.shared.features.layouts.doubts;
        add(&cx.engine.shared.stats.global.layout_writes_doubted, 1);
        if self.table == OfTable::Refused {
            doubts.note_refusal(cx.engine.now);
        }
        for table in tables {
            let doubts = &cx.engine.shared.features.layouts.doubts;
            doubts.add((&table.0, &table.1), &self.written.tokens, cx.engine.now);
            let doubted = Doubted {
                table,
                tokens: self.written.tokens.clone(),
            };
            let output = features::Output::Layouts(OfLayouts::Doubted(doubted));
            cx.engine.ask(Output::Feature(output));
        }
    }

    /// Keyspace and name of the tables that may have something else than their layouts.
    fn doubted_tables(&self) -> Vec<(String, String)> {
        let differs = |of: &&OfLayout| match self.table {
            OfTable::Unknown | OfTable::MayHaveIt => true,
            OfTable::HasIt => of.not_taken.as_ref().is_some_and(|of| of.may_pass),
            OfTable::Refused => of.may_have_it,
        };
        let in_doubt = self.layouts.iter().filter(differs);
        let in_doubt = in_doubt.flat_map(|of| &of.part.tables);
        let compared = self.compared.iter();
        let tables = in_doubt.chain(compared.filter(|_| self.table != OfTable::Refused));
        let mut names: Vec<_> = tables
            .map(|table| (table.keyspace.clone(), table.name.clone()))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Tells of layouts that no coordinator has taken it for; what its client hears then.
    fn miss(&self, cx: &mut ExecContext<'_>) -> Option<String> {
        let mut text = None;
        for of in &self.layouts {
            let Some(NotTaken { why, may_pass, .. }) = &of.not_taken else {
                continue;
            };
            for (keyspace, physical) in of.part.layouts() {
                add(&cx.engine.shared.stats.global.layout_writes_missed, 1);
                text.get_or_insert_with(|| {
                    format!(
                        "Helenus: the table has this write, and no node has taken it for its layout \
                         {keyspace}.{physical}, which is not read there until it has been compared: {why}"
                    )
                });
                if *may_pass {
                    continue;
                }
                let missed = Missed {
                    keyspace: keyspace.to_owned(),
                    physical: physical.to_owned(),
                    why: why.clone(),
                };
                let output = features::Output::Layouts(OfLayouts::Missed(missed));
                cx.engine.ask(Output::Feature(output));
            }
        }
        text
    }
}

/// The answer that nobody knows what has become of the write.
fn unknown(cx: &ExecContext<'_>, text: &str) -> KeptAnswer {
    let newest = cx.query.version == Version::V5;
    let (code, fields) = timed_out(cx.query, newest);
    let error = ErrorBody {
        code,
        message: text,
        fields: &fields,
    };
    KeptAnswer::of_error(error, cx.engine.snapshot.version())
}

impl Strategy for FollowedWrite {
    fn begin(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        let bytes = self.layouts.iter().map(|of| of.part.body.len()).sum();
        self.count(cx, bytes);
        let target = cx.target.clone();
        let table = cx.send_whole(Form::Own, Prediction::Learned, target);
        self.state = State::Table(table);
        let doubts = &cx.engine.shared.features.layouts.doubts;
        if !doubts.is_refused_lately(cx.engine.now) {
            self.send_what_is_left(cx);
        }
        Step::Wait
    }

    fn on_whole<'a>(&mut self, cx: &mut ExecContext<'_>, outcome: Outcome<'a>) -> Step<'a> {
        let failure = match outcome {
            Outcome::Answered(response) => {
                return self.on_table(cx, OfTable::HasIt, KeptAnswer::of_response(&response));
            }
            Outcome::Failed(failure) => failure,
        };
        let table = match self.leaves_open(&failure) {
            true => OfTable::MayHaveIt,
            false => OfTable::Refused,
        };
        if table == OfTable::Refused {
            if !failure.is_refusal() {
                let doubts = &cx.engine.shared.features.layouts.doubts;
                doubts.note_refusal(cx.engine.now);
            }
            self.withhold_unsent(cx);
            if self.layouts.iter().all(OfLayout::is_untouched) {
                return Outcome::Failed(failure).unchanged();
            }
        }
        let answer = KeptAnswer::of_failure(&failure, cx.engine.snapshot.version());
        self.on_table(cx, table, answer)
    }

    fn on_part<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        part: u16,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        let at = usize::from(part);
        if let Some(of) = self.layouts.get_mut(at) {
            of.sent = None;
            of.may_have_it |= matches!(outcome, Outcome::Answered(_));
        }
        if let Outcome::Failed(failure) = &outcome {
            self.on_not_taken(at, failure);
        }
        self.go_on(cx)
    }

    fn on_cut_short(&mut self, cx: &mut ExecContext<'_>) {
        let is_unsent = |child: Option<NodeRequestKey>| match child {
            Some(child) => cx.is_unsent(child),
            None => true,
        };
        let is_nowhere = self.table == OfTable::Unknown
            && is_unsent(self.whole())
            && self
                .layouts
                .iter()
                .all(|of| is_unsent(of.sent) && !of.may_have_it);
        if !is_nowhere {
            self.table = OfTable::MayHaveIt;
            self.doubt(cx);
        }
    }

    fn whole(&self) -> Option<NodeRequestKey> {
        match self.state {
            State::Table(key) => Some(key),
            State::Made | State::Layouts => None,
        }
    }

    fn children(&self) -> Vec<NodeRequestKey> {
        self.layouts.iter().filter_map(|of| of.sent).collect()
    }

    fn awaits(&self, part: u16, child: NodeRequestKey) -> bool {
        let of = self.layouts.get(usize::from(part));
        of.is_some_and(|of| of.sent == Some(child))
    }

    fn name(&self) -> &'static str {
        "a write that layouts follow"
    }

    fn byte_len(&self) -> usize {
        self.counted
    }
}
