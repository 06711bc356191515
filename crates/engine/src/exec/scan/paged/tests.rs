//! Scans before a node that warns, and one with guardrails on the size of pages.

use helenus_wire::{Opcode, PageStart, QueryView, Reader, RowsView, Version, code};

use crate::config::Config;
use crate::testing::bench::{Asking, BIGINT, Bench, Spec, TABLE, no_rows, rows};

const SCAN: &str = "SELECT customer, total FROM app.orders";
const FILTER: &str = "SELECT customer, total FROM app.orders WHERE total = 1 ALLOW FILTERING";
const COUNT: &str = "SELECT count(*) FROM app.orders";
const COLUMNS: [Spec; 2] = [("customer", BIGINT), ("total", BIGINT)];
const REFUSED: &str = "Guardrail page_size violated: Aborting query for table orders, page size 200 exceeds fail threshold of 100.";

/// Pages of so few rows are read in parts.
const PARALLEL_ROWS: usize = 8;
/// Rows of a page that is.
const PAGE: i32 = 40;

fn bench() -> Bench {
    let mut config = Config::default();
    config.scheduling.parallel_rows = PARALLEL_ROWS;
    Bench::with(config, (Version::V5, Version::V5))
}

/// Rows of so many customers; `goes_on`: a paging state behind the last.
fn page(customers: std::ops::Range<i64>, goes_on: bool) -> Vec<u8> {
    let keys: Vec<[u8; 8]> = customers.map(i64::to_be_bytes).collect();
    let cells: Vec<&[u8]> = keys.iter().flat_map(|key| [&key[..], &key[..]]).collect();
    let state = keys
        .last()
        .map(|key| PageStart::behind_partition(key, i32::MAX as u32).write());
    rows(
        TABLE,
        &COLUMNS,
        state.as_deref().filter(|_| goes_on),
        &cells,
    )
}

fn nothing() -> Vec<u8> {
    no_rows(TABLE, &COLUMNS)
}

fn ask(bench: &mut Bench, text: &str, page_size: Option<i32>) {
    let asking = Asking {
        page_size,
        ..Asking::default()
    };
    bench.ask(Opcode::Query, 3, &asking.query(Version::V5, text));
}

/// The node's next requests: their streams, texts and page sizes.
fn asked(bench: &mut Bench) -> Vec<(i16, String, Option<i32>)> {
    let at_node = bench.at_node().into_iter();
    let asked = at_node.map(|(opcode, stream, body)| {
        assert_eq!(opcode, Opcode::Query);
        let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
        (stream, view.text.to_owned(), view.options.page_size)
    });
    asked.collect()
}

fn one(bench: &mut Bench) -> (i16, String, Option<i32>) {
    let mut asked = asked(bench);
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked.remove(0)
}

/// The client's rows, and its warnings if its answer has some.
fn answer(bench: &mut Bench, warned: bool) -> (Vec<String>, usize) {
    let (opcode, body) = bench.answer();
    assert_eq!(opcode, Opcode::Result);
    let mut reader = Reader::new(&body);
    let warnings = match warned {
        true => reader.string_list().expect("warnings"),
        false => Vec::new(),
    };
    let warnings = warnings.into_iter().map(str::to_owned).collect();
    let page = RowsView::parse(reader.rest()).expect("rows");
    (warnings, page.row_count)
}

/// A page of [`SCAN`] that is read in parts, after those that have taught how its rows lie.
fn in_parts(bench: &mut Bench) -> Vec<(i16, String, Option<i32>)> {
    for round in 0..10 {
        ask(bench, SCAN, Some(PAGE));
        let mut under_way = Vec::new();
        for (opcode, stream, body) in bench.at_node() {
            // So its parts are texts.
            if opcode == Opcode::Prepare {
                bench.say_error(stream, code::INVALID, "not here", &[]);
                continue;
            }
            let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
            under_way.push((stream, view.text.to_owned(), view.options.page_size));
        }
        if under_way.len() > 1 {
            assert!(round > 0, "nothing is known of it");
            return under_way;
        }
        bench.say(
            Opcode::Result,
            under_way[0].0,
            &page(0..i64::from(PAGE), false),
        );
        assert_eq!(answer(bench, false), (Vec::new(), PAGE as usize));
    }
    panic!("never in parts");
}

