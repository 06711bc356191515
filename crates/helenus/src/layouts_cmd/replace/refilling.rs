//! The rows of a copy that was taken out and emptied: they are copied from another one, many ranges at a time, before
//! proxies compare it.
//!
//! What clients write meanwhile is not in the copy, and a row that they delete may have been copied before. So when the
//! copying began stands in the lists as when the copy left them (`left`): as long as the others remember what was
//! deleted since, proxies find such rows by comparing, and delete them with their own times. Nothing that was sent to the copy
//! before is under way by then, and when proxies compare it nothing of what was copied is.
//!
//! Where no copy is in sync in all ranges, or deletions are not remembered at all (`gc_grace_seconds` 0), it stays empty,
//! and proxies bring all rows.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use helenus_layout::insync::{Copies, State as CopyState};
use helenus_rows::{Table, TableName};
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::CqlValue;

use super::super::catalogue::{self, Entry, Partition};
use super::super::lists::{self, CopiesRow};
use super::super::work::{Untimed, Work};
use super::super::{backfill, ranges};
use super::age::is_too_old;
use super::claim::Claim;
use super::sources;
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::{now_ms, place};
use crate::online::hints;
use crate::online::settle::Settle;

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
    pub number: usize,
    /// As the catalogue has it, under the number of this command.
    pub entry: &'a Entry,
    pub work: &'a Work,
    pub settle: Settle,
}

/// What is in the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Rows that an interrupted command has copied since it was emptied, and nothing else.
    Begun,
    /// Rows of before.
    Old,
}

/// Whether an interrupted command has begun to copy rows, under the number of this entry.
pub(super) async fn is_begun(cluster: &Cluster, name: &TableName, entry: &Entry) -> Result<bool> {
    Ok(ranges::done(cluster, name, entry).await?.1.is_some())
}

impl Refill<'_> {
    /// What it can go on with: what was copied too long ago may be deleted, and that forgotten.
    pub(super) async fn content(&self, is_begun: bool) -> Result<Content> {
        if !is_begun {
            return Ok(Content::Old);
        }
        let left = left(self.cluster, self.name, self.number).await?;
        Ok(match is_too_old(left, self.table) {
            true => Content::Old,
            false => Content::Begun,
        })
    }

    /// Empties it, unless it goes on with what is in it, and copies rows. How many it were. `taken_out`: when that was, in
    /// milliseconds since 1970.
    pub(super) async fn fill(
        &self,
        lists: &[CopiesRow],
        (content, taken_out): (Content, i64),
    ) -> Result<u64> {
        let source = self.source(lists).await?;
        if content == Content::Old {
            self.empty().await?;
            if source.is_some() {
                self.note_begun(taken_out).await?;
            }
        }
        match &source {
            Some(source) => self.copy(source, content).await,
            None => Ok(0),
        }
    }

    /// From which copy the rows come; none if proxies are to bring them.
    async fn source(&self, lists: &[CopiesRow]) -> Result<Option<TableName>> {
        if self.table.untimed().is_some() || is_too_old(Some(now_ms()), self.table) {
            return Ok(None);
        }
        let of = (self.name, self.known);
        let source = sources::other(self.cluster, of, self.number, lists).await?;
        Ok(source.map(|entry| entry.table(self.name)))
    }

    async fn empty(&self) -> Result<()> {
        // Another command may have taken it over.
        let now = catalogue::read(self.cluster, self.name).await?;
        now.check_unchanged(self.name, std::slice::from_ref(self.entry))?;
        let of_copy = self.entry.table(self.name);
        let truncate = format!("TRUNCATE {}", of_copy.to_cql());
        self.cluster.run(&truncate).await.with_context(|| {
            format!(
                "{of_copy} is out of use, and may be empty or not: run this again when all nodes are up"
            )
        })
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

    /// Copies the rows, or what is left of them. How many it were.
    async fn copy(&self, source: &TableName, content: Content) -> Result<u64> {
        let (cluster, name) = (self.cluster, self.name);
        let work = Work {
            claim: Some(Arc::new(Claim::of_layout(name, self.entry))),
            untimed: Untimed::LeftToProxies,
            ..self.work.clone()
        };
        let entries = std::slice::from_ref(self.entry);
        let copied = backfill::fill(cluster, self.table, source, entries, &work).await;
        let copied = copied.with_context(|| {
            let of_copy = self.entry.table(name);
            format!(
                "{of_copy} is out of use, and has not all rows yet: run this again, and it goes on"
            )
        })?;
        if content == Content::Begun || !copied.is_all_answered {
            self.wait_for_late().await?;
        }
        if is_too_old(left(cluster, name, self.number).await?, self.table) {
            eprintln!(
                "helenus: rows that were deleted since the copying began would come back, because gc_grace_seconds of {name} \
                 is over: the copy is emptied again, and the proxies fill it"
            );
            self.empty().await?;
            return Ok(0);
        }
        Ok(copied.rows)
    }

    /// What this command, or one that was interrupted, has sent and not heard of has arrived, or never will.
    async fn wait_for_late(&self) -> Result<()> {
        let cluster = self.cluster;
        let hints = hints::wait_for_old(cluster, hints::unseen_max(cluster), HINTS_LEFT);
        let (_, told) = tokio::join!(tokio::time::sleep(self.settle.late()), hints);
        told
    }
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

/// Since when a copy is out, by the list that has it out for longest; none if one does not tell.
async fn left(cluster: &Cluster, name: &TableName, number: usize) -> Result<Option<i64>> {
    let mut select = Statement::new(format!(
        "SELECT owners, left FROM helenus.copies WHERE {}",
        place(name)
    ));
    select.set_consistency(Consistency::Serial);
    let rows: Vec<(Option<CqlValue>, Option<CqlValue>)> = cluster.rows(select).await?;
    let lists = rows.iter().filter(|(owners, _)| owners.is_some());
    Ok(longest(lists.map(|(_, left)| left.as_ref()), number))
}

fn longest<'a>(lists: impl Iterator<Item = Option<&'a CqlValue>>, number: usize) -> Option<i64> {
    let left = lists.map(|left| {
        let mut members = left?.as_map()?.iter();
        let is_it = |member: &CqlValue| {
            let of = member.as_int().map(usize::try_from);
            of.is_some_and(|of| of == Ok(number))
        };
        let (_, at) = members.find(|(member, _)| is_it(member))?;
        at.as_cql_timestamp().map(|at| at.0)
    });
    left.min().flatten()
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{LISTED_MAX, Members};
    use scylla::value::CqlTimestamp;

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

    #[test]
    fn a_copy_is_as_old_as_the_list_says_that_has_it_out_for_longest() {
        let of = |members: &[(i32, i64)]| {
            let entries = members.iter().map(|(member, at)| {
                (
                    CqlValue::Int(*member),
                    CqlValue::Timestamp(CqlTimestamp(*at)),
                )
            });
            CqlValue::Map(entries.collect())
        };
        let lists = [of(&[(0, 5), (1, 30)]), of(&[(-2, 3), (1, 20)])];
        assert_eq!(longest(lists.iter().map(Some), 1), Some(20));
        assert_eq!(
            longest(lists.iter().map(Some), 0),
            None,
            "one does not tell"
        );
        assert_eq!(longest([Some(&lists[0]), None].into_iter(), 1), None);
        assert_eq!(longest([].into_iter(), 1), None);
    }
}
