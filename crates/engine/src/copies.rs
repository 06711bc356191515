//! Copies that take the place of a table's replicas ([`helenus_layout::insync`]): what the control side knows of
//! them, where workers look without a lock, and what they want it to do.
//!
//! Times of the lists are microseconds since [`InSync`] began, by the clock whose readings engines are handed.
//! The control side stores what it has read ([`InSync::publish`]) and then tells the workers
//! ([`crate::shared::WorkerMessage::InSync`]). While nothing is published no table has such copies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use helenus_layout::insync::{
    BitChange, Copies, Intents, Known, LISTED_MAX, Members, PROXIES_MAX, Proxies, State, TABLE,
};
use helenus_policy::ring::NodeIndex;
use rustc_hash::FxHashMap;

use crate::copy_rings::RingId;

/// Parts of the ring for which intents are recorded.
pub const BUCKETS: usize = 1_024;

/// What all workers of a proxy share of copies in sync.
#[derive(Debug)]
pub struct InSync {
    began: Instant,
    lists: ArcSwap<Lists>,
}

/// The lists as they were last read.
#[derive(Debug, Default)]
pub struct Lists {
    /// `None` while this proxy is no member of the list of proxies: it writes nothing.
    pub membership: Option<Membership>,
    /// By keyspace and table, as clients know it.
    pub tables: FxHashMap<String, FxHashMap<String, OfTable>>,
}

/// The lists of a table's copies.
#[derive(Clone, Debug, Default)]
pub struct OfTable {
    /// Where they are in force: each is about the copies of the ranges that its owners have in this ring.
    pub ring: RingId,
    pub groups: Groups,
}

/// Lists by the nodes that own a partition, one for each copy.
pub type Groups = FxHashMap<Box<[NodeIndex]>, Known<LISTED_MAX>>;

/// A member of the list of proxies, and that list.
#[derive(Debug)]
pub struct Membership {
    pub member: Arc<Member>,
    pub proxies: Known<PROXIES_MAX>,
}

/// This proxy as a member, from when it has joined until it leaves or is evicted. When it joins anew it is
/// another one: what the first has left unfinished is resynchronised, and nobody goes on with it.
#[derive(Debug)]
pub struct Member {
    /// In the list of proxies.
    pub number: usize,
    /// Locked for an instant by each write that begins or ends.
    intents: Mutex<Intents>,
}

/// A copy that the control side is to evict, unless it is the last in sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    pub keyspace: String,
    pub table: String,
    /// The owners of the group.
    pub owners: Box<[NodeIndex]>,
    pub copy: usize,
    /// Of the list by which that was found. In a later list it may have come back.
    pub version: u64,
}

impl InSync {
    pub(crate) fn new(now: Instant) -> InSync {
        InSync {
            began: now,
            lists: ArcSwap::default(),
        }
    }

    /// A time as lists have it.
    pub fn us(&self, at: Instant) -> u64 {
        let us = at.saturating_duration_since(self.began).as_micros();
        u64::try_from(us).unwrap_or(u64::MAX)
    }

    pub(crate) fn instant(&self, us: u64) -> Instant {
        self.began + Duration::from_micros(us)
    }

    /// Puts other lists in force.
    pub fn publish(&self, lists: Lists) {
        self.lists.store(Arc::new(lists));
    }

    /// The lists in force are not to be relied on until others are published.
    pub fn end_leases(&self) {
        self.lists.rcu(|lists| lists.without_leases());
    }

    pub fn lists(&self) -> Arc<Lists> {
        self.lists.load_full()
    }
}

impl Member {
    pub fn new(number: usize) -> Member {
        Member {
            number,
            intents: Mutex::new(Intents::new(BUCKETS)),
        }
    }

    /// The write intents of this member, and the buckets in which writes were given up
    /// ([`Intents::given_up`]). Workers wait for the lock.
    pub fn intents(&self) -> MutexGuard<'_, Intents> {
        self.intents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write in the bucket of a token begins: its bucket, and the bit that the control side is to record.
    pub(crate) fn begin(&self, token: i64) -> (usize, Option<BitChange>) {
        let mut intents = self.intents();
        let bucket = intents.bucket_of(token);
        (bucket, intents.begin(bucket))
    }
}

/// What counts for the copies of one partition.
pub(crate) struct View<'a> {
    pub member: &'a Arc<Member>,
    pub proxies: &'a Known<PROXIES_MAX>,
    pub copies: &'a Known<LISTED_MAX>,
}

impl Lists {
    fn without_leases(&self) -> Lists {
        let membership = self.membership.as_ref().map(|of| Membership {
            member: of.member.clone(),
            proxies: of.proxies.without_lease(),
        });
        let mut tables = self.tables.clone();
        let of_tables = tables.values_mut().flat_map(FxHashMap::values_mut);
        for known in of_tables.flat_map(|of| of.groups.values_mut()) {
            *known = known.without_lease();
        }
        Lists { membership, tables }
    }

