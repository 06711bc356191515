use super::*;

#[test]
fn what_a_rule_lacks_is_said() {
    let good = RuleSettings {
        name: "hot".to_owned(),
        keyspace: "app".into(),
        in_flight: Some(1),
        ..RuleSettings::default()
    };
    assert_eq!(problems(std::slice::from_ref(&good)), Vec::<String>::new());
    let with = |change: fn(&mut RuleSettings)| {
        let mut rule = good.clone();
        change(&mut rule);
        problems(&[rule]).join("; ")
    };
    for (change, why) in [
        (
            (|rule| rule.keyspace = Names::default()) as fn(&mut RuleSettings),
            "matches everything",
        ),
        (|rule| rule.in_flight = None, "limits nothing"),
        (
            |rule| rule.requests_per_second = Some(0.0),
            "requests_per_second",
        ),
        (
            |rule| rule.requests_per_second = Some(f64::NAN),
            "requests_per_second",
        ),
        (
            |rule| rule.key = vec!["1".to_owned()],
            "without one keyspace",
        ),
        (|rule| rule.name = String::new(), "no name"),
        (
            |rule| {
                rule.keyspace = Names::default();
                rule.token = Some(1);
                rule.table = "t".into();
            },
            "without its keyspace",
        ),
        (
            |rule| {
                rule.table = "t".into();
                rule.token = Some(1);
                rule.key = vec!["1".to_owned()];
            },
            "leave one out",
        ),
    ] {
        let said = with(change);
        assert!(said.contains(why), "{why}: {said}");
    }
    assert!(
        problems(&[good.clone(), good.clone()])
            .join("")
            .contains("rename")
    );
    let many: Vec<RuleSettings> = (0..=RULES_MAX)
        .map(|at| RuleSettings {
            name: at.to_string(),
            ..good.clone()
        })
        .collect();
    assert!(problems(&many).join("").contains("64 rules"));
}

#[test]
fn statements_are_the_same_whatever_their_white_space() {
    let written = plain("SELECT v FROM app.t WHERE k = ?");
    assert_eq!(plain("SELECT  v\nFROM app.t -- all\n WHERE k=? ;"), written);
    assert_ne!(plain("SELECT v FROM app.t WHERE k = 1"), written);
    assert_ne!(plain("SELECT 'a  b' FROM t"), plain("SELECT 'a b' FROM t"));
}

fn rule() -> RuleSettings {
    RuleSettings {
        name: "r".to_owned(),
        ..RuleSettings::default()
    }
}

#[test]
fn wrong_names_and_limits_are_told() {
    let few = RuleSettings {
        in_flight: Some(1),
        ..rule()
    };
    let all = RuleSettings {
        all: true,
        ..rule()
    };
    let level = |min: &str, max: &str| RuleSettings {
        consistency_min: Some(min.to_owned()),
        consistency_max: Some(max.to_owned()),
        ..all.clone()
    };
    for (rule, why) in [
        (
            RuleSettings {
                client: "10.0.0.0/33".into(),
                ..few.clone()
            },
            "no network",
        ),
        (
            RuleSettings {
                client: ["::1", "here"].into(),
                ..few.clone()
            },
            "\"here\"",
        ),
        (
            RuleSettings {
                class: ["scan", "scans"].into(),
                ..few.clone()
            },
            "none of read, point",
        ),
        (
            RuleSettings {
                role: "".into(),
                ..few.clone()
            },
            "an empty role",
        ),
        (
            RuleSettings {
                role: "a".into(),
                all: true,
                ..few.clone()
            },
            "leave one out",
        ),
        (few.clone(), "or all = true"),
        (all.clone(), "limits nothing"),
        (
            RuleSettings {
                deny: Some(" ".to_owned()),
                ..all.clone()
            },
            "empty deny",
        ),
        (
            RuleSettings {
                deny: Some("no".to_owned()),
                in_flight: Some(1),
                ..all.clone()
            },
            "denies all",
        ),
        (
            RuleSettings {
                bytes_per_second: Some(0),
                ..all.clone()
            },
            "bytes_per_second",
        ),
        (
            RuleSettings {
                timeout_ms: Some(99),
                ..all.clone()
            },
            "below 100",
        ),
        (
            RuleSettings {
                warn: true,
                last: true,
                ..all.clone()
            },
            "tried out",
        ),
        (
            RuleSettings {
                warn: true,
                timeout_ms: Some(100),
                ..all.clone()
            },
            "cannot be tried out",
        ),
        (
            RuleSettings {
                consistency_rewrite: true,
                last: true,
                ..all.clone()
            },
            "without consistency_min",
        ),
        (level("QUORUM", "ONE"), "above"),
        (level("MOST", "ALL"), "\"MOST\""),
        (level("SERIAL", "ALL"), "\"SERIAL\""),
        (level("ANY", "ANY"), "nothing can be read"),
        (
            RuleSettings {
                keyspace: ["a", "b"].into(),
                table: "t".into(),
                key: vec!["1".to_owned()],
                ..few.clone()
            },
            "without one keyspace",
        ),
        (
            RuleSettings {
                token: Some(1),
                deny: Some("no".to_owned()),
                ..rule()
            },
            "for one partition, which IN",
        ),
        (
            RuleSettings {
                token: Some(1),
                read_only: true,
                warn: true,
                ..rule()
            },
            "for one partition, which IN",
        ),
        (
            RuleSettings {
                keyspace: "ks".into(),
                table: "t".into(),
                key: vec!["1".to_owned()],
                consistency_max: Some("ONE".to_owned()),
                ..rule()
            },
            "for one partition, which IN",
        ),
        (
            RuleSettings {
                timeout_ms: Some(600_001),
                ..all.clone()
            },
            "above 600000",
        ),
        (
            RuleSettings {
                name: "ü".repeat(51),
                ..all.clone()
            },
            "102 bytes: shorten it to 100",
        ),
    ] {
        let said = problems(std::slice::from_ref(&rule)).join("; ");
        assert!(said.contains(why), "{why}: {said}");
    }
    for good in [
        level("ONE", "local_quorum"),
        RuleSettings {
            last: true,
            ..all.clone()
        },
        RuleSettings {
            client: ["10.0.0.0/8", "::1", "2001:db8::/32"].into(),
            ..few.clone()
        },
    ] {
        assert_eq!(problems(&[good]), Vec::<String>::new());
    }
}

