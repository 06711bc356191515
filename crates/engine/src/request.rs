//! A client's request: what is kept of it from its bytes to its answer.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Plan;
use helenus_policy::schedule::Class;
use helenus_wire::{Consistency, Header, Opcode, Version, code};

use crate::admission::{Place, Slot, Waiting};
use crate::client::clients::Terms;
use crate::config::Cluster;
use crate::engine::{Engine, LinkKey, PoolKey, RequestKey, SessionKey};
use crate::execution::multi_get::ByOwner;
use crate::execution::paged_scan::Scan;
use crate::execution::scatter_gather::PartJob;
use crate::gates::coalesce::{Follower, Read, Sharing, Ticket};
use crate::gates::lwt_queue::Turn;
use crate::gates::scan_limit::Counted;
use crate::memory::NO_MEMORY;
use crate::statement::analyze::Understood;
use crate::statement::prepared::{Prepared, Statement};
use crate::stats::{TableStats, add};

/// Why a request is under way.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// A client waits for it.
    Client,
    /// A node has forgotten this statement, or does not know it yet. Others may wait for it.
    Reprepare { id: Box<[u8]>, node: NodeIndex },
    /// A statement over parts of the ring, for the sake of this one.
    InRange(Arc<Statement>),
    /// A part of the page that another request waits for, by its number.
    Part(RequestKey, u16),
}

/// A request in flight or waiting.
pub(crate) struct Request {
    pub origin: Origin,
    pub session: SessionKey,
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
    pub pool: PoolKey,
    pub class: Class,
    pub idempotent: bool,
    pub consistency: Consistency,
    /// Of its Paxos rounds, if the client said so.
    pub serial_consistency: Option<Consistency>,
    pub plan: Option<Plan>,
    pub attempts: u8,
    /// How often a node was taught a statement for its sake.
    pub reprepares: u8,
    /// Where it is in flight.
    pub at: Option<(LinkKey, i16)>,
    /// Its place among those that a node's schedule counts as in flight.
    pub admitted: Option<Place>,
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
    /// A node that it was sent to never answered: it may have taken effect there.
    pub maybe_applied: bool,
    /// Further clients that get the answer.
    pub followers: Vec<Follower>,
    pub ticket: Option<Ticket>,
    pub turn: Option<Turn>,
    /// A node has executed it, and its answer waits for schema agreement.
    pub is_held: bool,
    /// Answered by a condition that did not hold.
    pub condition_failed: bool,
}

impl Request {
    /// A request that nothing is known of but its bytes.
    pub(crate) fn new(
        origin: Origin,
        opcode: Opcode,
        version: Version,
        body: Vec<u8>,
        now: Instant,
    ) -> Self {
        Request {
            origin,
            session: SessionKey::default(),
            client_stream: 0,
            opcode,
            header_flags: 0,
            version,
            body,
            keyspace: None,
            statement: None,
            prepared: None,
            table: None,
            pool: PoolKey::default(),
            class: Class::System,
            idempotent: false,
            consistency: Consistency::ONE,
            serial_consistency: None,
            plan: None,
            attempts: 0,
            reprepares: 0,
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
            maybe_applied: false,
            followers: Vec::new(),
            ticket: None,
            turn: None,
            is_held: false,
            condition_failed: false,
        }
    }

    /// Whether nodes of other data centres may serve it.
    pub(crate) fn may_leave_dc(&self, cluster: &Cluster) -> bool {
        cluster.may_leave_dc(self.consistency, self.serial_consistency)
    }

    /// Whether it changes data.
    pub(crate) fn is_write(&self) -> bool {
        self.opcode == Opcode::Batch || matches!(self.class, Class::Write | Class::Lwt)
    }

    /// Whether parts of its page are under way in its place.
    pub(crate) fn in_parts(&self) -> bool {
        self.by_owner.is_some() || self.scan.as_ref().is_some_and(|scan| scan.fan.is_some())
    }

