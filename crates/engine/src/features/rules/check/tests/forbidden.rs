//! Forbidden statements stay so, however they are asked for.

use helenus_wire::{BatchView, ErrorBody, ExecuteView, QueryView, Reader, code};

use super::*;
use crate::testing::bench::LAYOUT;

/// Nobody reads or writes `app.others`.
fn denied() -> RuleSettings {
    RuleSettings {
        keyspace: "app".into(),
        table: "others".into(),
        deny: Some("ask the owners".to_owned()),
        ..rule("closed")
    }
}

fn is_denied(refused: (i32, String)) {
    let (code, text) = refused;
    assert_eq!(code, code::UNAUTHORIZED, "{text}");
    assert!(
        text.contains("rule \"closed\"") && text.contains("ask the owners"),
        "{text}"
    );
}

#[test]
fn a_table_is_closed_in_whichever_words_it_is_named() {
    let mut bench = bench_of([denied()]);
    for text in [
        "SELECT total FROM app.others WHERE customer = 1",
        "select TOTAL from APP.Others where CUSTOMER = 1;",
        "/* harmless */ SELECT total -- orders\nFROM app /**/ . /**/ others WHERE customer = 1",
        "SELECT total FROM \"app\".\"others\" WHERE customer = 1",
        "SELECT count(*) FROM app.others",
        "SELECT total FROM app.others WHERE total > 1 ALLOW FILTERING",
        "INSERT INTO app.others (customer, total) VALUES (1, 2)",
        "UPDATE app.others SET total = 1 WHERE customer = 1 IF total = 2",
        "DELETE FROM app.others WHERE customer = :who",
        "TRUNCATE TABLE app.others",
        "ALTER TABLE app.others ADD extra text",
        "DROP TABLE IF EXISTS app.others",
        // These take the table with them.
        "DROP KEYSPACE app",
        "ALTER KEYSPACE \"app\" WITH durable_writes = false",
        "BEGIN UNLOGGED BATCH INSERT INTO app.orders (customer) VALUES (1); \
         DELETE FROM app.others WHERE customer = 1 APPLY BATCH",
    ] {
        is_denied(refused_text(&mut bench, text));
    }
    passes_text(
        &mut bench,
        "SELECT total FROM app.orders WHERE customer = 1",
    );
    passes_text(
        &mut bench,
        "SELECT total FROM app.\"Others\" WHERE customer = 1",
    );
    passes_text(&mut bench, "DROP KEYSPACE other");
}

#[test]
fn a_table_is_closed_whatever_says_its_keyspace() {
    let mut bench = bench_of([denied()]);
    let text = "SELECT total FROM others WHERE customer = 1";
    let own = query_in(Version::V5, Some("app"), text, LOCAL_QUORUM);
    is_denied(refused(&mut bench, Opcode::Query, &own));
    bench.be_in("app");
    is_denied(refused_text(&mut bench, text));
    let elsewhere = query_in(Version::V5, Some("other"), text, LOCAL_QUORUM);
    passes(&mut bench, Opcode::Query, &elsewhere);
    bench.be_in("other");
    is_denied(refused(&mut bench, Opcode::Query, &own));
    // A prepared statement keeps the keyspace that was in force then.
    bench.prepare_in("app", "SELECT * FROM others", b"read", &[]);
    is_denied(refused(&mut bench, Opcode::Execute, &execute(b"read")));
}

#[test]
fn a_keyspace_behind_the_options_is_refused_before_v5() {
    let text = "SELECT total FROM others WHERE customer = 1";
    let mut batch = vec![0, 0, 1, 0];
    write::long_string(&mut batch, "INSERT INTO others (customer) VALUES (1)");
    let mut execute = Vec::new();
    write::short_bytes(&mut execute, b"read");
    for body in [&mut batch, &mut execute] {
        // No values of the statement; or the level.
        write::u16(body, 0);
    }
    write::u16(&mut batch, LOCAL_QUORUM);
    for body in [&mut batch, &mut execute] {
        body.push(0x80);
        write::string(body, "app");
    }
    for version in [Version::V3, Version::V4] {
        let mut bench = bench_of_version(version, [denied()]);
        bench.be_in("other");
        let query = query_in(version, Some("app"), text, LOCAL_QUORUM);
        for (opcode, body) in [
            (Opcode::Query, &query),
            (Opcode::Batch, &batch),
            (Opcode::Execute, &execute),
        ] {
            let (code, why) = refused(&mut bench, opcode, body);
            assert!(code == code::PROTOCOL && why.contains("0x80"), "{why}");
        }
    }
}

