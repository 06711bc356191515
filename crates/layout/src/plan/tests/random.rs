//! Random statements, whole and mutilated: what is derived asks the same of the copy.

use helenus_cql::{Facts, Literal, SelectFacts, Selected, Term, facts};

use super::*;
use crate::rng::Rng;
use crate::testing::for_seeds;

#[test]
fn a_derived_statement_has_the_same_facts_and_markers() {
    let (mut copies, mut sorted, mut writes) = (0, 0, 0);
    for_seeds(5_000, |_, rng| {
        let table = random_table(rng);
        let select = random_select(rng);
        let known = facts(&select);
        for of in rank(&table, &select, &known) {
            copies += 1;
            let (text, restore) = match of.is_sorted {
                true => read_and_sort(&table, &select, &known, of.at).map(|(t, r)| (t, Some(r))),
                false => read_from(&table, &select, &known, of.at).map(|text| (text, None)),
            }
            .expect("it is ranked");
            check_read(&table, of.at, &select, &known, &text, restore.as_ref());
        }
        for at in 0..table.copies.len() {
            if let Some(text) = read_from(&table, &select, &known, at) {
                check_read(&table, at, &select, &known, &text, None);
            }
            if let Some((text, restore)) = read_and_sort(&table, &select, &known, at) {
                sorted += 1;
                check_read(&table, at, &select, &known, &text, Some(&restore));
            }
        }
        let modification = random_write(rng);
        writes += check_writes(&table, &modification, &facts(&modification));
    });
    // One seed alone may have none.
    assert!(
        copies > 100 || std::env::var("HELENUS_SEED").is_ok(),
        "{copies} reads of copies"
    );
    assert!(
        sorted > 100 || std::env::var("HELENUS_SEED").is_ok(),
        "{sorted} reads that are sorted"
    );
    assert!(
        writes > 100 || std::env::var("HELENUS_SEED").is_ok(),
        "{writes} writes"
    );
}

#[test]
fn no_text_makes_it_panic_or_change_the_markers() {
    for_seeds(20_000, |_, rng| {
        let table = random_table(rng);
        let mut text = match rng.below(3) {
            0 => random_select(rng),
            1 => random_write(rng),
            _ => format!(
                "BEGIN BATCH {}; {} APPLY BATCH",
                random_write(rng),
                random_write(rng)
            ),
        };
        let before = facts(&text);
        for _ in 0..1 + rng.below(6) {
            mutilate(rng, &mut text);
        }
        let known = facts(&text);
        for at in 0..table.copies.len() + 1 {
            if let Some(derived) = read_from(&table, &text, &known, at) {
                check_read(&table, at, &text, &known, &derived, None);
            }
            if let Some((derived, restore)) = read_and_sort(&table, &text, &known, at) {
                check_read(&table, at, &text, &known, &derived, Some(&restore));
            }
            // Facts of another text.
            let _ = read_from(&table, &text, &before, at);
            let _ = read_and_sort(&table, &text, &before, at);
        }
        for of in [&known, &before] {
            let _ = rank(&table, &text, of);
            let _ = write(&table, &text, of);
            for inner in &of.inner {
                let _ = write(&table, &text, inner);
            }
        }
        check_writes(&table, &text, &known);
        for inner in &known.inner {
            check_writes(&table, &text, inner);
        }
    });
}

