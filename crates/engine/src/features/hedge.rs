//! Second attempts of reads that take much longer than usual, at another replica (hedging).
//!
//! A read that is slower than about 49 of 50 of its statement, and than [`SLOW_MIN`], is asked of the next
//! of its replicas as well. The first answer counts. The other attempt is taken out of its queue, or, if a
//! node has it, its answer is dropped when it comes. An error counts only if there is no other attempt.
//!
//! Second attempts are at most 2 % of what is sent, with a reserve (`features/hedge/budget.rs`) for a node that stops
//! in the middle of many reads, and at most 2 % of the bytes that nodes answer are read twice; none goes to a node for which anything waits. Only reads of a partition or
//! of several are repeated: not scans, not what is long work, not SERIAL reads, and never writes.
//!
//! Source: J. Dean and L. Barroso, "The tail at scale" (CACM 2013); that the delay should come from the
//! distribution: T. Kaler, Y. He, S. Elnikety, "Optimal reissue policies for reducing tail latency" (SPAA
//! 2017).

pub(crate) mod budget;

use std::time::{Duration, Instant};

use helenus_policy::route::Plan;
use helenus_policy::schedule::Class;

use crate::engine::Engine;
use crate::exec::Execution;
use crate::features;
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::pipeline::attempt_end::AttemptEnd;
use crate::pipeline::node_request::{Form, Landed, NodeRequest, Owner, Prediction, Target};
use crate::pipeline::retry::resendable::Loss;
use crate::scheduler::Served;
use crate::stats::add;

/// No read is slow before this.
const SLOW_MIN: Duration = Duration::from_millis(10);
/// How often slow reads are looked for, while anything is under way.
const BEAT: Duration = Duration::from_millis(10);
impl Engine {
    /// When slow reads are to be looked for next, if there may be any.
    #[inline]
    pub(crate) fn next_look(&self) -> Option<Instant> {
        let looks = self.cx.shared.config.assignment.hedging && !self.requests.nodes.is_empty();
        looks.then(|| self.hedging.looked + BEAT)
    }

    /// Asks a second replica for reads that are slow.
    pub(crate) fn hedge_slow_reads(&mut self) {
        let busy = !self.requests.nodes.is_empty();
        let most = self.hedging.look(self.cx.now, busy);
        if most == 0 {
            return;
        }
        // Not of all node requests: many more may wait.
        let sent = self.links.in_flight();
        let slow = sent.filter_map(|key| self.hedge_of(key, self.requests.nodes.get(key)?));
        let slow: Vec<_> = slow.take(most).collect();
        for (client, first, plan) in slow {
            self.hedge(client, first, plan);
        }
    }

    /// The nodes for a second attempt, if a node request is to have one.
    fn hedge_of(
        &self,
        key: NodeRequestKey,
        request: &NodeRequest,
    ) -> Option<(ClientRequestKey, NodeRequestKey, Plan)> {
        let sent = request.flight()?.sent;
        let waited = self.cx.now.saturating_duration_since(sent);
        let Owner::Whole(client_key) = request.owner else {
            return None;
        };
        if waited < SLOW_MIN || request.lane == Class::Scan {
            return None;
        }
        let client = self.requests.clients.get(client_key)?;
        let query = &client.query;
        let is_alone = matches!(client.execution, Execution::Single(Some(whole)) if whole == key);
        let is_short_read = matches!(query.class, Class::Point | Class::Slice | Class::Multi);
        let may_be_repeated =
            query.resendable.after(Loss::MayCome) && !query.consistency.is_serial();
        if !is_alone || !is_short_read || !may_be_repeated || !query.is_read() {
            return None;
        }
        let slow_us = query.statement.as_ref()?.learned.slow_us()?;
        if waited < Duration::from_micros(slow_us.into()) {
            return None;
        }
        let Target::Place {
            place: Some(place), ..
        } = &client.target
        else {
            return None;
        };
        let plan = request.target.untried()?;
        let next = *plan.as_slice().first()?;
        let is_owner = place.owners.of_slot(place.slot).contains(&next);
        let is_fit = is_owner
            && self.queues.is_free(next)
            && self.links.is_sound(next, self.cx.now)
            && self.links.has_link(query.pool, next)
            && !self.cx.snapshot.is_gone(next);
        is_fit.then_some((client_key, key, plan))
    }

    fn hedge(&mut self, client: ClientRequestKey, first: NodeRequestKey, plan: Plan) {
        let Some(since) = self.requests.nodes.get(first).map(|of| of.time_runs_since) else {
            return;
        };
        let (owner, target) = (Owner::Whole(client), Target::Planned(plan));
        // Both have the time of one.
        let request = NodeRequest::new(owner, Form::Own, Prediction::Learned, target, since);
        let second = self.requests.nodes.insert(&self.cx.memory, request);
        if let Some(request) = self.requests.clients.get_mut(client) {
            request.execution = Execution::Hedged { first, second };
            request.trail.is_hedged = true;
        }
        self.hedging.spend();
        add(&self.cx.shared.stats.global.reads_hedged, 1);
        self.route(second);
    }

    /// One of two attempts has come to nothing; true if the other goes on without it.
    pub(crate) fn goes_on_without(
        &mut self,
        client: ClientRequestKey,
        attempt: NodeRequestKey,
    ) -> bool {
        let Some(request) = self.requests.clients.get_mut(client) else {
            return false;
        };
        let Execution::Hedged { first, second } = request.execution else {
            return false;
        };
        let other = if attempt == first { second } else { first };
        request.execution = Execution::Single(Some(other));
        true
    }

    /// One of two attempts has been answered, if there were two: the other is given up.
    /// `service_us`: how long its node has taken; `bytes`: what it has answered.
    pub(crate) fn end_hedge(
        &mut self,
        client: ClientRequestKey,
        attempt: NodeRequestKey,
        (service_us, bytes): (u32, usize),
    ) {
        self.hedging.note_answer(bytes);
        let Some(request) = self.requests.clients.get_mut(client) else {
            return;
        };
        let Execution::Hedged { first, second } = request.execution else {
            return;
        };
        request.execution = Execution::Single(Some(attempt));
        features::on_attempt(self, attempt, service_us.into(), AttemptEnd::Answered);
        let is_won = attempt == second;
        add(&self.cx.shared.stats.global.hedges_won, u64::from(is_won));
        let loser = if is_won { first } else { second };
        let node = self.requests.nodes.get(loser).and_then(|of| of.node);
        if let Some(Landed { us, .. }) = self.give_up(loser) {
            self.hedging.note_repeated(bytes);
            // How long its node has not answered is known; of a second attempt that says nothing.
            let node = node.filter(|_| is_won);
            features::on_attempt(self, loser, us, AttemptEnd::GivenUp);
            let waited_us = u32::try_from(us).unwrap_or(u32::MAX);
            let is_alive =
                node.is_some_and(|node| !self.queues.note_overtaken(&self.cx, node, waited_us));
            let served = Served {
                service_us: waited_us,
                is_error: false,
            };
            self.leave_queue(loser, is_alive.then_some(served));
        }
        self.drop_node_request(loser);
    }
}
