//! Features: what the core does not need to carry a request to a node and its answer back. Each is one folder here, and
//! lines of its own in the lists below, in the order in which a request meets them; a line is about one feature. The core
//! knows this file only, and features know nothing of each other. `scripts/check-features.py` takes each out, folder and
//! lines, and has the compiler judge the rest.

pub mod capture;
pub mod coalesce;
pub mod encodings;
pub mod explain;
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
pub(crate) mod trace;

use helenus_wire::Opcode;

use crate::context::Context;
use crate::engine::Engine;
use crate::keys::SessionKey;
use crate::pipeline::arrival::Arrival;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;

/// What features keep in a worker.
pub(crate) struct State {
    hot: hot::State,
}

impl State {
    pub(crate) fn new(seed: u64) -> State {
        State {
            hot: hot::State::new(seed),
        }
    }
}

/// What features keep in a worker, where stations see it too.
#[derive(Default)]
pub(crate) struct InContext {
    capture: capture::State,
}

/// What all workers of a proxy share of features.
#[derive(Default)]
pub struct Shared {
    pub hot: hot::HotPartitions,
}

impl Shared {
    /// A worker has ended.
    pub(crate) fn on_worker_ended(&self, worker: usize) {
        self.hot.forget_worker(worker);
    }
}

/// What others tell a worker about features.
#[derive(Clone, Debug)]
pub enum Message {
    Capture(capture::Message),
}

/// What features want to have done outside of the engine.
pub enum Output {
    Captured(capture::Captured),
}

/// A request whose body has been read.
pub(crate) struct Arrived<'a> {
    pub arrival: &'a Arrival<'a>,
    pub analysis: &'a Analysis<'a>,
    /// What it asks, unless that is several statements, or unknown.
    pub statement: Option<&'a Statement>,
}

/// A request has been read.
#[inline]
pub(crate) fn on_read(engine: &mut Engine, arrival: &Arrival<'_>, analysis: &Analysis<'_>) {
    capture::on_read(engine, arrival, analysis);
}

/// A request goes on, by itself or (`joins`) with the answer of another. It is the last one that was analyzed.
#[inline]
pub(crate) fn on_shared(engine: &mut Engine, request: &Arrived<'_>, joins: bool) {
    hot::on_shared(engine, request, joins);
}

/// Whether the reads of the partition with this token go to all of its replicas.
#[inline]
pub(crate) fn spreads(state: &State, token: i64) -> bool {
    let mut spreads = false;
    spreads |= hot::spreads(&state.hot, token);
    spreads
}

/// A client is sent an answer, with this body.
#[inline]
pub(crate) fn on_sent(
    cx: &mut Context,
    client: (SessionKey, i16),
    opcode: Opcode,
    header_flags: u8,
    body: &[u8],
) {
    capture::on_sent(cx, client, opcode, header_flags, body);
}

/// What others tell this worker.
pub(crate) fn on_message(engine: &mut Engine, message: Message) {
    match message {
        Message::Capture(wanted) => capture::on_message(engine, wanted),
    }
}

/// Every tick, once what is late has been given up.
pub(crate) fn on_tick(engine: &mut Engine) {
    hot::on_tick(engine);
    capture::on_tick(engine);
}
