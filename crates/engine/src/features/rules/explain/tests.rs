use helenus_wire::Version;

use super::*;
use crate::testing::bench::Bench;

fn asked(rules: Vec<RuleSettings>, question: Question) -> Explanation {
    let mut config = Config {
        rules,
        ..Config::default()
    };
    config.aggregation.lwt_turns = true;
    let bench = Bench::with(Config::default(), (Version::V5, Version::V5));
    let snapshot = bench.common.snapshot.load();
    explain(&config, &snapshot, &question, bench.now).expect("an explanation")
}

fn of(text: &str) -> Question {
    Question {
        text: text.to_owned(),
        ..Question::default()
    }
}

fn rule(name: &str) -> RuleSettings {
    RuleSettings {
        name: name.to_owned(),
        ..RuleSettings::default()
    }
}

#[test]
fn it_says_where_a_statement_goes_and_how() {
    let point = asked(
        vec![],
        of("SELECT total FROM app.others WHERE customer = 1"),
    );
    assert_eq!((point.kind, point.class), ("SELECT", "point"));
    assert_eq!(point.tables, ["app.others"]);
    assert_eq!(point.rule_classes, ["read", "point"]);
    assert_eq!(point.route, "to an owner of its partition");
    assert_eq!(point.outcome, "passes: no rule matches it");
    assert!(point.is_idempotent);
    for (text, route, execution) in [
        (
            "SELECT total FROM app.others WHERE customer = ?",
            "if the values",
            "in one",
        ),
        (
            "SELECT total FROM app.others",
            "customer",
            "in sub-pages; pages of 1000 rows",
        ),
        (
            "SELECT total FROM app.others WHERE total = 1 ALLOW FILTERING",
            "any node",
            "sequential ranges",
        ),
        ("SELECT count(*) FROM app.others", "any node", "aggregate"),
        (
            "SELECT total FROM app.others GROUP BY customer",
            "any node",
            "cannot be cut",
        ),
        (
            "SELECT customer FROM app.others WHERE customer IN (?, ?)",
            "owners",
            "asked of their owners",
        ),
        (
            "UPDATE app.others SET total = 1 WHERE customer = 1 IF total = 2",
            "owner",
            "turn",
        ),
        ("SELECT * FROM app.missing", "not known", "in one"),
        (
            "SELECT * FROM system_schema.tables",
            "control connection",
            "in one",
        ),
        (
            "BEGIN BATCH INSERT INTO app.others (customer) VALUES (1) APPLY BATCH",
            "owner",
            "in one",
        ),
    ] {
        let found = asked(vec![], of(text));
        assert!(found.route.contains(route), "{text}: {}", found.route);
        assert!(
            found.execution.contains(execution),
            "{text}: {}",
            found.execution
        );
    }
    let odd = asked(vec![], of("EXPLODE"));
    assert_eq!((odd.kind, odd.class), ("not understood", "other"));
    let unqualified = asked(vec![], of("SELECT * FROM others"));
    assert!(
        unqualified
            .notes
            .iter()
            .any(|note| note.contains("--keyspace"))
    );
    let in_force = Question {
        keyspace: Some("app".to_owned()),
        ..of("SELECT * FROM others")
    };
    assert_eq!(asked(vec![], in_force).tables, ["app.others"]);
    let missing = asked(vec![], of("SELECT * FROM app.missing"));
    assert!(
        missing
            .notes
            .iter()
            .any(|note| note == "there is no table app.missing")
    );
}

