//! Values: literals, markers, functions, collections, arithmetic.

use std::ops::Range;

use super::parser::Parser;
use crate::facts::Term;
use crate::lexer::TokenKind;
use crate::literal::Literal;
use crate::name::is_reserved;
use crate::scan::{is_literal_word, is_name};

pub(super) struct Value {
    pub term: Term,
    /// Calls a function, at any depth. Casts and arithmetic do not count: they are deterministic.
    pub calls: bool,
}

impl Parser<'_> {
    /// One term with its arithmetic. Stops before `+ name`, the end of a prepending assignment,
    /// because a name alone is not a value.
    pub(super) fn term(&mut self) -> Option<Value> {
        let mut value = self.operand()?;
        while self.at_operator() && !(self.peek() == Some(TokenKind::Plus) && self.bare_name_at(1))
        {
            self.pos += 1;
            value.calls |= self.operand()?.calls;
            value.term = Term::Other;
        }
        Some(value)
    }

    fn at_operator(&self) -> bool {
        matches!(
            self.peek(),
            Some(
                TokenKind::Plus
                    | TokenKind::Minus
                    | TokenKind::Star
                    | TokenKind::Slash
                    | TokenKind::Percent
            )
        )
    }

    /// True if the token at this distance is a name that is neither value nor function.
    fn bare_name_at(&self, ahead: usize) -> bool {
        let at = self.pos + ahead;
        self.scan.kind(at).is_some_and(is_name)
            && !(self.scan.kind(at) == Some(TokenKind::Word) && is_literal_word(self.scan.str(at)))
            && !matches!(
                self.scan.kind(at + 1),
                Some(TokenKind::LParen | TokenKind::Dot)
            )
    }

    fn operand(&mut self) -> Option<Value> {
        let mut calls = false;
        let mut bare = true;
        while self.eat(TokenKind::Minus) {
            bare = false;
        }
        // Each round except the last consumes a type cast: `(int) (ks.type) value`.
        loop {
            let kind = self.peek()?;
            match kind {
                TokenKind::LParen | TokenKind::LBracket | TokenKind::LBrace => {
                    let close = self.partner(self.pos)?;
                    calls |= self.calls_in(self.pos + 1..close);
                    self.pos = close + 1;
                    bare = false;
                    if kind == TokenKind::LParen && self.at_value() {
                        continue;
                    }
                    return Some(Value {
                        term: Term::Other,
                        calls,
                    });
                }
                TokenKind::Word | TokenKind::QuotedName if self.at_call() => {
                    calls |= !self.at_word("cast") || self.peek_second() != Some(TokenKind::LParen);
                    let open = self.call_paren()?;
                    let close = self.partner(open)?;
                    calls |= self.calls_in(open + 1..close);
                    self.pos = close + 1;
                    return Some(Value {
                        term: Term::Other,
                        calls,
                    });
                }
                _ => {
                    let term = self.simple()?;
                    self.pos += 1;
                    return Some(Value {
                        term: if bare { term } else { Term::Other },
                        calls,
                    });
                }
            }
        }
    }

    /// The marker or literal at the next token, which is not consumed.
    fn simple(&self) -> Option<Term> {
        let tok = self.scan.toks.get(self.pos)?;
        Some(match tok.kind {
            TokenKind::Question => Term::Marker(u16::try_from(tok.link).ok()?),
            TokenKind::NamedMarker => Term::NamedMarker(u16::try_from(tok.link).ok()?),
            TokenKind::Hex => match Literal::from_token(tok.kind, self.scan.str(self.pos)) {
                Some(blob) => Term::Literal(blob),
                None => Term::Other,
            },
            kind => Term::Literal(Literal::from_token(kind, self.scan.str(self.pos))?),
        })
    }

    /// True if a value starts here, as it would after a type cast.
    fn at_value(&self) -> bool {
        match self.peek() {
            Some(TokenKind::Word | TokenKind::QuotedName) => {
                self.at_call() || is_literal_word(self.scan.str(self.pos))
            }
            Some(
                TokenKind::LParen
                | TokenKind::LBracket
                | TokenKind::LBrace
                | TokenKind::Question
                | TokenKind::NamedMarker
                | TokenKind::Text
                | TokenKind::DollarText
                | TokenKind::Integer
                | TokenKind::Float
                | TokenKind::Hex
                | TokenKind::Uuid
                | TokenKind::Duration,
            ) => true,
            _ => false,
        }
    }

    fn at_call(&self) -> bool {
        self.call_paren().is_some()
    }

    /// The opening bracket of `f(` or `ks.f(`, if a function is called here.
    fn call_paren(&self) -> Option<usize> {
        let name_at = |at: usize| self.scan.kind(at).is_some_and(is_name);
        if !name_at(self.pos) {
            return None;
        }
        let open = match self.peek_second() {
            Some(TokenKind::Dot) if name_at(self.pos + 2) => self.pos + 3,
            _ if self.names_function(self.pos) => self.pos + 1,
            _ => return None,
        };
        (self.scan.kind(open) == Some(TokenKind::LParen)).then_some(open)
    }

    /// Any name but a keyword that only looks like a function: `AND (`, `IN (`, `WHERE (`.
    fn names_function(&self, at: usize) -> bool {
        match self.scan.kind(at) {
            Some(TokenKind::QuotedName) => true,
            Some(TokenKind::Word) => {
                self.scan.is_word(at, "token") || !is_reserved(self.scan.str(at))
            }
            _ => false,
        }
    }

    /// True if a function is called among these tokens, at any depth.
    pub(super) fn calls_in(&self, toks: Range<usize>) -> bool {
        self.called_in(toks)
            .any(|name| !name.eq_ignore_ascii_case("cast"))
    }

    /// The names of the functions called among these tokens, at any depth, as written.
    pub(super) fn called_in(&self, toks: Range<usize>) -> impl Iterator<Item = &str> {
        toks.filter(|at| {
            self.scan.kind(at + 1) == Some(TokenKind::LParen) && self.names_function(*at)
        })
        .map(|at| self.scan.str(at))
    }

    /// `(term, term, …)` or `()`.
    pub(super) fn terms_in_parens(&mut self) -> Option<(Vec<Term>, bool)> {
        self.need(TokenKind::LParen)?;
        let mut terms = Vec::new();
        let mut calls = false;
        while self.peek() != Some(TokenKind::RParen) {
            if !terms.is_empty() {
                self.need(TokenKind::Comma)?;
            }
            let value = self.term()?;
            calls |= value.calls;
            terms.push(value.term);
        }
        self.need(TokenKind::RParen)?;
        Some((terms, calls))
    }

    /// A marker or an integer.
    pub(super) fn int_or_marker(&mut self) -> Option<Term> {
        match self.peek()? {
            TokenKind::Integer | TokenKind::Question | TokenKind::NamedMarker => {
                let term = self.simple()?;
                self.pos += 1;
                Some(term)
            }
            _ => None,
        }
    }
}
