//! ALTER TABLE … ADD on a table with layouts. A column is added to the layouts first and then to the table, and no
//! write is lost on the way: as long as one of them does not have it, a write that names it fails as a whole.
//!
//! A layout that has the column when the table has not is not what it should be: it may be left of another type, or
//! hold values of a column that was dropped. So IF NOT EXISTS is carried only if the table has the columns, too.

use std::ops::Range;

use helenus_cql::lexer::{Lexer, Token, TokenKind};
use helenus_cql::{Name, fold_identifier};
use helenus_layout::plan::{LogicalTable, is_one_cell, may_hold_time};

use crate::statement::words::is_one_of;

const NOT_UNDERSTOOD: &str = "it is not understood";

/// What stands behind the table's name, `ADD …`, as it is on a layout.
///
/// # Errors
/// Why layouts cannot follow.
pub(super) fn on_layout(behind: &str, table: &LogicalTable) -> Result<String, String> {
    let added = Added::parse(behind).ok_or(NOT_UNDERSTOOD)?;
    if added.is_masked {
        return Err("masks are not carried to layouts".to_owned());
    }
    if let Some(why) = added.types.iter().find_map(|of| obstacle(of, table)) {
        return Err(why);
    }
    let is_there = |name: &Name| table.columns.iter().any(|column| column.name == **name);
    let condition = added
        .condition
        .filter(|_| !added.names.iter().all(is_there));
    Ok(match condition {
        Some(Range { start, end }) => {
            let without = (behind.get(..start), behind.get(end..));
            let (before, after) = without.0.zip(without.1).ok_or(NOT_UNDERSTOOD)?;
            format!("{before}{}", after.trim_start())
        }
        None => behind.to_owned(),
    })
}

/// Why a column of this type is not added.
fn obstacle(cql_type: &str, table: &LogicalTable) -> Option<String> {
    if !is_one_cell(cql_type) {
        return Some(format!(
            "type {cql_type} is not a simple or frozen one, and of values with several cells CQL does not tell of \
             all of them when they were written"
        ));
    }
    let is_first = may_hold_time(cql_type) && !table.may_hold_times;
    is_first.then(|| {
        format!(
            "it would be the first column that may hold a timestamp ({cql_type}), and proxies that do not know of \
             it yet would write the text 'now' as another time to each of them"
        )
    })
}

struct Added {
    /// `IF NOT EXISTS`.
    condition: Option<Range<usize>>,
    names: Vec<Name>,
    /// In lower case, without STATIC and masks.
    types: Vec<String>,
    is_masked: bool,
}

impl Added {
    /// `ADD [IF NOT EXISTS] name type [STATIC]`, or several of these in brackets, up to the end of the statement.
    fn parse(text: &str) -> Option<Added> {
        let written = |token: &Token| text.get(token.start..token.end).unwrap_or_default();
        let is = |token: &Token, word: &str| {
            token.kind == TokenKind::Word && is_one_of(written(token), &[word])
        };
        let mut added = Added {
            condition: None,
            names: Vec::new(),
            types: Vec::new(),
            is_masked: false,
        };
        let mut tokens = Lexer::new(text).peekable();
        tokens.next().filter(|token| is(token, "add"))?;
        // No column has this name: it is a word of the language.
        if let Some(first) = tokens.next_if(|token| is(token, "if")) {
            tokens.next().filter(|token| is(token, "not"))?;
            let last = tokens.next().filter(|token| is(token, "exists"))?;
            added.condition = Some(first.start..last.end);
        }
        let in_brackets = tokens
            .next_if(|token| token.kind == TokenKind::LParen)
            .is_some();
        loop {
            let name = tokens
                .next()
                .filter(|name| matches!(name.kind, TokenKind::Word | TokenKind::QuotedName))?;
            added.names.push(fold_identifier(written(&name)));
            let mut of: Option<(usize, usize)> = None;
            let mut angles = 0_usize;
            while let Some(token) = tokens.next_if(|token| match token.kind {
                TokenKind::Comma => angles > 0,
                TokenKind::RParen => !in_brackets,
                kind => kind != TokenKind::Semicolon,
            }) {
                match token.kind {
                    TokenKind::Less => angles += 1,
                    TokenKind::Greater => angles = angles.checked_sub(1)?,
                    _ if angles == 0 && of.is_some() && is(&token, "static") => continue,
                    _ => {}
                }
                added.is_masked |= of.is_some() && is(&token, "masked");
                of = Some((of.map_or(token.start, |(start, _)| start), token.end));
            }
            let (start, end) = of.filter(|_| angles == 0)?;
            added.types.push(text.get(start..end)?.to_ascii_lowercase());
            if !in_brackets {
                break;
            }
            match tokens.next()?.kind {
                TokenKind::Comma => {}
                TokenKind::RParen => break,
                _ => return None,
            }
        }
        tokens
            .all(|token| token.kind == TokenKind::Semicolon)
            .then_some(added)
    }
}

