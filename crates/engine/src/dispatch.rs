//! Which node a request goes to, when, and over which link.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use helenus_cql::Kind;
use helenus_policy::ring::NodeIndex;
use helenus_policy::route::{Plan, Preference, RouteInput, plan};
use helenus_policy::schedule::Class;
use helenus_wire::{Header, Opcode, RequestContext, Version, code, convert_request, flags, write};

use crate::admission::Admitted;
use crate::engine::{Engine, LinkKey, PoolKey, RequestKey};
use crate::node::link::{LinkKind, Stream};
use crate::node::pool::SpecialLink;
use crate::request::{Origin, Request};
use crate::statement::analyze::Place;
use crate::statement::prepared::Statement;
use crate::stats::add;
use crate::timeouts::timed;

const ATTEMPTS_MAX: u8 = 8;
/// No request has a shorter time-out.
const LIMIT_MIN: Duration = Duration::from_millis(100);

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
        (None, Some(scan)) if !scan.is_as_it_is() => scan.predicted().0,
        (None, _) => return None,
    };
    let rank = work_us.checked_ilog2().unwrap_or(0) as i32 - AGENT_PRIORITY_ZERO;
    // 0 is what requests without a priority have: those go between the small and the large.
    Some(if rank < 0 { rank } else { rank + 1 })
}

impl Engine {
    /// Puts the nodes for a request in order, the owners of its place first.
    pub(crate) fn plan_for(&mut self, request: RequestKey, place: Option<&Place>, lwt: bool) {
        self.turn = self.turn.wrapping_add(1);
        let snapshot = &self.cx.snapshot;
        let Some(entry) = self.requests.get(request) else {
            return;
        };
        let Some(pool) = self.pools.get(entry.pool) else {
            return;
        };
        let now = self.cx.now;
        let nodes = &self.nodes;
        // Any node may judge a USE; with always the same one there is one link for it.
        let uses = |s: &Arc<Statement>| s.facts.kind == Kind::Use;
        let local = entry.opcode != Opcode::Prepare
            && (entry.class == Class::System || entry.statement.as_ref().is_some_and(uses));
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
            add(&self.cx.shared.stats.global.requests_token_aware, 1);
        }
        let linked = |node: NodeIndex| pool.has_link(node) && !snapshot.is_gone(node);
        let healthy = |node: NodeIndex| {
            linked(node)
                && nodes
                    .get(node.as_usize())
                    .is_some_and(|n| n.suspect_until.is_none_or(|t| t <= now))
        };
        let mut input = RouteInput {
            replicas,
            nodes: &snapshot.places,
            usable: &healthy,
            turn: self.turn,
            allow_remote: entry.may_leave_dc(&self.cx.shared.config.cluster),
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
        if let Some(request) = self.requests.get_mut(request) {
            request.plan = Some(made);
        }
    }

    /// Puts one node first for a request, and others of its data centre behind it.
    pub(crate) fn plan_at(&mut self, request: RequestKey, node: NodeIndex) {
        self.turn = self.turn.wrapping_add(1);
        let Some(entry) = self.requests.get(request) else {
            return;
        };
        let Some(pool) = self.pools.get(entry.pool) else {
            return;
        };
        let linked = |node| pool.has_link(node) && !self.cx.snapshot.is_gone(node);
        let made = plan(&RouteInput {
            replicas: &[node],
            nodes: &self.cx.snapshot.places,
            usable: &linked,
            turn: self.turn,
            allow_remote: entry.may_leave_dc(&self.cx.shared.config.cluster),
            preference: Preference::Primary,
        });
        add(&self.cx.shared.stats.global.requests_token_aware, 1);
        if let Some(request) = self.requests.get_mut(request) {
            request.plan = Some(made);
        }
    }

