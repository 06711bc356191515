//! Decides which of the queries for a node is sent next, which wait, and which are refused.
//!
//! Formula, of the default variant:
//! - **Permits.** A piece of a scan needs one of the node's scan permits, called scan slots in
//!   settings and metrics. Their number is the best one found for the node ([`slots`]), at least
//!   `scan_slots_idle`. On a node for which no more than that was found to be good, scans get only
//!   `scan_slots` while anything quick is in flight or waiting ([`Class::is_quick`]). All other queries use the window.
//!   Neither takes capacity from the other.
//! - **Order.** System first; then least predicted remaining work, in powers of two, so that
//!   prediction errors do not disturb the order of arrival; then [`Class`]; then arrival. A class
//!   that has got less than its floor goes before that order ([`floors`]). Within a class tenants have equal shares of work, over all queues for the node ([`shares`]), and within a
//!   tenant no hot partition keeps the others waiting ([`flows`]).
//! - **Ageing.** After `wait_max_us / 2` an item is *due*. Due items go before all others, earliest
//!   deadline first; but after a due scan the next item is not a scan if anything else may go. At
//!   `wait_max_us` [`Schedule::poll_expired`] returns the item.
//! - **Shedding.** An item is refused at once if the work to be served before it ([`ahead`]) takes, at
//!   the measured rate ([`service_rate`]), longer than `wait_max_us` times a margin: 1 for scans and
//!   statements that were not understood, 2 for idempotent writes, 3 for other writes, 4 for reads.
//!   So scans are shed first and point reads last. This also requires that something has already
//!   waited for a sixteenth of that bound: predictions alone, for many queries that reach an idle
//!   node at once, may be far off.
//! - **Shedding from a standing queue.** Where more comes than is served, an item that has waited for
//!   `standing_wait_max_us` is returned by [`Schedule::shed`]: its client is about to leave ([`standing`]).
//!
//! Why a window: a node serves what it holds first come, first served, and nothing it holds can be
//! overtaken. With short queries only, nothing needs to be overtaken, waiting here is no shorter
//! than waiting there, and a wide window lets more queries share a frame: so it is open
//! (`window_open_max`). While scans are in flight or waiting it is at most `window_max`, and less
//! if answers come late for their work ([`adaptive_window`]).
//!
//! Evidence, from the simulation (crate `sim`; 12 nodes of 4 threads, the paper's data):
//! - One scan permit beside other queries is enough; a second one changes scans by less than 1 %
//!   and costs points 15 to 25 % at 1,000 clients.
//! - On an idle node the permits must reach the number of reads that it runs at full speed, its
//!   cores: with fewer, threads are idle (with 2 of 4, scans take twice as long); with 6 of 4,
//!   points take up to twice as long and scans gain at most 5 %.
//! - With 16 threads instead of 4 and 20,000 queries: if the search starts at two permits, scans
//!   are 1.9 (5:5) to 6.6 times (9:1) slower than direct; if it starts at half of the threads, 1.2
//!   to 2.4 times. Points take 0.02 to 0.16 of direct's time with either. So half of a node's
//!   processors is the minimum, and all of them are tried first ([`Settings::of_node`]): with the
//!   paper's 12 nodes of 4 cores and 2,000 queries, a second or two, half as many made scans take 1.16
//!   to 1.67 times as long as direct, all of them 1.06 to 1.28 times; points 0.025 to 0.23 times.
//! - Remaining work in powers of two: compared with exact work, scans lose 2 to 5 % in the mean,
//!   and at 125 clients, 5:5, their p99 is 1.15 s instead of 2.9 s. First come, first served among
//!   scans is 20 to 30 % worse in the mean at 1,000 clients, but better at p99 (at 125 clients,
//!   5:5: 0.67 s): the longest scans pay for the rest.
//! - Pieces of about 10 ms of work: on three real nodes of 0.35 cores each, with 50 clients of half
//!   points and half scans of up to 10,000 rows, scans are 12 to 28 % faster than with pieces of up
//!   to 8 MiB, and points as fast. In the simulation of the paper's cluster, where nodes have cores
//!   to spare and little is known of each of 1,000 tables, they make scans 9 to 24 % slower (and
//!   points up to 60 % faster).
//! - Windows of 8 and 64 differ by less than 10 % for points and not at all for scans: the permits
//!   are what protects points. So the window is only narrowed when answers are late.
//!
//! The paper's variants have one queue, one fixed window for everything and no early refusal. In
//! P+RaS arrival decides whether a range is next, and rank decides which one.
//!
//! Limits: each worker sees only its own queries, so `scan_slots_idle` may be in force at one
//! worker while another has points in flight; and proxies do not know each other's scans. The bound
//! on waiting is per piece: a scan of many pieces may wait that long for each.
//!
//! Source: the variants from Fukuda et al., section III; keeping the queue outside the server from
//! B. Schroeder et al. (ICDE 2006); least remaining work first from L. Schrage (Operations
//! Research, 1968).

