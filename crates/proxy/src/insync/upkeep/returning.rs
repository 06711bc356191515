//! How a copy comes back, and how a bucket becomes equal in all copies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::lists::CopiesOf;
use helenus_engine::copies::BUCKETS;
use helenus_layout::insync::{
    Copies as List, Intents, Join, JoinStep, Members, State, is_caretaker,
};
use helenus_layout::plan::LogicalTable;
use helenus_rows::{Range, Selects, Table};

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
    /// All parts are equal, and looked at once more: something may have happened to those that were done.
    is_last_pass: bool,
    /// Rows that were repaired before this pass.
    repaired_before: u64,
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
            self.is_last_pass = false;
        }
    }

    /// All parts are done; whether they were all found equal. If not, they are looked at once more.
    fn on_pass(&mut self) -> bool {
        let is_equal = self.is_last_pass && self.counts.repaired == self.repaired_before;
        if !is_equal {
            (self.done, self.is_last_pass) = (0, true);
            self.repaired_before = self.counts.repaired;
        }
        is_equal
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
    let known_until_ms = known_until_ms(common, name, described.gc_grace_seconds).await?;
    let is_too_old = known_until_ms.is_none_or(|until| now_ms() >= until);
    // Also shows that the node knows the table by now: one that was killed may have to learn of it again.
    let is_empty = is_empty(&mut node, &described, &ranges(common, &table, name)?).await?;
    if is_too_old && !is_empty {
        return Err(too_old(&described));
    }
    // Without rows it brings nothing back that was deleted until now.
    let renewed = is_too_old.then_some(name.copy);
    let list = standing(common, name)?.1;
    let joining = list
        .join(name.copy, node.boot())
        .map_err(|_| Trouble::Changed)?;
    catalogue::change(common, name, (&list, &joining), renewed).await?;
    tracing::info!(
        "{} joins, and is compared with the others",
        described_as(name)
    );
    Ok(())
}

/// Until when the others remember what was deleted while a copy was not in sync, in milliseconds since 1970. None if
/// nobody knows since when that is so.
async fn known_until_ms(
    common: &Process,
    name: &CopyName,
    gc_grace_seconds: i32,
) -> Result<Option<i64>, Trouble> {
    let left_ms = catalogue::left_ms(common, name).await?;
    Ok(left_ms.map(|left_ms| remembered_until_ms(left_ms, gc_grace_seconds)))
}

/// A tenth of `gc_grace_seconds` earlier than by the clock of who has taken the copy out: clocks differ.
fn remembered_until_ms(left_ms: i64, gc_grace_seconds: i32) -> i64 {
    let grace_ms = i64::from(gc_grace_seconds.max(0)) * 900;
    left_ms.saturating_add(grace_ms)
}

fn too_old(table: &Table) -> Trouble {
    let of = &table.name;
    Trouble::Unfit(format!(
        "it has been out of sync for almost gc_grace_seconds of {of}, or nobody knows since when (the column left of \
         helenus.copies): what was deleted meanwhile would come back with its rows. It can join once it has no rows \
         in the ranges of this group: see 'A copy that is too old' in docs/layouts.md"
    ))
}

/// Whether the node has no rows of the table in these ranges, of which it is the only replica.
async fn is_empty(node: &mut Node, table: &Table, ranges: &[Range]) -> Result<bool, Trouble> {
    let select = Selects::new(table, &table.name.to_cql()).range;
    for range in ranges {
        let bounds = [range.after, range.end].map(|token| Some(token.to_be_bytes().to_vec()));
        let mut from = None;
        loop {
            let page = node.page((&select, &bounds), 1, from.as_deref()).await?;
            if !page.rows.is_empty() {
                return Ok(false);
            }
            match page.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
    }
    Ok(true)
}

/// The ranges of the group of a copy, by the ring as it is known.
fn ranges(common: &Process, table: &LogicalTable, name: &CopyName) -> Result<Vec<Range>, Trouble> {
    let mut groups = groups(&common.snapshot.load(), table)?;
    let ranges = groups.remove(&name.owners);
    ranges.ok_or_else(|| {
        Trouble::Unfit("no part of the ring has copies with these owners any more".to_owned())
    })
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
    // The lists may be newer than those by which it was to be compared.
    if join.next(&of.known, now_us()) != JoinStep::Compare {
        return Err(Trouble::Changed);
    }
    let source = list.in_sync().iter().next().ok_or(Trouble::Changed)?;
    let required = of.known.required(now_us()).ok_or(Trouble::Changed)?;
    let standing = Standing {
        newcomer: (name.copy, list.since(name.copy)),
        source: (source, list.since(source)),
    };
    let table = table(common, &name.table)?;
    let mut copies = Copies::connect(common, &table, &name.owners, required).await?;
    let copies_table = copies.table.clone();
    let places = [copies.place(source)?, copies.place(name.copy)?];
    for copy in &copies.copies {
        if list.listed().contains(copy.number) && copy.boot() != list.boot(copy.number) {
            return restarted(common, name, &list, copy.number)
                .await
                .map(|()| false);
        }
    }
    let now_parts = || ranges(common, &table, name).map(|ranges| parts(&ranges));
    let known_until_ms = known_until_ms(common, name, copies.table.gc_grace_seconds).await?;
    let is_too_old = || known_until_ms.is_none_or(|until| now_ms() >= until);
    if is_too_old() {
        // Out, it joins again once it has no rows.
        let evicted = list.evict(name.copy).map_err(|_| Trouble::Changed)?;
        catalogue::change(common, name, (&list, &evicted), None).await?;
        return Err(too_old(&copies.table));
    }
    progress.resume(standing, now_parts()?);
    let check = || match is_too_old() {
        true => Err(too_old(&copies_table)),
        false => check(common, name, (Some(standing), Right::Caretaker), required),
    };
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
             copy, or are written to all the time. The copy stays joining until they are deleted or written again"
        )));
    }
    if progress.parts != now_parts()? {
        return Err(Trouble::Changed);
    }
    if !progress.on_pass() {
        return Ok(false);
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
    catalogue::change(common, name, (&list, &promoted), None).await?;
    let counts = progress.counts;
    tracing::info!(
        rows_repaired = counts.repaired,
        "{} is equal to the others, and in sync",
        described_as(name)
    );
    Ok(true)
}

