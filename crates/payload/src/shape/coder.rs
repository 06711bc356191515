//! Choices as bytes: a range variant of asymmetric numeral systems, with bytes as digits.
//!
//! The last state is known, so a value whose bytes were changed ends in another one, most likely.

/// Shares are counted in units of 2^-14.
pub(super) const SHARE_BITS: u32 = 14;
pub(super) const SHARES: u32 = 1 << SHARE_BITS;
/// The state never falls below, and never reaches 256 times as much.
const STATE_MIN: u32 = 1 << 23;
/// As many bits as are written at once.
const BITS_AT_ONCE: u32 = 12;

/// The bytes do not say what they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CoderError {
    /// More than is allowed.
    TooLong,
    Truncated,
    Damaged,
}

/// An interval of the shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub start: u16,
    /// 1 to [`SHARES`].
    pub size: u16,
}

/// Choices, first to last. Kept from one document to the next for its memory.
#[derive(Debug, Default)]
pub(crate) struct Choices(Vec<Interval>);

impl Choices {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    #[inline]
    pub(super) fn put(&mut self, interval: Interval) {
        if u32::from(interval.size) < SHARES {
            self.0.push(interval);
        }
    }

    /// The lower `count` bits of a number, at most 64.
    pub(super) fn put_bits(&mut self, mut number: u64, mut count: u32) {
        while count > 0 {
            let now = count.min(BITS_AT_ONCE);
            let shift = SHARE_BITS - now;
            let low = number as u16 & ((1 << now) - 1);
            self.put(Interval {
                start: low << shift,
                size: 1 << shift,
            });
            number >>= now;
            count -= now;
        }
    }

    /// Adds them to the bytes.
    pub(super) fn finish(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        let mut state = STATE_MIN;
        for interval in self.0.iter().rev() {
            let size = u32::from(interval.size);
            let state_max = ((STATE_MIN >> SHARE_BITS) << 8) * size;
            while state >= state_max {
                out.push(state as u8);
                state >>= 8;
            }
            // Bits make such intervals; shifting is far cheaper than dividing.
            let (quotient, rest) = match size.is_power_of_two() {
                true => (state >> size.trailing_zeros(), state & (size - 1)),
                false => (state / size, state % size),
            };
            state = (quotient << SHARE_BITS) + rest + u32::from(interval.start);
        }
        out.extend(state.to_le_bytes());
        out[begin..].reverse();
    }
}

/// Reads choices in the order in which they were made.
#[derive(Debug)]
pub(super) struct ChoiceReader<'b> {
    state: u32,
    rest: &'b [u8],
}

impl<'b> ChoiceReader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Result<Self, CoderError> {
        let (state, rest) = bytes.split_first_chunk().ok_or(CoderError::Truncated)?;
        let state = u32::from_be_bytes(*state);
        match (STATE_MIN..STATE_MIN << 8).contains(&state) {
            true => Ok(ChoiceReader { state, rest }),
            false => Err(CoderError::Damaged),
        }
    }

    /// Somewhere in the interval of the next choice.
    #[inline]
    pub(super) fn point(&self) -> u16 {
        (self.state & (SHARES - 1)) as u16
    }

    /// The next choice is this one.
    #[inline]
    pub(super) fn pass(&mut self, interval: Interval) -> Result<(), CoderError> {
        let within = u32::from(self.point().wrapping_sub(interval.start));
        self.state = u32::from(interval.size) * (self.state >> SHARE_BITS) + within;
        while self.state < STATE_MIN {
            let (byte, rest) = self.rest.split_first().ok_or(CoderError::Truncated)?;
            self.state = self.state << 8 | u32::from(*byte);
            self.rest = rest;
        }
        Ok(())
    }

    pub(super) fn bits(&mut self, count: u32) -> Result<u64, CoderError> {
        let (mut number, mut done) = (0, 0);
        while done < count {
            let now = (count - done).min(BITS_AT_ONCE);
            let shift = SHARE_BITS - now;
            let low = self.point() >> shift;
            self.pass(Interval {
                start: low << shift,
                size: 1 << shift,
            })?;
            number |= u64::from(low) << done;
            done += now;
        }
        Ok(number)
    }

    /// True if nothing is left, and nothing was changed as far as can be seen.
    pub(super) fn is_at_end(&self) -> bool {
        self.state == STATE_MIN && self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back_and_the_end_is_known() {
        let numbers = [
            (0, 1),
            (5, 3),
            (u64::MAX, 64),
            (1 << 40, 41),
            (77, 12),
            (0, 0),
        ];
        let mut choices = Choices::default();
        for (number, count) in numbers {
            choices.put_bits(number, count);
        }
        let mut bytes = Vec::new();
        choices.finish(&mut bytes);
        assert!(
            bytes.len() <= (1 + 3 + 64 + 41 + 12) / 8 + 5,
            "{}",
            bytes.len()
        );
        let mut reader = ChoiceReader::new(&bytes).expect("a state");
        for (number, count) in numbers {
            assert!(!reader.is_at_end() || count == 0);
            assert_eq!(reader.bits(count), Ok(number));
        }
        assert!(reader.is_at_end());
    }

    #[test]
    fn what_is_certain_takes_no_bytes() {
        let mut choices = Choices::default();
        choices.put(Interval {
            start: 0,
            size: SHARES as u16,
        });
        let mut bytes = Vec::new();
        choices.finish(&mut bytes);
        assert_eq!(bytes.len(), 4);
    }
}
