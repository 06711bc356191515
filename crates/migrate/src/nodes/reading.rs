//! Reads a table, or a layout of it, by ranges of tokens or by key.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use helenus_rows::{
    Bytes, PAGE_ROWS, PAGE_ROWS_FIRST, Range, Row, Rows, Selects, Table, TableName, page_rows,
};
use scylla::deserialize::row::ColumnIterator;
use scylla::response::PagingState;
use scylla::response::query_result::QueryResult;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::Mutex;

use super::asked::Asked;
use super::cluster::{Cluster, patiently};
use super::row::Values;

/// How many rows may be read in a second, over all ranges.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// None: as many as the cluster gives.
    per_row: Option<Duration>,
    /// When the next rows may be read.
    next: Mutex<Instant>,
}

impl Throttle {
    pub(crate) fn new(rows_per_second: Option<u32>) -> Throttle {
        Throttle {
            per_row: rows_per_second.map(|rate| Duration::from_secs(1) / rate.max(1)),
            next: Mutex::new(Instant::now()),
        }
    }

    /// So many rows have been read.
    async fn pay(&self, rows: usize) {
        let Some(per_row) = self.per_row else { return };
        let until = {
            let mut next = self.next.lock().await;
            let rows = u32::try_from(rows).unwrap_or(u32::MAX);
            *next = (*next).max(Instant::now()) + per_row.saturating_mul(rows);
            *next
        };
        tokio::time::sleep(until.saturating_duration_since(Instant::now())).await;
    }
}

/// Prepared reads of one table.
pub(crate) struct Reader<'a> {
    cluster: &'a Cluster,
    table: &'a Table,
    /// The table, for messages.
    from: String,
    range: PreparedStatement,
    row: PreparedStatement,
    statics: PreparedStatement,
    /// Rows to ask for, by the size of those that have been read.
    page_rows: AtomicI32,
}

impl<'a> Reader<'a> {
    /// `from`: the table itself, or a layout of it.
    pub(crate) async fn new(
        cluster: &'a Cluster,
        table: &'a Table,
        from: &TableName,
        consistency: Consistency,
    ) -> Result<Reader<'a>> {
        let from = from.to_cql();
        let selects = Selects::new(table, &from);
        let prepare = async |text: String| -> Result<PreparedStatement> {
            let prepared = cluster.session.prepare(&*text).await;
            let mut prepared = prepared.with_context(|| format!("cannot prepare: {text}"))?;
            prepared.set_consistency(consistency);
            prepared.set_page_size(PAGE_ROWS);
            prepared.set_is_idempotent(true);
            Ok(prepared)
        };
        Ok(Reader {
            range: prepare(selects.range).await?,
            row: prepare(selects.row).await?,
            statics: prepare(selects.statics).await?,
            cluster,
            table,
            from,
            page_rows: AtomicI32::new(PAGE_ROWS_FIRST),
        })
    }

    /// Hands over the rows of a range, page by page, each with the time at which it was asked for.
    pub(crate) async fn each_page(
        &self,
        range: Range,
        throttle: &Throttle,
        mut take: impl AsyncFnMut(Vec<Row>, Asked) -> Result<()>,
    ) -> Result<()> {
        let bounds = [range.after, range.end].map(|token| Some(token.to_be_bytes().to_vec()));
        let bounds = Values(bounds.to_vec());
        let mut state = PagingState::start();
        let mut reading = Rows::new(self.table);
        loop {
            let asked = Asked::now();
            let mut range = self.range.clone();
            range.set_page_size(self.page_rows.load(Ordering::Relaxed));
            let page = || {
                let (bounds, state) = (bounds.clone(), state.clone());
                let session = &self.cluster.session;
                session.execute_single_page(&range, bounds, state)
            };
            let page = patiently(page).await;
            let (page, next) = page.with_context(|| format!("cannot read {}", self.from))?;
            let read = read_all(&mut reading, page)?;
            if let Some(rows) = page_rows(&read) {
                self.page_rows.store(rows, Ordering::Relaxed);
            }
            // Handed over first: between being read and being written, rows must not wait for others.
            let rows = read.len();
            take(read, asked).await?;
            throttle.pay(rows).await;
            match next.into_paging_control_flow() {
                std::ops::ControlFlow::Break(()) => return Ok(()),
                std::ops::ControlFlow::Continue(next) => state = next,
            }
        }
    }

    /// The row with the key of that one.
    pub(crate) async fn row_like(&self, row: &Row) -> Result<Option<Row>> {
        let (statement, key): (_, Vec<Bytes>) = match row.is_static() {
            true => (&self.statics, row.partition.clone()),
            false => (&self.row, row.key()),
        };
        let read = || {
            let values = Values(key.clone());
            self.cluster.session.execute_unpaged(statement, values)
        };
        let answer = patiently(read).await;
        let answer = answer.with_context(|| format!("cannot read {}", self.from))?;
        let found = read_all(&mut Rows::new(self.table), answer)?;
        Ok(found.into_iter().find(|f| f.is_static() == row.is_static()))
    }

    /// True if there is no row at all.
    pub(crate) async fn is_empty(&self) -> Result<bool> {
        let mut statement = scylla::statement::unprepared::Statement::new(format!(
            "SELECT * FROM {} LIMIT 1",
            self.from
        ));
        statement.set_consistency(self.range.get_consistency().unwrap_or(Consistency::Quorum));
        let answer = self.cluster.session.query_unpaged(statement, ()).await?;
        Ok(answer.into_rows_result()?.rows_num() == 0)
    }
}

fn read_all(rows: &mut Rows<'_>, answer: QueryResult) -> Result<Vec<Row>> {
    let answer = answer.into_rows_result()?;
    let mut read = Vec::with_capacity(answer.rows_num());
    for row in answer.rows::<ColumnIterator>()? {
        let cells = row?.map(|column| {
            let cell = column.context("a row cannot be read")?;
            Ok(cell.slice.map(|slice| slice.as_slice().to_vec()))
        });
        let cells = cells.collect::<Result<Vec<Bytes>>>()?;
        read.extend(rows.read(cells)?);
    }
    Ok(read)
}
