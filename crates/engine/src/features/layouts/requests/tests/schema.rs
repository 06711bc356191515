//! Tables as clients are told of them.

use helenus_wire::{ErrorBody, Opcode, PageStart, QueryView, RowsView, Version, code, write};

use crate::config::Config;
use crate::shared::{EventKind, WorkerMessage};
use crate::snapshot::KeyColumn;
use crate::testing::bench::{Asking, Bench, LAYOUT, Spec, VARCHAR};

const VERSIONS: [(Version, Version); 4] = [
    (Version::V3, Version::V4),
    (Version::V3, Version::V5),
    (Version::V4, Version::V4),
    (Version::V5, Version::V5),
];
const NAMES: [Spec; 2] = [("keyspace_name", VARCHAR), ("table_name", VARCHAR)];
const OF_APP: &str = "SELECT * FROM system_schema.tables WHERE keyspace_name = 'app'";

/// An answer of a node, of texts. `tells`: whether it has the columns.
fn page(
    table: &str,
    columns: &[Spec],
    tells: bool,
    state: Option<&[u8]>,
    rows: &[&[&str]],
) -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 2);
    let flags = if tells { 1 } else { 4 };
    write::u32(&mut body, flags | state.map_or(0, |_| 2));
    write::u32(&mut body, columns.len() as u32);
    if state.is_some() {
        write::bytes(&mut body, state);
    }
    if tells {
        write::string(&mut body, "system_schema");
        write::string(&mut body, table);
        for (name, column_type) in columns {
            write::string(&mut body, name);
            write::u16(&mut body, *column_type);
        }
    }
    write::u32(&mut body, rows.len() as u32);
    for cell in rows.iter().copied().flatten() {
        write::bytes(&mut body, Some(cell.as_bytes()));
    }
    body
}

/// The bench's answer to its client: its rows, and the paging state.
fn told(bench: &mut Bench) -> (Vec<Vec<String>>, Option<Vec<u8>>) {
    let (opcode, body) = bench.answer();
    assert_eq!(opcode, Opcode::Result);
    let page = RowsView::parse(&body).expect("rows");
    let text = |cell: Option<&[u8]>| String::from_utf8_lossy(cell.unwrap_or_default()).into_owned();
    let rows = page.rows().map(|row| {
        let cells = row.expect("a row");
        cells.into_iter().map(text).collect()
    });
    (rows.collect(), page.paging_state.map(<[u8]>::to_vec))
}

/// The rows that the client gets for this text if the node's have these cells.
fn seen(bench: &mut Bench, text: &str, columns: &[Spec], rows: &[&[&str]]) -> Vec<Vec<String>> {
    bench.ask(
        Opcode::Query,
        3,
        &Asking::default().query(bench.versions.0, text),
    );
    let (_, stream, _) = bench.one_at_node();
    let answer = page("tables", columns, true, None, rows);
    bench.say(Opcode::Result, stream, &answer);
    told(bench).0
}

fn is_hidden(bench: &mut Bench, text: &str, columns: &[Spec], row: &[&str]) -> bool {
    let visible = vec!["app"; row.len()];
    let rows = seen(bench, text, columns, &[&visible, row, &visible]);
    assert!(matches!(rows.len(), 2 | 3), "{text}: {rows:?}");
    rows.len() == 2
}

#[test]
fn layouts_are_not_among_the_tables_of_a_keyspace() {
    for versions in VERSIONS {
        let mut bench = Bench::new(versions.0, versions.1);
        let asking = Asking {
            page_size: Some(3),
            ..Asking::default()
        };
        bench.ask(Opcode::Query, 3, &asking.query(versions.0, OF_APP));
        let (opcode, stream, body) = bench.one_at_node();
        let asked = QueryView::parse(&body, versions.1).expect("a query");
        assert_eq!((opcode, asked.text), (Opcode::Query, OF_APP));
        let rows: [&[&str]; 3] = [&["app", "orders"], &["app", LAYOUT], &["app", "others"]];
        let answer = page("tables", &NAMES, true, Some(b"state"), &rows);
        bench.say(Opcode::Result, stream, &answer);
        let expected = page("tables", &NAMES, true, Some(b"state"), &[rows[0], rows[2]]);
        assert_eq!(bench.answer(), (Opcode::Result, expected), "{versions:?}");
        bench.is_done();
    }
}

