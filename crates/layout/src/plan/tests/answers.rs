//! Random statements carried out on random rows: what a copy gives, sorted or not, is the table's answer.

use std::cmp::Ordering;

use helenus_cql::{Facts, InValues, Literal, Op, Selected, Term, facts};

use super::*;
use crate::rng::Rng;
use crate::testing::for_seeds;

/// Values of `a`, `b`, `c` and `v`.
type Row = [i64; 4];

const NAMES: [&str; 4] = ["a", "b", "c", "v"];

#[test]
fn a_copys_answer_is_the_tables() {
    let (mut in_order, mut sorted, mut cut) = (0, 0, 0);
    for_seeds(3_000, |_, rng| {
        let orders = Layout::all(3, &[0, 1, 2]);
        let order: Vec<usize> = orders[rng.below(orders.len())].columns().collect();
        let mut table = table(&[&order]);
        for column in &mut table.clustering {
            column.descending = rng.below(2) == 0;
        }
        let rows = random_rows(rng);
        let text = random_select(rng, &table);
        let known = facts(&text);
        let expected = carry_out(&table, &[0, 1, 2], &rows, &known);
        if let Some(derived) = read_from(&table, &text, &known, 0) {
            in_order += 1;
            let found = carry_out(&table, &order, &rows, &facts(&derived));
            assert_eq!(found, expected, "{text} became {derived}");
        }
        if let Some((derived, restore)) = read_and_sort(&table, &text, &known, 0) {
            sorted += 1;
            let found = carry_out(&table, &order, &rows, &facts(&derived));
            cut += usize::from(restore.limit.is_some_and(|limit| found.len() > limit));
            let found = restored(found, &restore);
            assert_eq!(found, expected, "{text} became {derived}");
        }
    });
    assert!(
        in_order.min(sorted).min(5 * cut) > 300 || std::env::var("HELENUS_SEED").is_ok(),
        "{in_order} in order, {sorted} sorted, {cut} of them cut"
    );
}

fn random_rows(rng: &mut Rng) -> Vec<Row> {
    let all = (0..64).map(|at| [at / 16, at / 4 % 4, at % 4, 0]);
    let mut rows: Vec<Row> = all.filter(|_| rng.below(3) > 0).collect();
    for row in &mut rows {
        row[3] = rng.below(5) as i64;
    }
    rows
}

/// One that the table takes.
fn random_select(rng: &mut Rng, table: &LogicalTable) -> String {
    let selections = ["*", "v", "a, b, c", "c AS b, v", "v, b AS x", "b, ttl(v)"];
    let mut text = format!(
        "SELECT {} FROM t WHERE k = 1",
        selections[rng.below(selections.len())]
    );
    let mut equal = [false; 3];
    for (at, name) in NAMES.iter().enumerate() {
        let value = rng.below(4);
        text += &match rng.below(5) {
            0 | 1 => {
                if let Some(equal) = equal.get_mut(at) {
                    *equal = true;
                }
                format!(" AND {name} = {value}")
            }
            2 if at < 3 => format!(" AND {name} IN ({value}, {}, 0)", rng.below(4)),
            3 => format!(" AND {name} >= {value} AND {name} < 4"),
            _ => continue,
        };
    }
    let reversed = rng.below(2) == 0;
    let columns = table.clustering.iter().enumerate().take(rng.below(4));
    let columns = columns.filter(|(at, _)| !equal[*at] || rng.below(2) == 0);
    let columns = columns.map(|(_, column)| {
        let direction = if column.descending != reversed {
            "DESC"
        } else {
            "ASC"
        };
        format!("{} {direction}", column.name)
    });
    let columns: Vec<String> = columns.collect();
    if !columns.is_empty() {
        text += &format!(" ORDER BY {}", columns.join(", "));
    }
    if rng.below(4) == 0 {
        text += &format!(" PER PARTITION LIMIT {}", 1 + rng.below(12));
    }
    if rng.below(3) == 0 {
        text += &format!(" LIMIT {}", 1 + rng.below(12));
    }
    text + " ALLOW FILTERING"
}

/// The answer of a node that has these rows sorted in this order of the clustering columns. A function of `v` is
/// its negative.
fn carry_out(table: &LogicalTable, order: &[usize], rows: &[Row], asked: &Facts) -> Vec<Vec<i64>> {
    let select = asked.select.as_deref().expect("a SELECT");
    let mut found: Vec<Row> = rows
        .iter()
        .copied()
        .filter(|row| fits(row, asked))
        .collect();
    let by_column = |one: &Row, other: &Row, at: usize| {
        let ascending = one[at].cmp(&other[at]);
        match table.clustering[at].descending {
            true => ascending.reverse(),
            false => ascending,
        }
    };
    found.sort_by(|one, other| {
        let mut orders = order.iter().map(|at| by_column(one, other, *at));
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    if let Some(first) = select.order_by.first() {
        let at = table.clustering_column(&first.column).expect("a column");
        if table.clustering[at].descending != first.descending {
            found.reverse();
        }
    }
    let limits = [&select.per_partition_limit, &select.limit];
    for limit in limits.into_iter().flatten() {
        found.truncate(number(limit) as usize);
    }
    let columns: Vec<Option<&str>> = match &select.columns {
        Selected::All => table.all_columns().into_iter().map(Some).collect(),
        Selected::Columns(items) => {
            let names = items.iter().map(|item| item.column.as_ref());
            names.map(|name| name.map(|name| name.as_str())).collect()
        }
    };
    let cell = |row: &Row, name: &Option<&str>| match name {
        Some(name) => NAMES.iter().position(|n| n == name).map_or(1, |at| row[at]),
        None => -row[3],
    };
    let cells = |row: &Row| columns.iter().map(|name| cell(row, name)).collect();
    found.iter().map(cells).collect()
}

fn fits(row: &Row, asked: &Facts) -> bool {
    let select = asked.select.as_deref().expect("a SELECT");
    let value = |name: &str| {
        NAMES
            .iter()
            .position(|n| *n == name)
            .map_or(1, |at| row[at])
    };
    let mut equal = asked.key_terms.iter();
    let mut lists = select.ins.iter();
    let mut ranges = select.ranges.iter();
    equal.all(|term| value(&term.column) == number(&term.term))
        && lists.all(|list| match &list.values {
            InValues::Terms(terms) => terms.iter().any(|t| number(t) == value(&list.columns[0])),
            InValues::Marker(_) => false,
        })
        && ranges.all(|range| {
            let order = value(&range.columns[0]).cmp(&number(&range.terms[0]));
            match range.op {
                Op::Less => order.is_lt(),
                _ => order.is_ge(),
            }
        })
}

fn number(term: &Term) -> i64 {
    match term {
        Term::Literal(Literal::Int(number)) => *number as i64,
        other => panic!("{other:?}"),
    }
}

/// A copy's answer, restored.
fn restored(mut rows: Vec<Vec<i64>>, restore: &Restore) -> Vec<Vec<i64>> {
    rows.sort_by(|one, other| {
        let mut orders = restore.keys.iter().map(|key| {
            let ascending = one[key.column].cmp(&other[key.column]);
            match key.descending {
                true => ascending.reverse(),
                false => ascending,
            }
        });
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    rows.truncate(restore.limit.unwrap_or(ROWS_MAX));
    for row in &mut rows {
        row.truncate(row.len() - restore.appended);
    }
    rows
}
