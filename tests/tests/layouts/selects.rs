//! Random SELECTs of one partition, most of which Cassandra takes.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::schema::TestTable;
use crate::statement::Statement;
use crate::values::{Type, VALUES};
use crate::writes::{KEY_VALUES, name_of, partition, quoted};

/// Nothing of these depends on the moment.
const SELECTIONS: [&str; 22] = [
    "*",
    "*",
    "*",
    "v, {first}, {last} AS x",
    "{last}, s, \"a static\"",
    "s",
    "k, writetime(v), v",
    "m[1], st, l",
    "JSON {last}, v",
    "cast(v AS text), toJson(m)",
    "intAsBlob(v), token({key})",
    "count(*)",
    "count(1), count(v), COUNT(\"X\")",
    "min(v), max(v), sum(v), avg(v)",
    "max(w), min(\"X\"), max(\"X\") AS most",
    "sum(w), avg(w)",
    "sum(dec), avg(dec)",
    "min(dec), max(dec)",
    "min({last}), max({first})",
    "v, max(v)",
    "max(s), count(s)",
    "max(writetime(v))",
];

pub(crate) fn select(rng: &mut ChaCha8Rng, table: &TestTable) -> Statement {
    let first = quoted(&table.clustering[0].0);
    let last = quoted(&table.clustering[table.clustering.len() - 1].0);
    let key: Vec<String> = table
        .partition_key
        .iter()
        .map(|(name, _)| quoted(name))
        .collect();
    let selection = SELECTIONS.choose(rng).expect("some");
    let selection = selection
        .replace("{first}", &first)
        .replace("{last}", &last);
    let selection = selection.replace("{key}", &key.join(", "));
    let name = name_of(table);
    let mut statement = Statement::default().text(format!("SELECT {selection} FROM {name}"));
    partition(rng, table, &mut statement);
    let mut bound = Vec::new();
    for (name, of) in &table.clustering {
        let name = quoted(name);
        match rng.random_range(0..20) {
            0..7 => {}
            7..14 => {
                compare(rng, &mut statement, &name, "=", *of);
                bound.push(name);
            }
            14..16 => {
                statement.push(&format!(" AND {name} IN "));
                let count = rng.random_range(0..4);
                let values = (0..count)
                    .map(|_| rng.random_range(0..KEY_VALUES))
                    .collect();
                statement.push_list(*of, values);
            }
            16..18 => {
                let operator = ["<", "<=", ">", ">="].choose(rng).expect("some");
                compare(rng, &mut statement, &name, operator, *of);
            }
            _ => {
                compare(rng, &mut statement, &name, ">=", *of);
                compare(rng, &mut statement, &name, "<", *of);
            }
        }
    }
    if rng.random_bool(0.15) {
        let (name, of) = [("v", Type::Int), ("s", Type::Int), ("\"X\"", Type::Text)]
            .choose(rng)
            .copied()
            .expect("some");
        let operator = ["=", ">", "<="].choose(rng).expect("some");
        compare(rng, &mut statement, name, operator, of);
    }
    order_by(rng, table, &bound, &mut statement);
    if rng.random_bool(0.25) {
        statement.push(&format!(" LIMIT {}", rng.random_range(1..12)));
    }
    if rng.random_bool(0.95) {
        statement.push(" ALLOW FILTERING");
    }
    statement
}

fn compare(rng: &mut ChaCha8Rng, statement: &mut Statement, name: &str, operator: &str, of: Type) {
    statement.push(&format!(" AND {name} {operator} "));
    statement.push_value(of, rng.random_range(0..VALUES));
}

/// In the table's order or reversed; columns that are bound may be left out.
fn order_by(rng: &mut ChaCha8Rng, table: &TestTable, bound: &[String], statement: &mut Statement) {
    if rng.random_bool(0.5) {
        return;
    }
    let reversed = rng.random_bool(0.6);
    let count = rng.random_range(1..=table.clustering.len());
    let columns = table.logical.clustering.iter().take(count);
    let left_out =
        |name: &String, rng: &mut ChaCha8Rng| bound.contains(name) && rng.random_bool(0.5);
    let mut orders = Vec::new();
    for column in columns {
        let name = quoted(&column.name);
        if !left_out(&name, rng) {
            let descending = column.descending != reversed;
            orders.push(format!(
                "{name} {}",
                if descending { "DESC" } else { "ASC" }
            ));
        }
    }
    if !orders.is_empty() {
        statement.push(&format!(" ORDER BY {}", orders.join(", ")));
    }
}
