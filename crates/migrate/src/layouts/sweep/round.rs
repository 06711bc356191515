//! Which ranges of the ring are compared next, and when each was: the one first that was compared longest ago.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use helenus_catalogue::{Layout, change, stored};
use helenus_rows::{Range, TableName, split};
use scylla::value::CqlTimestamp;

use crate::catalogue;
use crate::nodes::cluster::Cluster;

/// A ring is cut anew if its table has become so many times as large, or small.
const GROWN: u64 = 4;
/// Ranges that one request notes.
const AT_ONCE: usize = 100;
/// No range ends there: a note that a sweep has taken on a layout that was behind.
const TAKEN_ON: i64 = i64::MIN;

/// A range that was compared with a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::layouts) struct Note {
    pub layout: String,
    pub end: i64,
    pub ranges: u64,
    pub compared_ms: i64,
}

/// Those of a table: of ranges, and of layouts that a sweep has taken on.
pub(in crate::layouts) async fn notes(
    cluster: &Cluster,
    table: &TableName,
) -> Result<(Vec<Note>, Vec<Note>)> {
    let tables = catalogue::tables_of_keyspace(cluster).await?;
    if !tables.contains("layout_sweeps") {
        return Ok((Vec::new(), Vec::new()));
    }
    type Row = (String, i64, Option<i32>, Option<CqlTimestamp>);
    let select = stored::select_sweeps(&catalogue::key(table));
    let rows: Vec<Row> = cluster.rows(select).await?;
    let notes = rows
        .into_iter()
        .map(|(layout, end, ranges, compared)| Note {
            layout,
            end,
            ranges: ranges.and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
            compared_ms: compared.map_or(0, |at| at.0),
        });
    Ok(notes.partition(|note| note.end != TAKEN_ON))
}

/// Notes that these layouts, which were behind, are compared as a whole.
pub(super) async fn take_on(
    cluster: &Cluster,
    table: &TableName,
    entries: &[Layout],
) -> Result<()> {
    let key = catalogue::key(table);
    for entry in entries {
        let note = change::sweep(&key, &entry.name, &[TAKEN_ON], 0, entry.created);
        cluster.run(&note).await?;
    }
    Ok(())
}

/// The ranges of a table, of all its layouts together.
#[derive(Debug)]
pub(super) struct Round {
    /// Names of the layouts, and the numbers of their fillings.
    of: Vec<(String, i64)>,
    ranges: Vec<Range>,
    /// By the end of the range: when it was last compared with the layout that has waited longest.
    compared_ms: BTreeMap<i64, i64>,
    /// The layouts of which older notes are to be forgotten, because the ring was cut in another way.
    outdated: BTreeSet<String>,
    made: Instant,
}

impl Round {
    /// Of these layouts, from what was noted. `suitable`: the number of ranges that would suit the table.
    pub(super) fn of(entries: &[Layout], notes: &[Note], suitable: u64) -> Round {
        let counts = notes.iter().map(|note| note.ranges);
        let near = |count: &u64| {
            count.is_power_of_two() && *count <= suitable * GROWN && suitable <= count * GROWN
        };
        let count = counts.filter(near).max().unwrap_or(suitable);
        let outdated = notes.iter().filter(|note| note.ranges != count);
        let outdated = outdated.map(|note| note.layout.clone()).collect();
        let ranges = split(count);
        let when = |range: &Range| {
            let of_layout = entries.iter().map(|entry| {
                let mut notes = notes.iter();
                let note = notes.find(|note| {
                    note.layout == entry.name
                        && note.ranges == count
                        && note.end == range.end
                        && note.compared_ms >= entry.created
                });
                note.map_or(0, |note| note.compared_ms)
            });
            (range.end, of_layout.min().unwrap_or(0))
        };
        Round {
            of: names(entries),
            compared_ms: ranges.iter().map(when).collect(),
            ranges,
            outdated,
            made: Instant::now(),
        }
    }

    /// How long ago the notes were read. Meanwhile, the table may have grown.
    pub(super) fn age(&self) -> Duration {
        self.made.elapsed()
    }

