//! The buckets of the ring in which this proxy writes, as the catalogue has them: a write-intent bitmap, as
//! software RAID has one.
//!
//! If a proxy dies, what it had in flight may have reached some copies and not others, and nobody knows
//! which writes these were. The catalogue then says in which buckets to look. A bit is recorded before the
//! first write in its bucket is sent, and cleared when all copies have all of this proxy's writes there and
//! nothing was written for a while. So a busy bucket costs one small write to the catalogue, not one each
//! time.
//!
//! A write that this proxy gives up while it lives leaves its bucket as a dead proxy would. It stays counted,
//! and so the bit stays set, until somebody has made the copies equal there ([`Intents::on_resynchronised`]).

/// The intents of one start of a proxy.
#[derive(Clone, Debug)]
pub struct Intents {
    buckets: Vec<Bucket>,
    changes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Writes that not all copies may have.
    pending: u32,
    /// Writes that were given up so far, and those of them that were made good; the others are pending.
    given_up: u64,
    made_good: u64,
    bit: Bit,
    /// The number of the last change.
    change: u64,
    last_ended_us: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Bit {
    #[default]
    Clear,
    Recording,
    Recorded,
    Clearing,
}

impl Bucket {
    /// Whether a write is pending that was not given up.
    fn is_under_way(&self) -> bool {
        u64::from(self.pending) > self.given_up - self.made_good
    }
}

/// A bit to be changed in the catalogue: a plain write at QUORUM with the number as its timestamp. Numbers
/// grow, so in whatever order changes arrive, the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitChange {
    pub bucket: usize,
    pub set: bool,
    pub number: u64,
}

/// Writes of a bucket that were given up, to be made good by making its copies equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    pub bucket: usize,
    /// The last of them.
    last: u64,
}

impl Intents {
    pub fn new(buckets: usize) -> Intents {
        Intents {
            buckets: vec![Bucket::default(); buckets],
            changes: 0,
        }
    }

    /// The bucket of a Murmur3 token: equal parts of the ring.
    pub fn bucket_of(&self, token: i64) -> usize {
        let offset = (i128::from(token) - i128::from(i64::MIN)) as u128;
        let bucket = (offset * self.buckets.len() as u128) >> 64;
        usize::try_from(bucket).unwrap_or(0)
    }

    /// The tokens of a bucket of so many: above the first, up to and with the second. The least token, which no key
    /// has, belongs to none.
    pub fn tokens_of(bucket: usize, buckets: usize) -> (i64, i64) {
        let bound = |bucket: usize| {
            let offset = ((bucket as u128) << 64).div_ceil(buckets.max(1) as u128);
            // Bounds are tokens, or the one after the last.
            i128::from(i64::MIN) + offset.min(1 << 64) as i128
        };
        let after = (bound(bucket) - 1).max(i128::from(i64::MIN));
        let end = (bound(bucket.saturating_add(1)) - 1).max(after);
        (after as i64, end as i64)
    }

    /// A write in the bucket begins; what it makes necessary. It may go on once the bucket
    /// [is recorded](Intents::is_recorded). There are as many buckets as [`Intents::new`] was given; others
    /// panic.
    pub fn begin(&mut self, bucket: usize) -> Option<BitChange> {
        let state = &mut self.buckets[bucket];
        state.pending += 1;
        match state.bit {
            Bit::Recording | Bit::Recorded => None,
            // Whether the bit has been cleared yet is not known.
            Bit::Clear | Bit::Clearing => {
                state.bit = Bit::Recording;
                Some(self.change(bucket, true))
            }
        }
    }

    /// The catalogue has the bit, and no change is under way.
    pub fn is_recorded(&self, bucket: usize) -> bool {
        self.buckets[bucket].bit == Bit::Recorded
    }

    /// All required copies have the write ([`super::Step::Acknowledge`]). Returns whether none is pending
    /// there any more.
    pub fn end(&mut self, bucket: usize, now_us: u64) -> bool {
        let state = &mut self.buckets[bucket];
        debug_assert!(state.is_under_way(), "more writes end than have begun");
        state.pending = state.pending.saturating_sub(1);
        state.last_ended_us = now_us;
        state.pending == 0
    }

    /// Nobody goes on with a write, which some copies may have and others not.
    pub fn give_up(&mut self, bucket: usize) {
        let state = &mut self.buckets[bucket];
        debug_assert!(state.is_under_way(), "more writes end than have begun");
        state.given_up += 1;
    }

    /// The writes that were given up in a bucket and are not made good, if there are any. Whoever makes the
    /// copies equal asks first, then waits until nothing of these writes can arrive any more
    /// ([`super::Timing::late_us`]), and then reads the copies.
    pub fn given_up(&self, bucket: usize) -> Option<GivenUp> {
        let state = &self.buckets[bucket];
        let last = state.given_up;
        (last > state.made_good).then_some(GivenUp { bucket, last })
    }

    /// The copies have been made equal after these writes were given up. Those that were given up since are
    /// still to be made good. Returns whether no write is pending there any more.
    pub fn on_resynchronised(&mut self, writes: GivenUp, now_us: u64) -> bool {
        let state = &mut self.buckets[writes.bucket];
        // Whoever else has done the same may have said so before.
        let made_good = writes.last.saturating_sub(state.made_good);
        state.made_good += made_good;
        let made_good = u32::try_from(made_good).unwrap_or(u32::MAX);
        state.pending = state.pending.saturating_sub(made_good);
        state.last_ended_us = now_us;
        state.pending == 0
    }

