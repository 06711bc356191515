//! The queries of these cells, with every row of every result checked.

use super::indexed::ROWS_OF_A_VALUE;
use super::wide::WideIndex;
use super::{Further, FurtherCell};
use crate::client::endpoint::Endpoint;
use crate::experiments::scheduling::experiment::KINDS;
use crate::experiments::scheduling::pages::{PAGE_ROWS, UNREADABLE, pages};
use crate::experiments::scheduling::queries::{POINT, SCAN, Sessions, WRONG, key};
use crate::experiments::scheduling::tables::{Index, Order};
use crate::measure::ErrorKind;
use crate::workload::Workload;
use crate::workload::kv::prepare;
use anyhow::Result;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Keys of a large `IN`.
const MANY_KEYS: usize = 1000;

/// Contents of the tables that these cells read.
#[derive(Debug)]
pub(in crate::experiments::scheduling) struct Contents {
    pub wide: WideIndex,
    /// Values of the indexed column.
    pub values: u64,
    pub scan_rows_max: i32,
}

/// An arm's prepared statements.
#[derive(Debug)]
pub(in crate::experiments::scheduling) struct Statements {
    partition: PreparedStatement,
    scan: PreparedStatement,
    look_up: PreparedStatement,
}

impl Statements {
    pub(in crate::experiments::scheduling) async fn prepare(
        sessions: &Sessions,
        further: &Further,
        order: Order,
    ) -> Result<Self> {
        let start = match order {
            Order::Tokens => "?",
            Order::Keys => "token(?)",
        };
        let paged = async |text: String| -> Result<PreparedStatement> {
            let mut statement = prepare(sessions.session(0), &text).await?;
            statement.set_page_size(PAGE_ROWS);
            Ok(statement)
        };
        let (wide, indexed) = (further.wide.name(), further.indexed.name());
        Ok(Self {
            partition: paged(format!("SELECT * FROM {wide} WHERE p = ?")).await?,
            scan: paged(format!(
                "SELECT * FROM {wide} WHERE token(p) > {start} LIMIT ?"
            ))
            .await?,
            look_up: paged(format!("SELECT k, c FROM {indexed} WHERE c = ?")).await?,
        })
    }
}

