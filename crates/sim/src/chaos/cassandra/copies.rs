//! Copies in place of replicas, on the nodes: each on one node, which may lose the end of its commit log when it
//! crashes. What a table's other copies hold is nothing to it: they are kept in sync from outside.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use helenus_layout::insync::TABLE as THE_TABLE;
use helenus_policy::ring::{NodeIndex, NodeSpec, ReplicaSets, Replication, Ring};
use helenus_policy::token::Partitioner;

use super::rows::Update;
use super::{Cluster, Health};
use crate::chaos::cassandra::Table;
use crate::chaos::proxy::specs_of;
use crate::chaos::wide::{CLUSTERING, OF_COPIES, Order, Partition, Row, TABLE, all_rows};
use crate::dice::Dice;

/// Generations are seconds, not counts.
const FIRST_BOOT: u32 = 1_700_000_000;

/// The first start of a node: that of another node is never taken for it.
pub(super) fn first_boot(node: usize) -> u32 {
    FIRST_BOOT + 1_000 * node as u32
}
/// With `commitlog_sync: periodic` what a node has answered may be lost for so long.
const SYNC_PERIOD_US: u64 = 10_000_000;

/// Which node holds each copy, by partition.
pub(in crate::chaos) struct Holders {
    ring: Ring,
    of_copy: Vec<Arc<ReplicaSets>>,
}

/// A read of a copy. Its client's time of asking tells it from others.
#[derive(Clone, Copy, Debug)]
pub(in crate::chaos) struct CopyRead {
    pub partition: i64,
    pub asked_us: i64,
    pub copy: usize,
    pub came: Came,
}

/// What has come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum Came {
    Rows,
    Error,
}

/// What was written to copies on a node, in the order in which it was.
#[derive(Debug, Default)]
pub(super) struct CommitLog {
    written: Vec<(u64, Logged)>,
    /// What crashes have taken, which a disk may give back.
    lost: Vec<Logged>,
}

#[derive(Clone, Debug)]
pub(super) enum Logged {
    Update(Rc<Update>),
    /// What was found in others when they were made equal.
    Merged(usize, i64, Partition),
}

impl Logged {
    fn table(&self) -> usize {
        match self {
            Logged::Update(update) => update.place().0,
            Logged::Merged(table, ..) => *table,
        }
    }

    fn is_of(&self, copy: usize, partitions: &[i64]) -> bool {
        let (table, partition) = match self {
            Logged::Update(update) => update.place(),
            Logged::Merged(table, partition, _) => (*table, *partition),
        };
        table == copy + 1 && partitions.contains(&partition)
    }

    fn apply(&self, rows: &mut BTreeMap<(usize, i64), Partition>) {
        match self {
            Logged::Update(update) => update.apply(rows),
            Logged::Merged(table, partition, of) => {
                rows.entry((*table, *partition)).or_default().merge(of);
            }
        }
    }
}

impl CommitLog {
    pub(super) fn note(&mut self, now_us: u64, logged: Logged) {
        self.written.push((now_us, logged));
    }

    fn take_lost(&mut self, copy: usize, partitions: &[i64]) -> Vec<Logged> {
        let lost = std::mem::take(&mut self.lost).into_iter();
        let (of, others) = lost.partition(|logged| logged.is_of(copy, partitions));
        self.lost = others;
        of
    }
}