#[test]
fn a_rule_covers_what_names_more() {
    let narrow = RuleSettings {
        role: "app".into(),
        client: "10.1.0.0/16".into(),
        keyspace: "ks".into(),
        table: "t".into(),
        class: "scan".into(),
        statement: Some("SELECT v FROM ks.t".to_owned()),
        ..rule()
    };
    let wide = RuleSettings {
        role: ["web", "app"].into(),
        client: ["192.168.0.0/16", "10.0.0.0/8"].into(),
        keyspace: ["ks", "other"].into(),
        class: ["scan", "write"].into(),
        ..rule()
    };
    assert!(wide.covers(&narrow) && !narrow.covers(&wide));
    assert!(rule().covers(&wide) && narrow.covers(&narrow));
    for other in [
        RuleSettings {
            role: "web".into(),
            ..rule()
        },
        RuleSettings {
            client: "10.2.0.0/16".into(),
            ..rule()
        },
        RuleSettings {
            driver: "d".into(),
            ..rule()
        },
        RuleSettings {
            class: "write".into(),
            ..rule()
        },
        RuleSettings {
            token: Some(1),
            ..rule()
        },
        RuleSettings {
            statement: Some("SELECT w FROM ks.t".to_owned()),
            ..rule()
        },
    ] {
        assert!(!other.covers(&narrow), "{other:?}");
    }
    let same = RuleSettings {
        statement: Some("select V from KS.t;".to_owned()),
        ..rule()
    };
    assert!(same.covers(&narrow));
    let of_class = |class: &str| RuleSettings {
        class: class.into(),
        ..rule()
    };
    for (wide, narrow) in [
        ("read", "filtering"),
        ("write", "batch"),
        ("write", "truncate"),
    ] {
        assert!(of_class(wide).covers(&of_class(narrow)), "{narrow}");
        assert!(!of_class(narrow).covers(&of_class(wide)), "{narrow}");
    }
    // The keyspaces of nodes about themselves are matched by name only.
    let system = RuleSettings {
        keyspace: "system_schema".into(),
        ..rule()
    };
    assert!(!rule().covers(&system) && system.covers(&system));
    let mapped = |client: &str| RuleSettings {
        client: client.into(),
        ..rule()
    };
    assert!(mapped("10.0.0.0/8").covers(&mapped("::ffff:10.1.0.0/112")));
}

#[test]
fn a_rules_time_is_no_longer_than_that_of_all_requests() {
    let slow = RuleSettings {
        timeout_ms: Some(5_000),
        ..rule()
    };
    let said = |most| problems_of_times(std::slice::from_ref(&slow), most);
    assert_eq!((said(None), said(Some(5_000))), (Vec::new(), Vec::new()));
    let late = said(Some(4_999)).join("");
    assert!(
        late.contains("rule \"r\"") && late.contains("4999"),
        "{late}"
    );
}

#[test]
fn statements_are_the_same_in_any_case_outside_of_quotes() {
    let written = plain("SELECT v FROM app.t WHERE k = 'A'");
    assert_eq!(
        plain("select V from \"app\" . \"t\" where K = 'A'"),
        written
    );
    assert_ne!(plain("SELECT v FROM app.t WHERE k = 'a'"), written);
    assert_ne!(plain("SELECT v FROM app.\"T\" WHERE k = 'A'"), written);
}
