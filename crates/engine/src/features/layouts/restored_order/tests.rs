use helenus_layout::plan::{SORTABLE, SortKey};
use helenus_wire::{TableName, write};

use super::*;

const LAYOUT: TableName<'_> = ("ks", "t__layout_a");
const TABLE: TableName<'_> = ("ks", "t");

/// Sorted by the last column from above, then by the first; the last one was appended.
fn order(limit: Option<usize>) -> RestoredOrder {
    let key = |column, cql_type: &str, descending| SortKey {
        column,
        cql_type: cql_type.to_owned(),
        descending,
    };
    let restore = Restore {
        keys: vec![key(2, "int", true), key(0, "text", false)],
        appended: 1,
        limit,
    };
    RestoredOrder::of(&restore, Arc::default()).expect("known types")
}

type Row<'a> = (&'a str, &'a [u8], i32);

/// A page of `a text, v blob, c int`; without `c` for another table.
fn page(table: &str, columns: usize, state: Option<&[u8]>, rows: &[Row<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    write::i32(&mut out, 2);
    write::u32(&mut out, 1 | state.map_or(0, |_| 2));
    write::i32(&mut out, columns as i32);
    if state.is_some() {
        write::bytes(&mut out, state);
    }
    for text in ["ks", table] {
        write::string(&mut out, text);
    }
    for (name, id) in [("a", 13), ("v", 3), ("c", 9)].into_iter().take(columns) {
        write::string(&mut out, name);
        write::u16(&mut out, id);
    }
    write::i32(&mut out, rows.len() as i32);
    for (a, v, c) in rows {
        let c = c.to_be_bytes();
        for cell in [a.as_bytes(), v, &c].into_iter().take(columns) {
            write::bytes(&mut out, (cell != b"null").then_some(cell));
        }
    }
    out
}

fn written(order: &RestoredOrder, page: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
    let mut out = Vec::new();
    let page = RowsView::parse(page)?;
    let is_written = order.write(&page, LAYOUT, TABLE, &mut out)?;
    Ok(is_written.then_some(out))
}

#[test]
fn rows_come_in_the_tables_order_without_what_was_appended() {
    let rows: [Row<'_>; 4] = [
        ("b", b"1", -1),
        ("a", b"null", 7),
        ("", b"3", -1),
        ("a", b"4", -1),
    ];
    let sent = page("t__layout_a", 3, None, &rows);
    let sorted = [rows[1], rows[2], rows[3], rows[0]];
    for (limit, left) in [(None, 4), (Some(9), 4), (Some(3), 3), (Some(1), 1)] {
        let expected = page("t", 2, None, &sorted[..left]);
        assert_eq!(written(&order(limit), &sent), Ok(Some(expected)));
    }
    let nothing = page("t__layout_a", 3, None, &[]);
    let expected = page("t", 2, None, &[]);
    assert_eq!(written(&order(None), &nothing), Ok(Some(expected)));
    let one = page("t__layout_a", 3, None, &[("null", b"1", 1)]);
    let expected = page("t", 2, None, &[("null", b"1", 1)]);
    assert_eq!(written(&order(None), &one), Ok(Some(expected)), "no order");
}

#[test]
fn what_is_not_whole_or_has_no_known_order_is_not_used() {
    let two: [Row<'_>; 2] = [("b", b"1", 1), ("a", b"2", 1)];
    let continued = page("t__layout_a", 3, Some(b"state"), &two);
    let many: Vec<Row<'_>> = (0..=ROWS_MAX as i32).map(|c| ("a", &b""[..], c)).collect();
    let large = vec![0; BYTES_MAX / 2];
    let large = page(
        "t__layout_a",
        3,
        None,
        &[("b", &large, 1), ("a", &large, 1)],
    );
    let same = page("t__layout_a", 3, None, &[two[0], ("b", b"2", 1)]);
    let null = page("t__layout_a", 3, None, &[two[0], ("null", b"2", 1)]);
    for (name, page) in [
        ("a state", continued),
        ("too many", page("t__layout_a", 3, None, &many)),
        ("too large", large),
        ("the same key twice", same),
        ("no key", null),
    ] {
        assert_eq!(written(&order(None), &page), Ok(None), "{name}");
    }
    let most = page("t__layout_a", 3, None, &many[1..]);
    assert!(written(&order(None), &most).is_ok_and(|out| out.is_some()));
    let mut empty = page("t__layout_a", 3, None, &two);
    // The last row's `c` has no bytes.
    empty.truncate(empty.len() - 8);
    write::bytes(&mut empty, Some(&[]));
    assert_eq!(written(&order(None), &empty), Ok(None));
    empty.truncate(empty.len() - 4);
    assert!(written(&order(None), &empty).is_err(), "it ends too early");
    let without = page("t__layout_a", 0, None, &[]);
    assert!(written(&order(None), &without).is_err(), "no columns");
}

#[test]
fn the_order_of_every_type_that_a_plan_sorts_by_is_known() {
    for name in SORTABLE {
        assert!(Order::of_clustering(name).is_some(), "{name}");
    }
}

/// How many reads with pages of this size go to the table until one is tried.
fn passed(order: &RestoredOrder, size: Option<i32>) -> usize {
    (0..10_000)
        .find(|_| order.room.is_tried(size))
        .expect("one is tried again")
}

#[test]
fn pages_that_were_too_small_are_tried_again_after_a_while() {
    let rows: [Row<'_>; 3] = [("a", b"", 1), ("b", b"", 1), ("c", b"", 1)];
    let cut = page("t__layout_a", 3, Some(b"state"), &rows);
    let whole = page("t__layout_a", 3, None, &rows);
    let order = order(None);
    assert_eq!(passed(&order, Some(3)), 0);
    for expected in [16, 32, 64, 128, 256, 512, 1024, 1024] {
        assert_eq!(written(&order, &cut), Ok(None));
        for size in [Some(4), Some(0), Some(-1), None] {
            assert_eq!(passed(&order, size), 0, "there is room");
        }
        assert_eq!(passed(&order, Some(3)), expected);
    }
    let larger = [rows[0], rows[1], rows[2], ("d", b"", 1)];
    let larger = page("t__layout_a", 3, None, &larger);
    assert!(written(&order, &larger).is_ok_and(|out| out.is_some()));
    assert_eq!(passed(&order, Some(3)), 1024, "it would not have fitted");
    assert!(written(&order, &whole).is_ok_and(|out| out.is_some()));
    for _ in 0..3 {
        assert_eq!(passed(&order, Some(1)), 0, "it fits again");
    }
    assert_eq!(written(&order, &cut), Ok(None));
    assert_eq!(passed(&order, Some(2)), 16);
    let without_order = page("t__layout_a", 3, None, &[rows[0], ("null", b"2", 1)]);
    assert_eq!(written(&order, &without_order), Ok(None));
    assert_eq!(passed(&order, None), 32, "whatever the page");
}
