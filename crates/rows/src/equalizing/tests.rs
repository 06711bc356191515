use std::collections::BTreeMap;

use super::*;
use crate::names::TableName;
use crate::row::Bytes;
use crate::table::{Column, Shape};
use crate::writes::Kind;

mod lasting;

const COLUMNS: usize = 3;

fn table() -> Table {
    let column = |name: String, shape: Shape| Column {
        name,
        cql_type: "int".to_owned(),
        descending: false,
        shape,
    };
    let name: TableName = "s.t".parse().expect("a name");
    let regulars = (0..COLUMNS).map(|at| {
        let shape = if at == 2 { Shape::Set } else { Shape::Single };
        column(format!("c{at}"), shape)
    });
    Table {
        name,
        partition: vec![column("k".to_owned(), Shape::Single)],
        clustering: vec![column("a".to_owned(), Shape::Single)],
        statics: Vec::new(),
        regulars: regulars.collect(),
        default_ttl: 0,
        gc_grace_seconds: 864_000,
        is_odd: false,
    }
}

/// When it was written, when it ends, and the value; none: a tombstone.
type Stored = (i64, Option<i64>, Option<Vec<u8>>);
/// Long after all that is written here.
const PAST: i64 = 1_000;

/// What a node keeps of one row.
#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    now_s: i64,
    /// Of the marker: when it was written, and when it ends.
    marker: Option<(i64, Option<i64>)>,
    deleted: i64,
    /// By column and element.
    cells: BTreeMap<(usize, Bytes), Stored>,
}

#[derive(Clone, Debug)]
enum Op {
    Insert(i64, Vec<(usize, Bytes, Vec<u8>)>),
    Update(i64, Vec<(usize, Bytes, Vec<u8>)>),
    DeleteCell(i64, usize, Bytes),
    DeleteRow(i64),
}

impl Node {
    fn apply(&mut self, op: &Op) {
        self.apply_for(op, 0);
    }

    /// With this time to live; 0: for ever.
    fn apply_for(&mut self, op: &Op, ttl: i32) {
        let ends = (ttl > 0).then(|| self.now_s + i64::from(ttl));
        match op {
            Op::Insert(time, cells) | Op::Update(time, cells) => {
                if matches!(op, Op::Insert(..)) {
                    // Of one time nodes prefer what expires, then what expires later.
                    self.marker = self.marker.max(Some((*time, ends)));
                }
                for (column, element, value) in cells {
                    let new = (*time, ends, Some(value.clone()));
                    self.put((*column, element.clone()), new);
                }
            }
            Op::DeleteCell(time, column, element) => {
                self.put((*column, element.clone()), (*time, None, None))
            }
            Op::DeleteRow(time) => self.deleted = self.deleted.max(*time),
        }
    }

    fn put(&mut self, key: (usize, Bytes), new: Stored) {
        let rank = |of: &Stored| {
            let (time, ends, value) = of;
            (
                *time,
                value.is_none() || ends.is_some(),
                value.is_none(),
                *ends,
                value.clone(),
            )
        };
        let known = self.cells.get(&key);
        if known.is_none_or(|known| rank(&new) > rank(known)) {
            self.cells.insert(key, new);
        }
    }

    /// What is left of it, if it is still there; 0: it does not end.
    fn left(&self, time: i64, ends: Option<i64>) -> Option<i32> {
        let left = ends.map_or(0, |ends| (ends - self.now_s) as i32);
        let is_over = ends.is_some() && left <= 0;
        (time > self.deleted && !is_over).then_some(left)
    }

    fn row(&self) -> Option<Row> {
        let cells = self.cells.iter().filter_map(|(of, (time, ends, value))| {
            let ((column, element), value) = (of.clone(), value.clone()?);
            Some(Cell {
                column,
                element,
                value,
                timestamp: Some(*time),
                ttl: self.left(*time, *ends)?,
            })
        });
        let cells: Vec<Cell> = cells.collect();
        let marker = self.marker.and_then(|(time, ends)| self.left(time, ends));
        let is_there = marker.is_some() || !cells.is_empty();
        is_there.then(|| Row {
            partition: vec![Some(vec![7])],
            clustering: Some(vec![Some(vec![8])]),
            cells,
        })
    }

