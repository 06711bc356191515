//! The streams of a link on which an answer is waited for.

/// Stream ids in no order: a walk over them costs what is in flight, whatever has been.
#[derive(Debug, Default)]
pub(super) struct Busy {
    ids: Vec<u16>,
    /// By stream id: its place among them, if it is one.
    places: Vec<u16>,
}

impl Busy {
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.ids.iter().map(|id| usize::from(*id))
    }

    /// A stream that is not among them.
    #[inline]
    pub(super) fn insert(&mut self, id: u16) {
        let place = self.ids.len() as u16;
        self.ids.push(id);
        match self.places.get_mut(usize::from(id)) {
            Some(at) => *at = place,
            None => {
                self.places.resize(usize::from(id), 0);
                self.places.push(place);
            }
        }
    }

    /// A stream that may be among them.
    #[inline]
    pub(super) fn remove(&mut self, id: u16) {
        let Some(place) = self.places.get(usize::from(id)).copied() else {
            return;
        };
        if self.ids.get(usize::from(place)) != Some(&id) {
            return;
        }
        self.ids.swap_remove(usize::from(place));
        if let Some(moved) = self.ids.get(usize::from(place)) {
            self.places[usize::from(*moved)] = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_has_what_was_inserted_and_not_removed() {
        for seed in 0..20_u64 {
            let (mut busy, mut expected) = (Busy::default(), BTreeSet::new());
            let mut state = seed;
            for _ in 0..2_000 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(seed | 1);
                let id = (state >> 33) as u16 % 300;
                match expected.insert(id) {
                    true => busy.insert(id),
                    false => {
                        expected.remove(&id);
                        busy.remove(id);
                        // Once more is of no effect.
                        busy.remove(id);
                    }
                }
                assert_eq!(busy.len(), expected.len(), "seed {seed}");
            }
            let found: BTreeSet<u16> = busy.iter().map(|id| id as u16).collect();
            assert_eq!(found, expected, "seed {seed}");
        }
    }

    #[test]
    fn a_walk_passes_what_is_in_flight_however_much_there_was() {
        let mut busy = Busy::default();
        (4..30_000).for_each(|id| busy.insert(id));
        (4..30_000)
            .filter(|id| *id != 7_000)
            .for_each(|id| busy.remove(id));
        // A walk goes over this list.
        assert_eq!(busy.ids, [7_000]);
        busy.remove(30_001);
        assert_eq!(busy.ids, [7_000]);
    }
}
