//! Requests that wait for a node, and when they may go, as [`helenus_policy::schedule`] decides: a queue per node,
//! bounded, in which everything waits that must wait at all.

mod keeping;
mod kept;
pub(crate) mod lane;
mod publish;
pub(crate) mod room;
pub mod scan_limit;
pub(crate) mod settings;
pub mod shared_node;
mod standing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_policy::choice::{Choice, Policy, Request, Sent, View};
use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::{
    Answered, Class, Counters, Handle, Job, Offer, Payer, PieceAnswered, Schedule,
};

use crate::context::Context;
use crate::keys::NodeRequestKey;
use crate::scheduler::kept::KeptPermits;
use crate::scheduler::room::{Inside, Occupied, Room};
use crate::scheduler::settings::{assignment, settings};
use crate::scheduler::shared_node::{ScanPermit, SharedNode};
use crate::shared::WorkerMessage;
use crate::stats::{NodeStats, add, sub};
use crate::upstream::node_reports::NodeReports;

/// Counters are published once a tick, each worker at its own: two ticks plus slack.
const LATELY_US: u64 = 300_000;

/// A process that was away for longer is taken for a new one, whose code is not compiled yet.
const AWAY_FOR_LONG: Duration = Duration::from_secs(10);
/// Until the windows of a node that has joined are open.
const JOIN_START: Duration = Duration::from_secs(30);

/// That a request may be at a node.
#[derive(Debug)]
pub(crate) struct Admission {
    pub place: Occupied,
    /// The scan permit of its node that it holds.
    permit: Option<ScanPermit>,
    /// The request, as the choice of replicas counts it.
    sent: Sent,
}

/// A request's place in a node's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub node: NodeIndex,
    pub handle: Handle,
    pub since_us: u64,
    /// Its predicted work, in microseconds.
    pub work_us: u32,
}

/// A node's answer to a node request, as the schedule sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub service_us: u32,
    pub is_error: bool,
}

/// A part's place among other work: it belongs to a page of which so much is left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartJob {
    /// Predicted work of all parts that are still to come, and of this one, in microseconds.
    pub work_us: u32,
    pub piece_us: u32,
    /// Rows of all that are still to come.
    pub rows: u32,
    /// Nodes that have parts which are still to come.
    pub nodes_left: u16,
}

/// A node request that wants to go to a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub key: NodeRequestKey,
    pub class: Class,
    pub bytes: usize,
    pub job: Job,
}

/// The outcome for a node request that was offered to a node.
pub(crate) enum Admitted {
    Go(Admission),
    Waits(Waiting),
    Refused(String),
}

/// The requests for which a node's queue is to be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Noted {
    #[default]
    No,
    /// For everything but scans: another worker's have been told that there is room.
    ForOthers,
    ForAll,
}

/// The queue of one node.
struct Queue {
    schedule: Schedule<NodeRequestKey>,
    shared: Arc<SharedNode>,
    /// Requests of this worker in flight there.
    inside: Inside,
    noted: Noted,
    /// The schedule's counters as published.
    published: Counters,
    /// Quick queries sent to it by all workers, as published; and when there were more.
    others: u64,
    others_at_us: u64,
    /// The view that the choice of replicas has of it, as published.
    chosen: View,
    /// The node's reports of itself, and when those that the choice knows of were measured.
    reports: Arc<NodeReports>,
    reported: Option<Instant>,
    stats: Arc<NodeStats>,
}

/// The queues of all nodes.
#[derive(Default)]
pub(crate) struct Queues {
    nodes: Vec<Queue>,
    /// Room for requests in flight on each node.
    room: Room,
    /// The choice of the best replica, by all that is outstanding.
    choice: Choice,
    /// Permits of what has been given up.
    kept: KeptPermits,
    /// Nodes at which places may have become free, or whose queues have changed.
    noted: Vec<NodeIndex>,
}

