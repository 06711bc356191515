//! Decides which of the queries that want a node goes next, and which never.
//!
//! Picture: a workshop that takes small repairs and whole overhauls. Small ones go
//! before large ones, and who is nearly finished before who has just begun. There
//! are a few benches for overhauls and the rest is for repairs, so that neither can
//! crowd out the other. A slip with the hour of arrival hangs on everything:
//! whatever has waited for half the promised time is next, and nobody waits beyond
//! it. When the promise cannot be kept, people are told at the door.
//!
//! Formula, of the default:
//! - Scans take as many slots as were found best for the node ([`slots`]), `scan_slots_idle`
//!   at least; if that is all that it can do, they take `scan_slots` while anything else
//!   is in flight or waits. All else takes the window; neither takes the other's places.
//! - Next is System; then the least predicted remaining work, in powers of two, so
//!   that errors of prediction do not disturb the order of arrival; then [`Class`];
//!   then arrival. Within a class tenants have equal shares of work ([`lane`]).
//! - After `wait_max_us / 2` an item is *due*. Due ones go before all others, the
//!   earliest deadline first; but after a due scan the next to go is no scan as long
//!   as anything else may go.
//! - At `wait_max_us` an item is handed back by [`Schedule::poll_expired`].
//! - An item is refused at once when the work that would be served before it takes,
//!   at the rate measured ([`drain`]), longer than `wait_max_us` × its margin: 1 for
//!   scans and what is not understood, 2 for idempotent writes, 3 for other writes,
//!   4 for reads. So scans are shed first and points last. And only if something has
//!   waited for a sixteenth of that bound already: a prediction alone, of many that
//!   come at once to a node that was idle, may be far off.
//!
//! What the window is for: a node serves what it holds first come, first served, and
//! nothing that it holds can be overtaken. While there are only short queries nothing
//! needs overtaking, waiting here is no shorter than waiting there, and a wide window
//! lets more of them share a frame: so it is open (`window_open_max`). While scans
//! are about it is at most `window_max`, and less if answers come late for their
//! work ([`limit`]).
//!
//! What the simulation (crate `sim`) has shown, 12 nodes of 4 threads, the paper's data:
//! - One scan slot beside other queries is enough; a second changes scans by less than
//!   1 % and costs points 15 to 25 % at 1,000 clients.
//! - Idle slots must reach the number of reads that a node runs at full speed, its
//!   cores: with fewer, threads stand idle (with 2 of 4, scans take twice as long); with
//!   6 of 4, points take up to twice as long and scans gain at most 5 %.
//! - With 16 threads instead of 4, 20,000 queries: two slots from which the search sets
//!   out make scans 1.9 (5:5) to 6.6 times (9:1) slower than direct, half of the threads
//!   1.2 to 2.4 times, and points take 0.02 to 0.16 of direct's time with either. So
//!   half of a node's processors is the least ([`Settings::of_node`]).
//! - Remaining work in powers of two: against the exact work, scans lose 2 to 5 % in the
//!   mean, and at 125 clients, 5:5, their p99 is 1.15 s instead of 2.9 s. First come
//!   first served among scans is 20 to 30 % worse in the mean at 1,000 clients, but
//!   better at p99 (at 125 clients, 5:5: 0.67 s): the longest scans pay for the rest.
//! - Pieces of about 10 ms of work; see `sim::setup::PIECE_ROWS`.
//! - The windows 8 and 64 differ by less than 10 % for points and not for scans: what
//!   protects points are the slots. So the window is only narrowed against late answers.
//!
//! The paper's variants have one queue, one fixed window for everything and no early
//! refusal. In P+RaS arrival says whether it is a range's turn, and rank which one's.
//!
//! Limits: each worker sees only its own queries, so `scan_slots_idle` may hold at one
//! worker while another has points out; and proxies do not know each other's scans. The
//! bound of a wait is that of one piece: a scan of many pieces may wait that long for
//! each.
//!
//! Source: the variants from Fukuda et al., section III; keeping the queue outside
//! the server from B. Schroeder et al. (ICDE 2006); least remaining work first from
//! L. Schrage (Operations Research, 1968).

use choose::{Choice, rank_of, through_us};
use drain::{Ahead, Drain};
use lane::{Lane, Waiting};
use limit::Limit;
use std::collections::BTreeSet;

