//! Layouts in keyspaces of their own.

use helenus_wire::{
    BatchView, Consistency, ExecuteView, Opcode, QueryView, ValueRef, Version, code, write,
};

use crate::features::layouts::{Doubted, Missed, Output as OfLayouts};
use crate::features::{self};
use crate::output::Output;
use crate::testing::bench::{
    Asking, BIGINT, Bench, DERIVED, LAYOUT, Spec, TABLE, VARCHAR, error_body, rows, rows_in,
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
const VOID: [u8; 4] = 1_i32.to_be_bytes();
const VERSIONS: [(Version, Version); 4] = [
    (Version::V3, Version::V4),
    (Version::V3, Version::V5),
    (Version::V4, Version::V5),
    (Version::V5, Version::V5),
];

fn asking<'a>(timestamp: Option<i64>) -> Asking<'a> {
    Asking {
        values: &VALUES,
        serial: Some(9),
        timestamp,
        ..Asking::default()
    }
}

/// A write by text, as far as the table: its timestamp, and the stream at the node.
fn table_is_asked(bench: &mut Bench, timestamp: Option<i64>) -> (i64, i16) {
    let body = asking(timestamp).query(bench.versions.0, INSERT);
    bench.ask(Opcode::Query, 2, &body);
    let (opcode, stream, body) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Query);
    let view = QueryView::parse(&body, bench.versions.1).expect("a QUERY");
    assert_eq!(
        (view.text, view.options.consistency),
        (INSERT, Consistency(6))
    );
    let timestamp = view.options.timestamp.expect("it has a time");
    (timestamp, stream)
}

/// The layout's request: its stream.
fn layout_is_asked(bench: &mut Bench, timestamp: i64) -> i16 {
    let (opcode, stream, body) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Query);
    let view = QueryView::parse(&body, bench.versions.1).expect("a QUERY");
    let options = &view.options;
    assert_eq!(options.consistency, Consistency::ANY);
    assert_eq!(options.serial_consistency, None);
    assert_eq!(options.timestamp, Some(timestamp));
    assert_eq!(
        (view.text, usize::from(options.values.count)),
        (COPY, VALUES.len())
    );
    stream
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

fn news(bench: &mut Bench) -> Vec<OfLayouts> {
    let outputs = std::iter::from_fn(|| bench.engine.poll_output());
    let news = outputs.filter_map(|output| match output {
        Output::Feature(features::Output::Layouts(news)) => Some(news),
        _ => None,
    });
    news.collect()
}

#[test]
fn the_layout_follows_the_table_with_its_time_at_any() {
    for versions in VERSIONS {
        for own in [None, Some(12)] {
            let mut bench = Bench::derived(versions.0, versions.1);
            let (timestamp, stream) = table_is_asked(&mut bench, own);
            assert!(own.is_none_or(|own| own == timestamp));
            bench.say(Opcode::Result, stream, &VOID);
            assert_eq!(bench.answers(), [], "its layout does not have it yet");
            let stream = layout_is_asked(&mut bench, timestamp);
            bench.say(Opcode::Result, stream, &VOID);
            assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
            assert!(news(&mut bench).is_empty());
            bench.is_done();
        }
    }
}

#[test]
fn what_the_table_has_refused_is_not_sent_to_layouts() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let (_, stream) = table_is_asked(&mut bench, None);
    let refusal = error_body(code::INVALID, "no", &[]);
    bench.say(Opcode::Error, stream, &refusal);
    assert_eq!(bench.error(), (code::INVALID, "no".to_owned()));
    assert_eq!(bench.at_node(), []);
    assert!(news(&mut bench).is_empty());
    bench.is_done();
}

#[test]
fn a_write_that_the_table_may_have_is_in_the_layout_and_doubted() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let (timestamp, stream) = table_is_asked(&mut bench, None);
    let refusal = error_body(code::WRITE_TIMEOUT, "late", &timed_out());
    bench.say(Opcode::Error, stream, &refusal);
    let stream = layout_is_asked(&mut bench, timestamp);
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

