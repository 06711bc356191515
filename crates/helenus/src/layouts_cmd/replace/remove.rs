//! `helenus layouts drop --all` of layouts in place of replicas: the rows go back to the table.
//!
//! As a rule clients go on meanwhile ([`super::returning`]). If no proxy runs, or a copy is to be taken that proxies would
//! not take, nobody uses the table:
//!
//! 1. The lists are taken away, and it is noted which copies had all that was acknowledged: nobody writes any more.
//! 2. Once nothing that was sent before can arrive any more, the rows of one of these copies are copied to the table, and
//!    both compared.
//! 3. The catalogue forgets the copies: proxies use the table. Its copies' tables and keyspaces are dropped.
//!
//! Until the catalogue forgets the copies, `drop --undo` lets clients use them again ([`super::undo`]).
//!
//! What `create` has not finished is given up: until copies alone are in sync, the table has all rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use helenus_cql::Name;
use helenus_layout::insync::{State as CopyState, TABLE};
use helenus_rows::{Table, TableName};
use serde_json::json;

use super::super::catalogue::{self, Mode, Partition, State};
use super::super::verdict;
use super::super::work::Work;
use super::super::{backfill, lists, names, ranges};
use super::claim::Claim;
use super::nodes::Started;
use super::returning::{self, BACK, forget};
use super::sources::{check_nodes, check_read_repair, listed_boots, source};
use super::stage::{self, Stage};
use super::{check_tables, checks, in_sync_everywhere, nodes};
use crate::online::cluster::Cluster;
use crate::online::settle::Settle;
use crate::online::table;

/// What has been done.
#[derive(Default)]
struct Done {
    rows: Option<u64>,
    stopped: Option<Duration>,
}

/// Whether the table has layouts in place of its replicas, or an interrupted command has left some.
pub(in crate::layouts_cmd) async fn is_about(
    cluster: &Cluster,
    table: &TableName,
    known: &Partition,
) -> Result<bool> {
    match known.entries.is_empty() {
        false => Ok(known.mode(table)? != Mode::Add),
        true if !left_behind(cluster, table, known).await?.is_empty() => Ok(true),
        true => Ok(stage::read(cluster, table).await?.stage(table)?.is_some()),
    }
}

pub(in crate::layouts_cmd) async fn run(
    cluster: &Cluster,
    name: &TableName,
    known: Partition,
    ((no_proxies, as_json), from): ((bool, bool), Option<&str>),
) -> Result<()> {
    for entry in &known.entries {
        checks::check_name(name, entry)?;
    }
    let mut dropped: Vec<(String, TableName)> = left_behind(cluster, name, &known).await?;
    let standing = stage::read(cluster, name).await?;
    let stage = standing.stage(name)?;
    // Those of a `drop` that has got so far are about to be dropped, whatever they have.
    if stage != Some(Stage::Closing) {
        for (_, copy) in &dropped {
            super::check_is_empty(cluster, name, copy).await?;
        }
    }
    let entries = known.entries.iter();
    dropped.extend(entries.map(|entry| (entry.layout.clone(), entry.table(name))));
    let settle = Settle::of(cluster, no_proxies).await;
    let mut done = Done::default();
    let mut closing = None;
    match stage {
        None if !standing.lists.is_empty() => bail!(
            "helenus.copies has lists of copies of {name} that `create` has not made: nothing is dropped"
        ),
        Some(Stage::Joining) => {
            let of = (name, known);
            closing = Some(returning::give_up(cluster, of, standing, settle).await?);
        }
        Some(Stage::Closing) => {
            closing = Some(returning::close(cluster, (name, known), settle).await?);
        }
        Some(stage @ (Stage::Open | Stage::InUse | Stage::Returning | Stage::Draining))
            if !known.entries.is_empty() =>
        {
            let table = table::load(cluster, name).await?;
            check_tables(cluster, &table, &known.entries).await?;
            let is_online = settle.is_needed() && from.is_none() && stage != Stage::Draining;
            if !is_online {
                check_is_empty_by_now(name, stage)?;
                check_table_is_out(name, &standing)?;
            }
            match is_online {
                true => {
                    check_none_is_rebuilt(name, stage, &known)?;
                    let of = (&table, known);
                    let (rows, created) =
                        returning::bring_back(cluster, of, standing, settle).await?;
                    (done.rows, closing) = (rows, Some(created));
                }
                false => {
                    let with = (settle, from);
                    bring_back(cluster, (&table, known), standing, with, &mut done).await?;
                }
            }
        }
        Some(Stage::Open) => bail!(
            "clients use the copies of {name}, but the catalogue does not know which ones: see `helenus layouts status`"
        ),
        // Nobody has ever written to the copies, or the catalogue has forgotten them.
        stage => {
            let mode = known.mode(name)?;
            let is_known = matches!(stage, Some(Stage::Filling | Stage::Draining));
            if !is_known && mode != Mode::Replacing {
                let copies: Vec<TableName> =
                    dropped.iter().map(|(_, table)| table.clone()).collect();
                super::check_has_rows(cluster, name, &copies).await?;
            }
            stage::forget(cluster, name, &standing).await?;
            forget(cluster, name, &known).await?;
        }
    }
    for (layout, table) in &dropped {
        drop_copy(cluster, name, layout, table).await?;
        ranges::forget(cluster, name, layout).await?;
    }
    ranges::forget(cluster, name, BACK).await?;
    if let Some(created) = closing {
        returning::end(cluster, name, created).await?;
    }
    report(name, &dropped, &done, as_json);
    Ok(())
}

