//! A strong read of one copy: which copy, and whether its answer is good.
//!
//! The answer is judged when it arrives. By then the copy may have been evicted, and even be back: so it
//! must have been in sync *since the same version* of the list, and its node must not have been started
//! anew. The lease must hold when the answer arrives; what happens to the answer later does not matter.
//!
//! The table itself has no start, and what it answers still counts for the rest of the lease on the list before it left:
//! it leaves all lists at one moment, and many reads of it are under way.

use super::known::Known;
use super::list::{LISTED_MAX, PROXIES_MAX, State, TABLE};
use super::members::Members;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    copy: usize,
    copy_since: u64,
    reader_since: u64,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the client's.
    Answer,
    /// Not all copies may have all of it: read the other required copies, too. The greatest of what was
    /// found is a [`super::Write`] that those which gave it have already; answer when that may be
    /// acknowledged. Of copies that do not answer, nothing is known: they get the write.
    Merge,
    /// It proves nothing: read again.
    Again,
}

impl Read {
    /// Reads the first copy in sync of `preferred`, the cheapest first, that is not among `avoided`: those
    /// that cannot be reached, or have failed this read. None if there is none, or no lease.
    ///
    /// `me` is the proxy that reads.
    pub fn begin(
        copies: &Known<LISTED_MAX>,
        proxies: &Known<PROXIES_MAX>,
        me: usize,
        preferred: &[u8],
        avoided: Members,
        now_us: u64,
    ) -> Option<Read> {
        let list = copies.list(now_us)?;
        let readers = proxies.list(now_us)?;
        if readers.state(me) != State::InSync {
            return None;
        }
        let candidates = list.in_sync().minus(avoided);
        let mut preferred = preferred.iter().map(|copy| usize::from(*copy));
        let copy = preferred.find(|copy| candidates.contains(*copy))?;
        Some(Read {
            copy,
            copy_since: list.since(copy),
            reader_since: readers.since(me),
        })
    }

    pub fn copy(&self) -> usize {
        self.copy
    }

    /// Judges the answer, which has come from the node's start number `boot`. `unsettled`: others, or this
    /// proxy, may have writes in its bucket that not all copies have ([`super::Marks`]).
    pub fn judge(
        &self,
        copies: &Known<LISTED_MAX>,
        proxies: &Known<PROXIES_MAX>,
        me: usize,
        boot: u32,
        unsettled: bool,
        now_us: u64,
    ) -> Verdict {
        let (Some(list), Some(readers)) = (copies.list(now_us), proxies.list(now_us)) else {
            return Verdict::Again;
        };
        let copy_stayed = match self.copy {
            TABLE => copies.counts_since(TABLE, now_us) == Some(self.copy_since),
            copy => {
                list.state(copy) == State::InSync
                    && list.since(copy) == self.copy_since
                    && list.boot(copy) == boot
            }
        };
        let reader_stayed =
            readers.state(me) == State::InSync && readers.since(me) == self.reader_since;
        match (copy_stayed && reader_stayed, unsettled) {
            (false, _) => Verdict::Again,
            (true, true) => Verdict::Merge,
            (true, false) => Verdict::Answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::{Copies, Proxies};
    use super::super::timing::Timing;
    use super::*;

    const TIMING: Timing = Timing::TESTED;
    const ME: usize = 1;

    fn known() -> (Known<LISTED_MAX>, Known<PROXIES_MAX>, Copies) {
        let list = Copies::new(Members::first(3), [4; LISTED_MAX]);
        let mut copies = Known::new(TIMING);
        copies.adopt(list, 0, 0);
        let mut proxies = Known::new(TIMING);
        proxies.adopt(Proxies::new(Members::first(2), [0; PROXIES_MAX]), 0, 0);
        (copies, proxies, list)
    }

    #[test]
    fn the_cheapest_copy_in_sync_is_read() {
        let (mut copies, proxies, list) = known();
        let begin = |copies: &_, avoided| {
            Read::begin(copies, &proxies, ME, &[2, 0, 1], avoided, 10).map(|read| read.copy())
        };
        assert_eq!(begin(&copies, Members::EMPTY), Some(2));
        assert_eq!(begin(&copies, Members::of(2)), Some(0));
        copies.adopt(list.evict(2).expect("others are in sync"), 5, 5);
        assert_eq!(begin(&copies, Members::EMPTY), Some(0));
        assert_eq!(begin(&copies, Members::first(3)), None);
        let stranger = Read::begin(&copies, &proxies, 2, &[0], Members::EMPTY, 10);
        assert_eq!(stranger, None, "nobody tells it of writes");
        let late = Read::begin(&copies, &proxies, ME, &[0], Members::EMPTY, 1_005);
        assert_eq!(late, None, "the lease has run out");
    }

    #[test]
    fn an_answer_counts_while_lease_list_and_node_are_the_same() {
        let (mut copies, proxies, list) = known();
        let read = Read::begin(&copies, &proxies, ME, &[2], Members::EMPTY, 10);
        let read = read.expect("it is in sync");
        let judge = |copies: &_, boot, unsettled, now_us| {
            read.judge(copies, &proxies, ME, boot, unsettled, now_us)
        };
        assert_eq!(judge(&copies, 4, false, 999), Verdict::Answer);
        assert_eq!(judge(&copies, 4, true, 999), Verdict::Merge);
        assert_eq!(judge(&copies, 4, false, 1_000), Verdict::Again);
        assert_eq!(judge(&copies, 5, false, 999), Verdict::Again);
        let out = list.evict(2).expect("others are in sync");
        let back = out.join(2, 4).and_then(|l| l.promote(2, 3)).expect("back");
        copies.adopt(back, 20, 20);
        let verdict = judge(&copies, 4, false, 30);
        assert_eq!(verdict, Verdict::Again, "it was out in between");
    }

    #[test]
    fn what_the_table_answers_counts_while_nobody_acknowledges_without_it() {
        let (mut copies, mut proxies, list) = known();
        let list = list.join(TABLE, 0).and_then(|list| list.promote(TABLE, 2));
        let list = list.expect("it joins");
        copies.adopt(list, 100, 100);
        let begin = |copies: &_, now_us| {
            let none = Members::EMPTY;
            Read::begin(copies, &proxies, ME, &[TABLE as u8], none, now_us)
        };
        let read = begin(&copies, 110).expect("it is in sync");
        let gone = list.evict(TABLE).expect("copies are in sync");
        copies.adopt(gone, 200, 210);
        assert_eq!(begin(&copies, 210), None);
        copies.adopt(gone, 1_050, 1_060);
        proxies.adopt(*proxies.last_read().expect("it was read"), 1_050, 1_060);
        let judge = |now_us| read.judge(&copies, &proxies, ME, 0, false, now_us);
        assert_eq!(judge(1_099), Verdict::Answer);
        assert_eq!(judge(1_100), Verdict::Again, "the lease before has ended");
    }
}
