//! Reads of a layout whose rows the proxy puts into the table's order.

use helenus_layout::Layout;
use helenus_wire::{ExecuteView, Opcode, QueryView, Version, code, write};

use super::STATE;
use super::reads::{VERSIONS, count};
use crate::features::layouts::read::{identity, wrap};
use crate::testing::bench::{Asking, BIGINT, Bench, LAYOUT, Spec, TABLE, VARCHAR, orders, rows};

const READ: &str = "SELECT total FROM app.orders WHERE customer = ? AND status > ? ALLOW FILTERING";
const DERIVED: &str = "SELECT total, day, status FROM app.orders__layout_a WHERE customer = ? AND \
                       status > ? LIMIT 5001 ALLOW FILTERING";
const MARKERS: [Spec; 2] = [("customer", BIGINT), ("status", VARCHAR)];
const COLUMNS: [Spec; 1] = [("total", BIGINT)];
const OF_LAYOUT: [Spec; 3] = [("total", BIGINT), ("day", BIGINT), ("status", VARCHAR)];
const VALUES: [&[u8]; 2] = [&[0, 0, 0, 0, 0, 0, 0, 7], b"a"];

const fn int(of: u8) -> [u8; 8] {
    [0, 0, 0, 0, 0, 0, 0, of]
}
const ONE: &[u8] = &int(1);
const TWO: &[u8] = &int(2);
const THREE: &[u8] = &int(3);
/// By status, then by day: total, day, status.
const CELLS: [&[u8]; 9] = [THREE, TWO, b"b", ONE, ONE, b"c", TWO, ONE, b"d"];
/// By day, then by status: total.
const SORTED: [&[u8]; 3] = [ONE, TWO, THREE];

fn asking<'a>() -> Asking<'a> {
    Asking {
        values: &VALUES,
        page_size: Some(3),
        ..Asking::default()
    }
}

/// A bench whose node has the read of the layout prepared.
fn prepared(versions: (Version, Version)) -> Bench {
    let mut bench = Bench::new(versions.0, versions.1);
    bench.prepare(READ, b"own", &MARKERS, &COLUMNS);
    let execute = asking().execute(versions.0, b"own");
    bench.ask(Opcode::Execute, 2, &execute);
    for (opcode, stream, body) in bench.at_node() {
        if opcode == Opcode::Prepare {
            assert_eq!(body[4..4 + DERIVED.len()], *DERIVED.as_bytes());
            let answer = bench.prepared(b"derived", LAYOUT, &MARKERS, &OF_LAYOUT);
            bench.say(Opcode::Result, stream, &answer);
        } else {
            bench.say(Opcode::Result, stream, &of_table(&SORTED));
        }
    }
    assert_eq!(bench.answer(), (Opcode::Result, of_table(&SORTED)));
    bench.is_done();
    bench
}

fn of_table(cells: &[&[u8]]) -> Vec<u8> {
    rows(TABLE, &COLUMNS, None, cells)
}

/// The client executes its read; what the node is asked to execute.
fn execute(bench: &mut Bench, asking: Asking<'_>) -> (i16, Vec<u8>) {
    let body = asking.execute(bench.versions.0, b"own");
    bench.ask(Opcode::Execute, 3, &body);
    executed(bench)
}

fn executed(bench: &mut Bench) -> (i16, Vec<u8>) {
    let (opcode, stream, body) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Execute);
    let view = ExecuteView::parse(&body, bench.versions.1).expect("an EXECUTE");
    (stream, view.id.to_vec())
}

#[test]
fn rows_come_in_the_tables_order_and_with_its_columns() {
    for versions in VERSIONS {
        let mut bench = prepared(versions);
        let (stream, id) = execute(&mut bench, asking());
        assert_eq!(id, b"derived");
        let page = rows(LAYOUT, &OF_LAYOUT, None, &CELLS);
        bench.say(Opcode::Result, stream, &page);
        assert_eq!(bench.answer(), (Opcode::Result, of_table(&SORTED)));
        bench.is_done();
        assert_eq!(count(&bench, "layout_reads_sorted"), 1);
        assert_eq!(count(&bench, "layout_reads"), 1);
    }
}

/// A page without metadata.
fn bare(columns: usize, cells: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 2);
    write::u32(&mut body, 4);
    write::u32(&mut body, columns as u32);
    write::u32(&mut body, (cells.len() / columns) as u32);
    for cell in cells {
        write::bytes(&mut body, Some(cell));
    }
    body
}

#[test]
fn columns_need_not_be_described_for_that() {
    for versions in VERSIONS {
        let mut bench = prepared(versions);
        let asking = Asking {
            skip_metadata: true,
            ..asking()
        };
        let (stream, id) = execute(&mut bench, asking);
        assert_eq!(id, b"derived");
        bench.say(Opcode::Result, stream, &bare(3, &CELLS));
        assert_eq!(bench.answer(), (Opcode::Result, bare(1, &SORTED)));
        bench.is_done();
    }
}