    fn is_bare(&self) -> bool {
        self.row().is_some_and(|row| row.cells.is_empty())
    }

    /// Carries out a statement by its text's kind and its values.
    fn carry_out(&mut self, write: &Write) {
        let mut values = write.values.clone();
        let number = |bytes: Bytes| {
            let bytes = bytes.expect("a time").try_into().expect("eight bytes");
            i64::from_be_bytes(bytes)
        };
        let life = |bytes: &Bytes| {
            let bytes = bytes.as_deref().expect("a TTL");
            i32::from_be_bytes(bytes.try_into().expect("four bytes"))
        };
        let mut ttl = 0;
        let cells = |columns: &[usize], values: Vec<Bytes>| {
            let cells = columns.iter().zip(values).flat_map(|(column, value)| {
                let value = value.expect("a value");
                match column {
                    // A set of elements of one byte: a count, and then each with its length.
                    2 => value[4..]
                        .chunks(5)
                        .map(|element| (*column, Some(element[4..].to_vec()), Vec::new()))
                        .collect(),
                    _ => vec![(*column, None, value)],
                }
            });
            cells.collect::<Vec<_>>()
        };
        let op = match &write.kind {
            Kind::Insert(columns) => {
                let rest = values.split_off(2);
                let time = number(rest[columns.len()].clone());
                ttl = life(&rest[columns.len() + 1]);
                Op::Insert(time, cells(columns, rest[..columns.len()].to_vec()))
            }
            Kind::Update(columns) => {
                let time = number(values[0].clone());
                ttl = life(&values[1]);
                Op::Update(time, cells(columns, values[2..2 + columns.len()].to_vec()))
            }
            Kind::DeleteRow => Op::DeleteRow(number(values[0].clone())),
            Kind::Delete {
                column, is_element, ..
            } => {
                let element = is_element.then(|| values.remove(0).expect("an element"));
                Op::DeleteCell(number(values[0].clone()), *column, element)
            }
            Kind::Static(_) => panic!("there are no static columns"),
        };
        self.apply_for(&op, ttl);
    }
}

/// A look at rows of which the first copy is in sync.
fn look() -> Look {
    Look {
        source: 0,
        age: Duration::ZERO,
        past_us: PAST,
    }
}

/// Makes them equal; whether that came to its end.
fn equalize(nodes: &mut [Node]) -> bool {
    equalize_in(&table(), nodes)
}

fn equalize_in(table: &Table, nodes: &mut [Node]) -> bool {
    let mut equalizing = Equalizing::default();
    loop {
        let rows: Vec<Option<Row>> = nodes.iter().map(Node::row).collect();
        match equalizing.next(table, &rows, look()) {
            Step::Equal => return true,
            Step::Again => {}
            Step::GiveUp => return false,
            Step::Mark(marker, lacking) => {
                lacking.iter().for_each(|at| nodes[*at].carry_out(&marker));
            }
            Step::Write(writes) => {
                for node in nodes.iter_mut() {
                    writes.iter().for_each(|write| node.carry_out(write));
                }
            }
        }
    }
}

fn cell(column: usize, value: u8) -> (usize, Bytes, Vec<u8>) {
    match column {
        2 => (2, Some(vec![value]), Vec::new()),
        _ => (column, None, vec![value]),
    }
}

/// Nodes that got these operations.
fn nodes(of: &[&[Op]]) -> Vec<Node> {
    let node = |ops: &&[Op]| {
        let mut node = Node::default();
        ops.iter().for_each(|op| node.apply(op));
        node
    };
    of.iter().map(node).collect()
}

