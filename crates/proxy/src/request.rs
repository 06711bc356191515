//! A client's request from its bytes to a node's link.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_cql::Kind;
use helenus_policy::admission::{Class, Offer};
use helenus_policy::ring::NodeIndex;
use helenus_policy::route::{Plan, Preference, RouteInput, plan};
use helenus_wire::{
    BatchChild, BatchView, Consistency, ExecuteView, Header, Opcode, PrepareView, QueryView,
    Reader, RequestContext, Values, Version, code, convert_request, flags, write,
};

use crate::link::{LinkKind, Stream};
use crate::pool::SpecialLink;
use crate::prepared::{Prepared, Recipe, Statement};
use crate::share::{Follower, Read, Sharing, Ticket};
use crate::stats::{TableStats, add, sub};
use crate::system::SystemQuery;
use crate::turns::{Turn, partition_name};
use crate::worker::{Key, State};

/// Why a request is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client waits for it.
    Client,
    /// A node has forgotten a statement that others wait for.
    Reprepare(Box<[u8]>),
    /// A statement that a client has just prepared, on the other nodes.
    PrepareAhead,
}

/// A request in flight or waiting.
pub struct Request {
    pub generation: u32,
    pub origin: Origin,
    pub session: Key,
    pub client_stream: i16,
    pub opcode: Opcode,
    pub header_flags: u8,
    /// Version of `body`.
    pub version: Version,
    pub body: Vec<u8>,
    /// Keyspace of the client's session.
    pub keyspace: Option<Rc<str>>,
    pub statement: Option<Arc<Statement>>,
    pub prepared: Option<Arc<Prepared>>,
    pub table: Option<Arc<TableStats>>,
    pub pool: usize,
    pub class: Class,
    pub idempotent: bool,
    pub consistency: Consistency,
    pub plan: Option<Plan>,
    pub attempts: u8,
    /// Where it is in flight.
    pub at: Option<(u32, i16)>,
    /// The node whose admission counts it, in flight or in its queue.
    pub admitted: Option<NodeIndex>,
    pub queued: bool,
    pub node: Option<NodeIndex>,
    pub started: Instant,
    pub sent: Instant,
    /// Writes of its link before it was put there.
    pub sent_behind: u64,
    /// Further clients that get the answer.
    pub followers: Vec<Follower>,
    pub ticket: Option<Ticket>,
    pub turn: Option<Turn>,
    /// Answered by a condition that did not hold.
    pub condition_failed: bool,
}

/// What the body of a request told.
#[derive(Default)]
struct Understood {
    statement: Option<Arc<Statement>>,
    prepared: Option<Arc<Prepared>>,
    consistency: Option<Consistency>,
    /// Slot of the ring and keyspace whose replicas own it.
    place: Option<(usize, Box<str>)>,
    idempotent: bool,
    lwt: bool,
    /// Position of the client's default timestamp in the body behind the payload.
    timestamp_at: Option<usize>,
}

const ATTEMPTS_MAX: u8 = 8;

