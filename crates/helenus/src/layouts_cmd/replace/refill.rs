//! The rows of a copy that was emptied, brought over from another one before proxies compare both: they write what is
//! lacking over one connection, this command over many.
//!
//! Nothing has to be complete or up to date: clients write to the other copies meanwhile, and proxies compare all of it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use helenus_layout::insync::{Copies, State as CopyState};
use helenus_rows::{Table, TableName};

use super::super::catalogue::{Entry, Partition};
use super::super::lists;
use super::super::work::Work;
use super::super::{backfill, ranges};
use super::stage::Claim;
use super::{described, in_sync_everywhere};
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::{now_ms, place};

/// Attempts at changes of lists that proxies change meanwhile.
const ATTEMPTS: usize = 32;
const PAUSE: Duration = Duration::from_millis(200);

/// Copies rows to the copy with this number. How many; `None` if no other copy has all of them.
pub(super) async fn run(
    cluster: &Cluster,
    (table, known): (&Table, &Partition),
    (closed, number): (&Entry, usize),
    work: &Work,
) -> Result<Option<u64>> {
    let name = &table.name;
    let lists = lists::read_copies(cluster, name).await?;
    let all = in_sync_everywhere(&lists, known.entries.len());
    let source = all.into_iter().find(|copy| *copy != number);
    let Some(source) = source.and_then(|copy| known.entries.get(copy)) else {
        return Ok(None);
    };
    note_emptied(cluster, name, number).await?;
    let work = Work {
        claim: Some(Arc::new(Claim::of_layout(name, closed))),
        ..work.clone()
    };
    let from = source.table(name);
    let copied = backfill::fill(cluster, table, &from, std::slice::from_ref(closed), &work).await;
    // What was copied under this number is never gone on with.
    ranges::forget(cluster, name, &closed.layout).await?;
    let told = || format!("cannot copy rows from {}", described(source, name));
    copied.map(Some).with_context(told)
}

/// What is deleted from now on, and nothing before, may come back with the rows that are copied.
async fn note_emptied(cluster: &Cluster, name: &TableName, number: usize) -> Result<()> {
    let now_ms = now_ms();
    for _ in 0..ATTEMPTS {
        let lists = lists::read_copies(cluster, name).await?;
        let mut is_noted = !lists.is_empty();
        for row in &lists {
            let known = row.list.as_ref();
            let known = known.map_err(|why| anyhow::anyhow!("a list cannot be as it is: {why}"))?;
            if known.state(number) != CopyState::Out {
                bail!("copy {number} of {name} is in a list of copies again");
            }
            let noted = noted(name, &row.owners, (number, now_ms), known);
            is_noted &= cluster.is_applied(&noted).await.unwrap_or(false);
        }
        if is_noted {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    bail!("the lists of copies of {name} change all the time")
}

fn noted(
    name: &TableName,
    owners: &[String],
    (number, now_ms): (usize, i64),
    known: &Copies,
) -> String {
    format!(
        "UPDATE helenus.copies SET left[{number}] = {now_ms} WHERE {} AND owners = [{}] IF version = {}",
        place(name),
        owners.join(", "),
        known.version()
    )
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{COPIES_MAX, Members};

    use super::*;

    #[test]
    fn it_is_noted_in_the_list_that_was_read() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let list = Copies::new(Members::first(2), [7; COPIES_MAX]);
        let list = list.evict(1).expect("another is in sync");
        let text = noted(&name, &["u-1".to_owned(), "u-2".to_owned()], (1, 77), &list);
        assert_eq!(
            text,
            "UPDATE helenus.copies SET left[1] = 77 WHERE keyspace_name = 'shop' AND table_name = 'orders' AND owners = \
             [u-1, u-2] IF version = 2"
        );
    }
}
