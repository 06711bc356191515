//! Recently used values, bounded in bytes.
//!
//! Two generations: what is used goes to the young one; when that has filled half of the bound it
//! becomes the old one, and what was old and not used since is forgotten.

use std::borrow::Borrow;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Bytes that an entry of a map takes beside key and value, roughly.
const ENTRY: usize = 64;

/// Values with the bytes that each is taken to weigh. Whoever may choose keys must not know their hashes.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    young: FxHashMap<K, (V, usize)>,
    old: FxHashMap<K, (V, usize)>,
    young_bytes: usize,
    old_bytes: usize,
    bytes_max: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> Recent<K, V> {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Recent {
            young: FxHashMap::default(),
            old: FxHashMap::default(),
            young_bytes: 0,
            old_bytes: 0,
            bytes_max,
        }
    }

    /// Puts another bound in force, from the next value on.
    pub(crate) fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// A value, which is young again by that.
    pub(crate) fn get<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, (value, weight)) = self.old.remove_entry(key)?;
        self.old_bytes -= weight;
        self.insert(key, value.clone(), weight - ENTRY);
        Some(value)
    }

    /// Keeps a value, in place of what had its key. One that would fill the half of the bound alone is
    /// not kept.
    pub(crate) fn insert(&mut self, key: K, value: V, weight: usize) {
        let weight = weight + ENTRY;
        if let Some((_, before)) = self.old.remove(&key) {
            self.old_bytes -= before;
        }
        if let Some((_, before)) = self.young.remove(&key) {
            self.young_bytes -= before;
        }
        let half = self.bytes_max / 2;
        if weight > half {
            return;
        }
        if self.young_bytes + weight > half {
            self.old = std::mem::take(&mut self.young);
            self.old_bytes = std::mem::take(&mut self.young_bytes);
        }
        self.young_bytes += weight;
        self.young.insert(key, (value, weight));
    }

    /// Keeps a value whose key is not known, as one that was used before those that are kept, if there is
    /// room: nothing goes for its sake.
    pub(crate) fn insert_behind(&mut self, key: K, value: V, weight: usize) {
        let weight = weight + ENTRY;
        let half = self.bytes_max / 2;
        let (place, bytes) = match self.old.is_empty() && self.young_bytes + weight <= half {
            true => (&mut self.young, &mut self.young_bytes),
            false => (&mut self.old, &mut self.old_bytes),
        };
        if *bytes + weight <= half {
            *bytes += weight;
            place.insert(key, (value, weight));
        }
    }

    /// The values kept: first the young ones, then the old ones.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        let kept = self.young.values().chain(self.old.values());
        kept.map(|(value, _)| value)
    }

    /// Values kept.
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_goes_within_the_bound() {
        let mut recent: Recent<u32, u32> = Recent::new(100 * (1_000 + ENTRY));
        for n in 0..10_000 {
            recent.insert(n, n, 1_000);
            assert_eq!(recent.get(&0), Some(0), "used all the time");
            assert!(recent.len() <= 100, "{}", recent.len());
        }
        assert_eq!(recent.get(&9_999), Some(9_999));
        assert_eq!(recent.get(&5_000), None);
        recent.insert(1, 1, 60 * 1_000);
        assert_eq!(recent.get(&1), None, "too large to keep");
        recent.insert(9_999, 7, 1_000);
        assert_eq!(recent.get(&9_999), Some(7));
    }

    #[test]
    fn what_comes_behind_takes_the_room_that_is_left() {
        let mut recent: Recent<u32, u32> = Recent::new(100 * (1_000 + ENTRY));
        for n in 0..10 {
            recent.insert(n, n, 1_000);
        }
        // The last used first.
        for n in 100..1_000 {
            recent.insert_behind(n, n, 1_000);
        }
        assert_eq!(recent.len(), 100);
        // Looking them up would make them young.
        let mut kept: Vec<u32> = recent.values().copied().collect();
        kept.sort_unstable();
        let expected: Vec<u32> = (0..10).chain(100..190).collect();
        assert_eq!(kept, expected, "those used before the others are not");
        assert_eq!((recent.young_bytes, recent.old_bytes), {
            let bytes = |kept: &FxHashMap<u32, (u32, usize)>| kept.values().map(|of| of.1).sum();
            (bytes(&recent.young), bytes(&recent.old))
        });
        // Those that are not used go first.
        let mut recent: Recent<u32, u32> = Recent::new(100 * (1_000 + ENTRY));
        for n in 0..100 {
            recent.insert_behind(n, n, 1_000);
        }
        recent.insert(100, 100, 1_000);
        assert_eq!(recent.get(&0), Some(0));
        assert_eq!(recent.get(&99), None);
    }

    #[test]
    fn what_is_used_for_long_weighs_no_more_by_that() {
        let mut recent: Recent<u32, u32> = Recent::new(100 * (1_000 + ENTRY));
        for n in 0..100_000 {
            recent.insert(n, n, 1_000);
            recent.get(&0);
        }
        assert!(recent.len() > 40, "{}", recent.len());
    }
}
