//! A client's request: what is kept of it from its bytes to its answer.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Plan;
use helenus_policy::schedule::Class;
use helenus_wire::{Consistency, Header, Opcode, Reader, Version, code, flags};

use crate::by_owner::ByOwner;
use crate::fan::PartJob;
use crate::prepared::{Prepared, Statement};
use crate::scan::Scan;
use crate::scan_limit::Counted;
use crate::schedule::{Slot, Waiting};
use crate::share::{Follower, Read, Sharing, Ticket};
use crate::stats::{TableStats, add};
use crate::turns::Turn;
use crate::worker::{Key, State};

/// Why a request is under way.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A client waits for it.
    Client,
    /// A node has forgotten a statement that others wait for.
    Reprepare(Box<[u8]>),
    /// A statement that a client has just prepared, on the other nodes.
    PrepareAhead,
    /// A statement over parts of the ring, for the sake of this one.
    InRange(Arc<Statement>),
    /// A part of the page that another request waits for, by its number.
    Part(Key, u16),
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
    /// The node whose schedule counts it as in flight.
    pub admitted: Option<NodeIndex>,
    /// Its place in a node's queue.
    pub waiting: Option<Waiting>,
    /// The scan slot of its node that it holds.
    pub slot: Option<Slot>,
    /// Predicted work of what is sent next, or in flight, in microseconds.
    pub work_us: u32,
    /// Counts it among the scans under way, if their number has a limit.
    pub _counted: Option<Counted>,
    /// What is known of a part of a page.
    pub part: Option<PartJob>,
    /// The reads by the owners of its keys that are under way in its place.
    pub by_owner: Option<Box<ByOwner>>,
    /// A scan that comes in pieces.
    pub scan: Option<Box<Scan>>,
    pub node: Option<NodeIndex>,
    pub started: Instant,
    /// When it last came a step further: a scan by a piece.
    pub progress: Instant,
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

impl Request {
    /// A request that nothing is known of but its bytes.
    pub fn new(
        origin: Origin,
        opcode: Opcode,
        version: Version,
        body: Vec<u8>,
        now: Instant,
    ) -> Self {
        Request {
            generation: 0,
            origin,
            session: Key::NONE,
            client_stream: 0,
            opcode,
            header_flags: 0,
            version,
            body,
            keyspace: None,
            statement: None,
            prepared: None,
            table: None,
            pool: 0,
            class: Class::System,
            idempotent: false,
            consistency: Consistency::ONE,
            plan: None,
            attempts: 0,
            at: None,
            admitted: None,
            waiting: None,
            slot: None,
            work_us: 0,
            _counted: None,
            part: None,
            by_owner: None,
            scan: None,
            progress: now,
            node: None,
            started: now,
            sent: now,
            sent_behind: 0,
            followers: Vec::new(),
            ticket: None,
            turn: None,
            condition_failed: false,
        }
    }

    /// Whether parts of its page are under way in its place.
    pub fn in_parts(&self) -> bool {
        self.by_owner.is_some() || self.scan.as_ref().is_some_and(|scan| scan.fan.is_some())
    }
}

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
        let mut understood = match self.understand(opcode, content, version, keyspace.as_deref()) {
            Ok(understood) => understood,
            Err(e) => {
                add(&self.shared.stats.global.clients_protocol_errors, 1);
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
            add(&self.shared.stats.global.requests_system, 1);
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
        let partition =
            self.partition_of_lwt(&understood, statement.as_deref(), keyspace.as_deref());
        let limits = &self.shared.config.limits;
        if self.in_flight_bytes + body.len() > limits.in_flight_bytes_max {
            add(&self.shared.stats.global.requests_overloaded, 1);
            let text =
                "Helenus: too many bytes of requests are in flight (limits.in_flight_bytes_max)";
            return self.answer_error(key, header.stream, code::OVERLOADED, text, &[]);
        }
        let mut kept = self.spare_bodies.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(body);
        let class = self.class_of(
            opcode,
            statement.as_deref(),
            understood.prepared.as_deref(),
            keyspace.as_deref(),
            (understood.place.is_some(), understood.lwt),
        );
        let mut scan = None;
        let mut counted = None;
        if class == Class::Scan {
            let of = understood.table(statement.as_deref(), keyspace.as_deref());
            let of = of.map_or("", |(keyspace, _)| keyspace);
            counted = match self.shared.scans.begin(of, &self.shared.config.scheduling) {
                Ok(counted) => counted,
                Err(why) => {
                    add(&self.shared.stats.global.requests_overloaded, 1);
                    return self.answer_error(key, header.stream, code::OVERLOADED, &why, &[]);
                }
            };
        }
        if class == Class::Scan
            && let Some(statement) = &statement
            && let Some((begun, place)) = self.begin_scan(
                header,
                opcode,
                content,
                version,
                (statement, understood.prepared.as_deref()),
                keyspace.as_deref(),
            )
        {
            add(&self.shared.stats.global.scans_in_pieces, 1);
            understood.place = place;
            scan = Some(begun);
        }
        if statement.is_none() && opcode != Opcode::Batch {
            add(&self.shared.stats.global.requests_opaque, 1);
        }
        let table = self.table_stats(
            &understood,
            statement.as_deref(),
            keyspace.as_deref(),
            opcode,
        );
        let request = self.insert_request(Request {
            session: key,
            client_stream: header.stream,
            header_flags: header.flags,
            keyspace,
            statement,
            prepared: understood.prepared.clone(),
            table,
            pool,
            class,
            idempotent: understood.idempotent,
            consistency: understood.consistency.unwrap_or(Consistency::ONE),
            ticket,
            scan,
            _counted: counted,
            ..Request::new(Origin::Client, opcode, version, kept, self.now)
        });
        if let Some(session) = self.session(key) {
            session.in_flight += 1;
        }
        self.plan_for(request, understood.place.as_ref(), understood.lwt);
        if ticket.is_some_and(|ticket| self.note_shared(request, ticket)) {
            return;
        }
        if partition.is_none_or(|partition| self.take_turn(request, partition)) {
            self.start(request);
        }
    }

    /// Sends a request on its way: in parts if that is worth it, or whole.
    pub fn start(&mut self, key: Key) {
        let Some(request) = self.request(key) else {
            return;
        };
        let in_parts = match (request.class, &request.scan) {
            (_, Some(_)) => self.begin_fan(key),
            (Class::Multi, None) => self.begin_by_owner(key),
            _ => false,
        };
        if !in_parts {
            self.route(key);
        }
    }

    /// Keeps a request and names it.
    pub fn insert_request(&mut self, request: Request) -> Key {
        self.in_flight_bytes += request.body.len();
        let generation = self.next_generation();
        let index = self.requests.insert(Request {
            generation,
            ..request
        });
        Key {
            index: index as u32,
            generation,
        }
    }

    pub fn request(&mut self, key: Key) -> Option<&mut Request> {
        self.requests
            .get_mut(key.index as usize)
            .filter(|r| r.generation == key.generation)
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
