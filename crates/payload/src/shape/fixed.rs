//! Strings that all have the same length, such as times and identifiers: which bytes stand in which place.

use std::collections::BTreeMap;

use super::coder::{ChoiceReader, Choices, CoderError};
use super::frequencies::{Frequencies, count};

/// Longer strings are taken as words.
pub(super) const LENGTH_MAX: usize = 48;
/// Fewer tell nothing of a place.
const STRINGS_MIN: u64 = 32;
/// The share of strings that must have the same length.
const SHARE_MIN: f64 = 0.9;

/// Has no places if the lengths differ.
#[derive(Clone, Debug, Default)]
pub(super) struct Fixed {
    pub places: Vec<Frequencies>,
}

impl Fixed {
    /// From strings and how often each was counted.
    pub(super) fn learn<'s>(strings: impl Iterator<Item = (&'s str, u64)> + Clone) -> Fixed {
        let mut lengths: BTreeMap<usize, u64> = BTreeMap::new();
        for (string, times) in strings.clone() {
            *lengths.entry(string.len()).or_default() += times;
        }
        let total: u64 = lengths.values().sum();
        let most = lengths.iter().max_by_key(|(_, times)| **times);
        let Some((length, times)) = most else {
            return Fixed::default();
        };
        let is_fixed = *times as f64 >= total as f64 * SHARE_MIN && *times >= STRINGS_MIN;
        if !is_fixed || !(1..=LENGTH_MAX).contains(length) {
            return Fixed::default();
        }
        let mut places = vec![BTreeMap::new(); *length];
        for (string, times) in strings.filter(|(string, _)| string.len() == *length) {
            for (place, byte) in places.iter_mut().zip(string.bytes()) {
                count(place, byte.into(), times);
            }
        }
        let places = places.iter().map(|counts| Frequencies::learn(counts, 0));
        Fixed {
            places: places.collect(),
        }
    }

    pub(super) fn fits(&self, string: &str) -> bool {
        !self.places.is_empty() && string.len() == self.places.len()
    }

    /// A string that fits.
    pub(super) fn put(&self, string: &str, choices: &mut Choices) {
        for (place, byte) in self.places.iter().zip(string.bytes()) {
            place.put_any(byte.into(), 8, choices);
        }
    }

    /// Adds the next string.
    pub(super) fn next(
        &self,
        reader: &mut ChoiceReader,
        out: &mut String,
    ) -> Result<(), CoderError> {
        let mut string = [0; LENGTH_MAX];
        let string = string
            .get_mut(..self.places.len())
            .ok_or(CoderError::Damaged)?;
        for (place, byte) in self.places.iter().zip(string.iter_mut()) {
            let symbol = u8::try_from(place.next_any(8, reader)?);
            *byte = symbol.map_err(|_| CoderError::Damaged)?;
        }
        out.push_str(std::str::from_utf8(string).map_err(|_| CoderError::Damaged)?);
        Ok(())
    }
}
