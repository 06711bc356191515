//! Limits: by client, by class, by bytes and by time.

use std::time::Duration;

use helenus_wire::{ErrorBody, code};

use super::*;
use crate::testing::bench::{Asking, rows};

const READ: &str = "SELECT total FROM app.others WHERE customer = 1";
const WRITE: &str = "INSERT INTO app.others (customer) VALUES (1)";

fn full(name: &str) -> RuleSettings {
    RuleSettings {
        in_flight: Some(0),
        ..rule(name)
    }
}

/// True if a request is refused. One that a node has got is answered.
fn is_full(bench: &mut Bench, text: &str) -> bool {
    bench.ask(Opcode::Query, 9, &query(text, LOCAL_QUORUM));
    let sent = bench.at_node();
    for (_, stream, _) in &sent {
        bench.say(Opcode::Result, *stream, &no_rows("others", &COLUMNS));
    }
    let answer = bench.answers().pop();
    let error = answer.filter(|(opcode, ..)| *opcode == Opcode::Error);
    let error = error.map(|(_, _, body)| ErrorBody::parse(&body).map(|error| error.code));
    assert!(error.is_none() || sent.is_empty());
    error.is_some_and(|code| code == Ok(code::OVERLOADED))
}

#[test]
fn a_rule_is_for_the_clients_that_it_names() {
    let client = |networks: &[&str]| RuleSettings {
        client: crate::config::Names(networks.iter().map(|of| (*of).to_owned()).collect()),
        ..full("c")
    };
    for (rule, meant) in [
        (client(&["127.0.0.0/8"]), true),
        (client(&["10.0.0.0/8", "127.0.0.1"]), true),
        (client(&["10.0.0.0/8", "::/0"]), false),
        (client(&["::ffff:127.0.0.0/104"]), true),
        (client(&["::ffff:127.0.0.1"]), true),
        (client(&["::ffff:10.0.0.0/104"]), false),
        // Nobody has logged in, and the client has said nothing of itself.
        (
            RuleSettings {
                role: "app".into(),
                ..full("r")
            },
            false,
        ),
        (
            RuleSettings {
                application: "app".into(),
                ..full("a")
            },
            false,
        ),
        (
            RuleSettings {
                driver: ["app", "x"].into(),
                ..full("d")
            },
            false,
        ),
        (
            RuleSettings {
                all: true,
                ..full("all")
            },
            true,
        ),
    ] {
        let mut bench = bench_of([rule.clone()]);
        for _ in 0..2 {
            assert_eq!(is_full(&mut bench, READ), meant, "{rule:?}");
        }
    }
}

#[test]
fn a_client_is_judged_again_when_the_rules_change() {
    let mut bench = bench_of([RuleSettings {
        client: "10.0.0.1".into(),
        ..full("c")
    }]);
    assert!(!is_full(&mut bench, READ));
    let mut config = Config::clone(&bench.common.settings.load());
    config.rules[0].client = "127.0.0.1".into();
    bench.adopt_config(config.clone());
    assert!(is_full(&mut bench, READ));
    config.rules.clear();
    bench.adopt_config(config);
    assert!(!is_full(&mut bench, READ));
}