use adaptive_window::AdaptiveWindow;
use ahead::Ahead;
use choose::{Choice, rank_of, target_us};
use fair_queue::{FairQueue, Queued, Share};
use floors::Floors;
use ramp::Ramp;
use service_rate::{Backlog, ServiceRate, rate_group};
use shares::Shares;
use std::collections::BTreeSet;
use std::sync::Arc;

mod adaptive_window;
mod ahead;
mod choose;
mod fair_queue;
mod floors;
mod flows;
mod job;
mod looks;
mod numbers;
mod offer;
mod ramp;
mod service_rate;
mod settings;
pub mod shares;
mod slots;
mod standing;
#[cfg(test)]
mod tests;
mod unserved;
mod variant;

pub use job::{Class, Job, Payer};
pub use offer::{Answered, Counters, Handle, Offer, Refusal};
pub use settings::Settings;
pub use slots::{Others, PieceAnswered, Slots};
pub use variant::{UnknownVariant, Variant};

/// The queue of one worker for one node. After every call except `offer`, call
/// [`Schedule::poll_dispatch`] until it returns None.
#[derive(Debug)]
pub struct Schedule<T> {
    settings: Settings,
    queues: [FairQueue<T>; Class::COUNT],
    floors: Floors,
    /// In P+RaS: the arrival numbers at which some scan is next, one per waiting scan.
    scan_turns: BTreeSet<u64>,
    scans_in_flight: u32,
    others_in_flight: u32,
    others_waiting: u32,
    last_was_due_scan: bool,
    seq: u64,
    now_us: u64,
    adaptive_window: AdaptiveWindow,
    /// While the window of a node that has joined opens.
    ramp: Option<Ramp>,
    /// Of scans, and of everything else; see [`rate_group`].
    service_rates: [ServiceRate; 2],
    /// The number of scan permits found to be best for the node.
    scan_slots: u32,
    /// The node may get one more request of any kind.
    node_has_room: bool,
    /// Answers of other queries while scans were present, since they were last taken.
    others: Others,
    backlogs: [Backlog; Class::COUNT],
    counters: Counters,
}

impl<T: Copy> Schedule<T> {
    /// The only queue for its node.
    pub fn new(settings: Settings) -> Self {
        Schedule::sharing(settings, Arc::default(), 0)
    }

    /// One of several queues for a node, of this number: all of them have these shares.
    pub fn sharing(settings: Settings, shares: Arc<Shares>, queue: usize) -> Self {
        let queues = Class::ALL.map(|class| {
            let shares = shares.clone();
            FairQueue::new(Share {
                shares,
                class,
                queue,
            })
        });
        Schedule {
            settings,
            queues,
            floors: Floors::default(),
            scan_turns: BTreeSet::new(),
            scans_in_flight: 0,
            others_in_flight: 0,
            others_waiting: 0,
            last_was_due_scan: false,
            seq: 0,
            now_us: 0,
            adaptive_window: AdaptiveWindow::new(settings.window_max),
            ramp: None,
            service_rates: [Class::Scan, Class::Point]
                .map(|class| ServiceRate::new(settings.wait_max_us[class as usize])),
            scan_slots: settings.scan_slots,
            node_has_room: true,
            others: Others::default(),
            backlogs: [Backlog::new(); Class::COUNT],
            counters: Counters::default(),
        }
    }

