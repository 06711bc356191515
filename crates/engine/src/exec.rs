//! How a client request is carried out by node requests: small state machines, all of one signature. A
//! response goes in, and what is next comes out ([`Step`]). They send nothing themselves: the node
//! requests that they make are routed by the engine, when the step has been taken.

pub(crate) mod attempt_end;
pub(crate) mod context;
pub(crate) mod outcome;
pub(crate) mod retry;
pub mod scan;
pub(crate) mod strategy;

use helenus_policy::schedule::Class;

use crate::exec::context::ExecContext;
use crate::exec::outcome::{Outcome, Step};
use crate::exec::scan::multi_get::{MultiGet, Spread};
use crate::exec::strategy::Strategy;
use crate::keys::NodeRequestKey;
use crate::pipeline::node_request::{Form, Prediction, Target};
use crate::statement::learned::Learned;

/// How one client request is carried out. The most frequent forms are told apart without a dynamic call.
#[derive(Debug)]
pub(crate) struct Execution(State);

#[derive(Debug)]
enum State {
    /// As it came, by one node request; `None` before that.
    Single(Option<NodeRequestKey>),
    /// A read as it came, by two node requests: the first to be answered counts.
    Hedged {
        first: NodeRequestKey,
        second: NodeRequestKey,
    },
    /// By several node requests.
    By(Box<dyn Strategy>),
    /// It has been carried out, and its answer waits until the nodes agree on the schema.
    Held,
}

/// The one of two attempts that is not needed any more.
pub(crate) struct Beaten {
    pub attempt: NodeRequestKey,
    /// It was the first of the two.
    pub is_first: bool,
}

impl Execution {
    /// As it came, by one node request that has not been made yet.
    #[inline]
    pub(crate) fn as_it_came() -> Execution {
        Execution(State::Single(None))
    }

    pub(crate) fn by(strategy: impl Strategy + 'static) -> Execution {
        Execution(State::By(Box::new(strategy)))
    }

    /// Sends what comes first.
    pub(crate) fn begin(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        match &mut self.0 {
            State::Single(None) if cx.query.class == Class::Multi => match MultiGet::begin(cx) {
                Spread::No => self.send_whole(cx),
                Spread::OneNode(node) => self.send_to(cx, Target::At(node)),
                Spread::Nodes(multi_get) => {
                    self.0 = State::By(multi_get);
                    Step::Wait
                }
            },
            State::Single(None) => self.send_whole(cx),
            State::By(strategy) => strategy.begin(cx),
            State::Single(Some(_)) | State::Hedged { .. } | State::Held => Step::Wait,
        }
    }