    /// Sends a request to its next candidate, or lets it wait, or fails it.
    pub(crate) fn route_now(&mut self, key: RequestKey) {
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
                    add(&self.cx.shared.stats.global.requests_overloaded, 1);
                    return self.fail_untried(key, code::OVERLOADED, &why, &[]);
                }
            }
        }
    }

    /// Puts a request on a link to a node; false if the node has none with room. True also when it
    /// now waits for a link of its own kind.
    pub(crate) fn dispatch(&mut self, key: RequestKey, node: NodeIndex) -> bool {
        let in_flight_max = self.cx.shared.config.links.in_flight_max;
        let Some(request) = self.requests.get(key) else {
            return false;
        };
        let Some(pool) = self.pools.get(request.pool) else {
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
        if let Some(kind) = self.special_kind(request, version) {
            let pool = request.pool;
            match self.special_link(pool, node, &kind, key) {
                SpecialLink::Up(special) if self.has_room(special) => link = special,
                SpecialLink::Waits => {
                    self.leave_schedule(key, None);
                    // It comes back through `route`, whose plan must still hold this node.
                    self.put_in_front(key, node);
                    return true;
                }
                refused => {
                    self.leave_schedule(key, None);
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
        } else if self.is_bulk(request)
            && let Some(bulk) = self.bulk_link(request.pool, node)
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

    /// Makes a node a request's next candidate.
    pub(crate) fn put_in_front(&mut self, key: RequestKey, node: NodeIndex) {
        if let Some(request) = self.request(key) {
            let left = request.plan.map(|plan| plan.behind(node));
            request.plan = Some(left.unwrap_or(Plan::only(node)));
            request.attempts = request.attempts.saturating_sub(1);
        }
    }

    /// Whether a request needs a link with a state of its own.
    fn special_kind(&self, request: &Request, version: Version) -> Option<LinkKind> {
        let statement = match &request.statement {
            Some(statement) => statement,
            // Nobody here knows what it executes: it may be a USE. It needs no keyspace from its link.
            None if request.opcode == Opcode::Execute => return Some(LinkKind::Use),
            None => return None,
        };
        let kind = statement.facts.kind;
        if kind == Kind::Use && request.opcode != Opcode::Prepare {
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
        let limit = self.cx.shared.config.links.bulk_bytes;
        let answer = request.statement.as_ref();
        let answer = answer.map_or(0, |s| s.learned.answer_bytes() as usize);
        limit > 0 && (answer > limit || request.body.len() > limit)
    }

    fn transmit(&mut self, key: RequestKey, node: NodeIndex, link_key: LinkKey) {
        let now = self.cx.now;
        let (Some(request), Some(link)) =
            (self.requests.get_mut(key), self.links.get_mut(link_key))
        else {
            return;
        };
        let stream = link.take_stream(Stream::Busy(key));
        request.at = Some((link_key, stream));
        request.node = Some(node);
        request.sent = now;
        request.sent_behind = link.writes;
        let keep = flags::TRACING | flags::CUSTOM_PAYLOAD;
        let may = self.cx.shared.config.scheduling.agent_priority && link.version >= Version::V4;
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
        let page = request.scan.as_ref().and_then(|scan| scan.page());
        let part = matches!(request.origin, Origin::Part(..)) && request.class == Class::Scan;
        if page.is_some() || part {
            add(&self.cx.shared.stats.global.scan_pieces, 1);
        }
        let metadata_id = request
            .prepared
            .as_ref()
            .and_then(|p| p.result_metadata_id.as_deref());
        let prepared = request.prepared.as_ref();
        let full_metadata = request.version < Version::V5
            && request.opcode == Opcode::Execute
            && prepared.is_some_and(|prepared| prepared.may_have_changed());
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
        } else if request.version == link.version
            && keyspace.is_none()
            && page.is_none()
            && !full_metadata
        {
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
                full_metadata,
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
        self.mark_link(link_key);
    }

    /// Sends PREPARE of a statement to a node, for the proxy's own sake.
    pub(crate) fn prepare_on(
        &mut self,
        statement: &Arc<Statement>,
        keyspace: Option<&str>,
        node: NodeIndex,
        pool: PoolKey,
        origin: Origin,
    ) -> bool {
        let version = self.cx.snapshot.version;
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
            ..Request::new(origin, Opcode::Prepare, version, body, self.cx.now)
        });
        if self.dispatch(key, node) {
            return true;
        }
        self.drop_request(key);
        false
    }

    /// Whether anyone still waits for a request.
    pub(crate) fn is_wanted(&self, key: RequestKey) -> bool {
        let Some(request) = self.requests.get(key) else {
            return false;
        };
        match &request.origin {
            Origin::Client => {
                let followers = request.followers.iter().map(|follower| follower.session);
                let mut clients = std::iter::once(request.session).chain(followers);
                clients.any(|client| self.clients.is_there(client))
            }
            Origin::Part(parent, _) => self.is_wanted(*parent),
            Origin::Reprepare { .. } | Origin::InRange(_) => true,
        }
    }

    /// Whether a request that has not been sent may be forgotten: its client is gone, and it would
    /// only have read. What a client has written before it left is written, as it is by a node.
    pub(crate) fn is_in_vain(&self, key: RequestKey) -> bool {
        let request = self.requests.get(key);
        let statement = request.and_then(|request| request.statement.as_ref());
        statement.is_some_and(|statement| statement.is_read()) && !self.is_wanted(key)
    }

    /// Forgets reads that wait for a node, or for parts of their page, and whose clients have left.
    pub(crate) fn cancel_unwanted(&mut self) {
        if !self.clients.take_have_left() {
            return;
        }
        let unsent = self
            .requests
            .iter()
            .filter(|(_, request)| request.at.is_none());
        let in_vain: Vec<RequestKey> = unsent
            .map(|(key, _)| key)
            .filter(|key| self.is_in_vain(*key))
            .collect();
        add(
            &self.cx.shared.stats.global.requests_cancelled,
            in_vain.len() as u64,
        );
        for key in in_vain {
            self.drop_request(key);
        }
    }

    /// Gives up on requests that have waited for too long.
    pub(crate) fn expire_requests(&mut self) {
        let now = self.cx.now;
        let late: Vec<(RequestKey, Duration)> = self
            .requests
            .iter()
            .filter_map(|(key, r)| {
                // In a node's queue it has another bound, and so have the parts of a page, and a
                // schema change that is held for agreement.
                if r.waiting.is_some() || r.in_parts() || r.is_held {
                    return None;
                }
                let age = now.saturating_duration_since(r.progress);
                let limit = (age > LIMIT_MIN).then(|| self.limit_of(r))?;
                (age > limit).then_some((key, limit))
            })
            .collect();
        for (key, limit) in late {
            self.on_request_expired(key, limit);
        }
    }

    /// How long a request may be at its node.
    fn limit_of(&self, request: &Request) -> Duration {
        if let Some(limit) = self.cx.shared.config.request_timeout() {
            return limit;
        }
        let node = request
            .node
            .and_then(|at| self.cx.snapshot.nodes.get(at.as_usize()));
        let timeouts = node.and_then(|node| node.timeouts).unwrap_or_default();
        timeouts.limit(timed(request))
    }

    fn on_request_expired(&mut self, key: RequestKey, timeout: Duration) {
        let Some(request) = self.request(key) else {
            return;
        };
        let node = request.node;
        if let Some((link, stream)) = request.at.take()
            && let Some(link) = self.links.get_mut(link)
        {
            link.orphan(stream);
            if let Some(node) = node {
                add(&self.nodes[node.as_usize()].stats.counters.timeouts, 1);
            }
        }
        add(&self.cx.shared.stats.global.requests_timed_out, 1);
        let text = match node.and_then(|n| self.cx.snapshot.nodes.get(n.as_usize())) {
            Some(node) => format!(
                "Helenus: {} did not answer within {timeout:?}",
                node.address
            ),
            None => format!("Helenus: no node took the request within {timeout:?}"),
        };
        self.fail_timeout(key, &text);
    }
}
