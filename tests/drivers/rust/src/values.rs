//! Every type goes to the cluster and comes back the same.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use anyhow::{Result, ensure};
use num_bigint::BigInt;
use scylla::deserialize::value::DeserializeValue;
use scylla::serialize::value::SerializeValue;
use scylla::value::{
    Counter, CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid,
};
use scylla::{DeserializeValue, SerializeValue};
use uuid::Uuid;

use crate::harness::Checks;
use crate::{Context, equal};

pub(crate) async fn run(checks: &mut Checks, c: &Context) {
    checks.run("simple_types", simple_types(c)).await;
    checks.run("collections_and_tuples", collections(c)).await;
    checks.run("user_types", user_types(c)).await;
    checks.run("vectors", vectors(c)).await;
    checks.run("counters", counters(c)).await;
    checks.run("static_columns", static_columns(c)).await;
}

/// Writes each value (and null) to a table with one column of this type and reads it back.
async fn round_trip<T>(c: &Context, cql_type: &str, values: &[T]) -> Result<()>
where
    T: SerializeValue + for<'f, 'm> DeserializeValue<'f, 'm> + PartialEq + std::fmt::Debug,
{
    let table = c.table(&format!("simple_{cql_type}"));
    c.run(
        format!("CREATE TABLE {table} (k int PRIMARY KEY, v {cql_type})"),
        (),
    )
    .await?;
    let insert = c
        .session
        .prepare(format!("INSERT INTO {table} (k, v) VALUES (?, ?)"))
        .await?;
    let select = c
        .session
        .prepare(format!("SELECT v FROM {table} WHERE k = ?"))
        .await?;
    for value in values {
        c.session.execute_unpaged(&insert, (1, value)).await?;
        let answer = c
            .session
            .execute_unpaged(&select, (1,))
            .await?
            .into_rows_result()?;
        let (found,) = answer.single_row::<(T,)>()?;
        ensure!(
            &found == value,
            "{cql_type}: found {found:?}, wanted {value:?}"
        );
    }
    c.session.execute_unpaged(&insert, (1, None::<T>)).await?;
    let answer = c
        .session
        .execute_unpaged(&select, (1,))
        .await?
        .into_rows_result()?;
    let (found,) = answer.single_row::<(Option<T>,)>()?;
    ensure!(found.is_none(), "{cql_type}: null came back as {found:?}");
    Ok(())
}

async fn simple_types(c: &Context) -> Result<()> {
    round_trip(c, "tinyint", &[i8::MIN, i8::MAX]).await?;
    round_trip(c, "smallint", &[i16::MIN, i16::MAX]).await?;
    round_trip(c, "int", &[i32::MIN, i32::MAX]).await?;
    round_trip(c, "bigint", &[i64::MIN, i64::MAX]).await?;
    round_trip(
        c,
        "varint",
        &[-(BigInt::from(1) << 200_u32), BigInt::from(255)],
    )
    .await?;
    let decimal = CqlDecimal::from_signed_be_bytes_and_exponent(vec![0xfe, 3, 7], 11);
    round_trip(c, "decimal", &[decimal]).await?;
    round_trip(c, "float", &[1.5_f32, f32::INFINITY]).await?;
    round_trip(c, "double", &[0.1_f64, -1e308]).await?;
    round_trip(c, "boolean", &[true, false]).await?;
    round_trip(
        c,
        "text",
        &[String::new(), "naïve 漢字 🜚".into(), "x".repeat(70_000)],
    )
    .await?;
    round_trip(c, "ascii", &[String::new(), "plain".into()]).await?;
    round_trip(c, "blob", &[Vec::new(), (0..=255).collect::<Vec<u8>>()]).await?;
    round_trip(
        c,
        "uuid",
        &[Uuid::parse_str("f81d4fae-7dec-41d0-a765-00a0c91e6bf6")?],
    )
    .await?;
    let time_uuid: CqlTimeuuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6".parse()?;
    round_trip(c, "timeuuid", &[time_uuid]).await?;
    round_trip(
        c,
        "timestamp",
        &[CqlTimestamp(1_709_210_096_789), CqlTimestamp(-1)],
    )
    .await?;
    round_trip(
        c,
        "date",
        &[CqlDate(1 << 31), CqlDate(0), CqlDate(u32::MAX)],
    )
    .await?;
    round_trip(c, "time", &[CqlTime(0), CqlTime(86_399_999_999_999)]).await?;
    let durations = [
        CqlDuration {
            months: 14,
            days: 3,
            nanoseconds: 123_456_789,
        },
        CqlDuration {
            months: -1,
            days: -2,
            nanoseconds: -3,
        },
    ];
    round_trip(c, "duration", &durations).await?;
    let addresses: [IpAddr; 2] = ["127.0.0.1".parse()?, "2001:db8::1".parse()?];
    round_trip(c, "inet", &addresses).await
}

