//! How frequent each of several symbols is.

use std::collections::BTreeMap;

use super::coder::{ChoiceReader, Choices, CoderError, Interval, SHARE_BITS, SHARES};

/// Stands for all symbols that the sample did not have; what follows says which.
pub(super) const ESCAPE: u16 = u16::MAX;
/// More would not each have a share of their own.
const SYMBOLS_MAX: usize = 4_096;

/// Where to begin to look for an interval, by the first bits of a point in it.
const GUIDE_BITS: u32 = 6;

/// Symbols whose places are kept in a table lie this close together on average, but for [`APART`].
const SPREAD_MAX: usize = 8;
/// Where the symbols that mean something of their own begin.
const APART: u16 = ESCAPE - 1;
/// In that table: not a symbol.
const NOWHERE: u16 = u16::MAX;

/// The share of each symbol. [`ESCAPE`] always has one.
#[derive(Clone, Debug)]
pub(super) struct Frequencies {
    /// Ascending; the last is [`ESCAPE`].
    symbols: Box<[u16]>,
    /// Where the interval of each begins, and where the last one ends.
    bounds: Box<[u16]>,
    guide: [u16; 1 << GUIDE_BITS],
    /// The place of each symbol in `symbols`, counted from the first. Empty if they lie too far apart.
    places: Box<[u16]>,
    /// The most frequent symbol.
    likely: u16,
}

impl Default for Frequencies {
    /// Of an empty sample.
    fn default() -> Self {
        Frequencies::new(&[(ESCAPE, SHARES as u16)])
    }
}

impl Frequencies {
    /// From how often each symbol was counted, and how often one that is none of them.
    pub(super) fn learn(counts: &BTreeMap<u16, u64>, others: u64) -> Frequencies {
        let mut kept: Vec<(u16, u64)> = counts.iter().map(|(s, n)| (*s, *n)).collect();
        kept.retain(|(symbol, count)| *symbol != ESCAPE && *count > 0);
        // The chance of something new is about the share of what was seen once (Good and Turing).
        let once = kept.iter().filter(|(_, count)| *count == 1).count() as u64;
        kept.sort_by_key(|(symbol, count)| (std::cmp::Reverse(*count), *symbol));
        let dropped = kept.iter().skip(SYMBOLS_MAX - 1).map(|(_, count)| count);
        let escapes = (others + dropped.sum::<u64>()).max(once).max(1);
        kept.truncate(SYMBOLS_MAX - 1);
        kept.push((ESCAPE, escapes));
        let total: u64 = kept.iter().map(|(_, count)| count).sum();
        let share =
            |count: u64| (u128::from(count) * u128::from(SHARES) / u128::from(total)) as u32;
        let mut shares: Vec<(u16, u32)> = kept
            .iter()
            .map(|(s, count)| (*s, share(*count).max(1)))
            .collect();
        let mut sum: u32 = shares.iter().map(|(_, share)| share).sum();
        // The rest goes to the most frequent; an excess is taken from the largest, a little from each.
        while sum > SHARES {
            for (_, share) in &mut shares {
                let less = (*share / 16).max(u32::from(*share > 1)).min(sum - SHARES);
                *share -= less;
                sum -= less;
            }
        }
        if let Some((_, share)) = shares.iter_mut().max_by_key(|(_, share)| *share) {
            *share += SHARES - sum;
        }
        shares.sort_unstable_by_key(|(symbol, _)| *symbol);
        let shares: Vec<(u16, u16)> = shares
            .iter()
            .map(|(s, share)| (*s, *share as u16))
            .collect();
        Frequencies::new(&shares)
    }

    /// None if these are not shares of symbols in ascending order, with [`ESCAPE`] as the last.
    pub(super) fn checked(shares: &[(u16, u16)]) -> Option<Frequencies> {
        let ascend = shares.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let sum: u64 = shares.iter().map(|(_, share)| u64::from(*share)).sum();
        let are_shares = shares.iter().all(|(_, share)| *share > 0) && sum == u64::from(SHARES);
        let has_escape = shares.last().is_some_and(|(symbol, _)| *symbol == ESCAPE);
        (ascend && are_shares && has_escape).then(|| Frequencies::new(shares))
    }

    fn new(shares: &[(u16, u16)]) -> Frequencies {
        let mut end = 0;
        let ends = shares.iter().map(|(_, share)| {
            end += share;
            end
        });
        let bounds: Box<[u16]> = std::iter::once(0).chain(ends).collect();
        let mut guide = [0; 1 << GUIDE_BITS];
        for (bits, index) in guide.iter_mut().enumerate() {
            let point = (bits << (SHARE_BITS - GUIDE_BITS)) as u16;
            *index = (bounds.partition_point(|bound| *bound <= point) - 1) as u16;
        }
        let likely = shares.iter().max_by_key(|(_, share)| *share);
        let symbols: Box<[u16]> = shares.iter().map(|(symbol, _)| *symbol).collect();
        Frequencies {
            places: places(&symbols),
            symbols,
            bounds,
            guide,
            likely: likely.map_or(ESCAPE, |(symbol, _)| *symbol),
        }
    }

