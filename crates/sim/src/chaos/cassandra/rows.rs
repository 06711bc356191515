//! The table with clustering columns and its layouts, on the nodes.
//!
//! What one request writes to one partition of them is one mutation: each replica takes all of it or
//! nothing. What it writes to several partitions is several mutations.

use std::collections::BTreeMap;
use std::rc::Rc;

use helenus_wire::{Consistency, Options, PageStart, code, write};

use super::derived::Proposed;
use super::replicas::required;
use super::served::{Served, error, error_saying, result, unavailable};
use super::{Cluster, Mutation, Written};
use crate::chaos::cql::{self, Metadata};
use crate::chaos::wide::{
    Action, CLUSTERING, Change, Histories, KEYSPACE, Order, Partition, Row, Select, Statement,
    TABLE, all_rows,
};
use crate::dice::Dice;

/// A table: the first is the one that clients know, the others are its layouts.
#[derive(Clone, Debug)]
pub(in crate::chaos) struct Table {
    pub name: String,
    pub order: Order,
    pub exists: bool,
}

/// What a request writes to one partition.
#[derive(Debug)]
pub(in crate::chaos) struct Update {
    partition: i64,
    /// With the number of the table.
    changes: Vec<(usize, Change)>,
    timestamp: i64,
    /// Who keeps a hint of it for a replica that is away, if anybody does.
    pub(super) coordinator: Option<usize>,
}

/// Changes by partition.
pub(super) type Changes = BTreeMap<i64, Vec<(usize, Change)>>;

/// The tables in some run: directions of their columns, and a layout for each of some orders.
pub(in crate::chaos) fn tables(dice: &mut Dice) -> Vec<Table> {
    const ORDERS: [[usize; 3]; 4] = [[2, 0, 1], [1, 0, 2], [2, 1, 0], [1, 2, 0]];
    let descending = [(); 3].map(|()| dice.below(3) == 0);
    let first = dice.below(ORDERS.len() as u64) as usize;
    let other = (first + 1 + dice.below(3) as usize) % ORDERS.len();
    let orders = [ORDERS[first], ORDERS[other]];
    let own = Table {
        name: TABLE.to_owned(),
        order: Order::own(descending),
        exists: true,
    };
    let layout = |columns: &[usize; 3]| Table {
        name: format!("g__layout_{}", columns.map(|at| CLUSTERING[at]).concat()),
        order: Order {
            columns: *columns,
            descending,
        },
        exists: false,
    };
    let layouts = orders[..1 + dice.below(2) as usize].iter().map(layout);
    std::iter::once(own).chain(layouts).collect()
}

impl Update {
    pub(super) fn apply(&self, tables: &mut BTreeMap<(usize, i64), Partition>) {
        for (table, change) in &self.changes {
            let partition = tables.entry((*table, self.partition)).or_default();
            partition.apply(change, self.timestamp);
        }
    }

    /// Whether it writes the table itself.
    pub(super) fn is_of_table(&self) -> bool {
        self.changes.iter().any(|(table, _)| *table == 0)
    }

    /// What makes it unlike all others: each partition has one writer, who writes once at a time.
    pub(super) fn id(&self) -> (i64, i64) {
        (self.partition, self.timestamp)
    }
}

impl Cluster {
    /// The number of a table, or what a node says if it is not there.
    pub(super) fn check_table(&self, name: &str) -> Result<usize, Served> {
        let is_it = |of: &Table| of.exists && of.name == name;
        let missing = format!("table {KEYSPACE}.{name} does not exist");
        let found = self.tables.iter().position(is_it);
        found.ok_or_else(|| error_saying(code::INVALID, &missing, &[]))
    }

    /// A table is there from now on, or it is not any more: nodes forget what they have prepared for it.
    pub(in crate::chaos) fn set_exists(&mut self, table: usize, exists: bool) {
        self.tables[table].exists = exists;
        if exists {
            return;
        }
        let name = format!("ks.{}", self.tables[table].name);
        for node in &mut self.nodes {
            node.known.retain(|text| !text.contains(&name));
            node.rows.retain(|(of, _), _| *of != table);
        }
    }

