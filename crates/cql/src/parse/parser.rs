//! A place among the tokens of a statement, and the steps that every part of the grammar takes from it.

use std::ops::Range;

use crate::facts::{Facts, Term};
use crate::lexer::TokenKind;
use crate::modification::{Assigned, AssignedValue, Change, Changed, Modification};
use crate::name::{Name, fold_identifier};
use crate::scan::{Scan, is_name};

pub(super) struct Parser<'a> {
    pub(super) scan: &'a Scan<'a>,
    /// The next token.
    pub(super) pos: usize,
    /// The changes of a modification, for callers who want to know.
    pub(super) modification: Option<Modification>,
    /// Markers among the tokens before that one: those before the values noted so far.
    markers_before: (usize, usize),
}

impl<'a> Parser<'a> {
    pub(super) fn new(scan: &'a Scan<'a>) -> Self {
        Parser {
            scan,
            pos: 0,
            modification: None,
            markers_before: (0, 0),
        }
    }
}

impl Parser<'_> {
    pub(super) fn peek(&self) -> Option<TokenKind> {
        self.scan.kind(self.pos)
    }

    /// The kind of the token after the next.
    pub(super) fn peek_second(&self) -> Option<TokenKind> {
        self.scan.kind(self.pos + 1)
    }

    pub(super) fn at_word(&self, keyword: &str) -> bool {
        self.scan.is_word(self.pos, keyword)
    }

    pub(super) fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek() == Some(kind);
        self.pos += usize::from(found);
        found
    }

    pub(super) fn eat_word(&mut self, keyword: &str) -> bool {
        let found = self.at_word(keyword);
        self.pos += usize::from(found);
        found
    }

    /// Consumes all the keywords in a row, or none.
    pub(super) fn eat_words(&mut self, keywords: &[&str]) -> bool {
        let found = keywords
            .iter()
            .enumerate()
            .all(|(ahead, keyword)| self.scan.is_word(self.pos + ahead, keyword));
        if found {
            self.pos += keywords.len();
        }
        found
    }

    pub(super) fn need(&mut self, kind: TokenKind) -> Option<()> {
        self.eat(kind).then_some(())
    }

    pub(super) fn need_word(&mut self, keyword: &str) -> Option<()> {
        self.eat_word(keyword).then_some(())
    }

    pub(super) fn name(&mut self) -> Option<Name> {
        if !self.peek().is_some_and(is_name) {
            return None;
        }
        let name = fold_identifier(self.scan.str(self.pos));
        self.pos += 1;
        Some(name)
    }

    /// `keyspace.name` or `name`.
    pub(super) fn qualified(&mut self) -> Option<(Option<Name>, Name)> {
        let first = self.name()?;
        if self.eat(TokenKind::Dot) {
            Some((Some(first), self.name()?))
        } else {
            Some((None, first))
        }
    }

    /// Notes what happens to the column whose name is the token at this position.
    pub(super) fn note(&mut self, column: usize, change: Change) {
        if let Some(modification) = &mut self.modification {
            let column = fold_identifier(self.scan.str(column));
            modification.changed.push(Changed { column, change });
        }
    }

    /// Markers up to here. Values are noted in their order, so each token is counted once.
    fn markers_so_far(&mut self) -> u16 {
        let (from, before) = match self.markers_before {
            known if known.0 <= self.pos => known,
            _ => (0, 0),
        };
        let toks = self.scan.toks.get(from..self.pos).unwrap_or_default();
        let is_marker = |kind| matches!(kind, TokenKind::Question | TokenKind::NamedMarker);
        let count = before + toks.iter().filter(|tok| is_marker(tok.kind)).count();
        self.markers_before = (self.pos, count);
        u16::try_from(count).unwrap_or(u16::MAX)
    }

    /// Notes the value that a whole column gets: the tokens from `value` to here. `None`: it is deleted.
    pub(super) fn note_assigned(&mut self, column: usize, value: Option<(usize, Term)>) {
        if self.modification.is_none() {
            return;
        }
        let value = value.map(|(from, term)| AssignedValue {
            term,
            span: self.span_from(from),
            markers: self.markers_so_far(),
        });
        let of = self.scan.toks.get(column);
        let assigned = Assigned {
            column: fold_identifier(self.scan.str(column)),
            name: of.map_or(0..0, |tok| tok.start..tok.end),
            value,
        };
        if let Some(modification) = &mut self.modification {
            modification.assigned.push(assigned);
        }
    }

    pub(super) fn table(&mut self, facts: &mut Facts) -> Option<()> {
        let start = self.pos;
        let (keyspace, table) = self.qualified()?;
        facts.keyspace = keyspace;
        facts.table = Some(table);
        facts.spans.table = Some(self.span_from(start));
        Some(())
    }

    /// `(a, b, …)` with names only. Consumes nothing if it is something else.
    pub(super) fn names_in_parens(&mut self) -> Option<Vec<Name>> {
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
    pub(super) fn partner(&self, open: usize) -> Option<usize> {
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
    pub(super) fn span_from(&self, start: usize) -> Range<usize> {
        self.span(start..self.pos)
    }

    pub(super) fn span(&self, toks: Range<usize>) -> Range<usize> {
        let first = self.scan.toks.get(toks.start);
        let last = toks.end.checked_sub(1).and_then(|i| self.scan.toks.get(i));
        match (first, last) {
            (Some(first), Some(last)) if first.start <= last.end => first.start..last.end,
            (Some(first), _) => first.start..first.start,
            _ => self.scan.text.len()..self.scan.text.len(),
        }
    }
}
