//! The table is emptied, once its rows are in the copies and nobody goes by what it has.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use helenus_rows::TableName;
use scylla::statement::Consistency;

use super::super::catalogue::{self, Entry, Mode};
use super::super::ranges;
use super::stage::{self, Stage};
use crate::online::cluster::Cluster;
use crate::online::reading::Reader;
use crate::online::settle::{Emptying, Settle};
use crate::online::table;

/// With `commitlog_sync: periodic` a node has on disk what it has acknowledged so long ago, by default.
const COMMIT_LOG_SYNC: Duration = Duration::from_secs(10);
/// By then also no proxy relies on a list with the table in sync, and what was sent by such a list has arrived.
const NOBODY_LEFT: Duration = Duration::from_secs(17);

/// Empties the table. All its rows are in the copies, and no proxy that knows the catalogue reads it.
pub(super) async fn empty(
    cluster: &Cluster,
    name: &TableName,
    entries: &[Entry],
    (level, settle, is_resumed): (Consistency, Settle, bool),
) -> Result<()> {
    let table = table::load(cluster, name).await?;
    let reader = Reader::new(cluster, &table, name, level).await?;
    if !reader.is_empty().await? {
        // What was copied last is in the commit logs by then.
        let wait = match settle.is_needed() {
            true => NOBODY_LEFT,
            false => COMMIT_LOG_SYNC,
        };
        tokio::time::sleep(wait).await;
        let now = catalogue::read(cluster, name).await?;
        now.check_unchanged(name, entries)?;
        let standing = stage::read(cluster, name).await?;
        if now.mode(name)? != Mode::Replace || standing.stage(name)? != Some(Stage::Open) {
            bail!("another command is at work on {name}: see `helenus layouts status {name}`");
        }
        let truncate = format!("TRUNCATE {}", name.to_cql());
        cluster.run(&truncate).await.with_context(|| {
            format!(
                "clients use the copies of {name}, but the table itself is not empty yet: run this again"
            )
        })?;
    }
    if is_resumed && settle.is_needed() {
        // Whoever was at it may have sent a TRUNCATE, which must not come after a `drop`.
        let more = settle.for_emptying(Emptying::Perhaps);
        settle.wait_longer(more, "the table is emptied").await;
    }
    let standing = stage::read(cluster, name).await?;
    if standing.stage(name)? != Some(Stage::InUse) {
        stage::use_them(cluster, name, &standing).await?;
    }
    for entry in entries {
        ranges::forget(cluster, name, &entry.layout).await?;
    }
    Ok(())
}
