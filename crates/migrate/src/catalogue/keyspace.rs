//! The keyspace of the catalogue.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use helenus_catalogue::KEYSPACE;
use helenus_catalogue::stored::SELECT_TABLES;
use helenus_cql::Name;
use helenus_rows::TableName;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::Row;

use crate::nodes::cluster::Cluster;
use crate::nodes::{grants, table};

/// Creates the keyspace, replicated as that of the table `like`, and these of its tables, where they are missing;
/// and lets the roles of proxies read it, without which they would refuse what they have to know it for, and change the
/// tables that are named as `written`.
pub(crate) async fn create(
    cluster: &Cluster,
    like: &TableName,
    proxy_roles: &[String],
    tables: &[String],
    written: &[&str],
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
            for table in written {
                grants::let_write(cluster, table, role).await?;
            }
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

/// The tables that it has.
pub(crate) async fn tables(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let found: Vec<(String,)> = cluster.rows(SELECT_TABLES).await?;
    Ok(found.into_iter().map(|(name,)| name).collect())
}

/// True if each data center has replicas of its own: then its proxies read at their quorum.
async fn has_data_centers(cluster: &Cluster) -> Result<bool> {
    let name = Name::from_stored(KEYSPACE);
    let options = table::replication_options(cluster, &name).await?;
    let class = options.get("class").map(String::as_str).unwrap_or_default();
    Ok(class.ends_with("NetworkTopologyStrategy"))
}

/// The level at which all is seen that proxies have written, and at which they see what is written.
pub(crate) async fn level(cluster: &Cluster) -> Result<Consistency> {
    Ok(match has_data_centers(cluster).await? {
        true => Consistency::EachQuorum,
        false => Consistency::Quorum,
    })
}

/// Makes sure that what was agreed on is at a quorum of each data center, where proxies read it. `read` must select all
/// columns: what replicas lack, they are given with the read.
pub(crate) async fn spread(cluster: &Cluster, read: &str) -> Result<()> {
    if !has_data_centers(cluster).await? {
        // Everybody reads at a quorum of all replicas, which is where it was agreed on.
        return Ok(());
    }
    let mut read = Statement::new(read);
    read.set_consistency(Consistency::EachQuorum);
    let rows: Result<Vec<Row>> = cluster.rows(read).await;
    let told = "a quorum of each data center must have what has changed in the keyspace helenus";
    rows.map(|_| ()).context(told)
}
