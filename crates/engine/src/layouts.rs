//! Copies of tables in other clustering orders (*layouts*): which there are, and until when that may be
//! relied on.
//!
//! Every proxy writes to all layouts of a table. Whoever adds or removes one must know when all proxies
//! have heard of it. So what a proxy knows of the catalogue is good for [`LEASE`] from the moment at
//! which it asked; after that it writes nothing until it has read the catalogue again. The constants are
//! no settings: all proxies and `helenus layouts` must agree on them.
//!
//! Source: C. Gray and D. Cheriton, "Leases: an efficient fault-tolerant mechanism for distributed file
//! cache consistency" (SOSP 1989).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use helenus_layout::plan::LogicalTable;
use rustc_hash::FxHashMap;

/// How often the catalogue is read.
pub const REFRESH: Duration = Duration::from_secs(3);
/// How long what was read is good for, from when the read was sent.
pub const LEASE: Duration = Duration::from_secs(10);

/// The tables with layouts, by keyspace and table.
#[derive(Clone, Debug, Default)]
pub struct Layouts {
    pub tables: FxHashMap<String, FxHashMap<String, Arc<LogicalTable>>>,
    /// Tables of which it is not known where their rows are, as the catalogue says something of them that this
    /// version does not know: what is told to whoever asks anything of them.
    pub refused: FxHashMap<String, FxHashMap<String, String>>,
}

impl Layouts {
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.refused.is_empty()
    }

    /// Why any request about a table is refused, if it is.
    pub(crate) fn refused(&self, keyspace: &str, table: &str) -> Option<&str> {
        self.refused.get(keyspace)?.get(table).map(String::as_str)
    }

    /// A table that has layouts. One whose layouts are all missing has none.
    pub fn table(&self, keyspace: &str, table: &str) -> Option<&Arc<LogicalTable>> {
        let table = self.tables.get(keyspace)?.get(table);
        table.filter(|table| !table.copies.is_empty())
    }

    /// The table that this one holds a layout of.
    pub fn table_of_layout(&self, keyspace: &str, physical: &str) -> Option<&Arc<LogicalTable>> {
        let mut tables = self.tables.get(keyspace)?.values();
        let holds =
            |table: &&Arc<LogicalTable>| table.copies.iter().any(|c| c.physical == physical);
        tables.find(holds)
    }

    /// Keyspace and name of all tables, in order.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut names: Vec<(&str, &str)> = Vec::new();
        for (keyspace, tables) in &self.tables {
            names.extend(
                tables
                    .keys()
                    .map(|table| (keyspace.as_str(), table.as_str())),
            );
        }
        names.sort_unstable();
        names.into_iter()
    }
}

/// Until when the catalogue that is known may be relied on.
#[derive(Debug)]
pub struct Lease {
    began: Instant,
    /// In microseconds since it began; 0: the catalogue has never been read.
    until_us: AtomicU64,
}

impl Lease {
    pub fn new(now: Instant) -> Lease {
        Lease {
            began: now,
            until_us: AtomicU64::new(0),
        }
    }

    /// The catalogue has been read by a request that was sent then, and what it says is in force: the
    /// snapshot that holds it must have been stored before.
    pub fn renew(&self, sent: Instant) {
        let until = (sent + LEASE).saturating_duration_since(self.began);
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

    /// For how long the catalogue has not been read: since the beginning, if it never was.
    pub fn unread_for(&self, now: Instant) -> Duration {
        let until = Duration::from_micros(self.until_us.load(Ordering::Acquire));
        let read = self.began + until.saturating_sub(LEASE);
        now.saturating_duration_since(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::begin;

    #[test]
    fn a_lease_runs_from_when_the_catalogue_was_asked_for() {
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
        assert_eq!(until, Some(at(11_000)), "an older read takes nothing back");
        assert_eq!(lease.unread_for(at(12_000)), Duration::from_secs(11));
    }
}
