//! Checks that the catalogue is complete: a table that is flagged and not in it has lost its rows.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use helenus_catalogue::{Belief, Feature, Flag, TableKey};
use helenus_rows::TableName;

use super::entries::{Known, key, name, read_all, read_with_losses};
use super::flags::of_one_node;
use crate::nodes::cluster::Cluster;

/// The flags of tables of which the catalogue has lost what it said.
pub(crate) async fn lost(cluster: &Cluster) -> Result<BTreeSet<Flag>> {
    // In this order: what the catalogue says comes before the flag and goes after it.
    let flags = of_one_node(cluster).await?;
    let unexplained = Belief::unexplained(&read_all(cluster).await?, &flags);
    if unexplained.is_empty() {
        return Ok(unexplained);
    }
    // They may have been dropped, and what the catalogue said been removed, between the two readings.
    let again = of_one_node(cluster).await?;
    Ok(unexplained.intersection(&again).cloned().collect())
}

/// The advice for a table that is flagged and not in the catalogue.
pub(crate) fn told_lost(flag: &Flag) -> String {
    let table = name(&flag.table);
    let otherwise = match flag.feature {
        Feature::Layouts => format!("`helenus layouts drop {table} --all`"),
        Feature::Encodings => "restore helenus.catalogue from a backup".to_owned(),
    };
    format!(
        "the catalogue has lost what it said of {table}: run `nodetool repair -full helenus` on all nodes; if that does \
         not bring it back, {otherwise}"
    )
}

/// The catalogue's entries of one table.
///
/// # Errors
/// It cannot be read, or has lost what it said of the table, or all that it said: then nothing is to be begun until that has
/// come back, or was given up.
pub async fn read(cluster: &Cluster, table: &TableName) -> Result<Known> {
    let key = key(table);
    let lost = lost(cluster).await?;
    let known = read_with_losses(cluster, table).await?;
    let mut lost = lost.iter();
    match lost.find(|flag| flag.table == key || known.is_blank()) {
        None => Ok(known),
        Some(flag) => bail!("{}", told_lost(flag)),
    }
}

/// The tables that have layouts, or encoded columns, or of which something of that is left.
pub(crate) async fn tables(cluster: &Cluster, feature: Feature) -> Result<BTreeSet<TableKey>> {
    let mut flags = read_all(cluster).await?.flags();
    flags.extend(of_one_node(cluster).await?);
    let of_feature = flags.into_iter().filter(|flag| flag.feature == feature);
    Ok(of_feature.map(|flag| flag.table).collect())
}
