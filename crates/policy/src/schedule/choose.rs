//! Chooses the next of all waiting items.

use std::cmp::Reverse;

use super::fair_queue::{FairQueue, Rank};
use super::floors::Floors;
use super::{Class, Job, Settings, Variant};

/// The state on which the choice depends.
pub(super) struct Choice<'a, T> {
    pub settings: &'a Settings,
    pub queues: &'a [FairQueue<T>; Class::COUNT],
    pub floors: &'a Floors,
    /// An item of the class waits and there is room for it.
    pub may_go: [bool; Class::COUNT],
    pub last_was_due_scan: bool,
    /// In P+RaS: the first arrival number at which it is some scan's turn.
    pub scan_turn: Option<u64>,
    pub now_us: u64,
}

impl<T: Copy> Choice<'_, T> {
    /// Class and arrival number of the next item, and whether it is chosen because it is due.
    pub(super) fn choose(&self) -> Option<(Class, u64, bool)> {
        let may_go = self.may_go;
        let other_than_scan = Class::ALL
            .into_iter()
            .any(|class| class != Class::Scan && may_go[class as usize]);
        let skip_scans = self.last_was_due_scan && other_than_scan;
        let classes = || {
            Class::ALL.into_iter().filter(move |&class| {
                may_go[class as usize] && !(skip_scans && class == Class::Scan)
            })
        };
        let due = classes().filter_map(|class| {
            let (seq, waiting) = self.queues[class as usize].oldest()?;
            let wait_us = self.settings.wait_max_us[class as usize];
            let due_us = waiting.arrived_us.saturating_add(wait_us / 2);
            let deadline_us = waiting.arrived_us.saturating_add(wait_us);
            (due_us <= self.now_us).then_some((deadline_us, class, seq))
        });
        if let Some((_, class, seq)) = due.min() {
            return Some((class, seq, true));
        }
        if self.floors.is_any_owed() {
            let owed = classes().filter_map(|class| {
                let queue = &self.queues[class as usize];
                let (_, seq) = queue.head()?;
                let owed = self.floors.owed(class, queue.get(seq)?.job.piece_us)?;
                Some((owed, Reverse(class), seq))
            });
            if let Some((_, Reverse(class), seq)) = owed.max() {
                return Some((class, seq, false));
            }
        }
        let heads = classes().filter_map(|class| {
            let (rank, seq) = self.queues[class as usize].head()?;
            Some((self.order(class, rank, seq), class, seq))
        });
        heads.min().map(|(_, class, seq)| (class, seq, false))
    }

    /// The key by which the heads of the classes compare: the smallest goes first.
    fn order(&self, class: Class, rank: Rank, seq: u64) -> (bool, u32, u8, u64) {
        match self.settings.variant {
            Variant::Default => (class != Class::System, rank.0, class as u8, seq),
            variant if variant.points_first() => (class == Class::Scan, 0, 0, seq),
            Variant::PRaS if class == Class::Scan => (false, 0, 0, self.scan_turn.unwrap_or(seq)),
            _ => (false, 0, 0, seq),
        }
    }
}

/// A scan's target stretch: smaller scans that arrive later may delay it to this many times its
/// work. With 32 the longest scans pay for all others: among 50 clients on three real nodes, half of
/// whose queries are scans of 1 to 10,000 rows, their p99 was 1.6 to 2.4 times that of direct clients,
/// and 0.9 to 1.3 times with 3; the mean was the same.
const STRETCH: u64 = 4;

/// The target completion time, by which scans of the default variant are ordered; 0 for all else.
/// So small scans go first, but a large one does not wait for all small ones that ever arrive.
pub(super) fn target_us(variant: Variant, class: Class, job: &Job, arrived_us: u64) -> u64 {
    match class {
        Class::Scan if !variant.is_preset() => {
            arrived_us.saturating_add(STRETCH * u64::from(job.work_us))
        }
        _ => 0,
    }
}

/// The order within a class.
pub(super) fn rank_of(variant: Variant, class: Class, job: &Job) -> Rank {
    match variant {
        Variant::Default => (32 - job.work_us.leading_zeros(), 0),
        _ if class == Class::Scan && variant.ranges_ordered() => {
            (u32::from(job.nodes_left), job.rows)
        }
        _ => (0, 0),
    }
}
