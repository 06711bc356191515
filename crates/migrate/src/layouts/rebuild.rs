//! `helenus layouts rebuild`: empties a layout and fills it anew.

use anyhow::Result;
use clap::Args;
use helenus_catalogue::change::Change;
use helenus_catalogue::{Feature, Layout, LayoutState};
use helenus_rows::{TableName, in_keyspace};
use serde_json::json;

use super::entry::{begun_anew, claim, table_of};
use super::following::copy_grants;
use super::verdict::{check_copies, chosen};
use super::work::Work;
use super::{fill, ranges, rules};
use crate::catalogue::settle::{Emptying, Others, Settle};
use crate::catalogue::{self, flags};
use crate::nodes::access::Access;
use crate::nodes::table;

/// Empty layouts and fill them anew, while clients use the table. They are not read meanwhile.
#[derive(Args)]
pub struct RebuildArgs {
    /// KEYSPACE.TABLE
    table: TableName,
    /// Only this layout; may be repeated [default: all]
    #[arg(long = "layout", value_name = "NAME")]
    layouts: Vec<String>,
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

pub async fn run(args: RebuildArgs) -> Result<()> {
    let cluster = args.access.connect().await?;
    cluster.check_partitioner().await?;
    let table = table::load(&cluster, &args.table).await?;
    rules::check(&table, &cluster).await?;
    let known = catalogue::read(&cluster, &args.table).await?;
    args.work.check_nodes(&cluster).await?;
    let chosen = chosen(known.layouts(), &args.layouts, &args.table)?;
    check_copies(&cluster, &table, &chosen).await?;
    fill::refuse_untimed(&cluster, &table, &args.work).await?;
    let tables: Vec<TableName> = chosen
        .iter()
        .map(|entry| table_of(entry, &args.table))
        .collect();
    // A `drop` that was interrupted has taken the right to read. Whoever may not give it is refused before anything is emptied.
    let role = cluster.role.as_deref();
    copy_grants(&cluster, &args.table, &tables, role).await?;
    flags::raise(&cluster, &args.table, Feature::Layouts).await?;
    // Ranges that were copied before count no longer.
    let entries: Vec<Layout> = chosen.iter().map(begun_anew).collect();
    let changes: Vec<Change<'_>> = entries.iter().map(Change::PutLayout).collect();
    catalogue::change(&cluster, &args.table, &known, &changes).await?;
    // Another may be emptying one of them, which must not happen to what is filled here.
    let is_filling = |entry: &Layout| entry.state() != Some(LayoutState::Ready);
    let emptying = match chosen.iter().any(is_filling) {
        true => Emptying::Perhaps,
        false => Emptying::No,
    };
    let others = Others::of(args.no_proxies, emptying == Emptying::Perhaps);
    let settle = Settle::of(&cluster, others).await;
    settle
        .wait_longer(settle.for_emptying(emptying), "no longer read")
        .await;
    let claim = claim(&cluster, &args.table, &entries);
    for entry in &entries {
        // Another command may have taken it over meanwhile, also while the one before was emptied: then
        // it may be read, and must not be emptied.
        claim.renew().await?;
        let full = in_keyspace(&args.table.keyspace, &entry.physical);
        cluster.run(&format!("TRUNCATE {full}")).await?;
    }
    // A column that was added meanwhile has lost what was in it.
    cluster.agree().await?;
    let table = table::load(&cluster, &args.table).await?;
    check_copies(&cluster, &table, &entries).await?;
    let filled = fill::fill(&cluster, &table, &entries, &args.work).await?;
    // Again: what was granted or revoked past the proxies meanwhile, and what the role itself needed until now.
    copy_grants(&cluster, &args.table, &tables, None).await?;
    fill::open(&cluster, &table, &entries, &filled).await?;
    for entry in &entries {
        ranges::forget(&cluster, &args.table, &entry.name).await?;
    }
    let names: Vec<&str> = entries.iter().map(|e| &*e.name).collect();
    if args.json {
        let report = json!({
            "table": args.table.to_string(),
            "rebuilt": names,
            "rows": filled.rows,
            "seconds": filled.time.as_secs_f64(),
        });
        println!("{report:#}");
    } else {
        println!(
            "rebuilt {} of {}: {} rows in {:.1} s",
            names.join(", "),
            args.table,
            filled.rows,
            filled.time.as_secs_f64()
        );
    }
    Ok(())
}