    /// Copies all rows to a layout, with their timestamps, on every replica.
    pub(in crate::chaos) fn backfill(&mut self, table: usize) {
        for node in &mut self.nodes {
            let own = node.rows.iter().filter(|((of, _), _)| *of == 0);
            let own: Vec<_> = own.map(|((_, p), rows)| (*p, rows.clone())).collect();
            for (partition, rows) in own {
                node.rows
                    .entry((table, partition))
                    .or_default()
                    .merge(&rows);
            }
        }
    }

    pub(super) fn rows(
        &mut self,
        statement: &Statement,
        now_us: u64,
        options: &Options<'_>,
        text: &str,
        metadata: &Metadata,
        dice: &mut Dice,
    ) -> Served {
        let table = match self.check_table(&statement.table) {
            Ok(table) => table,
            Err(served) => return served,
        };
        match &statement.action {
            Action::If(row, value, expected) if self.is_derived() => {
                let proposed = Proposed {
                    change: Change::Put(*row, *value),
                    timestamp: options.timestamp.unwrap_or(now_us as i64),
                };
                let asked = (statement.partition, proposed, *expected);
                self.write_if(asked, options.consistency, text, dice)
            }
            Action::Uncopied | Action::Slice(_) | Action::If(..)
                if statement.change(self.is_derived()).is_none() =>
            {
                self.uncopied += 1;
                result(vec![0, 0, 0, 1])
            }
            Action::Definition => result(vec![0, 0, 0, 1]),
            Action::Change(_) | Action::Slice(_) | Action::Uncopied | Action::If(..) => {
                let change = statement.change(self.is_derived());
                let change = change.into_iter().map(|change| (table, change));
                let changes = BTreeMap::from([(statement.partition, change.collect())]);
                let timestamp = options.timestamp.unwrap_or(now_us as i64);
                self.write_rows(changes, timestamp, options.consistency, dice)
            }
            Action::Select(select) => {
                let at = (table, statement.partition);
                let completed = match options.consistency.is_serial() {
                    true => self.complete(statement.partition, dice),
                    false => Ok(Vec::new()),
                };
                match completed {
                    Ok(later) => {
                        let mut served = self.select(at, select, options, text, metadata, dice);
                        served.later.extend(later);
                        served
                    }
                    Err(served) => served,
                }
            }
        }
    }

    fn select(
        &mut self,
        at: (usize, i64),
        select: &Select,
        options: &Options<'_>,
        text: &str,
        metadata: &Metadata,
        dice: &mut Dice,
    ) -> Served {
        let order = self.tables[at.0].order;
        if let Err(why) = select.check(&order) {
            return error_saying(code::INVALID, why, &[]);
        }
        self.check_layout_read(at.0, options.consistency);
        let partition = match self.read_rows(at, options.consistency, dice) {
            Ok(partition) => partition,
            Err(served) => return served,
        };
        self.layout_reads += u64::from(at.0 > 0);
        let columns = cql::columns(text, 0);
        if select.counts {
            let rows = select.page(&order, &partition, None, usize::MAX).rows;
            let cells = [vec![(rows.len() as i64).to_be_bytes().to_vec()]];
            return result(cql::rows(text, &columns, &cells, None, metadata));
        }
        let mut after = None;
        let mut remaining = select.limit.unwrap_or(i32::MAX as u32);
        if let Some(state) = options.paging_state {
            let Some((row, left)) = read_state(state, at.1, &order) else {
                return error_saying(code::PROTOCOL, "Invalid value for the paging state", &[]);
            };
            (after, remaining) = (Some(row), left);
        }
        let size = options.page_size.filter(|size| *size > 0);
        let size = size.map_or(usize::MAX, |size| size as usize);
        let size = size.min(remaining as usize);
        let page = select.page(&order, &partition, after, size);
        remaining -= page.rows.len() as u32;
        let last = page.rows.last().filter(|_| page.more && remaining > 0);
        let state = last.map(|(row, _)| write_state(at.1, &order.mark(row), remaining));
        let cells: Vec<Vec<Vec<u8>>> = page
            .rows
            .iter()
            .map(|(row, value)| cells(&columns, at.1, row, *value))
            .collect();
        result(cql::rows(
            text,
            &columns,
            &cells,
            state.as_deref(),
            metadata,
        ))
    }

