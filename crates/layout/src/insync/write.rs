//! When a write may be sent, and when it may be acknowledged.
//!
//! ```text
//! record the intent ─ tell the proxies ─ send to the copies ─ all that are required have it ─ acknowledge
//! ```
//!
//! Whether it may be acknowledged is judged at one moment, at which the lease is held and all required
//! copies have the write. A proxy that is paused right after that moment may still acknowledge when it
//! wakes up: what was required then has the write, and whoever joins later is compared with it.
//!
//! A write that its client no longer waits for goes on all the same, until all required copies have it:
//! only then do reads of different copies agree about it.
//!
//! The **table itself** is sent the write, too, while it is listed or has just left. Its own coordinator counts replicas,
//! so once it has the write, no level asks for more as long as it is in sync. It is never evicted for being late, nor for
//! a restart.
//!
//! What a merged read has found is a write, too, that the copies which gave it have already
//! ([`super::Verdict::Merge`]). If all have it, nothing is recorded, told or sent.

use super::known::Known;
use super::list::{LISTED_MAX, PROXIES_MAX, State, TABLE};
use super::members::Members;

/// One write to all copies, always with the same timestamp, so that it may be sent again.
#[derive(Clone, Debug)]
pub struct Write {
    /// The proxy that writes.
    me: usize,
    /// Copies that must have it by the consistency level, whoever is required beside.
    needed: usize,
    telling: Members,
    /// Since when all of these have been told.
    telling_since_us: u64,
    told: Members,
    /// All proxies knew of it at some moment, or need not.
    all_know: bool,
    sent: Members,
    sent_at_us: [u64; LISTED_MAX],
    acked: Members,
    /// Which start of the node has acknowledged it.
    acked_boot: [u32; LISTED_MAX],
    /// By the list that was looked at last.
    table_was_out: bool,
}

/// Which copies have it, and which required ones do not.
struct Standing {
    acked: Members,
    missing: Members,
    /// As the level asks for.
    is_enough: bool,
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing can be judged: read the catalogue.
    NoLease,
    /// The intent must be recorded before anything is sent ([`super::Intents::begin`]).
    Record,
    /// Tell these proxies, or tell them again.
    Tell(Members),
    /// Send it to these copies, now: a lease is held.
    Send(Members),
    /// This proxy has not answered for too long: evict it.
    EvictProxy(usize),
    /// This copy has not answered for too long: evict it.
    Evict(usize),
    /// Somebody has not answered yet, or may not be left out yet.
    Wait,
    /// All that are required have it, but these are fewer than the consistency level asks for. It may be
    /// acknowledged when copies have come back.
    TooFew,
    Acknowledge,
}

impl Write {
    /// A write of the proxy `me` that `needed` copies must have at least: QUORUM is counted over all
    /// copies, listed or not.
    pub fn new(me: usize, needed: usize) -> Write {
        Write {
            me,
            needed,
            telling: Members::EMPTY,
            telling_since_us: 0,
            told: Members::EMPTY,
            all_know: false,
            sent: Members::EMPTY,
            sent_at_us: [0; LISTED_MAX],
            acked: Members::EMPTY,
            acked_boot: [0; LISTED_MAX],
            table_was_out: false,
        }
    }

    /// The same where proxies do not tell each other of their writes ([`super::Marks`]).
    pub fn unannounced(me: usize, needed: usize) -> Write {
        Write {
            all_know: true,
            ..Write::new(me, needed)
        }
    }

    /// Proxies are being told.
    pub fn on_telling(&mut self, proxies: Members, now_us: u64) {
        if !proxies.minus(self.telling).is_empty() {
            self.telling_since_us = now_us;
        }
        self.telling = self.telling.union(proxies);
    }

    /// A proxy knows of it. The one that writes counts, too.
    pub fn on_told(&mut self, proxy: usize) {
        self.told = self.told.with(proxy);
    }

    /// Copies are to be sent it, and it waits within the proxy until it may leave. Their time does not run yet:
    /// [`Write::on_sent`] follows.
    pub fn on_queued(&mut self, copies: Members) {
        self.sent = self.sent.union(copies);
        self.acked = self.acked.minus(copies);
    }

