//! Which node a request goes to, when, and over which link.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use helenus_cql::Kind;
use helenus_policy::ring::NodeIndex;
use helenus_policy::route::{Plan, Preference, RouteInput, plan};
use helenus_policy::schedule::Class;
use helenus_wire::{Header, Opcode, RequestContext, Version, code, convert_request, flags, write};

use crate::link::{LinkKind, Stream};
use crate::pool::SpecialLink;
use crate::prepared::Statement;
use crate::request::{Origin, Request};
use crate::schedule::Admitted;
use crate::stats::{add, sub};
use crate::understand::Place;
use crate::worker::{Key, State};

const ATTEMPTS_MAX: u8 = 8;

/// The key of a request's priority for the agent in the nodes.
const AGENT_PRIORITY: &str = "helenus-priority";
/// The binary logarithm of the microseconds of work that are neither urgent nor not.
const AGENT_PRIORITY_ZERO: i32 = 16;

/// A scan's priority among the scans of a node, from what is left of it: smaller is sooner. `None` for
/// what is no scan, and where the client has a payload of its own.
fn agent_priority(request: &Request) -> Option<i32> {
    if request.class != Class::Scan || request.header_flags & flags::CUSTOM_PAYLOAD != 0 {
        return None;
    }
    let work_us = match (&request.part, &request.scan) {
        (Some(part), _) => part.work_us,
        (None, Some(scan)) => scan.predicted().0,
        (None, None) => return None,
    };
    let rank = work_us.checked_ilog2().unwrap_or(0) as i32 - AGENT_PRIORITY_ZERO;
    // 0 is what requests without a priority have: those go between the small and the large.
    Some(if rank < 0 { rank } else { rank + 1 })
}

impl State {
    /// Puts the nodes for a request in order, the owners of its place first.
    pub fn plan_for(&mut self, request: Key, place: Option<&Place>, lwt: bool) {
        self.turn = self.turn.wrapping_add(1);
        let snapshot = &self.snapshot;
        let Some(entry) = self.requests.get(request.index as usize) else {
            return;
        };
        let Some(pool) = self.pools.get(entry.pool) else {
            return;
        };
        let now = self.now;
        let nodes = &self.nodes;
        let local = entry.statement.as_ref().is_some_and(|s| s.node_local)
            && entry.opcode != Opcode::Prepare;
        let mut replicas = match place {
            _ if local => std::slice::from_ref(&snapshot.pinned),
            Some(place) => place.owners.of_slot(place.slot),
            None => &[],
        };
        let mut by_scans = [NodeIndex(0); Plan::CAPACITY];
        if entry.class == Class::Scan && replicas.len() > 1 {
            let len = replicas.len().min(by_scans.len());
            let by_scans = &mut by_scans[..len];
            by_scans.copy_from_slice(&replicas[..len]);
            by_scans.rotate_left(self.turn as usize % len);
            by_scans.sort_by_key(|node| self.scans_at(*node));
            replicas = by_scans;
        }
        if !local && !replicas.is_empty() {
            add(&self.shared.stats.global.requests_token_aware, 1);
        }
        let healthy = |node: NodeIndex| {
            pool.has_link(node)
                && nodes
                    .get(node.as_usize())
                    .is_some_and(|n| n.suspect_until.is_none_or(|t| t <= now))
        };
        let linked = |node: NodeIndex| pool.has_link(node);
        let mut input = RouteInput {
            replicas,
            nodes: &snapshot.places,
            usable: &healthy,
            turn: self.turn,
            allow_remote: self.shared.config.cluster.allow_remote_dc,
            preference: if lwt || local || entry.class == Class::Scan {
                Preference::Primary
            } else {
                Preference::Spread
            },
        };
        let mut made = plan(&input);
        if made.is_empty() {
            input.usable = &linked;
            made = plan(&input);
        }
        self.requests[request.index as usize].plan = Some(made);
    }

    /// Puts one node first for a request, and others of its data centre behind it.
    pub fn plan_at(&mut self, request: Key, node: NodeIndex) {
        self.turn = self.turn.wrapping_add(1);
        let Some(entry) = self.requests.get(request.index as usize) else {
            return;
        };
        let Some(pool) = self.pools.get(entry.pool) else {
            return;
        };
        let linked = |node| pool.has_link(node);
        let made = plan(&RouteInput {
            replicas: &[node],
            nodes: &self.snapshot.places,
            usable: &linked,
            turn: self.turn,
            allow_remote: self.shared.config.cluster.allow_remote_dc,
            preference: Preference::Primary,
        });
        add(&self.shared.stats.global.requests_token_aware, 1);
        self.requests[request.index as usize].plan = Some(made);
    }

