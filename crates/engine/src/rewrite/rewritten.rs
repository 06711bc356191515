//! A request's form on its way to the nodes, and an answer's on its way back.

use std::time::Instant;

use helenus_wire::{ErrorBody, Opcode, is_paging_state};

use crate::rewrite::schema_read::SchemaForm;

/// Cassandra's error for a malformed paging state.
pub(crate) const INVALID_STATE: &str = "Invalid value for the paging state";

/// A request sent in place of a client's, before that may join another.
#[derive(Default)]
pub(crate) struct Instead {
    /// It is not sent later than this: what is known may be another thing by then.
    pub until: Option<Instant>,
    /// Opcode and body in place of the client's own.
    pub sent: Option<(Opcode, Vec<u8>)>,
}

/// Changes to a request that goes on by itself.
#[derive(Default)]
pub(crate) struct Rewritten {
    /// It is not sent later than this.
    pub send_before: Option<Instant>,
    /// Bytes of its paging state that nodes do not get: they stand in front of the node's own.
    pub state_begins_at: usize,
    /// If it reads the schema.
    pub schema: Option<Box<SchemaForm>>,
}

impl Rewritten {
    /// True if the paging state that is sent, if there is one, is one to the nodes: links are shared, and nodes close
    /// those over which others come.
    pub(crate) fn may_be_sent_with(&self, state: Option<&[u8]>) -> bool {
        let sent = state.map(|state| state.get(self.state_begins_at..).unwrap_or(state));
        sent.is_none_or(is_paging_state)
    }
}

/// How a node request has come to nothing.
#[derive(Debug)]
pub(crate) enum Tried<'a> {
    /// With this error of a node.
    Answered(ErrorBody<'a>),
    /// It was not sent, for a reason of this code: too late, or the node cannot prepare it again.
    No(i32),
}

/// A client's view of a node's answer to a request other than its own.
pub(crate) enum AsAsked {
    PassThrough,
    Body(Vec<u8>),
    /// It cannot be made an answer to what the client has asked, which is asked again.
    Unusable,
}

impl AsAsked {
    /// The other, if this changes nothing.
    pub(crate) fn or(self, other: AsAsked) -> AsAsked {
        match self {
            AsAsked::PassThrough => other,
            changed => changed,
        }
    }
}

/// A client's answer in place of a node's.
pub(crate) struct ShownAnswer {
    pub opcode: Opcode,
    pub header_flags: u8,
    pub body: Vec<u8>,
}