    /// True if it is about these layouts.
    pub(super) fn is_of(&self, entries: &[Layout]) -> bool {
        self.of == names(entries)
    }

    /// Ranges that were not compared since then, so many at most.
    pub(super) fn next(&self, before_ms: i64, max: usize) -> Vec<Range> {
        let when = |range: &Range| self.compared_ms.get(&range.end).copied().unwrap_or(0);
        let mut next: Vec<Range> = self.ranges.clone();
        next.retain(|range| when(range) < before_ms);
        next.sort_by_key(|range| (when(range), range.end));
        next.truncate(max);
        next
    }

    /// These have been compared.
    pub(super) async fn note(
        &mut self,
        cluster: &Cluster,
        table: &TableName,
        ranges: &[Range],
        now_ms: i64,
    ) -> Result<()> {
        let key = catalogue::key(table);
        for layout in std::mem::take(&mut self.outdated) {
            let forget = change::forget_sweeps(&key, Some(&layout));
            cluster.run(&forget).await?;
        }
        let ends: Vec<i64> = ranges.iter().map(|range| range.end).collect();
        for (layout, _) in &self.of {
            for ends in ends.chunks(AT_ONCE) {
                let note = change::sweep(&key, layout, ends, self.ranges.len(), now_ms);
                cluster.run(&note).await?;
            }
        }
        self.compared_ms
            .extend(ends.iter().map(|end| (*end, now_ms)));
        Ok(())
    }
}

fn names(entries: &[Layout]) -> Vec<(String, i64)> {
    let names = entries
        .iter()
        .map(|entry| (entry.name.clone(), entry.created));
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::layout;
    use super::*;

    fn note(layout: &str, at: usize, ranges: u64, compared_ms: i64) -> Note {
        Note {
            layout: layout.to_owned(),
            end: split(ranges)[at].end,
            ranges,
            compared_ms,
        }
    }

    fn next(round: &Round, before_ms: i64) -> Vec<usize> {
        let next = round.next(before_ms, 3);
        let at = |range: &Range| split(16).iter().position(|of| of == range);
        next.iter()
            .map(|range| at(range).expect("one of them"))
            .collect()
    }

    #[test]
    fn the_range_that_was_compared_longest_ago_is_next() {
        let notes = [
            note("a", 0, 16, 500),
            note("a", 1, 16, 700),
            note("b", 0, 16, 600),
            note("b", 1, 16, 400),
            // Before it was filled anew.
            note("a", 2, 16, 99),
            note("b", 2, 16, 800),
            // It was dropped.
            note("c", 3, 16, 900),
        ];
        let (a, b) = (layout("a", 100), layout("b", 100));
        let both = Round::of(&[a.clone(), b.clone()], &notes, 16);
        assert_eq!(next(&both, 1_000), [2, 3, 4]);
        let mut notes = notes.to_vec();
        notes.extend((2..16).flat_map(|at| ["a", "b"].map(|of| note(of, at, 16, 900))));
        let both = Round::of(&[a.clone(), b], &notes, 16);
        assert_eq!(next(&both, 1_000), [1, 0, 2]);
        assert_eq!(next(&both, 450), [1]);
        assert!(next(&both, 400).is_empty());
        assert!(both.is_of(&[layout("a", 100), layout("b", 100)]));
        assert!(!both.is_of(&[layout("a", 101), layout("b", 100)]));
        let one = Round::of(&[a], &notes, 16);
        assert_eq!(next(&one, 1_000), [0, 1, 2]);
    }

    #[test]
    fn a_ring_is_cut_anew_when_its_table_has_grown() {
        let notes = [note("a", 0, 16, 500)];
        let entries = [layout("a", 100)];
        let of = |suitable| Round::of(&entries, &notes, suitable);
        assert_eq!((of(64).ranges.len(), of(64).outdated.len()), (16, 0));
        assert_eq!((of(128).ranges.len(), of(128).outdated.len()), (128, 1));
        assert_eq!(of(128).next(1, 200).len(), 128, "none was compared");
    }
}
