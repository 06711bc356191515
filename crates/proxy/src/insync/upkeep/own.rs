//! Buckets in which this start of the proxy has given writes up: some copies may have them and others not. Each is made
//! equal once nothing of these writes can arrive any more. The intents themselves say which buckets these are, so there
//! is no queue: what was given up again and again is one bucket.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_engine::copies::{BUCKETS, Member};
use helenus_layout::insync::GivenUp;

#[derive(Debug, Default)]
pub(super) struct Own {
    member: Option<Arc<Member>>,
    /// At most [`BUCKETS`].
    waiting: BTreeMap<usize, Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// All that were given up before it was asked for.
    writes: GivenUp,
    /// From then on nothing of them arrives.
    from_us: u64,
}

impl Own {
    /// `is_news`: writes may have been given up since the last look. What an earlier start has left, others make good.
    /// What is found may take another `late_us` to arrive.
    pub(super) fn look(
        &mut self,
        member: Option<Arc<Member>>,
        is_news: bool,
        (now_us, late_us): (impl Fn() -> u64, u64),
    ) {
        let is_same = match (&self.member, &member) {
            (Some(known), Some(member)) => Arc::ptr_eq(known, member),
            (known, member) => known.is_none() && member.is_none(),
        };
        if !is_same {
            self.waiting.clear();
            self.member = member;
        }
        let Some(member) = self.member.as_ref().filter(|_| is_news || !is_same) else {
            return;
        };
        let intents = member.intents();
        for bucket in 0..BUCKETS {
            if let Some(writes) = intents.given_up(bucket) {
                // Those that were given up since then have their turn afterwards.
                self.waiting.entry(bucket).or_insert(Waiting {
                    writes,
                    // Read after it was found: this proxy may have stood still in between.
                    from_us: now_us().saturating_add(late_us),
                });
            }
        }
    }

    /// Buckets that are to be made equal now.
    pub(super) fn due(&self, now_us: u64) -> impl Iterator<Item = usize> {
        let due = self.waiting.iter();
        let due = due.filter(move |(_, waiting)| now_us >= waiting.from_us);
        due.map(|(bucket, _)| *bucket)
    }

    /// How many wait, or are to be made equal.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A bucket is equal in all copies, by a comparison that began when it was due. `by_writes_us` is the time by the
    /// clock of the workers. Whether more was given up there meanwhile, the next look tells.
    pub(super) fn on_resynchronised(&mut self, bucket: usize, by_writes_us: u64) {
        let waiting = self.waiting.remove(&bucket);
        if let Some((member, waiting)) = self.member.as_ref().zip(waiting) {
            member
                .intents()
                .on_resynchronised(waiting.writes, by_writes_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn give_up(member: &Member, bucket: usize) {
        let mut intents = member.intents();
        intents.begin(bucket);
        intents.give_up(bucket);
    }

    fn due(own: &Own, now_us: u64) -> Vec<usize> {
        own.due(now_us).collect()
    }

    #[test]
    fn what_was_given_up_is_made_good_once_nothing_of_it_can_arrive() {
        let member = Arc::new(Member::new(0));
        let mut own = Own::default();
        let look = |own: &mut Own, is_news, now_us| {
            own.look(Some(member.clone()), is_news, (|| now_us, 100));
        };
        look(&mut own, true, 0);
        give_up(&member, 7);
        give_up(&member, 7);
        give_up(&member, 3);
        look(&mut own, false, 5);
        assert_eq!(own.len(), 0, "nobody has said so");
        look(&mut own, true, 10);
        assert_eq!(own.len(), 2, "those of one bucket are one");
        assert!(due(&own, 109).is_empty());
        assert_eq!(due(&own, 110), [3, 7]);
        // One more while the copies are being compared: it may arrive later.
        give_up(&member, 7);
        look(&mut own, true, 90);
        assert_eq!(due(&own, 110), [3, 7], "nothing is put off");
        own.on_resynchronised(7, 1);
        assert!(member.intents().is_pending(7));
        look(&mut own, true, 120);
        assert_eq!(due(&own, 219), [3]);
        own.on_resynchronised(3, 1);
        assert_eq!(due(&own, 220), [7]);
        own.on_resynchronised(7, 2);
        look(&mut own, true, 230);
        assert_eq!(own.len(), 0);
        assert!(!member.intents().is_pending(7) && !member.intents().is_pending(3));
    }

    #[test]
    fn what_an_earlier_start_has_given_up_is_left_to_others() {
        let first = Arc::new(Member::new(0));
        give_up(&first, 7);
        let mut own = Own::default();
        own.look(Some(first.clone()), true, (|| 0, 100));
        assert_eq!(own.len(), 1);
        own.look(None, false, (|| 10, 100));
        assert_eq!(own.len(), 0);
        let second = Arc::new(Member::new(1));
        give_up(&second, 9);
        own.look(Some(second), false, (|| 20, 100));
        assert_eq!(due(&own, 120), [9], "all of a new one is looked at");
        assert!(first.intents().is_pending(7));
    }
}