#[test]
fn a_part_that_is_not_used_warns_nobody() {
    let mut bench = bench();
    let parts = in_parts(&mut bench);
    for (stream, ..) in &parts[1..] {
        bench.say_warned(*stream, &["unused"], &page(100..110, false));
    }
    // It fills the page.
    bench.say_warned(parts[0].0, &["used"], &page(0..i64::from(PAGE), true));
    let expected = (vec!["used".to_owned()], PAGE as usize);
    assert_eq!(answer(&mut bench, true), expected);
    bench.is_done();
}

#[test]
fn parts_that_are_used_warn_once_each() {
    let mut bench = bench();
    let parts = in_parts(&mut bench);
    let each = i64::from(PAGE) / parts.len() as i64;
    let last = parts.len() - 1;
    for (number, (stream, ..)) in parts.iter().enumerate() {
        let from = number as i64 * each;
        let up_to = if number == last {
            i64::from(PAGE)
        } else {
            from + each
        };
        let own = format!("of part {number}");
        bench.say_warned(
            *stream,
            &["of all", &own],
            &page(from..up_to, number == last),
        );
    }
    let (warnings, found) = answer(&mut bench, true);
    assert_eq!(found, PAGE as usize);
    let mut expected = vec!["of all".to_owned()];
    expected.extend((0..parts.len()).map(|number| format!("of part {number}")));
    assert_eq!(warnings, expected);
    bench.is_done();
}

#[test]
fn parts_that_are_given_up_warn_nobody_and_pieces_warn_once() {
    let mut bench = bench();
    let parts = in_parts(&mut bench);
    bench.say_warned(parts[0].0, &["of a part"], &page(0..5, false));
    bench.say_error(parts[1].0, code::INVALID, "not here", &[]);
    let (first, text, _) = one(&mut bench);
    assert_eq!(text, SCAN);
    bench.say_warned(first, &["of pieces"], &page(0..30, true));
    let (second, ..) = one(&mut bench);
    bench.say_warned(second, &["of pieces"], &page(30..i64::from(PAGE), true));
    let expected = (vec!["of pieces".to_owned()], PAGE as usize);
    assert_eq!(answer(&mut bench, true), expected);
    for (stream, ..) in &parts[2..] {
        bench.say(Opcode::Result, *stream, &nothing());
    }
    bench.is_done();
}

#[test]
fn a_stretch_that_is_not_used_warns_nobody() {
    let mut bench = bench();
    ask(&mut bench, FILTER, Some(2));
    let (first, text, _) = one(&mut bench);
    assert!(text.contains("token("), "{text}");
    bench.say_warned(first, &["used", "of both"], &nothing());
    let next = asked(&mut bench);
    assert_eq!(next.len(), 2, "{next:?}");
    bench.say_warned(next[1].0, &["unused"], &page(10..12, true));
    assert_eq!(bench.answers(), [], "the stretch before it is missing");
    bench.say_warned(next[0].0, &["of both"], &page(0..2, true));
    let expected = vec!["used".to_owned(), "of both".to_owned()];
    assert_eq!(answer(&mut bench, true), (expected, 2));
    bench.is_done();
}

#[test]
fn stretches_that_are_given_up_warn_nobody() {
    let mut bench = bench();
    ask(&mut bench, FILTER, Some(4));
    let (first, ..) = one(&mut bench);
    bench.say_warned(first, &["of a stretch"], &nothing());
    let next = asked(&mut bench);
    bench.say_error(next[0].0, code::INVALID, "not here", &[]);
    let (piece, text, _) = one(&mut bench);
    assert_eq!(text, FILTER);
    bench.say(Opcode::Result, piece, &page(0..2, true));
    let (piece, ..) = one(&mut bench);
    bench.say_warned(piece, &["of a piece"], &page(2..4, true));
    assert_eq!(answer(&mut bench, true), (vec!["of a piece".to_owned()], 4));
    for (stream, ..) in &next[1..] {
        bench.say(Opcode::Result, *stream, &nothing());
    }
    bench.is_done();
}

