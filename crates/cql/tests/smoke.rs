//! One look at each family of statements.

use helenus_cql::{
    Fold, Kind, Literal, Name, Overwrites, Term, encode_literal, facts, fold_identifier,
    is_reserved, quote_identifier,
};

#[test]
fn a_point_read_names_its_key() {
    let f =
        facts("SELECT a, b AS c FROM \"Ks\".T WHERE k = ? AND c = 'it''s' AND d > :d LIMIT 10;");
    assert_eq!(f.kind, Kind::Select);
    assert_eq!(f.keyspace.as_deref(), Some("Ks"));
    assert_eq!(f.table.as_deref(), Some("t"));
    assert_eq!(f.markers, 2);
    assert_eq!(f.key_terms.len(), 2);
    assert_eq!(f.key_terms[0].term, Term::Marker(0));
    assert_eq!(
        f.key_terms[1].term,
        Term::Literal(Literal::Text("it's".into()))
    );
    assert!(f.idempotent_but_for_lists);
    let select = f.select.unwrap();
    assert_eq!(select.limit, Some(Term::Literal(Literal::Int(10))));
    assert_eq!(select.ranges[0].terms, [Term::NamedMarker(1)]);
}

#[test]
fn writes_know_whether_they_may_be_repeated() {
    for (text, idempotent) in [
        ("INSERT INTO t (k, v) VALUES (?, ?)", true),
        ("INSERT INTO t (k, v) VALUES (?, now())", false),
        ("INSERT INTO t (k, v) VALUES (?, {'a': [uuid()]})", false),
        ("INSERT INTO t (k, v) VALUES (?, ?) IF NOT EXISTS", false),
        ("INSERT INTO t JSON ? IF NOT EXISTS", false),
        ("INSERT INTO t JSON '{}'", true),
        ("UPDATE t SET a = ?, b = b + ? WHERE k = 1", false),
        ("UPDATE t SET b = [1] + b WHERE k = 1", false),
        ("UPDATE t SET b = b -3 WHERE k = 1", false),
        ("UPDATE t SET b += {1} WHERE k = 1", false),
        ("UPDATE t SET m['a'] = 1 WHERE k = 1", true),
        ("UPDATE t SET l[0] = 1 WHERE k = 1", false),
        ("UPDATE t SET a = 1 + 2 WHERE k = 1", true),
        ("DELETE l[0] FROM t WHERE k = 1", false),
        ("DELETE a, b FROM t WHERE k = 1", true),
        ("DELETE FROM t WHERE k = 1 IF EXISTS", false),
        ("BEGIN BATCH DELETE FROM t WHERE k = 1 APPLY BATCH", true),
        ("BEGIN COUNTER BATCH APPLY BATCH", false),
        ("USE ks", true),
    ] {
        let f = facts(text);
        assert_ne!(f.kind, Kind::Opaque, "{text}");
        assert_eq!(f.idempotent_but_for_lists, idempotent, "{text}");
    }
}

#[test]
fn writes_name_the_columns_that_they_may_give_a_list() {
    let columns = |names: &[&str]| {
        let names = names.iter().map(|name| Name::from_stored(*name));
        Overwrites::Columns(names.collect())
    };
    for (text, expected) in [
        (
            "INSERT INTO t (k, \"V\", w, x) VALUES (?, [1], 'a', :x)",
            columns(&["k", "V", "x"]),
        ),
        ("INSERT INTO t (k, v) VALUES (1, null)", columns(&[])),
        ("INSERT INTO t JSON ?", Overwrites::Any),
        (
            "UPDATE t SET a = ?, b = b + ?, c[?] = ?, d.e = ?, f = -1, g = ['a'], h = {} WHERE k = ?",
            columns(&["a", "g", "h"]),
        ),
        ("DELETE a, b[1] FROM t WHERE k = ?", columns(&[])),
        ("SELECT a FROM t WHERE k = ?", columns(&[])),
    ] {
        assert_eq!(facts(text).overwrites, expected, "{text}");
    }
    let batch = facts("BEGIN BATCH UPDATE t SET l = ? WHERE k = 1 APPLY BATCH");
    assert_eq!(batch.overwrites, columns(&[]));
    assert_eq!(batch.inner[0].overwrites, columns(&["l"]));
}

