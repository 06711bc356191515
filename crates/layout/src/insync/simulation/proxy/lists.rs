//! What the catalogue says, and what is to change in it.

use super::super::super::intents::BitChange;
use super::super::super::join::{Join, JoinStep};
use super::super::super::list::{
    COPIES_MAX, Copies, List, PROXIES_MAX, Proxies, Refused, State, TABLE,
};
use super::super::super::members::Members;
use super::super::catalogue::{Answer, Request};
use super::super::{BUCKETS, Bug};
use super::{Ask, Out, Proxy, Purpose, SILENT_US};

impl Proxy {
    pub(super) fn adopt(&mut self, copies: Copies, sent_us: u64, now_us: u64) {
        // As if it had been known for ever.
        let known_us = if self.has(Bug::EvictedNotWaitedFor) {
            0
        } else {
            now_us
        };
        self.copies.adopt(copies, sent_us, known_us);
        let since = std::array::from_fn(|member| copies.since(member));
        let boot = std::array::from_fn(|member| copies.boot(member));
        let joining = match self.has(Bug::TableNotWaitedForWhileJoining) {
            true => copies.joining().minus(Members::of(TABLE)),
            false => Members::EMPTY,
        };
        let (version, in_sync) = (copies.version(), copies.in_sync());
        let misread = List::from_parts(version, in_sync, joining, since, boot);
        self.copies_misread.adopt(misread, sent_us, now_us);
        let lease_us = self.copies.timing().lease_us;
        self.lease_until_us = self.lease_until_us.max(sent_us + lease_us);
    }

    pub(super) fn adopt_bits(
        &mut self,
        answer: &Answer,
        for_join: bool,
        sent_us: u64,
        now_us: u64,
    ) {
        self.bits.clone_from(&answer.bits);
        let Some(list) = self.proxies.last_read().copied() else {
            return;
        };
        for proxy in (0..PROXIES_MAX).filter(|proxy| *proxy != self.slot) {
            for bucket in 0..BUCKETS {
                let set = answer
                    .bits
                    .iter()
                    .any(|bit| (bit.0, bit.1) == (proxy, bucket));
                if !set {
                    self.marks.on_bit_clear(proxy, bucket, sent_us);
                } else if list.state(proxy) == State::Out || for_join {
                    self.marks.on_bit_set(proxy, bucket, now_us);
                }
            }
        }
        if for_join && let Some(join) = &mut self.join {
            join.on_compared(0);
        }
    }

    pub(super) fn look_after_myself(&mut self, now_us: u64) {
        let Some(list) = self.proxies.last_read().copied() else {
            return;
        };
        match list.state(self.slot) {
            State::Out if self.listed => self.out.push(Out::Restart),
            State::Out => self.change_proxies(list.join(self.slot, 0), now_us),
            State::Joining => {
                self.listed = true;
                if self.join.is_none() {
                    self.join = Join::begin(&self.proxies, self.slot, now_us);
                }
                let Some(join) = self.join else {
                    return;
                };
                match join.next(&self.proxies, now_us) {
                    JoinStep::Compare if !self.bits_asked_for => {
                        self.bits_asked_for = true;
                        self.renew(true, now_us);
                    }
                    JoinStep::Promote => {
                        self.change_proxies(list.promote(self.slot, join.since()), now_us);
                    }
                    _ => {}
                }
            }
            State::InSync => self.listed = true,
        }
    }

    pub(super) fn look_after_others(&mut self, now_us: u64) {
        let (Some(proxies), Some(copies)) = (self.proxies.last_read(), self.copies.last_read())
        else {
            return;
        };
        let (proxies, copies) = (*proxies, *copies);
        let others = proxies.listed().minus(Members::of(self.slot));
        for proxy in others.iter() {
            let beat = self.beats.entry(proxy).or_insert((0, now_us));
            if now_us > beat.1 + SILENT_US {
                self.change_proxies(proxies.evict(proxy), now_us);
            }
        }
        for copy in std::mem::take(&mut self.restarted).iter() {
            self.change_copies(copies.evict(copy), now_us);
        }
        for copy in 0..COPIES_MAX {
            let is_out = copies.state(copy) == State::Out && copies.since(copy) > 0;
            let is_out = is_out && self.lets_copies_join(now_us);
            let probing = |p: &Purpose| matches!(p, Purpose::Probe { copy: of } if *of == copy);
            if is_out && self.rng.below(16) == 0 && !self.is_waiting(probing) {
                self.ask(copy, Ask::Read(0), Purpose::Probe { copy }, now_us);
            }
        }
        for copy in copies.joining().iter() {
            self.carry_on_with(copy, now_us);
        }
        let joining = copies.joining();
        self.comparing.retain(|copy, _| joining.contains(*copy));
        self.resynchronise(now_us);
    }

    pub(in super::super) fn change_copies(&mut self, list: Result<Copies, Refused>, now_us: u64) {
        let list = match (list, self.copies.last_read()) {
            (Ok(list), _) => list,
            (Err(Refused::LastInSync(copy)), Some(known)) if self.has(Bug::LastEvicted) => {
                let since = std::array::from_fn(|member| known.since(member));
                let boot = std::array::from_fn(|member| known.boot(member));
                let in_sync = known.in_sync().minus(Members::of(copy));
                List::from_parts(known.version() + 1, in_sync, known.joining(), since, boot)
            }
            _ => return,
        };
        if !self.is_waiting(|purpose| matches!(purpose, Purpose::ChangeCopies(_))) {
            self.catalogue(
                Request::ChangeCopies(list),
                Purpose::ChangeCopies(list),
                now_us,
            );
        }
    }

    pub(super) fn change_proxies(&mut self, list: Result<Proxies, Refused>, now_us: u64) {
        if let Ok(list) = list
            && !self.is_waiting(|purpose| matches!(purpose, Purpose::ChangeProxies))
        {
            self.catalogue(Request::ChangeProxies(list), Purpose::ChangeProxies, now_us);
        }
    }

    pub(super) fn change_bit(&mut self, change: BitChange, now_us: u64) {
        let request = Request::SetBit {
            proxy: self.slot,
            bucket: change.bucket,
            timestamp: change.number,
            set: change.set,
        };
        self.catalogue(request, Purpose::Bit(change), now_us);
    }

    pub(in super::super) fn clear_left(
        &mut self,
        gone: usize,
        bucket: usize,
        timestamp: u64,
        now_us: u64,
    ) {
        let request = Request::SetBit {
            proxy: gone,
            bucket,
            timestamp,
            set: false,
        };
        self.catalogue(request, Purpose::ClearLeft { proxy: gone }, now_us);
    }
}
