//! Which of all that waits goes next.

use super::lane::Lane;
use super::rank::Rank;
use super::{Class, Settings, Variant};

/// What the choice depends on.
pub(super) struct Choice<'a, T> {
    pub settings: &'a Settings,
    pub lanes: &'a [Lane<T>; Class::COUNT],
    /// Whether something of the class waits and there is room for it.
    pub may_go: [bool; Class::COUNT],
    pub last_was_due_scan: bool,
    /// In P+RaS: the first arrival number at which it is some scan's turn.
    pub scan_turn: Option<u64>,
    pub now_us: u64,
}

impl<T: Copy> Choice<'_, T> {
    /// Class and arrival number of the next, and whether it goes because it is due.
    pub(super) fn next(&self) -> Option<(Class, u64, bool)> {
        let other_than_scan = Class::ALL
            .into_iter()
            .any(|class| class != Class::Scan && self.may_go[class as usize]);
        let rest = self.last_was_due_scan && other_than_scan;
        let classes = || {
            Class::ALL.into_iter().filter(move |&class| {
                self.may_go[class as usize] && !(rest && class == Class::Scan)
            })
        };
        let due = classes().filter_map(|class| {
            let (seq, waiting) = self.lanes[class as usize].oldest()?;
            let wait_us = self.settings.wait_max_us[class as usize];
            let due_us = waiting.arrived_us.saturating_add(wait_us / 2);
            let deadline_us = self.settings.deadline_us(class, waiting.arrived_us);
            (due_us <= self.now_us).then_some((deadline_us, class, seq))
        });
        if let Some((_, class, seq)) = due.min() {
            return Some((class, seq, true));
        }
        let heads = classes().filter_map(|class| {
            let (rank, seq) = self.lanes[class as usize].head()?;
            Some((self.order(class, rank, seq), class, seq))
        });
        heads.min().map(|(_, class, seq)| (class, seq, false))
    }

    /// How the heads of classes compare: the least goes first.
    fn order(&self, class: Class, rank: Rank, seq: u64) -> (bool, u32, u8, u64) {
        match self.settings.variant {
            Variant::Default => (class != Class::System, rank.0, class as u8, seq),
            variant if variant.points_first() => (class == Class::Scan, 0, 0, seq),
            Variant::PRaS if class == Class::Scan => (false, 0, 0, self.scan_turn.unwrap_or(seq)),
            _ => (false, 0, 0, seq),
        }
    }
}
