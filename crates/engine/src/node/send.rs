//! A message on its way to a link: which link, and as which bytes.

use std::rc::Rc;

use helenus_cql::Kind;
use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::Class;
use helenus_wire::{
    Header, Opcode, Page, RequestContext, Version, code, convert_request, flags, write,
};

use crate::engine::{Engine, LinkKey, NodeRequestKey};
use crate::message::{Flight, Stage, Work};
use crate::node::link::{Link, LinkKind, Stream};
use crate::node::pool::SpecialLink;
use crate::query::Query;
use crate::stats::add;

/// The key of a request's priority for the agent in the nodes.
const AGENT_PRIORITY: &str = "helenus-priority";
/// The binary logarithm of the microseconds of work that are neither urgent nor not.
const AGENT_PRIORITY_ZERO: i32 = 16;

/// A scan's priority among the scans of a node, from what is left of it: smaller is sooner. `None` for
/// what is no scan, and where the client has a payload of its own.
fn agent_priority(work: Work, query: &Query) -> Option<i32> {
    if query.class != Class::Scan || query.header_flags & flags::CUSTOM_PAYLOAD != 0 {
        return None;
    }
    let work_us = match work {
        Work::Part(part) => part.work_us,
        Work::Piece { work_us, .. } => work_us,
        Work::Learned | Work::Scan { .. } => return None,
    };
    let rank = work_us.checked_ilog2().unwrap_or(0) as i32 - AGENT_PRIORITY_ZERO;
    // 0 is what requests without a priority have: those go between the small and the large.
    Some(if rank < 0 { rank } else { rank + 1 })
}

/// Whether a query needs a link with a state of its own.
fn special_kind(query: &Query, version: Version) -> Option<LinkKind> {
    let statement = match &query.statement {
        Some(statement) => statement,
        // Nobody here knows what it executes: it may be a USE. It needs no keyspace from its link.
        None if query.opcode == Opcode::Execute => return Some(LinkKind::Use),
        None => return None,
    };
    let kind = statement.facts.kind;
    if kind == Kind::Use && query.opcode != Opcode::Prepare {
        return Some(LinkKind::Use);
    }
    if statement.facts.keyspace.is_some() {
        return None;
    }
    // The keyspace that v5 puts in a request is only heard by what reads and writes tables;
    // DESCRIBE, GRANT and their like look at the connection.
    let carried = matches!(
        kind,
        Kind::Select | Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch
    );
    if version == Version::V5 && (carried || query.opcode != Opcode::Query) {
        return None;
    }
    let keyspace: Rc<str> = match (&query.prepared, query.opcode) {
        (Some(prepared), Opcode::Execute) => prepared.keyspace.as_deref()?.into(),
        _ => query.keyspace.clone()?,
    };
    Some(LinkKind::Keyspace(keyspace))
}

impl Engine {
    /// Puts a request on a link to a node; false if the node has none with room. True also when it
    /// now waits for a link of its own kind.
    pub(crate) fn dispatch(&mut self, key: NodeRequestKey, node: NodeIndex) -> bool {
        let in_flight_max = self.cx.shared.config.links.in_flight_max;
        let Some(query) = self.requests.query(key) else {
            return false;
        };
        let Some(pool) = self.pools.get(query.pool) else {
            return false;
        };
        let with_room = |key: LinkKey| {
            let link = self.links.get(key)?;
            link.has_room(in_flight_max).then_some((key, link))
        };
        let best = pool
            .links(node)
            .filter_map(with_room)
            .min_by_key(|(_, link)| link.in_flight);
        let Some((mut link, version)) = best.map(|(key, link)| (key, link.version)) else {
            return false;
        };
        if let Some(kind) = special_kind(query, version) {
            let pool = query.pool;
            match self.special_link(pool, node, &kind, key) {
                SpecialLink::Up(special) if self.has_room(special) => link = special,
                SpecialLink::Waits => {
                    self.leave_queue(key, None);
                    // It comes back through `route`, whose plan must still hold this node.
                    self.put_in_front(key, node);
                    return true;
                }
                refused => {
                    self.leave_queue(key, None);
                    let text = match refused {
                        SpecialLink::TooMany => {
                            "Helenus: too many keyspaces are in use at once by statements that do not \
                             name theirs (limits.special_links_max)"
                        }
                        SpecialLink::TooManyWait => {
                            "Helenus: too many requests wait for a connection of their keyspace"
                        }
                        SpecialLink::Up(_) | SpecialLink::Waits => {
                            "Helenus: the connection of this keyspace has too many requests in flight \
                             (links.in_flight_max)"
                        }
                    };
                    self.fail_untried(key, code::OVERLOADED, text, &[]);
                    return true;
                }
            }
        } else if self.is_bulk(query)
            && let Some(bulk) = self.bulk_link(query.pool, node)
            && self.has_room(bulk)
        {
            link = bulk;
        }
        self.transmit(key, node, link);
        true
    }

