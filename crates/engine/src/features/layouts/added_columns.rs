//! ALTER TABLE … ADD on a table with layouts. A column is added to the layouts first and then to the table, and no
//! write is lost on the way: as long as one of them does not have it, a write that names it fails as a whole.
//!
//! A layout that has the column when the table has not is left of such a statement that ended between the two: then it
//! needs no other. But the column may be of another type, or hold values of one that the table has had: such a layout is
//! not carried along ([`Copy::further`]). So IF NOT EXISTS is carried only if the table has the columns, too.

use std::ops::Range;

use helenus_cql::lexer::{Lexer, Token, TokenKind};
use helenus_cql::{fold_identifier, quote_identifier};
use helenus_layout::plan::{
    Column, Copy, LogicalTable, is_one_cell, may_hold_time, qualified_table,
};

use crate::statement::words::is_one_of;

pub(super) const NOT_UNDERSTOOD: &str = "it is not understood";

/// The text behind the table's name, `ADD …`, as it is on a layout; `None` if that has the columns already.
///
/// # Errors
/// Why layouts cannot follow.
pub(crate) fn on_layout(
    behind: &str,
    table: &LogicalTable,
    copy: &Copy,
) -> Result<Option<String>, String> {
    let added = Added::parse(behind).ok_or(NOT_UNDERSTOOD)?;
    if added.is_masked {
        return Err("masks are not carried to layouts".to_owned());
    }
    let mut types = added.columns.iter().map(|column| &column.cql_type);
    if let Some(why) = types.find_map(|of| obstacle(of, table)) {
        return Err(why);
    }
    match added.count_of(copy) {
        0 => {}
        all if all == added.columns.len() => return Ok(None),
        _ => {
            return Err(format!(
                "{} has some of the columns already: add them one by one",
                copy.physical
            ));
        }
    }
    let is_there = |added: &Column| table.columns.iter().any(|column| column.name == added.name);
    let condition = added
        .condition
        .filter(|_| !added.columns.iter().all(is_there));
    Ok(Some(match condition {
        Some(Range { start, end }) => {
            let without = (behind.get(..start), behind.get(end..));
            let (before, after) = without.0.zip(without.1).ok_or(NOT_UNDERSTOOD)?;
            format!("{before}{}", after.trim_start())
        }
        None => behind.to_owned(),
    }))
}

/// A layout still has a column of this name, which the table has dropped: why that comes first. `behind`: as for
/// [`on_layout`].
pub(crate) fn outlived(behind: &str, table: &LogicalTable) -> Option<String> {
    let added = Added::parse(behind)?;
    let (copy, column) = table.copies.iter().find_map(|copy| {
        let mut columns = added.columns.iter();
        let is_there = |added: &&Column| copy.outlived.contains(&added.name);
        Some((copy, columns.find(is_there)?))
    })?;
    let (name, column) = (qualified_table(table), quote_identifier(&column.name));
    Some(format!(
        "Helenus: {name} has dropped the column {column}, and its layout {} has not: first repeat ALTER TABLE {name} DROP \
         IF EXISTS {column}",
        copy.physical
    ))
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
    /// Their types in lower case, as they are spelled.
    columns: Vec<Column>,
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
            columns: Vec::new(),
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
            let name = fold_identifier(written(&name));
            let mut is_static = false;
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
                    _ if angles == 0 && of.is_some() && is(&token, "static") => {
                        is_static = true;
                        continue;
                    }
                    _ => {}
                }
                added.is_masked |= of.is_some() && is(&token, "masked");
                of = Some((of.map_or(token.start, |(start, _)| start), token.end));
            }
            let (start, end) = of.filter(|_| angles == 0)?;
            added.columns.push(Column {
                name: name.as_str().to_owned(),
                cql_type: text.get(start..end)?.to_ascii_lowercase(),
                is_static,
            });
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

    /// How many of the columns a layout has that the table has not.
    fn count_of(&self, copy: &Copy) -> usize {
        let spelled = |cql_type: &str| {
            let mut spaced = cql_type.to_ascii_lowercase();
            for mark in ["<", ">", ","] {
                spaced = spaced.replace(mark, &format!(" {mark} "));
            }
            let words = spaced.split_whitespace();
            let words = words.map(|word| if word == "varchar" { "text" } else { word });
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        let is_it = |added: &Column, column: &Column| {
            (&added.name, added.is_static) == (&column.name, column.is_static)
                && spelled(&added.cql_type) == spelled(&column.cql_type)
        };
        let has = |added: &&Column| copy.further.iter().any(|column| is_it(added, column));
        self.columns.iter().filter(has).count()
    }
}

