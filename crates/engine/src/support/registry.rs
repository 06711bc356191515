//! Values of a kind, by key.
//!
//! A slot map has as many slots as it has ever had values at once, and a walk over it passes all of them. A walk
//! every few milliseconds must cost as much as there are values now, whatever a burst has left behind. So the keys
//! are listed beside the slots, in no order, and for each slot the place of its key in the list.

use slotmap::{Key, SlotMap};

/// A slot map whose walks cost as much as it has values.
#[derive(Debug)]
pub(crate) struct Registry<K: Key, V> {
    slots: SlotMap<K, V>,
    keys: Vec<K>,
    /// By slot. Beside the values, which are large, and would be moved once more to be told apart from their place.
    places: Vec<u32>,
}

impl<K: Key, V> Default for Registry<K, V> {
    fn default() -> Self {
        Registry {
            slots: SlotMap::with_key(),
            keys: Vec::new(),
            places: Vec::new(),
        }
    }
}

/// Which slot a key is of.
#[inline]
fn slot(key: impl Key) -> usize {
    key.data().as_ffi() as u32 as usize
}

impl<K: Key, V> Registry<K, V> {
    #[inline]
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.slots.get(key)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.slots.get_mut(key)
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: V) -> K {
        let key = self.slots.insert(value);
        let place = self.keys.len() as u32;
        self.keys.push(key);
        match self.places.get_mut(slot(key)) {
            Some(at) => *at = place,
            None => {
                self.places.resize(slot(key), 0);
                self.places.push(place);
            }
        }
        key
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        // Of a key that is there, the place is right. Looked at first: a value that is removed first is moved once more.
        if self.slots.contains_key(key)
            && let Some(place) = self.places.get(slot(key)).copied()
        {
            self.keys.swap_remove(place as usize);
            if let Some(moved) = self.keys.get(place as usize)
                && let Some(at) = self.places.get_mut(slot(*moved))
            {
                *at = place;
            }
        }
        self.slots.remove(key)
    }

    #[inline]
    pub(crate) fn contains_key(&self, key: K) -> bool {
        self.slots.contains_key(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> + Clone {
        let keys = self.keys.iter();
        keys.filter_map(|key| Some((*key, self.get(*key)?)))
    }

    /// Passes all slots.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        self.slots.iter_mut()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::keys::NodeRequestKey;

    /// Inserts and removes at random, beside a map that shows what is right.
    fn check(seed: u64, steps: u64, inserts_of_8: impl Fn(u64) -> u64) {
        let mut registry: Registry<NodeRequestKey, u64> = Registry::default();
        let mut expected: BTreeMap<NodeRequestKey, u64> = BTreeMap::new();
        let mut gone = Vec::new();
        let mut state = seed;
        for step in 0..steps {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(seed | 1);
            let drawn = state >> 33;
            if drawn % 8 < inserts_of_8(step) {
                assert_eq!(
                    expected.insert(registry.insert(step), step),
                    None,
                    "seed {seed}"
                );
            } else if let Some(key) = expected.keys().nth(drawn as usize % expected.len().max(1)) {
                let key = *key;
                assert_eq!(registry.remove(key), expected.remove(&key), "seed {seed}");
                gone.push(key);
            }
            assert_eq!(
                (registry.len(), registry.is_empty()),
                (expected.len(), expected.is_empty())
            );
        }
        let found: BTreeMap<_, _> = registry.iter().map(|(key, value)| (key, *value)).collect();
        assert_eq!(found, expected, "seed {seed}");
        assert_eq!(registry.values().count(), expected.len(), "seed {seed}");
        for (key, value) in &mut expected {
            *value += 1;
            *registry.get_mut(*key).expect("it is there") += 1;
            assert_eq!(registry.get(*key), Some(&*value), "seed {seed}");
        }
        for key in gone {
            assert_eq!(registry.get(key), None, "seed {seed}");
            assert_eq!(registry.remove(key), None, "seed {seed}");
        }
        assert_eq!(registry.len(), expected.len(), "seed {seed}");
    }

    #[test]
    fn it_has_what_was_inserted_and_not_removed() {
        for seed in 0..20 {
            check(seed, 500, |_| 4);
            check(seed, 900, |step| if step % 300 < 150 { 7 } else { 1 });
        }
    }

    #[test]
    fn a_walk_passes_what_is_there_however_much_there_was() {
        let mut registry: Registry<NodeRequestKey, usize> = Registry::default();
        let keys: Vec<NodeRequestKey> = (0..10_000).map(|n| registry.insert(n)).collect();
        for (n, key) in keys.into_iter().enumerate() {
            if n % 5_000 != 17 {
                registry.remove(key);
            }
        }
        // A walk goes over the list.
        assert_eq!(registry.keys.len(), 2);
        let mut left: Vec<usize> = registry.values().copied().collect();
        left.sort_unstable();
        assert_eq!(left, [17, 5_017]);
    }
}
