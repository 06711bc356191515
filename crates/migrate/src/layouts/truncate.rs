//! `helenus layouts truncate`: empties a table and its layouts while clients use it.
//!
//! Cassandra empties one table after the other, and each replica at another moment, so a write in between may stay in the
//! table alone, or in a layout alone. Layouts are therefore not read from before until they have been filled and compared like
//! those that are made anew.

use anyhow::{Result, bail};
use clap::Args;
use helenus_catalogue::{Feature, Layout};
use helenus_rows::{Table, TableName};
use serde_json::json;

use super::entry::tables_of;
use super::fill::{self, Filled};
use super::following::copy_grants;
use super::rules;
use super::verdict::check_copies;
use super::work::{Work, chosen};
use crate::catalogue::{self, flags};
use crate::common::Common;
use crate::nodes::access::Access;
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
    #[command(flatten)]
    common: Common,
}

pub async fn run(args: TruncateArgs) -> Result<()> {
    let cluster = args.access.connect().await?;
    cluster.check_partitioner().await?;
    let name = &args.table;
    let own = table::load(&cluster, name).await?;
    rules::check(&own, &cluster).await?;
    let known = catalogue::read(&cluster, name).await?;
    let chosen = chosen::<String>(&known, &[], name)?;
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
    let tables = tables_of(&chosen, name);
    copy_grants(&cluster, name, &tables, cluster.role.as_deref()).await?;
    flags::raise(&cluster, name, Feature::Layouts).await?;
    let (settle, more) = fill::settle(&cluster, &chosen, &args.common).await;
    let entries = fill::put_aside(&cluster, name, &chosen, settle, more).await?;
    // The table first: what is left in it is copied afterwards.
    let tables = [std::slice::from_ref(name), &tables[..]].concat();
    fill::empty(&cluster, name, &entries, &tables).await?;
    if entries.iter().any(Layout::is_derived) {
        // A layout is written beside its table: what was lost with the old rows may come to the table only now.
        settle.wait("in the table what was written meanwhile").await;
    }
    hints::wait_for_none(&cluster, hints::unseen_max(&cluster), HINTS_LEFT).await?;
    let filled = fill::refill(&cluster, name, &entries, &args.work).await?;
    report(&args, &entries, &filled);
    Ok(())
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

fn report(args: &TruncateArgs, entries: &[Layout], filled: &Filled) {
    let names: Vec<&str> = entries.iter().map(|entry| &*entry.name).collect();
    let (table, rows) = (args.table.to_string(), filled.rows);
    let text = format!(
        "{table} and its layouts {} have been emptied; {rows} rows were written meanwhile",
        names.join(", ")
    );
    let report = json!({ "table": table, "layouts": names, "rows_written_meanwhile": rows });
    args.common.print(&report, &text);
}
