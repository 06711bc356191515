//! Whatever comes in: no panic, consistent facts, linear time.

use std::time::{Duration, Instant};

use helenus_cql::lexer::Lexer;
use helenus_cql::{Facts, Kind, Term, encode_literal, facts};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SEEDS: &[&str] = &[
    "SELECT a AS b, count(*), m['k'] FROM \"Ks\".t WHERE k = ? AND (c, d) > (?, :x) AND token(k) < 5 \
     AND e IN ('it''s', $$x$$) GROUP BY a ORDER BY v ANN OF [1.5, -2] PER PARTITION LIMIT 1 LIMIT :l ALLOW FILTERING",
    "BEGIN UNLOGGED BATCH USING TIMESTAMP ? INSERT INTO t (a, b) VALUES (0xCAFE, {x: :y, 'z': 1h30m}) IF NOT EXISTS; \
     UPDATE t SET a = a + 1, b[?] = 2, c = [1] + c WHERE k = 550e8400-e29b-41d4-a716-446655440000 IF b >= ?; \
     DELETE a[1], b.c FROM t WHERE k = ? APPLY BATCH;",
    "CREATE MATERIALIZED VIEW ks.v AS SELECT a FROM t WHERE a IS NOT NULL PRIMARY KEY (a)",
    "INSERT INTO t JSON '{\"é\": 1}' DEFAULT UNSET USING TTL 5 AND TIMESTAMP ?",
];

const PIECES: &[&str] = &[
    "'",
    "\"",
    "$$",
    "$",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ";",
    "?",
    ":",
    ":x",
    "--",
    "/*",
    "*/",
    "//",
    "\n",
    "é",
    "µ",
    "12µs",
    "P1D",
    "0x",
    "1e",
    "-",
    "-nan",
    "..",
    "1..",
    " AND ",
    " IF ",
    " IN ",
    " SET ",
    " WHERE ",
    " FROM ",
    " SELECT ",
    " token(",
    "\0",
    "\u{10FFFF}",
    "=",
    "+",
    "now()",
];

/// The facts must agree with each other and with the text.
fn check(text: &str, f: &Facts, markers: u16) {
    let in_text = |span: &std::ops::Range<usize>| {
        assert!(text.get(span.clone()).is_some(), "{span:?} of {text:.200}");
    };
    in_text(&f.spans.statement);
    let spans = [
        &f.span_where,
        &f.spans.table,
        &f.spans.selection,
        &f.spans.where_clause,
        &f.spans.group_by,
        &f.spans.order_by,
        &f.spans.per_partition_limit,
        &f.spans.limit,
        &f.spans.allow_filtering,
        &f.spans.using,
    ];
    spans.into_iter().flatten().for_each(in_text);
    assert!(f.markers <= markers, "{text:.200}");
    assert!(
        f.named_markers.len() <= usize::from(f.markers),
        "{text:.200}"
    );
    assert!(f.named_markers.iter().all(|(_, index)| *index < markers));
    for key in &f.key_terms {
        match &key.term {
            Term::Marker(index) | Term::NamedMarker(index) => {
                assert!(*index < markers, "{text:.200}")
            }
            Term::Literal(literal) => {
                for ty in [
                    "int",
                    "text",
                    "decimal",
                    "varint",
                    "timestamp",
                    "date",
                    "inet",
                    "uuid",
                ] {
                    let _ = encode_literal(literal, ty);
                }
            }
            Term::Other => {}
        }
    }
    if let Some(select) = &f.select {
        select
            .tokens
            .iter()
            .for_each(|relation| in_text(&relation.span));
        select
            .ins
            .iter()
            .for_each(|relation| in_text(&relation.span));
        select
            .ranges
            .iter()
            .for_each(|relation| in_text(&relation.span));
    }
    assert!(
        !(f.idempotent_but_for_lists && (f.lwt || f.counterish)),
        "{text:.200}"
    );
    assert!(f.kind == Kind::Batch || f.inner.is_empty());
    assert!(f.kind != Kind::Opaque || (f.key_terms.is_empty() && !f.idempotent_but_for_lists));
    f.inner.iter().for_each(|inner| check(text, inner, markers));
}

fn check_all(text: &str) {
    let mut end = 0;
    for token in Lexer::new(text) {
        assert!(token.start >= end && token.end > token.start, "{text:.200}");
        assert!(text.get(token.start..token.end).is_some(), "{text:.200}");
        end = token.end;
    }
    let f = facts(text);
    check(text, &f, f.markers);
}

#[test]
fn every_truncation_is_survived() {
    for text in SEEDS {
        for (at, _) in text.char_indices() {
            check_all(&text[..at]);
            check_all(&text[at..]);
        }
    }
}

#[test]
fn random_damage_is_survived() {
    let seed: u64 = match std::env::var("HELENUS_SEED") {
        Ok(seed) => seed.parse().expect("HELENUS_SEED must be a number"),
        Err(_) => rand::random(),
    };
    println!("seed {seed} (set HELENUS_SEED to replay)");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for round in 0..20_000 {
        let mut bytes = match round % 3 {
            0 => (0..rng.random_range(0..60)).map(|_| rng.random()).collect(),
            1 => (0..rng.random_range(0..20))
                .flat_map(|_| PIECES.choose(&mut rng).unwrap_or(&"").bytes())
                .collect(),
            _ => SEEDS.choose(&mut rng).unwrap_or(&"").as_bytes().to_vec(),
        };
        for _ in 0..rng.random_range(0..6) {
            let at = rng.random_range(0..=bytes.len());
            let end = (at + rng.random_range(0..8)).min(bytes.len());
            let piece = PIECES.choose(&mut rng).unwrap_or(&"").bytes();
            bytes.splice(at..end, piece);
        }
        check_all(&String::from_utf8_lossy(&bytes));
    }
}

/// The bound is a hundred times what half a megabyte needs without optimization; quadratic work
/// would take hours.
#[test]
fn deep_nesting_and_long_lists_cost_neither_stack_nor_much_time() {
    let n = 500_000;
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(n / 2), close.repeat(n / 2));
    for text in [
        format!("SELECT a FROM t WHERE k = {}", deep("[", "]")),
        format!(
            "SELECT a FROM t WHERE {}k = 1{}",
            "(".repeat(n),
            ")".repeat(n)
        ),
        format!("SELECT a FROM t WHERE k = {}1", "(int)".repeat(n / 5)),
        format!("SELECT a FROM t WHERE k = {}1", "f(".repeat(n)),
        format!("SELECT a FROM t WHERE k = {}", deep("{", "}")),
        format!("SELECT a FROM t WHERE k = {}1", "- ".repeat(n)),
        format!("SELECT {} FROM t", deep("(", ")")),
        format!("SELECT a{} FROM t", ",a".repeat(n)),
        format!("SELECT a FROM t WHERE k IN ({}1)", "?,".repeat(60_000)),
        format!("SELECT a FROM t WHERE k = 1{}", " AND k = 1".repeat(n / 10)),
        format!(
            "BEGIN BATCH {} APPLY BATCH",
            "DELETE FROM t WHERE k = :k;".repeat(n / 27)
        ),
        "/*".repeat(n),
        "'".repeat(n + 1),
        "$".repeat(n + 1),
        "-".repeat(n),
        "0-".repeat(n),
        "aaaaaaaa-".repeat(n / 9),
        "{:a".repeat(n / 3),
        "{(int):a".repeat(n / 8),
    ] {
        let start = Instant::now();
        check_all(&text);
        let took = start.elapsed();
        let head: String = text.chars().take(40).collect();
        assert!(took < Duration::from_secs(10), "{took:?} for {head}…");
    }
}