#[test]
fn what_no_node_takes_for_a_layout_is_in_doubt_and_its_client_hears_that_nobody_knows() {
    let mut bench = Bench::derived(Version::V4, Version::V5);
    let (timestamp, stream) = table_is_asked(&mut bench, Some(5));
    bench.say(Opcode::Result, stream, &VOID);
    // Other nodes might take it.
    for attempt in 0..3 {
        let stream = layout_is_asked(&mut bench, timestamp);
        assert_eq!(bench.answers(), [], "{attempt}");
        let refusal = error_body(code::OVERLOADED, "too many hints", &[]);
        bench.say(Opcode::Error, stream, &refusal);
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
    let (timestamp, stream) = table_is_asked(&mut bench, Some(5));
    bench.say(Opcode::Result, stream, &VOID);
    let why = "unconfigured table orders__layout_a";
    for _ in 0..3 {
        let stream = layout_is_asked(&mut bench, timestamp);
        bench.say(Opcode::Error, stream, &error_body(code::INVALID, why, &[]));
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
                _ => bench.say_warned(stream, warnings, &VOID),
            }
        }
        let (_, stream, _) = bench.one_at_node();
        bench.say(Opcode::Result, stream, &VOID);
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
    for versions in VERSIONS {
        executes_what_is_prepared(versions);
    }
}

fn executes_what_is_prepared((of_client, of_node): (Version, Version)) {
    let mut bench = Bench::derived(of_client, of_node);
    bench.prepare(INSERT, b"own", &MARKERS, &[]);
    let body = asking(None).execute(of_client, b"own");
    for is_known in [false, true] {
        bench.ask(Opcode::Execute, 2, &body);
        for (opcode, stream, _) in bench.at_node() {
            if opcode == Opcode::Prepare {
                let answer = bench.prepared(b"derived", LAYOUT, &MARKERS, &[]);
                bench.say(Opcode::Result, stream, &answer);
                continue;
            }
            assert_eq!(opcode, Opcode::Execute);
            bench.say(Opcode::Result, stream, &VOID);
        }
        let (opcode, stream, body) = bench.one_at_node();
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
            let (opcode, stream, of_table) = bench.one_at_node();
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
            bench.say(Opcode::Result, stream, &VOID);
            let (opcode, stream, of_layout) = bench.one_at_node();
            assert_eq!(opcode, Opcode::Query);
            let view = QueryView::parse(&of_layout, versions.1).expect("a QUERY");
            assert_eq!((view.text, view.options.timestamp), (copy, timestamp));
            bench.say(Opcode::Result, stream, &VOID);
            assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
            bench.is_done();
        }
    }
}

const READ: &str =
    "SELECT day, total FROM app.orders WHERE customer = 7 AND status = 'open' ALLOW FILTERING";
const COLUMNS: [Spec; 2] = [("day", BIGINT), ("total", BIGINT)];
const CELLS: [&[u8]; 2] = [&[1; 8], &[2; 8]];

/// A read at this level: what the node is asked, and its stream.
fn read(bench: &mut Bench, level: u16) -> (String, i16) {
    let asking = Asking {
        level: Some(level),
        page_size: Some(100),
        ..Asking::default()
    };
    let body = asking.query(bench.versions.0, READ);
    bench.ask(Opcode::Query, 2, &body);
    let (_, stream, body) = bench.one_at_node();
    let view = QueryView::parse(&body, bench.versions.1).expect("a QUERY");
    assert_eq!(view.options.consistency, Consistency(level));
    (view.text.to_owned(), stream)
}