    /// A partition as enough replicas know it.
    pub(super) fn read_rows(
        &self,
        at: (usize, i64),
        level: Consistency,
        dice: &mut Dice,
    ) -> Result<Partition, Served> {
        let (mut alive, factor) = self.alive_of(at);
        let required = required(level, factor);
        if alive.len() < required {
            return Err(unavailable(level, required, alive.len()));
        }
        let mut merged = Partition::default();
        for _ in 0..required {
            let node = alive.swap_remove(dice.below(alive.len() as u64) as usize);
            if let Some(rows) = self.nodes[node].rows.get(&at) {
                merged.merge(rows);
            }
        }
        Ok(merged)
    }

    /// What a node says if too few replicas are there for some partition.
    pub(super) fn cannot_write_rows(
        &self,
        changes: &Changes,
        level: Consistency,
    ) -> Option<Served> {
        if level == Consistency::ANY {
            return None;
        }
        changes.keys().find_map(|partition| {
            let (alive, factor) = self.alive(*partition);
            let required = required(level, factor);
            (alive.len() < required).then(|| unavailable(level, required, alive.len()))
        })
    }

    /// Writes each partition as one mutation.
    pub(super) fn write_rows(
        &mut self,
        changes: Changes,
        timestamp: i64,
        level: Consistency,
        dice: &mut Dice,
    ) -> Served {
        if let Some(served) = self.cannot_write_rows(&changes, level) {
            return served;
        }
        let mut later = Vec::new();
        for (partition, changes) in changes {
            let table = changes.first().map_or(0, |(table, _)| *table);
            let (mut alive, factor) = self.alive_of((table, partition));
            let update = Rc::new(Update {
                partition,
                changes,
                timestamp,
                coordinator: self.hinting(),
            });
            self.check_layout_write(&update, level);
            self.check_kept(table, partition);
            self.hint_for_absent(table, &alive, &update);
            self.copied += u64::from(update.changes.iter().any(|(table, _)| *table > 0));
            let of = |node| Mutation {
                node,
                written: Written::Rows(update.clone()),
            };
            for _ in 0..required(level, factor).min(alive.len()) {
                let node = alive.swap_remove(dice.below(alive.len() as u64) as usize);
                self.apply(of(node));
            }
            later.extend(alive.into_iter().map(of));
        }
        Served {
            later,
            ..result(vec![0, 0, 0, 1])
        }
    }

    /// An error in place of an answer to a write. A time-out leaves it open what was done.
    pub(super) fn fail_rows(
        &mut self,
        changes: Changes,
        options: &Options<'_>,
        timestamp: i64,
        dice: &mut Dice,
    ) -> Served {
        match dice.below(4) {
            0 => error(code::OVERLOADED, &[]),
            1 if options.consistency != Consistency::ANY => unavailable(options.consistency, 2, 1),
            2 => {
                let is_one = changes.len() == 1;
                for (partition, changes) in changes {
                    if dice.below(3) == 0 {
                        continue;
                    }
                    let table = changes.first().map_or(0, |(table, _)| *table);
                    let update = Rc::new(Update {
                        partition,
                        changes,
                        timestamp,
                        coordinator: self.hinting(),
                    });
                    let node = self.owners_of((table, partition))[0];
                    if self.hint_instead(node, &update) {
                        continue;
                    }
                    let written = Written::Rows(update);
                    self.apply(Mutation { node, written });
                }
                let mut fields = Vec::new();
                write::u16(&mut fields, options.consistency.0);
                write::i32(&mut fields, 0);
                write::i32(&mut fields, 2);
                write::string(
                    &mut fields,
                    if is_one { "SIMPLE" } else { "UNLOGGED_BATCH" },
                );
                error(code::WRITE_TIMEOUT, &fields)
            }
            _ => error(code::IS_BOOTSTRAPPING, &[]),
        }
    }

