//! How many pieces of scans a node serves at a time, found by trying.
//!
//! Picture: a supermarket that opens one more till for the large trolleys, and keeps it
//! open if more of them get through and the small baskets do not wait any longer.
//!
//! Formula: while scans wait, the number in force `s` and another one take turns, three
//! times each (at first once). With X the predicted work answered ÷ time, and d the change
//! of the mean of ln(service time ÷ predicted work) of all other queries:
//!
//! - up by `step`, the larger of 1 and s/2 (at first s, until that is too much), if X
//!   grows by at least 0.8 step ÷ s, and d ≤ ln 1.15;
//! - down by `step` if the last ones bring less than 0.7 of what they would in
//!   proportion, or if d ≤ −ln 1.2: the others gain much.
//!
//! When nobody waits for long, there are fewer, so that a node has no more than are needed
//! and what was found long ago is found again.
//!
//! So it ends near the number of reads that a node runs at full speed beside its other
//! work: more only make each of them, and everything else, slower.
//!
//! Who takes from others gains, too: other proxies, other nodes on the machine. Three that
//! share two cores gain two thirds of the proportion from each further slot, at whatever
//! number; so less than 0.7 of it counts as taken.
//!
//! Source: hill climbing; that a limit shows in throughput ÷ concurrency is Little's law.

/// Turns of each of the two numbers in a trial, and of one with long strides.
const TURNS: u32 = 3;
const TURNS_AT_FIRST: u32 = 1;
/// Answers of a turn, for each slot and at least, and its least duration.
const ANSWERS: u32 = 4;
const ANSWERS_MIN: u32 = 12;
const TURN_US: f64 = 50_000.0;
/// After so many answers behind which nobody waited, an eighth less will do.
const SPARE_MAX: u32 = 256;
/// Turns between trials: after a change, and after one that changed nothing, at first and at most.
const REST_AFTER_CHANGE: u32 = 1;
const REST_MIN: u32 = 4;
const REST_MAX: u32 = 64;
/// Of the growth in proportion: what a further slot must bring, and what the last one must.
const GAIN_WANTED: f64 = 0.8;
const GAIN_KEPT: f64 = 0.7;
/// ln 1.15 and ln 1.2.
const OTHERS_SLOWER_MAX: f64 = 0.14;
const OTHERS_FASTER: f64 = 0.18;
/// Fewer answers of others say nothing.
const OTHERS_MIN: u32 = 24;

/// The slots of one node.
#[derive(Debug)]
pub struct Slots {
    settled: u32,
    up: bool,
    /// No trial has failed so far.
    first: bool,
    rest: u32,
    rest_next: u32,
    trial: Option<Trial>,
    /// Answers to pass over: they were sent under another number.
    stale: u32,
    /// When the last answer came, if scans waited then.
    waited_us: Option<u64>,
    /// Answers in a row behind which none did.
    spare: u32,
    turn: Turn,
}

#[derive(Debug)]
struct Trial {
    other: u32,
    /// How many turns are over.
    turns: u32,
    sums: [Sum; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    work_us: f64,
    us: f64,
    others: Others,
}

/// Of queries that are no scans: the sum of ln(service time ÷ predicted work), and how many.
#[derive(Clone, Copy, Debug, Default)]
pub struct Others {
    pub ln_sum: f64,
    pub count: u32,
}

#[derive(Debug, Default)]
struct Turn {
    answers: u32,
    sum: Sum,
}

impl Slots {
    /// Begins with this many.
    pub fn new(slots: u32) -> Self {
        Slots {
            settled: slots.max(1),
            up: true,
            first: true,
            rest: REST_AFTER_CHANGE,
            rest_next: REST_MIN,
            trial: None,
            stale: 0,
            waited_us: None,
            spare: 0,
            turn: Turn::default(),
        }
    }

    /// Slots in force.
    pub fn in_force(&self) -> u32 {
        match &self.trial {
            Some(trial) if trial.turns % 2 == 1 => trial.other,
            _ => self.settled,
        }
    }

    /// A scan's piece was answered. `others`: what else was since the last time; `waits`: whether
    /// scans still wait for a slot; `bounds`: least and most slots.
    pub fn on_answer(
        &mut self,
        now_us: u64,
        work_us: u32,
        others: Others,
        waits: bool,
        (min, max): (u32, u32),
    ) {
        self.settled = self.settled.clamp(min, max.max(min));
        // Only while somebody waits for a slot does their number show anything.
        let since = std::mem::replace(&mut self.waited_us, waits.then_some(now_us));
        self.spare = if waits { 0 } else { self.spare + 1 };
        if self.spare >= SPARE_MAX {
            self.spare = 0;
            self.trial = None;
            self.turn = Turn::default();
            self.settled = (self.settled - self.settled.div_ceil(8)).max(min);
        }
        if self.stale > 0 {
            self.stale -= 1;
            return;
        }
        let Some(since_us) = since else { return };
        self.turn.answers += 1;
        self.turn.sum.add(Sum {
            work_us: f64::from(work_us),
            us: now_us.saturating_sub(since_us) as f64,
            others,
        });
        let enough = (ANSWERS * self.settled).max(ANSWERS_MIN);
        if self.turn.answers < enough || self.turn.sum.us < TURN_US {
            return;
        }
        let sum = std::mem::take(&mut self.turn).sum;
        let before = self.in_force();
        self.end_turn(sum, (min, max.max(min)));
        if self.in_force() != before {
            self.stale = before;
        }
    }

