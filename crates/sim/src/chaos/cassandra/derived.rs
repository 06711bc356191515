//! Layouts in a keyspace of their own, with owners of their own, and the hints that coordinators keep for replicas
//! that are away.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use helenus_wire::Consistency;

use super::rows::Update;
use super::{Cluster, Health, Mutation, Owners};
use crate::chaos::wide::{Change, Partition, Row, Written, all_rows};
use crate::dice::Dice;

/// A hint is delivered within this time, if both nodes are up.
const DELIVERED_WITHIN_US: u64 = 10_000_000;
/// It shows before this time is over: `HINTS_UNSEEN_MAX`, less the time between two looks.
const SHOWS_WITHIN_US: u64 = 19_000_000;

pub(in crate::chaos) struct Derived {
    owners: Owners,
    hints: Vec<Hint>,
    /// Since when nodes are down, and for how long hints are kept for one that is.
    down_since: BTreeMap<usize, u64>,
    window_us: u64,
    /// Proxies know for how long, so that nothing is written to a layout that nobody keeps.
    is_known: bool,
    /// Conditional writes that are under way, which whoever comes next completes: one in a partition.
    pub(super) proposed: BTreeMap<i64, Proposed>,
    /// What clients have asked to write: partition and time.
    asked: BTreeSet<(i64, i64)>,
    dice: Dice,
    /// Hints that were kept, delivered, and lost with their node.
    pub kept: u64,
    pub delivered: u64,
    pub lost: u64,
    /// Conditional writes that others have completed.
    pub completed: u64,
    /// Writes of layouts without a replica that is up.
    pub only_hinted: u64,
    /// Who has just kept a hint that is all there is of a write.
    pub only_at: Option<usize>,
}

/// What a conditional write puts into a row, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proposed {
    pub change: Change,
    pub timestamp: i64,
}

struct Hint {
    from: usize,
    to: usize,
    update: Rc<Update>,
    kept_us: u64,
    due_us: u64,
    shows_us: u64,
}

impl Derived {
    /// `is_known`: proxies know for how long hints are kept.
    pub(in crate::chaos) fn new(
        owners: Owners,
        window_us: u64,
        is_known: bool,
        dice: Dice,
    ) -> Derived {
        Derived {
            owners,
            hints: Vec::new(),
            down_since: BTreeMap::new(),
            window_us,
            is_known,
            proposed: BTreeMap::new(),
            asked: BTreeSet::new(),
            dice,
            kept: 0,
            delivered: 0,
            lost: 0,
            completed: 0,
            only_hinted: 0,
            only_at: None,
        }
    }

    /// A client is about to write this.
    pub(in crate::chaos) fn note_asked(&mut self, partition: i64, timestamp: i64) {
        self.asked.insert((partition, timestamp));
    }

    pub(in crate::chaos) fn note_down(&mut self, node: usize, now_us: u64) {
        self.down_since.insert(node, now_us);
    }

    /// Whether any node keeps a hint of this partition since then or before.
    pub(in crate::chaos) fn has_hint_since(&self, partition: i64, kept_us: u64) -> bool {
        let mut hints = self.hints.iter();
        hints.any(|hint| hint.update.id().0 == partition && hint.kept_us <= kept_us)
    }

    /// Whether the table may still get what was written to a partition at this time.
    pub(in crate::chaos) fn may_bring(&self, id: (i64, i64)) -> bool {
        let mut hints = self.hints.iter();
        hints.any(|hint| hint.update.id() == id && hint.update.is_of_table())
    }

    /// Whether these are all replicas of some layout's range.
    pub(in crate::chaos) fn has_range_among(&self, nodes: &BTreeSet<usize>) -> bool {
        self.owners.has_range_among(nodes)
    }

    /// A node loses the hints that it keeps, with its disk.
    pub(in crate::chaos) fn lose_hints(&mut self, node: usize) {
        let before = self.hints.len();
        self.hints.retain(|hint| hint.from != node);
        self.lost += (before - self.hints.len()) as u64;
    }

    /// Whether any node keeps hints, and whether it says so by now.
    pub(in crate::chaos) fn has_hints(&self) -> bool {
        !self.hints.is_empty()
    }