impl State {
    /// A request of a client that is ready.
    pub fn on_request(&mut self, key: Key, header: Header, opcode: Opcode, body: &[u8]) {
        let Some(session) = self.session(key) else {
            return;
        };
        let version = session.version;
        let keyspace = session.keyspace.clone();
        let Some(pool) = session.pool else { return };
        let content = match strip_payload(header.flags, version, body) {
            Ok(content) => content,
            Err(e) => {
                return self.answer_error(key, header.stream, code::PROTOCOL, &e.to_string(), &[]);
            }
        };
        let stats = &self.shared.stats.clone().global;
        let understood = match opcode {
            Opcode::Query => {
                add(&stats.requests_query, 1);
                self.understand_query(content, version, keyspace.as_deref())
            }
            Opcode::Execute => {
                add(&stats.requests_execute, 1);
                self.understand_execute(content, version)
            }
            Opcode::Batch => {
                add(&stats.requests_batch, 1);
                self.understand_batch(content, version, keyspace.as_deref())
            }
            _ => {
                add(&stats.requests_prepare, 1);
                self.understand_prepare(content, version)
            }
        };
        let understood = match understood {
            Ok(understood) => understood,
            Err(e) => {
                add(&stats.clients_protocol_errors, 1);
                return self.answer_error(key, header.stream, code::PROTOCOL, &e.to_string(), &[]);
            }
        };
        let statement = understood
            .prepared
            .as_ref()
            .map(|p| &p.statement)
            .or(understood.statement.as_ref())
            .cloned();
        if opcode != Opcode::Prepare
            && header.flags & flags::TRACING == 0
            && let Some(statement) = &statement
            && let Some(query) = self.system_query(statement, keyspace.as_deref())
            && self.answer_system(key, header.stream, opcode, content, version, &query)
        {
            add(&stats.requests_system, 1);
            return;
        }
        let read = Read {
            session: key,
            header,
            opcode,
            version,
            keyspace: keyspace.as_ref(),
            pool,
            body,
            timestamp_at: understood.timestamp_at,
        };
        let ticket = match self.share(statement.as_deref(), &read) {
            Sharing::Joined => return,
            Sharing::Alone(ticket) => ticket,
        };
        let partition = self.partition_of_lwt(&understood, statement.as_deref());
        let limits = &self.shared.config.limits;
        if self.in_flight_bytes + body.len() > limits.in_flight_bytes_max {
            add(&stats.requests_overloaded, 1);
            let text =
                "Helenus: too many bytes of requests are in flight (limits.in_flight_bytes_max)";
            return self.answer_error(key, header.stream, code::OVERLOADED, text, &[]);
        }
        let mut kept = self.spare_bodies.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(body);
        self.in_flight_bytes += kept.len();
        let class = match &statement {
            _ if opcode == Opcode::Prepare => Class::System,
            Some(statement) => statement.class,
            None if opcode == Opcode::Batch => Class::Write,
            None => Class::Other,
        };
        if statement.is_none() && opcode != Opcode::Batch {
            add(&stats.requests_opaque, 1);
        }
        let table = self.table_stats(
            &understood,
            statement.as_deref(),
            keyspace.as_deref(),
            opcode,
        );
        let generation = self.next_generation();
        let index = self.requests.insert(Request {
            generation,
            origin: Origin::Client,
            session: key,
            client_stream: header.stream,
            opcode,
            header_flags: header.flags,
            version,
            body: kept,
            keyspace,
            statement,
            prepared: understood.prepared.clone(),
            table,
            pool,
            class,
            idempotent: understood.idempotent,
            consistency: understood.consistency.unwrap_or(Consistency::ONE),
            plan: None,
            attempts: 0,
            at: None,
            admitted: None,
            queued: false,
            node: None,
            started: self.now,
            sent: self.now,
            sent_behind: 0,
            followers: Vec::new(),
            ticket,
            turn: None,
            condition_failed: false,
        });
        if let Some(session) = self.session(key) {
            session.in_flight += 1;
        }
        let request = Key {
            index: index as u32,
            generation,
        };
        self.make_plan(request, &understood);
        if ticket.is_some_and(|ticket| self.note_shared(request, ticket)) {
            return;
        }
        if partition.is_none_or(|partition| self.take_turn(request, partition)) {
            self.route(request);
        }
    }

    /// The partition of a conditional write, if those take turns. Its key was built just now.
    fn partition_of_lwt(
        &self,
        understood: &Understood,
        statement: Option<&Statement>,
    ) -> Option<u64> {
        if !understood.lwt || self.shared.turns.is_none() {
            return None;
        }
        let (_, keyspace) = understood.place.as_ref()?;
        let prepared = understood.prepared.as_ref().and_then(|p| p.table.as_ref());
        let table = match prepared {
            Some((_, table)) => table,
            None => statement?.table(Some(keyspace))?.1,
        };
        Some(partition_name(keyspace, table, &self.key_buf))
    }

    fn understand_query(
        &mut self,
        body: &[u8],
        version: Version,
        session: Option<&str>,
    ) -> Result<Understood, helenus_wire::Malformed> {
        let view = QueryView::parse(body, version)?;
        let statement = self.statement(view.text);
        let keyspace = view.options.keyspace.or(session);
        let place = self.place_of_text(&statement, keyspace, &view.options.values);
        Ok(Understood {
            idempotent: statement.idempotent(),
            lwt: statement.facts.lwt,
            statement: Some(statement),
            consistency: Some(view.options.consistency),
            place,
            prepared: None,
            timestamp_at: view.options.timestamp_at(),
        })
    }

