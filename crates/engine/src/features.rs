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

use std::time::Instant;

use helenus_wire::Opcode;

use crate::config::Config;
use crate::context::Context;
use crate::engine::Engine;
use crate::exec::outcome::Response;
use crate::keys::{ClientRequestKey, LinkKey, NodeRequestKey, SessionKey};
use crate::pipeline::arrival::Arrival;
use crate::pipeline::request::ClientRequest;
use crate::pipeline::retry::resendable::Resendable;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;

/// What features keep in a worker.
pub(crate) struct State {
    coalesce: coalesce::State,
    merge: merge::State,
    lwt_turns: lwt_turns::State,
    hot: hot::State,
}

impl State {
    pub(crate) fn new(seed: u64) -> State {
        State {
            coalesce: coalesce::State::default(),
            merge: merge::State::default(),
            lwt_turns: lwt_turns::State::default(),
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
pub struct Shared {
    pub hot: hot::HotPartitions,
    pub lwt_turns: lwt_turns::SharedTurns,
}

impl Shared {
    pub(crate) fn new(config: &Config, now: Instant) -> Shared {
        Shared {
            hot: hot::HotPartitions::default(),
            lwt_turns: lwt_turns::SharedTurns::new(&config.aggregation, now),
        }
    }

    /// These settings are in force. Workers have to be told.
    pub(crate) fn adopt(&self, config: &Config, now: Instant) {
        self.lwt_turns.adopt(&config.aggregation);
    }

    /// A worker has ended.
    pub(crate) fn on_worker_ended(&self, worker: usize) {
        self.hot.forget_worker(worker);
    }
}

/// What features keep of a client request.
#[derive(Default)]
pub(crate) struct Slot {
    coalesce: coalesce::Slot,
    merge: merge::Slot,
    lwt_turns: lwt_turns::Slot,
}

/// What features keep of a prepared statement.
#[derive(Debug, Default)]
pub(crate) struct InPrepared {
    merge: merge::InPrepared,
}

/// What others tell a worker about features.
#[derive(Clone, Debug)]
pub enum Message {
    Capture(capture::Message),
    LwtTurns(lwt_turns::Granted),
}

/// What features leave to be done for requests.
#[derive(Debug)]
pub(crate) enum Work {
    LwtTurns(lwt_turns::Granted),
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

/// Settings are in force: from the start on, or others.
pub(crate) fn on_settings(engine: &mut Engine) {
    coalesce::on_settings(engine);
    merge::on_settings(engine);
}

/// A snapshot is in force.
pub(crate) fn on_snapshot(engine: &mut Engine) {
    merge::on_snapshot(engine);
}

/// A request has been read.
#[inline]
pub(crate) fn on_read(engine: &mut Engine, arrival: &Arrival<'_>, analysis: &Analysis<'_>) {
    capture::on_read(engine, arrival, analysis);
}

/// Which request's answer a request gets, if not its own.
#[inline]
pub(crate) fn join(
    engine: &mut Engine,
    of: &Arrived<'_>,
    slot: &mut Slot,
) -> Option<ClientRequestKey> {
    let mut joined = None;
    joined = joined.or_else(|| coalesce::join(engine, of, &mut slot.coalesce));
    joined
}

/// Whether a client that asks now may get the answer of a request.
#[inline]
pub(crate) fn may_be_joined(cx: &Context, request: &ClientRequest) -> bool {
    let mut may_be = true;
    may_be &= encodings::reads::may_be_joined(cx, request);
    may_be
}

/// A request goes on, by itself or (`joins`) with the answer of another. It is the last one that was analyzed.
#[inline]
pub(crate) fn on_shared(engine: &mut Engine, request: &Arrived<'_>, joins: bool) {
    hot::on_shared(engine, request, joins);
}

/// A request that goes on by itself will be kept. It is the last one that was analyzed.
#[inline]
pub(crate) fn on_alone(engine: &mut Engine, request: &Arrived<'_>, slot: &mut Slot) {
    lwt_turns::on_alone(engine, request, &mut slot.lwt_turns);
}

/// Whether a request that is to begin has to wait, or goes with another.
#[inline]
pub(crate) fn waits(engine: &mut Engine, key: ClientRequestKey) -> bool {
    let mut waits = false;
    waits = waits || coalesce::waits(engine, key);
    waits = waits || merge::waits(engine, key);
    waits = waits || lwt_turns::waits(engine, key);
    waits
}

/// Whether a request waits to begin.
#[inline]
pub(crate) fn is_waiting(slot: &Slot) -> bool {
    let mut is_waiting = false;
    is_waiting |= coalesce::is_waiting(&slot.coalesce);
    is_waiting |= slot.lwt_turns.is_waiting();
    is_waiting
}

/// Whether a request goes with another, and has no node request of its own.
pub(crate) fn goes_with_another(slot: &Slot) -> bool {
    let mut goes_so = false;
    goes_so |= slot.merge.has_joined();
    goes_so
}

/// Whether a request that begins may have been applied before.
#[inline]
pub(crate) fn may_be_applied(slot: &Slot) -> bool {
    let mut may_be = false;
    may_be |= slot.merge.has_parted();
    may_be
}

/// Whether others may still join a request, or have joined it: it is written down when its link's bytes leave.
#[inline]
pub(crate) fn is_open(slot: &Slot) -> bool {
    let mut is_open = false;
    is_open |= slot.merge.is_open();
    is_open
}

/// A node request that was open leaves on a link and a stream of it; whether it has been written down.
pub(crate) fn on_leaves(engine: &mut Engine, at: (LinkKey, i16), key: NodeRequestKey) -> bool {
    let mut is_done = false;
    is_done = is_done || merge::on_leaves(engine, at, key);
    is_done
}

/// After which losses a request may be sent again, as far as features know.
#[inline]
pub(crate) fn resendable(slot: &Slot) -> Resendable {
    let mut resendable = Resendable::Always;
    resendable = resendable.min(merge::resendable(&slot.merge));
    resendable
}

/// Whether what is sent for a request is for several.
#[inline]
pub(crate) fn is_of_several(slot: &Slot) -> bool {
    let mut is_so = false;
    is_so |= slot.merge.leads();
    is_so
}

/// Whether the reads of the partition with this token go to all of its replicas.
#[inline]
pub(crate) fn spreads(state: &State, token: i64) -> bool {
    let mut spreads = false;
    spreads |= hot::spreads(&state.hot, token);
    spreads
}

/// A node has answered a request with an error; whether that has been dealt with.
pub(crate) fn on_error(
    engine: &mut Engine,
    client: ClientRequestKey,
    key: NodeRequestKey,
    answer: &Response<'_>,
) -> bool {
    let mut is_done = false;
    is_done = is_done || merge::on_error(engine, client, key, answer);
    is_done
}

/// A request has come to nothing with this error; whether it goes on otherwise. `in_doubt`: it may have been applied.
pub(crate) fn on_failed(
    engine: &mut Engine,
    client: ClientRequestKey,
    error: i32,
    in_doubt: bool,
) -> bool {
    let mut goes_on = false;
    goes_on = goes_on || merge::part(engine, client, error, in_doubt);
    goes_on
}

/// A node has carried out what was sent for several.
pub(crate) fn on_several_done(request: &ClientRequest) {
    merge::on_several_done(request);
}

/// How many other requests get the answer of this one.
pub(crate) fn answered_with(slot: &Slot) -> usize {
    let mut number = 0;
    number += slot.merge.members();
    number
}

/// Which they are: it does not answer for them any more.
#[inline]
pub(crate) fn take_answered_with(slot: &mut Slot) -> Vec<ClientRequestKey> {
    let mut others = Vec::new();
    others.append(&mut slot.merge.take_members());
    others
}

/// A node has answered with rows.
#[inline]
pub(crate) fn on_rows(slot: &mut Slot, content: &[u8]) {
    slot.lwt_turns.on_rows(content);
}

/// Whether it is the turn of a request.
pub(crate) fn has_turn(slot: &Slot) -> bool {
    let mut has_turn = false;
    has_turn |= slot.lwt_turns.has_turn();
    has_turn
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

/// A client request has ended.
#[inline]
pub(crate) fn on_end(engine: &mut Engine, key: ClientRequestKey, mut slot: Slot) {
    merge::on_end(engine, &mut slot.merge);
    coalesce::on_end(engine, key, &slot.coalesce);
    lwt_turns::on_end(engine, &slot.lwt_turns);
}

/// What others tell this worker.
pub(crate) fn on_message(engine: &mut Engine, message: Message) {
    match message {
        Message::Capture(wanted) => capture::on_message(engine, wanted),
        Message::LwtTurns(granted) => lwt_turns::on_message(engine, granted),
    }
}

/// What was left to be done.
pub(crate) fn on_work(engine: &mut Engine, work: Work) {
    match work {
        Work::LwtTurns(granted) => lwt_turns::on_work(engine, granted),
    }
}

/// When [`on_deadline`] is to be called, if not at the next tick.
pub(crate) fn deadline(engine: &Engine) -> Option<Instant> {
    let mut next: Option<Instant> = None;
    next = next.into_iter().chain(lwt_turns::deadline(engine)).min();
    next
}

/// The deadline has passed.
pub(crate) fn on_deadline(engine: &mut Engine) {
    lwt_turns::on_deadline(engine);
}

/// Every tick, once what is late has been given up.
pub(crate) fn on_tick(engine: &mut Engine) {
    hot::on_tick(engine);
    capture::on_tick(engine);
}

/// Every tick, behind all else: what has waited for too long goes on.
pub(crate) fn end_waits(engine: &mut Engine) {
    coalesce::end_waits(engine);
    lwt_turns::end_waits(engine);
}

/// What has not been given back once all clients have left, in words.
pub(crate) fn residue(engine: &Engine) -> Vec<String> {
    let mut found = Vec::new();
    coalesce::residue(engine, &mut found);
    lwt_turns::residue(engine, &mut found);
    found
}