    /// It has left for these copies, whose time runs from now on. It may be said again.
    pub fn on_sent(&mut self, copies: Members, now_us: u64) {
        for copy in copies.iter().filter(|copy| *copy < LISTED_MAX) {
            // From when it has waited: sending it again does not make it young.
            if self.sent_at_us[copy] == 0 {
                self.sent_at_us[copy] = now_us;
            }
        }
        self.on_queued(copies);
    }

    /// So much time, up to now, does not count against these copies: this proxy could not send to them, or could
    /// not hear them.
    pub fn excuse(&mut self, copies: Members, time_us: u64, now_us: u64) {
        for copy in copies.iter().filter(|copy| *copy < LISTED_MAX) {
            let since_us = &mut self.sent_at_us[copy];
            if *since_us > 0 {
                *since_us = since_us.saturating_add(time_us).min(now_us);
            }
        }
    }

    /// The node of a copy has been started for the `boot`th time: what an earlier start has acknowledged, it
    /// may have lost.
    pub fn on_restarted(&mut self, copy: usize, boot: u32) {
        if self.acked.contains(copy) && self.acked_boot[copy] < boot {
            let one = Members::of(copy);
            (self.acked, self.sent) = (self.acked.minus(one), self.sent.minus(one));
        }
    }

    /// A copy has it, by the start number `boot` of its node. If that is not the one in the list, the copy
    /// must be evicted ([`super::Read::judge`]), and once it is back it is sent the write again: the node may
    /// have had the write and lost it.
    pub fn on_acked(&mut self, copy: usize, boot: u32) {
        if let Some(acked_boot) = self.acked_boot.get_mut(copy) {
            *acked_boot = boot;
            self.acked = self.acked.with(copy);
            // If it is asked once more, it has as much time again.
            self.sent_at_us[copy] = 0;
        }
    }

    /// A copy has answered with an error, or the connection was lost: it may have the write or not.
    pub fn on_failed(&mut self, copy: usize) {
        self.sent = self.sent.minus(Members::of(copy));
    }

    /// A copy has answered that it does not take this write, which is no fault of its own: it is sent the write
    /// again, and its time begins anew then.
    pub fn on_refused(&mut self, copy: usize) {
        self.on_failed(copy);
        if let Some(since_us) = self.sent_at_us.get_mut(copy) {
            *since_us = 0;
        }
    }

    /// `recorded`: this write has [begun](super::Intents::begin) in its bucket, and the bucket
    /// [is recorded](super::Intents::is_recorded).
    pub fn next(
        &mut self,
        copies: &Known<LISTED_MAX>,
        proxies: &Known<PROXIES_MAX>,
        recorded: bool,
        now_us: u64,
    ) -> Step {
        if let Some(list) = copies.list(now_us) {
            self.note_table(list.listed().contains(TABLE));
        }
        let Some(standing) = self.standing(copies, now_us) else {
            return Step::NoLease;
        };
        let missing = standing.missing;
        if missing.is_empty() {
            return match standing.is_enough {
                true => Step::Acknowledge,
                false => Step::TooFew,
            };
        }
        // Acknowledged, but by another start: sent anew.
        let unsent = missing.minus(self.sent.minus(self.acked));
        if !unsent.is_empty() {
            return match self.before_sending(proxies, recorded, now_us) {
                Some(step) => step,
                None => Step::Send(unsent),
            };
        }
        let late = self.late(copies, now_us).iter().next();
        late.map_or(Step::Wait, Step::Evict)
    }

    /// A table that comes back was emptied while it was out: what it has acknowledged before does not count.
    fn note_table(&mut self, listed: bool) {
        let of_table = Members::of(TABLE);
        if listed && self.table_was_out && self.acked.contains(TABLE) {
            self.acked = self.acked.minus(of_table);
            self.sent = self.sent.minus(of_table);
        }
        self.table_was_out = !listed;
    }

    /// The copies that are to be evicted because they have not acknowledged the write for too long since it was
    /// first sent. [`Write::next`] says so of those that it waits for; of one that fails as often as it is sent
    /// the write again, only this does.
    pub fn late(&self, copies: &Known<LISTED_MAX>, now_us: u64) -> Members {
        let is_late = |copy: &usize| {
            let sent_us = self.sent_at_us[*copy];
            sent_us > 0 && copies.is_overdue(*copy, sent_us, now_us)
        };
        let missing = self.missing(copies, now_us).minus(Members::of(TABLE));
        missing.iter().filter(is_late).collect()
    }

