//! Requests about a table with an encoded column, through a whole engine, with a client and a node that say
//! what the test has them say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helenus_payload::{Codec, Decoder, DictionaryId, Encoder, learn};
use helenus_wire::{
    BatchChild, BatchView, ExecuteView, Opcode, QueryView, RowsView, ValueRef, Version, code,
    query_flags, write,
};

use crate::config::Config;
use crate::encodings::{EncodedColumn, EncodedTable, Encodings, Written};
use crate::layouts::LEASE;
use crate::testing::bench::{Asking, BIGINT, Bench, Spec, TABLE, VARCHAR};

const BLOB: u16 = 3;
const VERSIONS: [(Version, Version); 4] = [
    (Version::V3, Version::V5),
    (Version::V4, Version::V4),
    (Version::V4, Version::V5),
    (Version::V5, Version::V5),
];
const CUSTOMER: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 7];
const DOCUMENT: &str = r#"{"name":"Ada","visits":[1,2,3],"city":"London"}"#;
const DICTIONARY: DictionaryId = DictionaryId(3);

fn encodings(written: Written) -> Encodings {
    let samples: Vec<String> = (0..200)
        .map(|n| format!(r#"{{"name":"Ada","visits":[{n},2,3],"city":"London"}}"#))
        .collect();
    let learned = Arc::new(learn(samples.iter().map(String::as_str)));
    let table = EncodedTable {
        keyspace: "app".to_owned(),
        name: TABLE.to_owned(),
        columns: vec![EncodedColumn {
            fits: true,
            name: "note".to_owned(),
            hidden: "note__encoded".to_owned(),
            written,
            codec: Codec::Shape,
            dictionary: Some(DICTIONARY),
        }],
        dictionaries: BTreeMap::from([(DICTIONARY, learned)]),
    };
    let tables = [(TABLE.to_owned(), Arc::new(table))].into_iter().collect();
    Encodings {
        tables: [("app".to_owned(), tables)].into_iter().collect(),
    }
}

fn bench(versions: (Version, Version), written: Written) -> Bench {
    let mut config = Config::default();
    config.payload.enabled = true;
    let bench = Bench::with(config, versions);
    bench.adopt_encodings(encodings(written));
    bench.renew();
    bench
}

fn encoded(text: &str) -> Vec<u8> {
    let of = encodings(Written::Encoded);
    let table = of.table("app", TABLE).expect("the table");
    let learned = table.dictionaries[&DICTIONARY].clone();
    let mut out = Vec::new();
    let encoded = Encoder::new(Codec::Shape, Some((DICTIONARY, learned))).encode(text, &mut out);
    assert_eq!(encoded, Ok(()));
    assert!(out.len() < text.len() / 2);
    out
}

fn decoded(bytes: &[u8]) -> String {
    let of = encodings(Written::Encoded);
    let table = of.table("app", TABLE).expect("the table");
    let mut text = String::new();
    let done = Decoder::default().decode(bytes, &table.dictionaries, 1 << 20, &mut text);
    assert_eq!(done, Ok(()));
    text
}

/// A page with these columns.
fn page(columns: &[Spec], rows: &[&[Option<&[u8]>]], state: Option<&[u8]>) -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 2);
    write::u32(&mut body, 1 | state.map_or(0, |_| 2));
    write::u32(&mut body, columns.len() as u32);
    if state.is_some() {
        write::bytes(&mut body, state);
    }
    write::string(&mut body, "app");
    write::string(&mut body, TABLE);
    for (name, column_type) in columns {
        write::string(&mut body, name);
        write::u16(&mut body, *column_type);
    }
    write::u32(&mut body, rows.len() as u32);
    for cell in rows.iter().copied().flatten() {
        write::bytes(&mut body, *cell);
    }
    body
}

