//! The column that is to be encoded, and what stands in its way.

use std::collections::HashMap;

use anyhow::{Result, bail};
use helenus_cql::{Name, quote_text};
use helenus_proxy::ENCODED_SUFFIX;
use helenus_rows::{Column, Table, TableName};

use crate::catalogue::{self, Known};
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

/// Refuses what cannot be encoded, with the reason and the way out.
pub(super) async fn check(
    cluster: &Cluster,
    table: &Table,
    column: &Name,
    known: &Known,
) -> Result<()> {
    let name = &table.name;
    if is_systems(&name.keyspace) {
        bail!("{name} belongs to Cassandra or to Helenus, which read it past the proxies");
    }
    check_column(table, column, known)?;
    if table.is_odd {
        bail!(
            "{name} is a table with COMPACT STORAGE, which gets no more columns: drop that first (ALTER TABLE … \
             DROP COMPACT STORAGE)"
        );
    }
    table::check_grace(table)?;
    let why = "its rows would not follow those of the table. Drop the view first, or leave the column as it is";
    table::check_views(table, cluster, why).await?;
    if let Some(problem) = in_the_way(cluster, table, column).await?.first() {
        bail!("{problem}");
    }
    check_no_layouts(known, name)?;
    match catalogue::original(cluster, name).await? {
        None => Ok(()),
        Some(original) => bail!(
            "{name} holds a layout of {original}: a table can have layouts or encoded columns"
        ),
    }
}

pub(super) fn check_no_layouts(known: &Known, name: &TableName) -> Result<()> {
    match known.layouts().is_empty() {
        true => Ok(()),
        false => bail!(
            "{name} has layouts, whose tables would lack the encoded values: a table can have layouts or encoded \
             columns. `helenus layouts drop {name} --all` gives the layouts up"
        ),
    }
}

fn is_systems(keyspace: &str) -> bool {
    keyspace == "system" || keyspace.starts_with("system_") || keyspace == "helenus"
}

fn check_column(table: &Table, column: &Name, known: &Known) -> Result<()> {
    let name = &table.name;
    let is_it = |of: &&Column| *of.name == **column;
    if let Some(of) = known
        .encodings()
        .iter()
        .find(|entry| entry.hidden == **column)
    {
        bail!(
            "column {column} holds the encoded values of {}: name that",
            of.column
        );
    }
    if table.keys().any(|of| is_it(&of)) {
        bail!(
            "column {column} is part of the primary key of {name}, whose values nodes compare: it stays as it is"
        );
    }
    if table.statics.iter().any(|of| is_it(&of)) {
        bail!(
            "column {column} is static: it has one value for each partition, which saves little. It stays as it is"
        );
    }
    let is_text = |of: &&Column| matches!(&*of.cql_type, "text" | "varchar");
    let Some(found) = table.regulars.iter().find(is_it) else {
        let texts: Vec<String> = table
            .regulars
            .iter()
            .filter(is_text)
            .map(Column::to_cql)
            .collect();
        let texts = match texts.is_empty() {
            true => "none".to_owned(),
            false => texts.join(", "),
        };
        bail!("{name} has no column {column}; its columns of type text are: {texts}");
    };
    if !is_text(&found) {
        bail!(
            "column {column} is of type {}: only columns of type text can be encoded",
            found.cql_type
        );
    }
    Ok(())
}

/// Obstacles to encoded values: indexes and masks.
pub(super) async fn in_the_way(
    cluster: &Cluster,
    table: &Table,
    column: &str,
) -> Result<Vec<String>> {
    let indexes: Vec<(String, Option<HashMap<String, String>>)> = cluster
        .rows(format!(
            "SELECT index_name, options FROM system_schema.indexes WHERE keyspace_name = {} AND table_name = {}",
            quote_text(&table.name.keyspace),
            quote_text(&table.name.table)
        ))
        .await?;
    let mut problems = Vec::new();
    for (index, options) in indexes {
        let target = options.unwrap_or_default().remove("target");
        if is_about(target.as_deref().unwrap_or_default(), column) {
            problems.push(format!(
                "column {column} of {} has an index, {index}, which would find nothing: drop the index first, or \
                 leave the column as it is",
                table.name
            ));
        }
    }
    if table::masked(table, cluster)
        .await?
        .iter()
        .any(|of| of == column)
    {
        problems.push(format!(
            "column {column} of {} is masked, and encoded values would not be: drop the mask first (ALTER TABLE … \
             ALTER … DROP MASKED), or leave the column as it is",
            table.name
        ));
    }
    Ok(problems)
}

