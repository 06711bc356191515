//! Compares our statement facts with Cassandra's own parser, statement by statement.
//!
//! Every statement that Cassandra accepts must be understood by us, and alike. What Cassandra
//! refuses says nothing about the facts, as it never runs. Needs Java 11 or later and Cassandra's
//! jars; without them these tests fail and say how to get them.

mod generator;
mod oracle;
mod render;

use std::fs;
use std::path::Path;

use generator::Generator;
use helenus_cql::{Facts, Kind, encode_literal, facts};
use oracle::ask;
use serde_json::Value;

const GENERATED: usize = 30_000;
const MUTATED_EACH: usize = 1;

#[test]
fn the_corpus_reads_as_cassandra_reads_it() {
    let mut statements = Vec::new();
    let mut refused = Vec::new();
    for (file, text) in corpus_files() {
        let into = if file == "refused.cql" {
            &mut refused
        } else {
            &mut statements
        };
        into.extend(split(&text));
    }
    assert!(statements.len() > 300, "the corpus is gone");
    let answers = ask(&statements).unwrap();
    let unexpected: Vec<String> = statements
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| answer["ok"] != true)
        .map(|(statement, answer)| format!("{statement}: {}", answer["error"]))
        .collect();
    assert!(
        unexpected.is_empty(),
        "Cassandra refuses:\n{}",
        unexpected.join("\n")
    );
    compare("corpus", &statements, &answers, statements.len());
    let accepted: Vec<&String> = refused
        .iter()
        .zip(ask(&refused).unwrap())
        .filter(|(_, answer)| answer["ok"] == true)
        .map(|(statement, _)| statement)
        .collect();
    assert!(accepted.is_empty(), "Cassandra accepts: {accepted:#?}");
}

#[test]
fn generated_statements_read_as_cassandra_reads_them() {
    let seed = seed();
    println!("seed {seed} (set HELENUS_SEED to replay)");
    let mut generator = Generator::new(seed);
    let mut statements = Vec::new();
    for _ in 0..GENERATED {
        let statement = generator.statement();
        for _ in 0..MUTATED_EACH {
            statements.push(generator.mutate(&statement));
        }
        statements.push(statement);
    }
    // NUL separates the statements for the oracle, and U+0001 marks its other kind of question.
    statements.retain(|s| !s.contains('\0') && !s.starts_with('\u{1}'));
    let answers = ask(&statements).unwrap();
    compare("generated", &statements, &answers, GENERATED * 9 / 10);
}

