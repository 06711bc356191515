//! A *node request*: one request to one node. It belongs to a client request, or to the proxy itself.

mod asked;
mod stage;

use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Plan;
use helenus_policy::schedule::Class;

pub(crate) use self::asked::{Form, Owner, Prediction, Target};
pub(crate) use self::stage::{Flight, Landed, Stage};
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::memory::Ledger;
use crate::pipeline::query::Query;
use crate::pipeline::retry::backoff::Missed;
use crate::scheduler::{Admission, Waiting};
use crate::support::registry::Registry;

/// One request to one node, or to others if that one fails.
pub(crate) struct NodeRequest {
    owner: Owner,
    form: Form,
    target: Target,
    work: Prediction,
    stage: Stage,
    /// The node that it was last sent to.
    node: Option<NodeIndex>,
    /// Nodes tried.
    attempts: u8,
    /// How often a node was taught a statement for its sake.
    reprepares: u16,
    /// Predicted work of it as its node's schedule was told, in microseconds.
    work_us: u32,
    /// Its class in its node's schedule.
    lane: Class,
    /// Its time-out runs since then; not while it waits in a node's queue or pauses, where it has other bounds.
    time_runs_since: Instant,
    /// A node that it was sent to never answered: it may have taken effect there.
    maybe_applied: bool,
    /// UNAVAILABLE answers so far, from coordinators that miss replicas.
    missed: Option<Missed>,
    /// How long it has waited in queues of nodes, in microseconds, and been at nodes.
    queued_us: u32,
    at_node_us: u32,
}

