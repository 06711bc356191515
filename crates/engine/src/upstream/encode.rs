//! A node request's bytes, as its node's version has them.

use helenus_cql::Kind;
use helenus_policy::schedule::Class;
use helenus_wire::{Header, Opcode, RequestContext, Version, convert_request, flags, write};

use crate::context::Context;
use crate::pipeline::node_request::{NodeRequest, Prediction};
use crate::pipeline::query::Query;
use crate::upstream::link::Link;

/// The key of a request's priority for the agent in the nodes.
const AGENT_PRIORITY: &str = "helenus-priority";
/// The binary logarithm of the microseconds of work that are neither urgent nor not.
const AGENT_PRIORITY_ZERO: i32 = 16;
/// Bytes that a body grows by on its way, but for a long paging state: a keyspace, ids, flags, a priority.
const ADDED_MAX: usize = 256;

/// A scan's priority among the scans of a node, from what is left of it: smaller is sooner. `None` for
/// what is no scan, and where the client has a payload of its own.
fn agent_priority(request: &NodeRequest, query: &Query) -> Option<i32> {
    if query.class != Class::Scan || query.header_flags & flags::CUSTOM_PAYLOAD != 0 {
        return None;
    }
    let work_us = match *request.work() {
        Prediction::Part(part) => part.work_us,
        Prediction::Piece { work_us, .. } | Prediction::Stretch { work_us, .. } => work_us,
        Prediction::Learned | Prediction::Scan { .. } => return None,
    };
    let rank = work_us.checked_ilog2().unwrap_or(0) as i32 - AGENT_PRIORITY_ZERO;
    // 0 is what requests without a priority have: those go between the small and the large.
    Some(if rank < 0 { rank } else { rank + 1 })
}

/// The keyspace that goes with a query.
fn carried_keyspace(query: &Query) -> Option<&str> {
    query
        .keyspace
        .as_deref()
        .filter(|_| match &query.statement {
            // A statement with its own keyspace needs no other; an unknown one might.
            Some(statement) => {
                statement.facts.keyspace.is_none() || statement.facts.kind == Kind::Batch
            }
            None => true,
        })
}

/// Writes the custom payload that tells the agent in the node a priority.
fn write_priority(out: &mut Vec<u8>, priority: Option<i32>) {
    if let Some(priority) = priority {
        write::u16(out, 1);
        write::string(out, AGENT_PRIORITY);
        write::bytes(out, Some(&priority.to_be_bytes()));
    }
}

impl Link {
    /// Puts a node request behind what already waits to be written.
    #[inline]
    pub(super) fn push(&mut self, cx: &Context, stream: i16, request: &NodeRequest, query: &Query) {
        let keep = flags::TRACING | flags::CUSTOM_PAYLOAD;
        let may = cx.shared.config.scheduling.agent_priority && self.version >= Version::V4;
        let priority = may.then(|| agent_priority(request, query)).flatten();
        let header = Header {
            version: self.version as u8,
            response: false,
            flags: query.header_flags & keep | priority.map_or(0, |_| flags::CUSTOM_PAYLOAD),
            stream,
            opcode: query.opcode as u8,
            body_len: 0,
        };
        let prepared = query.prepared.as_ref();
        let context = RequestContext {
            keyspace: carried_keyspace(query),
            result_metadata_id: prepared.and_then(|p| p.result_metadata_id.as_deref()),
            node_statement_id: None,
            page: request.form().page(),
            full_metadata: query.version < Version::V5
                && query.opcode == Opcode::Execute
                && prepared.is_some_and(|prepared| prepared.may_have_changed()),
        };
        let as_it_came = query.version == self.version
            && context.keyspace.is_none()
            && context.page.is_none()
            && !context.full_metadata;
        let (body, to) = (&query.body, self.version);
        self.encoder.push(header, body.len() + ADDED_MAX, |out| {
            write_priority(out, priority);
            if as_it_came {
                return out.extend_from_slice(body);
            }
            let start = out.len();
            let (opcode, flags) = (query.opcode, query.header_flags & keep);
            // The body was parsed on arrival, so this cannot fail; if it does, the node shall judge
            // the client's own bytes.
            if convert_request(opcode, flags, body, query.version, to, context, out).is_err() {
                out.truncate(start);
                out.extend_from_slice(body);
            }
        });
    }
}
