//! The partitions that one worker is asked for most.

use super::index::Index;
use super::summary::{Entry, Rates, Summary, Use};
use super::{Partition, SAMPLED_ONE_OF};

/// Additions may grow by a factor of 2 to this before all is scaled down.
const GROWTH_MAX: f64 = 32.0;

/// A bounded list of partitions with their work, and for each a label of the caller's.
///
/// Takes about 100 bytes and one label for each place, all of it from the beginning; a label that owns
/// memory is the caller's to bound. Never allocates after that, except in [`Sketch::summary`].
#[derive(Clone, Debug)]
pub struct Sketch<T> {
    partitions: Vec<Partition>,
    labels: Vec<T>,
    /// Of each place: an upper bound of the work, and of that how much the partition may not have had.
    work: Vec<f64>,
    errors: Vec<f64>,
    uses: Vec<Rates>,
    index: Index,
    places: usize,
    /// Of all requests, and how many these were.
    total: Rates,
    samples: f64,
    half_life_us: f64,
    began_us: u64,
    /// The weight of an addition now; it was 1 at that time.
    growth: f64,
    since_us: u64,
    now_us: u64,
}

impl<T: Clone> Sketch<T> {
    /// `places`: partitions that it knows, 1 to 16,384.
    pub fn new(places: usize, half_life_us: u64, now_us: u64) -> Sketch<T> {
        let places = places.clamp(1, 16_384);
        Sketch {
            partitions: Vec::with_capacity(places),
            labels: Vec::with_capacity(places),
            work: Vec::with_capacity(places),
            errors: Vec::with_capacity(places),
            uses: Vec::with_capacity(places),
            index: Index::new(places),
            places,
            total: Rates::default(),
            samples: 0.0,
            half_life_us: half_life_us.max(1) as f64,
            began_us: now_us,
            growth: 1.0,
            since_us: now_us,
            now_us,
        }
    }

    /// How many partitions it knows.
    pub fn len(&self) -> usize {
        self.partitions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Counts a request that was looked at, for all those that were not. `label`: of a partition that has
    /// no place yet.
    pub fn note(&mut self, partition: Partition, of: Use, label: impl FnOnce() -> T) {
        let partitions = &self.partitions;
        let found = self
            .index
            .find(&partition, |place| partitions[usize::from(place)]);
        let place = match found {
            Some(place) => place,
            None => self.enter(partition, label()),
        };
        let weight = self.growth * f64::from(SAMPLED_ONE_OF);
        let used = Rates::of(of).times(weight);
        self.work[place] += used.work_us;
        self.uses[place].add(&used);
        self.total.add(&used);
        self.samples += self.growth;
    }

    /// Gives a partition a place, that of the one with the least work if all are taken.
    fn enter(&mut self, partition: Partition, label: T) -> usize {
        if self.partitions.len() < self.places {
            let place = self.partitions.len();
            self.partitions.push(partition);
            self.labels.push(label);
            self.work.push(0.0);
            self.errors.push(0.0);
            self.uses.push(Rates::default());
            self.index.insert(&partition, place);
            return place;
        }
        let place = self.least();
        let partitions = &self.partitions;
        let of = |place: u16| partitions[usize::from(place)];
        self.index.remove(&self.partitions[place], of);
        self.partitions[place] = partition;
        self.labels[place] = label;
        self.errors[place] = self.work[place];
        self.uses[place] = Rates::default();
        self.index.insert(&partition, place);
        place
    }

    /// The place with the least work.
    fn least(&self) -> usize {
        let (mut least, mut at) = (f64::INFINITY, 0);
        for (place, work) in self.work.iter().enumerate() {
            if *work < least {
                (least, at) = (*work, place);
            }
        }
        at
    }

    /// Tells the time: what was noted before counts less from now on. To be called several times in a
    /// half-life.
    pub fn advance(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
        let halvings = (self.now_us - self.since_us) as f64 / self.half_life_us;
        if halvings <= GROWTH_MAX {
            self.growth = halvings.exp2();
            return;
        }
        let left = (-halvings).exp2();
        for work in self.work.iter_mut().chain(&mut self.errors) {
            *work *= left;
        }
        for uses in self.uses.iter_mut().chain([&mut self.total]) {
            *uses = uses.times(left);
        }
        self.samples *= left;
        (self.growth, self.since_us) = (1.0, self.now_us);
    }

    /// The partitions with the most work, `max` at most, as rates per second.
    pub fn summary(&self, max: usize) -> Summary<T> {
        let per_s = self.per_second();
        let entry = |place: usize| Entry {
            partition: self.partitions[place],
            label: self.labels[place].clone(),
            work_us: self.work[place] * per_s,
            error_us: self.errors[place] * per_s,
            rates: self.uses[place].times(per_s),
        };
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_unstable_by(|a, b| self.work[*b].total_cmp(&self.work[*a]));
        let is_full = self.len() == self.places;
        let last = if is_full { order.len() } else { 0 };
        // Whoever is not listed has no place, or one behind those that are.
        let behind = order.get(max).or(order[..last].last());
        let floor_us = behind.map_or(0.0, |place| self.work[*place] * per_s);
        order.truncate(max);
        Summary {
            entries: order.into_iter().map(entry).collect(),
            floor_us,
            total: self.total.times(per_s),
        }
    }

    /// Each partition with the share of all work that it has had for certain. None until so many requests
    /// were looked at lately that shares mean something.
    pub(super) fn shares(&self) -> impl Iterator<Item = (Partition, f64)> {
        const SAMPLES_MIN: f64 = 32.0;
        let is_known = self.samples >= SAMPLES_MIN * self.growth && self.total.work_us > 0.0;
        let all = self.work.iter().zip(&self.errors).zip(&self.partitions);
        all.take_while(move |_| is_known)
            .map(|((work, error), partition)| (*partition, (work - error) / self.total.work_us))
    }

    /// The factor that makes a rate of a sum: with steady requests, sums no longer grow once they hold what comes
    /// in a half-life ÷ ln 2.
    fn per_second(&self) -> f64 {
        let halvings = (self.now_us - self.began_us) as f64 / self.half_life_us;
        let held_us = self.half_life_us / std::f64::consts::LN_2 * (1.0 - (-halvings).exp2());
        // Shortly after the beginning there is hardly anything to go by.
        let held_s = (held_us / 1e6).max(0.01);
        1.0 / (held_s * self.growth)
    }
}