    /// `scan_allowed`: whether the node has a scan permit left, over all workers; only scans of the
    /// default variant depend on it. `now_us` may be as old as the caller's last clock reading.
    #[inline]
    pub fn offer(
        &mut self,
        now_us: u64,
        item: T,
        class: Class,
        job: Job,
        scan_allowed: bool,
    ) -> Offer {
        let Job { tenant, flow, .. } = job;
        let payer = || Payer { tenant, flow };
        self.offer_of(now_us, item, class, job, scan_allowed, payer)
    }

    /// [`Self::offer`]; whom it is charged to is only asked for if it has to wait.
    #[inline]
    pub fn offer_of(
        &mut self,
        now_us: u64,
        item: T,
        class: Class,
        job: Job,
        scan_allowed: bool,
        payer: impl FnOnce() -> Payer,
    ) -> Offer {
        if self.ramp.is_some() {
            self.open_further(now_us);
        }
        if self.passes(class, scan_allowed) {
            self.last_was_due_scan = false;
            self.count_sent(class);
            return Offer::Dispatch;
        }
        let Payer { tenant, flow } = payer();
        self.enqueue(
            now_us,
            item,
            class,
            Job {
                tenant,
                flow,
                ..job
            },
        )
    }

    /// The next item to send; it is then in flight.
    #[must_use = "the item returned is in flight and must be sent"]
    #[inline]
    pub fn poll_dispatch(&mut self, now_us: u64, scan_allowed: bool) -> Option<(T, Class)> {
        if self.others_waiting == 0 && self.queues[Class::Scan as usize].is_empty() {
            return None;
        }
        self.dispatch(now_us, scan_allowed)
    }

    #[inline(never)]
    fn dispatch(&mut self, now_us: u64, scan_allowed: bool) -> Option<(T, Class)> {
        self.advance_to(now_us);
        if self.ramp.is_some() {
            self.open_further(now_us);
        }
        for queue in &mut self.queues {
            queue.refresh();
        }
        let (class, seq, due) = self.choose(scan_allowed)?;
        let waiting = self.take(class, seq, true)?;
        // Nothing is owed where nothing waits.
        if self.others_waiting > 0 && !self.settings.variant.is_preset() {
            let waits = |class: Class| !self.queues[class as usize].is_empty();
            self.floors.on_served(class, waiting.job.piece_us, waits);
        }
        self.count_sent(class);
        self.last_was_due_scan = due && class == Class::Scan;
        self.counters.aged[class as usize] += u64::from(due);
        Some((waiting.item, class))
    }

    /// The node's current number of scan permits.
    pub fn scan_slots(&self) -> u32 {
        let settings = &self.settings;
        let minimum = settings.scan_slots_idle.max(settings.scan_slots);
        let found = self.scan_slots.min(settings.scan_slots_max);
        if found > minimum || !self.quick_present() {
            found.max(minimum)
        } else {
            // The node has no spare core.
            settings.scan_slots
        }
    }

    /// Sets the number of scan permits that [`Slots`] has found to be best for the node.
    pub fn set_scan_slots(&mut self, slots: u32) {
        self.scan_slots = slots;
    }

    /// Sets whether the node may get one more request of any kind, given the load from all workers.
    /// Call it before `offer` and `poll_dispatch`, because other workers change it.
    pub fn set_node_has_room(&mut self, has_room: bool) {
        self.node_has_room = has_room;
    }

    /// Forgets how fast scans are served, as all permits are with scans that nobody waits for any more: that nothing is
    /// answered meanwhile says nothing of the node.
    pub fn forget_scan_rate(&mut self) {
        let wait_max_us = self.settings.wait_max_us[Class::Scan as usize];
        self.service_rates[rate_group(Class::Scan)] = ServiceRate::new(wait_max_us);
    }

    /// Answers beside scans since the last call, for [`Slots`].
    pub fn take_others(&mut self) -> Others {
        std::mem::take(&mut self.others)
    }

