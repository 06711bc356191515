//! When a connection that could not be opened is tried again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// How long to wait after so many failures in a row: 0.1 s, then twice as long each time, 5 s at most.
pub(crate) fn pause(failures: u32) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let ms = |failures| pause(failures).as_millis();
        assert_eq!(
            [1, 2, 3, 6, 7, u32::MAX].map(ms),
            [100, 200, 400, 3_200, 5_000, 5_000]
        );
    }
}
