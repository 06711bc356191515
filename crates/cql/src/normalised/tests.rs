use super::*;
use crate::facts;

#[track_caller]
fn check(text: &str, expected: &str) {
    let shown = |text: &str| normalised(text, &facts(text), 4_096);
    assert_eq!(shown(text), expected);
    if !expected.contains('…') {
        assert_eq!(shown(expected), expected, "a second time");
    }
}

#[test]
fn no_value_is_left_and_markers_are_like_values() {
    check(
        "SELECT v FROM app.t WHERE k = 'it''s' AND c>=-5 AND d = ? LIMIT 10;",
        "SELECT v FROM app.t WHERE k = ? AND c >= ? AND d = ? LIMIT ?",
    );
    check(
        "INSERT INTO t (a, b, c, d) VALUES (0xCAFE, true, null, $$x$$) USING TTL 3600",
        "INSERT INTO t (a, b, c, d) VALUES (?, ?, ?, ?) USING TTL ?",
    );
    check(
        "UPDATE t SET v = :value WHERE k=:\"Key\"",
        "UPDATE t SET v = ? WHERE k = ?",
    );
    check(
        "CREATE ROLE app WITH PASSWORD = 'hunter2' AND LOGIN = true",
        "CREATE ROLE app …",
    );
    check(
        "SELECT * FROM t WHERE a = 123e4567-e89b-12d3-a456-426614174000 AND b = 1h30m AND e = NaN",
        "SELECT * FROM t WHERE a = ? AND b = ? AND e = ?",
    );
    check(
        "SELECT v FROM t WHERE v IS NOT NULL",
        "SELECT v FROM t WHERE v IS NOT NULL",
    );
}

#[test]
fn comments_blanks_and_names_do_not_hide_values() {
    check(
        "SELECT  v\n\tFROM \"My Table\" -- secret\n WHERE /* 'secret' */ k = 1",
        "SELECT v FROM \"My Table\" WHERE k = ?",
    );
    // Not terminated: all that follows may be a value.
    check("SELECT v FROM t WHERE k = 'secret AND", "SELECT …");
    check("SELECT v FROM t /* secret", "SELECT …");
    check("SELECT v FROM t -- secret", "SELECT …");
    check("SELECT count(*) FROM t", "SELECT count(*) FROM t");
}

#[test]
fn lists_of_values_are_as_long_as_their_first() {
    check(
        "SELECT v FROM t WHERE k IN (1, 2, 3) AND c IN (?,?)",
        "SELECT v FROM t WHERE k IN (?, …) AND c IN (?, …)",
    );
    check(
        "SELECT v FROM t WHERE k IN (1) AND l IN ?",
        "SELECT v FROM t WHERE k IN (?) AND l IN ?",
    );
    check(
        "UPDATE t SET l = [1, 2, 3], s = {'a', 'b'} WHERE k = 1",
        "UPDATE t SET l = [?, …], s = {?, …} WHERE k = ?",
    );
    check(
        "UPDATE t SET m = {'a': 1, 'b' : 2}, u = {street: 'x', number: :n} WHERE k = 1",
        "UPDATE t SET m = {?: ?, …}, u = {street: ?, number: ?} WHERE k = ?",
    );
    check(
        "SELECT {1: f(2), 3: 4} FROM t",
        "SELECT {?: f(?), ?: ?} FROM t",
    );
    check(
        "SELECT v FROM t WHERE (a, b) IN ((1, 2), (3, 4))",
        "SELECT v FROM t WHERE (a, b) IN ((?, ?), (?, ?))",
    );
}

