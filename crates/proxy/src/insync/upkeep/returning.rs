//! How a copy comes back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::lists::{CopiesOf, Lists};
use helenus_engine::snapshot::HostId;
use helenus_layout::insync::{Copies as List, Join, JoinStep, Members, State, TABLE, is_caretaker};
use helenus_layout::plan::LogicalTable;
use helenus_rows::{Range, Selects, Table};

use super::catalogue;
use super::comparing::Comparing;
use super::copies::{Copies, describe, unfit};
use super::group::{groups, parts, whole};
use super::node::Node;
use super::progress::{Pass, Past, Progress, Standing};
use super::trouble::Trouble;
use crate::boot_time::now_us;
use crate::insync::asked::{CopyName, TableName};
use crate::process::Process;
use crate::wall_clock::now_ms;

/// A comparison goes on for so long before other things have their turn.
const STINT: Duration = Duration::from_secs(2);

/// Once values that are about to expire are gone, by clocks that differ.
pub(super) const EXPIRED_US: u64 = 15_000_000;
/// Rows that could not be made equal are looked at again after so long.
pub(super) const GIVEN_UP_US: u64 = 300_000_000;

/// How a turn of a comparison ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stint {
    InSync,
    /// It goes on when others have had their turn.
    Goes,
    /// It goes on after so many microseconds; why, if that is a problem.
    Later(u64, Option<String>),
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
    check_may_join(common, name)?;
    let mut node = Node::connect(common, owner).await?;
    let described = describe(common, &mut node, &table, name.copy).await?;
    let list = standing(common, name)?.1;
    let left_ms = catalogue::left_ms(common, name, list.since(name.copy)).await?;
    let known_until_ms = remembered_until_ms(left_ms, described.gc_grace_seconds);
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
    let mut reader = catalogue::connect(common).await?;
    // Slow nodes may have taken longer than that.
    check_may_join(common, name)?;
    catalogue::change_by(&mut reader, name, (&list, &joining), renewed).await?;
    tracing::info!(
        "{} joins, and is compared with the others",
        name.described()
    );
    Ok(())
}

/// Whoever sets it to `writing`, to empty it or to take it out, waits for as long as a reading of the catalogue counts.
fn check_may_join(common: &Process, name: &CopyName) -> Result<(), Trouble> {
    if may_join(common, name) && common.layouts.is_held(Instant::now()) {
        return Ok(());
    }
    Err(Trouble::Unfit(
        "the catalogue does not say that it is ready, or could not be read: see `helenus layouts status`".to_owned(),
    ))
}

/// Whether the catalogue says that the copy is ready, as far as it is known.
pub(super) fn may_join(common: &Process, name: &CopyName) -> bool {
    let table = table(common, &name.table).ok();
    let copy = table.as_ref().and_then(|table| table.copies.get(name.copy));
    copy.is_some_and(|copy| copy.readable)
}

