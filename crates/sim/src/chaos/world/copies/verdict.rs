//! What must hold of copies in place of replicas.

use helenus_layout::insync::TABLE;

use super::super::World;
use crate::chaos::coverage;
use crate::chaos::wide::all_rows;

impl World {
    /// Whether what was acknowledged is where it may be read.
    pub(in crate::chaos::world) fn judge_group(&mut self, group: usize) {
        let lists = self.lists.as_ref().expect("there are copies");
        let partitions = lists.groups[group].partitions.clone();
        for partition in partitions {
            self.judge_copies_of(partition);
        }
    }

    /// Every copy in sync has what was acknowledged, unless its node is on another start than the list knows.
    pub(in crate::chaos::world) fn judge_copies_of(&mut self, partition: i64) {
        let Some(lists) = &self.lists else {
            return;
        };
        let Some(at) = lists
            .groups
            .iter()
            .position(|of| of.partitions.contains(&partition))
        else {
            return;
        };
        let list = lists.groups[at].list;
        let is_read = |copy: &usize| {
            *copy != TABLE && self.boot_of((at, *copy), None) == Some(list.boot(*copy))
        };
        let copies: Vec<usize> = list.in_sync().iter().filter(is_read).collect();
        self.judge_table_of(partition);
        for copy in copies {
            let held = self.cluster.of_copy(copy, partition);
            let missing = all_rows().find_map(|row| {
                let least = self.histories.acknowledged(partition, &row)?;
                (held.of_row(&row).timestamp < least).then_some((row, least))
            });
            if let Some((row, least)) = missing {
                return self.violate(format!(
                    "copy {copy} in sync lacks what was written to row {row:?} of partition {partition} at {least} \
                     and acknowledged: {list:?}"
                ));
            }
        }
    }

    /// A write was acknowledged.
    pub(in crate::chaos::world) fn judge_copied(&mut self, partition: i64, begun_us: u64) {
        let Some(lists) = &self.lists else {
            return;
        };
        let group = lists.group_of(partition);
        if group
            .and_then(|group| group.evicted_us)
            .is_some_and(|at| at >= begun_us)
        {
            self.count(coverage::ACKNOWLEDGED_WITHOUT);
        }
        self.count(coverage::ACKNOWLEDGED);
        self.judge_copies_of(partition);
    }

    /// When all has calmed down all copies are in sync, and equal.
    pub(in crate::chaos::world) fn judge_calm_copies(&mut self) {
        if !self.are_copies_calm() {
            let lists = self.lists.as_ref().expect("there are copies");
            let found: Vec<_> = lists.groups.iter().map(|group| group.list).collect();
            let left = lists.has_leftovers();
            return self.violate(format!(
                "copies have not come back, or buckets are not made equal ({left}): {found:?}"
            ));
        }
        let Some(lists) = &self.lists else {
            return;
        };
        let partitions: Vec<i64> = lists
            .groups
            .iter()
            .flat_map(|group| group.partitions.clone())
            .collect();
        for partition in partitions {
            self.judge_copies_of(partition);
            let group = self.lists.as_ref().and_then(|lists| {
                lists
                    .groups
                    .iter()
                    .position(|of| of.partitions.contains(&partition))
            });
            let Some(group) = group else {
                continue;
            };
            let list = self.lists.as_ref().expect("there are copies").groups[group].list;
            let is_read =
                |copy: &usize| self.boot_of((group, *copy), None) == Some(list.boot(*copy));
            let copies: Vec<usize> = list.in_sync().iter().filter(is_read).collect();
            let mut pairs = copies.windows(2);
            if let Some(pair) =
                pairs.find(|pair| self.cluster.differ((pair[0], pair[1]), partition))
            {
                let what = format!("copies {pair:?} of partition {partition} differ in the end");
                return self.violate(what);
            }
        }
    }
}