    fn understand_execute(
        &mut self,
        body: &[u8],
        version: Version,
    ) -> Result<Understood, helenus_wire::Malformed> {
        let view = ExecuteView::parse(body, version)?;
        let consistency = Some(view.options.consistency);
        let Some(prepared) = self.prepared(view.id) else {
            self.shared.recall(view.id);
            return Ok(Understood {
                consistency,
                ..Understood::default()
            });
        };
        let place = self.place_of_prepared(&prepared, &view.options.values);
        Ok(Understood {
            idempotent: prepared.statement.idempotent(),
            lwt: prepared.statement.facts.lwt,
            consistency,
            place,
            prepared: Some(prepared),
            statement: None,
            timestamp_at: view.options.timestamp_at(),
        })
    }

    fn understand_batch(
        &mut self,
        body: &[u8],
        version: Version,
        session: Option<&str>,
    ) -> Result<Understood, helenus_wire::Malformed> {
        let view = BatchView::parse(body, version)?;
        let keyspace = view.options.keyspace.or(session);
        let mut understood = Understood {
            consistency: Some(view.options.consistency),
            idempotent: view.batch_type != 2,
            ..Understood::default()
        };
        for (at, child) in view.children.iter().enumerate() {
            let (statement, place) = match child {
                BatchChild::Text(text, values) => {
                    let statement = self.statement(text);
                    let place = (at == 0)
                        .then(|| self.place_of_text(&statement, keyspace, values))
                        .flatten();
                    (Some(statement), place)
                }
                BatchChild::Prepared(id, values) => match self.prepared(id) {
                    Some(prepared) => {
                        let place = (at == 0)
                            .then(|| self.place_of_prepared(&prepared, values))
                            .flatten();
                        if at == 0 {
                            understood.prepared = Some(prepared.clone());
                        }
                        (Some(prepared.statement.clone()), place)
                    }
                    None => (None, None),
                },
            };
            understood.idempotent &= statement.as_ref().is_some_and(|s| s.idempotent());
            understood.lwt |= statement.as_ref().is_some_and(|s| s.facts.lwt);
            if place.is_some() {
                understood.place = place;
            }
        }
        Ok(understood)
    }

    fn understand_prepare(
        &mut self,
        body: &[u8],
        version: Version,
    ) -> Result<Understood, helenus_wire::Malformed> {
        let view = PrepareView::parse(body, version)?;
        let statement = self.statement(view.text);
        Ok(Understood {
            statement: Some(statement),
            idempotent: true,
            ..Understood::default()
        })
    }

    /// The facts of a text, remembered up to a bound.
    fn statement(&mut self, text: &str) -> Arc<Statement> {
        if let Some(found) = self.statements.get(text) {
            return found.clone();
        }
        let statement = match self.statements_old.remove(text) {
            Some(found) => found,
            None => Arc::new(Statement::new(text)),
        };
        // Long texts are mostly unique (literals in bulk): not worth their memory.
        if text.len() <= 16 * 1024 {
            if self.statements.len() >= self.shared.config.limits.statements_max.div_ceil(2) {
                self.statements_old = std::mem::take(&mut self.statements);
            }
            self.statements.insert(text.into(), statement.clone());
        }
        statement
    }

    /// A prepared statement by id: known to this worker, or to any other.
    pub fn prepared(&mut self, id: &[u8]) -> Option<Arc<Prepared>> {
        if let Some(found) = self.prepared.get(id) {
            return Some(found.clone());
        }
        let max = self.shared.config.limits.prepared_max;
        let found = self.shared.prepared.lock().ok()?.get(id, max)?;
        self.remember_prepared(&found);
        Some(found)
    }

    pub fn remember_prepared(&mut self, prepared: &Arc<Prepared>) {
        if self.prepared.len() >= self.shared.config.limits.prepared_max {
            self.prepared.clear();
        }
        self.prepared.insert(prepared.id.clone(), prepared.clone());
    }

    fn place_of_text(
        &mut self,
        statement: &Statement,
        keyspace: Option<&str>,
        values: &Values<'_>,
    ) -> Option<(usize, Box<str>)> {
        let snapshot = self.snapshot.clone();
        let recipe = statement.recipe(keyspace, &snapshot);
        let facts = statement.facts.inner.first().unwrap_or(&statement.facts);
        let keyspace = facts.keyspace.as_ref().map(|k| k.as_str()).or(keyspace)?;
        self.place(&recipe, values, &[], keyspace)
    }

