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

use helenus_policy::schedule::Class;
use helenus_wire::Opcode;

use std::time::{Duration, Instant};

use crate::config::Config;
use crate::context::Context;
use crate::engine::Engine;
use crate::keys::{ClientRequestKey, NodeRequestKey, SessionKey};
use crate::pipeline::arrival::Arrival;
use crate::pipeline::attempt_end::AttemptEnd;
use crate::pipeline::request::Caller;
use crate::session::answers::NodeAnswer;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;

/// What features keep in a worker.
pub(crate) struct State {
    rules: rules::State,
    hot: hot::State,
    records: records::State,
}

impl State {
    pub(crate) fn new(seed: u64) -> State {
        State {
            rules: rules::State::default(),
            hot: hot::State::new(seed),
            records: records::State::default(),
        }
    }
}

/// What features keep in a worker, where stations see it too.
#[derive(Default)]
pub(crate) struct InContext {
    capture: capture::State,
}

/// What all workers of a proxy share of features.
pub struct Shared {
    pub rules: rules::Rules,
    pub hot: hot::HotPartitions,
}

impl Shared {
    pub(crate) fn new(config: &Config, now: Instant) -> Shared {
        Shared {
            rules: rules::Rules::of(&config.rules, now),
            hot: hot::HotPartitions::default(),
        }
    }

    /// These settings are in force. Workers have to be told.
    pub(crate) fn adopt(&self, config: &Config, now: Instant) {
        self.rules.publish(&config.rules, now);
    }

    /// A worker has ended.
    pub(crate) fn on_worker_ended(&self, worker: usize) {
        self.hot.forget_worker(worker);
    }
}

/// What features keep of a client's connection.
#[derive(Default)]
pub(crate) struct InSession {
    rules: rules::InSession,
}

/// What features keep of a client request.
#[derive(Default)]
pub(crate) struct Slot {
    rules: rules::Slot,
    records: records::Slot,
}

/// What others tell a worker about features.
#[derive(Clone, Debug)]
pub enum Message {
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

/// Whether a request goes on.
pub(crate) type Verdict = Result<(), Stop>;

/// Why it does not.
pub(crate) enum Stop {
    /// It has been answered.
    Answered,
    /// Another body is carried out in place of the client's.
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

/// A request has been read.
#[inline]
pub(crate) fn on_read(engine: &mut Engine, arrival: &Arrival<'_>, analysis: &Analysis<'_>) {
    capture::on_read(engine, arrival, analysis);
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

/// Settings are in force: from the start on, or others.
pub(crate) fn on_settings(engine: &mut Engine) {
    rules::on_settings(engine);
    records::on_settings(engine);
}

/// A snapshot is in force.
pub(crate) fn on_snapshot(engine: &mut Engine) {
    rules::on_snapshot(engine);
}

/// The proxy does not answer a request itself.
#[inline]
pub(crate) fn on_taken_in(engine: &mut Engine, request: &Arrived<'_>, slot: &mut Slot) -> Verdict {
    rules::on_taken_in(engine, request, &mut slot.rules)?;
    Ok(())
}

/// Whether a request shares nothing with others.
#[inline]
pub(crate) fn goes_alone(slot: &Slot) -> bool {
    let mut goes_alone = false;
    goes_alone |= rules::goes_alone(&slot.rules);
    goes_alone
}

/// A request goes on, by itself or (`joins`) with the answer of another. It is the last one that was analyzed.
#[inline]
pub(crate) fn on_shared(engine: &mut Engine, request: &Arrived<'_>, joins: bool) {
    hot::on_shared(engine, request, joins);
}

/// A read gets the answer of this request.
#[inline]
pub(crate) fn on_joined(engine: &mut Engine, key: ClientRequestKey, mut slot: Slot) {
    rules::on_joined(engine, key, &mut slot.rules);
}

/// A request is refused, with this code and text.
pub(crate) fn on_refused(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    statement: Option<&Statement>,
    error: (i32, &str),
) {
    records::on_refused(engine, arrival, statement, error);
}

/// A node request has left a node, or will not go to one, after this time at it.
#[inline]
pub(crate) fn on_attempt(engine: &mut Engine, key: NodeRequestKey, us: u64, end: AttemptEnd) {
    records::on_attempt(engine, key, us, end);
}

/// Why a request of this age is given up, if it is.
#[inline]
pub(crate) fn why_late(slot: &Slot, age: Duration) -> Option<String> {
    let mut why = None;
    why = why.or_else(|| rules::why_late(&slot.rules, age));
    why
}

/// Whether the reads of the partition with this token go to all of its replicas.
#[inline]
pub(crate) fn spreads(state: &State, token: i64) -> bool {
    let mut spreads = false;
    spreads |= hot::spreads(&state.hot, token);
    spreads
}

/// The answer to a request is there, of so many bytes.
#[inline]
pub(crate) fn on_reply(slot: &Slot, bytes: usize, now: Instant) {
    rules::on_reply(&slot.rules, bytes, now);
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

/// A client has been answered, and this answer stands for others too.
#[inline]
pub(crate) fn on_sampled(engine: &mut Engine, key: ClientRequestKey, of: &Answered<'_>) {
    records::on_sampled(engine, key, of);
}

/// A client has been answered.
#[inline]
pub(crate) fn on_answered(engine: &mut Engine, key: ClientRequestKey, of: &Answered<'_>) {
    records::on_answered(engine, key, of);
}

/// What others tell this worker.
pub(crate) fn on_message(engine: &mut Engine, message: Message) {
    match message {
        Message::Capture(wanted) => capture::on_message(engine, wanted),
    }
}

/// Every tick, once what is late has been given up.
pub(crate) fn on_tick(engine: &mut Engine) {
    records::on_tick(engine);
    hot::on_tick(engine);
    capture::on_tick(engine);
}

/// What somebody wants to know.
pub(crate) fn report(engine: &Engine, wanted: Wanted) -> Report {
    match wanted {
        Wanted::Records(wanted) => Report::Records(records::report(engine, wanted)),
    }
}

/// What has not been given back once all clients have left, in words.
pub(crate) fn residue(engine: &Engine) -> Vec<String> {
    let mut found = Vec::new();
    rules::residue(engine, &mut found);
    found
}
