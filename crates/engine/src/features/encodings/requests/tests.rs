//! Requests about a table with an encoded column, through a whole engine, with a client and a node that say
//! what the test has them say.

use helenus_catalogue::{Form, LEASE, Written};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helenus_payload::{Codec, Decoder, DictionaryId, Encoder, learn};
use helenus_wire::{
    BatchChild, BatchView, ExecuteView, Opcode, QueryView, RowsView, ValueRef, Version, code,
    query_flags, write,
};

use crate::config::Config;
use crate::features::encodings::{EncodedColumn, EncodedTable, Encodings};
use crate::testing::batch_of;
use crate::testing::bench::{Asking, BIGINT, Bench, Spec, TABLE, VARCHAR};

mod reads;
mod schema;
mod writes;

const BLOB: u16 = 3;
const VERSIONS: [(Version, Version); 4] = [
    (Version::V3, Version::V5),
    (Version::V4, Version::V4),
    (Version::V4, Version::V5),
    (Version::V5, Version::V5),
];
const CUSTOMER: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 7];
const DOCUMENT: &str = r#"{"name":"Ada","visits":[1,2,3],"city":"London"}"#;
const INSERT: &str = "INSERT INTO app.orders (customer, note) VALUES (?, ?)";
const INSERT_STORED: &str =
    "INSERT INTO app.orders (customer, note__encoded, note) VALUES (?, ?, ?)";
const INSERTED: [Spec; 2] = [("customer", BIGINT), ("note", VARCHAR)];
const READ: &str = "SELECT note, day FROM app.orders WHERE customer = ?";
const READ_STORED: &str = "SELECT note, day, note__encoded FROM app.orders WHERE customer = ?";
const READ_IN_PLACE: &str = "SELECT note__encoded, day FROM app.orders WHERE customer = ?";
const DICTIONARY: DictionaryId = DictionaryId(3);

fn encodings(written: Written) -> Encodings {
    encodings_from(Form::Text, written)
}

/// On the way from that form.
fn encodings_from(first: Form, written: Written) -> Encodings {
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
            first,
            codec: Codec::Shape,
            dictionary: Some(DICTIONARY),
        }],
        dictionaries: BTreeMap::from([(DICTIONARY, learned)]),
    };
    let mut encodings = Encodings::default();
    encodings.add(Arc::new(table));
    encodings
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
    text: &str,
    id: &[u8],
    markers: &[Spec],
    columns: &[Spec],
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

#[test]
fn without_a_lease_nothing_is_read_or_written() {
    let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
    bench.prepare(INSERT, b"own", &INSERTED, &[]);
    bench.wait(LEASE + Duration::from_millis(100));
    let asking = Asking {
        values: &[CUSTOMER],
        ..Asking::default()
    };
    let others = "SELECT * FROM app.others WHERE customer = ?";
    for (text, why) in [
        (READ, "the catalogue could not be read for 10 s"),
        (others, "no node has told for 10 s"),
    ] {
        bench.ask(Opcode::Query, 2, &asking.query(Version::V5, text));
        let (code, message) = bench.error();
        assert_eq!(code, code::OVERLOADED);
        assert!(message.contains(why), "{message}");
    }
    let write = Asking {
        values: &[CUSTOMER, b"x"],
        ..Asking::default()
    };
    bench.ask(Opcode::Execute, 2, &write.execute(Version::V5, b"own"));
    assert_eq!(bench.error().0, code::OVERLOADED);
    // Cassandra's own tables are not encoded.
    let local = "SELECT * FROM system_auth.roles";
    bench.ask(
        Opcode::Query,
        2,
        &Asking::default().query(Version::V5, local),
    );
    assert_eq!(bench.one_at_node().0, Opcode::Query);
}

#[test]
fn tables_without_encoded_columns_are_read_and_written_while_the_catalogue_cannot_be_read() {
    let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
    bench.wait(LEASE);
    bench.renew_flags();
    for text in [
        "SELECT * FROM app.others WHERE customer = 1",
        "INSERT INTO app.others (customer) VALUES (1)",
        "BEGIN BATCH INSERT INTO app.others (customer) VALUES (1) APPLY BATCH",
    ] {
        let body = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 2, &body);
        assert_eq!(bench.at_node().len(), 1, "{text}");
    }
    for text in [
        "SELECT * FROM app.orders WHERE customer = 1",
        "INSERT INTO app.orders (customer) VALUES (1)",
        "BEGIN BATCH INSERT INTO app.others (customer) VALUES (1); DELETE FROM app.orders WHERE customer = 1 APPLY \
         BATCH",
    ] {
        let body = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 3, &body);
        let (code, why) = bench.error();
        assert!(
            code == code::OVERLOADED && why.contains("the catalogue could not be read for 10 s"),
            "{text}: {why}"
        );
    }
}

