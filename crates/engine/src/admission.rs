//! What waits for a node, and when it may go, as [`helenus_policy::schedule`] decides.
//!
//! Each worker has a schedule for each node. What they share of a node are its scan slots: a counter
//! of the pieces in flight, and a bit for each worker whose scans wait for a slot. Who gives a slot
//! back wakes the next such worker, so that they take turns.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::{
    Answered, Class, Counters, Handle, Job, Offer, Others, Settings, Slots, Variant,
};
use helenus_wire::code;
use slotmap::Key;

use crate::config::Config;
use crate::engine::{Engine, NodeRequestKey, NodeState};
use crate::request::{NodeRequest, PartJob, Query, Stage, Work};
use crate::shared::WorkerMessage;
use crate::stats::{add, sub};
use crate::work::Noted;

/// Workers that can be woken; further ones look by themselves once a tick.
const WAKEABLE: usize = 64;

/// Counters are published once a tick, each worker at its own: two of them and some.
const LATELY_US: u64 = 300_000;

/// A node's scan slots, over all workers.
#[derive(Debug)]
pub(crate) struct Gate {
    scans: AtomicU32,
    waiting: AtomicU64,
    /// Requests and their bytes in flight beyond what each worker may always have there.
    lent: AtomicU32,
    lent_bytes: AtomicUsize,
    /// As many as `best` has found.
    slots: AtomicU32,
    best: Mutex<Slots>,
    since: Instant,
}

impl Gate {
    fn new(slots: u32, since: Instant) -> Self {
        Gate {
            scans: AtomicU32::new(0),
            waiting: AtomicU64::new(0),
            lent: AtomicU32::new(0),
            lent_bytes: AtomicUsize::new(0),
            slots: AtomicU32::new(slots),
            best: Mutex::new(Slots::new(slots)),
            since,
        }
    }
}

/// The gates of all nodes.
#[derive(Debug)]
pub struct Gates {
    nodes: RwLock<Vec<Arc<Gate>>>,
    since: Instant,
}

impl Gates {
    pub(crate) fn new(now: Instant) -> Gates {
        Gates {
            nodes: RwLock::default(),
            since: now,
        }
    }

    /// A node's gate, made on first use with so many slots. Workers keep the `Arc`.
    pub(crate) fn of(&self, node: NodeIndex, slots: u32) -> Arc<Gate> {
        let mut gates = match self.nodes.write() {
            Ok(gates) => gates,
            Err(poisoned) => poisoned.into_inner(),
        };
        while gates.len() <= node.as_usize() {
            gates.push(Arc::new(Gate::new(slots, self.since)));
        }
        gates[node.as_usize()].clone()
    }
}

/// One of a node's scan slots, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Gate>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.scans.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Gate {
    /// Takes one of `slots` if it is free.
    fn try_take(self: &Arc<Self>, slots: u32) -> Option<Slot> {
        let taken = self
            .scans
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |scans| {
                (scans < slots).then_some(scans + 1)
            });
        taken.is_ok().then(|| Slot(self.clone()))
    }

    /// Says whether a worker's scans wait. Said before a slot is tried for, so that whoever gives one
    /// back in that moment sees it.
    fn say_waiting(&self, worker: usize, waits: bool) {
        let bit = 1 << (worker % WAKEABLE);
        let said = self.waiting.load(Ordering::Relaxed) & bit != 0;
        if worker < WAKEABLE && said != waits {
            match waits {
                true => self.waiting.fetch_or(bit, Ordering::SeqCst),
                false => self.waiting.fetch_and(!bit, Ordering::SeqCst),
            };
        }
    }

    /// The next worker behind this one whose scans wait.
    fn next_waiting(&self, worker: usize) -> Option<usize> {
        let waiting = self.waiting.load(Ordering::SeqCst);
        let own = worker % WAKEABLE;
        (1..WAKEABLE)
            .map(|step| (own + step) % WAKEABLE)
            .find(|other| waiting & (1 << other) != 0)
    }

    /// What has not been given back, by any worker.
    pub(crate) fn residue(&self) -> Option<String> {
        let scans = self.scans.load(Ordering::Relaxed);
        let waiting = self.waiting.load(Ordering::Relaxed);
        let lent = self.lent.load(Ordering::Relaxed);
        let bytes = self.lent_bytes.load(Ordering::Relaxed);
        let clear = scans == 0 && waiting == 0 && lent == 0 && bytes == 0;
        (!clear).then(|| {
            format!("{scans} scan slots, workers {waiting:b} waiting for one, {lent} lent, {bytes} bytes lent")
        })
    }

    /// Slots that were found to be best.
    fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    /// A scan's piece was answered.
    fn learn(&self, now: Instant, work_us: u32, others: Others, waits: bool, settings: &Settings) {
        let waits = waits || self.waiting.load(Ordering::SeqCst) != 0;
        let now_us = now.saturating_duration_since(self.since).as_micros() as u64;
        if let Ok(mut best) = self.best.lock() {
            best.on_answer(now_us, work_us, others, waits, settings.scan_slots_bounds());
            self.slots.store(best.in_force(), Ordering::Relaxed);
        }
    }

    /// Pieces in flight, over all workers.
    pub(crate) fn scans(&self) -> u32 {
        self.scans.load(Ordering::Relaxed)
    }
}

