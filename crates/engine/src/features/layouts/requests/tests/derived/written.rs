//! Writes of tables with layouts in keyspaces of their own.

use std::time::Duration;

use helenus_catalogue::waits::lease;
use helenus_wire::{
    BatchView, Consistency, ExecuteView, Opcode, QueryView, ValueRef, Version, code, write,
};

use super::{VERSIONS, VOID, news};
use crate::config::Config;
use crate::config::rules::RuleSettings;
use crate::features::layouts::{Doubted, Missed, Output as OfLayouts};
use crate::testing::Envelope;
use crate::testing::bench::{
    Asking, BIGINT, Bench, DERIVED, LAYOUT, Spec, TABLE, VARCHAR, error_body,
};

const INSERT: &str = "INSERT INTO app.orders (customer, day, status, total) VALUES (?, ?, ?, ?)";
const COPY: &str =
    "INSERT INTO app__layouts.orders__layout_a (customer, day, status, total) VALUES (?, ?, ?, ?)";
const VALUES: [&[u8]; 4] = [&[1; 8], &[2; 8], b"open", &[3; 8]];
const MARKERS: [Spec; 4] = [
    ("customer", BIGINT),
    ("day", BIGINT),
    ("status", VARCHAR),
    ("total", BIGINT),
];
fn asking<'a>(timestamp: Option<i64>) -> Asking<'a> {
    Asking {
        values: &VALUES,
        serial: Some(9),
        timestamp,
        ..Asking::default()
    }
}

/// A write by text: its timestamp, and its stream at the node.
fn table_is_asked(bench: &Bench, asked: &Envelope) -> (i64, i16) {
    let (opcode, stream, body) = asked;
    assert_eq!(*opcode, Opcode::Query);
    let view = QueryView::parse(body, bench.versions.1).expect("a QUERY");
    assert_eq!(
        (view.text, view.options.consistency),
        (INSERT, Consistency(6))
    );
    let timestamp = view.options.timestamp.expect("it has a time");
    (timestamp, *stream)
}

/// The layout's request: its stream.
fn layout_is_asked(bench: &Bench, asked: &Envelope, timestamp: i64) -> i16 {
    let (opcode, stream, body) = asked;
    assert_eq!(*opcode, Opcode::Query);
    let view = QueryView::parse(body, bench.versions.1).expect("a QUERY");
    let options = &view.options;
    assert_eq!(options.consistency, Consistency::ANY);
    assert_eq!(options.serial_consistency, None);
    assert_eq!(options.timestamp, Some(timestamp));
    assert_eq!(
        (view.text, usize::from(options.values.count)),
        (COPY, VALUES.len())
    );
    *stream
}

fn insert(bench: &mut Bench, timestamp: Option<i64>) {
    let body = asking(timestamp).query(bench.versions.0, INSERT);
    bench.ask(Opcode::Query, 2, &body);
}

/// A write of table and layout side by side.
struct Written {
    timestamp: i64,
    table: i16,
    layout: i16,
}

fn both_are_asked(bench: &mut Bench, timestamp: Option<i64>) -> Written {
    insert(bench, timestamp);
    let asked = bench.at_node();
    let [table, layout] = &asked[..] else {
        panic!("{asked:?}");
    };
    let (timestamp, table) = table_is_asked(bench, table);
    let layout = layout_is_asked(bench, layout, timestamp);
    Written {
        timestamp,
        table,
        layout,
    }
}

/// An error of a node that has not begun.
fn unavailable() -> Vec<u8> {
    let mut fields = Vec::new();
    write::u16(&mut fields, 6);
    write::i32(&mut fields, 2);
    write::i32(&mut fields, 1);
    error_body(code::UNAVAILABLE, "no", &fields)
}

/// The table refuses a write that the layout takes. Returns what its client hears.
fn refuse_one(bench: &mut Bench) -> (Opcode, Vec<u8>) {
    let written = both_are_asked(bench, None);
    bench.say(Opcode::Result, written.layout, &VOID);
    bench.say(
        Opcode::Error,
        written.table,
        &error_body(code::INVALID, "no", &[]),
    );
    bench.answer()
}

