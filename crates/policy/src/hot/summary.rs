//! The hottest partitions, to be shown and merged.

use super::Partition;
use std::collections::BTreeMap;

/// One request to a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    pub is_write: bool,
    /// Predicted work, in microseconds of an otherwise idle node.
    pub work_us: u32,
    /// Bytes of the request and, as predicted, of its answer.
    pub bytes: u32,
    /// It shares the answer of another request: no node works on it.
    pub is_shared: bool,
}

/// Requests of a partition, or of all, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub reads: f64,
    pub writes: f64,
    pub bytes: f64,
    /// Predicted work, and of that what another request's answer has saved the nodes; in microseconds.
    pub work_us: f64,
    pub shared_us: f64,
}

impl Rates {
    pub(super) fn of(of: Use) -> Rates {
        // A request without any work would leave no trace.
        let work_us = f64::from(of.work_us.max(1));
        Rates {
            reads: if of.is_write { 0.0 } else { 1.0 },
            writes: if of.is_write { 1.0 } else { 0.0 },
            bytes: of.bytes.into(),
            work_us,
            shared_us: if of.is_shared { work_us } else { 0.0 },
        }
    }

    pub(super) fn times(&self, factor: f64) -> Rates {
        Rates {
            reads: self.reads * factor,
            writes: self.writes * factor,
            bytes: self.bytes * factor,
            work_us: self.work_us * factor,
            shared_us: self.shared_us * factor,
        }
    }

    pub fn add(&mut self, other: &Rates) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.bytes += other.bytes;
        self.work_us += other.work_us;
        self.shared_us += other.shared_us;
    }
}

/// A partition that is asked for much.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<T> {
    pub partition: Partition,
    pub label: T,
    /// At most so much predicted work per second, and at least `error_us` less.
    pub work_us: f64,
    pub error_us: f64,
    /// Never too much, but perhaps too little.
    pub rates: Rates,
}

/// The hottest partitions of a worker, of a proxy, or of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary<T> {
    /// The one with the most work first.
    pub entries: Vec<Entry<T>>,
    /// Whoever is not listed has no more predicted work per second than this.
    pub floor_us: f64,
    /// Of all partitions.
    pub total: Rates,
}

impl<T> Default for Summary<T> {
    fn default() -> Self {
        Summary {
            entries: Vec::new(),
            floor_us: 0.0,
            total: Rates::default(),
        }
    }
}

impl<T: Clone> Summary<T> {
    /// All of these together, `max` partitions at most. The bounds still hold: whoever is not listed
    /// somewhere may have had there what the floor allows.
    pub fn merged(all: &[Summary<T>], max: usize) -> Summary<T> {
        let floor_us: f64 = all.iter().map(|of| of.floor_us).sum();
        let mut total = Rates::default();
        // Each as if it was listed nowhere, and then corrected for each list that it is on.
        let mut merged: BTreeMap<Partition, Entry<T>> = BTreeMap::new();
        for summary in all {
            total.add(&summary.total);
            for entry in &summary.entries {
                let of = merged.entry(entry.partition).or_insert_with(|| Entry {
                    partition: entry.partition,
                    label: entry.label.clone(),
                    work_us: floor_us,
                    error_us: floor_us,
                    rates: Rates::default(),
                });
                of.work_us += entry.work_us - summary.floor_us;
                of.error_us += entry.error_us - summary.floor_us;
                of.rates.add(&entry.rates);
            }
        }
        let mut entries: Vec<Entry<T>> = merged.into_values().collect();
        entries.sort_by(|a, b| b.work_us.total_cmp(&a.work_us));
        let behind = entries.get(max).map_or(0.0, |entry| entry.work_us);
        entries.truncate(max);
        Summary {
            entries,
            floor_us: floor_us.max(behind),
            total,
        }
    }

    /// The share of all predicted work that a partition has, 0 to 1; at least that for certain.
    pub fn share(&self, entry: &Entry<T>) -> f64 {
        match self.total.work_us > 0.0 {
            true => ((entry.work_us - entry.error_us) / self.total.work_us).clamp(0.0, 1.0),
            false => 0.0,
        }
    }
}
