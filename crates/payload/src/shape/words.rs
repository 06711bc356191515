//! Strings as words and the characters between them.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::coder::{ChoiceReader, Choices, CoderError};
use super::frequencies::{ESCAPE, Frequencies, count};
use super::spelling::Spelling;

/// After the last word.
const END: u16 = ESCAPE - 1;
/// All together; what is more frequent comes first.
const WORDS_MAX: usize = 4_000;
/// Others are spelled out.
const TIMES_MIN: u64 = 3;
/// A word that was seen less often is not told apart by what follows it.
const FOLLOWED_MIN: u64 = 16;

/// Cuts a string into runs of letters and digits, and single characters between them.
pub(super) fn words(string: &str) -> impl Iterator<Item = &str> {
    let mut rest = string;
    std::iter::from_fn(move || {
        let run = rest.bytes().take_while(|byte| is_letter(*byte)).count();
        if rest.is_empty() {
            return None;
        }
        let (word, after) = rest.split_at_checked(run.max(1))?;
        rest = after;
        Some(word)
    })
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// The words that all strings have in common.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    pub words: Vec<Box<str>>,
    numbers: FxHashMap<Box<str>, u16>,
}

impl Vocabulary {
    /// From how often each was counted.
    pub(super) fn learn(counts: &BTreeMap<&str, u64>) -> Vocabulary {
        let kept = counts.iter().filter(|(_, times)| **times >= TIMES_MIN);
        let mut kept: Vec<(&str, u64)> = kept.map(|(word, times)| (*word, *times)).collect();
        kept.sort_by_key(|(word, times)| (std::cmp::Reverse(*times), *word));
        kept.truncate(WORDS_MAX);
        let words: Vec<Box<str>> = kept.into_iter().map(|(word, _)| word.into()).collect();
        Vocabulary::checked(words).unwrap_or_default()
    }

    /// None if a word is empty, or twice the same, or there are too many.
    pub(super) fn checked(words: Vec<Box<str>>) -> Option<Vocabulary> {
        let numbered = words.iter().enumerate();
        let numbers: FxHashMap<Box<str>, u16> = numbered
            .map(|(number, word)| (word.clone(), number as u16))
            .collect();
        let is_good = words.len() <= WORDS_MAX
            && numbers.len() == words.len()
            && words.iter().all(|word| !word.is_empty());
        is_good.then_some(Vocabulary { words, numbers })
    }

    pub(super) fn number(&self, word: &str) -> Option<u16> {
        self.numbers.get(word).copied()
    }
}

/// The characters before a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Letters,
    Mark,
}

impl Before {
    const ALL: [Before; 3] = [Before::Nothing, Before::Letters, Before::Mark];

    fn of(word: &str) -> Before {
        match word.bytes().next().is_some_and(is_letter) {
            true => Before::Letters,
            false => Before::Mark,
        }
    }
}

/// The strings of one place in the documents.
#[derive(Clone, Debug, Default)]
pub(super) struct Strings {
    /// Known words that have a table of their own, ascending, and the table of what follows each.
    known: Vec<u16>,
    after: Vec<Frequencies>,
    /// After other words, at the beginning, after letters, and after a mark.
    after_others: [Frequencies; 3],
}

/// Counts of a sample.
#[derive(Debug, Default)]
pub(super) struct StringCounts {
    after: BTreeMap<u16, BTreeMap<u16, u64>>,
    spelled_after: BTreeMap<u16, u64>,
    after_others: [BTreeMap<u16, u64>; 3],
    spelled_after_others: [u64; 3],
}

impl StringCounts {
    /// Also says which words are not known.
    pub(super) fn add<'s>(
        &mut self,
        string: &'s str,
        times: u64,
        vocabulary: &Vocabulary,
        mut spelled: impl FnMut(&'s str),
    ) {
        let mut before = Before::Nothing;
        let mut known: Option<u16> = None;
        for word in words(string) {
            let number = vocabulary.number(word);
            self.count(known, before, number, times);
            if number.is_none() {
                spelled(word);
            }
            (before, known) = (Before::of(word), number);
        }
        self.count(known, before, Some(END), times);
    }

