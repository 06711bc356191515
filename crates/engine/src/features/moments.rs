//! When features are asked or told something: the order in which a request meets them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Malformed, Opcode};

use crate::config::Config;
use crate::context::Context;
use crate::exec::attempt_end::AttemptEnd;
use crate::exec::outcome::Response;
use crate::features::*;
use crate::keys::{ClientRequestKey, LinkKey, NodeRequestKey, PoolKey, SessionKey};
use crate::pipeline::arrival::Arrival;
use crate::pipeline::client_answer::ClientAnswer;
use crate::pipeline::engine::Engine;
use crate::pipeline::query::Query;
use crate::pipeline::request::ClientRequest;
use crate::rewrite::refusal::Refusal;
use crate::rewrite::rewritten::{AsAsked, Instead, Rewritten, ShownAnswer, Tried};
use crate::session::node_answer::NodeAnswer;
use crate::snapshot::Snapshot;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::{Prepared, Statement};

/// Goes on with the next feature, unless one has said something else.
macro_rules! pass {
    ($verdict:expr) => {
        match $verdict {
            Verdict::GoOn => {}
            other => return other,
        }
    };
}

/// Settings are in force: from the start on, or others.
pub(crate) fn on_settings(engine: &mut Engine) {
    rules::on_settings(engine);
    coalesce::on_settings(engine);
    merge::on_settings(engine);
    records::on_settings(engine);
}

/// A request has been read.
#[inline]
pub(crate) fn on_read(engine: &mut Engine, arrival: &Arrival<'_>, analysis: &Analysis<'_>) {
    capture::on_read(engine, arrival, analysis);
}

