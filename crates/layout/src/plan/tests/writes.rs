use super::*;

fn written(text: &str) -> Write {
    let facts = helenus_cql::facts(text);
    write(&table(&[&[1, 0, 2]]), text, &facts)
}

fn check(text: &str, expected: &str) {
    assert_eq!(
        written(text),
        Write::Copies(vec![expected.to_owned()]),
        "{text}"
    );
}

fn refused(text: &str, reason: &str) {
    match written(text) {
        Write::Refused(why) => assert!(why.contains(reason), "{text}: {why}"),
        Write::Copies(_) | Write::Compared => panic!("{text} is not refused"),
    }
}

#[test]
fn derived_layouts_are_compared_where_they_cannot_be_told_exactly() {
    let mut derived = table(&[&[1, 0, 2]]);
    for copy in &mut derived.copies {
        copy.keyspace = Some("elsewhere".to_owned());
    }
    let of = |text: &str| write(&derived, text, &helenus_cql::facts(text));
    for text in [
        "INSERT INTO t (k, a, b, c, v) VALUES (1, 2, 3, 4, 5) IF NOT EXISTS",
        "UPDATE t SET v = 1 WHERE k = 1 AND a = 2 AND b = 3 AND c = 4 IF v = 2",
        "DELETE FROM t WHERE k = 1 AND a > 2",
        "DELETE FROM t WHERE k = 1 AND a = 2",
        "UPDATE t SET v = unknown(1) WHERE k = 1 AND a = 2 AND b = 3 AND c = 4",
    ] {
        refused(text, "or drop the layouts");
        assert_eq!(of(text), Write::Compared, "{text}");
    }
    let plain = "INSERT INTO t (k, a, b, c, v) VALUES (1, 2, 3, 4, 5)";
    let copy = plain.replace("INTO t", "INTO elsewhere.t__layout_0");
    assert_eq!(of(plain), Write::Copies(vec![copy]));
    // Rows do not tell when elements of lists were written.
    let list = of("UPDATE t SET l = l + [1] WHERE k = 1 AND a = 2 AND b = 3 AND c = 4");
    assert!(matches!(list, Write::Refused(_)), "{list:?}");
}

#[test]
fn only_the_tables_name_is_replaced() {
    for (before, after) in [
        (
            "INSERT INTO ",
            "(k, a, b, c, v) VALUES (?, :a, 1, ?, 2) USING TTL ? AND TIMESTAMP 5",
        ),
        ("INSERT INTO ", " (k, s) VALUES (1, 2)"),
        (
            "INSERT INTO ",
            " (k, values) VALUES (1, system.toJson(abs(?)))",
        ),
        ("INSERT INTO ", " JSON ? DEFAULT UNSET"),
        (
            "UPDATE ",
            " USING TTL 5 SET v = ?, l = [1, 2] WHERE k = ? AND a = 1 AND b = 2 AND c IN ?",
        ),
        (
            "UPDATE ",
            " SET m = m + {1: 'x'}, m[?] = 'y', st -= {'a'}, u.street = 'z', fz = ? WHERE k = 1",
        ),
        ("UPDATE ", " SET s = 3 WHERE k IN (1, 2)"),
        ("DELETE FROM ", " WHERE k = ?"),
        (
            "DELETE FROM ",
            " USING TIMESTAMP ? WHERE k = ? AND c = ? AND b IN (1, 2) AND a = 3",
        ),
        (
            "DELETE v, l, m[1], st['x'], u.street FROM ",
            " WHERE k = 1 AND a = 2 AND b = 3 AND c = 4",
        ),
        ("DELETE s FROM ", " WHERE k = 1"),
    ] {
        for own in ["t", "ks.T", "\"ks\".\"t\""] {
            let text = format!("{before}{own}{after}");
            check(&text, &format!("{before}ks.t__layout_0{after}"));
            // Without what surrounds the statement.
            check(
                &format!("-- x\n{text} ;"),
                &format!("{before}ks.t__layout_0{after}"),
            );
        }
    }
    check(
        "INSERT INTO\"t\"(k) VALUES (1)",
        "INSERT INTO ks.t__layout_0(k) VALUES (1)",
    );
}

