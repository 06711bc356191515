//! Which layouts the user asks for.

use std::path::Path;

use anyhow::{Context, Result, bail};
use helenus_cql::fold_identifier;
use helenus_rows::{Table, TableName};
use serde_json::Value;

use super::super::names;

/// A layout to create: its name, and the clustering columns in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::layouts) struct Wanted {
    pub name: String,
    pub clustering: Vec<String>,
}

/// `NAME=column,column`.
pub(in crate::layouts) fn parse(text: &str) -> Result<Wanted> {
    let Some((name, columns)) = text.split_once('=') else {
        bail!("{text}: write NAME=column,column,… with all clustering columns");
    };
    names::check_layout(name)?;
    let columns = columns.split(',').map(str::trim);
    Ok(Wanted {
        name: name.to_owned(),
        clustering: columns.map(|c| fold_identifier(c).to_string()).collect(),
    })
}

/// The layouts of a design made by `layouts advise --json`.
pub(in crate::layouts) fn of_design(path: &Path, table: &TableName) -> Result<Vec<Wanted>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let design: Value = serde_json::from_str(&text)
        .with_context(|| format!("{shown} is no output of `layouts advise --json`"))?;
    let named = design.get("table").and_then(Value::as_str).unwrap_or("");
    let is_same = match named.parse::<TableName>() {
        Ok(named) => named == *table,
        Err(_) => fold_identifier(named) == table.table,
    };
    if !is_same {
        bail!("{shown} is a design for {named:?}, not for {table}");
    }
    // As earlier versions wrote it.
    if design.get("mode").and_then(Value::as_str) == Some("replace") {
        bail!(
            "{shown} is a design for copies in place of the table's replicas, which were removed: run `layouts advise` \
             again"
        );
    }
    let layouts = design.get("layouts").and_then(Value::as_array);
    let layouts = layouts.with_context(|| format!("{shown} has no layouts"))?;
    let wanted = |layout: &Value| {
        let name = layout.get("name")?.as_str()?.to_lowercase();
        let columns = layout.get("clustering")?.as_array()?;
        let columns = columns.iter().map(|c| c.as_str().map(str::to_owned));
        Some(Wanted {
            name,
            clustering: columns.collect::<Option<_>>()?,
        })
    };
    let found: Option<Vec<Wanted>> = layouts.iter().map(wanted).collect();
    found.with_context(|| format!("{shown} has a layout without a name or columns"))
}

/// Refuses what is no layout of the table, or useless.
pub(in crate::layouts) fn check(wanted: &[Wanted], table: &Table) -> Result<()> {
    if wanted.is_empty() {
        bail!("there is no layout to create: give --layout NAME=column,… or --design FILE");
    }
    let own: Vec<&str> = table.clustering.iter().map(|c| c.name.as_str()).collect();
    let mut sorted = own.clone();
    sorted.sort_unstable();
    for (at, layout) in wanted.iter().enumerate() {
        let Wanted { name, clustering } = layout;
        names::check_layout(name)?;
        names::physical(&table.name.table, name)?;
        let mut columns: Vec<&str> = clustering.iter().map(String::as_str).collect();
        if columns == own {
            bail!("layout {name} has the table's own order: the table itself is that layout");
        }
        columns.sort_unstable();
        if columns != sorted {
            bail!(
                "layout {name} must name each clustering column of {} once, in its own order: {}",
                table.name,
                own.join(", ")
            );
        }
        let mut before = wanted.iter().take(at);
        let is_alike = |other: &&Wanted| other.name == *name || other.clustering == *clustering;
        if let Some(other) = before.find(is_alike) {
            bail!(
                "layouts {} and {name} have the same name or the same order",
                other.name
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_has_a_name_and_columns() {
        let wanted = parse("x=b, A").expect("a layout");
        assert_eq!(wanted.clustering, ["b", "a"]);
        assert!(parse("x").is_err() && parse("X=a").is_err());
    }

    #[test]
    fn a_design_is_used_unless_it_was_made_for_copies_in_place_of_replicas() {
        let table: TableName = "shop.orders".parse().expect("a name");
        let of = |mode: &str| {
            let file = tempfile::NamedTempFile::new().expect("a file");
            let design = format!(
                r#"{{"table": "shop.orders", {mode}"layouts": [{{"name": "A", "clustering": ["b", "a"]}}]}}"#
            );
            std::fs::write(file.path(), design).expect("written");
            of_design(file.path(), &table)
        };
        for mode in ["", "\"mode\": \"add\", "] {
            let found = of(mode).expect("a design");
            assert_eq!(
                (&*found[0].name, &*found[0].clustering),
                ("a", &["b", "a"].map(str::to_owned)[..])
            );
        }
        let refused = of("\"mode\": \"replace\", ").expect_err("another design");
        assert!(refused.to_string().contains("were removed"), "{refused}");
    }
}
