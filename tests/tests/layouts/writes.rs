//! Random writes to a table with layouts.

use helenus_cql::quote_identifier;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::schema::TestTable;
use crate::statement::Statement;
use crate::values::{Type, VALUES};

/// Values of the first column of the partition key, and of others of the primary key: few partitions
/// with many rows, which are written more than once.
const PARTITIONS: usize = 2;
pub(crate) const KEY_VALUES: usize = 4;

/// A write of one row or partition, in words of CQL.
pub(crate) fn write(rng: &mut ChaCha8Rng, table: &TestTable) -> Statement {
    match rng.random_range(0..1000) {
        0..550 => insert(rng, table),
        550..600 => insert_json(rng, table),
        600..850 => update(rng, table),
        850..890 => update_static(rng, table),
        890..955 => delete_row(rng, table),
        955..960 => delete_partition(rng, table),
        _ => cannot_be_copied(rng, table),
    }
}

pub(crate) fn name_of(table: &TestTable) -> String {
    let logical = &table.logical;
    format!("{}.{}", logical.keyspace, logical.name)
}

fn insert(rng: &mut ChaCha8Rng, table: &TestTable) -> Statement {
    let mut columns: Vec<String> = key(table).map(|(name, _)| quoted(name)).collect();
    let mut values = Statement::default();
    let mut separator = "";
    for (at, (_, of)) in key(table).enumerate() {
        values.push(separator);
        values.push_value(*of, key_value(rng, at));
        separator = ", ";
    }
    for (name, of) in some_of(rng, &[&REGULAR[..], &STATIC, table.added()].concat(), 0.6) {
        columns.push(quoted(name));
        values.push(separator);
        values.push_value(of, rng.random_range(0..VALUES));
    }
    for (name, value) in some_of(rng, &COLLECTIONS, 0.2) {
        columns.push(quoted(name));
        values.push(separator);
        values.push(value);
    }
    let ttl = if rng.random_bool(0.05) {
        " USING TTL 100000"
    } else {
        ""
    };
    let mut statement = Statement::default().text(format!(
        "INSERT INTO {} ({}) VALUES (",
        name_of(table),
        columns.join(", ")
    ));
    statement.append(values);
    statement.text(")").text(ttl)
}

fn insert_json(rng: &mut ChaCha8Rng, table: &TestTable) -> Statement {
    let mut members: Vec<String> = Vec::new();
    for (at, (name, of)) in key(table).enumerate() {
        members.push(member(name, &of.json(key_value(rng, at))));
    }
    for (name, of) in some_of(rng, &[&REGULAR[..], &STATIC, table.added()].concat(), 0.6) {
        members.push(member(name, &of.json(rng.random_range(0..VALUES))));
    }
    let default = ["", " DEFAULT UNSET", " DEFAULT NULL"]
        .choose(rng)
        .expect("some");
    Statement::default().text(format!(
        "INSERT INTO {} JSON '{{{}}}'{default}",
        name_of(table),
        members.join(", ")
    ))
}

fn some_of<T: Clone>(rng: &mut ChaCha8Rng, all: &[T], share: f64) -> Vec<T> {
    let chosen = all.iter().filter(|_| rng.random_bool(share));
    chosen.cloned().collect()
}

fn member(name: &str, value: &str) -> String {
    // A name whose case counts is in quotes, which are not doubled inside.
    let name = match quoted(name) == name {
        true => name.to_owned(),
        false => format!("\\\"{}\\\"", name.replace('"', "\\\"")),
    };
    format!("\"{name}\": {value}")
}

fn update(rng: &mut ChaCha8Rng, table: &TestTable) -> Statement {
    let mut statement = Statement::default().text(format!("UPDATE {} SET ", name_of(table)));
    if rng.random_bool(0.5) {
        let regular = [&REGULAR[..], table.added().get(..1).unwrap_or_default()].concat();
        let (name, of) = regular.choose(rng).expect("some");
        statement.push(&format!("{} = ", quoted(name)));
        statement.push_value(*of, rng.random_range(0..VALUES));
    } else {
        let changes = [
            "st = st + {1, 7}",
            "st -= {1}",
            "m[3] = 'three'",
            "m = m + {1: 'one', 2: 'two'}",
            "m = m - {1}",
            "l = [5, 4]",
            "l = null",
            "fz = [1]",
            "v = null, m = {9: 'nine'}",
        ];
        statement.push(changes.choose(rng).expect("some"));
    }
    row(rng, table, &mut statement);
    statement
}

