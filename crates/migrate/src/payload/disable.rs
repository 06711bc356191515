//! `helenus payload disable`: takes an encoded column back to texts, while it is in use.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use helenus_catalogue::{Feature, Form};
use helenus_cql::fold_identifier;
use helenus_rows::TableName;
use serde_json::json;

use super::entry::{self, PROGRESS};
use super::journey::{Journey, take_over};
use super::pace::Pace;
use super::{proxies, target};
use crate::catalogue::settle::Settle;
use crate::catalogue::{self, flags};
use crate::common::Common;
use crate::nodes::access::Access;
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

/// Take an encoded column back to texts, while clients use it.
///
/// An interrupted run is taken up by the same command; `enable` turns it back.
#[derive(Args)]
pub struct DisableArgs {
    /// KEYSPACE.TABLE
    table: TableName,
    /// The column, as cqlsh shows its name
    column: String,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    common: Common,
}

pub async fn run(args: DisableArgs) -> Result<()> {
    let begin = Instant::now();
    let cluster = args.access.connect().await?;
    cluster.check_partitioner().await?;
    args.pace.check_nodes(&cluster).await?;
    let column = fold_identifier(&args.column);
    let name = &args.table;
    if forget_lost(&cluster, name).await? {
        println!("{name} has no encoded columns: that it had any is forgotten");
        return Ok(());
    }
    let known = catalogue::read(&cluster, name).await?;
    let Some(entry) = known.encoding(&column) else {
        if flags::lower(&cluster, name, Feature::Encodings, &BTreeSet::new()).await? {
            println!("{name}: what an interrupted run had left is gone");
            return Ok(());
        }
        bail!(
            "column {column} of {name} is not encoded: `helenus payload status {name}` lists those that are"
        );
    };
    if !table::exists(&cluster, &name.keyspace, &name.table).await? {
        // It was dropped, and nothing is left to be moved.
        entry::remove(&cluster, name, &known, &column).await?;
        PROGRESS.forget(&cluster, name, &column).await?;
        flags::lower(&cluster, name, Feature::Encodings, &BTreeSet::new()).await?;
        println!("{name} does not exist any more: {column} is out of the catalogue");
        return Ok(());
    }
    let table = table::load(&cluster, name).await?;
    if !args.common.no_proxies {
        proxies::check(&cluster).await?;
    }
    let others = args.common.others(entry::is_under_way(entry));
    let entry = take_over(&cluster, &table, &known, entry, Form::Text).await?;
    let mut journey = Journey {
        cluster: &cluster,
        table: &table,
        entry,
        settle: Settle::of(&cluster, others).await,
        has_proxies: !args.common.no_proxies,
        pace: &args.pace,
    };
    let moved = journey.decode().await?;
    flags::lower(&cluster, name, Feature::Encodings, &BTreeSet::new()).await?;
    let values = moved.values.load(Ordering::Relaxed);
    let seconds = begin.elapsed().as_secs_f64();
    args.common.print(
        &json!({
            "table": name.to_string(),
            "column": column.as_str(),
            "state": null,
            "values_moved": values,
            "seconds": seconds,
        }),
        &format!(
            "{name} {column}: texts again, {values} values moved in {seconds:.1} s. What was learned stays in \
             helenus.dictionaries, for backups of the table from before"
        ),
    );
    Ok(())
}

/// Takes the flag from a table of which the catalogue has lost what it said, if no column of it can hold encoded values:
/// then nothing of that is needed. Whether that was so.
async fn forget_lost(cluster: &Cluster, name: &TableName) -> Result<bool> {
    let key = catalogue::key(name);
    let mut lost = catalogue::lost(cluster).await?;
    lost.retain(|flag| flag.feature == Feature::Encodings && flag.table == key);
    if lost.is_empty() {
        return Ok(false);
    }
    if table::exists(cluster, &name.keyspace, &name.table).await?
        && target::may_be_encoded(&table::load(cluster, name).await?)
    {
        return Ok(false);
    }
    flags::lower(cluster, name, Feature::Encodings, &lost).await
}
