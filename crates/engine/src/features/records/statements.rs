//! Costs of each statement: calls, rows, bytes, errors, and how long they take, by text without values, keyspace and
//! role.
//!
//! One answer in 16 is looked at and counts for all 16 (`statement/prepared/asked.rs` says which), so that most
//! requests pay one comparison. Errors are counted one by one. Everything counts half after [`HALF_LIFE_US`]:
//! what is shown is about the last minutes.
//!
//! Bounded: [`PLACES`] statements of about 1 KiB and up to 2 KiB of text each, 1.5 MiB for each worker. When
//! all places are taken, the statement that took the least time makes way.

use rustc_hash::FxHashMap;

use crate::features::records::described::Described;

/// Statements that a worker knows at a time.
const PLACES: usize = 512;
/// After this time an answer counts half.
const HALF_LIFE_US: u64 = 300_000_000;
/// How often that is worked out.
const DECAY_US: u64 = 5_000_000;
/// A statement with fewer calls and errors left is forgotten.
const LEAST: f32 = 0.5;
/// An answer that is looked at stands for so many.
const WEIGHT: f32 = 16.0;

/// Buckets of a power of two of microseconds.
const PER_POWER: usize = 4;
const BUCKETS: usize = 27 * PER_POWER;

/// How long calls take: counts by size, a quarter of a power of two apart.
#[derive(Clone, Debug)]
pub struct Spread {
    buckets: [f32; BUCKETS],
    count: f32,
    sum_us: f64,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread {
            buckets: [0.0; BUCKETS],
            count: 0.0,
            sum_us: 0.0,
        }
    }
}

impl Spread {
    fn note(&mut self, us: u64, weight: f32) {
        self.buckets[bucket(us)] += weight;
        self.count += weight;
        self.sum_us += us as f64 * f64::from(weight);
    }

    fn fade(&mut self, left: f32) {
        self.buckets.iter_mut().for_each(|count| *count *= left);
        self.count *= left;
        self.sum_us *= f64::from(left);
    }

    /// Adds what another worker has seen.
    pub fn add(&mut self, other: &Spread) {
        let pairs = self.buckets.iter_mut().zip(&other.buckets);
        pairs.for_each(|(count, other)| *count += other);
        self.count += other.count;
        self.sum_us += other.sum_us;
    }

    /// Over all calls, in microseconds.
    pub fn sum_us(&self) -> f64 {
        self.sum_us
    }

    pub fn mean_us(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum_us / f64::from(self.count))
    }

    /// The time, in microseconds, within which this share of calls is done, exact to 25 %.
    pub fn quantile_us(&self, share: f32) -> Option<f64> {
        let wanted = self.count * share;
        let mut below = 0.0;
        let found = self.buckets.iter().position(|count| {
            below += count;
            *count > 0.0 && below >= wanted
        });
        found.map(bound_us)
    }
}

/// Which bucket counts a time: the power of two, and its quarter.
fn bucket(us: u64) -> usize {
    let us = us.max(1);
    let power = us.ilog2() as usize;
    let quarter = match power {
        0 | 1 => (us << (2 - power)) as usize & 3,
        _ => (us >> (power - 2)) as usize & 3,
    };
    (power * PER_POWER + quarter).min(BUCKETS - 1)
}

/// The upper bound of a bucket's times, in microseconds.
fn bound_us(bucket: usize) -> f64 {
    let (power, quarter) = (bucket / PER_POWER, bucket % PER_POWER);
    (power as f64).exp2() * (1.0 + (quarter + 1) as f64 / PER_POWER as f64)
}

/// Costs of a statement, as far as they are remembered.
#[derive(Clone, Debug)]
pub struct StatementRecord {
    pub asked: Described,
    /// Tells it from others: the same on all workers.
    pub key: (u64, u32),
    /// For how long it has been counted, in microseconds.
    pub known_us: u64,
    pub calls: f32,
    pub rows: f64,
    pub bytes: f64,
    pub errors: f32,
    /// As clients see it.
    pub whole: Spread,
    /// At nodes, all node requests of a call together.
    pub at_nodes: Spread,
}