#[test]
fn a_batch_numbers_markers_over_all_its_statements() {
    let f = facts(
        "BEGIN UNLOGGED BATCH USING TIMESTAMP ? INSERT INTO a.t (k) VALUES (?); \
         UPDATE t SET v = {x: :x} WHERE k = :k DELETE FROM t WHERE k = ? IF v = 1; APPLY BATCH;",
    );
    assert_eq!(f.kind, Kind::Batch);
    assert_eq!(f.markers, 5);
    assert_eq!(f.inner.len(), 3);
    assert_eq!(f.inner[0].key_terms[0].term, Term::Marker(1));
    assert_eq!(f.inner[1].key_terms[0].term, Term::NamedMarker(3));
    assert_eq!(f.inner[1].named_markers.len(), 2);
    assert_eq!(f.inner[2].key_terms[0].term, Term::Marker(4));
    assert!(f.lwt && f.using_timestamp && !f.idempotent_but_for_lists);
}

#[test]
fn what_is_not_understood_is_opaque() {
    for text in [
        "",
        ";",
        "SELEC 1",
        "SELECT a FROM t WHERE k = ? é",
        "SELECT (a FROM t",
        "'",
    ] {
        assert_eq!(facts(text).kind, Kind::Opaque, "{text}");
    }
}

#[test]
fn aggregates_of_columns_are_told_from_other_calls() {
    let folds = |selection: &str| {
        let f = facts(&format!("SELECT {selection} FROM ks.t"));
        f.select.unwrap().folds
    };
    let all = "COUNT(*), count(1) AS n, count(a), Sum(\"B\"), min(sum), max(b) AS c";
    let expected = [
        Fold::Rows,
        Fold::Rows,
        Fold::Count,
        Fold::Sum,
        Fold::Min,
        Fold::Max,
    ];
    assert_eq!(folds(all), expected);
    for other in [
        "count(*), a",
        "avg(a)",
        "max(1)",
        "sum(*)",
        "max(true)",
        "max(?)",
        "max(f(a))",
        "ks.max(a)",
        "max(a) + 1",
        "max(a, b)",
        "CAST(max(a) AS int)",
        "\"MAX\"(a)",
        "count",
        "*",
    ] {
        assert_eq!(folds(other), [], "{other}");
    }
}

