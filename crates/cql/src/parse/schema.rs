//! Statements about schema, roles and descriptions: only their kind and the table they name.

use super::parser::Parser;
use crate::facts::{Facts, Kind};
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn schema(&mut self) -> Option<Facts> {
        let mut facts = Facts::default();
        if self.eat_word("create") || self.eat_word("alter") || self.eat_word("drop") {
            let creates = self.scan.is_word(self.pos - 1, "create");
            self.definition(&mut facts, creates)?;
        } else if self.eat_word("describe") || self.eat_word("desc") {
            facts.kind = Kind::Describe;
            facts.idempotent_but_for_lists = true;
        } else if self.eat_word("grant")
            || self.eat_word("revoke")
            || self.eat_word("list")
            || self.eat_words(&["add", "identity"])
        {
            facts.kind = Kind::Auth;
        } else {
            return None;
        }
        self.skip_rest();
        Some(facts)
    }

    /// The words behind CREATE, ALTER or DROP.
    fn definition(&mut self, facts: &mut Facts, creates: bool) -> Option<()> {
        facts.kind = Kind::Ddl;
        let _ = self.eat_words(&["or", "replace"]) || self.eat_word("custom");
        if self.eat_word("user") || self.eat_word("role") || self.eat_word("identity") {
            facts.kind = Kind::Auth;
        } else if self.eat_word("keyspace") || self.eat_word("schema") {
            self.if_exists();
            facts.keyspace = Some(self.name()?);
        } else if self.eat_word("table")
            || self.eat_word("columnfamily")
            || self.eat_words(&["materialized", "view"])
        {
            self.if_exists();
            self.table(facts)?;
        } else if self.eat_word("index") {
            self.if_exists();
            if creates {
                if !self.eat_word("on") {
                    self.name()?;
                    self.need_word("on")?;
                }
                self.table(facts)?;
            } else {
                facts.keyspace = self.qualified()?.0;
            }
        } else if self.eat_word("trigger") {
            self.if_exists();
            self.name()?;
            self.need_word("on")?;
            self.table(facts)?;
        } else if self.eat_word("type") || self.eat_word("function") || self.eat_word("aggregate") {
            self.if_exists();
            facts.keyspace = self.qualified()?.0;
        } else {
            return None;
        }
        Some(())
    }

    fn if_exists(&mut self) {
        let _ = self.eat_words(&["if", "not", "exists"]) || self.eat_words(&["if", "exists"]);
    }

    fn skip_rest(&mut self) {
        while self.peek().is_some_and(|kind| kind != TokenKind::Semicolon) {
            self.pos += 1;
        }
    }
}
