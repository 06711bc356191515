//! One start of a proxy: what an engine and its control side will do with the module.

use std::collections::BTreeMap;

use super::super::intents::{BitChange, Intents};
use super::super::join::{Join, JoinStep};
use super::super::known::Known;
use super::super::list::{COPIES_MAX, Copies, List, PROXIES_MAX, Proxies, Refused, State};
use super::super::marks::{Marks, Notice};
use super::super::members::Members;
use super::super::read::{Read, Verdict};
use super::super::write::{Step, Write};
use super::catalogue::{Answer, Request};
use super::checks::By;
use super::comparing::{Comparing, Resync};
use super::{BUCKETS, Bug, Cell, Guarantee, SECOND, Setup, bucket_of};
use crate::rng::Rng;

/// QUORUM of two copies, or of three.
const NEEDED: usize = 2;
/// For how long an answer of a node is waited for before the request is sent again.
const NODE_TIMEOUT_US: u64 = 150_000;
const CATALOGUE_TIMEOUT_US: u64 = SECOND;
const RENEWAL_US: u64 = 250_000;
const IDLE_US: u64 = 400_000;
/// A proxy without a sign of life for so long is evicted.
const SILENT_US: u64 = 2 * SECOND;

#[derive(Clone, Copy, Debug)]
pub(super) enum Ask {
    Read(usize),
    Write(usize, Cell),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Notice { write: u64, notice: Notice },
    Knows { write: u64 },
}

/// What it wants from the world.
#[derive(Clone, Copy, Debug)]
pub(super) enum Out {
    Copy {
        token: u64,
        copy: usize,
        ask: Ask,
    },
    Catalogue {
        token: u64,
        request: Request,
    },
    Proxy {
        to: usize,
        message: Message,
    },
    Acknowledged {
        client: u64,
    },
    Answered {
        client: u64,
        cell: Cell,
        by: By,
    },
    /// A read found all copies alike.
    Merged,
    WrittenBack,
    Resynchronised,
    CompletedByNewcomer,
    /// It was evicted: it starts anew.
    Restart,
}

/// What an answer is to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Renew {
        for_join: bool,
    },
    ChangeCopies(Copies),
    ChangeProxies,
    Bit(BitChange),
    /// Of a proxy that is gone.
    ClearLeft {
        proxy: usize,
    },
    Write {
        write: u64,
        copy: usize,
    },
    Read {
        read: u64,
    },
    Merge {
        client: u64,
        copy: usize,
    },
    Probe {
        copy: usize,
    },
    Compare {
        newcomer: usize,
        key: usize,
        copy: usize,
    },
    CopyOver {
        newcomer: usize,
        key: usize,
    },
    Resync {
        gone: usize,
        key: usize,
        copy: usize,
    },
}

struct Pending {
    key: usize,
    cell: Cell,
    write: Write,
    acked: Members,
    kind: Kind,
    /// It counts as pending in its bucket.
    intended: bool,
    number: u64,
    told_at_us: u64,
    begun_us: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Client(u64),
    WriteBack { client: u64, by: By },
    Repair,
}

/// A read of all copies.
struct Merge {
    key: usize,
    by: By,
    answers: Vec<(usize, Cell)>,
    waiting: usize,
}

struct PendingRead {
    key: usize,
    read: Option<Read>,
    begun_us: u64,
    avoided: Members,
}

pub(super) struct Proxy {
    pub(super) slot: usize,
    pub(super) bug: Option<Bug>,
    guarantee: Guarantee,
    read_timeout_us: u64,
    pub(super) copies: Known<COPIES_MAX>,
    /// Without those that are joining, for a bug.
    copies_misread: Known<COPIES_MAX>,
    pub(super) proxies: Known<PROXIES_MAX>,
    lease_until_us: u64,
    marks: Marks,
    intents: Intents,
    tokens: u64,
    waiting: BTreeMap<u64, (Purpose, u64)>,
    writes: BTreeMap<u64, Pending>,
    reads: BTreeMap<u64, PendingRead>,
    merges: BTreeMap<u64, Merge>,
    listed: bool,
    join: Option<Join>,
    bits_asked_for: bool,
    pub(super) comparing: BTreeMap<usize, Comparing>,
    pub(super) resyncs: BTreeMap<usize, Resync>,
    pub(super) bits: Vec<(usize, usize, u64)>,
    beats: BTreeMap<usize, (u64, u64)>,
    renewed_us: u64,
    number: u64,
    restarted: Members,
    pub(super) out: Vec<Out>,
    rng: Rng,
}

