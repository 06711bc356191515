//! A naive model, one list searched from end to end, and random schedules compared with it.

use super::super::*;
use super::answered;
use crate::test_rng::{TestRng, for_seeds};
use std::collections::BTreeMap;

#[derive(Clone, Copy)]
struct Item {
    handle: Handle,
    job: Job,
    arrived_us: u64,
}

struct Model {
    settings: Settings,
    waiting: Vec<Item>,
    sent: [u32; Class::COUNT],
    /// In P+RaS: arrival numbers of scans whose turn is not used yet.
    turns: Vec<u64>,
    /// The number of scan permits found to be best.
    found: u32,
    last_was_due_scan: bool,
    tags: BTreeMap<(Class, u32), u64>,
    /// Eight times what classes are owed.
    owed: [u64; Class::COUNT],
    virtual_us: [u64; Class::COUNT],
}

impl Model {
    fn scans(&self) -> u32 {
        self.sent[Class::Scan as usize]
    }

    fn others(&self) -> u32 {
        self.sent.iter().sum::<u32>() - self.scans()
    }

    fn waits(&self, scan: bool) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|item| (item.handle.class == Class::Scan) == scan)
    }

    fn room(&self, class: Class, scan_allowed: bool) -> bool {
        let settings = &self.settings;
        if settings.variant != Variant::Default {
            return self.scans() + self.others() < settings.window_max;
        }
        if class == Class::Scan {
            let quick = |class: &Class| class.is_quick();
            let mut sent = Class::ALL.iter().filter(|class| quick(class));
            let idle = sent.all(|class| self.sent[*class as usize] == 0)
                && !self.waiting.iter().any(|item| quick(&item.handle.class));
            let found = self.found.min(settings.scan_slots_max);
            let least = settings.scan_slots_idle.max(settings.scan_slots);
            let slots = match idle || found > least {
                true => found.max(least),
                false => settings.scan_slots,
            };
            return scan_allowed && self.scans() < slots;
        }
        let about = self.scans() > 0 || self.waits(true);
        let window = match about {
            true => settings.window_max,
            false => settings.window_open_max,
        };
        self.others() < window
    }

    fn passes(&self, class: Class, scan_allowed: bool) -> bool {
        let overtakes = match self.settings.variant {
            Variant::Default => self.waits(class == Class::Scan),
            _ => !self.waiting.is_empty(),
        };
        self.room(class, scan_allowed) && !overtakes
    }

    fn share(&self, item: &Item) -> (Class, u32) {
        let shared = self.settings.variant == Variant::Default;
        let tenant = if shared { item.job.tenant } else { 0 };
        (item.handle.class, tenant)
    }

    fn push(&mut self, item: Item) {
        let share = self.share(&item);
        if !self.waiting.iter().any(|other| self.share(other) == share) {
            let virtual_us = self.virtual_us[share.0 as usize];
            let tag = self.tags.entry(share).or_insert(0);
            *tag = (*tag).max(virtual_us);
        }
        if share.0 == Class::Scan {
            self.turns.push(item.handle.seq);
        }
        self.waiting.push(item);
    }

    fn take(&mut self, at: usize, served: bool) -> Item {
        let share = self.share(&self.waiting[at]);
        let class = share.0;
        let tags = self.waiting.iter().map(|item| self.share(item));
        let least = tags.filter(|s| s.0 == class).map(|s| self.tags[&s]).min();
        if served {
            let virtual_us = &mut self.virtual_us[class as usize];
            *virtual_us = (*virtual_us).max(least.expect("it waits itself"));
            let piece_us = u64::from(self.waiting[at].job.piece_us.max(1));
            *self.tags.get_mut(&share).expect("it waits") += piece_us;
        }
        let item = self.waiting.remove(at);
        let served_us = u64::from(item.job.piece_us.max(1));
        let shares = served && class != Class::Scan && self.settings.variant == Variant::Default;
        for of in Class::ALL {
            let waits = self.waiting.iter().any(|other| other.handle.class == of);
            let owed = &mut self.owed[of as usize];
            if shares && of != Class::Scan {
                *owed += served_us;
            }
            if shares && of == class {
                *owed = owed.saturating_sub(8 * served_us);
            }
            if !waits {
                *owed = 0;
            }
        }
        if class == Class::Scan {
            let own = self.turns.iter().position(|&seq| seq == item.handle.seq);
            let used = match own {
                _ if served => 0,
                Some(own) => own,
                None => self.turns.len() - 1,
            };
            self.turns.remove(used);
        }
        if !self.waiting.iter().any(|other| other.handle.class == class) {
            self.virtual_us[class as usize] = 0;
            self.tags.retain(|share, _| share.0 != class);
        }
        item
    }

    fn key(&self, item: &Item) -> impl Ord + use<> {
        let Handle { class, seq } = item.handle;
        let job = item.job;
        let scan = class == Class::Scan;
        let by_nodes = (u64::from(job.nodes_left), u64::from(job.rows));
        let turn = self.turns.first().copied().unwrap_or(0);
        let tag = self.tags[&self.share(item)];
        let bits = u64::from(32 - job.work_us.leading_zeros());
        match self.settings.variant {
            Variant::O | Variant::P => [seq, 0, 0, 0, 0, 0],
            Variant::ReS | Variant::ReSP => [u64::from(scan), seq, 0, 0, 0, 0],
            Variant::A if scan => [1, by_nodes.0, by_nodes.1, seq, 0, 0],
            Variant::A => [0, seq, 0, 0, 0, 0],
            Variant::PRaS if scan => [turn, by_nodes.0, by_nodes.1, seq, 0, 0],
            Variant::PRaS => [seq, 0, 0, 0, 0, 0],
            // Only among heads of classes; see `next`.
            Variant::Default => [
                u64::from(class != Class::System),
                bits,
                class as u64,
                tag,
                u64::from(job.tenant),
                seq,
            ],
        }
    }

    fn next(&self, now_us: u64, scan_allowed: bool) -> Option<(usize, bool)> {
        let class_of = |at: &usize| self.waiting[*at].handle.class;
        let all = 0..self.waiting.len();
        let may: Vec<usize> = all
            .filter(|at| self.room(class_of(at), scan_allowed))
            .collect();
        let rest = self.last_was_due_scan && may.iter().any(|at| class_of(at) != Class::Scan);
        let may = || {
            may.iter()
                .copied()
                .filter(|at| !(rest && class_of(at) == Class::Scan))
        };
        let deadline = |at: &usize| {
            let item = &self.waiting[*at];
            let wait_us = self.settings.wait_max_us[item.handle.class as usize];
            let due = item.arrived_us + wait_us / 2 <= now_us;
            due.then_some((
                item.arrived_us + wait_us,
                item.handle.class,
                item.handle.seq,
            ))
        };
        let due = may()
            .filter(|at| deadline(at).is_some())
            .min_by_key(deadline);
        if let Some(at) = due {
            return Some((at, true));
        }
        // The head of each class by fair shares, and of these the first, or the one that is owed most.
        let heads = Class::ALL.into_iter().filter_map(|class| {
            let own = may().filter(|at| class_of(at) == class);
            own.min_by_key(|at| {
                let item = &self.waiting[*at];
                let (tag, tenant) = match self.settings.variant {
                    Variant::Default => (self.tags[&self.share(item)], item.job.tenant),
                    _ => (0, 0),
                };
                let through_us = match self.settings.variant {
                    Variant::Default if class == Class::Scan => {
                        item.arrived_us + 4 * u64::from(item.job.work_us)
                    }
                    _ => 0,
                };
                (tag, tenant, through_us, self.key(item))
            })
        });
        let heads: Vec<usize> = heads.collect();
        let owed = |at: &&usize| {
            let item = &self.waiting[**at];
            let owed = self.owed[item.handle.class as usize];
            let least = 8 * (10_000 + u64::from(item.job.piece_us.max(1)));
            (owed >= least).then_some(owed)
        };
        let behind = heads.iter().filter(|at| owed(at).is_some());
        let first = behind.max_by_key(|at| (owed(at), std::cmp::Reverse(class_of(at))));
        let by_order = || heads.iter().min_by_key(|at| self.key(&self.waiting[**at]));
        first.or_else(by_order).map(|at| (*at, false))
    }

    fn expired(&self, now_us: u64) -> Option<usize> {
        let over = (0..self.waiting.len()).filter(|&at| {
            let item = &self.waiting[at];
            item.arrived_us + self.settings.wait_max_us[item.handle.class as usize] <= now_us
        });
        over.min_by_key(|&at| self.waiting[at].handle)
    }
}

