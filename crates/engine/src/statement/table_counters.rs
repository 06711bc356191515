//! The counters of the tables that requests are about.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::context::Context;
use crate::stats::TableStats;

/// Tables whose counters a worker finds without asking. Clients choose the names, so there is a bound.
const TABLES_KNOWN_MAX: usize = 4_096;

/// The counters that a worker has used.
#[derive(Default)]
pub(super) struct TableCounters {
    /// By keyspace and table.
    known: FxHashMap<Box<str>, FxHashMap<Box<str>, Arc<TableStats>>>,
    count: usize,
}

impl TableCounters {
    pub(super) fn of(
        &mut self,
        cx: &Context,
        keyspace: &str,
        table: &str,
    ) -> Option<Arc<TableStats>> {
        let known = self.known.get(keyspace).and_then(|of| of.get(table));
        if let Some(found) = known {
            return Some(found.clone());
        }
        // Only what exists: clients may write any name, of any length.
        cx.snapshot.schema().partition_key(keyspace, table)?;
        let max = cx.shared.config.admin.tables_max;
        let found = cx.shared.stats.table(keyspace, table, max);
        if self.count >= TABLES_KNOWN_MAX {
            self.known.clear();
            self.count = 0;
        }
        let of_keyspace = self.known.entry(keyspace.into()).or_default();
        of_keyspace.insert(table.into(), found.clone());
        self.count += 1;
        Some(found)
    }
}