#[test]
fn derived_layouts_are_read_at_one_and_local_one_only() {
    for versions in VERSIONS {
        for level in [1_u16, 2, 4, 5, 6, 10] {
            let mut bench = Bench::derived(versions.0, versions.1);
            let (text, stream) = read(&mut bench, level);
            let is_weak = matches!(level, 1 | 10);
            assert_eq!(
                text.contains("app__layouts.orders__layout_a"),
                is_weak,
                "{text}"
            );
            let of_node = match is_weak {
                true => rows_in(DERIVED, LAYOUT, &COLUMNS, (None, &CELLS)),
                false => rows(TABLE, &COLUMNS, None, &CELLS),
            };
            bench.say(Opcode::Result, stream, &of_node);
            let of_table = rows(TABLE, &COLUMNS, None, &CELLS);
            assert_eq!(bench.answer(), (Opcode::Result, of_table));
            bench.is_done();
        }
    }
}

#[test]
fn the_table_answers_while_the_layouts_replicas_are_away() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let (_, stream) = read(&mut bench, 1);
    let mut fields = Vec::new();
    write::u16(&mut fields, 1);
    write::i32(&mut fields, 1);
    write::i32(&mut fields, 0);
    let refusal = error_body(
        code::UNAVAILABLE,
        "Cannot achieve consistency level ONE",
        &fields,
    );
    bench.say(Opcode::Error, stream, &refusal);
    let (_, stream, body) = bench.one_at_node();
    let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
    assert_eq!(view.text, READ);
    let of_table = rows(TABLE, &COLUMNS, None, &CELLS);
    bench.say(Opcode::Result, stream, &of_table);
    assert_eq!(bench.answer(), (Opcode::Result, of_table));
    bench.is_done();
}

/// Rows that say whether a conditional write was applied.
fn applied(is_applied: bool) -> Vec<u8> {
    const BOOLEAN: u16 = 4;
    rows(
        TABLE,
        &[("[applied]", BOOLEAN)],
        None,
        &[&[u8::from(is_applied)]],
    )
}

#[test]
fn what_layouts_cannot_be_told_is_the_tables_and_the_partition_is_doubted() {
    for (text, answer, is_doubted) in [
        (
            "DELETE FROM app.orders WHERE customer = 7 AND day > 3",
            VOID.to_vec(),
            true,
        ),
        (
            "INSERT INTO app.orders (customer, day, status) VALUES (7, 1, 'x') IF NOT EXISTS",
            applied(true),
            true,
        ),
        (
            "INSERT INTO app.orders (customer, day, status) VALUES (7, 1, 'x') IF NOT EXISTS",
            // Its first round may have completed an earlier one.
            applied(false),
            true,
        ),
        (
            "BEGIN BATCH INSERT INTO app.orders (customer, day, status) VALUES (7, 1, 'x'); \
             UPDATE app.orders SET total = 5 WHERE customer = 7 AND day = 1 AND status = 'y' IF EXISTS \
             APPLY BATCH",
            applied(true),
            true,
        ),
    ] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        let body = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 2, &body);
        let (opcode, stream, body) = bench.one_at_node();
        assert_eq!(opcode, Opcode::Query, "{text}");
        let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
        assert_eq!(view.text, text);
        bench.say(Opcode::Result, stream, &answer);
        assert_eq!(bench.answer(), (Opcode::Result, answer), "{text}");
        assert_eq!(bench.at_node(), [], "nothing follows");
        let told = news(&mut bench);
        assert_eq!(told.len(), usize::from(is_doubted), "{text}: {told:?}");
        // The partition is read from the table from now on.
        let (read, stream) = read(&mut bench, 1);
        assert_eq!(read.contains(LAYOUT), !is_doubted, "{read}");
        bench.say(Opcode::Result, stream, &rows(TABLE, &COLUMNS, None, &CELLS));
        bench.answer();
        bench.is_done();
    }
}

#[test]
fn a_read_at_serial_may_complete_a_write_and_is_doubted() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let (text, stream) = read(&mut bench, 8);
    assert_eq!(text, READ);
    bench.say(Opcode::Result, stream, &rows(TABLE, &COLUMNS, None, &CELLS));
    bench.answer();
    assert!(matches!(news(&mut bench)[..], [OfLayouts::Doubted(_)]));
    let (text, _) = read(&mut bench, 1);
    assert_eq!(text, READ);
}

