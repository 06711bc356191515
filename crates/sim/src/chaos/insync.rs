//! The lists of copies in sync and of proxies in the catalogue, and what each proxy knows of them: the control side
//! of copies that take the place of replicas, as `crates/proxy` carries it out.
//!
//! Lists change by compare-and-set, proxies rely on what they have read for the length of a lease, and engines hear
//! of it ([`Control::published`]). What decides is [`helenus_layout::insync`]; comparing copies is one step.

mod control;

use std::collections::BTreeMap;

use helenus_layout::insync::{
    BitChange, COPIES_MAX, Copies, Intents, LISTED_MAX, Members, PROXIES_MAX, Proxies, State,
    TABLE, Timing, proxies,
};
use helenus_policy::ring::NodeIndex;
use helenus_policy::token::murmur3_token;

pub(super) use self::control::{Action, Control, Returns};
use super::cassandra::Holders;

/// That of the product, but for the clocks: here they run alike.
pub(super) const TIMING: Timing = Timing {
    lease_us: 1_000_000,
    drift_ppm: 1_000,
    late_us: 15_000_000,
    patience_us: 300_000,
};
/// How often each list is read.
pub(super) const RENEWAL_US: u64 = 250_000;

/// Names one start of a proxy, or one membership of it.
pub(super) type Start = (usize, u32);

/// One of the lists, or all lists of copies: they are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Proxies,
    Copies,
}

/// What a read of the catalogue says.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Proxies(Box<ToldOfProxies>),
    Copies(Vec<Copies>),
}

#[derive(Clone, Debug)]
pub(super) struct ToldOfProxies {
    list: Proxies,
    starts: BTreeMap<usize, Start>,
    beats: BTreeMap<usize, u64>,
}

/// A compare-and-set.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// With the number that a start takes, if it enters.
    Proxies(Box<Proxies>, Option<(usize, Start)>),
    Copies(usize, Copies),
}

impl Change {
    pub(super) fn which(&self) -> Which {
        match self {
            Change::Proxies(..) => Which::Proxies,
            Change::Copies(..) => Which::Copies,
        }
    }
}

/// The partitions whose copies are on the same nodes.
pub(super) struct Group {
    pub owners: Box<[NodeIndex]>,
    pub partitions: Vec<i64>,
    pub list: Copies,
    /// The last list by which an engine has found that a copy is to be evicted.
    pub wanted: [Option<u64>; COPIES_MAX],
    /// When one of its copies was evicted last.
    pub evicted_us: Option<u64>,
    /// Since when its last copy in sync is on a later start than the list knows.
    pub restarted_us: Option<u64>,
}

/// The lists as they are.
pub(super) struct Catalogued {
    pub proxies: Proxies,
    starts: BTreeMap<usize, Start>,
    beats: BTreeMap<usize, u64>,
    pub groups: Vec<Group>,
    /// The last change of each bit, by number and bucket.
    bits: BTreeMap<(usize, usize), BitChange>,
}

/// The table itself takes turns with its copies: what a command does about the lists, in one compare-and-set of all
/// groups. Proxies go by the lists all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handover {
    /// The table is in sync; when all copies are, it leaves.
    ToCopies,
    /// The table joins, and when it is in sync in all groups,
    ToTable,
    /// no copy joins any more, and all leave.
    CopiesLeave,
    OverToCopies,
    OverToTable,
}

impl Handover {
    pub(super) fn lets_copies_join(self) -> bool {
        !matches!(self, Handover::CopiesLeave | Handover::OverToTable)
    }
}

/// The bucket of a partition.
pub(super) fn bucket_of(partition: i64) -> usize {
    let intents = Intents::new(helenus_engine::copies::BUCKETS);
    intents.bucket_of(murmur3_token(&partition.to_be_bytes()))
}

impl Catalogued {
    /// All copies are empty, and so in sync, each on its node's start. No proxy has joined yet.
    pub(super) fn new(
        holders: &Holders,
        partitions: i64,
        boots: &[u32],
        handover: Option<Handover>,
    ) -> Catalogued {
        let mut groups: Vec<Group> = Vec::new();
        for partition in 0..partitions {
            let owners = holders.of(partition);
            match groups.iter_mut().find(|group| group.owners == owners) {
                Some(group) => group.partitions.push(partition),
                None => {
                    let mut starts = [0; LISTED_MAX];
                    for (start, owner) in starts.iter_mut().zip(&owners) {
                        *start = boots[owner.as_usize()];
                    }
                    groups.push(Group {
                        owners,
                        partitions: vec![partition],
                        list: first_list(holders.copies(), starts, handover),
                        wanted: [None; COPIES_MAX],
                        evicted_us: None,
                        restarted_us: None,
                    });
                }
            }
        }
        Catalogued {
            proxies: proxies(0, &[]).expect("nobody has joined"),
            starts: BTreeMap::new(),
            beats: BTreeMap::new(),
            groups,
            bits: BTreeMap::new(),
        }
    }

    /// All groups without some members, or with the table joining; none if that cannot be.
    pub(super) fn switched(
        &self,
        change: impl Fn(&Copies) -> Option<Copies>,
    ) -> Option<Vec<Copies>> {
        self.groups
            .iter()
            .map(|group| change(&group.list))
            .collect()
    }

