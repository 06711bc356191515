//! The table is emptied, once its rows are in the copies and nobody goes by what it has.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use helenus_layout::insync::{State, TABLE};
use helenus_rows::TableName;
use scylla::statement::Consistency;

use super::super::catalogue::{self, Entry, Mode, Partition};
use super::super::ranges;
use super::stage::{self, Stage, Standing};
use crate::online::cluster::Cluster;
use crate::online::reading::Reader;
use crate::online::settle::{Emptying, Settle};
use crate::online::table;

/// With `commitlog_sync: periodic` a node has on disk what it has acknowledged so long ago, by default.
const COMMIT_LOG_SYNC: Duration = Duration::from_secs(10);
/// By then also no proxy relies on a list with a member that was taken out, and what was sent by such a list has arrived.
pub(super) const NOBODY_LEFT: Duration = Duration::from_secs(17);

/// Empties a table that another command may be emptying: that one ends before its next step. What the entries are then.
pub(super) async fn empty_again(
    cluster: &Cluster,
    (name, known, created): (&TableName, &Partition, i64),
    standing: &Standing,
    (level, settle): (Consistency, Settle),
) -> Result<Partition> {
    check_is_out(name, standing)?;
    stage::claim(cluster, name, (standing, Stage::Open), created).await?;
    let known = super::take_over(cluster, name, known, created).await?;
    let of = (name, &*known.entries, created);
    empty(cluster, of, (level, settle, true)).await?;
    Ok(known)
}

/// Empties the table, if this command is the one at work. All its rows are in the copies, and no proxy that knows the
/// catalogue reads it.
pub(super) async fn empty(
    cluster: &Cluster,
    (name, entries, created): (&TableName, &[Entry], i64),
    (level, settle, is_resumed): (Consistency, Settle, bool),
) -> Result<()> {
    // Also of an empty one: what was sent to it may be on its way.
    if settle.is_needed() {
        tokio::time::sleep(NOBODY_LEFT).await;
    }
    let table = table::load(cluster, name).await?;
    let reader = Reader::new(cluster, &table, name, level).await?;
    if !reader.is_empty().await? {
        if !settle.is_needed() {
            // What was copied last is in the commit logs by then.
            tokio::time::sleep(COMMIT_LOG_SYNC).await;
        }
        let now = catalogue::read(cluster, name).await?;
        now.check_unchanged(name, entries)?;
        let standing = stage::read(cluster, name).await?;
        if now.mode(name)? != Mode::Replace {
            bail!("another command is at work on {name}: see `helenus layouts status {name}`");
        }
        check(name, &standing, created)?;
        let truncate = format!("TRUNCATE {}", name.to_cql());
        cluster.run(&truncate).await.with_context(|| {
            format!(
                "clients use the copies of {name}, but the table itself is not empty yet: run this again"
            )
        })?;
    }
    if is_resumed && settle.is_needed() {
        // Whoever was at it may have sent a TRUNCATE, which must not come after a `drop`.
        let more = settle.for_emptying(Emptying::Perhaps);
        settle.wait_longer(more, "the table is emptied").await;
    }
    let standing = stage::read(cluster, name).await?;
    check(name, &standing, created)?;
    stage::use_them(cluster, name, &standing).await?;
    for entry in entries {
        ranges::forget(cluster, name, &entry.layout).await?;
    }
    Ok(())
}

/// Fails unless this command is the one that empties the table.
fn check(name: &TableName, standing: &Standing, created: i64) -> Result<()> {
    if !standing.is(Some(created), Some(Stage::Open)) {
        bail!("another command is at work on {name}: see `helenus layouts status {name}`");
    }
    check_is_out(name, standing)
}

/// Fails if somebody may go by the table: it may have rows that no copy has.
fn check_is_out(name: &TableName, standing: &Standing) -> Result<()> {
    for row in &standing.lists {
        let list = row.list.as_ref();
        if !list.is_ok_and(|list| list.state(TABLE) == State::Out) {
            bail!(
                "{name} is not emptied: it is in the list of the copies on {}, or that list cannot be as it is. See \
                 `helenus layouts status {name}`",
                row.owners.join(", ")
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{BadList, Copies, Members};

    use super::super::super::lists::CopiesRow;
    use super::*;

    fn row(list: Result<Copies, BadList>) -> CopiesRow {
        CopiesRow {
            table: "shop.orders".to_owned(),
            owners: vec!["a".to_owned(), "b".to_owned()],
            ranges: None,
            list,
            changed_ms: None,
        }
    }

    #[test]
    fn a_table_is_emptied_by_the_command_at_work_and_only_while_it_is_in_no_list() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let both = Copies::new(Members::first(2), [7, 8, 0, 0, 0, 0]);
        let joined = both.join(TABLE, 0).expect("it is out");
        let of = |stage, lists| check(&name, &Standing::of(5, stage, lists), 5);
        of(Stage::Open, vec![row(Ok(both))]).expect("it is out");
        let open = Standing::of(5, Stage::Open, vec![row(Ok(both))]);
        assert!(check(&name, &open, 4).is_err(), "another command");
        for stage in [Stage::InUse, Stage::Returning, Stage::Closing] {
            assert!(of(stage, vec![row(Ok(both))]).is_err(), "{stage:?}");
        }
        for list in [
            Ok(joined),
            joined.promote(TABLE, 2).map_err(|_| BadList::NoneInSync),
        ] {
            let told = of(Stage::Open, vec![row(Ok(both)), row(list)]).expect_err("listed");
            assert!(told.to_string().contains("not emptied"), "{told}");
        }
        let bad = vec![row(Err(BadList::NoneInSync))];
        assert!(of(Stage::Open, bad).is_err(), "nobody knows");
    }
}
