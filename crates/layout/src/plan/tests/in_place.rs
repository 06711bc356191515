use super::*;

/// On each of the table's copies, the cheapest first: the copy and its text, with `sorted` behind it if the answer is
/// to be sorted.
fn check(table: &LogicalTable, text: &str, expected: &[(usize, &str)]) {
    let reads = read_in_place(table, text, &helenus_cql::facts(text));
    let found: Vec<(usize, String)> = reads
        .iter()
        .map(|read| {
            let sorted = if read.restore.is_some() {
                " sorted"
            } else {
                ""
            };
            (read.at, format!("{}{sorted}", read.text))
        })
        .collect();
    let expected: Vec<(usize, String)> = expected
        .iter()
        .map(|(at, text)| (*at, (*text).to_owned()))
        .collect();
    assert_eq!(found, expected, "{text}");
    for read in &reads {
        let is_own = table.copies[read.at].layout == Layout::own(3);
        assert_eq!(read.is_own, is_own);
    }
}

/// Three copies: with the table's own order, with `b` first, and with `c` first.
fn copies() -> LogicalTable {
    let mut table = table(&[&[0, 1, 2], &[1, 0, 2], &[2, 0, 1]]);
    for (at, copy) in table.copies.iter_mut().enumerate() {
        copy.keyspace = format!("ks_{at}");
        copy.physical = "t".to_owned();
    }
    table
}

#[test]
fn the_cheapest_copy_comes_first_and_filters_where_it_has_to() {
    let table = copies();
    assert!(table.is_replaced());
    check(
        &table,
        "SELECT v FROM t WHERE k = ? AND a = ? AND b = ?",
        &[
            (0, "SELECT v FROM ks_0.t WHERE k = ? AND a = ? AND b = ?"),
            (1, "SELECT v FROM ks_1.t WHERE k = ? AND a = ? AND b = ?"),
            (
                2,
                "SELECT v FROM ks_2.t WHERE k = ? AND a = ? AND b = ? ALLOW FILTERING",
            ),
        ],
    );
    check(
        &table,
        "SELECT v FROM t WHERE k = ? AND a = ? AND b = ? LIMIT 7; ",
        &[
            (
                0,
                "SELECT v FROM ks_0.t WHERE k = ? AND a = ? AND b = ? LIMIT 7; ",
            ),
            (
                1,
                "SELECT v FROM ks_1.t WHERE k = ? AND a = ? AND b = ? LIMIT 7; ",
            ),
            (
                2,
                "SELECT v FROM ks_2.t WHERE k = ? AND a = ? AND b = ? LIMIT 7 ALLOW FILTERING; ",
            ),
        ],
    );
    check(
        &table,
        "SELECT v FROM t WHERE k = ? AND c = ? ALLOW FILTERING",
        &[
            (
                2,
                "SELECT v FROM ks_2.t WHERE k = ? AND c = ? ALLOW FILTERING",
            ),
            (
                0,
                "SELECT v FROM ks_0.t WHERE k = ? AND c = ? ALLOW FILTERING",
            ),
            (
                1,
                "SELECT v, a, b FROM ks_1.t WHERE k = ? AND c = ? LIMIT 5001 ALLOW FILTERING \
                 sorted",
            ),
        ],
    );
}

#[test]
fn rows_that_come_in_another_order_are_sorted() {
    let table = copies();
    let all = |at: usize| {
        let columns = "k, a, b, c, s, \"Up\", dec, fl, fz, l, m, st, u, v";
        format!("SELECT {columns} FROM ks_{at}.t WHERE k = 1 LIMIT 5001 sorted")
    };
    check(
        &table,
        "SELECT * FROM t WHERE k = 1 ORDER BY a DESC",
        &[
            (0, "SELECT * FROM ks_0.t WHERE k = 1 ORDER BY a DESC"),
            (1, &all(1)),
            (2, &all(2)),
        ],
    );
    check(
        &table,
        "SELECT count(*) FROM t WHERE k = 1",
        &[
            (0, "SELECT count(*) FROM ks_0.t WHERE k = 1"),
            (1, "SELECT count(*) FROM ks_1.t WHERE k = 1"),
            (2, "SELECT count(*) FROM ks_2.t WHERE k = 1"),
        ],
    );
}

#[test]
fn what_only_the_tables_own_order_can_answer_goes_to_that_copy_as_it_is() {
    let mut table = copies();
    for text in [
        "SELECT JSON * FROM t WHERE k = 1",
        "SELECT DISTINCT k FROM t WHERE k = 1",
        "SELECT a, max(v) FROM t WHERE k = 1 GROUP BY a",
        "SELECT v FROM t WHERE k = 1 AND (a, b) > (1, 2)",
        "SELECT mine(v) FROM t WHERE k = 1",
        "SELECT v FROM t WHERE k = 1 LIMIT ?",
        // The table itself would refuse these, and so does that copy.
        "SELECT v FROM t WHERE k = 1 AND b = 2",
        "SELECT v FROM t WHERE k = 1 AND v = 2",
        "SELECT v FROM t WHERE k = 1 AND a > 1 AND b = 2",
    ] {
        let on_own = text.replace(" t ", " ks_0.t ");
        check(&table, text, &[(0, &on_own)]);
    }
    table.indexed = true;
    let text = "SELECT v FROM t WHERE k = 1 AND v = 2";
    check(&table, text, &[(0, &text.replace(" t ", " ks_0.t "))]);
    table.copies[0].readable = false;
    check(&table, text, &[]);
}
