//! Kinds of statements, and the answers and errors the driver makes of them.

use std::collections::HashMap;

use anyhow::{Result, bail, ensure};
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::{Consistency, SerialConsistency, Statement};
use scylla::value::{Counter, MaybeUnset, Row};

use crate::harness::Checks;
use crate::{Context, equal};

pub(crate) async fn run(checks: &mut Checks, c: &Context) {
    checks.run("simple_statements", simple(c)).await;
    checks.run("prepared_statements", prepared(c)).await;
    checks.run("prepared_survives_alter", alter(c)).await;
    checks.run("batches", batches(c)).await;
    checks.run("lightweight_transactions", lightweight(c)).await;
    checks.run("tracing", tracing(c)).await;
    checks.run("warnings", warnings(c)).await;
    checks.run("use_keyspace", use_keyspace(c)).await;
    checks.run("errors", errors(c)).await;
    checks.run("idempotence", idempotence(c)).await;
}

async fn text(c: &Context, k: i32) -> Result<String> {
    let answer = c
        .rows(
            format!("SELECT v FROM {} WHERE k = ?", c.table("plain")),
            (k,),
        )
        .await?;
    Ok(answer.single_row::<(String,)>()?.0)
}

async fn simple(c: &Context) -> Result<()> {
    let table = c.table("plain");
    c.run(
        format!("CREATE TABLE {table} (k int PRIMARY KEY, v text, w int)"),
        (),
    )
    .await?;
    c.run(
        format!("INSERT INTO {table} (k, v) VALUES (?, ?)"),
        (1, "it's"),
    )
    .await?;
    c.run(
        format!("INSERT INTO {table} (k, v) VALUES (2, 'literal')"),
        (),
    )
    .await?;
    let named = HashMap::from([("val", "named")]);
    c.run(
        format!("INSERT INTO {table} (k, v) VALUES (3, :val)"),
        named,
    )
    .await?;
    equal!(text(c, 1).await?, "it's", "positional");
    equal!(text(c, 2).await?, "literal", "literal");
    equal!(text(c, 3).await?, "named", "named");
    let none = c
        .rows(format!("SELECT * FROM {table} WHERE k = -1"), ())
        .await?;
    equal!(none.rows_num(), 0, "rows");
    Ok(())
}

async fn prepared(c: &Context) -> Result<()> {
    let table = c.table("plain");
    let insert = c
        .session
        .prepare(format!("INSERT INTO {table} (k, v, w) VALUES (?, ?, ?)"))
        .await?;
    let select = c
        .session
        .prepare(format!("SELECT v, w FROM {table} WHERE k = :key"))
        .await?;
    for (values, wanted) in [
        (
            (10, Some("ten"), MaybeUnset::Set(10)),
            (Some("ten"), Some(10)),
        ),
        (
            (10, Some("again"), MaybeUnset::Unset),
            (Some("again"), Some(10)),
        ),
        ((10, None, MaybeUnset::Unset), (None, Some(10))),
    ] {
        c.session.execute_unpaged(&insert, values).await?;
        let key = HashMap::from([("key", 10)]);
        let answer = c
            .session
            .execute_unpaged(&select, key)
            .await?
            .into_rows_result()?;
        equal!(
            answer.single_row::<(Option<&str>, Option<i32>)>()?,
            wanted,
            "row"
        );
    }
    Ok(())
}

async fn alter(c: &Context) -> Result<()> {
    let table = c.table("altered");
    c.run(
        format!("CREATE TABLE {table} (k int PRIMARY KEY, b int)"),
        (),
    )
    .await?;
    c.run(format!("INSERT INTO {table} (k, b) VALUES (1, 2)"), ())
        .await?;
    let select = c
        .session
        .prepare(format!("SELECT * FROM {table} WHERE k = ?"))
        .await?;
    let read = async || -> Result<usize> {
        let answer = c
            .session
            .execute_unpaged(&select, (1,))
            .await?
            .into_rows_result()?;
        Ok(answer.single_row::<Row>()?.columns.len())
    };
    equal!(read().await?, 2, "columns before ALTER");
    c.run(format!("ALTER TABLE {table} ADD a text"), ()).await?;
    c.run(format!("UPDATE {table} SET a = 'new' WHERE k = 1"), ())
        .await?;
    for _ in 0..3 {
        equal!(read().await?, 3, "columns after ALTER");
    }
    Ok(())
}

