//! Filling layouts that are being written, and opening them to reads: what `create` and `rebuild` have in
//! common.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use helenus_catalogue::change::Change;
use helenus_catalogue::{Layout, LayoutState};
use helenus_rows::{Table, TableName};

use super::backfill;
use super::compare::Compared;
use super::entry::{check_unchanged, claim, in_state};
use super::sweep::doubts;
use super::verdict::{self, Repairing, Verdict, verify};
use super::work::Work;
use crate::catalogue;
use crate::catalogue::claim::Claim;
use crate::nodes::cluster::Cluster;
use crate::nodes::reading::Reader;

/// The result of a filling.
#[derive(Debug)]
pub(super) struct Filled {
    pub copied: u64,
    pub rows: u64,
    pub distinct: Vec<(String, u64)>,
    /// Rows that were not the same after the copying.
    pub repaired: u64,
    pub time: Duration,
}

/// Only an empty table can have layouts if CQL does not tell when some of its values were written. `from`: the table, or a
/// layout of it, whose rows are to be copied.
pub(super) async fn refuse_untimed(
    cluster: &Cluster,
    table: &Table,
    from: &TableName,
    work: &Work,
) -> Result<()> {
    let Some(column) = table.untimed() else {
        return Ok(());
    };
    let reader = Reader::new(cluster, table, from, work.level()).await?;
    if reader.is_empty().await? {
        return Ok(());
    }
    bail!(
        "{from} has rows, and column {} is a {}: CQL does not tell when the elements of lists, the fields of user \
         types and, before Cassandra 5.0, the elements of sets and maps that are not frozen were written, so \
         the rows cannot be copied exactly. A layout can be made while the table is empty, or with the \
         column frozen",
        column.name,
        column.cql_type
    )
}

fn is_derived(entries: &[Layout]) -> bool {
    entries.iter().any(Layout::is_derived)
}

/// Copies the rows and compares them.
pub(super) async fn fill(
    cluster: &Cluster,
    table: &Table,
    entries: &[Layout],
    work: &Work,
) -> Result<Filled> {
    let begin = Instant::now();
    let claim = claim(cluster, &table.name, entries);
    let done = copy_and_compare(cluster, table, entries, work, &claim).await;
    let (copied, compared, verdicts) = claim.explained(done).await?;
    let mut left: u64 = verdicts.iter().map(Verdict::left).sum();
    if is_derived(entries) {
        doubts::leave_before_reading(cluster, &table.name, &verdicts).await?;
        left = 0;
    } else if verdicts.iter().any(|verdict| verdict.undeleted > 0) {
        bail!(
            "{left} rows of layouts of {} differ, so these are not read yet: {}",
            table.name,
            verdict::UNDELETED
        );
    }
    if left > 0 {
        bail!(
            "{left} rows of layouts of {} differ, so these are not read yet: look with `helenus layouts \
             verify {}`, then run this again, or `helenus layouts rebuild`",
            table.name,
            table.name
        );
    }
    Ok(Filled {
        copied,
        rows: compared.rows,
        distinct: compared.distinct,
        repaired: verdicts.iter().map(|verdict| verdict.repaired).sum(),
        time: begin.elapsed(),
    })
}

async fn copy_and_compare(
    cluster: &Cluster,
    table: &Table,
    entries: &[Layout],
    work: &Work,
    claim: &Claim<'_>,
) -> Result<(u64, Compared, Vec<Verdict>)> {
    let copied = match table.untimed() {
        // It was empty before the layouts were written.
        Some(_) => 0,
        None => backfill::fill(cluster, table, entries, work, claim).await?,
    };
    let repairing = Repairing {
        claim,
        // A write that the table may still get must not be taken for too much.
        may_delete: work.may_delete() && !is_derived(entries),
    };
    let (compared, verdicts) = verify(cluster, table, entries, work, Some(repairing)).await?;
    Ok((copied, compared, verdicts))
}

/// Lets proxies read the layouts.
pub(super) async fn open(
    cluster: &Cluster,
    table: &Table,
    entries: &[Layout],
    filled: &Filled,
) -> Result<()> {
    let known = catalogue::read(cluster, &table.name).await?;
    check_unchanged(&known, &table.name, entries)?;
    let ready = entries
        .iter()
        .map(|entry| in_state(entry, LayoutState::Ready));
    let ready: Vec<Layout> = ready.collect();
    let mut changes: Vec<Change<'_>> = ready.iter().map(Change::PutLayout).collect();
    changes.push(Change::Count {
        rows: filled.rows,
        distinct: &filled.distinct,
    });
    catalogue::change(cluster, &table.name, &known, &changes).await
}