    fn end_turn(&mut self, sum: Sum, (min, max): (u32, u32)) {
        let Some(trial) = &mut self.trial else {
            self.rest = self.rest.saturating_sub(1);
            if self.rest == 0 {
                self.begin_trial(min, max);
            }
            return;
        };
        trial.sums[trial.turns as usize % 2].add(sum);
        trial.turns += 1;
        let turns = if self.first { TURNS_AT_FIRST } else { TURNS };
        if trial.turns < 2 * turns {
            return;
        }
        let (other, [now, then]) = (trial.other, trial.sums);
        self.trial = None;
        if better(self.settled, other, &now, &then) {
            self.settled = other;
            self.rest = REST_AFTER_CHANGE;
            self.rest_next = REST_MIN;
        } else {
            // After the first stride that is too long, shorter ones in the same direction.
            self.up ^= !std::mem::take(&mut self.first);
            self.rest = self.rest_next;
            self.rest_next = (2 * self.rest_next).min(REST_MAX);
        }
    }

    fn begin_trial(&mut self, min: u32, max: u32) {
        let step = match self.first {
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
                    turns: 0,
                    sums: Default::default(),
                });
                return;
            }
            self.up = !self.up;
        }
        self.rest = REST_MAX;
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

/// Whether another number of slots is better than the one in force.
fn better(slots: u32, other: u32, now: &Sum, then: &Sum) -> bool {
    let slower = match (now.others.mean(), then.others.mean()) {
        (Some(now), Some(then)) => then - now,
        _ => 0.0,
    };
    let (few, many) = (slots.min(other), slots.max(other));
    let in_proportion = f64::from(many - few) / f64::from(few);
    if other > slots {
        let gain = then.rate() / now.rate().max(f64::MIN_POSITIVE) - 1.0;
        gain >= GAIN_WANTED * in_proportion && slower <= OTHERS_SLOWER_MAX
    } else {
        let gain = now.rate() / then.rate().max(f64::MIN_POSITIVE) - 1.0;
        gain <= GAIN_KEPT * in_proportion || slower <= -OTHERS_FASTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node of so many cores that shares them fairly between scans, others and what is not seen from
    /// here, each answer as quick as that makes it, give or take a third. The slots in the end.
    fn settle(cores: f64, others: f64, unseen: f64, begin: u32, seed: u64) -> u32 {
        let mut slots = Slots::new(begin);
        let mut random = seed;
        let mut dice = move || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 40) as f64 / (1_u64 << 24) as f64 * 2.0 / 3.0 + 2.0 / 3.0
        };
        let mut now_us = 0.0;
        for _ in 0..40_000 {
            let running = f64::from(slots.in_force());
            let slow = ((running + others + unseen) / cores).max(1.0);
            now_us += 20_000.0 * slow * dice() / running;
            let mut seen = Others::default();
            if others > 0.0 {
                seen.add(Others {
                    ln_sum: (0..4).map(|_| (slow * dice()).ln()).sum(),
                    count: 4,
                });
            }
            slots.on_answer(now_us as u64, 20_000, seen, true, (1, 32));
        }
        slots.settled
    }

    #[test]
    fn slots_find_the_cores_that_others_leave() {
        for seed in 0..20 {
            println!("seed {seed}");
            assert_eq!(settle(1.0, 0.0, 0.0, 2, seed), 1);
            assert_eq!(settle(2.0, 2.0, 0.0, 4, seed), 1);
            let eight = settle(8.0, 0.0, 0.0, 2, seed);
            assert!((6..=9).contains(&eight), "{eight} on 8 cores");
            let beside = settle(16.0, 6.0, 0.0, 2, seed);
            assert!((7..=13).contains(&beside), "{beside} on 16 cores beside 6");
            assert_eq!(settle(64.0, 0.0, 0.0, 2, seed), 32, "the most there may be");
            let taken = settle(2.0, 0.0, 4.0, 4, seed);
            assert!(taken <= 2, "{taken} on 2 cores beside 4 of others");
        }
    }

    #[test]
    fn slots_that_nobody_waits_for_go() {
        let mut slots = Slots::new(9);
        let mut answers = |number: u32, bounds| {
            for turn in 0..number {
                let now_us = u64::from(turn) * 9_000;
                slots.on_answer(now_us, 20_000, Others::default(), false, bounds);
            }
            slots.in_force()
        };
        assert_eq!(answers(SPARE_MAX - 1, (2, 32)), 9);
        assert_eq!(answers(1, (2, 32)), 7, "an eighth");
        assert_eq!(answers(20 * SPARE_MAX, (2, 32)), 2);
        assert_eq!(answers(1, (5, 4)), 5, "bounds hold at once");
    }
}