    /// The required copies that do not have it, as far as is known; none without a lease.
    pub fn missing(&self, copies: &Known<LISTED_MAX>, now_us: u64) -> Members {
        let standing = self.standing(copies, now_us);
        standing.map_or(Members::EMPTY, |standing| standing.missing)
    }

    /// The copies that have it, as far as that counts. The table itself is none.
    pub fn acked(&self, copies: &Known<LISTED_MAX>, now_us: u64) -> Members {
        let standing = self.standing(copies, now_us);
        let acked = standing.map_or(self.acked, |standing| standing.acked);
        acked.minus(Members::of(TABLE))
    }

    /// None without a lease.
    fn standing(&self, copies: &Known<LISTED_MAX>, now_us: u64) -> Option<Standing> {
        let (required, list) = (copies.required(now_us)?, copies.list(now_us)?);
        let has_it = |copy: &usize| match list.state(*copy) {
            // Nobody reads it by this list; but it counts for the level.
            State::Out => self.acked_boot[*copy] >= list.boot(*copy),
            State::InSync | State::Joining => self.acked_boot[*copy] == list.boot(*copy),
        };
        let acked: Members = self.acked.iter().filter(has_it).collect();
        let of_table = Members::of(TABLE);
        let has_table = !acked.intersection(of_table).is_empty();
        let has_level = acked.minus(of_table).len() >= self.needed;
        Some(Standing {
            acked,
            missing: required.minus(acked),
            is_enough: has_level || has_table && list.state(TABLE) == State::InSync,
        })
    }

