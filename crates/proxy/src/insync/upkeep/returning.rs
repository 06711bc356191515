//! How a copy comes back, and how a bucket becomes equal in all copies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::lists::CopiesOf;
use helenus_engine::copies::BUCKETS;
use helenus_layout::insync::{
    Copies as List, Intents, Join, JoinStep, Members, State, is_caretaker,
};
use helenus_layout::plan::LogicalTable;
use helenus_rows::Range;

use super::catalogue;
use super::comparing::{Comparing, Counts};
use super::copies::{Copies, describe, unfit};
use super::group::{groups, parts, within};
use super::node::Node;
use super::trouble::Trouble;
use crate::boot_time::now_us;
use crate::insync::asked::{CopyName, TableName};
use crate::process::Process;
use crate::wall_clock::now_ms;

/// A comparison goes on for so long before other things have their turn.
const STINT: Duration = Duration::from_secs(2);

/// How far the comparison of a copy has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What it is about, if that is known; with something else it begins again.
    of: Option<Standing>,
    parts: Vec<Range>,
    done: usize,
    pub counts: Counts,
    /// Rows of the parts that are done, which could not be made equal.
    given_up: u64,
}

/// What must not change while a copy is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    newcomer: (usize, u64),
    source: (usize, u64),
}

impl Progress {
    pub(super) fn done(&self) -> usize {
        self.done
    }

    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Goes on, if it is about the same.
    fn resume(&mut self, of: Standing, parts: Vec<Range>) {
        if self.of != Some(of) || self.parts != parts {
            (self.of, self.parts) = (Some(of), parts);
            (self.done, self.given_up) = (0, 0);
        }
    }
}

/// Sets a copy that is out to joining, if its node answers.
pub(super) async fn join(common: &Process, name: &CopyName) -> Result<(), Trouble> {
    let table = table(common, &name.table)?;
    let owner = name
        .owners
        .get(name.copy)
        .copied()
        .ok_or(Trouble::Changed)?;
    if table.copies.len() != name.owners.len() {
        return Err(unfit(&table));
    }
    let mut node = Node::connect(common, owner).await?;
    let described = describe(common, &mut node, &table, name.copy).await?;
    // What was deleted meanwhile is remembered by the others for this time only.
    let grace_ms = i64::from(described.gc_grace_seconds) * 1_000;
    let changed_ms = catalogue::changed_ms(common, name).await?;
    let is_out_of_date = changed_ms.is_some_and(|changed| now_ms() - changed >= grace_ms);
    let of = &described.name;
    if is_out_of_date && !is_empty(&mut node, &of.to_cql()).await? {
        return Err(Trouble::Unfit(format!(
            "it has been out for longer than gc_grace_seconds of {of}, so that what was deleted meanwhile would come \
             back with it. TRUNCATE {of}, and it is filled from the other copies"
        )));
    }
    let list = standing(common, name)?.1;
    let joining = list
        .join(name.copy, node.boot())
        .map_err(|_| Trouble::Changed)?;
    catalogue::change(common, name, &list, &joining, now_ms()).await?;
    tracing::info!(
        "{} joins, and is compared with the others",
        described_as(name)
    );
    Ok(())
}

async fn is_empty(node: &mut Node, table: &str) -> Result<bool, Trouble> {
    let found = node.rows(&format!("SELECT * FROM {table} LIMIT 1")).await?;
    Ok(found.rows.is_empty())
}