/// Answers the PREPARE of what the proxy has made; what else the node was sent.
fn answer_prepares(
    bench: &mut Bench,
    (text, id): (&str, &[u8]),
    (markers, columns): (&[Spec], &[Spec]),
) -> Vec<(Opcode, i16, Vec<u8>)> {
    let mut others = Vec::new();
    let mut prepared = 0;
    for (opcode, stream, body) in bench.at_node() {
        if opcode == Opcode::Prepare {
            assert_eq!(std::str::from_utf8(&body[4..4 + text.len()]), Ok(text));
            let answer = bench.prepared(id, TABLE, markers, columns);
            bench.say(Opcode::Result, stream, &answer);
            prepared += 1;
        } else {
            others.push((opcode, stream, body));
        }
    }
    assert_eq!(prepared, 1);
    others
}

fn void() -> Vec<u8> {
    vec![0, 0, 0, 1]
}

const INSERT: &str = "INSERT INTO app.orders (customer, note) VALUES (?, ?)";
const INSERT_STORED: &str =
    "INSERT INTO app.orders (customer, note__encoded, note) VALUES (?, ?, ?)";
const INSERTED: [Spec; 2] = [("customer", BIGINT), ("note", VARCHAR)];

#[test]
fn a_value_that_is_written_is_encoded_and_the_text_deleted() {
    for versions in VERSIONS {
        let mut bench = bench(versions, Written::Encoded);
        bench.prepare(INSERT, b"own", &INSERTED, &[]);
        let asking = Asking {
            values: &[CUSTOMER, DOCUMENT.as_bytes()],
            timestamp: Some(77),
            ..Asking::default()
        };
        let check = |values: Vec<ValueRef<'_>>, timestamp: Option<i64>| {
            let [ValueRef::Set(key), ValueRef::Set(value), ValueRef::Null] = values[..] else {
                panic!("{values:?}");
            };
            assert_eq!((key, &*decoded(value)), (CUSTOMER, DOCUMENT));
            assert!(value.len() < DOCUMENT.len() / 2);
            assert_eq!(timestamp, Some(77));
        };
        // Until the node has prepared what is sent, it is sent as a text.
        bench.ask(Opcode::Execute, 2, &asking.execute(versions.0, b"own"));
        let markers = [
            ("customer", BIGINT),
            ("note__encoded", BLOB),
            ("note", VARCHAR),
        ];
        let others = answer_prepares(&mut bench, (INSERT_STORED, b"stored"), (&markers, &[]));
        let [(Opcode::Query, stream, body)] = &others[..] else {
            panic!("{others:?}");
        };
        let view = QueryView::parse(body, versions.1).expect("a QUERY");
        assert_eq!(view.text, INSERT_STORED);
        let values = view.options.values.iter().map(|(_, value)| value);
        check(values.collect(), view.options.timestamp);
        bench.say(Opcode::Result, *stream, &void());
        assert_eq!(bench.answer(), (Opcode::Result, void()));

        bench.ask(Opcode::Execute, 3, &asking.execute(versions.0, b"own"));
        let (opcode, stream, body) = bench.one_at_node();
        assert_eq!(opcode, Opcode::Execute);
        let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
        assert_eq!(view.id, b"stored");
        let values = view.options.values.iter().map(|(_, value)| value);
        check(values.collect(), view.options.timestamp);
        bench.say(Opcode::Result, stream, &void());
        assert_eq!(bench.answer(), (Opcode::Result, void()));

        // By name, in another order.
        let named = Asking {
            values: &[DOCUMENT.as_bytes(), CUSTOMER],
            names: &["note", "customer"],
            timestamp: Some(77),
            ..Asking::default()
        };
        bench.ask(Opcode::Execute, 4, &named.execute(versions.0, b"own"));
        let (_, stream, body) = bench.one_at_node();
        let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
        let values = view.options.values.iter().map(|(_, value)| value);
        check(values.collect(), view.options.timestamp);
        bench.say(Opcode::Result, stream, &void());
        assert_eq!(bench.answer(), (Opcode::Result, void()));

        let not_text = Asking {
            values: &[CUSTOMER, b"\xff"],
            ..Asking::default()
        };
        bench.ask(Opcode::Execute, 5, &not_text.execute(versions.0, b"own"));
        let (code, message) = bench.error();
        assert_eq!(code, code::INVALID);
        assert!(message.contains("didn't validate"), "{message}");
        bench.is_done();
    }
}

