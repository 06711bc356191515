//! How many keys of an `IN` are read at once, so that their rows fit into a page.

use std::sync::atomic::{AtomicU32, Ordering};

/// Learned from the pages of such reads.
#[derive(Debug)]
pub(crate) struct KeysPerPage {
    /// Keys of one `IN` whose rows fitted into a page, or would have.
    max: AtomicU32,
}

impl Default for KeysPerPage {
    fn default() -> Self {
        KeysPerPage {
            max: AtomicU32::new(u32::MAX),
        }
    }
}

impl KeysPerPage {
    /// True if the rows of so many keys will probably fit into a page.
    pub(crate) fn fit(&self, keys: usize) -> bool {
        u32::try_from(keys).is_ok_and(|keys| keys <= self.max.load(Ordering::Relaxed))
    }

    /// Notes whether the rows of so many keys fitted into a page. Half as many will be tried next when
    /// they did not, and one more each time that they did.
    pub(crate) fn note(&self, keys: usize, fitted: bool) {
        let keys = u32::try_from(keys).unwrap_or(u32::MAX);
        let known = self.max.load(Ordering::Relaxed);
        match fitted {
            false => self.max.store(keys / 2, Ordering::Relaxed),
            true if known < u32::MAX && keys > known / 2 => {
                self.max.store(known + 1, Ordering::Relaxed);
            }
            true => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_whose_rows_did_not_fit_are_tried_again_in_small_numbers() {
        let keys = KeysPerPage::default();
        assert!(keys.fit(10_000));
        keys.note(10_000, true);
        assert!(keys.fit(20_000));
        keys.note(100, false);
        assert!(keys.fit(50) && !keys.fit(51));
        keys.note(3, true);
        assert!(!keys.fit(51), "few keys say nothing of many");
        keys.note(50, true);
        assert!(keys.fit(51));
        keys.note(1, false);
        assert!(!keys.fit(1));
    }
}
