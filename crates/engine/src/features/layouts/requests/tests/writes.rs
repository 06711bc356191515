use std::sync::atomic::Ordering;

use helenus_wire::{
    BatchChild, BatchView, Consistency, Opcode, QueryView, ValueRef, Version, code, write,
};

use crate::testing::bench::{Asking, BIGINT, Bench, LAYOUT, Spec, VARCHAR};

const INSERT: &str = "INSERT INTO app.orders (customer, day, status, total) VALUES (?, ?, ?, ?)";
const COPY: &str =
    "INSERT INTO app.orders__layout_a (customer, day, status, total) VALUES (?, ?, ?, ?)";
const MARKERS: [Spec; 4] = [
    ("customer", BIGINT),
    ("day", BIGINT),
    ("status", VARCHAR),
    ("total", BIGINT),
];
const VALUES: [&[u8]; 4] = [&[1; 8], &[2; 8], b"open", &[3; 8]];
const VOID: [u8; 4] = 1_i32.to_be_bytes();
const VERSIONS: [(Version, Version); 4] = [
    (Version::V3, Version::V4),
    (Version::V3, Version::V5),
    (Version::V4, Version::V5),
    (Version::V5, Version::V5),
];

/// A statement of a batch: by its text or id, with its values.
fn child<'a>(child: &BatchChild<'a>) -> (Result<&'a str, &'a [u8]>, Vec<ValueRef<'a>>) {
    let (statement, values) = match child {
        BatchChild::Text(text, values) => (Ok(*text), values),
        BatchChild::Prepared(id, values) => (Err(*id), values),
    };
    (statement, values.iter().map(|(_, value)| value).collect())
}

fn values() -> Vec<ValueRef<'static>> {
    VALUES.map(ValueRef::Set).into()
}

fn asking<'a>() -> Asking<'a> {
    Asking {
        values: &VALUES,
        serial: Some(9),
        timestamp: Some(12),
        ..Asking::default()
    }
}

#[test]
fn a_prepared_write_becomes_one_unlogged_batch() {
    for versions in VERSIONS {
        let mut bench = Bench::new(versions.0, versions.1);
        bench.prepare(INSERT, b"own", &MARKERS, &[]);
        let body = asking().execute(versions.0, b"own");
        // Until the node has prepared what is written to the layout, its text is sent.
        for copy in [Ok(COPY), Err(&b"derived"[..])] {
            bench.ask(Opcode::Execute, 2, &body);
            for (opcode, stream, body) in bench.at_node() {
                if opcode == Opcode::Prepare {
                    let answer = bench.prepared(b"derived", LAYOUT, &MARKERS, &[]);
                    bench.say(Opcode::Result, stream, &answer);
                    continue;
                }
                assert_eq!(opcode, Opcode::Batch);
                let view = BatchView::parse(&body, versions.1).expect("a BATCH");
                assert_eq!(view.batch_type, 1);
                assert_eq!(view.options.consistency, Consistency(6));
                assert_eq!(view.options.serial_consistency, Some(Consistency(9)));
                assert_eq!(view.options.timestamp, Some(12));
                let children: Vec<_> = view.children.iter().map(child).collect();
                assert_eq!(children, [(Err(&b"own"[..]), values()), (copy, values())]);
                bench.say(Opcode::Result, stream, &VOID);
            }
            assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
            bench.is_done();
        }
    }
}

#[test]
fn a_write_by_text_becomes_one_unlogged_batch_and_names_become_positions() {
    let named = "INSERT INTO app.orders (customer, day, status, total) VALUES (:c, :d, :s, :t)";
    let copy = named.replace("orders", LAYOUT);
    let turned: [&[u8]; 4] = [VALUES[3], VALUES[2], VALUES[1], VALUES[0]];
    for versions in VERSIONS {
        for names in [&[][..], &["t", "s", "d", "c"]] {
            let mut bench = Bench::new(versions.0, versions.1);
            let own = if names.is_empty() { INSERT } else { named };
            let values_sent = if names.is_empty() { &VALUES } else { &turned };
            let asking = Asking {
                values: values_sent,
                names,
                ..asking()
            };
            let body = asking.query(versions.0, own);
            bench.ask(Opcode::Query, 2, &body);
            let (opcode, stream, body) = bench.one_at_node();
            assert_eq!(opcode, Opcode::Batch);
            let view = BatchView::parse(&body, versions.1).expect("a BATCH");
            let children: Vec<_> = view.children.iter().map(child).collect();
            let copy = if names.is_empty() { COPY } else { &copy };
            assert_eq!(children, [(Ok(own), values()), (Ok(copy), values())]);
            bench.say(Opcode::Result, stream, &VOID);
            assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
            bench.is_done();
        }
    }
}

