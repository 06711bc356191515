//! Which layouts the user asks for.

use std::path::Path;

use anyhow::{Context, Result, bail};
use helenus_cql::fold_identifier;
use helenus_rows::{Table, TableName};
use serde_json::Value;

use super::names;
use super::report::Mode;

/// A layout to create: its name, and the clustering columns in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub name: String,
    pub clustering: Vec<String>,
    /// That has it, in mode `replace`.
    pub data_center: Option<String>,
}

/// `NAME=column,column`, or `NAME=column,column@data center`.
pub(super) fn parse(text: &str) -> Result<Wanted> {
    let Some((name, columns)) = text.split_once('=') else {
        bail!("{text}: write NAME=column,column,… with all clustering columns");
    };
    names::check_layout(name)?;
    let (columns, data_center) = match columns.rsplit_once('@') {
        Some((columns, data_center)) => (columns, Some(data_center.trim().to_owned())),
        None => (columns, None),
    };
    let columns = columns.split(',').map(str::trim);
    Ok(Wanted {
        name: name.to_owned(),
        clustering: columns.map(|c| fold_identifier(c).to_string()).collect(),
        data_center,
    })
}

/// The layouts of a design made by `layouts advise --json`, in this mode.
pub(super) fn of_design(path: &Path, table: &TableName, mode: Mode) -> Result<Vec<Wanted>> {
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
    let of_design = design.get("mode").and_then(Value::as_str).unwrap_or("");
    let wanted = match mode {
        Mode::Add => "add",
        Mode::Replace => "replace",
    };
    if of_design != wanted {
        bail!(
            "{shown} is a design in mode `{of_design}`: give `--mode {of_design}` here too, or run `layouts advise \
             --mode {wanted}`"
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
            data_center: None,
        })
    };
    let found: Option<Vec<Wanted>> = layouts.iter().map(wanted).collect();
    found.with_context(|| format!("{shown} has a layout without a name or columns"))
}

/// Refuses what is no layout of the table, or useless.
pub(super) fn check(wanted: &[Wanted], table: &Table, mode: Mode) -> Result<()> {
    if wanted.is_empty() {
        bail!("there is no layout to create: give --layout NAME=column,… or --design FILE");
    }
    let own: Vec<&str> = table.clustering.iter().map(|c| c.name.as_str()).collect();
    let mut sorted = own.clone();
    sorted.sort_unstable();
    for (at, layout) in wanted.iter().enumerate() {
        let Wanted {
            name,
            clustering,
            data_center,
        } = layout;
        names::check_layout(name)?;
        if mode == Mode::Add {
            names::physical(&table.name.table, name)?;
        }
        if let (Mode::Add, Some(data_center)) = (mode, data_center) {
            bail!(
                "layout {name} is to be in data center {data_center}, but in mode `add` layouts are wherever the \
                 table is: leave @{data_center} out, or give --mode replace"
            );
        }
        let mut columns: Vec<&str> = clustering.iter().map(String::as_str).collect();
        if columns == own && mode == Mode::Add {
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
        // Copies in place of replicas may well be alike.
        let is_alike = |other: &&Wanted| {
            other.name == *name || (mode == Mode::Add && other.clustering == *clustering)
        };
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
    fn a_layout_may_name_its_data_center() {
        let of = |text: &str| {
            let wanted = parse(text).expect(text);
            (wanted.clustering.join(" "), wanted.data_center)
        };
        assert_eq!(of("x=b,a"), ("b a".to_owned(), None));
        assert_eq!(
            of("x=b, A@DC 1"),
            ("b a".to_owned(), Some("DC 1".to_owned()))
        );
        assert!(parse("x").is_err() && parse("X=a").is_err());
    }

    #[test]
    fn a_design_is_for_one_mode() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let design = r#"{"table": "shop.orders", "mode": "replace", "layouts": [{"name": "A", "clustering": ["b", "a"]}]}"#;
        std::fs::write(file.path(), design).expect("written");
        let table: TableName = "shop.orders".parse().expect("a name");
        let found = of_design(file.path(), &table, Mode::Replace).expect("a design");
        assert_eq!(
            (&*found[0].name, &*found[0].clustering),
            ("a", &["b", "a"].map(str::to_owned)[..])
        );
        let refused = of_design(file.path(), &table, Mode::Add).expect_err("another mode");
        assert!(refused.to_string().contains("--mode replace"), "{refused}");
    }
}
