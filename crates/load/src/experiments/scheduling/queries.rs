//! The queries: point reads and scans through the driver, with every row of every result checked.

use super::experiment::KINDS;
use super::mix::Mix;
use super::pages::{PAGE_ROWS, UNREADABLE, pages};
use super::tables::{Index, Order, Tables};
use crate::client::endpoint::Endpoint;
use crate::measure::ErrorKind;
use crate::workload::Workload;
use crate::workload::kv::{is_value_of, prepare};
use anyhow::Result;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Keys per `IN`.
pub(super) const SEVERAL: usize = 100;
/// Indices into [`KINDS`]. Whatever is long counts as a scan.
pub(super) const POINT: usize = 0;
pub(super) const SCAN: usize = 1;
pub(super) const WRONG: ErrorKind = "wrong answer";

/// An arm's sessions, with the statements of all tables prepared.
#[derive(Debug)]
pub(super) struct Sessions {
    each: Vec<PreparedSession>,
    value_bytes: usize,
    scan_rows_max: i32,
}

#[derive(Debug)]
struct PreparedSession {
    session: Session,
    tables: Vec<Statements>,
}

#[derive(Debug)]
struct Statements {
    point: PreparedStatement,
    scan: PreparedStatement,
    whole: PreparedStatement,
    aggregates: PreparedStatement,
    several: PreparedStatement,
}

impl Sessions {
    pub(super) async fn open(
        endpoint: &Endpoint,
        tables: &Tables,
        order: Order,
        sessions: usize,
    ) -> Result<Self> {
        let start = match order {
            Order::Tokens => "?",
            Order::Keys => "token(?)",
        };
        let mut each = Vec::new();
        for _ in 0..sessions.max(1) {
            let session = endpoint.connect().await?;
            let mut statements = Vec::with_capacity(tables.count);
            for number in 0..tables.count {
                let all = format!("SELECT * FROM {}", tables.name(number));
                let paged = async |text: String| -> Result<PreparedStatement> {
                    let mut statement = prepare(&session, &text).await?;
                    statement.set_page_size(PAGE_ROWS);
                    Ok(statement)
                };
                statements.push(Statements {
                    point: paged(format!("{all} WHERE k = ?")).await?,
                    scan: paged(format!("{all} WHERE token(k) > {start} LIMIT ?")).await?,
                    whole: paged(all.clone()).await?,
                    aggregates: paged(format!(
                        "SELECT count(*), min(k), max(k), sum(k) FROM {}",
                        tables.name(number)
                    ))
                    .await?,
                    several: paged(format!("{all} WHERE k IN ?")).await?,
                });
            }
            each.push(PreparedSession {
                session,
                tables: statements,
            });
        }
        Ok(Self {
            each,
            value_bytes: tables.value_bytes(),
            scan_rows_max: tables.scan_rows_max,
        })
    }

    /// The session of a client.
    pub(super) fn session(&self, client: usize) -> &Session {
        &self.each[client % self.each.len()].session
    }

    fn of(&self, client: usize, table: usize) -> (&Session, &Statements) {
        let PreparedSession { session, tables } = &self.each[client % self.each.len()];
        (session, &tables[table])
    }

    /// One point read of an existing row.
    pub(super) async fn point(
        &self,
        client: usize,
        table: usize,
        key: i64,
    ) -> Result<(), ErrorKind> {
        let (session, statements) = self.of(client, table);
        self.read(session, &statements.point, &(key,), &[(0, key)])
            .await
    }

    /// Several keys by `IN`.
    pub(super) async fn several(
        &self,
        client: usize,
        table: usize,
        keys: Vec<i64>,
    ) -> Result<(), ErrorKind> {
        // Each key once, in ascending order.
        let expected: BTreeSet<i64> = keys.iter().copied().collect();
        let expected: Vec<(i64, i64)> = expected.into_iter().map(|k| (0, k)).collect();
        let (session, statements) = self.of(client, table);
        self.read(session, &statements.several, &(keys,), &expected)
            .await
    }

    /// Count, minimum, maximum and sum of all keys.
    async fn aggregates(
        &self,
        client: usize,
        table: usize,
        expected: &[(i64, i64)],
    ) -> Result<(), ErrorKind> {
        let (session, statements) = self.of(client, table);
        let keys = || expected.iter().map(|&(_, key)| key);
        let expected = (
            expected.len() as i64,
            keys().min(),
            keys().max(),
            keys().fold(0, i64::wrapping_add),
        );
        let mut found = None;
        pages(session, &statements.aggregates, &(), |page| {
            let row = page.single_row::<(i64, Option<i64>, Option<i64>, i64)>();
            found = Some(row.map_err(|_| UNREADABLE)?);
            Ok(())
        })
        .await?;
        match found == Some(expected) {
            true => Ok(()),
            false => Err(WRONG),
        }
    }