#[test]
fn a_page_that_goes_on_is_thrown_away_and_not_tried_again_for_a_while() {
    for versions in VERSIONS {
        let mut bench = prepared(versions);
        let page = rows(LAYOUT, &OF_LAYOUT, Some(STATE), &CELLS);
        for passed in [16, 32] {
            let (stream, id) = execute(&mut bench, asking());
            assert_eq!(id, b"derived");
            bench.say(Opcode::Result, stream, &page);
            assert_eq!(bench.answers(), [], "the table is asked");
            let (stream, id) = executed(&mut bench);
            assert_eq!(id, b"own");
            let of_table = rows(TABLE, &COLUMNS, Some(b"its own"), &SORTED);
            bench.say(Opcode::Result, stream, &of_table);
            assert_eq!(bench.answer(), (Opcode::Result, of_table));
            for _ in 0..passed {
                let (stream, id) = execute(&mut bench, asking());
                assert_eq!(id, b"own");
                bench.say(Opcode::Result, stream, &self::of_table(&SORTED));
                assert_eq!(bench.answer(), (Opcode::Result, self::of_table(&SORTED)));
            }
        }
        let (stream, id) = execute(&mut bench, asking());
        assert_eq!(id, b"derived");
        let whole = rows(LAYOUT, &OF_LAYOUT, None, &CELLS);
        bench.say(Opcode::Result, stream, &whole);
        assert_eq!(bench.answer(), (Opcode::Result, of_table(&SORTED)));
        bench.is_done();
        assert_eq!(count(&bench, "layout_reads_fallen_back"), 2);
    }
}

#[test]
fn a_state_of_a_layout_that_is_sorted_was_forged() {
    let mut bench = prepared((Version::V4, Version::V4));
    let state = wrap(identity(&orders(true), 0), STATE);
    let next = Asking {
        state: Some(&state),
        ..asking()
    };
    let body = next.execute(bench.versions.0, b"own");
    bench.ask(Opcode::Execute, 3, &body);
    assert_eq!(bench.at_node(), []);
    assert_eq!(bench.error().0, code::PROTOCOL);
}

#[test]
fn a_limit_cuts_what_was_sorted() {
    for versions in VERSIONS {
        let mut bench = Bench::new(versions.0, versions.1);
        let mut table = orders(true);
        table.distinct.insert("customer".to_owned(), 10.0);
        table.rows = Some(1_000.0);
        bench.adopt(table);
        let text = "SELECT total, day FROM app.orders WHERE customer = 7 AND status > 'a' ORDER BY day DESC \
                    LIMIT 29 ALLOW FILTERING";
        let body = Asking::default().query(versions.0, text);
        bench.ask(Opcode::Query, 2, &body);
        let (opcode, stream, body) = bench.one_at_node();
        let view = QueryView::parse(&body, versions.1).expect("a QUERY");
        assert_eq!(opcode, Opcode::Query);
        let derived = "SELECT total, day, status FROM app.orders__layout_a WHERE customer = 7 AND \
                       status > 'a' LIMIT 5001 ALLOW FILTERING";
        assert_eq!(view.text, derived);
        assert_eq!(view.options.page_size, None);
        let days: Vec<[u8; 8]> = (0..40).map(int).collect();
        let of_layout = days.iter().flat_map(|day| [ONE, &day[..], b"b"]);
        let of_layout: Vec<&[u8]> = of_layout.collect();
        bench.say(
            Opcode::Result,
            stream,
            &rows(LAYOUT, &OF_LAYOUT, None, &of_layout),
        );
        let last = days.iter().rev().take(29).flat_map(|day| [ONE, &day[..]]);
        let last: Vec<&[u8]> = last.collect();
        let expected = rows(TABLE, &OF_LAYOUT[..2], None, &last);
        assert_eq!(bench.answer(), (Opcode::Result, expected));
        bench.is_done();
    }
}

#[test]
fn while_answers_are_too_large_a_layout_with_the_order_is_read() {
    for versions in VERSIONS {
        let mut bench = Bench::new(versions.0, versions.1);
        let mut table = orders(true);
        let mut item = table.clustering[0].clone();
        "item".clone_into(&mut item.name);
        table.clustering.push(item);
        table.distinct.insert("item".to_owned(), 100.0);
        let mut other = table.copies[0].clone();
        "orders__layout_b".clone_into(&mut other.physical);
        table.copies[0].layout = Layout::new(&[1, 2, 0]).expect("a permutation");
        other.layout = Layout::new(&[1, 0, 2]).expect("a permutation");
        table.copies.push(other);
        bench.adopt(table);
        let of = |table: &str| {
            format!(
                "SELECT total FROM app.{table} WHERE customer = 7 AND status = 'a' AND item > 3 ALLOW FILTERING"
            )
        };
        let asking = Asking {
            page_size: Some(3),
            ..Asking::default()
        };
        let query = asking.query(versions.0, &of(TABLE));
        bench.ask(Opcode::Query, 2, &query);
        let (stream, text) = queried(&mut bench);
        let derived = "SELECT total, day, item FROM app.orders__layout_a WHERE customer = 7 AND status = 'a' \
                       AND item > 3 LIMIT 5001 ALLOW FILTERING";
        assert_eq!(text, derived);
        let page = rows(LAYOUT, &OF_LAYOUT, Some(STATE), &CELLS);
        bench.say(Opcode::Result, stream, &page);
        let (stream, text) = queried(&mut bench);
        assert_eq!(text, of(TABLE));
        bench.say(Opcode::Result, stream, &of_table(&SORTED));
        assert_eq!(bench.answer(), (Opcode::Result, of_table(&SORTED)));
        for _ in 0..16 {
            bench.ask(Opcode::Query, 3, &query);
            let (stream, text) = queried(&mut bench);
            assert_eq!(text, of("orders__layout_b"));
            let page = rows("orders__layout_b", &COLUMNS, None, &SORTED);
            bench.say(Opcode::Result, stream, &page);
            assert_eq!(bench.answer(), (Opcode::Result, of_table(&SORTED)));
        }
        bench.ask(Opcode::Query, 3, &query);
        assert_eq!(queried(&mut bench).1, derived, "it is tried again");
    }
}

/// The stream and text of the only request at the node.
fn queried(bench: &mut Bench) -> (i16, String) {
    let (opcode, stream, body) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Query);
    let view = QueryView::parse(&body, bench.versions.1).expect("a QUERY");
    (stream, view.text.to_owned())
}