    /// Whether it waits for this request, its part of that number.
    pub(crate) fn awaits_part(&self, index: u16, part: RequestKey) -> bool {
        if let Some(by_owner) = &self.by_owner {
            return by_owner.children.get(usize::from(index)) == Some(&part);
        }
        let fan = self.scan.as_ref().and_then(|scan| scan.fan.as_ref());
        fan.is_some_and(|fan| fan.awaits(index, part))
    }
}

impl Engine {
    /// A request of a client that is ready.
    ///
    /// `content` is the body behind its custom payload.
    pub(crate) fn on_request(
        &mut self,
        key: SessionKey,
        header: Header,
        opcode: Opcode,
        body: &[u8],
        content: &[u8],
    ) {
        let Some(Terms {
            version,
            keyspace,
            pool,
        }) = self.clients.terms_of(key)
        else {
            return;
        };
        let mut understood = match self.understand(opcode, content, version, keyspace.as_deref()) {
            Ok(understood) => understood,
            Err(e) => {
                add(&self.cx.shared.stats.global.clients_protocol_errors, 1);
                return self.answer_error(key, header.stream, code::PROTOCOL, &e.to_string(), &[]);
            }
        };
        let statement = understood
            .prepared
            .as_ref()
            .map(|p| &p.statement)
            .or(understood.statement.as_ref())
            .cloned();
        if let Some(statement) = &statement {
            let asked = (&**statement, &understood);
            if self.answer_system(key, header, opcode, content, version, asked) {
                return;
            }
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
        if self.cx.memory.is_full(body.len()) {
            add(&self.cx.shared.stats.global.requests_overloaded, 1);
            return self.answer_error(key, header.stream, code::OVERLOADED, NO_MEMORY, &[]);
        }
        let mut kept = self.spare_bodies.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(body);
        let class = self.class_of(
            opcode,
            statement.as_deref(),
            understood.prepared.as_deref(),
            understood.keyspace,
            (understood.place.is_some(), understood.lwt),
        );
        let mut scan = None;
        let mut counted = None;
        if class == Class::Scan {
            let of = understood.table(statement.as_deref());
            let of = of.map_or("", |(keyspace, _)| keyspace);
            counted = match self
                .cx
                .shared
                .scans
                .begin(of, &self.cx.shared.config.scheduling)
            {
                Ok(counted) => counted,
                Err(why) => {
                    add(&self.cx.shared.stats.global.requests_overloaded, 1);
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
                understood.keyspace,
            )
        {
            add(&self.cx.shared.stats.global.scans_in_pieces, 1);
            understood.place = place;
            scan = Some(begun);
        }
        if statement.is_none() && opcode != Opcode::Batch {
            add(&self.cx.shared.stats.global.requests_opaque, 1);
        }
        let table = self.table_stats(&understood, statement.as_deref(), opcode);
        let Understood {
            prepared,
            consistency,
            serial_consistency,
            place,
            idempotent,
            lwt,
            ..
        } = understood;
        let request = self.insert_request(Request {
            session: key,
            client_stream: header.stream,
            header_flags: header.flags,
            keyspace,
            statement,
            prepared,
            table,
            pool,
            class,
            idempotent,
            consistency: consistency.unwrap_or(Consistency::ONE),
            serial_consistency,
            ticket,
            scan,
            _counted: counted,
            ..Request::new(Origin::Client, opcode, version, kept, self.cx.now)
        });
        self.clients.in_flight_began(key);
        self.plan_for(request, place.as_ref(), lwt);
        if ticket.is_some_and(|ticket| self.note_shared(request, ticket)) {
            return;
        }
        if partition.is_none_or(|partition| self.take_turn(request, partition)) {
            self.start(request);
        }
    }

    /// Sends a request on its way: in parts if that is worth it, or whole.
    pub(crate) fn start_now(&mut self, key: RequestKey) {
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
    pub(crate) fn insert_request(&mut self, request: Request) -> RequestKey {
        self.cx.memory.add(request.body.len());
        self.requests.insert(request)
    }

    pub(crate) fn request(&mut self, key: RequestKey) -> Option<&mut Request> {
        self.requests.get_mut(key)
    }
}