impl Proxy {
    pub(super) fn new(slot: usize, setup: &Setup, seed: u64) -> Proxy {
        let mut timing = setup.timing;
        if setup.bug == Some(Bug::DriftIgnored) {
            timing.drift_ppm = 0;
        }
        let mut of_proxies = timing;
        if setup.bug == Some(Bug::ResynchronisedEarly) {
            of_proxies.late_us = 0;
        }
        Proxy {
            slot,
            bug: setup.bug,
            guarantee: setup.guarantee,
            read_timeout_us: setup.read_timeout_us,
            copies: Known::new(timing),
            copies_misread: Known::new(timing),
            proxies: Known::new(of_proxies),
            lease_until_us: 0,
            marks: Marks::new(BUCKETS),
            intents: Intents::new(BUCKETS),
            tokens: 0,
            waiting: BTreeMap::new(),
            writes: BTreeMap::new(),
            reads: BTreeMap::new(),
            merges: BTreeMap::new(),
            listed: false,
            join: None,
            bits_asked_for: false,
            comparing: BTreeMap::new(),
            resyncs: BTreeMap::new(),
            bits: Vec::new(),
            beats: BTreeMap::new(),
            renewed_us: 0,
            number: 0,
            restarted: Members::EMPTY,
            out: Vec::new(),
            rng: Rng::new(seed),
        }
    }

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(super) fn serves(&self) -> bool {
        let list = self.proxies.last_read();
        list.is_some_and(|list| list.state(self.slot) == State::InSync)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.serves() && self.writes.is_empty() && self.comparing.is_empty()
    }

    pub(super) fn token(&mut self, purpose: Purpose, now_us: u64) -> u64 {
        self.tokens += 1;
        self.waiting.insert(self.tokens, (purpose, now_us));
        self.tokens
    }

    pub(super) fn ask(&mut self, copy: usize, ask: Ask, purpose: Purpose, now_us: u64) {
        let token = self.token(purpose, now_us);
        self.out.push(Out::Copy { token, copy, ask });
    }

    fn catalogue(&mut self, request: Request, purpose: Purpose, now_us: u64) {
        let token = self.token(purpose, now_us);
        self.out.push(Out::Catalogue { token, request });
    }

    fn is_waiting(&self, wanted: impl Fn(&Purpose) -> bool) -> bool {
        self.waiting.values().any(|(purpose, _)| wanted(purpose))
    }