/// Fails as long as another command may be emptying the table: that would take away what is copied to it.
fn check_is_empty_by_now(name: &TableName, stage: Stage) -> Result<()> {
    match stage {
        Stage::Open => bail!(
            "{name} itself has not been emptied yet: finish that first (helenus layouts drop {name} --undo), then run this \
             again"
        ),
        _ => Ok(()),
    }
}

/// Fails if a `rebuild` was interrupted: what it has sent may be under way, and `--undo` would let the copy join.
fn check_none_is_rebuilt(name: &TableName, stage: Stage, known: &Partition) -> Result<()> {
    let mut entries = known.entries.iter();
    let unread = entries.find(|entry| entry.state != State::Ready.name());
    match unread.filter(|_| stage == Stage::InUse) {
        None => Ok(()),
        Some(entry) => bail!(
            "layout {layout} of {name} is being rebuilt: let that come to its end, or run it again if it was interrupted \
             (helenus layouts rebuild {name} --layout {layout}), then run this again",
            layout = entry.layout
        ),
    }
}

/// Fails if the table itself is in sync in all lists: a copy may have lost what it has.
fn check_table_is_out(name: &TableName, standing: &stage::Standing) -> Result<()> {
    let is_in_sync = |row: &lists::CopiesRow| {
        let list = row.list.as_ref();
        list.is_ok_and(|list| list.state(TABLE) == CopyState::InSync)
    };
    match !standing.lists.is_empty() && standing.lists.iter().all(is_in_sync) {
        false => Ok(()),
        true => bail!(
            "{name} itself is in sync by now, and has all rows: finish it while proxies run (helenus layouts drop {name} \
             --all), without --from and --no-proxies"
        ),
    }
}

