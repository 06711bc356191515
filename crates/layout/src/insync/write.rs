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
use super::list::{Copies, LISTED_MAX, PROXIES_MAX, State, TABLE};
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
    /// The version that had brought each member into its state when it was sent this the last time: in which membership.
    sent_since: [Option<u64>; LISTED_MAX],
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
            sent_since: [None; LISTED_MAX],
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
            self.note_memberships(list);
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
                None => {
                    self.note_sending(unsent, copies.last_read());
                    Step::Send(unsent)
                }
            };
        }
        let late = self.late(copies, now_us).iter().next();
        late.map_or(Step::Wait, Step::Evict)
    }

    /// Who comes back may have been emptied while it was out: what was sent to it before, and what it has acknowledged of
    /// that, does not count.
    fn note_memberships(&mut self, list: &Copies) {
        for member in self.sent.union(self.acked).iter() {
            let since = list.since(member);
            let before = *self.sent_since[member].get_or_insert(since);
            if before != since && list.state(member) != State::Out {
                let one = Members::of(member);
                (self.acked, self.sent) = (self.acked.minus(one), self.sent.minus(one));
                self.sent_since[member] = None;
            }
        }
    }

    fn note_sending(&mut self, members: Members, list: Option<&Copies>) {
        for member in members.iter() {
            self.sent_since[member] = list.map(|list| list.since(member));
        }
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
mod tests;
