//! The most frequent items of a stream, in bounded memory.
//!
//! With k counters every item that makes up more than 1/k of the stream is among them, and its count
//! is too high by what the counter said before at most.
//!
//! Source: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data
//! streams" (2005).

#[derive(Clone, Debug)]
pub struct SpaceSaving {
    counters: Vec<Counter>,
    counters_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    item: u64,
    count: u64,
    /// The count is too high by this at most.
    error: u64,
}

impl SpaceSaving {
    pub fn new(counters_max: usize) -> Self {
        SpaceSaving {
            counters: Vec::with_capacity(counters_max),
            counters_max,
        }
    }

    pub fn add(&mut self, item: u64) {
        if let Some(counter) = self.counters.iter_mut().find(|c| c.item == item) {
            counter.count += 1;
        } else if self.counters.len() < self.counters_max {
            let (count, error) = (1, 0);
            self.counters.push(Counter { item, count, error });
        } else if let Some(least) = self.counters.iter_mut().min_by_key(|c| c.count) {
            *least = Counter {
                item,
                count: least.count + 1,
                error: least.count,
            };
        }
    }

    /// How often the item came: at least the first number, at most the second. None if it has no
    /// counter.
    pub fn count(&self, item: u64) -> Option<(u64, u64)> {
        let counter = self.counters.iter().find(|c| c.item == item)?;
        Some((counter.count - counter.error, counter.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn frequent_items_are_found_and_their_bounds_hold() {
        let seed = 7;
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut sketch = SpaceSaving::new(20);
        let mut truth = std::collections::BTreeMap::new();
        for _ in 0..50_000 {
            // Item n comes about half as often as item n − 1; a third are strangers.
            let item = match rng.below(3) {
                0 => 1_000 + rng.below(100_000) as u64,
                _ => u64::from(rng.next().trailing_zeros()),
            };
            sketch.add(item);
            *truth.entry(item).or_insert(0u64) += 1;
        }
        for (item, count) in truth {
            match sketch.count(item) {
                Some((least, most)) => assert!((least..=most).contains(&count), "{item}"),
                None => assert!(count <= 50_000 / 20, "{item} came {count} times"),
            }
        }
        assert!(
            sketch
                .count(0)
                .is_some_and(|(least, most)| most - least < most / 4)
        );
    }
}
