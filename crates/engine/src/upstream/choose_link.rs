//! Over which link a node request goes to a node.

use std::rc::Rc;

use helenus_cql::Kind;
use helenus_policy::ring::NodeIndex;
use helenus_wire::{Opcode, Version};

use crate::context::Context;
use crate::keys::{LinkKey, NodeRequestKey};
use crate::pipeline::node_request::{Flight, NodeRequest};
use crate::pipeline::query::Query;
use crate::stats::add;
use crate::upstream::connect::kind::LinkKind;
use crate::upstream::link::Stream;
use crate::upstream::links::Links;
use crate::upstream::pool::special::SpecialLink;

/// The kind of a link with a state of its own, if a query needs one.
fn special_kind(query: &Query, version: Version) -> Option<LinkKind> {
    let statement = match &query.statement {
        Some(statement) => statement,
        // Nobody here knows what it executes: it may be a USE. It needs no keyspace from its link.
        None if query.opcode == Opcode::Execute => return Some(LinkKind::Use),
        None if query.opcode == Opcode::Batch && version != Version::V5 => {
            return query.keyspace.clone().map(LinkKind::Keyspace);
        }
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

/// True if a request or its answer is likely to be large.
fn is_bulk(cx: &Context, query: &Query) -> bool {
    let limit = cx.shared.config.links.bulk_bytes;
    let answer = query.statement.as_ref();
    let answer = answer.map_or(0, |s| s.learned.answer_bytes() as usize);
    limit > 0 && (answer > limit || query.body.len() > limit)
}

/// Which link takes a node request.
pub(crate) enum Choice {
    Link(LinkKey),
    /// The node has none with room.
    NoRoom,
    /// The node request waits for a link of its own kind.
    Waits,
    Refused(&'static str),
}

const TOO_MANY_KEYSPACES: &str = "Helenus: too many keyspaces are in use at once by statements that \
    do not name theirs: write ks.table";
const TOO_MANY_WAIT: &str = "Helenus: too many requests wait for a connection of their keyspace";
const TOO_MANY_IN_FLIGHT: &str = "Helenus: the connection of this keyspace has too many requests in \
    flight: try again";

impl Links {
    /// The link for a node request.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        cx: &mut Context,
        key: NodeRequestKey,
        query: &Query,
        node: NodeIndex,
    ) -> Choice {
        let in_flight_max = cx.shared.config.links.in_flight_max;
        let Some(pool) = self.pools.get(query.pool) else {
            return Choice::NoRoom;
        };
        let with_room = |key: LinkKey| {
            let link = self.open.get(key)?;
            let can_say_it = link.version >= query.version;
            (can_say_it && link.has_room(in_flight_max)).then_some((key, link))
        };
        let links = pool.links(node).filter_map(with_room);
        let best = links.min_by_key(|(_, link)| link.in_flight());
        let Some((link, version)) = best.map(|(key, link)| (key, link.version)) else {
            return Choice::NoRoom;
        };
        if let Some(kind) = special_kind(query, version) {
            return match self.special_link(cx, query.pool, node, &kind, key) {
                SpecialLink::Up(special) if self.has_room(cx, special) => Choice::Link(special),
                SpecialLink::Up(_) => Choice::Refused(TOO_MANY_IN_FLIGHT),
                SpecialLink::Waits => Choice::Waits,
                SpecialLink::TooMany => Choice::Refused(TOO_MANY_KEYSPACES),
                SpecialLink::TooManyWait => Choice::Refused(TOO_MANY_WAIT),
            };
        }
        if is_bulk(cx, query)
            && let Some(bulk) = self.bulk_link(cx, query.pool, node)
            && self.has_room(cx, bulk)
        {
            return Choice::Link(bulk);
        }
        Choice::Link(link)
    }

    fn has_room(&self, cx: &Context, link: LinkKey) -> bool {
        let in_flight_max = cx.shared.config.links.in_flight_max;
        let link = self.open.get(link);
        link.is_some_and(|link| link.has_room(in_flight_max))
    }

    /// Puts a node request on a link that has room. `is_open`: others may still join it, or have joined it.
    #[inline]
    pub(crate) fn put(
        &mut self,
        cx: &Context,
        link_key: LinkKey,
        key: NodeRequestKey,
        request: &NodeRequest,
        query: &Query,
        is_open: bool,
    ) -> Option<Flight> {
        let link = self.open.get_mut(link_key)?;
        let stream = link.take_stream(Stream::Busy(key));
        let flight = Flight {
            link: link_key,
            stream,
            sent: cx.now,
            behind: link.writes,
        };
        match is_open {
            true => link.open_requests.push((key, stream)),
            false => link.push(cx, stream, request, query),
        }
        let counters = &self.health[link.node.as_usize()].stats().counters;
        add(&counters.requests, 1);
        if query.is_read() {
            add(&counters.read_requests, 1);
        }
        if link.mark(cx.now) {
            self.dirty.push(link_key);
        }
        Some(flight)
    }
}
