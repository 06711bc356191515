//! Why a request is not carried out as what it would become.

use std::time::Instant;

use helenus_wire::{code, write};

use crate::rewrite::leases::{Leases, Need};

/// Why a request is not carried out.
pub(crate) struct Refusal {
    pub code: i32,
    pub text: String,
    pub fields: Vec<u8>,
}

impl Refusal {
    pub(crate) fn new(code: i32, text: impl Into<String>) -> Refusal {
        Refusal {
            code,
            text: text.into(),
            fields: Vec::new(),
        }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Refusal {
        Refusal::new(code::INVALID, text)
    }

    /// A refusal because too little is known for the request.
    pub(crate) fn unknown(
        of: &str,
        refused: &str,
        leases: &Leases,
        need: Need,
        now: Instant,
    ) -> Refusal {
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

    /// A statement that only the nodes know.
    pub(crate) fn unprepared(id: &[u8], text: &str) -> Refusal {
        let mut refusal = Refusal::new(code::UNPREPARED, text);
        write::short_bytes(&mut refusal.fields, id);
        refusal
    }
}
