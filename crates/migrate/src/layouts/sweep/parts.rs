//! Parts of the ring compared one by one, and repaired.

use anyhow::Result;
use futures::{StreamExt, stream};
use helenus_catalogue::Layout;
use helenus_rows::Range;

use super::super::compare::{Comparison, Readers};
use super::super::entry::claim;
use super::super::verdict::{Repairing, Verdict, judged};
use super::super::work::Work;
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
pub(super) async fn compare(
    cluster: &Cluster,
    (view, entries): (&View, &[Layout]),
    parts: &[(Range, bool)],
    work: &Work,
    mut each: impl FnMut(Compared),
) -> Result<u64> {
    view.check(cluster, entries).await?;
    let readers = Readers::new(cluster, &view.table, entries, work).await?;
    let comparison = Comparison::silent(&readers, work);
    let claim = claim(cluster, &view.table.name, entries);
    let compared = parts.iter().map(|(range, may_delete)| {
        let (readers, comparison, claim) = (&readers, &comparison, &claim);
        async move {
            let found = comparison.compare(std::slice::from_ref(range)).await?;
            let repairing = Repairing {
                claim,
                may_delete: *may_delete && work.may_delete(),
            };
            let of = (readers, entries);
            let verdicts = judged(cluster, of, &found, work, Some(repairing)).await?;
            let range = *range;
            Ok::<Compared, anyhow::Error>(Compared { range, verdicts })
        }
    });
    let mut compared = stream::iter(compared).buffer_unordered(work.parallel.into());
    let mut failed = None;
    while let Some(compared) = compared.next().await {
        match compared {
            Ok(compared) => each(compared),
            Err(e) => failed = Some(e),
        }
    }
    drop(compared);
    match failed {
        Some(e) => Err(e),
        None => Ok(comparison.finish().rows),
    }
}
