//! One start of a proxy: what an engine and its control side will do with the module.

mod by_table;
mod lists;
mod serving;

use std::collections::BTreeMap;

use super::super::intents::{BitChange, Intents};
use super::super::join::Join;
use super::super::known::Known;
use super::super::list::{Copies, LISTED_MAX, PROXIES_MAX, State};
use super::super::marks::{Marks, Notice};
use super::super::members::Members;
use super::super::read::Read;
use super::super::write::Write;
use super::catalogue::{Answer, Request};
use super::checks::By;
use super::comparing::{Comparing, Resync};
use super::handover::Stage;
use super::{BUCKETS, Bug, Cell, Guarantee, SECOND, Setup};
use crate::rng::Rng;

/// QUORUM of two copies, or of three.
const NEEDED: usize = 2;
/// For how long an answer of a node is waited for before the request is sent again.
const NODE_TIMEOUT_US: u64 = 150_000;
/// That of a client's write to the table.
const WRITE_TIMEOUT_US: u64 = 5 * SECOND;
const CATALOGUE_TIMEOUT_US: u64 = SECOND;
const RENEWAL_US: u64 = 250_000;
const IDLE_US: u64 = 400_000;
/// A proxy without a sign of life for so long is evicted.
const SILENT_US: u64 = 2 * SECOND;

#[derive(Clone, Copy, Debug)]
pub(super) enum Ask {
    Read(usize),
    Write(usize, Cell),
    /// Of all replicas, where there are several.
    ReadAll(usize),
    WriteAll(usize, Cell),
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
    Stage,
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
    /// Of the table, past the lists.
    WriteByTable {
        client: u64,
    },
    ReadByTable {
        client: u64,
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
    answers: Vec<(usize, u32, Cell)>,
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
    pub(super) copies: Known<LISTED_MAX>,
    /// Without those that are joining, for a bug.
    copies_misread: Known<LISTED_MAX>,
    /// What a command does with the table, if there is one, until when that is relied on, and when it was asked for.
    stage: Option<Stage>,
    stage_until_us: u64,
    stage_asked_us: u64,
    has_command: bool,
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
        let timing = setup.timing;
        Proxy {
            slot,
            bug: setup.bug,
            guarantee: setup.guarantee,
            read_timeout_us: setup.read_timeout_us,
            copies: Known::new(timing),
            copies_misread: Known::new(timing),
            stage: None,
            stage_until_us: 0,
            stage_asked_us: 0,
            has_command: setup.task.is_some(),
            proxies: Known::new(timing),
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

    fn renew(&mut self, for_join: bool, now_us: u64) {
        self.renewed_us = now_us;
        let proxy = self.slot;
        self.catalogue(Request::Read { proxy }, Purpose::Renew { for_join }, now_us);
    }

    pub(super) fn on_copy(&mut self, token: u64, boot: u32, cell: Cell, now_us: u64) {
        let Some((purpose, _)) = self.waiting.remove(&token) else {
            return;
        };
        match purpose {
            Purpose::Write { write, copy } => {
                self.note_boot(copy, boot);
                if let Some(pending) = self.writes.get_mut(&write) {
                    pending.write.on_acked(copy, boot);
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
                    merge.answers.push((copy, boot, cell));
                    merge.waiting -= 1;
                    self.finish_merge(client, now_us);
                }
            }
            Purpose::WriteByTable { client } => self.out.push(Out::Acknowledged { client }),
            Purpose::ReadByTable { client } => self.on_read_by_table(client, cell),
            Purpose::Probe { .. } if !self.lets_copies_join(now_us) => {}
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

    pub(super) fn note_boot(&mut self, copy: usize, boot: u32) {
        if let Some(list) = self.copies.last_read()
            && list.boot(copy) != boot
        {
            self.restarted = self.restarted.with(copy);
        }
    }

    pub(super) fn on_catalogue(&mut self, token: u64, answer: &Answer, now_us: u64) {
        let Some((purpose, sent_us)) = self.waiting.remove(&token) else {
            return;
        };
        if let Purpose::Stage = purpose {
            return self.adopt_stage(answer.stage, sent_us, now_us);
        }
        if let Purpose::Bit(change) = purpose {
            self.intents.on_changed(change);
        }
        let for_join = matches!(purpose, Purpose::Renew { for_join: true });
        self.proxies.adopt(answer.proxies, sent_us, now_us);
        if answer.stage.has_lists() {
            self.adopt(answer.copies, sent_us, now_us);
        }
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

    pub(super) fn tick(&mut self, now_us: u64) {
        self.expire(now_us);
        let renewing = self.is_waiting(|p| matches!(p, Purpose::Renew { .. }));
        if !renewing && now_us >= self.renewed_us + RENEWAL_US {
            self.renew(false, now_us);
        }
        self.look_after_stage(now_us);
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
                Purpose::Renew { .. } | Purpose::Stage => CATALOGUE_TIMEOUT_US,
                Purpose::Bit(_) | Purpose::ClearLeft { .. } => CATALOGUE_TIMEOUT_US,
                Purpose::ChangeCopies(_) | Purpose::ChangeProxies => CATALOGUE_TIMEOUT_US,
                Purpose::Read { .. } => self.read_timeout_us,
                Purpose::WriteByTable { .. } => WRITE_TIMEOUT_US,
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
                self.adopt(list, sent_us, now_us);
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
            // Its client hears nothing of it.
            Purpose::WriteByTable { .. } => {}
            Purpose::ReadByTable { client } => self.try_read(client, now_us),
            Purpose::Probe { .. } | Purpose::Stage => {}
        }
    }
}
