//! `helenus layouts rebuild`: empties a layout and fills it anew, or makes it anew if it is gone.

mod of_table;

use anyhow::Result;
use clap::Args;
use helenus_catalogue::{Feature, Layout};
use helenus_rows::Table;
use serde_json::json;

use super::entry::{check_unchanged, claim, put, tables_of};
use super::fill::{self, Filled};
use super::following::copy_grants;
use super::replication::{self, Replication};
use super::verdict::check_copies;
use super::work::{Choice, Work};
use super::{rules, tables};
use crate::catalogue::settle::Settle;
use crate::catalogue::{self, flags, now_ms};
use crate::common::Common;
use crate::nodes::access::Access;
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

/// Empty layouts and fill them anew, while clients use the table. They are not read meanwhile.
///
/// A derived layout whose table is gone is made anew. With --table, the other way: rows that a table has lost are copied
/// from a derived layout.
#[derive(Args)]
pub struct RebuildArgs {
    #[command(flatten)]
    choice: Choice,
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
    #[command(flatten)]
    common: Common,
}

pub async fn run(args: RebuildArgs) -> Result<()> {
    let cluster = args.access.connect().await?;
    cluster.check_partitioner().await?;
    let name = &args.choice.table;
    if let Some(from) = &args.from {
        let (work, has_agreed) = (&args.work, args.yes);
        let done = of_table::run(&cluster, name, from, work, has_agreed).await?;
        done.print(&args.common);
        return Ok(());
    }
    let table = table::load(&cluster, name).await?;
    rules::check(&table, &cluster).await?;
    let known = catalogue::read(&cluster, name).await?;
    args.work.check_nodes(&cluster).await?;
    let chosen = args.choice.among(&known)?;
    let gone = tables::gone(&cluster, name, &chosen).await?;
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
    rules::refuse_untimed(&cluster, &table, name, &args.work).await?;
    // A `drop` that was interrupted has taken the right to read. Whoever may not give it is refused before anything is emptied.
    let role = cluster.role.as_deref();
    let tables_there = tables_of(&there, name);
    copy_grants(&cluster, name, &tables_there, role).await?;
    flags::raise(&cluster, name, Feature::Layouts).await?;
    let (settle, more) = fill::settle(&cluster, &chosen, &args.common).await;
    let chosen = match gone.is_empty() {
        true => chosen,
        false => make_anew(&cluster, &table, &chosen, &gone, replication, settle).await?,
    };
    let entries = fill::put_aside(&cluster, name, &chosen, settle, more).await?;
    fill::empty(&cluster, name, &entries, &tables_there).await?;
    if there.iter().any(Layout::is_derived) {
        // A layout is written beside its table: what was lost with the old rows may come to the table only now.
        settle.wait("in the table what was written meanwhile").await;
    }
    let filled = fill::refill(&cluster, name, &entries, &args.work).await?;
    report(&args, &entries, &filled);
    Ok(())
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
    put(cluster, name, &known, &gone).await?;
    settle.wait("no longer read or written").await;
    claim(cluster, name, &gone).renew().await?;
    tables::make_anew(cluster, table, &gone, replication).await?;
    let role = cluster.role.as_deref();
    copy_grants(cluster, name, &tables_of(&gone, name), role).await?;
    Ok([there, gone].concat())
}

fn report(args: &RebuildArgs, entries: &[Layout], filled: &Filled) {
    let names: Vec<&str> = entries.iter().map(|e| &*e.name).collect();
    let (table, rows) = (args.choice.table.to_string(), filled.rows);
    let seconds = filled.time.as_secs_f64();
    let text = format!(
        "rebuilt {} of {table}: {rows} rows in {seconds:.1} s",
        names.join(", ")
    );
    let report = json!({ "table": table, "rebuilt": names, "rows": rows, "seconds": seconds });
    args.common.print(&report, &text);
}