#[test]
fn classes_are_those_of_the_statement_and_of_what_it_is_sent_as() {
    let of = |class: &str, text: &str| {
        let mut bench = bench_of([RuleSettings {
            class: class.into(),
            ..full("c")
        }]);
        is_full(&mut bench, text)
    };
    let conditional = "UPDATE app.others SET total = 1 WHERE customer = 1 IF total = 2";
    let text_batch = "BEGIN BATCH INSERT INTO app.others (customer) VALUES (1) APPLY BATCH";
    for (text, classes) in [
        (READ, &["read", "point"][..]),
        (
            "SELECT total FROM app.others WHERE customer IN (1, 2)",
            &["read", "multi"],
        ),
        (
            "SELECT total FROM app.others WHERE customer = 1 ALLOW FILTERING",
            &["read", "point", "filtering"],
        ),
        ("SELECT total FROM app.others LIMIT 1", &["read", "scan"]),
        (
            "SELECT total FROM app.others WHERE total = 1 ALLOW FILTERING",
            &["read", "scan", "filtering"],
        ),
        ("SELECT total FROM app.unknown", &["read", "scan"]),
        (WRITE, &["write"]),
        (conditional, &["write", "conditional"]),
        (text_batch, &["write", "batch"]),
        ("TRUNCATE app.others", &["write", "truncate"]),
        ("DROP INDEX app.by_total", &["schema"]),
        ("LIST ROLES", &["roles"]),
        ("EXPLODE", &["other"]),
    ] {
        for class in crate::config::rules::classes::Classes::known().names() {
            assert_eq!(of(class, text), classes.contains(&class), "{class}: {text}");
        }
    }
    let mut bench = bench_of([RuleSettings {
        class: "conditional".into(),
        ..full("c")
    }]);
    passes(&mut bench, Opcode::Batch, &batch(&[Ok(WRITE)]));
    let (code, _) = refused(
        &mut bench,
        Opcode::Batch,
        &batch(&[Ok(WRITE), Ok(conditional)]),
    );
    assert_eq!(code, code::OVERLOADED);
}

#[test]
fn each_statement_of_a_batch_is_looked_at_for_its_partition_and_text() {
    let token = helenus_policy::token::murmur3_token(&5_i64.to_be_bytes());
    let five = "DELETE FROM app.others WHERE customer = 5";
    for rule in [
        RuleSettings {
            token: Some(token),
            ..full("token")
        },
        RuleSettings {
            statement: Some(five.to_owned()),
            ..full("statement")
        },
    ] {
        let mut bench = bench_of([rule]);
        bench.prepare_of(("app", "others"), five, b"five", &[]);
        let written = |inner: &[&str]| format!("BEGIN BATCH {} APPLY BATCH", inner.join("; "));
        for text in [five, &*written(&[five]), &*written(&[WRITE, five])] {
            assert!(is_full(&mut bench, text), "{text}");
        }
        for text in [WRITE, &*written(&[WRITE, WRITE])] {
            assert!(!is_full(&mut bench, text), "{text}");
        }
        for last in [Ok(five), Err(&b"five"[..])] {
            let (code, _) = refused(&mut bench, Opcode::Batch, &batch(&[Ok(WRITE), last]));
            assert_eq!(code, code::OVERLOADED);
        }
        passes(&mut bench, Opcode::Batch, &batch(&[Ok(WRITE), Ok(WRITE)]));
    }
}

#[test]
fn a_conditional_batch_still_takes_the_turn_of_its_first_statement() {
    let conditional = |customer: i64| {
        format!("UPDATE app.others SET total = 1 WHERE customer = {customer} IF total = 2")
    };
    let token = helenus_policy::token::murmur3_token(&9_i64.to_be_bytes());
    let mut bench = bench_of([RuleSettings {
        token: Some(token),
        ..full("token")
    }]);
    let first = conditional(1);
    bench.prepare_of(("app", "others"), &first, b"first", &[]);
    let asked = batch(&[Err(b"first"), Ok(&conditional(1))]);
    bench.ask(Opcode::Batch, 1, &asked);
    bench.ask(Opcode::Query, 2, &query(&first, LOCAL_QUORUM));
    bench.ask(Opcode::Query, 3, &query(&conditional(2), LOCAL_QUORUM));
    // The second waits for the first one's partition, the third has its own.
    assert_eq!(bench.at_node().len(), 2);
}

