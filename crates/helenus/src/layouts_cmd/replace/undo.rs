//! `helenus layouts drop --undo`: a `drop --all` that has not come to its end is given up, and clients use the copies again.
//!
//! While copies are in sync beside the table, it is taken out of the lists, and emptied. Otherwise
//! nothing was acknowledged since the lists were taken away, so the copies that had all rows then still have them. The
//! others come back by `rebuild`: how long they had been out was forgotten with the lists.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use helenus_layout::insync::{Copies, Members, State as CopyState, TABLE};
use helenus_rows::TableName;
use serde_json::json;

use super::super::catalogue::{Entry, Partition, State};
use super::super::work::Work;
use super::emptying::{empty, empty_again};
use super::joining::restarted;
use super::returning::{set, take_over_notes};
use super::sources::source;
use super::stage::{self, Stage, Standing};
use super::switch::{ATTEMPTS, Switch, without};
use super::waiting::{PAUSE, Waiting};
use super::{check_tables, checks, nodes, ring};
use crate::online::cluster::Cluster;
use crate::online::settle::Settle;
use crate::online::table;

pub(in crate::layouts_cmd) async fn run(
    cluster: &Cluster,
    name: &TableName,
    known: &Partition,
    (no_proxies, json): (bool, bool),
) -> Result<()> {
    for entry in &known.entries {
        checks::check_name(name, entry)?;
    }
    let settle = Settle::of(cluster, no_proxies).await;
    let standing = stage::read(cluster, name).await?;
    let stage = standing.stage(name)?;
    match stage {
        Some(Stage::Draining | Stage::Returning) if !known.entries.is_empty() => {}
        Some(Stage::Open) => {}
        Some(Stage::Closing) => bail!(
            "clients use {name} itself by now: finish it (helenus layouts drop {name} --all), then create the layouts again"
        ),
        _ => bail!("{name} is not being dropped: see `helenus layouts status {name}`"),
    }
    Work::of_all().check_nodes(cluster).await?;
    let created = standing.next(known);
    let level = Work::of_all().level();
    let mut out = Vec::new();
    let known = match stage {
        Some(Stage::Draining) => {
            let with = (&standing, created, settle);
            let (known, left) = reopen(cluster, name, known, with).await?;
            out = left;
            Some(known)
        }
        Some(Stage::Returning) => {
            let of = (name, known.clone(), created);
            Some(take_table_out(cluster, of, standing, settle).await?)
        }
        _ => {
            let of = (name, known, created);
            empty_again(cluster, of, &standing, (level, settle)).await?;
            None
        }
    };
    if let Some(known) = known {
        let of = (name, &*known.entries, created);
        empty(cluster, of, (level, settle, false)).await?;
    }
    match json {
        true => println!(
            "{:#}",
            json!({ "table": name.to_string(), "undone": true, "out": out })
        ),
        false => println!("clients use the copies of {name} again"),
    }
    Ok(())
}

/// Adds the lists again. Also the layouts that are not in sync.
async fn reopen(
    cluster: &Cluster,
    name: &TableName,
    known: &Partition,
    (standing, created, settle): (&Standing, i64, Settle),
) -> Result<(Partition, Vec<String>)> {
    let own = table::load(cluster, name).await?;
    check_tables(cluster, &own, &known.entries).await?;
    let nodes = nodes::read(cluster).await?;
    let data_centers = super::data_centers(cluster, name, &known.entries).await?;
    let groups = nodes::groups(&nodes, &data_centers)?;
    // A copy is in sync only on the nodes that had its ranges then.
    let is_same = match standing.ring {
        Some(number) => number == ring::number(&groups),
        // An earlier version has noted no more than the nodes.
        None => {
            let owners: BTreeSet<&String> = groups.keys().flatten().collect();
            owners.into_iter().eq(standing.boots.keys())
        }
    };
    if !is_same {
        bail!(
            "the ring has changed since clients used the copies of {name}: bring the rows back to the table (helenus \
             layouts drop {name} --all)"
        );
    }
    let kept = (&*standing.sources, &standing.boots, None);
    source(cluster, (name, known), kept, &nodes).await?;
    stage::claim(cluster, name, (standing, Stage::Draining), created).await?;
    let known = super::take_over(cluster, name, known, created).await?;
    settle.wait("what was being copied back arrives").await;
    let standing = stage::read(cluster, name).await?;
    if standing.created != Some(created) || standing.stage(name)? != Some(Stage::Draining) {
        bail!("another command is at work on {name}: see `helenus layouts status {name}`");
    }
    let in_sync = (standing.sources.iter().copied().collect(), Stage::Open);
    let ring = (&groups, &standing.boots);
    stage::open(cluster, name, &standing, ring, in_sync).await?;
    if settle.is_needed() {
        eprintln!("helenus: clients can use {name} again, and with it its copies");
    }
    let entries = known.entries.iter().enumerate();
    let out = entries.filter(|(number, _)| !standing.sources.contains(number));
    let out: Vec<String> = out.map(|(_, entry)| entry.layout.clone()).collect();
    if !out.is_empty() {
        eprintln!(
            "helenus: not in sync in all ranges before, and to be rebuilt one after the other (helenus layouts rebuild \
             {name} --layout NAME): {}",
            out.join(", ")
        );
    }
    Ok((known, out))
}

