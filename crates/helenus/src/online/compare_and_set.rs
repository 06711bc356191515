//! Changes of the catalogue: all rows of a table are one partition with a version, and a change counts only if
//! nobody else has changed any of them since they were read.
//!
//! Whoever changes it waits, before relying on the change, until every proxy has heard of it or does
//! nothing ([`super::settle`]).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use helenus_rows::{TableName, literal};
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;

use super::cluster::Cluster;

/// Compare-and-sets that lose against others before it is given up.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(300);

/// The rows of one of the catalogue's tables that are about a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versioned<'a> {
    /// In the keyspace helenus.
    pub name: &'static str,
    pub table: &'a TableName,
}

impl Versioned<'_> {
    /// Carries out these statements if the version is still `known`. False if it is not, or if the statements may
    /// have been carried out or not: reading tells.
    pub(crate) async fn change(
        &self,
        cluster: &Cluster,
        known: Option<i64>,
        statements: &[String],
    ) -> Result<bool> {
        let old = known.map_or("null".to_owned(), |version| version.to_string());
        let new = known.map_or(1, |version| version + 1);
        let mut batch = format!(
            "BEGIN BATCH UPDATE helenus.{} SET version = {new} WHERE {} IF version = {old}; ",
            self.name,
            place(self.table)
        );
        for statement in statements {
            batch.push_str(statement);
            batch.push_str("; ");
        }
        batch.push_str("APPLY BATCH");
        for _ in 0..ATTEMPTS {
            match cluster.is_applied(&batch).await {
                Ok(true) => return Ok(true),
                Ok(false) => break,
                // It may have been applied, or be applied by whoever comes next; reading tells.
                Err(error) => {
                    let now = self.version(cluster).await;
                    let now = now
                        .with_context(|| format!("the catalogue could not be changed: {error}"))?;
                    if now != known {
                        break;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Ok(false)
    }

    /// After all changes that were ever agreed on.
    async fn version(&self, cluster: &Cluster) -> Result<Option<i64>> {
        let mut select = Statement::new(format!(
            "SELECT version FROM helenus.{} WHERE {} LIMIT 1",
            self.name,
            place(self.table)
        ));
        select.set_consistency(Consistency::Serial);
        let rows: Vec<(Option<i64>,)> = cluster.rows(select).await?;
        Ok(rows.first().and_then(|(version,)| *version))
    }
}

pub(crate) fn place(table: &TableName) -> String {
    format!(
        "keyspace_name = {} AND table_name = {}",
        literal(&table.keyspace),
        literal(&table.table)
    )
}

pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as i64)
}

/// A number for an attempt that no command has seen yet.
pub(crate) fn later_than(created: i64) -> i64 {
    now_ms().max(created.saturating_add(1))
}