fn update_static(rng: &mut ChaCha8Rng, table: &TestTable) -> Statement {
    let mut statement = Statement::default().text(format!("UPDATE {} SET s = ", name_of(table)));
    statement.push_value(Type::Int, rng.random_range(0..VALUES));
    partition(rng, table, &mut statement);
    statement
}

fn delete_row(rng: &mut ChaCha8Rng, table: &TestTable) -> Statement {
    let what = ["", "", "v", "m[3], st", "l, w", "\"X\""]
        .choose(rng)
        .expect("some");
    let mut statement = Statement::default().text(format!("DELETE {what} FROM {}", name_of(table)));
    row(rng, table, &mut statement);
    statement
}

fn delete_partition(rng: &mut ChaCha8Rng, table: &TestTable) -> Statement {
    let what = ["", "s", "s, \"a static\""].choose(rng).expect("some");
    let mut statement = Statement::default().text(format!("DELETE {what} FROM {}", name_of(table)));
    partition(rng, table, &mut statement);
    statement
}

/// Cassandra takes these, layouts do not.
fn cannot_be_copied(rng: &mut ChaCha8Rng, table: &TestTable) -> Statement {
    let name = name_of(table);
    let mut statement = Statement::default();
    match rng.random_range(0..4) {
        0 => {
            let changes = [
                "l = l + [1]",
                "l = [1] + l",
                "l = l - [5]",
                "l += [2]",
                "l[0] = 3",
            ];
            let change = changes.choose(rng).expect("some");
            statement.push(&format!("UPDATE {name} SET {change}"));
            row(rng, table, &mut statement);
        }
        1 => {
            statement.push(&format!("UPDATE {name} SET v = 5"));
            row(rng, table, &mut statement);
            statement.push(" IF v = 1");
        }
        2 => {
            statement.push(&format!("DELETE FROM {name}"));
            partition(rng, table, &mut statement);
            let (first, of) = &table.clustering[0];
            statement.push(&format!(" AND {} = ", quoted(first)));
            statement.push_value(*of, rng.random_range(0..KEY_VALUES));
        }
        _ => {
            statement.push(&format!("UPDATE {name} SET \"X\" = toJson(now())"));
            row(rng, table, &mut statement);
        }
    }
    statement
}

/// ` WHERE` with the whole primary key; sometimes with several values of a column.
fn row(rng: &mut ChaCha8Rng, table: &TestTable, statement: &mut Statement) {
    partition(rng, table, statement);
    for (name, of) in &table.clustering {
        if rng.random_bool(0.1) {
            statement.push(&format!(" AND {} IN ", quoted(name)));
            let values = (0..3).map(|_| rng.random_range(0..KEY_VALUES)).collect();
            statement.push_list(*of, values);
        } else {
            statement.push(&format!(" AND {} = ", quoted(name)));
            statement.push_value(*of, rng.random_range(0..KEY_VALUES));
        }
    }
}

/// ` WHERE` with the partition key.
pub(crate) fn partition(rng: &mut ChaCha8Rng, table: &TestTable, statement: &mut Statement) {
    let mut word = "WHERE";
    for (at, (name, of)) in table.partition_key.iter().enumerate() {
        statement.push(&format!(" {word} {} = ", quoted(name)));
        statement.push_value(*of, key_value(rng, at));
        word = "AND";
    }
}

fn key_value(rng: &mut ChaCha8Rng, at: usize) -> usize {
    rng.random_range(0..if at == 0 { PARTITIONS } else { KEY_VALUES })
}

fn key(table: &TestTable) -> impl Iterator<Item = &(String, Type)> {
    table.partition_key.iter().chain(&table.clustering)
}

pub(crate) fn quoted(name: &str) -> String {
    quote_identifier(name).into_owned()
}

const REGULAR: [(&str, Type); 4] = [
    ("v", Type::Int),
    ("w", Type::Double),
    ("X", Type::Text),
    ("dec", Type::Decimal),
];

const STATIC: [(&str, Type); 2] = [("s", Type::Int), ("a static", Type::Text)];

const COLLECTIONS: [(&str, &str); 4] = [
    ("l", "[3, 1, 3]"),
    ("st", "{2, 1}"),
    ("m", "{1: 'x', 3: 'y'}"),
    ("fz", "[1, 2]"),
];
