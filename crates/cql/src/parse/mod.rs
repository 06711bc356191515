//! Parses the tokens of one statement by Cassandra's grammar. Each function consumes what it
//! understands and returns None at the first thing it does not; the statement is then opaque.

mod modify;
mod relation;
mod schema;
mod select;
mod term;

use std::ops::Range;

use crate::facts::{Facts, Kind};
use crate::lexer::TokenKind;
use crate::name::{Name, fold_identifier};
use crate::scan::{Scan, is_name, scan};

/// What a proxy must know about `text`. Never fails and never panics; linear in the length of the
/// text.
pub fn facts(text: &str) -> Facts {
    let scan = scan(text);
    let mut parser = Parser {
        scan: &scan,
        pos: 0,
    };
    let understood = if scan.sound { parser.query() } else { None };
    let mut facts = understood.unwrap_or_default();
    facts.markers = scan.markers;
    facts.named_markers = scan.named.clone();
    facts
}

struct Parser<'a> {
    scan: &'a Scan<'a>,
    /// The next token.
    pos: usize,
}

impl Parser<'_> {
    fn query(&mut self) -> Option<Facts> {
        let start = self.pos;
        let mut facts = self.statement()?;
        facts.spans.statement = self.span_from(start);
        while self.eat(TokenKind::Semicolon) {}
        self.peek().is_none().then_some(facts)
    }

    fn statement(&mut self) -> Option<Facts> {
        if self.eat_word("select") {
            self.select()
        } else if self.eat_word("begin") {
            self.batch()
        } else if self.eat_word("use") {
            let keyspace = self.name()?;
            Some(Facts {
                kind: Kind::Use,
                keyspace: Some(keyspace.clone()),
                use_keyspace: Some(keyspace),
                ..Facts::default()
            })
        } else if self.eat_word("truncate") {
            let _ = self.eat_word("table") || self.eat_word("columnfamily");
            let mut facts = Facts {
                kind: Kind::Truncate,
                ..Facts::default()
            };
            self.table(&mut facts)?;
            Some(facts)
        } else {
            let start = self.pos;
            match self.modification() {
                None if self.pos == start => self.schema(),
                found => found,
            }
        }
    }

    fn peek(&self) -> Option<TokenKind> {
        self.scan.kind(self.pos)
    }

    /// The kind of the token after the next.
    fn peek_second(&self) -> Option<TokenKind> {
        self.scan.kind(self.pos + 1)
    }

    fn at_word(&self, keyword: &str) -> bool {
        self.scan.is_word(self.pos, keyword)
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek() == Some(kind);
        self.pos += usize::from(found);
        found
    }

    fn eat_word(&mut self, keyword: &str) -> bool {
        let found = self.at_word(keyword);
        self.pos += usize::from(found);
        found
    }

    /// Consumes all the keywords in a row, or none.
    fn eat_words(&mut self, keywords: &[&str]) -> bool {
        let found = keywords
            .iter()
            .enumerate()
            .all(|(ahead, keyword)| self.scan.is_word(self.pos + ahead, keyword));
        if found {
            self.pos += keywords.len();
        }
        found
    }

    fn need(&mut self, kind: TokenKind) -> Option<()> {
        self.eat(kind).then_some(())
    }

    fn need_word(&mut self, keyword: &str) -> Option<()> {
        self.eat_word(keyword).then_some(())
    }

    fn name(&mut self) -> Option<Name> {
        if !self.peek().is_some_and(is_name) {
            return None;
        }
        let name = fold_identifier(self.scan.str(self.pos));
        self.pos += 1;
        Some(name)
    }

    /// `keyspace.name` or `name`.
    fn qualified(&mut self) -> Option<(Option<Name>, Name)> {
        let first = self.name()?;
        if self.eat(TokenKind::Dot) {
            Some((Some(first), self.name()?))
        } else {
            Some((None, first))
        }
    }

    fn table(&mut self, facts: &mut Facts) -> Option<()> {
        let start = self.pos;
        let (keyspace, table) = self.qualified()?;
        facts.keyspace = keyspace;
        facts.table = Some(table);
        facts.spans.table = Some(self.span_from(start));
        Some(())
    }

    /// `(a, b, …)` with names only. Consumes nothing if it is something else.
    fn names_in_parens(&mut self) -> Option<Vec<Name>> {
        let before = self.pos;
        let names = self.try_names_in_parens();
        if names.is_none() {
            self.pos = before;
        }
        names
    }

    fn try_names_in_parens(&mut self) -> Option<Vec<Name>> {
        self.need(TokenKind::LParen)?;
        let mut names = vec![self.name()?];
        while self.eat(TokenKind::Comma) {
            names.push(self.name()?);
        }
        self.need(TokenKind::RParen)?;
        Some(names)
    }

    /// The position where the bracket at `open` is closed; None if no bracket opens there.
    fn partner(&self, open: usize) -> Option<usize> {
        self.scan
            .toks
            .get(open)
            .filter(|tok| {
                matches!(
                    tok.kind,
                    TokenKind::LParen | TokenKind::LBracket | TokenKind::LBrace
                )
            })
            .map(|tok| tok.link)
    }

    /// The bytes from the token at `start` to the end of the last token consumed.
    fn span_from(&self, start: usize) -> Range<usize> {
        self.span(start..self.pos)
    }

    fn span(&self, toks: Range<usize>) -> Range<usize> {
        let first = self.scan.toks.get(toks.start);
        let last = toks.end.checked_sub(1).and_then(|i| self.scan.toks.get(i));
        match (first, last) {
            (Some(first), Some(last)) if first.start <= last.end => first.start..last.end,
            (Some(first), _) => first.start..first.start,
            _ => self.scan.text.len()..self.scan.text.len(),
        }
    }
}