#[test]
fn values_that_do_not_fit_write_nothing() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let wrong = Asking {
        values: &VALUES[..3],
        ..asking()
    };
    let body = wrong.query(Version::V4, INSERT);
    bench.ask(Opcode::Query, 2, &body);
    assert_eq!(
        bench.error(),
        (code::INVALID, "Invalid amount of bind variables".to_owned())
    );
    let wrong = Asking {
        names: &["a", "b", "c", "d"],
        ..asking()
    };
    let body = wrong.query(Version::V4, INSERT);
    bench.ask(Opcode::Query, 2, &body);
    let (code, text) = bench.error();
    assert!(
        code == code::INVALID && text.contains("app.orders"),
        "{text}"
    );
    bench.is_done();
}

#[test]
fn a_clients_batch_gets_further_statements_behind_its_own() {
    for versions in VERSIONS {
        for kind in [0, 1] {
            let mut bench = Bench::new(versions.0, versions.1);
            bench.prepare(INSERT, b"own", &MARKERS, &[]);
            let other = "INSERT INTO app.others (customer) VALUES (1)";
            let delete = "DELETE FROM app.orders WHERE customer = 1";
            let mut body = vec![kind];
            write::u16(&mut body, 3);
            for text in [delete, other] {
                body.push(0);
                write::long_string(&mut body, text);
                write::u16(&mut body, 0);
            }
            body.push(1);
            write::short_bytes(&mut body, b"own");
            write::u16(&mut body, 4);
            for value in VALUES {
                write::bytes(&mut body, Some(value));
            }
            let options = Asking {
                timestamp: Some(7),
                ..Asking::default()
            };
            options.write(versions.0, &mut body);
            bench.ask(Opcode::Batch, 2, &body);
            let mut asked = bench.at_node();
            asked.retain(|(opcode, ..)| *opcode == Opcode::Batch);
            let (_, stream, body) = asked.remove(0);
            let view = BatchView::parse(&body, versions.1).expect("a BATCH");
            assert_eq!((view.batch_type, view.options.timestamp), (kind, Some(7)));
            let children: Vec<_> = view.children.iter().map(child).collect();
            let expected = [
                (Ok(delete), vec![]),
                (
                    Ok("DELETE FROM app.orders__layout_a WHERE customer = 1"),
                    vec![],
                ),
                (Ok(other), vec![]),
                (Err(&b"own"[..]), values()),
                (Ok(COPY), values()),
            ];
            assert_eq!(children, expected);
            bench.say(Opcode::Result, stream, &VOID);
            assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
        }
    }
}

#[test]
fn a_batch_of_other_tables_goes_as_it_came() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let mut body = vec![0];
    write::u16(&mut body, 1);
    body.push(0);
    write::long_string(&mut body, "INSERT INTO app.others (customer) VALUES (1)");
    write::u16(&mut body, 0);
    Asking::default().write(Version::V4, &mut body);
    bench.ask(Opcode::Batch, 2, &body);
    let (opcode, _, sent) = bench.one_at_node();
    assert_eq!((opcode, sent), (Opcode::Batch, body));
}

#[test]
fn a_batch_as_text_gets_further_statements_behind_its_own() {
    let own = "BEGIN UNLOGGED BATCH USING TIMESTAMP ? UPDATE app.orders SET total = ? WHERE customer = ? AND \
               day = 2 AND status = 'a'; INSERT INTO app.others (customer) VALUES (?); DELETE FROM \
               app.orders WHERE customer = ? APPLY BATCH";
    let sent: [&[u8]; 5] = [&[0; 8], &[1; 8], &[2; 8], &[3; 8], &[4; 8]];
    for versions in VERSIONS {
        let mut bench = Bench::new(versions.0, versions.1);
        let asking = Asking {
            values: &sent,
            ..Asking::default()
        };
        let body = asking.query(versions.0, own);
        bench.ask(Opcode::Query, 2, &body);
        let (opcode, stream, body) = bench.one_at_node();
        let view = QueryView::parse(&body, versions.1).expect("a QUERY");
        assert_eq!(opcode, Opcode::Query);
        let expected = "BEGIN UNLOGGED BATCH USING TIMESTAMP ? UPDATE app.orders SET total = ? WHERE customer \
                        = ? AND day = 2 AND status = 'a'; UPDATE app.orders__layout_a SET total = ? WHERE \
                        customer = ? AND day = 2 AND status = 'a'; INSERT INTO app.others (customer) VALUES \
                        (?); DELETE FROM app.orders WHERE customer = ?; DELETE FROM app.orders__layout_a \
                        WHERE customer = ? APPLY BATCH";
        assert_eq!(view.text, expected);
        let values: Vec<_> = view.options.values.iter().map(|(_, value)| value).collect();
        let order = [0, 1, 2, 1, 2, 3, 4, 4];
        assert_eq!(values, order.map(|at: usize| ValueRef::Set(sent[at])));
        bench.say(Opcode::Result, stream, &VOID);
        assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
        bench.is_done();
    }
}

