use super::*;
use crate::test_rng::{TestRng, for_seeds};
use std::collections::BTreeMap;

const HALF_LIFE_US: u64 = 1_000_000;
const TOLERANCE: f64 = 1e-6;

/// Counts everything.
#[derive(Default)]
struct Exact {
    work: BTreeMap<Partition, f64>,
    reads: BTreeMap<Partition, f64>,
    total: f64,
    now_us: u64,
}

impl Exact {
    fn note(&mut self, partition: Partition, of: Use) {
        let weight = f64::from(SAMPLED_ONE_OF);
        let work = weight * f64::from(of.work_us.max(1));
        *self.work.entry(partition).or_default() += work;
        *self.reads.entry(partition).or_default() += if of.is_write { 0.0 } else { weight };
        self.total += work;
    }

    fn advance(&mut self, now_us: u64) {
        let left = (-((now_us - self.now_us) as f64) / HALF_LIFE_US as f64).exp2();
        let sums = self.work.values_mut().chain(self.reads.values_mut());
        sums.for_each(|sum| *sum *= left);
        self.total *= left;
        self.now_us = now_us;
    }

    fn work_of(&self, partition: &Partition) -> f64 {
        self.work.get(partition).copied().unwrap_or(0.0)
    }
}

fn partition(rank: usize) -> Partition {
    Partition {
        table: rank as u32 % 3,
        role: rank as u32 % 2,
        token: (rank as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64),
    }
}

/// Few of them often, many of them now and then.
fn skewed(rng: &mut TestRng, of: usize) -> Partition {
    let uniform = (rng.below(1 << 20) + 1) as f64 / (1 << 20) as f64;
    partition((of as f64).powf(uniform) as usize)
}

fn any_use(rng: &mut TestRng) -> Use {
    Use {
        is_write: rng.below(4) == 0,
        work_us: rng.below(2_000) as u32,
        bytes: rng.below(1_000) as u32,
        is_shared: rng.below(8) == 0,
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()).max(1.0)
}

/// True if not less, up to rounding.
fn at_least(a: f64, b: f64) -> bool {
    a >= b || near(a, b)
}

#[test]
fn the_bounds_hold_against_exact_counts_with_decay() {
    for_seeds(60, |seed, rng| {
        let places = 1 + rng.below(40);
        let mut sketch = Sketch::new(places, HALF_LIFE_US, 0);
        let mut exact = Exact::default();
        let mut now_us = 0;
        for _ in 0..3_000 {
            let (of, used) = (skewed(rng, 300), any_use(rng));
            sketch.note(of, used, || of);
            exact.note(of, used);
            if rng.below(50) == 0 {
                // Now and then long enough for all to be scaled down.
                let pause_us = if rng.below(20) == 0 {
                    40_000_000
                } else {
                    90_000
                };
                now_us += rng.below(pause_us) as u64;
                sketch.advance(now_us);
                exact.advance(now_us);
            }
        }
        let summary = sketch.summary(usize::MAX);
        // Additions have grown since; the exact counts have shrunk instead.
        let scale = summary.total.work_us / exact.total;
        assert!(scale > 0.0, "seed {seed}");
        for entry in &summary.entries {
            assert_eq!(
                entry.label, entry.partition,
                "the label of another partition"
            );
            let truth = exact.work_of(&entry.partition) * scale;
            assert!(at_least(entry.work_us, truth), "seed {seed}: too little");
            assert!(
                at_least(truth, entry.work_us - entry.error_us),
                "seed {seed}: too much"
            );
            assert!(
                at_least(summary.total.work_us / places as f64, entry.error_us),
                "seed {seed}: an error of more than its share"
            );
            let reads = exact.reads[&entry.partition] * scale;
            assert!(at_least(reads, entry.rates.reads), "seed {seed}: reads");
        }
        let listed = |of: &Partition| summary.entries.iter().any(|entry| entry.partition == *of);
        for (of, work) in &exact.work {
            assert!(
                listed(of) || at_least(summary.floor_us, work * scale),
                "seed {seed}: left out with {work}, floor {}",
                summary.floor_us
            );
        }
    });
}

#[test]
fn merged_summaries_keep_the_bounds_of_all_that_was_counted() {
    for_seeds(60, |seed, rng| {
        let workers = 2 + rng.below(4);
        let places = 4 + rng.below(30);
        let mut exact = Exact::default();
        let mut sketches: Vec<Sketch<Partition>> = Vec::new();
        for _ in 0..workers {
            sketches.push(Sketch::new(places, HALF_LIFE_US, 0));
        }
        for _ in 0..4_000 {
            let (of, used) = (skewed(rng, 200), any_use(rng));
            sketches[rng.below(workers)].note(of, used, || of);
            exact.note(of, used);
        }
        for sketch in &mut sketches {
            sketch.advance(500_000);
        }
        exact.advance(500_000);
        // Some of them are cut short before, as what is published is.
        let cut = 1 + rng.below(places);
        let summaries: Vec<Summary<Partition>> =
            sketches.iter().map(|of| of.summary(cut)).collect();
        let max = 1 + rng.below(places);
        let merged = Summary::merged(&summaries, max);
        assert!(merged.entries.len() <= max);
        assert!(merged.entries.is_sorted_by(|a, b| a.work_us >= b.work_us));
        let scale = merged.total.work_us / exact.total;
        for entry in &merged.entries {
            let truth = exact.work_of(&entry.partition) * scale;
            assert!(at_least(entry.work_us, truth), "seed {seed}: too little");
            assert!(
                at_least(truth, entry.work_us - entry.error_us),
                "seed {seed}: too much"
            );
            assert!((0.0..=1.0).contains(&merged.share(entry)), "seed {seed}");
        }
        let listed = |of: &Partition| merged.entries.iter().any(|entry| entry.partition == *of);
        for (of, work) in &exact.work {
            let is_bounded = at_least(merged.floor_us, work * scale);
            assert!(listed(of) || is_bounded, "seed {seed}: left out");
        }
    });
}

