//! Whole numbers: how far they are from a usual one, by order of magnitude.

use std::collections::BTreeMap;

use super::coder::{ChoiceReader, Choices, CoderError};
use super::frequencies::{Frequencies, count};

/// No number has more than 18 digits.
pub(super) const MAGNITUDE_MAX: i64 = 999_999_999_999_999_999;
/// Set in the symbols of numbers below the base.
const BELOW: u16 = 0x100;
const SYMBOL_BITS: u32 = 9;
/// Smaller distances have symbols of their own.
const SMALL: u64 = 8;
/// Leading bits that are part of a symbol, besides the first.
const LEADING: u32 = 2;

#[derive(Clone, Debug, Default)]
pub(super) struct Integers {
    /// Numbers are near it, or above.
    pub base: i64,
    pub magnitudes: Frequencies,
}

impl Integers {
    /// From numbers and how often each was counted.
    pub(super) fn learn(numbers: &BTreeMap<i64, u64>) -> Integers {
        let base = base(numbers);
        let mut counts = BTreeMap::new();
        for (number, times) in numbers {
            let (symbol, ..) = symbol(number - base);
            count(&mut counts, symbol, *times);
        }
        Integers {
            base,
            magnitudes: Frequencies::learn(&counts, 0),
        }
    }

    /// A number of at most [`MAGNITUDE_MAX`].
    pub(super) fn put(&self, number: i64, choices: &mut Choices) {
        let (symbol, bits, bits_count) = symbol(number - self.base);
        self.magnitudes.put_any(symbol, SYMBOL_BITS, choices);
        choices.put_bits(bits, bits_count);
    }

    pub(super) fn next(&self, reader: &mut ChoiceReader) -> Result<i64, CoderError> {
        let symbol = self.magnitudes.next_any(SYMBOL_BITS, reader)?;
        let magnitude = u64::from(symbol & !BELOW);
        let distance = match magnitude.checked_sub(SMALL) {
            None => magnitude,
            Some(above) => {
                let bits_count = above as u32 >> LEADING;
                if bits_count > 59 {
                    return Err(CoderError::Damaged);
                }
                let bits = reader.bits(bits_count + 1)?;
                let leading = 1 << LEADING | above & ((1 << LEADING) - 1);
                leading << (bits_count + 1) | bits
            }
        };
        let distance = i128::from(distance);
        let signed = if symbol & BELOW == 0 {
            distance
        } else {
            -distance
        };
        let number = i64::try_from(i128::from(self.base) + signed);
        let number = number.map_err(|_| CoderError::Damaged)?;
        match number.unsigned_abs() <= MAGNITUDE_MAX as u64 {
            true => Ok(number),
            false => Err(CoderError::Damaged),
        }
    }
}

/// A distance's symbol, and the bits that follow it with their number.
fn symbol(distance: i64) -> (u16, u64, u32) {
    let below = if distance < 0 { BELOW } else { 0 };
    let distance = distance.unsigned_abs();
    if distance < SMALL {
        return (below | distance as u16, 0, 0);
    }
    let bits_count = distance.ilog2() - LEADING;
    let leading = (distance >> bits_count) as u16 & ((1 << LEADING) - 1);
    let symbol = SMALL as u16 + ((bits_count as u16 - 1) << LEADING | leading);
    let bits = distance & ((1 << bits_count) - 1);
    (below | symbol, bits, bits_count)
}

/// The one of a few candidates that all numbers are nearest to.
fn base(numbers: &BTreeMap<i64, u64>) -> i64 {
    let total: u64 = numbers.values().sum();
    let at = |share: f64| {
        let mut left = (total as f64 * share) as u64;
        let found = numbers.iter().find(|(_, times)| {
            let is_here = left < **times;
            left = left.saturating_sub(**times);
            is_here
        });
        found.map_or(0, |(number, _)| *number)
    };
    let far = |base: i64| -> u64 {
        let numbers = numbers.iter();
        let bits =
            numbers.map(|(n, times)| u64::from((n - base).unsigned_abs().max(1).ilog2()) * times);
        bits.sum()
    };
    let candidates = [0, at(0.0), at(0.02), at(0.5)];
    candidates
        .into_iter()
        .min_by_key(|base| far(*base))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_whatever_was_learned() {
        let numbers = [
            0,
            1,
            -1,
            7,
            8,
            9,
            15,
            16,
            17,
            1_000,
            -1_000,
            1_700_000_000_000,
            MAGNITUDE_MAX,
            -MAGNITUDE_MAX,
        ];
        for learned in [
            &[][..],
            &[1_700_000_000_000, 1_700_000_000_900],
            &[5, 6, -2],
        ] {
            let counts = learned.iter().map(|number| (*number, 3)).collect();
            let integers = Integers::learn(&counts);
            let mut choices = Choices::default();
            numbers
                .iter()
                .for_each(|number| integers.put(*number, &mut choices));
            let mut bytes = Vec::new();
            choices.finish(&mut bytes);
            let mut reader = ChoiceReader::new(&bytes).expect("a state");
            for number in numbers {
                assert_eq!(integers.next(&mut reader), Ok(number));
            }
            assert!(reader.is_at_end());
        }
    }
}