/// While nobody uses the table: its rows are in no list.
async fn bring_back(
    cluster: &Cluster,
    (table, known): (&Table, Partition),
    mut standing: stage::Standing,
    (settle, from): (Settle, Option<&str>),
    done: &mut Done,
) -> Result<()> {
    let name = &table.name;
    check_nodes(cluster, name).await?;
    check_read_repair(cluster, name).await?;
    let ring = nodes::read(cluster).await?;
    let created = standing.next(&known);
    let stopped = Instant::now();
    let begun = Arc::new(Started::read(cluster).await?);
    if standing.stage(name)? != Some(Stage::Draining) {
        // Who says which copy is to be taken takes what nodes have sent each other, too.
        if from.is_none() {
            super::ring::check(cluster, (name, &known), &standing.lists).await?;
        }
        let sources = in_sync_everywhere(&standing.lists, known.entries.len());
        let boots = listed_boots(&standing.lists);
        let source = source(cluster, (name, &known), (&sources, &boots, from), &ring).await?;
        // Nothing that is found now stops clients.
        backfill::check_timed(cluster, table, &source.table(name), &Work::of_all()).await?;
        returning::check_rights(cluster, name, &known).await?;
        returning::let_keep(cluster, name, &known).await?;
        if settle.is_needed() {
            eprintln!(
                "helenus: clients cannot use {name} from now on, until its rows are back in the table"
            );
        }
        stage::drain(cluster, name, &standing, (created, &sources, &boots)).await?;
    } else {
        stage::claim(cluster, name, (&standing, Stage::Draining), created).await?;
    }
    // Another command that is at work on them notices: a `rebuild` of one of them, or a `drop` that was taken over.
    let known = super::take_over(cluster, name, &known, created).await?;
    settle.wait("writes to the copies end").await;
    standing = stage::read(cluster, name).await?;
    let kept = (&*standing.sources, &standing.boots, from);
    let source = source(cluster, (name, &known), kept, &ring).await?;
    let work = Work {
        claim: Some(Arc::new(Claim::new(name, created, Stage::Draining))),
        started: Some(Arc::clone(&begun)),
        ..Work::of_all()
    };
    let copy = source.table(name);
    let back = [returning::back(name, created)];
    let copied = async {
        backfill::fill(cluster, table, &copy, &back, &work).await?;
        verdict::verify(cluster, (table, &copy), &back, &work, true).await
    };
    let (compared, verdicts) = copied.await.with_context(|| {
        format!(
            "clients cannot use {name} until this is run again and succeeds, or `helenus layouts drop {name} --undo` \
             lets them use its copies again"
        )
    })?;
    let left: u64 = verdicts.iter().map(|of| of.left() + of.unsettled).sum();
    if left > 0 {
        bail!(
            "{left} rows of {name} are not what they are in {copy}, and cannot be made so by their times: does somebody \
             write to one of both, past the proxies? Run this again, or with --undo in place of --all to give it up; until \
             then clients cannot use the table"
        );
    }
    // Nothing of what was copied is of a start of a node that may have lost what was acknowledged.
    let ring = nodes::read(cluster).await?;
    match from {
        Some(_) => begun.check(cluster).await?,
        None => {
            let now = self::source(cluster, (name, &known), kept, &ring).await?;
            if now.layout != source.layout {
                bail!("a node of {copy} was restarted meanwhile: run this again");
            }
        }
    }
    done.rows = Some(compared.rows);
    // Also if nothing had to be written since it was asked last.
    Claim::new(name, created, Stage::Draining)
        .check(cluster)
        .await?;
    forget(cluster, name, &known).await?;
    done.stopped = Some(stopped.elapsed());
    if settle.is_needed() {
        eprintln!("helenus: clients can use {name} again");
    }
    let standing = stage::read(cluster, name).await?;
    match standing.created == Some(created) {
        true => stage::forget(cluster, name, &standing).await,
        // Whoever has taken over finds that there is nothing to bring back.
        false => Ok(()),
    }
}