    fn place_of_prepared(
        &mut self,
        prepared: &Prepared,
        values: &Values<'_>,
    ) -> Option<(usize, Box<str>)> {
        let (keyspace, _) = prepared.table.as_ref()?;
        self.place(&prepared.key, values, &prepared.names, keyspace)
    }

    fn place(
        &mut self,
        recipe: &Recipe,
        values: &Values<'_>,
        names: &[Box<str>],
        keyspace: &str,
    ) -> Option<(usize, Box<str>)> {
        let mut key = std::mem::take(&mut self.key_buf);
        let slot = recipe
            .build(values, names, &mut key)
            .then(|| self.snapshot.ring.as_ref()?.slot_of_key(&key))
            .flatten();
        self.key_buf = key;
        Some((slot?, keyspace.into()))
    }

    fn system_query(&self, statement: &Statement, keyspace: Option<&str>) -> Option<SystemQuery> {
        let query = statement.system.as_ref()?;
        (query.qualified || keyspace == Some("system")).then(|| query.clone())
    }

    fn answer_system(
        &mut self,
        key: Key,
        stream: i16,
        opcode: Opcode,
        content: &[u8],
        version: Version,
        query: &SystemQuery,
    ) -> bool {
        let values = match opcode {
            Opcode::Query => QueryView::parse(content, version).map(|v| v.options.values),
            Opcode::Execute => ExecuteView::parse(content, version).map(|v| v.options.values),
            _ => return false,
        };
        let Ok(values) = values else { return false };
        let snapshot = self.snapshot.clone();
        let Some(body) = query.answer(&snapshot, &self.proxies, &values) else {
            return false;
        };
        self.answer_converted(key, stream, Opcode::Result, 0, &body, snapshot.version);
        true
    }

    fn table_stats(
        &mut self,
        understood: &Understood,
        statement: Option<&Statement>,
        keyspace: Option<&str>,
        opcode: Opcode,
    ) -> Option<Arc<TableStats>> {
        if opcode == Opcode::Prepare {
            return None;
        }
        let (keyspace, table) = match &understood.prepared {
            Some(prepared) => {
                let (keyspace, table) = prepared.table.as_ref()?;
                (&**keyspace, &**table)
            }
            None => statement?.table(keyspace)?,
        };
        // A borrowed pair cannot look into a map of owned pairs: the few tables are soon found.
        if let Some((_, found)) = self
            .tables
            .iter()
            .find(|((ks, t), _)| &**ks == keyspace && &**t == table)
        {
            return Some(found.clone());
        }
        let max = self.shared.config.admin.tables_max;
        let found = self.shared.stats.table(keyspace, table, max);
        if self.tables.len() < max {
            self.tables
                .insert((keyspace.into(), table.into()), found.clone());
        }
        Some(found)
    }

