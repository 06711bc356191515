//! What nodes' answers to PREPARE tell of statements.

use std::sync::Arc;

use helenus_wire::{PrepareView, PreparedView, Reader, Version, flags};

use crate::context::Context;
use crate::shared::Shared;
use crate::statement::Statements;
use crate::statement::prepared::{Prepared, Statement};

/// A PREPARE as it was sent.
pub(crate) struct Preparing<'a> {
    pub statement: &'a Arc<Statement>,
    pub version: Version,
    pub header_flags: u8,
    pub body: &'a [u8],
    /// Keyspace of the client's session.
    pub session: Option<&'a str>,
}

impl Preparing<'_> {
    /// The keyspace that the statement has to be prepared in again, or a node would give it another
    /// id the next time.
    fn keyspace(&self) -> Option<&str> {
        let own = self.own_keyspace();
        match self.statement.facts.keyspace {
            Some(_) => own,
            None => own.or(self.session),
        }
    }

    /// The keyspace that it names itself (v5).
    fn own_keyspace(&self) -> Option<&str> {
        let mut reader = Reader::new(self.body);
        if self.header_flags & flags::CUSTOM_PAYLOAD != 0 {
            reader.skip_bytes_map().ok()?;
        }
        let view = PrepareView::parse(reader.rest(), self.version).ok()?;
        view.keyspace
    }
}

impl Statements {
    /// What a node has prepared for a client, if that is news: all workers know it from now on.
    pub(crate) fn learn_prepared(
        &mut self,
        cx: &Context,
        preparing: &Preparing<'_>,
        (content, version): (&[u8], Version),
    ) -> Option<Arc<Prepared>> {
        let view = PreparedView::parse(content, version).ok()?;
        let known = self.prepared(&cx.shared, view.id);
        if known
            .as_ref()
            .is_some_and(|known| known.has_result_of(&view))
        {
            return None;
        }
        let statement = preparing.statement.clone();
        let mut prepared = Prepared::new(statement, preparing.keyspace(), &view, &cx.snapshot);
        if let Some(known) = &known {
            prepared = prepared.in_place_of(known);
            prepared.note_changed();
        }
        Some(self.publish_prepared(&cx.shared, prepared))
    }

    /// Whether what a node has prepared is what clients know by this id. Where its result has other
    /// columns by now they must hear so: a client of v3 or v4 that has metadata left out would take the
    /// new columns for the old, and drivers look at them only when they are told to prepare again.
    pub(crate) fn is_known_as(
        &mut self,
        cx: &Context,
        id: &[u8],
        (content, version): (&[u8], Version),
    ) -> bool {
        let (Some(known), Ok(view)) = (
            self.prepared(&cx.shared, id),
            PreparedView::parse(content, version),
        ) else {
            return false;
        };
        if view.id != id {
            // Of another keyspace: asked again and again it would never become this one.
            return false;
        }
        if known.has_result_of(&view) {
            return true;
        }
        let (statement, keyspace) = (known.statement.clone(), known.keyspace.as_deref());
        let prepared = Prepared::new(statement, keyspace, &view, &cx.snapshot);
        let prepared = prepared.in_place_of(&known);
        prepared.note_changed();
        self.publish_prepared(&cx.shared, prepared);
        false
    }

    /// Makes a statement known to all workers.
    fn publish_prepared(&mut self, shared: &Shared, prepared: Prepared) -> Arc<Prepared> {
        let prepared = Arc::new(prepared);
        self.prepared.remember(&prepared);
        shared.publish_prepared(&prepared);
        prepared
    }
}
