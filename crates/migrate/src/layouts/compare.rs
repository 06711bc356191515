//! Compares a table with its layouts, whatever order their rows come in: per range of tokens, the sum of
//! the rows' hashes; where sums differ, row by row. Clients go on writing meanwhile, so nothing counts as
//! a difference that does not look the same twice.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, future, stream};
use helenus_catalogue::Layout;
use helenus_layout::HyperLogLog;
use helenus_layout::plan::partition_name;
use helenus_rows::{Hashes, Part, Range, Row, Sum, Table, differing};
use indicatif::ProgressBar;

use super::entry::table_of;
use super::work::Work;
use crate::nodes::asked::Asked;
use crate::nodes::cluster::Cluster;
use crate::nodes::progress::bar;
use crate::nodes::reading::{Reader, Throttle};
use crate::nodes::ring;

/// Writes that are under way arrive within this time.
const PAUSE: Duration = Duration::from_millis(500);
/// Looks at a range, or a row, before it is called different.
const LOOKS: usize = 4;
/// Rows whose hashes are held at a time, over all ranges.
const ROWS_HELD: u64 = 2_000_000;
/// Rows of one range that are looked at again at the same time.
const LOOKED_AT: usize = 64;
/// Rows that are looked at one by one, for one layout. With more, it should be rebuilt.
const DIFFERENCES_MAX: usize = 100_000;
/// Rows below which distinct values tell nothing of the table that it becomes: proxies then choose a
/// layout as if nothing had been counted.
const COUNTED_MIN: u64 = 1_000;

/// A row that differs. Those that are collected have the times at which they were written, and no values: these may be
/// large.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    pub own: Option<Row>,
    pub copy: Option<Row>,
}

/// Counts of the table's rows.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// Rows of the table.
    pub rows: u64,
    /// Distinct values of each clustering column, and of the partition key ([`partition_name`]); none if there
    /// are too few rows to tell.
    pub distinct: Vec<(String, u64)>,
}

/// Of a layout: ranges that differ, and the rows.
#[derive(Debug, Default)]
pub(super) struct Differences {
    pub ranges: Vec<Range>,
    pub rows: Vec<Difference>,
    /// Rows that changed at every look.
    pub unsettled: u64,
}

/// Readers of the table and its layouts.
pub(super) struct Readers<'a> {
    pub table: &'a Table,
    pub own: Reader<'a>,
    pub copies: Vec<Reader<'a>>,
}

impl<'a> Readers<'a> {
    pub(super) async fn new(
        cluster: &'a Cluster,
        table: &'a Table,
        entries: &[Layout],
        work: &'a Work,
    ) -> Result<Readers<'a>> {
        let level = work.level();
        let own = Reader::new(cluster, table, &table.name, level).await?;
        let mut copies = Vec::new();
        for entry in entries {
            let copy = table_of(entry, &table.name);
            copies.push(Reader::new(cluster, table, &copy, level).await?);
        }
        Ok(Readers { table, own, copies })
    }
}

/// A comparison of all layouts with the table, some ranges after the others.
pub(super) struct Comparison<'a> {
    readers: &'a Readers<'a>,
    work: &'a Work,
    throttle: Throttle,
    counter: Mutex<Counter>,
    rows: AtomicU64,
    bar: ProgressBar,
}

impl<'a> Comparison<'a> {
    /// Also the ranges to compare.
    pub(super) async fn begin(
        cluster: &Cluster,
        readers: &'a Readers<'a>,
        work: &'a Work,
    ) -> (Comparison<'a>, Vec<Range>) {
        let ranges = helenus_rows::split(ring::suitable(cluster, &readers.table.name).await);
        let bar = bar("comparing", ranges.len() as u64);
        (Comparison::new(readers, work, bar), ranges)
    }