#[test]
fn bytes_are_counted_with_those_of_answers_and_owed() {
    let mut bench = bench_of([RuleSettings {
        all: true,
        bytes_per_second: Some(1_000),
        ..rule("bytes")
    }]);
    let large = rows("others", &COLUMNS, None, &[&[7; 3_000]]);
    bench.ask(Opcode::Query, 1, &query(READ, LOCAL_QUORUM));
    // Which shares its answer: it has as many bytes again.
    bench.ask(Opcode::Query, 2, &query(READ, LOCAL_QUORUM));
    let (_, stream, _) = bench.one_at_node();
    bench.say(Opcode::Result, stream, &large);
    assert_eq!(bench.answers().len(), 2);
    let (code, said) = refused_text(&mut bench, READ);
    assert_eq!(code, code::OVERLOADED);
    assert!(
        said.contains("rule \"bytes\" allows 1000 bytes per second"),
        "{said}"
    );
    let counts = bench.common.features.rules.list()[0].counts(bench.now);
    assert!((6_000..6_500).contains(&counts.bytes), "{}", counts.bytes);
    assert_eq!((counts.matched, counts.refused), (3, 1));
    bench.wait(Duration::from_secs(5));
    assert!(is_full(&mut bench, READ), "six seconds are owed");
    bench.wait(Duration::from_secs(2));
    passes_text(&mut bench, READ);
}

#[test]
fn what_is_tried_out_counts_and_refuses_nothing() {
    let tried = RuleSettings {
        all: true,
        warn: true,
        ..rule("tried")
    };
    for tried in [
        RuleSettings {
            in_flight: Some(0),
            ..tried.clone()
        },
        RuleSettings {
            deny: Some("no".to_owned()),
            ..tried.clone()
        },
        RuleSettings {
            read_only: true,
            ..tried.clone()
        },
        RuleSettings {
            consistency_max: Some("ONE".to_owned()),
            ..tried.clone()
        },
        RuleSettings {
            consistency_max: Some("ONE".to_owned()),
            consistency_rewrite: true,
            ..tried.clone()
        },
    ] {
        let mut bench = bench_of([tried.clone()]);
        let sent = passes_text(&mut bench, WRITE);
        assert!(sent.windows(2).any(|at| at == LOCAL_QUORUM.to_be_bytes()));
        let counts = bench.common.features.rules.list()[0].counts(bench.now);
        let expected = u64::from(!tried.consistency_rewrite);
        assert_eq!(
            (counts.would_refuse, counts.refused),
            (expected, 0),
            "{tried:?}"
        );
        // It asks for nothing to be prepared again, either.
        bench.ask(Opcode::Execute, 3, &execute(b"unknown"));
        assert_eq!(bench.answers(), []);
    }
    // A rule that only pretends to refuse a request gets nothing back for it.
    let slow = RuleSettings {
        all: true,
        requests_per_second: Some(0.001),
        warn: true,
        ..rule("slow")
    };
    let mut bench = bench_of([
        slow,
        RuleSettings {
            all: true,
            ..full("full")
        },
    ]);
    for _ in 0..5 {
        refused_text(&mut bench, READ);
    }
    let mut config = Config::clone(&bench.common.settings.load());
    config.rules.pop();
    bench.adopt_config(config);
    passes_text(&mut bench, READ);
    passes_text(&mut bench, READ);
    let counts = bench.common.features.rules.list()[0].counts(bench.now);
    assert_eq!(counts.would_refuse, 1);
}

#[test]
fn a_time_limit_ends_reads_and_writes_and_its_place_comes_back() {
    let timed = RuleSettings {
        all: true,
        timeout_ms: Some(300),
        in_flight: Some(1),
        ..rule("quick")
    };
    let mut bench = bench_of([timed]);
    for (text, code) in [(READ, code::READ_TIMEOUT), (WRITE, code::WRITE_TIMEOUT)] {
        bench.ask(Opcode::Query, 1, &query(text, LOCAL_QUORUM));
        let (_, stream, _) = bench.one_at_node();
        bench.wait(Duration::from_millis(200));
        assert_eq!(bench.answers(), []);
        bench.wait(Duration::from_millis(100));
        let (found, said) = bench.error();
        assert_eq!(found, code);
        assert!(said.contains("rule \"quick\" allows 300ms"), "{said}");
        assert_eq!(bench.common.features.rules.list()[0].in_flight(), 0);
        // Too late.
        bench.say(Opcode::Result, stream, &VOID);
        assert_eq!(bench.answers(), []);
    }
    // A schema change is not left halfway.
    bench.ask(
        Opcode::Query,
        1,
        &query("TRUNCATE app.others", LOCAL_QUORUM),
    );
    let (_, stream, _) = bench.one_at_node();
    bench.wait(Duration::from_millis(900));
    bench.say(Opcode::Result, stream, &VOID);
    assert_eq!(bench.answer().0, Opcode::Result);
    bench.is_done();
}

