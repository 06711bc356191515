//! Words that are not known, letter by letter: which byte follows which.

use std::collections::BTreeMap;

use super::coder::{ChoiceReader, Choices, CoderError};
use super::frequencies::{Frequencies, count};

/// After the last byte.
const END: u16 = 256;
const SYMBOL_BITS: u32 = 9;
/// Bytes that were seen less often are not told apart by what follows them.
const FOLLOWED_MIN: u64 = 32;

#[derive(Debug)]
pub(super) struct Spelling {
    /// Followers of the other bytes, then those of each of some.
    tables: Vec<Frequencies>,
    /// Which table is for which byte before; of the first byte, 0.
    after: [u16; 256],
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
        Spelling::new(Frequencies::learn(&all, 0), after)
    }
}

impl Spelling {
    pub(super) fn new(others: Frequencies, after: BTreeMap<u8, Frequencies>) -> Spelling {
        let mut spelling = Spelling {
            tables: vec![others],
            after: [0; 256],
        };
        for (before, table) in after {
            spelling.after[usize::from(before)] = spelling.tables.len() as u16;
            spelling.tables.push(table);
        }
        spelling
    }

    /// Followers of bytes that have no table of their own.
    pub(super) fn others(&self) -> &Frequencies {
        &self.tables[0]
    }

    /// Bytes with a table of their own.
    pub(super) fn known(&self) -> impl Iterator<Item = (u8, &Frequencies)> + Clone {
        let known = (0..=255).filter(|before| self.after[usize::from(*before)] > 0);
        known.map(|before| (before, self.after(before)))
    }

    #[inline]
    fn after(&self, before: u8) -> &Frequencies {
        &self.tables[usize::from(self.after[usize::from(before)])]
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

    /// Adds the next word, at most so many bytes of it.
    pub(super) fn next(
        &self,
        bytes_max: usize,
        reader: &mut ChoiceReader,
        out: &mut String,
    ) -> Result<(), CoderError> {
        // Most words are short.
        let mut word = [0; 32];
        let mut length = 0;
        let mut longer = Vec::new();
        let mut before = 0;
        loop {
            let symbol = self.after(before).next_any(SYMBOL_BITS, reader)?;
            if symbol == END {
                break;
            }
            before = u8::try_from(symbol).map_err(|_| CoderError::Damaged)?;
            if longer.len() + length >= bytes_max {
                return Err(CoderError::TooLong);
            }
            if length == word.len() {
                longer.extend_from_slice(&word);
                length = 0;
            }
            word[length] = before;
            length += 1;
        }
        let text = match longer.is_empty() {
            true => std::str::from_utf8(&word[..length]),
            false => {
                longer.extend_from_slice(&word[..length]);
                std::str::from_utf8(&longer)
            }
        };
        out.push_str(text.map_err(|_| CoderError::Damaged)?);
        Ok(())
    }
}
