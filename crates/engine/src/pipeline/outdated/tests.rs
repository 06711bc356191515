use helenus_wire::{
    BatchChild, BatchView, ErrorBody, ExecuteView, Opcode, Reader, Version, code, query_flags,
    write,
};

use crate::config::Config;
use crate::keys::SessionKey;
use crate::testing::bench::{Asking, BIGINT, Bench, Spec, VARCHAR};
use crate::testing::{batch_of, envelopes, take};

const INSERT: &str = "INSERT INTO app.others (customer, total) VALUES (?, ?)";
const READ: &str = "SELECT total FROM app.others WHERE customer = ?";
const ID: &[u8] = &[7; 16];
const VOID: [u8; 4] = 1_i32.to_be_bytes();
const VERSIONS: [Version; 2] = [Version::V4, Version::V5];

/// The types of a column, as they are sent.
const DOUBLE: &[u8] = &[0, 7];
const LONG: &[u8] = &[0, 2];
const TEXT: &[u8] = &[0, 0xd];
const INT: &[u8] = &[0, 9];
const BLOB: &[u8] = &[0, 3];
const LIST: &[u8] = &[0, 0x20, 0, 9];
const SET: &[u8] = &[0, 0x22, 0, 9];

/// `app.person`, with these fields of type text.
fn person(fields: &[&str]) -> Vec<u8> {
    let mut raw = vec![0, 0x30];
    write::string(&mut raw, "app");
    write::string(&mut raw, "person");
    write::u16(&mut raw, fields.len() as u16);
    for field in fields {
        write::string(&mut raw, field);
        raw.extend(TEXT);
    }
    raw
}

/// A node's description of a statement on `app.others`: the positions of the key, and names and types of markers
/// and of the result's columns.
#[derive(Clone, Copy)]
struct Described<'a> {
    key: &'a [u16],
    markers: &'a [(&'a str, &'a [u8])],
    columns: &'a [(&'a str, &'a [u8])],
}

impl Described<'_> {
    fn body(&self, version: Version) -> Vec<u8> {
        let specs = |body: &mut Vec<u8>, specs: &[(&str, &[u8])]| {
            write::string(body, "app");
            write::string(body, "others");
            for (name, raw) in specs {
                write::string(body, name);
                body.extend_from_slice(raw);
            }
        };
        let mut body = Vec::new();
        write::i32(&mut body, 4);
        write::short_bytes(&mut body, ID);
        if version == Version::V5 {
            write::short_bytes(&mut body, b"metadata");
        }
        write::u32(&mut body, 1);
        write::u32(&mut body, self.markers.len() as u32);
        write::u32(&mut body, self.key.len() as u32);
        self.key.iter().for_each(|at| write::u16(&mut body, *at));
        specs(&mut body, self.markers);
        write::u32(&mut body, if self.columns.is_empty() { 4 } else { 1 });
        write::u32(&mut body, self.columns.len() as u32);
        if !self.columns.is_empty() {
            specs(&mut body, self.columns);
        }
        body
    }
}

const WRITE: Described<'static> = Described {
    key: &[0],
    markers: &[("customer", LONG), ("total", LONG)],
    columns: &[],
};

/// A client of a proxy whose nodes speak its version.
fn bench(version: Version) -> Bench {
    Bench::with(Config::default(), (version, version))
}

/// A client prepares, and a node describes it so.
fn prepare(bench: &mut Bench, client: SessionKey, text: &str, described: &Described<'_>) {
    let version = bench.versions.0;
    let mut body = Vec::new();
    write::long_string(&mut body, text);
    if version == Version::V5 {
        write::u32(&mut body, 0);
    }
    bench.ask_as(client, Opcode::Prepare, 1, &body);
    let (opcode, stream, _) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Prepare);
    bench.say(Opcode::Result, stream, &described.body(bench.versions.1));
    let (opcode, body) = answer_of(bench, client);
    assert_eq!(opcode, Opcode::Result);
    assert_eq!(body, described.body(bench.versions.1));
}

