//! A node request on its way to a node: over which link.

use std::rc::Rc;

use helenus_cql::Kind;
use helenus_policy::ring::NodeIndex;
use helenus_wire::{Opcode, Version, code};

use crate::context::Context;
use crate::engine::Engine;
use crate::keys::{LinkKey, NodeRequestKey};
use crate::node::kind::LinkKind;
use crate::node::link::Stream;
use crate::node::links::Links;
use crate::node::special::SpecialLink;
use crate::node_request::{Flight, Form, NodeRequest, Owner, Prediction, Stage};
use crate::query::Query;
use crate::stats::add;

/// Whether a query needs a link with a state of its own.
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

/// Whether a request or its answer is likely to be large.
fn is_bulk(cx: &Context, query: &Query) -> bool {
    let limit = cx.shared.config.links.bulk_bytes;
    let answer = query.statement.as_ref();
    let answer = answer.map_or(0, |s| s.learned.answer_bytes() as usize);
    limit > 0 && (answer > limit || query.body.len() > limit)
}

const TOO_LATE: &str = "Helenus: what is known of layouts and encoded columns has become too old, or has \
    changed, before the request was to be sent; try again";

/// Which link takes a node request.
enum Choice {
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
    fn choose(
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

    /// Puts a node request on a link that has room. `is_open`: it is a write that others may still join, or
    /// have joined.
    #[inline]
    fn put(
        &mut self,
        cx: &Context,
        link_key: LinkKey,
        (key, request): (NodeRequestKey, &NodeRequest),
        (query, is_open): (&Query, bool),
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
            true => link.open_writes.push((key, stream)),
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

impl Engine {
    /// Puts a request on a link to a node; false if the node has none with room. True also when it
    /// now waits for a link of its own kind.
    pub(crate) fn dispatch(&mut self, key: NodeRequestKey, node: NodeIndex) -> bool {
        let Some(request) = self.requests.nodes.get(key) else {
            return false;
        };
        let Some(query) = self.requests.query_of(request) else {
            return false;
        };
        let is_late = query.send_before.is_some_and(|end| self.cx.now >= end);
        if is_late || self.is_blind(key) {
            self.leave_queue(key, None);
            self.fail_unsendable(key, code::OVERLOADED, TOO_LATE, &[]);
            return true;
        }
        match self.links.choose(&mut self.cx, key, query, node) {
            Choice::NoRoom => false,
            Choice::Link(link) => {
                let client = match (&request.owner, &request.form) {
                    (Owner::Whole(client), Form::Own) => self.requests.clients.get(*client),
                    _ => None,
                };
                let is_open = client.is_some_and(|client| client.merge.batch().is_some());
                let (links, cx) = (&mut self.links, &self.cx);
                let flight = links.put(cx, link, (key, request), (query, is_open));
                let is_sent = flight.is_some();
                if let Some(flight) = flight {
                    self.note_flight(key, node, flight);
                }
                is_sent
            }
            Choice::Waits => {
                self.leave_queue(key, None);
                // It comes back through `route`, whose plan must still hold this node.
                if let Some(request) = self.requests.nodes.get_mut(key) {
                    request.put_in_front(node);
                }
                true
            }
            Choice::Refused(why) => {
                self.leave_queue(key, None);
                self.fail_untried(key, code::OVERLOADED, why, &[]);
                true
            }
        }
    }

    /// A node request is in flight to a node.
    #[inline]
    fn note_flight(&mut self, key: NodeRequestKey, node: NodeIndex, flight: Flight) {
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return;
        };
        let admission = match std::mem::replace(&mut request.stage, Stage::Unplaced) {
            Stage::Admitted(admission) => Some(admission),
            Stage::Unplaced | Stage::Queued(_) | Stage::InFlight(..) => None,
        };
        request.stage = Stage::InFlight(admission, flight);
        self.hedging.note_sent();
        request.node = Some(node);
        if matches!(request.work, Prediction::Piece { .. } | Prediction::Part(_)) {
            add(&self.cx.shared.stats.global.scan_pieces, 1);
        }
    }
}
