use super::*;

/// The layout with this clustering order answers with this text, or the table does. All allow
/// filtering.
fn check(order: &[usize], text: &str, expected: Option<&str>) {
    let allowed = |text: &str| format!("{text} ALLOW FILTERING");
    let expected = expected.map(allowed);
    check_on(&table(&[order]), &allowed(text), expected.as_deref());
}

fn check_on(table: &LogicalTable, text: &str, expected: Option<&str>) {
    let facts = helenus_cql::facts(text);
    assert_eq!(facts.kind, helenus_cql::Kind::Select, "{text}");
    let best = rank(table, text, &facts).first().copied();
    let first = Ranked {
        at: 0,
        is_sorted: false,
    };
    assert_eq!(best, expected.map(|_| first), "{text}");
    if expected.is_some() {
        let derived = read_from(table, text, &facts, 0);
        assert_eq!(derived.as_deref(), expected);
    }
}

/// The layout answers with this text and the answer is sorted by these columns of it, from below unless one
/// begins with `-`; so many columns are taken out again.
fn check_sorted(table: &LogicalTable, text: &str, expected: &str, keys: &str, appended: usize) {
    let text = format!("{text} ALLOW FILTERING");
    let expected = format!("{expected} LIMIT 5001 ALLOW FILTERING");
    let facts = helenus_cql::facts(&text);
    let first = Ranked {
        at: 0,
        is_sorted: true,
    };
    assert_eq!(rank(table, &text, &facts), [first], "{text}");
    let (derived, restore) = read_and_sort(table, &text, &facts, 0).expect("it is ranked");
    assert_eq!(derived, expected);
    let found: Vec<String> = restore
        .keys
        .iter()
        .map(|key| format!("{}{}", if key.descending { "-" } else { "" }, key.column))
        .collect();
    assert_eq!(found.join(" "), keys, "{text}");
    assert_eq!(restore.appended, appended, "{text}");
    assert_eq!(read_from(table, &text, &facts, 0), None, "{text}");
}

/// A layout with this order, of a table with so many rows in each of 10 partitions.
fn counted(order: &[usize], rows: f64) -> LogicalTable {
    let mut table = table(&[order]);
    table.distinct.insert("k".to_owned(), 10.0);
    table.rows = Some(10.0 * rows);
    table
}

const BAC: &[usize] = &[1, 0, 2];
const CBA: &[usize] = &[2, 1, 0];
const CAB: &[usize] = &[2, 0, 1];

#[test]
fn a_layout_answers_with_the_tables_name_and_all_columns_replaced() {
    check(
        BAC,
        "SELECT v FROM t WHERE k = ? AND b = ? LIMIT ?",
        Some("SELECT v FROM ks.t__layout_0 WHERE k = ? AND b = ? LIMIT ?"),
    );
    check(
        CAB,
        "SELECT a FROM t WHERE k = 1 AND c = 2 AND v > 5 AND s = 1 LIMIT 3",
        Some("SELECT a FROM ks.t__layout_0 WHERE k = 1 AND c = 2 AND v > 5 AND s = 1 LIMIT 3"),
    );
    let table = table(&[CAB]);
    check_on(
        &table,
        "select * from ks.T where k = 1 and c = 2 and b >= 3 allow filtering;",
        Some(
            "select k, a, b, c, s, \"Up\", dec, fl, fz, l, m, st, u, v from ks.t__layout_0 \
             where k = 1 and c = 2 and b >= 3 allow filtering;",
        ),
    );
    check_on(
        &table,
        "SELECT*FROM\"t\"WHERE c=:c AND k=:k ALLOW FILTERING --all\n",
        Some(
            "SELECT k, a, b, c, s, \"Up\", dec, fl, fz, l, m, st, u, v FROM ks.t__layout_0 \
             WHERE c=:c AND k=:k ALLOW FILTERING --all\n",
        ),
    );
}

#[test]
fn what_the_table_takes_without_filtering_it_answers() {
    for text in [
        "SELECT v FROM t WHERE k = 1",
        "SELECT v FROM t WHERE k = 1 AND a = 2 AND b = 3 AND c = 4",
        "SELECT v FROM t WHERE k = 1 AND a = 2 AND b > 3 AND b < 4",
        "SELECT v FROM t WHERE k = 1 AND a IN (2, 3)",
    ] {
        check_on(&table(&[BAC, CAB, CBA]), text, None);
        check(BAC, text, None);
    }
    // The table would not take this one either.
    check_on(
        &table(&[CAB]),
        "SELECT v FROM t WHERE k = 1 AND c = 2",
        None,
    );
}

