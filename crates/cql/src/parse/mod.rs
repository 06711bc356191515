//! Parses the tokens of one statement by Cassandra's grammar. Each function consumes what it
//! understands and returns None at the first thing it does not; the statement is then opaque.

mod modify;
mod parser;
mod relation;
mod schema;
mod select;
mod term;

use crate::facts::{Facts, Kind};
use crate::lexer::TokenKind;
use crate::modification::Modification;
use crate::scan::scan;
use parser::Parser;

/// The facts that a proxy must know about `text`. Never fails and never panics; linear in the length of the text.
pub fn facts(text: &str) -> Facts {
    let scan = scan(text);
    let mut parser = Parser::new(&scan);
    let understood = if scan.sound { parser.query() } else { None };
    let mut facts = understood.unwrap_or_default();
    facts.markers = scan.markers;
    facts.named_markers = scan.named.clone();
    facts
}

/// The changes of the UPDATE or DELETE with these facts, or of an INSERT, which changes whole columns only. The
/// statement may be one of a batch; `text` is the whole text. None if it is nothing of this kind.
pub fn modification(text: &str, facts: &Facts) -> Option<Modification> {
    let scan = scan(text.get(facts.spans.statement.clone())?);
    if !scan.sound {
        return None;
    }
    let mut parser = Parser::new(&scan);
    parser.modification = Some(Modification::default());
    parser.modify()?;
    parser.modification
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
                idempotent_but_for_lists: true,
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
            match self.modify() {
                None if self.pos == start => self.schema(),
                found => found,
            }
        }
    }
}
