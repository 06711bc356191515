//! What a request becomes where its table has layouts, and why it may not be carried out.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use helenus_layout::plan::LogicalTable;
use helenus_wire::{Malformed, Opcode, code, is_paging_state, write};

use crate::features::layouts::in_sequence::InSequence;
use crate::features::layouts::read::{LayoutRead, ReadOfLayout, named_as_table, names, unwrap};
use crate::features::layouts::schema_read::SchemaRead;
use crate::memory::NO_MEMORY;
use crate::rewrite::leases::{Leases, Need};
use crate::rewrite::renaming::renamed_warnings;
use crate::statement::prepared::{Prepared, Statement};

/// What Cassandra says of a paging state that is none.
pub(crate) const INVALID_STATE: &str = "Invalid value for the paging state";

/// What a request becomes.
#[derive(Default)]
pub(crate) struct Rewritten {
    /// It is not sent later than this.
    pub send_before: Option<Instant>,
    /// `None`: as it came.
    pub form: Option<Box<Rewriting>>,
}

impl Rewritten {
    /// Whether the paging state that is sent, if there is one, is one to the nodes: links are shared, and nodes close
    /// those over which others come.
    pub(crate) fn may_be_sent_with(&self, state: Option<&[u8]>) -> bool {
        let Some(state) = state else {
            return true;
        };
        let sent = match self.form.as_deref() {
            Some(Rewriting::Read(_)) => unwrap(state).map_or(state, |(_, of_node)| of_node),
            _ => state,
        };
        is_paging_state(sent)
    }
}

pub(crate) enum Rewriting {
    Read(LayoutRead),
    Write(LayoutWrite),
    InSequence(InSequence),
    Schema(SchemaForm),
}

/// A read of the schema, as it is sent.
pub(crate) struct SchemaForm {
    pub read: SchemaRead,
    /// The body of a QUERY in place of the client's request, in its version.
    pub instead: Option<Vec<u8>>,
}

/// A write on tables and their layouts, as it is sent.
pub(crate) struct LayoutWrite {
    pub opcode: Opcode,
    /// In the client's version.
    pub body: Vec<u8>,
    /// Of names without one.
    pub keyspace: Option<Rc<str>>,
    pub written: WriteOfLayouts,
}

/// What a write on tables with layouts is made of, beside what its client has asked.
pub(crate) struct WriteOfLayouts {
    pub tables: Vec<Arc<LogicalTable>>,
    /// What the nodes have prepared for the proxy.
    pub prepared: Vec<Arc<Prepared>>,
}

/// How a client request is carried out by requests that are about layouts.
pub(crate) enum OnLayouts {
    Read(ReadOfLayout),
    /// A read of the table, after one of this on a layout has failed. If the table takes it, the layout is
    /// at fault.
    ReadAfter(Arc<Statement>),
    Write(WriteOfLayouts),
    /// A read of the schema, in whose answer layouts are left out.
    Schema(SchemaRead),
}

impl OnLayouts {
    /// An error as the client is to hear it, if a layout is named there.
    pub(crate) fn error(&self, content: &[u8]) -> Option<Vec<u8>> {
        match self {
            OnLayouts::Read(read) => named_as_table(&read.table, content),
            OnLayouts::ReadAfter(_) | OnLayouts::Schema(_) => None,
            OnLayouts::Write(write) => {
                let mut tables = write.tables.iter();
                tables.find_map(|table| named_as_table(table, content))
            }
        }
    }

    /// What comes before an answer, if a warning there names a layout.
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
            OnLayouts::ReadAfter(_) | OnLayouts::Schema(_) => return Ok(None),
            OnLayouts::Write(write) => &write.tables,
        };
        let names: Vec<_> = tables.iter().flat_map(|table| names(table)).collect();
        renamed_warnings(header_flags, prelude, &names)
    }
}

/// Why a request is not carried out.
pub(crate) struct Refusal {
    pub code: i32,
    pub text: String,
    pub fields: Vec<u8>,
}

impl Refusal {
    fn new(code: i32, text: impl Into<String>) -> Refusal {
        Refusal {
            code,
            text: text.into(),
            fields: Vec::new(),
        }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Refusal {
        Refusal::new(code::INVALID, text)
    }

    /// It is not known well enough which layouts there are.
    pub(crate) fn fenced(leases: &Leases, need: Need, now: Instant) -> Refusal {
        let refused = "writes, definitions, GRANT, REVOKE and reads at SERIAL";
        Refusal::unknown(("layouts", refused), leases, need, now)
    }

    /// It is not known well enough which columns are encoded.
    pub(crate) fn blind(leases: &Leases, need: Need, now: Instant) -> Refusal {
        Refusal::unknown(("encoded columns", "reads and writes"), leases, need, now)
    }

    /// What may not be done, as too little is known of this.
    fn unknown((of, refused): (&str, &str), leases: &Leases, need: Need, now: Instant) -> Refusal {
        let text = match need {
            Need::Flags => format!(
                "Helenus: no node has told for {} s which tables have {of}; until one does, {refused} are refused",
                leases.flags.unread_for(now).as_secs()
            ),
            Need::Catalogue => format!(
                "Helenus: the catalogue could not be read for {} s; until it can, {refused} of tables that have, or may \
                 have, {of} are refused",
                leases.catalogue.unread_for(now).as_secs()
            ),
            Need::Row => format!(
                "Helenus: the catalogue has lost what it said of this table's {of}, so {refused} are refused: run \
                 `nodetool repair -full helenus` on all nodes"
            ),
        };
        Refusal::new(code::OVERLOADED, text)
    }

    /// A statement that only the nodes know, and that may be about encoded columns.
    pub(crate) fn unprepared_for_encoded(id: &[u8]) -> Refusal {
        let mut refusal = Refusal::new(
            code::UNPREPARED,
            "Helenus does not know this prepared statement, whose table may have encoded columns: prepare it \
             again",
        );
        write::short_bytes(&mut refusal.fields, id);
        refusal
    }

    /// A write that would have so many bytes, with what it writes to layouts.
    pub(crate) fn too_large(bytes: usize, max: usize) -> Refusal {
        Refusal::invalid(format!(
            "the write has {bytes} bytes or more together with those on the layouts of its tables, more \
             than {max} (limits.request_bytes_max): divide it"
        ))
    }

    pub(crate) fn no_memory() -> Refusal {
        Refusal::new(code::OVERLOADED, NO_MEMORY)
    }

    /// A statement that only the nodes know.
    pub(crate) fn unprepared(id: &[u8]) -> Refusal {
        let mut refusal = Refusal::new(
            code::UNPREPARED,
            "Helenus does not know this prepared statement, which may write a table with layouts: \
             prepare it again",
        );
        write::short_bytes(&mut refusal.fields, id);
        refusal
    }
}
