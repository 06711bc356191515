//! A table as the schema defines it: its columns, options, and what stands in the way of changing it while it is in use.

use std::collections::HashMap;

use anyhow::{Result, bail};
use helenus_cql::Name;

use super::cluster::Cluster;
use super::names::{TableName, literal};

/// Types of one cell each, whatever they are called.
const NATIVE: [&str; 21] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varchar",
    "varint",
    "empty",
];

/// Deletions must be remembered for longer than a row that was read may take to be written, with all
/// attempts.
const GRACE_MIN_S: i32 = 3_600;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub name: String,
    pub cql_type: String,
    /// Of a clustering column.
    pub descending: bool,
    pub shape: Shape,
}

/// How the value of a column is stored, and whether CQL tells when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One cell.
    Single,
    /// One cell for each element.
    Set,
    /// One cell for each entry.
    Map,
    /// Several cells of unknown time.
    Untimed,
}

impl Shape {
    /// `tells_elements`: the nodes tell when the elements of a collection were written, as they do since
    /// 5.0. Elements of lists have places that cannot be written, and fields of user types are not told
    /// apart here.
    fn of(cql_type: &str, tells_elements: bool) -> Shape {
        let base = cql_type.split('<').next().unwrap_or_default();
        match base {
            "set" if tells_elements => Shape::Set,
            "map" if tells_elements => Shape::Map,
            "set" | "map" | "list" => Shape::Untimed,
            "frozen" | "tuple" | "vector" => Shape::Single,
            // What is left are classes, in quotation marks, and user types.
            base if NATIVE.contains(&base) || base.starts_with('\'') => Shape::Single,
            _ => Shape::Untimed,
        }
    }

    pub(crate) fn has_elements(self) -> bool {
        matches!(self, Shape::Set | Shape::Map)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub name: TableName,
    pub partition: Vec<Column>,
    pub clustering: Vec<Column>,
    /// By name, as all below.
    pub statics: Vec<Column>,
    pub regulars: Vec<Column>,
    pub default_ttl: i32,
    pub gc_grace_seconds: i32,
    /// Whether it is a counter table, dense or of another kind of old.
    pub(crate) is_odd: bool,
}

impl Column {
    pub(crate) fn to_cql(&self) -> String {
        Name::from_stored(self.name.as_str()).to_cql().into_owned()
    }
}

/// Flags, default time to live and grace of tombstones.
type TableRow = (Option<Vec<String>>, Option<i32>, Option<i32>);
/// Name, type, kind, order and position.
type ColumnRow = (String, String, String, String, i32);

impl Table {
    /// Fails if there is no such table.
    pub(crate) async fn load(cluster: &Cluster, name: &TableName) -> Result<Table> {
        let place = format!(
            "keyspace_name = {} AND table_name = {}",
            literal(&name.keyspace),
            literal(&name.table)
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
                    literal(&name.keyspace),
                    literal(&name.table)
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
        let of_kind = |kind: &str| {
            let mut found: Vec<(i32, Column)> = columns
                .iter()
                .filter(|(_, _, k, _, _)| k == kind)
                .map(|(name, cql_type, _, order, position)| {
                    let column = Column {
                        name: name.clone(),
                        cql_type: cql_type.clone(),
                        descending: order == "desc",
                        shape: Shape::of(cql_type, tells_elements),
                    };
                    (*position, column)
                })
                .collect();
            found.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
            found.into_iter().map(|(_, column)| column).collect()
        };
        Ok(Table {
            name: name.clone(),
            partition: of_kind("partition_key"),
            clustering: of_kind("clustering"),
            statics: of_kind("static"),
            regulars: of_kind("regular"),
            default_ttl: default_ttl.unwrap_or(0),
            gc_grace_seconds: gc_grace_seconds.unwrap_or(0),
            is_odd: flags.is_none_or(|flags| flags != ["compound"]),
        })
    }

    /// Whether a table exists.
    pub(crate) async fn exists(cluster: &Cluster, keyspace: &Name, table: &str) -> Result<bool> {
        let found: Vec<(String,)> = cluster
            .rows(format!(
                "SELECT table_name FROM system_schema.tables WHERE keyspace_name = {} AND \
                 table_name = {}",
                literal(keyspace),
                literal(table)
            ))
            .await?;
        Ok(!found.is_empty())
    }

    /// A copied value must not come later than the deletions that cover it are remembered.
    pub(crate) fn check_grace(&self) -> Result<()> {
        if self.gc_grace_seconds < GRACE_MIN_S {
            bail!(
                "{} has gc_grace_seconds = {}: a deletion could be forgotten before rows that it covers \
                 are copied. Set gc_grace_seconds to a day at least",
                self.name,
                self.gc_grace_seconds
            );
        }
        Ok(())
    }

    /// Refuses a table with materialized views: `what` they would not follow.
    pub(crate) async fn check_views(&self, cluster: &Cluster, what: &str) -> Result<()> {
        let views: Vec<(String, String)> = cluster
            .rows(format!(
                "SELECT view_name, base_table_name FROM system_schema.views WHERE keyspace_name = {}",
                literal(&self.name.keyspace)
            ))
            .await?;
        match views.iter().find(|(_, base)| *base == *self.name.table) {
            Some((view, _)) => bail!("{} has a materialized view, {view}: {what}", self.name),
            None => Ok(()),
        }
    }

    /// Columns that are masked, since 5.0.
    pub(crate) async fn masked(&self, cluster: &Cluster) -> Vec<String> {
        let masks: Result<Vec<(String,)>> = cluster
            .rows(format!(
                "SELECT column_name FROM system_schema.column_masks WHERE keyspace_name = {} AND \
                 table_name = {}",
                literal(&self.name.keyspace),
                literal(&self.name.table)
            ))
            .await;
        let masks = masks.unwrap_or_default().into_iter();
        masks.map(|(column,)| column).collect()
    }

    /// Its clustering columns in another order.
    pub(crate) fn clustering_by(&self, order: &[String]) -> Vec<&Column> {
        let column = |name: &String| self.clustering.iter().find(|c| c.name == *name);
        order.iter().filter_map(column).collect()
    }

    /// Whether another table can have the rows of this one, in that order. It may have further columns: ALTER TABLE
    /// goes to layouts first.
    pub(crate) fn is_copied_by(&self, other: &Table, order: &[String]) -> bool {
        self.has_keys_of(other, order) && self.lacking(other).next().is_none()
    }

    /// Whether another table has the same primary key, in that order.
    pub(crate) fn has_keys_of(&self, other: &Table, order: &[String]) -> bool {
        let clustering = self.clustering_by(order);
        self.partition == other.partition && clustering.into_iter().eq(&other.clustering)
    }

    /// The columns outside of the key that another table does not have, and whether they are static.
    pub(crate) fn lacking<'a>(
        &'a self,
        other: &'a Table,
    ) -> impl Iterator<Item = (&'a Column, bool)> {
        let of_kind = |is_static: bool| {
            let columns = self.columns_of(is_static).iter();
            let lacking =
                columns.filter(move |column| !other.columns_of(is_static).contains(column));
            lacking.map(move |column| (column, is_static))
        };
        of_kind(true).chain(of_kind(false))
    }

