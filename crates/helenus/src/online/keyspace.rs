//! The keyspace of the catalogue.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use helenus_rows::TableName;

use super::cluster::Cluster;
use super::{grants, table};

/// Creates the keyspace, replicated as that of the table `like`, and these of its tables, where they are missing;
/// and lets the roles of proxies read it, without which they would refuse what they have to know it for.
pub(crate) async fn create(
    cluster: &Cluster,
    like: &TableName,
    proxy_roles: &[String],
    tables: &[String],
) -> Result<()> {
    let exists = exists(cluster).await?;
    let is_checked = grants::are_checked(cluster).await;
    let mut roles = proxy_roles.to_vec();
    if roles.is_empty() {
        roles.extend(cluster.role.clone());
    }
    if is_checked && !exists && roles.is_empty() {
        bail!(
            "the cluster checks permissions: name the role of the proxies with --proxy-role, so that it can be \
             allowed to read the catalogue"
        );
    }
    if !exists {
        let replication = table::replication(cluster, &like.keyspace).await?;
        let create =
            format!("CREATE KEYSPACE IF NOT EXISTS helenus WITH replication = {replication}");
        cluster.run(&create).await?;
    }
    for create in tables {
        cluster.run(create).await?;
    }
    if is_checked {
        for role in &roles {
            grants::let_read(cluster, role).await?;
        }
    }
    Ok(())
}

async fn exists(cluster: &Cluster) -> Result<bool> {
    let found: Vec<(String,)> = cluster
        .rows("SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = 'helenus'")
        .await?;
    Ok(!found.is_empty())
}

/// The columns that one of its tables has.
pub(crate) async fn columns(cluster: &Cluster, table: &str) -> Result<BTreeSet<String>> {
    let found: Vec<(String,)> = cluster
        .rows(format!(
            "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'helenus' AND table_name = '{table}'"
        ))
        .await?;
    Ok(found.into_iter().map(|(name,)| name).collect())
}

/// Whether the keyspace has these tables.
pub(crate) async fn has_all(cluster: &Cluster, tables: &[&str]) -> Result<bool> {
    let found: Vec<(String,)> = cluster
        .rows("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'helenus'")
        .await?;
    let has = |name: &&str| found.iter().any(|(of,)| of == *name);
    Ok(tables.iter().all(has))
}

/// The tables that a table of the catalogue has partitions for, in order.
pub(crate) async fn named_in(cluster: &Cluster, catalogue: &str) -> Result<Vec<TableName>> {
    let select = format!("SELECT DISTINCT keyspace_name, table_name FROM helenus.{catalogue}");
    let found: Vec<(String, String)> = cluster.rows(select).await?;
    let name = |(keyspace, table): (String, String)| TableName {
        keyspace: helenus_cql::Name::from_stored(keyspace),
        table: helenus_cql::Name::from_stored(table),
    };
    let mut names: Vec<TableName> = found.into_iter().map(name).collect();
    names.sort_by_key(TableName::to_string);
    Ok(names)
}
