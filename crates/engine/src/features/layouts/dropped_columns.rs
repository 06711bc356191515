//! ALTER TABLE … DROP on a table with layouts. Columns are dropped from the table first and then from its layouts: as long as
//! one of them does not have a column, a write that names it fails as a whole, and a layout that has one more than its table
//! is not read.
//!
//! Cassandra remembers when a column was dropped, and hides what was written until then if the column is added again. Table
//! and layouts get one time, that of the statement or else the proxy's, so they hide the same. A layout that does not have
//! the column (any more) is left as it is: so a statement that ended between the two can be repeated with IF EXISTS.

use helenus_cql::lexer::{Lexer, Token, TokenKind};

use crate::statement::words::is_one_of;

/// `DROP [IF EXISTS] name`, or several in brackets, `[USING TIMESTAMP n]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dropped<'a> {
    is_conditional: bool,
    /// As they are written, with the brackets.
    names: &'a str,
    /// As it is written.
    timestamp: Option<&'a str>,
}

impl<'a> Dropped<'a> {
    /// Up to the end of the statement. `text`: behind the table's name.
    pub(crate) fn parse(text: &'a str) -> Option<Dropped<'a>> {
        let written = |token: &Token| text.get(token.start..token.end).unwrap_or_default();
        let is = |token: &Token, word: &str| {
            token.kind == TokenKind::Word && is_one_of(written(token), &[word])
        };
        let mut tokens = Lexer::new(text).peekable();
        tokens.next().filter(|token| is(token, "drop"))?;
        // No column has this name: it is a word of the language.
        let is_conditional = tokens.next_if(|token| is(token, "if")).is_some();
        if is_conditional {
            tokens.next().filter(|token| is(token, "exists"))?;
        }
        let first = tokens.next()?;
        let is_name = |token: &Token| matches!(token.kind, TokenKind::Word | TokenKind::QuotedName);
        let mut end = first.end;
        if first.kind == TokenKind::LParen {
            loop {
                tokens.next().filter(is_name)?;
                let next = tokens.next()?;
                end = next.end;
                match next.kind {
                    TokenKind::Comma => {}
                    TokenKind::RParen => break,
                    _ => return None,
                }
            }
        } else if !is_name(&first) {
            return None;
        }
        let mut timestamp = None;
        if tokens.next_if(|token| is(token, "using")).is_some() {
            tokens.next().filter(|token| is(token, "timestamp"))?;
            let time = tokens.next()?;
            let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
            timestamp = Some(written(&time)).filter(is_number);
            timestamp?;
        }
        let names = text.get(first.start..end)?;
        let dropped = Dropped {
            is_conditional,
            names,
            timestamp,
        };
        tokens
            .all(|token| token.kind == TokenKind::Semicolon)
            .then_some(dropped)
    }

    /// The same on the table, and on a layout.
    pub(crate) fn texts(&self, now_us: i64) -> (String, String) {
        let Dropped { names, .. } = self;
        let timestamp = self.timestamp.map_or(now_us.to_string(), str::to_owned);
        let on = |condition: &str| format!(" DROP {condition}{names} USING TIMESTAMP {timestamp}");
        let if_exists = "IF EXISTS ";
        let own = if self.is_conditional { if_exists } else { "" };
        (on(own), on(if_exists))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_layouts_get_one_time_and_layouts_may_lack_the_column() {
        for (text, own, layout) in [
            (
                " DROP a",
                " DROP a USING TIMESTAMP 7",
                " DROP IF EXISTS a USING TIMESTAMP 7",
            ),
            (
                "/* why */ drop if exists \"A b\"; -- end\n",
                " DROP IF EXISTS \"A b\" USING TIMESTAMP 7",
                " DROP IF EXISTS \"A b\" USING TIMESTAMP 7",
            ),
            (
                " DROP (a,b , \"c\") USING timestamp 123;",
                " DROP (a,b , \"c\") USING TIMESTAMP 123",
                " DROP IF EXISTS (a,b , \"c\") USING TIMESTAMP 123",
            ),
            (
                " DROP compact",
                " DROP compact USING TIMESTAMP 7",
                " DROP IF EXISTS compact USING TIMESTAMP 7",
            ),
        ] {
            let dropped = Dropped::parse(text).expect(text);
            assert_eq!(dropped.texts(7), (own.to_owned(), layout.to_owned()));
        }
    }

    #[test]
    fn what_else_is_dropped_is_not_understood() {
        for text in [
            "",
            " DROP",
            " DROP COMPACT STORAGE",
            " DROP ()",
            " DROP (a",
            " DROP (a,)",
            " DROP (a) b",
            " DROP a, b",
            " DROP 'a'",
            " DROP IF a",
            " DROP a; DROP TABLE t",
            " DROP a USING TTL 5",
            " DROP a USING TIMESTAMP",
            " DROP a USING TIMESTAMP -5",
            " DROP a USING TIMESTAMP ?",
            " DROP a USING TIMESTAMP 5 6",
            " RENAME a TO b",
        ] {
            assert_eq!(Dropped::parse(text), None, "{text}");
        }
    }
}
