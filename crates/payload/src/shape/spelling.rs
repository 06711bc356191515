//! Words that are not known, letter by letter: which byte follows which.

use std::collections::BTreeMap;

use super::coder::{ChoiceReader, Choices, CoderError};
use super::frequencies::{Frequencies, count};

/// After the last byte.
const END: u16 = 256;
const SYMBOL_BITS: u32 = 9;
/// Bytes that were seen less often are not told apart by what follows them.
const FOLLOWED_MIN: u64 = 32;

#[derive(Debug, Default)]
pub(super) struct Spelling {
    /// By the byte before; of the first byte, 0.
    pub after: BTreeMap<u8, Frequencies>,
    pub after_others: Frequencies,
}

/// Counts of a sample.
#[derive(Debug, Default)]
pub(super) struct SpellingCounts {
    after: BTreeMap<u8, BTreeMap<u16, u64>>,
}

impl SpellingCounts {
    pub(super) fn add(&mut self, word: &str, times: u64) {
        let mut before = 0;
        for byte in word.bytes() {
            count(self.after.entry(before).or_default(), byte.into(), times);
            before = byte;
        }
        count(self.after.entry(before).or_default(), END, times);
    }

    pub(super) fn finish(&self) -> Spelling {
        let mut all = BTreeMap::new();
        let mut after = BTreeMap::new();
        for (before, counts) in &self.after {
            counts
                .iter()
                .for_each(|(byte, times)| count(&mut all, *byte, *times));
            if counts.values().sum::<u64>() >= FOLLOWED_MIN {
                after.insert(*before, Frequencies::learn(counts, 0));
            }
        }
        Spelling {
            after,
            after_others: Frequencies::learn(&all, 0),
        }
    }
}

impl Spelling {
    fn after(&self, before: u8) -> &Frequencies {
        self.after.get(&before).unwrap_or(&self.after_others)
    }

    pub(super) fn put(&self, word: &str, choices: &mut Choices) {
        let mut before = 0;
        for byte in word.bytes() {
            self.after(before)
                .put_any(byte.into(), SYMBOL_BITS, choices);
            before = byte;
        }
        self.after(before).put_any(END, SYMBOL_BITS, choices);
    }

    /// The next word, at most so many bytes of it.
    pub(super) fn next(
        &self,
        bytes_max: usize,
        reader: &mut ChoiceReader,
    ) -> Result<String, CoderError> {
        let mut word = Vec::new();
        let mut before = 0;
        loop {
            let symbol = self.after(before).next_any(SYMBOL_BITS, reader)?;
            if symbol == END {
                break;
            }
            before = u8::try_from(symbol).map_err(|_| CoderError::Damaged)?;
            if word.len() >= bytes_max {
                return Err(CoderError::TooLong);
            }
            word.push(before);
        }
        String::from_utf8(word).map_err(|_| CoderError::Damaged)
    }
}
