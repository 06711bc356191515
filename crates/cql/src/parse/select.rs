//! `SELECT`.

use super::parser::Parser;
use crate::facts::{Facts, Fold, Kind, OrderBy, SelectFacts, Selected, SelectedColumn};
use crate::lexer::TokenKind;
use crate::name::fold_identifier;
use crate::scan::{is_literal_word, is_name};

/// Cassandra's own aggregates. User-defined aggregates cannot be distinguished from functions.
const AGGREGATES: [&str; 5] = ["count", "min", "max", "sum", "avg"];

impl Parser<'_> {
    /// Everything after SELECT.
    pub(super) fn select(&mut self) -> Option<Facts> {
        let mut facts = Facts {
            kind: Kind::Select,
            idempotent_but_for_lists: true,
            ..Facts::default()
        };
        let mut select = SelectFacts {
            json: self.eat_modifier("json"),
            distinct: self.eat_modifier("distinct"),
            ..SelectFacts::default()
        };
        self.selection(&mut facts, &mut select)?;
        self.need_word("from")?;
        self.table(&mut facts)?;
        if self.at_word("where") {
            self.where_clause(&mut facts, &mut select)?;
        }
        self.group_by(&mut facts, &mut select)?;
        self.order_by(&mut facts, &mut select)?;
        self.limits(&mut facts, &mut select)?;
        facts.select = Some(Box::new(select));
        Some(facts)
    }

    /// JSON and DISTINCT are names too: they are keywords only if something to select follows.
    fn eat_modifier(&mut self, keyword: &str) -> bool {
        let modifier = self.at_word(keyword)
            && !self.scan.is_word(self.pos + 1, "from")
            && !self.alias_follows()
            && !self.slice_follows()
            && !matches!(
                self.peek_second(),
                None | Some(
                    TokenKind::Comma
                        | TokenKind::Plus
                        | TokenKind::Slash
                        | TokenKind::Percent
                        | TokenKind::Dot
                )
            );
        self.pos += usize::from(modifier);
        modifier
    }

    /// True if the next token is a column with an alias: `json AS x`.
    fn alias_follows(&self) -> bool {
        let (as_at, alias, after) = (self.pos + 1, self.pos + 2, self.pos + 3);
        self.scan.is_word(as_at, "as")
            && self.scan.kind(alias).is_some_and(is_name)
            && !self.scan.is_word(alias, "from")
            && (self.scan.kind(after) == Some(TokenKind::Comma) || self.scan.is_word(after, "from"))
    }

    /// True if the next token is a column of which a slice is taken: `json[1..2]`, and not a list: `json [a[1..2]]`.
    fn slice_follows(&self) -> bool {
        let open = self.pos + 1;
        let bracket = self.peek_second() == Some(TokenKind::LBracket);
        let Some(close) = self.partner(open).filter(|_| bracket) else {
            return false;
        };
        let mut at = open + 1;
        while at < close {
            if self.scan.kind(at) == Some(TokenKind::Range) {
                return true;
            }
            at = self.partner(at).unwrap_or(at) + 1;
        }
        false
    }

    /// Up to FROM, which is reserved and so cannot be part of a selection outside brackets.
    fn selection(&mut self, facts: &mut Facts, select: &mut SelectFacts) -> Option<()> {
        let start = self.pos;
        let mut columns = Vec::new();
        let mut folds = Some(Vec::new());
        loop {
            let item = self.pos;
            while !matches!(self.peek()?, TokenKind::Comma) && !self.at_word("from") {
                self.pos = match self.peek()? {
                    TokenKind::LParen | TokenKind::LBracket | TokenKind::LBrace => {
                        self.partner(self.pos)? + 1
                    }
                    TokenKind::RParen
                    | TokenKind::RBracket
                    | TokenKind::RBrace
                    | TokenKind::Semicolon => return None,
                    _ => self.pos + 1,
                };
            }
            columns.push(self.selected(item)?);
            folds = folds.and_then(|mut folds| {
                let fold = self.fold(item)?;
                folds.push(fold);
                if matches!(fold, Fold::Min | Fold::Max) {
                    // In the brackets after the function's name.
                    let column = fold_identifier(self.scan.str(item + 2));
                    select.extremes_of.push(column);
                }
                Some(folds)
            });
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        facts.spans.selection = Some(self.span_from(start));
        let all = self.pos == start + 1 && self.scan.kind(start) == Some(TokenKind::Star);
        if !all {
            for name in self.called_in(start..self.pos) {
                select.calls |= !name.eq_ignore_ascii_case("cast");
                select.aggregates |= AGGREGATES.iter().any(|a| name.eq_ignore_ascii_case(a));
            }
            select.folds = folds.filter(|_| select.aggregates).unwrap_or_default();
            if select.folds.is_empty() {
                select.extremes_of.clear();
            }
            select.columns = Selected::Columns(columns);
        }
        Some(())
    }

    /// The item from the token at `start` up to the next token.
    fn selected(&self, start: usize) -> Option<SelectedColumn> {
        let mut end = self.pos;
        let mut alias = None;
        let last = end.checked_sub(1).filter(|last| *last >= start)?;
        if last >= start + 2
            && self.scan.is_word(last - 1, "as")
            && self.scan.kind(last).is_some_and(is_name)
        {
            alias = Some(fold_identifier(self.scan.str(last)));
            end = last - 1;
        }
        let a_name = end == start + 1
            && self.scan.kind(start).is_some_and(is_name)
            && !is_literal_word(self.scan.str(start));
        Some(SelectedColumn {
            column: a_name.then(|| fold_identifier(self.scan.str(start))),
            alias,
            span: self.span(start..end),
        })
    }

    /// The item from the token at `start` up to the next token, if it is `fold(column)`.
    fn fold(&self, start: usize) -> Option<Fold> {
        let of = start + 2;
        let is_call = self.scan.kind(start + 1) == Some(TokenKind::LParen)
            && self.scan.kind(start + 3) == Some(TokenKind::RParen)
            && (self.pos == start + 4 || self.scan.is_word(start + 4, "as"));
        let rows = self.scan.kind(of) == Some(TokenKind::Star) || self.scan.str(of) == "1";
        let column = self.scan.kind(of).is_some_and(is_name) && !is_literal_word(self.scan.str(of));
        let is = |fold: &Fold| {
            let argument = if *fold == Fold::Rows { rows } else { column };
            argument && self.scan.is_word(start, fold.name())
        };
        Fold::ALL.into_iter().find(is).filter(|_| is_call)
    }

    fn group_by(&mut self, facts: &mut Facts, select: &mut SelectFacts) -> Option<()> {
        let start = self.pos;
        if !self.eat_words(&["group", "by"]) {
            return Some(());
        }
        // ORDER BY, a limit, ALLOW FILTERING or the end can follow; PER is a name too.
        while let Some(kind) = self.peek() {
            let ended = kind == TokenKind::Semicolon
                || self.at_word("order")
                || self.at_word("limit")
                || self.at_word("allow")
                || (self.at_word("per") && self.scan.is_word(self.pos + 1, "partition"));
            if ended {
                break;
            }
            self.pos = self.partner(self.pos).unwrap_or(self.pos) + 1;
        }
        select.group_by = true;
        facts.spans.group_by = Some(self.span_from(start));
        Some(())
    }

    fn order_by(&mut self, facts: &mut Facts, select: &mut SelectFacts) -> Option<()> {
        let start = self.pos;
        if !self.eat_words(&["order", "by"]) {
            return Some(());
        }
        loop {
            let column = self.name()?;
            let ann = self.eat_words(&["ann", "of"]);
            if ann {
                self.term()?;
                select.ann = true;
            }
            let descending = self.eat_word("desc");
            let _ = descending || self.eat_word("asc");
            select.order_by.push(OrderBy {
                column,
                descending,
                ann,
            });
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        facts.spans.order_by = Some(self.span_from(start));
        Some(())
    }

    fn limits(&mut self, facts: &mut Facts, select: &mut SelectFacts) -> Option<()> {
        let start = self.pos;
        if self.eat_words(&["per", "partition", "limit"]) {
            select.per_partition_limit = Some(self.int_or_marker()?);
            facts.spans.per_partition_limit = Some(self.span_from(start));
        }
        let start = self.pos;
        if self.eat_word("limit") {
            select.limit = Some(self.int_or_marker()?);
            facts.spans.limit = Some(self.span_from(start));
        }
        let start = self.pos;
        if self.eat_words(&["allow", "filtering"]) {
            select.allow_filtering = true;
            facts.spans.allow_filtering = Some(self.span_from(start));
        }
        Some(())
    }
}