#[test]
fn what_would_not_stay_equal_is_refused() {
    let row = "WHERE k = 1 AND a = 2 AND b = 3 AND c = 4";
    for (text, reason) in [
        (
            "INSERT INTO t (k, a, b, c) VALUES (1, 2, 3, 4) IF NOT EXISTS".to_owned(),
            "without IF",
        ),
        (format!("UPDATE t SET v = 1 {row} IF v = 2"), "without IF"),
        (format!("DELETE FROM t {row} IF EXISTS"), "without IF"),
        (format!("UPDATE t SET l = l + [1] {row}"), "list l"),
        (format!("UPDATE t SET l = [1] + l {row}"), "list l"),
        (format!("UPDATE t SET v = 1, l -= ? {row}"), "list l"),
        (format!("UPDATE t SET l[0] = 1 {row}"), "list l"),
        (format!("UPDATE t SET nosuch[0] = 1 {row}"), "list nosuch"),
        (format!("DELETE m[1], l[0] FROM t {row}"), "list l"),
        (
            "DELETE FROM t WHERE k = 1 AND a = 2".to_owned(),
            "delete the partition",
        ),
        (
            "DELETE FROM t WHERE k = 1 AND a = 2 AND b = 3 AND c > 4".to_owned(),
            "delete the partition",
        ),
        (
            "DELETE FROM t WHERE k = 1 AND a > 4".to_owned(),
            "delete the partition",
        ),
        (
            "DELETE FROM t WHERE k = 1 AND (a, b, c) = (1, 2, 3)".to_owned(),
            "by = or IN",
        ),
        (
            "DELETE FROM t WHERE k = 1 AND (a, b, c) IN ((1, 2, 3))".to_owned(),
            "by = or IN",
        ),
        ("DELETE FROM t WHERE token(k) = 1".to_owned(), "by = or IN"),
        (
            "INSERT INTO t (k, a, b, c) VALUES (now(), 2, 3, 4)".to_owned(),
            "now()",
        ),
        (
            "INSERT INTO t (k, a, b, c) VALUES (1, 2, 3, ks.f(4))".to_owned(),
            "ks.f()",
        ),
        (
            "INSERT INTO t (k, v) VALUES (1, values(2))".to_owned(),
            "values()",
        ),
        (format!("UPDATE t SET v = 1, u.x = mine(3) {row}"), "mine()"),
        (
            format!("UPDATE t SET m[currentDate()] = 1 {row}"),
            "currentdate()",
        ),
        ("DELETE FROM t WHERE k = uuid()".to_owned(), "uuid()"),
        (
            "INSERT INTO other (k) VALUES (1)".to_owned(),
            "not understood",
        ),
        ("TRUNCATE t".to_owned(), "not understood"),
        ("SELECT * FROM t".to_owned(), "not understood"),
        ("nonsense".to_owned(), "not understood"),
    ] {
        refused(&text, reason);
        refused(&text, "ks.t has layouts: ");
    }
    let mut counters = table(&[&[1, 0, 2]]);
    counters.columns[0].cql_type = "counter".to_owned();
    let text = format!("UPDATE t SET v = v + 1 {row}");
    let Write::Refused(why) = write(&counters, &text, &helenus_cql::facts(&text)) else {
        panic!("a counter is not refused");
    };
    assert!(why.contains("counters"), "{why}");
}

#[test]
fn statements_of_a_batch_are_taken_one_by_one() {
    let text = "BEGIN BATCH USING TIMESTAMP ? INSERT INTO t (k, s) VALUES (?, :x); \
                DELETE FROM ks.t WHERE k = ?; UPDATE t SET l += [1] WHERE k = ? APPLY BATCH";
    let facts = helenus_cql::facts(text);
    let table = table(&[&[1, 0, 2], &[2, 1, 0]]);
    let of = |at: usize| write(&table, text, &facts.inner[at]);
    let copies = |template: &str| {
        let copy = |at: usize| template.replace('#', &format!("ks.t__layout_{at}"));
        Write::Copies(vec![copy(0), copy(1)])
    };
    assert_eq!(of(0), copies("INSERT INTO # (k, s) VALUES (?, :x)"));
    assert_eq!(of(1), copies("DELETE FROM # WHERE k = ?"));
    assert!(matches!(of(2), Write::Refused(_)));
    // The batch itself is no statement on one table.
    assert!(matches!(write(&table, text, &facts), Write::Refused(_)));
}

#[test]
fn a_time_that_each_node_would_tell_for_itself_is_refused() {
    let plain = table(&[&[1, 0, 2]]);
    let mut timed = plain.clone();
    timed.may_hold_times = true;
    let row = "WHERE k = 1 AND a = 2 AND b = 3 AND c = 4";
    for text in [
        "INSERT INTO t (k, a, b, c) VALUES ('now', 2, 3, 4)".to_owned(),
        "INSERT INTO t (k, a, b, c, m) VALUES (1, 2, 3, 4, {'x': $$NoW$$})".to_owned(),
        "INSERT INTO t JSON '{\"k\": \"now\"}'".to_owned(),
        "INSERT INTO t JSON ?".to_owned(),
        "INSERT INTO t (k, a, b, c, v) VALUES (1, 2, 3, 4, fromJson(?))".to_owned(),
        format!("UPDATE t SET v = 'NOW' {row}"),
        format!("DELETE v FROM t {row} AND c = 'now'"),
    ] {
        let facts = helenus_cql::facts(&text);
        assert!(
            matches!(write(&timed, &text, &facts), Write::Refused(_)),
            "{text}"
        );
    }
    // A function makes something else of it.
    for text in [
        "INSERT INTO t (k, a, b, c) VALUES (1, 2, 3, maxTimeuuid('now'))".to_owned(),
        "INSERT INTO t (k, a, b, c, v) VALUES (1, 2, 3, 4, blobAsBigint(timestampAsBlob($$NOW$$)))"
            .to_owned(),
        format!("UPDATE t SET v = to_unix_timestamp((timestamp) 'now') {row}"),
        format!("DELETE v FROM t {row} AND c = minTimeuuid ( 'Now' )"),
    ] {
        let facts = helenus_cql::facts(&text);
        assert!(
            matches!(write(&plain, &text, &facts), Write::Refused(_)),
            "{text}"
        );
    }
    let text = "INSERT INTO t (k, a, b, c, v) VALUES (1, 2, 3, intAsBlob(4), 'now')";
    let facts = helenus_cql::facts(text);
    assert!(matches!(write(&plain, text, &facts), Write::Copies(_)));
    let text = "INSERT INTO t (k, a, b, c, v) VALUES (1, 2, 3, 4, 'now or never')";
    let facts = helenus_cql::facts(text);
    assert!(matches!(write(&timed, text, &facts), Write::Copies(_)));
    let text = "INSERT INTO t JSON ?";
    let facts = helenus_cql::facts(text);
    assert!(matches!(write(&plain, text, &facts), Write::Copies(_)));
}
