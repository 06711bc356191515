//! The rows of a copy that was taken out and emptied: they are copied from another one, many ranges at a time, before
//! proxies compare it.
//!
//! What clients write meanwhile is not in the copy, and a row that they delete may have been copied before. So when the
//! copying began stands in the lists as when the copy left them (`left`): as long as the others remember what was
//! deleted since, proxies find such rows by comparing, and delete them with their own times. Nothing that was sent to the copy
//! before is under way by then, and when proxies compare it nothing of what was copied is.
//!
//! Where no copy is in sync in all ranges, or deletions are not remembered at all (`gc_grace_seconds` 0), or clients could
//! not write at QUORUM meanwhile, it stays empty, and proxies bring all rows.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use helenus_layout::insync::{Copies, Members, State as CopyState, TABLE};
use helenus_rows::{Table, TableName};

use super::super::backfill::{self, Copied};
use super::super::catalogue::{self, Entry, Partition};
use super::super::lists::{self, CopiesRow};
use super::super::ranges;
use super::super::work::{Untimed, Work};
use super::age::{is_too_old, left, longest};
use super::claim::Claim;
use super::sources;
use super::stage::{self, Stage, Standing};
use super::taking_out::{Order, check_out};
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::{now_ms, place};
use crate::online::hints;
use crate::online::settle::{Emptying, Settle};

/// Lists that are changed at the same time.
const AT_A_TIME: usize = 32;
/// Attempts at lists that proxies may change meanwhile.
const ATTEMPTS: usize = 32;
const PAUSE: Duration = Duration::from_millis(200);
const HINTS_LEFT: &str = "the copy has its rows, but does not come back yet, because a hint could bring it one later that \
     is deleted by then";

/// A copy that is in no list, and that nobody else lets join.
pub(super) struct Refill<'a> {
    pub cluster: &'a Cluster,
    pub name: &'a TableName,
    /// With the least `gc_grace_seconds` of it and its copies.
    pub table: &'a Table,
    pub known: &'a Partition,
    /// When this command began.
    pub standing: &'a Standing,
    pub number: usize,
    /// As the catalogue has it, under the number of this command.
    pub entry: &'a Entry,
    pub work: &'a Work,
    pub settle: Settle,
    pub filler: Filler,
}

/// Who brings the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filler {
    /// The command, while the copy is out.
    Command,
    /// The proxies, once it joins: while it is out, clients cannot write at QUORUM.
    Proxies,
}

impl Filler {
    pub(super) fn of(number: usize, copies: usize, lists: &[CopiesRow]) -> Filler {
        let quorum = copies / 2 + 1;
        let keeps_quorum = |row: &CopiesRow| {
            let but = Members::of(TABLE).with(number);
            let list = row.list.as_ref();
            list.is_ok_and(|list| list.listed().minus(but).len() >= quorum)
        };
        match lists.iter().all(keeps_quorum) {
            true => Filler::Command,
            false => Filler::Proxies,
        }
    }

    pub(super) fn order(self) -> Order {
        match self {
            Filler::Command => Order::OutFirst,
            Filler::Proxies => Order::WaitFirst,
        }
    }
}

/// What is in the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// What it had when this command began: no other one was at work on it.
    Own,
    /// Rows that an interrupted command has copied since it was emptied, and nothing else.
    Begun,
    /// What an interrupted command has left, which may be emptying it.
    Unknown,
}

impl Content {
    /// Whether an interrupted command may be emptying what this one has taken out.
    pub(super) fn emptying(self) -> Emptying {
        match self {
            Content::Own | Content::Begun => Emptying::No,
            Content::Unknown => Emptying::Perhaps,
        }
    }

    /// What has to be waited for before others use the copy although this command has not emptied it; none: nothing was
    /// sent to it.
    pub(super) fn before_opening(self) -> Option<Emptying> {
        match self {
            Content::Own => None,
            Content::Begun | Content::Unknown => Some(Emptying::Perhaps),
        }
    }
}

