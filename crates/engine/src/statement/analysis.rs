//! A request's analysis, once its body has been read.

use std::sync::Arc;

use helenus_wire::{Consistency, Opcode};

use crate::pipeline::retry::resendable::Resendable;
use crate::statement::place::Place;
use crate::statement::prepared::{Prepared, Statement};

/// A request's properties, as its body tells.
#[derive(Default)]
pub(crate) struct Analysis<'a> {
    /// Keyspace of names without one, but for those in prepared statements.
    pub keyspace: Option<&'a str>,
    pub statement: Option<Arc<Statement>>,
    pub prepared: Option<Arc<Prepared>>,
    /// Those of its prepared statements to which something has happened since they were described.
    pub unsettled: Vec<Arc<Prepared>>,
    /// Which descriptions of statements were known when it was read.
    pub descriptions: u64,
    pub consistency: Option<Consistency>,
    pub serial_consistency: Option<Consistency>,
    pub place: Option<Place>,
    pub resendable: Resendable,
    pub lwt: bool,
    /// A batch whose statements all bring their keyspace with them.
    pub has_own_keyspaces: bool,
    /// An EXECUTE that wants no columns with its rows.
    pub skips_metadata: bool,
    /// Where the page begins that is asked for.
    pub paging_state: Option<&'a [u8]>,
    /// Position of the client's default timestamp in the body behind the payload.
    pub timestamp_at: Option<usize>,
}

/// Where conditional writes come in each other's way.
pub(crate) struct LwtPartition<'a> {
    /// Keyspace and table.
    pub table: (&'a str, &'a str),
    /// Its routing key.
    pub key: &'a [u8],
}

impl Analysis<'_> {
    /// Since when nothing has happened to its prepared statements.
    pub(crate) fn settled_at(&self) -> Option<u64> {
        self.unsettled.is_empty().then_some(self.descriptions)
    }

    /// It has this statement, among others.
    pub(super) fn note_standing(&mut self, prepared: &Arc<Prepared>) {
        if !prepared.standing.is_plain() {
            self.unsettled.push(prepared.clone());
        }
    }

    /// Keyspace of names without one in a statement that is asked for by itself, not in a batch.
    pub(crate) fn in_force(&self) -> Option<&str> {
        match &self.prepared {
            Some(prepared) => prepared.keyspace.as_deref(),
            None => self.keyspace,
        }
    }

    /// The statement of a request that has just one.
    pub(crate) fn of_one(&self, opcode: Opcode) -> Option<Arc<Statement>> {
        match (&self.prepared, opcode) {
            // The statement of one of its entries says nothing of a batch.
            (_, Opcode::Batch) => None,
            (Some(prepared), _) => Some(prepared.statement.clone()),
            (None, _) => self.statement.clone(),
        }
    }

    /// Keyspace and table that a request is about, if there is just one.
    pub(crate) fn table<'s>(
        &'s self,
        statement: Option<&'s Statement>,
    ) -> Option<(&'s str, &'s str)> {
        match &self.prepared {
            Some(prepared) => {
                let (keyspace, table) = prepared.table.as_ref()?;
                Some((keyspace, table))
            }
            None => statement?.table(self.keyspace),
        }
    }
}