/// The fields of a write that has timed out.
fn timed_out() -> Vec<u8> {
    let mut fields = Vec::new();
    write::u16(&mut fields, 6);
    write::i32(&mut fields, 1);
    write::i32(&mut fields, 2);
    write::string(&mut fields, "SIMPLE");
    fields
}

#[test]
fn table_and_layout_are_written_with_one_time_and_the_layout_at_any() {
    for versions in VERSIONS {
        for (own, table_first) in [(None, true), (Some(12), false)] {
            let mut bench = Bench::derived(versions.0, versions.1);
            let written = both_are_asked(&mut bench, own);
            assert!(own.is_none_or(|own| own == written.timestamp));
            let (first, second) = match table_first {
                true => (written.table, written.layout),
                false => (written.layout, written.table),
            };
            bench.say(Opcode::Result, first, &VOID);
            assert_eq!(bench.answers(), [], "the other does not have it yet");
            bench.say(Opcode::Result, second, &VOID);
            assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
            assert!(news(&mut bench).is_empty());
            bench.is_done();
        }
    }
}

#[test]
fn what_the_table_refuses_and_a_layout_may_have_is_doubted_before_its_client_hears() {
    let invalid = error_body(code::INVALID, "no", &[]);
    let late = error_body(code::WRITE_TIMEOUT, "late", &timed_out());
    for of_layout in [(Opcode::Result, VOID.to_vec()), (Opcode::Error, late)] {
        for table_first in [true, false] {
            let mut bench = Bench::derived(Version::V5, Version::V5);
            let written = both_are_asked(&mut bench, None);
            let say_table = |bench: &mut Bench| bench.say(Opcode::Error, written.table, &invalid);
            if table_first {
                say_table(&mut bench);
                assert_eq!(bench.answers(), [], "a layout may get it still");
            }
            bench.say(of_layout.0, written.layout, &of_layout.1);
            if !table_first {
                say_table(&mut bench);
            }
            assert_eq!(bench.answer(), (Opcode::Error, invalid.clone()));
            assert!(matches!(news(&mut bench)[..], [OfLayouts::Doubted(_)]));
            // It is in no layout's interest to be asked again.
            assert_eq!(bench.at_node(), []);
            bench.is_done();
        }
    }
}

#[test]
fn what_table_and_layout_refuse_is_nowhere_and_the_layout_is_not_behind() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let invalid = error_body(code::INVALID, "no", &[]);
    let written = both_are_asked(&mut bench, None);
    bench.say(Opcode::Error, written.layout, &invalid);
    assert_eq!(bench.at_node(), [], "the table may refuse it, too");
    bench.say(Opcode::Error, written.table, &invalid);
    assert_eq!(bench.error(), (code::INVALID, "no".to_owned()));
    assert_eq!(bench.at_node(), []);
    assert!(news(&mut bench).is_empty());
    // The next write goes to both at once.
    both_are_asked(&mut bench, None);
}

#[test]
fn a_layout_that_has_refused_early_is_asked_again_once_the_table_has_the_write() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let written = both_are_asked(&mut bench, None);
    let refusal = error_body(code::OVERLOADED, "too many hints", &[]);
    bench.say(Opcode::Error, written.layout, &refusal);
    assert_eq!(bench.at_node(), []);
    bench.say(Opcode::Result, written.table, &VOID);
    assert_eq!(bench.answers(), []);
    let asked = bench.one_at_node();
    let stream = layout_is_asked(&bench, &asked, written.timestamp);
    bench.say(Opcode::Result, stream, &VOID);
    assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
    assert!(news(&mut bench).is_empty());
    bench.is_done();
}

#[test]
fn after_a_refusal_layouts_follow_their_table_for_a_while() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    refuse_one(&mut bench);
    news(&mut bench);
    // What the table refuses is sent to no layout now.
    insert(&mut bench, None);
    let asked = bench.one_at_node();
    let (_, stream) = table_is_asked(&bench, &asked);
    let refusal = error_body(code::INVALID, "no", &[]);
    bench.say(Opcode::Error, stream, &refusal);
    assert_eq!(bench.error(), (code::INVALID, "no".to_owned()));
    assert_eq!(bench.at_node(), []);
    assert!(news(&mut bench).is_empty());
    // What it takes is.
    insert(&mut bench, Some(5));
    let asked = bench.one_at_node();
    let (_, stream) = table_is_asked(&bench, &asked);
    bench.say(Opcode::Result, stream, &VOID);
    assert_eq!(bench.answers(), []);
    let asked = bench.one_at_node();
    let stream = layout_is_asked(&bench, &asked, 5);
    bench.say(Opcode::Result, stream, &VOID);
    assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
    bench.is_done();
    bench.wait(lease());
    bench.renew();
    both_are_asked(&mut bench, None);
}

