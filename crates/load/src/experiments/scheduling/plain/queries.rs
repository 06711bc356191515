//! The plain client's queries, with every row of every result checked.

use super::Plain;
use crate::client::endpoint::Endpoint;
use crate::client::shared::SharedConnections;
use crate::experiments::scheduling::experiment::KINDS;
use crate::experiments::scheduling::mix::Mix;
use crate::experiments::scheduling::pages::{PAGE_ROWS, UNREADABLE};
use crate::experiments::scheduling::queries::{POINT, Query, QueryPattern, SCAN, WRONG, draw};
use crate::experiments::scheduling::tables::{Index, Order};
use crate::measure::ErrorKind;
use crate::workload::Workload;
use crate::workload::kv::is_value_of;
use anyhow::Result;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An arm's connections.
#[derive(Debug)]
pub(in crate::experiments::scheduling) struct PlainConnections {
    shared: SharedConnections,
    for_points: SharedConnections,
    index: Arc<Index>,
    value_bytes: usize,
    scan_rows_max: i32,
}

impl PlainConnections {
    pub(in crate::experiments::scheduling) async fn open(
        endpoint: &Endpoint,
        plain: &Plain,
        index: Arc<Index>,
    ) -> Result<Self> {
        let all = format!("SELECT * FROM {}", plain.tables.name(0));
        let start = match index.order() {
            Order::Tokens => "?",
            Order::Keys => "token(?)",
        };
        let point = format!("{all} WHERE k = ?");
        let scan = format!("{all} WHERE token(k) > {start} LIMIT ?");
        let statements = [&*point, &*scan];
        let open = || SharedConnections::open(endpoint, &statements, plain.connections);
        Ok(Self {
            shared: open().await?,
            for_points: open().await?,
            index,
            value_bytes: plain.tables.value_bytes(),
            scan_rows_max: plain.tables.scan_rows_max,
        })
    }
}

/// Queries of one cell.
#[derive(Debug)]
pub(in crate::experiments::scheduling) struct PlainQueries {
    connections: Arc<PlainConnections>,
    mix: Mix,
    apart: bool,
    time_out: Duration,
    seed: u64,
    next: AtomicU64,
}

impl PlainQueries {
    pub(in crate::experiments::scheduling) fn new(
        connections: Arc<PlainConnections>,
        mix: Mix,
        apart: bool,
        time_out: Duration,
        seed: u64,
    ) -> Self {
        Self {
            connections,
            mix,
            apart,
            time_out,
            seed,
            next: AtomicU64::new(0),
        }
    }

    async fn point(&self, number: u64, key: i64) -> Result<(), ErrorKind> {
        let over = match self.apart {
            true => &self.connections.for_points,
            false => &self.connections.shared,
        };
        let values: [&[u8]; 1] = [&key.to_be_bytes()];
        self.read(over, number, POINT, &values, &[(0, key)]).await
    }

    async fn scan(&self, number: u64, start: i64, rows: i32) -> Result<(), ErrorKind> {
        let expected = self.connections.index.after(0, start, rows as usize);
        let values: [&[u8]; 2] = [&start.to_be_bytes(), &rows.to_be_bytes()];
        let over = &self.connections.shared;
        self.read(over, number, SCAN, &values, expected).await
    }

    async fn read(
        &self,
        over: &SharedConnections,
        number: u64,
        statement: usize,
        values: &[&[u8]],
        expected: &[(i64, i64)],
    ) -> Result<(), ErrorKind> {
        let mut left = expected.iter();
        over.read(number, statement, values, PAGE_ROWS, |page| {
            for row in page.rows() {
                let row = row.map_err(|_| UNREADABLE)?;
                let [Some(key), Some(value)] = row[..] else {
                    return Err(UNREADABLE);
                };
                let is_right = left.next().is_some_and(|&(_, expected)| {
                    key == expected.to_be_bytes()
                        && is_value_of(expected as u64, value, self.connections.value_bytes)
                });
                if !is_right {
                    return Err(WRONG);
                }
            }
            Ok(())
        })
        .await?;
        match left.next() {
            None => Ok(()),
            Some(_) => Err(WRONG),
        }
    }
}

impl Workload for PlainQueries {
    fn kinds(&self) -> Vec<&str> {
        KINDS.to_vec()
    }

    /// As with the driver, a query depends on its number only, not on the client that sends it.
    async fn call(&self, _: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let PlainConnections {
            index,
            scan_rows_max,
            ..
        } = &*self.connections;
        let pattern = QueryPattern::LogUniform(self.mix);
        let (kind, outcome) = match draw(pattern, index, *scan_rows_max, self.seed, number) {
            Query::Scan { start, rows, .. } => {
                let scan = self.scan(number, start, rows);
                (SCAN, tokio::time::timeout(self.time_out, scan).await)
            }
            Query::Point { key, .. } => {
                let point = self.point(number, key);
                (POINT, tokio::time::timeout(self.time_out, point).await)
            }
            _ => return (SCAN, Err("client failed")),
        };
        (kind, outcome.unwrap_or(Err("client timeout")))
    }
}