mod choose;
mod drain;
mod job;
mod lane;
mod limit;
mod offer;
mod settings;
mod slots;
#[cfg(test)]
mod tests;
mod variant;

pub use job::{Class, Job};
pub use offer::{Answered, Counters, Handle, Offer, Refusal};
pub use settings::Settings;
pub use slots::{Others, Slots};
pub use variant::{UnknownVariant, Variant};

/// Nothing is refused for what is predicted alone: something must have waited for so small a part of
/// the bound.
const EVIDENCE_SHARE: u64 = 16;

/// All that waits for one node at one worker. After every call but `offer`, call
/// [`Schedule::poll_dispatch`] until it returns nothing.
#[derive(Debug)]
pub struct Schedule<T> {
    settings: Settings,
    lanes: [Lane<T>; Class::COUNT],
    /// In P+RaS: the arrival numbers at which it is some scan's turn, one for each that waits.
    scan_turns: BTreeSet<u64>,
    scans_in_flight: u32,
    others_in_flight: u32,
    others_waiting: u32,
    last_was_due_scan: bool,
    seq: u64,
    now_us: u64,
    limit: Limit,
    /// Of scans, and of all else.
    drains: [Drain; 2],
    /// Scan slots that were found to be best for the node.
    scan_slots: u32,
    /// Whether the node takes one more of anything.
    node_has_room: bool,
    /// Answers of other queries while scans were about, since they were last asked for.
    others: Others,
    ahead: [Ahead; 2],
    counters: Counters,
}

impl<T: Copy> Schedule<T> {
    pub fn new(settings: Settings) -> Self {
        Schedule {
            settings,
            lanes: std::array::from_fn(|_| Lane::new()),
            scan_turns: BTreeSet::new(),
            scans_in_flight: 0,
            others_in_flight: 0,
            others_waiting: 0,
            last_was_due_scan: false,
            seq: 0,
            now_us: 0,
            limit: Limit::new(settings.window_max),
            drains: [Class::Scan, Class::Point]
                .map(|class| Drain::new(settings.wait_max_us[class as usize])),
            scan_slots: settings.scan_slots,
            node_has_room: true,
            others: Others::default(),
            ahead: [Ahead::new(), Ahead::new()],
            counters: Counters::default(),
        }
    }

    /// `scan_allowed`: whether the node has a scan slot left over all workers; only
    /// scans of the default heed it. `now_us` may be as old as the caller's last look
    /// at the clock.
    pub fn offer(
        &mut self,
        now_us: u64,
        item: T,
        class: Class,
        job: Job,
        scan_allowed: bool,
    ) -> Offer {
        if self.passes(class, scan_allowed) {
            self.last_was_due_scan = false;
            self.count_sent(class);
            return Offer::Dispatch;
        }
        self.enqueue(now_us, item, class, job)
    }

    /// The next item to send; it is then in flight.
    #[must_use = "the item returned is in flight and must be sent"]
    pub fn poll_dispatch(&mut self, now_us: u64, scan_allowed: bool) -> Option<(T, Class)> {
        if self.others_waiting == 0 && self.lanes[Class::Scan as usize].is_empty() {
            return None;
        }
        self.see(now_us);
        let (class, seq, due) = self.choose(scan_allowed)?;
        let waiting = self.take(class, seq, true)?;
        self.count_sent(class);
        self.last_was_due_scan = due && class == Class::Scan;
        self.counters.aged[class as usize] += u64::from(due);
        Some((waiting.item, class))
    }

    /// An item that has waited for as long as its class may; it is forgotten here.
    #[must_use = "the item returned is forgotten here and must be answered"]
    pub fn poll_expired(&mut self, now_us: u64) -> Option<(T, Class)> {
        self.see(now_us);
        let expired = Class::ALL.into_iter().find_map(|class| {
            let (seq, waiting) = self.lanes[class as usize].oldest()?;
            let deadline = self.deadline_us(class, waiting.arrived_us);
            (deadline <= self.now_us).then_some((class, seq))
        });
        let (class, seq) = expired?;
        let waiting = self.take(class, seq, false)?;
        self.counters.expired[class as usize] += 1;
        Some((waiting.item, class))
    }

