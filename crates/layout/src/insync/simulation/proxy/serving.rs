//! Reads and writes.

use super::super::super::list::{COPIES_MAX, LISTED_MAX, List, TABLE};
use super::super::super::marks::Notice;
use super::super::super::members::Members;
use super::super::super::read::{Read, Verdict};
use super::super::super::write::{Step, Write};
use super::super::{Bug, Cell, Guarantee, bucket_of};
use super::by_table::Way;
use super::{Ask, Kind, Merge, Message, NEEDED, Out, Pending, PendingRead, Proxy, Purpose};

impl Proxy {
    pub(in super::super) fn write(&mut self, client: u64, key: usize, cell: Cell, now_us: u64) {
        match self.way(now_us) {
            Some(Way::Lists) => {}
            Some(Way::Table) => {
                let purpose = Purpose::WriteByTable { client };
                return self.ask(TABLE, Ask::Write(key, cell), purpose, now_us);
            }
            None => return,
        }
        let write = self.begin_write(key, cell, Kind::Client(client), now_us);
        self.drive(write, now_us);
    }

    pub(in super::super) fn repair(&mut self, key: usize, cell: Cell, now_us: u64) -> u64 {
        let write = self.begin_write(key, cell, Kind::Repair, now_us);
        self.drive(write, now_us);
        write
    }

    pub(in super::super) fn is_writing(&self, write: u64) -> bool {
        self.writes.contains_key(&write)
    }

    pub(super) fn begin_write(&mut self, key: usize, cell: Cell, kind: Kind, now_us: u64) -> u64 {
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

    pub(super) fn drive(&mut self, id: u64, now_us: u64) {
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
                Some(Bug::JoiningNotWaitedFor | Bug::TableNotWaitedForWhileJoining) => {
                    &self.copies_misread
                }
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

    pub(super) fn end(&mut self, id: u64, acknowledged: bool, now_us: u64) {
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

    pub(in super::super) fn read(&mut self, client: u64, key: usize, now_us: u64) {
        let pending = PendingRead {
            key,
            read: None,
            begun_us: now_us,
            avoided: Members::EMPTY,
        };
        self.reads.insert(client, pending);
        self.try_read(client, now_us);
    }

    pub(super) fn try_read(&mut self, client: u64, now_us: u64) {
        let mut preferred: [u8; LISTED_MAX] = std::array::from_fn(|copy| copy as u8);
        for place in 1..COPIES_MAX {
            preferred.swap(place, self.rng.below(place + 1));
        }
        // The product reads the table whenever it may.
        if self.has_command && self.rng.below(2) == 0 {
            preferred.rotate_right(1);
        }
        let way = self.way(now_us);
        let judged_us = self.read_at_us(None, now_us);
        let Some(pending) = self.reads.get_mut(&client) else {
            return;
        };
        pending.begun_us = now_us;
        let key = pending.key;
        if way != Some(Way::Lists) {
            pending.read = None;
            if way == Some(Way::Table) {
                self.read_by_table(client, key, now_us);
            }
            return;
        }
        pending.read = Read::begin(
            &self.copies,
            &self.proxies,
            self.slot,
            &preferred,
            pending.avoided,
            judged_us,
        );
        match pending.read {
            Some(read) => {
                let purpose = Purpose::Read { read: client };
                self.ask(read.copy(), Ask::Read(key), purpose, now_us);
            }
            None => pending.avoided = Members::EMPTY,
        }
    }

    pub(super) fn on_read(&mut self, client: u64, boot: u32, cell: Cell, now_us: u64) {
        let Some(pending) = self.reads.get(&client) else {
            return;
        };
        let key = pending.key;
        let Some(read) = pending.read else {
            return;
        };
        let copy = read.copy();
        let list = self.copies.last_read();
        let (listed_boot, since) = list.map_or((0, 0), |list| (list.boot(copy), list.since(copy)));
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
            self.read_at_us(Some(copy), now_us),
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
                    answers: vec![(copy, boot, cell)],
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
    pub(super) fn finish_merge(&mut self, client: u64, now_us: u64) {
        let done = |merge: &Merge| merge.waiting == 0;
        if !self.merges.get(&client).is_some_and(done) {
            return;
        }
        let Some(merge) = self.merges.remove(&client) else {
            return;
        };
        let cells = merge.answers.iter().map(|answer| answer.2);
        let cell = cells.max().unwrap_or_default();
        let by = merge.by;
        let write = self.begin_write(merge.key, cell, Kind::WriteBack { client, by }, now_us);
        if let Some(pending) = self.writes.get_mut(&write) {
            let have = merge.answers.iter().filter(|answer| answer.2 == cell);
            have.for_each(|(copy, boot, _)| pending.write.on_acked(*copy, *boot));
        }
        self.drive(write, now_us);
    }
}
