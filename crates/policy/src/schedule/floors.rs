//! Decides which class goes first because it has got too little: each class that waits has a floor.
//!
//! Formula: of all work that is served while something of a class waits, one part in [`SHARE`] is owed to that
//! class; what it is served is taken off. A class that is owed its next item and [`SLACK_US`] goes before the order
//! by predicted work, the one that is owed most first. So a short burst is served in that order. Only service that
//! is owed is remembered: a class that gets more than its floor has no debt. Scans are left out, as they do not
//! share the others' room.
//!
//! Why: the least predicted work goes first, and of equal work the more urgent class. Where more of that comes
//! than is served, nothing else ever would be.
//!
//! Evidence: `schedule/tests/floors.rs`: of reads offered at 1.1 times what a node serves, and a tenth as many
//! writes, all writes are served and none waits for long; without floors none was before it was overdue.
//!
//! Limits: each worker sees its own queue. A class that offers more than its floor waits with the part above it
//! for what the order leaves.
//!
//! Source: deficits from M. Shreedhar and G. Varghese, "Efficient Fair Queueing using Deficit Round Robin"
//! (SIGCOMM 1995).

use super::Class;

/// Less than the number of classes may have in all.
const SHARE: u64 = 8;
/// Of what is owed, so much does not count yet.
const SLACK_US: u64 = 10_000;
const _: () = assert!(Class::COUNT as u64 - 1 < SHARE);

/// The debt to waiting classes, times [`SHARE`], in microseconds of work.
#[derive(Debug, Default)]
pub(super) struct Floors {
    owed: [u64; Class::COUNT],
}

impl Floors {
    /// True if some class may be owed enough for an item.
    pub(super) fn is_any_owed(&self) -> bool {
        self.owed.iter().any(|owed| *owed >= SHARE * SLACK_US)
    }

    /// The debt to a class, if that is enough for an item of so much work.
    pub(super) fn owed(&self, class: Class, piece_us: u32) -> Option<u64> {
        let owed = self.owed[class as usize];
        (owed >= SHARE * (SLACK_US + work_of(piece_us))).then_some(owed)
    }

    /// An item of a class has been served. `waits`: whether something of a class still waits.
    pub(super) fn on_served(&mut self, class: Class, piece_us: u32, waits: impl Fn(Class) -> bool) {
        if class == Class::Scan {
            return;
        }
        let served = work_of(piece_us);
        for waiting in Class::ALL {
            if waiting != Class::Scan && waits(waiting) {
                self.owed[waiting as usize] += served;
            }
        }
        let own = &mut self.owed[class as usize];
        *own = own.saturating_sub(SHARE * served);
    }

    /// The work, in microseconds, of all other classes at most before one has been served so much.
    pub(super) fn others_us(served_us: u64) -> u64 {
        SHARE.saturating_mul(served_us.saturating_add(SLACK_US))
    }

    /// Nothing of the class waits any more.
    pub(super) fn forget(&mut self, class: Class) {
        self.owed[class as usize] = 0;
    }
}

/// No item is for nothing.
fn work_of(piece_us: u32) -> u64 {
    u64::from(piece_us.max(1))
}