#[test]
fn a_table_is_known_by_the_keyspace_that_a_request_names_beside_its_text() {
    let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
    bench.wait(LEASE);
    bench.renew_flags();
    let body = |text: &str| {
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        write::u16(&mut body, 6);
        write::u32(&mut body, query_flags::KEYSPACE);
        write::string(&mut body, "app");
        body
    };
    let others = body("SELECT * FROM others WHERE customer = 1");
    bench.ask(Opcode::Query, 2, &others);
    assert_eq!(bench.at_node().len(), 1);
    bench.ask(
        Opcode::Query,
        3,
        &body("SELECT * FROM orders WHERE customer = 1"),
    );
    assert_eq!(bench.error().0, code::OVERLOADED);
}

#[test]
fn a_batch_with_an_unknown_statement_is_prepared_again_while_the_catalogue_cannot_be_read() {
    let mut bench = bench((Version::V4, Version::V4), Written::Encoded);
    bench.wait(LEASE);
    bench.renew_flags();
    let body = batch_of(Version::V4, 0, &[Err(b"strange")]);
    bench.ask(Opcode::Batch, 2, &body);
    let (code, why) = bench.error();
    assert_eq!(code, code::UNPREPARED, "{why}");
}

#[test]
fn flags_are_not_changed_by_clients() {
    let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
    for opcode in [Opcode::Prepare, Opcode::Query] {
        let mut body = Vec::new();
        write::long_string(&mut body, "DROP TYPE \"encodings app.orders 1\"");
        match opcode {
            Opcode::Prepare => write::u32(&mut body, 1),
            _ => {
                write::u16(&mut body, 6);
                write::u32(&mut body, query_flags::KEYSPACE);
            }
        }
        write::string(&mut body, "helenus");
        bench.ask(opcode, 2, &body);
        assert_eq!(bench.error().0, code::INVALID, "{opcode:?}");
        bench.is_done();
    }
}

#[test]
fn a_table_whose_encoded_columns_are_lost_is_neither_read_nor_written() {
    let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
    let mut encodings = encodings(Written::Encoded);
    encodings.flagged.add_lost("app", "others");
    bench.adopt_encodings(encodings);
    for text in [
        "SELECT * FROM app.others WHERE customer = 1",
        "INSERT INTO app.others (customer) VALUES (1)",
    ] {
        let body = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 3, &body);
        let (code, why) = bench.error();
        assert!(
            code == code::OVERLOADED && why.contains("has lost"),
            "{why}"
        );
    }
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
        "DROP COLUMNFAMILY app.orders",
        "DROP SCHEMA app",
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
    for text in [
        "ALTER TABLE app.orders ADD more int",
        "CREATE COLUMNFAMILY IF NOT EXISTS app.orders (customer bigint PRIMARY KEY, note text)",
        "DROP KEYSPACE other",
        // A keyspace with another name than the table's.
        "DROP SCHEMA orders",
    ] {
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
fn a_table_is_not_emptied_while_its_values_may_be_moved() {
    const TRUNCATE: &str = "TRUNCATE app.orders";
    let mut bench = bench((Version::V5, Version::V5), Written::EncodedOnly);
    for written in Written::ALL {
        bench.adopt_encodings(encodings(written));
        for text in [TRUNCATE, "TRUNCATE COLUMNFAMILY app.orders"] {
            bench.ask(
                Opcode::Query,
                2,
                &Asking::default().query(Version::V5, text),
            );
            if written == Written::EncodedOnly {
                let (opcode, stream, _) = bench.one_at_node();
                assert_eq!(opcode, Opcode::Query);
                bench.say(Opcode::Result, stream, &[0, 0, 0, 1]);
                bench.answer();
                continue;
            }
            let (code, message) = bench.error();
            assert_eq!(code, code::INVALID, "{written:?}: {message}");
            assert!(message.contains("payload status app.orders"), "{message}");
        }
    }
    // Also one that was prepared.
    bench.adopt_encodings(encodings(Written::EncodedOnly));
    bench.prepare(TRUNCATE, b"own", &[], &[]);
    bench.adopt_encodings(encodings(Written::Encoded));
    let asked = Asking::default().execute(Version::V5, b"own");
    bench.ask(Opcode::Execute, 2, &asked);
    assert_eq!(bench.error().0, code::INVALID);
    bench.is_done();
}
