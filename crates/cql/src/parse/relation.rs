//! The restrictions of a WHERE clause.

use super::parser::Parser;
use crate::facts::{
    Facts, InRelation, InValues, KeyTerm, Op, RangeRelation, SelectFacts, Term, TokenRelation,
};
use crate::lexer::TokenKind;
use crate::scan::is_name;

impl Parser<'_> {
    /// `WHERE relation AND relation …`, added to the facts; `shapes` gets those that are not plain
    /// equalities. Returns whether a function is called somewhere.
    pub(super) fn where_clause(
        &mut self,
        facts: &mut Facts,
        shapes: &mut SelectFacts,
    ) -> Option<bool> {
        let keyword = self.pos;
        self.need_word("where")?;
        let start = self.pos;
        let mut calls = false;
        loop {
            calls |= self.relation(facts, shapes)?;
            if !self.eat_word("and") {
                break;
            }
        }
        facts.span_where = Some(self.span_from(start));
        facts.spans.where_clause = Some(self.span_from(keyword));
        Some(calls)
    }

    fn relation(&mut self, facts: &mut Facts, shapes: &mut SelectFacts) -> Option<bool> {
        let mut nested = 0usize;
        let calls = loop {
            let start = self.pos;
            if self.peek() == Some(TokenKind::LParen) {
                if let Some(columns) = self.names_in_parens() {
                    break self.tuple_relation(start, columns, shapes)?;
                }
                self.pos += 1;
                nested += 1;
            } else if self.at_word("token") {
                break self.token_relation(start, shapes)?;
            } else if self.at_word("expr") && self.peek_second() == Some(TokenKind::LParen) {
                let close = self.partner(self.pos + 1)?;
                let calls = self.calls_in(self.pos + 2..close);
                self.pos = close + 1;
                shapes.other_relations = true;
                break calls;
            } else {
                break self.column_relation(start, facts, shapes)?;
            }
        };
        for _ in 0..nested {
            self.need(TokenKind::RParen)?;
        }
        Some(calls)
    }

    fn column_relation(
        &mut self,
        start: usize,
        facts: &mut Facts,
        shapes: &mut SelectFacts,
    ) -> Option<bool> {
        let column = self.name()?;
        let mut calls = false;
        if self.peek() == Some(TokenKind::LBracket) {
            let close = self.partner(self.pos)?;
            calls |= self.calls_in(self.pos + 1..close);
            self.pos = close + 1;
            self.op()?;
            shapes.other_relations = true;
            return Some(self.term()?.calls || calls);
        }
        if let Some(op) = self.op() {
            let value = self.term()?;
            if op == Op::Equal {
                facts.key_terms.push(KeyTerm {
                    column,
                    term: value.term,
                });
            } else {
                shapes.ranges.push(RangeRelation {
                    columns: vec![column],
                    op,
                    terms: vec![value.term],
                    span: self.span_from(start),
                });
            }
            return Some(value.calls);
        }
        if self.eat_word("in") {
            let (values, in_calls) = self.in_values()?;
            shapes.ins.push(InRelation {
                columns: vec![column],
                values,
                span: self.span_from(start),
            });
            return Some(in_calls);
        }
        shapes.other_relations = true;
        if self.eat_words(&["is", "not", "null"]) {
            return Some(false);
        }
        if self.eat_word("between") {
            return self.between();
        }
        if self.eat_word("like") {
            return Some(self.term()?.calls);
        }
        let negated = self.eat_word("not");
        if negated && self.eat_word("in") {
            return Some(self.in_values()?.1);
        }
        self.need_word("contains")?;
        let _ = self.eat_word("key");
        Some(self.term()?.calls)
    }

    fn between(&mut self) -> Option<bool> {
        let low = self.term()?;
        self.need_word("and")?;
        Some(self.term()?.calls || low.calls)
    }

    fn in_values(&mut self) -> Option<(InValues, bool)> {
        if self.peek() == Some(TokenKind::LParen) {
            let (terms, calls) = self.terms_in_parens()?;
            Some((InValues::Terms(terms), calls))
        } else {
            let marker = self.marker()?;
            Some((InValues::Marker(marker), false))
        }
    }

    fn marker(&mut self) -> Option<Term> {
        let value = self.term()?;
        matches!(value.term, Term::Marker(_) | Term::NamedMarker(_)).then_some(value.term)
    }

    fn token_relation(&mut self, start: usize, shapes: &mut SelectFacts) -> Option<bool> {
        self.need_word("token")?;
        let columns = self.names_in_parens()?;
        if self.eat_word("between") {
            shapes.other_relations = true;
            return self.between();
        }
        let op = self.op()?;
        let value = self.term()?;
        shapes.tokens.push(TokenRelation {
            columns,
            op,
            term: value.term,
            span: self.span_from(start),
        });
        Some(value.calls)
    }

    /// `(a, b) op (x, y)`, `(a, b) op ?`, `(a, b) IN …`; the names are already consumed.
    fn tuple_relation(
        &mut self,
        start: usize,
        columns: Vec<crate::name::Name>,
        shapes: &mut SelectFacts,
    ) -> Option<bool> {
        if self.eat_word("between") {
            shapes.other_relations = true;
            return self.between();
        }
        if self.eat_words(&["not", "in"]) {
            shapes.other_relations = true;
            return Some(self.in_values()?.1);
        }
        if self.eat_word("in") {
            let (values, calls) = self.in_values()?;
            shapes.ins.push(InRelation {
                columns,
                values,
                span: self.span_from(start),
            });
            return Some(calls);
        }
        let op = self.op()?;
        let (terms, calls) = if self.peek() == Some(TokenKind::LParen) {
            self.terms_in_parens()?
        } else {
            (vec![self.marker()?], false)
        };
        shapes.ranges.push(RangeRelation {
            columns,
            op,
            terms,
            span: self.span_from(start),
        });
        Some(calls)
    }

    pub(super) fn op(&mut self) -> Option<Op> {
        let op = match self.peek()? {
            TokenKind::Equal => Op::Equal,
            TokenKind::NotEqual => Op::NotEqual,
            TokenKind::Less => Op::Less,
            TokenKind::LessEqual => Op::LessEqual,
            TokenKind::Greater => Op::Greater,
            TokenKind::GreaterEqual => Op::GreaterEqual,
            _ => return None,
        };
        self.pos += 1;
        Some(op)
    }

    pub(super) fn at_name(&self) -> bool {
        self.peek().is_some_and(is_name)
    }
}