#[test]
fn a_write_that_the_table_may_have_is_in_the_layout_and_doubted() {
    for is_after_refusal in [false, true] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        if is_after_refusal {
            refuse_one(&mut bench);
            news(&mut bench);
        }
        let refusal = error_body(code::WRITE_TIMEOUT, "late", &timed_out());
        let stream = match is_after_refusal {
            false => {
                let written = both_are_asked(&mut bench, None);
                bench.say(Opcode::Error, written.table, &refusal);
                written.layout
            }
            true => {
                insert(&mut bench, None);
                let asked = bench.one_at_node();
                let (timestamp, stream) = table_is_asked(&bench, &asked);
                bench.say(Opcode::Error, stream, &refusal);
                let asked = bench.one_at_node();
                layout_is_asked(&bench, &asked, timestamp)
            }
        };
        assert_eq!(bench.answers(), []);
        bench.say(Opcode::Result, stream, &VOID);
        assert_eq!(bench.answer(), (Opcode::Error, refusal));
        let news = news(&mut bench);
        let [OfLayouts::Doubted(Doubted { table, tokens })] = &news[..] else {
            panic!("{news:?}");
        };
        assert_eq!((&*table.0, &*table.1), ("app", TABLE));
        assert!(matches!(tokens[..], [Some(_)]), "{tokens:?}");
        bench.is_done();
    }
}

#[test]
fn a_write_that_a_rule_ends_early_is_doubted() {
    let quick = RuleSettings {
        name: "quick".to_owned(),
        all: true,
        timeout_ms: Some(300),
        ..RuleSettings::default()
    };
    let mut config = Config {
        rules: vec![quick],
        ..Config::default()
    };
    config.layouts.enabled = true;
    for has_answered in [false, true] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        bench.adopt_config(config.clone());
        let written = both_are_asked(&mut bench, None);
        if has_answered {
            bench.say(Opcode::Result, written.table, &VOID);
        }
        bench.wait(Duration::from_millis(400));
        assert_eq!(bench.error().0, code::WRITE_TIMEOUT);
        assert!(matches!(news(&mut bench)[..], [OfLayouts::Doubted(_)]));
        // Too late.
        bench.say(Opcode::Result, written.layout, &VOID);
        assert_eq!(bench.answers(), []);
    }
}

#[test]
fn what_no_node_takes_for_a_layout_is_in_doubt_and_its_client_hears_that_nobody_knows() {
    let mut bench = Bench::derived(Version::V4, Version::V5);
    let written = both_are_asked(&mut bench, Some(5));
    bench.say(Opcode::Result, written.table, &VOID);
    let refusal = error_body(code::OVERLOADED, "too many hints", &[]);
    let mut stream = written.layout;
    // Other nodes might take it.
    for attempt in 0..3 {
        assert_eq!(bench.answers(), [], "{attempt}");
        bench.say(Opcode::Error, stream, &refusal);
        if attempt < 2 {
            let asked = bench.one_at_node();
            stream = layout_is_asked(&bench, &asked, written.timestamp);
        }
    }
    let (code, text) = bench.error();
    assert_eq!(code, code::WRITE_TIMEOUT);
    assert!(text.contains("the table has this write"), "{text}");
    assert!(matches!(news(&mut bench)[..], [OfLayouts::Doubted(_)]));
    bench.is_done();
}

#[test]
fn a_layout_that_cannot_be_written_is_told_of() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let written = both_are_asked(&mut bench, Some(5));
    let why = "unconfigured table orders__layout_a";
    let refusal = error_body(code::INVALID, why, &[]);
    bench.say(Opcode::Error, written.layout, &refusal);
    bench.say(Opcode::Result, written.table, &VOID);
    for _ in 0..2 {
        let asked = bench.one_at_node();
        let stream = layout_is_asked(&bench, &asked, written.timestamp);
        bench.say(Opcode::Error, stream, &refusal);
    }
    assert_eq!(bench.error().0, code::WRITE_TIMEOUT);
    let missed = Missed {
        keyspace: DERIVED.to_owned(),
        physical: LAYOUT.to_owned(),
        why: why.to_owned(),
    };
    assert!(matches!(&news(&mut bench)[..], [OfLayouts::Missed(of)] if *of == missed));
    bench.is_done();
}

