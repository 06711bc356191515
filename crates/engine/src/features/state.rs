//! What features keep in a worker, and what they say.

use std::time::Instant;

use helenus_policy::schedule::Class;

use crate::features::*;
use crate::pipeline::arrival::Arrival;
use crate::pipeline::request::Caller;
use crate::session::answers::NodeAnswer;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;

/// What features keep in a worker.
pub(crate) struct State {
    pub(super) rules: rules::State,
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
            pause: pause::State::default(),
            hedge: hedge::State::new(now),
            prewarm: prewarm::State::default(),
            hot: hot::State::new(seed),
            records: records::State::default(),
        }
    }
}

/// What features keep of a client's connection.
#[derive(Default)]
pub(crate) struct InSession {
    pub(super) rules: rules::InSession,
}

/// What features keep of a client request.
#[derive(Default)]
pub(crate) struct Slot {
    pub(super) rules: rules::Slot,
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

/// A client has been answered.
pub(crate) struct Answered<'a> {
    pub client: Caller,
    /// How long it has waited, in microseconds.
    pub us: u64,
    /// Of its request.
    pub class: Class,
    pub header_flags: u8,
    pub answer: NodeAnswer<'a>,
}

/// A request whose body has been read.
#[derive(Clone, Copy)]
pub(crate) struct Arrived<'a> {
    pub arrival: &'a Arrival<'a>,
    pub analysis: &'a Analysis<'a>,
    /// What it asks, unless that is several statements, or unknown.
    pub statement: Option<&'a Statement>,
}