    /// The most frequent symbol, which may be [`ESCAPE`].
    pub(super) fn likely(&self) -> u16 {
        self.likely
    }

    pub(super) fn shares(&self) -> impl Iterator<Item = (u16, u16)> + Clone {
        let symbols = self.symbols.iter().enumerate();
        symbols.map(|(index, symbol)| (*symbol, self.interval(index).size))
    }

    #[inline]
    fn interval(&self, index: usize) -> Interval {
        let (start, end) = (self.bounds[index], self.bounds[index + 1]);
        Interval {
            start,
            size: end - start,
        }
    }

    #[inline]
    fn find(&self, symbol: u16) -> Option<usize> {
        let first = self.symbols.first().copied().unwrap_or(ESCAPE);
        match self.places.get(usize::from(symbol.wrapping_sub(first))) {
            Some(&NOWHERE) => None,
            Some(place) => Some(usize::from(*place)),
            None if symbol < APART && !self.places.is_empty() => None,
            None => self.symbols.binary_search(&symbol).ok(),
        }
    }

    /// Puts a symbol; false if it has no share and [`ESCAPE`] was put.
    pub(super) fn put(&self, symbol: u16, choices: &mut Choices) -> bool {
        let found = self.find(symbol);
        let index = found.unwrap_or(self.symbols.len() - 1);
        choices.put(self.interval(index));
        found.is_some()
    }

    /// As [`put`](Self::put); a symbol without a share follows in so many bits.
    pub(super) fn put_any(&self, symbol: u16, bits: u32, choices: &mut Choices) {
        if !self.put(symbol, choices) {
            choices.put_bits(symbol.into(), bits);
        }
    }

    /// The next symbol, or [`ESCAPE`].
    #[inline]
    pub(super) fn next(&self, reader: &mut ChoiceReader) -> Result<u16, CoderError> {
        let point = reader.point();
        let guide = usize::from(point >> (SHARE_BITS - GUIDE_BITS));
        let mut index = usize::from(self.guide[guide]);
        // The last bound is above every point.
        while self.bounds[index + 1] <= point {
            index += 1;
        }
        reader.pass(self.interval(index))?;
        Ok(self.symbols[index])
    }

    /// The next symbol; one without a share follows in so many bits.
    pub(super) fn next_any(&self, bits: u32, reader: &mut ChoiceReader) -> Result<u16, CoderError> {
        match self.next(reader)? {
            ESCAPE => Ok(reader.bits(bits)? as u16),
            symbol => Ok(symbol),
        }
    }
}

/// Where each symbol is, from the first to the last before [`APART`].
fn places(symbols: &[u16]) -> Box<[u16]> {
    let near = symbols.iter().take_while(|symbol| **symbol < APART);
    let (Some(first), Some(last)) = (symbols.first(), near.clone().last()) else {
        return Box::default();
    };
    let spread = usize::from(last - first) + 1;
    if spread > symbols.len() * SPREAD_MAX {
        return Box::default();
    }
    let mut places = vec![NOWHERE; spread];
    for (place, symbol) in near.enumerate() {
        places[usize::from(symbol - first)] = place as u16;
    }
    places.into()
}

/// Counts symbols.
pub(super) fn count(counts: &mut BTreeMap<u16, u64>, symbol: u16, times: u64) {
    *counts.entry(symbol).or_default() += times;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_complete_however_uneven_the_counts() {
        let many: BTreeMap<u16, u64> = (0..5_000).map(|s| (s, u64::from(s) + 1)).collect();
        let huge: BTreeMap<u16, u64> = [(0, u64::MAX / 4), (1, 1), (2, 1)].into();
        for counts in [BTreeMap::new(), many, huge] {
            let learned = Frequencies::learn(&counts, 0);
            let shares: Vec<(u16, u16)> = learned.shares().collect();
            assert!(Frequencies::checked(&shares).is_some(), "{shares:?}");
        }
    }

    #[test]
    fn symbols_come_back_known_or_not() {
        let counts = [(3, 1_000), (7, 10), (9, 1)].into();
        let learned = Frequencies::learn(&counts, 2);
        let symbols = [3, 3, 9, 100, 7, 3, 511, 0];
        let mut choices = Choices::default();
        for symbol in symbols {
            learned.put_any(symbol, 9, &mut choices);
        }
        let mut bytes = Vec::new();
        choices.finish(&mut bytes);
        let mut reader = ChoiceReader::new(&bytes).expect("a state");
        for symbol in symbols {
            assert_eq!(learned.next_any(9, &mut reader), Ok(symbol));
        }
        assert!(reader.is_at_end());
    }
}