    /// Sends a request to its next candidate, or lets it wait, or fails it.
    pub fn route(&mut self, key: Key) {
        loop {
            let Some(request) = self.request(key) else {
                return;
            };
            request.attempts += 1;
            let exhausted = request.attempts > ATTEMPTS_MAX;
            let next = request.plan.as_mut().and_then(Iterator::next);
            let pool = request.pool;
            let Some(node) = next.filter(|_| !exhausted) else {
                let never_tried = request.attempts <= 1;
                if never_tried {
                    self.try_nodes_again();
                }
                if never_tried && self.wait_for_link(pool, key) {
                    if let Some(request) = self.request(key) {
                        request.attempts = 0;
                    }
                    self.replan_later(key);
                    return;
                }
                return self.fail_unavailable(key);
            };
            if self.pools.get(pool).is_none_or(|p| !p.has_link(node)) {
                continue;
            }
            match self.offer(key, node) {
                Admitted::Go => {
                    if self.dispatch(key, node) {
                        return;
                    }
                    self.leave_schedule(key, None);
                }
                Admitted::Waits => return,
                Admitted::Refused(why) => {
                    add(&self.shared.stats.global.requests_overloaded, 1);
                    return self.fail(key, code::OVERLOADED, &why, &[]);
                }
            }
        }
    }

    /// A request that waits for the first link has no candidates yet.
    fn replan_later(&mut self, key: Key) {
        let snapshot = self.snapshot.clone();
        let always = |_: NodeIndex| true;
        let input = RouteInput {
            replicas: &[],
            nodes: &snapshot.places,
            usable: &always,
            turn: self.turn,
            allow_remote: true,
            preference: Preference::Spread,
        };
        let made = plan(&input);
        if let Some(request) = self.request(key) {
            request.plan = Some(made);
        }
    }

    /// Puts a request on a link to a node; false if the node has none with room. True also when it
    /// now waits for a link of its own kind.
    pub fn dispatch(&mut self, key: Key, node: NodeIndex) -> bool {
        let in_flight_max = self.shared.config.links.in_flight_max;
        let Some(request) = self.requests.get(key.index as usize) else {
            return false;
        };
        let Some(pool) = self.pools.get(request.pool) else {
            return false;
        };
        let best = pool
            .links(node)
            .filter(|l| self.links[*l as usize].has_room(in_flight_max))
            .min_by_key(|l| self.links[*l as usize].in_flight);
        let Some(mut link_index) = best else {
            return false;
        };
        if let Some(kind) = self.special_kind(request, self.links[link_index as usize].version) {
            let pool = request.pool;
            match self.special_link(pool, node, &kind, key) {
                SpecialLink::Up(link) if self.links[link as usize].has_room(in_flight_max) => {
                    link_index = link;
                }
                SpecialLink::Waits => {
                    self.leave_schedule(key, None);
                    // It comes back through `route`, whose plan must still hold this node.
                    self.put_in_front(key, node);
                    return true;
                }
                _ => {
                    self.leave_schedule(key, None);
                    let text = "Helenus: too many keyspaces are in use through USE at once";
                    self.fail(key, code::OVERLOADED, text, &[]);
                    return true;
                }
            }
        } else if self.is_bulk(request)
            && let Some(link) = self.bulk_link(request.pool, node)
            && self.links[link as usize].has_room(in_flight_max)
        {
            link_index = link;
        }
        self.transmit(key, node, link_index);
        true
    }

    /// Makes a node a request's next and only candidate.
    pub fn put_in_front(&mut self, key: Key, node: NodeIndex) {
        let places = self.snapshot.places.clone();
        let only = |n: NodeIndex| n == node;
        let replicas = [node];
        let input = RouteInput {
            replicas: &replicas,
            nodes: &places,
            usable: &only,
            turn: 0,
            allow_remote: true,
            preference: Preference::Spread,
        };
        let made = plan(&input);
        if let Some(request) = self.request(key) {
            request.plan = Some(made);
            request.attempts = request.attempts.saturating_sub(1);
        }
    }