#[test]
fn a_prepared_read_may_skip_the_columns() {
    for versions in VERSIONS {
        let cases: [(&str, &[Spec]); 3] = [
            (
                "SELECT * FROM system_schema.tables WHERE keyspace_name = ?",
                &NAMES,
            ),
            (
                "SELECT table_name, keyspace_name FROM system_schema.tables WHERE keyspace_name = ?",
                &[NAMES[1], NAMES[0]],
            ),
            (
                "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?",
                &NAMES[1..],
            ),
        ];
        for (text, columns) in cases {
            let mut bench = Bench::new(versions.0, versions.1);
            let tables = ("system_schema", "tables");
            bench.prepare_read_of(tables, text, b"read", &NAMES[..1], columns);
            let asking = Asking {
                values: &[b"app"],
                skip_metadata: true,
                ..Asking::default()
            };
            bench.ask(Opcode::Execute, 3, &asking.execute(versions.0, b"read"));
            let (_, stream, _) = bench.one_at_node();
            let row = |table: &'static str| -> Vec<&str> {
                let cell = |(name, _): &Spec| if *name == "table_name" { table } else { "app" };
                columns.iter().map(cell).collect()
            };
            let (first, second) = (row(LAYOUT), row("orders"));
            let answer = page("tables", columns, false, None, &[&first, &second]);
            bench.say(Opcode::Result, stream, &answer);
            let expected = page("tables", columns, false, None, &[&second]);
            assert_eq!(
                bench.answer(),
                (Opcode::Result, expected),
                "{text} {versions:?}"
            );
            bench.is_done();
        }
    }
}

#[test]
fn rows_are_known_by_the_column_that_names_their_table() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let hidden = |bench: &mut Bench, text: &str, columns: &[Spec], row: &[&str]| {
        assert!(is_hidden(bench, text, columns, row), "{text}");
    };
    for table in [
        "tables",
        "columns",
        "dropped_columns",
        "indexes",
        "triggers",
        "column_masks",
    ] {
        let all = format!("SELECT * FROM system_schema.{table}");
        hidden(&mut bench, &all, &NAMES, &["app", LAYOUT]);
        let renamed = format!(
            "SELECT table_name AS t, kind FROM system_schema.{table} WHERE keyspace_name IN ('app') AND \
             keyspace_name = 'app'"
        );
        let columns = [("t", VARCHAR), ("kind", VARCHAR)];
        hidden(&mut bench, &renamed, &columns, &[LAYOUT, "regular"]);
    }
    let view = [
        ("base_table_name", VARCHAR),
        ("keyspace_name", VARCHAR),
        ("view_name", VARCHAR),
    ];
    let text = "SELECT * FROM system_schema.views";
    hidden(&mut bench, text, &view, &[LAYOUT, "app", "v"]);
    let by_group = "SELECT keyspace_name, table_name, count(*) FROM system_schema.columns GROUP BY \
                    keyspace_name, table_name";
    let columns = [NAMES[0], NAMES[1], ("count", VARCHAR)];
    hidden(&mut bench, by_group, &columns, &["app", LAYOUT, "3"]);
    // Made, and not in the catalogue yet.
    hidden(&mut bench, OF_APP, &NAMES, &["app", "others__layout_new"]);
    bench.is_done();
}

#[test]
fn what_says_nothing_of_a_layout_goes_as_it_came() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let same = |bench: &mut Bench, text: &str, columns: &[Spec], row: &[&str]| {
        assert!(!is_hidden(bench, text, columns, row), "{text}");
    };
    let cases: [(&str, &[Spec], &[&str]); 9] = [
        (
            "SELECT JSON * FROM system_schema.tables",
            &NAMES[..1],
            &[LAYOUT][..],
        ),
        (
            "SELECT id FROM system_schema.tables",
            &[("id", VARCHAR)],
            &[LAYOUT],
        ),
        (
            "SELECT table_name FROM system_schema.tables",
            &NAMES[1..],
            &[LAYOUT],
        ),
        (
            "SELECT table_name, max(comment) FROM system_schema.tables WHERE keyspace_name = 'app'",
            &NAMES,
            &[LAYOUT, "x"],
        ),
        (
            "SELECT * FROM system_virtual_schema.tables",
            &NAMES,
            &["app", LAYOUT],
        ),
        (
            "SELECT * FROM system_schema.types",
            &NAMES,
            &["app", LAYOUT],
        ),
        (OF_APP, &NAMES, &["other", LAYOUT]),
        (OF_APP, &NAMES, &["app", "nothing__layout_a"]),
        (OF_APP, &NAMES, &["app", "others__layout_A"]),
    ];
    for (text, columns, row) in cases {
        same(&mut bench, text, columns, row);
    }
    // A user's table that is named so.
    let key = KeyColumn {
        name: "id".to_owned(),
        cql_type: "uuid".to_owned(),
        is_masked: false,
    };
    let next = bench.common.snapshot.load().successor();
    let next = next.table("app", "others__layout_b", [key]);
    bench.common.store(next.build());
    bench.engine.on_message(bench.now, WorkerMessage::Snapshot);
    same(&mut bench, OF_APP, &NAMES, &["app", "others__layout_b"]);
    bench.is_done();
}

