//! Layouts that have missed writes, and that nobody writes or reads: they are written again, compared with the table as a
//! whole, and read again. What cannot be repaired at once is put in doubt before.

use std::time::Instant;

use anyhow::Result;
use helenus_catalogue::Layout;

use super::super::entry::{begun_anew, claim, put};
use super::super::fill::{self, Filled};
use super::super::verdict::{Repairing, verify};
use super::how::How;
use super::view::View;
use super::{doubts, round};
use crate::catalogue::settle::{Others, Settle};
use crate::nodes::cluster::Cluster;

/// Begins with layouts that are behind: they are written from now on, under new numbers. Returns them.
pub(super) async fn begin(
    cluster: &Cluster,
    view: &View,
    behind: &[Layout],
    how: &How,
) -> Result<Vec<Layout>> {
    let table = &view.table.name;
    how.work.check_nodes(cluster).await?;
    view.check(cluster, behind).await?;
    let entries: Vec<Layout> = behind.iter().map(begun_anew).collect();
    // Before: a sweep that finds one written, and no note of it, takes it for another command's.
    round::take_on(cluster, table, &entries).await?;
    put(cluster, table, &view.known, &entries).await?;
    Ok(entries)
}

/// Compares layouts that [`begin`] was called for, and lets proxies read them. Returns how many rows were repaired.
///
/// # Errors
/// A node is away, or they have missed a write again.
pub(super) async fn finish(
    cluster: &Cluster,
    view: &View,
    entries: &[Layout],
    how: &How,
) -> Result<u64> {
    let begin = Instant::now();
    let table = &view.table;
    how.work.check_nodes(cluster).await?;
    view.check(cluster, entries).await?;
    let others = Others::of(how.no_proxies, true);
    let settle = Settle::of(cluster, others).await.with_derived(true);
    settle.wait("the layouts are written again").await;
    let claim = claim(cluster, &table.name, entries);
    let repairing = Repairing {
        claim: &claim,
        may_delete: false,
    };
    let verified = verify(cluster, table, entries, &how.work, Some(repairing)).await;
    let (compared, verdicts) = claim.explained(verified).await?;
    doubts::leave_before_reading(cluster, &table.name, &verdicts).await?;
    let repaired = verdicts.iter().map(|verdict| verdict.repaired).sum();
    let filled = Filled {
        copied: 0,
        rows: compared.rows,
        distinct: compared.distinct,
        repaired,
        time: begin.elapsed(),
    };
    fill::open(cluster, table, entries, &filled).await?;
    Ok(repaired)
}
