//! Nodes' answers to PREPARE, and what they tell of statements.

use std::sync::Arc;

use helenus_wire::{PrepareView, PreparedView, Reader, Version, flags};

use crate::context::Context;
use crate::shared::Shared;
use crate::statement::Statements;
use crate::statement::prepared::description::Description;
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

/// The result of an answer to PREPARE.
pub(crate) enum Learned {
    /// Nothing new.
    Known(Arc<Prepared>),
    New(Arc<Prepared>),
}

impl Learned {
    pub(crate) fn prepared(&self) -> &Prepared {
        match self {
            Learned::Known(prepared) | Learned::New(prepared) => prepared,
        }
    }
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
    /// A node has prepared a statement for a client: all workers know it from now on.
    pub(crate) fn learn_prepared(
        &mut self,
        cx: &Context,
        preparing: &Preparing<'_>,
        content: &[u8],
        version: Version,
    ) -> Option<Learned> {
        let view = PreparedView::parse(content, version).ok()?;
        let known = self.prepared(&cx.shared, view.id);
        if let Some(known) = &known
            && known.description == Description::of(&view)
        {
            known.standing.confirm();
            return Some(Learned::Known(known.clone()));
        }
        let statement = preparing.statement.clone();
        let mut prepared = Prepared::new(statement, preparing.keyspace(), &view, &cx.snapshot);
        if let Some(known) = &known {
            prepared = prepared.in_place_of(known);
            prepared.standing.note_changed();
        }
        let prepared = self.publish_prepared(&cx.shared, prepared);
        if known.is_some() {
            cx.shared.note_descriptions();
        }
        Some(Learned::New(prepared))
    }

    /// True if what a node has prepared is what clients know by this id: all of it, or they would bind values of
    /// other types, or take new columns for the old. Where it is not they are to hear so, and nobody may use it
    /// before a client has been told. `is_awaited`: a request is to be sent by it; else a node that lags behind the
    /// others may have said so.
    pub(crate) fn is_known_as(
        &mut self,
        cx: &Context,
        id: &[u8],
        is_awaited: bool,
        content: &[u8],
        version: Version,
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
        if known.description == Description::of(&view) {
            known.standing.confirm();
            return true;
        }
        if !is_awaited {
            known.standing.note_changed();
            known.standing.doubt();
            cx.shared.note_descriptions();
            return false;
        }
        let (statement, keyspace) = (known.statement.clone(), known.keyspace.as_deref());
        let prepared = Prepared::new(statement, keyspace, &view, &cx.snapshot);
        let prepared = prepared.in_place_of(&known);
        prepared.standing.note_untold();
        self.publish_prepared(&cx.shared, prepared);
        cx.shared.note_descriptions();
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