    /// When [`Schedule::poll_expired`] has something next.
    pub fn next_expiry_us(&self) -> Option<u64> {
        let oldest = Class::ALL.into_iter().filter_map(|class| {
            let (_, waiting) = self.lanes[class as usize].oldest()?;
            Some(self.deadline_us(class, waiting.arrived_us))
        });
        oldest.min()
    }

    /// Whether a scan waits that only lacks the node's permit.
    pub fn wants_scan(&self) -> bool {
        !self.settings.variant.is_preset()
            && !self.lanes[Class::Scan as usize].is_empty()
            && self.scans_in_flight < self.scan_slots()
    }

    /// Scan slots of the node as things are now: what a permit should be taken from.
    pub fn scan_slots(&self) -> u32 {
        let settings = &self.settings;
        let least = settings.scan_slots_idle.max(settings.scan_slots);
        let idle = self.others_in_flight == 0 && self.others_waiting == 0;
        let found = self.scan_slots.min(settings.scan_slots_max);
        if found > least || idle {
            found.max(least)
        } else {
            // The node has no core to spare.
            settings.scan_slots
        }
    }

    /// How many scan slots [`Slots`] has found to be best for the node.
    pub fn set_scan_slots(&mut self, slots: u32) {
        self.scan_slots = slots;
    }

    /// Whether the node takes one more of anything, whoever has sent it what it has: asked before
    /// something is offered or polled, as others change it.
    pub fn set_node_has_room(&mut self, has_room: bool) {
        self.node_has_room = has_room;
    }

    /// What has been answered beside scans since the last time: for [`Slots`].
    pub fn take_others(&mut self) -> Others {
        std::mem::take(&mut self.others)
    }

    /// An item in flight was answered.
    ///
    /// # Panics
    /// If none of the class is in flight: the caller has counted one item twice.
    pub fn on_done(&mut self, now_us: u64, class: Class, answered: Answered) {
        let Answered {
            predicted_us: work_us,
            known_us,
            service_us,
        } = answered;
        let tight = !self.settings.variant.is_preset() && self.scans_about();
        if tight && class != Class::Scan {
            let slow = f64::from(service_us.max(1)) / f64::from(work_us.max(1));
            self.others.add(Others {
                ln_sum: slow.ln(),
                count: 1,
            });
            let max = self.settings.window_max;
            self.limit
                .on_answer(work_us, service_us, self.others_in_flight, max);
        }
        self.on_gone(class);
        let waits = match class {
            Class::Scan => !self.lanes[Class::Scan as usize].is_empty(),
            _ => self.others_waiting > 0,
        };
        // Were the rate measured in what was believed before, and the queue in what is believed now, a
        // first answer a thousand times slower than its prior would make the queue a thousand times longer.
        self.drains[group(class)].on_done(now_us, work_us.max(known_us), waits);
    }

    /// An item in flight was given up, or its answer says nothing about the node.
    ///
    /// # Panics
    /// If none of the class is in flight.
    pub fn on_gone(&mut self, class: Class) {
        let at = class as usize;
        assert!(
            self.counters.done[at] < self.counters.dispatched[at],
            "done without anything in flight"
        );
        self.counters.done[at] += 1;
        match class {
            Class::Scan => self.scans_in_flight -= 1,
            _ => self.others_in_flight -= 1,
        }
        debug_assert_eq!(
            self.in_flight() as u64,
            self.counters.dispatched.iter().sum::<u64>() - self.counters.done.iter().sum::<u64>()
        );
    }

    /// Gives a waiting item its new place, for instance because another piece of its
    /// query has returned. It keeps its age. False if it does not wait any more.
    pub fn reprioritise(
        &mut self,
        handle: Handle,
        nodes_left: u16,
        rows: u32,
        work_us: u32,
    ) -> bool {
        let Handle { class, seq } = handle;
        let lane = &mut self.lanes[class as usize];
        let Some(&Waiting {
            job,
            rank,
            arrived_us,
            ..
        }) = lane.get(seq)
        else {
            return false;
        };
        let job_now = Job {
            nodes_left,
            rows,
            work_us,
            piece_us: job.piece_us.min(work_us),
            ..job
        };
        let variant = self.settings.variant;
        let rank_now = rank_of(variant, class, &job_now);
        let through_us = through_us(variant, class, &job_now, arrived_us);
        lane.change(seq, job_now, rank_now, through_us);
        let ahead = &mut self.ahead[group(class)];
        ahead.sub(rank, job.ahead_us());
        ahead.add(rank_now, job_now.ahead_us());
        true
    }