const READ: &str = "SELECT note, day FROM app.orders WHERE customer = ?";
const READ_STORED: &str = "SELECT note, day, note__encoded FROM app.orders WHERE customer = ?";

#[test]
fn a_value_that_is_read_is_the_text_in_whichever_column_it_stands() {
    let columns = [("note", VARCHAR), ("day", BIGINT), ("note__encoded", BLOB)];
    let stored = encoded(DOCUMENT);
    let day = Some(CUSTOMER);
    let of_node = page(
        &columns,
        &[
            &[None, day, Some(&stored)],
            &[Some(b"a text"), day, None],
            // One of them was written past the proxies.
            &[Some(b"other"), None, Some(&stored)],
            &[None, day, None],
        ],
        Some(b"state"),
    );
    let of_client = page(
        &columns[..2],
        &[
            &[Some(DOCUMENT.as_bytes()), day],
            &[Some(b"a text"), day],
            &[Some(b"other"), None],
            &[None, day],
        ],
        Some(b"state"),
    );
    for versions in VERSIONS {
        for written in [Written::Text, Written::Both, Written::Encoded] {
            let mut bench = bench(versions, written);
            bench.prepare(READ, b"own", &[("customer", BIGINT)], &columns[..2]);
            let asking = Asking {
                values: &[CUSTOMER],
                skip_metadata: true,
                page_size: Some(100),
                ..Asking::default()
            };
            bench.ask(Opcode::Execute, 2, &asking.execute(versions.0, b"own"));
            let markers = [("customer", BIGINT)];
            let others =
                answer_prepares(&mut bench, (READ_STORED, b"stored"), (&markers, &columns));
            let [(Opcode::Query, stream, body)] = &others[..] else {
                panic!("{others:?}");
            };
            let view = QueryView::parse(body, versions.1).expect("a QUERY");
            assert_eq!(view.options.flags & query_flags::SKIP_METADATA, 0);
            bench.say(Opcode::Result, *stream, &of_node);
            assert_eq!(bench.answer(), (Opcode::Result, of_client.clone()));

            bench.ask(Opcode::Execute, 3, &asking.execute(versions.0, b"own"));
            let (opcode, stream, body) = bench.one_at_node();
            assert_eq!(opcode, Opcode::Execute);
            let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
            assert_eq!(view.id, b"stored");
            assert_eq!(view.options.flags & query_flags::SKIP_METADATA, 0);
            assert_eq!(view.options.page_size, Some(100));
            bench.say(Opcode::Result, stream, &of_node);
            assert_eq!(bench.answer(), (Opcode::Result, of_client.clone()));
            bench.is_done();
        }
    }
}

const READ_IN_PLACE: &str = "SELECT note__encoded, day FROM app.orders WHERE customer = ?";

