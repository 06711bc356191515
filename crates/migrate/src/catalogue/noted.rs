//! Which ranges of the ring have been worked through, kept in the catalogue: an interrupted command goes on
//! where it was.

use std::collections::BTreeSet;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use helenus_cql::quote_text;
use helenus_rows::{Range, TableName};

use crate::nodes::cluster::Cluster;

/// A table of notes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notes {
    /// In the keyspace helenus.
    pub name: &'static str,
    /// The column with what is worked on.
    pub item: &'static str,
}

/// Work that is noted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub notes: Notes,
    pub table: &'a TableName,
    /// A layout, or a column.
    pub item: &'a str,
    /// Names this attempt at it, in milliseconds.
    pub created: i64,
}

impl Notes {
    pub(crate) fn create(self) -> String {
        let Notes { name, item } = self;
        format!(
            "CREATE TABLE IF NOT EXISTS helenus.{name} (keyspace_name text, table_name text, {item} text, \
             created timestamp, range_end bigint, ranges int, \
             PRIMARY KEY ((keyspace_name, table_name, {item}), created, range_end))"
        )
    }

    fn place(self, table: &TableName, item: &str) -> String {
        format!(
            "keyspace_name = {} AND table_name = {} AND {} = {}",
            quote_text(&table.keyspace),
            quote_text(&table.table),
            self.item,
            quote_text(item)
        )
    }

    /// Nobody will go on with it.
    pub(crate) async fn forget(
        self,
        cluster: &Cluster,
        table: &TableName,
        item: &str,
    ) -> Result<()> {
        let place = self.place(table, item);
        cluster
            .run(&format!("DELETE FROM helenus.{} WHERE {place}", self.name))
            .await
    }
}

impl Task<'_> {
    /// The ends of the ranges that are done, and how many ranges there are in all.
    pub(crate) async fn done(&self, cluster: &Cluster) -> Result<(BTreeSet<i64>, Option<u64>)> {
        let rows: Vec<(i64, i32)> = cluster
            .rows(format!(
                "SELECT range_end, ranges FROM helenus.{} WHERE {} AND created = {}",
                self.notes.name,
                self.notes.place(self.table, self.item),
                self.created
            ))
            .await?;
        Ok(of_one_split(&rows))
    }

    /// A range of so many is done.
    pub(crate) async fn note(&self, cluster: &Cluster, range: Range, count: usize) -> Result<()> {
        self.note_end(cluster, range.end, count).await
    }

    async fn note_end(&self, cluster: &Cluster, end: i64, count: usize) -> Result<()> {
        let Notes { name, item } = self.notes;
        let text = format!(
            "INSERT INTO helenus.{name} (keyspace_name, table_name, {item}, created, range_end, ranges) \
             VALUES ({}, {}, {}, {}, {end}, {count})",
            quote_text(&self.table.keyspace),
            quote_text(&self.table.table),
            quote_text(self.item),
            self.created,
        );
        cluster.run(&text).await
    }

    /// Notes the ranges that an earlier attempt has done for this one; returns how many.
    pub(crate) async fn take_over(&self, cluster: &Cluster, before: &Task<'_>) -> Result<usize> {
        let (ends, count) = before.done(cluster).await?;
        let count = count.and_then(|count| usize::try_from(count).ok());
        let notes = ends
            .iter()
            .map(|end| self.note_end(cluster, *end, count.unwrap_or_default()));
        let noted = stream::iter(notes).buffer_unordered(32);
        noted.try_collect::<()>().await?;
        Ok(ends.len())
    }
}

/// Another run may have split the ring in another way: of both, only one counts. The same end is that of a
/// smaller range there.
fn of_one_split(rows: &[(i64, i32)]) -> (BTreeSet<i64>, Option<u64>) {
    let Some((_, count)) = rows.first() else {
        return (BTreeSet::new(), None);
    };
    let of_it = rows.iter().filter(|(_, other)| other == count);
    let ends = of_it.map(|(end, _)| *end).collect();
    (ends, u64::try_from(*count).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_rows::split;

    #[test]
    fn a_smaller_range_does_not_stand_for_a_larger_one() {
        let (large, small) = (split(16), split(32));
        // The second range of 32 ends where the first of 16 does; of that, half has been copied.
        assert_eq!(small[1].end, large[0].end);
        let rows = [(large[1].end, 16), (small[1].end, 32)];
        let (done, count) = of_one_split(&rows);
        assert_eq!((done, count), ([large[1].end].into(), Some(16)));
        assert_eq!(of_one_split(&[]), (BTreeSet::new(), None));
    }
}