#[cfg(test)]
mod tests {
    use helenus_layout::Layout;

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

    /// With columns that the table has not: name, type, and whether it is static.
    fn copy(further: &[(&str, &str, bool)]) -> Copy {
        let column = |(name, cql_type, is_static): &(&str, &str, bool)| Column {
            name: (*name).to_owned(),
            cql_type: (*cql_type).to_owned(),
            is_static: *is_static,
        };
        Copy {
            keyspace: None,
            physical: "orders__layout_a".to_owned(),
            layout: Layout::new(&[1, 0]).expect("a permutation"),
            readable: false,
            further: further.iter().map(column).collect(),
            outlived: Vec::new(),
        }
    }

    #[test]
    fn a_column_that_only_a_layout_has_not_dropped_is_dropped_there_before_it_is_added_again() {
        let mut left = copy(&[]);
        left.outlived = vec!["gone".to_owned()];
        let table = LogicalTable {
            copies: vec![copy(&[]), left],
            ..table(false)
        };
        for behind in [
            " ADD gone int",
            " ADD IF NOT EXISTS gone int",
            " ADD (a int, gone text)",
        ] {
            let why = outlived(behind, &table).expect(behind);
            assert!(why.contains("DROP IF EXISTS gone"), "{why}");
        }
        for behind in [
            " ADD a int",
            " ADD \"Gone\" int",
            " DROP gone",
            " WITH comment = 'x'",
        ] {
            assert_eq!(outlived(behind, &table), None, "{behind}");
        }
    }

    #[test]
    fn what_a_layout_has_already_is_not_added_to_it() {
        let left = copy(&[("a", "frozen<map<text, int>>", false), ("b", "text", true)]);
        let on = |behind: &str| on_layout(behind, &table(false), &left);
        for behind in [
            " ADD a frozen<map<varchar,int>>",
            " ADD IF NOT EXISTS a Frozen < Map<text, int> >",
            " ADD (b text static, a frozen<map<text, int>>)",
        ] {
            assert_eq!(on(behind), Ok(None), "{behind}");
        }
        // Of these it has another, or nothing.
        for behind in [" ADD a int", " ADD b text", " ADD \"A\" int"] {
            assert_eq!(on(behind), Ok(Some(behind.to_owned())), "{behind}");
        }
        let some = on(" ADD (b text static, c int)");
        assert!(some.is_err_and(|why| why.contains("one by one")));
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
                on_layout(unchanged, &table(false), &copy(&[])),
                Ok(Some(unchanged.to_owned()))
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
            assert_eq!(
                on_layout(behind, &table(false), &copy(&[])),
                Ok(Some(expected.to_owned()))
            );
        }
    }

    #[test]
    fn types_are_found_behind_the_names() {
        let types = |text: &str| {
            let columns = Added::parse(text)?.columns.into_iter();
            Some(columns.map(|column| column.cql_type).collect::<Vec<_>>())
        };
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
            assert!(
                on_layout(behind, &table(false), &copy(&[])).is_err(),
                "{behind}"
            );
        }
        for behind in [" ADD a timestamp", " ADD a frozen<address>"] {
            assert!(
                on_layout(behind, &table(true), &copy(&[])).is_ok(),
                "{behind}"
            );
        }
        let masked = " ADD a tuple<int, int> masked/**/with default";
        assert!(on_layout(masked, &table(true), &copy(&[])).is_err());
    }
}
