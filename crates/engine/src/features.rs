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

use std::sync::Arc;

use helenus_wire::{Malformed, Opcode};

use crate::config::Config;
use crate::context::Context;
use crate::engine::Engine;
use crate::exec::context::Surroundings;
use crate::exec::outcome::{Outcome, Step};
use crate::keys::{ClientRequestKey, NodeRequestKey, SessionKey};
use crate::pipeline::arrival::Arrival;
use crate::pipeline::query::Query;
use crate::pipeline::request::ClientRequest;
use crate::rewrite::refusal::Refusal;
use crate::rewrite::rewritten::{AsAsked, Instead, Rewritten, ShownAnswer, Tried};
use crate::session::answers::NodeAnswer;
use crate::snapshot::Snapshot;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::{Prepared, Statement};

/// What features keep in a worker.
pub(crate) struct State {
    encodings: encodings::State,
    hot: hot::State,
}

impl State {
    pub(crate) fn new(seed: u64) -> State {
        State {
            encodings: encodings::State::default(),
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

/// What features keep with a statement.
#[derive(Debug, Default)]
pub(crate) struct InStatement {
    encodings: encodings::InStatement,
    layouts: layouts::InStatement,
}

/// What features keep of a client's request.
#[derive(Default)]
pub(crate) struct Slot {
    encodings: encodings::InRequest,
    layouts: layouts::InRequest,
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

/// A request has passed what it had to pass: what is sent in its place, before it may join another.
#[inline]
pub(crate) fn on_admitted(
    engine: &mut Engine,
    request: &Arrived<'_>,
    slot: &mut Slot,
) -> Result<Instead, Box<Refusal>> {
    let mut instead = Instead::default();
    encodings::on_admitted(engine, request, slot, &mut instead)?;
    Ok(instead)
}

/// Whether a read may join this request, which asks the same.
#[inline]
pub(crate) fn may_join(cx: &Context, slot: &Slot) -> bool {
    let mut may_join = true;
    may_join &= encodings::may_join(cx, &slot.encodings);
    may_join
}

/// A request goes on, by itself or (`joins`) with the answer of another. It is the last one that was analyzed.
#[inline]
pub(crate) fn on_shared(engine: &mut Engine, request: &Arrived<'_>, joins: bool) {
    hot::on_shared(engine, request, joins);
}

/// A request goes on by itself: what it becomes, once it is kept.
#[inline]
pub(crate) fn on_alone(
    engine: &mut Engine,
    request: &Arrived<'_>,
    slot: &mut Slot,
    rewritten: &mut Rewritten,
) -> Result<(), Box<Refusal>> {
    layouts::on_alone(engine, request, slot, rewritten)?;
    Ok(())
}

/// A request is about to be kept.
#[inline]
pub(crate) fn on_made(request: &mut ClientRequest) {
    layouts::on_made(request);
}

/// What a request's client has asked, if that is not what nodes are asked.
#[inline]
pub(crate) fn asked(slot: &Slot) -> Option<&Query> {
    let mut asked = None;
    asked = layouts::asked(&slot.layouts).or(asked);
    asked
}

/// Whether nodes are asked for something else than what a request's client has asked.
#[inline]
pub(crate) fn is_rewritten(slot: &Slot) -> bool {
    let mut is_rewritten = false;
    is_rewritten |= slot.layouts.is_some();
    is_rewritten
}

/// What the proxy has made for a request, and had prepared.
pub(crate) fn prepared(slot: &Slot) -> &[Arc<Prepared>] {
    let mut prepared = None;
    prepared = layouts::prepared(&slot.layouts).or(prepared);
    prepared.unwrap_or_default()
}

/// Whether a node request may not be sent any more, because something else is known by now.
#[inline]
pub(crate) fn is_late(engine: &Engine, key: NodeRequestKey) -> bool {
    let mut is_late = false;
    is_late |= encodings::is_blind(engine, key);
    is_late
}

/// Whether the reads of the partition with this token go to all of its replicas.
#[inline]
pub(crate) fn spreads(state: &State, token: i64) -> bool {
    let mut spreads = false;
    spreads |= hot::spreads(&state.hot, token);
    spreads
}

/// A node request for the whole of a request has come to nothing. True if the client request goes on without it.
#[inline]
pub(crate) fn on_tried(
    engine: &mut Engine,
    client: ClientRequestKey,
    key: NodeRequestKey,
    tried: &Tried<'_>,
) -> bool {
    let mut goes_on = false;
    goes_on = goes_on || layouts::read_table_instead(engine, client, key, tried);
    goes_on
}

/// A node has answered a request that was another one than its client's.
///
/// # Errors
/// The answer cannot be understood.
pub(crate) fn as_asked(
    engine: &mut Engine,
    client: ClientRequestKey,
    answer: &NodeAnswer<'_>,
) -> Result<AsAsked, Malformed> {
    let mut given = AsAsked::AsItCame;
    given = layouts::as_asked(engine, client, answer)?.or(given);
    Ok(given)
}

/// Clients are about to be answered: what they get in place of this.
#[inline]
pub(crate) fn shown(
    engine: &mut Engine,
    key: ClientRequestKey,
    answer: &NodeAnswer<'_>,
) -> Option<ShownAnswer> {
    let mut shown = None;
    shown = encodings::on_answered(engine, key, answer).or(shown);
    shown
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

/// There is a new snapshot.
pub(crate) fn on_snapshot(engine: &mut Engine) {
    encodings::on_snapshot(engine);
}

/// Whether clients see less of the schema than there is.
#[inline]
pub(crate) fn hides(config: &Config) -> bool {
    let mut hides = false;
    hides |= encodings::hides(config);
    hides |= layouts::hides(config);
    hides
}

/// Whether clients do not see a table.
pub(crate) fn hides_table(cx: &Context, keyspace: &str, table: &str) -> bool {
    let mut hides = false;
    hides |= layouts::hides_table(cx, keyspace, table);
    hides
}

/// Whether clients do not see a column. Without a keyspace or table: of any.
pub(crate) fn hides_column(
    snapshot: &Snapshot,
    of: (Option<&str>, Option<&str>),
    column: &str,
) -> bool {
    let mut hides = false;
    hides |= encodings::hides_column(snapshot, of, column);
    hides
}

/// Keyspace and name of the table that this one is a copy of.
pub(crate) fn table_behind<'s>(
    snapshot: &'s Snapshot,
    keyspace: &str,
    table: &str,
) -> Option<(&'s str, &'s str)> {
    let mut behind = None;
    behind = layouts::table_behind(snapshot, keyspace, table).or(behind);
    behind
}

/// Every tick, once what is late has been given up.
pub(crate) fn on_tick(engine: &mut Engine) {
    hot::on_tick(engine);
    capture::on_tick(engine);
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