#[test]
fn extremes_know_their_columns() {
    let of = |selection: &str| {
        let facts = facts(&format!("SELECT {selection} FROM ks.t"));
        let columns = facts.select.expect("a SELECT").extremes_of;
        columns
            .iter()
            .map(|c| c.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("count(a), MIN(Sum), max(\"B\") AS c, sum(d)"),
        ["sum", "B"]
    );
    assert_eq!(of("min(a), b"), [""; 0], "not had from parts anyway");
}

#[test]
fn restrictions_that_only_a_node_can_compute_are_told_from_values() {
    for (clause, values) in [
        ("", true),
        (
            "WHERE c > 5 AND d = ? AND e IN (1, :x) AND (f, g) < (1, ?)",
            true,
        ),
        ("WHERE token(k) > ? AND token(k) <= -5", true),
        ("WHERE c < now() ALLOW FILTERING", false),
        ("WHERE c = toTimestamp(now()) ALLOW FILTERING", false),
        ("WHERE (c, d) > (1, now()) ALLOW FILTERING", false),
        ("WHERE token(k) > token(?)", false),
        ("WHERE c IN (now()) ALLOW FILTERING", false),
    ] {
        let facts = facts(&format!("SELECT count(*) FROM ks.t {clause}"));
        assert_eq!(facts.restricted_by_values(), values, "{clause}");
    }
}

#[test]
fn names_survive_folding_and_quoting() {
    for (written, stored, quoted) in [
        ("Users", "users", "users"),
        ("\"Users\"", "Users", "\"Users\""),
        ("\"a\"\"b\"", "a\"b", "\"a\"\"b\""),
        ("\"select\"", "select", "\"select\""),
        ("\"true\"", "true", "\"true\""),
        ("\"1a\"", "1a", "\"1a\""),
        ("key", "key", "key"),
        ("\"\"", "", "\"\""),
    ] {
        let name = fold_identifier(written);
        assert_eq!(name, stored);
        assert_eq!(quote_identifier(&name), quoted);
        assert_eq!(fold_identifier(&name.to_cql()), name);
    }
    assert!(is_reserved("From") && is_reserved("materialized") && !is_reserved("json"));
}

#[test]
fn literals_become_bytes_only_where_the_type_fits() {
    let int = Literal::Int(-2);
    assert_eq!(encode_literal(&int, "int"), Some(vec![255, 255, 255, 254]));
    assert_eq!(encode_literal(&int, "frozen<tinyint>"), Some(vec![254]));
    assert_eq!(encode_literal(&int, "varint"), Some(vec![254]));
    assert_eq!(encode_literal(&int, "text"), None);
    assert_eq!(encode_literal(&Literal::Int(128), "tinyint"), None);
    let text = Literal::Text("1970-01-02T00:00:00.000Z".into());
    let day = encode_literal(&text, "timestamp").unwrap();
    assert_eq!(day, 86_400_000_i64.to_be_bytes());
    let date = Literal::Text("1970-01-02".into());
    assert_eq!(encode_literal(&date, "date"), Some(vec![128, 0, 0, 1]));
    // The server's own zone would decide.
    assert_eq!(encode_literal(&date, "timestamp"), None);
    assert_eq!(encode_literal(&Literal::Null, "int"), None);
}

#[test]
fn spans_cut_out_the_clauses() {
    let text = "/* é */ SELECT a,b FROM ks . t WHERE k = ? AND c > 1 ORDER BY c LIMIT 5 ; -- end\n";
    let f = facts(text);
    let cut = |span: &Option<std::ops::Range<usize>>| &text[span.clone().unwrap()];
    assert_eq!(cut(&f.spans.selection), "a,b");
    assert_eq!(cut(&f.spans.table), "ks . t");
    assert_eq!(cut(&f.span_where), "k = ? AND c > 1");
    assert_eq!(cut(&f.spans.where_clause), "WHERE k = ? AND c > 1");
    assert_eq!(cut(&f.spans.order_by), "ORDER BY c");
    assert_eq!(cut(&f.spans.limit), "LIMIT 5");
    let select = f.select.as_ref().unwrap();
    assert_eq!(&text[select.ranges[0].span.clone()], "c > 1");
    assert!(text[f.spans.statement.clone()].starts_with("SELECT"));
    assert!(text[f.spans.statement.clone()].ends_with("LIMIT 5"));
}

/// Cassandra's lexer wants the end of its line, and says SYNTAX at the end of the text.
#[test]
fn a_comment_ends_with_its_line() {
    for comment in ["-- x", "// x", "--", "//"] {
        let text = format!("SELECT key FROM system.local {comment}");
        assert_eq!(facts(&text).kind, Kind::Opaque, "{text}");
        for end in ["\n", "\r"] {
            let text = format!("{text}{end}");
            assert_eq!(facts(&text).kind, Kind::Select, "{text:?}");
        }
    }
}

/// Behind a sign, or with dashes in it, what could be a name is none: it ends where it ends.
#[test]
fn what_is_no_name_ends_before_a_word() {
    for (cql, kind) in [
        ("SELECT * FROM k.t WHERE a >= -P3WAND b = 1", Kind::Select),
        (
            "SELECT * FROM k.t WHERE a >= -P1Y2M AND b = 1",
            Kind::Select,
        ),
        (
            "SELECT * FROM k.t WHERE a >= P0001-02-03T04:05:06AND b = 1",
            Kind::Select,
        ),
        (
            "SELECT * FROM k.t WHERE a >= -infinityAND b < -NanAND c = 1",
            Kind::Select,
        ),
        ("SELECT P3WAND FROM k.t", Kind::Select),
        ("SELECT * FROM k.t WHERE a >= P3WAND b = 1", Kind::Opaque),
    ] {
        assert_eq!(facts(cql).kind, kind, "{cql}");
    }
}
