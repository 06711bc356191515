//! Leases: until when knowledge of the catalogue may be relied on, and which requests depend on it.
//!
//! Every proxy's treatment of a table may depend on what the catalogue says of it. Whoever changes that must know
//! when all proxies have heard of it. So what a proxy knows is good for [`lease`] from the moment at which it asked.
//! There are two leases ([`helenus_catalogue`] tells the protocol): one on the flags, which any node that is up can
//! renew, and one on the catalogue itself. Only a request about a flagged table needs the latter.
//!
//! Source: C. Gray and D. Cheriton, "Leases: an efficient fault-tolerant mechanism for distributed file
//! cache consistency" (SOSP 1989).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use helenus_catalogue::waits::lease;
use rustc_hash::FxHashMap;

/// Both leases.
#[derive(Debug)]
pub struct Leases {
    pub flags: Lease,
    pub catalogue: Lease,
}

impl Leases {
    pub fn new(now: Instant) -> Leases {
        Leases {
            flags: Lease::new(now),
            catalogue: Lease::new(now),
        }
    }

    /// The leases that are held. The snapshot is looked at after that: whoever renews a lease has stored before what
    /// it is about.
    pub(crate) fn held(&self, now: Instant) -> Held {
        Held {
            flags: self.flags.until(now),
            catalogue: self.catalogue.until(now),
        }
    }
}

/// Until when leases were held when they were looked at, those that were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub flags: Option<Instant>,
    pub catalogue: Option<Instant>,
}

impl Held {
    /// Until when a request may be sent that needs this; `None` if it may not be.
    pub(crate) fn until(self, need: Need) -> Option<Instant> {
        match need {
            Need::Flags => self.flags,
            Need::Catalogue => self.catalogue,
            Need::Row => None,
        }
    }
}

/// Until when something that was read may be relied on.
#[derive(Debug)]
pub struct Lease {
    began: Instant,
    /// In microseconds since it began; 0: nothing has ever been read.
    until_us: AtomicU64,
}

impl Lease {
    pub fn new(now: Instant) -> Lease {
        Lease {
            began: now,
            until_us: AtomicU64::new(0),
        }
    }

    /// It has been read by a request that was sent then, and what it says is in force: the snapshot that holds
    /// it must have been stored before.
    pub fn renew(&self, sent: Instant) {
        let until = (sent + lease()).saturating_duration_since(self.began);
        let until_us = u64::try_from(until.as_micros()).unwrap_or(u64::MAX);
        self.until_us.fetch_max(until_us, Ordering::AcqRel);
    }

    /// Until when it is held, if it is.
    pub fn until(&self, now: Instant) -> Option<Instant> {
        let until = self.began + Duration::from_micros(self.until_us.load(Ordering::Acquire));
        (until > now).then_some(until)
    }

    pub fn is_held(&self, now: Instant) -> bool {
        self.until(now).is_some()
    }

    /// For how long nothing has been read: since the beginning, if it never was.
    pub fn unread_for(&self, now: Instant) -> Duration {
        let until = Duration::from_micros(self.until_us.load(Ordering::Acquire));
        let read = self.began + until.saturating_sub(lease());
        now.saturating_duration_since(read)
    }
}

/// The knowledge that a request needs, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// That none of its tables is flagged.
    Flags,
    /// The catalogue's entry of a table that is flagged, or of one that nobody knows.
    Catalogue,
    /// A row of the catalogue that is lost.
    Row,
}

/// The tables that depend on the catalogue because of one feature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flagged {
    tables: FxHashMap<String, FxHashMap<String, Need>>,
}

impl Flagged {
    pub fn add(&mut self, keyspace: &str, table: &str) {
        self.note(keyspace, table, Need::Catalogue);
    }

    /// This table's entry in the catalogue is lost.
    pub fn add_lost(&mut self, keyspace: &str, table: &str) {
        self.note(keyspace, table, Need::Row);
    }

