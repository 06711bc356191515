//! Features: what the core does not need to carry a request to a node and its answer back. Each is one folder here, and
//! lines of its own in the lists below, in the order in which a request meets them; a line is about one feature. The core
//! knows this file only, and features know nothing of each other. `scripts/check-features.py` takes each out, folder and
//! lines, and has the compiler judge the rest.

pub mod capture;
pub mod coalesce;
pub mod encodings;
pub mod handover;
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

/// State of features in a worker that stations see too.
#[derive(Default)]
pub(crate) struct InContext {
    capture: capture::State,
}

/// State of features that all workers of a proxy share.
pub struct Shared {
    pub rules: rules::Rules,
    pub lwt_turns: lwt_turns::SharedTurns,
    pub pause: pause::Shared,
    prewarm: prewarm::Shared,
    pub hot: hot::HotPartitions,
    pub layouts: layouts::Shared,
}

impl Shared {
    pub(crate) fn new(config: &Config, now: Instant) -> Shared {
        Shared {
            rules: rules::Rules::of(&config.rules, now),
            lwt_turns: lwt_turns::SharedTurns::new(&config.aggregation, now),
            pause: pause::Shared::default(),
            prewarm: prewarm::Shared::default(),
            hot: hot::HotPartitions::default(),
            layouts: layouts::Shared::new(now),
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

/// Features' part of the snapshot.
#[derive(Clone, Debug, Default)]
pub struct InSnapshot {
    pub encodings: Arc<encodings::Encodings>,
    pub layouts: Arc<layouts::Layouts>,
}

/// Features' counters, by name.
#[derive(Debug, Default)]
pub struct InStats {
    pub layouts: layouts::Counted,
}

/// A message to a worker about features.
#[derive(Clone, Debug)]
pub enum Message {
    LwtTurns(lwt_turns::Granted),
    Pause(pause::Changed),
    Capture(capture::Message),
}

/// Work that features want done outside of the engine.
pub enum Output {
    Captured(capture::Captured),
    Traced(Box<records::RequestTrace>),
    Layouts(layouts::Output),
}

/// A question about a worker that features answer.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    Records(records::Wanted),
}

/// A worker's answer to [`Wanted`].
#[derive(Debug)]
pub enum Report {
    Records(records::Report),
}