#[test]
fn keys_of_maps_in_double_quotes_are_values() {
    for text in [
        "UPDATE t SET m = {\"alice@example.com\": 1} WHERE k = 1",
        "UPDATE t SET m = m + { \"alice@example.com\" : 1} WHERE k = 1",
        "UPDATE t SET m = {'a': 1, \"alice@example.com\": 1} WHERE k = 1",
        "INSERT INTO t (k, m) VALUES (1, {\"alice@example.com\": {\"alice@example.com\": 1}})",
        "UPDATE t SET m = {street: {\"alice@example.com\":1}} WHERE k = 1",
    ] {
        let (shown, is_whole) = with_markers(text, &facts(text));
        assert!(!shown.contains("alice") && !is_whole, "{shown}");
        assert!(!normalised(text, &facts(text), 4_096).contains("alice"));
    }
}

#[test]
fn lists_may_stay_as_long_as_they_are() {
    for (text, expected) in [
        (
            "SELECT v FROM t /* 1 */ WHERE k IN (1, ?, f('a')) LIMIT 3",
            "SELECT v FROM t WHERE k IN (?, ?, f(?)) LIMIT ?",
        ),
        (
            "UPDATE t SET m = {'a': 1, 'b': 2} WHERE (a, b) IN ((1, 2), (3, 4))",
            "UPDATE t SET m = {?: ?, ?: ?} WHERE (a, b) IN ((?, ?), (?, ?))",
        ),
    ] {
        assert_eq!(without_values(text, &facts(text)), expected);
        assert_eq!(facts(expected).kind, facts(text).kind);
    }
}

#[test]
fn types_of_casts_stay() {
    check(
        "SELECT v FROM t WHERE k = (int) 5 AND c IN ((text) 'a', (text) ?) AND d > (BigInt) :x",
        "SELECT v FROM t WHERE k = (int) ? AND c IN ((text) ?, (text) ?) AND d > (BigInt) ?",
    );
    check(
        "INSERT INTO t (k, v) VALUES ((varint)1, (timeuuid) ?)",
        "INSERT INTO t (k, v) VALUES ((varint)?, (timeuuid) ?)",
    );
    // A word that is no type may be a value that was forgotten to be quoted.
    check(
        "INSERT INTO t (k, v) VALUES ((secret), 1)",
        "INSERT INTO t (k, v) VALUES ((?), ?)",
    );
}

#[test]
fn markers_mean_what_the_text_means_unless_a_name_was_taken_for_a_value() {
    for whole in [
        "SELECT v, ttl(v) FROM t WHERE k = 1 AND c IN (1, ?, f('a')) ORDER BY c LIMIT 3 ALLOW FILTERING",
        "SELECT m['a'] AS x FROM t WHERE token(k) > ? AND token(k) <= 5 PER PARTITION LIMIT 2",
        "UPDATE t USING TTL 5 AND TIMESTAMP :t SET c = c + 1, l = [1] + l, m['a'] = {x: 1, y: 'b'} WHERE k=1 IF v != 3 AND w = NULL",
        "INSERT INTO t (k, v) VALUES ((int) 1, now()) IF NOT EXISTS",
        "DELETE m['a'], v FROM t WHERE (a, b) = (1, NaN) AND c CONTAINS true",
        "BEGIN BATCH INSERT INTO t (k) VALUES (1); UPDATE t SET v = -5 WHERE k = 2; APPLY BATCH",
    ] {
        let (shown, is_whole) = with_markers(whole, &facts(whole));
        assert!(is_whole, "{shown}");
        assert!(with_markers(&shown, &facts(&shown)).1, "{shown}");
    }
    for other in [
        "SELECT v FROM t WHERE k = (my_type) {a: 1}",
        "SELECT v FROM t WHERE k = (frozen<list<int>>) [1]",
        "SELECT v FROM t WHERE k = 1AND c = 2",
        "UPDATE t SET v = secret",
        "CREATE ROLE app WITH PASSWORD = 'hunter2'",
        "SELECT v FROM t WHERE k = 'secret AND",
    ] {
        let (shown, is_whole) = with_markers(other, &facts(other));
        assert!(!is_whole, "{shown}");
    }
}

