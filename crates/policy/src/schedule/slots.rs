//! Finds by trial how many pieces of scans a node serves best at a time: the number of its scan
//! permits, which settings and metrics call scan slots.
//!
//! Formula: while scans wait, the current number `s` and another one `o` take turns (s o o s, so
//! that a drift of the load cancels out), for a block of answers each. With m the mean of
//! ln(service time ÷ predicted work) of a block's pieces, each pair of blocks says that `o` serves
//! e^g times as much as `s`:
//!
//! g = ln(o ÷ s) − (m(o) − m(s))
//!
//! and d, the same difference of means for all other queries, by how much these become slower. A
//! trial ends as soon as the confidence interval of g, from the spread of the pairs, is on one side
//! of what is asked for:
//!
//! - up by `step`, the larger of 1 and s/2 (initially s, until that is too much), if
//!   g ≥ ln(1 + 0.8 step ÷ s), and d ≤ ln 1.15;
//! - down by `step` if the last permits bring less than 0.7 of their proportional share, or if
//!   d ≤ −ln 1.2: the other queries gain much.
//!
//! A trial still open after [`PAIRS_MAX`] pairs or [`TRIAL_US_MAX`] changes nothing. When no scan has had
//! to wait for a long time the number shrinks, so that a node has no more permits than it needs, and old
//! findings are tested again. So it converges near the number of reads that the node runs at full speed
//! beside its other work: more only slow down each of them, and everything else.
//!
//! Evidence: the tests below, on modelled nodes of 1 to 64 cores with other load, with pieces of
//! one size and of 2 and 200 ms; the simulation (see [`super`]).
//!
//! Limits: taking capacity from others also looks like a gain, from other proxies or from other
//! nodes on the same machine. Three nodes that share two cores gain two thirds of the proportional
//! share from each further permit, at any number; so less than 0.7 of it counts as taken from
//! others.
//!
//! Source: hill climbing; that throughput is concurrency ÷ time is Little's law, which is why g needs
//! no rate: each piece counts for itself, however large it is. Sequential tests: A. Wald (1945).

/// Answers per block: for each permit, and at least; and its minimum duration.
const ANSWERS: u32 = 4;
const ANSWERS_MIN: u32 = 12;
const BLOCK_US_MIN: u64 = 50_000;
/// Pairs of blocks in a trial.
const PAIRS_MIN: u32 = 2;
const PAIRS_MAX: u32 = 16;
/// A trial that takes longer than this ends with the pairs that it has: pieces of seconds would keep the
/// wrong number in force for minutes.
const TRIAL_US_MAX: u64 = 20_000_000;
/// Half the width of the confidence interval, in standard errors of the mean.
const CONFIDENCE: f64 = 2.0;
/// The spread of pairs that is assumed before there are any, counted as one pair.
const SPREAD: f64 = 0.1;
/// After this many consecutive answers with no scan waiting, the number shrinks by an eighth.
const SURPLUS_MAX: u32 = 256;
/// Blocks between trials: after a change; after a trial without a change, initially and at most.
const COOLDOWN_AFTER_CHANGE: u32 = 1;
const COOLDOWN_MIN: u32 = 8;
const COOLDOWN_MAX: u32 = 128;
/// As shares of proportional growth: what a further permit must bring, and what the last one must.
const GAIN_WANTED: f64 = 0.8;
const GAIN_KEPT: f64 = 0.7;
/// ln 1.15 and ln 1.2.
const OTHERS_SLOWER_MAX: f64 = 0.14;
const OTHERS_FASTER: f64 = 0.18;
/// Fewer answers of other queries in a block are not conclusive.
const OTHERS_MIN: u32 = 8;

/// The scan permits of one node.
#[derive(Debug)]
pub struct Slots {
    settled: u32,
    /// Direction of the next trial.
    up: bool,
    /// A trial has ended, or permits were removed.
    found: bool,
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
    block: Block,
}

