//! What features keep in a worker, and what they say.

use std::time::Instant;

use crate::features::*;
use crate::pipeline::arrival::Arrival;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;

/// What features keep in a worker.
pub(crate) struct State {
    pub(super) pause: pause::State,
    pub(super) hedge: hedge::State,
    pub(super) prewarm: prewarm::State,
    pub(super) hot: hot::State,
}

impl State {
    pub(crate) fn new(seed: u64, now: Instant) -> State {
        State {
            pause: pause::State::default(),
            hedge: hedge::State::new(now),
            prewarm: prewarm::State::default(),
            hot: hot::State::new(seed),
        }
    }
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
    /// OVERLOADED, and why.
    Refused(String),
}

/// A request whose body has been read.
pub(crate) struct Arrived<'a> {
    pub arrival: &'a Arrival<'a>,
    pub analysis: &'a Analysis<'a>,
    /// What it asks, unless that is several statements, or unknown.
    pub statement: Option<&'a Statement>,
}
