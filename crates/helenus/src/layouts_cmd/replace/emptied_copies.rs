//! Copies that are too old to join are emptied while `create` is at work: the table is in sync, and proxies fill them.
//!
//! Lists may have them, if a command that gave `create` up was interrupted: some in sync, which are read, or joining, which
//! may be in sync in a moment. So they are taken out of all lists first.

use anyhow::{Context, Result, bail};
use helenus_layout::insync::Copies;
use helenus_rows::TableName;

use super::super::catalogue::{self, Entry, Partition, State as EntryState};
use super::emptying::NOBODY_LEFT;
use super::stage::{self, Stage, Standing};
use super::switch::{ATTEMPTS, Switch, table_alone};
use super::taking_out;
use super::waiting::PAUSE;
use crate::online::cluster::Cluster;

/// Empties them. No proxy lets one join: the catalogue says `writing`, and all know.
pub(super) async fn empty(
    cluster: &Cluster,
    (name, entries): (&TableName, &[Entry]),
    created: i64,
) -> Result<()> {
    let of = (name, entries.len());
    take_out(cluster, of, created).await?;
    // Nobody relies on a list with one of them any more, and what was sent by one has arrived.
    tokio::time::sleep(NOBODY_LEFT).await;
    for entry in entries {
        let known = catalogue::read(cluster, name).await?;
        check(of, (&known, &stage::read(cluster, name).await?), created)?;
        let copy = entry.table(name);
        let truncate = format!("TRUNCATE {}", copy.to_cql());
        cluster.run(&truncate).await.with_context(|| {
            format!("{copy} is not emptied: run this again when all nodes are up; clients use {name} as before")
        })?;
    }
    let standing = stage::read(cluster, name).await?;
    check_at_work(name, &standing, created)?;
    stage::begin_anew(cluster, name, &standing).await
}

/// Takes them out of all lists.
async fn take_out(
    cluster: &Cluster,
    (name, copies): (&TableName, usize),
    created: i64,
) -> Result<()> {
    let to = Switch {
        table: name,
        created,
        stage: Stage::Joining,
        left: None,
    };
    for _ in 0..ATTEMPTS {
        let standing = stage::read(cluster, name).await?;
        check_at_work(name, &standing, created)?;
        if check_out((name, copies), &standing).is_ok() {
            return Ok(());
        }
        let alone = |_: &[String], list: &Copies| table_alone(name, list, copies);
        if !to.is_made(cluster, &standing, alone).await? {
            tokio::time::sleep(PAUSE).await;
        }
    }
    bail!("the lists of copies of {name} change all the time: run this again")
}

/// Fails unless this command is the one at work, nobody goes by what the copies have, and none may join.
fn check(
    (name, copies): (&TableName, usize),
    (known, standing): (&Partition, &Standing),
    created: i64,
) -> Result<()> {
    check_at_work(name, standing, created)?;
    let may_join = |entry: &Entry| entry.state == EntryState::Ready.name();
    if known.entries.len() != copies || known.entries.iter().any(may_join) {
        bail!("another command is at work on {name}: see `helenus layouts status {name}`");
    }
    check_out((name, copies), standing)
}

fn check_at_work(name: &TableName, standing: &Standing, created: i64) -> Result<()> {
    match standing.is(Some(created), Some(Stage::Joining)) {
        true => Ok(()),
        false => bail!("another command is at work on {name}: see `helenus layouts status {name}`"),
    }
}

/// Fails unless all copies are out of all lists, where the table is in sync: they may have what nobody else has, and be
/// read.
fn check_out((name, copies): (&TableName, usize), standing: &Standing) -> Result<()> {
    taking_out::check_out(name, 0..copies, &standing.lists)?;
    for list in standing.lists.iter().flat_map(|row| &row.list) {
        table_alone(name, list, copies)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{BadList, LISTED_MAX, Members, TABLE};

    use super::super::super::lists::CopiesRow;
    use super::super::tests::entry;
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

    fn known(states: [EntryState; 2]) -> Partition {
        let [x, y] = states;
        Partition {
            entries: vec![entry("x", x, 5), entry("y", y, 5)],
            ..Partition::default()
        }
    }

    #[test]
    fn copies_are_emptied_by_the_command_at_work_and_only_while_they_are_in_no_list() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let writing = known([EntryState::Writing, EntryState::Writing]);
        let told = |stage, lists: &[Result<Copies, BadList>]| {
            let lists = lists.iter().cloned().map(row).collect();
            check((&name, 2), (&writing, &Standing::of(5, stage, lists)), 5)
        };
        let alone = Copies::new(Members::of(TABLE), [0; LISTED_MAX]);
        told(Stage::Joining, &[Ok(alone), Ok(alone)]).expect("they are out");
        let joining = alone.join(1, 7).expect("it is out");
        let in_sync = joining.promote(1, 2).expect("it joins");
        let without = in_sync.evict(TABLE).expect("a copy is in sync");
        for list in [joining, in_sync, without] {
            let why = told(Stage::Joining, &[Ok(alone), Ok(list)]).expect_err("one is listed");
            assert!(why.to_string().contains("not emptied"), "{why}");
        }
        assert!(told(Stage::Joining, &[Err(BadList::NoneInSync)]).is_err());
        assert!(told(Stage::Joining, &[]).is_err(), "nobody knows");
        for stage in [Stage::Filling, Stage::Open, Stage::InUse, Stage::Closing] {
            assert!(told(stage, &[Ok(alone)]).is_err(), "{stage:?}");
        }
        let standing = Standing::of(5, Stage::Joining, vec![row(Ok(alone))]);
        assert!(check((&name, 2), (&writing, &standing), 4).is_err());
        let ready = known([EntryState::Writing, EntryState::Ready]);
        assert!(check((&name, 2), (&ready, &standing), 5).is_err());
    }
}