/// Goes on with the comparison of a copy that is joining; whether it is in sync now.
pub(super) async fn compare(
    common: &Process,
    name: &CopyName,
    progress: &mut Progress,
) -> Result<bool, Trouble> {
    let (of, list) = standing(common, name)?;
    let joins = of.joins.iter().find(|join| join.member() == name.copy);
    let mut join: Join = *joins.ok_or(Trouble::Changed)?;
    let source = list.in_sync().iter().next().ok_or(Trouble::Changed)?;
    let required = of.known.required(now_us()).ok_or(Trouble::Changed)?;
    let standing = Standing {
        newcomer: (name.copy, list.since(name.copy)),
        source: (source, list.since(source)),
    };
    let table = table(common, &name.table)?;
    let mut copies = Copies::connect(common, &table, &name.owners, required).await?;
    let places = [copies.place(source)?, copies.place(name.copy)?];
    for copy in &copies.copies {
        if list.listed().contains(copy.number) && copy.boot() != list.boot(copy.number) {
            return restarted(common, name, &list, copy.number)
                .await
                .map(|()| false);
        }
    }
    let ranges = || -> Result<Vec<Range>, Trouble> {
        let mut groups = groups(&common.snapshot.load(), &table)?;
        let ranges = groups.remove(&name.owners);
        let ranges = ranges.ok_or_else(|| {
            Trouble::Unfit("no part of the ring has copies with these owners any more".to_owned())
        })?;
        Ok(parts(&ranges))
    };
    progress.resume(standing, ranges()?);
    let check = || check(common, name, Some(standing), required);
    let begun = Instant::now();
    while let Some(range) = progress.parts.get(progress.done).copied() {
        if begun.elapsed() >= STINT {
            return Ok(false);
        }
        check()?;
        let before = progress.counts.given_up;
        let mut comparing = Comparing {
            copies: &mut copies,
            places,
            check: &check,
            counts: &mut progress.counts,
        };
        comparing.range(range).await?;
        progress.given_up += progress.counts.given_up - before;
        progress.done += 1;
    }
    if progress.given_up > 0 {
        let rows = progress.given_up;
        progress.of = None;
        return Err(Trouble::Unfit(format!(
            "{rows} rows could not be made equal: they have no values besides their keys and were deleted in another \
             copy, or are written to all the time. TRUNCATE the copy's table to have it filled anew"
        )));
    }
    if progress.parts != ranges()? {
        return Err(Trouble::Changed);
    }
    // The connection has lasted: this start of the node has answered all the time.
    let boot = copies.copies.get(places[1]).map(|copy| copy.boot());
    join.on_compared(boot.ok_or(Trouble::Changed)?);
    check()?;
    let (of, list) = self::standing(common, name)?;
    if join.next(&of.known, now_us()) != JoinStep::Promote {
        return Err(Trouble::Changed);
    }
    let promoted = list.promote(name.copy, join.since());
    let promoted = promoted.map_err(|_| Trouble::Changed)?;
    catalogue::change(common, name, &list, &promoted, now_ms()).await?;
    let counts = progress.counts;
    tracing::info!(
        rows_repaired = counts.repaired,
        "{} is equal to the others, and in sync",
        described_as(name)
    );
    Ok(true)
}

/// A copy has lost what its node had not written to its disk: it is evicted, and joins anew.
async fn restarted(
    common: &Process,
    name: &CopyName,
    list: &List,
    copy: usize,
) -> Result<(), Trouble> {
    let of = CopyName {
        copy,
        ..name.clone()
    };
    let name = described_as(&of);
    let evicted = list.evict(copy).map_err(|_| {
        Trouble::Unfit(format!(
            "{name} is the last one in sync, and its node was restarted: it may have lost writes that were \
             acknowledged"
        ))
    })?;
    catalogue::change(common, &of, list, &evicted, now_ms()).await?;
    tracing::info!("{name}: its node was restarted, and it is to join anew");
    Ok(())
}

/// Makes a bucket of the ring equal in all copies of a table.
pub(super) async fn resynchronise(
    common: &Process,
    name: &TableName,
    bucket: usize,
) -> Result<Counts, Trouble> {
    let mut counts = Counts::default();
    let table = table(common, name)?;
    let (after, end) = Intents::tokens_of(bucket, BUCKETS);
    for (owners, ranges) in groups(&common.snapshot.load_full(), &table)? {
        let ranges = within(&ranges, Range { after, end });
        if ranges.is_empty() {
            continue;
        }
        // Any of its copies: it is about the group.
        let copy = CopyName {
            table: name.clone(),
            owners,
            copy: 0,
        };
        let (of, list) = standing(common, &copy)?;
        let required = of.known.required(now_us()).ok_or(Trouble::Changed)?;
        let source = list.in_sync().iter().next().ok_or(Trouble::Changed)?;
        let mut copies = Copies::connect(common, &table, &copy.owners, required).await?;
        for of in &copies.copies {
            if list.listed().contains(of.number) && of.boot() != list.boot(of.number) {
                restarted(common, &copy, &list, of.number).await?;
                return Err(Trouble::Changed);
            }
        }
        let check = || check(common, &copy, None, required);
        for other in required.iter().filter(|other| *other != source) {
            let places = [copies.place(source)?, copies.place(other)?];
            for range in &ranges {
                let mut comparing = Comparing {
                    copies: &mut copies,
                    places,
                    check: &check,
                    counts: &mut counts,
                };
                comparing.range(*range).await?;
            }
        }
    }
    match counts.given_up {
        0 => Ok(counts),
        rows => Err(Trouble::Unfit(format!(
            "{rows} rows could not be made equal in all copies of {}.{}",
            name.0, name.1
        ))),
    }
}

