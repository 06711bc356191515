//! A copy is taken out of all lists, and nothing more arrives at it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Result, bail};
use helenus_layout::insync::{Copies, State as CopyState, Stored};
use helenus_rows::TableName;

use super::super::lists::{self, CopiesRow};
use super::nodes;
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::{now_ms, place};
use crate::online::settle::Settle;

/// When this has passed after a copy was taken out, no proxy reads it: the lease of the lists, and twice as long again.
pub(super) const LISTS_LEASE_OVER: Duration = Duration::from_secs(3);
/// Lists that are changed at the same time.
const AT_A_TIME: usize = 32;
/// Attempts to take a copy out of all lists, which proxies may change meanwhile.
const ATTEMPTS: usize = 32;

/// What comes first: that the copy is taken out, or the waiting until all proxies know that it is not to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    OutFirst,
    /// It is out for a moment only.
    WaitFirst,
}

/// Takes the copy out, and waits until all proxies know that it is not to join, and nobody reads it or sends it anything any
/// more; with [`Order::OutFirst`] also until what was sent has arrived. When it was taken out, in milliseconds since 1970.
pub(super) async fn out_for(
    cluster: &Cluster,
    (name, number): (&TableName, usize),
    (settle, more): (Settle, Duration),
    order: Order,
) -> Result<i64> {
    let mut at = now_ms();
    if order == Order::OutFirst {
        take_out(cluster, name, number).await?;
    }
    settle.wait_longer(more, "no longer read").await;
    // A proxy that did not know may have let it join meanwhile.
    if take_out(cluster, name, number).await? == Taken::Now {
        at = now_ms();
        let arrived = match order {
            Order::OutFirst => settle.late(),
            Order::WaitFirst => Duration::ZERO,
        };
        tokio::time::sleep(LISTS_LEASE_OVER + arrived).await;
    }
    Ok(at)
}

/// Fails unless these copies are in no list: somebody may go by what they have.
pub(super) fn check_out(name: &TableName, copies: Range<usize>, lists: &[CopiesRow]) -> Result<()> {
    let are_out = |list: &Copies| {
        let mut copies = copies.clone();
        copies.all(|copy| list.state(copy) == CopyState::Out)
    };
    let mut rows = lists.iter();
    match rows.find(|row| !row.list.as_ref().is_ok_and(are_out)) {
        None if !lists.is_empty() => Ok(()),
        None => bail!("{name} has no lists of its copies: see `helenus layouts status {name}`"),
        Some(row) => bail!(
            "copies of {name} are not emptied: one is in the list of those on {}, or that list cannot be as it is. See \
             `helenus layouts status {name}`",
            row.owners.join(", ")
        ),
    }
}

/// Fails unless each group of ranges keeps a copy in sync on a node that has not been restarted since.
pub(super) async fn check_kept(
    cluster: &Cluster,
    (name, number): (&TableName, usize),
    rows: &[CopiesRow],
) -> Result<()> {
    let boots = nodes::boots(cluster).await?;
    match rows.iter().find(|row| !keeps_one(row, number, &boots)) {
        None => Ok(()),
        Some(row) => bail!(
            "no other copy of {name} is in sync on {} with a node that has not been restarted since: wait until one is \
             (helenus layouts status {name}); proxies find a restart by a write to each of its ranges",
            row.owners.join(", ")
        ),
    }
}

fn keeps_one(row: &CopiesRow, but: usize, boots: &BTreeMap<String, i32>) -> bool {
    let Ok(list) = &row.list else { return false };
    let mut others = row
        .owners
        .iter()
        .enumerate()
        .filter(|(copy, _)| *copy != but);
    others.any(|(copy, owner)| {
        let boot = boots.get(owner).and_then(|boot| u32::try_from(*boot).ok());
        list.state(copy) == CopyState::InSync && boot == Some(list.boot(copy))
    })
}

/// The lists without this copy, of those that have it. Fails if it is the last one in sync in one of them.
pub(super) fn evicted(
    name: &TableName,
    number: usize,
    rows: &[CopiesRow],
) -> Result<Vec<(Vec<String>, Copies, Copies)>> {
    let mut changed = Vec::new();
    for row in rows {
        let known = row.list.as_ref();
        let known = *known.map_err(|why| {
            anyhow::anyhow!("a list of copies of {name} cannot be as it is: {why}")
        })?;
        if known.state(number) == CopyState::Out {
            continue;
        }
        let list = known.evict(number).map_err(|_| {
            anyhow::anyhow!(
                "copy {number} of {name} is the last one in sync on {}: wait until another one is back (helenus layouts \
                 status {name})",
                row.owners.join(", ")
            )
        })?;
        changed.push((row.owners.clone(), known, list));
    }
    Ok(changed)
}

