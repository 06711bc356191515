//! The buckets of the ring in which this proxy writes, as the catalogue has them: a write-intent bitmap, as
//! software RAID has one.
//!
//! If a proxy dies, what it had in flight may have reached some copies and not others, and nobody knows
//! which writes these were. The catalogue then says in which buckets to look. A bit is recorded before the
//! first write in its bucket is sent, and cleared when all copies have all of this proxy's writes there and
//! nothing was written for a while. So a busy bucket costs one small write to the catalogue, not one each
//! time.
//!
//! Bits are plain writes with this proxy's timestamps, which only grow: whatever order they arrive in, the
//! last one counts.

/// The intents of one start of a proxy.
#[derive(Clone, Debug)]
pub struct Intents {
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Writes that not all copies may have.
    pending: u32,
    bit: Bit,
    last_ended_us: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Bit {
    #[default]
    Clear,
    /// Asked for, not confirmed.
    Recording,
    Recorded,
}

/// What must come before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Set the bit in the catalogue, at QUORUM, and report it ([`Intents::on_recorded`]).
    Needed,
    /// Another write has asked for that: wait.
    UnderWay,
    /// It is recorded: go on.
    Done,
}

/// A bucket whose bit is to be cleared in the catalogue. It counts as clear from now on: the next write
/// records it anew, with a later timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clear(pub usize);

impl Intents {
    pub fn new(buckets: usize) -> Intents {
        Intents {
            buckets: vec![Bucket::default(); buckets],
        }
    }

    /// The bucket of a Murmur3 token: equal parts of the ring.
    pub fn bucket_of(&self, token: i64) -> usize {
        let offset = (i128::from(token) - i128::from(i64::MIN)) as u128;
        let bucket = (offset * self.buckets.len() as u128) >> 64;
        usize::try_from(bucket).unwrap_or(0)
    }

    /// A write in the bucket begins. There are [`Intents::new`] buckets; others panic.
    pub fn begin(&mut self, bucket: usize) -> Record {
        let bucket = &mut self.buckets[bucket];
        bucket.pending += 1;
        match bucket.bit {
            Bit::Clear => {
                bucket.bit = Bit::Recording;
                Record::Needed
            }
            Bit::Recording => Record::UnderWay,
            Bit::Recorded => Record::Done,
        }
    }

    /// The catalogue has the bit.
    pub fn on_recorded(&mut self, bucket: usize) {
        let bucket = &mut self.buckets[bucket];
        if bucket.bit == Bit::Recording {
            bucket.bit = Bit::Recorded;
        }
    }

    pub fn is_recorded(&self, bucket: usize) -> bool {
        self.buckets[bucket].bit == Bit::Recorded
    }

    /// All required copies have the write ([`super::Step::Acknowledge`]). Returns whether it was the last
    /// one pending there.
    pub fn end(&mut self, bucket: usize, now_us: u64) -> bool {
        let bucket = &mut self.buckets[bucket];
        debug_assert!(bucket.pending > 0, "more writes end than have begun");
        bucket.pending = bucket.pending.saturating_sub(1);
        bucket.last_ended_us = now_us;
        bucket.pending == 0
    }

    pub fn is_pending(&self, bucket: usize) -> bool {
        self.buckets[bucket].pending > 0
    }

    /// A bucket in which nothing was written for `idle_us`.
    pub fn clear(&mut self, idle_us: u64, now_us: u64) -> Option<Clear> {
        let idle = |bucket: &Bucket| {
            bucket.bit == Bit::Recorded
                && bucket.pending == 0
                && now_us.saturating_sub(bucket.last_ended_us) >= idle_us
        };
        let found = self.buckets.iter().position(idle)?;
        self.buckets[found].bit = Bit::Clear;
        Some(Clear(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_recorded_once_and_cleared_when_nothing_was_written_for_a_while() {
        let mut intents = Intents::new(4);
        assert_eq!(intents.begin(2), Record::Needed);
        assert_eq!(intents.begin(2), Record::UnderWay);
        assert!(!intents.is_recorded(2));
        intents.on_recorded(2);
        assert_eq!(intents.begin(2), Record::Done);
        assert!(!intents.end(2, 10) && !intents.end(2, 10));
        assert_eq!(intents.clear(5, 100), None, "one is pending");
        assert!(intents.end(2, 100) && !intents.is_pending(2));
        assert_eq!(intents.clear(5, 104), None);
        assert_eq!(intents.clear(5, 105), Some(Clear(2)));
        assert_eq!(intents.clear(5, 105), None);
        assert_eq!(intents.begin(2), Record::Needed);
    }

    #[test]
    fn buckets_are_equal_parts_of_the_ring() {
        let intents = Intents::new(1_024);
        assert_eq!(intents.bucket_of(i64::MIN), 0);
        assert_eq!(intents.bucket_of(-1), 511);
        assert_eq!(intents.bucket_of(0), 512);
        assert_eq!(intents.bucket_of(i64::MAX), 1_023);
    }
}