    /// An item in flight was answered.
    ///
    /// # Panics
    /// If none of the class is in flight: the caller has counted one item twice.
    #[inline]
    pub fn on_done(&mut self, now_us: u64, class: Class, answered: Answered) {
        let Answered {
            predicted_us: work_us,
            known_us,
            service_us,
            is_error,
        } = answered;
        let is_narrow = !self.settings.variant.is_preset() && self.scans_present();
        if is_narrow && class != Class::Scan && !is_error {
            self.note_beside_scans(work_us, service_us);
        }
        self.on_gone(class);
        let waits = match class {
            Class::Scan => !self.queues[Class::Scan as usize].is_empty(),
            _ => self.others_waiting > 0,
        };
        // Rate and queue must be measured with the same predictions: otherwise a first answer a
        // thousand times slower than its prior would make the queue seem a thousand times longer.
        self.service_rates[rate_group(class)].on_done(now_us, work_us.max(known_us), waits);
    }

    #[inline(never)]
    fn note_beside_scans(&mut self, work_us: u32, service_us: u32) {
        self.others.add(Others::of(service_us, work_us));
        let max = self.settings.window_max;
        self.adaptive_window
            .on_answer(work_us, service_us, self.others_in_flight, max);
    }

    /// An item in flight was abandoned, or its answer says nothing about the node.
    ///
    /// # Panics
    /// If none of the class is in flight.
    #[inline]
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

    /// Changes the bounds. Waiting items keep their age and are reordered.
    pub fn set_settings(&mut self, settings: Settings) {
        if settings.window_max != self.settings.window_max {
            self.adaptive_window
                .scale(self.settings.window_max, settings.window_max);
        }
        let reorder = settings.variant != self.settings.variant;
        self.settings = settings;
        if !reorder {
            return;
        }
        self.backlogs = [Backlog::new(); Class::COUNT];
        self.floors = Floors::default();
        self.scan_turns.clear();
        self.others_waiting = 0;
        for class in Class::ALL {
            let queue = &mut self.queues[class as usize];
            let mut waiting = Vec::with_capacity(queue.len());
            while let Some((seq, _)) = queue.oldest() {
                waiting.extend(queue.remove(seq).map(|waiting| (seq, waiting)));
            }
            for (seq, of) in waiting {
                self.insert(class, seq, of.item, of.job, of.arrived_us);
            }
        }
    }

    /// The node has joined: its windows open from `window_min` on, for so long.
    pub fn begin_low(&mut self, now_us: u64, for_us: u64) {
        self.advance_to(now_us);
        self.ramp = Some(Ramp::new(now_us, for_us));
        self.adaptive_window = AdaptiveWindow::new(self.settings.window_min);
    }

    #[cold]
    fn open_further(&mut self, now_us: u64) {
        self.advance_to(now_us);
        self.ramp = self.ramp.filter(|ramp| !ramp.is_over(self.now_us));
    }

    /// The current maximum of queries in flight; in the default variant, without scans.
    #[inline]
    pub fn window(&self) -> u32 {
        let settings = &self.settings;
        if settings.variant.is_preset() {
            return settings.window_max;
        }
        let full = if self.scans_present() {
            let min = settings.window_min.max(settings.window_floor);
            self.adaptive_window.size(min, settings.window_max)
        } else {
            settings.window_open_max
        };
        match &self.ramp {
            None => full,
            Some(ramp) => ramp.window(self.now_us, settings.window_min, full),
        }
    }

    /// Dispatched and not yet done. Exceeds the window only after it has narrowed.
    pub fn in_flight(&self) -> usize {
        (self.scans_in_flight + self.others_in_flight) as usize
    }

    pub fn waiting(&self) -> usize {
        self.others_waiting as usize + self.queues[Class::Scan as usize].len()
    }

    fn quick_present(&self) -> bool {
        let Counters {
            dispatched, done, ..
        } = &self.counters;
        let mut quick = Class::ALL.into_iter().filter(|class| class.is_quick());
        quick.any(|class| {
            let at = class as usize;
            dispatched[at] > done[at] || !self.queues[at].is_empty()
        })
    }

    #[inline]
    fn scans_present(&self) -> bool {
        self.scans_in_flight > 0 || !self.queues[Class::Scan as usize].is_empty()
    }

    /// True if one more of this class may be sent.
    #[inline]
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