    /// All pages, whose rows must be the expected ones in their order.
    async fn read(
        &self,
        session: &Session,
        statement: &PreparedStatement,
        values: &(impl SerializeRow + Sync),
        expected: &[(i64, i64)],
    ) -> Result<(), ErrorKind> {
        let mut left = expected.iter();
        pages(session, statement, values, |page| {
            for row in page.rows::<(i64, &[u8])>().map_err(|_| UNREADABLE)? {
                let (key, value) = row.map_err(|_| UNREADABLE)?;
                let right = left.next().is_some_and(|&(_, expected)| expected == key)
                    && is_value_of(key as u64, value, self.value_bytes);
                if !right {
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

#[derive(Clone, Copy, Debug)]
pub(super) enum QueryPattern {
    Mixed(Mix),
    /// [`Self::Mixed`], but the rows of a scan are distributed log-uniformly instead of uniformly.
    LogUniform(Mix),
    /// Full scans of the tables in turn.
    WholeTable,
    /// Aggregates over the whole of the tables in turn.
    Aggregates,
    /// [`SEVERAL`] keys of one table by `IN`.
    Several,
}

/// A query before it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Query {
    Point { table: usize, key: i64 },
    Scan { table: usize, start: i64, rows: i32 },
    WholeTable { table: usize },
    Aggregates { table: usize },
    Several { table: usize, keys: Vec<i64> },
}

#[derive(Debug)]
pub(super) struct Queries {
    sessions: Arc<Sessions>,
    index: Arc<Index>,
    pattern: QueryPattern,
    time_out: Duration,
    seed: u64,
    next: AtomicU64,
}

impl Queries {
    pub(super) fn new(
        sessions: Arc<Sessions>,
        index: Arc<Index>,
        pattern: QueryPattern,
        time_out: Duration,
        seed: u64,
    ) -> Self {
        Self {
            sessions,
            index,
            pattern,
            time_out,
            seed,
            next: AtomicU64::new(0),
        }
    }

    async fn perform(&self, client: usize, query: Query) -> Result<(), ErrorKind> {
        match query {
            Query::Point { table, key } => self.sessions.point(client, table, key).await,
            Query::Scan { table, start, rows } => {
                let expected = self.index.after(table, start, rows as usize);
                let (session, statements) = self.sessions.of(client, table);
                let values = (start, rows);
                self.sessions
                    .read(session, &statements.scan, &values, expected)
                    .await
            }
            Query::WholeTable { table } => {
                let expected = self.index.rows(table);
                let (session, statements) = self.sessions.of(client, table);
                self.sessions
                    .read(session, &statements.whole, &(), expected)
                    .await
            }
            Query::Aggregates { table } => {
                let expected = self.index.rows(table);
                self.sessions.aggregates(client, table, expected).await
            }
            Query::Several { table, keys } => self.sessions.several(client, table, keys).await,
        }
    }
}

/// Query `number`, regardless of which client sends it.
pub(super) fn draw(
    pattern: QueryPattern,
    index: &Index,
    rows_max: i32,
    seed: u64,
    number: u64,
) -> Query {
    let in_turn = (number % index.tables() as u64) as usize;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    let table = rng.random_range(0..index.tables());
    let mix = match pattern {
        QueryPattern::WholeTable => return Query::WholeTable { table: in_turn },
        QueryPattern::Aggregates => return Query::Aggregates { table: in_turn },
        QueryPattern::Several => {
            let keys = (0..SEVERAL).map(|_| key(index, table, &mut rng)).collect();
            return Query::Several { table, keys };
        }
        QueryPattern::Mixed(mix) | QueryPattern::LogUniform(mix) => mix,
    };
    if mix.draws_scan(&mut rng) {
        let start = match index.order() {
            Order::Tokens => rng.random(),
            Order::Keys => key(index, table, &mut rng),
        };
        let rows_max = rows_max.max(1);
        let rows = match pattern {
            QueryPattern::LogUniform(_) => log_uniform(rows_max, &mut rng),
            _ => rng.random_range(1..=rows_max),
        };
        Query::Scan { table, start, rows }
    } else {
        let key = key(index, table, &mut rng);
        Query::Point { table, key }
    }
}

/// From 1 to `max`; each order of magnitude is equally likely.
fn log_uniform(max: i32, rng: &mut impl Rng) -> i32 {
    let drawn = f64::from(max).powf(rng.random::<f64>()).round();
    (drawn as i32).clamp(1, max)
}

/// A key of a table.
pub(super) fn key(index: &Index, table: usize, rng: &mut impl Rng) -> i64 {
    rng.random_range(0..index.rows(table).len() as i64)
}

impl Workload for Queries {
    fn kinds(&self) -> Vec<&str> {
        KINDS.to_vec()
    }

    /// The client's random generator is not used: queries must not depend on the client.
    async fn call(&self, client: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let rows_max = self.sessions.scan_rows_max;
        let query = draw(self.pattern, &self.index, rows_max, self.seed, number);
        let kind = match query {
            Query::Point { .. } => POINT,
            Query::Scan { .. }
            | Query::WholeTable { .. }
            | Query::Aggregates { .. }
            | Query::Several { .. } => SCAN,
        };
        // The driver's own time-out covers one page only.
        let outcome = tokio::time::timeout(self.time_out, self.perform(client, query)).await;
        (kind, outcome.unwrap_or(Err("client timeout")))
    }
}