async fn batches(c: &Context) -> Result<()> {
    let table = c.table("plain");
    let insert = c
        .session
        .prepare(format!("INSERT INTO {table} (k, v) VALUES (?, ?)"))
        .await?;
    for (base, kind) in [(100, BatchType::Logged), (200, BatchType::Unlogged)] {
        let mut batch = Batch::new(kind);
        batch.append_statement(insert.clone());
        batch.append_statement(insert.clone());
        batch.append_statement(&*format!(
            "INSERT INTO {table} (k, v) VALUES ({}, 'simple')",
            base + 2
        ));
        let values = ((base, "prepared"), (base + 1, "prepared"), ());
        c.session.batch(&batch, values).await?;
        equal!(text(c, base + 1).await?, "prepared", "prepared in a batch");
        equal!(text(c, base + 2).await?, "simple", "simple in a batch");
    }
    let tally = c.table("tally");
    c.run(
        format!("CREATE TABLE {tally} (k int PRIMARY KEY, n counter)"),
        (),
    )
    .await?;
    let add = c
        .session
        .prepare(format!("UPDATE {tally} SET n = n + ? WHERE k = 1"))
        .await?;
    let mut batch = Batch::new(BatchType::Counter);
    for _ in 0..3 {
        batch.append_statement(add.clone());
    }
    c.session
        .batch(&batch, ((Counter(1),), (Counter(2),), (Counter(3),)))
        .await?;
    let answer = c
        .rows(format!("SELECT n FROM {tally} WHERE k = 1"), ())
        .await?;
    equal!(answer.single_row::<(Counter,)>()?.0.0, 6, "counter batch");
    Ok(())
}

/// True if a conditional statement was applied: the first column says so.
fn applied(answer: QueryResult) -> Result<bool> {
    let rows = answer.into_rows_result()?;
    let row = rows.first_row::<Row>()?;
    let first = row.columns.first().cloned().flatten();
    Ok(first.and_then(|value| value.as_boolean()) == Some(true))
}

async fn lightweight(c: &Context) -> Result<()> {
    let table = c.table("plain");
    let text_of = format!("INSERT INTO {table} (k, v, w) VALUES (?, ?, ?) IF NOT EXISTS");
    let mut insert = c.session.prepare(text_of).await?;
    insert.set_serial_consistency(Some(SerialConsistency::LocalSerial));
    ensure!(
        applied(c.session.execute_unpaged(&insert, (400, "one", 1)).await?)?,
        "first insert"
    );
    ensure!(
        !applied(c.session.execute_unpaged(&insert, (400, "two", 2)).await?)?,
        "second insert"
    );
    let mut update = Statement::new(format!("UPDATE {table} SET w = 5 WHERE k = 400 IF w = ?"));
    update.set_serial_consistency(Some(SerialConsistency::Serial));
    ensure!(
        !applied(c.session.query_unpaged(update.clone(), (9,)).await?)?,
        "wrong condition"
    );
    ensure!(
        applied(c.session.query_unpaged(update, (1,)).await?)?,
        "right condition"
    );
    let mut read = Statement::new(format!("SELECT v FROM {table} WHERE k = 400"));
    read.set_consistency(Consistency::Serial);
    equal!(
        c.rows(read, ()).await?.single_row::<(String,)>()?.0,
        "one",
        "serial read"
    );
    Ok(())
}

async fn tracing(c: &Context) -> Result<()> {
    let mut query = Statement::new(format!("SELECT v FROM {} WHERE k = 1", c.table("plain")));
    query.set_tracing(true);
    let answer = c.session.query_unpaged(query, ()).await?;
    let Some(id) = answer.tracing_id() else {
        bail!("no trace id")
    };
    // The driver itself waits for a fraction of a second only.
    crate::harness::eventually("the trace", async || {
        Ok(match c.session.get_tracing_info(&id).await {
            Ok(info) => {
                equal!(
                    info.request.as_deref(),
                    Some("Execute CQL3 query"),
                    "request"
                );
                !info.events.is_empty()
            }
            Err(_) => false,
        })
    })
    .await
}