#[test]
fn where_no_row_has_a_text_any_more_only_the_encoded_value_is_read() {
    let columns = [("note__encoded", BLOB), ("day", BIGINT)];
    let shown = [("note", VARCHAR), ("day", BIGINT)];
    let (stored, empty) = (encoded(DOCUMENT), [0xff, 0x10]);
    let day = Some(CUSTOMER);
    let of_node = page(
        &columns,
        &[&[Some(&stored), day], &[None, day], &[Some(&empty), None]],
        Some(b"state"),
    );
    let of_client = page(
        &shown,
        &[
            &[Some(DOCUMENT.as_bytes()), day],
            &[None, day],
            &[Some(b""), None],
        ],
        Some(b"state"),
    );
    for versions in VERSIONS {
        let mut bench = bench(versions, Written::EncodedOnly);
        bench.prepare(READ, b"own", &[("customer", BIGINT)], &shown);
        let asking = Asking {
            values: &[CUSTOMER],
            skip_metadata: true,
            page_size: Some(100),
            ..Asking::default()
        };
        bench.ask(Opcode::Execute, 2, &asking.execute(versions.0, b"own"));
        let markers = [("customer", BIGINT)];
        let others = answer_prepares(&mut bench, (READ_IN_PLACE, b"stored"), (&markers, &columns));
        let [(Opcode::Query, stream, _)] = &others[..] else {
            panic!("{others:?}");
        };
        bench.say(Opcode::Result, *stream, &of_node);
        assert_eq!(bench.answer(), (Opcode::Result, of_client.clone()));

        bench.ask(Opcode::Execute, 3, &asking.execute(versions.0, b"own"));
        let (opcode, stream, body) = bench.one_at_node();
        assert_eq!(opcode, Opcode::Execute);
        let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
        assert_eq!(view.id, b"stored");
        bench.say(Opcode::Result, stream, &of_node);
        assert_eq!(bench.answer(), (Opcode::Result, of_client.clone()));

        // A name that the client has given stays; an error has the name that it knows.
        let text = "SELECT note AS x, day FROM app.orders WHERE customer = ?";
        bench.ask(Opcode::Query, 4, &asking.query(versions.0, text));
        let (_, stream, body) = bench.one_at_node();
        let view = QueryView::parse(&body, versions.1).expect("a QUERY");
        let sent = "SELECT note__encoded AS x, day FROM app.orders WHERE customer = ?";
        assert_eq!(view.text, sent);
        let row: &[Option<&[u8]>] = &[Some(&stored), day];
        let named = page(&[("x", BLOB), ("day", BIGINT)], &[row], None);
        bench.say(Opcode::Result, stream, &named);
        let row: &[Option<&[u8]>] = &[Some(DOCUMENT.as_bytes()), day];
        let named = page(&[("x", VARCHAR), ("day", BIGINT)], &[row], None);
        assert_eq!(bench.answer(), (Opcode::Result, named));
        bench.ask(Opcode::Execute, 5, &asking.execute(versions.0, b"own"));
        let (_, stream, _) = bench.one_at_node();
        let damaged = page(&columns, &[&[Some(b"\xff"), day]], None);
        bench.say(Opcode::Result, stream, &damaged);
        let (code, message) = bench.error();
        assert_eq!(code, code::SERVER);
        assert!(message.contains("column note, row 1"), "{message}");
        bench.is_done();
    }
}

#[test]
fn where_no_row_has_a_text_any_more_all_columns_show_none() {
    let columns = [
        ("customer", BIGINT),
        ("note", VARCHAR),
        ("note__encoded", BLOB),
    ];
    let stored = encoded(DOCUMENT);
    let mut bench = bench((Version::V5, Version::V5), Written::EncodedOnly);
    let asking = Asking {
        values: &[CUSTOMER],
        ..Asking::default()
    };
    let text = "SELECT * FROM app.orders WHERE customer = ?";
    bench.ask(Opcode::Query, 2, &asking.query(Version::V5, text));
    let (_, stream, _) = bench.one_at_node();
    // Two of them were written past the proxies.
    let of_node = page(
        &columns,
        &[
            &[Some(CUSTOMER), None, Some(&stored)],
            &[Some(CUSTOMER), Some(b"past"), Some(&stored)],
            &[Some(CUSTOMER), Some(b"past"), None],
        ],
        None,
    );
    bench.say(Opcode::Result, stream, &of_node);
    let of_client = page(
        &columns[..2],
        &[
            &[Some(CUSTOMER), Some(DOCUMENT.as_bytes())],
            &[Some(CUSTOMER), Some(DOCUMENT.as_bytes())],
            &[Some(CUSTOMER), None],
        ],
        None,
    );
    assert_eq!(bench.answer(), (Opcode::Result, of_client));
    bench.is_done();
}

