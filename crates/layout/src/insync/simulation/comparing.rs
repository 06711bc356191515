//! A proxy's work on copies that join and on buckets that others have left.

use super::super::join::{Join, JoinStep};
use super::super::members::Members;
use super::proxy::{Ask, Out, Proxy, Purpose};
use super::{Bug, Cell, KEYS, bucket_of};

pub(super) struct Comparing {
    join: Join,
    under_way: Option<Comparison>,
}

struct Comparison {
    source: usize,
    /// Of the source and of the newcomer.
    cells: [[Option<Cell>; 2]; KEYS],
    /// Written to the newcomer.
    copied_over: [bool; KEYS],
    repairs: Vec<u64>,
}

/// A bucket of a proxy that is gone.
pub(super) struct Resync {
    bucket: usize,
    timestamp: u64,
    listed: Members,
    answers: Vec<(usize, usize, Cell)>,
    repairs: Option<Vec<u64>>,
    cleared: bool,
}

impl Proxy {
    pub(super) fn carry_on_with(&mut self, newcomer: usize, now_us: u64) {
        let known_us = if self.has(Bug::ComparedBeforeAllWait) {
            0
        } else {
            now_us
        };
        if !self.comparing.contains_key(&newcomer) {
            let Some(join) = Join::begin(&self.copies, newcomer, known_us) else {
                return;
            };
            let under_way = None;
            self.comparing
                .insert(newcomer, Comparing { join, under_way });
        }
        let skipped = self.has(Bug::PromotedWithoutComparison);
        let Some(comparing) = self.comparing.get_mut(&newcomer) else {
            return;
        };
        let Some(list) = self.copies.last_read().copied() else {
            return;
        };
        match comparing.join.next(&self.copies, now_us) {
            JoinStep::Wait => {}
            JoinStep::Over => {
                self.comparing.remove(&newcomer);
            }
            JoinStep::Promote => {
                let promoted = list.promote(newcomer, comparing.join.since());
                self.change_copies(promoted, now_us);
            }
            JoinStep::Compare if skipped => comparing.join.on_compared(list.boot(newcomer)),
            JoinStep::Compare if comparing.under_way.is_none() => {
                self.compare(newcomer, now_us);
            }
            JoinStep::Compare => self.finish_comparison(newcomer),
        }
    }

    fn compare(&mut self, newcomer: usize, now_us: u64) {
        let list = self.copies.list(now_us);
        let source = list.and_then(|list| list.in_sync().iter().next());
        let (Some(source), Some(comparing)) = (source, self.comparing.get_mut(&newcomer)) else {
            return;
        };
        comparing.under_way = Some(Comparison {
            source,
            cells: [[None; 2]; KEYS],
            copied_over: [false; KEYS],
            repairs: Vec::new(),
        });
        for key in 0..KEYS {
            for copy in [source, newcomer] {
                let purpose = Purpose::Compare {
                    newcomer,
                    key,
                    copy,
                };
                self.ask(copy, Ask::ReadAll(key), purpose, now_us);
            }
        }
    }

    pub(super) fn compare_again(&mut self, newcomer: usize) {
        if let Some(comparing) = self.comparing.get_mut(&newcomer) {
            comparing.under_way = None;
        }
    }

    pub(super) fn on_compared(&mut self, purpose: Purpose, boot: u32, cell: Cell, now_us: u64) {
        let (newcomer, key, copy) = match purpose {
            Purpose::Compare {
                newcomer,
                key,
                copy,
            } => (newcomer, key, copy),
            Purpose::CopyOver { newcomer, key } => (newcomer, key, newcomer),
            _ => return,
        };
        let Some(list) = self.copies.last_read().copied() else {
            return;
        };
        self.note_boot(copy, boot);
        let ignored = self.has(Bug::RestartIgnored);
        let one_way = self.has(Bug::ComparedOneWay);
        let Some(comparing) = self.comparing.get_mut(&newcomer) else {
            return;
        };
        let Some(comparison) = &mut comparing.under_way else {
            return;
        };
        if list.boot(copy) != boot && !ignored {
            comparing.under_way = None;
            return;
        }
        if let Purpose::CopyOver { .. } = purpose {
            comparison.copied_over[key] = true;
            return;
        }
        comparison.cells[key][usize::from(copy == newcomer)] = Some(cell);
        let [Some(of_source), Some(of_newcomer)] = comparison.cells[key] else {
            return;
        };
        if of_source > of_newcomer {
            let purpose = Purpose::CopyOver { newcomer, key };
            self.ask(newcomer, Ask::WriteAll(key, of_source), purpose, now_us);
            return;
        }
        comparison.copied_over[key] = true;
        if of_newcomer > of_source && !one_way {
            let write = self.repair(key, of_newcomer, now_us);
            self.out.push(Out::CompletedByNewcomer);
            let comparing = self.comparing.get_mut(&newcomer);
            if let Some(comparison) = comparing.and_then(|c| c.under_way.as_mut()) {
                comparison.repairs.push(write);
            }
        }
    }

