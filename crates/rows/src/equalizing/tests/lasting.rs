//! Rows that expire, rows without values, and what is only on its way.

use std::slice::from_ref;

use super::*;

/// The row whose values all expire, but for those of these columns.
fn expiring(columns: &[(usize, i32)]) -> Row {
    let mut node = Node::default();
    let cells = columns.iter().map(|(column, _)| cell(*column, 1)).collect();
    node.apply(&Op::Update(9, cells));
    let mut row = node.row().expect("it has values");
    for (cell, (_, ttl)) in row.cells.iter_mut().zip(columns) {
        cell.ttl = *ttl;
    }
    row
}

/// The marker's time to live, and who gets it.
fn marked(table: &Table, before: &[Option<Row>], after: &Row) -> Option<(i32, Vec<usize>)> {
    let mut equalizing = Equalizing::default();
    let first = equalizing.next(table, before, look());
    assert!(matches!(first, Step::Again), "{first:?}");
    let second = equalizing.next(table, before, look());
    assert!(matches!(second, Step::Write(_)), "{second:?}");
    let all = vec![Some(after.clone()); before.len()];
    match equalizing.next(table, &all, look()) {
        Step::Mark(marker, lacking) => {
            let ttl = marker.values.last().cloned().flatten().expect("a TTL");
            Some((i32::from_be_bytes(ttl.try_into().expect("four")), lacking))
        }
        Step::Equal => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_marker_expires_with_the_last_value_if_all_do() {
    let (row, part) = (expiring(&[(0, 60), (1, 90)]), expiring(&[(0, 60)]));
    let before = [Some(row.clone()), None, Some(part)];
    // Copy 2 may have one that does not expire.
    assert_eq!(marked(&table(), &before, &row), Some((90, vec![1])));
    let expiring_table = Table {
        default_ttl: 7_000,
        ..table()
    };
    let expected = Some((90, vec![1]));
    assert_eq!(marked(&expiring_table, &before, &row), expected);
    let row = expiring(&[(0, 60), (1, 0)]);
    let before = [Some(row.clone()), None];
    assert_eq!(marked(&expiring_table, &before, &row), Some((0, vec![1])));
}

#[test]
fn a_row_that_is_sent_as_a_whole_has_values_and_marker() {
    for (row, marker) in [
        (expiring(&[(0, 60), (1, 90)]), (0, Some(90))),
        (expiring(&[(0, 60), (1, 0)]), (9, None)),
    ] {
        let writes = crate::writes::whole(&table(), &row, Duration::ZERO);
        let mut node = Node::default();
        writes.iter().for_each(|write| node.carry_out(write));
        assert_eq!(node.marker, Some(marker));
        assert_eq!(node.cells.len(), 2);
    }
}

fn pass(nodes: &mut [Node], seconds: i64) {
    nodes.iter_mut().for_each(|node| node.now_s += seconds);
}

/// A second copy that has lacked a row with a time to live, made equal or sent as a whole.
fn filled(op: &Op, default_ttl: i32, is_whole: bool) -> (Table, Vec<Node>) {
    let table = Table {
        default_ttl,
        ..table()
    };
    let mut nodes = vec![Node::default(), Node::default()];
    nodes[0].apply_for(op, 60);
    pass(&mut nodes, 20);
    match is_whole {
        true => {
            let row = nodes[0].row().expect("it is there");
            let writes = crate::writes::whole(&table, &row, Duration::ZERO);
            writes.iter().for_each(|write| nodes[1].carry_out(write));
        }
        false => assert!(equalize_in(&table, &mut nodes)),
    }
    (table, nodes)
}

#[test]
fn a_row_that_has_expired_is_gone_in_the_copy_that_had_lacked_it() {
    let values = || vec![cell(0, 1), cell(2, 9)];
    for op in [Op::Insert(9, values()), Op::Update(9, values())] {
        for (default_ttl, is_whole) in [(0, false), (0, true), (7_776_000, false)] {
            let (_, mut nodes) = filled(&op, default_ttl, is_whole);
            assert!(nodes[1].row().is_some());
            pass(&mut nodes, 40);
            for node in &nodes {
                assert_eq!(node.row(), None, "{op:?} {default_ttl}");
            }
        }
    }
}

#[test]
fn a_row_that_stays_without_its_expired_values_is_made_again() {
    // INSERT without a time to live, UPDATE with one.
    let mut nodes = vec![Node::default(), Node::default()];
    nodes[0].apply(&Op::Insert(5, Vec::new()));
    nodes[0].apply_for(&Op::Update(9, vec![cell(0, 1)]), 60);
    assert!(equalize(&mut nodes));
    pass(&mut nodes, 60);
    assert!(nodes[0].is_bare());
    assert_eq!(nodes[1].row(), None, "its marker has expired");
    assert!(equalize(&mut nodes));
    assert!(nodes.iter().all(Node::is_bare));
}

#[test]
fn a_key_that_has_outlived_its_row_is_deleted() {
    // The first copy's marker has expired, and hides those that are older.
    for default_ttl in [0, 7_776_000] {
        let table = Table {
            default_ttl,
            ..table()
        };
        let mut nodes = vec![Node::default(), Node::default()];
        nodes[0].apply_for(&Op::Insert(9, vec![cell(0, 1)]), 60);
        nodes[1].apply(&Op::Insert(7, Vec::new()));
        pass(&mut nodes, 60);
        assert!(nodes[0].row().is_none() && nodes[1].is_bare());
        assert!(equalize_in(&table, &mut nodes));
        assert!(nodes.iter().all(|node| node.row().is_none()));
        assert!(nodes.iter().all(|node| node.deleted <= PAST));
    }
}

#[test]
fn of_a_row_without_values_the_copy_in_sync_is_right() {
    let (insert, delete) = (|time| Op::Insert(time, Vec::new()), Op::DeleteRow);
    // Deleted, and inserted again.
    let mut nodes = nodes(&[&[insert(3), delete(4), insert(6)], &[insert(3), delete(4)]]);
    assert!(equalize(&mut nodes));
    assert!(nodes.iter().all(Node::is_bare));
    // Another copy had got it from those, of unknown time.
    let mut three = self::nodes(&[&[insert(1)], &[insert(6)], &[insert(3), delete(4)]]);
    assert!(equalize(&mut three));
    assert!(three.iter().all(Node::is_bare));
    let mut deleted = self::nodes(&[&[insert(3), delete(4)], &[insert(3)]]);
    assert!(equalize(&mut deleted));
    assert!(deleted.iter().all(|node| node.row().is_none()));
    // By a client whose clock is ahead.
    let mut ahead = self::nodes(&[&[insert(PAST), delete(PAST + 9)], &[insert(PAST + 1)]]);
    assert!(!equalize(&mut ahead));
}

#[test]
fn what_is_only_on_its_way_is_not_written() {
    let rows = |ops: &[&[Op]]| -> Vec<Option<Row>> { nodes(ops).iter().map(Node::row).collect() };
    let insert = Op::Insert(5, vec![cell(0, 1)]);
    let update = Op::Update(6, vec![cell(0, 2)]);
    let bare = Op::Insert(5, Vec::new());
    for (first, second) in [
        // It has arrived.
        (
            rows(&[from_ref(&insert), &[]]),
            rows(&[from_ref(&insert), from_ref(&insert)]),
        ),
        (
            rows(&[from_ref(&bare), &[]]),
            rows(&[from_ref(&bare), from_ref(&bare)]),
        ),
        // The next one is on its way.
        (
            rows(&[from_ref(&insert), &[]]),
            rows(&[&[insert.clone(), update], std::slice::from_ref(&insert)]),
        ),
    ] {
        let mut equalizing = Equalizing::default();
        let step = equalizing.next(&table(), &first, look());
        assert!(matches!(step, Step::Again), "{first:?}: {step:?}");
        let step = equalizing.next(&table(), &second, look());
        assert!(matches!(step, Step::Equal), "{second:?}: {step:?}");
    }
    // A row without values at the second look only is looked at once more.
    let mut equalizing = Equalizing::default();
    let rows = [rows(&[&[insert], &[]]), rows(&[&[bare], &[]])];
    for (rows, is_written) in [(&rows[0], false), (&rows[1], false), (&rows[1], true)] {
        let step = equalizing.next(&table(), rows, look());
        assert_eq!(matches!(step, Step::Write(_)), is_written, "{step:?}");
    }
}