#[test]
fn what_one_copy_lacks_comes_with_its_times_and_its_marker() {
    let insert = Op::Insert(5, vec![cell(0, 1), cell(2, 9)]);
    let update = Op::Update(8, vec![cell(1, 2)]);
    let mut nodes = nodes(&[&[insert.clone(), update.clone()], &[]]);
    assert!(equalize(&mut nodes));
    assert_eq!(nodes[1], nodes[0]);
    // As is seen when the values are gone.
    for node in &mut nodes {
        for gone in [
            Op::DeleteCell(9, 0, None),
            Op::DeleteCell(9, 1, None),
            Op::DeleteCell(9, 2, Some(vec![9])),
        ] {
            node.apply(&gone);
        }
        assert!(node.row().is_some_and(|row| row.cells.is_empty()));
    }
}

#[test]
fn a_copy_that_lacked_a_part_of_a_row_gets_its_marker() {
    let insert = Op::Insert(5, vec![cell(0, 1)]);
    let update = Op::Update(8, vec![cell(1, 2)]);
    let mut nodes = nodes(&[
        &[insert.clone(), update.clone()],
        std::slice::from_ref(&update),
    ]);
    assert!(equalize(&mut nodes));
    for node in &mut nodes {
        for column in 0..2 {
            node.apply(&Op::DeleteCell(9, column, None));
        }
        assert!(node.row().is_some(), "it was inserted");
    }
}

#[test]
fn what_one_copy_has_not_heard_of_as_deleted_is_deleted_there() {
    let insert = Op::Insert(5, vec![cell(0, 1), cell(2, 9)]);
    let update = Op::Update(8, vec![cell(1, 2)]);
    let all = [insert.clone(), update.clone()];
    for deletion in [Op::DeleteRow(9), Op::DeleteCell(9, 1, None)] {
        let heard = [&all[..], std::slice::from_ref(&deletion)].concat();
        let mut nodes = nodes(&[&heard, &all, &heard]);
        let expected = nodes[0].row();
        assert!(equalize(&mut nodes));
        for node in &nodes {
            assert_eq!(node.row(), expected, "{deletion:?}");
        }
    }
}

#[test]
fn a_value_that_was_deleted_leaves_no_row_behind() {
    // The row was made by an UPDATE: without values there is none.
    let update = Op::Update(5, vec![cell(0, 1)]);
    let mut nodes = nodes(&[
        &[update.clone(), Op::DeleteCell(6, 0, None)],
        std::slice::from_ref(&update),
    ]);
    assert!(equalize(&mut nodes));
    assert_eq!(nodes[0].row(), None);
    assert_eq!(nodes[1].row(), None);
}

#[test]
fn a_row_whose_marker_is_newer_than_its_values_is_deleted_where_that_was_acknowledged() {
    let ops = [
        Op::Update(3, vec![cell(0, 1)]),
        Op::Insert(5, Vec::new()),
        Op::DeleteRow(9),
    ];
    let mut nodes = nodes(&[&ops, &ops[..2]]);
    assert!(equalize(&mut nodes));
    assert!(nodes.iter().all(|node| node.row().is_none()));
}

#[test]
fn what_clients_write_meanwhile_is_no_difference() {
    let busy = |time: i64| Op::Update(time, vec![cell(0, time as u8)]);
    let missing = Op::Update(1, vec![cell(1, 1)]);
    let mut nodes = nodes(&[&[busy(2), missing], &[]]);
    let mut equalizing = Equalizing::default();
    let mut steps = 0;
    for time in 3.. {
        // It has reached the first copy only.
        nodes[0].apply(&busy(time));
        let rows: Vec<Option<Row>> = nodes.iter().map(Node::row).collect();
        match equalizing.next(&table(), &rows, look()) {
            Step::Equal => break,
            Step::Again => {}
            Step::GiveUp => panic!("it is written to all the time"),
            Step::Mark(marker, lacking) => {
                lacking.iter().for_each(|at| nodes[*at].carry_out(&marker));
            }
            Step::Write(writes) => {
                steps += 1;
                for node in &mut nodes {
                    writes.iter().for_each(|write| node.carry_out(write));
                }
            }
        }
        nodes[1].apply(&busy(time));
    }
    let of = |node: &Node| node.cells.get(&(1, None)).cloned();
    assert!(steps > 0 && of(&nodes[1]).is_some());
    assert_eq!(of(&nodes[0]), of(&nodes[1]));
}

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }
}

