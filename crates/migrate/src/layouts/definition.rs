//! The definition of a layout's table.

use anyhow::{Result, bail};
use helenus_cql::lexer::{Lexer, Token, TokenKind};
use helenus_rows::{Column, Table, TableName};

use crate::nodes::cluster::Cluster;

/// The options of a table, as they follow WITH in its definition, less the clustering order.
pub(super) async fn options(cluster: &Cluster, name: &TableName) -> Result<String> {
    let rows: Vec<(String, String, String, String)> = cluster
        .rows(format!("DESCRIBE TABLE {}", name.to_cql()))
        .await?;
    let text = rows.into_iter().find(|row| row.1 == "table");
    let text = text.map(|row| row.3).unwrap_or_default();
    match options_of(&text) {
        Some(options) => Ok(options),
        None => bail!("the definition of {name} cannot be read: {text}"),
    }
}

/// A column that a layout's table gets later.
pub(super) fn add(layout: &TableName, column: &Column, is_static: bool) -> String {
    let kind = if is_static { " static" } else { "" };
    format!(
        "ALTER TABLE {} ADD IF NOT EXISTS {} {}{kind}",
        layout.to_cql(),
        column.to_cql(),
        column.cql_type
    )
}

/// The table in which a layout's rows are kept.
pub(super) fn create(table: &Table, options: &str, name: &TableName, order: &[String]) -> String {
    let names = |columns: &[&Column]| {
        let names: Vec<String> = columns.iter().map(|c| c.to_cql()).collect();
        names.join(", ")
    };
    let clustering = table.clustering_by(order);
    let mut lines: Vec<String> = Vec::new();
    for column in table.partition.iter().chain(clustering.iter().copied()) {
        lines.push(format!("{} {}", column.to_cql(), column.cql_type));
    }
    for column in &table.statics {
        lines.push(format!("{} {} static", column.to_cql(), column.cql_type));
    }
    for column in &table.regulars {
        lines.push(format!("{} {}", column.to_cql(), column.cql_type));
    }
    lines.push(format!(
        "PRIMARY KEY (({}), {})",
        names(&table.partition.iter().collect::<Vec<_>>()),
        names(&clustering)
    ));
    let order = clustering.iter().map(|column| {
        let direction = if column.descending { "DESC" } else { "ASC" };
        format!("{} {direction}", column.to_cql())
    });
    let order = order.collect::<Vec<_>>().join(", ");
    let options = match options.is_empty() {
        true => String::new(),
        false => format!(" AND {}", options),
    };
    format!(
        "CREATE TABLE IF NOT EXISTS {} ({}) WITH CLUSTERING ORDER BY ({order}){options}",
        name.to_cql(),
        lines.join(", ")
    )
}

fn options_of(definition: &str) -> Option<String> {
    let tokens: Vec<Token> = Lexer::new(definition).collect();
    let is_word = |token: &Token, word: &str| {
        let written = definition.get(token.start..token.end);
        token.kind == TokenKind::Word && written.is_some_and(|w| w.eq_ignore_ascii_case(word))
    };
    let mut depth = 0usize;
    let mut parts: Vec<(usize, usize)> = Vec::new();
    let mut begin = None;
    for token in &tokens {
        match token.kind {
            TokenKind::LParen => depth += 1,
            TokenKind::RParen => depth = depth.saturating_sub(1),
            TokenKind::Semicolon => {
                parts.extend(begin.take().map(|begin| (begin, token.start)));
                break;
            }
            _ if depth == 0 && begin.is_none() && is_word(token, "with") => begin = Some(token.end),
            _ if depth == 0 && is_word(token, "and") => {
                parts.extend(begin.replace(token.end).map(|begin| (begin, token.start)));
            }
            _ => {}
        }
    }
    parts.extend(begin.map(|begin| (begin, definition.len())));
    let parts = parts
        .iter()
        .map(|(begin, end)| definition.get(*begin..*end));
    let parts: Option<Vec<&str>> = parts.map(|part| part.map(str::trim)).collect();
    let parts = parts.filter(|parts| !parts.is_empty())?.into_iter();
    let kept = parts.filter(|part| !part.to_ascii_uppercase().starts_with("CLUSTERING ORDER"));
    Some(kept.collect::<Vec<_>>().join(" AND "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_rows::Shape;

    fn column(name: &str, cql_type: &str) -> Column {
        Column {
            name: name.to_owned(),
            cql_type: cql_type.to_owned(),
            descending: name == "b",
            shape: Shape::Single,
        }
    }

    #[test]
    fn options_are_taken_over_but_for_the_order() {
        let of =
            |text: &str| options_of(&format!("CREATE TABLE k.t (with_ int PRIMARY KEY){text}"));
        assert_eq!(
            of(
                " WITH CLUSTERING ORDER BY (a DESC, b ASC)\n    AND comment = 'a AND b; WITH ''c'''\n    \
                AND caching = {'keys': 'ALL', 'and': 'x'};"
            ),
            Some(
                "comment = 'a AND b; WITH ''c''' AND caching = {'keys': 'ALL', 'and': 'x'}".into()
            )
        );
        assert_eq!(
            of(" WITH gc_grace_seconds = 1;\nCREATE INDEX"),
            Some("gc_grace_seconds = 1".into())
        );
        assert_eq!(of(";"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn a_layouts_table_has_the_same_columns_in_its_own_order() {
        let table = Table {
            name: "k.t".parse().expect("a name"),
            partition: vec![column("P", "int")],
            clustering: vec![column("a", "int"), column("b", "text")],
            statics: vec![column("s", "text")],
            regulars: vec![column("v", "frozen<set<int>>")],
            default_ttl: 0,
            gc_grace_seconds: 1,
            is_odd: false,
        };
        let order = ["b", "a"].map(str::to_owned);
        assert_eq!(
            create(
                &table,
                "comment = 'x'",
                &"k.t__layout_x".parse().expect("a name"),
                &order
            ),
            "CREATE TABLE IF NOT EXISTS k.t__layout_x (\"P\" int, b text, a int, s text static, \
             v frozen<set<int>>, PRIMARY KEY ((\"P\"), b, a)) WITH CLUSTERING ORDER BY (b DESC, a ASC) AND \
             comment = 'x'"
        );
        let mut other = table.clone();
        assert!(!table.is_copied_by(&other, &order));
        other.clustering.reverse();
        assert!(table.is_copied_by(&other, &order));
        other.default_ttl = 60;
        assert!(!table.is_copied_by(&other, &order), "its rows expire");
        other.default_ttl = table.default_ttl;
        other.regulars.push(column("W", "int"));
        assert!(table.is_copied_by(&other, &order));
        let added = other
            .lacking(&table)
            .map(|(column, is_static)| add(&table.name, column, is_static));
        assert_eq!(
            added.collect::<Vec<_>>(),
            ["ALTER TABLE k.t ADD IF NOT EXISTS \"W\" int"]
        );
        other.regulars[0].cql_type = "frozen<set<text>>".to_owned();
        assert!(!table.is_copied_by(&other, &order));
        other.regulars.remove(0);
        let lacking = table
            .lacking(&other)
            .map(|(column, is_static)| (&*column.name, is_static));
        assert_eq!(lacking.collect::<Vec<_>>(), [("v", false)]);
    }
}