#[test]
fn a_steady_rate_is_told_from_the_beginning_on_and_halves_when_it_ends() {
    let mut sketch = Sketch::new(4, HALF_LIFE_US, 0);
    let used = Use {
        work_us: 300,
        bytes: 100,
        ..Use::default()
    };
    // Looked at 10 times in 100 ms: 160 requests, 1,600 a second.
    let at = |sketch: &mut Sketch<()>, tick: u64| {
        for _ in 0..10 {
            sketch.note(partition(1), used, || ());
        }
        sketch.advance(tick * 100_000);
        sketch.summary(1).entries[0].rates
    };
    for tick in 1..=100 {
        let rates = at(&mut sketch, tick);
        assert!(
            (rates.reads - 1_600.0).abs() < 80.0,
            "tick {tick}: {rates:?}"
        );
        assert!((rates.work_us / rates.reads - 300.0).abs() < 0.1);
        assert!((rates.bytes / rates.reads - 100.0).abs() < 0.1);
    }
    let before = sketch.summary(1).entries[0].work_us;
    sketch.advance(10_000_000 + HALF_LIFE_US);
    let behind = sketch.summary(1).entries[0].work_us;
    assert!((behind / before - 0.5).abs() < 0.01, "{before} {behind}");
    sketch.advance(10_000_000 + 200 * HALF_LIFE_US);
    assert!(sketch.summary(1).entries[0].work_us < 1e-9);
}

#[test]
fn one_of_sixteen_is_looked_at_whatever_the_period_of_the_requests() {
    for_seeds(20, |seed, _| {
        for period in [2, 15, 16, 17, 32] {
            let mut sampler = Sampler::new(seed);
            let mut seen = vec![0u32; period];
            let requests = 400_000;
            for request in 0..requests {
                if sampler.takes() {
                    seen[request % period] += 1;
                }
            }
            let expected = requests as f64 / f64::from(SAMPLED_ONE_OF) / period as f64;
            for of in seen {
                let off = (f64::from(of) - expected).abs();
                assert!(
                    off < 6.0 * expected.sqrt(),
                    "seed {seed}, {period}: {of} of {expected}"
                );
            }
        }
    });
}

/// A partition's place, after all others have taken it again and again.
#[test]
fn places_are_found_whatever_was_removed_before() {
    for_seeds(200, |seed, rng| {
        let places = 1 + rng.below(60);
        let mut partitions: Vec<Partition> = Vec::new();
        let mut index = index::Index::new(places);
        for _ in 0..500 {
            let new = partition(rng.below(500));
            let of = |place: u16| partitions[usize::from(place)];
            if index.find(&new, of).is_some() {
                continue;
            }
            if partitions.len() < places {
                index.insert(&new, partitions.len());
                partitions.push(new);
            } else {
                let place = rng.below(places);
                index.remove(&partitions[place], of);
                partitions[place] = new;
                index.insert(&new, place);
            }
            let of = |place: u16| partitions[usize::from(place)];
            for (place, known) in partitions.iter().enumerate() {
                assert_eq!(index.find(known, of), Some(place), "seed {seed}");
            }
        }
    });
}

#[test]
fn a_partition_is_hot_from_a_quarter_of_a_nodes_share_on_and_stays_so_to_an_eighth() {
    let read = Use {
        work_us: 100,
        ..Use::default()
    };
    let mut set = HotSet::default();
    // Of 1,000 requests, so many are for one key: its share is that of a node's third in thousandths.
    let after = |set: &mut HotSet, of_key: usize| {
        let mut sketch = Sketch::new(2_048, HALF_LIFE_US, 0);
        for at in 0..1_000 {
            let of = if at < of_key { 0 } else { 1 + at };
            sketch.note(partition(of), read, || ());
        }
        set.renew(&sketch, 3);
        set.contains(partition(0).token)
    };
    assert!(!after(&mut set, 82));
    assert!(after(&mut set, 84));
    assert!(after(&mut set, 43), "it stays hot");
    assert_eq!(set.tokens(), [partition(0).token]);
    assert!(!after(&mut set, 40));
    assert!(set.tokens().is_empty() && !after(&mut set, 43));
}

#[test]
fn few_requests_make_nothing_hot_and_roles_of_one_key_add_up() {
    let read = Use::default();
    let mut sketch = Sketch::new(64, HALF_LIFE_US, 0);
    let mut set = HotSet::default();
    for at in 0..100u32 {
        let of = Partition {
            table: 1,
            role: at % 4,
            token: if at % 10 < 1 { 7 } else { i64::from(at) << 8 },
        };
        sketch.note(of, read, || ());
        set.renew(&sketch, 3);
        assert!(at >= 31 || set.tokens().is_empty(), "after {at}");
    }
    // A tenth of all in four parts, each below a quarter of a third.
    assert!(set.contains(7));
    assert!(!set.contains(7 + 64), "another token with the same bit");
}