impl Refill<'_> {
    /// What an interrupted command has left, once it can no longer go on; what it has copied counts from now on as copied
    /// by this one. Before it empties what it has copied it forgets that, so this is asked after it was overtaken. What was
    /// copied too long ago may be deleted, and that forgotten.
    pub(super) async fn taken_over(&self, before: &Entry) -> Result<Content> {
        let (cluster, name) = (self.cluster, self.name);
        let (_, all) = ranges::done(cluster, name, before).await?;
        if all.is_none() || self.is_too_old().await? {
            return Ok(Content::Unknown);
        }
        ranges::take_over(cluster, name, before, self.entry).await?;
        Ok(Content::Begun)
    }

    /// Empties it, unless it goes on with what is in it, and copies rows. How many it were. `taken_out`: when that was, in
    /// milliseconds since 1970.
    pub(super) async fn fill(
        &self,
        source: Option<TableName>,
        (content, taken_out): (Content, i64),
    ) -> Result<u64> {
        if content != Content::Begun {
            self.empty().await?;
        }
        let copied = match (&source, content) {
            (None, Content::Own | Content::Unknown) => return Ok(0),
            (None, Content::Begun) => None,
            (Some(source), Content::Begun) => Some(self.copy(source).await?),
            (Some(source), Content::Own | Content::Unknown) => {
                self.note_begun(taken_out).await?;
                Some(self.copy(source).await?)
            }
        };
        let is_all_answered = copied.is_none_or(|copied| copied.is_all_answered);
        if content == Content::Begun || !is_all_answered {
            self.wait_for_late().await?;
        }
        if self.is_too_old().await? {
            self.empty_again().await?;
            return Ok(0);
        }
        Ok(copied.map_or(0, |copied| copied.rows))
    }

    /// From which copy the rows come; none if proxies are to bring them.
    pub(super) async fn source(&self, lists: &[CopiesRow]) -> Result<Option<TableName>> {
        let is_left_to_proxies = self.filler == Filler::Proxies
            || self.table.untimed().is_some()
            || is_too_old(Some(now_ms()), self.table);
        if is_left_to_proxies {
            return Ok(None);
        }
        let of = (self.name, self.known);
        let source = sources::other(self.cluster, of, self.number, lists).await?;
        Ok(source.map(|entry| entry.table(self.name)))
    }

    /// Whether what was deleted since the copy left the lists, or began to be filled, may be forgotten.
    async fn is_too_old(&self) -> Result<bool> {
        let left = left(self.cluster, self.name).await?;
        Ok(is_too_old(longest(&left, self.number), self.table))
    }

    /// How far the table is. Fails unless this command is still the one at work on the copy.
    pub(super) async fn at_work(&self) -> Result<Standing> {
        let now = catalogue::read(self.cluster, self.name).await?;
        let standing = stage::read(self.cluster, self.name).await?;
        let of = (self.name, self.entry, self.standing);
        check_at_work(of, (&now, &standing))?;
        Ok(standing)
    }

    /// Nobody goes by what it has, as was found right before.
    async fn empty(&self) -> Result<()> {
        let of_copy = self.entry.table(self.name);
        let standing = self.at_work().await?;
        check_out(self.name, self.number..self.number + 1, &standing.lists)?;
        let truncate = format!("TRUNCATE {}", of_copy.to_cql());
        self.cluster.run(&truncate).await.with_context(|| {
            format!(
                "{of_copy} is out of use, and may be empty or not: run this again when all nodes are up"
            )
        })
    }

    async fn empty_again(&self) -> Result<()> {
        eprintln!(
            "helenus: rows that were deleted since the copying began would come back, because gc_grace_seconds of {} is over: \
             the copy is emptied again, and the proxies fill it",
            self.name
        );
        self.at_work().await?;
        // Who takes over from now on finds that it may be being emptied.
        ranges::forget(self.cluster, self.name, &self.entry.layout).await?;
        self.empty().await
    }

    /// It is empty, and its rows are going to be copied: what it may lack, or have too much, was written since `begun`.
    async fn note_begun(&self, begun: i64) -> Result<()> {
        let (cluster, name) = (self.cluster, self.name);
        for _ in 0..ATTEMPTS {
            let rows = lists::read_copies(cluster, name).await?;
            let mut is_noted = !rows.is_empty();
            for some in rows.chunks(AT_A_TIME) {
                let batch = beginning(name, (self.number, begun), some)?;
                // Proxies may have changed one of them: then all are read again.
                is_noted &= matches!(cluster.is_applied(&batch).await, Ok(true));
            }
            if is_noted {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        bail!("the lists of copies of {name} change all the time: run this again")
    }

    /// Copies the rows, or what is left of them.
    async fn copy(&self, source: &TableName) -> Result<Copied> {
        let (cluster, name) = (self.cluster, self.name);
        let work = Work {
            claim: Some(Arc::new(Claim::of_layout(name, self.entry))),
            untimed: Untimed::LeftToProxies,
            ..self.work.clone()
        };
        let entries = std::slice::from_ref(self.entry);
        let copied = backfill::fill(cluster, self.table, source, entries, &work).await;
        copied.with_context(|| {
            let of_copy = self.entry.table(name);
            format!(
                "{of_copy} is out of use, and has not all rows yet: run this again, and it goes on"
            )
        })
    }

    /// What this command, or one that was interrupted, has sent and not heard of has arrived, or never will.
    pub(super) async fn wait_for_late(&self) -> Result<()> {
        let cluster = self.cluster;
        let hints = hints::wait_for_old(cluster, hints::unseen_max(cluster), HINTS_LEFT);
        let (_, told) = tokio::join!(tokio::time::sleep(self.settle.late()), hints);
        told
    }
}

/// Fails unless the copy is as this command, which found the table like that `before`, has left it.
fn check_at_work(
    (name, entry, before): (&TableName, &Entry, &Standing),
    (known, now): (&Partition, &Standing),
) -> Result<()> {
    known.check_unchanged(name, std::slice::from_ref(entry))?;
    check_in_use(name, before, now)
}

/// Fails if the copies are no longer used as when this command began: the one that is taken out may be the one from
/// which rows are brought back to the table.
fn check_in_use(name: &TableName, before: &Standing, now: &Standing) -> Result<()> {
    let is_same = now.stage(name)? == Some(Stage::InUse) && now.created == before.created;
    if is_same && !now.lists.is_empty() {
        return Ok(());
    }
    bail!(
        "another command is at work on {name}, and its copies are not in use any more: see `helenus layouts status {name}`"
    )
}

/// The statement that says of all these lists since when the copy is being filled. Fails if one has it.
fn beginning(
    name: &TableName,
    (number, begun): (usize, i64),
    rows: &[CopiesRow],
) -> Result<String> {
    let mut batch = "BEGIN BATCH ".to_owned();
    for row in rows {
        let list = row.list.as_ref();
        let is_out = |list: &&Copies| list.state(number) == CopyState::Out;
        let Some(list) = list.ok().filter(is_out) else {
            bail!(
                "another command is at work on {name}, or a list of its copies cannot be as it is: see `helenus layouts \
                 status {name}`"
            );
        };
        batch.push_str(&format!(
            "UPDATE helenus.copies SET left[{number}] = {begun} WHERE {} AND owners = [{}] IF version = {}; ",
            place(name),
            row.owners.join(", "),
            list.version()
        ));
    }
    batch.push_str("APPLY BATCH");
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::LISTED_MAX;

    use super::super::super::catalogue::State;
    use super::super::tests::entry;
    use super::*;

    fn row(list: Copies) -> CopiesRow {
        CopiesRow {
            table: "shop.orders".to_owned(),
            owners: vec!["a".to_owned(), "b".to_owned()],
            ranges: None,
            list: Ok(list),
            changed_ms: None,
        }
    }

    #[test]
    fn nothing_is_emptied_once_another_command_has_begun() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let both = || vec![row(Copies::new(Members::first(2), [7; LISTED_MAX]))];
        let in_use = Standing::of(5, Stage::InUse, both());
        check_in_use(&name, &in_use, &in_use).expect("the same");
        for other in [
            Standing::of(5, Stage::InUse, Vec::new()),
            Standing::of(6, Stage::InUse, both()),
            Standing::of(6, Stage::Draining, Vec::new()),
            Standing::of(5, Stage::Draining, both()),
        ] {
            assert!(check_in_use(&name, &in_use, &other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn who_was_overtaken_does_not_empty_a_copy() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let own = entry("b", State::Writing, 5);
        let known = |of: &Entry| Partition {
            entries: vec![entry("a", State::Ready, 1), of.clone()],
            ..Partition::default()
        };
        let both = Copies::new(Members::first(2), [7; LISTED_MAX]);
        let out = both.evict(1).expect("another is in sync");
        let standing = |lists| Standing::of(3, Stage::InUse, lists);
        let before = standing(vec![row(both)]);
        let told = |of: &Entry, now: &Standing| {
            check_at_work((&name, &own, &before), (&known(of), now))?;
            check_out(&name, 1..2, &now.lists)
        };
        told(&own, &standing(vec![row(out)])).expect("it is out");
        let joining = out.join(1, 7).expect("it is out");
        for list in [both, joining] {
            let now = standing(vec![row(out), row(list)]);
            let why = told(&own, &now).expect_err("it is listed").to_string();
            assert!(why.contains("not emptied"), "{why}");
        }
        let now = standing(vec![row(out)]);
        let other = entry("b", State::Writing, 6);
        assert!(told(&other, &now).is_err(), "another rebuild has begun");
        let ready = entry("b", State::Ready, 5);
        assert!(told(&ready, &now).is_err(), "it may join");
        let dropped = Standing::of(6, Stage::Returning, vec![row(out)]);
        assert!(told(&own, &dropped).is_err(), "its rows go back");
        assert!(told(&own, &standing(Vec::new())).is_err(), "nobody knows");
    }

    #[test]
    fn what_was_interrupted_is_waited_for_before_a_copy_is_emptied_or_read_again() {
        let waits = |content: Content| (content.emptying(), content.before_opening());
        assert_eq!(waits(Content::Own), (Emptying::No, None));
        let perhaps = Some(Emptying::Perhaps);
        assert_eq!(waits(Content::Begun), (Emptying::No, perhaps));
        assert_eq!(waits(Content::Unknown), (Emptying::Perhaps, perhaps));
    }

    #[test]
    fn proxies_fill_a_copy_without_which_there_is_no_quorum() {
        let of = |copies, lists: &[Copies]| {
            let lists: Vec<CopiesRow> = lists.iter().copied().map(row).collect();
            Filler::of(1, copies, &lists)
        };
        let all = |copies| Copies::new(Members::first(copies), [7; LISTED_MAX]);
        assert_eq!(of(2, &[all(2)]), Filler::Proxies);
        assert_eq!(of(3, &[all(3)]), Filler::Command);
        let without = all(3).evict(0).expect("others are in sync");
        assert_eq!(of(3, &[all(3), without]), Filler::Proxies);
        // One that joins has what is written.
        let joining = without.join(0, 7).expect("it is out");
        assert_eq!(of(3, &[joining]), Filler::Command);
        assert_eq!(of(4, &[all(4)]), Filler::Command);
    }

    #[test]
    fn when_a_copy_began_to_be_filled_is_noted_only_while_it_is_out() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let both = Copies::new(Members::first(2), [7; LISTED_MAX]);
        let out = both.evict(1).expect("another is in sync");
        let text = beginning(&name, (1, 77), &[row(out), row(out)]).expect("a batch");
        let place =
            "keyspace_name = 'shop' AND table_name = 'orders' AND owners = [a, b] IF version = 2; ";
        let one = format!("UPDATE helenus.copies SET left[1] = 77 WHERE {place}");
        assert_eq!(text, format!("BEGIN BATCH {one}{one}APPLY BATCH"));
        let joining = out.join(1, 7).expect("it is out");
        for other in [both, joining] {
            assert!(beginning(&name, (1, 77), &[row(out), row(other)]).is_err());
        }
    }
}
