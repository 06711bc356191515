//! Features: what the core does not need to carry a request to a node and its answer back. Each is one folder here, and
//! lines of its own in the lists below, in the order in which a request meets them; a line is about one feature. The core
//! knows this file only, and features know nothing of each other. `scripts/check-features.py` takes each out, folder and
//! lines, and has the compiler judge the rest.

pub mod capture;
pub mod coalesce;
pub mod encodings;
pub(crate) mod handover;
pub(crate) mod hedge;
pub mod hot;
pub mod layouts;
pub mod lwt_turns;
pub(crate) mod merge;
pub mod pause;
pub(crate) mod prewarm;
pub mod records;
pub mod rules;

mod moments;
mod state;

use std::sync::Arc;
use std::time::Instant;

pub(crate) use self::moments::*;
pub(crate) use self::state::*;
use crate::config::Config;

/// What features keep in a worker, where stations see it too.
#[derive(Default)]
pub(crate) struct InContext {
    capture: capture::State,
}

/// What all workers of a proxy share of features.
pub struct Shared {
    pub rules: rules::Rules,
    pub lwt_turns: lwt_turns::SharedTurns,
    pub pause: pause::Shared,
    prewarm: prewarm::Shared,
    pub hot: hot::HotPartitions,
}

impl Shared {
    pub(crate) fn new(config: &Config, now: Instant) -> Shared {
        Shared {
            rules: rules::Rules::of(&config.rules, now),
            lwt_turns: lwt_turns::SharedTurns::new(&config.aggregation, now),
            pause: pause::Shared::default(),
            prewarm: prewarm::Shared::default(),
            hot: hot::HotPartitions::default(),
        }
    }

    /// These settings are in force. Workers have to be told.
    pub(crate) fn adopt(&self, config: &Config, now: Instant) {
        self.rules.publish(&config.rules, now);
        self.lwt_turns.adopt(&config.aggregation);
    }

    /// A worker has ended.
    pub(crate) fn on_worker_ended(&self, worker: usize) {
        self.hot.forget_worker(worker);
    }
}

/// What the snapshot says of features.
#[derive(Clone, Debug, Default)]
pub struct InSnapshot {
    pub encodings: Arc<encodings::Encodings>,
    pub layouts: Arc<layouts::Layouts>,
}

/// What features count by name.
#[derive(Debug, Default)]
pub struct InStats {
    pub layouts: layouts::Counted,
}

/// What others tell a worker about features.
#[derive(Clone, Debug)]
pub enum Message {
    LwtTurns(lwt_turns::Granted),
    Pause(pause::Changed),
    Capture(capture::Message),
}

/// What features want to have done outside of the engine.
pub enum Output {
    Captured(capture::Captured),
    Traced(Box<records::RequestTrace>),
}

/// What somebody may want to know of a worker.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    Records(records::Wanted),
}

/// What a worker says to that.
#[derive(Debug)]
pub enum Report {
    Records(records::Report),
}