#[test]
fn copies_that_missed_anything_end_as_the_one_that_has_all() {
    let number = |name: &str| -> Option<u64> {
        let text = std::env::var(name).ok()?;
        Some(text.parse().expect("a number"))
    };
    let count = number("HELENUS_SEEDS").unwrap_or(3_000);
    let seeds = number("HELENUS_SEED").map_or(0..count, |seed| seed..seed + 1);
    for seed in seeds {
        let mut rng = Rng(seed);
        let copies = 2 + rng.below(2) as usize;
        let mut nodes = vec![Node::default(); copies];
        for at in 0..=rng.below(7) {
            // Some at the same time.
            let time = 1 + (at - at % (1 + rng.below(2))) as i64;
            let some = |rng: &mut Rng| {
                let columns = (0..COLUMNS).filter(|_| rng.below(2) == 0);
                let columns: Vec<usize> = columns.collect();
                let cells = columns.into_iter();
                cells
                    .map(|c| cell(c, rng.below(2) as u8))
                    .collect::<Vec<_>>()
            };
            let op = match rng.below(6) {
                0 | 1 => Op::Insert(time, some(&mut rng)),
                2 | 3 => Op::Update(time, some(&mut rng)),
                4 => {
                    let (column, element, _) = cell(rng.below(3) as usize, rng.below(2) as u8);
                    Op::DeleteCell(time, column, element)
                }
                _ => Op::DeleteRow(time),
            };
            // The first copy has all.
            for (copy, node) in nodes.iter_mut().enumerate() {
                if copy == 0 || rng.below(2) == 0 {
                    node.apply(&op);
                }
            }
        }
        let before = nodes.clone();
        let expected = nodes[0].row();
        let is_equal = equalize(&mut nodes);
        assert!(is_equal, "HELENUS_SEED={seed}: {before:?}");
        {
            for node in &nodes {
                assert_eq!(
                    node.row(),
                    nodes[0].row(),
                    "HELENUS_SEED={seed}: {before:?}"
                );
            }
            let cells = |row: &Option<Row>| row.as_ref().map(|row| row.cells.clone());
            let has_values = |row: &Option<Row>| cells(row).is_some_and(|cells| !cells.is_empty());
            if has_values(&expected) {
                assert_eq!(
                    cells(&nodes[0].row()),
                    cells(&expected),
                    "HELENUS_SEED={seed}"
                );
            } else {
                assert!(
                    !has_values(&nodes[0].row()),
                    "HELENUS_SEED={seed}: {before:?}"
                );
            }
        }
    }
}

#[test]
fn of_one_time_what_expires_wins_then_what_expires_later_then_the_greater_value() {
    let row = |value: u8, ttl: i32| {
        let cell = Cell {
            column: 0,
            element: None,
            value: vec![value],
            timestamp: Some(5),
            ttl,
        };
        Some(Row {
            partition: vec![Some(vec![7])],
            clustering: Some(vec![Some(vec![8])]),
            cells: vec![cell],
        })
    };
    for (wins, loses) in [
        (row(1, 50), row(9, 0)),
        (row(1, 50), row(1, 0)),
        (row(1, 60), row(9, 50)),
        (row(9, 0), row(1, 0)),
    ] {
        for rows in [[wins.clone(), loses.clone()], [loses.clone(), wins.clone()]] {
            assert_eq!(merged(&rows), wins);
            assert!(!differing(rows[0].as_ref(), rows[1].as_ref()).is_empty());
            let [own, other] = rows.map(|row| row.map(|row| row.hash()));
            assert_ne!(own, other);
        }
    }
}