fn execute(bench: &mut Bench, client: SessionKey, values: &[&[u8]]) {
    let asking = Asking {
        values,
        skip_metadata: true,
        ..Asking::default()
    };
    let version = bench.versions.0;
    bench.ask_as(client, Opcode::Execute, 2, &asking.execute(version, ID));
}

fn answer_of(bench: &mut Bench, client: SessionKey) -> (Opcode, Vec<u8>) {
    let outbox = bench.engine.client_bytes(client).expect("it is there");
    let (bytes, sent) = take(outbox);
    bench.engine.on_client_sent(bench.now, client, sent);
    let mut answers = envelopes(bench.versions.0 == Version::V5, &bytes);
    assert_eq!(answers.len(), 1, "{answers:?}");
    let (opcode, _, body) = answers.remove(0);
    (opcode, body)
}

/// The client is told that nobody knows the statement.
fn is_unprepared(bench: &mut Bench, client: SessionKey) {
    let (opcode, body) = answer_of(bench, client);
    let error = ErrorBody::parse(&body).expect("an error");
    assert_eq!((opcode, error.code), (Opcode::Error, code::UNPREPARED));
    assert_eq!(Reader::new(error.fields).short_bytes(), Ok(ID));
}

/// The node says that it has forgotten the statement, and describes it so when it is asked.
fn forget(bench: &mut Bench, stream: i16, described: &Described<'_>) {
    let mut fields = Vec::new();
    write::short_bytes(&mut fields, ID);
    bench.say_error(stream, code::UNPREPARED, "forgotten", &fields);
    teach(bench, described);
}

/// The node is asked to prepare, and describes the statement so.
fn teach(bench: &mut Bench, described: &Described<'_>) {
    let (opcode, stream, _) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Prepare);
    bench.say(Opcode::Result, stream, &described.body(bench.versions.1));
}

/// The node gets the client's EXECUTE, and carries it out.
fn is_executed(bench: &mut Bench, client: SessionKey) {
    let (opcode, stream, _) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Execute);
    bench.say(Opcode::Result, stream, &VOID);
    assert_eq!(answer_of(bench, client).0, Opcode::Result);
}

#[test]
fn whoever_has_learned_something_else_must_prepare_again_before_a_node_gets_its_values() {
    let (young, old) = (person(&["name", "city"]), person(&["name"]));
    let of_total = |raw| [("customer", LONG), ("total", raw)];
    let of_key = |raw| [("customer", raw), ("total", LONG)];
    let changes = [
        (of_total(LONG), of_total(DOUBLE)),
        (of_total(INT), of_total(TEXT)),
        (of_total(INT), of_total(BLOB)),
        (of_total(LIST), of_total(SET)),
        (of_total(&old), of_total(&young)),
        (of_key(INT), of_key(TEXT)),
        (of_total(LONG), [("customer", LONG), ("sum", LONG)]),
    ];
    let changes = changes
        .iter()
        .map(|(before, after)| (before, after, &[0][..]));
    let types = of_total(LONG);
    let changes = changes.chain([(&types, &types, &[1][..]), (&types, &types, &[0, 1])]);
    for version in VERSIONS {
        for (before, after, key) in changes.clone() {
            let (before, after) = (
                Described {
                    markers: before,
                    ..WRITE
                },
                Described {
                    markers: after,
                    key,
                    ..WRITE
                },
            );
            let mut bench = bench(version);
            let client = bench.client;
            prepare(&mut bench, client, INSERT, &before);
            // Several at once, by the old types.
            for _ in 0..2 {
                execute(&mut bench, client, &[&[1; 8], &[2; 8]]);
            }
            let asked = bench.at_node();
            for (opcode, stream, _) in asked {
                assert_eq!(opcode, Opcode::Execute);
                let mut fields = Vec::new();
                write::short_bytes(&mut fields, ID);
                bench.say_error(stream, code::UNPREPARED, "forgotten", &fields);
            }
            teach(&mut bench, &after);
            let answers = bench.answers();
            assert!(answers.len() == 2 && answers.iter().all(|of| of.0 == Opcode::Error));
            assert_eq!(bench.at_node(), []);
            // The node knows it by now, and the client still does not.
            execute(&mut bench, client, &[&[1; 8], &[2; 8]]);
            is_unprepared(&mut bench, client);
            let other = bench.another("other");
            bench.engine.client_bytes(other).map(take);
            execute(&mut bench, other, &[&[1; 8], &[2; 8]]);
            is_unprepared(&mut bench, other);
            prepare(&mut bench, client, INSERT, &after);
            execute(&mut bench, client, &[&[1; 8], &[2; 8]]);
            is_executed(&mut bench, client);
            bench.is_done();
        }
    }
}

