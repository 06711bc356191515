//! `helenus layouts truncate`: empties a table and its layouts while clients use it.
//!
//! Cassandra empties one table after the other, and each replica at another moment, so a write in between may stay in the
//! table alone, or in a layout alone. Layouts are therefore not read from before until they have been filled and compared like
//! those that are made anew.

use anyhow::{Result, bail};
use clap::Args;
use helenus_catalogue::change::Change;
use helenus_catalogue::{Feature, Layout, LayoutState};
use helenus_rows::{Table, TableName};
use serde_json::json;

use super::entry::{begun_anew, check_unchanged, claim, table_of};
use super::fill::Filled;
use super::following::copy_grants;
use super::verdict::{check_copies, chosen};
use super::work::Work;
use super::{fill, ranges, rules};
use crate::catalogue::settle::{Emptying, Others, Settle};
use crate::catalogue::{self, flags};
use crate::nodes::access::Access;
use crate::nodes::cluster::Cluster;
use crate::nodes::{hints, table};

const HINTS_LEFT: &str = "table and layouts have been emptied, and layouts cannot be filled yet, because a hint may bring a row \
                          to the table alone";

/// Empty a table and its layouts, while clients use the table. Layouts are not read meanwhile.
///
/// What clients write at that moment is kept or lost as by TRUNCATE itself, and is the same in the layouts afterwards. Needs
/// all nodes. After an interruption `rebuild` goes on; the same command empties the table once more.
#[derive(Args)]
pub struct TruncateArgs {
    /// KEYSPACE.TABLE
    table: TableName,
    /// Do it: all rows of the table are lost
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    work: Work,
    /// Do not wait for proxies, because none is running
    #[arg(long, hide = true)]
    no_proxies: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub async fn run(args: TruncateArgs) -> Result<()> {
    let cluster = args.access.connect().await?;
    cluster.check_partitioner().await?;
    let name = &args.table;
    let own = table::load(&cluster, name).await?;
    rules::check(&own, &cluster).await?;
    let known = catalogue::read(&cluster, name).await?;
    let chosen = chosen::<String>(known.layouts(), &[], name)?;
    let away = cluster.away().await;
    if !away.is_empty() {
        bail!(
            "{} cannot be reached, and TRUNCATE needs all nodes",
            away.join(", ")
        );
    }
    check_copies(&cluster, &own, &chosen).await?;
    refuse_untimed(&own, &chosen)?;
    if !args.yes {
        bail!("all rows of {name} and of its layouts would be lost. To go on: --yes");
    }
    // A `drop` that was interrupted has taken the right to read, and maybe the flag.
    let tables: Vec<TableName> = chosen.iter().map(|entry| table_of(entry, name)).collect();
    copy_grants(&cluster, name, &tables, cluster.role.as_deref()).await?;
    flags::raise(&cluster, name, Feature::Layouts).await?;
    let (entries, settle) = put_aside(&cluster, name, &chosen, args.no_proxies).await?;
    empty(&cluster, name, &entries).await?;
    if entries.iter().any(Layout::is_derived) {
        // A layout is written beside its table: what was lost with the old rows may come to the table only now.
        settle.wait("in the table what was written meanwhile").await;
    }
    hints::wait_for_none(&cluster, hints::unseen_max(&cluster), HINTS_LEFT).await?;
    // A column that was added or dropped meanwhile.
    cluster.agree().await?;
    let own = table::load(&cluster, name).await?;
    check_copies(&cluster, &own, &entries).await?;
    let filled = fill::fill(&cluster, &own, &entries, &args.work).await?;
    copy_grants(&cluster, name, &tables, None).await?;
    fill::open(&cluster, &own, &entries, &filled).await?;
    for entry in &entries {
        ranges::forget(&cluster, name, &entry.name).await?;
    }
    report(&args, &entries, &filled);
    Ok(())
}

/// Waits until nobody reads the layouts, which are written under new numbers from then on.
async fn put_aside(
    cluster: &Cluster,
    table: &TableName,
    chosen: &[Layout],
    no_proxies: bool,
) -> Result<(Vec<Layout>, Settle)> {
    let known = catalogue::read(cluster, table).await?;
    check_unchanged(&known, table, chosen)?;
    let entries: Vec<Layout> = chosen.iter().map(begun_anew).collect();
    let changes: Vec<Change<'_>> = entries.iter().map(Change::PutLayout).collect();
    catalogue::change(cluster, table, &known, &changes).await?;
    // Another may be emptying one of them, which must not happen to what is filled here.
    let is_filling = |entry: &Layout| entry.state() != Some(LayoutState::Ready);
    let is_filling = chosen.iter().any(is_filling);
    let emptying = match is_filling {
        true => Emptying::Perhaps,
        false => Emptying::No,
    };
    let settle = Settle::of(cluster, Others::of(no_proxies, is_filling)).await;
    let settle = settle.with_derived(chosen.iter().any(Layout::is_derived));
    let more = settle.for_emptying(emptying);
    settle.wait_longer(more, "no longer read").await;
    Ok((entries, settle))
}

/// Rows that clients write between the TRUNCATEs are copied with their times of writing.
fn refuse_untimed(table: &Table, layouts: &[Layout]) -> Result<()> {
    let Some(column) = table.untimed().filter(|_| !layouts.is_empty()) else {
        return Ok(());
    };
    bail!(
        "column {} of {} is a {}, of which CQL does not tell when it was written, so rows that clients write meanwhile \
         could not be copied: drop the layouts, TRUNCATE the table, and create them again",
        column.name,
        table.name,
        column.cql_type
    )
}

/// The table first: what is left in it is copied afterwards.
async fn empty(cluster: &Cluster, table: &TableName, entries: &[Layout]) -> Result<()> {
    let claim = claim(cluster, table, entries);
    let layouts = entries.iter().map(|entry| table_of(entry, table));
    for emptied in std::iter::once(table.clone()).chain(layouts) {
        claim.renew().await?;
        cluster
            .run(&format!("TRUNCATE {}", emptied.to_cql()))
            .await?;
    }
    Ok(())
}

fn report(args: &TruncateArgs, entries: &[Layout], filled: &Filled) {
    let names: Vec<&str> = entries.iter().map(|entry| &*entry.name).collect();
    if args.json {
        let report = json!({
            "table": args.table.to_string(),
            "layouts": names,
            "rows_written_meanwhile": filled.rows,
        });
        println!("{report:#}");
        return;
    }
    println!(
        "{} and its layouts {} have been emptied; {} rows were written meanwhile",
        args.table,
        names.join(", "),
        filled.rows
    );
}