    fn make_plan(&mut self, request: Key, understood: &Understood) {
        self.turn = self.turn.wrapping_add(1);
        let snapshot = self.snapshot.clone();
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
        let replicas = match &understood.place {
            _ if local => std::slice::from_ref(&snapshot.pinned),
            Some((slot, keyspace)) => snapshot.replicas(keyspace, *slot),
            None => &[],
        };
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
            preference: if understood.lwt || local {
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

    pub fn request(&mut self, key: Key) -> Option<&mut Request> {
        self.requests
            .get_mut(key.index as usize)
            .filter(|r| r.generation == key.generation)
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
            let class = request.class;
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
            match self.nodes[node.as_usize()].admission.offer(key, class) {
                Offer::Dispatch(_) => {
                    if let Some(request) = self.request(key) {
                        request.admitted = Some(node);
                    }
                    if self.dispatch(key, node) {
                        return;
                    }
                    self.leave_admission(key);
                }
                Offer::Queued => {
                    add(&self.nodes[node.as_usize()].stats.counters.queued_total, 1);
                    add(&self.nodes[node.as_usize()].stats.queued, 1);
                    if let Some(request) = self.request(key) {
                        request.admitted = Some(node);
                        request.queued = true;
                    }
                    return;
                }
                Offer::Refused(_) => {
                    add(&self.shared.stats.global.requests_overloaded, 1);
                    let text =
                        "Helenus: too many requests wait for this node (limits.node_queue_max)";
                    return self.fail(key, code::OVERLOADED, text, &[]);
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

    /// Gives back a request's place at its node and sends who waits for it.
    pub fn leave_admission(&mut self, key: Key) {
        let Some(request) = self.request(key) else {
            return;
        };
        // A request that is still in the queue leaves when its turn comes.
        if request.queued {
            return;
        }
        let Some(node) = request.admitted.take() else {
            return;
        };
        self.free_admission(node);
    }

    fn free_admission(&mut self, node: NodeIndex) {
        let mut next = self.nodes[node.as_usize()].admission.on_done();
        while let Some(waiting) = next.take() {
            sub(&self.nodes[node.as_usize()].stats.queued, 1);
            let alive = match self.request(waiting) {
                Some(request) => {
                    request.queued = false;
                    true
                }
                None => false,
            };
            if alive && self.dispatch(waiting, node) {
                return;
            }
            if alive {
                if let Some(request) = self.request(waiting) {
                    request.admitted = None;
                }
                self.retry_elsewhere.push(waiting);
            }
            next = self.nodes[node.as_usize()].admission.on_done();
        }
        while let Some(waiting) = self.retry_elsewhere.pop() {
            self.route(waiting);
        }
    }

    /// Puts a request on a link to a node; false if the node has none with room. True also when it
    /// now waits for a link of its own kind.
    fn dispatch(&mut self, key: Key, node: NodeIndex) -> bool {
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
                    self.leave_admission(key);
                    // It comes back through `route`, whose plan must still hold this node.
                    self.put_in_front(key, node);
                    return true;
                }
                _ => {
                    self.leave_admission(key);
                    let text = "Helenus: too many keyspaces are in use through USE at once";
                    self.fail(key, code::OVERLOADED, text, &[]);
                    return true;
                }
            }
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
        let header = Header {
            version: link.version as u8,
            response: false,
            flags: request.header_flags & keep,
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
        let metadata_id = request
            .prepared
            .as_ref()
            .and_then(|p| p.result_metadata_id.as_deref());
        if request.version == link.version && keyspace.is_none() {
            link.encoder.push_slice(header, &request.body);
        } else {
            let context = RequestContext {
                keyspace,
                result_metadata_id: metadata_id,
                node_statement_id: None,
            };
            let (opcode, flags, from, to) =
                (request.opcode, header.flags, request.version, link.version);
            let body = &request.body;
            link.encoder.push(header, |out| {
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

    /// Sends PREPARE of a known statement to a node, for its own sake.
    pub fn prepare_on(
        &mut self,
        prepared: &Prepared,
        node: NodeIndex,
        pool: usize,
        origin: Origin,
    ) -> bool {
        let version = self.snapshot.version;
        let mut body = Vec::with_capacity(prepared.statement.text.len() + 16);
        write::long_string(&mut body, &prepared.statement.text);
        if version == Version::V5 {
            match &prepared.keyspace {
                Some(keyspace) => {
                    write::u32(&mut body, 1);
                    write::string(&mut body, keyspace);
                }
                None => write::u32(&mut body, 0),
            }
        }
        let keyspace = match version {
            Version::V5 => None,
            _ => prepared.keyspace.as_deref().map(Into::into),
        };
        self.in_flight_bytes += body.len();
        let generation = self.next_generation();
        let index = self.requests.insert(Request {
            generation,
            origin,
            session: Key {
                index: u32::MAX,
                generation: 0,
            },
            client_stream: 0,
            opcode: Opcode::Prepare,
            header_flags: 0,
            version,
            body,
            keyspace,
            statement: Some(prepared.statement.clone()),
            prepared: None,
            table: None,
            pool,
            class: Class::System,
            idempotent: true,
            consistency: Consistency::ONE,
            plan: None,
            attempts: 0,
            at: None,
            admitted: None,
            queued: false,
            node: None,
            started: self.now,
            sent: self.now,
            sent_behind: 0,
            followers: Vec::new(),
            ticket: None,
            turn: None,
            condition_failed: false,
        });
        let key = Key {
            index: index as u32,
            generation,
        };
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
            .filter(|(_, r)| now.saturating_duration_since(r.started) > timeout)
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

/// The body behind the custom payload.
pub fn strip_payload(
    header_flags: u8,
    version: Version,
    body: &[u8],
) -> Result<&[u8], helenus_wire::Malformed> {
    if header_flags & flags::CUSTOM_PAYLOAD == 0 || version < Version::V4 {
        return Ok(body);
    }
    let mut reader = Reader::new(body);
    reader.skip_bytes_map()?;
    Ok(reader.rest())
}
