use std::time::Duration;

use helenus_policy::token::murmur3_token;
use helenus_wire::{Opcode, Version, code};

use super::*;
use crate::config::Config;
use crate::shared::WorkerMessage;
use crate::testing::bench::{Asking, BIGINT, Bench, Spec, no_rows};

const SELECT: &str = "SELECT total FROM app.others WHERE customer = ?";
const ID: &[u8] = &[1; 16];
const MARKERS: [Spec; 1] = [("customer", BIGINT)];
const COLUMNS: [Spec; 1] = [("total", BIGINT)];

fn bench(rule: RuleSettings) -> Bench {
    bench_of(vec![rule])
}

fn bench_of(rules: Vec<RuleSettings>) -> Bench {
    let config = Config {
        rules,
        ..Config::default()
    };
    let mut bench = Bench::with(config, (Version::V5, Version::V5));
    bench.adopt_none();
    bench.wait(Duration::from_millis(100));
    bench.prepare_read_of(("app", "others"), SELECT, ID, &MARKERS, &COLUMNS);
    bench
}

fn of_table() -> RuleSettings {
    RuleSettings {
        name: "others".to_owned(),
        keyspace: "app".into(),
        table: "others".into(),
        ..RuleSettings::default()
    }
}

fn ask(bench: &mut Bench, stream: i16, customer: i64) {
    let asking = Asking {
        values: &[&customer.to_be_bytes()],
        ..Asking::default()
    };
    bench.ask(Opcode::Execute, stream, &asking.execute(Version::V5, ID));
}

/// Answers all that the node has been sent; how many that were.
fn serve(bench: &mut Bench) -> usize {
    let asked = bench.at_node();
    for (_, stream, _) in &asked {
        bench.say(Opcode::Result, *stream, &no_rows("others", &COLUMNS));
    }
    asked.len()
}

#[test]
fn what_is_too_much_at_a_time_is_overloaded_by_the_rules_name_and_places_come_back() {
    let mut bench = bench(RuleSettings {
        in_flight: Some(2),
        ..of_table()
    });
    for stream in 1..=3 {
        ask(&mut bench, stream, stream.into());
    }
    let (code, text) = bench.error();
    assert_eq!(code, code::OVERLOADED);
    assert!(
        text.contains("\"others\" allows 2 such requests at a time"),
        "{text}"
    );
    let rule = bench.common.features.rules.list().remove(0);
    assert_eq!(
        (rule.in_flight(), bench.engine.leak_check().len() > 1),
        (2, true)
    );
    assert_eq!(serve(&mut bench), 2);
    assert_eq!(bench.answers().len(), 2);
    assert_eq!(rule.in_flight(), 0);
    ask(&mut bench, 4, 4);
    assert_eq!(serve(&mut bench), 1);
    assert_eq!(bench.answer().0, Opcode::Result);
    let counts = rule.counts(bench.now);
    assert_eq!((counts.matched, counts.refused), (4, 1));
    bench.is_done();
}

#[test]
fn a_read_that_shares_anothers_answer_takes_no_place() {
    let mut bench = bench(RuleSettings {
        in_flight: Some(2),
        ..of_table()
    });
    for stream in 1..=2 {
        ask(&mut bench, stream, 7);
    }
    assert_eq!(bench.common.features.rules.list()[0].in_flight(), 1);
    assert_eq!(serve(&mut bench), 1);
    assert_eq!(bench.answers().len(), 2);
    bench.is_done();
}

#[test]
fn a_client_that_leaves_gives_its_places_back() {
    let mut bench = bench(RuleSettings {
        in_flight: Some(2),
        ..of_table()
    });
    ask(&mut bench, 1, 1);
    bench.leave();
    let rule = bench.common.features.rules.list().remove(0);
    serve(&mut bench);
    bench.wait(Duration::from_millis(300));
    assert_eq!(rule.in_flight(), 0);
}

#[test]
fn a_rate_is_kept_and_recovers() {
    let mut bench = bench(RuleSettings {
        requests_per_second: Some(20.0),
        ..of_table()
    });
    // Two in a tenth of a second, and the one that is due.
    for stream in 1..=4 {
        ask(&mut bench, stream, stream.into());
    }
    let (code, text) = bench.error();
    assert_eq!(code, code::OVERLOADED);
    assert!(
        text.contains("allows 20 such requests per second"),
        "{text}"
    );
    assert_eq!(serve(&mut bench), 3);
    assert_eq!(bench.answers().len(), 3);
    bench.wait(Duration::from_millis(100));
    ask(&mut bench, 5, 5);
    assert_eq!(serve(&mut bench), 1);
}

