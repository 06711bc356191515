//! For how long what is to come in sync may have missed deletions that others forget after `gc_grace_seconds`, as proxies
//! judge it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use helenus_layout::insync::State;
use helenus_rows::{Table, TableName};
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::{CqlTimestamp, CqlValue};

use super::super::catalogue::Entry;
use super::super::lists::{CopiesRow, uuid_text};
use super::has_rows;
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::{now_ms, place};
use crate::online::table;

/// One that has been emptied joins meanwhile, for all its age.
const JOINS_MAX: Duration = Duration::from_secs(300);

/// When members left those in sync, in milliseconds since 1970, by the owners of the list.
pub(super) type Left = BTreeMap<Vec<String>, BTreeMap<usize, i64>>;

/// Whether the others may have forgotten what was deleted since then. If nobody knows since when, they may.
pub(super) fn is_too_old(since_ms: Option<i64>, table: &Table) -> bool {
    is_over(since_ms, table.gc_grace_seconds, now_ms())
}

fn is_over(since_ms: Option<i64>, grace_s: i32, now_ms: i64) -> bool {
    let grace_ms = i64::from(grace_s.max(0)) * 900;
    since_ms.is_none_or(|since| now_ms >= since.saturating_add(grace_ms))
}

/// The table with the time for which it and all its copies remember what was deleted.
pub(super) async fn with_least_grace(
    cluster: &Cluster,
    table: &Table,
    entries: &[Entry],
) -> Result<Table> {
    let mut least = table.clone();
    for entry in entries {
        let copy = table::load(cluster, &entry.table(&table.name)).await?;
        least.gc_grace_seconds = least.gc_grace_seconds.min(copy.gc_grace_seconds);
    }
    Ok(least)
}

/// Copies that are out for so long that they do not join any more.
#[derive(Default)]
pub(super) struct TooOld {
    since: Option<Instant>,
}

impl TooOld {
    /// Fails if there are some, and have been for a while.
    pub(super) async fn check(
        &mut self,
        cluster: &Cluster,
        (table, entries): (&Table, &[Entry]),
        rows: &[CopiesRow],
    ) -> Result<()> {
        let name = &table.name;
        let is_out = |row: &CopiesRow| {
            let list = row.list.as_ref();
            list.is_ok_and(|list| (0..entries.len()).any(|copy| list.state(copy) == State::Out))
        };
        if !rows.iter().any(is_out) {
            self.since = None;
            return Ok(());
        }
        let left = left(cluster, name).await?;
        let old = too_old(rows, &left, entries.len(), table.gc_grace_seconds, now_ms());
        if old.is_empty() {
            self.since = None;
        } else if self.since.get_or_insert_with(Instant::now).elapsed() > JOINS_MAX {
            for entry in old.iter().filter_map(|copy| entries.get(*copy)) {
                let copy = entry.table(name);
                // One without rows joins once its node answers. Proxies look at the ranges of its group only: one that has
                // rows in others, and not there, has had time to join, or its node is away, as the message says.
                if has_rows(cluster, &copy).await.unwrap_or(false) {
                    bail!(
                        "{copy} is out of sync for almost gc_grace_seconds ({} s, of {name} or of one of its copies), and does \
                         not join any more, because rows that were deleted meanwhile would come back with it. Clients use \
                         {name} as before. If its node was away, run this again; otherwise give it up (helenus layouts drop \
                         {name} --all), set gc_grace_seconds of {name} to more than filling and comparing take, and create the \
                         layouts again",
                        table.gc_grace_seconds
                    );
                }
            }
        }
        Ok(())
    }
}