    /// Whether a layout has what the table has. A write is one mutation for both: each replica has both or
    /// neither, if it was made when all proxies knew of the layout. Of earlier ones it has at least
    /// those that were acknowledged, on enough replicas.
    pub(in crate::chaos) fn compare_layout(
        &self,
        table: usize,
        histories: &Histories,
        known_since: i64,
    ) -> Result<(), String> {
        let name = &self.tables[table].name;
        let mut partitions: Vec<i64> = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let of_both = node.rows.keys().filter(|(of, _)| *of == 0 || *of == table);
            partitions.extend(of_both.map(|(_, partition)| *partition));
            let nothing = Partition::default();
            for partition in &partitions {
                let of = |table| node.rows.get(&(table, *partition)).unwrap_or(&nothing);
                let differs = all_rows().find_map(|row| {
                    let (own, copy) = (of(0).of_row(&row), of(table).of_row(&row));
                    let newest = own.timestamp.max(copy.timestamp);
                    (own != copy && newest >= known_since).then_some((row, own, copy))
                });
                if let Some((row, own, copy)) = differs {
                    return Err(format!(
                        "node {number} has {copy:?} in {name} and {own:?} in the table, of row {row:?} \
                         of partition {partition}"
                    ));
                }
            }
        }
        partitions.sort_unstable();
        partitions.dedup();
        let mut partitions = partitions.into_iter();
        partitions.try_for_each(|partition| self.compare_all(table, partition, histories))
    }

    fn compare_all(
        &self,
        table: usize,
        partition: i64,
        histories: &Histories,
    ) -> Result<(), String> {
        let mut merged = Partition::default();
        for node in &self.nodes {
            if let Some(rows) = node.rows.get(&(table, partition)) {
                merged.merge(rows);
            }
        }
        let is_missing = |row: &Row| {
            let least = histories.acknowledged(partition, row);
            least.is_some_and(|least| merged.of_row(row).timestamp < least)
        };
        match all_rows().find(is_missing) {
            None => Ok(()),
            Some(row) => Err(format!(
                "{} lacks what was written to row {row:?} of partition {partition} and acknowledged",
                self.tables[table].name
            )),
        }
    }
}

fn cells(columns: &[(&'static str, u16)], partition: i64, row: &Row, value: i64) -> Vec<Vec<u8>> {
    let cell = |(name, _): &(&str, u16)| {
        let clustering = CLUSTERING.iter().position(|column| column == name);
        let cell = match (*name, clustering) {
            (_, Some(at)) => row[at],
            ("p", None) => partition,
            _ => value,
        };
        cell.to_be_bytes().to_vec()
    };
    columns.iter().map(cell).collect()
}

/// A paging state within a partition, as Cassandra writes it: with the row's values in the order of the
/// table that was read.
fn write_state(partition: i64, mark: &[u8], remaining: u32) -> Vec<u8> {
    let key = partition.to_be_bytes();
    let mut state = PageStart::behind_partition(&key, remaining).write();
    // Behind the key and its length is the row, which has none so far.
    let at = key.len() + 1;
    state.splice(at..=at, [&[mark.len() as u8][..], mark].concat());
    state
}

/// The row behind which a page begins, and how many are left of the LIMIT.
fn read_state(state: &[u8], partition: i64, order: &Order) -> Option<(Row, u32)> {
    let start = PageStart::parse(state).ok()?;
    if start.key != partition.to_be_bytes() {
        return None;
    }
    let at = start.key.len() + 1;
    let len = usize::from(*state.get(at)?);
    let row = order.row_of(state.get(at + 1..at + 1 + len)?)?;
    Some((row, start.remaining))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paging_state_leads_back_to_its_row() {
        let order = Order {
            columns: [2, 0, 1],
            descending: [false; 3],
        };
        let state = write_state(7, &order.mark(&[0, 1, 2]), 300);
        assert_eq!(read_state(&state, 7, &order), Some(([0, 1, 2], 300)));
        assert_eq!(read_state(&state, 8, &order), None);
        assert_eq!(read_state(&state[1..], 7, &order), None);
        let own = read_state(&state, 7, &Order::own([false; 3]));
        assert_eq!(own, Some(([2, 0, 1], 300)), "of another table: elsewhere");
    }
}