/// Whether the table is the only member in sync that has lost nothing.
fn is_table_alone(owners: &[String], list: &Copies, boots: &BTreeMap<String, i32>) -> bool {
    let restarted: Members = restarted(owners, list, boots).collect();
    let sound = list.in_sync().minus(restarted);
    sound == Members::of(TABLE)
}

/// The list without the table, and without copies that were restarted while it has what they may have lost.
fn without_table(
    owners: &[String],
    list: &Copies,
    boots: &BTreeMap<String, i32>,
) -> Result<Copies> {
    let list = match list.state(TABLE) {
        CopyState::InSync => without(list, restarted(owners, list, boots))?,
        CopyState::Joining | CopyState::Out => *list,
    };
    without(&list, [TABLE].into_iter())
}

/// What proxies that are gone have left in the table only, somebody may have read there.
async fn wait_until_made_good(cluster: &Cluster) -> Result<()> {
    let mut waiting = Waiting::begin(cluster).await?;
    while !waiting.is_made_good(cluster).await? {
        tokio::time::sleep(PAUSE).await;
    }
    waiting.end();
    Ok(())
}

/// The table is taken out of all lists, and is to be emptied: clients go on using the copies.
async fn take_table_out(
    cluster: &Cluster,
    (name, known, created): (&TableName, Partition, i64),
    standing: Standing,
    settle: Settle,
) -> Result<Partition> {
    // If this is interrupted, too, the next `drop` has to know that the table may have been a member.
    take_over_notes(cluster, name, &standing, created).await?;
    stage::claim(cluster, name, (&standing, Stage::Returning), created).await?;
    let known = super::take_over(cluster, name, &known, created).await?;
    let is_ready = |entry: &Entry| entry.state == State::Ready.name();
    let known = match known.entries.iter().all(is_ready) {
        true => known,
        // Before the table is out: they are what is read then.
        false => set(cluster, (name, &known), State::Ready).await?,
    };
    // Also what was being copied has arrived.
    settle.wait("clients use the copies alone").await;
    if settle.is_needed() {
        wait_until_made_good(cluster).await?;
    }
    for _ in 0..ATTEMPTS {
        let standing = stage::read(cluster, name).await?;
        if !standing.is(Some(created), Some(Stage::Returning)) {
            bail!("another command is at work on {name}: see `helenus layouts status {name}`");
        }
        let boots = nodes::boots(cluster).await?;
        let to = |stage| Switch {
            table: name,
            created,
            stage,
            left: None,
        };
        let mut lists = standing.lists.iter();
        let alone = lists.find(|row| {
            let list = row.list.as_ref();
            list.is_ok_and(|list| is_table_alone(&row.owners, list, &boots))
        });
        if let Some(row) = alone {
            // Proxies may not have noticed, if nothing was written there since.
            let again =
                |owners: &[String], list: &Copies| match is_table_alone(owners, list, &boots) {
                    true => without(list, restarted(owners, list, &boots)),
                    false => Ok(*list),
                };
            to(Stage::Returning)
                .is_made(cluster, &standing, again)
                .await?;
            bail!(
                "no copy of {name} is in sync on {} with a node that has not been restarted since, so the table itself is \
                 needed: wait until proxies have brought one back (helenus layouts status {name}), and run this again",
                row.owners.join(", ")
            );
        }
        let copies = |owners: &[String], list: &Copies| without_table(owners, list, &boots);
        if to(Stage::Open).is_made(cluster, &standing, copies).await? {
            return Ok(known);
        }
        tokio::time::sleep(PAUSE).await;
    }
    bail!("the lists of copies of {name} change all the time: run this again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_leaves_only_where_a_copy_has_lost_nothing() {
        let owners = ["a".to_owned(), "b".to_owned()];
        let boots =
            |of: [i32; 2]| -> BTreeMap<String, i32> { owners.iter().cloned().zip(of).collect() };
        let both = Copies::new(Members::first(2), [7, 8, 0, 0, 0, 0]);
        let joined = both.join(TABLE, 0).expect("it is out");
        let all = joined.promote(TABLE, 2).expect("it joins");
        let alone = |list: &Copies, of| is_table_alone(&owners, list, &boots(of));
        let left = |list: &Copies, of| {
            let list = without_table(&owners, list, &boots(of)).expect("somebody stays");
            list.listed()
        };
        assert!(!alone(&all, [7, 8]) && !alone(&all, [7, 9]));
        assert_eq!(left(&all, [7, 8]), Members::first(2));
        assert_eq!(left(&all, [7, 9]), Members::of(0), "it comes back");
        assert!(alone(&all, [6, 9]));
        let again = without(&all, restarted(&owners, &all, &boots([6, 9])));
        assert_eq!(again.expect("the table stays").listed(), Members::of(TABLE));
        // It does not have all that they may have lost.
        assert!(!alone(&joined, [6, 9]) && !alone(&both, [6, 9]));
        assert_eq!(left(&joined, [6, 9]), Members::first(2));
        assert_eq!(left(&both, [6, 9]), Members::first(2));
    }
}