/// Values and the page of a BATCH mean nothing, but stand before its keyspace.
#[test]
fn the_keyspace_of_a_batch_is_found_where_nodes_find_it() {
    let mut bench = bench_of([denied()]);
    bench.be_in("other");
    let mut body = vec![0, 0, 1, 0];
    write::long_string(&mut body, "INSERT INTO others (customer) VALUES (1)");
    write::u16(&mut body, 0);
    write::u16(&mut body, LOCAL_QUORUM);
    // With one value, one byte long, which a reader that skips none takes for a keyspace.
    write::u32(&mut body, 0x81);
    write::u16(&mut body, 1);
    write::bytes(&mut body, Some(b"x"));
    write::string(&mut body, "app");
    is_denied(refused(&mut bench, Opcode::Batch, &body));
}

#[test]
fn a_table_is_closed_in_every_statement_of_a_batch() {
    let mut bench = bench_of([denied()]);
    let open = "INSERT INTO app.orders (customer) VALUES (1)";
    let closed = "INSERT INTO app.others (customer) VALUES (1)";
    bench.prepare_of(("app", "others"), closed, b"closed", &[]);
    bench.prepare_of(("app", "orders"), open, b"open", &[]);
    let batch_text = format!("BEGIN BATCH {open}; {closed} APPLY BATCH");
    // Of a batch a node tells the table of the first marker.
    bench.prepare_of(("app", "orders"), &batch_text, b"both", &MARKERS);
    let (open, closed) = (
        [Ok(open), Err(&b"open"[..])],
        [Ok(closed), Err(&b"closed"[..])],
    );
    for open in open {
        passes(&mut bench, Opcode::Batch, &batch(&[open]));
        for closed in closed {
            is_denied(refused(&mut bench, Opcode::Batch, &batch(&[open, closed])));
            is_denied(refused(
                &mut bench,
                Opcode::Batch,
                &batch(&[closed, open, open]),
            ));
        }
    }
    is_denied(refused(&mut bench, Opcode::Execute, &execute(b"both")));
}

#[test]
fn what_only_nodes_know_is_to_be_prepared_again() {
    let mut bench = bench_of([denied()]);
    for (opcode, body) in [
        (Opcode::Execute, execute(b"unknown")),
        (
            Opcode::Batch,
            batch(&[
                Ok("INSERT INTO app.orders (customer) VALUES (1)"),
                Err(b"unknown"),
            ]),
        ),
    ] {
        bench.ask(opcode, 3, &body);
        assert_eq!(bench.at_node(), []);
        let (opcode, body) = bench.answer();
        assert_eq!(opcode, Opcode::Error);
        let error = ErrorBody::parse(&body).expect("an error");
        assert_eq!(error.code, code::UNPREPARED);
        assert!(
            error.message.contains("rule \"closed\""),
            "{}",
            error.message
        );
        let id = Reader::new(error.fields).short_bytes().map(<[u8]>::to_vec);
        assert_eq!(id.as_deref(), Ok(&b"unknown"[..]));
    }
    // Where nothing is forbidden it is passed on, and matches what names no statement.
    for (rule, is_full) in [
        (
            RuleSettings {
                keyspace: "app".into(),
                in_flight: Some(0),
                ..rule("k")
            },
            false,
        ),
        (
            RuleSettings {
                client: "127.0.0.1".into(),
                in_flight: Some(0),
                ..rule("c")
            },
            true,
        ),
    ] {
        let mut bench = bench_of([rule]);
        bench.ask(Opcode::Execute, 3, &execute(b"unknown"));
        // It goes over a link of its own, which is not there yet.
        assert_eq!(bench.answers().len(), usize::from(is_full));
    }
}

#[test]
fn what_is_not_understood_is_denied_where_it_may_be_meant() {
    let mut bench = bench_of([denied()]);
    is_denied(refused_text(
        &mut bench,
        "SELECT total FROM app.others WHERE ((customer) = 1",
    ));
    is_denied(refused_text(&mut bench, "EXPLODE others"));
    let limited = RuleSettings {
        deny: None,
        in_flight: Some(0),
        ..denied()
    };
    passes_text(&mut bench_of([limited]), "EXPLODE others");
    // A statement that is named is another one.
    let named = RuleSettings {
        statement: Some("explode  OTHERS;".to_owned()),
        deny: Some("ask the owners".to_owned()),
        ..rule("closed")
    };
    let mut bench = bench_of([named]);
    is_denied(refused_text(&mut bench, "EXPLODE others"));
    passes_text(&mut bench, "EXPLODE orders");
    passes_text(&mut bench, "SELECT total FROM app.others");
}