#[test]
fn all_columns_are_those_that_clients_know() {
    let columns = [
        ("customer", BIGINT),
        ("note", VARCHAR),
        ("note__encoded", BLOB),
    ];
    let stored = encoded(DOCUMENT);
    for versions in VERSIONS {
        let mut bench = bench(versions, Written::Encoded);
        let mut body = Vec::new();
        let text = "SELECT * FROM app.orders WHERE customer = ?";
        write::long_string(&mut body, text);
        if versions.0 == Version::V5 {
            write::u32(&mut body, 0);
        }
        bench.ask(Opcode::Prepare, 1, &body);
        let (_, stream, _) = bench.one_at_node();
        let answer = bench.prepared(b"own", TABLE, &[("customer", BIGINT)], &columns);
        bench.say(Opcode::Result, stream, &answer);
        let (_, body) = bench.answer();
        let view = helenus_wire::PreparedView::parse(&body, versions.0).expect("PREPARED");
        let names: Vec<_> = view.result_columns.iter().map(|c| c.name).collect();
        assert_eq!(names, ["customer", "note"]);

        let asking = Asking {
            values: &[CUSTOMER],
            skip_metadata: true,
            ..Asking::default()
        };
        bench.ask(Opcode::Execute, 2, &asking.execute(versions.0, b"own"));
        let (opcode, stream, body) = bench.one_at_node();
        assert_eq!(opcode, Opcode::Execute);
        let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
        assert_eq!(view.id, b"own");
        assert_eq!(view.options.flags & query_flags::SKIP_METADATA, 0);
        let of_node = page(&columns, &[&[Some(CUSTOMER), None, Some(&stored)]], None);
        bench.say(Opcode::Result, stream, &of_node);
        let row: &[Option<&[u8]>] = &[Some(CUSTOMER), Some(DOCUMENT.as_bytes())];
        let of_client = page(&columns[..2], &[row], None);
        assert_eq!(bench.answer(), (Opcode::Result, of_client));
        bench.is_done();
    }
}

