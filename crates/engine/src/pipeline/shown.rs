//! Queries to nodes as they may be shown to people.

use std::sync::Arc;

use helenus_wire::{Opcode, PrepareView, QueryView, Reader, Version, flags};

use crate::pipeline::query::Query;
use crate::statement::digest::{Digest, is_not_understood};
use crate::statement::prepared::Statement;

impl Query {
    /// The digest that it is shown as; None if nobody here knows what it asks.
    pub(crate) fn digest(&self, error: Option<i32>) -> Option<Digest> {
        let prepared = self.prepared.as_ref();
        let is_broken = is_not_understood(self.opcode, error);
        let of = |statement: &Statement| match is_broken {
            true => Digest::of_broken(&statement.text),
            false => statement.digest().clone(),
        };
        match (&self.statement, self.opcode) {
            (Some(statement), Opcode::Prepare) => {
                Some(Digest::from(format!("PREPARE {}", of(statement).text)))
            }
            (Some(statement), _) => Some(of(statement)),
            (None, Opcode::Batch) => Some(Digest::from(match prepared {
                Some(first) => format!("BATCH of {} …", first.statement.digest().text),
                None => "BATCH".to_owned(),
            })),
            (None, _) => None,
        }
    }

    /// In force where its text names no keyspace.
    pub(crate) fn keyspace_in_force(&self) -> Option<&str> {
        let names_it = |statement: &Arc<Statement>| statement.facts.keyspace.is_some();
        if self.statement.as_ref().is_some_and(names_it) {
            return None;
        }
        let prepared = self.prepared.as_ref();
        let of_prepared = prepared.and_then(|prepared| prepared.keyspace.as_deref());
        let own = || self.own_keyspace();
        of_prepared.or_else(own).or(self.keyspace.as_deref())
    }

    /// The keyspace that the request names beside its text, as version 5 allows.
    fn own_keyspace(&self) -> Option<&str> {
        let mut reader = Reader::new(&self.body);
        if self.header_flags & flags::CUSTOM_PAYLOAD != 0 {
            reader.skip_bytes_map().ok()?;
        }
        own_keyspace(self.opcode, self.version, reader.rest())
    }
}

/// The keyspace that a request names beside its text, as version 5 allows.
pub(crate) fn own_keyspace(opcode: Opcode, version: Version, content: &[u8]) -> Option<&str> {
    match (opcode, version) {
        (Opcode::Query, Version::V5) => QueryView::parse(content, version).ok()?.options.keyspace,
        (Opcode::Prepare, Version::V5) => PrepareView::parse(content, version).ok()?.keyspace,
        _ => None,
    }
}