#[test]
fn a_table_is_closed_under_the_names_of_its_layouts() {
    let mut config = Config {
        rules: vec![RuleSettings {
            table: "orders".into(),
            ..denied()
        }],
        ..Config::default()
    };
    config.layouts.enabled = true;
    config.layouts.show_tables = true;
    let mut bench = Bench::with(config, (Version::V5, Version::V5));
    bench.renew();
    for table in ["orders", LAYOUT] {
        let text = format!("SELECT total FROM app.{table} WHERE customer = 1");
        is_denied(refused_text(&mut bench, &text));
    }
}

#[test]
fn drivers_connect_though_everything_is_denied() {
    let mut bench = bench_of([RuleSettings {
        all: true,
        deny: Some("ask the owners".to_owned()),
        ..rule("closed")
    }]);
    // Here a node has not told yet what the table looks like.
    passes_text(&mut bench, "SELECT * FROM system.local WHERE key = 'local'");
    passes_text(
        &mut bench,
        "SELECT keyspace_name FROM system_schema.keyspaces",
    );
    // One of them goes over a link of its own, which is not there yet.
    for text in ["DESCRIBE TABLES", "USE app"] {
        bench.ask(Opcode::Query, 3, &query(text, ONE));
        for (_, stream, _) in bench.at_node() {
            bench.say(Opcode::Result, stream, &VOID);
        }
        let mut answers = bench.answers().into_iter();
        assert!(
            answers.all(|(opcode, ..)| opcode == Opcode::Result),
            "{text}"
        );
    }
    bench.prepare("SELECT * FROM app.orders", b"read", &[], &COLUMNS);
    is_denied(refused(&mut bench, Opcode::Execute, &execute(b"read")));
    is_denied(refused_text(
        &mut bench,
        "UPDATE system_views.settings SET value = '1' WHERE name = 'x'",
    ));
    is_denied(refused_text(&mut bench, "SELECT * FROM system_auth.roles"));
    // By its name even that is.
    let mut bench = bench_of([RuleSettings {
        keyspace: "system_schema".into(),
        deny: Some("ask the owners".to_owned()),
        ..rule("closed")
    }]);
    is_denied(refused_text(
        &mut bench,
        "SELECT keyspace_name FROM system_schema.keyspaces",
    ));
    bench.be_in("system_schema");
    is_denied(refused_text(
        &mut bench,
        "SELECT keyspace_name FROM keyspaces",
    ));
}

#[test]
fn read_only_lets_reads_pass_and_nothing_else() {
    let mut bench = bench_of([RuleSettings {
        all: true,
        read_only: true,
        ..rule("moving")
    }]);
    for text in [
        "INSERT INTO app.others (customer) VALUES (1)",
        "UPDATE app.others SET total = 1 WHERE customer = 1",
        "DELETE FROM app.others WHERE customer = 1 IF EXISTS",
        "BEGIN BATCH APPLY BATCH",
        "TRUNCATE app.others",
        "CREATE TABLE app.new (k int PRIMARY KEY)",
        "CREATE ROLE somebody",
        "GRANT SELECT ON app.others TO somebody",
        "INSERT INTO app.others (customer) SOMEHOW",
    ] {
        let (code, said) = refused_text(&mut bench, text);
        assert_eq!(code, code::UNAUTHORIZED, "{text}");
        assert!(
            said.contains("rule \"moving\" lets only reads pass"),
            "{said}"
        );
    }
    let (code, _) = refused(&mut bench, Opcode::Batch, &batch(&[]));
    assert_eq!(code, code::UNAUTHORIZED);
    for text in [
        "SELECT total FROM app.others",
        "LIST ROLES",
        "/* */ list roles",
    ] {
        passes_text(&mut bench, text);
    }
}