    pub(super) fn change_copies(&mut self, list: Result<Copies, Refused>, now_us: u64) {
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

    fn change_proxies(&mut self, list: Result<Proxies, Refused>, now_us: u64) {
        if let Ok(list) = list
            && !self.is_waiting(|purpose| matches!(purpose, Purpose::ChangeProxies))
        {
            self.catalogue(Request::ChangeProxies(list), Purpose::ChangeProxies, now_us);
        }
    }

    fn renew(&mut self, for_join: bool, now_us: u64) {
        self.renewed_us = now_us;
        let proxy = self.slot;
        self.catalogue(Request::Read { proxy }, Purpose::Renew { for_join }, now_us);
    }

    // ---- what clients want

    pub(super) fn write(&mut self, client: u64, key: usize, cell: Cell, now_us: u64) {
        let write = self.begin_write(key, cell, Kind::Client(client), now_us);
        self.drive(write, now_us);
    }

    pub(super) fn repair(&mut self, key: usize, cell: Cell, now_us: u64) -> u64 {
        let write = self.begin_write(key, cell, Kind::Repair, now_us);
        self.drive(write, now_us);
        write
    }

    pub(super) fn is_writing(&self, write: u64) -> bool {
        self.writes.contains_key(&write)
    }

    fn begin_write(&mut self, key: usize, cell: Cell, kind: Kind, now_us: u64) -> u64 {
        self.number += 1;
        let announces = self.guarantee == Guarantee::AllCopies && !self.has(Bug::SentBeforeTold);
        let write = if announces {
            Write::new(self.slot, NEEDED)
        } else {
            Write::unannounced(self.slot, NEEDED)
        };
        let pending = Pending {
            key,
            cell,
            write,
            acked: Members::EMPTY,
            kind,
            intended: false,
            number: self.number,
            told_at_us: 0,
            begun_us: now_us,
        };
        self.writes.insert(self.number, pending);
        self.number
    }

    fn change_bit(&mut self, change: BitChange, now_us: u64) {
        let request = Request::SetBit {
            proxy: self.slot,
            bucket: change.bucket,
            timestamp: change.number,
            set: change.set,
        };
        self.catalogue(request, Purpose::Bit(change), now_us);
    }

    pub(super) fn clear_left(&mut self, gone: usize, bucket: usize, timestamp: u64, now_us: u64) {
        let request = Request::SetBit {
            proxy: gone,
            bucket,
            timestamp,
            set: false,
        };
        self.catalogue(request, Purpose::ClearLeft { proxy: gone }, now_us);
    }

    fn drive(&mut self, id: u64, now_us: u64) {
        loop {
            let Some(pending) = self.writes.get_mut(&id) else {
                return;
            };
            let bucket = bucket_of(pending.key);
            let recorded = pending.intended && self.intents.is_recorded(bucket);
            let recorded = recorded || pending.intended && self.bug == Some(Bug::NoIntent);
            let mut judged_us = now_us;
            if self.bug == Some(Bug::AcknowledgedWithoutLease) {
                judged_us = now_us.min(self.lease_until_us.saturating_sub(1));
            }
            let copies = match self.bug {
                Some(Bug::JoiningNotWaitedFor) => &self.copies_misread,
                _ => &self.copies,
            };
            let mut step = pending
                .write
                .next(copies, &self.proxies, recorded, judged_us);
            if self.bug == Some(Bug::AcknowledgedAtQuorum) && pending.acked.len() >= NEEDED {
                step = Step::Acknowledge;
            }
            match step {
                Step::NoLease | Step::Wait | Step::TooFew => return,
                Step::Record if pending.intended => return,
                Step::Record => {
                    pending.intended = true;
                    if let Some(change) = self.intents.begin(bucket)
                        && !self.has(Bug::NoIntent)
                    {
                        self.change_bit(change, now_us);
                        return;
                    }
                }
                Step::Tell(members) => {
                    if members.contains(self.slot) {
                        pending.write.on_told(self.slot);
                        continue;
                    }
                    if now_us < pending.told_at_us + 50_000 {
                        return;
                    }
                    pending.told_at_us = now_us;
                    pending.write.on_telling(members, now_us);
                    let number = pending.number;
                    let notice = Notice::Busy { bucket, number };
                    for to in members.iter() {
                        let message = Message::Notice { write: id, notice };
                        self.out.push(Out::Proxy { to, message });
                    }
                    return;
                }
                Step::Send(members) => {
                    pending.write.on_sent(members, now_us);
                    let (key, cell) = (pending.key, pending.cell);
                    for copy in members.iter() {
                        let purpose = Purpose::Write { write: id, copy };
                        self.ask(copy, Ask::Write(key, cell), purpose, now_us);
                    }
                }
                Step::EvictProxy(proxy) => {
                    if now_us >= pending.told_at_us + 50_000 {
                        pending.told_at_us = now_us;
                        let number = pending.number;
                        let notice = Notice::Busy { bucket, number };
                        let message = Message::Notice { write: id, notice };
                        self.out.push(Out::Proxy { to: proxy, message });
                    }
                    let list = self.proxies.last_read().map(|list| list.evict(proxy));
                    list.into_iter()
                        .for_each(|list| self.change_proxies(list, now_us));
                    return;
                }
                Step::Evict(copy) => {
                    let list = self.copies.last_read().map(|list| list.evict(copy));
                    list.into_iter()
                        .for_each(|list| self.change_copies(list, now_us));
                    return;
                }
                Step::Acknowledge => return self.end(id, true, now_us),
            }
        }
    }

    fn end(&mut self, id: u64, acknowledged: bool, now_us: u64) {
        let Some(pending) = self.writes.remove(&id) else {
            return;
        };
        let bucket = bucket_of(pending.key);
        if pending.intended && self.intents.end(bucket, now_us) {
            let number = self.number;
            let notice = Notice::Quiet { bucket, number };
            let others = self.proxies.last_read().map(List::listed);
            for to in others.unwrap_or_default().iter() {
                let message = Message::Notice { write: id, notice };
                self.out.push(Out::Proxy { to, message });
            }
        }
        match pending.kind {
            _ if !acknowledged => {}
            Kind::Client(client) => self.out.push(Out::Acknowledged { client }),
            Kind::WriteBack { client, by } => {
                let cell = pending.cell;
                self.out.push(if pending.intended {
                    Out::WrittenBack
                } else {
                    Out::Merged
                });
                self.out.push(Out::Answered { client, cell, by });
            }
            Kind::Repair => {}
        }
    }

    pub(super) fn read(&mut self, client: u64, key: usize, now_us: u64) {
        let pending = PendingRead {
            key,
            read: None,
            begun_us: now_us,
            avoided: Members::EMPTY,
        };
        self.reads.insert(client, pending);
        self.try_read(client, now_us);
    }

    fn try_read(&mut self, client: u64, now_us: u64) {
        let mut preferred: [u8; COPIES_MAX] = std::array::from_fn(|copy| copy as u8);
        for place in 1..COPIES_MAX {
            preferred.swap(place, self.rng.below(place + 1));
        }
        let Some(pending) = self.reads.get_mut(&client) else {
            return;
        };
        pending.read = Read::begin(
            &self.copies,
            &self.proxies,
            self.slot,
            &preferred,
            pending.avoided,
            now_us,
        );
        pending.begun_us = now_us;
        let key = pending.key;
        match pending.read {
            Some(read) => {
                let purpose = Purpose::Read { read: client };
                self.ask(read.copy(), Ask::Read(key), purpose, now_us);
            }
            None => pending.avoided = Members::EMPTY,
        }
    }

    fn on_read(&mut self, client: u64, boot: u32, cell: Cell, now_us: u64) {
        let Some(pending) = self.reads.get(&client) else {
            return;
        };
        let (key, mut judged_us) = (pending.key, now_us);
        let Some(mut read) = pending.read else {
            return;
        };
        let copy = read.copy();
        if self.has(Bug::LeaseNotHeldWhenAnswerArrives) {
            judged_us = pending.begun_us;
        }
        let list = self.copies.last_read();
        let (listed_boot, since) = list.map_or((0, 0), |list| (list.boot(copy), list.since(copy)));
        if self.has(Bug::OutInBetweenIgnored) {
            let only = [copy as u8];
            let none = Members::EMPTY;
            let now = Read::begin(
                &self.copies,
                &self.proxies,
                self.slot,
                &only,
                none,
                judged_us,
            );
            read = now.unwrap_or(read);
        }
        let boot_seen = if self.has(Bug::RestartIgnored) {
            listed_boot
        } else {
            boot
        };
        let bucket = bucket_of(key);
        let unsettled = (self.marks.is_marked(bucket) || self.intents.is_pending(bucket))
            && !self.has(Bug::MarksIgnored);
        let verdict = read.judge(
            &self.copies,
            &self.proxies,
            self.slot,
            boot_seen,
            unsettled,
            judged_us,
        );
        let by = (copy, since);
        match verdict {
            Verdict::Again => self.try_read(client, now_us),
            Verdict::Answer => {
                self.reads.remove(&client);
                self.out.push(Out::Answered { client, cell, by });
            }
            Verdict::Merge => {
                self.reads.remove(&client);
                let others = self.copies.required(now_us).unwrap_or_default();
                let others = others.minus(Members::of(copy));
                let merge = Merge {
                    key,
                    by,
                    answers: vec![(copy, cell)],
                    waiting: others.len(),
                };
                self.merges.insert(client, merge);
                for copy in others.iter() {
                    self.ask(
                        copy,
                        Ask::Read(key),
                        Purpose::Merge { client, copy },
                        now_us,
                    );
                }
                self.finish_merge(client, now_us);
            }
        }
    }

    /// What is the greatest of the answers that have come is written to whoever does not have it.
    fn finish_merge(&mut self, client: u64, now_us: u64) {
        let done = |merge: &Merge| merge.waiting == 0;
        if !self.merges.get(&client).is_some_and(done) {
            return;
        }
        let Some(merge) = self.merges.remove(&client) else {
            return;
        };
        let cells = merge.answers.iter().map(|(_, cell)| *cell);
        let cell = cells.max().unwrap_or_default();
        let by = merge.by;
        let write = self.begin_write(merge.key, cell, Kind::WriteBack { client, by }, now_us);
        if let Some(pending) = self.writes.get_mut(&write) {
            let have = merge.answers.iter().filter(|answer| answer.1 == cell);
            have.for_each(|(copy, _)| pending.write.on_acked(*copy));
        }
        self.drive(write, now_us);
    }

    // ---- what comes in

    pub(super) fn on_copy(&mut self, token: u64, boot: u32, cell: Cell, now_us: u64) {
        let Some((purpose, _)) = self.waiting.remove(&token) else {
            return;
        };
        match purpose {
            Purpose::Write { write, copy } => {
                self.note_boot(copy, boot);
                if let Some(pending) = self.writes.get_mut(&write) {
                    pending.write.on_acked(copy);
                    pending.acked = pending.acked.with(copy);
                    self.drive(write, now_us);
                }
            }
            Purpose::Read { read } => {
                let copy = self.reads.get(&read).and_then(|pending| pending.read);
                if let Some(read) = copy {
                    self.note_boot(read.copy(), boot);
                }
                self.on_read(read, boot, cell, now_us);
            }
            Purpose::Merge { client, copy } => {
                self.note_boot(copy, boot);
                if let Some(merge) = self.merges.get_mut(&client) {
                    merge.answers.push((copy, cell));
                    merge.waiting -= 1;
                    self.finish_merge(client, now_us);
                }
            }
            Purpose::Probe { copy } => {
                let list = self.copies.last_read().map(|list| list.join(copy, boot));
                list.into_iter()
                    .for_each(|list| self.change_copies(list, now_us));
            }
            Purpose::Compare { .. } | Purpose::CopyOver { .. } => {
                self.on_compared(purpose, boot, cell, now_us);
            }
            Purpose::Resync { gone, key, copy } => self.on_resync(gone, key, copy, cell),
            _ => {}
        }
    }

    fn note_boot(&mut self, copy: usize, boot: u32) {
        if let Some(list) = self.copies.last_read()
            && list.boot(copy) != boot
        {
            self.restarted = self.restarted.with(copy);
        }
    }

    pub(super) fn on_catalogue(&mut self, token: u64, answer: &Answer, now_us: u64) {
        let Some((purpose, mut sent_us)) = self.waiting.remove(&token) else {
            return;
        };
        if self.has(Bug::LeaseFromTheAnswer) {
            sent_us = now_us;
        }
        if let Purpose::Bit(change) = purpose {
            self.intents.on_changed(change);
        }
        let for_join = matches!(purpose, Purpose::Renew { for_join: true });
        self.adopt(answer.copies, answer.proxies, sent_us, now_us);
        self.adopt_bits(answer, for_join, sent_us, now_us);
        for (proxy, beat) in &answer.beats {
            let known = self.beats.entry(*proxy).or_insert((*beat, now_us));
            if known.0 < *beat {
                *known = (*beat, now_us);
            }
        }
        let ids: Vec<u64> = self.writes.keys().copied().collect();
        ids.into_iter().for_each(|id| self.drive(id, now_us));
        self.look_after_myself(now_us);
    }

    fn adopt(&mut self, copies: Copies, proxies: Proxies, sent_us: u64, now_us: u64) {
        // As if it had been known for ever.
        let known_us = if self.has(Bug::EvictedNotWaitedFor) {
            0
        } else {
            now_us
        };
        self.copies.adopt(copies, sent_us, known_us);
        self.proxies.adopt(proxies, sent_us, now_us);
        let since = std::array::from_fn(|member| copies.since(member));
        let boot = std::array::from_fn(|member| copies.boot(member));
        let none = Members::EMPTY;
        let misread = List::from_parts(copies.version(), copies.in_sync(), none, since, boot);
        self.copies_misread.adopt(misread, sent_us, now_us);
        let lease_us = self.copies.timing().lease_us;
        self.lease_until_us = self.lease_until_us.max(sent_us + lease_us);
    }

    fn adopt_bits(&mut self, answer: &Answer, for_join: bool, sent_us: u64, now_us: u64) {
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
        if self.has(Bug::NewcomerReadsNoBits) && for_join {
            self.marks = Marks::new(BUCKETS);
        }
    }

    fn look_after_myself(&mut self, now_us: u64) {
        let Some(list) = self.proxies.last_read().copied() else {
            return;
        };
        match list.state(self.slot) {
            State::Out if self.listed => self.out.push(Out::Restart),
            State::Out => self.change_proxies(list.join(self.slot, 0), now_us),
            State::Joining => {
                self.listed = true;
                let known_us = if self.has(Bug::ReaderBeforeAllTellIt) {
                    0
                } else {
                    now_us
                };
                if self.join.is_none() {
                    self.join = Join::begin(&self.proxies, self.slot, known_us);
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

    pub(super) fn on_message(&mut self, from: usize, message: Message, now_us: u64) {
        match message {
            Message::Notice { write, notice } => {
                if self.marks.on_notice(from, notice, now_us) {
                    let message = Message::Knows { write };
                    self.out.push(Out::Proxy { to: from, message });
                }
            }
            Message::Knows { write } => {
                if let Some(pending) = self.writes.get_mut(&write) {
                    pending.write.on_told(from);
                    self.drive(write, now_us);
                }
            }
        }
    }

    // ---- what time brings

    pub(super) fn tick(&mut self, now_us: u64) {
        self.expire(now_us);
        let renewing = self.is_waiting(|p| matches!(p, Purpose::Renew { .. }));
        if !renewing && now_us >= self.renewed_us + RENEWAL_US {
            self.renew(false, now_us);
        }
        self.look_after_myself(now_us);
        if self.has(Bug::GivenUpWithItsClient) {
            let old = |pending: &Pending| {
                matches!(pending.kind, Kind::Client(_)) && now_us > pending.begun_us + 250_000
            };
            let ids = self.writes.iter().filter(|(_, pending)| old(pending));
            let ids: Vec<u64> = ids.map(|(id, _)| *id).collect();
            ids.into_iter().for_each(|id| self.end(id, false, now_us));
        }
        let ids: Vec<u64> = self.writes.keys().copied().collect();
        ids.into_iter().for_each(|id| self.drive(id, now_us));
        let idle = |pending: &PendingRead| pending.read.is_none();
        let reads = self.reads.iter().filter(|(_, pending)| idle(pending));
        let reads: Vec<u64> = reads.map(|(client, _)| *client).collect();
        reads
            .into_iter()
            .for_each(|client| self.try_read(client, now_us));
        if let Some(change) = self.intents.clear(IDLE_US, now_us) {
            self.change_bit(change, now_us);
        }
        if self.serves() {
            self.look_after_others(now_us);
        }
    }

    fn expire(&mut self, now_us: u64) {
        let late = |(purpose, sent_us): &(Purpose, u64)| {
            let after_us = match purpose {
                Purpose::Renew { .. } | Purpose::Bit(_) | Purpose::ClearLeft { .. } => {
                    CATALOGUE_TIMEOUT_US
                }
                Purpose::ChangeCopies(_) | Purpose::ChangeProxies => CATALOGUE_TIMEOUT_US,
                Purpose::Read { .. } => self.read_timeout_us,
                _ => NODE_TIMEOUT_US,
            };
            now_us > sent_us + after_us
        };
        let expired = self.waiting.iter().filter(|(_, waiting)| late(waiting));
        let expired: Vec<u64> = expired.map(|(token, _)| *token).collect();
        for token in expired {
            if let Some((purpose, sent_us)) = self.waiting.remove(&token) {
                self.on_expired(purpose, sent_us, now_us);
            }
        }
    }

    fn on_expired(&mut self, purpose: Purpose, sent_us: u64, now_us: u64) {
        match purpose {
            Purpose::Renew { .. } => self.bits_asked_for = false,
            Purpose::ChangeCopies(list) if self.has(Bug::TimedOutTakenForDone) => {
                if let Some(proxies) = self.proxies.last_read().copied() {
                    self.adopt(list, proxies, sent_us, now_us);
                }
            }
            // Read before acting.
            Purpose::ChangeCopies(_) | Purpose::ChangeProxies => self.renew(false, now_us),
            Purpose::Bit(change) => {
                if let Some(change) = self.intents.on_failed(change) {
                    self.change_bit(change, now_us);
                }
            }
            Purpose::Write { write, copy } => {
                if let Some(pending) = self.writes.get_mut(&write) {
                    pending.write.on_failed(copy);
                }
            }
            Purpose::Read { read } => {
                if let Some(pending) = self.reads.get_mut(&read) {
                    let copy = pending.read.map(|read| read.copy());
                    pending.avoided = copy.map_or(pending.avoided, |c| pending.avoided.with(c));
                    self.try_read(read, now_us);
                }
            }
            Purpose::Compare { newcomer, .. } | Purpose::CopyOver { newcomer, .. } => {
                self.compare_again(newcomer);
            }
            Purpose::Resync { gone, .. } | Purpose::ClearLeft { proxy: gone } => {
                self.resyncs.remove(&gone);
            }
            Purpose::Merge { client, .. } => {
                if let Some(merge) = self.merges.get_mut(&client) {
                    merge.waiting -= 1;
                    self.finish_merge(client, now_us);
                }
            }
            Purpose::Probe { .. } => {}
        }
    }

    fn look_after_others(&mut self, now_us: u64) {
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
}
