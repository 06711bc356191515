//! The findings of a comparison of a table with its layouts, for `verify`, and for `create` and `rebuild` before a
//! layout is read.

mod repair;

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use helenus_catalogue::Layout;
use helenus_catalogue::change::Change;
use helenus_rows::{Table, TableName};
use serde_json::{Value, json};

use self::repair::repair;
use super::compare::{Compared, Comparison, Differences, Readers};
use super::entry::table_of;
use super::names;
use super::work::Work;
use super::writer::Writer;
use crate::catalogue;
use crate::catalogue::claim::Claim;
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

/// Differing ranges and rows that are shown.
const SHOWN: usize = 10;

/// The advice for rows that are left for that reason.
pub(super) const UNDELETED: &str = "what layouts have and a majority of replicas has not in the table is \
     deleted with `--consistency all` only, because another replica may have it: run this again with that \
     when all nodes are up";

/// The findings for one layout.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    pub layout: String,
    pub ranges: Vec<(i64, i64)>,
    pub missing: u64,
    pub extra: u64,
    pub different: u64,
    /// Rows that were written to at every look.
    pub unsettled: u64,
    /// Of those that differ; none if nothing was to be repaired.
    pub repaired: u64,
    /// Rows with something to delete that was left.
    pub undeleted: u64,
    /// Tokens of the partitions that differ after a repair.
    pub tokens: BTreeSet<i64>,
}

impl Verdict {
    pub(super) fn differing(&self) -> u64 {
        self.missing + self.extra + self.different
    }

    pub(super) fn left(&self) -> u64 {
        self.differing() - self.repaired
    }
}

/// Proxies choose layouts by what was counted.
pub(super) async fn keep_counts(
    cluster: &Cluster,
    table: &TableName,
    compared: &Compared,
) -> Result<()> {
    let known = catalogue::read(cluster, table).await?;
    let counted = Change::Count {
        rows: compared.rows,
        distinct: &compared.distinct,
    };
    catalogue::change(cluster, table, &known, &[counted]).await
}

/// Refuses to compare with, or to write to, what is no copy of the table.
pub(super) async fn check_copies(
    cluster: &Cluster,
    table: &Table,
    entries: &[Layout],
) -> Result<()> {
    for entry in entries {
        let name = table_of(entry, &table.name);
        if !names::is_of_layout(&table.name.table, &entry.name, &entry.physical) {
            bail!(
                "the catalogue has {name} as the table of layout {}, which layouts are never named: drop the \
                 layout and create it again",
                entry.name
            );
        }
        let copy = table::load(cluster, &name).await?;
        if !table.is_copied_by(&copy, &entry.clustering) {
            bail!(
                "{name} does not have the columns of {} in the order of layout {}, or another \
                 default_time_to_live: `helenus layouts status` says \
                 what is wrong",
                table.name,
                entry.name
            );
        }
    }
    Ok(())
}

/// The right to repair layouts.
#[derive(Clone, Copy)]
pub(super) struct Repairing<'a> {
    pub claim: &'a Claim<'a>,
    /// What the table does not have is deleted.
    pub may_delete: bool,
}

/// Compares layouts with their table, and repairs them if that is wanted.
pub(super) async fn verify(
    cluster: &Cluster,
    table: &Table,
    entries: &[Layout],
    work: &Work,
    repairing: Option<Repairing<'_>>,
) -> Result<(Compared, Vec<Verdict>)> {
    let readers = Readers::new(cluster, table, entries, work).await?;
    let (comparison, ranges) = Comparison::begin(cluster, &readers, work).await;
    let found = comparison.compare(&ranges).await?;
    let verdicts = judged(cluster, &readers, entries, &found, work, repairing).await?;
    Ok((comparison.finish(), verdicts))
}

/// The verdicts on what was found, for each layout, which are repaired if that is wanted.
pub(super) async fn judged(
    cluster: &Cluster,
    readers: &Readers<'_>,
    entries: &[Layout],
    found: &[Differences],
    work: &Work,
    repairing: Option<Repairing<'_>>,
) -> Result<Vec<Verdict>> {
    let table = readers.table;
    let mut verdicts = Vec::new();
    for (at, (entry, found)) in entries.iter().zip(found).enumerate() {
        let mut verdict = judge(entry, found);
        if let Some(Repairing { claim, may_delete }) = repairing
            && !found.rows.is_empty()
        {
            let into = table_of(entry, &table.name);
            let writer = Writer::new(cluster, table, &[into], work, claim);
            let left = repair(&writer, table, readers, at, &found.rows, may_delete).await?;
            verdict.repaired = verdict.differing().saturating_sub(left.rows);
            verdict.undeleted = left.undeleted;
            verdict.tokens = left.tokens;
        }
        verdicts.push(verdict);
    }
    Ok(verdicts)
}

fn judge(entry: &Layout, found: &Differences) -> Verdict {
    let count = |own: bool, copy: bool| {
        let rows = found.rows.iter();
        let rows = rows.filter(|row| (row.own.is_some(), row.copy.is_some()) == (own, copy));
        rows.count() as u64
    };
    Verdict {
        layout: entry.name.clone(),
        ranges: found.ranges.iter().map(|r| (r.after, r.end)).collect(),
        missing: count(true, false),
        extra: count(false, true),
        different: count(true, true),
        unsettled: found.unsettled,
        ..Verdict::default()
    }
}

pub(super) fn as_json(table: &TableName, compared: &Compared, verdicts: &[Verdict]) -> Value {
    json!({
        "table": table.to_string(),
        "rows": compared.rows,
        "layouts": verdicts.iter().map(verdict_json).collect::<Vec<_>>(),
    })
}

fn verdict_json(verdict: &Verdict) -> Value {
    let ranges = verdict.ranges.iter();
    json!({
        "name": verdict.layout,
        "rows_missing": verdict.missing,
        "rows_extra": verdict.extra,
        "rows_different": verdict.different,
        "rows_unsettled": verdict.unsettled,
        "rows_repaired": verdict.repaired,
        "rows_to_delete": verdict.undeleted,
        "ranges_differing": ranges.map(|(after, end)| json!({ "after": after, "end": end }))
            .collect::<Vec<_>>(),
    })
}

pub(super) fn print_text(
    table: &TableName,
    compared: &Compared,
    verdicts: &[Verdict],
    with_repair: bool,
) {
    println!("{table}: {} rows", compared.rows);
    for verdict in verdicts {
        let name = &verdict.layout;
        if verdict.differing() == 0 {
            println!("  {name}: the same rows");
        } else {
            println!(
                "  {name}: {} rows missing, {} too many, {} different",
                verdict.missing, verdict.extra, verdict.different
            );
            for (after, end) in verdict.ranges.iter().take(SHOWN) {
                println!("    in the tokens above {after} up to {end}");
            }
            if verdict.ranges.len() > SHOWN {
                println!("    and in {} further ranges", verdict.ranges.len() - SHOWN);
            }
        }
        if verdict.unsettled > 0 {
            println!(
                "    {} rows were written to at every look; they were not judged",
                verdict.unsettled
            );
        }
        if with_repair && verdict.differing() > 0 {
            println!("    {} of them repaired", verdict.repaired);
        }
        if verdict.undeleted > 0 {
            println!(
                "    {} of them hold what would have to be deleted",
                verdict.undeleted
            );
        }
    }
}