impl Queues {
    /// Makes room for nodes that are new in the snapshot.
    pub(crate) fn adopt_nodes(&mut self, cx: &Context) {
        let known = self.nodes.len();
        for (at, node) in cx.snapshot.nodes().by_index().skip(known) {
            let settings = settings(&cx.shared.config, cx.workers, node.facts().processors);
            let shared = cx.shared.nodes.of(at, settings.scan_slots_start);
            self.nodes.push(Queue {
                schedule: Schedule::sharing(settings, shared.shares.clone(), cx.index),
                shared,
                inside: Inside::default(),
                noted: Noted::No,
                published: Counters::default(),
                others: 0,
                others_at_us: 0,
                chosen: View::default(),
                reports: cx.shared.reports.of(at),
                reported: None,
                stats: cx.shared.stats.node(at, || node.address().to_string()),
            });
        }
        self.choice.grow_to(self.nodes.len());
        self.adopt_settings(cx);
        // Those of the first snapshot have been there before.
        if known > 0 {
            let joined = known..self.nodes.len();
            joined.for_each(|index| self.note_join(cx, NodeIndex(index as u16)));
        }
    }

    /// Puts the bounds in force that follow from the settings and from what is known of the nodes.
    pub(crate) fn adopt_settings(&mut self, cx: &Context) {
        self.room = Room::new(&cx.shared.config, cx.workers);
        self.choice
            .set_settings(assignment(&cx.shared.config, cx.workers));
        for (at, node) in cx.snapshot.nodes().by_index() {
            let processors = node.facts().processors;
            let settings = settings(&cx.shared.config, cx.workers, processors);
            let queue = &mut self.nodes[at.as_usize()];
            queue.schedule.set_settings(settings);
            let start = settings.scan_slots_start;
            queue.shared.begin_at(start, processors.is_some());
            self.choice.set_processors(at, processors);
            self.choice
                .set_remote(at, cx.snapshot.nodes().is_remote(at));
            self.note(at, Noted::ForAll);
        }
    }

    /// Offers a node request to a node. `payer`: whom it is charged to if it waits.
    pub(crate) fn offer(
        &mut self,
        cx: &Context,
        node: NodeIndex,
        of: Candidate,
        payer: impl FnOnce() -> Payer,
    ) -> Admitted {
        let now_us = cx.now_us();
        let Candidate {
            key,
            class,
            bytes,
            job,
        } = of;
        let queue = &mut self.nodes[node.as_usize()];
        let has_room = queue.inside.has_room(&queue.shared, &self.room);
        queue.look(has_room);
        let permit = if class == Class::Scan && !queue.schedule.settings().variant.is_preset() {
            let permits = queue.schedule.scan_slots();
            queue.shared.say_waiting(cx.index, Some(permits));
            // Otherwise it waits with them, if only for as long as it takes to see whose turn it is.
            let is_first = !queue.shared.others_wait(cx.index);
            let may_take = has_room && is_first;
            may_take.then(|| queue.shared.try_take(permits)).flatten()
        } else {
            None
        };
        let is_allowed = permit.is_some();
        let schedule = &mut queue.schedule;
        let offer = schedule.offer_of(now_us, key, class, job, is_allowed, payer);
        let permit = permit.filter(|_| offer == Offer::Dispatch);
        if class == Class::Scan {
            queue.say_waiting(cx.index, has_room);
        }
        match offer {
            Offer::Refused(why) => Admitted::Refused(format!("Helenus: {why}")),
            Offer::Dispatch => {
                let place = queue.inside.enter(&queue.shared, node, bytes, &self.room);
                let sent = self.choice.on_sent(now_us, node, job.piece_us);
                Admitted::Go(Admission {
                    place,
                    permit,
                    sent,
                })
            }
            Offer::Queued(handle) => {
                add(&queue.stats.counters.queued_total, 1);
                add(&queue.stats.queued[class as usize], 1);
                self.choice.on_waits(node, job.piece_us);
                if has_room {
                    // Others wait before it, and another worker may just have made room.
                    self.note(node, Noted::ForAll);
                }
                Admitted::Waits(Waiting {
                    node,
                    handle,
                    since_us: now_us,
                    work_us: job.piece_us,
                })
            }
        }
    }

    /// A node request leaves a node's queue without having been sent.
    pub(crate) fn leave_queue(&mut self, waiting: Waiting, class: Class) {
        let queue = &mut self.nodes[waiting.node.as_usize()];
        if queue.schedule.remove(waiting.handle).is_some() {
            sub(&queue.stats.queued[class as usize], 1);
        }
        self.choice.on_left(waiting.node, waiting.work_us);
        self.note(waiting.node, Noted::ForAll);
    }

