//! The tables that are scanned, and the ring order of their rows.

use super::pages::{PAGE_ROWS, pages};
use crate::client::endpoint::Endpoint;
use crate::workload::kv::{Table, prepare};
use anyhow::{Context, Result, anyhow, ensure};
use scylla::client::session::Session;
use std::sync::Arc;

/// A row is a key of 8 bytes and a value.
const KEY_BYTES: usize = 8;
const FILLING_CLIENTS: usize = 64;

#[derive(Clone, Debug)]
pub struct Tables {
    pub keyspace: String,
    pub count: usize,
    /// Rows of each table.
    pub rows: u64,
    pub row_bytes: usize,
    pub replication: usize,
    pub scan_rows_max: i32,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Hashed tokens.
    Tokens,
    /// The key itself.
    Keys,
}

/// The rows of each table in ring order: position on the ring (token or key), and key.
#[derive(Debug)]
pub(super) struct Index {
    order: Order,
    tables: Vec<Vec<(i64, i64)>>,
}

impl Tables {
    fn table(&self, number: usize) -> Table {
        Table {
            keyspace: self.keyspace.clone(),
            // The size is part of the name: a table that exists already has the right rows.
            table: format!("t{number}_{}x{}", self.rows, self.row_bytes),
            replication: self.replication,
            keys: self.rows,
            value_bytes: self.value_bytes(),
        }
    }

    pub fn name(&self, number: usize) -> String {
        let table = self.table(number);
        format!("{}.{}", table.keyspace, table.table)
    }

    pub(super) fn value_bytes(&self) -> usize {
        self.row_bytes.saturating_sub(KEY_BYTES)
    }

    pub(super) async fn create_and_fill(
        &self,
        endpoint: &Endpoint,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        ensure!(
            self.count > 0 && self.rows > 0 && self.row_bytes > KEY_BYTES,
            "at least one table, one row and {} bytes a row are needed",
            KEY_BYTES + 1
        );
        let session = endpoint.connect().await?;
        for number in 0..self.count {
            self.table(number).create(&session).await?;
            let name = self.name(number);
            let there = rows_of(&session, &name, "", "k", Order::Keys).await?;
            if there.len() as u64 == self.rows {
                continue;
            }
            say(format!(
                "filling table {} of {}: {} rows",
                number + 1,
                self.count,
                self.rows
            ));
            let table = self.table(number);
            table
                .fill(endpoint, FILLING_CLIENTS, Arc::default())
                .await?;
        }
        Ok(())
    }

    pub(super) async fn index(&self, endpoint: &Endpoint) -> Result<Index> {
        let session = endpoint.connect().await?;
        let order = order_of(&session).await?;
        let mut tables = Vec::with_capacity(self.count);
        for number in 0..self.count {
            let name = self.name(number);
            let rows = rows_of(&session, &name, "", "k", order).await?;
            ensure!(
                rows.len() as u64 == self.rows,
                "{name} has {} rows where {} were written: drop the keyspace {} and start again",
                rows.len(),
                self.rows,
                self.keyspace
            );
            tables.push(rows);
        }
        Ok(Index::new(order, tables))
    }
}

impl Index {
    pub(super) fn new(order: Order, mut tables: Vec<Vec<(i64, i64)>>) -> Self {
        for rows in &mut tables {
            rows.sort_unstable();
        }
        Self { order, tables }
    }

    pub(super) fn order(&self) -> Order {
        self.order
    }

    pub(super) fn tables(&self) -> usize {
        self.tables.len()
    }

    pub(super) fn rows(&self, table: usize) -> &[(i64, i64)] {
        &self.tables[table]
    }

    /// Rows that `token(k) > start LIMIT limit` must return.
    pub(super) fn after(&self, table: usize, start: i64, limit: usize) -> &[(i64, i64)] {
        let rows = self.rows(table);
        let from = rows.partition_point(|&(position, _)| position <= start);
        &rows[from..rows.len().min(from.saturating_add(limit))]
    }
}

async fn order_of(session: &Session) -> Result<Order> {
    let response = session
        .query_unpaged("SELECT partitioner FROM system.local", ())
        .await?
        .into_rows_result()?;
    let (partitioner,) = response.single_row::<(String,)>()?;
    match partitioner.rsplit('.').next() {
        Some("Murmur3Partitioner") => Ok(Order::Tokens),
        Some("ByteOrderedPartitioner") => Ok(Order::Keys),
        _ => Err(anyhow!(
            "this experiment supports Murmur3Partitioner and ByteOrderedPartitioner, not {partitioner}"
        )),
    }
}

/// Position and partition key of each row, or of each partition if `distinct` says so. Keys are not
/// negative, so their bytes sort like the numbers.
pub(super) async fn rows_of(
    session: &Session,
    table: &str,
    distinct: &str,
    key: &str,
    order: Order,
) -> Result<Vec<(i64, i64)>> {
    let (columns, by_token) = match order {
        Order::Tokens => (format!("token({key}), {key}"), true),
        Order::Keys => (key.to_owned(), false),
    };
    let text = format!("SELECT {distinct}{columns} FROM {table}");
    let mut statement = prepare(session, &text).await?;
    statement.set_page_size(PAGE_ROWS);
    let mut rows = Vec::new();
    let read = pages(session, &statement, &(), |page| {
        if by_token {
            for row in page.rows::<(i64, i64)>().map_err(|_| UNREADABLE)? {
                rows.push(row.map_err(|_| UNREADABLE)?);
            }
        } else {
            for row in page.rows::<(i64,)>().map_err(|_| UNREADABLE)? {
                let (key,) = row.map_err(|_| UNREADABLE)?;
                rows.push((key, key));
            }
        }
        Ok(())
    });
    let read = read.await.map_err(|error| anyhow!(error));
    read.with_context(|| format!("cannot read the keys of {table}"))?;
    Ok(rows)
}

const UNREADABLE: &str = "unreadable answer";