async fn warnings(c: &Context) -> Result<()> {
    let answer = c
        .session
        .query_unpaged(format!("SELECT count(*) FROM {}", c.table("plain")), ())
        .await?;
    let found = answer.warnings().collect::<Vec<_>>().join(" ");
    ensure!(
        found.contains("Aggregation query used without partition key"),
        "{found:?}"
    );
    Ok(())
}

async fn use_keyspace(c: &Context) -> Result<()> {
    let other = format!("{}_two", c.keyspace);
    c.run(format!("DROP KEYSPACE IF EXISTS {other}"), ())
        .await?;
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    c.run(
        format!("CREATE KEYSPACE {other} WITH replication = {replication}"),
        (),
    )
    .await?;
    c.run(
        format!("CREATE TABLE {other}.plain (k int PRIMARY KEY, v text)"),
        (),
    )
    .await?;
    c.run(
        format!("INSERT INTO {other}.plain (k, v) VALUES (1, 'of the other')"),
        (),
    )
    .await?;
    let first = c.builder().build().await?;
    let second = c.builder().use_keyspace(&other, false).build().await?;
    let query = "SELECT v FROM plain WHERE k = ?";
    ensure!(
        first.query_unpaged(query, (1,)).await.is_err(),
        "no error without a keyspace"
    );
    first.use_keyspace(&c.keyspace, true).await?;
    let prepared = [first.prepare(query).await?, second.prepare(query).await?];
    for _ in 0..10 {
        for (at, session, wanted) in [(0, &first, "it's"), (1, &second, "of the other")] {
            let simple = session
                .query_unpaged(query, (1,))
                .await?
                .into_rows_result()?;
            equal!(simple.single_row::<(&str,)>()?.0, wanted, "simple");
            let bound = session
                .execute_unpaged(&prepared[at], (1,))
                .await?
                .into_rows_result()?;
            equal!(bound.single_row::<(&str,)>()?.0, wanted, "prepared");
        }
    }
    c.run(format!("DROP KEYSPACE {other}"), ()).await
}

async fn error_of(c: &Context, statement: impl Into<Statement>) -> Result<DbError> {
    match c.session.query_unpaged(statement, ()).await {
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _))) => Ok(error),
        other => bail!("no error of the database, but {other:?}"),
    }
}

async fn errors(c: &Context) -> Result<()> {
    let table = c.table("plain");
    equal!(
        error_of(c, "SELEC * FROM nowhere").await?,
        DbError::SyntaxError,
        "syntax"
    );
    let invalid = error_of(c, format!("SELECT nothing FROM {table}")).await?;
    equal!(invalid, DbError::Invalid, "invalid");
    let refused = c.session.prepare("SELECT FROM").await;
    ensure!(
        matches!(refused, Err(PrepareError::AllAttemptsFailed { .. })),
        "{refused:?}"
    );
    let exists = error_of(c, format!("CREATE TABLE {table} (k int PRIMARY KEY)")).await?;
    let wanted = DbError::AlreadyExists {
        keyspace: c.keyspace.clone(),
        table: "plain".into(),
    };
    equal!(exists, wanted, "already exists");
    for text in [
        format!("SELECT * FROM {table} WHERE k = 1"),
        format!("INSERT INTO {table} (k) VALUES (1)"),
    ] {
        let mut query = Statement::new(text);
        query.set_consistency(Consistency::Three);
        let wanted = DbError::Unavailable {
            consistency: Consistency::Three,
            required: 3,
            alive: 1,
        };
        equal!(error_of(c, query).await?, wanted, "unavailable");
    }
    equal!(text(c, 1).await?, "it's", "the session still works");
    Ok(())
}

async fn idempotence(c: &Context) -> Result<()> {
    for idempotent in [true, false] {
        let mut query = Statement::new(format!(
            "UPDATE {} SET v = 'i' WHERE k = 700",
            c.table("plain")
        ));
        query.set_is_idempotent(idempotent);
        c.run(query, ()).await?;
    }
    equal!(text(c, 700).await?, "i", "value");
    Ok(())
}