    /// True for nearly every query: there is room, and nothing of its kind is waiting before it.
    #[inline]
    fn passes(&self, class: Class, scan_allowed: bool) -> bool {
        let scans_wait = !self.queues[Class::Scan as usize].is_empty();
        let overtakes = match (self.settings.variant.is_preset(), class) {
            (true, _) => scans_wait || self.others_waiting > 0,
            (false, Class::Scan) => scans_wait,
            (false, _) => self.others_waiting > 0,
        };
        !overtakes && self.has_room(class, scan_allowed)
    }

    #[inline]
    fn count_sent(&mut self, class: Class) {
        self.counters.dispatched[class as usize] += 1;
        match class {
            Class::Scan => self.scans_in_flight += 1,
            _ => self.others_in_flight += 1,
        }
    }

    #[inline(never)]
    fn enqueue(&mut self, now_us: u64, item: T, class: Class, job: Job) -> Offer {
        self.advance_to(now_us);
        if let Some(refusal) = self.refusal(class, &job) {
            self.counters.refused[class as usize] += 1;
            return Offer::Refused(refusal);
        }
        self.seq += 1;
        let seq = self.seq;
        self.insert(class, seq, item, job, self.now_us);
        self.service_rates[rate_group(class)].on_done(self.now_us, 0, true);
        Offer::Queued(Handle { class, seq })
    }

    fn refusal(&self, class: Class, job: &Job) -> Option<Refusal> {
        let queue = &self.queues[class as usize];
        let max = self.settings.queue_max[class as usize] as usize;
        // Hot partitions may fill half of a queue; the rest is for all others.
        let is_hot = job.flow != 0 && !self.settings.variant.is_preset();
        let has_share = is_hot && queue.hot() >= max.div_ceil(2);
        match has_share || queue.len() >= max {
            true => Some(Refusal::QueueFull),
            false => {
                let ahead = Ahead {
                    settings: &self.settings,
                    queues: &self.queues,
                    backlogs: &self.backlogs,
                    service_rates: &self.service_rates,
                    now_us: self.now_us,
                };
                ahead.too_late(class, job)
            }
        }
    }

    fn insert(&mut self, class: Class, seq: u64, item: T, job: Job, arrived_us: u64) {
        let variant = self.settings.variant;
        let rank = rank_of(variant, class, &job);
        let is_preset = variant.is_preset();
        let tenant = if is_preset { 0 } else { job.tenant };
        let flow = if is_preset { 0 } else { job.flow };
        let job = Job { flow, ..job };
        let bound_us = self.standing_wait_us(class);
        self.backlogs[class as usize].add(rank, job.ahead_us());
        match class {
            Class::Scan if variant == Variant::PRaS => {
                self.scan_turns.insert(seq);
            }
            Class::Scan => {}
            _ => self.others_waiting += 1,
        }
        self.queues[class as usize].push(
            seq,
            Queued {
                item,
                job,
                rank,
                target_us: target_us(variant, class, &job, arrived_us),
                tenant,
                start: 0,
                arrived_us,
            },
            bound_us,
        );
    }

    fn take(&mut self, class: Class, seq: u64, served: bool) -> Option<Queued<T>> {
        let bound_us = self.standing_wait_us(class);
        let queue = &mut self.queues[class as usize];
        let waiting = match served {
            true => queue.serve(seq, self.now_us, bound_us),
            false => queue.remove(seq),
        }?;
        if queue.is_empty() {
            self.floors.forget(class);
        }
        self.backlogs[class as usize].sub(waiting.rank, waiting.job.ahead_us());
        match class {
            Class::Scan if served => {
                self.scan_turns.pop_first();
            }
            // Its own turn is removed with it, or the last one if another scan has used that.
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
            !self.queues[class as usize].is_empty() && self.has_room(class, scan_allowed)
        };
        let choice = Choice {
            settings: &self.settings,
            queues: &self.queues,
            floors: &self.floors,
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

    /// The longest wait in a queue that stands; 0: any.
    fn standing_wait_us(&self, class: Class) -> u64 {
        match class {
            _ if self.settings.variant.is_preset() => 0,
            // Drivers' handshakes and schema reads, and the proxy's own queries.
            Class::System => 0,
            class => self.settings.standing_wait_max_us[class as usize],
        }
    }

    /// Time never goes backwards here, so that arrival numbers and arrival times agree.
    fn advance_to(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
    }
}