#[test]
fn a_partition_is_named_by_its_values_or_by_its_token() {
    let token = murmur3_token(&5_i64.to_be_bytes());
    let by_key = RuleSettings {
        key: vec!["5".to_owned()],
        ..of_table()
    };
    let by_token = RuleSettings {
        token: Some(token),
        ..RuleSettings {
            name: "token".to_owned(),
            ..RuleSettings::default()
        }
    };
    for rule in [by_key, by_token] {
        let mut bench = bench(RuleSettings {
            in_flight: Some(0),
            ..rule
        });
        ask(&mut bench, 1, 5);
        assert_eq!(bench.error().0, code::OVERLOADED);
        ask(&mut bench, 2, 6);
        assert_eq!(serve(&mut bench), 1);
    }
}

#[test]
fn a_statement_is_known_whatever_its_white_space_and_others_are_not_meant() {
    for (statement, meant) in [
        ("SELECT  total FROM app.others\nWHERE customer=?;", true),
        ("SELECT total FROM app.others WHERE customer = 5", false),
    ] {
        let mut bench = bench(RuleSettings {
            name: "statement".to_owned(),
            statement: Some(statement.to_owned()),
            in_flight: Some(0),
            ..RuleSettings::default()
        });
        ask(&mut bench, 1, 5);
        assert_eq!(serve(&mut bench), usize::from(!meant), "{statement}");
    }
}

#[test]
fn other_tables_and_rules_that_name_nothing_there_is_change_nothing() {
    let other_table = RuleSettings {
        table: "orders".into(),
        ..of_table()
    };
    let no_table = RuleSettings {
        table: "missing".into(),
        key: vec!["5".to_owned()],
        ..of_table()
    };
    let wrong_literal = RuleSettings {
        key: vec!["5 AND x = 6".to_owned()],
        ..of_table()
    };
    for rule in [other_table, no_table, wrong_literal] {
        let mut bench = bench(RuleSettings {
            in_flight: Some(0),
            ..rule
        });
        ask(&mut bench, 1, 5);
        assert_eq!(serve(&mut bench), 1);
    }
}

#[test]
fn what_one_rule_refuses_uses_up_no_other() {
    let all = RuleSettings {
        name: "all".to_owned(),
        requests_per_second: Some(20.0),
        ..RuleSettings::default()
    };
    let one = RuleSettings {
        in_flight: Some(1),
        ..of_table()
    };
    let mut bench = bench_of(vec![all, one]);
    ask(&mut bench, 1, 1);
    for stream in 2..50 {
        ask(&mut bench, stream, 1);
        let (_, text) = bench.error();
        assert!(text.contains("\"others\" allows 1"), "{stream}: {text}");
    }
    assert_eq!(serve(&mut bench), 1);
    assert_eq!(bench.answers().len(), 1);
    ask(&mut bench, 50, 1);
    assert_eq!(serve(&mut bench), 1);
}

#[test]
fn rules_change_while_requests_are_under_way() {
    let rule = RuleSettings {
        in_flight: Some(1),
        ..of_table()
    };
    let mut bench = bench(rule.clone());
    ask(&mut bench, 1, 1);
    let before = bench.common.features.rules.list().remove(0);
    let mut config = Config::clone(&bench.common.settings.load());
    let adopt = |bench: &mut Bench, config: &Config| {
        let config = Arc::new(config.clone());
        bench.common.adopt_settings(config.clone(), bench.now);
        let message = WorkerMessage::Settings(config);
        bench.engine.on_message(bench.now, message);
    };
    // An unchanged rule keeps its places, another is a new one.
    adopt(&mut bench, &config);
    ask(&mut bench, 2, 2);
    assert_eq!(bench.error().0, code::OVERLOADED);
    config.rules[0].in_flight = Some(2);
    adopt(&mut bench, &config);
    ask(&mut bench, 3, 3);
    config.rules.clear();
    adopt(&mut bench, &config);
    ask(&mut bench, 4, 4);
    assert_eq!(serve(&mut bench), 3);
    assert_eq!(before.in_flight(), 0);
    assert!(bench.common.features.rules.list().is_empty());
}

