//! Moves values between the text column and that of encoded values: range by range of the ring, several at a
//! time, while clients read and write.
//!
//! A value is read from all replicas with its time, and one mutation writes it to the other column and deletes
//! it where it was, both one microsecond later than it was written. Whatever clients write meanwhile has a later
//! time and counts; what they have deleted stays deleted. All replicas must have the mutation: once all values
//! are moved, proxies no longer delete texts where they write values, and one that is left on a replica would show
//! again when a newer value expires.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use helenus_catalogue::Encoding;
use helenus_cql::Name;
use helenus_rows::{Column, Range, Row, Shape, Table, batches};
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use super::entry;
use super::pace::Pace;
use super::values::Change;
use crate::catalogue::claim::Claim;
use crate::nodes::asked::Asked;
use crate::nodes::cluster::{Cluster, patiently};
use crate::nodes::progress::bar;
use crate::nodes::reading::{Reader, Throttle};
use crate::nodes::ring;
use crate::nodes::row::Values;

/// Batches of one page in flight.
const BATCHES: usize = 16;
/// The first of January 2000. Before Cassandra, times of writing are no times.
const TIME_MIN_US: i64 = 946_684_800_000_000;

/// Counts of the rows and values that have been moved.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub rows_read: AtomicU64,
    pub values: AtomicU64,
    /// Stored as they are, behind a header.
    pub raw: AtomicU64,
    pub bytes_before: AtomicU64,
    pub bytes_after: AtomicU64,
}

impl Moved {
    pub(super) fn values(&self) -> u64 {
        self.values.load(Ordering::Relaxed)
    }
}

/// Moves the values of one column one way.
pub(super) struct Mover<'a> {
    cluster: &'a Cluster,
    /// With no columns but the keys and the one that values are taken from.
    narrow: Table,
    change: Change,
    write: PreparedStatement,
    pace: &'a Pace,
    throttle: Throttle,
    claim: &'a Claim<'a>,
    pub moved: Moved,
}

/// A row with its value in the other form.
struct Ready {
    row: Row,
    written_us: i64,
    ttl_s: i32,
}