#[test]
fn the_order_of_rows_must_be_the_tables() {
    // `b` is bound, so `a, c` remain in both.
    check(
        BAC,
        "SELECT c FROM t WHERE k = 1 AND b = 2 AND c < 1",
        Some("SELECT c FROM ks.t__layout_0 WHERE k = 1 AND b = 2 AND c < 1"),
    );
    // Left out `b`, the order is `c, a`, and the slice no shorter.
    check(CBA, "SELECT c FROM t WHERE k = 1 AND b = 2", None);
    check(
        CBA,
        "SELECT a FROM t WHERE k = 1 AND b = 2 AND c = 3",
        Some("SELECT a FROM ks.t__layout_0 WHERE k = 1 AND b = 2 AND c = 3"),
    );
    // Rows of several `b` do not come in the order of `a`.
    let statement = "SELECT JSON a FROM t WHERE k = 1 AND b IN (1, 2)";
    check(BAC, statement, None);
}

#[test]
fn rows_in_another_order_are_sorted_by_what_is_not_bound() {
    let bac = table(&[BAC]);
    check_sorted(
        &bac,
        "SELECT a FROM t WHERE k = 1 AND b > 2",
        "SELECT a, b, c FROM ks.t__layout_0 WHERE k = 1 AND b > 2",
        "0 -1 2",
        2,
    );
    check_sorted(
        &bac,
        "SELECT v AS a, b, c AS x, a FROM t WHERE k = ? AND b IN (?, ?)",
        "SELECT v AS a, b, c AS x, a FROM ks.t__layout_0 WHERE k = ? AND b IN (?, ?)",
        "3 -1 2",
        0,
    );
    check_sorted(
        &table(&[&[2, 1, 0]]),
        "SELECT * FROM t WHERE k = 1 AND a < 7 AND c = 2 AND b >= 3 ORDER BY a DESC, b ASC",
        "SELECT k, a, b, c, s, \"Up\", dec, fl, fz, l, m, st, u, v FROM ks.t__layout_0 \
         WHERE k = 1 AND a < 7 AND c = 2 AND b >= 3",
        "-1 2",
        0,
    );
    check_sorted(
        &bac,
        "SELECT writetime(v), v FROM t WHERE k = 1 AND b > 2 ORDER BY a",
        "SELECT writetime(v), v, a, b, c FROM ks.t__layout_0 WHERE k = 1 AND b > 2",
        "2 -3 4",
        3,
    );
}

#[test]
fn what_cannot_be_sorted_reads_the_table() {
    let bac = table(&[BAC]);
    let on_table = |table: &LogicalTable, text: &str| {
        let text = format!("{text} ALLOW FILTERING");
        assert_eq!(rank(table, &text, &helenus_cql::facts(&text)), []);
        assert_eq!(
            read_and_sort(table, &text, &helenus_cql::facts(&text), 0),
            None,
            "{text}"
        );
    };
    for text in [
        "SELECT JSON a, b FROM t WHERE k = 1 AND b > 2",
        "SELECT a, max(v) FROM t WHERE k = 1 AND b > 2",
        "SELECT sum(fl) FROM t WHERE k = 1 AND b > 2",
        "SELECT s FROM t WHERE k = 1 AND b > 2",
        "SELECT k, s, token(k) FROM t WHERE k = 1 AND b > 2",
        "SELECT a FROM t WHERE k = 1 AND b > 2 LIMIT ?",
        "SELECT a FROM t WHERE k = 1 AND b > 2 LIMIT 0",
        "SELECT a FROM t WHERE k = 1 AND b > 2 LIMIT -1",
        "SELECT a FROM t WHERE k = 1 AND b > 2 LIMIT 2147483648",
        "SELECT a FROM t WHERE k = 1 AND b > 2 PER PARTITION LIMIT 0 LIMIT 5",
        "SELECT a FROM t WHERE k = 1 AND b > 2 ORDER BY b",
        "SELECT a FROM t WHERE k = 1 AND b > 2 ORDER BY a, c",
        "SELECT a FROM t WHERE k = 1 AND b > 2 GROUP BY k",
    ] {
        on_table(&bac, text);
    }
    let mut other = bac.clone();
    other.clustering[2].cql_type = "decimal".to_owned();
    on_table(&other, "SELECT a FROM t WHERE k = 1 AND b > 2");
    // Bound, it has no order.
    check_sorted(
        &other,
        "SELECT a FROM t WHERE k = 1 AND b > 2 AND c = 1",
        "SELECT a, b FROM ks.t__layout_0 WHERE k = 1 AND b > 2 AND c = 1",
        "0 -1",
        1,
    );
}

