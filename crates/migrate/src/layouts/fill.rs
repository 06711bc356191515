//! Filling layouts that are being written, and opening them to reads: what `create`, `rebuild` and `truncate` have in
//! common.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use helenus_catalogue::change::Change;
use helenus_catalogue::{Layout, LayoutState};
use helenus_rows::{Table, TableName};

use super::backfill;
use super::compare::Compared;
use super::entry::{begun_anew, check_unchanged, claim, in_state, put, tables_of};
use super::following::copy_grants;
use super::ranges;
use super::sweep::doubts;
use super::verdict::{self, Repairing, Verdict, check_copies, verify};
use super::work::Work;
use crate::catalogue;
use crate::catalogue::claim::Claim;
use crate::catalogue::settle::{Emptying, Settle};
use crate::common::Common;
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

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

/// How long to wait until a change of these layouts is known, and how much longer before they are filled.
pub(super) async fn settle(
    cluster: &Cluster,
    chosen: &[Layout],
    common: &Common,
) -> (Settle, Duration) {
    // Another may be emptying one of them, which must not happen to what is filled here.
    let is_filling = |entry: &Layout| entry.state() != Some(LayoutState::Ready);
    let (is_filling, emptying) = match chosen.iter().any(is_filling) {
        true => (true, Emptying::Perhaps),
        false => (false, Emptying::No),
    };
    let settle = Settle::of(cluster, common.others(is_filling)).await;
    let settle = settle.with_derived(is_derived(chosen));
    (settle, settle.for_emptying(emptying))
}

/// Waits until nobody reads the layouts, which are written under new numbers from then on. Ranges that were copied before
/// count no longer.
pub(super) async fn put_aside(
    cluster: &Cluster,
    table: &TableName,
    chosen: &[Layout],
    settle: Settle,
    more: Duration,
) -> Result<Vec<Layout>> {
    let known = catalogue::read(cluster, table).await?;
    check_unchanged(&known, table, chosen)?;
    let entries: Vec<Layout> = chosen.iter().map(begun_anew).collect();
    put(cluster, table, &known, &entries).await?;
    settle.wait_longer(more, "no longer read").await;
    Ok(entries)
}

/// Empties tables of layouts that are about to be filled, or the table itself.
pub(super) async fn empty(
    cluster: &Cluster,
    table: &TableName,
    entries: &[Layout],
    tables: &[TableName],
) -> Result<()> {
    let claim = claim(cluster, table, entries);
    for emptied in tables {
        // Another command may have taken it over meanwhile, also while the one before was emptied: then
        // it may be read, and must not be emptied.
        claim.renew().await?;
        let full = emptied.to_cql();
        cluster.run(&format!("TRUNCATE {full}")).await?;
    }
    Ok(())
}

/// Fills layouts that have been put aside and emptied, and lets proxies read them.
pub(super) async fn refill(
    cluster: &Cluster,
    table: &TableName,
    entries: &[Layout],
    work: &Work,
) -> Result<Filled> {
    // A column that was added or dropped meanwhile has lost what was in it.
    cluster.agree().await?;
    let table = table::load(cluster, table).await?;
    check_copies(cluster, &table, entries).await?;
    let filled = fill(cluster, &table, entries, work).await?;
    finish(cluster, &table, entries, &filled).await?;
    Ok(filled)
}

/// Gives layouts that have been filled the rights of their table, and lets proxies read them.
pub(super) async fn finish(
    cluster: &Cluster,
    table: &Table,
    entries: &[Layout],
    filled: &Filled,
) -> Result<()> {
    let name = &table.name;
    // Again: what was granted or revoked past the proxies meanwhile, and what the role itself needed until now.
    copy_grants(cluster, name, &tables_of(entries, name), None).await?;
    open(cluster, table, entries, filled).await?;
    for entry in entries {
        ranges::forget(cluster, name, &entry.name).await?;
    }
    Ok(())
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