    /// The columns of its primary key, in its own order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Column> + Clone {
        self.partition.iter().chain(&self.clustering)
    }

    /// All others: static ones, then regular ones.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Column> + Clone {
        self.statics.iter().chain(&self.regulars)
    }

    /// Those that rows have beside their keys, or partitions.
    pub(crate) fn columns_of(&self, is_static: bool) -> &[Column] {
        match is_static {
            true => &self.statics,
            false => &self.regulars,
        }
    }

    /// A column of which CQL does not tell when its values were written.
    pub(crate) fn untimed(&self) -> Option<&Column> {
        self.others().find(|column| column.shape == Shape::Untimed)
    }
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
pub(crate) async fn replication(cluster: &Cluster, keyspace: &Name) -> Result<String> {
    let options = replication_options(cluster, keyspace).await?;
    let mut options: Vec<String> = options
        .iter()
        .map(|(key, value)| format!("{}: {}", literal(key), literal(value)))
        .collect();
    options.sort_unstable();
    Ok(format!("{{{}}}", options.join(", ")))
}

/// How many nodes have each row, in all data centers.
pub(crate) async fn replicas(cluster: &Cluster, keyspace: &Name) -> Result<u32> {
    let options = replication_options(cluster, keyspace).await?;
    Ok(replicas_of(&options))
}

/// Transient replicas are written as the second of two numbers, and are among the first.
fn replicas_of(options: &HashMap<String, String>) -> u32 {
    let counts = options.iter().filter(|(key, _)| *key != "class");
    let counts = counts.filter_map(|(_, count)| count.split('/').next()?.parse::<u32>().ok());
    counts.sum::<u32>().max(1)
}

async fn replication_options(
    cluster: &Cluster,
    keyspace: &Name,
) -> Result<HashMap<String, String>> {
    let rows: Vec<(HashMap<String, String>,)> = cluster
        .rows(format!(
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = {}",
            literal(keyspace)
        ))
        .await?;
    match rows.into_iter().next() {
        Some((options,)) => Ok(options),
        None => bail!("there is no keyspace {keyspace}"),
    }
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

    #[test]
    fn collections_and_user_types_have_several_cells_unless_frozen() {
        for ty in ["list<int>", "address", "\"Address\""] {
            assert_eq!(Shape::of(ty, true), Shape::Untimed, "{ty}");
        }
        for (ty, shape) in [
            ("set<int>", Shape::Set),
            ("map<text, frozen<list<int>>>", Shape::Map),
        ] {
            assert_eq!(Shape::of(ty, true), shape, "{ty}");
            assert_eq!(Shape::of(ty, false), Shape::Untimed, "{ty}");
        }
        for ty in [
            "int",
            "frozen<set<int>>",
            "tuple<int, text>",
            "vector<float, 3>",
            "'org.apache.cassandra.db.marshal.BytesType'",
            "duration",
        ] {
            assert_eq!(Shape::of(ty, true), Shape::Single, "{ty}");
        }
    }
}