    fn has_room(&self, link: LinkKey) -> bool {
        let in_flight_max = self.cx.shared.config.links.in_flight_max;
        let link = self.links.get(link);
        link.is_some_and(|link| link.has_room(in_flight_max))
    }

    /// Whether a request or its answer is likely to be large.
    fn is_bulk(&self, query: &Query) -> bool {
        let limit = self.cx.shared.config.links.bulk_bytes;
        let answer = query.statement.as_ref();
        let answer = answer.map_or(0, |s| s.learned.answer_bytes() as usize);
        limit > 0 && (answer > limit || query.body.len() > limit)
    }

    fn transmit(&mut self, key: NodeRequestKey, node: NodeIndex, link_key: LinkKey) {
        let (Some(sending), Some(link)) =
            (self.requests.sending(key), self.links.get_mut(link_key))
        else {
            return;
        };
        let admission = match std::mem::replace(sending.stage, Stage::Unplaced) {
            Stage::Admitted(admission) => Some(admission),
            Stage::Unplaced | Stage::Queued(_) | Stage::InFlight(..) => None,
        };
        let stream = link.take_stream(Stream::Busy(key));
        let flight = Flight {
            link: link_key,
            stream,
            sent: self.cx.now,
            behind: link.writes,
        };
        *sending.stage = Stage::InFlight(admission, flight);
        *sending.node = Some(node);
        if matches!(sending.work, Work::Piece { .. } | Work::Part(_)) {
            add(&self.cx.shared.stats.global.scan_pieces, 1);
        }
        let (query, page) = (sending.query, sending.page);
        let may = self.cx.shared.config.scheduling.agent_priority && link.version >= Version::V4;
        let priority = may.then(|| agent_priority(sending.work, query)).flatten();
        write_message(link, stream, query, page, priority);
        add(&self.nodes[node.as_usize()].stats.counters.requests, 1);
        self.mark_link(link_key);
    }
}

/// Puts a message into a link's encoder, as the node's version has it.
fn write_message(
    link: &mut Link,
    stream: i16,
    query: &Query,
    page: Option<Page<'_>>,
    priority: Option<i32>,
) {
    let keep = flags::TRACING | flags::CUSTOM_PAYLOAD;
    let header = Header {
        version: link.version as u8,
        response: false,
        flags: query.header_flags & keep | priority.map_or(0, |_| flags::CUSTOM_PAYLOAD),
        stream,
        opcode: query.opcode as u8,
        body_len: 0,
    };
    let keyspace = query
        .keyspace
        .as_deref()
        .filter(|_| match &query.statement {
            // A statement with its own keyspace needs no other; an unknown one might.
            Some(statement) => {
                statement.facts.keyspace.is_none() || statement.facts.kind == Kind::Batch
            }
            None => true,
        });
    let metadata_id = query
        .prepared
        .as_ref()
        .and_then(|p| p.result_metadata_id.as_deref());
    let prepared = query.prepared.as_ref();
    let full_metadata = query.version < Version::V5
        && query.opcode == Opcode::Execute
        && prepared.is_some_and(|prepared| prepared.may_have_changed());
    let payload = |out: &mut Vec<u8>| {
        if let Some(priority) = priority {
            write::u16(out, 1);
            write::string(out, AGENT_PRIORITY);
            write::bytes(out, Some(&priority.to_be_bytes()));
        }
    };
    if query.version == link.version && keyspace.is_none() && page.is_none() && !full_metadata {
        link.encoder.push(header, |out| {
            payload(out);
            out.extend_from_slice(&query.body);
        });
    } else {
        let context = RequestContext {
            keyspace,
            result_metadata_id: metadata_id,
            node_statement_id: None,
            page,
            full_metadata,
        };
        let (opcode, flags, from, to) = (
            query.opcode,
            query.header_flags & keep,
            query.version,
            link.version,
        );
        let body = &query.body;
        link.encoder.push(header, |out| {
            payload(out);
            let start = out.len();
            // The body was parsed on arrival, so this cannot fail; if it does, the node shall
            // judge the client's own bytes.
            if convert_request(opcode, flags, body, from, to, context, out).is_err() {
                out.truncate(start);
                out.extend_from_slice(body);
            }
        });
    }
}