    pub(super) fn all(&self, is: impl Fn(&Copies) -> bool) -> bool {
        self.groups.iter().all(|group| is(&group.list))
    }

    pub(super) fn switch(&mut self, lists: Vec<Copies>, now_us: u64) {
        for (group, list) in self.groups.iter_mut().zip(lists) {
            if !group.list.listed().minus(list.listed()).is_empty() {
                group.evicted_us = Some(now_us);
            }
            group.list = list;
        }
    }

    /// A proxy reads a list. Of that of proxies it gives a sign of life with it.
    pub(super) fn read(&mut self, which: Which, start: Start) -> Told {
        if which == Which::Copies {
            return Told::Copies(self.groups.iter().map(|group| group.list).collect());
        }
        if let Some((number, _)) = self.starts.iter().find(|(_, of)| **of == start) {
            *self.beats.entry(*number).or_default() += 1;
        }
        Told::Proxies(Box::new(ToldOfProxies {
            list: self.proxies,
            starts: self.starts.clone(),
            beats: self.beats.clone(),
        }))
    }

    /// Returns whether the list was the one before.
    pub(super) fn change(&mut self, change: &Change, now_us: u64) -> bool {
        match change {
            Change::Proxies(list, entered) => {
                let is_next = self.proxies.version() + 1 == list.version();
                if is_next {
                    self.proxies = **list;
                    self.starts.extend(*entered);
                }
                is_next
            }
            Change::Copies(group, list) => {
                let group = &mut self.groups[*group];
                let is_next = group.list.version() + 1 == list.version();
                if is_next {
                    let left = group.list.listed().minus(list.listed());
                    if !left.is_empty() {
                        group.evicted_us = Some(now_us);
                    }
                    group.list = *list;
                }
                is_next
            }
        }
    }

    /// A bit is written, with its number as its timestamp.
    pub(super) fn record(&mut self, number: usize, change: BitChange) {
        let known = self.bits.entry((number, change.bucket)).or_insert(change);
        if known.number < change.number {
            *known = change;
        }
    }

    /// Buckets in which a proxy has recorded intents.
    pub(super) fn left_by(&self, number: usize) -> Vec<usize> {
        let bits = self.bits.iter();
        let of = bits.filter(|((of, _), change)| *of == number && change.set);
        of.map(|((_, bucket), _)| *bucket).collect()
    }

    pub(super) fn forget(&mut self, number: usize) {
        self.bits.retain(|(of, _), _| *of != number);
    }

    /// Whether some proxy that is out has left intents.
    pub(super) fn has_leftovers(&self) -> bool {
        (0..PROXIES_MAX).any(|number| {
            !self.proxies.listed().contains(number) && !self.left_by(number).is_empty()
        })
    }

    pub(super) fn group_of(&self, partition: i64) -> Option<&Group> {
        let mut groups = self.groups.iter();
        groups.find(|group| group.partitions.contains(&partition))
    }
}

/// All copies are empty, and so in sync; or the table is, and copies are out.
fn first_list(copies: usize, boot: [u32; LISTED_MAX], handover: Option<Handover>) -> Copies {
    let all = Members::first(copies);
    if handover != Some(Handover::ToCopies) {
        return Copies::new(all, boot);
    }
    let listed = all.with(TABLE);
    let since = std::array::from_fn(|member| u64::from(listed.contains(member)));
    Copies::from_parts(1, Members::of(TABLE), Members::EMPTY, since, boot)
}

/// Without these members, as far as they are listed.
pub(super) fn without(list: &Copies, members: Members) -> Option<Copies> {
    let mut listed = members.iter().filter(|of| list.state(*of) != State::Out);
    listed.try_fold(*list, |list, member| list.evict(member).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_changes_of_one_version_one_is_made() {
        let mut lists = Catalogued::new(&Holders::new(3, 3), 4, &[7, 8, 9], None);
        let count: usize = lists
            .groups
            .iter()
            .map(|group| group.partitions.len())
            .sum();
        assert_eq!((lists.groups.len(), count), (1, 4), "each copy on one node");
        let known = lists.groups[0].list;
        let change = |copy| Change::Copies(0, known.evict(copy).expect("others are in sync"));
        assert!(lists.change(&change(1), 50));
        assert!(!lists.change(&change(2), 60));
        let group = &lists.groups[0];
        assert_eq!(group.list.in_sync().iter().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(group.evicted_us, Some(50));
    }

    #[test]
    fn a_bit_is_what_its_last_change_says() {
        let mut lists = Catalogued::new(&Holders::new(2, 2), 1, &[7, 8], None);
        let bit = |number, set| BitChange {
            bucket: 9,
            set,
            number,
        };
        lists.record(3, bit(2, true));
        lists.record(3, bit(1, false));
        assert_eq!(lists.left_by(3), [9]);
        assert!(lists.has_leftovers(), "nobody has that number");
        lists.record(3, bit(3, false));
        assert!(lists.left_by(3).is_empty() && !lists.has_leftovers());
    }
}