#[test]
fn an_exception_is_one_for_the_statements_that_it_names_only() {
    let exception = RuleSettings {
        keyspace: "app".into(),
        table: ["orders", "others"].into(),
        class: ["read", "batch"].into(),
        last: true,
        ..rule("exception")
    };
    let all = RuleSettings {
        all: true,
        deny: Some("ask the owners".to_owned()),
        ..rule("closed")
    };
    let mut bench = bench_of([exception.clone(), all.clone()]);
    passes_text(&mut bench, "SELECT total FROM app.others");
    let (allowed, denied) = (
        "DELETE FROM app.orders WHERE customer = 1",
        "DELETE FROM app.more WHERE k = 1",
    );
    passes(&mut bench, Opcode::Batch, &batch(&[Ok(allowed)]));
    is_denied(refused_text(&mut bench, allowed));
    is_denied(refused(
        &mut bench,
        Opcode::Batch,
        &batch(&[Ok(allowed), Ok(denied)]),
    ));
    is_denied(refused(
        &mut bench,
        Opcode::Batch,
        &batch(&[Ok(denied), Ok(allowed)]),
    ));
    let (code, _) = refused(&mut bench, Opcode::Execute, &execute(b"unknown"));
    assert_eq!(code, code::UNPREPARED, "it may be the exception");
    let mut bench = bench_of([all, exception]);
    is_denied(refused_text(&mut bench, "SELECT total FROM app.others"));
}

fn at_least(level: &str) -> RuleSettings {
    RuleSettings {
        keyspace: "app".into(),
        class: "write".into(),
        consistency_min: Some(level.to_owned()),
        ..rule("durable")
    }
}

#[test]
fn weak_levels_are_invalid_for_what_reads_and_writes() {
    let mut bench = bench_of([at_least("LOCAL_QUORUM")]);
    let write = "INSERT INTO app.others (customer) VALUES (1)";
    for level in [0, ONE, 2, 3, 10] {
        let (code, said) = refused(&mut bench, Opcode::Query, &query(write, level));
        assert_eq!(code, code::INVALID, "{said}");
        assert!(
            said.contains("rule \"durable\" asks for at least LOCAL_QUORUM"),
            "{said}"
        );
    }
    for level in [LOCAL_QUORUM, 4, 5, 7] {
        passes(&mut bench, Opcode::Query, &query(write, level));
    }
    // Not writes, or not of rows.
    for text in [
        "SELECT total FROM app.others",
        "DROP TABLE app.others",
        "TRUNCATE app.others",
    ] {
        passes(&mut bench, Opcode::Query, &query(text, ONE));
    }
    let mut bench = bench_of([RuleSettings {
        consistency_max: Some("local_quorum".to_owned()),
        ..RuleSettings {
            consistency_min: None,
            ..at_least("ONE")
        }
    }]);
    let (code, said) = refused(&mut bench, Opcode::Query, &query(write, 5));
    assert_eq!(code, code::INVALID);
    assert!(
        said.contains("at most LOCAL_QUORUM, and this request is at ALL"),
        "{said}"
    );
    passes(&mut bench, Opcode::Query, &query(write, ONE));
}

#[test]
fn levels_are_rewritten_if_that_is_asked_for() {
    let rewriting = RuleSettings {
        class: ["read", "write"].into(),
        consistency_rewrite: true,
        ..at_least("QUORUM")
    };
    let mut bench = bench_of([rewriting]);
    let sent = passes(
        &mut bench,
        Opcode::Query,
        &query("SELECT total FROM app.others", ONE),
    );
    let view = QueryView::parse(&sent, Version::V5).expect("a QUERY");
    assert_eq!(view.options.consistency.name(), "QUORUM");
    assert_eq!(view.text, "SELECT total FROM app.others");
    let write = "INSERT INTO app.others (customer) VALUES (1)";
    bench.prepare_of(("app", "others"), write, b"write", &[]);
    let sent = passes(&mut bench, Opcode::Execute, &execute(b"write"));
    let view = ExecuteView::parse(&sent, Version::V5).expect("an EXECUTE");
    assert_eq!(view.options.consistency.name(), "QUORUM");
    let sent = passes(
        &mut bench,
        Opcode::Batch,
        &batch(&[Ok(write), Err(b"write")]),
    );
    let view = BatchView::parse(&sent, Version::V5).expect("a BATCH");
    assert_eq!(
        (view.options.consistency.name(), view.children.len()),
        ("QUORUM", 2)
    );
    // A read at SERIAL is another read.
    passes(
        &mut bench,
        Opcode::Query,
        &query("SELECT total FROM app.others WHERE customer = 1", SERIAL),
    );
    bench.is_done();
}