#[test]
fn warnings_about_the_link_are_left_out_before_the_layouts_are_written() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    bench.prepare(INSERT, b"own", &MARKERS, &[]);
    for warnings in [
        &["`USE <keyspace>` with prepared statements is considered to be an anti-pattern: x"][..],
        &["other"],
    ] {
        let body = asking(None).execute(Version::V5, b"own");
        bench.ask(Opcode::Execute, 2, &body);
        for (opcode, stream, _) in bench.at_node() {
            match opcode {
                Opcode::Prepare => {
                    let answer = bench.prepared(b"derived", LAYOUT, &MARKERS, &[]);
                    bench.say(Opcode::Result, stream, &answer);
                }
                // The layout's are nobody's business.
                _ => bench.say_warned(stream, warnings, &VOID),
            }
        }
        let (opcode, body) = bench.answer();
        let mut expected = Vec::new();
        if warnings == ["other"] {
            write::string_list(&mut expected, warnings);
        }
        expected.extend(VOID);
        assert_eq!((opcode, body), (Opcode::Result, expected));
        bench.is_done();
    }
}

#[test]
fn what_is_prepared_is_executed_on_the_layout_once_a_node_knows_it() {
    for (of_client, of_node) in VERSIONS {
        executes_what_is_prepared(of_client, of_node);
    }
}

fn executes_what_is_prepared(of_client: Version, of_node: Version) {
    let mut bench = Bench::derived(of_client, of_node);
    bench.prepare(INSERT, b"own", &MARKERS, &[]);
    let body = asking(None).execute(of_client, b"own");
    for is_known in [false, true] {
        bench.ask(Opcode::Execute, 2, &body);
        let mut asked = bench.at_node();
        let prepares = asked.extract_if(.., |(opcode, ..)| *opcode == Opcode::Prepare);
        for (_, stream, _) in prepares.collect::<Vec<_>>() {
            let answer = bench.prepared(b"derived", LAYOUT, &MARKERS, &[]);
            bench.say(Opcode::Result, stream, &answer);
        }
        let [(of_table, stream, _), (opcode, of_layout, body)] = asked.try_into().expect("two");
        assert_eq!(of_table, Opcode::Execute);
        bench.say(Opcode::Result, stream, &VOID);
        let stream = of_layout;
        match is_known {
            false => assert_eq!(opcode, Opcode::Query),
            true => {
                assert_eq!(opcode, Opcode::Execute);
                let view = ExecuteView::parse(&body, of_node).expect("an EXECUTE");
                assert_eq!(
                    (view.id, view.options.consistency),
                    (&b"derived"[..], Consistency::ANY)
                );
                let values: Vec<_> = view.options.values.iter().map(|(_, value)| value).collect();
                assert_eq!(values, VALUES.map(ValueRef::Set));
            }
        }
        bench.say(Opcode::Result, stream, &VOID);
        assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
    }
    bench.is_done();
}

