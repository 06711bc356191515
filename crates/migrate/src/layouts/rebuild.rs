//! `helenus layouts rebuild`: empties a layout and fills it anew, or makes it anew if it is gone.

mod of_table;

use anyhow::Result;
use clap::Args;
use helenus_catalogue::change::Change;
use helenus_catalogue::{Feature, Layout, LayoutState};
use helenus_rows::{Table, TableName};
use serde_json::json;

use super::entry::{begun_anew, check_unchanged, claim, table_of};
use super::fill::Filled;
use super::following::copy_grants;
use super::replication::{self, Replication};
use super::verdict::{check_copies, chosen};
use super::work::Work;
use super::{fill, ranges, rules, tables};
use crate::catalogue::settle::{Emptying, Others, Settle};
use crate::catalogue::{self, flags, now_ms};
use crate::nodes::access::Access;
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

/// Empty layouts and fill them anew, while clients use the table. They are not read meanwhile.
///
/// A derived layout whose table is gone is made anew. With --table, the other way: rows that a table has lost are copied
/// from a derived layout.
#[derive(Args)]
pub struct RebuildArgs {
    /// KEYSPACE.TABLE
    table: TableName,
    /// Only this layout; may be repeated [default: all]
    #[arg(long = "layout", value_name = "NAME")]
    layouts: Vec<String>,
    /// How the keyspace of derived layouts is to be replicated, if it is gone as well
    #[arg(long, value_name = "MAP", value_parser = replication::parse)]
    replication: Option<Replication>,
    /// Fill the table itself, after its replicas were lost, from the layout that --from names
    #[arg(long = "table", requires = "from", conflicts_with_all = ["layouts", "replication"])]
    is_of_table: bool,
    /// The derived layout to fill the table from
    #[arg(long, value_name = "NAME", requires = "is_of_table")]
    from: Option<String>,
    /// Do it, after what --table cannot bring back has been read
    #[arg(long, requires = "is_of_table")]
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

pub async fn run(args: RebuildArgs) -> Result<()> {
    let cluster = args.access.connect().await?;
    cluster.check_partitioner().await?;
    if let Some(from) = &args.from {
        let (work, has_agreed) = (&args.work, args.yes);
        let done = of_table::run(&cluster, &args.table, from, work, has_agreed).await?;
        done.print(args.json);
        return Ok(());
    }
    let table = table::load(&cluster, &args.table).await?;
    rules::check(&table, &cluster).await?;
    let known = catalogue::read(&cluster, &args.table).await?;
    args.work.check_nodes(&cluster).await?;
    let chosen = chosen(known.layouts(), &args.layouts, &args.table)?;
    let gone = tables::gone(&cluster, &args.table, &chosen).await?;
    let there: Vec<Layout> = chosen
        .iter()
        .filter(|entry| !gone.contains(entry))
        .cloned()
        .collect();
    check_copies(&cluster, &table, &there).await?;
    if chosen.iter().any(Layout::is_derived) {
        rules::check_derived(&table)?;
    }
    let replication = args.replication.as_ref();
    tables::missing_keyspaces(&cluster, &chosen, replication).await?;
    fill::refuse_untimed(&cluster, &table, &args.table, &args.work).await?;
    // A `drop` that was interrupted has taken the right to read. Whoever may not give it is refused before anything is emptied.
    let role = cluster.role.as_deref();
    copy_grants(&cluster, &args.table, &names_of(&there, &args.table), role).await?;
    flags::raise(&cluster, &args.table, Feature::Layouts).await?;
    // Another may be emptying one of them, which must not happen to what is filled here.
    let is_filling = |entry: &Layout| entry.state() != Some(LayoutState::Ready);
    let emptying = match chosen.iter().any(is_filling) {
        true => Emptying::Perhaps,
        false => Emptying::No,
    };
    let others = Others::of(args.no_proxies, emptying == Emptying::Perhaps);
    let settle = Settle::of(&cluster, others).await;
    let settle = settle.with_derived(chosen.iter().any(Layout::is_derived));
    let chosen = match gone.is_empty() {
        true => chosen,
        false => make_anew(&cluster, &table, &chosen, &gone, replication, settle).await?,
    };
    // Ranges that were copied before count no longer.
    let known = catalogue::read(&cluster, &args.table).await?;
    check_unchanged(&known, &args.table, &chosen)?;
    let entries: Vec<Layout> = chosen.iter().map(begun_anew).collect();
    let changes: Vec<Change<'_>> = entries.iter().map(Change::PutLayout).collect();
    catalogue::change(&cluster, &args.table, &known, &changes).await?;
    settle
        .wait_longer(settle.for_emptying(emptying), "no longer read")
        .await;
    empty(&cluster, &args.table, &entries, &there).await?;
    if there.iter().any(Layout::is_derived) {
        // A layout is written beside its table: what was lost with the old rows may come to the table only now.
        settle.wait("in the table what was written meanwhile").await;
    }
    // A column that was added meanwhile has lost what was in it.
    cluster.agree().await?;
    let table = table::load(&cluster, &args.table).await?;
    check_copies(&cluster, &table, &entries).await?;
    let filled = fill::fill(&cluster, &table, &entries, &args.work).await?;
    finish(&cluster, &table, &entries, &filled).await?;
    report(&args, &entries, &filled);
    Ok(())
}

fn names_of(entries: &[Layout], table: &TableName) -> Vec<TableName> {
    let names = entries.iter().map(|entry| table_of(entry, table));
    names.collect()
}

/// Makes the tables of derived layouts that are gone, while nobody reads or writes these: who reads one would miss all rows,
/// and who fails to write one would tell that it has missed that. Returns the chosen ones as they are then.
async fn make_anew(
    cluster: &Cluster,
    table: &Table,
    chosen: &[Layout],
    gone: &[Layout],
    replication: Option<&Replication>,
    settle: Settle,
) -> Result<Vec<Layout>> {
    let name = &table.name;
    let known = catalogue::read(cluster, name).await?;
    check_unchanged(&known, name, chosen)?;
    let there = chosen.iter().filter(|entry| !gone.contains(entry));
    let there: Vec<Layout> = there.cloned().collect();
    let now = now_ms();
    let gone: Vec<Layout> = gone.iter().map(|entry| entry.behind(now)).collect();
    let changes: Vec<Change<'_>> = gone.iter().map(Change::PutLayout).collect();
    catalogue::change(cluster, name, &known, &changes).await?;
    settle.wait("no longer read or written").await;
    claim(cluster, name, &gone).renew().await?;
    tables::make_anew(cluster, table, &gone, replication).await?;
    let role = cluster.role.as_deref();
    copy_grants(cluster, name, &names_of(&gone, name), role).await?;
    Ok([there, gone].concat())
}

/// Empties those of the layouts, which are about to be filled, whose tables were there.
async fn empty(
    cluster: &Cluster,
    table: &TableName,
    entries: &[Layout],
    there: &[Layout],
) -> Result<()> {
    let claim = claim(cluster, table, entries);
    for entry in there {
        // Another command may have taken it over meanwhile, also while the one before was emptied: then
        // it may be read, and must not be emptied.
        claim.renew().await?;
        let full = table_of(entry, table).to_cql();
        cluster.run(&format!("TRUNCATE {full}")).await?;
    }
    Ok(())
}

/// Lets proxies read layouts that have been filled.
async fn finish(
    cluster: &Cluster,
    table: &Table,
    entries: &[Layout],
    filled: &Filled,
) -> Result<()> {
    // Again: what was granted or revoked past the proxies meanwhile, and what the role itself needed until now.
    copy_grants(cluster, &table.name, &names_of(entries, &table.name), None).await?;
    fill::open(cluster, table, entries, filled).await?;
    for entry in entries {
        ranges::forget(cluster, &table.name, &entry.name).await?;
    }
    Ok(())
}

fn report(args: &RebuildArgs, entries: &[Layout], filled: &Filled) {
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
}