/// An answer to a piece of a scan.
#[derive(Clone, Copy, Debug)]
pub struct PieceAnswered {
    /// Its work as predicted, and what it took, in microseconds.
    pub predicted_us: u32,
    pub service_us: u32,
    /// Permits that there were: beside quick queries a node may have fewer than the current number.
    pub permits: u32,
    /// Other queries that were answered since the last piece was.
    pub others: Others,
    /// Scans still wait for a permit.
    pub waits: bool,
}

/// Of queries that are not scans: the sum of ln(service time ÷ predicted work), and their number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Others {
    pub ln_sum: f64,
    pub count: u32,
}

/// Answers under one number of permits.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    scans: Others,
    others: Others,
    us: u64,
    /// Of each answer.
    permits: u64,
}

/// A test of another number of permits.
#[derive(Debug)]
struct Trial {
    other: u32,
    /// Completed blocks, and the first one of the current pair.
    blocks: u32,
    us: u64,
    first: Block,
    gain: Pairs,
    slower: Pairs,
    /// Mean permits of both numbers.
    permits: [Pairs; 2],
}

/// Differences between the two blocks of each pair.
#[derive(Clone, Copy, Debug, Default)]
struct Pairs {
    count: u32,
    mean: f64,
    /// Sum of squared deviations from the mean.
    squares: f64,
}

impl Slots {
    /// Starts with this many.
    pub fn new(slots: u32) -> Self {
        Slots {
            settled: slots.max(1),
            up: true,
            found: false,
            initial: true,
            cooldown: COOLDOWN_AFTER_CHANGE,
            cooldown_next: COOLDOWN_MIN,
            trial: None,
            stale: 0,
            waited_us: None,
            surplus: 0,
            block: Block::default(),
        }
    }

    /// Starts with another number, if nothing has been found yet. One that is `informed`, by the node's
    /// processors, is not doubled at first, and not at once.
    pub fn begin_at(&mut self, slots: u32, informed: bool) {
        if self.found {
            return;
        }
        if self.settled != slots.max(1) {
            self.settled = slots.max(1);
            (self.trial, self.block, self.stale) = (None, Block::default(), 0);
        }
        if informed && self.initial && self.trial.is_none() {
            self.initial = false;
            self.cooldown = COOLDOWN_MIN;
        }
    }

    /// Starts with one, whatever the node's processors are, and doubles that by trial: the node has joined,
    /// and runs cold.
    pub fn begin_low(&mut self) {
        *self = Slots {
            found: true,
            ..Slots::new(1)
        };
    }

    /// The current number of permits.
    pub fn in_force(&self) -> u32 {
        match &self.trial {
            Some(trial) if trial.is_of_other() => trial.other,
            _ => self.settled,
        }
    }

    /// A piece of a scan was answered. `min` and `max`: bounds of permits.
    pub fn on_answer(&mut self, now_us: u64, answer: PieceAnswered, min: u32, max: u32) {
        self.settled = self.settled.clamp(min, max.max(min));
        // Only while scans wait for permits does their number make a difference.
        let since = std::mem::replace(&mut self.waited_us, answer.waits.then_some(now_us));
        self.surplus = if answer.waits { 0 } else { self.surplus + 1 };
        if self.surplus >= SURPLUS_MAX {
            self.surplus = 0;
            self.found = true;
            self.trial = None;
            self.block = Block::default();
            self.settled = (self.settled - self.settled.div_ceil(8)).max(min);
        }
        if self.stale > 0 {
            self.stale -= 1;
            return;
        }
        let Some(since_us) = since else { return };
        self.block.us += now_us.saturating_sub(since_us);
        self.block.scans.add(answer.slowdown());
        self.block.permits += u64::from(answer.permits);
        self.block.others.add(answer.others);
        let enough = (ANSWERS * self.settled).max(ANSWERS_MIN);
        if self.block.scans.count < enough || self.block.us < BLOCK_US_MIN {
            return;
        }
        let block = std::mem::take(&mut self.block);
        let before = self.in_force();
        self.end_block(block, min, max.max(min));
        if self.in_force() != before {
            self.stale = before;
        }
    }

