//! `helenus layouts distrust`: takes layouts out of reading, because somebody is about to change the table past the proxies.

use anyhow::Result;
use clap::Args;
use helenus_catalogue::Layout;
use serde_json::json;

use super::entry::{begun_anew, put};
use super::work::Choice;
use crate::catalogue;
use crate::catalogue::settle::Settle;
use crate::common::Common;
use crate::nodes::access::Access;

/// Let nobody read layouts, for as long as they may not have the rows of their table. They are written as before.
///
/// To be run before rows are restored, refreshed or loaded past the proxies. `rebuild` fills them anew.
#[derive(Args)]
pub struct DistrustArgs {
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    common: Common,
}

pub async fn run(args: DistrustArgs) -> Result<()> {
    let cluster = args.access.connect().await?;
    let table = &args.choice.table;
    let known = catalogue::read(&cluster, table).await?;
    // Also those that are not read yet: a command that fills one must not open it any more.
    let closed: Vec<Layout> = args.choice.among(&known)?.iter().map(begun_anew).collect();
    put(&cluster, table, &known, &closed).await?;
    let settle = Settle::of(&cluster, args.common.others(false)).await;
    let settle = settle.with_derived(closed.iter().any(Layout::is_derived));
    settle.wait("no longer read").await;
    let names: Vec<&str> = closed.iter().map(|layout| &*layout.name).collect();
    args.common.print(
        &json!({ "table": table.to_string(), "distrusted": names }),
        &format!(
            "nobody reads {} of {table} until `helenus layouts rebuild {table}` has filled them anew",
            names.join(", ")
        ),
    );
    Ok(())
}