/// What may be in flight on a node over all workers: a part of it is each worker's own, so that none
/// can be kept out by the others, and costs it no look at them; the rest is lent to who needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    own: u32,
    lent_max: u32,
    own_bytes: usize,
    lent_bytes_max: usize,
}

impl Room {
    pub(crate) fn new(config: &Config, workers: usize) -> Room {
        let proxies = 1 + config.listen.proxies.len();
        let workers = workers.max(1);
        let requests = config.links.node_in_flight_max.div_ceil(proxies);
        let own = (requests / 2 / workers).max(1);
        let bytes = config.links.node_bytes_max;
        let own_bytes = bytes / 2 / workers;
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Room {
            own: count(own),
            lent_max: count(requests.saturating_sub(own * workers)),
            own_bytes,
            lent_bytes_max: bytes.saturating_sub(own_bytes * workers),
        }
    }
}

/// What one worker has in flight on a node of its own room.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    requests: u32,
    bytes: usize,
}

impl Inside {
    /// Whether nothing is.
    pub(crate) fn is_clear(&self) -> bool {
        self.requests == 0 && self.bytes == 0
    }
}

/// A request's place among those in flight on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub node: NodeIndex,
    bytes: usize,
    is_lent: bool,
    are_bytes_lent: bool,
}

/// That a request may be at a node.
#[derive(Debug)]
pub(crate) struct Admission {
    pub place: Place,
    /// The scan permit of its node that it holds.
    permit: Option<Slot>,
}

/// A request's place in a node's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub node: NodeIndex,
    pub handle: Handle,
    since_us: u64,
}

/// A worker's share of what the settings allow for a node of so many processors.
pub(crate) fn settings(config: &Config, workers: usize, processors: Option<u32>) -> Settings {
    let scheduling = &config.scheduling;
    let workers = workers.max(1);
    let links = config.links.per_node.div_ceil(workers).max(1);
    let open = (config.links.in_flight_max * links).min(config.links.node_in_flight_max) as u32;
    let share = |n: u32| n.div_ceil(workers as u32).max(1);
    let queue = u32::try_from(config.limits.node_queue_max).unwrap_or(u32::MAX);
    let us = |ms: u64| ms.saturating_mul(1_000);
    let point = us(scheduling.point_wait_max_ms);
    let write = us(scheduling.write_wait_max_ms);
    let scan = us(scheduling.scan_wait_max_ms);
    let other = us(scheduling.other_wait_max_ms);
    let proxies = u32::try_from(1 + config.listen.proxies.len()).unwrap_or(u32::MAX);
    let settings = Settings {
        variant: Variant::Default,
        window_min: share(scheduling.window_min),
        window_max: share(scheduling.window_max),
        window_open_max: open,
        scan_slots: scheduling.scan_slots,
        scan_slots_idle: scheduling.scan_slots_idle,
        scan_slots_max: scheduling.scan_slots_max,
        wait_max_us: [other, point, point, point, write, write, scan, other],
        queue_max: [queue; Class::COUNT],
    };
    let settings = settings.of_node(processors.unwrap_or(0)).shared_by(proxies);
    if !scheduling.enabled {
        return Settings {
            variant: Variant::O,
            window_max: open,
            ..settings
        };
    }
    Settings {
        variant: scheduling.variant.parse().unwrap_or_default(),
        ..settings
    }
}