/// Copies of the table that the catalogue does not have: their layouts and tables.
pub(in crate::layouts_cmd) async fn left_behind(
    cluster: &Cluster,
    name: &TableName,
    known: &Partition,
) -> Result<Vec<(String, TableName)>> {
    let found: Vec<(String, String)> = cluster
        .rows("SELECT keyspace_name, table_name FROM system_schema.tables")
        .await?;
    let mut left = Vec::new();
    for (keyspace, table) in found {
        let Some(layout) = names::layout_of_keyspace(name, &keyspace) else {
            continue;
        };
        let of_copy = TableName {
            keyspace: Name::from_stored(&*keyspace),
            table: Name::from_stored(table),
        };
        let is_named = checks::is_named(name, layout, &of_copy);
        if is_named && known.entry(layout).is_none() {
            let is_used = catalogue::original(cluster, &of_copy).await?.is_some();
            if !is_used {
                left.push((layout.to_owned(), of_copy));
            }
        }
    }
    Ok(left)
}

/// Drops a copy's table, and its keyspace if there is nothing else in it.
async fn drop_copy(
    cluster: &Cluster,
    of: &TableName,
    layout: &str,
    name: &TableName,
) -> Result<()> {
    if !checks::is_named(of, layout, name) {
        bail!("{name} is not a table that `create` has made: it is not dropped");
    }
    if let Some(other) = catalogue::original(cluster, name).await? {
        bail!("{name} is not dropped: it holds a layout of {other}, which was created meanwhile");
    }
    if table::exists(cluster, &name.keyspace, &name.table).await? {
        // Of somebody else, perhaps, if it is no copy.
        let (own, found) = (
            table::load(cluster, of).await?,
            table::load(cluster, name).await?,
        );
        let order: Vec<String> = found.clustering.iter().map(|c| c.name.clone()).collect();
        if !own.has_keys_of(&found, &order) || order.len() != own.clustering.len() {
            bail!("{name} is no copy of {of}: it is not dropped");
        }
        cluster
            .run(&format!("DROP TABLE IF EXISTS {}", name.to_cql()))
            .await?;
    }
    match &*table::names(cluster, &name.keyspace).await? {
        [] => {
            let keyspace = name.keyspace.to_cql();
            cluster
                .run(&format!("DROP KEYSPACE IF EXISTS {keyspace}"))
                .await
        }
        others => {
            eprintln!(
                "helenus: keyspace {} has other tables ({}) and is not dropped",
                name.keyspace,
                others.join(", ")
            );
            Ok(())
        }
    }
}

fn report(name: &TableName, dropped: &[(String, TableName)], done: &Done, as_json: bool) {
    let names: Vec<&str> = dropped.iter().map(|(layout, _)| &**layout).collect();
    if as_json {
        let report = json!({
            "table": name.to_string(),
            "dropped": names,
            "rows": done.rows,
            "stopped_s": done.stopped.map(|stopped| stopped.as_secs_f64()),
        });
        println!("{report:#}");
        return;
    }
    println!("dropped from {name}: {}", names.join(", "));
    match (done.rows, done.stopped) {
        (Some(rows), Some(stopped)) => println!(
            "{rows} rows are back in the table; clients could not use it for {:.1} s",
            stopped.as_secs_f64()
        ),
        (Some(rows), None) => println!("{rows} rows are back in the table"),
        (None, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{Copies, Members};

    use super::*;

    #[test]
    fn a_copy_is_not_taken_for_a_table_that_has_all_rows() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let row = |list| lists::CopiesRow {
            table: name.to_string(),
            owners: Vec::new(),
            ranges: None,
            list: Ok(list),
            changed_ms: None,
        };
        let both = Copies::new(Members::first(2), [7, 8, 0, 0, 0, 0]);
        let joined = both.join(TABLE, 0).expect("it is out");
        let all = joined.promote(TABLE, 2).expect("it joins");
        let check = |of: &[Copies]| {
            let rows = of.iter().copied().map(row).collect();
            check_table_is_out(&name, &stage::Standing::of(5, Stage::Returning, rows))
        };
        for of in [&[][..], &[both], &[all, both], &[all, joined]] {
            check(of).expect("it is not in sync everywhere");
        }
        let told = check(&[all, all]).expect_err("in sync");
        assert!(told.to_string().contains("without --from"), "{told}");
    }
}