/// When members left those in sync, by all lists. What a change did whose answer was lost is told, too.
pub(super) async fn left(cluster: &Cluster, name: &TableName) -> Result<Left> {
    let mut select = Statement::new(format!(
        "SELECT owners, left FROM helenus.copies WHERE {}",
        place(name)
    ));
    select.set_consistency(Consistency::Serial);
    let rows: Vec<(Option<CqlValue>, Option<CqlValue>)> = cluster.rows(select).await?;
    let of = |(owners, left): (Option<CqlValue>, Option<CqlValue>)| {
        let owners = owners?.as_list()?.iter().map(uuid_text).collect();
        let left = left.as_ref().and_then(CqlValue::as_map).into_iter();
        let one = |(member, at): &(CqlValue, CqlValue)| {
            let CqlTimestamp(at) = at.as_cql_timestamp()?;
            Some((usize::try_from(member.as_int()?).ok()?, at))
        };
        Some((owners, left.flatten().filter_map(one).collect()))
    };
    Ok(rows.into_iter().filter_map(of).collect())
}

/// Since when a member is out that is out of all lists, by the one that has it out for longest; none if one does not tell.
pub(super) fn longest(left: &Left, member: usize) -> Option<i64> {
    let of = left.values().map(|left| left.get(&member).copied());
    of.min().flatten()
}

fn too_old(
    rows: &[CopiesRow],
    left: &Left,
    copies: usize,
    grace_s: i32,
    now_ms: i64,
) -> Vec<usize> {
    let is_it = |copy: &usize| {
        rows.iter().any(|row| {
            let is_out = |list: &helenus_layout::insync::Copies| list.state(*copy) == State::Out;
            let since = left.get(&row.owners).and_then(|left| left.get(copy));
            row.list.as_ref().is_ok_and(is_out) && is_over(since.copied(), grace_s, now_ms)
        })
    };
    (0..copies).filter(is_it).collect()
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{Copies, LISTED_MAX, Members, TABLE};

    use super::*;

    #[test]
    fn a_copy_is_as_old_as_the_list_says_that_has_it_out_for_longest() {
        let of = |lists: &[&[(usize, i64)]]| -> Left {
            let lists = lists.iter().enumerate();
            let of = |left: &[(usize, i64)]| left.iter().copied().collect();
            lists
                .map(|(owner, left)| (vec![owner.to_string()], of(left)))
                .collect()
        };
        let lists = of(&[&[(0, 5), (1, 30)], &[(2, 3), (1, 20)]]);
        assert_eq!(longest(&lists, 1), Some(20));
        assert_eq!(longest(&lists, 0), None, "one does not tell");
        assert_eq!(longest(&of(&[&[(1, 30)], &[]]), 1), None);
        assert_eq!(longest(&of(&[]), 1), None);
    }

    #[test]
    fn who_is_out_for_too_long_by_the_least_grace_is_too_old() {
        let row = |owner: &str, list| CopiesRow {
            table: "shop.orders".to_owned(),
            owners: vec![owner.to_owned()],
            ranges: None,
            list: Ok(list),
            changed_ms: None,
        };
        let alone = Copies::new(Members::of(TABLE), [0; LISTED_MAX]);
        let joining = alone.join(0, 1).expect("it is out");
        let rows = [row("a", joining), row("b", alone)];
        let of = |a: &[(usize, i64)], b: &[(usize, i64)], now_ms| {
            let of = |left: &[(usize, i64)]| left.iter().copied().collect();
            let left = Left::from([(vec!["a".to_owned()], of(a)), (vec!["b".to_owned()], of(b))]);
            too_old(&rows, &left, 2, 3_600, now_ms)
        };
        let since = [(0, 1_000), (1, 2_000)];
        let over = 3_600 * 900;
        assert_eq!(of(&since, &since, over), [0; 0]);
        assert_eq!(of(&since, &since, over + 1_000), [0]);
        assert_eq!(of(&since, &since, over + 2_000), [0, 1]);
        let later = [(0, 9_000), (1, 9_000)];
        assert_eq!(of(&since, &later, over + 1_000), [0; 0], "it joins");
        assert_eq!(of(&since, &[], 0), [0, 1], "nobody knows");
    }
}
