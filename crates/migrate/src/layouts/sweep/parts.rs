//! Parts of the ring compared one by one, and repaired.

use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, stream};
use helenus_catalogue::Layout;
use helenus_rows::{Range, remove};

use super::super::compare::{Comparison, Difference, Differences, Readers};
use super::super::entry::claim;
use super::super::verdict::{Repairing, Verdict, judged};
use super::how::Manner;
use super::view::View;
use crate::nodes::cluster::Cluster;

/// A part that was compared, with the verdicts on each layout.
pub(super) struct Compared {
    pub range: Range,
    pub verdicts: Vec<Verdict>,
}

impl Compared {
    pub(super) fn is_equal(&self) -> bool {
        let of = |verdict: &Verdict| verdict.left() + verdict.unsettled;
        self.verdicts.iter().all(|verdict| of(verdict) == 0)
    }

    pub(super) fn repaired(&self) -> u64 {
        self.verdicts.iter().map(|verdict| verdict.repaired).sum()
    }

    /// Tokens of partitions that differ.
    pub(super) fn differing(&self) -> Vec<i64> {
        let tokens = self.verdicts.iter().flat_map(|verdict| &verdict.tokens);
        tokens.copied().collect()
    }

    /// True if all that is left was to be deleted, or was written to at every look.
    pub(super) fn is_left_for_now(&self) -> bool {
        let of = |verdict: &Verdict| verdict.left() <= verdict.undeleted;
        self.verdicts.iter().all(of)
    }
}

/// Compares these parts, some at a time, and repairs what differs. Rows that only a layout has are deleted in those parts
/// of which that is said. Returns how many rows the table has there. If some fail, the others are compared all the same.
///
/// Clients write a layout beside its table, so it may have what the table gets a little later: before anything is deleted,
/// the table is read again once it has all that was under way when the layout was read.
pub(super) async fn compare(
    cluster: &Cluster,
    view: &View,
    entries: &[Layout],
    parts: &[(Range, bool)],
    manner: Manner<'_>,
    mut each: impl FnMut(Compared),
) -> Result<u64> {
    let work = manner.work;
    view.check(cluster, entries).await?;
    let readers = Readers::new(cluster, &view.table, entries, work).await?;
    let comparison = Comparison::silent(&readers, work);
    let claim = claim(cluster, &view.table.name, entries);
    let (mut failed, mut at_once, mut later) = (None, Vec::new(), Vec::new());
    let looks = parts.iter().map(|(range, may_delete)| {
        let comparison = &comparison;
        async move {
            let found = comparison.compare(std::slice::from_ref(range)).await?;
            let may_delete = *may_delete && work.may_delete();
            Ok::<Looked, anyhow::Error>(Looked {
                range: *range,
                found,
                may_delete,
            })
        }
    });
    let mut looks = stream::iter(looks).buffer_unordered(work.parallel.into());
    while let Some(looked) = looks.next().await {
        match looked {
            Ok(looked) if looked.may_lose_rows() => later.push(looked),
            Ok(looked) => at_once.push(looked),
            Err(e) => failed = Some(e),
        }
    }
    drop(looks);
    for (looked, pause) in [(at_once, Duration::ZERO), (later, manner.settled_after)] {
        if looked.is_empty() {
            continue;
        }
        tokio::time::sleep(pause).await;
        let has_no_hints = pause.is_zero() || manner.has_no_hints();
        let judged = looked.into_iter().map(|looked| {
            let (readers, claim) = (&readers, &claim);
            async move {
                let repairing = Repairing {
                    claim,
                    may_delete: looked.may_delete && has_no_hints,
                };
                let Looked { range, found, .. } = looked;
                let verdicts =
                    judged(cluster, readers, entries, &found, work, Some(repairing)).await?;
                Ok::<Compared, anyhow::Error>(Compared { range, verdicts })
            }
        });
        let mut judged = stream::iter(judged).buffer_unordered(work.parallel.into());
        while let Some(compared) = judged.next().await {
            match compared {
                Ok(compared) => each(compared),
                Err(e) => failed = Some(e),
            }
        }
    }
    match failed {
        Some(e) => Err(e),
        None => Ok(comparison.finish().rows),
    }
}

/// A part that was compared and not yet repaired.
struct Looked {
    range: Range,
    /// For each layout.
    found: Vec<Differences>,
    may_delete: bool,
}

impl Looked {
    /// True if layouts have rows there that are to be deleted, as far as that can be told by now.
    fn may_lose_rows(&self) -> bool {
        let mut rows = self.found.iter().flat_map(|found| &found.rows);
        let has_too_much = |row: &Difference| {
            let copy = row.copy.as_ref();
            copy.is_some_and(|copy| !remove(copy, row.own.as_ref()).is_empty())
        };
        self.may_delete && rows.any(has_too_much)
    }
}