    /// Some copies may have writes of this proxy there that others do not.
    pub fn is_pending(&self, bucket: usize) -> bool {
        self.buckets[bucket].pending > 0
    }

    /// A bucket in which nothing was written for `idle_us`.
    pub fn clear(&mut self, idle_us: u64, now_us: u64) -> Option<BitChange> {
        let idle = |state: &Bucket| {
            state.bit == Bit::Recorded
                && state.pending == 0
                && now_us.saturating_sub(state.last_ended_us) >= idle_us
        };
        let bucket = self.buckets.iter().position(idle)?;
        self.buckets[bucket].bit = Bit::Clearing;
        Some(self.change(bucket, false))
    }

    /// The catalogue has carried out the change.
    pub fn on_changed(&mut self, change: BitChange) {
        let state = &mut self.buckets[change.bucket];
        if state.change == change.number {
            state.bit = match state.bit {
                Bit::Recording | Bit::Recorded => Bit::Recorded,
                Bit::Clearing | Bit::Clear => Bit::Clear,
            };
        }
    }

    /// The change may have been carried out or not; what to try next.
    pub fn on_failed(&mut self, change: BitChange) -> Option<BitChange> {
        let state = &mut self.buckets[change.bucket];
        if state.change != change.number {
            return None;
        }
        match state.bit {
            Bit::Recording | Bit::Clearing => Some(self.change(change.bucket, change.set)),
            Bit::Clear | Bit::Recorded => None,
        }
    }

    fn change(&mut self, bucket: usize, set: bool) -> BitChange {
        self.changes += 1;
        self.buckets[bucket].change = self.changes;
        BitChange {
            bucket,
            set,
            number: self.changes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_recorded_once_and_cleared_when_nothing_was_written_for_a_while() {
        let mut intents = Intents::new(4);
        let first = intents.begin(2).expect("the bit is clear");
        assert!(first.bucket == 2 && first.set);
        assert_eq!(intents.begin(2), None, "it is under way");
        assert!(!intents.is_recorded(2));
        intents.on_changed(first);
        assert!(intents.is_recorded(2));
        assert_eq!(intents.begin(2), None);
        assert!(!intents.end(2, 10) && !intents.end(2, 10));
        assert_eq!(intents.clear(5, 100), None, "one is pending");
        assert!(intents.end(2, 100) && !intents.is_pending(2));
        assert_eq!(intents.clear(5, 104), None);
        let clear = intents.clear(5, 105).expect("it is idle");
        assert!(!clear.set && clear.number > first.number);
        assert_eq!(intents.clear(5, 105), None);
        intents.on_changed(clear);
        assert!(intents.begin(2).is_some());
    }

    #[test]
    fn a_bucket_of_writes_that_were_given_up_stays_marked_until_it_was_resynchronised() {
        let mut intents = Intents::new(2);
        let set = intents.begin(1).expect("the bit is clear");
        intents.on_changed(set);
        intents.begin(1);
        intents.begin(1);
        assert_eq!(intents.given_up(1), None);
        intents.give_up(1);
        let first = intents.given_up(1).expect("one was given up");
        assert!(intents.given_up(0).is_none() && first.bucket == 1);
        // One more while the copies are being compared, and another one ends.
        intents.give_up(1);
        assert!(!intents.end(1, 10));
        for _ in 0..2 {
            let is_last = intents.on_resynchronised(first, 20);
            assert!(!is_last, "also if two say so");
        }
        assert_eq!(intents.clear(0, 100), None, "one is still to be made good");
        let second = intents.given_up(1).expect("another was given up");
        assert!(intents.on_resynchronised(second, 30));
        assert!(intents.given_up(1).is_none() && !intents.is_pending(1));
        assert!(intents.clear(10, 40).is_some());
    }

    #[test]
    fn only_the_last_change_of_a_bit_counts() {
        let mut intents = Intents::new(1);
        let first = intents.begin(0).expect("the bit is clear");
        let second = intents.on_failed(first).expect("it is tried again");
        assert!(second.set && second.number > first.number);
        intents.on_changed(first);
        assert!(!intents.is_recorded(0));
        intents.on_changed(second);
        assert!(intents.is_recorded(0));
        intents.end(0, 0);
        let clear = intents.clear(0, 0).expect("it is idle");
        let third = intents.begin(0).expect("who knows whether it was cleared");
        intents.on_changed(clear);
        intents.on_changed(second);
        assert!(!intents.is_recorded(0));
        assert_eq!(intents.on_failed(clear), None, "it is no longer wanted");
        intents.on_changed(third);
        assert!(intents.is_recorded(0));
    }

    #[test]
    fn buckets_are_equal_parts_of_the_ring() {
        let intents = Intents::new(1_024);
        assert_eq!(intents.bucket_of(i64::MIN), 0);
        assert_eq!(intents.bucket_of(-1), 511);
        assert_eq!(intents.bucket_of(0), 512);
        assert_eq!(intents.bucket_of(i64::MAX), 1_023);
        for buckets in [1, 3, 1_000, 1_024] {
            let intents = Intents::new(buckets);
            let mut last = i64::MIN;
            for bucket in 0..buckets {
                let (after, end) = Intents::tokens_of(bucket, buckets);
                assert_eq!(after, last, "{bucket} of {buckets}");
                assert_eq!(intents.bucket_of(after + 1), bucket);
                assert_eq!(intents.bucket_of(end), bucket);
                last = end;
            }
            assert_eq!(last, i64::MAX, "{buckets}");
        }
    }
}
