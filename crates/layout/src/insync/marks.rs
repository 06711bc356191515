//! In which buckets others may have writes that not all copies have.
//!
//! Before a proxy sends a write it tells all others that its bucket is busy, and waits until they know
//! ([`super::Write`]); when all copies have its writes there, it tells them that the bucket is quiet. So a
//! read that finds a write which only some copies have also finds the mark: the mark was here before the
//! write reached any copy, and goes only when all have it. Such a read is merged: it goes on to the other
//! copies, and writes back what not all of them have before it answers ([`super::Verdict::Merge`]). Any other read is
//! answered by one copy.
//!
//! From a proxy that is out no notice comes any more: the bits that it has left in the catalogue say what
//! is marked, until another proxy has resynchronised the bucket and cleared the bit. The same bits say what
//! a proxy that joins does not know from notices.

use std::collections::BTreeMap;

/// What a proxy tells the others. Notices of one proxy carry growing numbers; they may be lost, repeated,
/// and overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    Busy { bucket: usize, number: u64 },
    Quiet { bucket: usize, number: u64 },
}

#[derive(Clone, Debug)]
pub struct Marks {
    /// How many proxies have marked each bucket: all that a read looks at.
    marked: Vec<u16>,
    /// By bucket and proxy.
    of_proxy: BTreeMap<(usize, usize), Mark>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// The last notice.
    number: u64,
    told: bool,
    /// By the catalogue.
    left: bool,
    /// When it was last marked.
    since_us: u64,
}

impl Mark {
    fn is_set(&self) -> bool {
        self.told || self.left
    }
}

impl Marks {
    pub fn new(buckets: usize) -> Marks {
        Marks {
            marked: vec![0; buckets],
            of_proxy: BTreeMap::new(),
        }
    }

    /// Whether a read of this bucket must be merged.
    pub fn is_marked(&self, bucket: usize) -> bool {
        self.marked.get(bucket).is_some_and(|count| *count > 0)
    }

    /// Returns whether to answer that this proxy knows: to what is busy only.
    pub fn on_notice(&mut self, proxy: usize, notice: Notice, now_us: u64) -> bool {
        let (bucket, number, busy) = match notice {
            Notice::Busy { bucket, number } => (bucket, number, true),
            Notice::Quiet { bucket, number } => (bucket, number, false),
        };
        self.change(bucket, proxy, |mark| {
            // A later notice has overtaken this one; of one number, quiet comes last.
            let is_news = number > mark.number || (number == mark.number && !busy);
            if is_news {
                if busy {
                    mark.since_us = now_us;
                }
                mark.number = number;
                mark.told = busy;
            }
        });
        busy
    }

    /// The catalogue has the bit of a proxy from which no notice about this may have come: it is out, or it
    /// recorded the bit before this proxy joined.
    pub fn on_bit_set(&mut self, proxy: usize, bucket: usize, now_us: u64) {
        self.change(bucket, proxy, |mark| {
            mark.since_us = now_us;
            mark.left = true;
        });
    }

    /// The catalogue does not have the bit, by a read that was sent at `sent_us`: what was marked before that
    /// is in all copies.
    pub fn on_bit_clear(&mut self, proxy: usize, bucket: usize, sent_us: u64) {
        self.change(bucket, proxy, |mark| {
            if mark.since_us < sent_us {
                mark.told = false;
                mark.left = false;
            }
        });
    }

    /// Another start of a proxy takes the number of one whose bits are all clear, and counts its notices anew.
    pub fn forget(&mut self, proxy: usize) {
        let marked = self
            .of_proxy
            .iter()
            .filter(|(key, mark)| key.1 == proxy && mark.is_set());
        for ((bucket, _), _) in marked {
            self.marked[*bucket] -= 1;
        }
        self.of_proxy.retain(|(_, of), _| *of != proxy);
    }

    fn change(&mut self, bucket: usize, proxy: usize, change: impl FnOnce(&mut Mark)) {
        let Some(count) = self.marked.get_mut(bucket) else {
            return;
        };
        let mark = self.of_proxy.entry((bucket, proxy)).or_default();
        let was = mark.is_set();
        change(mark);
        match (was, mark.is_set()) {
            (false, true) => *count += 1,
            (true, false) => *count -= 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(number: u64) -> Notice {
        Notice::Busy { bucket: 1, number }
    }

    fn quiet(number: u64) -> Notice {
        Notice::Quiet { bucket: 1, number }
    }

    #[test]
    fn notices_that_are_overtaken_change_nothing() {
        let mut marks = Marks::new(2);
        assert!(marks.on_notice(0, busy(1), 10));
        assert!(marks.on_notice(3, busy(1), 10));
        assert!(marks.is_marked(1) && !marks.is_marked(0));
        assert!(!marks.on_notice(0, quiet(1), 20));
        assert!(marks.is_marked(1), "the other has not said so");
        marks.on_notice(3, quiet(1), 20);
        assert!(!marks.is_marked(1));
        assert!(marks.on_notice(3, busy(1), 30), "a repetition is answered");
        assert!(!marks.is_marked(1));
        marks.on_notice(3, busy(3), 40);
        marks.on_notice(3, quiet(2), 50);
        assert!(marks.is_marked(1));
        assert!(marks.on_notice(0, busy(2), 60));
        assert!(!marks.is_marked(2), "there is no such bucket");
        marks.forget(0);
        marks.forget(3);
        assert!(!marks.is_marked(1));
        marks.on_notice(0, busy(1), 70);
        assert!(marks.is_marked(1), "it counts anew");
    }

    #[test]
    fn a_bit_outlives_notices_and_ends_them() {
        let mut marks = Marks::new(2);
        marks.on_bit_set(0, 1, 10);
        marks.on_notice(0, busy(1), 20);
        marks.on_notice(0, quiet(1), 30);
        assert!(marks.is_marked(1));
        marks.on_bit_clear(0, 1, 10);
        assert!(marks.is_marked(1), "the read is older than the mark");
        marks.on_bit_clear(0, 1, 21);
        assert!(!marks.is_marked(1));
        marks.on_notice(0, busy(2), 40);
        marks.on_notice(0, busy(3), 60);
        marks.on_bit_clear(0, 1, 50);
        assert!(marks.is_marked(1), "it was marked again since");
        marks.on_bit_clear(0, 1, 61);
        assert!(!marks.is_marked(1));
    }
}
