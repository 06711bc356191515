//! `helenus layouts distrust`: takes layouts out of reading, because somebody is about to change the table past the proxies.

use anyhow::Result;
use clap::Args;
use helenus_catalogue::Layout;
use helenus_catalogue::change::Change;
use helenus_rows::TableName;
use serde_json::json;

use super::entry::begun_anew;
use super::verdict::chosen;
use crate::catalogue;
use crate::catalogue::settle::{Others, Settle};
use crate::nodes::access::Access;

/// Let nobody read layouts, for as long as they may not have the rows of their table. They are written as before.
///
/// To be run before rows are restored, refreshed or loaded past the proxies. `rebuild` fills them anew.
#[derive(Args)]
pub struct DistrustArgs {
    /// KEYSPACE.TABLE
    table: TableName,
    /// Only this layout; may be repeated [default: all]
    #[arg(long = "layout", value_name = "NAME")]
    layouts: Vec<String>,
    #[command(flatten)]
    access: Access,
    /// Do not wait for proxies, because none is running
    #[arg(long, hide = true)]
    no_proxies: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub async fn run(args: DistrustArgs) -> Result<()> {
    let cluster = args.access.connect().await?;
    let table = &args.table;
    let known = catalogue::read(&cluster, table).await?;
    let chosen = chosen(known.layouts(), &args.layouts, table)?;
    // Also those that are not read yet: a command that fills one must not open it any more.
    let closed: Vec<Layout> = chosen.iter().map(begun_anew).collect();
    let changes: Vec<Change<'_>> = closed.iter().map(Change::PutLayout).collect();
    catalogue::change(&cluster, table, &known, &changes).await?;
    let settle = Settle::of(&cluster, Others::of(args.no_proxies, false)).await;
    let settle = settle.with_derived(closed.iter().any(Layout::is_derived));
    settle.wait("no longer read").await;
    let names: Vec<&str> = closed.iter().map(|layout| &*layout.name).collect();
    match args.json {
        true => println!(
            "{:#}",
            json!({ "table": table.to_string(), "distrusted": names })
        ),
        false => println!(
            "nobody reads {} of {table} until `helenus layouts rebuild {table}` has filled them anew",
            names.join(", ")
        ),
    }
    Ok(())
}
