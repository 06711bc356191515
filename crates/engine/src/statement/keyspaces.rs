//! Which keyspaces a request is about, each statement of a batch with the others.

use helenus_cql::{Facts, Kind};
use helenus_wire::{BatchChild, BatchView, Opcode, Version};

use crate::context::Context;
use crate::statement::Statements;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Prepared;

/// The keyspaces of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Keyspaces {
    named: Vec<Box<str>>,
    /// Something in it is not understood or not known here: it may be about any keyspace.
    may_be_any: bool,
}

impl Keyspaces {
    /// True if it is, or may be, about this one.
    pub(crate) fn may_have(&self, keyspace: &str) -> bool {
        self.may_be_any || self.named.iter().any(|named| **named == *keyspace)
    }

    /// Adds those of a statement; names without a keyspace are in this one.
    fn add(&mut self, facts: &Facts, in_force: Option<&str>) {
        self.may_be_any |= facts.kind == Kind::Opaque;
        let own = facts.keyspace.as_ref().map(|name| name.as_str());
        let of_names = match (&facts.table, facts.kind) {
            (Some(_), _) | (None, Kind::Ddl) => in_force,
            _ => None,
        };
        self.named.extend(own.or(of_names).map(Into::into));
        for inner in &facts.inner {
            self.add(inner, in_force);
        }
    }

    fn add_prepared(&mut self, prepared: Option<&Prepared>) {
        match prepared {
            None => self.may_be_any = true,
            Some(prepared) => {
                let table = prepared.table.as_ref();
                self.named
                    .extend(table.map(|(keyspace, _)| keyspace.clone()));
                self.add(&prepared.statement.facts, prepared.keyspace.as_deref());
            }
        }
    }
}

impl Statements {
    /// The keyspaces of a request that has been analyzed.
    pub(crate) fn keyspaces(
        &mut self,
        cx: &Context,
        opcode: Opcode,
        content: &[u8],
        version: Version,
        analysis: &Analysis<'_>,
    ) -> Keyspaces {
        let mut found = Keyspaces::default();
        match opcode {
            Opcode::Execute => found.add_prepared(analysis.prepared.as_deref()),
            Opcode::Batch => {
                let Ok(view) = BatchView::parse(content, version) else {
                    found.may_be_any = true;
                    return found;
                };
                for child in &view.children {
                    match child {
                        BatchChild::Text(text, _) => {
                            let statement = self.texts.statement(analysis.keyspace, text);
                            found.add(&statement.facts, analysis.keyspace);
                        }
                        BatchChild::Prepared(id, _) => {
                            found.add_prepared(self.prepared.get(&cx.shared, id).as_deref());
                        }
                    }
                }
            }
            _ => match &analysis.statement {
                Some(statement) => found.add(&statement.facts, analysis.keyspace),
                None => found.may_be_any = true,
            },
        }
        found
    }
}