    /// What must happen before anything is sent. Only who is in sync among the proxies sends: of others
    /// nobody knows when they are gone.
    fn before_sending(
        &mut self,
        proxies: &Known<PROXIES_MAX>,
        recorded: bool,
        now_us: u64,
    ) -> Option<Step> {
        let list = proxies.list(now_us);
        if list.is_none_or(|list| list.state(self.me) != State::InSync) {
            return Some(Step::NoLease);
        }
        if !recorded {
            return Some(Step::Record);
        }
        // Once is enough: who joins afterwards reads the intent.
        if !self.all_know {
            let missing = proxies.required(now_us)?.minus(self.told);
            if !missing.is_empty() {
                let all_asked = missing.minus(self.telling).is_empty();
                let is_late = |proxy: &usize| {
                    all_asked && proxies.is_overdue(*proxy, self.telling_since_us, now_us)
                };
                let late = missing.iter().find(is_late);
                return Some(late.map_or(Step::Tell(missing), Step::EvictProxy));
            }
            self.all_know = true;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::{Copies, Proxies};
    use super::super::timing::Timing;
    use super::*;

    const TIMING: Timing = Timing::TESTED;

    struct Scene {
        copies: Known<LISTED_MAX>,
        proxies: Known<PROXIES_MAX>,
        list: Copies,
    }

    /// Three copies and two proxies, known by a read that was sent at 1,010.
    fn scene() -> Scene {
        let list = Copies::new(Members::first(3), [1; LISTED_MAX]);
        let mut copies = Known::new(TIMING);
        copies.adopt(list, 1_010, 1_010);
        let mut proxies = Known::new(TIMING);
        let two = Proxies::new(Members::first(2), [0; PROXIES_MAX]);
        proxies.adopt(two, 1_010, 1_010);
        Scene {
            copies,
            proxies,
            list,
        }
    }

    impl Scene {
        fn next(&self, write: &mut Write, now_us: u64) -> Step {
            write.next(&self.copies, &self.proxies, true, now_us)
        }
    }

    #[test]
    fn a_write_is_told_sent_and_acknowledged_when_all_have_it() {
        let scene = scene();
        let mut write = Write::new(0, 2);
        let step = write.next(&scene.copies, &scene.proxies, false, 1_011);
        assert_eq!(step, Step::Record);
        write.on_told(0);
        assert_eq!(scene.next(&mut write, 1_011), Step::Tell(Members::of(1)));
        write.on_told(1);
        let all = Members::first(3);
        assert_eq!(scene.next(&mut write, 1_012), Step::Send(all));
        write.on_sent(all, 1_012);
        write.on_acked(0, 1);
        write.on_acked(2, 1);
        assert_eq!(scene.next(&mut write, 1_020), Step::Wait);
        write.on_failed(1);
        assert_eq!(scene.next(&mut write, 1_020), Step::Send(Members::of(1)));
        write.on_acked(1, 1);
        assert_eq!(scene.next(&mut write, 1_020), Step::Acknowledge);
        assert_eq!(scene.next(&mut write, 2_010), Step::NoLease);
    }

    #[test]
    fn a_copy_that_does_not_answer_is_evicted_and_still_waited_for_while_it_may_be_read() {
        let mut scene = scene();
        let mut write = Write::unannounced(0, 2);
        write.on_sent(Members::first(3), 1_010);
        write.on_acked(0, 1);
        write.on_acked(1, 1);
        assert_eq!(scene.next(&mut write, 1_109), Step::Wait);
        assert_eq!(scene.next(&mut write, 1_110), Step::Evict(2));
        let evicted = scene.list.evict(2).expect("others are in sync");
        scene.copies.adopt(evicted, 1_110, 1_150);
        scene.copies.adopt(evicted, 1_900, 1_900);
        assert_eq!(scene.next(&mut write, 2_149), Step::Wait);
        assert_eq!(scene.next(&mut write, 2_150), Step::Acknowledge);
        let joining = evicted.join(2, 1).expect("it is out");
        scene.copies.adopt(joining, 2_160, 2_160);
        write.on_sent(Members::of(2), 2_160);
        assert_eq!(scene.next(&mut write, 2_259), Step::Wait, "it has time");
        let step = scene.next(&mut write, 2_260);
        assert_eq!(step, Step::Evict(2), "who joins is waited for");
    }

    #[test]
    fn a_copy_that_fails_each_time_is_late_like_one_that_is_silent() {
        let scene = scene();
        let mut write = Write::unannounced(0, 2);
        let late = write.late(&scene.copies, 1_500);
        assert_eq!(late, Members::EMPTY, "it was never sent");
        write.on_sent(Members::first(3), 1_020);
        write.on_acked(0, 1);
        write.on_acked(1, 1);
        assert_eq!(write.acked(&scene.copies, 1_020), Members::first(2));
        for now_us in [1_030, 1_120] {
            write.on_failed(2);
            assert_eq!(scene.next(&mut write, now_us), Step::Send(Members::of(2)));
            let late = match now_us {
                1_120 => Members::of(2),
                _ => Members::EMPTY,
            };
            assert_eq!(write.late(&scene.copies, now_us), late);
            write.on_sent(Members::of(2), now_us);
        }
        let late = write.late(&scene.copies, 2_010);
        assert_eq!(late, Members::EMPTY, "without a lease");
    }

    #[test]
    fn a_copy_that_refuses_the_write_is_not_late_until_it_is_silent() {
        let scene = scene();
        let mut write = Write::unannounced(0, 2);
        write.on_sent(Members::of(2), 1_020);
        write.on_refused(2);
        assert_eq!(write.late(&scene.copies, 1_500), Members::EMPTY);
        write.on_sent(Members::of(2), 1_500);
        assert_eq!(write.late(&scene.copies, 1_599), Members::EMPTY);
        assert_eq!(write.late(&scene.copies, 1_600), Members::of(2));
    }

    #[test]
    fn time_that_is_the_proxys_own_does_not_count_against_a_copy() {
        let scene = scene();
        let mut write = Write::unannounced(0, 2);
        write.on_queued(Members::first(3));
        assert_eq!(scene.next(&mut write, 1_500), Step::Wait, "it has not left");
        write.on_sent(Members::of(2), 1_500);
        write.on_sent(Members::of(2), 1_550);
        assert_eq!(scene.next(&mut write, 1_599), Step::Wait);
        write.excuse(Members::of(2), 70, 1_600);
        assert_eq!(scene.next(&mut write, 1_669), Step::Wait);
        assert_eq!(scene.next(&mut write, 1_670), Step::Evict(2));
        write.excuse(Members::first(3), 400, 1_700);
        assert_eq!(
            scene.next(&mut write, 1_799),
            Step::Wait,
            "from now at most"
        );
        assert_eq!(scene.next(&mut write, 1_800), Step::Evict(2));
    }

    #[test]
    fn what_an_earlier_start_has_acknowledged_does_not_count_for_the_level() {
        let mut scene = scene();
        let mut write = Write::unannounced(0, 2);
        write.on_sent(Members::first(3), 1_010);
        write.on_acked(0, 1);
        write.on_acked(2, 1);
        let out = scene.list.evict(1).and_then(|list| list.evict(2));
        let out = out.expect("one stays");
        scene.copies.adopt(out, 1_020, 1_020);
        scene.copies.adopt(out, 2_010, 2_020);
        assert_eq!(scene.next(&mut write, 2_030), Step::Acknowledge);
        write.on_restarted(2, 1);
        assert_eq!(scene.next(&mut write, 2_030), Step::Acknowledge, "no other");
        let mut told = write.clone();
        told.on_restarted(2, 2);
        assert_eq!(scene.next(&mut told, 2_030), Step::TooFew);
        // It has been back meanwhile, on a later start.
        let back = out.join(2, 2).and_then(|list| list.evict(2));
        let back = back.expect("it joins, and is evicted");
        scene.copies.adopt(back, 2_040, 2_040);
        scene.copies.adopt(back, 3_030, 3_041);
        assert_eq!(scene.next(&mut write, 3_045), Step::TooFew);
    }

    #[test]
    fn a_node_that_was_restarted_may_have_lost_what_it_acknowledged() {
        let mut scene = scene();
        let mut write = Write::unannounced(0, 2);
        write.on_sent(Members::first(3), 1_010);
        write.on_acked(0, 1);
        write.on_acked(1, 1);
        let joined = scene.list.evict(1).and_then(|l| l.join(1, 2));
        let back = joined.and_then(|l| l.promote(1, 3)).expect("it comes back");
        scene.copies.adopt(back, 1_020, 1_020);
        write.on_acked(2, 1);
        assert_eq!(scene.next(&mut write, 1_030), Step::Send(Members::of(1)));
        write.on_sent(Members::of(1), 1_030);
        assert_eq!(scene.next(&mut write, 1_040), Step::Wait);
        write.on_acked(1, 2);
        assert_eq!(scene.next(&mut write, 1_050), Step::Acknowledge);
    }

    #[test]
    fn what_all_copies_have_is_neither_told_nor_sent() {
        let scene = scene();
        let mut found = Write::new(0, 2);
        found.on_acked(0, 1);
        found.on_acked(2, 1);
        let step = found.next(&scene.copies, &scene.proxies, false, 1_011);
        assert_eq!(step, Step::Record, "one does not have it");
        found.on_acked(1, 1);
        let step = found.next(&scene.copies, &scene.proxies, false, 1_011);
        assert_eq!(step, Step::Acknowledge);
    }

    #[test]
    fn a_proxy_that_does_not_answer_is_evicted() {
        let scene = scene();
        let mut write = Write::new(0, 2);
        write.on_told(0);
        let step = scene.next(&mut write, 1_110);
        assert_eq!(step, Step::Tell(Members::of(1)), "it was not told yet");
        write.on_telling(Members::of(1), 1_110);
        write.on_telling(Members::of(1), 1_200);
        assert_eq!(scene.next(&mut write, 1_209), Step::Tell(Members::of(1)));
        assert_eq!(scene.next(&mut write, 1_210), Step::EvictProxy(1));
    }

    #[test]
    fn all_that_are_required_may_be_too_few_for_the_level() {
        let mut scene = scene();
        let two = scene
            .list
            .evict(2)
            .and_then(|l| l.evict(1))
            .expect("one stays");
        scene.copies.adopt(two, 1_020, 1_020);
        scene.copies.adopt(two, 2_010, 2_015);
        let mut write = Write::unannounced(0, 2);
        write.on_sent(Members::of(0), 2_016);
        write.on_acked(0, 1);
        assert_eq!(scene.next(&mut write, 2_500), Step::TooFew);
    }

    /// The same with the table alone in sync.
    fn scene_of_table() -> Scene {
        let mut scene = scene();
        scene.list = Copies::new(Members::of(TABLE), [1, 1, 1, 0, 0, 0]);
        scene.copies = Known::new(TIMING);
        scene.copies.adopt(scene.list, 1_010, 1_010);
        scene
    }

    #[test]
    fn the_table_alone_is_enough_for_any_level_while_it_is_in_sync() {
        let mut scene = scene_of_table();
        let mut write = Write::unannounced(0, 3);
        let table = Members::of(TABLE);
        assert_eq!(scene.next(&mut write, 1_010), Step::Send(table));
        write.on_sent(table, 1_010);
        assert_eq!(scene.next(&mut write, 2_009), Step::Wait, "it is not late");
        assert_eq!(write.late(&scene.copies, 2_009), Members::EMPTY);
        write.on_acked(TABLE, 0);
        assert_eq!(scene.next(&mut write, 2_009), Step::Acknowledge);
        assert_eq!(write.acked(&scene.copies, 2_009), Members::EMPTY);
        let joining = scene.list.join(1, 4).expect("it is out");
        scene.copies.adopt(joining, 1_900, 1_900);
        let step = scene.next(&mut write, 2_009);
        assert_eq!(step, Step::Send(Members::of(1)), "who joins is waited for");
    }

    #[test]
    fn a_table_that_was_emptied_while_it_was_out_is_sent_the_write_again() {
        let mut scene = scene_of_table();
        let joined = scene.list.join(0, 1).and_then(|list| list.promote(0, 2));
        scene.list = joined.expect("it joins");
        scene.copies.adopt(scene.list, 1_020, 1_020);
        let mut write = Write::unannounced(0, 1);
        write.on_sent(Members::of(0).with(TABLE), 1_020);
        write.on_acked(TABLE, 0);
        assert_eq!(scene.next(&mut write, 1_030), Step::Wait);
        let out = scene.list.evict(TABLE).expect("a copy is in sync");
        scene.copies.adopt(out, 1_040, 1_040);
        assert_eq!(scene.next(&mut write, 1_050), Step::Wait);
        let back = out.join(TABLE, 0).expect("it is out");
        scene.copies.adopt(back, 1_060, 1_060);
        let step = scene.next(&mut write, 1_060);
        assert_eq!(step, Step::Send(Members::of(TABLE)));
        write.on_sent(Members::of(TABLE), 1_060);
        write.on_acked(TABLE, 0);
        write.on_acked(0, 1);
        assert_eq!(scene.next(&mut write, 1_060), Step::Acknowledge);
    }

    #[test]
    fn a_table_that_joins_or_has_left_is_waited_for_and_is_none_of_the_copies() {
        let mut scene = scene();
        let joining = scene.list.join(TABLE, 0).expect("it is out");
        scene.copies.adopt(joining, 1_020, 1_020);
        let mut write = Write::unannounced(0, 3);
        write.on_sent(Members::first(3).with(TABLE), 1_020);
        for copy in [0, 1] {
            write.on_acked(copy, 1);
        }
        write.on_acked(TABLE, 0);
        let late = write.late(&scene.copies, 1_500);
        assert_eq!(late, Members::of(2));
        let less = joining.evict(2).expect("others are in sync");
        scene.copies.adopt(less, 1_510, 1_510);
        scene.copies.adopt(less, 2_500, 2_510);
        assert_eq!(scene.next(&mut write, 2_600), Step::TooFew);
        let gone = less.promote(TABLE, 2).and_then(|list| list.evict(TABLE));
        let gone = gone.expect("it comes and goes");
        scene.copies.adopt(gone, 2_700, 2_710);
        scene.copies.adopt(gone, 3_600, 3_610);
        let two = Proxies::new(Members::first(2), [0; PROXIES_MAX]);
        scene.proxies.adopt(two, 3_600, 3_610);
        let mut next = Write::unannounced(0, 2);
        let step = scene.next(&mut next, 3_700);
        assert_eq!(step, Step::Send(Members::first(2).with(TABLE)));
        scene.copies.adopt(gone, 3_700, 3_710);
        let step = scene.next(&mut next, 3_710);
        assert_eq!(step, Step::Send(Members::first(2)), "nobody reads it");
    }
}