    pub(in crate::chaos) fn shows_hints(&self, now_us: u64) -> bool {
        self.hints.iter().any(|hint| hint.shows_us <= now_us)
    }
}

impl Cluster {
    pub(super) fn is_derived(&self) -> bool {
        self.derived.is_some()
    }

    /// The replicas of a partition of a table.
    pub(super) fn owners_of(&self, at: (usize, i64)) -> Vec<usize> {
        let (table, partition) = at;
        match &self.derived {
            Some(derived) if table > 0 => derived.owners.of(partition),
            _ => self.replicas_of(partition),
        }
    }

    pub(super) fn alive_of(&self, at: (usize, i64)) -> (Vec<usize>, usize) {
        self.alive_among(self.owners_of(at))
    }

    /// The coordinator, if it keeps hints.
    pub(super) fn hinting(&self) -> Option<usize> {
        self.derived.as_ref().map(|_| self.coordinator().0)
    }

    pub(super) fn check_layout_read(&self, table: usize, level: Consistency) {
        let is_weak = [Consistency::ONE, Consistency::LOCAL_ONE].contains(&level);
        let may = table == 0 || !self.is_derived() || is_weak;
        assert!(may, "a derived layout is read at {level:?}");
    }

    pub(super) fn check_layout_write(&self, update: &Update, level: Consistency) {
        let Some(derived) = &self.derived else {
            return;
        };
        let id = update.id();
        let is_asked = derived.asked.contains(&id);
        assert!(
            is_asked,
            "{id:?} is written, a time that no client has given"
        );
        let may = update.is_of_table() || level == Consistency::ANY;
        assert!(may, "a derived layout is written at {level:?}");
    }

    /// What is written at ANY comes to a replica, or the coordinator keeps it for one.
    pub(super) fn check_kept(&mut self, table: usize, partition: i64) {
        let owners = self.owners_of((table, partition));
        let now_us = self.coordinator().1;
        let is_gone = owners
            .iter()
            .all(|node| self.nodes[*node].health == Health::Down);
        let is_lost = owners.iter().all(|node| !self.keeps_for(*node, now_us));
        let Some(derived) = self.derived.as_mut().filter(|of| of.is_known && table > 0) else {
            return;
        };
        derived.only_hinted += u64::from(is_gone);
        assert!(
            !is_lost,
            "partition {partition} of a derived layout is written, and no hint is kept any more"
        );
    }

    /// Whether hints are still kept for a node.
    fn keeps_for(&self, node: usize, now_us: u64) -> bool {
        let Some(derived) = &self.derived else {
            return false;
        };
        let since = derived
            .down_since
            .get(&node)
            .filter(|_| self.nodes[node].health == Health::Down);
        since.is_none_or(|since_us| now_us - since_us <= derived.window_us)
    }

    /// Keeps a hint for each replica that is not among those that are there.
    pub(super) fn hint_for_absent(&mut self, table: usize, alive: &[usize], update: &Rc<Update>) {
        if self.derived.is_none() {
            return;
        }
        for node in self.owners_of((table, update.id().0)) {
            if !alive.contains(&node) {
                let now_us = self.coordinator().1;
                self.hint(node, update, now_us);
            }
        }
    }

    /// A write that times out may be with its replica, or as a hint with the coordinator. Whether it is that.
    pub(super) fn hint_instead(&mut self, node: usize, update: &Rc<Update>) -> bool {
        let now_us = self.coordinator().1;
        let is_hinted = self
            .derived
            .as_mut()
            .is_some_and(|of| of.dice.below(3) == 0);
        if is_hinted {
            self.hint(node, update, now_us);
            if let Some(derived) = self.derived.as_mut().filter(|_| update.is_of_table()) {
                derived.only_at = update.coordinator;
            }
        }
        is_hinted
    }

