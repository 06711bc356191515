use super::generate::Generator;
use super::*;
use crate::client::CqlType;
use rand::SeedableRng;

const GOOD: &str = "\
-- people
@let id = zipfian(1, 1000)   -- popular people
@let Name = text(5, 20)

@setup
CREATE TABLE IF NOT EXISTS app.people (
  id bigint PRIMARY KEY, -- a comment; with a semicolon
  name text);
@setup
INSERT INTO app.people (id, name) VALUES (0, 'a;b -- c ? :id');

@statement look-up weight=9
SELECT name FROM app.people WHERE id = :id;
@statement register
@values id, text(3), choice('x, y', 'it''s', 7)
INSERT INTO app.people (id, name, tag)
  VALUES (?, ?, ?);
SELECT count(*) FROM app.people WHERE m = {'a':true, 'b':1}; UPDATE app.people SET name = :name WHERE id = :ID IF name != :name;
";

#[test]
fn a_file_with_everything_is_read() {
    let script = parse(GOOD).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(script.setup.len(), 2);
    assert_eq!(script.setup[0].line, 6);
    assert!(!script.setup[0].cql.contains("semicolon"));
    assert!(script.setup[1].cql.ends_with("'a;b -- c ? :id')"));
    let seen: Vec<(&str, f64, usize, usize)> = script
        .statements
        .iter()
        .map(|each| {
            (
                &*each.name,
                each.weight,
                each.text.line,
                each.values.sources().len(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("look-up", 9.0, 13, 1),
            ("register", 1.0, 16, 3),
            ("statement 3", 1.0, 18, 0),
            ("statement 4", 1.0, 18, 2),
        ]
    );
}

#[test]
fn the_example_of_the_documentation_is_right() {
    let page = include_str!("../../../../../docs/load.md");
    let block = page.split("```").find(|block| block.contains("@let"));
    let script = parse(block.expect("an example")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((script.setup.len(), script.statements.len()), (1, 2));
}

#[test]
fn errors_have_their_line_and_say_what_to_do() {
    for (file, line, what) in [
        ("", 1, "no statement"),
        ("@setup\nCREATE x;", 1, "no statement"),
        ("\nSELECT 1", 2, "; is missing"),
        ("SELECT 'x;\n", 1, "never closed"),
        ("SELECT ?;", 1, "@values"),
        ("@let a = uniform(1,2)\nSELECT\n :b;", 3, "b is not defined"),
        (
            "@let a = uniform(1,2)\n@values a, a\nSELECT ?;",
            2,
            "2 values for 1 markers",
        ),
        (
            "@let a = uniform(1,2)\n@values a\nSELECT ?, :a;",
            3,
            "not both",
        ),
        ("@let a = uniform(2,1)\n", 1, "smaller"),
        ("@let a = uniform(1)\n", 1, "takes 2 arguments"),
        ("@let a = uniform('x',2)\n", 1, "whole numbers"),
        ("@let a = poisson(1)\n", 1, "unknown generator poisson"),
        ("@let a = uniform 1\n", 1, "not a generator"),
        ("@let a = choice()\n", 1, "at least one"),
        ("@let a = choice(1,,2)\n", 1, "between the commas"),
        ("@let a = choice('x)\n", 1, "not closed"),
        ("@let 1a = now()\n", 1, "not a valid name"),
        ("@let a = now()\n@let A = now()", 2, "twice"),
        ("@let a = text(-1)\n", 1, "lengths"),
        ("@let a = text(99999999999)\n", 1, "lengths"),
        ("@let a = gaussian(2,1)\n", 1, "smaller"),
        ("@let a = lognormal(1)\n", 1, "takes 2 arguments"),
        ("@let a = timeseries('yesterday', 5)\n", 1, "no moment"),
        ("@let a = timeseries(0, 0)\n", 1, "at least 1 ms"),
        ("@let a = timeseries(0)\n", 1, "takes 2 arguments"),
        ("@let a = recent(0)\n", 1, "above 0"),
        ("@lte a = now()", 1, "unknown directive @lte"),
        ("@statement\nSELECT 1;", 1, "@statement name"),
        ("@statement a weight=0\nSELECT 1;", 1, "weight"),
        ("@statement a b\nSELECT 1;", 1, "one name"),
        ("@statement a speed=1\nSELECT 1;", 1, "speed"),
        ("SELECT 1;\n@statement a", 2, "no statement follows"),
        (
            "@statement a\nSELECT 1;\n@statement a\nSELECT 2;",
            4,
            "second statement",
        ),
        ("@setup\nSELECT 2;\ncreate table x;", 3, "put @setup before"),
        ("@setup now\nSELECT 1;", 1, "no arguments"),
        ("@setup\nSELECT :a;", 2, "cannot have markers"),
        ("@setup\n@statement a\nSELECT 1;", 2, "cannot be combined"),
        ("SELECT 1;;", 1, "without a statement"),
    ] {
        let error = parse(file).expect_err(file);
        assert_eq!(error.line, line, "{file:?}: {error}");
        assert!(error.message.contains(what), "{file:?}: {error}");
    }
}

fn value(text: &str) -> Value {
    let (name, rest) = text.split_once('(').unwrap();
    let arguments = rest
        .trim_end_matches(')')
        .split(',')
        .filter(|a| !a.is_empty());
    let arguments = arguments.map(|a| Value::Integer(a.trim().parse().unwrap()));
    let generator = Generator::new(name, arguments.collect()).unwrap();
    generator.draw(&mut ChaCha8Rng::seed_from_u64(1))
}

#[test]
fn values_are_encoded_for_the_types_of_their_markers() {
    for (kind, bytes) in [
        (CqlType::TinyInt, &[200u8.wrapping_neg()][..]),
        (CqlType::SmallInt, &[0xFF, 0x38]),
        (CqlType::Int, &[0xFF, 0xFF, 0xFF, 0x38]),
        (
            CqlType::BigInt,
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x38],
        ),
        (CqlType::Varint, &[0xFF, 0x38]),
        (CqlType::Text, b"-200"),
    ] {
        let encoded = Value::Integer(-200).encode(kind);
        match kind {
            CqlType::TinyInt => assert!(encoded.is_err(), "-200 is no tinyint"),
            _ => assert_eq!(encoded.unwrap(), bytes, "{kind:?}"),
        }
    }
    for (value, bytes) in [
        (0, &[0][..]),
        (127, &[127]),
        (128, &[0, 128]),
        (-128, &[128]),
        (-1, &[255]),
    ] {
        assert_eq!(
            Value::Integer(value).encode(CqlType::Varint).unwrap(),
            bytes,
            "{value}"
        );
    }
    // 2000-01-01T00:00:01Z: day 10957 of the Unix era.
    let moment = Value::Timestamp(946_684_801_000);
    assert_eq!(
        moment.encode(CqlType::Date).unwrap(),
        (0x8000_0000u32 + 10_957).to_be_bytes()
    );
    assert_eq!(
        moment.encode(CqlType::Time).unwrap(),
        1_000_000_000i64.to_be_bytes()
    );
    assert_eq!(
        Value::Float(0.5).encode(CqlType::Float).unwrap(),
        0.5f32.to_be_bytes()
    );
    let error = Value::Text("x".into())
        .encode(CqlType::Int)
        .unwrap_err()
        .to_string();
    assert!(error.contains("text") && error.contains("Int"), "{error}");
    assert!(Value::Uuid([0; 16]).encode(CqlType::TimeUuid).is_err());
}

const RANGES: [&str; 6] = [
    "uniform",
    "zipfian",
    "gaussian",
    "lognormal",
    "exponential",
    "latest",
];

#[test]
fn generators_stay_in_their_ranges() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let draw = |name: &str, from: i64, to: i64, rng: &mut ChaCha8Rng| {
        let arguments = vec![Value::Integer(from), Value::Integer(to)];
        Generator::new(name, arguments).unwrap().draw(rng)
    };
    for _ in 0..1000 {
        for name in RANGES {
            let drawn = draw(name, -3, 4, &mut rng);
            assert!(matches!(drawn, Value::Integer(-3..=4)), "seed 2: {drawn:?}");
        }
        let Value::Text(text) = draw("text", 2, 5, &mut rng) else {
            panic!("no text")
        };
        assert!((2..=5).contains(&text.len()), "seed 2: {text}");
        let Value::Float(number) = draw("float", -1, 1, &mut rng) else {
            panic!("no number")
        };
        assert!((-1.0..=1.0).contains(&number), "seed 2: {number}");
    }
    // The whole range of a bigint must not overflow.
    for name in RANGES {
        draw(name, i64::MIN, i64::MAX, &mut rng);
    }
    let sequence = Generator::new("sequence", vec![Value::Integer(5)]).unwrap();
    assert_eq!(sequence.draw(&mut rng), Value::Integer(5));
    assert_eq!(sequence.draw(&mut rng), Value::Integer(6));
}

#[test]
fn uuids_carry_version_and_variant_and_time_uuids_the_time() {
    let Value::Uuid(random) = value("uuid()") else {
        panic!("no uuid")
    };
    assert_eq!((random[6] >> 4, random[8] >> 6), (4, 2));
    let Value::TimeUuid(timed) = value("timeuuid()") else {
        panic!("no timeuuid")
    };
    assert_eq!((timed[6] >> 4, timed[8] >> 6), (1, 2));
    let high = u64::from(u16::from_be_bytes([timed[6] & 0x0F, timed[7]]));
    let middle = u64::from(u16::from_be_bytes([timed[4], timed[5]]));
    let low = u64::from(u32::from_be_bytes([timed[0], timed[1], timed[2], timed[3]]));
    let ticks = high << 48 | middle << 32 | low;
    let Value::Timestamp(now_ms) = value("now()") else {
        panic!("no moment")
    };
    let apart_ms = ((ticks - 0x01B2_1DD2_1381_4000) / 10_000).abs_diff(now_ms as u64);
    assert!(apart_ms < 60_000, "{apart_ms} ms apart");
}

#[test]
fn markers_of_one_name_share_a_source_whatever_their_order() {
    let script = parse(GOOD).unwrap();
    let marker = |name: &str| BindMarker {
        name: name.into(),
        cql_type: Some(CqlType::Text),
    };
    let markers = [marker("name"), marker("id"), marker("name")];
    let update = &script.statements[3];
    assert_eq!(bind(update, &markers).unwrap(), [0, 1, 0]);
    let error = format!("{:#}", bind(update, &[marker("x")]).unwrap_err());
    assert!(
        error.contains("line 18") && error.contains("marker x"),
        "{error}"
    );
    let error = format!(
        "{:#}",
        bind(&script.statements[1], &markers[..2]).unwrap_err()
    );
    assert!(error.contains("2 markers"), "{error}");
}

#[test]
fn weights_divide_the_line_into_shares() {
    let pick = |point| weighted([9.0, 1.0, 2.0].into_iter(), point);
    assert_eq!(
        [0.0, 8.9, 9.0, 9.9, 10.0, 11.9, 12.0].map(pick),
        [0, 0, 1, 1, 2, 2, 2]
    );
}

#[test]
fn a_time_series_goes_on_step_by_step_and_recent_moments_are_past() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let start = |text: &str| {
        let arguments = vec![Value::Text(text.into()), Value::Integer(250)];
        Generator::new("timeseries", arguments).unwrap()
    };
    let series = start("2000-01-01T00:00:01Z");
    assert_eq!(series.draw(&mut rng), Value::Timestamp(946_684_801_000));
    assert_eq!(series.draw(&mut rng), Value::Timestamp(946_684_801_250));
    let day = start("2000-01-01").draw(&mut rng);
    assert_eq!(day, Value::Timestamp(946_684_800_000));

    let recent = Generator::new("recent", vec![Value::Integer(1_000)]).unwrap();
    let Value::Timestamp(before) = value("now()") else {
        panic!("no moment")
    };
    let mut ago_ms = 0;
    for _ in 0..2_000 {
        let Value::Timestamp(drawn) = recent.draw(&mut rng) else {
            panic!("no moment")
        };
        ago_ms += before - drawn;
    }
    // Ten standard deviations, and the time that the test takes.
    assert!(
        (-60_000..1_230).contains(&(ago_ms / 2_000)),
        "seed 3: {ago_ms}"
    );
    let Value::Timestamp(after) = value("now()") else {
        panic!("no moment")
    };
    let mean_ms = ago_ms / 2_000 + (after - before);
    assert!(mean_ms > 770, "seed 3: {mean_ms}");
}