    /// A node request gives back its place at a node. `answered`: what it took, if it was answered.
    pub(crate) fn leave_node(
        &mut self,
        cx: &mut Context,
        admission: Admission,
        class: Class,
        answered: Option<Answered>,
    ) {
        let Admission {
            place,
            permit,
            sent,
        } = admission;
        let node = place.node;
        let now_us = cx.now_us();
        match answered {
            Some(of) if of.is_error => self.choice.on_error(now_us, node, sent),
            Some(of) => self.choice.on_answer(now_us, node, sent, of.service_us),
            None => self.choice.on_gone(node, sent),
        }
        let queue = &mut self.nodes[node.as_usize()];
        queue.inside.leave(&queue.shared, place);
        match answered {
            Some(answered) => queue.schedule.on_done(now_us, class, answered),
            None => queue.schedule.on_gone(class),
        }
        let mut noted = Noted::ForAll;
        if let Some(permit) = permit {
            drop(permit);
            if let Some(answered) = answered.filter(|of| !of.is_error) {
                let answer = PieceAnswered {
                    permits: queue.schedule.scan_slots(),
                    predicted_us: answered.predicted_us,
                    service_us: answered.service_us,
                    others: queue.schedule.take_others(),
                    waits: queue.schedule.queued_in(Class::Scan) > 0,
                };
                queue
                    .shared
                    .learn(cx.now, answer, queue.schedule.settings());
            }
            noted = self.offer_permit(cx, node);
        }
        self.note(node, noted);
    }

    /// A permit of a node is free again: another worker is told if its scans come first. For whom the node's queue
    /// is to be looked at here.
    fn offer_permit(&self, cx: &mut Context, node: NodeIndex) -> Noted {
        let queue = &self.nodes[node.as_usize()];
        // With it in hand, this worker's own scans seemed to need none.
        let has_room = queue.inside.has_room(&queue.shared, &self.room);
        queue.say_waiting(cx.index, has_room);
        // Another worker's scans come first now, or the nearer one would always win.
        match self.wake_scans(cx, node) {
            true => Noted::ForOthers,
            false => Noted::ForAll,
        }
    }

    /// Tells the worker whose scan is next that there may be a permit for it; false if that is this one,
    /// or if there is none.
    fn wake_scans(&self, cx: &mut Context, node: NodeIndex) -> bool {
        let next = self.nodes[node.as_usize()].shared.next_waiting(cx.index);
        next.is_some_and(|worker| self.wake(cx, worker, node))
    }

    /// Tells a worker that there may be a permit for its scans, unless it has been told; false if it has
    /// ended.
    fn wake(&self, cx: &mut Context, worker: usize, node: NodeIndex) -> bool {
        let shared = &self.nodes[node.as_usize()].shared;
        if !shared.begin_to_wake(worker) {
            return true;
        }
        let is_told = cx.tell(worker, WorkerMessage::ScanPermit(node));
        if !is_told {
            shared.on_woken(worker);
        }
        is_told
    }

    /// True if a permit that is free is left to another worker, because a tenant waits there that has had less than
    /// all that wait here. It is told.
    fn leaves_permit(&self, cx: &mut Context, node: NodeIndex) -> bool {
        let queue = &self.nodes[node.as_usize()];
        if !queue.shared.others_wait(cx.index) || queue.schedule.has_due_scan(cx.now_us()) {
            return false;
        }
        let before = queue.shared.next_before(cx.index);
        before.is_some_and(|worker| self.wake(cx, worker, node))
    }

    /// This worker has been told of a permit.
    pub(crate) fn on_woken(&self, cx: &Context, node: NodeIndex) {
        self.nodes[node.as_usize()].shared.on_woken(cx.index);
    }

    /// Of the permits that this worker was told of, it has taken what it could: whoever is next is told of
    /// the others. Workers that cannot use one have said so, so that it does not go round.
    pub(crate) fn pass_permit_on(&self, cx: &mut Context, node: NodeIndex) {
        self.wake_scans(cx, node);
    }

    /// True if a node's queue would let a scan wait.
    pub(crate) fn would_queue_scan(&self, node: NodeIndex, job: &Job) -> bool {
        let schedule = &self.nodes[node.as_usize()].schedule;
        schedule.would_queue(Class::Scan, job)
    }