#[test]
fn rows_are_sorted_if_they_are_few_and_a_limit_is_no_shorter_way() {
    let text = "SELECT a FROM t WHERE k = 1 AND b > 2";
    let sorted = "SELECT a, b, c FROM ks.t__layout_0 WHERE k = 1 AND b > 2";
    let is_table = |table: &LogicalTable, text: &str| {
        let text = format!("{text} ALLOW FILTERING");
        assert_eq!(rank(table, &text, &helenus_cql::facts(&text)), []);
    };
    check_sorted(&counted(BAC, 16_000.0), text, sorted, "0 -1 2", 2);
    is_table(&counted(BAC, 17_000.0), text);
    // 30 of 100 rows fit. With LIMIT 24 the table reads 80 for them; the layout reads 30 and sorts them.
    for (limit, is_sorted) in [(23, false), (24, true), (100, true)] {
        for limit in [
            format!("LIMIT {limit}"),
            format!("PER PARTITION LIMIT {limit}"),
            format!("PER PARTITION LIMIT {limit} LIMIT 1000"),
        ] {
            let limited = format!("{text} {limit}");
            match is_sorted {
                true => check_sorted(&counted(BAC, 100.0), &limited, sorted, "0 -1 2", 2),
                false => is_table(&counted(BAC, 100.0), &limited),
            }
        }
    }
    let limited = format!("{text} ORDER BY a DESC PER PARTITION LIMIT 50 LIMIT 40 ALLOW FILTERING");
    let facts = helenus_cql::facts(&limited);
    let (derived, restore) =
        read_and_sort(&counted(BAC, 100.0), &limited, &facts, 0).expect("sorted");
    assert_eq!(derived, format!("{sorted} LIMIT 5001 ALLOW FILTERING"));
    assert_eq!(restore.limit, Some(40));
    // Nobody knows how much of the table the limit leaves.
    is_table(&table(&[BAC]), &format!("{text} LIMIT 28"));
    // A copy that hardly narrows the slice is not worth it.
    let mut wide = table(&[BAC]);
    wide.distinct.insert("b".to_owned(), 2.2);
    is_table(&wide, "SELECT a FROM t WHERE k = 1 AND b IN (1, 2)");
    // One that has the order is better than one that is a little shorter.
    let both = table(&[CBA, BAC]);
    let text = "SELECT a FROM t WHERE k = 1 AND b = 2 AND v = 3 ALLOW FILTERING";
    let ranked = |table: &LogicalTable, text: &str| -> Vec<(usize, bool)> {
        let ranked = rank(table, text, &helenus_cql::facts(text)).into_iter();
        ranked.map(|of| (of.at, of.is_sorted)).collect()
    };
    assert_eq!(ranked(&both, text)[0], (1, false));
    // One that is much shorter is better, as long as its answers can be sorted.
    let text = "SELECT a FROM t WHERE k = 1 AND b = 2 AND c > 3 AND v = 3 ALLOW FILTERING";
    let both = table(&[&[0, 2, 1], BAC, &[1, 2, 0]]);
    // And else the one with the table's order.
    assert_eq!(ranked(&both, text)[..2], [(2, true), (1, false)]);
}