fn rewriting(name: &str, min: Option<&str>, max: Option<&str>) -> RuleSettings {
    RuleSettings {
        all: true,
        consistency_min: min.map(str::to_owned),
        consistency_max: max.map(str::to_owned),
        consistency_rewrite: true,
        ..rule(name)
    }
}

#[test]
fn two_rules_that_rewrite_levels_agree_or_refuse() {
    let write = "INSERT INTO app.others (customer) VALUES (1)";
    for version in [Version::V4, Version::V5] {
        let sent_at = |bench: &mut Bench, level: u16| {
            let body = query_in(version, None, write, level);
            let sent = passes(bench, Opcode::Query, &body);
            let view = QueryView::parse(&sent, version).expect("a QUERY");
            view.options.consistency.name()
        };
        // First no more than QUORUM, then no more than LOCAL_QUORUM.
        let mut bench = bench_of_version(
            version,
            [
                rewriting("a", None, Some("QUORUM")),
                rewriting("b", Some("ONE"), Some("LOCAL_QUORUM")),
            ],
        );
        assert_eq!(sent_at(&mut bench, 5), "LOCAL_QUORUM");
        assert_eq!(sent_at(&mut bench, 0), "ONE");
        assert_eq!(sent_at(&mut bench, 2), "TWO");
        let rewritten = |bench: &Bench| {
            let rules = bench.common.features.rules.list();
            let counts = rules.iter().map(|rule| rule.counts(bench.now).rewritten);
            counts.collect::<Vec<_>>()
        };
        assert_eq!(rewritten(&bench), [1, 2]);
        // No level is what both want.
        let mut bench = bench_of_version(
            version,
            [
                rewriting("a", Some("QUORUM"), None),
                rewriting("b", None, Some("ONE")),
            ],
        );
        for level in [ONE, 4] {
            let body = query_in(version, None, write, level);
            let (code, said) = refused(&mut bench, Opcode::Query, &body);
            assert_eq!(code, code::INVALID);
            assert!(
                said.contains("rule \"b\"") && said.contains("rule \"a\" does not allow"),
                "{said}"
            );
        }
        assert_eq!(rewritten(&bench), [0, 0]);
    }
}

#[test]
fn an_exception_without_statements_is_one_for_what_only_nodes_know() {
    let exception = RuleSettings {
        client: "127.0.0.1".into(),
        last: true,
        ..rule("operators")
    };
    let mut bench = bench_of([exception.clone(), denied()]);
    bench.ask(Opcode::Execute, 3, &execute(b"unknown"));
    // It goes over a link of its own, which is not there yet.
    assert_eq!(bench.answers(), []);
    let elsewhere = RuleSettings {
        client: "10.0.0.1".into(),
        ..exception.clone()
    };
    // Of no avail against what only names what nodes know of themselves.
    let of_nodes = RuleSettings {
        keyspace: "system_schema".into(),
        table: Names::default(),
        ..denied()
    };
    for (rules, at) in [([elsewhere, denied()], 1), ([exception, of_nodes], 1)] {
        let mut bench = bench_of(rules);
        let (code, _) = refused(&mut bench, Opcode::Execute, &execute(b"unknown"));
        assert_eq!(code, code::UNPREPARED);
        let counts = bench.common.features.rules.list()[at].counts(bench.now);
        assert_eq!((counts.unprepared, counts.refused), (1, 0));
    }
}

#[test]
fn what_is_not_understood_is_no_exception() {
    let exception = RuleSettings {
        keyspace: "app".into(),
        table: "orders".into(),
        consistency_min: Some("ONE".to_owned()),
        last: true,
        ..rule("exception")
    };
    let mut bench = bench_of([exception, denied()]);
    is_denied(refused_text(&mut bench, "EXPLODE others"));
    is_denied(refused_text(&mut bench, "DROP KEYSPACE app"));
    passes_text(
        &mut bench,
        "SELECT total FROM app.orders WHERE customer = 1",
    );
}

#[test]
fn clients_are_not_judged_again_because_tables_change() {
    let mut bench = bench_of([denied()]);
    let before = bench.engine.features().rules.generation();
    bench.adopt_none();
    bench.wait(std::time::Duration::from_millis(100));
    assert_eq!(bench.engine.features().rules.generation(), before);
    let config = Config::clone(&bench.common.settings.load());
    bench.adopt_config(config);
    assert_ne!(bench.engine.features().rules.generation(), before);
}
