//! The ring in ranges of tokens.

/// Tokens above `after`, up to and with `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    pub after: i64,
    pub end: i64,
}

/// The whole ring in `count` ranges. The least token, which no key has, belongs to none.
pub fn split(count: u64) -> Vec<Range> {
    let width = (1u128 << 64) / u128::from(count.max(1));
    let bound = |at: u64| (i128::from(i64::MIN) + (width * u128::from(at)) as i128) as i64;
    let ranges = (0..count).map(|at| Range {
        after: bound(at),
        end: match at + 1 == count {
            true => i64::MAX,
            false => bound(at + 1),
        },
    });
    ranges.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_the_ring_once() {
        for count in [1, 2, 16, 8_192] {
            let ranges = split(count);
            assert_eq!(ranges.len(), count as usize);
            assert_eq!(ranges[0].after, i64::MIN);
            assert_eq!(ranges[ranges.len() - 1].end, i64::MAX);
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].after));
            assert!(ranges.iter().all(|range| range.after < range.end));
        }
    }
}
