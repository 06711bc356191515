//! Copies in sync that reads or writes have found wanting: the control side is asked to evict them.

use helenus_layout::plan::LogicalTable;
use helenus_policy::ring::NodeIndex;

use crate::engine::Engine;
use crate::output::Output;

impl Engine {
    /// A copy is to be evicted. `version`: of the list by which it was found.
    pub(crate) fn ask_for_eviction(
        &mut self,
        table: &LogicalTable,
        owners: &[NodeIndex],
        (copy, version): (usize, u64),
    ) {
        let now_us = self.cx.shared.copies.us(self.cx.now);
        let due = self
            .copied
            .eviction_due(table, owners, (copy, version), now_us);
        if let Some(eviction) = due {
            self.cx.ask(Output::Evict(eviction));
        }
    }
}
