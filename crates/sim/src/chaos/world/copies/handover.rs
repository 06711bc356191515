//! The table itself takes turns with its copies while clients use it: what a command does.

use helenus_layout::insync::{Members, State, TABLE};

use super::super::World;
use crate::chaos::coverage;
use crate::chaos::insync::{Handover, without};

/// The table joins when clients have begun.
const BEGIN_US: u64 = 3_000_000;

impl World {
    /// Whether all replicas of the table in a group are up: proxies compare it at ALL.
    pub(in crate::chaos::world) fn is_table_whole(&self, group: usize) -> bool {
        let lists = self.lists.as_ref().expect("there are copies");
        let mut partitions = lists.groups[group].partitions.iter();
        partitions.all(|partition| self.cluster.is_table_whole(*partition))
    }

    /// The command looks at the lists, and goes on.
    pub(in crate::chaos::world) fn hand_over(&mut self) {
        let now_us = self.now_us();
        let (Some(handover), Some(lists)) = (self.handover, &self.lists) else {
            return;
        };
        let copies = Members::first(self.copies());
        let is_table = |state: State| lists.all(|list| list.state(TABLE) == state);
        let (next, switched) = match handover {
            Handover::ToCopies => {
                let are_in_sync = lists.all(|list| copies.minus(list.in_sync()).is_empty());
                if !are_in_sync {
                    return;
                }
                let boot = |group: usize, copy: usize| self.boot_of((group, copy), None);
                let restarted = lists.groups.iter().enumerate().map(|(group, of)| {
                    let is = |copy: &usize| boot(group, *copy) != Some(of.list.boot(*copy));
                    copies.iter().filter(is).collect::<Members>()
                });
                let restarted: Vec<Members> = restarted.collect();
                let are_up = |(group, of): (usize, &Members)| {
                    of.iter().all(|copy| boot(group, copy).is_some())
                };
                match restarted.iter().all(|of| of.is_empty()) {
                    true => {
                        let switched = lists.switched(|list| without(list, Members::of(TABLE)));
                        (Handover::OverToCopies, switched)
                    }
                    // No write has told of these.
                    false if restarted.iter().enumerate().all(are_up) => {
                        let groups = lists.groups.iter().zip(&restarted);
                        let switched = groups.map(|(group, of)| without(&group.list, *of));
                        (Handover::ToCopies, switched.collect())
                    }
                    false => return,
                }
            }
            Handover::ToTable if now_us < BEGIN_US => return,
            Handover::ToTable if is_table(State::InSync) => (Handover::CopiesLeave, None),
            Handover::ToTable => {
                let joined = lists.switched(|list| match list.state(TABLE) {
                    State::Out => list.join(TABLE, 0).ok(),
                    State::Joining | State::InSync => Some(*list),
                });
                (Handover::ToTable, joined)
            }
            Handover::CopiesLeave if !is_table(State::InSync) => (Handover::ToTable, None),
            Handover::CopiesLeave => {
                let switched = lists.switched(|list| without(list, copies));
                (Handover::OverToTable, switched)
            }
            Handover::OverToCopies | Handover::OverToTable => return,
        };
        if next != handover {
            self.note(|| format!("the command: {next:?}, {switched:?}"));
        }
        match next {
            Handover::OverToCopies => self.count(coverage::TABLE_LEFT),
            Handover::OverToTable => self.count(coverage::COPIES_LEFT),
            _ => {}
        }
        self.handover = Some(next);
        if let (Some(lists), Some(switched)) = (&mut self.lists, switched) {
            lists.switch(switched, now_us);
        }
    }

    /// The table in sync gives what was acknowledged to any read at QUORUM.
    pub(in crate::chaos::world) fn judge_table_of(&mut self, partition: i64) {
        let group = self
            .lists
            .as_ref()
            .and_then(|lists| lists.group_of(partition));
        let Some(list) = group.map(|group| group.list) else {
            return;
        };
        if list.state(TABLE) != State::InSync {
            return;
        }
        let least = |row: &_| self.histories.acknowledged(partition, row);
        if let Some((row, least)) = self.cluster.lacking(partition, least) {
            self.violate(format!(
                "the table in sync lacks what was written to row {row:?} of partition {partition} at {least} and \
                 acknowledged: {list:?}"
            ));
        }
    }
}