#[test]
fn what_a_node_has_forgotten_of_a_layout_is_prepared_again() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    bench.prepare(INSERT, b"own", &MARKERS, &[]);
    let body = asking().execute(Version::V4, b"own");
    bench.ask(Opcode::Execute, 2, &body);
    for (opcode, stream, _) in bench.at_node() {
        let answer = match opcode {
            Opcode::Prepare => bench.prepared(b"derived", LAYOUT, &MARKERS, &[]),
            _ => VOID.to_vec(),
        };
        bench.say(Opcode::Result, stream, &answer);
    }
    bench.answer();
    bench.ask(Opcode::Execute, 2, &body);
    let (_, stream, first) = bench.one_at_node();
    let mut id = Vec::new();
    write::short_bytes(&mut id, b"derived");
    bench.say_error(stream, code::UNPREPARED, "unknown", &id);
    let (opcode, stream, _) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Prepare);
    let answer = bench.prepared(b"derived", LAYOUT, &MARKERS, &[]);
    bench.say(Opcode::Result, stream, &answer);
    let (opcode, stream, again) = bench.one_at_node();
    assert_eq!((opcode, again), (Opcode::Batch, first));
    bench.say(Opcode::Result, stream, &VOID);
    assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
    bench.is_done();
}

#[test]
fn errors_of_a_write_name_the_table() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let body = asking().query(Version::V4, INSERT);
    bench.ask(Opcode::Query, 2, &body);
    let (_, stream, _) = bench.one_at_node();
    let text =
        "User app has no MODIFY permission on <table app.orders__layout_a> or any of its parents";
    bench.say_error(stream, code::UNAUTHORIZED, text, &[]);
    let (code, text) = bench.error();
    assert_eq!(code, code::UNAUTHORIZED);
    assert!(
        text.contains("<table app.orders>") && text.contains("layouts status"),
        "{text}"
    );
    bench.is_done();
}

#[test]
fn a_write_that_nobody_has_answered_is_one_mutation() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let body = asking().query(Version::V4, INSERT);
    bench.ask(Opcode::Query, 2, &body);
    bench.one_at_node();
    bench.wait(std::time::Duration::from_secs(60));
    let (opcode, answer) = bench.answer();
    let error = helenus_wire::ErrorBody::parse(&answer).expect("an error");
    assert_eq!((opcode, error.code), (Opcode::Error, code::WRITE_TIMEOUT));
    assert!(error.fields.ends_with(b"SIMPLE"), "{:?}", error.fields);
}

#[test]
fn named_values_of_what_is_prepared_become_positions() {
    for versions in VERSIONS {
        let mut bench = Bench::new(versions.0, versions.1);
        bench.prepare(INSERT, b"own", &MARKERS, &[]);
        let turned: [&[u8]; 4] = [VALUES[3], VALUES[2], VALUES[1], VALUES[0]];
        let asking = Asking {
            values: &turned,
            names: &["total", "status", "day", "customer"],
            ..asking()
        };
        let body = asking.execute(versions.0, b"own");
        bench.ask(Opcode::Execute, 2, &body);
        let mut asked = bench.at_node();
        asked.retain(|(opcode, ..)| *opcode == Opcode::Batch);
        let (_, _, body) = asked.remove(0);
        let view = BatchView::parse(&body, versions.1).expect("a BATCH");
        let children: Vec<_> = view.children.iter().map(child).collect();
        assert_eq!(
            children,
            [(Err(&b"own"[..]), values()), (Ok(COPY), values())]
        );
    }
}

#[test]
fn a_prepared_batch_as_text_is_sent_as_a_longer_text() {
    let own = "BEGIN BATCH DELETE FROM app.orders WHERE customer = ? APPLY BATCH";
    for versions in VERSIONS {
        let mut bench = Bench::new(versions.0, versions.1);
        bench.prepare(own, b"own", &MARKERS[..1], &[]);
        let asking = Asking {
            values: &VALUES[..1],
            timestamp: Some(3),
            ..Asking::default()
        };
        let body = asking.execute(versions.0, b"own");
        bench.ask(Opcode::Execute, 2, &body);
        let (opcode, _, body) = bench.one_at_node();
        let view = QueryView::parse(&body, versions.1).expect("a QUERY");
        let expected = "BEGIN BATCH DELETE FROM app.orders WHERE customer = ?; DELETE FROM \
                        app.orders__layout_a WHERE customer = ? APPLY BATCH";
        assert_eq!((opcode, view.text), (Opcode::Query, expected));
        assert_eq!(view.options.timestamp, Some(3));
        let values: Vec<_> = view.options.values.iter().map(|(_, value)| value).collect();
        assert_eq!(values, [ValueRef::Set(VALUES[0]); 2]);
    }
}