#[test]
fn a_value_that_cannot_be_read_is_an_error_that_names_the_table() {
    let columns = [("note", VARCHAR), ("day", BIGINT), ("note__encoded", BLOB)];
    let unknown: &[u8] = &[0xff, 0x15, 9, 1, 2, 3];
    let damaged: &[u8] = &[0xff, 0x15, 3, 0xee, 0xee, 0xee, 0xee];
    for stored in [unknown, damaged, b"\xff", b"\xfe\xfe"] {
        let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
        let asking = Asking {
            values: &[CUSTOMER],
            ..Asking::default()
        };
        bench.ask(Opcode::Query, 2, &asking.query(Version::V5, READ));
        let (_, stream, _) = bench.one_at_node();
        let of_node = page(&columns, &[&[None, None, Some(stored)]], None);
        bench.say(Opcode::Result, stream, &of_node);
        let (code, message) = bench.error();
        assert_eq!(code, code::SERVER);
        assert!(message.contains("app.orders"), "{message}");
        bench.is_done();
    }
    // A node that answers something else than was asked for.
    let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
    let asking = Asking {
        values: &[CUSTOMER],
        ..Asking::default()
    };
    bench.ask(Opcode::Query, 2, &asking.query(Version::V5, READ));
    let (_, stream, _) = bench.one_at_node();
    bench.say(
        Opcode::Result,
        stream,
        &[0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    assert_eq!(bench.error().0, code::SERVER);
    bench.is_done();
}

#[test]
fn a_batch_is_encoded_child_by_child() {
    for versions in VERSIONS {
        let mut bench = bench(versions, Written::Encoded);
        bench.prepare(INSERT, b"own", &INSERTED, &[]);
        let mut body = vec![1];
        write::u16(&mut body, 3);
        body.push(1);
        write::short_bytes(&mut body, b"own");
        write::u16(&mut body, 2);
        write::bytes(&mut body, Some(CUSTOMER));
        write::bytes(&mut body, Some(DOCUMENT.as_bytes()));
        body.push(0);
        let other = "UPDATE app.others SET note = ? WHERE customer = 1";
        write::long_string(&mut body, other);
        write::u16(&mut body, 1);
        write::bytes(&mut body, Some(b"stays"));
        body.push(0);
        write::long_string(&mut body, "DELETE note FROM app.orders WHERE customer = 1");
        write::u16(&mut body, 0);
        write::u16(&mut body, 6);
        match versions.0 {
            Version::V5 => write::u32(&mut body, 0),
            _ => body.push(0),
        }
        bench.ask(Opcode::Batch, 2, &body);
        let markers = [
            ("customer", BIGINT),
            ("note__encoded", BLOB),
            ("note", VARCHAR),
        ];
        let others = answer_prepares(&mut bench, (INSERT_STORED, b"stored"), (&markers, &[]));
        let [(Opcode::Batch, stream, body)] = &others[..] else {
            panic!("{others:?}");
        };
        let view = BatchView::parse(body, versions.1).expect("a BATCH");
        let children: Vec<(String, Vec<ValueRef<'_>>)> = view
            .children
            .iter()
            .map(|child| match child {
                BatchChild::Text(text, values) => {
                    ((*text).to_owned(), values.iter().map(|(_, v)| v).collect())
                }
                BatchChild::Prepared(id, _) => panic!("{id:?}"),
            })
            .collect();
        assert_eq!(children[0].0, INSERT_STORED);
        let [_, ValueRef::Set(value), ValueRef::Null] = children[0].1[..] else {
            panic!("{children:?}");
        };
        assert_eq!(decoded(value), DOCUMENT);
        assert_eq!(
            children[1],
            (other.to_owned(), vec![ValueRef::Set(&b"stays"[..])])
        );
        assert_eq!(
            children[2].0,
            "DELETE note, note__encoded FROM app.orders WHERE customer = 1"
        );
        bench.say(Opcode::Result, *stream, &void());
        assert_eq!(bench.answer(), (Opcode::Result, void()));
        bench.is_done();
    }
}

#[test]
fn an_error_names_the_columns_of_all_tables_of_a_batch_as_clients_know_them() {
    let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
    let mut both = encodings(Written::Encoded);
    let tables = both.tables.get_mut("app").expect("the keyspace");
    let first = &tables[TABLE];
    let second = EncodedTable {
        keyspace: "app".to_owned(),
        name: "others".to_owned(),
        columns: vec![EncodedColumn {
            name: "page".to_owned(),
            hidden: "page__encoded".to_owned(),
            ..first.columns[0].clone()
        }],
        dictionaries: first.dictionaries.clone(),
    };
    tables.insert("others".to_owned(), Arc::new(second));
    bench.adopt_encodings(both);
    let texts = [
        "INSERT INTO app.orders (customer, note) VALUES (1, 'a')",
        "INSERT INTO app.others (customer, page) VALUES (1, 'b')",
    ];
    let mut batch = vec![1];
    write::u16(&mut batch, 2);
    for text in texts {
        batch.push(0);
        write::long_string(&mut batch, text);
        write::u16(&mut batch, 0);
    }
    write::u16(&mut batch, 6);
    write::u32(&mut batch, 0);
    let text = format!("BEGIN BATCH {}; {} APPLY BATCH", texts[0], texts[1]);
    let text = Asking::default().query(Version::V5, &text);
    for (opcode, body) in [(Opcode::Batch, batch), (Opcode::Query, text)] {
        bench.ask(opcode, 2, &body);
        let (_, stream, _) = bench.one_at_node();
        let told = "page__encoded and note__encoded are too large";
        bench.say_error(stream, code::INVALID, told, &[]);
        let (_, message) = bench.error();
        assert_eq!(message, "page and note are too large");
        bench.is_done();
    }
}

#[test]
fn without_a_lease_nothing_is_read_or_written() {
    let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
    bench.prepare(INSERT, b"own", &INSERTED, &[]);
    bench.wait(LEASE + Duration::from_millis(100));
    let asking = Asking {
        values: &[CUSTOMER],
        ..Asking::default()
    };
    for text in [READ, "SELECT * FROM app.others WHERE customer = ?"] {
        bench.ask(Opcode::Query, 2, &asking.query(Version::V5, text));
        let (code, message) = bench.error();
        assert_eq!(code, code::OVERLOADED);
        assert!(
            message.contains("catalogue of encoded columns"),
            "{message}"
        );
    }
    let write = Asking {
        values: &[CUSTOMER, b"x"],
        ..Asking::default()
    };
    bench.ask(Opcode::Execute, 2, &write.execute(Version::V5, b"own"));
    assert_eq!(bench.error().0, code::OVERLOADED);
    // What Cassandra tells of itself is not encoded.
    let local = "SELECT * FROM system_auth.roles";
    bench.ask(
        Opcode::Query,
        2,
        &Asking::default().query(Version::V5, local),
    );
    assert_eq!(bench.one_at_node().0, Opcode::Query);
}

#[test]
fn an_unknown_statement_is_prepared_again_and_what_cannot_be_done_is_refused() {
    let mut bench = bench((Version::V4, Version::V4), Written::Encoded);
    let asking = Asking {
        values: &[CUSTOMER],
        ..Asking::default()
    };
    bench.ask(Opcode::Execute, 2, &asking.execute(Version::V4, b"unknown"));
    assert_eq!(bench.error().0, code::UNPREPARED);
    for text in [
        "SELECT count(note) FROM app.orders",
        "ALTER TABLE app.orders DROP note",
        "ALTER TABLE app.orders RENAME note__encoded TO x",
        "CREATE INDEX ON app.orders (note)",
        "CREATE MATERIALIZED VIEW app.v AS SELECT * FROM app.orders WHERE note IS NOT NULL PRIMARY KEY (note)",
        "INSERT INTO app.orders JSON '{'",
        "DROP TABLE app.orders",
        "DROP KEYSPACE IF EXISTS app",
    ] {
        bench.ask(
            Opcode::Query,
            2,
            &Asking::default().query(Version::V4, text),
        );
        let (code, message) = bench.error();
        assert_eq!(code, code::INVALID, "{text}: {message}");
        assert!(message.contains("app.orders"), "{text}: {message}");
    }
    bench.is_done();
    for text in [
        "TRUNCATE helenus.encodings",
        "DROP TABLE helenus.dictionaries",
        "DELETE FROM helenus.encodings WHERE keyspace_name = 'app' AND table_name = 'orders'",
        "BEGIN BATCH DELETE FROM app.o WHERE k = 1; DELETE FROM helenus.encodings WHERE keyspace_name = 'app' AND \
         table_name = 'orders' APPLY BATCH",
    ] {
        bench.ask(
            Opcode::Query,
            2,
            &Asking::default().query(Version::V4, text),
        );
        let (code, message) = bench.error();
        assert_eq!(code, code::INVALID, "{text}: {message}");
        assert!(message.contains("helenus payload"), "{text}: {message}");
    }
    for text in ["ALTER TABLE app.orders ADD more int", "DROP KEYSPACE other"] {
        bench.ask(
            Opcode::Query,
            2,
            &Asking::default().query(Version::V4, text),
        );
        let (opcode, stream, _) = bench.one_at_node();
        assert_eq!(opcode, Opcode::Query, "{text}");
        bench.say_error(stream, code::SERVER, "no", &[]);
        assert_eq!(bench.error().0, code::SERVER);
    }
}

#[test]
fn clients_see_no_column_of_encoded_values_in_the_schema() {
    let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
    let columns = [
        ("keyspace_name", VARCHAR),
        ("table_name", VARCHAR),
        ("column_name", VARCHAR),
    ];
    let row = |column: &'static [u8]| [Some(&b"app"[..]), Some(TABLE.as_bytes()), Some(column)];
    let (customer, note, hidden) = (row(b"customer"), row(b"note"), row(b"note__encoded"));
    let text = "SELECT * FROM system_schema.columns";
    bench.ask(
        Opcode::Query,
        2,
        &Asking::default().query(Version::V5, text),
    );
    let (_, stream, _) = bench.one_at_node();
    let of_node = page(&columns, &[&customer, &note, &hidden], None);
    bench.say(Opcode::Result, stream, &of_node);
    let of_client = page(&columns, &[&customer, &note], None);
    let (_, body) = bench.answer();
    let shown = RowsView::parse(&body).expect("rows");
    let expected = RowsView::parse(&of_client).expect("rows");
    let rows = |view: &RowsView<'_>| {
        let rows = view.rows().map(|row| row.expect("a row").concat_cells());
        rows.collect::<Vec<_>>()
    };
    assert_eq!(rows(&shown), rows(&expected));

    // Where nothing in a row tells its table, the statement does, or the column may be of any.
    let only_column = [("column_name", VARCHAR)];
    let (note, hidden) = ([Some(&b"note"[..])], [Some(&b"note__encoded"[..])]);
    for (which, is_hidden) in [
        ("WHERE keyspace_name = 'app'", true),
        (
            "WHERE keyspace_name = 'app' AND table_name = 'orders'",
            true,
        ),
        (
            "WHERE keyspace_name = 'app' AND table_name = 'other'",
            false,
        ),
        ("WHERE keyspace_name = 'other'", false),
        ("", true),
    ] {
        let text = format!("SELECT column_name FROM system_schema.columns {which}");
        let asked = Asking::default().query(Version::V5, &text);
        bench.ask(Opcode::Query, 2, &asked);
        let (_, stream, _) = bench.one_at_node();
        bench.say(
            Opcode::Result,
            stream,
            &page(&only_column, &[&note, &hidden], None),
        );
        let (_, body) = bench.answer();
        let shown = RowsView::parse(&body).expect("rows");
        assert_eq!(shown.row_count, if is_hidden { 1 } else { 2 }, "{which}");
    }

    let columns = [
        ("keyspace_name", VARCHAR),
        ("type", VARCHAR),
        ("name", VARCHAR),
        ("create_statement", VARCHAR),
    ];
    for (definition, expected) in [
        (
            "CREATE TABLE app.orders (\n    customer bigint PRIMARY KEY,\n    note text,\n    note__encoded blob\n) WITH x",
            "CREATE TABLE app.orders (\n    customer bigint PRIMARY KEY,\n    note text\n) WITH x",
        ),
        (
            "CREATE TABLE app.orders (\n    customer bigint,\n    note__encoded blob,\n    z text,\n    PRIMARY KEY (customer)\n) WITH x",
            "CREATE TABLE app.orders (\n    customer bigint,\n    z text,\n    PRIMARY KEY (customer)\n) WITH x",
        ),
    ] {
        let query = Asking::default().query(Version::V5, "DESCRIBE TABLE app.orders");
        bench.ask(Opcode::Query, 2, &query);
        let (_, stream, _) = bench.one_at_node();
        let row = [
            Some(&b"app"[..]),
            Some(&b"table"[..]),
            Some(TABLE.as_bytes()),
            Some(definition.as_bytes()),
        ];
        bench.say(Opcode::Result, stream, &page(&columns, &[&row], None));
        let (_, body) = bench.answer();
        let shown = RowsView::parse(&body).expect("rows");
        let cells = shown.rows().next().expect("a row").expect("cells");
        assert_eq!(
            cells[3].map(String::from_utf8_lossy).as_deref(),
            Some(expected)
        );
    }
}

trait ConcatCells {
    fn concat_cells(&self) -> Vec<u8>;
}

impl ConcatCells for Vec<Option<&[u8]>> {
    fn concat_cells(&self) -> Vec<u8> {
        let cells = self.iter().map(|cell| cell.unwrap_or(b"null"));
        cells.collect::<Vec<_>>().join(&b'|')
    }
}