impl StatementRecord {
    fn new(asked: Described, key: (u64, u32)) -> StatementRecord {
        StatementRecord {
            asked,
            key,
            known_us: 0,
            calls: 0.0,
            rows: 0.0,
            bytes: 0.0,
            errors: 0.0,
            whole: Spread::default(),
            at_nodes: Spread::default(),
        }
    }

    /// Adds what another worker has seen of the same.
    pub fn add(&mut self, other: &StatementRecord) {
        self.known_us = self.known_us.max(other.known_us);
        self.calls += other.calls;
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.whole.add(&other.whole);
        self.at_nodes.add(&other.at_nodes);
    }

    fn fade(&mut self, left: f32) {
        self.calls *= left;
        self.rows *= f64::from(left);
        self.bytes *= f64::from(left);
        self.errors *= left;
        self.whole.fade(left);
        self.at_nodes.fade(left);
    }

    /// A count per second: a mean of the last minutes, or since the statement was first met.
    pub fn per_second(&self, count: f64) -> f64 {
        let fading = std::f64::consts::LN_2 / (HALF_LIFE_US as f64 / 1e6);
        let known_s = (self.known_us as f64 / 1e6).max(1.0);
        count * fading / (1.0 - (-fading * known_s).exp())
    }
}

/// One answer that is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub took_us: u64,
    pub at_nodes_us: u64,
    pub rows: usize,
    pub bytes: usize,
}

/// Costs of statements on one worker.
#[derive(Default)]
pub(crate) struct Costs {
    /// Each with when it was first met.
    known: FxHashMap<(u64, u32), (u64, Box<StatementRecord>)>,
    /// When counts were last right, and the last tick.
    faded_us: u64,
    now_us: u64,
}

impl Costs {
    pub(super) fn knows(&self, key: (u64, u32)) -> bool {
        self.known.contains_key(&key)
    }

    /// Counts a statement from now on; if there are too many, the one that took the least time makes way.
    pub(super) fn learn(&mut self, key: (u64, u32), asked: Described) {
        if self.known.len() >= PLACES {
            let cheaper = |a: &StatementRecord, b: &StatementRecord| {
                let less = a.whole.sum_us.total_cmp(&b.whole.sum_us);
                less.then(a.key.cmp(&b.key))
            };
            let least = self.known.values().min_by(|(_, a), (_, b)| cheaper(a, b));
            if let Some(least) = least.map(|(_, least)| least.key) {
                self.known.remove(&least);
            }
        }
        let record = Box::new(StatementRecord::new(asked, key));
        self.known.insert(key, (self.now_us, record));
    }

    /// Notes an answer of a statement that is counted, for all that it stands for.
    pub(super) fn note(&mut self, key: (u64, u32), cost: &Cost) {
        let Some((_, of)) = self.known.get_mut(&key) else {
            return;
        };
        of.calls += WEIGHT;
        of.rows += cost.rows as f64 * f64::from(WEIGHT);
        of.bytes += cost.bytes as f64 * f64::from(WEIGHT);
        of.whole.note(cost.took_us, WEIGHT);
        of.at_nodes.note(cost.at_nodes_us, WEIGHT);
    }

    /// Counts an error of a statement that is counted.
    pub(super) fn note_error(&mut self, key: (u64, u32)) {
        if let Some((_, of)) = self.known.get_mut(&key) {
            of.errors += 1.0;
        }
    }

    pub(super) fn on_tick(&mut self, now_us: u64) {
        self.now_us = now_us;
        let passed = now_us.saturating_sub(self.faded_us);
        if passed < DECAY_US {
            return;
        }
        self.faded_us = now_us;
        let left = 0.5_f64.powf(passed as f64 / HALF_LIFE_US as f64) as f32;
        self.known.retain(|_, (_, of)| {
            of.fade(left);
            of.calls + of.errors > LEAST
        });
    }