/// What became of a request that was offered to a node.
pub(crate) enum Admitted {
    Go,
    Waits,
    Refused(String),
}

impl Engine {
    /// Offers a request to a node's schedule.
    pub(crate) fn offer(&mut self, key: NodeRequestKey, node: NodeIndex) -> Admitted {
        let now_us = self.cx.now_us();
        let Some(query) = self.requests.query(key) else {
            return Admitted::Waits;
        };
        let (class, bytes) = (query.class, query.body.len());
        let Some(request) = self.requests.nodes.get(key) else {
            return Admitted::Waits;
        };
        let job = job(request, query);
        let state = &mut self.nodes[node.as_usize()];
        let has_room = state.has_room(&self.room);
        state.schedule.set_node_has_room(has_room);
        state.schedule.set_scan_slots(state.gate.slots());
        let permit = if class == Class::Scan && !state.schedule.settings().variant.is_preset() {
            state.gate.say_waiting(self.cx.index, true);
            let slots = state.schedule.scan_slots();
            has_room.then(|| state.gate.try_take(slots)).flatten()
        } else {
            None
        };
        let offer = state
            .schedule
            .offer(now_us, key, class, job, permit.is_some());
        let permit = permit.filter(|_| offer == Offer::Dispatch);
        if class == Class::Scan {
            let waits = state.schedule.queued_in(Class::Scan) > 0;
            state.gate.say_waiting(self.cx.index, waits);
        }
        let stage = match offer {
            Offer::Refused(why) => return Admitted::Refused(format!("Helenus: {why}")),
            Offer::Dispatch => Stage::Admitted(Admission {
                place: state.enter(node, bytes, &self.room),
                permit,
            }),
            Offer::Queued(handle) => {
                add(&state.stats.counters.queued_total, 1);
                add(&state.stats.queued[class as usize], 1);
                if has_room {
                    // Others wait before it, and another worker may just have made room.
                    self.note_node(node, Noted::ForAll);
                }
                Stage::Queued(Waiting {
                    node,
                    handle,
                    since_us: now_us,
                })
            }
        };
        let waits = matches!(stage, Stage::Queued(_));
        if let Some(request) = self.requests.nodes.get_mut(key) {
            request.work_us = job.piece_us;
            request.stage = stage;
        }
        match waits {
            true => Admitted::Waits,
            false => Admitted::Go,
        }
    }