    fn count(&mut self, known: Option<u16>, before: Before, number: Option<u16>, times: u64) {
        let others = before as usize;
        match number {
            Some(number) => {
                count(&mut self.after_others[others], number, times);
                if let Some(known) = known {
                    count(self.after.entry(known).or_default(), number, times);
                }
            }
            None => {
                self.spelled_after_others[others] += times;
                if let Some(known) = known {
                    count(&mut self.spelled_after, known, times);
                }
            }
        }
    }

    pub(super) fn finish(&self) -> Strings {
        let spelled = |known: &u16| self.spelled_after.get(known).copied().unwrap_or(0);
        let followed = self.after.iter().filter(|(known, counts)| {
            counts.values().sum::<u64>() + spelled(known) >= FOLLOWED_MIN
        });
        let after = followed
            .map(|(known, counts)| (*known, Frequencies::learn(counts, spelled(known))))
            .collect();
        let others = |before: Before| {
            let at = before as usize;
            Frequencies::learn(&self.after_others[at], self.spelled_after_others[at])
        };
        Strings::new(after, Before::ALL.map(others))
    }
}

impl Strings {
    pub(super) fn new(after: BTreeMap<u16, Frequencies>, after_others: [Frequencies; 3]) -> Self {
        let (known, after) = after.into_iter().unzip();
        Strings {
            known,
            after,
            after_others,
        }
    }

    /// Known words that have a table of their own.
    pub(super) fn known(&self) -> impl ExactSizeIterator<Item = (u16, &Frequencies)> {
        self.known.iter().copied().zip(&self.after)
    }

    pub(super) fn others(&self) -> &[Frequencies; 3] {
        &self.after_others
    }

    fn table(&self, known: Option<u16>, before: Before) -> &Frequencies {
        let after = known.and_then(|known| self.known.binary_search(&known).ok());
        let after = after.and_then(|at| self.after.get(at));
        after.unwrap_or(&self.after_others[before as usize])
    }

    pub(super) fn put(
        &self,
        string: &str,
        vocabulary: &Vocabulary,
        spelling: &Spelling,
        choices: &mut Choices,
    ) {
        let mut before = Before::Nothing;
        let mut known = None;
        for word in words(string) {
            let number = vocabulary.number(word);
            let table = self.table(known, before);
            if !table.put(number.unwrap_or(ESCAPE), choices) || number.is_none() {
                spelling.put(word, choices);
            }
            (before, known) = (Before::of(word), number);
        }
        // Where no string of the sample ended, an empty word ends this one.
        if !self.table(known, before).put(END, choices) {
            spelling.put("", choices);
        }
    }

    /// The next string, at most so many bytes of it.
    pub(super) fn next(
        &self,
        vocabulary: &Vocabulary,
        spelling: &Spelling,
        bytes_max: usize,
        reader: &mut ChoiceReader,
        out: &mut String,
    ) -> Result<(), CoderError> {
        let begin = out.len();
        let mut before = Before::Nothing;
        let mut known = None;
        loop {
            let left = bytes_max.saturating_sub(out.len() - begin);
            match self.table(known, before).next(reader)? {
                END => return Ok(()),
                ESCAPE => {
                    let start = out.len();
                    spelling.next(left, reader, out)?;
                    let word = out.get(start..).unwrap_or_default();
                    if word.is_empty() {
                        return Ok(());
                    }
                    (before, known) = (Before::of(word), vocabulary.number(word));
                }
                number => {
                    let word = vocabulary.words.get(usize::from(number));
                    let word = word.ok_or(CoderError::Damaged)?;
                    if word.len() > left {
                        return Err(CoderError::TooLong);
                    }
                    out.push_str(word);
                    (before, known) = (Before::of(word), Some(number));
                }
            }
        }
    }
}