#[test]
fn of_a_batch_those_statements_follow_whose_tables_have_layouts() {
    let other = "INSERT INTO app.others (customer) VALUES (1)";
    let delete = "DELETE FROM app.orders WHERE customer = 1";
    let copy = "DELETE FROM app__layouts.orders__layout_a WHERE customer = 1";
    for versions in VERSIONS {
        let mut body = vec![0];
        write::u16(&mut body, 2);
        for text in [other, delete] {
            body.push(0);
            write::long_string(&mut body, text);
            write::u16(&mut body, 0);
        }
        Asking::default().write(versions.0, &mut body);
        let text = format!("BEGIN BATCH USING TIMESTAMP 9 {other}; {delete}; APPLY BATCH");
        let as_text = Asking::default().query(versions.0, &text);
        for (sent, body) in [(Opcode::Batch, body), (Opcode::Query, as_text)] {
            let mut bench = Bench::derived(versions.0, versions.1);
            bench.ask(sent, 2, &body);
            let asked = bench.at_node();
            let [(opcode, table, of_table), (of_layout, layout, body)] =
                asked.try_into().expect("two");
            assert_eq!(opcode, sent);
            let timestamp = match sent {
                Opcode::Batch => {
                    let view = BatchView::parse(&of_table, versions.1).expect("a BATCH");
                    assert_eq!((view.batch_type, view.children.len()), (0, 2));
                    view.options.timestamp
                }
                _ => {
                    let view = QueryView::parse(&of_table, versions.1).expect("a QUERY");
                    assert_eq!(view.text, text);
                    Some(9)
                }
            };
            assert_eq!(of_layout, Opcode::Query);
            let view = QueryView::parse(&body, versions.1).expect("a QUERY");
            assert_eq!((view.text, view.options.timestamp), (copy, timestamp));
            bench.say(Opcode::Result, table, &VOID);
            bench.say(Opcode::Result, layout, &VOID);
            assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
            bench.is_done();
        }
    }
}

#[test]
fn of_several_partitions_some_may_be_written_when_a_node_refuses() {
    let text = "DELETE FROM app.orders WHERE customer IN (7, 8)";
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let body = Asking::default().query(Version::V5, text);
    bench.ask(Opcode::Query, 2, &body);
    // The table may be tried again.
    let (mut asked, mut is_in_layout) = (bench.at_node(), false);
    while !asked.is_empty() {
        for (_, stream, body) in asked {
            let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
            match view.text == text {
                true => bench.say(Opcode::Error, stream, &unavailable()),
                false => {
                    assert!(view.text.contains(LAYOUT), "{}", view.text);
                    is_in_layout = true;
                    bench.say(Opcode::Result, stream, &VOID);
                }
            }
        }
        asked = bench.at_node();
    }
    assert!(is_in_layout);
    assert_eq!(bench.answer().0, Opcode::Error);
    assert!(matches!(news(&mut bench)[..], [OfLayouts::Doubted(_)]));
}

#[test]
fn layouts_follow_as_soon_as_an_overloaded_table_refuses() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let overloaded = error_body(code::OVERLOADED, "no", &[]);
    let written = both_are_asked(&mut bench, None);
    bench.say(Opcode::Error, written.table, &overloaded);
    // The layout of the first is under way still.
    insert(&mut bench, None);
    let asked = bench.one_at_node();
    let (_, table) = table_is_asked(&bench, &asked);
    bench.say(Opcode::Error, table, &overloaded);
    assert_eq!(bench.error().0, code::OVERLOADED);
    assert!(news(&mut bench).is_empty(), "the second is nowhere");
    bench.say(Opcode::Result, written.layout, &VOID);
    assert_eq!(bench.error().0, code::OVERLOADED);
    assert!(matches!(news(&mut bench)[..], [OfLayouts::Doubted(_)]));
    bench.is_done();
}

#[test]
fn a_batch_is_one_mutation_if_it_is_about_one_partition_of_one_keyspace() {
    let of_table = "DELETE FROM app.orders WHERE customer = 1";
    for (other, is_one) in [
        ("DELETE FROM app.orders WHERE customer = 1", true),
        ("DELETE FROM app.orders WHERE customer = 2", false),
        ("INSERT INTO app.others (customer) VALUES (2)", false),
    ] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        refuse_one(&mut bench);
        news(&mut bench);
        let mut body = vec![1];
        write::u16(&mut body, 2);
        for text in [of_table, other] {
            body.push(0);
            write::long_string(&mut body, text);
            write::u16(&mut body, 0);
        }
        Asking::default().write(Version::V5, &mut body);
        bench.ask(Opcode::Batch, 2, &body);
        let (_, stream, _) = bench.one_at_node();
        let overloaded = error_body(code::OVERLOADED, "no", &[]);
        bench.say(Opcode::Error, stream, &overloaded);
        // Of several partitions one may have been written before the node has refused the next one.
        for (_, stream, _) in bench.at_node() {
            assert!(!is_one, "{other}");
            bench.say(Opcode::Result, stream, &VOID);
        }
        assert_eq!(bench.error().0, code::OVERLOADED);
        assert_eq!(news(&mut bench).is_empty(), is_one, "{other}");
        bench.is_done();
    }
}