#[test]
fn reads_with_a_time_of_their_own_wait_for_no_other() {
    let mut bench = bench_of([RuleSettings {
        all: true,
        timeout_ms: Some(300),
        ..rule("quick")
    }]);
    bench.ask(Opcode::Query, 1, &query(READ, LOCAL_QUORUM));
    bench.ask(Opcode::Query, 2, &query(READ, LOCAL_QUORUM));
    assert_eq!(bench.at_node().len(), 2);
}

#[test]
fn each_of_the_writes_that_leave_together_has_its_place() {
    let mut config = Config {
        rules: vec![RuleSettings {
            all: true,
            in_flight: Some(2),
            ..rule("two")
        }],
        ..Config::default()
    };
    config.aggregation.merge_writes = vec!["*".to_owned()];
    let mut bench = Bench::with(config, (Version::V5, Version::V5));
    let text = "INSERT INTO app.others (customer) VALUES (?)";
    bench.prepare_of(("app", "others"), text, b"write", &MARKERS);
    // They bring no time of their own, so nothing else has to be prepared for them.
    for customer in 1..=3_i64 {
        let asking = Asking {
            values: &[&customer.to_be_bytes()],
            ..Asking::default()
        };
        bench.ask(
            Opcode::Execute,
            customer as i16,
            &asking.execute(Version::V5, b"write"),
        );
    }
    assert_eq!(bench.error().0, code::OVERLOADED);
    let (opcode, stream, _) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Batch);
    assert_eq!(bench.common.features.rules.list()[0].in_flight(), 2);
    bench.say(Opcode::Result, stream, &VOID);
    assert_eq!(bench.answers().len(), 2);
    assert_eq!(bench.common.features.rules.list()[0].in_flight(), 0);
    bench.is_done();
}

#[test]
fn each_page_is_a_request() {
    let mut bench = bench_of([RuleSettings {
        all: true,
        requests_per_second: Some(0.001),
        ..rule("once")
    }]);
    let page = |state| Asking {
        page_size: Some(10),
        state,
        ..Asking::default()
    };
    let first = page(None).query(Version::V5, READ);
    bench.ask(Opcode::Query, 1, &first);
    let (_, stream, _) = bench.one_at_node();
    let answer = rows("others", &COLUMNS, Some(b"more"), &[&[7; 8]]);
    bench.say(Opcode::Result, stream, &answer);
    assert_eq!(bench.answer().0, Opcode::Result);
    let second = page(Some(b"more")).query(Version::V5, READ);
    let (code, _) = refused(&mut bench, Opcode::Query, &second);
    assert_eq!(code, code::OVERLOADED);
}

#[test]
fn counters_and_places_outlive_changes_of_a_rule() {
    let limited = RuleSettings {
        all: true,
        in_flight: Some(1),
        ..rule("few")
    };
    let mut bench = bench_of([limited]);
    bench.ask(Opcode::Query, 1, &query(READ, LOCAL_QUORUM));
    refused_text_while_waiting(&mut bench);
    let mut config = Config::clone(&bench.common.settings.load());
    config.rules[0].in_flight = Some(2);
    bench.adopt_config(config.clone());
    bench.ask(Opcode::Query, 2, &query(WRITE, LOCAL_QUORUM));
    refused_text_while_waiting(&mut bench);
    let counts = bench.common.features.rules.list()[0].counts(bench.now);
    assert_eq!(
        (counts.matched, counts.refused, counts.in_flight),
        (4, 2, 2)
    );
    for (_, stream, _) in bench.at_node() {
        bench.say(Opcode::Result, stream, &no_rows("others", &COLUMNS));
    }
    assert_eq!(bench.answers().len(), 2);
    assert_eq!(bench.common.features.rules.list()[0].in_flight(), 0);
    config.rules[0].name = "another".to_owned();
    bench.adopt_config(config);
    let counts = bench.common.features.rules.list()[0].counts(bench.now);
    assert_eq!(counts, crate::features::rules::RuleCounts::default());
}