#[test]
fn order_by_keeps_its_direction() {
    let derived = |order: &str| {
        let order = format!("SELECT v FROM ks.t__layout_0 WHERE k = 1 AND b = 2{order}");
        Some(order)
    };
    for (order, expected) in [
        (" ORDER BY a", ""),
        (" ORDER BY a ASC, b DESC LIMIT 5", " LIMIT 5"),
        (" ORDER BY a DESC", " ORDER BY a DESC"),
        (
            " ORDER BY a DESC, b ASC, c DESC LIMIT ?",
            " ORDER BY a DESC LIMIT ?",
        ),
    ] {
        let text = format!("SELECT v FROM t WHERE k = 1 AND b = 2{order}");
        check(BAC, &text, derived(expected).as_deref());
    }
    // `a` is bound, but it says in which direction `b` goes.
    check(
        &[2, 0, 1],
        "SELECT v FROM t WHERE k = 1 AND c = 3 AND a = 2 ORDER BY a DESC",
        Some("SELECT v FROM ks.t__layout_0 WHERE k = 1 AND c = 3 AND a = 2 ORDER BY b ASC"),
    );
    for order in ["v", "b", "a, c DESC", "b ASC, a DESC", "c"] {
        let text = format!("SELECT v FROM t WHERE k = 1 AND b = 2 ORDER BY {order}");
        check(BAC, &text, None);
    }
    check(
        BAC,
        "SELECT v FROM t WHERE k = 1 AND b = 2 ORDER BY a ASC, c DESC",
        None,
    );
}

#[test]
fn aggregates_need_no_order_if_it_does_not_change_them() {
    for selected in [
        "count(*)",
        "COUNT(1) AS n",
        "count(s), max(v), min(\"Up\")",
        "sum(v), AVG(v)",
        "max(fl)",
        "count(a)",
        "max(a), min(b), sum(c), avg(a)",
        "max(k), sum(k), min(s), avg(s)",
        "sum(dec)",
    ] {
        let statement =
            |table: &str| format!("SELECT {selected} FROM {table} WHERE k = ? AND c > ? LIMIT 1");
        let derived = statement("ks.t__layout_0");
        check(CAB, &statement("t"), Some(&derived));
    }
    check(
        CAB,
        "SELECT count(*) FROM t WHERE k = ? AND c > ? ORDER BY a DESC",
        Some("SELECT count(*) FROM ks.t__layout_0 WHERE k = ? AND c > ?"),
    );
    for selected in [
        "a, count(*)",
        "sum(fl)",
        "avg(dec)",
        "max(dec)",
        "max(l)",
        "sum(cast(v as float))",
        "count(*), \"max\"(v)",
        "system.max(v)",
        "count(v) + 1",
    ] {
        check(
            CAB,
            &format!("SELECT {selected} FROM t WHERE k = ? AND c > ?"),
            None,
        );
    }
    // In the table's own order they are exact too.
    check(
        CAB,
        "SELECT a, sum(fl) FROM t WHERE k = ? AND c = ?",
        Some("SELECT a, sum(fl) FROM ks.t__layout_0 WHERE k = ? AND c = ?"),
    );
}

#[test]
fn functions_must_be_known() {
    for selected in [
        "writetime(v), ttl(v)",
        "toJson(m)",
        "cast(v as text)",
        "JSON a, b",
        "system.intAsBlob(v) AS x",
        "m[3], u.street",
        "token(k)",
    ] {
        let statement =
            |table: &str| format!("SELECT {selected} FROM {table} WHERE k = 1 AND c = 2");
        check(CAB, &statement("t"), Some(&statement("ks.t__layout_0")));
    }
    for selected in ["now()", "mine(v)", "ks.abs(v)", "toJson(mine(v))", "JSON *"] {
        let text = format!("SELECT {selected} FROM t WHERE k = 1 AND c = 2");
        check(CAB, &text, None);
    }
}

