//! Layouts that have missed writes, and that nobody writes or reads: they are written again, compared with the table as a
//! whole, and read again. What cannot be repaired at once is put in doubt before.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use helenus_catalogue::Layout;
use helenus_catalogue::stored::WHOLE_TABLE;
use helenus_catalogue::sweep::Due;
use helenus_catalogue::waits::lease;

use super::super::entry::{begun_anew, claim, put};
use super::super::fill::{self, Filled};
use super::super::verdict::{Repairing, verify};
use super::how::How;
use super::view::View;
use super::{doubts, round};
use crate::catalogue::now_ms;
use crate::catalogue::settle::{Others, Settle};
use crate::nodes::cluster::Cluster;

/// Nobody reads these layouts from now on, or writes them.
pub(super) async fn leave(cluster: &Cluster, view: &View, layouts: &[Layout]) -> Result<()> {
    let behind: Vec<Layout> = layouts.iter().map(|of| of.behind(now_ms())).collect();
    put(cluster, &view.table.name, &view.known, &behind).await
}

/// Layouts have missed writes by what a proxy could say in the table of doubts only: nobody reads them from now on, or writes
/// them. Returns whether there are any.
pub(super) async fn leave_doubted(cluster: &Cluster, view: &View, due: &[Due]) -> Result<bool> {
    let Some(whole) = due.iter().find(|due| due.token == WHOLE_TABLE) else {
        return Ok(false);
    };
    let left = begun_before(view.written(), whole.written_us);
    leave(cluster, view, &left).await?;
    Ok(!left.is_empty())
}

/// A doubt of the whole table, since this sweep has found nothing left that it is about.
#[derive(Debug, Default)]
pub(super) struct Left(Option<(i64, Instant)>);

impl Left {
    /// Nothing is left that the doubt of that time is about, says the catalogue as it was read before `now`. Returns true
    /// once no proxy relies on what it has read before that.
    ///
    /// Nothing else tells when: the number of a layout is of another machine's clock, and was given before the catalogue said
    /// so; and one that is written again by now was behind a moment ago.
    pub(super) fn is_known_to_all(&mut self, written_us: i64, now: Instant) -> bool {
        let known = self.0.filter(|(of, _)| *of == written_us);
        let (_, since) = *self.0.insert(known.unwrap_or((written_us, now)));
        now.saturating_duration_since(since) >= known_after()
    }
}

/// A proxy relies on what it has read of the catalogue for a lease, and then takes a layout that it finds behind for
/// written for another, because others may read it for so long.
fn known_after() -> Duration {
    2 * lease()
}

/// Those that have not been begun anew since, to be compared as a whole.
fn begun_before(mut layouts: Vec<Layout>, written_us: i64) -> Vec<Layout> {
    layouts.retain(|layout| layout.created.saturating_mul(1_000) <= written_us);
    layouts
}

/// Begins with layouts that are behind: they are written from now on, under new numbers. Returns them.
pub(super) async fn begin(
    cluster: &Cluster,
    view: &View,
    behind: &[Layout],
) -> Result<Vec<Layout>> {
    let table = &view.table.name;
    // All of them, whatever is to be read: proxies find that a layout misses writes while no replica of a range is up.
    let away = cluster.away().await;
    if !away.is_empty() {
        bail!(
            "{} cannot be reached, and layouts that are behind are written again once all nodes are up",
            away.join(", ")
        );
    }
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

#[cfg(test)]
mod tests {
    use super::super::super::testing::layout;
    use super::*;

    #[test]
    fn a_doubt_of_all_of_them_stays_until_no_proxy_takes_them_for_written() {
        let begin = Instant::now();
        let after = |ms| begin + known_after() + Duration::from_millis(ms);
        let mut left = Left::default();
        // Whatever has become of them meanwhile.
        assert!(!left.is_known_to_all(7, begin));
        assert!(!left.is_known_to_all(7, begin + lease()));
        assert!(left.is_known_to_all(7, after(0)));
        // It was put in again.
        assert!(!left.is_known_to_all(8, after(1)));
        assert!(!left.is_known_to_all(8, after(2)));
        assert!(left.is_known_to_all(8, after(1) + known_after()));
    }

    #[test]
    fn layouts_that_were_begun_anew_since_a_doubt_of_all_of_them_are_not_behind() {
        let layouts = || vec![layout("a", 1_000), layout("b", 2_000)];
        let names = |written_us| -> Vec<String> {
            let left = begun_before(layouts(), written_us);
            left.into_iter().map(|layout| layout.name).collect()
        };
        assert_eq!(names(999_999), [""; 0]);
        assert_eq!(names(1_500_000), ["a"]);
        assert_eq!(names(2_000_000), ["a", "b"]);
    }
}
