//! A table as the schema defines it: its columns, options, and what stands in the way of changing it while it is in use.

use std::collections::HashMap;

use anyhow::{Result, bail};
use helenus_cql::{Name, quote_text};
use helenus_rows::{ColumnRow, Table, TableName};
use scylla::value::CqlTimestamp;

use super::cluster::Cluster;

/// Deletions must be remembered for longer than a row that was read may take to be written, with all
/// attempts.
pub(super) const GRACE_MIN_S: i32 = 3_600;

/// Flags, default time to live and grace of tombstones.
type TableRow = (Option<Vec<String>>, Option<i32>, Option<i32>);

/// Fails if there is no such table.
pub async fn load(cluster: &Cluster, name: &TableName) -> Result<Table> {
    let place = format!(
        "keyspace_name = {} AND table_name = {}",
        quote_text(&name.keyspace),
        quote_text(&name.table)
    );
    let rows: Vec<TableRow> = cluster
        .rows(format!(
            "SELECT flags, default_time_to_live, gc_grace_seconds FROM system_schema.tables \
             WHERE {place}"
        ))
        .await?;
    let Some((flags, default_ttl, gc_grace_seconds)) = rows.into_iter().next() else {
        let views: Vec<(String,)> = cluster
            .rows(format!(
                "SELECT view_name FROM system_schema.views WHERE keyspace_name = {} AND \
                 view_name = {}",
                quote_text(&name.keyspace),
                quote_text(&name.table)
            ))
            .await?;
        match views.is_empty() {
            true => bail!("there is no table {name}"),
            false => bail!("{name} is a materialized view, not a table"),
        }
    };
    let columns: Vec<ColumnRow> = cluster
        .rows(format!(
            "SELECT column_name, type, kind, clustering_order, position FROM \
             system_schema.columns WHERE {place}"
        ))
        .await?;
    let tells_elements = tells_elements(cluster).await?;
    Ok(Table::of_columns(
        name.clone(),
        &columns,
        &flags.unwrap_or_default(),
        default_ttl.unwrap_or(0),
        gc_grace_seconds.unwrap_or(0),
        tells_elements,
    ))
}

/// True if the table exists.
pub async fn exists(cluster: &Cluster, keyspace: &Name, table: &str) -> Result<bool> {
    let found: Vec<(String,)> = cluster
        .rows(format!(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = {} AND \
             table_name = {}",
            quote_text(keyspace),
            quote_text(table)
        ))
        .await?;
    Ok(!found.is_empty())
}

/// A copied value must not come later than the deletions that cover it are remembered.
pub(crate) fn check_grace(table: &Table) -> Result<()> {
    if table.gc_grace_seconds < GRACE_MIN_S {
        bail!(
            "{} has gc_grace_seconds = {}: a deletion could be forgotten before rows that it covers \
             are copied. Set gc_grace_seconds to a day at least",
            table.name,
            table.gc_grace_seconds
        );
    }
    Ok(())
}

/// Refuses a table with materialized views: `what` they would not follow.
pub(crate) async fn check_views(table: &Table, cluster: &Cluster, what: &str) -> Result<()> {
    let views: Vec<(String, String)> = cluster
        .rows(format!(
            "SELECT view_name, base_table_name FROM system_schema.views WHERE keyspace_name = {}",
            quote_text(&table.name.keyspace)
        ))
        .await?;
    match views.iter().find(|(_, base)| *base == *table.name.table) {
        Some((view, _)) => bail!("{} has a materialized view, {view}: {what}", table.name),
        None => Ok(()),
    }
}

/// Columns that are masked. There are none before all nodes are of 5.0.
pub async fn masked(table: &Table, cluster: &Cluster) -> Result<Vec<String>> {
    if !tells_elements(cluster).await? {
        return Ok(Vec::new());
    }
    let masks: Vec<(String,)> = cluster
        .rows(format!(
            "SELECT column_name FROM system_schema.column_masks WHERE keyspace_name = {} AND \
             table_name = {}",
            quote_text(&table.name.keyspace),
            quote_text(&table.name.table)
        ))
        .await?;
    Ok(masks.into_iter().map(|(column,)| column).collect())
}