/// A statement is refused while an earlier request is still on its way to the node.
fn refused_text_while_waiting(bench: &mut Bench) {
    bench.ask(
        Opcode::Query,
        3,
        &query(
            "SELECT total FROM app.others WHERE customer = 3",
            LOCAL_QUORUM,
        ),
    );
    assert_eq!(bench.error().0, code::OVERLOADED);
}

#[test]
fn bytes_of_an_answer_are_charged_to_the_rules_of_all_that_share_it() {
    let limited = |name: &str, application: &str| RuleSettings {
        application: application.into(),
        bytes_per_second: Some(1_000),
        ..rule(name)
    };
    let mut bench = bench_of([limited("first", "a"), limited("second", "b")]);
    let others = [bench.another("a"), bench.another("b"), bench.another("b")];
    for client in others {
        bench.ask_as(client, Opcode::Query, 1, &query(READ, LOCAL_QUORUM));
    }
    let (_, stream, _) = bench.one_at_node();
    let large = rows("others", &COLUMNS, None, &[&[7; 3_000]]);
    bench.say(Opcode::Result, stream, &large);
    let bytes = |at: usize| {
        bench.common.features.rules.list()[at]
            .counts(bench.now)
            .bytes
    };
    let (first, second) = (bytes(0), bytes(1));
    assert!((3_000..3_300).contains(&first), "{first}");
    assert_eq!(second, 2 * first);
}

#[test]
fn what_is_owed_outlives_changes_of_other_settings() {
    let owing = RuleSettings {
        all: true,
        bytes_per_second: Some(1_000),
        requests_per_second: Some(0.001),
        ..rule("owing")
    };
    let mut bench = bench_of([owing]);
    let large = rows("others", &COLUMNS, None, &[&[7; 3_000]]);
    bench.ask(Opcode::Query, 1, &query(READ, LOCAL_QUORUM));
    let (_, stream, _) = bench.one_at_node();
    bench.say(Opcode::Result, stream, &large);
    assert_eq!(bench.answer().0, Opcode::Result);
    let mut config = Config::clone(&bench.common.settings.load());
    config.rules[0].in_flight = Some(9);
    bench.adopt_config(config.clone());
    let (_, said) = refused_text(&mut bench, READ);
    assert!(said.contains("bytes per second"), "{said}");
    config.rules[0].bytes_per_second = Some(2_000);
    bench.adopt_config(config.clone());
    let (_, said) = refused_text(&mut bench, READ);
    assert!(said.contains("0.001 such requests"), "{said}");
    config.rules[0].requests_per_second = Some(1.0);
    bench.adopt_config(config);
    passes_text(&mut bench, READ);
}

#[test]
fn what_may_define_something_is_not_given_up_by_a_rule() {
    let mut bench = bench_of([RuleSettings {
        all: true,
        timeout_ms: Some(200),
        ..rule("hurry")
    }]);
    for text in ["EXPLODE others", "CREATE TABLE app.new (k int PRIMARY KEY)"] {
        bench.ask(Opcode::Query, 1, &query(text, LOCAL_QUORUM));
        let (_, stream, _) = bench.one_at_node();
        bench.wait(Duration::from_secs(1));
        assert_eq!(bench.answers(), [], "{text}");
        bench.say(Opcode::Result, stream, &VOID);
        assert_eq!(bench.answer().0, Opcode::Result);
    }
    bench.ask(Opcode::Query, 1, &query(WRITE, LOCAL_QUORUM));
    bench.wait(Duration::from_millis(400));
    assert_eq!(bench.error().0, code::WRITE_TIMEOUT);
    let counts = bench.common.features.rules.list()[0].counts(bench.now);
    assert_eq!((counts.matched, counts.timed_out), (3, 1));
}
