//! What the upkeep writes is a write like any other: while it is under way, copies may differ. So its buckets are marked
//! before, as for writes of clients. If it does not come to its end, they are made equal later, by this proxy or another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_engine::copies::Member;
use helenus_rows::Range;
use tokio::time::sleep;

use super::trouble::Trouble;
use crate::process::Process;

/// The catalogue may take so long to record it.
const RECORDED_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// Buckets in which something is being written. Dropped before its end, it is given up.
pub(super) struct Intended<'a> {
    common: &'a Process,
    member: Arc<Member>,
    buckets: Vec<usize>,
    /// Something may have been written.
    is_recorded: bool,
}

impl<'a> Intended<'a> {
    /// Marks the buckets of a range.
    pub(super) async fn record(common: &'a Process, range: Range) -> Result<Intended<'a>, Trouble> {
        let mut intended = Intended::begin(common, range)?;
        let begun = Instant::now();
        while !intended.is_recorded {
            if begun.elapsed() >= RECORDED_MAX {
                return Err(Trouble::Unfit(
                    "the intent to write is not recorded in the catalogue".to_owned(),
                ));
            }
            sleep(LOOK).await;
            intended.look();
        }
        Ok(intended)
    }

    fn begin(common: &'a Process, range: Range) -> Result<Intended<'a>, Trouble> {
        let lists = common.copies.lists();
        let member = lists.membership.as_ref().map(|of| of.member.clone());
        let member = member.ok_or(Trouble::Changed)?;
        let mut intents = member.intents();
        let first = intents.bucket_of(range.after.saturating_add(1));
        let buckets: Vec<usize> = (first..=intents.bucket_of(range.end)).collect();
        for bucket in &buckets {
            if let Some(change) = intents.begin(*bucket) {
                common.record_intent((member.clone(), change));
            }
        }
        drop(intents);
        Ok(Intended {
            common,
            member,
            buckets,
            is_recorded: false,
        })
    }

    fn look(&mut self) {
        let intents = self.member.intents();
        let mut buckets = self.buckets.iter();
        self.is_recorded = buckets.all(|bucket| intents.is_recorded(*bucket));
    }

    /// All copies have all that was written.
    pub(super) fn end(mut self) {
        self.is_recorded = false;
    }
}

impl Drop for Intended<'_> {
    fn drop(&mut self) {
        let mut intents = self.member.intents();
        let now_us = self.common.copies.us(Instant::now());
        for bucket in &self.buckets {
            match self.is_recorded {
                true => intents.give_up(*bucket),
                false => {
                    intents.end(*bucket, now_us);
                }
            }
        }
        drop(intents);
        if self.is_recorded {
            self.common.note_given_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use helenus_engine::copies::{Lists, Membership};
    use helenus_layout::insync::{Intents, Known};

    use super::*;
    use crate::config::Config;
    use crate::insync::member::TIMING;
    use crate::testing::process;

    #[test]
    fn what_does_not_come_to_its_end_is_given_up() {
        let process = process(Config::default());
        let (after, end) = Intents::tokens_of(5, 1_024);
        let range = Range {
            after,
            end: Intents::tokens_of(6, 1_024).1,
        };
        let nobody = Intended::begin(&process, range).map(|_| ());
        assert!(nobody.is_err(), "it is no member");
        let member = Arc::new(Member::new(0));
        process.copies.publish(Lists {
            membership: Some(Membership {
                member: member.clone(),
                proxies: Known::new(TIMING),
            }),
            ..Lists::default()
        });
        let pending = || [4, 5, 6, 7].map(|bucket| member.intents().is_pending(bucket));
        let begin = || Intended::begin(&process, range).expect("a member");
        drop(begin());
        assert_eq!(pending(), [false; 4], "nothing was written");
        let mut written = begin();
        written.is_recorded = true;
        assert_eq!(pending(), [false, true, true, false]);
        written.end();
        assert_eq!(pending(), [false; 4]);
        assert!(!process.has_given_up.load(Ordering::Acquire));
        let one = Range { after, end };
        let mut written = Intended::begin(&process, one).expect("a member");
        written.is_recorded = true;
        drop(written);
        assert_eq!(pending(), [false, true, false, false]);
        assert!(member.intents().given_up(5).is_some());
        assert!(process.has_given_up.load(Ordering::Acquire));
    }
}
