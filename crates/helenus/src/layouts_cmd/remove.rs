//! `helenus layouts drop`: takes layouts out of use, then drops their tables.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use helenus_rows::{TableName, in_keyspace};
use serde_json::json;

use super::catalogue::{self, Change, Entry};
use super::names;
use super::ranges;
use crate::online::access::Access;
use crate::online::cluster::Cluster;
use crate::online::hints;
use crate::online::settle::Settle;
use crate::online::table;

/// A write to a table with layouts is one mutation for all of them, and so is its hint. A node that gets a hint
/// with a table that no longer exists throws the whole of it away, what is in it for the table itself included.
const HINTS_LEFT: &str = "the layout's table cannot be dropped yet, because hints of writes to the table would \
     be lost with it. The layout is neither read nor written any more";

/// Drop layouts of a table. The table itself is not touched.
#[derive(Args)]
pub(super) struct DropArgs {
    /// KEYSPACE.TABLE
    table: TableName,
    /// The layout; may be repeated
    #[arg(long = "layout", value_name = "NAME", required_unless_present = "all")]
    layouts: Vec<String>,
    /// All layouts of the table
    #[arg(long, conflicts_with = "layouts")]
    all: bool,
    #[command(flatten)]
    access: Access,
    /// Do not wait for proxies, because none is running
    #[arg(long, hide = true)]
    no_proxies: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: DropArgs) -> Result<()> {
    let cluster = args.access.connect().await?;
    let table = &args.table;
    let known = catalogue::read(&cluster, table).await?;
    let names: Vec<String> = match args.all {
        true => known.entries.iter().map(|e| e.layout.clone()).collect(),
        false => args.layouts.clone(),
    };
    let mut tables = Vec::new();
    for name in &names {
        match known.entry(name) {
            Some(entry) => tables.push(entry.physical.clone()),
            // Its entry may be gone already, and only its table be left.
            None => tables.push(left_behind(&cluster, table, name).await?),
        }
    }
    if names.is_empty() {
        bail!("{table} has no layouts");
    }
    let settle = Settle::of(&cluster, args.no_proxies).await;
    let chosen = known.entries.iter().filter(|e| names.contains(&e.layout));
    // Also those that are not read: a command that fills one must not open it any more.
    let closed: Vec<Entry> = chosen.map(Entry::begun_anew).collect();
    if !closed.is_empty() {
        let changes: Vec<Change<'_>> = closed.iter().map(Change::Put).collect();
        catalogue::change(&cluster, table, &known, &changes).await?;
    }
    // Also if an interrupted run had made this change: it may have been a moment ago.
    settle.wait("no longer read").await;
    let known = catalogue::read(&cluster, table).await?;
    known.check_unchanged(table, &closed)?;
    let changes: Vec<Change<'_>> = closed.iter().map(|e| Change::Remove(&e.layout)).collect();
    if !changes.is_empty() {
        catalogue::change(&cluster, table, &known, &changes).await?;
    }
    settle.wait("no longer written").await;
    let quiet = match args.no_proxies {
        true => Duration::ZERO,
        false => hints::unseen_max(&cluster),
    };
    hints::wait_for_none(&cluster, quiet, HINTS_LEFT).await?;
    let mut kept = Vec::new();
    for (name, physical) in names.iter().zip(&tables) {
        let full = in_keyspace(&table.keyspace, physical);
        match names::is_of_layout(&table.table, name, physical) {
            true => {
                check_unused(&cluster, table, name, physical).await?;
                cluster.run(&format!("DROP TABLE IF EXISTS {full}")).await?;
            }
            // Whatever wrote that: the table of somebody else is not dropped.
            false => kept.push(full),
        }
        if catalogue::exists(&cluster).await? {
            ranges::forget(&cluster, table, name).await?;
        }
    }
    for full in &kept {
        eprintln!(
            "helenus: the catalogue had {full} as the table of a layout of {table}, which layouts are never \
             named: it is not dropped"
        );
    }
    if args.json {
        let report = json!({ "table": table.to_string(), "dropped": names });
        println!("{report:#}");
    } else {
        println!("dropped from {table}: {}", names.join(", "));
    }
    Ok(())
}

/// Fails if the catalogue has it again. Since it was taken out, or was found in no catalogue, minutes may
/// have passed, and `create` takes over an empty table that is a copy.
async fn check_unused(
    cluster: &Cluster,
    table: &TableName,
    layout: &str,
    physical: &str,
) -> Result<()> {
    let now = catalogue::read(cluster, table).await?;
    now.check_free(table, layout, physical)?;
    let name = TableName {
        keyspace: table.keyspace.clone(),
        table: helenus_cql::Name::from_stored(physical),
    };
    match catalogue::original(cluster, &name).await? {
        None => Ok(()),
        Some(other) => bail!("{name} is not dropped: it holds a layout of {other}"),
    }
}

/// The table of a layout that the catalogue does not have, if that is what it is.
async fn left_behind(cluster: &Cluster, table: &TableName, layout: &str) -> Result<String> {
    names::check_layout(layout)?;
    let physical = names::physical(&table.table, layout)?;
    check_unused(cluster, table, layout, &physical).await?;
    if !table::exists(cluster, &table.keyspace, &physical).await? {
        bail!("{table} has no layout {layout}: `helenus layouts status {table}` lists them");
    }
    let own = table::load(cluster, table).await?;
    let name = TableName {
        keyspace: table.keyspace.clone(),
        table: helenus_cql::Name::from_stored(physical.as_str()),
    };
    let found = table::load(cluster, &name).await?;
    let order: Vec<String> = found.clustering.iter().map(|c| c.name.clone()).collect();
    // It may lack what the table has got since.
    if !own.has_keys_of(&found, &order) || found.lacking(&own).next().is_some() {
        bail!("{name} is not in the catalogue and no copy of {table}: it is not touched");
    }
    Ok(physical)
}
