//! Which tables can have layouts.

use anyhow::{Result, bail};
use helenus_rows::{Table, TableName};

use super::work::Work;
use crate::nodes::cluster::Cluster;
use crate::nodes::reading::Reader;
use crate::nodes::table;

/// Refuses tables that cannot have derived layouts, with the reason and the way out.
///
/// # Errors
/// Their rows could not be compared and repaired by their times, which is how derived layouts get what they have missed; or
/// no other keyspace can hold them.
pub(super) fn check_derived(table: &Table) -> Result<()> {
    let name = &table.name;
    if let Some(column) = table.of_user_type() {
        bail!(
            "column {} of {name} has the type {}, which only its own keyspace has: its layouts cannot be derived. Leave \
             --replication out",
            column.name,
            column.cql_type
        );
    }
    if let Some(column) = table.untimed() {
        bail!(
            "column {} of {name} is a {}: CQL does not tell when the elements of lists and, before Cassandra 5.0, of sets \
             and maps that are not frozen were written, and derived layouts get what they have missed by such times. Leave \
             --replication out, or make the column frozen",
            column.name,
            column.cql_type
        );
    }
    Ok(())
}

/// Refuses tables that cannot have layouts, with the reason and the way out.
pub(super) async fn check(table: &Table, cluster: &Cluster) -> Result<()> {
    let name = &table.name;
    if table.others().any(|column| column.cql_type == "counter") {
        bail!("{name} is a counter table: increments cannot be written twice");
    }
    if table.clustering.len() < 2 {
        bail!(
            "{name} has {} clustering columns: there is only one order. A layout needs at least two",
            table.clustering.len()
        );
    }
    if table.is_odd {
        bail!(
            "{name} is a table with COMPACT STORAGE: drop that first (ALTER TABLE … DROP COMPACT STORAGE)"
        );
    }
    table::check_grace(table)?;
    if table.regulars.is_empty() && table.default_ttl > 0 {
        bail!(
            "{name} has default_time_to_live and no columns besides its keys: CQL does not tell when \
             its rows expire"
        );
    }
    table::check_views(table, cluster, "a table can have views or layouts").await?;
    if !table::masked(table, cluster).await?.is_empty() {
        bail!("{name} has masked columns, and masks are not carried over to layouts");
    }
    Ok(())
}

/// Only an empty table can have layouts if CQL does not tell when some of its values were written. `from`: the table, or a
/// layout of it, whose rows are to be copied.
pub(super) async fn refuse_untimed(
    cluster: &Cluster,
    table: &Table,
    from: &TableName,
    work: &Work,
) -> Result<()> {
    let Some(column) = table.untimed() else {
        return Ok(());
    };
    let reader = Reader::new(cluster, table, from, work.level()).await?;
    if reader.is_empty().await? {
        return Ok(());
    }
    bail!(
        "{from} has rows, and column {} is a {}: CQL does not tell when the elements of lists, the fields of user \
         types and, before Cassandra 5.0, the elements of sets and maps that are not frozen were written, so \
         the rows cannot be copied exactly. A layout can be made while the table is empty, or with the \
         column frozen",
        column.name,
        column.cql_type
    )
}