#[test]
fn a_page_beyond_what_nodes_take_goes_to_one_as_it_came() {
    for (page_size, as_it_came) in [(15_000, false), (20_000, true)] {
        let mut bench = bench();
        bench.limit_pages(15_000);
        ask(&mut bench, SCAN, Some(page_size));
        let (stream, text, size) = one(&mut bench);
        assert_eq!(size == Some(page_size), as_it_came, "{size:?}");
        assert_eq!(text, SCAN);
        if as_it_came {
            bench.say_error(stream, code::INVALID, REFUSED, &[]);
            assert_eq!(bench.error(), (code::INVALID, REFUSED.to_owned()));
        } else {
            bench.say(Opcode::Result, stream, &nothing());
            assert_eq!(answer(&mut bench, false), (Vec::new(), 0));
        }
        bench.is_done();
    }
}

#[test]
fn no_piece_of_an_unpaged_scan_goes_beyond_what_nodes_take() {
    let mut bench = bench();
    bench.limit_pages(50);
    ask(&mut bench, SCAN, None);
    for piece in 0..5 {
        let (stream, _, size) = one(&mut bench);
        assert!(size.is_some_and(|size| size <= 50), "{size:?}");
        bench.say(Opcode::Result, stream, &page(0..50, piece < 4));
    }
    assert_eq!(answer(&mut bench, false), (Vec::new(), 250));
    bench.is_done();
}

#[test]
fn no_stretch_of_an_unpaged_scan_is_asked_for_more_rows_than_nodes_take() {
    let mut bench = bench();
    bench.limit_pages(50);
    ask(&mut bench, FILTER, None);
    let (stream, text, size) = one(&mut bench);
    assert!(text.contains("token("), "{text}");
    assert!(size.is_some_and(|size| size <= 50), "{size:?}");
    bench.say_error(stream, code::OVERLOADED, "no", &[]);
    assert_eq!(bench.error().0, code::OVERLOADED);
    bench.is_done();
}

#[test]
fn an_unpaged_scan_whose_pieces_a_guardrail_refuses_is_asked_once_as_it_came() {
    for pieces in 0..2 {
        for refused in [false, true] {
            let mut bench = bench();
            ask(&mut bench, SCAN, None);
            for piece in 0..pieces {
                let (stream, _, size) = one(&mut bench);
                assert!(size.is_some());
                bench.say_warned(stream, &["of a piece"], &page(piece..piece + 1, true));
            }
            let (stream, ..) = one(&mut bench);
            bench.say_error(stream, code::INVALID, REFUSED, &[]);
            let (stream, text, size) = one(&mut bench);
            assert_eq!((&*text, size), (SCAN, None));
            if refused {
                bench.say_error(stream, code::INVALID, REFUSED, &[]);
                assert_eq!(bench.error(), (code::INVALID, REFUSED.to_owned()));
            } else {
                bench.say(Opcode::Result, stream, &page(0..7, false));
                assert_eq!(answer(&mut bench, false), (Vec::new(), 7));
            }
            bench.is_done();
        }
    }
}

#[test]
fn the_parts_of_an_unpaged_aggregate_name_no_page_size() {
    let mut bench = bench();
    ask(&mut bench, COUNT, None);
    let (stream, text, size) = one(&mut bench);
    assert!(text.contains("token("), "{text}");
    assert_eq!(size, Some(-1), "none, as the protocol has it");
    bench.say_error(stream, code::OVERLOADED, "no", &[]);
    bench.error();
    ask(&mut bench, COUNT, Some(300));
    assert_eq!(one(&mut bench).2, Some(300), "the client's own");
}

#[test]
fn an_aggregate_in_parts_warns_in_the_order_of_a_node() {
    const COUNTED: [Spec; 1] = [("count", BIGINT)];
    const OWN: &str = "Aggregation query used without partition key";
    let guardrail = "Guardrail page_size violated: Query for table orders";
    let mut bench = bench();
    ask(&mut bench, COUNT, Some(300));
    let mut under_way = asked(&mut bench);
    while let Some((stream, text, _)) = under_way.pop() {
        assert!(text.contains("token("), "{text}");
        let counted = rows(TABLE, &COUNTED, None, &[&1_i64.to_be_bytes()]);
        bench.say_warned(stream, &[guardrail, "of what is read"], &counted);
        under_way.extend(asked(&mut bench));
    }
    let expected = [guardrail, OWN, "of what is read"].map(str::to_owned);
    assert_eq!(answer(&mut bench, true), (expected.to_vec(), 1));
    bench.is_done();
}