    fn end_block(&mut self, block: Block, min: u32, max: u32) {
        let Some(trial) = &mut self.trial else {
            self.cooldown = self.cooldown.saturating_sub(1);
            if self.cooldown == 0 {
                self.begin_trial(min, max);
            }
            return;
        };
        trial.add(block);
        let Some(is_better) = trial.verdict(self.settled) else {
            return;
        };
        self.found = true;
        if is_better {
            self.settled = trial.other;
            self.cooldown = COOLDOWN_AFTER_CHANGE;
            self.cooldown_next = COOLDOWN_MIN;
        } else {
            // After the first step that is too long, shorter ones in the same direction.
            self.up ^= !std::mem::take(&mut self.initial);
            self.cooldown = self.cooldown_next;
            self.cooldown_next = (2 * self.cooldown_next).min(COOLDOWN_MAX);
        }
        self.trial = None;
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
                self.trial = Some(Trial::of(other));
                return;
            }
            self.up = !self.up;
        }
        self.cooldown = COOLDOWN_MAX;
    }
}

impl PieceAnswered {
    fn slowdown(&self) -> Others {
        Others::of(self.service_us, self.predicted_us)
    }
}

impl Others {
    /// One query.
    pub fn of(service_us: u32, predicted_us: u32) -> Self {
        let slowdown = f64::from(service_us.max(1)) / f64::from(predicted_us.max(1));
        Others {
            ln_sum: slowdown.ln(),
            count: 1,
        }
    }

    pub fn add(&mut self, other: Others) {
        self.ln_sum += other.ln_sum;
        self.count += other.count;
    }

    fn mean(&self) -> f64 {
        self.ln_sum / f64::from(self.count.max(1))
    }
}

impl Block {
    fn permits(&self) -> f64 {
        (self.permits as f64 / f64::from(self.scans.count.max(1))).max(1.0)
    }
}

impl Trial {
    fn of(other: u32) -> Self {
        Trial {
            other,
            blocks: 0,
            us: 0,
            first: Block::default(),
            gain: Pairs::default(),
            slower: Pairs::default(),
            permits: Default::default(),
        }
    }

    /// True if the other number is in force.
    fn is_of_other(&self) -> bool {
        matches!(self.blocks % 4, 1 | 2)
    }

    fn add(&mut self, block: Block) {
        let was_of_other = self.is_of_other();
        self.blocks += 1;
        self.us += block.us;
        if self.blocks % 2 == 1 {
            self.first = block;
            return;
        }
        let (with_settled, with_other) = match was_of_other {
            true => (self.first, block),
            false => (block, self.first),
        };
        let slower = |of: fn(&Block) -> Others| of(&with_other).mean() - of(&with_settled).mean();
        let permits = [with_settled.permits(), with_other.permits()];
        let gain = (permits[1] / permits[0]).ln() - slower(|block| block.scans);
        self.gain.add(gain);
        for (mean, permits) in self.permits.iter_mut().zip(permits) {
            mean.add(permits);
        }
        let others = with_settled.others.count.min(with_other.others.count);
        if others >= OTHERS_MIN {
            self.slower.add(slower(|block| block.others));
        }
    }

    /// True if the other number is better; None: not known yet.
    fn verdict(&self, settled: u32) -> Option<bool> {
        if self.blocks % 2 == 1 || self.gain.count < PAIRS_MIN {
            return None;
        }
        let [settled_mean, other_mean] = self.permits.map(|permits| permits.mean);
        let (few, many) = (settled_mean.min(other_mean), settled_mean.max(other_mean));
        let further = (many - few) / few.max(1.0);
        let found = if self.other > settled {
            let gain = self.gain.is_above((1.0 + GAIN_WANTED * further).ln());
            match self.slower.is_above(OTHERS_SLOWER_MAX) {
                Some(true) => Some(false),
                _ if gain == Some(true) => Some(self.slower.mean <= OTHERS_SLOWER_MAX),
                _ => gain,
            }
        } else {
            let kept = self.gain.is_above(-(1.0 + GAIN_KEPT * further).ln());
            match self.slower.is_above(-OTHERS_FASTER) {
                Some(false) => Some(true),
                // Others may still turn out to gain much.
                None if kept == Some(false) && self.slower.count > 0 => None,
                _ => kept,
            }
        };
        match found {
            None if self.gain.count >= PAIRS_MAX || self.us >= TRIAL_US_MAX => Some(false),
            found => found,
        }
    }
}