#[test]
fn it_says_which_rules_match_and_what_they_do() {
    let rules = vec![
        RuleSettings {
            role: "reporting".into(),
            class: "scan".into(),
            in_flight: Some(4),
            ..rule("few scans")
        },
        RuleSettings {
            client: "10.0.0.0/8".into(),
            last: true,
            ..rule("inside")
        },
        RuleSettings {
            class: "filtering".into(),
            deny: Some("add an index".to_owned()),
            ..rule("no filtering")
        },
        RuleSettings {
            all: true,
            consistency_min: Some("QUORUM".to_owned()),
            warn: true,
            ..rule("trial")
        },
        RuleSettings {
            keyspace: "other".into(),
            in_flight: Some(1),
            ..rule("of another")
        },
    ];
    let text = "SELECT total FROM app.others WHERE total = 1 ALLOW FILTERING";
    let names = |of: &Explanation| {
        of.rules
            .iter()
            .map(|rule| rule.name.clone())
            .collect::<Vec<_>>()
    };
    let open = asked(rules.clone(), of(text));
    assert_eq!(
        names(&open),
        ["few scans", "inside", "no filtering", "trial"]
    );
    assert_eq!(open.rules[0].only_for, ["role reporting"]);
    assert_eq!(open.rules[0].does, ["4 requests at a time"]);
    assert!(
        open.rules[2].does[0].contains("UNAUTHORIZED")
            && open.rules[2].does[0].contains("add an index")
    );
    assert!(open.rules[3].is_tried_out && open.rules[3].does[0].contains("INVALID"));
    assert!(
        open.outcome
            .contains("UNAUTHORIZED by rule \"no filtering\""),
        "{}",
        open.outcome
    );
    let inside = Question {
        role: Some("app".to_owned()),
        client: Some([10, 1, 2, 3].into()),
        consistency: Some("all".to_owned()),
        ..of(text)
    };
    let inside = asked(rules.clone(), inside);
    assert_eq!(names(&inside), ["inside"]);
    assert_eq!(inside.outcome, "passes, within the limits of these rules");
    let outside = Question {
        role: Some("reporting".to_owned()),
        client: Some([11, 1, 2, 3].into()),
        ..of("SELECT total FROM app.others")
    };
    assert_eq!(names(&asked(rules, outside)), ["few scans", "trial"]);
    let wrong = Question {
        consistency: Some("MOST".to_owned()),
        ..of(text)
    };
    let bench = Bench::with(Config::default(), (Version::V5, Version::V5));
    let snapshot = bench.common.snapshot.load();
    let why = explain(&Config::default(), &snapshot, &wrong, bench.now).expect_err("no level");
    assert!(why.contains("MOST"), "{why}");
}

#[test]
fn it_says_what_each_rule_would_do_to_it() {
    let level = |name: &str, min: Option<&str>, max: Option<&str>| RuleSettings {
        all: true,
        consistency_min: min.map(str::to_owned),
        consistency_max: max.map(str::to_owned),
        consistency_rewrite: true,
        ..rule(name)
    };
    let rules = vec![
        RuleSettings {
            all: true,
            read_only: true,
            ..rule("reads")
        },
        level("floor", Some("QUORUM"), None),
        RuleSettings {
            all: true,
            timeout_ms: Some(500),
            ..rule("hurry")
        },
        level("ceiling", None, Some("ALL")),
    ];
    let does = |of: &Explanation| -> Vec<String> {
        of.rules.iter().map(|rule| rule.does.join("; ")).collect()
    };
    let read = asked(rules.clone(), of("SELECT total FROM app.others"));
    assert_eq!(
        does(&read),
        [
            "passes, as it only reads",
            "carried out at QUORUM",
            "given up after 500 ms",
            "passes at QUORUM"
        ]
    );
    // Even those behind one that refuses it.
    let odd = asked(rules.clone(), of("EXPLODE others"));
    let odd = does(&odd);
    assert!(odd[0].contains("lets only reads pass"), "{odd:?}");
    assert_eq!(odd[2], "", "it might define something");
    // One after the other, they want what cannot be.
    let mut contrary = rules;
    contrary[3] = level("ceiling", None, Some("ONE"));
    let read = asked(contrary, of("SELECT total FROM app.others"));
    assert_eq!(read.outcome, "refused with INVALID by rule \"ceiling\"");
    assert!(does(&read)[3].contains("which rule \"floor\" does not allow"));
}