/// A table that is empty, and copies of it, each in a keyspace of its own: one in its order, in the order of
/// their names.
pub(in crate::chaos) fn copied_tables(own: Table, copies: usize, dice: &mut Dice) -> Vec<Table> {
    const OTHERS: [[usize; 3]; 4] = [[1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let first = dice.below(2) as usize;
    let mut orders = vec![[0, 1, 2], OTHERS[first], OTHERS[first + 2]];
    orders.truncate(copies);
    let descending = own.order.descending;
    let copies = orders.into_iter().map(|columns| {
        let name = columns.map(|at| CLUSTERING[at]).concat();
        Table {
            keyspace: format!("{OF_COPIES}{name}"),
            name: format!("{TABLE}__layout_{name}"),
            order: Order {
                columns,
                descending,
            },
            exists: true,
        }
    });
    std::iter::once(own).chain(copies).collect::<Vec<_>>()
}

impl Holders {
    /// The nodes are divided into a data center for each copy.
    pub(in crate::chaos) fn new(nodes: usize, copies: usize) -> Holders {
        let members: Vec<usize> = (0..nodes).collect();
        let specs = specs_of(&members).into_iter().enumerate();
        let specs: Vec<NodeSpec> = specs
            .map(|(node, spec)| NodeSpec {
                dc: format!("dc{}", node % copies),
                ..spec
            })
            .collect();
        let ring = Ring::new(Partitioner::Murmur3, &specs);
        let of_copy = (0..copies).map(|copy| {
            let one = [(format!("dc{copy}"), 1)].into_iter().collect();
            Arc::new(ring.replica_sets(&Replication::NetworkTopology(one)))
        });
        let of_copy = of_copy.collect();
        Holders { ring, of_copy }
    }

    pub(in crate::chaos) fn copies(&self) -> usize {
        self.of_copy.len()
    }

    pub(in crate::chaos) fn of_copy(&self, copy: usize) -> &Arc<ReplicaSets> {
        &self.of_copy[copy]
    }

    /// The node of each copy of a partition.
    pub(in crate::chaos) fn of(&self, partition: i64) -> Box<[NodeIndex]> {
        let slot = self.ring.slot_of_key(&partition.to_be_bytes()).unwrap_or(0);
        self.of_copy.iter().map(|of| of.of_slot(slot)[0]).collect()
    }
}

impl Cluster {
    /// The nodes that have a partition of a table.
    pub(super) fn replicas_of_table(&self, table: usize, partition: i64) -> Vec<usize> {
        match &self.holders {
            Some(holders) if table > 0 => {
                vec![holders.of(partition)[table - 1].as_usize()]
            }
            _ => self.replicas_of(partition),
        }
    }

    /// A copy is on one node, and proxies are to ask that one: no other may take its requests.
    pub(super) fn judge_holder(&self, node: usize, table: usize, partition: i64) {
        if self.holders.is_some() && table > 0 {
            let holder = self.replicas_of_table(table, partition)[0];
            let copy = table - 1;
            assert_eq!(
                node, holder,
                "of copy {copy} of partition {partition}: not its node"
            );
        }
    }

    /// Those of them that are up, and how many there are.
    pub(super) fn alive_of(&self, (table, partition): (usize, i64)) -> (Vec<usize>, usize) {
        let replicas = self.replicas_of_table(table, partition);
        let factor = replicas.len();
        let is_up = |node: &usize| self.seems_up(*node);
        (replicas.into_iter().filter(is_up).collect(), factor)
    }

    /// A node that is down is started once more.
    pub(super) fn count_start(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        if node.health == Health::Down {
            node.boot += 1;
        }
    }

    /// A node crashes, and with it goes what it has written to copies since some moment.
    pub(in crate::chaos) fn lose_tail(&mut self, node: usize, dice: &mut Dice) {
        let since_us = match dice.below(4) {
            0 => self.now_us,
            1 => self.now_us.saturating_sub(dice.below(500_000)),
            _ => self.now_us.saturating_sub(dice.below(SYNC_PERIOD_US)),
        };
        let node = &mut self.nodes[node];
        let kept = node.log.written.partition_point(|(at, _)| *at < since_us);
        let lost = node.log.written.split_off(kept);
        // The table has other replicas, and of what they all lose nothing is promised.
        let (of_table, lost): (Vec<_>, Vec<_>) =
            lost.into_iter().partition(|(_, of)| of.table() == 0);
        node.log.written.extend(of_table);
        node.log.lost.extend(lost.into_iter().map(|(_, of)| of));
        node.rows.clear();
        for (_, logged) in &node.log.written {
            logged.apply(&mut node.rows);
        }
    }

    /// A copy gets back what its nodes have lost of these partitions.
    pub(in crate::chaos) fn recover(&mut self, copy: usize, partitions: &[i64]) {
        let now_us = self.now_us;
        for node in &mut self.nodes {
            for logged in node.log.take_lost(copy, partitions) {
                logged.apply(&mut node.rows);
                node.log.note(now_us, logged);
            }
        }
    }

    /// It comes back in another way.
    pub(in crate::chaos) fn forget_lost(&mut self, copy: usize, partitions: &[i64]) {
        for node in &mut self.nodes {
            drop(node.log.take_lost(copy, partitions));
        }
    }

    /// These copies of a partition get all that any of them has. Returns whether something was missing.
    pub(in crate::chaos) fn make_equal(&mut self, copies: &[usize], partition: i64) -> bool {
        let mut merged = Partition::default();
        for copy in copies {
            merged.merge(&self.of_copy(*copy, partition));
        }
        let mut has_changed = false;
        for copy in copies {
            if let Some(rows) = self.of_copy(*copy, partition).differing(&merged) {
                self.merge_into(*copy, partition, rows);
                has_changed = true;
            }
        }
        has_changed
    }

    /// Rows in which a newcomer differs from its source get the newer of both, in all of these copies. What the others
    /// have in these rows is not looked at, and neither are other rows. Returns whether some differed.
    pub(in crate::chaos) fn repair(
        &mut self,
        (newcomer, source): (usize, usize),
        copies: &[usize],
        partition: i64,
    ) -> bool {
        let (own, other) = (
            self.of_copy(newcomer, partition),
            self.of_copy(source, partition),
        );
        let Some(rows) = own.differing(&other) else {
            return false;
        };
        for copy in copies {
            self.merge_into(*copy, partition, rows.clone());
        }
        true
    }

    fn merge_into(&mut self, copy: usize, partition: i64, rows: Partition) {
        let table = table_of(copy);
        for node in self.replicas_of_table(table, partition) {
            let node = &mut self.nodes[node];
            let logged = Logged::Merged(table, partition, rows.clone());
            logged.apply(&mut node.rows);
            node.log.note(self.now_us, logged);
        }
    }

    /// What a copy has of a partition.
    pub(in crate::chaos) fn of_copy(&self, copy: usize, partition: i64) -> Partition {
        let name = (table_of(copy), partition);
        let mut found = Partition::default();
        for node in self.replicas_of_table(name.0, partition) {
            if let Some(rows) = self.nodes[node].rows.get(&name) {
                found.merge(rows);
            }
        }
        found
    }

    /// Whether all replicas of the table are up.
    pub(in crate::chaos) fn is_table_whole(&self, partition: i64) -> bool {
        let replicas = self.replicas_of(partition);
        let mut health = replicas.iter().map(|node| self.nodes[*node].health);
        health.all(|health| health == Health::Up)
    }

    /// A row that not as many replicas of the table have as a read at QUORUM counts on, since these times.
    pub(in crate::chaos) fn lacking(
        &self,
        partition: i64,
        least: impl Fn(&Row) -> Option<i64>,
    ) -> Option<(Row, i64)> {
        let replicas = self.replicas_of(partition);
        let has = |node: &usize, row: &Row, least: i64| {
            let rows = self.nodes[*node].rows.get(&(0, partition));
            rows.is_some_and(|rows| rows.of_row(row).timestamp >= least)
        };
        all_rows().find_map(|row| {
            let least = least(&row)?;
            let having = replicas.iter().filter(|node| has(node, &row, least));
            let is_enough = having.count() > replicas.len() / 2;
            (!is_enough).then_some((row, least))
        })
    }

    /// Whether two copies show the same rows of a partition.
    pub(in crate::chaos) fn differ(&self, (one, other): (usize, usize), partition: i64) -> bool {
        let (one, other) = (self.of_copy(one, partition), self.of_copy(other, partition));
        all_rows().any(|row| one.of_row(&row).value != other.of_row(&row).value)
    }
}

/// The number of a member's table: that of the table itself is the first.
fn table_of(member: usize) -> usize {
    match member {
        THE_TABLE => 0,
        copy => copy + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::cassandra::{Mutation, Owners, Written};
    use crate::chaos::wide::Change;

    fn cluster() -> Cluster {
        let owners = Owners::new(vec![0, 1], &Replication::Simple { rf: 1 });
        let mut cluster = Cluster::new(owners, 0, 1);
        cluster.holders = Some(Holders::new(2, 2));
        cluster
    }

    /// Writes a value to a copy of partition 5, which is that of the first of its rows.
    fn write(cluster: &mut Cluster, copy: usize, value: i64, at_us: u64) {
        cluster.now_us = at_us;
        let row = [0, 0, value];
        let change = (copy + 1, Change::Put(row, value));
        let update = Update::new(5, vec![change], at_us as i64);
        let node = cluster.replicas_of_table(copy + 1, 5)[0];
        let written = Written::Rows(Rc::new(update));
        cluster.apply(Mutation { node, written });
    }

    fn values(cluster: &Cluster, copy: usize) -> Vec<i64> {
        let of_copy = cluster.of_copy(copy, 5);
        of_copy.live().map(|(_, value)| value).collect()
    }

    #[test]
    fn a_crash_takes_the_end_of_what_was_written_and_the_disk_may_give_it_back() {
        let mut cluster = cluster();
        let mut dice = Dice::of(1, 1, 1);
        let node = cluster.replicas_of_table(1, 5)[0];
        write(&mut cluster, 0, 1, 1_000);
        write(&mut cluster, 0, 2, 60_000_000);
        while values(&cluster, 0).len() == 2 {
            cluster.lose_tail(node, &mut dice);
        }
        assert_eq!(values(&cluster, 0), [1], "it was written long before");
        cluster.nodes[node].health = Health::Down;
        let boot = cluster.nodes[node].boot;
        cluster.restart(node);
        cluster.restart(node);
        assert_eq!(cluster.nodes[node].boot, boot + 1, "it was down once");
        cluster.recover(1, &[5]);
        cluster.recover(0, &[4]);
        assert_eq!(values(&cluster, 0), [1], "of others");
        cluster.recover(0, &[5]);
        assert_eq!(values(&cluster, 0), [1, 2]);
    }

    #[test]
    #[should_panic(expected = "not its node")]
    fn a_request_of_a_copy_at_another_node_is_noticed() {
        let cluster = cluster();
        let holder = cluster.replicas_of_table(1, 5)[0];
        cluster.judge_holder(holder, 1, 5);
        cluster.judge_holder(1 - holder, 1, 5);
    }

    #[test]
    fn a_newcomer_is_compared_with_one_copy_only() {
        let owners = Owners::new(vec![0, 1, 2], &Replication::Simple { rf: 1 });
        let mut cluster = Cluster::new(owners, 0, 1);
        cluster.holders = Some(Holders::new(3, 3));
        write(&mut cluster, 0, 1, 1_000);
        write(&mut cluster, 2, 2, 2_000);
        assert!(cluster.repair((1, 0), &[0, 1, 2], 5));
        assert_eq!([0, 1].map(|copy| values(&cluster, copy)), [[1], [1]]);
        assert_eq!(values(&cluster, 2), [1, 2], "the others differ as before");
        assert!(!cluster.repair((1, 0), &[0, 1, 2], 5));
    }

    #[test]
    fn copies_are_made_equal_in_both_directions() {
        let mut cluster = cluster();
        write(&mut cluster, 0, 1, 1_000);
        write(&mut cluster, 1, 2, 2_000);
        assert!(cluster.differ((0, 1), 5));
        assert!(cluster.make_equal(&[0, 1], 5));
        assert!(!cluster.differ((0, 1), 5) && !cluster.make_equal(&[0, 1], 5));
        assert_eq!(values(&cluster, 0), [1, 2]);
    }
}