    /// Whether a request needs a link with a state of its own.
    fn special_kind(&self, request: &Request, version: Version) -> Option<LinkKind> {
        let statement = request.statement.as_ref()?;
        let kind = statement.facts.kind;
        if kind == Kind::Use && request.opcode == Opcode::Query {
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
        if version == Version::V5 && (carried || request.opcode != Opcode::Query) {
            return None;
        }
        let keyspace: Rc<str> = match (&request.prepared, request.opcode) {
            (Some(prepared), Opcode::Execute) => prepared.keyspace.as_deref()?.into(),
            _ => request.keyspace.clone()?,
        };
        Some(LinkKind::Keyspace(keyspace))
    }

    /// Whether a request or its answer is likely to be large.
    fn is_bulk(&self, request: &Request) -> bool {
        let limit = self.shared.config.links.bulk_bytes;
        let answer = request.statement.as_ref();
        let answer = answer.map_or(0, |s| s.learned.answer_bytes() as usize);
        limit > 0 && (answer > limit || request.body.len() > limit)
    }

    fn transmit(&mut self, key: Key, node: NodeIndex, link_index: u32) {
        let now = self.now;
        let request = &mut self.requests[key.index as usize];
        let link = &mut self.links[link_index as usize];
        let stream = link.take_stream(Stream::Busy(key));
        request.at = Some((link_index, stream));
        request.node = Some(node);
        request.sent = now;
        request.sent_behind = link.writes;
        let keep = flags::TRACING | flags::CUSTOM_PAYLOAD;
        let may = self.shared.config.scheduling.agent_priority && link.version >= Version::V4;
        let priority = may.then(|| agent_priority(request)).flatten();
        let header = Header {
            version: link.version as u8,
            response: false,
            flags: request.header_flags & keep | priority.map_or(0, |_| flags::CUSTOM_PAYLOAD),
            stream,
            opcode: request.opcode as u8,
            body_len: 0,
        };
        let keyspace = request
            .keyspace
            .as_deref()
            .filter(|_| match &request.statement {
                // A statement with its own keyspace needs no other; an unknown one might.
                Some(statement) => {
                    statement.facts.keyspace.is_none() || statement.facts.kind == Kind::Batch
                }
                None => true,
            });
        let tail = request.scan.as_ref().and_then(|scan| scan.tail_request());
        let page = request.scan.as_ref().map(|scan| scan.page());
        let part = matches!(request.origin, Origin::Part(..)) && request.class == Class::Scan;
        if page.is_some() || part {
            add(&self.shared.stats.global.scan_pieces, 1);
        }
        let metadata_id = request
            .prepared
            .as_ref()
            .and_then(|p| p.result_metadata_id.as_deref());
        let payload = |out: &mut Vec<u8>| {
            if let Some(priority) = priority {
                write::u16(out, 1);
                write::string(out, AGENT_PRIORITY);
                write::bytes(out, Some(&priority.to_be_bytes()));
            }
        };
        if let Some((opcode, body)) = tail {
            let opcode = opcode as u8;
            link.encoder.push(Header { opcode, ..header }, |out| {
                payload(out);
                out.extend_from_slice(body);
            });
        } else if request.version == link.version && keyspace.is_none() && page.is_none() {
            link.encoder.push(header, |out| {
                payload(out);
                out.extend_from_slice(&request.body);
            });
        } else {
            let context = RequestContext {
                keyspace,
                result_metadata_id: metadata_id,
                node_statement_id: None,
                page,
            };
            let (opcode, flags, from, to) = (
                request.opcode,
                request.header_flags & keep,
                request.version,
                link.version,
            );
            let body = &request.body;
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
        let stats = &self.nodes[node.as_usize()].stats;
        add(&stats.counters.requests, 1);
        add(&stats.in_flight, 1);
        self.mark_link(link_index);
    }

    /// Sends PREPARE of a statement to a node, for the proxy's own sake.
    pub fn prepare_on(
        &mut self,
        statement: &Arc<Statement>,
        keyspace: Option<&str>,
        node: NodeIndex,
        pool: usize,
        origin: Origin,
    ) -> bool {
        let version = self.snapshot.version;
        let mut body = Vec::with_capacity(statement.text.len() + 16);
        write::long_string(&mut body, &statement.text);
        if version == Version::V5 {
            match keyspace {
                Some(keyspace) => {
                    write::u32(&mut body, 1);
                    write::string(&mut body, keyspace);
                }
                None => write::u32(&mut body, 0),
            }
        }
        let keyspace = match version {
            Version::V5 => None,
            _ => keyspace.map(Into::into),
        };
        let key = self.insert_request(Request {
            keyspace,
            statement: Some(statement.clone()),
            pool,
            class: Class::System,
            idempotent: true,
            ..Request::new(origin, Opcode::Prepare, version, body, self.now)
        });
        if self.dispatch(key, node) {
            return true;
        }
        self.drop_request(key);
        false
    }

    /// Gives up on requests that have waited for too long.
    pub fn expire_requests(&mut self) {
        let timeout = self.shared.config.request_timeout();
        let now = self.now;
        let late: Vec<Key> = self
            .requests
            .iter()
            .filter(|(_, r)| {
                // In a node's queue it has another bound, and so have the parts of a page.
                let bounded = r.waiting.is_some() || r.in_parts();
                !bounded && now.saturating_duration_since(r.progress) > timeout
            })
            .map(|(i, r)| Key {
                index: i as u32,
                generation: r.generation,
            })
            .collect();
        for key in late {
            self.on_request_expired(key, timeout);
        }
    }

    fn on_request_expired(&mut self, key: Key, timeout: Duration) {
        let Some(request) = self.request(key) else {
            return;
        };
        let node = request.node;
        if let Some((link, stream)) = request.at.take()
            && let Some(link) = self.links.get_mut(link as usize)
        {
            link.orphan(stream);
            if let Some(node) = node {
                sub(&self.nodes[node.as_usize()].stats.in_flight, 1);
                add(&self.nodes[node.as_usize()].stats.counters.timeouts, 1);
            }
        }
        add(&self.shared.stats.global.requests_timed_out, 1);
        let text = match node.and_then(|n| self.snapshot.nodes.get(n.as_usize())) {
            Some(node) => format!(
                "Helenus: {} did not answer within {timeout:?}",
                node.address
            ),
            None => format!("Helenus: no node took the request within {timeout:?}"),
        };
        self.fail_timeout(key, &text);
    }
}
