//! Statements that a table gets first, and its layouts then: TRUNCATE and ALTER TABLE … DROP.

use helenus_wire::{Opcode, QueryView, Version, code};

use super::derived::{READ, VOID, news, read};
use super::rules::{altered, ask};
use crate::features::layouts::Output as OfLayouts;
use crate::output::{Agreement, Output};
use crate::testing::bench::{Asking, Bench, orders};

const TRUNCATE: &str = "TRUNCATE app.orders";
const ON_TABLE: &str = "TRUNCATE TABLE app.orders";
const ON_LAYOUT: &str = "TRUNCATE TABLE app__layouts.orders__layout_a";

/// What the node is asked, and the stream.
fn asked(bench: &mut Bench) -> (String, i16) {
    let (opcode, stream, body) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Query);
    let view = QueryView::parse(&body, bench.versions.1).expect("a QUERY");
    (view.text.to_owned(), stream)
}

fn is_of_truncated(news: &[OfLayouts]) -> bool {
    let is_it = |of: &OfLayouts| matches!(of, OfLayouts::Truncated(keyspace, table) if (&**keyspace, &**table) == ("app", "orders"));
    !news.is_empty() && news.iter().all(is_it)
}

#[test]
fn a_truncate_empties_the_table_and_then_its_derived_layouts_which_are_not_read_any_more() {
    for is_prepared in [false, true] {
        let mut bench = Bench::derived(Version::V4, Version::V4);
        match is_prepared {
            false => ask(&mut bench, TRUNCATE),
            true => {
                bench.prepare(TRUNCATE, b"own", &[], &[]);
                let body = Asking::default().execute(Version::V4, b"own");
                bench.ask(Opcode::Execute, 2, &body);
            }
        }
        let (text, stream) = asked(&mut bench);
        assert_eq!(text, ON_TABLE);
        assert!(news(&mut bench).is_empty(), "nothing has happened yet");
        bench.say(Opcode::Result, stream, &VOID);
        assert!(is_of_truncated(&news(&mut bench)));
        let (text, stream) = asked(&mut bench);
        assert_eq!(text, ON_LAYOUT);
        assert_eq!(bench.answers(), [], "the layout may have rows yet");
        bench.say(Opcode::Result, stream, &VOID);
        assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
        assert!(
            is_of_truncated(&news(&mut bench)),
            "who compares it now must begin again"
        );
        bench.is_done();
        assert_eq!(read(&mut bench, 1).0, READ, "of the table");
    }
}

#[test]
fn a_truncate_that_the_table_refuses_touches_no_layout() {
    for refusal in [code::UNAUTHORIZED, code::INVALID, code::OVERLOADED] {
        let mut bench = Bench::derived(Version::V4, Version::V5);
        ask(&mut bench, TRUNCATE);
        let (_, stream) = asked(&mut bench);
        bench.say_error(stream, refusal, "no", &[]);
        assert_eq!(bench.error(), (refusal, "no".to_owned()));
        assert!(news(&mut bench).is_empty(), "{refusal}");
        bench.is_done();
        assert_ne!(read(&mut bench, 1).0, READ, "the layout is read");
    }
}

#[test]
fn layouts_of_a_table_that_may_have_been_truncated_are_compared() {
    let mut bench = Bench::derived(Version::V4, Version::V5);
    ask(&mut bench, TRUNCATE);
    let (_, stream) = asked(&mut bench);
    bench.say_error(stream, code::TRUNCATE, "late", &[]);
    assert_eq!(bench.error().0, code::TRUNCATE);
    assert!(is_of_truncated(&news(&mut bench)));
    bench.is_done();
    assert_eq!(read(&mut bench, 1).0, READ, "of the table");
}

#[test]
fn a_client_hears_that_a_layout_has_not_been_truncated() {
    let mut bench = Bench::derived(Version::V4, Version::V5);
    ask(&mut bench, TRUNCATE);
    let (_, stream) = asked(&mut bench);
    bench.say(Opcode::Result, stream, &VOID);
    let (_, stream) = asked(&mut bench);
    bench.say_error(stream, code::TRUNCATE, "late", &[]);
    let (code, why) = bench.error();
    assert_eq!(code, code::TRUNCATE);
    for part in ["orders__layout_a", "repeat", "late"] {
        assert!(why.contains(part), "{why}");
    }
    assert!(is_of_truncated(&news(&mut bench)));
    bench.is_done();
}

#[test]
fn a_table_whose_layout_is_behind_can_be_truncated() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let mut table = orders(true);
    table.copies.clear();
    bench.set_aside(table);
    ask(&mut bench, TRUNCATE);
    let (text, stream) = asked(&mut bench);
    assert_eq!(text, ON_TABLE);
    bench.say(Opcode::Result, stream, &VOID);
    assert_eq!(bench.answer().0, Opcode::Result);
    assert!(
        is_of_truncated(&news(&mut bench)),
        "it may be opened already"
    );
    bench.is_done();
}

/// The text without its time, and the time.
fn timed(text: &str) -> (&str, i64) {
    let (text, time) = text.split_once(" USING TIMESTAMP ").expect("it has a time");
    (text, time.parse().expect("a number"))
}

#[test]
fn a_column_is_dropped_from_the_table_and_then_from_layouts_as_of_one_time() {
    let derived = "app__layouts.orders__layout_a";
    for (mut bench, layout) in [
        (Bench::new(Version::V4, Version::V4), "app.orders__layout_a"),
        (Bench::derived(Version::V3, Version::V5), derived),
    ] {
        ask(&mut bench, "ALTER TABLE app.orders DROP total");
        let (on_table, stream) = asked(&mut bench);
        let (text, time) = timed(&on_table);
        assert_eq!(text, "ALTER TABLE app.orders DROP total");
        assert!(time > 0);
        bench.say(Opcode::Result, stream, &altered("orders"));
        assert_eq!(bench.answers(), [], "its layout has the column yet");
        let (on_layout, stream) = asked(&mut bench);
        let expected = format!("ALTER TABLE {layout} DROP IF EXISTS total");
        assert_eq!(timed(&on_layout), (&*expected, time));
        bench.say(Opcode::Result, stream, &altered("orders__layout_a"));
        assert_eq!(bench.answers(), [], "nodes may not know it yet");
        let mut outputs = std::iter::from_fn(|| bench.engine.poll_output());
        let held = outputs.find_map(|output| match output {
            Output::Agree(held) => Some(held),
            _ => None,
        });
        let held = held.expect("a wait");
        bench
            .engine
            .on_agreed(bench.now, &held, &Agreement::Reached);
        assert_eq!(bench.answer(), (Opcode::Result, altered("orders")));
        bench.is_done();
    }
}

#[test]
fn a_column_that_the_table_keeps_is_kept_by_layouts_and_a_layout_that_keeps_one_is_told() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    ask(&mut bench, "ALTER TABLE app.orders DROP day");
    let (_, stream) = asked(&mut bench);
    bench.say_error(stream, code::INVALID, "it is of the key", &[]);
    assert_eq!(
        bench.error(),
        (code::INVALID, "it is of the key".to_owned())
    );
    bench.is_done();
    ask(&mut bench, "ALTER TABLE app.orders DROP total");
    let (_, stream) = asked(&mut bench);
    bench.say(Opcode::Result, stream, &altered("orders"));
    let (_, stream) = asked(&mut bench);
    bench.say_error(stream, code::SERVER, "late", &[]);
    let (code, why) = bench.error();
    assert_eq!(code, code::SERVER);
    for part in ["orders__layout_a", "IF EXISTS", "late"] {
        assert!(why.contains(part), "{why}");
    }
    bench.is_done();
}