#[test]
fn operators_may_see_layouts() {
    for (enabled, show_tables) in [(false, false), (false, true), (true, true)] {
        let mut config = Config::default();
        config.layouts.enabled = enabled;
        config.layouts.show_tables = show_tables;
        let mut bench = Bench::with(config, (Version::V4, Version::V4));
        bench.renew();
        assert!(!is_hidden(&mut bench, OF_APP, &NAMES, &["app", LAYOUT]));
    }
}

/// A node's paging state with so many rows left of the LIMIT.
fn state(left: i32) -> Vec<u8> {
    PageStart::behind_partition(b"app", left as u32).write()
}

#[test]
fn a_limit_counts_the_rows_that_clients_see() {
    let limited =
        "SELECT * FROM system_schema.tables WHERE keyspace_name = ? LIMIT ? ALLOW FILTERING";
    let unlimited = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for versions in VERSIONS {
        for is_prepared in [false, true] {
            let mut bench = Bench::new(versions.0, versions.1);
            let markers = [NAMES[0], ("[limit]", 9)];
            if is_prepared {
                let tables = ("system_schema", "tables");
                bench.prepare_read_of(tables, limited, b"read", &markers, &NAMES);
            }
            let ask = |bench: &mut Bench, from: Option<&[u8]>| {
                let asking = Asking {
                    values: &[b"app", &[0, 0, 0, 3]],
                    page_size: Some(2),
                    state: from,
                    ..Asking::default()
                };
                let (opcode, body) = match is_prepared {
                    true => (Opcode::Execute, asking.execute(versions.0, b"read")),
                    false => (Opcode::Query, asking.query(versions.0, limited)),
                };
                bench.ask(opcode, 3, &body);
                let (opcode, stream, body) = bench.one_at_node();
                assert_eq!(opcode, Opcode::Query);
                let view = QueryView::parse(&body, versions.1).expect("a query");
                let text = unlimited(view.text);
                let expected = limited.replace("LIMIT ? ", "");
                assert_eq!((text, view.options.page_size), (expected, Some(2)));
                assert_eq!(view.options.values.iter().count(), 1);
                (stream, view.options.paging_state.map(<[u8]>::to_vec))
            };
            let answer =
                |left, rows: &[&[&str]]| page("tables", &NAMES, true, Some(&state(left)), rows);
            let (stream, from) = ask(&mut bench, None);
            assert_eq!(from, None);
            let first = answer(i32::MAX - 2, &[&["app", "orders"], &["app", LAYOUT]]);
            bench.say(Opcode::Result, stream, &first);
            let (rows, next) = told(&mut bench);
            assert_eq!(rows, [["app", "orders"]]);
            assert_eq!(next, Some(state(2)), "one of three rows was told");
            let (stream, from) = ask(&mut bench, next.as_deref());
            assert_eq!(from, Some(state(i32::MAX)));
            let second = answer(i32::MAX - 2, &[&["app", "others"], &["app", "points"]]);
            bench.say(Opcode::Result, stream, &second);
            let (rows, next) = told(&mut bench);
            assert_eq!(rows, [["app", "others"], ["app", "points"]]);
            assert_eq!(next, None, "the LIMIT is reached");
            bench.is_done();
        }
    }
}

#[test]
fn a_limit_ends_within_a_page_and_odd_ones_are_left_to_nodes() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let rows: [&[&str]; 3] = [&["app", LAYOUT], &["app", "orders"], &["app", "others"]];
    let one = seen(&mut bench, &format!("{OF_APP} LIMIT 1"), &NAMES, &rows);
    assert_eq!(one, [["app", "orders"]]);
    for text in ["LIMIT 0", "LIMIT -1", "LIMIT 99999999999"] {
        let text = format!("{OF_APP} {text}");
        bench.ask(
            Opcode::Query,
            3,
            &Asking::default().query(Version::V4, &text),
        );
        let (_, stream, body) = bench.one_at_node();
        let view = QueryView::parse(&body, Version::V4).expect("a query");
        assert_eq!(view.text, text);
        bench.say_error(
            stream,
            code::INVALID,
            "LIMIT must be strictly positive",
            &[],
        );
        assert_eq!(bench.error().0, code::INVALID);
    }
    bench.is_done();
}

