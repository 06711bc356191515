//! `helenus layouts drop --undo`: a `drop --all` that has not come to its end is given up, and clients use the copies again.
//!
//! While copies are in sync beside the table, it is taken out of the lists, and emptied ([`super::returning`]). Otherwise
//! nothing was acknowledged since the lists were taken away, so the copies that had all rows then still have them. The
//! others come back by `rebuild`: how long they had been out was forgotten with the lists.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use helenus_rows::TableName;
use serde_json::json;

use super::super::catalogue::Partition;
use super::super::work::Work;
use super::emptying::{empty, empty_again};
use super::returning;
use super::sources::source;
use super::stage::{self, Stage, Standing};
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
            Some(returning::undo(cluster, of, standing, settle).await?)
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