    fn finish_comparison(&mut self, newcomer: usize) {
        let Some(boot) = self.copies.last_read().map(|list| list.boot(newcomer)) else {
            return;
        };
        let done = |comparison: &Comparison| {
            let compared = comparison.cells.iter().flatten().all(Option::is_some);
            let copied = comparison.copied_over.iter().all(|done| *done);
            let repaired = comparison
                .repairs
                .iter()
                .all(|write| !self.is_writing(*write));
            compared && copied && repaired
        };
        let comparing = self.comparing.get(&newcomer);
        let is_done = comparing
            .and_then(|c| c.under_way.as_ref())
            .is_some_and(done);
        if let Some(comparing) = self.comparing.get_mut(&newcomer).filter(|_| is_done) {
            debug_assert!(
                comparing
                    .under_way
                    .as_ref()
                    .is_some_and(|c| c.source != newcomer)
            );
            comparing.join.on_compared(boot);
        }
    }

    pub(super) fn resynchronise(&mut self, now_us: u64) {
        for (gone, bucket, timestamp) in self.bits.clone() {
            let known = self.resyncs.contains_key(&gone);
            if known || gone == self.slot || !self.proxies.is_gone(gone, now_us) {
                continue;
            }
            let Some(listed) = self.copies.list(now_us).map(|list| list.listed()) else {
                return;
            };
            let resync = Resync {
                bucket,
                timestamp,
                listed,
                answers: Vec::new(),
                repairs: None,
                cleared: false,
            };
            self.resyncs.insert(gone, resync);
            for key in (0..KEYS).filter(|key| bucket_of(*key) == bucket) {
                for copy in listed.iter() {
                    let purpose = Purpose::Resync { gone, key, copy };
                    self.ask(copy, Ask::ReadAll(key), purpose, now_us);
                }
            }
        }
        let bits = self.bits.clone();
        self.resyncs.retain(|gone, resync| {
            let left = |bit: &(usize, usize, u64)| (bit.0, bit.1) == (*gone, resync.bucket);
            bits.iter().any(left)
        });
        let all: Vec<usize> = self.resyncs.keys().copied().collect();
        all.into_iter()
            .for_each(|gone| self.finish_resync(gone, now_us));
    }

    pub(super) fn on_resync(&mut self, gone: usize, key: usize, copy: usize, cell: Cell) {
        if let Some(resync) = self.resyncs.get_mut(&gone) {
            resync.answers.push((key, copy, cell));
        }
    }

    fn finish_resync(&mut self, gone: usize, now_us: u64) {
        let Some(resync) = self.resyncs.get_mut(&gone) else {
            return;
        };
        let (bucket, timestamp) = (resync.bucket, resync.timestamp);
        let keys: Vec<usize> = (0..KEYS).filter(|key| bucket_of(*key) == bucket).collect();
        if let Some(repairs) = resync.repairs.clone() {
            if !resync.cleared && repairs.iter().all(|write| !self.is_writing(*write)) {
                self.out.push(Out::Resynchronised);
                self.clear_left(gone, bucket, timestamp + 1, now_us);
                if let Some(resync) = self.resyncs.get_mut(&gone) {
                    resync.cleared = true;
                }
            }
            return;
        }
        if resync.answers.len() < keys.len() * resync.listed.len() {
            return;
        }
        let answers = std::mem::take(&mut resync.answers);
        let mut repairs = Vec::new();
        for key in keys {
            let of_key = answers.iter().filter(|answer| answer.0 == key);
            let greatest = of_key.map(|answer| answer.2).max().unwrap_or_default();
            if greatest != Cell::default() {
                repairs.push(self.repair(key, greatest, now_us));
            }
        }
        if let Some(resync) = self.resyncs.get_mut(&gone) {
            resync.repairs = Some(repairs);
        }
    }
}