    /// Takes out an item that waits, for instance because its client is gone.
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        self.take(handle.class, handle.seq, false)
            .map(|waiting| waiting.item)
    }

    /// Takes out everything that waits, by class and arrival, for instance because
    /// the node is gone. What is in flight stays so.
    #[must_use = "the items returned are forgotten here"]
    pub fn drain(&mut self) -> Vec<(T, Class)> {
        let mut out = Vec::with_capacity(self.waiting());
        for class in Class::ALL {
            while let Some((seq, _)) = self.lanes[class as usize].oldest() {
                let waiting = self.take(class, seq, false);
                out.extend(waiting.map(|waiting| (waiting.item, class)));
            }
        }
        out
    }

    /// Takes other bounds over. What waits keeps its age, and is ordered anew.
    pub fn set_settings(&mut self, settings: Settings) {
        if settings.window_max != self.settings.window_max {
            self.limit = Limit::new(settings.window_max);
        }
        let reorder = settings.variant != self.settings.variant;
        self.settings = settings;
        if !reorder {
            return;
        }
        self.ahead = [Ahead::new(), Ahead::new()];
        self.scan_turns.clear();
        self.others_waiting = 0;
        for class in Class::ALL {
            let mut lane = std::mem::replace(&mut self.lanes[class as usize], Lane::new());
            while let Some((seq, _)) = lane.oldest() {
                if let Some(waiting) = lane.remove(seq) {
                    self.put(class, seq, waiting.item, waiting.job, waiting.arrived_us);
                }
            }
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Most queries in flight at present; in the default, of those that are no scans.
    pub fn window(&self) -> u32 {
        let settings = &self.settings;
        if settings.variant.is_preset() {
            settings.window_max
        } else if self.scans_about() {
            self.limit.slots(settings.window_min, settings.window_max)
        } else {
            settings.window_open_max
        }
    }

    /// Dispatched and not yet done. More than the window only after it has narrowed.
    pub fn in_flight(&self) -> usize {
        (self.scans_in_flight + self.others_in_flight) as usize
    }

    pub fn scans_in_flight(&self) -> usize {
        self.scans_in_flight as usize
    }

    pub fn waiting(&self) -> usize {
        self.others_waiting as usize + self.lanes[Class::Scan as usize].len()
    }

    pub fn queued_in(&self, class: Class) -> usize {
        self.lanes[class as usize].len()
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn scans_about(&self) -> bool {
        self.scans_in_flight > 0 || !self.lanes[Class::Scan as usize].is_empty()
    }

    /// Whether there is a place for one more of this class.
    fn has_room(&self, class: Class, scan_allowed: bool) -> bool {
        if !self.node_has_room {
            false
        } else if self.settings.variant.is_preset() {
            self.scans_in_flight + self.others_in_flight < self.settings.window_max
        } else if class == Class::Scan {
            scan_allowed && self.scans_in_flight < self.scan_slots()
        } else {
            self.others_in_flight < self.window()
        }
    }

    /// The path of nearly every query: room, and nothing of its kind before it.
    fn passes(&self, class: Class, scan_allowed: bool) -> bool {
        let scans_wait = !self.lanes[Class::Scan as usize].is_empty();
        let overtakes = match (self.settings.variant.is_preset(), class) {
            (true, _) => scans_wait || self.others_waiting > 0,
            (false, Class::Scan) => scans_wait,
            (false, _) => self.others_waiting > 0,
        };
        !overtakes && self.has_room(class, scan_allowed)
    }

    fn count_sent(&mut self, class: Class) {
        self.counters.dispatched[class as usize] += 1;
        match class {
            Class::Scan => self.scans_in_flight += 1,
            _ => self.others_in_flight += 1,
        }
    }

    fn enqueue(&mut self, now_us: u64, item: T, class: Class, job: Job) -> Offer {
        self.see(now_us);
        let at = class as usize;
        let refusal = if self.lanes[at].len() >= self.settings.queue_max[at] as usize {
            Some(Refusal::QueueFull)
        } else {
            self.too_late(class, &job)
        };
        if let Some(refusal) = refusal {
            self.counters.refused[at] += 1;
            return Offer::Refused(refusal);
        }
        self.seq += 1;
        let seq = self.seq;
        self.put(class, seq, item, job, self.now_us);
        self.drains[group(class)].on_done(self.now_us, 0, true);
        Offer::Queued(Handle { class, seq })
    }

    fn too_late(&self, class: Class, job: &Job) -> Option<Refusal> {
        if self.settings.variant.is_preset() || class == Class::System {
            return None;
        }
        let margin = match class {
            Class::Scan | Class::Other => 1,
            Class::Write | Class::Lwt if job.idempotent => 2,
            Class::Write | Class::Lwt => 3,
            _ => 4,
        };
        let rank = rank_of(self.settings.variant, class, job);
        let ahead_us = self.ahead[group(class)].up_to(rank);
        let wait_us = self.drains[group(class)].wait_us(self.now_us, ahead_us)?;
        let bound_us = self.settings.wait_max_us[class as usize].saturating_mul(margin);
        (wait_us > bound_us && self.is_slow(class)).then_some(Refusal::TooLate { wait_us })
    }

    /// Whether something has waited for a while already among what shares its drain with a class.
    fn is_slow(&self, class: Class) -> bool {
        let while_us = self.settings.wait_max_us[class as usize] / EVIDENCE_SHARE;
        let mut shared = Class::ALL
            .into_iter()
            .filter(|other| group(*other) == group(class));
        shared.any(|other| {
            let oldest = self.lanes[other as usize].oldest();
            oldest.is_some_and(|(_, waiting)| {
                self.now_us.saturating_sub(waiting.arrived_us) >= while_us
            })
        })
    }

    fn put(&mut self, class: Class, seq: u64, item: T, job: Job, arrived_us: u64) {
        let variant = self.settings.variant;
        let rank = rank_of(variant, class, &job);
        let tenant = if variant.is_preset() { 0 } else { job.tenant };
        self.ahead[group(class)].add(rank, job.ahead_us());
        match class {
            Class::Scan if variant == Variant::PRaS => {
                self.scan_turns.insert(seq);
            }
            Class::Scan => {}
            _ => self.others_waiting += 1,
        }
        self.lanes[class as usize].push(
            seq,
            Waiting {
                item,
                job,
                rank,
                through_us: through_us(variant, class, &job, arrived_us),
                tenant,
                arrived_us,
            },
        );
    }

    fn take(&mut self, class: Class, seq: u64, served: bool) -> Option<Waiting<T>> {
        let lane = &mut self.lanes[class as usize];
        let waiting = match served {
            true => lane.serve(seq),
            false => lane.remove(seq),
        }?;
        self.ahead[group(class)].sub(waiting.rank, waiting.job.ahead_us());
        match class {
            Class::Scan if served => {
                self.scan_turns.pop_first();
            }
            // Its own turn goes with it; if another scan has used that, the last one.
            Class::Scan => {
                if !self.scan_turns.remove(&seq) {
                    self.scan_turns.pop_last();
                }
            }
            _ => self.others_waiting -= 1,
        }
        Some(waiting)
    }

    fn choose(&self, scan_allowed: bool) -> Option<(Class, u64, bool)> {
        let may_go = |class: Class| {
            !self.lanes[class as usize].is_empty() && self.has_room(class, scan_allowed)
        };
        let choice = Choice {
            settings: &self.settings,
            lanes: &self.lanes,
            may_go: Class::ALL.map(may_go),
            last_was_due_scan: self.last_was_due_scan,
            scan_turn: self.scan_turns.first().copied(),
            now_us: self.now_us,
        };
        choice.choose()
    }

    fn deadline_us(&self, class: Class, arrived_us: u64) -> u64 {
        arrived_us.saturating_add(self.settings.wait_max_us[class as usize])
    }

    /// Time never goes back here, so that arrival numbers and arrival times agree.
    fn see(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
    }
}

fn group(class: Class) -> usize {
    usize::from(class != Class::Scan)
}