impl PartialOrd for Handle {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Handle {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.class, self.seq).cmp(&(other.class, other.seq))
    }
}

fn any_job(rng: &mut TestRng) -> Job {
    let work_us = 1 << rng.below(20);
    Job {
        work_us,
        piece_us: work_us / 2,
        is_part: rng.below(4) == 0,
        nodes_left: rng.below(4) as u16,
        rows: rng.below(4) as u32,
        tenant: rng.below(3) as u32,
        flow: 0,
        idempotent: rng.below(2) == 0,
    }
}

fn any_class(rng: &mut TestRng) -> Class {
    match rng.below(3) {
        0 => Class::Scan,
        1 => Class::Point,
        _ => Class::ALL[rng.below(Class::COUNT)],
    }
}

#[test]
fn random_schedules_agree_with_the_model() {
    for_seeds(10_000, |_, rng| {
        let window = rng.below(5) as u32;
        // Half of them with time to queue up, so that shares of tenants come to matter.
        let patient = rng.below(2) == 0;
        let (wait_us, queue_max) = if patient { (50_000, 60) } else { (200, 12) };
        let any_variant = Variant::ALL[rng.below(Variant::ALL.len())];
        let settings = Settings {
            variant: if patient {
                Variant::Default
            } else {
                any_variant
            },
            // The adaptive window has tests of its own.
            window_min: window,
            window_floor: 0,
            window_max: window,
            window_open_max: window + rng.below(4) as u32,
            scan_slots: rng.below(3) as u32,
            scan_slots_idle: rng.below(4) as u32,
            scan_slots_start: 1,
            scan_slots_max: rng.below(6) as u32,
            wait_max_us: std::array::from_fn(|_| 20 + rng.below(wait_us) as u64),
            standing_wait_max_us: [0; Class::COUNT],
            queue_max: std::array::from_fn(|_| rng.below(queue_max) as u32),
        };
        run(rng, settings);
    });
}