    /// Of which nobody sees how far it has come.
    pub(super) fn silent(readers: &'a Readers<'a>, work: &'a Work) -> Comparison<'a> {
        Comparison::new(readers, work, ProgressBar::hidden())
    }

    fn new(readers: &'a Readers<'a>, work: &'a Work, bar: ProgressBar) -> Comparison<'a> {
        Comparison {
            readers,
            work,
            throttle: Throttle::new(work.rows_per_second),
            counter: Mutex::new(Counter::new(readers.table)),
            rows: AtomicU64::new(0),
            bar,
        }
    }

    /// All rows of the table, and distinct values.
    pub(super) fn finish(self) -> Compared {
        self.bar.finish_and_clear();
        let (counter, rows) = (self.counter.into_inner(), self.rows.into_inner());
        Compared {
            rows,
            distinct: match counter {
                Ok(counter) if rows >= COUNTED_MIN => counter.finish(),
                _ => Vec::new(),
            },
        }
    }

    /// The differences in these ranges, for each layout.
    pub(super) async fn compare(&self, ranges: &[Range]) -> Result<Vec<Differences>> {
        let found: Mutex<Vec<Differences>> = Mutex::default();
        if let Ok(mut found) = found.lock() {
            found.resize_with(self.readers.copies.len(), Differences::default);
        }
        let looks = ranges.iter().map(|range| self.look(*range, &found));
        let done: Result<()> = stream::iter(looks)
            .buffer_unordered(self.work.parallel.into())
            .try_collect()
            .await;
        done?;
        Ok(found.into_inner().unwrap_or_default())
    }

    async fn look(&self, range: Range, found: &Mutex<Vec<Differences>>) -> Result<()> {
        let Comparison { readers, bar, .. } = self;
        let look = Look {
            readers,
            range,
            throttle: &self.throttle,
            rows_held: ROWS_HELD / u64::from(self.work.parallel.max(1)),
        };
        let (sum, differing) = look.sums(&self.counter).await?;
        let all = self.rows.fetch_add(sum.rows, Ordering::Relaxed) + sum.rows;
        bar.set_message(format!("{all} rows"));
        for (at, copy) in differing {
            let (differences, unsettled) = look.rows(at, sum.rows, copy.rows).await?;
            if let Ok(mut found) = found.lock()
                && let Some(found) = found.get_mut(at)
            {
                found.unsettled += unsettled;
                if !differences.is_empty() {
                    found.ranges.push(range);
                }
                found.rows.extend(differences);
                check_few(readers.table, at, found.rows.len() as u64)?;
            }
        }
        bar.inc(1);
        Ok(())
    }
}

/// One range, looked at until what differs stays the same.
struct Look<'a> {
    readers: &'a Readers<'a>,
    range: Range,
    throttle: &'a Throttle,
    rows_held: u64,
}

impl Look<'_> {
    /// The table's sum, and the layouts whose sums differ from it at every look, with the last of these.
    async fn sums(&self, counter: &Mutex<Counter>) -> Result<(Sum, Vec<(usize, Sum)>)> {
        let layouts = 0..self.readers.copies.len();
        let mut differing: Vec<(usize, Sum)> = layouts.map(|at| (at, Sum::default())).collect();
        let mut own = Sum::default();
        for look in 0..LOOKS {
            if look > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let count = |row: &Row| {
                if look == 0
                    && let Ok(mut counter) = counter.lock()
                {
                    counter.add(row);
                }
            };
            let copies = differing
                .iter()
                .filter_map(|(at, _)| self.readers.copies.get(*at));
            let copies = copies.map(|reader| self.sum(reader, |_: &Row| {}));
            let (sum, copies) = future::join(
                self.sum(&self.readers.own, count),
                future::try_join_all(copies),
            )
            .await;
            own = sum?;
            let pairs = differing.iter().zip(copies?);
            differing = pairs
                .filter(|(_, copy)| *copy != own)
                .map(|((at, _), copy)| (*at, copy))
                .collect();
            if differing.is_empty() {
                break;
            }
        }
        Ok((own, differing))
    }

    async fn sum(&self, reader: &Reader<'_>, mut each: impl FnMut(&Row)) -> Result<Sum> {
        let mut sum = Sum::default();
        let take = async |rows: Vec<Row>, _: Asked| {
            for row in &rows {
                each(row);
                sum.add(row);
            }
            Ok(())
        };
        reader.each_page(self.range, self.throttle, take).await?;
        Ok(sum)
    }

