//! Reads a sample of a table's rows from the nodes: all partitions of ranges of tokens that are spread over
//! the ring, until there are enough rows.
//!
//! Tokens are hashes, so these partitions are a random choice, and each is read as a whole: the first rows
//! of a partition would tell nothing of the others. What is counted in them holds for each partition, and
//! the table is taken to consist of these alone.

use anyhow::{Context, Result, bail};
use futures::{StreamExt, stream};
use helenus_cql::Name;
use helenus_layout::{Collector, ColumnSet, Table, Value};
use helenus_migrate::nodes::cluster::{Cluster, patiently};
use helenus_migrate::nodes::ring;
use helenus_rows::{Range, TableName};
use scylla::deserialize::row::ColumnIterator;
use scylla::response::PagingState;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

use super::read_rows::{Limits, Rows};
use super::schema::Schema;
use super::values;

/// Rows of one answer.
const PAGE_ROWS: i32 = 1_000;
/// Ranges that are read at the same time.
const PARALLEL: usize = 4;
/// At least so many ranges make up the ring; [`ring::suitable`] says for how many partitions one is.
const RANGES_PER_SUITABLE: u64 = 64;
const RANGES_MAX: u64 = 1 << 16;
/// Partitions are read to their end, but not beyond so many times the rows that are wanted.
const READ_MAX: usize = 4;

/// The amount that was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sampled {
    pub rows: u64,
    pub ranges_read: u64,
    /// Equally large ones, of which the ring consists.
    pub ranges: u64,
    /// A partition has more rows than were read of it.
    pub is_cut: bool,
}

impl Sampled {
    /// Rows of the whole table, about.
    pub(super) fn rows_total(&self) -> f64 {
        self.rows as f64 / self.share()
    }

    /// The part of the ring that was read.
    pub(super) fn share(&self) -> f64 {
        self.ranges_read as f64 / self.ranges as f64
    }
}

/// A page of a range's rows.
struct Page {
    range: Range,
    rows: Vec<Vec<Value>>,
    bytes: usize,
    /// Where the next page begins.
    next: Option<PagingState>,
}

pub(super) async fn read(
    cluster: &Cluster,
    name: &TableName,
    schema: &Schema,
    table: &Table,
    sets: Vec<ColumnSet>,
    limits: &Limits,
) -> Result<(Rows, Sampled)> {
    cluster.check_partitioner().await?;
    let select = Select::new(cluster, name, schema, table).await?;
    let suitable = ring::suitable(cluster, name).await;
    let count = (suitable * RANGES_PER_SUITABLE).min(RANGES_MAX);
    let all = helenus_rows::split(count);
    let places = ring::spread(count, limits.seed);
    let rows_max = limits.rows_max * READ_MAX;
    let parts = places.filter_map(|at| all.get(at as usize).copied());
    let parts = parts.map(|range| select.page(range, PagingState::start()));
    // In order, so that the same seed repeats a design. Of ranges that are read ahead, only the first page:
    // partitions may be large, and so may be what is asked for.
    let mut parts = std::pin::pin!(stream::iter(parts).buffered(PARALLEL));
    let mut collector = Collector::new(table.columns(), sets, limits.rows_max, limits.seed);
    let mut sampled = Sampled {
        rows: 0,
        ranges_read: 0,
        ranges: count,
        is_cut: false,
    };
    let mut bytes = 0;
    while let Some(part) = parts.next().await {
        let mut page = part?;
        let mut read = 0;
        loop {
            read += page.rows.len();
            bytes += page.bytes;
            for row in page.rows {
                collector.add(row)?;
            }
            let Some(next) = page.next else { break };
            if read >= rows_max {
                sampled.is_cut = true;
                break;
            }
            page = select.page(page.range, next).await?;
        }
        sampled.ranges_read += 1;
        sampled.rows = collector.rows_seen();
        if sampled.rows >= limits.rows_max as u64 {
            break;
        }
    }
    if sampled.rows == 0 {
        bail!("{name} has no rows: there is nothing to count");
    }
    let rows = Rows {
        statistics: collector.finish(None)?,
        read: sampled.rows,
        field_bytes: bytes as f64 / sampled.rows as f64,
    };
    Ok((rows, sampled))
}