#[test]
fn what_is_described_as_before_is_prepared_again_unnoticed() {
    for version in VERSIONS {
        let mut bench = bench(version);
        let client = bench.client;
        prepare(&mut bench, client, INSERT, &WRITE);
        execute(&mut bench, client, &[&[1; 8], &[2; 8]]);
        let (_, stream, _) = bench.one_at_node();
        forget(&mut bench, stream, &WRITE);
        is_executed(&mut bench, client);
        bench.is_done();
    }
}

const CHANGED: Described<'static> = Described {
    markers: &[("customer", LONG), ("total", DOUBLE)],
    ..WRITE
};

#[test]
fn a_client_that_was_told_before_another_was_told_otherwise_must_prepare_again() {
    for version in VERSIONS {
        let mut bench = bench(version);
        let (first, second) = (bench.client, bench.another("second"));
        bench.engine.client_bytes(second).map(take);
        prepare(&mut bench, first, INSERT, &WRITE);
        prepare(&mut bench, second, INSERT, &CHANGED);
        execute(&mut bench, second, &[&[1; 8], &[2; 8]]);
        is_executed(&mut bench, second);
        execute(&mut bench, first, &[&[1; 8], &[2; 8]]);
        is_unprepared(&mut bench, first);
        let batch = batch_of(version, 0, &[Err(ID)]);
        bench.ask_as(first, Opcode::Batch, 3, &batch);
        is_unprepared(&mut bench, first);
        prepare(&mut bench, first, INSERT, &CHANGED);
        for client in [first, second] {
            execute(&mut bench, client, &[&[1; 8], &[2; 8]]);
            is_executed(&mut bench, client);
        }
        bench.is_done();
    }
}

/// As when a table is made again through another proxy, whose clients have prepared it on all nodes.
#[test]
fn after_a_schema_change_a_node_describes_a_statement_again_before_it_gets_values() {
    for version in VERSIONS {
        let mut bench = bench(version);
        let client = bench.client;
        prepare(&mut bench, client, INSERT, &WRITE);
        bench.common.doubt_prepared(Some("elsewhere"));
        execute(&mut bench, client, &[&[1; 8], &[2; 8]]);
        is_executed(&mut bench, client);
        bench.common.doubt_prepared(Some("app"));
        execute(&mut bench, client, &[&[1; 8], &[2; 8]]);
        teach(&mut bench, &WRITE);
        is_executed(&mut bench, client);
        execute(&mut bench, client, &[&[1; 8], &[2; 8]]);
        is_executed(&mut bench, client);
        let batch = batch_of(version, 0, &[Err(ID)]);
        bench.common.doubt_prepared(None);
        bench.ask_as(client, Opcode::Batch, 3, &batch);
        teach(&mut bench, &WRITE);
        let (opcode, stream, _) = bench.one_at_node();
        assert_eq!(opcode, Opcode::Batch);
        bench.say(Opcode::Result, stream, &VOID);
        assert_eq!(answer_of(&mut bench, client).0, Opcode::Result);
        bench.common.doubt_prepared(Some("app"));
        bench.ask_as(client, Opcode::Batch, 3, &batch);
        teach(&mut bench, &CHANGED);
        is_unprepared(&mut bench, client);
        execute(&mut bench, client, &[&[1; 8], &[2; 8]]);
        is_unprepared(&mut bench, client);
        bench.is_done();
    }
}