#[test]
fn workers_that_are_told_of_quick_reloads_late_have_the_same_rules() {
    let rule = RuleSettings {
        in_flight: Some(1),
        ..of_table()
    };
    let mut bench = bench(rule.clone());
    let first = Arc::new(Config::clone(&bench.common.settings.load()));
    let mut config = Config::clone(&first);
    config.rules[0].in_flight = Some(9);
    let second = Arc::new(config);
    // Two reloads before this worker is told of the first, after another worker is told of both.
    bench.common.adopt_settings(second.clone(), bench.now);
    bench.common.adopt_settings(first.clone(), bench.now);
    let of_another = bench.common.features.rules.list().remove(0);
    assert_eq!(of_another.settings, rule);
    for config in [second, first] {
        bench
            .engine
            .on_message(bench.now, WorkerMessage::Settings(config));
        ask(&mut bench, 1, 1);
        assert_eq!(of_another.in_flight(), 1);
        assert_eq!(serve(&mut bench), 1);
        assert_eq!(bench.answer().0, Opcode::Result);
    }
    let shown = bench.common.features.rules.list().remove(0);
    assert!(Arc::ptr_eq(&shown, &of_another));
}

#[test]
fn what_a_key_lacks_is_said() {
    let bench = bench(of_table_limited());
    let snapshot = bench.common.snapshot.load();
    let token = |key: &[&str], table: &str| {
        let settings = RuleSettings {
            key: key.iter().map(|of| (*of).to_owned()).collect(),
            table: table.into(),
            ..of_table()
        };
        Rule::new(settings, bench.now).token(&snapshot)
    };
    let five = murmur3_token(&5_i64.to_be_bytes());
    assert_eq!(token(&["5"], "others"), Ok(Some(five)));
    for (key, table, why) in [
        (&["5"][..], "missing", "no table"),
        (&["5", "6"], "others", "has 1 columns"),
        (&["'five'"], "others", "no literal of type bigint"),
        (&["5 AND x = 6"], "others", "no literal"),
        (&[""], "others", "no literal"),
    ] {
        let said = token(key, table).expect_err(why);
        assert!(said.contains(why), "{said}");
    }
}

fn of_table_limited() -> RuleSettings {
    RuleSettings {
        in_flight: Some(9),
        ..of_table()
    }
}

#[test]
fn limits_of_roles_match_nobody_where_roles_cannot_be_told() {
    let limited = RuleSettings {
        role: "app".into(),
        ..of_table_limited()
    };
    let forbidding = RuleSettings {
        in_flight: None,
        read_only: true,
        ..limited.clone()
    };
    let bench = bench(of_table_limited());
    let why = |class: &str, settings: &RuleSettings| {
        let mut asked = (class.len() as u16).to_be_bytes().to_vec();
        asked.extend(class.bytes());
        let snapshot = bench.common.snapshot.load().successor();
        let snapshot = snapshot.authenticate(Some(asked)).build();
        Rule::new(settings.clone(), bench.now).never_matches(&snapshot)
    };
    let password = "org.apache.cassandra.auth.PasswordAuthenticator";
    assert_eq!(why(password, &limited), None);
    assert_eq!(why("com.example.Own", &forbidding), None);
    let said = why("com.example.Own", &limited).expect("a reason");
    assert!(said.contains("authenticator"), "{said}");
}

#[test]
fn what_an_exception_ends_is_told() {
    let exception = RuleSettings {
        name: "exception".to_owned(),
        class: "read".into(),
        last: true,
        ..RuleSettings::default()
    };
    let behind = |class: &str| RuleSettings {
        name: class.to_owned(),
        class: class.into(),
        in_flight: Some(1),
        ..RuleSettings::default()
    };
    let rules = Rules::default();
    let all = [exception, behind("filtering"), behind("write")];
    rules.publish(&all, crate::testing::begin());
    let rules = rules.list();
    let told: Vec<bool> = rules
        .iter()
        .map(|rule| shadowed_by(rule, &rules).is_some())
        .collect();
    assert_eq!(told, [false, true, false]);
}
