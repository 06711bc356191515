//! Requests whose table has layouts, and how they are carried out.

use std::rc::Rc;
use std::sync::Arc;

use helenus_layout::plan::LogicalTable;
use helenus_wire::{Malformed, Opcode};

use crate::features::layouts::carried::Carried;
use crate::features::layouts::derived::FollowedWrite;
use crate::features::layouts::read::{LayoutRead, ReadOfLayout, named_as_table, names};
use crate::rewrite::renaming::renamed_warnings;
use crate::statement::prepared::{Prepared, Statement};

pub(crate) enum Rewriting {
    Read(LayoutRead),
    Write(LayoutWrite),
    Carried(Carried),
}

/// A write on tables and their layouts, as it is sent.
pub(crate) struct LayoutWrite {
    /// If it is not the client's own.
    pub instead: Option<Instead>,
    /// In the client's version.
    pub body: Vec<u8>,
    pub written: WriteOfLayouts,
    /// Then these follow, in keyspaces of their own.
    pub followed_by: Option<Box<FollowedWrite>>,
}

/// Opcode, and keyspace of names without one.
pub(crate) struct Instead {
    pub opcode: Opcode,
    pub keyspace: Option<Rc<str>>,
}

/// Tables and prepared statements of a write on tables with layouts.
pub(crate) struct WriteOfLayouts {
    pub tables: Vec<Arc<LogicalTable>>,
    /// Statements that the nodes have prepared for the proxy.
    pub prepared: Vec<Arc<Prepared>>,
    /// Further requests follow it.
    pub is_followed: bool,
}

/// How a client request is carried out by requests that are about layouts.
pub(crate) enum OnLayouts {
    /// It becomes that once it is kept.
    Becomes(Rewriting),
    Read(ReadOfLayout),
    /// A read of the table, after one of this on a layout has failed. If the table takes it, the layout is
    /// at fault.
    ReadAfter(Arc<Statement>),
    Write(WriteOfLayouts),
}

impl OnLayouts {
    /// An error as the client is to hear it, if a layout is named there.
    pub(crate) fn error(&self, content: &[u8]) -> Option<Vec<u8>> {
        match self {
            OnLayouts::Read(read) => named_as_table(&read.table, content),
            OnLayouts::ReadAfter(_) | OnLayouts::Becomes(_) => None,
            OnLayouts::Write(write) => {
                let mut tables = write.tables.iter();
                tables.find_map(|table| named_as_table(table, content))
            }
        }
    }

    /// The prelude of an answer, if a warning there names a layout.
    ///
    /// # Errors
    /// It is not what the flags say.
    pub(crate) fn warnings(
        &self,
        header_flags: u8,
        prelude: &[u8],
    ) -> Result<Option<Vec<u8>>, Malformed> {
        let tables = match self {
            OnLayouts::Read(read) => std::slice::from_ref(&read.table),
            OnLayouts::ReadAfter(_) | OnLayouts::Becomes(_) => return Ok(None),
            OnLayouts::Write(write) => &write.tables,
        };
        let names: Vec<_> = tables.iter().flat_map(|table| names(table)).collect();
        renamed_warnings(header_flags, prelude, &names)
    }
}