#[test]
fn what_holds_layouts_is_neither_written_nor_dropped() {
    for text in [
        "DROP KEYSPACE app__layouts",
        "DROP TABLE app__layouts.orders__layout_a",
        "INSERT INTO app__layouts.orders__layout_a (customer, day, status) VALUES (1, 2, 'x')",
        "TRUNCATE app__layouts.orders__layout_a",
    ] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        let body = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 2, &body);
        let (code, why) = bench.error();
        assert_eq!(code, code::INVALID, "{text}");
        assert!(
            why.contains("app.orders") || why.contains("helenus layouts"),
            "{why}"
        );
        bench.is_done();
    }
}

#[test]
fn what_is_compared_must_be_about_partitions_that_are_known() {
    for text in [
        "DELETE FROM app.orders WHERE customer IN (7, 8) AND day > 3",
        "BEGIN BATCH DELETE FROM app.orders WHERE customer = 7 AND day > 3; DELETE FROM app.orders WHERE customer \
         IN (1, 2) APPLY BATCH",
    ] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        let body = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 2, &body);
        let (code, why) = bench.error();
        assert_eq!(code, code::INVALID, "{text}");
        assert!(why.contains("which partition"), "{why}");
        assert!(news(&mut bench).is_empty());
        bench.is_done();
    }
}

#[test]
fn of_several_partitions_some_may_be_written_when_a_node_refuses() {
    let text = "DELETE FROM app.orders WHERE customer IN (7, 8)";
    let mut fields = Vec::new();
    write::u16(&mut fields, 6);
    write::i32(&mut fields, 2);
    write::i32(&mut fields, 1);
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let body = Asking::default().query(Version::V5, text);
    bench.ask(Opcode::Query, 2, &body);
    // It may be tried again.
    let refusal = error_body(code::UNAVAILABLE, "no", &fields);
    let (mut asked, mut stream) = (text.to_owned(), 0);
    while asked == text {
        let (_, at, body) = bench.one_at_node();
        let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
        (asked, stream) = (view.text.to_owned(), at);
        if asked == text {
            bench.say(Opcode::Error, stream, &refusal);
        }
    }
    assert!(asked.contains(LAYOUT), "{asked}");
    bench.say(Opcode::Result, stream, &VOID);
    assert_eq!(bench.answer().0, Opcode::Error);
    assert!(matches!(news(&mut bench)[..], [OfLayouts::Doubted(_)]));
}

#[test]
fn rights_on_a_keyspace_with_derived_layouts_are_given_table_by_table() {
    for (text, is_refused) in [
        ("GRANT SELECT ON KEYSPACE app TO reader", true),
        ("REVOKE SELECT ON KEYSPACE \"app\" FROM reader", true),
        ("GRANT MODIFY ON ALL TABLES IN KEYSPACE app TO writer", true),
        ("GRANT SELECT ON KEYSPACE other TO reader", false),
        ("GRANT SELECT ON ALL KEYSPACES TO reader", false),
    ] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        let body = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 2, &body);
        match is_refused {
            true => {
                let (code, why) = bench.error();
                assert_eq!(code, code::INVALID, "{text}");
                assert!(why.contains("app.orders"), "{why}");
            }
            false => assert_eq!(bench.one_at_node().0, Opcode::Query),
        }
    }
}

#[test]
fn a_table_is_not_defined_otherwise_while_a_layout_of_it_is_behind() {
    for text in [
        "ALTER TABLE app.orders ADD more int",
        "DROP TABLE app.orders",
        "TRUNCATE app.orders",
        "REVOKE SELECT ON app.orders FROM reader",
        "GRANT SELECT ON app.orders TO reader",
    ] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        let mut table = crate::testing::bench::orders(true);
        table.copies.clear();
        bench.set_aside(table);
        let body = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 2, &body);
        let (code, why) = bench.error();
        assert_eq!(code, code::INVALID, "{text}");
        assert!(why.contains("sweep"), "{why}");
    }
}