impl<'a> Mover<'a> {
    pub(super) async fn new(
        cluster: &'a Cluster,
        table: &Table,
        entry: &Encoding,
        claim: &'a Claim<'a>,
        change: Change,
        pace: &'a Pace,
    ) -> Result<Mover<'a>> {
        let (from, into) = match change {
            Change::Encode(_) => (&entry.column, &entry.hidden),
            Change::Decode(_) => (&entry.hidden, &entry.column),
        };
        let narrow = narrowed(table, from);
        let is: Vec<String> = table
            .keys()
            .map(|key| format!("{} = ?", key.to_cql()))
            .collect();
        let quoted = |name: &str| Name::from_stored(name).to_cql().into_owned();
        // A TTL of 0 is none, also where the table has a default.
        let text = format!(
            "UPDATE {} USING TIMESTAMP ? AND TTL ? SET {} = ?, {} = null WHERE {}",
            table.name.to_cql(),
            quoted(into),
            quoted(from),
            is.join(" AND ")
        );
        let write = cluster.session.prepare(&*text).await;
        Ok(Mover {
            cluster,
            narrow,
            change,
            write: write.with_context(|| format!("cannot prepare: {text}"))?,
            pace,
            throttle: Throttle::new(pace.rows_per_second),
            claim,
            moved: Moved::default(),
        })
    }

    /// Moves all values that an earlier attempt has not moved, and notes which ranges are done.
    pub(super) async fn move_noted(&self, entry: &Encoding) -> Result<()> {
        let table = &self.narrow.name;
        let task = entry::task(entry, table);
        let (done, count) = task.done(self.cluster).await?;
        let (ranges, done) = match count {
            Some(count) if count > 0 => (helenus_rows::split(count), done),
            _ => {
                let count = ring::suitable(self.cluster, table).await;
                (helenus_rows::split(count), BTreeSet::new())
            }
        };
        let all = ranges.len();
        let todo = ranges.iter().filter(|range| !done.contains(&range.end));
        let todo: Vec<Range> = todo.copied().collect();
        self.each_range("moving values", &todo, all, async |range| {
            task.note(self.cluster, range, all).await
        })
        .await
    }

    /// Moves all values that there are; how many those were.
    pub(super) async fn move_rest(&self) -> Result<u64> {
        let before = self.moved.values();
        let ranges = helenus_rows::split(ring::suitable(self.cluster, &self.narrow.name).await);
        let nothing = async |_| Ok(());
        self.each_range(
            "looking for values that are left",
            &ranges,
            ranges.len(),
            nothing,
        )
        .await?;
        Ok(self.moved.values() - before)
    }

    async fn each_range(
        &self,
        what: &str,
        todo: &[Range],
        all: usize,
        note: impl AsyncFn(Range) -> Result<()>,
    ) -> Result<()> {
        let name = &self.narrow.name;
        let reader = Reader::new(self.cluster, &self.narrow, name, Consistency::All).await?;
        let bar = bar(what, all as u64);
        bar.inc((all - todo.len()) as u64);
        let moves = todo.iter().map(|range| {
            let (reader, bar, note) = (&reader, &bar, &note);
            async move {
                let take = async |rows: Vec<Row>, asked: Asked| {
                    self.take(rows, asked).await?;
                    bar.set_message(format!("{} values", self.moved.values()));
                    Ok(())
                };
                reader.each_page(*range, &self.throttle, take).await?;
                note(*range).await?;
                bar.inc(1);
                Ok::<(), anyhow::Error>(())
            }
        });
        let moved: Result<()> = stream::iter(moves)
            .buffer_unordered(self.pace.parallel.into())
            .try_collect()
            .await;
        bar.finish_and_clear();
        moved
    }

    /// Moves the values of a page that was asked for at that time.
    async fn take(&self, rows: Vec<Row>, asked: Asked) -> Result<()> {
        // Also if none of them has a value.
        self.claim.renew().await?;
        let moved = &self.moved;
        moved
            .rows_read
            .fetch_add(rows.len() as u64, Ordering::Relaxed);
        let mut ready = Vec::new();
        for row in rows {
            ready.extend(self.ready(row)?);
        }
        let rows: Vec<Row> = ready.iter().map(|ready| ready.row.clone()).collect();
        let mut rest = &ready[..];
        let mut sent = Vec::new();
        for batch in batches(&rows) {
            let (batch, others) = rest.split_at(batch.len());
            rest = others;
            // Each attempt anew: meanwhile values come nearer to their end, and some expire.
            sent.push(patiently(move || self.send(batch, asked)));
        }
        stream::iter(sent)
            .buffer_unordered(BATCHES)
            .try_collect::<()>()
            .await?;
        moved
            .values
            .fetch_add(ready.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The row with its value in the other form; `None` if it has none.
    fn ready(&self, mut row: Row) -> Result<Option<Ready>> {
        let Some(mut cell) = row.cells.pop() else {
            return Ok(None);
        };
        let place = || format!("{} {}", self.narrow.name, key_of(&self.narrow, &row));
        let written_us = cell
            .timestamp
            .with_context(|| format!("{}: a value without a time of writing", place()))?;
        if written_us < TIME_MIN_US && !self.pace.any_timestamps {
            bail!(
                "{}: a value has the timestamp {written_us}, which is no time: somebody writes with timestamps \
                 of their own. A moved value gets the next one, so that a write with just that would be lost. \
                 If nobody writes such values meanwhile, run this again with --any-timestamps",
                place()
            );
        }
        let written_us = written_us.checked_add(1);
        let written_us = written_us.with_context(|| {
            format!("{}: no timestamp is later than that of its value", place())
        })?;
        let changed = self.change.apply(&cell.value).with_context(place)?;
        let moved = &self.moved;
        for (counter, count) in [
            (&moved.raw, usize::from(changed.is_raw)),
            (&moved.bytes_before, cell.value.len()),
            (&moved.bytes_after, changed.value.len()),
        ] {
            counter.fetch_add(count as u64, Ordering::Relaxed);
        }
        let ttl_s = cell.ttl;
        cell.value = changed.value;
        row.cells.push(cell);
        Ok(Some(Ready {
            row,
            written_us,
            ttl_s,
        }))
    }

    /// Writes rows of one partition, as one mutation. Values that have expired since are left out, and none lives
    /// longer than before.
    async fn send(&self, rows: &[Ready], asked: Asked) -> Result<()> {
        let age = asked.age()?;
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(Consistency::All);
        batch.set_is_idempotent(true);
        let mut values: Vec<Values> = Vec::new();
        for ready in rows {
            let Some(ttl_s) = left(ready.ttl_s, age) else {
                continue;
            };
            let value = ready.row.cells.first().map(|cell| cell.value.clone());
            let mut of = vec![
                Some(ready.written_us.to_be_bytes().to_vec()),
                Some(ttl_s.to_be_bytes().to_vec()),
                value,
            ];
            of.extend(ready.row.key());
            batch.append_statement(self.write.clone());
            values.push(Values(of));
        }
        if values.is_empty() {
            return Ok(());
        }
        // The column that values are moved to may be about to be dropped.
        self.claim.renew().await?;
        let done = self.cluster.session.batch(&batch, &values).await;
        done.map(|_| ())
            .with_context(|| format!("cannot write to {}", self.narrow.name))
    }
}

/// The rest of a time to live after so long; `None` if it is over.
fn left(ttl_s: i32, age: Duration) -> Option<i32> {
    let age_s = i32::try_from(age.as_millis().div_ceil(1000)).unwrap_or(i32::MAX);
    match ttl_s {
        0 => Some(0),
        left => Some(left.saturating_sub(age_s)).filter(|left| *left > 0),
    }
}

/// The table as if it had its keys and this column only.
pub(super) fn narrowed(table: &Table, column: &str) -> Table {
    Table {
        statics: Vec::new(),
        regulars: vec![Column {
            name: column.to_owned(),
            cql_type: String::new(),
            descending: false,
            shape: Shape::Single,
        }],
        ..table.clone()
    }
}

/// The primary key of a row, for messages.
fn key_of(table: &Table, row: &Row) -> String {
    let values = row.key();
    let parts = table.keys().zip(values).map(|(column, value)| {
        let value = value.unwrap_or_default();
        let shown = match std::str::from_utf8(&value) {
            Ok(text) if !text.is_empty() && !text.chars().any(char::is_control) => {
                format!("{text:?}")
            }
            _ => {
                let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("0x{digits}")
            }
        };
        format!("{} = {shown}", column.to_cql())
    });
    format!("({})", parts.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_lives_longer_than_it_would_have() {
        let ms = Duration::from_millis;
        assert_eq!(left(0, ms(5_000)), Some(0), "it does not expire");
        assert_eq!(left(60, ms(0)), Some(60));
        assert_eq!(left(60, ms(1)), Some(59));
        assert_eq!(left(60, ms(2_000)), Some(58));
        assert_eq!(left(2, ms(2_000)), None);
        assert_eq!(left(i32::MAX, ms(1)), Some(i32::MAX - 1));
    }
}