    /// Gives a part that waits the place that the rest of its page has now.
    pub(crate) fn reprioritise(&mut self, waiting: &Waiting, part: PartJob) {
        let schedule = &mut self.nodes[waiting.node.as_usize()].schedule;
        schedule.reprioritise(waiting.handle, part.nodes_left, part.rows, part.work_us);
    }

    /// The next node request that may go to a node; a scan only if `may_scan`. `waiting`: its bytes,
    /// and the place that it has had in the queue.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context,
        node: NodeIndex,
        may_scan: bool,
        waiting: impl FnOnce(NodeRequestKey) -> Option<(usize, Waiting)>,
    ) -> Option<(NodeRequestKey, Admission)> {
        let queue = &mut self.nodes[node.as_usize()];
        if queue.schedule.waiting() == 0 {
            return None;
        }
        let now_us = cx.now_us();
        let has_room = queue.inside.has_room(&queue.shared, &self.room);
        queue.look(has_room);
        let wants = queue.schedule.wants_scan() && has_room;
        if wants {
            queue.say_waiting(cx.index, has_room);
        }
        let permits = queue.schedule.scan_slots();
        let is_free = wants && may_scan && queue.shared.has_free(permits);
        let may_take = is_free && !self.leaves_permit(cx, node);
        let queue = &mut self.nodes[node.as_usize()];
        let permit = may_take.then(|| queue.shared.try_take(permits)).flatten();
        let next = queue.schedule.poll_dispatch(now_us, permit.is_some());
        // The request that goes first may be no scan: then it is given back.
        let permit = permit.filter(|_| matches!(next, Some((_, Class::Scan))));
        queue.say_waiting(cx.index, has_room);
        let (key, class) = next?;
        sub(&queue.stats.queued[class as usize], 1);
        let (bytes, waiting) = waiting(key)?;
        let waited_us = now_us.saturating_sub(waiting.since_us);
        queue.stats.waits[class as usize].record(waited_us);
        let place = queue.inside.enter(&queue.shared, node, bytes, &self.room);
        self.choice.on_left(node, waiting.work_us);
        let sent = self.choice.on_sent(now_us, node, waiting.work_us);
        let admission = Admission {
            place,
            permit,
            sent,
        };
        Some((key, admission))
    }

    /// Updates what is said of this worker's scans at a node.
    pub(crate) fn say_waiting(&self, cx: &Context, node: NodeIndex) {
        let queue = &self.nodes[node.as_usize()];
        let waits = queue.schedule.queued_in(Class::Scan) > 0;
        let has_room = waits && queue.inside.has_room(&queue.shared, &self.room);
        queue.say_waiting(cx.index, has_room);
    }

    /// The next node request that has waited for as long as its class may.
    pub(crate) fn poll_expired(&mut self, cx: &Context) -> Option<(NodeRequestKey, Class)> {
        let now_us = cx.now_us();
        self.nodes.iter_mut().find_map(|queue| {
            let (key, class) = queue.schedule.poll_expired(now_us)?;
            sub(&queue.stats.queued[class as usize], 1);
            Some((key, class))
        })
    }

    /// Node requests that have waited for longer than clients do, in queues that stand.
    pub(crate) fn shed(&mut self, cx: &Context) -> Vec<(NodeRequestKey, Class)> {
        let now_us = cx.now_us();
        let mut out = Vec::new();
        for queue in &mut self.nodes {
            let shed = queue.schedule.shed(now_us);
            for (_, class) in &shed {
                sub(&queue.stats.queued[*class as usize], 1);
            }
            out.extend(shed);
        }
        out
    }

    /// A node request that has waited for too long was taken out of a node's queue.
    pub(crate) fn on_expired(&mut self, waiting: Waiting) {
        self.choice.on_left(waiting.node, waiting.work_us);
    }

    /// A node has failed: it has not answered in time, or with an error that is its own fault.
    pub(crate) fn note_failure(&mut self, cx: &Context, node: NodeIndex) {
        self.choice.on_failure(cx.now_us(), node);
    }

    /// Another node has answered first what this one has had for so long; true if it has said nothing
    /// since.
    pub(crate) fn note_overtaken(&mut self, cx: &Context, node: NodeIndex, waited_us: u32) -> bool {
        self.choice.on_overtaken(cx.now_us(), node, waited_us)
    }

    /// A node can be reached again that could not for so long, while others could.
    pub(crate) fn note_return(&mut self, cx: &Context, node: NodeIndex, away: Duration) {
        let away_us = u64::try_from(away.as_micros()).unwrap_or(u64::MAX);
        self.choice.on_return(cx.now_us(), node, away_us);
        if away >= AWAY_FOR_LONG {
            let start = away.min(JOIN_START);
            self.nodes[node.as_usize()].begin_low(cx, start);
        }
    }

    /// How many requests other than scans a node may have.
    #[cfg(test)]
    pub(crate) fn window(&self, node: NodeIndex) -> u32 {
        self.nodes[node.as_usize()].schedule.window()
    }

    /// A node has joined the cluster: it gets little at first.
    fn note_join(&mut self, cx: &Context, node: NodeIndex) {
        self.choice.on_join(cx.now_us(), node);
        self.nodes[node.as_usize()].begin_low(cx, JOIN_START);
    }

    /// How replicas are chosen.
    #[inline]
    pub(crate) fn assignment(&self) -> Policy {
        self.choice.policy()
    }

    /// True if a node takes what is sent to it without letting it wait.
    pub(crate) fn is_free(&self, node: NodeIndex) -> bool {
        let queue = self.nodes.get(node.as_usize());
        queue.is_some_and(|queue| queue.schedule.waiting() == 0)
    }

    /// Orders replicas of the local data centre.
    #[inline]
    pub(crate) fn order(&self, request: &Request, replicas: &mut [NodeIndex]) {
        self.choice.order(request, replicas);
    }

    /// Publishes the counters and has every queue looked at, once a tick.
    pub(crate) fn on_tick(&mut self, cx: &Context) {
        let now_us = cx.now_us();
        let soonest_us = self.choice.soonest_us(now_us);
        for index in 0..self.nodes.len() {
            self.note(NodeIndex(index as u16), Noted::ForAll);
            let at = NodeIndex(index as u16);
            let node = &mut self.nodes[index];
            // Whatever became of the message.
            node.shared.on_woken(cx.index);
            node.look_at_kept();
            node.publish(now_us);
            if let Some(report) = node.reports.news(&mut node.reported, cx.now, now_us) {
                self.choice.on_report(at, report);
            }
            node.publish_choice(self.choice.view(now_us, at, soonest_us));
        }
    }

    fn note(&mut self, node: NodeIndex, noted: Noted) {
        let queue = &mut self.nodes[node.as_usize()];
        if queue.noted == Noted::No {
            self.noted.push(node);
        }
        if queue.noted != Noted::ForAll {
            queue.noted = noted;
        }
    }

    /// The next node whose queue is to be looked at, and whether for scans, too.
    pub(crate) fn poll_noted(&mut self) -> Option<(NodeIndex, bool)> {
        let node = self.noted.pop()?;
        let noted = std::mem::take(&mut self.nodes[node.as_usize()].noted);
        Some((node, noted == Noted::ForAll))
    }
}