/// When columns were dropped, in milliseconds, by name, whether there are new ones of that name or not.
pub(crate) async fn dropped(cluster: &Cluster, name: &TableName) -> Result<HashMap<String, i64>> {
    let rows: Vec<(String, Option<CqlTimestamp>)> = cluster
        .rows(format!(
            "SELECT column_name, dropped_time FROM system_schema.dropped_columns WHERE keyspace_name = {} AND \
             table_name = {}",
            quote_text(&name.keyspace),
            quote_text(&name.table)
        ))
        .await?;
    let dropped = rows.into_iter();
    let dropped = dropped.map(|(column, at)| (column, at.map_or(0, |at| at.0)));
    Ok(dropped.collect())
}

async fn tells_elements(cluster: &Cluster) -> Result<bool> {
    let mut oldest = u32::MAX;
    for table in ["local", "peers"] {
        let text = format!("SELECT release_version FROM system.{table}");
        let rows: Vec<(Option<String>,)> = cluster.rows(text).await?;
        for (version,) in rows {
            let major = version
                .as_deref()
                .and_then(|v| v.split('.').next()?.parse().ok());
            oldest = oldest.min(major.unwrap_or(0));
        }
    }
    Ok(oldest >= 5)
}

/// How a keyspace is replicated, as its definition says it.
pub async fn replication(cluster: &Cluster, keyspace: &Name) -> Result<String> {
    let options = replication_options(cluster, keyspace).await?;
    let mut options: Vec<String> = options
        .iter()
        .map(|(key, value)| format!("{}: {}", quote_text(key), quote_text(value)))
        .collect();
    options.sort_unstable();
    Ok(format!("{{{}}}", options.join(", ")))
}

/// How many nodes have each row, in all data centers.
pub async fn replicas(cluster: &Cluster, keyspace: &Name) -> Result<u32> {
    let options = replication_options(cluster, keyspace).await?;
    Ok(replicas_of(&options))
}

/// Transient replicas are written as the second of two numbers, and are among the first.
fn replicas_of(options: &HashMap<String, String>) -> u32 {
    let counts = options.iter().filter(|(key, _)| *key != "class");
    let counts = counts.filter_map(|(_, count)| count.split('/').next()?.parse::<u32>().ok());
    counts.sum::<u32>().max(1)
}

pub(crate) async fn replication_options(
    cluster: &Cluster,
    keyspace: &Name,
) -> Result<HashMap<String, String>> {
    let rows: Vec<(HashMap<String, String>,)> = cluster
        .rows(format!(
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = {}",
            quote_text(keyspace)
        ))
        .await?;
    match rows.into_iter().next() {
        Some((options,)) => Ok(options),
        None => bail!("there is no keyspace {keyspace}"),
    }
}

/// True if there is a keyspace of this name.
pub(crate) async fn keyspace_exists(cluster: &Cluster, keyspace: &Name) -> Result<bool> {
    let found: Vec<(String,)> = cluster
        .rows(format!(
            "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = {}",
            quote_text(keyspace)
        ))
        .await?;
    Ok(!found.is_empty())
}

/// True if a keyspace has no tables, types or functions.
pub(crate) async fn is_empty_keyspace(cluster: &Cluster, keyspace: &Name) -> Result<bool> {
    for kind in ["tables", "types", "functions", "aggregates"] {
        let text = format!(
            "SELECT keyspace_name FROM system_schema.{kind} WHERE keyspace_name = {} LIMIT 1",
            quote_text(keyspace)
        );
        let found: Vec<(String,)> = cluster.rows(text).await?;
        if !found.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The names of all tables in a keyspace.
pub async fn names(cluster: &Cluster, keyspace: &Name) -> Result<Vec<String>> {
    let rows: Vec<(String,)> = cluster
        .rows(format!(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = {}",
            quote_text(keyspace)
        ))
        .await?;
    Ok(rows.into_iter().map(|(name,)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_of_all_data_centers_are_counted() {
        let of = |options: &[(&str, &str)]| {
            let options = options
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()));
            replicas_of(&options.collect())
        };
        assert_eq!(
            of(&[("class", "SimpleStrategy"), ("replication_factor", "3")]),
            3
        );
        assert_eq!(
            of(&[
                ("class", "NetworkTopologyStrategy"),
                ("a", "3"),
                ("b", "2/1")
            ]),
            5
        );
        assert_eq!(of(&[("class", "LocalStrategy")]), 1);
    }
}