/// Its writes may have met in one batch, or wait for the node.
#[test]
fn a_write_that_waits_while_its_statement_changes_is_not_sent() {
    let mut config = Config::default();
    config.aggregation.merge_writes = vec!["app.others".to_owned()];
    let mut bench = Bench::with(config, (Version::V5, Version::V5));
    let client = bench.client;
    prepare(&mut bench, client, INSERT, &WRITE);
    bench.common.doubt_prepared(Some("app"));
    for customer in 1..=5 {
        execute(&mut bench, client, &[&[customer; 8], &[2; 8]]);
    }
    teach(&mut bench, &CHANGED);
    let answers = bench.answers();
    assert_eq!(answers.len(), 5);
    for (_, _, body) in answers {
        let error = ErrorBody::parse(&body).expect("an error");
        assert_eq!(error.code, code::UNPREPARED);
    }
    bench.is_done();
}

fn skips_metadata(bench: &mut Bench) -> bool {
    let (opcode, stream, body) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Execute);
    bench.say(Opcode::Result, stream, &VOID);
    let view = ExecuteView::parse(&body, bench.versions.1).expect("an EXECUTE");
    assert_eq!(view.options.values.count, 1);
    view.options.flags & query_flags::SKIP_METADATA != 0
}

#[test]
fn who_may_know_older_columns_is_sent_those_of_the_rows() {
    const KEY: [Spec; 1] = [("customer", BIGINT)];
    const COLUMNS: [Spec; 2] = [("total", BIGINT), ("status", VARCHAR)];
    let others = ("app", "others");
    for node in VERSIONS {
        for client in [Version::V3, Version::V4] {
            let with = || Bench::with(Config::default(), (client, node));
            let (mut before, mut bench) = (with(), with());
            let (own, other) = (bench.client, bench.another("other"));
            bench.engine.client_bytes(other).map(take);
            // It is known of old, but to whom and as what, nobody knows.
            before.prepare_read_of(others, READ, ID, &KEY, &COLUMNS);
            let passed = before.common.statements_to_pass();
            passed.for_each(|statement| bench.common.adopt_statement(statement));
            execute(&mut bench, own, &[&[1; 8]]);
            assert!(!skips_metadata(&mut bench));
            bench.answers();
            bench.prepare_read_of(others, READ, ID, &KEY, &COLUMNS);
            execute(&mut bench, other, &[&[1; 8]]);
            assert!(!skips_metadata(&mut bench), "another has prepared it");
            execute(&mut bench, own, &[&[1; 8]]);
            assert!(skips_metadata(&mut bench), "it has been told");
        }
    }
}

#[test]
fn a_batch_may_have_more_statements_than_its_node_knows() {
    const STATEMENTS: u8 = 20;
    for version in VERSIONS {
        let mut bench = bench(version);
        let markers = [("customer", BIGINT), ("total", BIGINT)];
        let text =
            |at: u8| format!("INSERT INTO app.others (customer, total) VALUES (?, ?) -- {at}");
        let ids: Vec<[u8; 16]> = (0..STATEMENTS).map(|at| [at; 16]).collect();
        for (at, id) in (0..).zip(&ids) {
            bench.prepare_of(("app", "others"), &text(at), id, &markers);
        }
        let children: Vec<_> = ids.iter().map(|id| Err(&id[..])).collect();
        bench.ask(Opcode::Batch, 2, &batch_of(version, 0, &children));
        // It names one after the other.
        for id in &ids {
            let (opcode, stream, body) = bench.one_at_node();
            assert_eq!(opcode, Opcode::Batch);
            let view = BatchView::parse(&body, version).expect("a BATCH");
            assert!(matches!(view.children[0], BatchChild::Prepared(first, _) if first == ids[0]));
            let mut fields = Vec::new();
            write::short_bytes(&mut fields, id);
            bench.say_error(stream, code::UNPREPARED, "forgotten", &fields);
            let (opcode, stream, _) = bench.one_at_node();
            assert_eq!(opcode, Opcode::Prepare);
            let prepared = bench.prepared(id, "others", &markers, &[]);
            bench.say(Opcode::Result, stream, &prepared);
        }
        let (opcode, stream, _) = bench.one_at_node();
        assert_eq!(opcode, Opcode::Batch);
        bench.say(Opcode::Result, stream, &VOID);
        assert_eq!(bench.answer().0, Opcode::Result);
        bench.is_done();
    }
}