/// The table with its copies.
fn table(common: &Process, (keyspace, name): &TableName) -> Result<Arc<LogicalTable>, Trouble> {
    let snapshot = common.snapshot.load();
    let table = snapshot.layouts.replaced(keyspace, name).cloned();
    table.ok_or_else(|| {
        Trouble::Unfit(format!(
            "the catalogue does not say which copies {keyspace}.{name} has"
        ))
    })
}

/// What this proxy knows of the group of a copy, and its list.
fn standing(common: &Process, name: &CopyName) -> Result<(CopiesOf, List), Trouble> {
    let lists = common.lists.load();
    let of = lists.copies.iter().find(|of| {
        (&of.keyspace, &of.table) == (&name.table.0, &name.table.1) && of.owners == name.owners
    });
    let of = of.ok_or_else(|| {
        let (keyspace, table) = &name.table;
        Trouble::Unfit(format!(
            "helenus.copies has no row of {keyspace}.{table} for the nodes that own a part of the ring"
        ))
    })?;
    let list = of.known.list(now_us()).ok_or(Trouble::Changed)?;
    Ok((of.clone(), *list))
}

/// Whether a comparison still means what it meant when it began: this proxy sees to copies, both are what they were, and
/// all that is required is written to.
fn check(
    common: &Process,
    name: &CopyName,
    standing: Option<Standing>,
    members: Members,
) -> Result<(), Trouble> {
    let (lists, now_us) = (common.lists.load(), now_us());
    let known = lists.me.zip(lists.proxies.as_ref());
    let is_caretaker = known.is_some_and(|(me, known)| is_caretaker(known, me, now_us));
    let (of, list) = self::standing(common, name)?;
    let required = of.known.required(now_us).ok_or(Trouble::Changed)?;
    let is_same = standing.is_none_or(|standing| {
        let (newcomer, source) = (standing.newcomer, standing.source);
        let is = |(copy, since): (usize, u64), state: State| {
            list.state(copy) == state && list.since(copy) == since
        };
        is(newcomer, State::Joining) && is(source, State::InSync)
    });
    let is_covered = required.minus(members).is_empty();
    match is_caretaker && is_same && is_covered {
        true => Ok(()),
        false => Err(Trouble::Changed),
    }
}

fn described_as(name: &CopyName) -> String {
    format!("copy {} of {}.{}", name.copy, name.table.0, name.table.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_goes_on_only_if_it_is_about_the_same() {
        let standing = |since: u64| Standing {
            newcomer: (2, since),
            source: (0, 1),
        };
        let range = |after: i64| Range {
            after,
            end: after + 10,
        };
        let parts = vec![range(0), range(10)];
        let mut progress = Progress::default();
        progress.resume(standing(5), parts.clone());
        assert_eq!((progress.done(), progress.parts()), (0, 2));
        progress.done = 1;
        progress.given_up = 3;
        progress.resume(standing(5), parts.clone());
        assert_eq!((progress.done(), progress.given_up), (1, 3));
        progress.resume(standing(7), parts.clone());
        assert_eq!((progress.done(), progress.given_up), (0, 0));
        progress.done = 2;
        progress.resume(standing(7), vec![range(0)]);
        assert_eq!((progress.done(), progress.parts()), (0, 1));
    }
}