    /// Gives back a request's place at its node or in the node's queue, and sends who waits for it.
    /// `service_us`: how long the node took to answer, if it did.
    pub(crate) fn leave_schedule(&mut self, key: NodeRequestKey, service_us: Option<u32>) {
        let Some(query) = self.requests.query(key) else {
            return;
        };
        let class = query.class;
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        let work_us = request.work_us;
        let known_us = service_us.map_or(0, |us| known_us(request, query, us));
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return;
        };
        match std::mem::replace(&mut request.stage, Stage::Unplaced) {
            Stage::Unplaced => {}
            Stage::Queued(waiting) => self.leave_queue(waiting, class),
            Stage::Admitted(admission) => {
                let answered = service_us.map(|service_us| Answered {
                    predicted_us: work_us,
                    known_us,
                    service_us,
                });
                self.leave_node(admission, class, answered);
            }
            in_flight @ Stage::InFlight(..) => {
                debug_assert!(false, "it is still on its link");
                request.stage = in_flight;
            }
        }
    }

    fn leave_queue(&mut self, waiting: Waiting, class: Class) {
        let state = &mut self.nodes[waiting.node.as_usize()];
        if state.schedule.remove(waiting.handle).is_some() {
            sub(&state.stats.queued[class as usize], 1);
        }
        self.note_node(waiting.node, Noted::ForAll);
    }

    fn leave_node(&mut self, admission: Admission, class: Class, answered: Option<Answered>) {
        let Admission { place, permit } = admission;
        let node = place.node;
        let now_us = self.cx.now_us();
        let state = &mut self.nodes[node.as_usize()];
        state.leave(place);
        match answered {
            Some(answered) => state.schedule.on_done(now_us, class, answered),
            None => state.schedule.on_gone(class),
        }
        let mut noted = Noted::ForAll;
        if let Some(permit) = permit {
            drop(permit);
            if let Some(answered) = answered {
                let waits = state.schedule.queued_in(Class::Scan) > 0;
                let others = state.schedule.take_others();
                let settings = state.schedule.settings();
                let (now, work_us) = (self.cx.now, answered.predicted_us);
                state.gate.learn(now, work_us, others, waits, settings);
            }
            // Another worker's scans come first now, or the nearer one would always win.
            if self.wake_scans(node) {
                noted = Noted::ForOthers;
            }
        }
        self.note_node(node, noted);
    }

    /// Tells the next worker whose scans wait for a slot; false if there is none.
    fn wake_scans(&mut self, node: NodeIndex) -> bool {
        let next = self.nodes[node.as_usize()].gate.next_waiting(self.cx.index);
        next.is_some_and(|worker| self.cx.tell(worker, WorkerMessage::ScanSlot(node)))
    }

    /// Gives a part that waits the place that the rest of its page has now.
    pub(crate) fn reprioritise(&mut self, key: NodeRequestKey, part: PartJob) {
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return;
        };
        request.work = Work::Part(part);
        if let Stage::Queued(waiting) = &request.stage {
            let schedule = &mut self.nodes[waiting.node.as_usize()].schedule;
            schedule.reprioritise(waiting.handle, part.nodes_left, part.rows, part.work_us);
        }
    }

    /// A slot for scans may be free on this node.
    pub(crate) fn on_scan_slot(&mut self, node: NodeIndex) {
        if node.as_usize() >= self.nodes.len() {
            return;
        }
        self.pump(node, true);
        let state = &self.nodes[node.as_usize()];
        // Not needed here after all: whoever is next shall have it. Who cannot use it although its scans
        // wait does not pass it on, or two such workers would do so without end.
        let waits = state.schedule.queued_in(Class::Scan) > 0;
        if !waits && state.gate.scans() < state.schedule.scan_slots() {
            self.wake_scans(node);
        }
    }

    /// Sends what waits for a node and may go now.
    pub(crate) fn pump(&mut self, node: NodeIndex, may_scan: bool) {
        while let Some(key) = self.next_of(node, may_scan) {
            if self.is_in_vain(key) {
                add(&self.cx.shared.stats.global.requests_cancelled, 1);
                self.cancel(key);
            } else if !self.dispatch(key, node) {
                self.leave_schedule(key, None);
                self.route(key);
            }
        }
        // Whoever of its requests came or went since the last time: what is said of this worker's scans
        // is true again.
        let state = &self.nodes[node.as_usize()];
        let waits = state.schedule.queued_in(Class::Scan) > 0;
        state.gate.say_waiting(self.cx.index, waits);
    }

    fn next_of(&mut self, node: NodeIndex, may_scan: bool) -> Option<NodeRequestKey> {
        if self.nodes[node.as_usize()].schedule.waiting() == 0 {
            return None;
        }
        let now_us = self.cx.now_us();
        let state = &mut self.nodes[node.as_usize()];
        let has_room = state.has_room(&self.room);
        state.schedule.set_node_has_room(has_room);
        state.schedule.set_scan_slots(state.gate.slots());
        let wants = state.schedule.wants_scan();
        if wants {
            state.gate.say_waiting(self.cx.index, true);
        }
        let permit = if wants && may_scan && has_room {
            state.gate.try_take(state.schedule.scan_slots())
        } else {
            None
        };
        let next = state.schedule.poll_dispatch(now_us, permit.is_some());
        // What goes first may be no scan: then it is given back.
        let permit = permit.filter(|_| matches!(next, Some((_, Class::Scan))));
        let waits = state.schedule.queued_in(Class::Scan) > 0;
        state.gate.say_waiting(self.cx.index, waits);
        let (key, class) = next?;
        sub(&state.stats.queued[class as usize], 1);
        let bytes = self.requests.query(key)?.body.len();
        let request = self.requests.nodes.get_mut(key)?;
        if let Stage::Queued(waiting) = &request.stage {
            let us = now_us.saturating_sub(waiting.since_us);
            state.stats.waits[class as usize].record(us);
        }
        request.stage = Stage::Admitted(Admission {
            place: state.enter(node, bytes, &self.room),
            permit,
        });
        // The wait had a bound of its own.
        request.progress = self.cx.now;
        Some(key)
    }

    /// Refuses what has waited for as long as its class may, and publishes the counters; once a tick.
    pub(crate) fn tend_schedules(&mut self) {
        let now_us = self.cx.now_us();
        for index in 0..self.nodes.len() {
            while let Some((key, class)) = self.nodes[index].schedule.poll_expired(now_us) {
                sub(&self.nodes[index].stats.queued[class as usize], 1);
                if let Some(request) = self.requests.nodes.get_mut(key) {
                    request.stage = Stage::Unplaced;
                }
                add(&self.cx.shared.stats.global.requests_overloaded, 1);
                let text = format!(
                    "Helenus: the node did not come to this request within its bound \
                     (scheduling.*_wait_max_ms, class {})",
                    class.name()
                );
                self.fail_untried(key, code::OVERLOADED, &text, &[]);
            }
            self.note_node(NodeIndex(index as u16), Noted::ForAll);
            self.nodes[index].publish(now_us);
        }
    }

    /// Puts the bounds in force that follow from the settings and from what is known of the nodes.
    pub(crate) fn adopt_scheduling(&mut self) {
        let (config, snapshot) = (self.cx.shared.config.clone(), self.cx.snapshot.clone());
        self.room = Room::new(&config, self.cx.workers);
        for (index, node) in snapshot.nodes.iter().enumerate() {
            let settings = settings(&config, self.cx.workers, node.processors);
            self.nodes[index].schedule.set_settings(settings);
            self.note_node(NodeIndex(index as u16), Noted::ForAll);
        }
    }
}