/// Until when the others remember what was deleted while a copy was not in sync, in milliseconds since 1970: a tenth of
/// `gc_grace_seconds` earlier than by the clock of who has taken it out, because clocks differ. None if nobody knows since
/// when that is so.
fn remembered_until_ms(left_ms: Option<i64>, gc_grace_seconds: i32) -> Option<i64> {
    let grace_ms = i64::from(gc_grace_seconds.max(0)) * 900;
    left_ms.map(|left_ms| left_ms.saturating_add(grace_ms))
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

/// The ranges of the group of a copy, by the ring as it is known and by its list.
fn ranges(common: &Process, table: &LogicalTable, name: &CopyName) -> Result<Vec<Range>, Trouble> {
    let mut groups = groups(&common.snapshot.load(), table)?;
    let ranges = groups.remove(&name.owners);
    let ranges = ranges.ok_or_else(|| no_list(&name.table))?;
    is_about(&standing(common, name)?.0, &ranges)?;
    Ok(ranges)
}

/// Fails if a list is about other ranges than its owners have by now. What is compared there says nothing of it.
pub(super) fn is_about(of: &CopiesOf, ranges: &[Range]) -> Result<(), Trouble> {
    match of.ranges.as_ref() == Some(&whole(ranges)) {
        true => Ok(()),
        false => Err(no_list(&(of.keyspace.clone(), of.table.clone()))),
    }
}

fn no_list((keyspace, table): &TableName) -> Trouble {
    Trouble::NoList(keyspace.clone(), table.clone())
}

/// Goes on with the comparison of a copy that is joining.
pub(super) async fn compare(
    common: &Process,
    name: &CopyName,
    (progress, page_rows_max): (&mut Progress, i32),
) -> Result<Stint, Trouble> {
    let (of, list) = standing(common, name)?;
    let joins = of.joins.iter().find(|join| join.member() == name.copy);
    let mut join: Join = *joins.ok_or(Trouble::Changed)?;
    // The lists may be newer than those by which it was to be compared.
    if join.next(&of.known, now_us()) != JoinStep::Compare {
        return Err(Trouble::Changed);
    }
    let required = of.known.required(now_us()).ok_or(Trouble::Changed)?;
    let standing = compared_with(progress, &list, name.copy).ok_or(Trouble::Changed)?;
    let table = table(common, &name.table)?;
    let mut copies = Copies::connect(common, &table, &name.owners, required, page_rows_max).await?;
    if copies.find_restarted(common, name, &list).await? {
        return Ok(Stint::Goes);
    }
    let copies_table = copies.table.clone();
    let source = standing.source.0;
    let places = [copies.place(source)?, copies.place(name.copy)?];
    let now_parts = || ranges(common, &table, name).map(|ranges| parts(&ranges));
    // What it does while it is not in sync does not change it.
    let left_ms = match progress.left_ms(standing) {
        Some(left_ms) => left_ms,
        None => catalogue::left_ms(common, name, standing.newcomer.1).await?,
    };
    let known_until_ms = remembered_until_ms(left_ms, copies.table.gc_grace_seconds);
    let is_too_old = || known_until_ms.is_none_or(|until| now_ms() >= until);
    if is_too_old() {
        // Out, it joins again once it has no rows.
        evict(common, name, &list).await?;
        return Err(too_old(&copies.table));
    }
    let past = match of.known.is_past(name.copy, now_us()) {
        true => Past::Over,
        false => Past::Late,
    };
    progress.resume(standing, now_parts()?, past);
    progress.note_left(left_ms);
    let check = || match is_too_old() {
        true => Err(too_old(&copies_table)),
        false => check(common, name, (Some(standing), Right::Caretaker), required),
    };
    let begun = Instant::now();
    while let Some(range) = progress.next() {
        if begun.elapsed() >= STINT {
            return Ok(Stint::Goes);
        }
        check()?;
        let before = progress.counts;
        let mut comparing = Comparing {
            common,
            copies: &mut copies,
            places,
            check: &check,
            counts: &mut progress.counts,
            is_marked: false,
        };
        let end = comparing.step(range).await?;
        progress.on_step(end, before);
    }
    if !progress.is_of(&now_parts()?) {
        return Err(Trouble::Changed);
    }
    match progress.on_pass() {
        Pass::Equal => {}
        Pass::Again => return Ok(Stint::Goes),
        Pass::Expiring => return Ok(Stint::Later(EXPIRED_US, None)),
        Pass::GivenUp(rows) => return Ok(Stint::Later(GIVEN_UP_US, Some(given_up(rows)))),
    }
    copies.look_at_tables(common, &table).await?;
    // The connection has lasted: this start of the node has answered all the time.
    let boot = copies.copies.get(places[1]).map(|copy| copy.boot());
    join.on_compared(boot.ok_or(Trouble::Changed)?);
    check()?;
    promote(common, name, &join).await?;
    let counts = progress.counts;
    tracing::info!(
        rows_repaired = counts.repaired,
        "{} is equal to the others, and in sync",
        name.described()
    );
    Ok(Stint::InSync)
}

/// What a newcomer is compared with: what it was compared with before as long as that is in sync, or else the first one
/// that is.
fn compared_with(progress: &Progress, list: &List, newcomer: usize) -> Option<Standing> {
    let newcomer = (newcomer, list.since(newcomer));
    let before = progress.of().filter(|of| {
        let (source, since) = of.source;
        let is_same = list.state(source) == State::InSync && list.since(source) == since;
        of.newcomer == newcomer && is_same
    });
    before.or_else(|| {
        let source = list.in_sync().iter().next()?;
        let source = (source, list.since(source));
        Some(Standing { newcomer, source })
    })
}

fn given_up(rows: u64) -> String {
    format!(
        "{rows} rows could not be made equal: they have no values besides their keys and were written or deleted less \
         than a minute ago, or with a timestamp in the future, or are written to all the time. The copy stays joining \
         until that is over"
    )
}

async fn promote(common: &Process, name: &CopyName, join: &Join) -> Result<(), Trouble> {
    let (of, list) = standing(common, name)?;
    if join.next(&of.known, now_us()) != JoinStep::Promote {
        return Err(Trouble::Changed);
    }
    let promoted = list.promote(name.copy, join.since());
    let promoted = promoted.map_err(|_| Trouble::Changed)?;
    catalogue::change(common, name, (&list, &promoted), None).await
}

async fn evict(common: &Process, name: &CopyName, list: &List) -> Result<(), Trouble> {
    let evicted = list.evict(name.copy).map_err(|_| Trouble::Changed)?;
    catalogue::change(common, name, (list, &evicted), None).await
}

/// A copy that is joining cannot be compared. If that is because a node cannot be connected to, the copy there is out: all
/// that are listed are waited for. If it has the last one in sync, or it is something else, the newcomer is out again.
pub(super) async fn give_up(
    common: &Process,
    name: &CopyName,
    node: Option<HostId>,
) -> Result<(), Trouble> {
    let (_, list) = standing(common, name)?;
    if list.state(name.copy) != State::Joining {
        return Err(Trouble::Changed);
    }
    let copy = failing((&list, name), node).ok_or(Trouble::Changed)?;
    let of = CopyName {
        copy,
        ..name.clone()
    };
    evict(common, &of, &list).await?;
    tracing::warn!(
        "{} cannot be compared, or its node not be connected to, so it is out, and joins later",
        of.described()
    );
    Ok(())
}

/// The copy that is left out: the listed one on this node, if it may be. None if it is out already.
fn failing((list, name): (&List, &CopyName), node: Option<HostId>) -> Option<usize> {
    let Some(node) = node else {
        return Some(name.copy);
    };
    let mut listed = list.listed().iter();
    let copy = listed.find(|copy| name.owners.get(*copy) == Some(&node))?;
    Some(list.evict(copy).map_or(name.copy, |_| copy))
}

impl Copies {
    /// Whether the node of a listed copy was restarted, and with it the list has changed.
    pub(super) async fn find_restarted(
        &mut self,
        common: &Process,
        name: &CopyName,
        list: &List,
    ) -> Result<bool, Trouble> {
        for copy in &mut self.copies {
            let number = copy.number;
            // The table itself is on nodes of which each may be restarted.
            let is_listed = number != TABLE && list.listed().contains(number);
            if is_listed && copy.boot() > list.boot(number) {
                let of = CopyName {
                    copy: number,
                    ..name.clone()
                };
                restarted(common, &of, list, copy.node()).await?;
                return Ok(true);
            }
            if is_listed && copy.boot() < list.boot(number) {
                // The list knows of a later start than this connection.
                return Err(Trouble::Changed);
            }
        }
        Ok(false)
    }
}

/// A copy has lost what its node had not written to its disk: it is evicted, and joins anew. The last one in sync stays:
/// if nothing can be lost, or that is how the operator wants it, its present start counts from now on.
async fn restarted(
    common: &Process,
    name: &CopyName,
    list: &List,
    node: &mut Node,
) -> Result<(), Trouble> {
    let of = name.described();
    if let Ok(evicted) = list.evict(name.copy) {
        catalogue::change(common, name, (list, &evicted), None).await?;
        tracing::info!("{of}: its node was restarted, and it is to join anew");
        return Ok(());
    }
    let is_synced = node.syncs_commit_log().await;
    if !is_synced && !common.settings.load().layouts.adopt_restarted {
        return Err(Trouble::Unfit(format!(
            "{of} is the last one in sync, and its node was restarted: it may have lost the last writes that were \
             acknowledged, so no write to its ranges is acknowledged any more, and no read answered. If its disk is what it was, set \
             layouts.adopt_restarted = true and reload the settings (SIGHUP)"
        )));
    }
    let adopted = list.adopt_start(name.copy, node.boot());
    let adopted = adopted.map_err(|_| Trouble::Changed)?;
    catalogue::change(common, name, (list, &adopted), None).await?;
    match is_synced {
        true => tracing::info!(
            "{of} is the last one in sync, and its node was restarted: it has lost nothing, because it writes its \
             commit log before it answers"
        ),
        false => tracing::warn!(
            "{of} is the last one in sync, and its node was restarted: it is taken as it is, as \
             layouts.adopt_restarted says. Writes of the last seconds before may be lost"
        ),
    }
    Ok(())
}

/// Copies that are the only ones listed of their groups: of others comparing shows whether their nodes were restarted.
fn alone(lists: &Lists) -> impl Iterator<Item = CopyName> {
    lists.copies.iter().filter_map(|of| {
        let list = of.known.last_read()?;
        let copy = list.in_sync().iter().next()?;
        (list.listed().len() == 1).then(|| CopyName {
            table: (of.keyspace.clone(), of.table.clone()),
            owners: of.owners.clone(),
            copy,
        })
    })
}

/// The nodes that have such copies.
pub(super) fn nodes_alone(lists: &Lists) -> BTreeSet<HostId> {
    let node = |name: CopyName| name.owners.get(name.copy).copied();
    alone(lists).filter_map(node).collect()
}

/// Looks whether the node of copies that are the only ones in sync was restarted.
pub(super) async fn look_at_last(common: &Process, owner: HostId) -> Result<(), Trouble> {
    let mut node = Node::connect(common, owner).await?;
    let is_here = |name: &CopyName| name.owners.get(name.copy) == Some(&owner);
    for name in alone(&common.lists.load_full()).filter(is_here) {
        let (_, list) = standing(common, &name)?;
        let is_last = list.in_sync() == Members::of(name.copy);
        if is_last && node.boot() > list.boot(name.copy) {
            restarted(common, &name, &list, &mut node).await?;
        }
    }
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

/// The table with its copies.
pub(super) fn table(
    common: &Process,
    (keyspace, name): &TableName,
) -> Result<Arc<LogicalTable>, Trouble> {
    let snapshot = common.snapshot.load();
    let table = snapshot.layouts.replaced(keyspace, name).cloned();
    table.ok_or_else(|| {
        Trouble::Unfit(format!(
            "the catalogue does not say which copies {keyspace}.{name} has"
        ))
    })
}

/// What this proxy knows of the group of a copy, and its list.
pub(super) fn standing(common: &Process, name: &CopyName) -> Result<(CopiesOf, List), Trouble> {
    let lists = common.lists.load();
    let of = lists.copies.iter().find(|of| {
        (&of.keyspace, &of.table) == (&name.table.0, &name.table.1) && of.owners == name.owners
    });
    let of = of.ok_or_else(|| no_list(&name.table))?;
    let list = of.known.list(now_us()).ok_or(Trouble::Changed)?;
    Ok((of.clone(), *list))
}

/// Whether a comparison still means what it meant when it began: this proxy may make it, both copies are what they were,
/// and all that is required is written to.
pub(super) fn check(
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

#[cfg(test)]
mod tests {
    use helenus_layout::insync::LISTED_MAX;

    use super::*;

    #[test]
    fn deletions_are_relied_on_for_less_than_gc_grace_from_when_a_copy_left() {
        let until = |left_ms, grace_s| remembered_until_ms(Some(left_ms), grace_s);
        assert_eq!(until(5_000, 100), Some(95_000));
        assert_eq!(until(5_000, 0), Some(5_000));
        assert_eq!(until(5_000, -1), Some(5_000));
        assert_eq!(until(i64::MAX, 100), Some(i64::MAX));
        assert!(until(i64::MIN, i32::MAX) < Some(0));
        assert_eq!(remembered_until_ms(None, 100), None);
    }

    #[test]
    fn a_newcomer_stays_with_what_it_is_compared_with() {
        let three = List::new(Members::first(3), [1; LISTED_MAX]);
        let list = three.evict(0).and_then(|list| list.evict(2));
        let list = list.and_then(|list| list.join(2, 1)).expect("joins");
        let mut progress = Progress::default();
        let with = compared_with(&progress, &list, 2).expect("one is in sync");
        assert_eq!(with.source, (1, 1));
        progress.resume(with, Vec::new(), Past::Late);
        // One with a lower number comes back.
        let back = list.join(0, 1).and_then(|list| list.promote(0, 5));
        let back = back.expect("in sync");
        assert_eq!(compared_with(&progress, &back, 2), Some(with));
        let gone = back.evict(1).expect("another is in sync");
        let other = compared_with(&progress, &gone, 2).expect("another");
        assert_eq!(other.source.0, 0);
    }

    #[test]
    fn the_copy_whose_node_fails_is_left_out_but_for_the_last_one() {
        let three = List::new(Members::first(3), [1; LISTED_MAX]);
        let joining = three.evict(2).and_then(|list| list.join(2, 1));
        let joining = joining.expect("joins");
        let name = CopyName {
            table: ("s".to_owned(), "t".to_owned()),
            owners: vec![[1; 16], [2; 16], [3; 16]],
            copy: 2,
        };
        let of = |list: &List, node: u8| failing((list, &name), Some([node; 16]));
        assert_eq!(of(&joining, 2), Some(1));
        assert_eq!(of(&joining, 3), Some(2));
        let last = joining.evict(0).expect("another is in sync");
        assert_eq!(of(&last, 2), Some(2), "it is the last one");
        assert_eq!(of(&last, 1), None, "it is out already");
        assert_eq!(failing((&last, &name), None), Some(2));
    }
}
