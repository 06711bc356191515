//! Copies that workers want to have evicted.

use std::collections::BTreeMap;

use helenus_layout::insync::Copies;

use crate::insync::asked::{CopiesChange, CopyName, GroupChange, Owners, TableName};

/// In one compare-and-set: where a node is lost, all groups of ranges with a copy on it change.
const GROUPS_MAX: usize = 32;

/// What was asked for, each once: the version of the list by which it was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Evictions(BTreeMap<CopyName, u64>);

impl Evictions {
    /// While a copy is to be evicted that is said again and again.
    pub(super) fn add(&mut self, name: CopyName, version: u64) {
        let known = self.0.entry(name).or_default();
        *known = version.max(*known);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// A change that evicts copies of one table, by its lists as they were last read. `is_due`: those of a table have
    /// been read since they were last changed. A copy stays if it is the last in sync, or has come into its state only
    /// after it was asked for.
    pub(super) fn next<'l>(
        &mut self,
        list_of: impl Fn(&CopyName) -> Option<&'l Copies>,
        is_due: impl Fn(&TableName) -> bool,
    ) -> Option<CopiesChange> {
        let evicted = |name: &CopyName, version: u64| {
            let list = list_of(name).filter(|list| list.since(name.copy) <= version)?;
            Some((*list, list.evict(name.copy).ok()?))
        };
        self.0
            .retain(|name, version| evicted(name, *version).is_some());
        let mut names = self.0.keys().map(|name| &name.table);
        let table = names.find(|table| is_due(table))?.clone();
        let mut changed: BTreeMap<&Owners, (Copies, Copies)> = BTreeMap::new();
        for (name, version) in self.0.iter().filter(|(name, _)| name.table == table) {
            // One change of each group, because each makes a version. What is left comes next.
            if changed.len() < GROUPS_MAX
                && !changed.contains_key(&name.owners)
                && let Some(change) = evicted(name, *version)
            {
                changed.insert(&name.owners, change);
            }
        }
        let groups = changed
            .into_iter()
            .map(|(owners, (known, list))| GroupChange::new(owners, &known, &list));
        let groups = groups.collect();
        Some(CopiesChange { table, groups })
    }
}