/// Reads ranges of a table.
struct Select<'a> {
    cluster: &'a Cluster,
    name: &'a TableName,
    prepared: PreparedStatement,
    /// Types of the columns that matter, which come first.
    types: Vec<String>,
    /// Of the primary key, which a partition with nothing but static columns does not have.
    keys: Vec<usize>,
}

impl<'a> Select<'a> {
    async fn new(
        cluster: &'a Cluster,
        name: &'a TableName,
        schema: &Schema,
        table: &Table,
    ) -> Result<Select<'a>> {
        let columns: Vec<&str> = (0..table.columns()).map(|n| table.name(n)).collect();
        // The others tell how large rows are.
        let others = schema.columns.iter().map(|(name, _)| name.as_str());
        let others = others.filter(|name| !columns.contains(name));
        let names: Vec<String> = columns.iter().copied().chain(others).map(cql).collect();
        let partition: Vec<String> = schema.partition.iter().map(|name| cql(name)).collect();
        let token = format!("token({})", partition.join(", "));
        let text = format!(
            "SELECT {} FROM {} WHERE {token} > ? AND {token} <= ?",
            names.join(", "),
            name.to_cql()
        );
        let prepared = cluster.session.prepare(&*text).await;
        let mut prepared = prepared.with_context(|| format!("cannot prepare: {text}"))?;
        // Some replica's rows are as good as all of theirs.
        prepared.set_consistency(Consistency::LocalOne);
        prepared.set_page_size(PAGE_ROWS);
        prepared.set_is_idempotent(true);
        let ty = |name: &&str| schema.type_of(name).unwrap_or("text").to_owned();
        let key = table.clustering_columns().union(table.partition_columns());
        Ok(Select {
            cluster,
            name,
            prepared,
            types: columns.iter().map(ty).collect(),
            keys: key.iter().collect(),
        })
    }

    async fn page(&self, range: Range, state: PagingState) -> Result<Page> {
        let page = || {
            let (session, state) = (&self.cluster.session, state.clone());
            session.execute_single_page(&self.prepared, (range.after, range.end), state)
        };
        let page = patiently(page).await;
        let (page, next) = page.with_context(|| format!("cannot read {}", self.name))?;
        let page = page.into_rows_result()?;
        let mut taken = Page {
            range,
            rows: Vec::with_capacity(page.rows_num()),
            bytes: 0,
            next: match next.into_paging_control_flow() {
                std::ops::ControlFlow::Break(()) => None,
                std::ops::ControlFlow::Continue(next) => Some(next),
            },
        };
        for row in page.rows::<ColumnIterator>()? {
            self.take(row?, &mut taken)?;
        }
        Ok(taken)
    }

    fn take(&self, columns: ColumnIterator<'_, '_>, page: &mut Page) -> Result<()> {
        let mut row = Vec::with_capacity(self.types.len());
        let mut bytes = 0;
        for (number, column) in columns.enumerate() {
            let column = column.context("a row cannot be read")?;
            let cell = column.slice.map(|slice| slice.as_slice());
            bytes += cell.map_or(0, <[u8]>::len);
            let Some(ty) = self.types.get(number) else {
                continue;
            };
            if cell.is_none() && self.keys.contains(&number) {
                return Ok(());
            }
            let value = cell.map(|cell| values::of_bytes(cell, ty));
            row.push(value.unwrap_or(Ok(Value::Null))?);
        }
        page.rows.push(row);
        page.bytes += bytes;
        Ok(())
    }
}

fn cql(name: &str) -> String {
    Name::from_stored(name).to_cql().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_ring_tells_of_the_whole() {
        let sampled = Sampled {
            rows: 1_000,
            ranges_read: 16,
            ranges: 64,
            is_cut: false,
        };
        assert_eq!((sampled.share(), sampled.rows_total()), (0.25, 4_000.0));
    }
}
