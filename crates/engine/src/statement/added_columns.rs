//! ALTER TABLE … ADD on a table with layouts. A column is added to the layouts first and then to the table, and no
//! write is lost on the way: as long as a layout does not have it, a write that names it fails as a whole.

use helenus_cql::lexer::{Lexer, Token, TokenKind};
use helenus_layout::plan::{LogicalTable, is_one_cell, may_hold_time};

use crate::statement::words::is_one_of;

/// What stands behind the table's name, `ADD …`, as it is on a layout: one that has the column already, because the
/// table's ALTER has failed, is left as it is.
///
/// # Errors
/// Why layouts cannot follow.
pub(super) fn on_layout(behind: &str, table: &LogicalTable) -> Result<String, String> {
    let added = Added::parse(behind).ok_or("it is not understood")?;
    if let Some(why) = added.types.iter().find_map(|of| obstacle(of, table)) {
        return Err(why);
    }
    Ok(match added.if_not_exists {
        true => behind.to_owned(),
        false => {
            let (verb, columns) = behind.split_at(added.verb_end);
            format!("{verb} IF NOT EXISTS{columns}")
        }
    })
}

/// Why a column of this type is not added.
fn obstacle(cql_type: &str, table: &LogicalTable) -> Option<String> {
    if cql_type.split_whitespace().any(|word| word == "masked") {
        return Some("masks are not carried to layouts".to_owned());
    }
    if !is_one_cell(cql_type) {
        return Some(format!(
            "values of type {cql_type} have several cells, and CQL does not tell of all of them when they were \
             written: take a frozen type"
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
    /// Where `ADD` ends.
    verb_end: usize,
    if_not_exists: bool,
    /// In lower case, with MASKED if there is a mask, but without STATIC.
    types: Vec<String>,
}

impl Added {
    /// `ADD [IF NOT EXISTS] name type [STATIC]`, or several of these in brackets, up to the end of the statement.
    fn parse(text: &str) -> Option<Added> {
        let written = |token: &Token| text.get(token.start..token.end).unwrap_or_default();
        let is = |token: &Token, word: &str| {
            token.kind == TokenKind::Word && is_one_of(written(token), &[word])
        };
        let mut tokens = Lexer::new(text).peekable();
        let verb_end = tokens.next().filter(|token| is(token, "add"))?.end;
        // No column has this name: it is a word of the language.
        let if_not_exists = tokens.next_if(|token| is(token, "if")).is_some();
        if if_not_exists {
            tokens.next().filter(|token| is(token, "not"))?;
            tokens.next().filter(|token| is(token, "exists"))?;
        }
        let in_brackets = tokens
            .next_if(|token| token.kind == TokenKind::LParen)
            .is_some();
        let mut types = Vec::new();
        loop {
            tokens
                .next()
                .filter(|name| matches!(name.kind, TokenKind::Word | TokenKind::QuotedName))?;
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
                    _ if is(&token, "static") && angles == 0 => continue,
                    _ => {}
                }
                of = Some((of.map_or(token.start, |(start, _)| start), token.end));
            }
            let (start, end) = of.filter(|_| angles == 0)?;
            types.push(text.get(start..end)?.to_ascii_lowercase());
            match tokens.next() {
                Some(token) if token.kind == TokenKind::Comma && in_brackets => {}
                Some(token) if token.kind == TokenKind::RParen && in_brackets => break,
                None if !in_brackets => break,
                Some(token) if token.kind == TokenKind::Semicolon && !in_brackets => {
                    return tokens.next().is_none().then_some(Added {
                        verb_end,
                        if_not_exists,
                        types,
                    });
                }
                _ => return None,
            }
        }
        tokens.next_if(|token| token.kind == TokenKind::Semicolon);
        tokens.next().is_none().then_some(Added {
            verb_end,
            if_not_exists,
            types,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(may_hold_times: bool) -> LogicalTable {
        LogicalTable {
            keyspace: "app".to_owned(),
            name: "orders".to_owned(),
            partition_key: Vec::new(),
            clustering: Vec::new(),
            columns: Vec::new(),
            indexed: false,
            may_hold_times,
            copies: Vec::new(),
            distinct: Default::default(),
            rows: None,
        }
    }

    #[test]
    fn columns_are_added_where_they_are_missing() {
        for (behind, expected) in [
            (" ADD a int", " ADD IF NOT EXISTS a int"),
            (" add a INT static;", " add IF NOT EXISTS a INT static;"),
            (
                " ADD IF NOT EXISTS \"A b\" frozen<map<text, list<int>>>",
                " ADD IF NOT EXISTS \"A b\" frozen<map<text, list<int>>>",
            ),
            (
                "/* why */ADD/**/(a int, static vector<float, 3>, b frozen<set<int>> static) ; -- end",
                "/* why */ADD IF NOT EXISTS/**/(a int, static vector<float, 3>, b frozen<set<int>> static) ; -- end",
            ),
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
            " ADD a timestamp",
            " ADD a frozen<address>",
        ] {
            assert!(on_layout(behind, &table(false)).is_err(), "{behind}");
        }
        for behind in [" ADD a timestamp", " ADD a frozen<address>"] {
            assert!(on_layout(behind, &table(true)).is_ok(), "{behind}");
        }
    }
}