impl Contents {
    pub(in crate::experiments::scheduling) async fn of(
        further: &Further,
        endpoint: &Endpoint,
        order: Order,
        scan_rows_max: i32,
    ) -> Result<Self> {
        Ok(Self {
            wide: further.wide.index(endpoint, order).await?,
            values: further.indexed.values(),
            scan_rows_max,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiments::scheduling) enum FurtherPattern {
    /// Large partitions and many keys by `IN`, half and half.
    LargeReads,
    /// Scans that begin anywhere in the table of wide partitions.
    WideScans,
    LookUps,
}

impl FurtherPattern {
    /// The pattern of a cell that has one of its own.
    pub(in crate::experiments::scheduling) fn of(cell: FurtherCell) -> Option<Self> {
        match cell {
            FurtherCell::LargeReads => Some(Self::LargeReads),
            FurtherCell::LookUps => Some(Self::LookUps),
            FurtherCell::WideScans(_) => Some(Self::WideScans),
            FurtherCell::OpenLoop(_) => None,
        }
    }
}

/// A query before it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::experiments::scheduling) enum FurtherQuery {
    Partition { key: i64 },
    Keys { table: usize, keys: Vec<i64> },
    WideScan { start: i64, rows: i32 },
    LookUp { value: i64 },
}

/// Query `number`, regardless of which client sends it.
pub(in crate::experiments::scheduling) fn draw(
    pattern: FurtherPattern,
    index: &Index,
    contents: &Contents,
    seed: u64,
    number: u64,
) -> FurtherQuery {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    let partitions = contents.wide.partitions();
    match pattern {
        FurtherPattern::LargeReads if rng.random() => FurtherQuery::Partition {
            key: rng.random_range(0..partitions) as i64,
        },
        FurtherPattern::LargeReads => {
            let table = rng.random_range(0..index.tables());
            let keys = (0..MANY_KEYS).map(|_| key(index, table, &mut rng));
            let keys = keys.collect();
            FurtherQuery::Keys { table, keys }
        }
        FurtherPattern::WideScans => FurtherQuery::WideScan {
            start: match index.order() {
                Order::Tokens => rng.random(),
                Order::Keys => rng.random_range(0..partitions) as i64,
            },
            rows: rng.random_range(1..=contents.scan_rows_max.max(1)),
        },
        FurtherPattern::LookUps => FurtherQuery::LookUp {
            value: rng.random_range(0..contents.values) as i64,
        },
    }
}

#[derive(Debug)]
pub(in crate::experiments::scheduling) struct FurtherQueries {
    pub sessions: Arc<Sessions>,
    pub statements: Arc<Statements>,
    pub index: Arc<Index>,
    pub contents: Arc<Contents>,
    pub pattern: FurtherPattern,
    pub time_out: Duration,
    pub seed: u64,
    pub next: AtomicU64,
}

impl FurtherQueries {
    async fn perform(&self, client: usize, query: FurtherQuery) -> Result<(), ErrorKind> {
        let statements = &self.statements;
        match query {
            FurtherQuery::Partition { key } => {
                let expected = self.contents.wide.partition(key);
                self.read_wide(client, &statements.partition, &(key,), expected)
                    .await
            }
            FurtherQuery::Keys { table, keys } => self.sessions.several(client, table, keys).await,
            FurtherQuery::WideScan { start, rows } => {
                let expected = self.contents.wide.after(start, rows as usize);
                let values = (start, rows);
                self.read_wide(client, &statements.scan, &values, expected)
                    .await
            }
            FurtherQuery::LookUp { value } => self.look_up(client, value).await,
        }
    }

    async fn read_wide(
        &self,
        client: usize,
        statement: &PreparedStatement,
        values: &(impl SerializeRow + Sync),
        expected: impl Iterator<Item = (i64, i64)> + Send,
    ) -> Result<(), ErrorKind> {
        let mut left = expected;
        let session = self.sessions.session(client);
        pages(session, statement, values, |page| {
            let rows = page.rows::<(i64, i64, &[u8])>();
            for row in rows.map_err(|_| UNREADABLE)? {
                let (key, row, value) = row.map_err(|_| UNREADABLE)?;
                let right = left.next() == Some((key, row));
                if !right || !self.contents.wide.is_right(key, row, value) {
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

    /// The rows of a value come in the order of their tokens, which is not known here.
    async fn look_up(&self, client: usize, value: i64) -> Result<(), ErrorKind> {
        let mut found = Vec::new();
        let session = self.sessions.session(client);
        pages(session, &self.statements.look_up, &(value,), |page| {
            for row in page.rows::<(i64, i64)>().map_err(|_| UNREADABLE)? {
                let (key, of) = row.map_err(|_| UNREADABLE)?;
                if of != value {
                    return Err(WRONG);
                }
                found.push(key);
            }
            Ok(())
        })
        .await?;
        found.sort_unstable();
        let of_a_value = ROWS_OF_A_VALUE as i64;
        match found
            .into_iter()
            .eq(value * of_a_value..(value + 1) * of_a_value)
        {
            true => Ok(()),
            false => Err(WRONG),
        }
    }
}

impl Workload for FurtherQueries {
    fn kinds(&self) -> Vec<&str> {
        KINDS.to_vec()
    }

    /// The client's random generator is not used: queries must not depend on the client.
    async fn call(&self, client: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let query = draw(self.pattern, &self.index, &self.contents, self.seed, number);
        // A look-up is as short as a point read.
        let kind = match query {
            FurtherQuery::LookUp { .. } => POINT,
            FurtherQuery::Partition { .. }
            | FurtherQuery::Keys { .. }
            | FurtherQuery::WideScan { .. } => SCAN,
        };
        let outcome = tokio::time::timeout(self.time_out, self.perform(client, query)).await;
        (kind, outcome.unwrap_or(Err("client timeout")))
    }
}