fn check_read(
    table: &LogicalTable,
    at: usize,
    text: &str,
    known: &Facts,
    derived: &str,
    restore: Option<&Restore>,
) {
    let of_copy = facts(derived);
    check_same(&table.copies[at].physical, text, known, &of_copy, derived);
    let (own, copied) = (selected(known), selected(&of_copy));
    match restore {
        Some(_) => {
            let most = Term::Literal(Literal::Int(ROWS_MAX as i128 + 1));
            assert_eq!(copied.limit, Some(most), "{derived}");
            assert_eq!(copied.per_partition_limit, None, "{derived}");
            assert!(copied.order_by.is_empty(), "{derived}");
        }
        None => {
            assert_eq!(own.limit, copied.limit, "{derived}");
            assert_eq!(
                own.per_partition_limit, copied.per_partition_limit,
                "{derived}"
            );
        }
    }
    assert_eq!(own.json, copied.json, "{derived}");
    assert_eq!(own.folds, copied.folds, "{derived}");
    assert!(copied.allow_filtering, "{derived}");
    let restrictions = |of: &SelectFacts| {
        let ins = of.ins.iter().map(|r| (r.columns.clone(), r.values.clone()));
        let ranges = of.ranges.iter();
        let ranges = ranges.map(|r| (r.columns.clone(), r.op, r.terms.clone()));
        (ins.collect::<Vec<_>>(), ranges.collect::<Vec<_>>())
    };
    assert_eq!(restrictions(own), restrictions(copied), "{derived}");
    let columns = |of: &SelectFacts| match &of.columns {
        Selected::All => table
            .all_columns()
            .iter()
            .map(|c| Some((*c).to_owned()))
            .collect(),
        Selected::Columns(columns) => {
            let name = columns
                .iter()
                .map(|c| c.column.as_ref().map(|name| name.to_string()));
            name.collect::<Vec<_>>()
        }
    };
    let (own, mut copied_columns) = (columns(own), columns(copied));
    if let Some(restore) = restore {
        let appended = copied_columns.split_off(own.len());
        assert_eq!(appended.len(), restore.appended, "{derived}");
        for key in &restore.keys {
            let known = copied_columns.iter().chain(&appended).nth(key.column);
            let known = known.and_then(|name| name.as_deref());
            let is_named = |column: &ClusteringColumn| Some(&*column.name) == known;
            assert!(
                table.clustering.iter().any(is_named),
                "{derived}: {known:?}"
            );
        }
    }
    assert_eq!(own, copied_columns, "{derived}");
    assert!(!matches!(copied.columns, Selected::All), "{derived}");
}

/// Returns how many there are.
fn check_writes(table: &LogicalTable, text: &str, known: &Facts) -> usize {
    let Write::Copies(copies) = write(table, text, known) else {
        return 0;
    };
    assert_eq!(copies.len(), table.copies.len());
    for (copy, derived) in table.copies.iter().zip(&copies) {
        let of_copy = facts(derived);
        check_same(&copy.physical, text, known, &of_copy, derived);
        assert_eq!(
            known.idempotent_but_for_lists, of_copy.idempotent_but_for_lists,
            "{derived}"
        );
        assert_eq!(known.using_ttl, of_copy.using_ttl, "{derived}");
        assert_eq!(known.using_timestamp, of_copy.using_timestamp, "{derived}");
    }
    copies.len()
}