    /// Takes in what became of one of its node requests: of its part of that number, if it was one.
    pub(crate) fn on_outcome<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        part: Option<u16>,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        let State::By(strategy) = &mut self.0 else {
            return outcome.unchanged();
        };
        let step = match part {
            Some(part) => strategy.on_part(cx, part, outcome),
            None => strategy.on_whole(cx, outcome),
        };
        match step {
            Step::Whole => self.send_whole(cx),
            step => step,
        }
    }

    /// The statement that it had asked the nodes to prepare is prepared by now, or was refused.
    pub(crate) fn on_range_settled(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        match &mut self.0 {
            State::By(strategy) => strategy.on_range_settled(cx),
            _ => Step::Wait,
        }
    }

    fn send_whole(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        self.send_to(cx, cx.target.clone())
    }

    fn send_to(&mut self, cx: &mut ExecContext<'_>, target: Target) -> Step<'static> {
        let is_known = cx.learned().is_none_or(Learned::has_answers);
        let work = match cx.query.class {
            Class::Scan if !is_known => cx.whole_scan(None),
            _ => Prediction::Learned,
        };
        let sent = cx.send_whole(Form::Own, work, target);
        self.sent(sent);
        Step::Wait
    }

    /// This node request carries it out as it came.
    #[inline]
    pub(crate) fn sent(&mut self, whole: NodeRequestKey) {
        self.0 = State::Single(Some(whole));
    }

    /// It is carried out again, as it came.
    pub(crate) fn restart(&mut self) {
        *self = Execution::as_it_came();
    }

    /// It has been carried out; its answer waits for something else.
    pub(crate) fn hold(&mut self) {
        self.0 = State::Held;
    }

    pub(crate) fn is_held(&self) -> bool {
        matches!(self.0, State::Held)
    }

    /// True if it is to be carried out as it came, and has no node request yet.
    #[inline]
    pub(crate) fn has_not_begun(&self) -> bool {
        matches!(self.0, State::Single(None))
    }

    /// True if it is carried out as it came, by one node request.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        matches!(self.0, State::Single(_))
    }

    /// True if it is carried out as it came, by this node request alone.
    pub(crate) fn is_by(&self, whole: NodeRequestKey) -> bool {
        matches!(self.0, State::Single(Some(of)) if of == whole)
    }

    /// A second node request for the whole is under way beside the first.
    pub(crate) fn hedge_with(&mut self, second: NodeRequestKey) {
        if let State::Single(Some(first)) = self.0 {
            self.0 = State::Hedged { first, second };
        } else {
            debug_assert!(false, "a second attempt beside none");
        }
    }

    /// This one of two attempts counts: the other, if there are two.
    #[inline]
    pub(crate) fn settle_on(&mut self, attempt: NodeRequestKey) -> Option<Beaten> {
        let State::Hedged { first, second } = self.0 else {
            return None;
        };
        self.sent(attempt);
        let is_first = attempt == second;
        let attempt = if is_first { first } else { second };
        Some(Beaten { attempt, is_first })
    }

    /// One of two attempts has come to nothing; true if the other goes on without it.
    pub(crate) fn goes_on_without(&mut self, attempt: NodeRequestKey) -> bool {
        let State::Hedged { first, second } = self.0 else {
            return false;
        };
        self.sent(if attempt == first { second } else { first });
        true
    }

    /// The node request that it waits for, if it is one alone.
    #[inline]
    pub(crate) fn whole(&self) -> Option<NodeRequestKey> {
        match &self.0 {
            State::Single(whole) => *whole,
            State::Hedged { first, .. } => Some(*first),
            State::By(strategy) => strategy.whole(),
            State::Held => None,
        }
    }

    /// The node requests for the whole.
    #[inline]
    pub(crate) fn wholes(&self) -> impl Iterator<Item = NodeRequestKey> + use<> {
        let second = match &self.0 {
            State::Hedged { second, .. } => Some(*second),
            _ => None,
        };
        [self.whole(), second].into_iter().flatten()
    }

    /// True if it has two node requests for the whole.
    pub(crate) fn is_hedged(&self) -> bool {
        matches!(self.0, State::Hedged { .. })
    }

    fn strategy(&self) -> Option<&dyn Strategy> {
        match &self.0 {
            State::By(strategy) => Some(&**strategy),
            State::Single(_) | State::Hedged { .. } | State::Held => None,
        }
    }

    /// True if parts are under way in place of the whole.
    pub(crate) fn is_in_parts(&self) -> bool {
        self.strategy().is_some_and(Strategy::is_in_parts)
    }

    /// The node requests for its parts that have not been answered.
    #[inline(always)]
    pub(crate) fn children(&self) -> Vec<NodeRequestKey> {
        self.strategy().map_or_else(Vec::new, Strategy::children)
    }

    /// Its client is answered now, whatever its node requests come to.
    pub(crate) fn on_cut_short(&mut self, cx: &mut ExecContext<'_>) {
        if let State::By(strategy) = &mut self.0 {
            strategy.on_cut_short(cx);
        }
    }

    /// How often its part of that number has been halved.
    pub(crate) fn halved(&self, part: u16) -> u8 {
        self.strategy().map_or(0, |of| of.halved(part))
    }

    /// True if it waits for this node request as for its part of that number.
    pub(crate) fn awaits(&self, part: u16, child: NodeRequestKey) -> bool {
        self.strategy().is_some_and(|of| of.awaits(part, child))
    }

    /// True if it is a page of a scan, which any number of node requests may go to.
    pub(crate) fn is_page(&self) -> bool {
        self.strategy().is_some_and(Strategy::is_page)
    }

    /// True if a page of it has been read already.
    pub(crate) fn has_rows(&self) -> bool {
        self.strategy().is_some_and(Strategy::has_rows)
    }

    /// Its name for people.
    pub(crate) fn name(&self) -> &'static str {
        match &self.0 {
            State::Single(_) => "whole",
            State::Hedged { .. } => "hedged",
            State::By(strategy) => strategy.name(),
            State::Held => "schema change",
        }
    }

    /// Bytes of answers that are kept.
    #[inline]
    pub(crate) fn byte_len(&self) -> usize {
        self.strategy().map_or(0, Strategy::byte_len)
    }

    /// A read as it came has timed out.
    pub(crate) fn note_timeout(&self, learned: &Learned) {
        if let Some(strategy) = self.strategy() {
            strategy.note_timeout(learned);
        }
    }
}
