//! Where in a sketch a partition has its place: a hash table of fixed size.

use super::Partition;

/// No place.
const EMPTY: u16 = u16::MAX;

/// Places by partition, with linear probing; half of it is empty.
#[derive(Clone, Debug)]
pub(super) struct Index {
    slots: Box<[u16]>,
}

impl Index {
    /// For so many places, 32,767 at most.
    pub(super) fn new(places: usize) -> Index {
        debug_assert!(
            places < usize::from(EMPTY) / 2,
            "places have 16-bit numbers"
        );
        let slots = (places.max(1) * 2).next_power_of_two();
        Index {
            slots: vec![EMPTY; slots].into(),
        }
    }

    /// The place of a partition. `of`: whose place one is.
    #[inline]
    pub(super) fn find(
        &self,
        partition: &Partition,
        of: impl Fn(u16) -> Partition,
    ) -> Option<usize> {
        let mut at = self.home(partition);
        loop {
            let place = self.slots[at];
            if place == EMPTY {
                return None;
            }
            if of(place) == *partition {
                return Some(place.into());
            }
            at = self.behind(at);
        }
    }

    /// Notes a partition's place; it has none.
    pub(super) fn insert(&mut self, partition: &Partition, place: usize) {
        let mut at = self.home(partition);
        while self.slots[at] != EMPTY {
            at = self.behind(at);
        }
        self.slots[at] = place as u16;
    }

    /// Forgets a partition's place.
    pub(super) fn remove(&mut self, partition: &Partition, of: impl Fn(u16) -> Partition) {
        let mut hole = self.home(partition);
        loop {
            let place = self.slots[hole];
            if place == EMPTY {
                return;
            }
            if of(place) == *partition {
                break;
            }
            hole = self.behind(hole);
        }
        // Those behind it move up, unless they would then come before their home.
        let mut at = hole;
        loop {
            at = self.behind(at);
            let place = self.slots[at];
            if place == EMPTY {
                break;
            }
            let home = self.home(&of(place));
            let mask = self.slots.len() - 1;
            let from_home = at.wrapping_sub(home) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.slots[hole] = place;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
    }

    fn behind(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// Tokens are spread evenly; tables and roles must differ, too.
    #[inline]
    fn home(&self, partition: &Partition) -> usize {
        let of = u64::from(partition.table) << 32 | u64::from(partition.role);
        let mixed = (partition.token as u64 ^ of).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.slots.len() - 1)
    }
}