#[test]
fn a_keyspace_that_is_said_with_what_is_prepared_does_not_count() {
    let own = "BEGIN BATCH DELETE FROM orders WHERE customer = ? APPLY BATCH";
    let mut bench = Bench::new(Version::V5, Version::V5);
    bench.prepare_in("app", own, b"own", &MARKERS[..1]);
    let mut body = Vec::new();
    write::short_bytes(&mut body, b"own");
    write::short_bytes(&mut body, b"metadata");
    write::u16(&mut body, 6);
    // Values, a timestamp, a keyspace and a time.
    write::u32(&mut body, 0x1a1);
    write::u16(&mut body, 1);
    write::bytes(&mut body, Some(VALUES[0]));
    write::i64(&mut body, 3);
    write::string(&mut body, "other");
    write::i32(&mut body, 5);
    bench.ask(Opcode::Execute, 2, &body);
    let (opcode, _, body) = bench.one_at_node();
    let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
    assert_eq!(opcode, Opcode::Query);
    assert!(view.text.contains("app.orders__layout_a"), "{}", view.text);
    assert_eq!(view.options.keyspace, Some("app"));
    assert_eq!(view.options.timestamp, Some(3));
    assert_eq!(view.options.now_in_seconds, Some(5));
}

#[test]
fn a_batch_as_text_keeps_the_names_of_its_values() {
    let own = "BEGIN BATCH DELETE FROM app.orders WHERE customer = :c APPLY BATCH";
    let mut bench = Bench::new(Version::V4, Version::V4);
    let asking = Asking {
        values: &VALUES[..1],
        names: &["c"],
        ..Asking::default()
    };
    let body = asking.query(Version::V4, own);
    bench.ask(Opcode::Query, 2, &body);
    let (_, _, body) = bench.one_at_node();
    let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
    assert_eq!(view.text.matches(":c").count(), 2, "{}", view.text);
    let values: Vec<_> = view.options.values.iter().collect();
    assert_eq!(values, [(Some("c"), ValueRef::Set(VALUES[0]))]);
}

#[test]
fn a_keyspace_in_the_request_counts_for_its_own_statement() {
    let mut bench = Bench::new(Version::V5, Version::V5);
    let text = INSERT.replace("app.", "");
    let mut body = Vec::new();
    write::long_string(&mut body, &text);
    write::u16(&mut body, 6);
    write::u32(&mut body, 0x81);
    write::u16(&mut body, 4);
    for value in VALUES {
        write::bytes(&mut body, Some(value));
    }
    write::string(&mut body, "app");
    bench.ask(Opcode::Query, 2, &body);
    let (opcode, _, body) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Batch);
    let view = BatchView::parse(&body, Version::V5).expect("a BATCH");
    assert_eq!(view.options.keyspace, Some("app"));
    let children: Vec<_> = view.children.iter().map(child).collect();
    assert_eq!(children, [(Ok(&*text), values()), (Ok(COPY), values())]);
}

#[test]
fn a_write_that_would_become_too_large_is_refused() {
    let mut config = crate::config::Config::default();
    config.layouts.enabled = true;
    config.limits.request_bytes_max = 1_000;
    let mut bench = Bench::with(config, (Version::V4, Version::V4));
    bench.renew();
    let long = [7; 600];
    let asking = Asking {
        values: &[VALUES[0], VALUES[1], &long, VALUES[3]],
        ..Asking::default()
    };
    let body = asking.query(Version::V4, INSERT);
    assert!(body.len() < 1_000);
    bench.ask(Opcode::Query, 2, &body);
    let (code, why) = bench.error();
    assert!(
        code == code::INVALID && why.contains("request_bytes_max"),
        "{why}"
    );
    bench.is_done();
}

#[test]
fn a_write_that_there_is_no_memory_for_is_refused() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let long = [7; 600];
    let asking = Asking {
        values: &[VALUES[0], VALUES[1], &long, VALUES[3]],
        ..Asking::default()
    };
    let body = asking.query(Version::V4, INSERT);
    let memory = bench.engine.cx().memory.clone();
    // The request as it came fits, with what it writes to the layout it does not.
    memory.set_max(memory.held() + body.len() + 100);
    bench.ask(Opcode::Query, 2, &body);
    let (code, why) = bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("memory_max"),
        "{why}"
    );
    let global = &bench.common.stats.global;
    assert_eq!(global.layout_writes_fenced.load(Ordering::Relaxed), 0);
    assert_eq!(global.requests_overloaded.load(Ordering::Relaxed), 1);
    memory.set_max(memory.held() + 3 * body.len());
    bench.ask(Opcode::Query, 2, &body);
    assert_eq!(bench.one_at_node().0, Opcode::Batch);
}
