//! Finds by trial how many pieces of scans a node serves best at a time: the number of its scan
//! permits, which settings and metrics call scan slots.
//!
//! Formula: while scans wait, the current number `s` and another one alternate, three intervals
//! each (one each during the initial search). With X the predicted work answered ÷ time, and d the
//! change of the mean of ln(service time ÷ predicted work) of all other queries:
//!
//! - up by `step`, the larger of 1 and s/2 (initially s, until that is too much), if X grows by at
//!   least 0.8 step ÷ s, and d ≤ ln 1.15;
//! - down by `step` if the last permits bring less than 0.7 of their proportional share, or if
//!   d ≤ −ln 1.2: the other queries gain much.
//!
//! When no scan has had to wait for a long time the number shrinks, so that a node has no more
//! permits than it needs, and old findings are tested again. So it converges near the number of
//! reads that the node runs at full speed beside its other work: more only slow down each of them,
//! and everything else.
//!
//! Evidence: the tests below, on modelled nodes of 1 to 64 cores with other load; the simulation
//! (see [`super`]).
//!
//! Limits: taking capacity from others also looks like a gain, from other proxies or from other
//! nodes on the same machine. Three nodes that share two cores gain two thirds of the proportional
//! share from each further permit, at any number; so less than 0.7 of it counts as taken from
//! others.
//!
//! Source: hill climbing; that a limit shows in throughput ÷ concurrency is Little's law.

/// Intervals of each of the two numbers in a trial, and in a trial of the initial search.
const INTERVALS: u32 = 3;
const INTERVALS_INITIAL: u32 = 1;
/// Answers per interval: for each permit, and at least; and its minimum duration.
const ANSWERS: u32 = 4;
const ANSWERS_MIN: u32 = 12;
const INTERVAL_US_MIN: f64 = 50_000.0;
/// After this many consecutive answers with no scan waiting, the number shrinks by an eighth.
const SURPLUS_MAX: u32 = 256;
/// Intervals between trials: after a change; after a trial without a change, initially and at most.
const COOLDOWN_AFTER_CHANGE: u32 = 1;
const COOLDOWN_MIN: u32 = 4;
const COOLDOWN_MAX: u32 = 64;
/// As shares of proportional growth: what a further permit must bring, and what the last one must.
const GAIN_WANTED: f64 = 0.8;
const GAIN_KEPT: f64 = 0.7;
/// ln 1.15 and ln 1.2.
const OTHERS_SLOWER_MAX: f64 = 0.14;
const OTHERS_FASTER: f64 = 0.18;
/// Fewer answers of other queries are not conclusive.
const OTHERS_MIN: u32 = 24;

/// The scan permits of one node.
#[derive(Debug)]
pub struct Slots {
    settled: u32,
    /// Direction of the next trial.
    up: bool,
    /// Initial search: no trial has failed so far.
    initial: bool,
    cooldown: u32,
    cooldown_next: u32,
    trial: Option<Trial>,
    /// Answers to skip, because they were sent under another number.
    stale: u32,
    /// When the last answer arrived, if scans were waiting then.
    waited_us: Option<u64>,
    /// Consecutive answers with no scan waiting.
    surplus: u32,
    interval: Interval,
}

#[derive(Debug)]
struct Trial {
    other: u32,
    /// Completed intervals.
    intervals: u32,
    sums: [Sum; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    work_us: f64,
    us: f64,
    others: Others,
}

/// Over queries that are not scans: the sum of ln(service time ÷ predicted work), and their number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Others {
    pub ln_sum: f64,
    pub count: u32,
}

#[derive(Debug, Default)]
struct Interval {
    answers: u32,
    sum: Sum,
}

impl Slots {
    /// Starts with this many.
    pub fn new(slots: u32) -> Self {
        Slots {
            settled: slots.max(1),
            up: true,
            initial: true,
            cooldown: COOLDOWN_AFTER_CHANGE,
            cooldown_next: COOLDOWN_MIN,
            trial: None,
            stale: 0,
            waited_us: None,
            surplus: 0,
            interval: Interval::default(),
        }
    }

    /// The current number of permits.
    pub fn in_force(&self) -> u32 {
        match &self.trial {
            Some(trial) if trial.intervals % 2 == 1 => trial.other,
            _ => self.settled,
        }
    }

    /// A piece of a scan was answered. `others`: other queries answered since the last call;
    /// `waits`: whether scans still wait for a permit; the last argument: minimum and maximum of
    /// permits.
    pub fn on_answer(
        &mut self,
        now_us: u64,
        work_us: u32,
        others: Others,
        waits: bool,
        (min, max): (u32, u32),
    ) {
        self.settled = self.settled.clamp(min, max.max(min));
        // Only while scans wait for permits does their number make a difference.
        let since = std::mem::replace(&mut self.waited_us, waits.then_some(now_us));
        self.surplus = if waits { 0 } else { self.surplus + 1 };
        if self.surplus >= SURPLUS_MAX {
            self.surplus = 0;
            self.trial = None;
            self.interval = Interval::default();
            self.settled = (self.settled - self.settled.div_ceil(8)).max(min);
        }
        if self.stale > 0 {
            self.stale -= 1;
            return;
        }
        let Some(since_us) = since else { return };
        self.interval.answers += 1;
        self.interval.sum.add(Sum {
            work_us: f64::from(work_us),
            us: now_us.saturating_sub(since_us) as f64,
            others,
        });
        let enough = (ANSWERS * self.settled).max(ANSWERS_MIN);
        if self.interval.answers < enough || self.interval.sum.us < INTERVAL_US_MIN {
            return;
        }
        let sum = std::mem::take(&mut self.interval).sum;
        let before = self.in_force();
        self.end_interval(sum, (min, max.max(min)));
        if self.in_force() != before {
            self.stale = before;
        }
    }

