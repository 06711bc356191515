//! A copy is taken out of all lists, and nothing more arrives at it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

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

/// What another command, which was interrupted, may have under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Earlier {
    Nothing,
    /// Requests, for so much longer than writes of clients.
    Requests(Duration),
}

/// Takes the copy out, and waits until all proxies know that it is not to join, and nobody reads it or sends it anything any
/// more; with [`Order::OutFirst`] also until what was sent has arrived. When it was taken out, in milliseconds since 1970.
///
/// A proxy may have sent a change by which it joins as long as it relied on the catalogue of before. That changes the
/// version of the list that it knew. So each list gets another one once no proxy relies on it, and such a change comes too
/// late however long it is under way.
pub(super) async fn out_for(
    cluster: &Cluster,
    (name, number): (&TableName, usize),
    (settle, earlier): (Settle, Earlier),
    order: Order,
) -> Result<i64> {
    let (mut at, mut since) = (now_ms(), Instant::now());
    let mut left = Left::new();
    if order == Order::OutFirst {
        left = take_out(cluster, name, number).await?;
        since = Instant::now();
    }
    let what = "no longer read";
    match earlier {
        Earlier::Nothing => settle.wait_for_leases(what).await,
        Earlier::Requests(more) => settle.wait_longer(more, what).await,
    }
    // A proxy that did not know may have let it join meanwhile.
    if take_out_anew(cluster, (name, number), &left).await? == Taken::Now {
        (at, since) = (now_ms(), Instant::now());
    }
    let arrived = match order {
        Order::OutFirst => settle.late(),
        Order::WaitFirst => Duration::ZERO,
    };
    let over = LISTS_LEASE_OVER + arrived;
    tokio::time::sleep(over.saturating_sub(since.elapsed())).await;
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

/// A list by its owners, as it is and as it is to be.
type Changed = (Vec<String>, Copies, Copies);

/// The lists without this copy, of those that have it. Fails if it is the last one in sync in one of them.
pub(super) fn evicted(name: &TableName, number: usize, rows: &[CopiesRow]) -> Result<Vec<Changed>> {
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

/// Since which version each list does not have a copy, by its owners.
type Left = BTreeMap<Vec<String>, u64>;

/// Since when no list has a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// Since it was taken out before.
    Before,
    Now,
}

/// Until no list has the copy.
async fn take_out(cluster: &Cluster, name: &TableName, number: usize) -> Result<Left> {
    for _ in 0..ATTEMPTS {
        let rows = lists_of(cluster, name).await?;
        check_kept(cluster, (name, number), &rows).await?;
        let changed = evicted(name, number, &rows)?;
        if changed.is_empty() {
            return Ok(left(number, &rows));
        }
        change(cluster, (name, number), &changed).await;
    }
    Err(changing(name))
}

/// Until each list has a version, from now on, by which the copy is out. `before`: since when it was.
async fn take_out_anew(
    cluster: &Cluster,
    (name, number): (&TableName, usize),
    before: &Left,
) -> Result<Taken> {
    let mut anew = Anew::default();
    for _ in 0..ATTEMPTS {
        check_kept(cluster, (name, number), &lists_of(cluster, name).await?).await?;
        // Read again: asking the nodes takes time, in which a proxy may change a list.
        let rows = lists_of(cluster, name).await?;
        let changed = anew.changes((name, number), &rows, before)?;
        if changed.is_empty() {
            return Ok(anew.taken());
        }
        change(cluster, (name, number), &changed).await;
    }
    Err(changing(name))
}

/// Lists that are to have another version by which a copy is out.
#[derive(Debug, Default)]
struct Anew {
    /// Of each its version when it was first read, and the one that this command tried last.
    versions: BTreeMap<Vec<String>, (u64, Option<u64>)>,
    was_listed: bool,
}

impl Anew {
    /// What is left to be changed of these lists. `before`: since when the copy was out of them earlier.
    fn changes(
        &mut self,
        (name, number): (&TableName, usize),
        rows: &[CopiesRow],
        before: &Left,
    ) -> Result<Vec<Changed>> {
        let mut changed = evicted(name, number, rows)?;
        for row in rows {
            let Ok(known) = &row.list else { continue };
            let (state, since) = (known.state(number), known.since(number));
            let of = self.versions.entry(row.owners.clone());
            let (first, own) = of.or_insert((known.version(), None));
            // At every look: a proxy may have let it join since the one before, and taken it out again.
            let is_known = *own == Some(since) || before.get(&row.owners) == Some(&since);
            self.was_listed |= state != CopyState::Out || !is_known;
            if since <= *first
                && let Ok(list) = known.leave_anew(number)
            {
                *own = Some(list.version());
                changed.push((row.owners.clone(), *known, list));
            }
        }
        Ok(changed)
    }

    fn taken(&self) -> Taken {
        match self.was_listed {
            true => Taken::Now,
            false => Taken::Before,
        }
    }
}

async fn lists_of(cluster: &Cluster, name: &TableName) -> Result<Vec<CopiesRow>> {
    let rows = lists::read_copies(cluster, name).await?;
    if rows.is_empty() {
        bail!(
            "another command has taken the lists of copies of {name} away: see `helenus layouts status {name}`"
        );
    }
    Ok(rows)
}

fn left(number: usize, rows: &[CopiesRow]) -> Left {
    let of = |row: &CopiesRow| {
        let list = row.list.as_ref().ok()?;
        Some((row.owners.clone(), list.since(number)))
    };
    rows.iter().filter_map(of).collect()
}

async fn change(cluster: &Cluster, (name, number): (&TableName, usize), changed: &[Changed]) {
    for some in changed.chunks(AT_A_TIME) {
        // Proxies may have changed one of them: then all are read again.
        let batch = eviction(name, number, some);
        let _ = cluster.is_applied(&batch).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
}

fn changing(name: &TableName) -> anyhow::Error {
    anyhow::anyhow!("the lists of copies of {name} change all the time: run this again")
}

fn eviction(name: &TableName, number: usize, lists: &[Changed]) -> String {
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

    #[test]
    fn each_list_gets_a_version_by_which_the_copy_is_out_from_now_on() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let both = Copies::new(Members::first(3), [7; LISTED_MAX]);
        let out = both.evict(1).expect("others are in sync");
        let before = left(1, &[row(out)]);
        let mut anew = Anew::default();
        let mut changes = |list: Copies| {
            let changed = anew.changes((&name, 1), &[row(list)], &before);
            changed.expect("it may leave")
        };
        let changed = changes(out);
        assert_eq!(changed.len(), 1);
        let (_, known, list) = changed[0];
        assert_eq!((known, list.version(), list.since(1)), (out, 3, 3));
        let text = eviction(&name, 1, &changed);
        assert!(
            !text.contains("left") && text.contains("IF version = 2; "),
            "{text}"
        );
        // Another change has come first.
        let other = out.evict(2).expect("another is in sync");
        assert_eq!(changes(other).len(), 1);
        let done = other.leave_anew(1).expect("it is out");
        assert!(changes(done).is_empty());
        assert_eq!(anew.taken(), Taken::Before);
    }

    #[test]
    fn a_copy_that_was_let_in_meanwhile_is_taken_out_from_now_on() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let both = Copies::new(Members::first(2), [7; LISTED_MAX]);
        let out = both.evict(1).expect("another is in sync");
        let joining = out.join(1, 7).expect("it is out");
        let again = joining.evict(1).expect("it may");
        let before = left(1, &[row(out)]);
        for (list, changes) in [(both, 1), (joining, 1), (again, 1)] {
            let mut anew = Anew::default();
            let changed = anew.changes((&name, 1), &[row(list)], &before);
            assert_eq!(changed.expect("it may leave").len(), changes);
            assert_eq!(anew.taken(), Taken::Now, "{list:?}");
        }
        // It joins between two looks, or joins and leaves.
        for meanwhile in [joining, again] {
            let mut anew = Anew::default();
            let first = anew.changes((&name, 1), &[row(out)], &before);
            assert_eq!(first.expect("it may leave").len(), 1);
            assert_eq!(anew.taken(), Taken::Before);
            let then = anew.changes((&name, 1), &[row(meanwhile)], &before);
            then.expect("it may leave");
            assert_eq!(anew.taken(), Taken::Now, "{meanwhile:?}");
        }
        // Who takes it out by a later version does the same.
        let mut anew = Anew::default();
        let first = anew.changes((&name, 1), &[row(both)], &before);
        assert_eq!(first.expect("it may leave").len(), 1);
        let then = anew.changes((&name, 1), &[row(out)], &before);
        assert!(then.expect("it may leave").is_empty());
    }
}