/// Since when no list has a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Before,
    Now,
}

/// Until no list has the copy.
async fn take_out(cluster: &Cluster, name: &TableName, number: usize) -> Result<Taken> {
    let mut taken = Taken::Before;
    for _ in 0..ATTEMPTS {
        let rows = lists::read_copies(cluster, name).await?;
        if rows.is_empty() {
            bail!(
                "another command has taken the lists of copies of {name} away: see `helenus layouts status {name}`"
            );
        }
        check_kept(cluster, (name, number), &rows).await?;
        let changed = evicted(name, number, &rows)?;
        if changed.is_empty() {
            return Ok(taken);
        }
        taken = Taken::Now;
        for some in changed.chunks(AT_A_TIME) {
            // Proxies may have changed one of them: then all are read again.
            let batch = eviction(name, number, some);
            let _ = cluster.is_applied(&batch).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    bail!("the lists of copies of {name} change all the time: run this again")
}

fn eviction(name: &TableName, number: usize, lists: &[(Vec<String>, Copies, Copies)]) -> String {
    let now_ms = now_ms();
    let mut batch = "BEGIN BATCH ".to_owned();
    for (owners, known, list) in lists {
        // Only who was in sync leaves: one that was joining has left before.
        let left = match known.state(number) {
            CopyState::InSync => format!(", left[{number}] = {now_ms}"),
            CopyState::Joining | CopyState::Out => String::new(),
        };
        batch.push_str(&format!(
            "UPDATE helenus.copies SET {}, changed = {now_ms}{left} WHERE {} AND owners = [{}] IF version = {}; ",
            Stored::of(list, owners.len()).assignments(),
            place(name),
            owners.join(", "),
            known.version()
        ));
    }
    batch.push_str("APPLY BATCH");
    batch
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{LISTED_MAX, Members};

    use super::*;

    const OWNERS: [&str; 2] = [
        "11111111-1111-1111-1111-111111111111",
        "22222222-2222-2222-2222-222222222222",
    ];

    fn row(list: Copies) -> CopiesRow {
        CopiesRow {
            table: "shop.orders".to_owned(),
            owners: OWNERS.map(str::to_owned).to_vec(),
            ranges: None,
            list: Ok(list),
            changed_ms: None,
        }
    }

    #[test]
    fn a_copy_whose_node_was_restarted_is_not_the_one_that_stays() {
        let both = row(Copies::new(Members::first(2), [7; LISTED_MAX]));
        let boots = |boot| OWNERS.map(|owner| (owner.to_owned(), boot)).into();
        assert!(keeps_one(&both, 1, &boots(7)));
        assert!(!keeps_one(&both, 1, &boots(8)));
        let alone = row(Copies::new(Members::first(2), [7; LISTED_MAX])
            .evict(0)
            .expect("two"));
        assert!(!keeps_one(&alone, 1, &boots(7)));
        assert!(keeps_one(&alone, 0, &boots(7)));
    }

    #[test]
    fn the_last_copy_in_sync_stays() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let both = Copies::new(Members::first(2), [7; LISTED_MAX]);
        let alone = both.evict(0).expect("another is in sync");
        let changed = evicted(&name, 1, &[row(both)]).expect("another is in sync");
        assert_eq!(changed.len(), 1);
        let text = eviction(&name, 1, &changed);
        assert!(
            text.contains(
                "SET version = 2, in_sync = {0}, joining = {}, since = [1, 2], boot = [7, 7]"
            ),
            "{text}"
        );
        assert!(
            text.contains("left[1] = ") && text.contains("IF version = 1; "),
            "{text}"
        );
        let refused = evicted(&name, 1, &[row(both), row(alone)]).expect_err("it is the last one");
        assert!(
            refused.to_string().contains("the last one in sync"),
            "{refused}"
        );
        assert!(
            evicted(&name, 0, &[row(alone)])
                .expect("it is out")
                .is_empty()
        );
    }
}