    /// Those that took the most time, the first of them first.
    pub(super) fn most(&self, max: usize) -> Vec<StatementRecord> {
        let mut all: Vec<_> = self.known.values().collect();
        all.sort_by(|(_, a), (_, b)| {
            let longer = b.whole.sum_us.total_cmp(&a.whole.sum_us);
            longer
                .then(b.errors.total_cmp(&a.errors))
                .then(a.key.cmp(&b.key))
        });
        let copy = |(since_us, of): &(u64, Box<StatementRecord>)| StatementRecord {
            known_us: self.now_us.saturating_sub(*since_us),
            ..(**of).clone()
        };
        all.into_iter().take(max).map(copy).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_wire::Opcode;

    fn asked(text: &str) -> Described {
        Described {
            statement: Some(text.into()),
            keyspace: None,
            role: None,
            client: None,
            opcode: Opcode::Query,
        }
    }

    /// One answer, of a statement that may be new.
    fn call(costs: &mut Costs, key: u64, text: &str, us: u64) {
        if !costs.knows((key, 0)) {
            costs.learn((key, 0), asked(text));
        }
        costs.note((key, 0), &answer(us));
    }

    fn answer(us: u64) -> Cost {
        Cost {
            took_us: us,
            at_nodes_us: us / 2,
            rows: 3,
            bytes: 100,
        }
    }

    #[test]
    fn an_answer_counts_for_sixteen_and_fades() {
        let mut costs = Costs::default();
        for _ in 0..100 {
            call(&mut costs, 1, "a", 1_000);
        }
        costs.note_error((1, 0));
        let before = costs.most(10).remove(0);
        assert_eq!((before.calls, before.errors), (1_600.0, 1.0));
        assert_eq!((before.rows, before.bytes), (4_800.0, 160_000.0));
        assert_eq!(before.whole.mean_us(), Some(1_000.0));
        assert_eq!(before.at_nodes.mean_us(), Some(500.0));
        costs.on_tick(HALF_LIFE_US);
        let after = costs.most(10).remove(0);
        assert!((after.calls - 800.0).abs() < 1.0, "{}", after.calls);
        let mean = after.whole.mean_us().expect("calls");
        assert!((mean - 1_000.0).abs() < 1.0, "{mean}");
        costs.on_tick(100 * HALF_LIFE_US);
        assert!(costs.most(10).is_empty(), "forgotten");
    }

    #[test]
    fn what_takes_the_most_time_stays_when_there_are_too_many() {
        let mut costs = Costs::default();
        for n in 0..10 * PLACES as u64 {
            call(&mut costs, u64::MAX, "large", 50_000);
            call(&mut costs, n, "small", 10);
            assert!(costs.known.len() <= PLACES);
        }
        let first = costs.most(1).remove(0);
        assert_eq!(first.asked.statement.as_deref(), Some("large"));
        assert_eq!(first.calls, 16.0 * 10.0 * PLACES as f32);
    }

    #[test]
    fn quantiles_are_right_to_a_quarter() {
        let mut spread = Spread::default();
        for us in 1..=1_000 {
            spread.note(us, 1.0);
        }
        for (share, exact) in [(0.5, 500.0), (0.99, 990.0)] {
            let found = spread.quantile_us(share).expect("calls");
            assert!((exact..=exact * 1.25).contains(&found), "{share}: {found}");
        }
        assert_eq!(Spread::default().quantile_us(0.99), None);
        for us in (1..100_000).chain([1 << 26]) {
            let at = bucket(us);
            let below = at.checked_sub(1).map_or(1.0, bound_us);
            let is_in = (below..bound_us(at)).contains(&(us as f64));
            assert!(is_in, "{us} in {at}");
        }
        spread.note(u64::MAX, 1.0);
        assert!(spread.quantile_us(1.0).is_some());
        let mut both = spread.clone();
        both.add(&spread);
        assert_eq!(both.mean_us(), spread.mean_us());
    }

    #[test]
    fn a_steady_count_is_its_rate() {
        let mut costs = Costs::default();
        let second = 1_000_000;
        for s in 1..=3_600 {
            // 160 calls a second.
            for _ in 0..10 {
                call(&mut costs, 1, "a", 10);
            }
            costs.on_tick(s * second);
            if [20, 60, 3_600].contains(&s) {
                let of = costs.most(1).remove(0);
                let rate = of.per_second(f64::from(of.calls));
                assert!((rate - 160.0).abs() < 12.0, "{rate} after {s} s");
            }
        }
    }
}
