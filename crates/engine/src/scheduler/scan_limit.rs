//! How many scans may be under way at a time, in all and of one keyspace.

use rustc_hash::FxHashMap;

use crate::config::Scheduling;
use crate::support::sync::{Arc, Mutex};

/// The scans of all workers: running, or waiting for a node.
#[derive(Debug, Default)]
pub struct ScanCounts(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    keyspaces: FxHashMap<Box<str>, usize>,
}

/// Counts one scan for as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted {
    counts: Arc<ScanCounts>,
    keyspace: Box<str>,
}

impl ScanCounts {
    /// Counts one more, or says why it is one too many.
    pub(crate) fn begin(
        self: &Arc<Self>,
        keyspace: &str,
        settings: &Scheduling,
    ) -> Result<Option<Counted>, String> {
        let (all_max, keyspace_max) = (settings.scans_max, settings.scans_per_keyspace_max);
        if all_max == 0 && keyspace_max == 0 {
            return Ok(None);
        }
        let Ok(mut counts) = self.0.lock() else {
            return Ok(None);
        };
        if all_max > 0 && counts.all >= all_max {
            return Err(format!(
                "Helenus: {all_max} scans are under way already (scheduling.scans_max)"
            ));
        }
        let own = counts.keyspaces.get(keyspace).copied().unwrap_or(0);
        if keyspace_max > 0 && own >= keyspace_max {
            return Err(format!(
                "Helenus: {keyspace_max} scans of keyspace {keyspace} are under way already \
                 (scheduling.scans_per_keyspace_max)"
            ));
        }
        counts.all += 1;
        *counts.keyspaces.entry(keyspace.into()).or_default() += 1;
        Ok(Some(Counted {
            counts: self.clone(),
            keyspace: keyspace.into(),
        }))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Ok(mut counts) = self.counts.0.lock() else {
            return;
        };
        counts.all -= 1;
        let own = counts.keyspaces.get_mut(&self.keyspace).map(|count| {
            *count -= 1;
            *count
        });
        if own == Some(0) {
            counts.keyspaces.remove(&self.keyspace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_beyond_a_limit_are_refused_until_one_has_ended() {
        let counts = Arc::new(ScanCounts::default());
        let limits = Scheduling {
            scans_max: 3,
            scans_per_keyspace_max: 2,
            ..Scheduling::default()
        };
        let begin = |keyspace| counts.begin(keyspace, &limits);
        let one = begin("a").unwrap();
        let _two = begin("a").unwrap();
        assert!(begin("a").unwrap_err().contains("keyspace a"));
        let _three = begin("b").unwrap();
        assert!(begin("b").unwrap_err().contains("scans_max"));
        drop(one);
        let again = begin("a").unwrap();
        assert!(again.is_some());
        drop((again, _two, _three));
        let left = counts.0.lock().unwrap();
        assert_eq!((left.all, left.keyspaces.len()), (0, 0));
    }

    #[test]
    fn without_limits_nothing_is_counted() {
        let counts = Arc::new(ScanCounts::default());
        let counted = counts.begin("a", &Scheduling::default());
        assert!(counted.unwrap().is_none());
    }
}
