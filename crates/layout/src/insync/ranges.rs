//! Parts of the ring.

/// Tokens in ranges that neither overlap nor touch, in order: two that hold the same tokens are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(i64, i64)>);

impl Ranges {
    /// Of ranges that hold the tokens above their first number, up to and with the second. One that ends where it
    /// begins, or before, holds none.
    pub fn new(ranges: impl IntoIterator<Item = (i64, i64)>) -> Ranges {
        let mut ranges: Vec<_> = ranges
            .into_iter()
            .filter(|(after, end)| after < end)
            .collect();
        ranges.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::with_capacity(ranges.len());
        for (after, end) in ranges {
            match merged.last_mut() {
                Some(last) if after <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((after, end)),
            }
        }
        Ranges(merged)
    }

    /// As the catalogue has them: where each begins and ends. None if they cannot be so.
    pub fn of_stored(bounds: &[i64]) -> Option<Ranges> {
        let is_ascending = bounds.windows(2).all(|pair| pair[0] < pair[1]);
        let (pairs, rest) = bounds.as_chunks::<2>();
        let is_whole = is_ascending && rest.is_empty() && !pairs.is_empty();
        is_whole.then(|| Ranges(pairs.iter().map(|[after, end]| (*after, *end)).collect()))
    }

    pub fn stored(&self) -> Vec<i64> {
        self.0
            .iter()
            .flat_map(|(after, end)| [*after, *end])
            .collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (i64, i64)> {
        self.0.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether they have a token in common.
    pub fn meets(&self, other: &Ranges) -> bool {
        let (mut own, mut others) = (self.iter().peekable(), other.iter().peekable());
        while let (Some(a), Some(b)) = (own.peek(), others.peek()) {
            if a.0 < b.1 && b.0 < a.1 {
                return true;
            }
            match a.1 < b.1 {
                true => own.next(),
                false => others.next(),
            };
        }
        false
    }

    /// Whether all tokens of the other ones are among these.
    pub fn hold(&self, other: &Ranges) -> bool {
        let mut own = self.iter().peekable();
        other.iter().all(|(after, end)| {
            while own.next_if(|own| own.1 < end).is_some() {}
            own.peek().is_some_and(|own| own.0 <= after)
        })
    }

    #[must_use]
    pub fn union(&self, other: &Ranges) -> Ranges {
        Ranges::new(self.iter().chain(other.iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_the_same_tokens_are_equal() {
        let ranges = Ranges::new([(5, 9), (0, 3), (3, 4), (8, 8), (7, 6), (8, 12)]);
        assert_eq!(ranges, Ranges::new([(0, 4), (5, 12)]));
        assert_eq!(ranges.stored(), [0, 4, 5, 12]);
        assert_eq!(Ranges::of_stored(&[0, 4, 5, 12]), Some(ranges));
        for bad in [
            &[][..],
            &[1],
            &[1, 1],
            &[1, 4, 4, 5],
            &[3, 4, 1, 2],
            &[1, 2, 3],
        ] {
            assert_eq!(Ranges::of_stored(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_ranges_have_in_common_is_what_their_tokens_have() {
        let seed = std::process::id();
        let mut state = u64::from(seed) | 1;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below) as i64
        };
        for _ in 0..2_000 {
            let mut of = || {
                Ranges::new(
                    (0..next(4))
                        .map(|_| (next(12), next(12)))
                        .collect::<Vec<_>>(),
                )
            };
            let (one, other) = (of(), of());
            let has = |ranges: &Ranges, token| ranges.iter().any(|(a, e)| a < token && token <= e);
            let case = format!("seed {seed}: {one:?} {other:?}");
            let meet = (0..=12).any(|token| has(&one, token) && has(&other, token));
            assert_eq!(one.meets(&other), meet, "{case}");
            let hold = (0..=12).all(|token| has(&one, token) || !has(&other, token));
            assert_eq!(one.hold(&other), hold, "{case}");
            let union = one.union(&other);
            for token in 0..=12 {
                let is_there = has(&one, token) || has(&other, token);
                assert_eq!(has(&union, token), is_there, "{case}");
            }
            let stored = union.stored();
            assert_eq!(
                Ranges::of_stored(&stored).unwrap_or_default(),
                union,
                "{case}"
            );
        }
    }
}
