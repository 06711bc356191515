//! A set of queues, by their numbers.

/// Queues from this number on are in no set.
pub const NUMBERED_MAX: usize = 256;

const BITS: usize = u64::BITS as usize;

/// Numbers below [`NUMBERED_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers([u64; NUMBERED_MAX / BITS]);

impl Numbers {
    pub(super) fn insert(&mut self, number: usize) {
        if let Some(word) = self.0.get_mut(number / BITS) {
            *word |= 1 << (number % BITS);
        }
    }

    pub(super) fn remove(&mut self, number: usize) {
        if let Some(word) = self.0.get_mut(number / BITS) {
            *word &= !(1 << (number % BITS));
        }
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        let word = self.0.get(number / BITS);
        word.is_some_and(|word| word & 1 << (number % BITS) != 0)
    }

    /// All of them, beginning behind the last one.
    pub(super) fn in_turn(self, last: usize) -> impl Iterator<Item = usize> {
        let behind = last.saturating_add(1).min(NUMBERED_MAX);
        let all = move || {
            self.0.into_iter().enumerate().flat_map(|(at, mut word)| {
                std::iter::from_fn(move || {
                    let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
                    word &= word - 1;
                    Some(at * BITS + bit)
                })
            })
        };
        let first = all().filter(move |number| *number >= behind);
        first.chain(all().take_while(move |number| *number < behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_come_in_turn_whatever_their_number() {
        let mut numbers = Numbers::default();
        for number in [0, 3, 63, 64, 200, NUMBERED_MAX - 1, NUMBERED_MAX] {
            numbers.insert(number);
        }
        let from = |of: Numbers, last| of.in_turn(last).collect::<Vec<usize>>();
        assert_eq!(from(numbers, 63), [64, 200, 255, 0, 3, 63]);
        for last in [255, 256, usize::MAX] {
            assert_eq!(from(numbers, last), [0, 3, 63, 64, 200, 255]);
        }
        assert!(numbers.contains(200) && !numbers.contains(201));
        assert!(!numbers.contains(NUMBERED_MAX));
        numbers.remove(200);
        assert_eq!(from(numbers, 64), [255, 0, 3, 63, 64]);
    }
}