impl Pairs {
    fn add(&mut self, difference: f64) {
        self.count += 1;
        let from_mean = difference - self.mean;
        self.mean += from_mean / f64::from(self.count);
        self.squares += from_mean * (difference - self.mean);
    }

    /// True if the mean is above a bound; None: that is open.
    fn is_above(&self, bound: f64) -> Option<bool> {
        if self.count == 0 {
            return None;
        }
        let count = f64::from(self.count);
        let variance = (self.squares + SPREAD * SPREAD) / count;
        let error = CONFIDENCE * (variance / count).sqrt();
        ((self.mean - bound).abs() > error).then_some(self.mean > bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A modelled node.
    #[derive(Clone, Copy)]
    struct Node {
        /// Shared fairly between scans, other queries, and load unseen by the proxy.
        cores: f64,
        others: f64,
        unseen: f64,
        /// Pieces of 2 and 200 ms instead of 20; their times vary as log-normal distributions do.
        mixed: bool,
    }

    const IDLE: Node = Node {
        cores: 1.0,
        others: 0.0,
        unseen: 0.0,
        mixed: false,
    };

    struct Random(u64);

    impl Random {
        fn new(seed: u64) -> Random {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            for _ in 0..8 {
                random.next();
            }
            random
        }

        /// Uniform, up to 1.
        fn next(&mut self) -> f64 {
            let multiplied = self.0.wrapping_mul(6_364_136_223_846_793_005);
            self.0 = multiplied.wrapping_add(1);
            ((self.0 >> 40) + 1) as f64 / (1_u64 << 24) as f64
        }

        /// Log-normal, with this standard deviation of the logarithm.
        fn noise(&mut self, deviation: f64) -> f64 {
            let (radius, angle) = ((-2.0 * self.next().ln()).sqrt(), self.next());
            (deviation * radius * (angle * std::f64::consts::TAU).cos()).exp()
        }
    }

    /// The number of permits after so many answers, and when it was first within a range.
    fn settle(node: Node, begin: u32, answers: u32, seed: u64, good: (u32, u32)) -> (u32, f64) {
        let mut slots = Slots::new(begin);
        let mut random = Random::new(seed);
        let (mut now_us, mut found_s) = (0.0, f64::INFINITY);
        for _ in 0..answers {
            let running = f64::from(slots.in_force());
            let slowdown = ((running + node.others + node.unseen) / node.cores).max(1.0);
            let (work_us, deviation) = match node.mixed {
                false => (20_000.0, 0.2),
                true if random.next() < 0.9 => (2_000.0, 0.5),
                true => (200_000.0, 0.5),
            };
            let service_us = work_us * slowdown * random.noise(deviation);
            now_us += service_us / running;
            let mut others = Others::default();
            for _ in 0..if node.others > 0.0 { 4 } else { 0 } {
                let service_us = 1_000.0 * slowdown * random.noise(deviation);
                others.add(Others::of(service_us as u32, 1_000));
            }
            let answer = PieceAnswered {
                predicted_us: work_us as u32,
                service_us: service_us as u32,
                permits: slots.in_force(),
                others,
                waits: true,
            };
            slots.on_answer(now_us as u64, answer, 1, 32);
            if (good.0..=good.1).contains(&slots.settled) && found_s.is_infinite() {
                found_s = now_us / 1e6;
            }
        }
        (slots.settled, found_s)
    }

    #[test]
    fn permits_converge_to_the_cores_that_other_load_leaves() {
        let of = |cores: f64, others: f64, unseen: f64| Node {
            cores,
            others,
            unseen,
            ..IDLE
        };
        let cases = [
            ("1 core", of(1.0, 0.0, 0.0), 2, (1, 1)),
            ("2 cores beside 2 others", of(2.0, 2.0, 0.0), 4, (1, 1)),
            ("8 cores", of(8.0, 0.0, 0.0), 2, (6, 9)),
            ("16 cores beside 6", of(16.0, 6.0, 0.0), 2, (7, 13)),
            ("64 cores: the maximum", of(64.0, 0.0, 0.0), 2, (32, 32)),
            ("2 cores beside 4 unseen", of(2.0, 0.0, 4.0), 4, (1, 2)),
        ];
        for mixed in [false, true] {
            let mut astray = 0;
            for seed in 0..20 {
                for (name, node, begin, good) in cases {
                    let node = Node { mixed, ..node };
                    let (found, after_s) = settle(node, begin, 40_000, seed, good);
                    println!("seed {seed}, {name}, mixed {mixed}: {found}, after {after_s:.1} s");
                    astray += u32::from(!(good.0..=good.1).contains(&found));
                }
            }
            assert!(astray <= 3, "{astray} of 120 are astray");
        }
    }

    #[test]
    fn a_large_node_is_known_after_seconds() {
        for seed in 0..20 {
            let node = Node {
                cores: 16.0,
                ..IDLE
            };
            let (_, found_s) = settle(node, 2, 8_000, seed, (12, 20));
            println!("seed {seed}: {found_s:.1} s");
            assert!(found_s < 8.0);
        }
    }

    #[test]
    fn noise_alone_changes_nothing_for_long() {
        // Neither number is better: the wider of two proportional ones costs what it brings.
        let mut changes = 0;
        for seed in 0..50 {
            let mut trial = Trial::of(4);
            let mut random = Random::new(seed);
            while trial.verdict(2).is_none() {
                let mut block = Block::default();
                for _ in 0..12 {
                    let slowdown = if trial.is_of_other() { 1.3 } else { 1.0 };
                    let service_us = 20_000.0 * slowdown * random.noise(1.0);
                    block.scans.add(Others::of(service_us as u32, 20_000));
                }
                block.permits = 12 * if trial.is_of_other() { 4 } else { 2 };
                trial.add(block);
            }
            assert!(trial.gain.count <= PAIRS_MAX);
            changes += u32::from(trial.verdict(2) == Some(true));
        }
        assert!(changes <= 5, "{changes} of 50");
    }

    #[test]
    fn a_node_that_becomes_known_later_starts_anew_until_something_is_found() {
        let mut slots = Slots::new(2);
        slots.begin_at(16, true);
        assert_eq!(slots.in_force(), 16);
        for turn in 0..SURPLUS_MAX {
            let answer = PieceAnswered {
                predicted_us: 20_000,
                service_us: 20_000,
                permits: 16,
                others: Others::default(),
                waits: false,
            };
            slots.on_answer(u64::from(turn) * 9_000, answer, 8, 32);
        }
        slots.begin_at(16, true);
        assert_eq!(slots.in_force(), 14);
    }

    #[test]
    fn a_node_that_has_joined_starts_with_one_whatever_its_processors() {
        let mut slots = Slots::new(8);
        slots.begin_low();
        slots.begin_at(16, true);
        assert_eq!(slots.in_force(), 1);
    }

    #[test]
    fn permits_that_no_scan_waits_for_are_removed() {
        let mut slots = Slots::new(9);
        let mut answers = |number: u32, min, max| {
            for turn in 0..number {
                let now_us = u64::from(turn) * 9_000;
                let answer = PieceAnswered {
                    predicted_us: 20_000,
                    service_us: 20_000,
                    permits: 9,
                    others: Others::default(),
                    waits: false,
                };
                slots.on_answer(now_us, answer, min, max);
            }
            slots.in_force()
        };
        assert_eq!(answers(SURPLUS_MAX - 1, 2, 32), 9);
        assert_eq!(answers(1, 2, 32), 7, "an eighth");
        assert_eq!(answers(20 * SURPLUS_MAX, 2, 32), 2);
        assert_eq!(answers(1, 5, 4), 5, "bounds hold at once");
    }
}