#[cfg(test)]
mod tests {
    use helenus_layout::plan::Column;

    use super::*;

    fn table(may_hold_times: bool) -> LogicalTable {
        LogicalTable {
            keyspace: "app".to_owned(),
            name: "orders".to_owned(),
            partition_key: Vec::new(),
            clustering: Vec::new(),
            columns: vec![Column {
                name: "total".to_owned(),
                cql_type: "int".to_owned(),
                is_static: false,
            }],
            indexed: false,
            may_hold_times,
            copies: Vec::new(),
            distinct: Default::default(),
            rows: None,
        }
    }

    #[test]
    fn a_column_is_added_unless_the_table_has_it() {
        for unchanged in [
            " ADD a int",
            " add a INT static;;",
            " ADD \"A b\" frozen<map<text, list<int>>>",
            "/* why */ADD/**/(a int, static vector<float, 3>, b frozen<set<int>> static) ; -- end\n",
            " ADD IF NOT EXISTS total int",
        ] {
            assert_eq!(
                on_layout(unchanged, &table(false)).as_deref(),
                Ok(unchanged)
            );
        }
        for (behind, expected) in [
            (" ADD IF NOT EXISTS a int", " ADD a int"),
            (
                " add if/**/not exists (total int, a int)",
                " add (total int, a int)",
            ),
            (" ADD IF NOT EXISTS \"Total\" int", " ADD \"Total\" int"),
        ] {
            assert_eq!(on_layout(behind, &table(false)).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn types_are_found_behind_the_names() {
        let types = |text: &str| Added::parse(text).map(|added| added.types);
        let of = |types: &[&str]| Some(types.iter().map(|of| (*of).to_owned()).collect::<Vec<_>>());
        assert_eq!(types("ADD a Int STATIC"), of(&["int"]));
        assert_eq!(
            types("ADD (\"static\" text, b Map<int, frozen<ks.\"Of\">> static)"),
            of(&["text", "map<int, frozen<ks.\"of\">>"])
        );
    }

    #[test]
    fn what_layouts_cannot_follow_is_refused() {
        for behind in [
            " ADD",
            " ADD a",
            " ADD a static",
            " ADD a int, b int",
            " ADD a int)",
            " ADD (a int",
            " ADD (a int,)",
            " ADD (a int) (b int)",
            " ADD a int; DROP TABLE t",
            " ADD (a int); DROP TABLE t",
            " ADD a frozen<list<int>",
            " ADD a frozen<list<int>>>",
            " ADD IF EXISTS a int",
            " ADD 'a' int",
            " ADD a list<int>",
            " ADD a set<int>",
            " ADD (b int, a map<int, int> static)",
            " ADD a address",
            " ADD a counter",
            " ADD a 'org.apache.cassandra.db.marshal.Int32Type'",
            " ADD a int MASKED WITH DEFAULT",
            " ADD a frozen<list<int>>MASKED WITH DEFAULT",
            " ADD a tuple",
            " ADD a vector",
            " ADD a timestamp",
            " ADD a frozen<address>",
        ] {
            assert!(on_layout(behind, &table(false)).is_err(), "{behind}");
        }
        for behind in [" ADD a timestamp", " ADD a frozen<address>"] {
            assert!(on_layout(behind, &table(true)).is_ok(), "{behind}");
        }
        let masked = " ADD a tuple<int, int> masked/**/with default";
        assert!(on_layout(masked, &table(true)).is_err());
    }
}