#[test]
fn long_texts_are_cut_between_characters() {
    let long = format!("SELECT {} FROM t", "\"ü\", ".repeat(1_000));
    let cut = normalised(&long, &facts(&long), 100);
    assert!(cut.len() <= 104 && cut.ends_with('…'), "{cut}");
    let bulk = format!("INSERT INTO t (k) VALUES ('{}')", "x".repeat(100_000));
    let shown = normalised(&bulk, &facts(&bulk), 100);
    assert_eq!(shown, "INSERT INTO t (k) VALUES (?)");
}

#[test]
fn texts_that_are_broken_show_nothing_but_their_first_words() {
    for (text, expected) in [
        (
            "INSERT INTO t (k, v) VALUES (1, 'Conor O'Brien, 12 Main Street')",
            "INSERT …",
        ),
        ("SELECT v FROM t WHERE mail = bob@example.com", "SELECT …"),
        ("SELECT v FROM t WHERE k = \"secret\"", "SELECT …"),
        (
            "SELECT v FROM t WHERE id = 123e4567-e89b-12d3-a456-42661417400",
            "SELECT …",
        ),
        ("UPDATE t SET v = secret", "UPDATE …"),
        ("begin unlogged batch secret", "BEGIN UNLOGGED …"),
        ("CREATE secret", "CREATE …"),
        ("secret", "…"),
        ("", "…"),
    ] {
        check(text, expected);
    }
    assert_eq!(
        first_words("alter user bob with password 'x'"),
        "ALTER USER …"
    );
    assert_eq!(first_words("SELECT secret FROM"), "SELECT …");
}

#[test]
fn passwords_and_options_are_hidden_however_they_are_written() {
    for with in [
        "WITH PASSWORD = \"hunter2\"",
        "WITH PASSWORD = hunter2",
        "WITH HASHED PASSWORD = 'hunter2'",
        "WITH OPTIONS = {hunter2: hunter2}",
        "PASSWORD hunter2",
        "WITH ACCESS TO DATACENTERS {'hunter2'}",
    ] {
        check(&format!("CREATE ROLE a {with}"), "CREATE ROLE a …");
        check(
            &format!("ALTER USER IF EXISTS \"B\" {with};"),
            "ALTER USER IF EXISTS \"B\" …",
        );
    }
    check("DROP ROLE a;", "DROP ROLE a");
    check("GRANT SELECT ON app.t TO a", "GRANT SELECT ON app.t TO a");
    check(
        "SELECT password, access FROM users",
        "SELECT password, access FROM users",
    );
}

#[test]
fn names_in_place_of_values_are_not_shown() {
    check(
        "CREATE TABLE t (k int PRIMARY KEY, l list<text>) WITH comment = secret AND gc = \"secret\"",
        "CREATE TABLE t (k int PRIMARY KEY, l list<text>) WITH comment = ? AND gc = ?",
    );
    for values in [
        "['O'Brien' secret]",
        "{a secret}",
        "['x'secret]",
        "[1-secret]",
        "[(secret, 1)]",
    ] {
        let text = format!("INSERT INTO t (k, v) VALUES (1, {values})");
        let shown = normalised(&text, &facts(&text), 4_096);
        assert!(
            !shown.contains("secret") && !shown.contains("Brien"),
            "{shown}"
        );
    }
    check(
        "UPDATE t SET c = c + 1, l = l + ['x'], m = {'a': 1} + m WHERE k = f('a')AND c = ?",
        "UPDATE t SET c = c + ?, l = l + [?], m = {?: ?} + m WHERE k = f(?)AND c = ?",
    );
    check(
        "INSERT INTO t (k, v) VALUES (now(), (int) ?) IF NOT EXISTS USING TTL 1 AND TIMESTAMP 2",
        "INSERT INTO t (k, v) VALUES (now(), (int) ?) IF NOT EXISTS USING TTL ? AND TIMESTAMP ?",
    );
    check(
        "SELECT \"a\u{1b}[2Jb\" FROM t",
        "SELECT \"a\u{FFFD}[2Jb\" FROM t",
    );
}