/// The verdict on a request that has arrived. `has_waited`: it has been here before.
#[inline]
pub(crate) fn on_request(
    engine: &mut Engine,
    request: &Arrived<'_>,
    has_waited: bool,
    slot: &mut Slot,
) -> Verdict {
    pass!(pause::on_request(engine, request, has_waited));
    pass!(rules::on_request(engine, request, slot));
    Verdict::GoOn
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

/// A request goes on, by itself or (`joins`) with the answer of another. It is the last one that was analyzed.
#[inline]
pub(crate) fn on_shared(engine: &mut Engine, request: &Arrived<'_>, joins: bool) {
    hot::on_shared(engine, request, joins);
}

/// A request gets the answer of another.
#[inline]
pub(crate) fn on_follower(engine: &mut Engine, key: ClientRequestKey, slot: &mut Slot) {
    rules::on_follower(engine, key, slot);
}

/// A request is refused, with this code and message.
pub(crate) fn on_refused(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    statement: Option<&Statement>,
    code: i32,
    message: &str,
) {
    records::on_refused(engine, arrival, statement, code, message);
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

/// A client's request, if nodes are asked something else.
#[inline]
pub(crate) fn asked(slot: &Slot) -> Option<&Query> {
    let mut asked = None;
    asked = layouts::asked(slot).or(asked);
    asked
}

/// True if nodes are asked something other than what the request's client has asked.
#[inline]
pub(crate) fn is_rewritten(slot: &Slot) -> bool {
    let mut is_rewritten = false;
    is_rewritten |= layouts::is_rewritten(slot);
    is_rewritten
}

/// Statements that the proxy has made for a request, and had prepared.
pub(crate) fn prepared(slot: &Slot) -> &[Arc<Prepared>] {
    let mut prepared = None;
    prepared = layouts::prepared(slot).or(prepared);
    prepared.unwrap_or_default()
}

/// True if a node request may not be sent any more, because something else is known by now.
#[inline]
pub(crate) fn is_late(engine: &Engine, key: NodeRequestKey) -> bool {
    let mut is_late = false;
    is_late |= encodings::is_blind(engine, key);
    is_late
}

/// A request that goes on by itself will be kept. It is the last one that was analyzed.
#[inline]
pub(crate) fn on_keep(engine: &mut Engine, request: &Arrived<'_>, slot: &mut Slot) {
    lwt_turns::on_keep(engine, request, slot);
}

/// True if a request that is to begin has to wait, or goes with another.
#[inline]
pub(crate) fn waits(engine: &mut Engine, key: ClientRequestKey) -> bool {
    let mut waits = false;
    waits = waits || coalesce::waits(engine, key);
    waits = waits || merge::waits(engine, key);
    waits = waits || lwt_turns::waits(engine, key);
    waits
}

/// True if the reads of the partition with this token go to all of its replicas.
#[inline]
pub(crate) fn spreads(state: &State, token: i64) -> bool {
    let mut spreads = false;
    spreads |= hot::spreads(&state.hot, token);
    spreads
}

/// A node request is in flight to a node.
#[inline]
pub(crate) fn on_flight(state: &mut State) {
    hedge::on_sent(&mut state.hedge);
}

/// A node request that was open leaves on a link and a stream of it; whether it has been written down.
pub(crate) fn on_leaves(
    engine: &mut Engine,
    link: LinkKey,
    stream: i16,
    key: NodeRequestKey,
) -> bool {
    let mut is_done = false;
    is_done = is_done || merge::on_leaves(engine, link, stream, key);
    is_done
}

/// A node request has left a node, or will not go to one, after this time at it.
#[inline]
pub(crate) fn on_attempt(engine: &mut Engine, key: NodeRequestKey, us: u64, end: AttemptEnd) {
    records::on_attempt(engine, key, us, end);
}

/// A node has answered a node request for the whole of a client request. `service_us`: how long it has taken;
/// `bytes`: of its answer.
#[inline]
pub(crate) fn on_answered(
    engine: &mut Engine,
    client: ClientRequestKey,
    key: NodeRequestKey,
    service_us: u32,
    bytes: usize,
) {
    hedge::on_answered(engine, client, key, service_us, bytes);
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
    let mut given = AsAsked::PassThrough;
    given = layouts::as_asked(engine, client, answer)?.or(given);
    Ok(given)
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
    error: &ErrorBody<'_>,
    in_doubt: bool,
) -> bool {
    let mut goes_on = false;
    goes_on = goes_on || merge::part(engine, client, error.code, in_doubt);
    goes_on = goes_on || layouts::on_failed(engine, client, error, in_doubt);
    goes_on
}

/// A node has carried out what was sent for several.
pub(crate) fn on_several_done(request: &ClientRequest) {
    merge::on_several_done(request);
}

/// The PREPARE of a statement on a node has ended, however.
pub(crate) fn on_prepare_ended(engine: &mut Engine, node: NodeIndex, id: &[u8]) {
    prewarm::on_prepare_ended(engine, node, id);
}

/// A shared link to a node is up.
pub(crate) fn on_link_up(engine: &mut Engine, node: NodeIndex, pool: PoolKey) {
    prewarm::on_link_up(engine, node, pool);
}

/// Nodes have joined, of these numbers.
pub(crate) fn on_joined(engine: &mut Engine, joined: Range<usize>) {
    prewarm::on_joined(engine, joined.clone());
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

/// A client has been answered, and this answer stands for others too.
#[inline]
pub(crate) fn on_sampled(engine: &mut Engine, key: ClientRequestKey, of: &ClientAnswer<'_>) {
    records::on_sampled(engine, key, of);
}

/// A client has been answered.
#[inline]
pub(crate) fn on_client_answered(
    engine: &mut Engine,
    key: ClientRequestKey,
    of: &ClientAnswer<'_>,
) {
    records::on_client_answered(engine, key, of);
}

/// A client request has ended.
#[inline]
pub(crate) fn on_end(engine: &mut Engine, key: ClientRequestKey, slot: &mut Slot) {
    merge::on_end(engine, slot);
    coalesce::on_end(engine, key, &slot.coalesce);
    lwt_turns::on_end(engine, slot);
}

/// A message for this worker has come.
pub(crate) fn on_message(engine: &mut Engine, message: Message) {
    match message {
        Message::LwtTurns(granted) => lwt_turns::on_message(engine, granted),
        Message::Pause(pause::Changed) => pause::adopt(engine),
        Message::Capture(wanted) => capture::on_message(engine, wanted),
    }
}

/// Work that an event has left is to be done.
pub(crate) fn on_work(engine: &mut Engine, work: Work) {
    match work {
        Work::LwtTurns(granted) => lwt_turns::on_work(engine, granted),
        Work::Pause(held) => pause::on_work(engine, &held),
        Work::Prewarm(node) => prewarm::on_work(engine, node),
    }
}

/// There is a new snapshot.
pub(crate) fn on_snapshot(engine: &mut Engine) {
    merge::on_snapshot(engine);
    rules::on_snapshot(engine);
    encodings::on_snapshot(engine);
}

/// True if clients see less of the schema than there is.
#[inline]
pub(crate) fn hides(config: &Config) -> bool {
    let mut hides = false;
    hides |= encodings::hides(config);
    hides |= layouts::hides(config);
    hides
}

/// True if clients do not see a table.
pub(crate) fn hides_table(cx: &Context, keyspace: &str, table: &str) -> bool {
    let mut hides = false;
    hides |= layouts::hides_table(cx, keyspace, table);
    hides
}

/// True if clients do not see a column. Without a keyspace or table: of any.
pub(crate) fn hides_column(
    snapshot: &Snapshot,
    keyspace: Option<&str>,
    table: Option<&str>,
    column: &str,
) -> bool {
    let mut hides = false;
    hides |= encodings::hides_column(snapshot, keyspace, table, column);
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

/// A worker begins.
pub(crate) fn on_start(engine: &mut Engine) {
    pause::adopt(engine);
}

/// The earlier of two times, if there is a second one.
fn earlier(of: Instant, other: Option<Instant>) -> Instant {
    other.map_or(of, |other| of.min(other))
}

/// When [`on_deadline`] is to be called next: at `next`, or before.
#[inline]
pub(crate) fn deadline(engine: &Engine, mut next: Instant) -> Instant {
    next = earlier(next, lwt_turns::deadline(engine));
    next = earlier(next, pause::deadline(engine));
    next = earlier(next, hedge::deadline(engine));
    next
}

/// The deadline has passed.
pub(crate) fn on_deadline(engine: &mut Engine) {
    lwt_turns::on_deadline(engine);
    pause::on_deadline(engine);
    hedge::on_deadline(engine);
}

/// Every tick: what has waited for too long is given up.
pub(crate) fn on_late(engine: &mut Engine) {
    pause::on_late(engine);
}

/// The clients of requests that wait in features, each as often as it has some there.
pub(crate) fn each_waiting(state: &State, mut each: impl FnMut(SessionKey)) {
    state.pause.sessions().for_each(&mut each);
}

/// Every tick, once what is late has been given up.
pub(crate) fn on_tick(engine: &mut Engine) {
    records::on_tick(engine);
    prewarm::on_tick(engine);
    hot::on_tick(engine);
    capture::on_tick(engine);
}

/// Every tick, behind all else: what has waited for too long goes on.
pub(crate) fn end_waits(engine: &mut Engine) {
    coalesce::end_waits(engine);
    lwt_turns::end_waits(engine);
}

/// The answer to a question about this worker.
pub(crate) fn report(engine: &Engine, wanted: Wanted) -> Report {
    match wanted {
        Wanted::Records(wanted) => Report::Records(records::report(engine, wanted)),
    }
}

/// State not given back once all clients have left, in words.
pub(crate) fn leak_check(engine: &Engine) -> Vec<String> {
    let mut found = Vec::new();
    coalesce::leak_check(engine, &mut found);
    lwt_turns::leak_check(engine, &mut found);
    rules::leak_check(engine, &mut found);
    found
}