    fn end_interval(&mut self, sum: Sum, (min, max): (u32, u32)) {
        let Some(trial) = &mut self.trial else {
            self.cooldown = self.cooldown.saturating_sub(1);
            if self.cooldown == 0 {
                self.begin_trial(min, max);
            }
            return;
        };
        trial.sums[trial.intervals as usize % 2].add(sum);
        trial.intervals += 1;
        let intervals = if self.initial {
            INTERVALS_INITIAL
        } else {
            INTERVALS
        };
        if trial.intervals < 2 * intervals {
            return;
        }
        let (other, [now, then]) = (trial.other, trial.sums);
        self.trial = None;
        if better(self.settled, other, &now, &then) {
            self.settled = other;
            self.cooldown = COOLDOWN_AFTER_CHANGE;
            self.cooldown_next = COOLDOWN_MIN;
        } else {
            // After the first step that is too long, shorter ones in the same direction.
            self.up ^= !std::mem::take(&mut self.initial);
            self.cooldown = self.cooldown_next;
            self.cooldown_next = (2 * self.cooldown_next).min(COOLDOWN_MAX);
        }
    }

    fn begin_trial(&mut self, min: u32, max: u32) {
        let step = match self.initial {
            true => self.settled,
            false => (self.settled / 2).max(1),
        };
        for _ in 0..2 {
            let other = match self.up {
                true => (self.settled + step).min(max),
                false => self.settled.saturating_sub(step).max(min),
            };
            if other != self.settled {
                self.trial = Some(Trial {
                    other,
                    intervals: 0,
                    sums: Default::default(),
                });
                return;
            }
            self.up = !self.up;
        }
        self.cooldown = COOLDOWN_MAX;
    }
}

impl Sum {
    fn add(&mut self, sum: Sum) {
        self.work_us += sum.work_us;
        self.us += sum.us;
        self.others.add(sum.others);
    }

    fn rate(&self) -> f64 {
        self.work_us / self.us.max(1.0)
    }
}

impl Others {
    pub fn add(&mut self, other: Others) {
        self.ln_sum += other.ln_sum;
        self.count += other.count;
    }

    fn mean(&self) -> Option<f64> {
        (self.count >= OTHERS_MIN).then(|| self.ln_sum / f64::from(self.count))
    }
}

/// Whether another number of permits is better than the current one.
fn better(slots: u32, other: u32, now: &Sum, then: &Sum) -> bool {
    let slower = match (now.others.mean(), then.others.mean()) {
        (Some(now), Some(then)) => then - now,
        _ => 0.0,
    };
    let (few, many) = (slots.min(other), slots.max(other));
    let proportional = f64::from(many - few) / f64::from(few);
    if other > slots {
        let gain = then.rate() / now.rate().max(f64::MIN_POSITIVE) - 1.0;
        gain >= GAIN_WANTED * proportional && slower <= OTHERS_SLOWER_MAX
    } else {
        let gain = now.rate() / then.rate().max(f64::MIN_POSITIVE) - 1.0;
        gain <= GAIN_KEPT * proportional || slower <= -OTHERS_FASTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Models a node of `cores` shared fairly between scans, other queries and load unseen by the
    /// proxy; service times vary by a third. Returns the final number of permits.
    fn settle(cores: f64, others: f64, unseen: f64, begin: u32, seed: u64) -> u32 {
        let mut slots = Slots::new(begin);
        let mut random = seed;
        let mut noise = move || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 40) as f64 / (1_u64 << 24) as f64 * 2.0 / 3.0 + 2.0 / 3.0
        };
        let mut now_us = 0.0;
        for _ in 0..40_000 {
            let running = f64::from(slots.in_force());
            let slowdown = ((running + others + unseen) / cores).max(1.0);
            now_us += 20_000.0 * slowdown * noise() / running;
            let mut seen = Others::default();
            if others > 0.0 {
                seen.add(Others {
                    ln_sum: (0..4).map(|_| (slowdown * noise()).ln()).sum(),
                    count: 4,
                });
            }
            slots.on_answer(now_us as u64, 20_000, seen, true, (1, 32));
        }
        slots.settled
    }

    #[test]
    fn permits_converge_to_the_cores_that_other_load_leaves() {
        for seed in 0..20 {
            println!("seed {seed}");
            assert_eq!(settle(1.0, 0.0, 0.0, 2, seed), 1);
            assert_eq!(settle(2.0, 2.0, 0.0, 4, seed), 1);
            let eight = settle(8.0, 0.0, 0.0, 2, seed);
            assert!((6..=9).contains(&eight), "{eight} on 8 cores");
            let beside = settle(16.0, 6.0, 0.0, 2, seed);
            assert!((7..=13).contains(&beside), "{beside} on 16 cores beside 6");
            assert_eq!(settle(64.0, 0.0, 0.0, 2, seed), 32, "the maximum");
            let taken = settle(2.0, 0.0, 4.0, 4, seed);
            assert!(taken <= 2, "{taken} on 2 cores beside 4 of others");
        }
    }

    #[test]
    fn permits_that_no_scan_waits_for_are_removed() {
        let mut slots = Slots::new(9);
        let mut answers = |number: u32, bounds| {
            for turn in 0..number {
                let now_us = u64::from(turn) * 9_000;
                slots.on_answer(now_us, 20_000, Others::default(), false, bounds);
            }
            slots.in_force()
        };
        assert_eq!(answers(SURPLUS_MAX - 1, (2, 32)), 9);
        assert_eq!(answers(1, (2, 32)), 7, "an eighth");
        assert_eq!(answers(20 * SURPLUS_MAX, (2, 32)), 2);
        assert_eq!(answers(1, (5, 4)), 5, "bounds hold at once");
    }
}