#[test]
fn describe_leaves_layouts_out_unless_it_names_one() {
    let columns = [
        ("keyspace_name", VARCHAR),
        ("type", VARCHAR),
        ("name", VARCHAR),
        ("create_statement", VARCHAR),
    ];
    let mut bench = Bench::new(Version::V5, Version::V5);
    let layout: [&str; 4] = ["app", "table", LAYOUT, "CREATE TABLE …"];
    for text in [
        "DESCRIBE TABLES",
        "DESCRIBE KEYSPACE app",
        "DESC app",
        "DESCRIBE SCHEMA",
        "DESCRIBE FULL SCHEMA",
        "DESCRIBE TABLE app.orders",
    ] {
        assert!(is_hidden(&mut bench, text, &columns, &layout), "{text}");
        assert!(
            is_hidden(&mut bench, text, &columns[..3], &layout[..3]),
            "{text}"
        );
        // As nodes write names that need quotes.
        let quoted = ["\"app\"", "table", "\"orders__layout_a\""];
        assert!(
            is_hidden(&mut bench, text, &columns[..3], &quoted),
            "{text}"
        );
        let function = ["app", "function", LAYOUT, "CREATE FUNCTION …"];
        assert!(!is_hidden(&mut bench, text, &columns, &function), "{text}");
    }
    for text in [
        "DESCRIBE TABLE app.orders__layout_a",
        "DESCRIBE TABLE app.\"orders__layout_a\" WITH INTERNALS",
        "DESC Orders__Layout_A",
    ] {
        assert!(!is_hidden(&mut bench, text, &columns, &layout), "{text}");
    }
    bench.is_done();
}

fn changed(target: &[&str]) -> WorkerMessage {
    let mut body = Vec::new();
    for text in ["SCHEMA_CHANGE", "UPDATED"].iter().chain(target) {
        write::string(&mut body, text);
    }
    WorkerMessage::Event {
        kind: EventKind::Schema,
        body: body.into(),
    }
}

#[test]
fn events_about_layouts_are_not_passed_on() {
    for show_tables in [false, true] {
        let mut config = Config::default();
        config.layouts.enabled = true;
        config.layouts.show_tables = show_tables;
        let mut bench = Bench::with(config, (Version::V4, Version::V4));
        let mut register = Vec::new();
        write::string_list(&mut register, &["SCHEMA_CHANGE"]);
        bench.ask(Opcode::Register, 3, &register);
        assert_eq!(bench.answer().0, Opcode::Ready);
        let mut told_of = |target: &[&str]| {
            bench.engine.on_message(bench.now, changed(target));
            let answers = bench.answers();
            assert!(answers.iter().all(|(opcode, ..)| *opcode == Opcode::Event));
            answers.len()
        };
        assert_eq!(told_of(&["TABLE", "app", "orders"]), 1);
        assert_eq!(told_of(&["KEYSPACE", "app"]), 1);
        assert_eq!(told_of(&["TYPE", "app", LAYOUT]), 1);
        assert_eq!(told_of(&["TABLE", "other", LAYOUT]), 1);
        let shown = usize::from(show_tables);
        assert_eq!(told_of(&["TABLE", "app", LAYOUT]), shown);
        assert_eq!(told_of(&["TABLE", "app", "others__layout_new"]), shown);
        // Bytes that are no event.
        bench.engine.on_message(
            bench.now,
            WorkerMessage::Event {
                kind: EventKind::Schema,
                body: b"\xff\xff".as_slice().into(),
            },
        );
    }
}

#[test]
fn errors_and_odd_answers_pass() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let ask = |bench: &mut Bench| {
        bench.ask(
            Opcode::Query,
            3,
            &Asking::default().query(Version::V4, OF_APP),
        );
        bench.one_at_node().1
    };
    let stream = ask(&mut bench);
    bench.say_error(stream, code::INVALID, "orders__layout_a", &[]);
    assert_eq!(
        bench.error(),
        (code::INVALID, "orders__layout_a".to_owned())
    );
    let stream = ask(&mut bench);
    let mut cut = page("tables", &NAMES, true, None, &[&["app", LAYOUT]]);
    cut.truncate(cut.len() - 3);
    bench.say(Opcode::Result, stream, &cut);
    let (opcode, body) = bench.answer();
    assert_eq!(opcode, Opcode::Error);
    let error = ErrorBody::parse(&body).expect("an error");
    assert_eq!(error.code, code::SERVER, "{}", error.message);
    bench.is_done();
}

#[test]
fn a_table_is_not_created_under_the_name_of_a_layout() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    for text in [
        "CREATE TABLE app.others__layout_b (a int PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS app.orders__layout_a (a int PRIMARY KEY)",
    ] {
        bench.ask(
            Opcode::Query,
            3,
            &Asking::default().query(Version::V4, text),
        );
        let (code, why) = bench.error();
        assert!(
            code == code::INVALID && why.contains("named like a layout"),
            "{why}"
        );
    }
    bench.is_done();
    let text = "CREATE TABLE app.missing__layout_b (a int PRIMARY KEY)";
    bench.ask(
        Opcode::Query,
        3,
        &Asking::default().query(Version::V4, text),
    );
    assert_eq!(bench.one_at_node().0, Opcode::Query);
}
