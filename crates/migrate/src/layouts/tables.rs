//! The tables that hold layouts: made, and checked before they are used.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use helenus_catalogue::Layout;
use helenus_cql::Name;
use helenus_rows::{Table, TableName};

use super::entry::table_of;
use super::replication::Replication;
use super::{definition, home};
use crate::catalogue::{self, Known};
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

/// Makes the keyspaces of derived layouts that are not there.
///
/// # Errors
/// One is replicated otherwise than `replication` says, or is not there and nothing is said. Then none is made.
pub(super) async fn make_keyspaces(
    cluster: &Cluster,
    layouts: &[Layout],
    replication: Option<&Replication>,
) -> Result<()> {
    for create in missing_keyspaces(cluster, layouts, replication).await? {
        cluster.run(&create).await?;
        cluster.agree().await?;
    }
    Ok(())
}

/// The statements that make keyspaces of derived layouts that are not there.
pub(super) async fn missing_keyspaces(
    cluster: &Cluster,
    layouts: &[Layout],
    replication: Option<&Replication>,
) -> Result<Vec<String>> {
    let keyspaces = layouts.iter().filter_map(|of| of.keyspace.as_deref());
    let keyspaces: BTreeSet<&str> = keyspaces.collect();
    let mut missing = Vec::new();
    for keyspace in keyspaces {
        let keyspace = Name::from_stored(keyspace);
        missing.extend(home::missing(cluster, &keyspace, replication).await?);
    }
    Ok(missing)
}

/// Creates the tables of layouts that the catalogue does not have.
pub(super) async fn make(
    cluster: &Cluster,
    table: &Table,
    layouts: &[Layout],
    known: &Known,
) -> Result<()> {
    let options = definition::options(cluster, &table.name).await?;
    for layout in layouts {
        let name = table_of(layout, &table.name);
        let is_known = known.layout(&layout.name).is_some();
        let holder = catalogue::original(cluster, &name).await?;
        if let Some(other) = holder.filter(|other| *other != table.name) {
            bail!("{name} holds a layout of {other}: choose another name for the layout");
        }
        let exists = table::exists(cluster, &name.keyspace, &name.table).await?;
        if !exists && is_known && layout.is_derived() {
            bail!(
                "there is no table {name} any more: `helenus layouts rebuild {}` makes it anew",
                table.name
            );
        }
        if !exists && !is_known {
            let create = definition::create(table, &options, &name, &layout.clustering);
            cluster.run(&create).await?;
        }
        let found = table::load(cluster, &name).await?;
        // Columns that the table has got since are added later.
        let fits = match is_known {
            true => table.has_keys_of(&found, &layout.clustering),
            false => table.is_copied_by(&found, &layout.clustering),
        };
        if !fits || found.lacking(table).next().is_some() {
            bail!(
                "{name} exists and is not a copy of {}: drop it, or choose another name for the layout",
                table.name
            );
        }
        if !is_known {
            refuse_rows(cluster, &table.name, layout, &name).await?;
        }
    }
    Ok(())
}

/// Left behind when it was created, or when another was dropped.
async fn refuse_rows(
    cluster: &Cluster,
    table: &TableName,
    layout: &Layout,
    name: &TableName,
) -> Result<()> {
    let rows: Vec<scylla::value::Row> = cluster
        .rows(format!("SELECT * FROM {} LIMIT 1", name.to_cql()))
        .await?;
    if rows.is_empty() {
        return Ok(());
    }
    let place = match &layout.keyspace {
        Some(keyspace) => format!(" --keyspace {}", Name::from_stored(&**keyspace).to_cql()),
        None => String::new(),
    };
    bail!(
        "{name} exists, is not in the catalogue and has rows: finish dropping it with `helenus layouts drop {table} \
         --layout {}{place}`, or choose another name",
        layout.name
    );
}

/// Creates the tables of derived layouts that are gone, with their keyspaces. Nobody may read such a layout meanwhile.
pub(super) async fn make_anew(
    cluster: &Cluster,
    table: &Table,
    gone: &[Layout],
    replication: Option<&Replication>,
) -> Result<()> {
    make_keyspaces(cluster, gone, replication).await?;
    let options = definition::options(cluster, &table.name).await?;
    for layout in gone {
        let name = table_of(layout, &table.name);
        let create = definition::create(table, &options, &name, &layout.clustering);
        cluster.run(&create).await?;
    }
    cluster.agree().await
}

/// The derived layouts whose tables are not there.
pub(super) async fn gone(
    cluster: &Cluster,
    table: &TableName,
    layouts: &[Layout],
) -> Result<Vec<Layout>> {
    let mut gone = Vec::new();
    for layout in layouts.iter().filter(|of| of.is_derived()) {
        let name = table_of(layout, table);
        if !table::exists(cluster, &name.keyspace, &name.table).await? {
            gone.push(layout.clone());
        }
    }
    Ok(gone)
}

/// Drops the keyspace that derived layouts of this one are held in unless another was named, if it is left without any
/// table or type. Returns whether it was.
pub(super) async fn drop_keyspace_if_empty(cluster: &Cluster, keyspace: &Name) -> Result<bool> {
    if !table::keyspace_exists(cluster, keyspace).await?
        || !table::is_empty_keyspace(cluster, keyspace).await?
    {
        return Ok(false);
    }
    let drop = format!("DROP KEYSPACE IF EXISTS {}", keyspace.to_cql());
    cluster.run(&drop).await?;
    Ok(true)
}