/// A joining copy that cannot be compared is out again: as long as it is listed, writes wait for it.
pub(super) async fn give_up(common: &Process, name: &CopyName) -> Result<(), Trouble> {
    let (_, list) = standing(common, name)?;
    if list.state(name.copy) != State::Joining {
        return Err(Trouble::Changed);
    }
    let evicted = list.evict(name.copy).map_err(|_| Trouble::Changed)?;
    catalogue::change(common, name, (&list, &evicted), None).await?;
    tracing::warn!(
        "{} cannot be compared, so it is out again, and joins later",
        described_as(name)
    );
    Ok(())
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
    catalogue::change(common, &of, (list, &evicted), None).await?;
    tracing::info!("{name}: its node was restarted, and it is to join anew");
    Ok(())
}

/// By what right rows are compared and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// This proxy sees to copies, and to what others have left.
    Caretaker,
    /// It is about what this proxy has written itself.
    Own,
}

/// Makes a bucket of the ring equal in all copies of a table.
pub(super) async fn resynchronise(
    common: &Process,
    name: &TableName,
    bucket: usize,
    right: Right,
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
        let check = || check(common, &copy, (None, right), required);
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

/// Whether a comparison still means what it meant when it began: this proxy may make it, both copies are what they were,
/// and all that is required is written to.
fn check(
    common: &Process,
    name: &CopyName,
    (standing, right): (Option<Standing>, Right),
    members: Members,
) -> Result<(), Trouble> {
    let (lists, now_us) = (common.lists.load(), now_us());
    let known = lists.me.zip(lists.proxies.as_ref());
    let may = known.is_some_and(|(me, known)| match right {
        Right::Caretaker => is_caretaker(known, me, now_us),
        Right::Own => {
            let list = known.list(now_us);
            list.is_some_and(|list| list.state(me) == State::InSync)
        }
    });
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
    match may && is_same && is_covered {
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
    fn deletions_are_relied_on_for_less_than_gc_grace_from_when_a_copy_left() {
        assert_eq!(remembered_until_ms(5_000, 100), 95_000);
        assert_eq!(remembered_until_ms(5_000, 0), 5_000);
        assert_eq!(remembered_until_ms(5_000, -1), 5_000);
        assert_eq!(remembered_until_ms(i64::MAX, 100), i64::MAX);
        assert!(remembered_until_ms(i64::MIN, i32::MAX) < 0);
    }

    #[test]
    fn a_copy_is_equal_after_a_pass_that_repairs_nothing() {
        let standing = Standing {
            newcomer: (2, 5),
            source: (0, 1),
        };
        let parts = vec![Range { after: 0, end: 9 }];
        let mut progress = Progress::default();
        progress.resume(standing, parts.clone());
        progress.done = 1;
        assert!(!progress.on_pass(), "a first pass proves nothing");
        assert_eq!(progress.done(), 0);
        progress.done = 1;
        progress.counts.repaired = 3;
        assert!(!progress.on_pass(), "something has happened to it");
        progress.done = 1;
        assert!(progress.on_pass());
        progress.resume(
            Standing {
                source: (1, 1),
                ..standing
            },
            parts,
        );
        progress.done = 1;
        assert!(!progress.on_pass(), "with another source");
    }

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