/// Whether nodes have had anything else than scans to do a moment ago, from any worker.
pub(crate) fn others_lately(nodes: &[NodeState], now_us: u64) -> bool {
    let lately = |at_us| now_us.saturating_sub(at_us) < LATELY_US;
    let mut nodes = nodes.iter();
    nodes.any(|node| node.others > 0 && lately(node.others_at_us))
}

impl NodeState {
    /// How many scans want the node: those in flight there, and those of this worker that wait.
    pub(crate) fn scans(&self) -> usize {
        self.gate.scans() as usize + self.schedule.queued_in(Class::Scan)
    }

    /// Whether the node takes one more request of this worker.
    fn has_room(&self, room: &Room) -> bool {
        let requests = self.inside.requests < room.own
            || self.gate.lent.load(Ordering::Relaxed) < room.lent_max;
        let bytes = self.inside.bytes < room.own_bytes
            || self.gate.lent_bytes.load(Ordering::Relaxed) < room.lent_bytes_max;
        // The last of them may go beyond: one of each worker at the same moment, or a large one.
        (requests && bytes) || self.inside.requests == 0
    }

    fn enter(&mut self, node: NodeIndex, bytes: usize, room: &Room) -> Place {
        let is_lent = self.inside.requests >= room.own;
        let are_bytes_lent = self.inside.bytes >= room.own_bytes;
        match is_lent {
            true => _ = self.gate.lent.fetch_add(1, Ordering::Relaxed),
            false => self.inside.requests += 1,
        }
        match are_bytes_lent {
            true => _ = self.gate.lent_bytes.fetch_add(bytes, Ordering::Relaxed),
            false => self.inside.bytes += bytes,
        }
        Place {
            node,
            bytes,
            is_lent,
            are_bytes_lent,
        }
    }