    fn hint(&mut self, to: usize, update: &Rc<Update>, now_us: u64) {
        let is_kept = self.keeps_for(to, now_us);
        let (Some(from), Some(derived)) = (update.coordinator, &mut self.derived) else {
            return;
        };
        if self.nodes[from].health == Health::Down || !is_kept {
            return;
        }
        derived.kept += 1;
        derived.hints.push(Hint {
            from,
            to,
            update: update.clone(),
            kept_us: now_us,
            due_us: now_us + derived.dice.below(DELIVERED_WITHIN_US),
            shows_us: now_us + derived.dice.below(SHOWS_WITHIN_US),
        });
    }

    /// What was sent to a replica comes there. If that is down by now, the coordinator keeps a hint.
    pub(in crate::chaos) fn arrive(&mut self, mutation: Mutation, now_us: u64) {
        if self.nodes[mutation.node].health == Health::Down
            && let super::Written::Rows(update) = &mutation.written
        {
            return self.hint(mutation.node, &update.clone(), now_us);
        }
        self.apply(mutation);
    }

    pub(in crate::chaos) fn deliver_hints(&mut self, now_us: u64) {
        let Some(derived) = &mut self.derived else {
            return;
        };
        let nodes = &self.nodes;
        let is_up = |node: usize| nodes[node].health == Health::Up;
        let is_due = |hint: &Hint| hint.due_us <= now_us && is_up(hint.from) && is_up(hint.to);
        let (due, left) = derived.hints.drain(..).partition(is_due);
        derived.hints = left;
        let due: Vec<Hint> = due;
        derived.delivered += due.len() as u64;
        for hint in due {
            let written = super::Written::Rows(hint.update);
            self.apply(Mutation {
                node: hint.to,
                written,
            });
        }
    }

    pub(in crate::chaos) fn all_are_up(&self) -> bool {
        self.nodes.iter().all(|node| node.health == Health::Up)
    }

    /// A partition as all replicas have it, who have the same then; `None` if one is away.
    pub(in crate::chaos) fn read_all(&mut self, at: (usize, i64)) -> Option<Partition> {
        let owners = self.owners_of(at);
        let merged = self.merged(at);
        let nodes = &mut self.nodes;
        if owners.iter().any(|node| nodes[*node].health != Health::Up) {
            return None;
        }
        for node in owners {
            let known = nodes[node].rows.entry(at).or_default();
            known.merge(&merged);
        }
        Some(merged)
    }

    /// The same, whoever is away.
    pub(in crate::chaos) fn merged(&self, at: (usize, i64)) -> Partition {
        let mut merged = Partition::default();
        for node in self.owners_of(at) {
            if let Some(rows) = self.nodes[node].rows.get(&at) {
                merged.merge(rows);
            }
        }
        merged
    }

    /// Changes a partition on all replicas, each change with its time. Whether they were there.
    pub(in crate::chaos) fn change_all(
        &mut self,
        at: (usize, i64),
        changes: &[(Change, i64)],
    ) -> bool {
        let owners = self.owners_of(at);
        if owners
            .iter()
            .any(|node| self.nodes[*node].health != Health::Up)
        {
            return false;
        }
        for node in owners {
            let partition = self.nodes[node].rows.entry(at).or_default();
            changes
                .iter()
                .for_each(|(change, time)| partition.apply(change, *time));
        }
        true
    }

    /// The rows that differ between a table and a replica of a layout: as the table has them, and as the replica has.
    pub(in crate::chaos) fn differing(
        &self,
        table: usize,
        partition: i64,
    ) -> Vec<(Row, Written, Written)> {
        let own = self.merged((0, partition));
        let nothing = Partition::default();
        let mut found = Vec::new();
        for node in self.owners_of((table, partition)) {
            let copy = self.nodes[node].rows.get(&(table, partition));
            let copy = copy.unwrap_or(&nothing);
            let differs = |row: &Row| live(&own, row) != live(copy, row);
            let rows = all_rows().filter(differs);
            found.extend(rows.map(|row| (row, own.of_row(&row), copy.of_row(&row))));
        }
        found
    }
}

/// A row as CQL tells of it: value and time, and of what was deleted nothing.
pub(in crate::chaos) fn live(partition: &Partition, row: &Row) -> Option<(i64, i64)> {
    let written = partition.of_row(row);
    Some((written.value?, written.timestamp))
}