    fn note(&mut self, keyspace: &str, table: &str, need: Need) {
        let of_keyspace = self.tables.entry(keyspace.to_owned()).or_default();
        let noted = of_keyspace.entry(table.to_owned()).or_insert(need);
        *noted = need.max(*noted);
    }

    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tables.values().map(FxHashMap::len).sum()
    }

    /// How many are lost.
    pub fn lost(&self) -> usize {
        let needs = self.tables.values().flat_map(FxHashMap::values);
        needs.filter(|need| **need == Need::Row).count()
    }

    /// The need of a request about this table; `None`: about one that is not known.
    pub(crate) fn need(&self, table: Option<(&str, &str)>) -> Need {
        if self.is_empty() {
            return Need::Flags;
        }
        let Some((keyspace, table)) = table else {
            return Need::Catalogue;
        };
        let of_keyspace = self.tables.get(keyspace);
        let need = of_keyspace.and_then(|tables| tables.get(table));
        need.copied().unwrap_or(Need::Flags)
    }

    /// The need of a request about a table with this name in a keyspace that is not known.
    pub(crate) fn need_in_any_keyspace(&self, table: &str) -> Need {
        let of_keyspaces = self.tables.values();
        let needs = of_keyspaces.filter_map(|tables| tables.get(table));
        needs.copied().max().unwrap_or(Need::Flags)
    }

    /// The need of a request that may be about any of them.
    pub(crate) fn need_of_any(&self) -> Need {
        let needs = self.tables.values().flat_map(FxHashMap::values);
        needs.copied().max().unwrap_or(Need::Flags)
    }

    /// The need of a request about several.
    pub(crate) fn most<'t>(
        &self,
        mut tables: impl Iterator<Item = Option<(&'t str, &'t str)>>,
    ) -> Need {
        let first = tables.next().map_or(Need::Flags, |table| self.need(table));
        tables.fold(first, |most, table| most.max(self.need(table)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::begin;

    #[test]
    fn a_lease_runs_from_when_it_was_asked_for() {
        let began = begin();
        let at = |ms| began + Duration::from_millis(ms);
        let lease = Lease::new(began);
        assert_eq!(lease.until(at(0)), None, "it was never read");
        assert_eq!(lease.unread_for(at(700)), Duration::from_millis(700));
        lease.renew(at(1_000));
        assert_eq!(lease.until(at(10_999)), Some(at(11_000)));
        assert_eq!(lease.until(at(11_000)), None);
        lease.renew(at(500));
        let until = lease.until(at(2_000));
        assert_eq!(
            until,
            Some(at(11_000)),
            "an older answer takes nothing away"
        );
        assert_eq!(lease.unread_for(at(12_000)), Duration::from_secs(11));
    }

    #[test]
    fn only_requests_about_flagged_tables_need_the_catalogue() {
        let mut flagged = Flagged::default();
        let orders = Some(("shop", "orders"));
        assert_eq!(flagged.need(orders), Need::Flags);
        assert_eq!(flagged.need(None), Need::Flags, "there is none");
        flagged.add("shop", "orders");
        flagged.add_lost("shop", "users");
        flagged.add("shop", "users");
        assert_eq!(flagged.need(orders), Need::Catalogue);
        assert_eq!(flagged.need(Some(("shop", "users"))), Need::Row);
        assert_eq!(flagged.need(Some(("shop", "other"))), Need::Flags);
        assert_eq!(flagged.need(Some(("other", "orders"))), Need::Flags);
        assert_eq!(flagged.need(None), Need::Catalogue, "it may be about one");
        let most = flagged.most([Some(("a", "b")), orders].into_iter());
        assert_eq!(most, Need::Catalogue);
        assert_eq!((flagged.len(), flagged.lost()), (2, 1));
        assert_eq!(flagged.need_of_any(), Need::Row);
        assert_eq!(flagged.need_in_any_keyspace("orders"), Need::Catalogue);
        assert_eq!(flagged.need_in_any_keyspace("other"), Need::Flags);
    }

    #[test]
    fn each_need_has_its_lease() {
        let began = begin();
        let at = |s| began + Duration::from_secs(s);
        let leases = Leases::new(began);
        leases.flags.renew(at(1));
        let held = leases.held(at(2));
        assert_eq!(held.until(Need::Flags), Some(at(11)));
        assert_eq!(held.until(Need::Catalogue), None);
        leases.catalogue.renew(at(3));
        let held = leases.held(at(4));
        assert_eq!(held.until(Need::Catalogue), Some(at(13)));
        assert_eq!(held.until(Need::Row), None);
    }
}
