//! How old rows are by the time they are written.

use std::time::Duration;

use anyhow::{Result, bail};
use helenus_proxy::boot_time;

use super::table::GRACE_MIN_S;

/// Rows are not written later than this after they were asked for: what has deleted them meanwhile must not be forgotten
/// by the nodes before. Pages that are read again and again take a third of it at most.
const AGE_MAX: Duration = Duration::from_secs(GRACE_MIN_S as u64 / 2);

/// When rows were asked for, by a clock that goes on while the machine sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked(Duration);

impl Asked {
    pub(crate) fn now() -> Asked {
        Asked(boot_time::now())
    }

    /// How long ago that was.
    ///
    /// # Errors
    /// It is too long to write them.
    pub(crate) fn age(self) -> Result<Duration> {
        self.age_at(boot_time::now())
    }

    fn age_at(self, now: Duration) -> Result<Duration> {
        let age = now.saturating_sub(self.0);
        if age > AGE_MAX {
            bail!(
                "rows were read {} s ago, and may have been deleted and forgotten since: this process, or its machine, \
                 stood still; run this again",
                age.as_secs()
            );
        }
        Ok(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_not_written_when_their_deletions_may_be_forgotten() {
        let s = Duration::from_secs;
        let asked = Asked(s(100));
        assert_eq!(asked.age_at(s(160)).ok(), Some(s(60)));
        assert_eq!(asked.age_at(s(100) + AGE_MAX).ok(), Some(AGE_MAX));
        let late = asked.age_at(s(101) + AGE_MAX);
        assert!(late.is_err_and(|why| why.to_string().contains("run this again")));
        assert!(AGE_MAX < s(GRACE_MIN_S as u64));
    }
}
