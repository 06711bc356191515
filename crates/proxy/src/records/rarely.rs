//! Log lines of which strangers could cause any number: a few in each while, and how many were left out.

use std::time::{Duration, Instant};

const WHILE: Duration = Duration::from_secs(10);
const LINES_MAX: u32 = 5;

#[derive(Debug, Default)]
pub(crate) struct Rarely {
    began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Rarely {
    /// Some if a line may be logged: how many were not since the last one.
    pub(crate) fn allow(&mut self, now: Instant) -> Option<u64> {
        if self
            .began
            .is_none_or(|began| now.saturating_duration_since(began) >= WHILE)
        {
            (self.began, self.lines) = (Some(now), 0);
        }
        if self.lines >= LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_that_say_how_many_are_missing() {
        let mut rarely = Rarely::default();
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let lines: Vec<u64> = (0..1_000).filter_map(|ms| rarely.allow(at(ms))).collect();
        assert_eq!(lines, [0; 5]);
        assert_eq!(rarely.allow(at(10_000)), Some(995));
        assert_eq!(rarely.allow(at(10_001)), Some(0));
    }
}