/// True if an index of this target has to do with a column. One that does not say may.
fn is_about(target: &str, column: &str) -> bool {
    let quoted = Name::from_stored(column);
    let target = target.trim();
    target.is_empty() || target == column || target == quoted.to_cql()
}

/// A name for the column of encoded values that the table does not have and never had: of a column that was
/// dropped, nodes take values that are older than that for dropped with it.
pub(super) async fn free_name(cluster: &Cluster, table: &Table, column: &str) -> Result<String> {
    let dropped = dropped(cluster, &table.name).await?;
    let is_used = |name: &str| {
        let has = |of: &Column| of.name == name;
        table.keys().any(has) || table.others().any(has) || dropped.iter().any(|of| of == name)
    };
    let mut names = (1..).map(|number: u32| match number {
        1 => format!("{column}{ENCODED_SUFFIX}"),
        _ => format!("{column}{ENCODED_SUFFIX}{number}"),
    });
    let free = names.find(|name| !is_used(name));
    Ok(free.unwrap_or_default())
}

/// True if the table has a column that may hold encoded values, by its name and type.
pub(super) fn may_be_encoded(table: &Table) -> bool {
    let is_one = |of: &Column| of.cql_type == "blob" && of.name.contains(ENCODED_SUFFIX);
    table.regulars.iter().any(is_one)
}

/// Columns that the table had once.
pub(super) async fn dropped(cluster: &Cluster, table: &TableName) -> Result<Vec<String>> {
    let rows: Vec<(String,)> = cluster
        .rows(format!(
            "SELECT column_name FROM system_schema.dropped_columns WHERE keyspace_name = {} AND table_name = {}",
            quote_text(&table.keyspace),
            quote_text(&table.table)
        ))
        .await?;
    Ok(rows.into_iter().map(|(name,)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::entry::announced;
    use crate::payload::testing;
    use helenus_rows::Shape;

    fn table() -> Table {
        let column = |name: &str, cql_type: &str| Column {
            name: name.to_owned(),
            cql_type: cql_type.to_owned(),
            descending: false,
            shape: Shape::Single,
        };
        Table {
            name: "shop.users".parse().expect("a name"),
            partition: vec![column("id", "text")],
            clustering: vec![column("at", "text")],
            statics: vec![column("shared", "text")],
            regulars: vec![
                column("age", "int"),
                column("letters", "ascii"),
                column("Note", "varchar"),
                column("profile", "text"),
                column("profile__encoded", "blob"),
            ],
            default_ttl: 0,
            gc_grace_seconds: 864_000,
            is_odd: false,
        }
    }

    #[test]
    fn only_texts_outside_of_the_key_are_encoded() {
        let known = testing::known(&[&announced("profile", "profile__encoded")]);
        let check = |column: &str| {
            let name = Name::from_stored(column);
            let done = check_column(&table(), &name, &known);
            done.err().map(|error| error.to_string())
        };
        assert_eq!(check("profile"), None);
        assert_eq!(check("Note"), None);
        for (column, why) in [
            ("id", "primary key"),
            ("at", "primary key"),
            ("shared", "static"),
            ("age", "type int"),
            ("letters", "type ascii"),
            ("note", "are: \"Note\", profile"),
            ("profile__encoded", "encoded values of profile"),
        ] {
            let error = check(column).expect(column);
            assert!(error.contains(why), "{column}: {error}");
        }
    }

    #[test]
    fn columns_of_encoded_values_are_known_by_their_names() {
        let mut table = table();
        assert!(may_be_encoded(&table));
        table.regulars.retain(|of| of.name != "profile__encoded");
        assert!(!may_be_encoded(&table));
    }

    #[test]
    fn indexes_are_about_the_column_that_they_name() {
        assert!(is_about("profile", "profile"));
        assert!(is_about("\"Note\"", "Note"));
        assert!(is_about("", "profile"), "it does not say");
        assert!(!is_about("values(tags)", "profile"));
        assert!(!is_about("note", "Note"));
    }

    #[test]
    fn keyspaces_of_the_system_are_left_alone() {
        assert!(is_systems("system_auth") && is_systems("system") && is_systems("helenus"));
        assert!(!is_systems("systems") && !is_systems("shop"));
    }
}