type Nested = Vec<HashMap<i32, String>>;
type Collected = (
    Vec<i32>,
    HashSet<String>,
    HashMap<String, i64>,
    Nested,
    (i32, String, Vec<i32>),
);

async fn collections(c: &Context) -> Result<()> {
    let table = c.table("collected");
    c.run(
        format!(
            "CREATE TABLE {table} (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, bigint>, \
             n frozen<list<frozen<map<int, text>>>>, t tuple<int, text, frozen<list<int>>>)"
        ),
        (),
    )
    .await?;
    let wanted: Collected = (
        vec![3, 1, 2, 1],
        HashSet::from(["a".into(), "b".into()]),
        HashMap::from([("k".into(), 1 << 40), (String::new(), -1)]),
        vec![
            HashMap::from([(1, "a".into())]),
            HashMap::from([(2, "b".into()), (3, String::new())]),
        ],
        (7, "seven".into(), vec![7, 7]),
    );
    let (l, s, m, n, t) = &wanted;
    let insert = format!("INSERT INTO {table} (k, l, s, m, n, t) VALUES (1, ?, ?, ?, ?, ?)");
    c.run(insert, (l, s, m, n, t)).await?;
    let answer = c
        .rows(format!("SELECT l, s, m, n, t FROM {table} WHERE k = 1"), ())
        .await?;
    equal!(answer.single_row::<Collected>()?, wanted, "collections");
    Ok(())
}

#[derive(Debug, Clone, PartialEq, SerializeValue, DeserializeValue)]
struct Street {
    name: String,
    number: i32,
}

#[derive(Debug, Clone, PartialEq, SerializeValue, DeserializeValue)]
struct Address {
    street: Street,
    tags: HashSet<String>,
    zip: Option<String>,
}

async fn user_types(c: &Context) -> Result<()> {
    c.run(
        format!("CREATE TYPE {} (name text, number int)", c.table("street")),
        (),
    )
    .await?;
    let address = c.table("address");
    c.run(
        format!("CREATE TYPE {address} (street frozen<street>, tags set<text>, zip text)"),
        (),
    )
    .await?;
    let table = c.table("people");
    let columns = "k int PRIMARY KEY, home frozen<address>, others list<frozen<address>>";
    c.run(format!("CREATE TABLE {table} ({columns})"), ())
        .await?;
    let home = Address {
        street: Street {
            name: "Main St".into(),
            number: 12,
        },
        tags: HashSet::from(["a".into(), "b".into()]),
        zip: None,
    };
    let others = vec![home.clone(), home.clone()];
    c.run(
        format!("INSERT INTO {table} (k, home, others) VALUES (1, ?, ?)"),
        (&home, &others),
    )
    .await?;
    let answer = c
        .rows(format!("SELECT home, others FROM {table} WHERE k = 1"), ())
        .await?;
    equal!(
        answer.single_row::<(Address, Vec<Address>)>()?,
        (home, others),
        "user types"
    );
    Ok(())
}

async fn vectors(c: &Context) -> Result<()> {
    let table = c.table("vectors");
    c.run(
        format!("CREATE TABLE {table} (k int PRIMARY KEY, v vector<float, 3>)"),
        (),
    )
    .await?;
    let wanted = vec![0.5_f32, -1.25, 3.0];
    c.run(
        format!("INSERT INTO {table} (k, v) VALUES (1, ?)"),
        (&wanted,),
    )
    .await?;
    let answer = c
        .rows(format!("SELECT v FROM {table} WHERE k = 1"), ())
        .await?;
    equal!(answer.single_row::<(Vec<f32>,)>()?.0, wanted, "vector");
    Ok(())
}

async fn counters(c: &Context) -> Result<()> {
    let table = c.table("counted");
    c.run(
        format!("CREATE TABLE {table} (k int PRIMARY KEY, n counter)"),
        (),
    )
    .await?;
    let update = c
        .session
        .prepare(format!("UPDATE {table} SET n = n + ? WHERE k = ?"))
        .await?;
    for step in [5, -2, 10] {
        c.session
            .execute_unpaged(&update, (Counter(step), 1))
            .await?;
    }
    let answer = c
        .rows(format!("SELECT n FROM {table} WHERE k = 1"), ())
        .await?;
    equal!(answer.single_row::<(Counter,)>()?.0.0, 13, "counter");
    Ok(())
}

async fn static_columns(c: &Context) -> Result<()> {
    let table = c.table("static");
    let columns = "p int, c int, s text static, v int, PRIMARY KEY (p, c)";
    c.run(format!("CREATE TABLE {table} ({columns})"), ())
        .await?;
    c.run(
        format!("INSERT INTO {table} (p, s) VALUES (1, 'shared')"),
        (),
    )
    .await?;
    let answer = c
        .rows(format!("SELECT p, c, s, v FROM {table} WHERE p = 1"), ())
        .await?;
    let found = answer.single_row::<(i32, Option<i32>, String, Option<i32>)>()?;
    equal!(found, (1, None, "shared".to_owned(), None), "row");
    Ok(())
}