impl Queue {
    /// Opens windows and finds permits anew, from few on.
    fn begin_low(&mut self, cx: &Context, start: Duration) {
        self.schedule
            .begin_low(cx.now_us(), start.as_micros() as u64);
        self.shared.begin_low(cx.now);
    }

    /// Tells the schedule what the other workers leave of the node.
    fn look(&mut self, has_room: bool) {
        self.schedule.set_node_has_room(has_room);
        self.schedule.set_scan_slots(self.shared.permits());
        self.look_at_kept();
    }

    /// While nobody waits for any of the scans at the node, nothing is known of how fast it serves them.
    fn look_at_kept(&mut self) {
        if self.shared.are_all_kept(self.schedule.scan_slots()) {
            self.schedule.forget_scan_rate();
        }
    }

    /// Says whether this worker's scans wait, and what permits would do for them.
    fn say_waiting(&self, worker: usize, has_room: bool) {
        let waits = self.schedule.queued_in(Class::Scan) > 0;
        let can_go = has_room && self.schedule.wants_scan();
        let permits = if can_go {
            self.schedule.scan_slots()
        } else {
            0
        };
        self.shared.say_waiting(worker, waits.then_some(permits));
    }

    fn scans(&self) -> usize {
        self.shared.scans() as usize + self.schedule.queued_in(Class::Scan)
    }
}

#[cfg(test)]
mod tests;