    /// The rows of a layout that differ, and how many changed at every look. The table has `own_rows` and
    /// the layout `copy_rows`, about.
    async fn rows(
        &self,
        at: usize,
        own_rows: u64,
        copy_rows: u64,
    ) -> Result<(Vec<Difference>, u64)> {
        check_few(self.readers.table, at, own_rows.abs_diff(copy_rows))?;
        let Some(copy) = self.readers.copies.get(at) else {
            return Ok((Vec::new(), 0));
        };
        let own = &self.readers.own;
        // So that not all hashes of a huge range are held at a time.
        let passes = u128::from(own_rows.max(copy_rows) / self.rows_held.max(1) + 1);
        let (mut differences, mut unsettled) = (Vec::new(), 0);
        for pass in 0..passes {
            let hashes = || Hashes::new(pass, passes);
            let (of_own, of_copy) =
                future::try_join(self.hashes(own, hashes()), self.hashes(copy, hashes())).await?;
            let differing = of_own.differing(&of_copy);
            check_few(self.readers.table, at, differing.len() as u64)?;
            let mut suspects = self.with_keys(own, &differing).await?;
            suspects.extend(self.with_keys(copy, &differing).await?);
            let looks = suspects.into_values();
            let looks = looks.map(|row| async move { settled(&row, own, copy).await });
            let mut looks = stream::iter(looks).buffer_unordered(LOOKED_AT);
            while let Some(found) = looks.try_next().await? {
                match found {
                    Settled::Same => {}
                    Settled::Different(found) => differences.push(Difference {
                        own: found.own.map(Row::times_alone),
                        copy: found.copy.map(Row::times_alone),
                    }),
                    Settled::Unsettled => unsettled += 1,
                }
            }
        }
        Ok((differences, unsettled))
    }

    async fn hashes(&self, reader: &Reader<'_>, mut hashes: Hashes) -> Result<Hashes> {
        let take = async |rows: Vec<Row>, _: Asked| {
            rows.iter().for_each(|row| hashes.add(row));
            Ok(())
        };
        reader.each_page(self.range, self.throttle, take).await?;
        Ok(hashes)
    }

    /// The rows whose keys have these hashes, without their values.
    async fn with_keys(
        &self,
        reader: &Reader<'_>,
        keys: &HashSet<u128>,
    ) -> Result<HashMap<u128, Row>> {
        let mut found = HashMap::new();
        if keys.is_empty() {
            return Ok(found);
        }
        let take = async |rows: Vec<Row>, _: Asked| {
            for row in rows {
                let key = row.key_hash();
                if keys.contains(&key) {
                    found.insert(key, row.without_values());
                }
            }
            Ok(())
        };
        reader.each_page(self.range, self.throttle, take).await?;
        Ok(found)
    }
}

/// A layout differs in more rows than are looked at one by one.
#[derive(Debug, thiserror::Error)]
#[error(
    "more than {DIFFERENCES_MAX} rows of a layout of {table} differ: rebuild it (`helenus layouts rebuild`)"
)]
pub(super) struct TooMany {
    table: String,
    /// The number of the layout, of those that were compared.
    pub at: usize,
}

fn check_few(table: &Table, at: usize, differing: u64) -> Result<()> {
    if differing > DIFFERENCES_MAX as u64 {
        let table = table.name.to_string();
        return Err(TooMany { table, at }.into());
    }
    Ok(())
}

/// The verdict on a row.
pub(super) enum Settled {
    Same,
    Different(Difference),
    /// It was written to between all looks.
    Unsettled,
}

/// Looks at a row in both tables until it is the same in both, or differs twice in the same way. What else
/// of it changes meanwhile does not matter: a row that is written all the time may miss something as well.
pub(super) async fn settled(row: &Row, own: &Reader<'_>, copy: &Reader<'_>) -> Result<Settled> {
    let mut before: Vec<Part> = Vec::new();
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let (own, copy) = future::try_join(own.row_like(row), copy.row_like(row)).await?;
        let now = differing(own.as_ref(), copy.as_ref());
        if now.is_empty() {
            return Ok(Settled::Same);
        }
        if now.iter().any(|part| before.contains(part)) {
            return Ok(Settled::Different(Difference { own, copy }));
        }
        before = now;
    }
    Ok(Settled::Unsettled)
}

/// Counts distinct values.
struct Counter {
    partitions: (String, HyperLogLog),
    columns: Vec<(String, HyperLogLog)>,
}

impl Counter {
    fn new(table: &Table) -> Counter {
        let key = table.partition.iter().map(|column| column.name.as_str());
        let columns = table.clustering.iter();
        Counter {
            partitions: (partition_name(key), HyperLogLog::default()),
            columns: columns
                .map(|column| (column.name.clone(), HyperLogLog::default()))
                .collect(),
        }
    }

    fn add(&mut self, row: &Row) {
        let Some(clustering) = &row.clustering else {
            return;
        };
        self.partitions.1.add(hash(&row.partition));
        for ((_, sketch), value) in self.columns.iter_mut().zip(clustering) {
            sketch.add(hash(value));
        }
    }

    fn finish(self) -> Vec<(String, u64)> {
        let columns = self.columns.into_iter().chain([self.partitions]);
        let counted = columns.map(|(name, sketch)| (name, sketch.estimate().round() as u64));
        counted.collect()
    }
}

/// Without a key: the same in every run.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
