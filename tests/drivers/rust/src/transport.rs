//! Paging, sizes, concurrency and compression.

use std::collections::HashSet;
use std::ops::ControlFlow;

use anyhow::{Result, ensure};
use futures::TryStreamExt;
use futures::future::try_join_all;
use scylla::frame::Compression;
use scylla::response::PagingState;
use scylla::statement::Statement;

use crate::harness::Checks;
use crate::{Context, equal};

const ROWS: i32 = 1100;
const PAGE: i32 = 97;

pub(crate) async fn run(checks: &mut Checks, c: &Context) {
    checks.run("paging", paging(c)).await;
    checks
        .run("paging_resumes_elsewhere", paging_resumes(c))
        .await;
    checks.run("five_hundred_at_once", five_hundred(c)).await;
    checks.run("large_values", large_values(c)).await;
    for (name, compression) in [
        ("uncompressed", None),
        ("lz4", Some(Compression::Lz4)),
        ("snappy", Some(Compression::Snappy)),
    ] {
        checks
            .run(&format!("protocol_v4_{name}"), subset(c, name, compression))
            .await;
    }
}

async fn paging(c: &Context) -> Result<()> {
    let table = c.table("paged");
    c.run(
        format!("CREATE TABLE {table} (p int, c int, v text, PRIMARY KEY (p, c))"),
        (),
    )
    .await?;
    let insert = c
        .session
        .prepare(format!("INSERT INTO {table} (p, c, v) VALUES (?, ?, ?)"))
        .await?;
    for from in (0..ROWS).step_by(100) {
        let some = (from..(from + 100).min(ROWS)).map(|n| {
            c.session
                .execute_unpaged(&insert, (n % 7, n, format!("row {n}")))
        });
        try_join_all(some).await?;
    }
    let query = Statement::new(format!("SELECT c FROM {table}")).with_page_size(PAGE);
    let rows: Vec<(i32,)> = c
        .session
        .query_iter(query, ())
        .await?
        .rows_stream::<(i32,)>()?
        .try_collect()
        .await?;
    equal!(rows.len(), ROWS as usize, "rows");
    equal!(
        rows.iter().collect::<HashSet<_>>().len(),
        ROWS as usize,
        "distinct rows"
    );
    let mut partition = c
        .session
        .prepare(format!("SELECT c FROM {table} WHERE p = ?"))
        .await?;
    partition.set_page_size(PAGE);
    let rows: Vec<(i32,)> = c
        .session
        .execute_iter(partition, (3,))
        .await?
        .rows_stream::<(i32,)>()?
        .try_collect()
        .await?;
    let wanted: Vec<(i32,)> = (0..ROWS).filter(|n| n % 7 == 3).map(|n| (n,)).collect();
    equal!(rows, wanted, "order in a partition");
    Ok(())
}

async fn paging_resumes(c: &Context) -> Result<()> {
    let query = Statement::new(format!("SELECT c FROM {}", c.table("paged"))).with_page_size(PAGE);
    let mut state = PagingState::start();
    let mut seen = Vec::new();
    for page in 0.. {
        let fresh = if page < 3 {
            Some(c.builder().build().await?)
        } else {
            None
        };
        let session = fresh.as_ref().unwrap_or(&c.session);
        let (answer, next) = session.query_single_page(query.clone(), (), state).await?;
        let rows = answer.into_rows_result()?;
        ensure!(
            rows.rows_num() <= PAGE as usize,
            "page of {} rows",
            rows.rows_num()
        );
        for row in rows.rows::<(i32,)>()? {
            seen.push(row?.0);
        }
        match next.into_paging_control_flow() {
            ControlFlow::Continue(next) => state = next,
            ControlFlow::Break(()) => break,
        }
    }
    equal!(seen.len(), ROWS as usize, "rows");
    equal!(
        seen.iter().collect::<HashSet<_>>().len(),
        ROWS as usize,
        "distinct rows"
    );
    Ok(())
}

async fn five_hundred(c: &Context) -> Result<()> {
    let text = format!("SELECT v FROM {} WHERE p = ? AND c = ?", c.table("paged"));
    let select = c.session.prepare(text).await?;
    let all = (0..500).map(|n| c.session.execute_unpaged(&select, (n % 7, n)));
    for (n, answer) in try_join_all(all).await?.into_iter().enumerate() {
        let rows = answer.into_rows_result()?;
        equal!(
            rows.single_row::<(String,)>()?.0,
            format!("row {n}"),
            "value"
        );
    }
    Ok(())
}

async fn large_values(c: &Context) -> Result<()> {
    let table = c.table("large");
    c.run(
        format!("CREATE TABLE {table} (k int PRIMARY KEY, v blob)"),
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
    for size in [131_000, 131_071, 131_072, 300_000, 1 << 20] {
        let mut state = 1_u32;
        let value: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(size as usize)
        .collect();
        c.session.execute_unpaged(&insert, (size, &value)).await?;
        let rows = c
            .session
            .execute_unpaged(&select, (size,))
            .await?
            .into_rows_result()?;
        ensure!(
            rows.single_row::<(&[u8],)>()?.0 == value,
            "{size} bytes came back otherwise"
        );
    }
    Ok(())
}

/// A few operations of each kind over a session with this compression.
async fn subset(c: &Context, name: &str, compression: Option<Compression>) -> Result<()> {
    let builder = c
        .builder()
        .compression(compression)
        .use_keyspace(&c.keyspace, false);
    let session = builder.build().await?;
    session
        .query_unpaged(
            format!("CREATE TABLE short_{name} (k int PRIMARY KEY, v text)"),
            (),
        )
        .await?;
    let insert = session
        .prepare(format!("INSERT INTO short_{name} (k, v) VALUES (?, ?)"))
        .await?;
    for n in 0..40 {
        session
            .execute_unpaged(&insert, (n, "v".repeat(n as usize)))
            .await?;
    }
    let query = Statement::new(format!("SELECT k FROM short_{name}")).with_page_size(10);
    let rows: Vec<(i32,)> = session
        .query_iter(query, ())
        .await?
        .rows_stream::<(i32,)>()?
        .try_collect()
        .await?;
    equal!(rows.len(), 40, "rows");
    session
        .execute_unpaged(&insert, (99, "z".repeat(200_000)))
        .await?;
    let answer = session
        .query_unpaged(format!("SELECT v FROM short_{name} WHERE k = 99"), ())
        .await?;
    equal!(
        answer.into_rows_result()?.single_row::<(&str,)>()?.0.len(),
        200_000,
        "length"
    );
    ensure!(
        session
            .query_unpaged("SELECT * FROM nowhere", ())
            .await
            .is_err(),
        "no error"
    );
    Ok(())
}
