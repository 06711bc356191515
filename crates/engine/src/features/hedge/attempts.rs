//! How second attempts of reads are made, and end.

use std::time::{Duration, Instant};

use helenus_policy::route::Plan;
use helenus_policy::schedule::Class;

use crate::exec::attempt_end::AttemptEnd;
use crate::features::hedge::budget::Hedging;
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::{Form, Landed, NodeRequest, Owner, Prediction, Target};
use crate::pipeline::retry::resendable::Loss;
use crate::scheduler::Served;
use crate::stats::add;

/// No read is slow before this.
const SLOW_MIN: Duration = Duration::from_millis(10);
/// How often slow reads are looked for, while anything is under way.
const BEAT: Duration = Duration::from_millis(10);
/// When slow reads are to be looked for next, if there may be any.
#[inline]
pub(in crate::features) fn deadline(engine: &Engine) -> Option<Instant> {
    let looks = engine.cx().shared.config.assignment.hedging && !engine.requests().nodes.is_empty();
    looks.then(|| engine.features().hedge.looked + BEAT)
}

/// Looks for slow reads, if it is time.
#[inline]
pub(in crate::features) fn on_deadline(engine: &mut Engine) {
    if deadline(engine).is_some_and(|look| look <= engine.now()) {
        look(engine);
    }
}

/// A node request has been sent.
#[inline]
pub(in crate::features) fn on_sent(state: &mut Hedging) {
    state.note_sent();
}

/// Asks a second replica for reads that are slow.
fn look(engine: &mut Engine) {
    let busy = !engine.requests().nodes.is_empty();
    let now = engine.now();
    let most = engine.features_mut().hedge.look(now, busy);
    if most == 0 {
        return;
    }
    // Not of all node requests: many more may wait.
    let sent = engine.links().in_flight();
    let slow = sent.filter_map(|key| hedge_of(engine, key, engine.requests().nodes.get(key)?));
    let slow: Vec<_> = slow.take(most).collect();
    for (client, first, plan) in slow {
        hedge(engine, client, first, plan);
    }
}

/// The nodes for a second attempt, if a node request is to have one.
fn hedge_of(
    engine: &Engine,
    key: NodeRequestKey,
    request: &NodeRequest,
) -> Option<(ClientRequestKey, NodeRequestKey, Plan)> {
    let sent = request.flight()?.sent;
    let waited = engine.now().saturating_duration_since(sent);
    let client_key = request.whole()?;
    if waited < SLOW_MIN || request.lane() == Class::Scan {
        return None;
    }
    let client = engine.requests().clients.get(client_key)?;
    let query = &client.query;
    let is_alone = client.execution.is_by(key);
    let is_short_read = matches!(query.class, Class::Point | Class::Slice | Class::Multi);
    let may_be_repeated =
        engine.requests().may_be_sent_again(key, Loss::MayCome) && !query.consistency.is_serial();
    if !is_alone || !is_short_read || !may_be_repeated || !query.is_read() {
        return None;
    }
    let slow_us = query.statement.as_ref()?.learned.slow_us()?;
    if waited < Duration::from_micros(slow_us.into()) {
        return None;
    }
    let Target::Place {
        place: Some(place), ..
    } = client.target()
    else {
        return None;
    };
    let plan = request.untried()?;
    let next = *plan.as_slice().first()?;
    let is_owner = place.owners.of_slot(place.slot).contains(&next);
    let is_fit = is_owner
        && engine.queues().is_free(next)
        && engine.links().is_fit(engine.cx(), query.pool, next);
    is_fit.then_some((client_key, key, plan))
}

fn hedge(engine: &mut Engine, client: ClientRequestKey, first: NodeRequestKey, plan: Plan) {
    let Some(since) = engine
        .requests()
        .nodes
        .get(first)
        .map(NodeRequest::time_runs_since)
    else {
        return;
    };
    let (owner, target) = (Owner::Whole(client), Target::Planned(plan));
    // Both have the time of one.
    let request = NodeRequest::new(owner, Form::Own, Prediction::Learned, target, since);
    let second = engine.keep_node_request(request);
    if let Some(request) = engine.requests_mut().clients.get_mut(client) {
        request.execution.hedge_with(second);
        request.timing_mut().is_hedged = true;
    }
    engine.features_mut().hedge.spend();
    add(&engine.cx().shared.stats.global.reads_hedged, 1);
    engine.route(second);
}

/// One of two attempts has been answered, if there were two: the other is given up.
/// `service_us`: how long its node has taken; `bytes`: what it has answered.
pub(in crate::features) fn on_answered(
    engine: &mut Engine,
    client: ClientRequestKey,
    attempt: NodeRequestKey,
    service_us: u32,
    bytes: usize,
) {
    engine.features_mut().hedge.note_answer(bytes);
    let Some(request) = engine.requests_mut().clients.get_mut(client) else {
        return;
    };
    let Some(beaten) = request.execution.settle_on(attempt) else {
        return;
    };
    engine.note_attempt(attempt, service_us.into(), AttemptEnd::Answered);
    let (loser, is_won) = (beaten.attempt, beaten.is_first);
    add(
        &engine.cx().shared.stats.global.hedges_won,
        u64::from(is_won),
    );
    let node = engine
        .requests()
        .nodes
        .get(loser)
        .and_then(NodeRequest::node);
    if let Some(Landed { us, .. }) = engine.give_up(loser) {
        engine.features_mut().hedge.note_repeated(bytes);
        // How long its node has not answered is known; of a second attempt that says nothing.
        let node = node.filter(|_| is_won);
        engine.note_attempt(loser, us, AttemptEnd::GivenUp);
        let waited_us = u32::try_from(us).unwrap_or(u32::MAX);
        let is_alive = node.is_some_and(|node| !engine.note_overtaken(node, waited_us));
        let served = Served {
            service_us: waited_us,
            is_error: false,
        };
        engine.leave_queue(loser, is_alive.then_some(served));
    }
    engine.drop_node_request(loser);
}