    fn leave(&mut self, place: Place) {
        match place.is_lent {
            true => _ = self.gate.lent.fetch_sub(1, Ordering::Relaxed),
            false => self.inside.requests -= 1,
        }
        match place.are_bytes_lent {
            true => {
                _ = self
                    .gate
                    .lent_bytes
                    .fetch_sub(place.bytes, Ordering::Relaxed)
            }
            false => self.inside.bytes -= place.bytes,
        }
    }

    /// Adds what has been counted since the last time to the node's statistics.
    fn publish(&mut self, now_us: u64) {
        let now = *self.schedule.counters();
        let before: Counters = std::mem::replace(&mut self.published, now);
        for class in Class::ALL {
            let at = class as usize;
            let stats = &self.stats.schedule[at];
            add(
                &stats.dispatched,
                now.dispatched[at] - before.dispatched[at],
            );
            add(&stats.aged, now.aged[at] - before.aged[at]);
            add(&stats.refused, now.refused[at] - before.refused[at]);
            add(&stats.expired, now.expired[at] - before.expired[at]);
        }
        let others = Class::ALL
            .iter()
            .filter(|class| !matches!(class, Class::Scan | Class::System))
            .map(|class| &self.stats.schedule[*class as usize].dispatched)
            .map(|sent| sent.load(Ordering::Relaxed))
            .sum();
        if std::mem::replace(&mut self.others, others) != others {
            self.others_at_us = now_us;
        }
        let window = u64::from(self.schedule.window());
        self.stats.window.store(window, Ordering::Relaxed);
        let taken = u64::from(self.gate.scans());
        self.stats.scan_slots_taken.store(taken, Ordering::Relaxed);
        self.schedule.set_scan_slots(self.gate.slots());
        let slots = u64::from(self.schedule.scan_slots());
        self.stats.scan_slots.store(slots, Ordering::Relaxed);
    }
}

/// The work of a request as its answer, after so long, teaches it to be.
fn known_us(request: &NodeRequest, query: &Query, service_us: u32) -> u32 {
    let Some(statement) = &query.statement else {
        return 0;
    };
    match request.work {
        // There are parts only of what is known well.
        Work::Part(_) => 0,
        Work::Piece { asked, .. } => statement.learned.piece_us_after(service_us, asked),
        Work::Learned | Work::Scan { .. } => statement.learned.service_us_after(service_us),
    }
}

/// What the schedule is told of a request.
fn job(request: &NodeRequest, query: &Query) -> Job {
    let role = query.pool.data().as_ffi() as u32;
    let tenant = query.table.as_ref().map_or(0, |t| t.tenant) ^ role;
    let learned = query.statement.as_ref().map(|s| &s.learned);
    let (work_us, piece_us, rows) = match request.work {
        Work::Part(part) => (part.work_us, part.piece_us, part.rows),
        Work::Piece {
            work_us,
            piece_us,
            rows,
            ..
        } => (work_us, piece_us, rows),
        Work::Scan { work_us } => (work_us, work_us, 1),
        Work::Learned => {
            let us = learned.map_or(1_000, |learned| learned.service_us(query.class));
            (us, us, 1)
        }
    };
    let part = match request.work {
        Work::Part(part) => Some(part),
        _ => None,
    };
    Job {
        work_us,
        piece_us,
        is_part: part.is_some(),
        nodes_left: part.map_or(1, |part| part.nodes_left),
        rows,
        tenant,
        idempotent: query.idempotent,
    }
}
