//! What is sent for a request about encoded columns, and what is kept of it for its answer.

use std::sync::Arc;
use std::time::Instant;

use helenus_wire::Opcode;

use crate::encodings::answer::Shown;
use crate::encodings::{EncodedTable, Encodings};

/// What a client request has to do with encoded columns.
#[derive(Debug)]
pub(crate) struct OnEncoded {
    pub table: Arc<EncodedTable>,
    pub shown: Shown,
}

/// What is sent for a request.
#[derive(Default)]
pub(crate) struct Stored {
    /// It is not sent later than this: by then columns may be encoded of which nothing is known here.
    pub until: Option<Instant>,
    /// What was known of encoded columns. A read in many requests goes on as long as that holds.
    pub known: Option<Arc<Encodings>>,
    pub encoded: Option<Box<OnEncoded>>,
    /// Opcode and body in place of the client's own.
    pub sent: Option<(Opcode, Vec<u8>)>,
}

impl Stored {
    pub(super) fn on(mut self, table: &Arc<EncodedTable>, shown: Shown) -> Stored {
        self.encoded = Some(Box::new(OnEncoded {
            table: table.clone(),
            shown,
        }));
        self
    }
}