impl NodeRequest {
    pub(crate) fn new(
        owner: Owner,
        form: Form,
        work: Prediction,
        target: Target,
        now: Instant,
    ) -> NodeRequest {
        NodeRequest {
            owner,
            form,
            target,
            work,
            stage: Stage::Unplaced,
            node: None,
            attempts: 0,
            reprepares: 0,
            work_us: 0,
            lane: Class::Other,
            time_runs_since: now,
            maybe_applied: false,
            missed: None,
            queued_us: 0,
            at_node_us: 0,
        }
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The client request that it belongs to.
    #[inline]
    pub(crate) fn client(&self) -> Option<ClientRequestKey> {
        self.owner.client()
    }

    /// The client request that waits for nothing else.
    #[inline]
    pub(crate) fn whole(&self) -> Option<ClientRequestKey> {
        self.owner.whole()
    }

    /// The client request one of whose parts it is, and its number.
    pub(crate) fn part(&self) -> Option<(ClientRequestKey, u16)> {
        self.owner.part()
    }

    pub(crate) fn form(&self) -> &Form {
        &self.form
    }

    /// Its own query, if it has another than its client request.
    #[inline]
    pub(crate) fn other(&self) -> Option<&Query> {
        match &self.form {
            Form::Other(query) => Some(query),
            Form::Own | Form::Piece { .. } => None,
        }
    }

    #[inline]
    pub(crate) fn other_mut(&mut self) -> Option<&mut Query> {
        match &mut self.form {
            Form::Other(query) => Some(query),
            Form::Own | Form::Piece { .. } => None,
        }
    }

    pub(crate) fn work(&self) -> &Prediction {
        &self.work
    }

    /// Sets its predicted work, as it is known by now.
    pub(crate) fn set_work(&mut self, work: Prediction) {
        self.work = work;
    }

    /// Sets its predicted work, in microseconds, and its class in its node's schedule.
    #[inline]
    pub(crate) fn set_job(&mut self, work_us: u32, lane: Class) {
        (self.work_us, self.lane) = (work_us, lane);
    }

    pub(crate) fn work_us(&self) -> u32 {
        self.work_us
    }

    pub(crate) fn lane(&self) -> Class {
        self.lane
    }

    /// The node that it was last sent to.
    pub(crate) fn node(&self) -> Option<NodeIndex> {
        self.node
    }

    pub(crate) fn stage(&self) -> &Stage {
        &self.stage
    }

    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::Queued(_))
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self.stage, Stage::InFlight(..))
    }

    pub(crate) fn flight(&self) -> Option<Flight> {
        match &self.stage {
            Stage::InFlight(_, flight) => Some(*flight),
            _ => None,
        }
    }

    /// Its place at its node, if it may go there and is not in flight.
    pub(crate) fn admission(&self) -> Option<&Admission> {
        match &self.stage {
            Stage::Admitted(admission) => Some(admission),
            Stage::Unplaced | Stage::Queued(_) | Stage::InFlight(..) => None,
        }
    }

    pub(crate) fn admission_mut(&mut self) -> Option<&mut Admission> {
        match &mut self.stage {
            Stage::Admitted(admission) => Some(admission),
            Stage::Unplaced | Stage::Queued(_) | Stage::InFlight(..) => None,
        }
    }

    /// It may go to its node.
    #[inline]
    pub(crate) fn admit(&mut self, admission: Admission) {
        self.stage = Stage::Admitted(admission);
    }

    /// It waits in a node's queue.
    pub(crate) fn wait(&mut self, waiting: Waiting) {
        self.stage = Stage::Queued(waiting);
    }

    /// It is in flight to a node. A request without a place there takes none.
    #[inline]
    pub(crate) fn fly(&mut self, node: NodeIndex, flight: Flight) {
        let admission = match std::mem::replace(&mut self.stage, Stage::Unplaced) {
            Stage::Admitted(admission) => Some(admission),
            Stage::Unplaced | Stage::Queued(_) | Stage::InFlight(..) => None,
        };
        self.stage = Stage::InFlight(admission, flight);
        self.node = Some(node);
    }

    /// It leaves its place, at its node or in a queue. A request in flight has to land first.
    #[inline]
    pub(crate) fn leave(&mut self) -> Stage {
        debug_assert!(!self.is_in_flight(), "it is still on its link");
        match self.stage {
            Stage::InFlight(..) => Stage::Unplaced,
            _ => std::mem::replace(&mut self.stage, Stage::Unplaced),
        }
    }

    /// It was taken out of a node's queue, where it has waited too long. It is refused, and has not timed out as well.
    pub(crate) fn refuse(&mut self, now: Instant, now_us: u64) -> Option<Waiting> {
        self.end_wait(now, now_us);
        self.time_runs_since = now;
        match std::mem::replace(&mut self.stage, Stage::Unplaced) {
            Stage::Queued(waiting) => Some(waiting),
            _ => None,
        }
    }

    /// Its time-out runs since then.
    pub(crate) fn time_runs_since(&self) -> Instant {
        self.time_runs_since
    }

    /// It may have taken effect on a node that does not say so.
    pub(crate) fn note_in_doubt(&mut self) {
        self.maybe_applied = true;
    }

    /// True if it may have taken effect on a node that did not say so.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.maybe_applied
    }

    /// How long it has waited in queues of nodes, in microseconds, so far; from now on that is another wait.
    pub(crate) fn take_queued_us(&mut self) -> u32 {
        std::mem::take(&mut self.queued_us)
    }

    /// How long it has waited in queues of nodes, in microseconds.
    pub(crate) fn queued_us(&self) -> u32 {
        self.queued_us
    }

    /// How long it has been at nodes, in microseconds.
    pub(crate) fn at_node_us(&self) -> u32 {
        self.at_node_us
    }

    /// Nodes tried.
    pub(crate) fn attempts(&self) -> u8 {
        self.attempts
    }

    /// The next node is tried; how many that makes.
    #[inline]
    pub(crate) fn begin_attempt(&mut self) -> u8 {
        self.attempts += 1;
        self.attempts
    }

    /// None of the attempts so far counts.
    pub(crate) fn forget_attempts(&mut self) {
        self.attempts = 0;
    }

    /// It has waited for a link, and does not wait for one again.
    pub(crate) fn end_wait_for_link(&mut self) {
        self.attempts = 1;
    }

    /// True if a node may be taught one more statement for its sake; that counts.
    pub(crate) fn may_be_taught(&mut self, reprepares_max: usize) -> bool {
        let may_be = self.client().is_some() && usize::from(self.reprepares) < reprepares_max;
        self.reprepares = self.reprepares.saturating_add(u16::from(may_be));
        may_be
    }

    /// True if a coordinator has said that it misses replicas.
    pub(crate) fn has_missed(&self) -> bool {
        self.missed.is_some()
    }

    /// A coordinator says that it misses replicas.
    pub(crate) fn miss(&mut self, now: Instant) -> &mut Missed {
        self.missed.get_or_insert(Missed::new(now))
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The nodes that have not been tried, once they are planned.
    #[inline]
    pub(crate) fn untried(&self) -> Option<Plan> {
        self.target.untried()
    }

    /// The next node to try, once they are planned.
    #[inline]
    pub(crate) fn next_planned(&mut self) -> Option<Option<NodeIndex>> {
        match &mut self.target {
            Target::Planned(plan) => Some(plan.next()),
            Target::Place { .. } | Target::At(_) => None,
        }
    }

    /// It goes there from now on.
    #[inline]
    pub(crate) fn set_target(&mut self, target: Target) {
        self.target = target;
    }

    /// It goes to this owner in place of the node for which it has waited; that was no attempt.
    pub(crate) fn move_to(&mut self, owner: NodeIndex) {
        self.attempts = self.attempts.saturating_sub(1);
        if let Target::Planned(plan) = &mut self.target {
            plan.instead(owner);
        }
    }

    /// The wait in a queue does not count as time at a node: it has a bound of its own. Time before that wait
    /// still counts.
    pub(crate) fn end_wait(&mut self, now: Instant, now_us: u64) {
        if let Stage::Queued(waiting) = &self.stage {
            let waited_us = now_us.saturating_sub(waiting.since_us);
            let waited = Duration::from_micros(waited_us);
            self.queued_us = self.queued_us.saturating_add(waited_us as u32);
            self.time_runs_since = now.min(self.time_runs_since + waited);
        }
    }

    /// True if it waits to be sent again a little later.
    pub(crate) fn is_pausing(&self) -> bool {
        self.missed.as_ref().is_some_and(Missed::is_pausing)
    }

    /// Ends a pause, which does not count as time at a node either.
    pub(crate) fn end_pause(&mut self, now: Instant) {
        let missed = self.missed.as_mut();
        if let Some(waited) = missed.and_then(|missed| missed.end_pause(now)) {
            self.time_runs_since = now.min(self.time_runs_since + waited);
        }
    }

    /// Takes it off its link. Its place at the node is still its own.
    #[inline(always)]
    pub(crate) fn land(&mut self, now: Instant) -> Option<Landed> {
        match std::mem::replace(&mut self.stage, Stage::Unplaced) {
            Stage::InFlight(admission, flight) => {
                self.stage = admission.map_or(Stage::Unplaced, Stage::Admitted);
                let us = now.saturating_duration_since(flight.sent).as_micros() as u64;
                self.at_node_us = self.at_node_us.saturating_add(us as u32);
                Some(Landed { flight, us })
            }
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// Makes a node its next candidate.
    pub(crate) fn put_in_front(&mut self, node: NodeIndex) {
        let left = self.target.untried().map(|plan| plan.behind(node));
        self.target = Target::Planned(left.unwrap_or(Plan::only(node)));
        self.attempts = self.attempts.saturating_sub(1);
    }

    /// Bytes of memory that its own body takes.
    fn held_len(&self) -> usize {
        self.other().map_or(0, Query::held_len)
    }
}

/// All node requests to nodes.
#[derive(Default)]
pub(crate) struct NodeRequests(Registry<NodeRequestKey, NodeRequest>);

impl NodeRequests {
    pub(crate) fn get(&self, key: NodeRequestKey) -> Option<&NodeRequest> {
        self.0.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: NodeRequestKey) -> Option<&mut NodeRequest> {
        self.0.get_mut(key)
    }

    pub(crate) fn insert(&mut self, memory: &Ledger, request: NodeRequest) -> NodeRequestKey {
        memory.add(request.held_len());
        self.0.insert(request)
    }

    /// Forgets one that is nowhere any more.
    pub(crate) fn remove(&mut self, memory: &Ledger, key: NodeRequestKey) -> Option<NodeRequest> {
        let request = self.0.remove(key)?;
        memory.sub(request.held_len());
        Some(request)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeRequestKey, &NodeRequest)> + Clone {
        self.0.iter()
    }
}