/// Everything is equal but what a rewriting may change. Markers are numbered from the start of the whole text
/// there, and of the statement here.
fn check_same(physical: &str, text: &str, known: &Facts, of_copy: &Facts, derived: &str) {
    assert_eq!(known.kind, of_copy.kind, "{text} became {derived}");
    assert_eq!(of_copy.table.as_deref(), Some(physical), "{derived}");
    assert_eq!(of_copy.keyspace.as_deref(), Some("ks"), "{derived}");
    assert_eq!(known.markers, of_copy.markers, "{text} became {derived}");
    let names = |of: &Facts| {
        of.named_markers
            .iter()
            .map(|(n, _)| n.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(known), names(of_copy), "{text} became {derived}");
    let columns = |of: &Facts| {
        of.key_terms
            .iter()
            .map(|t| t.column.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(columns(known), columns(of_copy), "{text} became {derived}");
    let whole = known.spans.statement.start == of_copy.spans.statement.start;
    if whole {
        assert_eq!(
            known.key_terms, of_copy.key_terms,
            "{text} became {derived}"
        );
    }
}

fn selected(facts: &Facts) -> &SelectFacts {
    facts.select.as_deref().expect("a SELECT")
}

fn random_table(rng: &mut Rng) -> LogicalTable {
    let mut orders = Vec::new();
    for _ in 0..1 + rng.below(3) {
        let mut order = [0, 1, 2];
        for at in 0..3 {
            order.swap(at, rng.below(3));
        }
        orders.push(order);
    }
    let orders: Vec<&[usize]> = orders.iter().map(|order| order.as_slice()).collect();
    table(&orders)
}

fn pick<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.below(of.len())]
}

const TABLES: &[&str] = &["t", "ks.t", "\"ks\" . \"t\"", "T", "\"t\"", "other"];
const VALUES: &[&str] = &[
    "?",
    ":x",
    "1",
    "'it''s'",
    "null",
    "-3",
    "0xCAFE",
    "[1, ?]",
    "f(:y)",
    "toJson(?)",
];

fn random_select(rng: &mut Rng) -> String {
    let selection = [
        "*",
        "v",
        "a, b AS x, \"Up\"",
        "count(*)",
        "max(v), count(s) AS n",
        "sum(fl)",
        "JSON a, b",
        "ttl(v), a",
        "a, max(v)",
        "now()",
        "DISTINCT k",
        "CAST(v AS text)",
        "m[?]",
    ];
    let mut text = format!(
        "SELECT {} FROM {}",
        pick(rng, &selection),
        pick(rng, TABLES)
    );
    let mut separator = " WHERE ";
    let mut columns = vec!["k", "a", "b", "c", "v", "\"Up\"", "s"];
    while !columns.is_empty() {
        let column = columns.remove(rng.below(columns.len()));
        let likely = ["k", "a", "b", "c"].contains(&column);
        if rng.below(if likely { 4 } else { 12 }) == 0 || (!likely && rng.below(4) > 0) {
            continue;
        }
        let known = if rng.below(8) == 0 { VALUES.len() } else { 7 };
        let value = pick(rng, &VALUES[..known]);
        let relation = match rng.below(if column == "k" { 12 } else { 6 }) {
            0 => format!("{column} > {value}"),
            1 => format!("{column} IN (?, {value})"),
            2 => format!("{column} >= {value} AND {column} < :high"),
            _ => format!("{column} = {value}"),
        };
        text += separator;
        text += &relation;
        separator = " AND ";
    }
    if rng.below(3) == 0 {
        let order = [
            "a",
            "a DESC",
            "b ASC",
            "c DESC",
            "a DESC, b ASC",
            "b, c DESC",
            "v",
        ];
        text += &format!(" ORDER BY {}", pick(rng, &order));
    }
    if rng.below(6) == 0 {
        text += &format!(" PER PARTITION LIMIT {}", pick(rng, &["?", "3", "0"]));
    }
    if rng.below(3) == 0 {
        text += &format!(" LIMIT {}", pick(rng, &["?", "10", ":limit"]));
    }
    text += pick(
        rng,
        &[
            " ALLOW FILTERING",
            " ALLOW FILTERING",
            " allow filtering;",
            "",
        ],
    );
    text
}

fn random_write(rng: &mut Rng) -> String {
    let table = pick(rng, TABLES);
    let using = pick(
        rng,
        &[
            "",
            "",
            " USING TTL ? AND TIMESTAMP 5",
            " USING TIMESTAMP :ts",
        ],
    );
    let condition = pick(rng, &["", "", "", "", "", " IF EXISTS"]);
    let mut value = || pick(rng, VALUES).to_owned();
    let (k, a, b, c, v) = (value(), value(), value(), value(), value());
    let row = format!("k = {k} AND a = {a} AND b IN ({b}, ?) AND c = {c}");
    match rng.below(6) {
        0 => format!("INSERT INTO {table} (k, a, b, c, v) VALUES ({k}, {a}, {b}, {c}, {v}){using}"),
        1 => format!("INSERT INTO {table} JSON ?{using}"),
        2 | 3 => {
            let set = [
                "v = 1",
                "l = [1, 2]",
                "m[?] = 'x'",
                "st = st + {1}",
                "l = l + [2]",
                "u.street = :s",
                "m += {2: 'y'}",
                "\"Up\" = \"Up\" + 1",
            ];
            format!(
                "UPDATE {table}{using} SET {}, fl = {v} WHERE {row}{condition}",
                pick(rng, &set)
            )
        }
        4 => format!(
            "DELETE {} FROM {table} WHERE {row}{condition}",
            pick(rng, &["", "v", "m[1], l"])
        ),
        _ => format!("DELETE FROM {table} WHERE k = {k} AND a > {a}"),
    }
}

/// Removes, doubles or inserts some characters.
fn mutilate(rng: &mut Rng, text: &mut String) {
    let mut at = rng.below(text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let pieces = [
        "'",
        "\"",
        "$$",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ";",
        "?",
        ":x",
        "--",
        "/*",
        "*/",
        "é",
        ".",
        ",",
        " FROM ",
        " WHERE ",
        " ORDER BY ",
        " t ",
        "*",
        "1",
        " AS ",
        " ALLOW FILTERING",
        " IF ",
    ];
    match rng.below(3) {
        0 => text.insert_str(at, pick(rng, &pieces)),
        1 => {
            let end = text[at..].char_indices().nth(1 + rng.below(8));
            let end = end.map_or(text.len(), |(end, _)| at + end);
            text.replace_range(at..end, "");
        }
        _ => {
            let tail = text[at..].to_owned();
            text.push_str(&tail);
        }
    }
}