    /// `ring`: the one by which these nodes are the owners.
    pub(crate) fn view(
        &self,
        (keyspace, table): (&str, &str),
        (owners, ring): (&[NodeIndex], RingId),
    ) -> Option<View<'_>> {
        let Membership { member, proxies } = self.membership.as_ref()?;
        let of_table = self.tables.get(keyspace)?.get(table)?;
        let of_table = Some(of_table).filter(|of_table| of_table.ring == ring)?;
        let copies = of_table.groups.get(owners)?;
        Some(View {
            member,
            proxies,
            copies,
        })
    }
}

/// The table itself in the lists of all its partitions, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableInSync {
    /// All versions since which it is in sync, added up: each only grows.
    since: u128,
    /// This proxy in the list of proxies.
    me: usize,
    reader_since: u64,
}

impl Lists {
    /// `None` if it is not in sync in each of these lists, of which there are so many by this ring.
    pub(crate) fn table_in_sync(
        &self,
        named: (&str, &str),
        of_ring: (RingId, usize),
        now_us: u64,
    ) -> Option<TableInSync> {
        self.table_by(named, of_ring, now_us, |known| {
            let list = known.list(now_us)?;
            (list.state(TABLE) == State::InSync).then(|| list.since(TABLE))
        })
    }

    /// Whether the table itself was ever a member of its lists.
    pub(crate) fn has_listed_table(&self, named: (&str, &str)) -> bool {
        self.all_of(named).any(|list| list.since(TABLE) > 0)
    }

    /// Whether any copy is in sync, of whichever partitions.
    pub(crate) fn has_copies_in_sync(&self, named: (&str, &str)) -> bool {
        let of_table = Members::of(TABLE);
        let mut lists = self.all_of(named);
        lists.any(|list| !list.in_sync().minus(of_table).is_empty())
    }

    fn all_of(&self, (keyspace, table): (&str, &str)) -> impl Iterator<Item = &Copies> {
        let of_table = self.tables.get(keyspace).and_then(|of| of.get(table));
        let groups = of_table.into_iter().flat_map(|of| of.groups.values());
        groups.filter_map(Known::last_read)
    }

    /// Whether it has stayed so up to now, as far as that counts for what it has answered.
    pub(crate) fn has_stayed(
        &self,
        named: (&str, &str),
        of_ring: (RingId, usize),
        (then, now_us): (TableInSync, u64),
    ) -> bool {
        let now = self.table_by(named, of_ring, now_us, |known| {
            known.counts_since(TABLE, now_us)
        });
        now == Some(then)
    }

    fn table_by(
        &self,
        (keyspace, table): (&str, &str),
        (ring, groups): (RingId, usize),
        now_us: u64,
        since: impl Fn(&Known<LISTED_MAX>) -> Option<u64>,
    ) -> Option<TableInSync> {
        let Membership { member, proxies } = self.membership.as_ref()?;
        let readers = proxies.list(now_us)?;
        let may_read = readers.state(member.number) == State::InSync;
        let of_table = self.tables.get(keyspace)?.get(table)?;
        let has_all = of_table.ring == ring && of_table.groups.len() == groups && groups > 0;
        if !may_read || !has_all {
            return None;
        }
        let since = of_table
            .groups
            .values()
            .map(|known| Some(u128::from(since(known)?)));
        Some(TableInSync {
            since: since.sum::<Option<u128>>()?,
            me: member.number,
            reader_since: readers.since(member.number),
        })
    }
}

impl Membership {
    /// Whether this proxy is out, by a list of proxies that may be relied on.
    pub(crate) fn has_left(&self, now_us: u64) -> bool {
        let state = |list: &Proxies| list.state(self.member.number);
        let list = self.proxies.list(now_us);
        list.is_some_and(|list| state(list) != State::InSync)
    }
}

impl View<'_> {
    /// The list of copies, if this proxy may write by it.
    pub(crate) fn list(&self, now_us: u64) -> Option<&Copies> {
        let proxies = self.proxies.list(now_us)?;
        let may_write = proxies.state(self.member.number) == State::InSync;
        self.copies.list(now_us).filter(|_| may_write)
    }

    /// Whether a copy is to be evicted whose node could not be reached for this time. Before the copy came back,
    /// that does not count.
    pub(crate) fn is_lost(&self, copy: usize, away: Duration, now_us: u64) -> bool {
        let away_us = u64::try_from(away.as_micros()).unwrap_or(u64::MAX);
        !away.is_zero()
            && self
                .copies
                .is_overdue(copy, now_us.saturating_sub(away_us), now_us)
    }

    /// Until when both lists may be relied on.
    pub(crate) fn lease_until_us(&self) -> u64 {
        let (copies, proxies) = (self.copies.lease_until_us(), self.proxies.lease_until_us());
        copies.min(proxies)
    }
}
