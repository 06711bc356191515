//! What features keep in a worker, and what they say.

use std::time::Instant;

use crate::exec::context::Surroundings;
use crate::exec::outcome::{Outcome, Step};
use crate::features::*;
use crate::keys::NodeRequestKey;
use crate::pipeline::arrival::Arrival;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;

/// What features keep in a worker.
pub(crate) struct State {
    pub(super) rules: rules::State,
    pub(super) encodings: encodings::State,
    pub(super) pause: pause::State,
    pub(super) hedge: hedge::State,
    pub(super) prewarm: prewarm::State,
    pub(super) hot: hot::State,
    pub(super) records: records::State,
}

impl State {
    pub(crate) fn new(seed: u64, now: Instant) -> State {
        State {
            rules: rules::State::default(),
            encodings: encodings::State::default(),
            pause: pause::State::default(),
            hedge: hedge::State::new(now),
            prewarm: prewarm::State::default(),
            hot: hot::State::new(seed),
            records: records::State::default(),
        }
    }
}

/// What features keep with a statement.
#[derive(Debug, Default)]
pub(crate) struct InStatement {
    pub(super) encodings: encodings::InStatement,
    pub(super) layouts: layouts::InStatement,
}

/// What features keep of a client's connection.
#[derive(Default)]
pub(crate) struct InSession {
    pub(super) rules: rules::InSession,
}

/// What features keep of a client's request.
#[derive(Default)]
pub(crate) struct Slot {
    pub(super) rules: rules::Slot,
    pub(super) encodings: encodings::InRequest,
    pub(super) layouts: layouts::InRequest,
    pub(super) records: records::Slot,
}

/// What an event leaves to be done by features.
#[derive(Debug)]
pub(crate) enum Work {
    /// A request that has waited for the end of a pause goes on.
    Pause(Box<pause::HeldRequest>),
    /// The lessons of a node that has joined go on.
    Prewarm(prewarm::Work),
}

/// What a feature says of a request.
pub(crate) enum Verdict {
    GoOn,
    /// It will come back.
    Waits,
    /// It has been answered.
    Answered,
    /// OVERLOADED, and why.
    Refused(String),
    /// Another body is carried out in place of its own.
    Instead(Vec<u8>),
}

/// A request whose body has been read.
#[derive(Clone, Copy)]
pub(crate) struct Arrived<'a> {
    pub arrival: &'a Arrival<'a>,
    pub analysis: &'a Analysis<'a>,
    /// What it asks, unless that is several statements, or unknown.
    pub statement: Option<&'a Statement>,
}

/// How a client request is carried out in a way of a feature's own: see [`crate::exec::Execution`].
#[derive(Debug)]
pub(crate) enum Execution {
    Layouts(Box<layouts::InSequence>),
}

impl Execution {
    pub(crate) fn begin(&mut self, around: &mut Surroundings<'_>) -> Step<'static> {
        match *self {
            Execution::Layouts(ref mut of) => layouts::InSequence::send(of, around),
        }
    }

    pub(crate) fn on_part<'a>(
        &mut self,
        around: &mut Surroundings<'_>,
        of: Outcome<'a>,
    ) -> Step<'a> {
        match *self {
            Execution::Layouts(ref mut to) => layouts::InSequence::on_layout(to, around, of),
        }
    }

    pub(crate) fn whole(&self) -> Option<NodeRequestKey> {
        match *self {
            Execution::Layouts(ref of) => layouts::InSequence::whole(of),
        }
    }

    pub(crate) fn children(&self) -> Vec<NodeRequestKey> {
        match *self {
            Execution::Layouts(ref of) => layouts::InSequence::children(of),
        }
    }

    pub(crate) fn awaits(&self, part: u16, child: NodeRequestKey) -> bool {
        match *self {
            Execution::Layouts(ref of) => layouts::InSequence::awaits(of, part, child),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match *self {
            Execution::Layouts(ref of) => layouts::InSequence::name(of),
        }
    }
}