#[test]
fn literals_encode_as_cassandra_stores_them() {
    const TYPES: [&str; 19] = [
        "ascii",
        "bigint",
        "blob",
        "boolean",
        "counter",
        "decimal",
        "double",
        "float",
        "inet",
        "int",
        "smallint",
        "text",
        "timestamp",
        "tinyint",
        "uuid",
        "varchar",
        "varint",
        "timeuuid",
        "date",
    ];
    let seed = seed();
    println!("seed {seed} (set HELENUS_SEED to replay)");
    let mut generator = Generator::new(seed);
    let mut questions = Vec::new();
    for _ in 0..600 {
        let literal = generator.literal();
        for ty in TYPES.into_iter().chain(["time"]) {
            questions.push((ty, literal.clone()));
        }
    }
    for literal in LITERALS {
        for ty in TYPES.into_iter().chain(["time"]) {
            questions.push((ty, literal.to_string()));
        }
    }
    let asked: Vec<String> = questions
        .iter()
        .map(|(ty, literal)| format!("\u{1}{ty}\u{1}{literal}"))
        .collect();
    let (mut same, mut unsure) = (0, 0);
    let mut wrong = Vec::new();
    for ((ty, literal), answer) in questions.iter().zip(ask(&asked).unwrap()) {
        let read = facts(&format!("SELECT a FROM t WHERE k = {literal}"));
        let ours = match read.key_terms.first().map(|key| &key.term) {
            Some(helenus_cql::Term::Literal(literal)) => encode_literal(literal, ty),
            _ => None,
        };
        let ours = ours.map(|bytes| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>());
        match (ours, answer["bytes"].as_str()) {
            (Some(ours), Some(theirs)) if ours == theirs => same += 1,
            (Some(ours), theirs) => wrong.push(format!("{ty} {literal}: {ours}, not {theirs:?}")),
            (None, Some(_)) => unsure += 1,
            (None, None) => {}
        }
    }
    println!(
        "{same} literals alike, {unsure} left to Cassandra, {} wrong",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(same > 1000, "hardly anything was compared");
}

/// Spellings at the edges of their types.
const LITERALS: &[&str] = &[
    "0",
    "-0",
    "127",
    "128",
    "-128",
    "-129",
    "255",
    "256",
    "32767",
    "32768",
    "-32768",
    "-32769",
    "2147483647",
    "2147483648",
    "-2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "007",
    "-007",
    "4294967295",
    "4294967296",
    "170141183460469231731687303715884105728",
    "-170141183460469231731687303715884105729",
    "123456789012345678901234567890123456789012345678901234567890",
    "1.0",
    "1.",
    "1.e5",
    "-1.50",
    "1e10",
    "1E-10",
    "0.0",
    "-0.0",
    "00.10",
    "1e400",
    "1e-400",
    "3.4028236e38",
    "NaN",
    "-NaN",
    "nan",
    "Infinity",
    "-Infinity",
    "-iNFINITY",
    "true",
    "FALSE",
    "0x",
    "0X00fF",
    "0x0",
    "''",
    "'x'",
    "'it''s'",
    "$$a'b$$",
    "'é'",
    "'127.0.0.1'",
    "'::1'",
    "'::ffff:1.2.3.4'",
    "'256.0.0.1'",
    "'1.2.3'",
    "'localhost'",
    "'2020-02-29'",
    "'2021-02-29'",
    "'1969-12-31'",
    "'-0001-01-01'",
    "'10000-01-01'",
    "'2020-1-1'",
    "'0001-01-01'",
    "'00:00:00'",
    "'23:59:59.999999999'",
    "'12:34'",
    "'24:00:00'",
    "'12:34:56.7'",
    "'1:2:3'",
    "'2020-02-29T12:00:00Z'",
    "'2020-02-29 12:00:00+0100'",
    "'2020-02-29 12:00:00.123+01:30'",
    "'2020-02-29 12:00Z'",
    "'2020-02-29'",
    "'1600000000000'",
    "'2020-02-29 12:00:00'",
    "'2020-02-29T12:00:00.1234Z'",
    "'2020-02-29T12:00:00.1-08'",
    "550e8400-e29b-41d4-a716-446655440000",
    "d2177dd0-eaa2-11de-a572-001b779c76e3",
    "D2177DD0-EAA2-11DE-A572-001B779C76E3",
    "1h",
    "P1D",
];

fn compare(what: &str, statements: &[String], answers: &[Value], least: usize) {
    let (mut compared, mut repeatable, mut too_careful) = (0, 0, 0);
    let mut wrong = Vec::new();
    for (statement, answer) in statements.iter().zip(answers) {
        assert!(answer["broken"].is_null(), "the oracle failed: {answer}");
        let ours = facts(statement);
        if answer["ok"] != true {
            continue;
        }
        compared += 1;
        let differences = render::differences(&ours, answer);
        if !differences.is_empty() {
            wrong.push(format!("{statement}\n    {}", differences.join("\n    ")));
        }
        for (inner, answer) in modifications(&ours, answer) {
            let may_repeat = answer["repeatable"] == true && answer["lwt"] == false;
            repeatable += usize::from(inner.idempotent_but_for_lists);
            too_careful += usize::from(may_repeat && !inner.idempotent_but_for_lists);
            if inner.idempotent_but_for_lists && !may_repeat {
                wrong.push(format!("{statement}\n    called idempotent"));
            }
        }
        if ours.kind == Kind::Batch && ours.idempotent_but_for_lists && answer["batch"] == "COUNTER"
        {
            wrong.push(format!("{statement}\n    counter batch called idempotent"));
        }
    }
    println!(
        "{what}: {} statements, {compared} accepted by Cassandra and compared, {} disagreements; \
         {repeatable} modifications idempotent, {too_careful} more could be",
        statements.len(),
        wrong.len()
    );
    let shown = wrong.len().min(40);
    assert!(
        wrong.is_empty(),
        "{} disagreements:\n{}",
        wrong.len(),
        wrong[..shown].join("\n")
    );
    assert!(
        compared >= least,
        "only {compared} of at least {least} compared"
    );
}

fn modifications<'a>(ours: &'a Facts, answer: &'a Value) -> Vec<(&'a Facts, &'a Value)> {
    match (ours.kind, answer["inner"].as_array()) {
        (Kind::Batch, Some(inner)) => ours.inner.iter().zip(inner).collect(),
        (Kind::Insert | Kind::Update | Kind::Delete, _) => vec![(ours, answer)],
        _ => Vec::new(),
    }
}

fn corpus_files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cql-corpus");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "cql"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Statements are separated by lines of `%%` where a file has such lines, else one is one line.
fn split(text: &str) -> Vec<String> {
    let parts: Vec<&str> = if text.contains("\n%%\n") {
        text.split("\n%%\n").collect()
    } else {
        text.lines().collect()
    };
    parts
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .map(str::to_owned)
        .collect()
}

fn seed() -> u64 {
    match std::env::var("HELENUS_SEED") {
        Ok(seed) => seed.parse().expect("HELENUS_SEED must be a number"),
        Err(_) => rand::random(),
    }
}
