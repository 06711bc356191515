//! How tables of layouts follow what their table is given meanwhile: columns and rights.

use anyhow::{Context, Result, bail};
use helenus_rows::{Table, TableName};

use super::work::Work;
use super::{definition, home, rules};
use crate::nodes::cluster::Cluster;
use crate::nodes::{grants, table};

/// Gives layouts the columns that the table has got meanwhile. Returns the table as it is by now.
pub(super) async fn add_columns(
    cluster: &Cluster,
    before: &Table,
    layouts: &[(TableName, &[String])],
    work: &Work,
) -> Result<Table> {
    cluster.agree().await?;
    let name = &before.name;
    let table = table::load(cluster, name).await?;
    let has_more = table.lacking(before).next().is_some();
    if has_more {
        let checked = async {
            rules::check(&table, cluster).await?;
            if layouts
                .iter()
                .any(|(held_in, _)| held_in.keyspace != name.keyspace)
            {
                rules::check_derived(&table)?;
            }
            rules::refuse_untimed(cluster, &table, name, work).await
        };
        checked.await.with_context(|| {
            format!(
                "{name} was altered meanwhile: drop the layouts (helenus layouts drop {name} --all)"
            )
        })?;
    }
    for (physical, clustering) in layouts {
        let found = table::load(cluster, physical).await?;
        for (column, is_static) in table.lacking(&found) {
            cluster
                .run(&definition::add(physical, column, is_static))
                .await?;
        }
        let found = table::load(cluster, physical).await?;
        if !table.is_copied_by(&found, clustering) {
            bail!(
                "{name} was altered while {physical} was announced: drop the layouts (helenus layouts drop {name} \
                 --all) and create them again"
            );
        }
    }
    Ok(table)
}

/// Gives roles the rights on the layouts that they have on the table, and takes others away, except from the
/// role `but`.
pub(super) async fn copy_grants(
    cluster: &Cluster,
    table: &TableName,
    layouts: &[TableName],
    but: Option<&str>,
) -> Result<()> {
    if !grants::are_checked(cluster).await {
        return Ok(());
    }
    for physical in layouts {
        let copied = async {
            let home = &physical.keyspace;
            if home::holds_nothing_else(cluster, &table.keyspace, home, layouts).await? {
                grants::make_keyspaces_equal(cluster, &table.keyspace, home, but).await?;
            }
            grants::make_equal(cluster, table, physical, but).await
        };
        copied.await.with_context(|| {
            format!(
                "the rights on {physical} could not be made those on {table}, and clients without them could \
                 not write to {table} once the layout is written: run this as a superuser"
            )
        })?;
    }
    Ok(())
}