fn run(rng: &mut TestRng, settings: Settings) {
    let mut schedule = Schedule::new(settings);
    let mut model = Model {
        settings,
        found: settings.scan_slots,
        waiting: Vec::new(),
        sent: [0; Class::COUNT],
        turns: Vec::new(),
        last_was_due_scan: false,
        tags: BTreeMap::new(),
        owed: [0; Class::COUNT],
        virtual_us: [0; Class::COUNT],
    };
    let offers_in_ten = 3 + rng.below(4);
    let (mut offered, mut ended) = (0u64, 0u64);
    let mut now_us = 0;
    let mut items: BTreeMap<u64, u64> = BTreeMap::new();
    for item in 0..80u64 {
        now_us += rng.below(12) as u64;
        let scan_allowed = rng.below(5) > 0;
        if rng.below(10) == 0 {
            model.found = rng.below(5) as u32;
            schedule.set_scan_slots(model.found);
        }
        match rng.below(10) {
            draw if draw < offers_in_ten => {
                offered += 1;
                let (class, job) = (any_class(rng), any_job(rng));
                let passes = model.passes(class, scan_allowed);
                let full = schedule.queued_in(class) >= settings.queue_max[class as usize] as usize;
                match schedule.offer(now_us, item, class, job, scan_allowed) {
                    Offer::Dispatch => {
                        assert!(passes);
                        model.sent[class as usize] += 1;
                        model.last_was_due_scan = false;
                    }
                    Offer::Queued(handle) => {
                        assert!(!passes && !full);
                        items.insert(handle.seq, item);
                        model.push(Item {
                            handle,
                            job,
                            arrived_us: now_us,
                        });
                    }
                    Offer::Refused(Refusal::QueueFull) => {
                        assert!(!passes && full);
                        ended += 1;
                    }
                    Offer::Refused(Refusal::TooLate { wait_us }) => {
                        assert!(!passes && class != Class::System);
                        assert!(!settings.variant.is_preset());
                        assert!(wait_us > settings.wait_max_us[class as usize]);
                        ended += 1;
                    }
                }
            }
            draw if draw < 8 => {
                let out: Vec<Class> = Class::ALL
                    .into_iter()
                    .filter(|&class| model.sent[class as usize] > 0)
                    .collect();
                if !out.is_empty() {
                    let class = out[rng.below(out.len())];
                    model.sent[class as usize] -= 1;
                    ended += 1;
                    match rng.below(4) {
                        0 => schedule.on_gone(class),
                        _ => {
                            schedule.on_done(now_us, class, answered(10, 1 + rng.below(50) as u32))
                        }
                    }
                }
            }
            8 if !model.waiting.is_empty() => {
                let at = rng.below(model.waiting.len());
                let handle = model.waiting[at].handle;
                if rng.below(2) == 0 {
                    let gone = model.take(at, false).handle.seq;
                    assert_eq!(schedule.remove(handle), items.remove(&gone));
                    assert_eq!(schedule.remove(handle), None);
                    ended += 1;
                } else {
                    let new = any_job(rng);
                    let job = &mut model.waiting[at].job;
                    (job.nodes_left, job.rows, job.work_us) =
                        (new.nodes_left, new.rows, new.work_us);
                    job.piece_us = job.piece_us.min(new.work_us);
                    assert!(schedule.reprioritise(handle, new.nodes_left, new.rows, new.work_us));
                }
            }
            _ => {
                while let Some(at) = model.expired(now_us) {
                    let gone = model.take(at, false).handle;
                    let out = items.remove(&gone.seq).map(|item| (item, gone.class));
                    assert_eq!(schedule.poll_expired(now_us), out);
                    ended += 1;
                }
                assert_eq!(schedule.poll_expired(now_us), None);
                assert!(schedule.next_expiry_us().is_none_or(|us| us > now_us));
            }
        }
        while let Some((at, due)) = model.next(now_us, scan_allowed) {
            let next = model.take(at, true).handle;
            model.sent[next.class as usize] += 1;
            model.last_was_due_scan = due && next.class == Class::Scan;
            let out = items.remove(&next.seq).map(|item| (item, next.class));
            assert_eq!(schedule.poll_dispatch(now_us, scan_allowed), out);
        }
        assert_eq!(schedule.poll_dispatch(now_us, scan_allowed), None);
        assert_eq!(schedule.scans_in_flight() as u32, model.scans());
        assert_eq!(schedule.in_flight() as u32, model.others() + model.scans());
        assert_eq!(schedule.waiting(), model.waiting.len());
    }
    let left = schedule.drain();
    let in_flight = schedule.in_flight() as u64;
    assert_eq!(left.len(), items.len());
    assert!(
        left.iter()
            .all(|(item, _)| items.values().any(|i| i == item))
    );
    assert_eq!(offered, ended + in_flight + left.len() as u64);
    assert_eq!(schedule.waiting(), 0);
}