#[test]
fn what_is_more_than_one_slice_of_one_partition_reads_the_table() {
    for text in [
        "SELECT v FROM t WHERE c = 2",
        "SELECT v FROM t WHERE k IN (1, 2) AND c = 2",
        "SELECT v FROM t WHERE token(k) > 1 AND c = 2",
        "SELECT v FROM t WHERE k = 1 AND token(k) > 1 AND c = 2",
        "SELECT v FROM t WHERE k = 1 AND k > 0 AND c = 2",
        "SELECT v FROM t WHERE k = 1 AND k = 1 AND c = 2",
        "SELECT v FROM t WHERE k = now() AND c = 2",
        "SELECT v FROM t WHERE k = 1 AND c = 1 + 1",
        "SELECT v FROM t WHERE k = 1 AND c = 2 AND c = 3",
        "SELECT v FROM t WHERE k = 1 AND c = 2 AND c > 1",
        "SELECT count(*) FROM t WHERE k = 1 AND c > 2 AND c >= 1",
        "SELECT count(*) FROM t WHERE k = 1 AND c != 2",
        "SELECT v FROM t WHERE k = 1 AND (c) = (2)",
        "SELECT v FROM t WHERE k = 1 AND (a, b, c) > (1, 2, 3)",
        "SELECT v FROM t WHERE k = 1 AND (a, b, c) IN ((1, 2, 3))",
        "SELECT v FROM t WHERE k = 1 AND c = 2 AND m CONTAINS 'x'",
        "SELECT v FROM t WHERE k = 1 AND c = 2 AND m[1] = 'x'",
        "SELECT v FROM t WHERE k = 1 AND c = 2 AND v IN (1, 2)",
        "SELECT v FROM t WHERE k = 1 AND c = 2 AND nosuch = 1",
        "SELECT DISTINCT k, s FROM t WHERE k = 1",
        "SELECT a, count(*) FROM t WHERE k = 1 AND c = 2 GROUP BY a",
        "SELECT v FROM t WHERE k = 1 AND c = 2 ORDER BY v ANN OF [1.0] LIMIT 1",
        "SELECT v FROM other WHERE k = 1 AND c = 2",
    ] {
        check(CAB, text, None);
    }
}

#[test]
fn the_copy_with_the_fewest_rows_is_taken_if_it_is_worth_it() {
    let mut table = table(&[BAC, CBA, &[1, 2, 0]]);
    let choice = |table: &LogicalTable, text: &str| {
        let text = format!("{text} ALLOW FILTERING");
        let ranked = rank(table, &text, &helenus_cql::facts(&text));
        ranked.first().map(|best| best.at)
    };
    let both = "SELECT v FROM t WHERE k = 1 AND b = 2 AND c = 3";
    assert_eq!(choice(&table, both), Some(1));
    table.copies[1].readable = false;
    assert_eq!(choice(&table, both), Some(2));
    let text = format!("{both} ALLOW FILTERING");
    let continued = |at| read_from(&table, &text, &helenus_cql::facts(&text), at);
    assert_eq!(continued(1), None);
    assert!(continued(0).is_some());
    // Bound completely, the table is as good.
    assert_eq!(choice(&table, &format!("{both} AND a = 1")), None);
    let by_b = "SELECT v FROM t WHERE k = 1 AND b = 2";
    assert_eq!(choice(&table, by_b), Some(0));
    table.distinct.insert("b".to_owned(), 1.4);
    assert_eq!(choice(&table, by_b), None);
    for unknown in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        table.distinct.insert("b".to_owned(), unknown);
        assert_eq!(choice(&table, by_b), Some(0), "{unknown}");
    }
    // Behind a range nothing narrows the slice.
    let ranges = "SELECT count(*) FROM t WHERE k = 1 AND b > 2 AND c = 3";
    assert_eq!(choice(&table, ranges), Some(0));
    table.copies[1].readable = true;
    assert_eq!(choice(&table, ranges), Some(1));
}

#[test]
fn lists_are_sliced_or_filtered_and_bind_no_order() {
    check(
        CAB,
        "SELECT v FROM t WHERE k = ? AND a IN (?, ?) AND c = ?",
        Some("SELECT v FROM ks.t__layout_0 WHERE k = ? AND a IN (?, ?) AND c = ?"),
    );
    // Behind `a`, which is not bound, the list filters.
    check(
        CAB,
        "SELECT v FROM t WHERE k = 1 AND b IN (1, 2) AND c = 3",
        Some("SELECT v FROM ks.t__layout_0 WHERE k = 1 AND b IN (1, 2) AND c = 3"),
    );
    // Rows of several `c` do not come in the order of `b`.
    check(
        CAB,
        "SELECT JSON v FROM t WHERE k = ? AND c IN ? AND a = ?",
        None,
    );
    // The table's slice is as short.
    let bound = "SELECT v FROM t WHERE k = ? AND a IN ? AND b = ? AND c = ?";
    check(CAB, bound, None);
}

#[test]
fn an_index_answers_itself() {
    let mut table = table(&[CAB]);
    let text = "SELECT v FROM t WHERE k = 1 AND c = 2 ALLOW FILTERING";
    assert_ne!(rank(&table, text, &helenus_cql::facts(text)), []);
    table.indexed = true;
    check_on(&table, text, None);
}
