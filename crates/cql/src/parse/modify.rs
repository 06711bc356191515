//! `INSERT`, `UPDATE`, `DELETE` and batches of them.

use super::parser::Parser;
use crate::facts::{BatchKind, Facts, KeyTerm, Kind, Overwrites, SelectFacts, Term};
use crate::lexer::TokenKind;
use crate::literal::Literal;
use crate::modification::{Change, JsonDocument};
use crate::name::Name;

impl Parser<'_> {
    pub(super) fn modify(&mut self) -> Option<Facts> {
        let start = self.pos;
        let mut facts = Facts {
            idempotent_but_for_lists: true,
            ..Facts::default()
        };
        if self.eat_words(&["insert", "into"]) {
            facts.kind = Kind::Insert;
            self.insert(&mut facts)?;
        } else if self.eat_word("update") {
            facts.kind = Kind::Update;
            self.update(&mut facts)?;
        } else if self.eat_word("delete") {
            facts.kind = Kind::Delete;
            self.delete(&mut facts)?;
        } else {
            return None;
        }
        facts.idempotent_but_for_lists &= !facts.lwt && !facts.counterish;
        facts.spans.statement = self.span_from(start);
        Some(facts)
    }

    fn insert(&mut self, facts: &mut Facts) -> Option<()> {
        self.table(facts)?;
        if self.eat_word("json") {
            self.json_document()?;
            facts.overwrites = Overwrites::Any;
        } else {
            let columns_open = self.pos;
            let columns = self.names_in_parens()?;
            self.need_word("values")?;
            let values_open = self.pos;
            let (terms, calls) = self.terms_in_parens()?;
            self.note_inserted(columns_open, columns.len(), values_open)?;
            facts.idempotent_but_for_lists &= !calls;
            for (column, term) in columns.iter().zip(&terms) {
                facts.note_overwritten(column, term);
            }
            facts.key_terms = columns
                .into_iter()
                .zip(terms)
                .map(|(column, term)| KeyTerm { column, term })
                .collect();
        }
        facts.lwt = self.eat_words(&["if", "not", "exists"]);
        self.using(facts)
    }

    fn json_document(&mut self) -> Option<()> {
        let at = self.pos;
        let kind = self.peek()?;
        let text = match kind {
            TokenKind::Text | TokenKind::DollarText => {
                match Literal::from_token(kind, self.scan.str(at))? {
                    Literal::Text(text) => Some(text),
                    _ => return None,
                }
            }
            TokenKind::Question | TokenKind::NamedMarker => None,
            _ => return None,
        };
        self.pos += 1;
        let span = self.span_from(at);
        let mut default_unset = false;
        if self.eat_word("default") {
            default_unset = self.eat_word("unset");
            if !default_unset && !self.eat_word("null") {
                return None;
            }
        }
        if let Some(modification) = &mut self.modification {
            modification.json = Some(JsonDocument {
                span,
                text,
                default_unset,
            });
        }
        Some(())
    }

    /// Notes the values of an INSERT, whose lists begin at these brackets.
    fn note_inserted(
        &mut self,
        columns_open: usize,
        count: usize,
        values_open: usize,
    ) -> Option<()> {
        if self.modification.is_none() {
            return Some(());
        }
        let end = self.pos;
        self.pos = values_open + 1;
        for at in 0..count {
            let value = self.pos;
            let Some(of) = self.term() else { break };
            self.note_assigned(columns_open + 1 + 2 * at, Some((value, of.term)));
            let _ = self.eat(TokenKind::Comma);
        }
        self.pos = end;
        let starts = |at: usize| self.scan.toks.get(at).map(|tok| tok.start);
        let ends = starts(columns_open + 2 * count).zip(starts(end.checked_sub(1)?));
        if let Some(modification) = &mut self.modification {
            modification.lists_end = ends;
        }
        Some(())
    }

    fn update(&mut self, facts: &mut Facts) -> Option<()> {
        self.table(facts)?;
        self.using(facts)?;
        self.need_word("set")?;
        loop {
            self.assignment(facts)?;
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        self.restricted(facts)
    }

    fn delete(&mut self, facts: &mut Facts) -> Option<()> {
        while !self.at_word("from") {
            let column = self.pos;
            self.name()?;
            let mut change = Change::Whole;
            if self.peek() == Some(TokenKind::LBracket) {
                // Elements of a list move when another is deleted, and the type is not known here.
                facts.idempotent_but_for_lists = false;
                self.pos = self.partner(self.pos)? + 1;
                change = Change::Element;
            } else if self.eat(TokenKind::Dot) {
                self.name()?;
                change = Change::Field;
            }
            self.note(column, change);
            if change == Change::Whole {
                self.note_assigned(column, None);
            }
            if !self.at_word("from") {
                self.need(TokenKind::Comma)?;
            }
        }
        self.need_word("from")?;
        self.table(facts)?;
        self.using(facts)?;
        self.restricted(facts)
    }

    /// WHERE and IF.
    fn restricted(&mut self, facts: &mut Facts) -> Option<()> {
        // The facts have the equalities only: other kinds of restrictions rarely matter for a write.
        let mut shapes = SelectFacts::default();
        let calls = self.where_clause(facts, &mut shapes)?;
        if let Some(modification) = &mut self.modification {
            modification.ins = shapes.ins;
            modification.ranges = shapes.ranges;
            modification.other_relations = shapes.other_relations || !shapes.tokens.is_empty();
        }
        facts.idempotent_but_for_lists &= !calls;
        if !self.eat_word("if") {
            return Some(());
        }
        facts.lwt = true;
        // Conditions continue to the end of the statement; all words that can follow are reserved.
        while let Some(kind) = self.peek() {
            let ended = kind == TokenKind::Semicolon
                || ["insert", "update", "delete", "apply"]
                    .iter()
                    .any(|next| self.at_word(next));
            if ended {
                break;
            }
            self.pos = self.partner(self.pos).unwrap_or(self.pos) + 1;
        }
        Some(())
    }

    fn using(&mut self, facts: &mut Facts) -> Option<()> {
        let start = self.pos;
        if !self.eat_word("using") {
            return Some(());
        }
        loop {
            if self.eat_word("timestamp") {
                facts.using_timestamp = true;
            } else {
                self.need_word("ttl")?;
                facts.using_ttl = true;
            }
            self.int_or_marker()?;
            if !self.eat_word("and") {
                break;
            }
        }
        facts.spans.using = Some(self.span_from(start));
        Some(())
    }

    fn assignment(&mut self, facts: &mut Facts) -> Option<()> {
        let column = self.pos;
        let name = self.name()?;
        let change = match self.peek()? {
            TokenKind::PlusEqual | TokenKind::MinusEqual => {
                self.pos += 1;
                facts.counterish = true;
                self.assigned(facts)?;
                Change::Added
            }
            TokenKind::LBracket => {
                let close = self.partner(self.pos)?;
                self.pos += 1;
                // A number or a marker may be a position in a list, whose elements move.
                let element = self.term()?;
                let surely_key = match element.term {
                    Term::Literal(Literal::Int(_) | Literal::BigInt(_)) => false,
                    Term::Literal(_) => true,
                    _ => false,
                };
                facts.idempotent_but_for_lists &= surely_key && !element.calls && self.pos == close;
                self.pos = close + 1;
                self.need(TokenKind::Equal)?;
                self.assigned(facts)?;
                Change::Element
            }
            TokenKind::Dot => {
                self.pos += 1;
                self.name()?;
                self.need(TokenKind::Equal)?;
                self.assigned(facts)?;
                Change::Field
            }
            _ => {
                self.need(TokenKind::Equal)?;
                let value = self.pos;
                let (change, term) = self.assigned_or_added(facts)?;
                if change == Change::Whole {
                    facts.note_overwritten(&name, &term);
                    self.note_assigned(column, Some((value, term)));
                }
                change
            }
        };
        self.note(column, change);
        Some(())
    }

    fn assigned(&mut self, facts: &mut Facts) -> Option<Term> {
        let value = self.term()?;
        facts.idempotent_but_for_lists &= !value.calls;
        Some(value.term)
    }

    /// `x`, `c + x`, `c - x`, `c -3` (a name and a negative number), or `x + c`.
    fn assigned_or_added(&mut self, facts: &mut Facts) -> Option<(Change, Term)> {
        let second = self.peek_second();
        let names_itself = self.at_name()
            && matches!(
                second,
                Some(TokenKind::Plus | TokenKind::Minus | TokenKind::Integer)
            )
            && self.term_is_not_literal_word();
        if names_itself {
            self.pos += 1;
            facts.counterish = true;
            if second != Some(TokenKind::Integer) {
                self.pos += 1;
            }
            let term = self.assigned(facts)?;
            return Some((Change::Added, term));
        }
        let term = self.assigned(facts)?;
        if self.eat(TokenKind::Plus) {
            facts.counterish = true;
            self.name()?;
            return Some((Change::Added, term));
        }
        Some((Change::Whole, term))
    }

    fn term_is_not_literal_word(&self) -> bool {
        self.peek() != Some(TokenKind::Word)
            || !crate::scan::is_literal_word(self.scan.str(self.pos))
    }

    /// Everything after BEGIN.
    pub(super) fn batch(&mut self) -> Option<Facts> {
        let kind = if self.eat_word("unlogged") {
            BatchKind::Unlogged
        } else if self.eat_word("counter") {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        let mut facts = Facts {
            kind: Kind::Batch,
            batch: Some(kind),
            ..Facts::default()
        };
        self.need_word("batch")?;
        self.using(&mut facts)?;
        while !self.eat_words(&["apply", "batch"]) {
            let start = self.pos;
            let mut inner = self.modify()?;
            self.number_markers(&mut inner, start);
            facts.inner.push(inner);
            let _ = self.eat(TokenKind::Semicolon);
        }
        facts.lwt = facts.inner.iter().any(|inner| inner.lwt);
        facts.counterish =
            kind == BatchKind::Counter || facts.inner.iter().any(|inner| inner.counterish);
        facts.idempotent_but_for_lists = kind != BatchKind::Counter
            && facts
                .inner
                .iter()
                .all(|inner| inner.idempotent_but_for_lists);
        Some(facts)
    }

    fn number_markers(&self, inner: &mut Facts, start: usize) {
        let toks = self.scan.toks.get(start..self.pos).unwrap_or_default();
        let indexes = || {
            toks.iter()
                .filter(|tok| matches!(tok.kind, TokenKind::Question | TokenKind::NamedMarker))
                .filter_map(|tok| u16::try_from(tok.link).ok())
        };
        inner.markers = u16::try_from(indexes().count()).unwrap_or(u16::MAX);
        if let (Some(first), Some(last)) = (indexes().next(), indexes().next_back()) {
            // The names are in the order of their indexes.
            let from = self.scan.named.partition_point(|(_, index)| *index < first);
            let to = self.scan.named.partition_point(|(_, index)| *index <= last);
            inner.named_markers = self.scan.named.get(from..to).unwrap_or_default().to_vec();
        }
    }
}

impl Facts {
    fn note_overwritten(&mut self, column: &Name, term: &Term) {
        if let Overwrites::Columns(columns) = &mut self.overwrites
            && !matches!(term, Term::Literal(_))
        {
            columns.push(column.clone());
        }
    }
}
