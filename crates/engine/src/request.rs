//! The two kinds of request. A *client request* is what a client waits for, once. A *node request* is one
//! message to one node; it belongs to a client request, or to the proxy itself.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Plan;
use helenus_policy::schedule::Class;
use helenus_wire::{Consistency, Opcode, Page, Version};
use slotmap::SlotMap;

use crate::admission::{Admission, Waiting};
use crate::config::Cluster;
use crate::execution::Execution;
use crate::gates::coalesce::Ticket;
use crate::gates::lwt_queue::Turn;
use crate::gates::scan_limit::Counted;
use crate::keys::{ClientRequestKey, LinkKey, NodeRequestKey, PoolKey, SessionKey};
use crate::memory::Ledger;
use crate::statement::place::Place;
use crate::statement::prepared::{Prepared, Statement};
use crate::stats::TableStats;

/// What is asked of nodes: a body, and what is known of it.
pub(crate) struct Query {
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
}

impl Query {
    /// Nothing is known of it but its bytes.
    pub(crate) fn new(opcode: Opcode, version: Version, body: Vec<u8>) -> Query {
        Query {
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

    pub(crate) fn is_read(&self) -> bool {
        self.statement.as_ref().is_some_and(|s| s.is_read())
    }
}

/// A client that gets an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub session: SessionKey,
    pub stream: i16,
    pub started: Instant,
}

/// What a client waits for, once.
pub(crate) struct ClientRequest {
    pub caller: Caller,
    /// Further clients that get the same answer.
    pub followers: Vec<Caller>,
    pub query: Query,
    /// Where the whole of it goes.
    pub target: Target,
    pub execution: Execution,
    pub ticket: Option<Ticket>,
    pub turn: Option<Turn>,
    /// Answered by a condition that did not hold.
    pub condition_failed: bool,
    /// Counts it among the scans under way, if their number has a limit.
    pub _counted: Option<Counted>,
}

impl ClientRequest {
    /// Whether it waits for its turn, or for an identical read to come back.
    pub(crate) fn is_waiting_to_begin(&self) -> bool {
        matches!(self.ticket, Some(Ticket::Parked(_))) || matches!(self.turn, Some(Turn::Waits(_)))
    }
}

/// For whose sake a message is sent to a node.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    /// A client request, which waits for nothing else.
    Whole(ClientRequestKey),
    /// A client request, one of whose parts it is, by its number.
    Part(ClientRequestKey, u16),
    /// A node has forgotten this statement, or does not know it yet. Others may wait for it.
    Reprepare { id: Box<[u8]>, node: NodeIndex },
    /// A statement over parts of the ring, for the sake of this one.
    InRange(Arc<Statement>),
}

impl Owner {
    /// The client request that it belongs to.
    pub(crate) fn client(&self) -> Option<ClientRequestKey> {
        match self {
            Owner::Whole(client) | Owner::Part(client, _) => Some(*client),
            Owner::Reprepare { .. } | Owner::InRange(_) => None,
        }
    }
}

/// What is sent.
pub(crate) enum Message {
    /// The client's own request.
    Own,
    /// The client's own request, for another page.
    Piece { size: i32, state: Option<Vec<u8>> },
    /// Something else.
    Other(Box<Query>),
}

impl Message {
    /// The page to ask for, if not the one that the query asks for.
    pub(crate) fn page(&self) -> Option<Page<'_>> {
        match self {
            Message::Piece { size, state } => Some(Page {
                size: *size,
                state: state.as_deref(),
            }),
            Message::Own | Message::Other(_) => None,
        }
    }
}

/// Where a message is to go.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// To the owners of this place, or, without one, to any node.
    Place {
        place: Option<Place>,
        /// Of a conditional write: always to the same of the owners.
        primary: bool,
    },
    /// To this node, if it can be had.
    At(NodeIndex),
    /// To these nodes, in this order.
    Planned(Plan),
}

impl Target {
    pub(crate) const ANY: Target = Target::Place {
        place: None,
        primary: false,
    };

    pub(crate) fn of(place: Option<Place>) -> Target {
        let primary = false;
        Target::Place { place, primary }
    }

    /// The nodes that have not been tried, once they are planned.
    pub(crate) fn untried(&self) -> Option<Plan> {
        match self {
            Target::Planned(plan) => Some(*plan),
            Target::Place { .. } | Target::At(_) => None,
        }
    }
}

/// Predicted work, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// What is known of the statement.
    Learned,
    /// A piece of a page: of the rest of the page, and of this piece; rows wanted and asked for.
    Piece {
        work_us: u32,
        piece_us: u32,
        rows: u32,
        asked: u32,
    },
    /// A scan as it came.
    Scan { work_us: u32 },
    /// A part, of which more are to come.
    Part(PartJob),
}

/// A part's place among other work: it belongs to a page of which so much is left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartJob {
    /// Predicted work of all parts that are still to come, and of this one, in microseconds.
    pub work_us: u32,
    pub piece_us: u32,
    /// Rows of all that are still to come.
    pub rows: u32,
    /// Nodes that have parts which are still to come.
    pub nodes_left: u16,
}

/// How far a message has come.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Between two nodes, or waiting for a link or for a statement to be prepared.
    Unplaced,
    /// In a node's queue.
    Queued(Waiting),
    /// It may go to a node.
    Admitted(Admission),
    /// A node has it, or will have it with the next write to its link.
    ///
    /// The proxy's own messages take no place there.
    InFlight(Option<Admission>, Flight),
}

/// Where a message is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub link: LinkKey,
    pub stream: i16,
    pub sent: Instant,
    /// Writes of the link before it was put there.
    pub behind: u64,
}

/// One message to one node, or to others if that one fails.
pub(crate) struct NodeRequest {
    pub owner: Owner,
    pub message: Message,
    pub target: Target,
    pub work: Work,
    pub stage: Stage,
    /// The node that it was last sent to.
    pub node: Option<NodeIndex>,
    /// Nodes tried.
    pub attempts: u8,
    /// How often a node was taught a statement for its sake.
    pub reprepares: u8,
    /// Predicted work of it as its node's schedule was told, in microseconds.
    pub work_us: u32,
    /// When it last came a step further.
    pub progress: Instant,
    /// A node that it was sent to never answered: it may have taken effect there.
    pub maybe_applied: bool,
}

impl NodeRequest {
    pub(crate) fn new(
        owner: Owner,
        message: Message,
        work: Work,
        target: Target,
        now: Instant,
    ) -> NodeRequest {
        NodeRequest {
            owner,
            message,
            target,
            work,
            stage: Stage::Unplaced,
            node: None,
            attempts: 0,
            reprepares: 0,
            work_us: 0,
            progress: now,
            maybe_applied: false,
        }
    }

    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::Queued(_))
    }

    pub(crate) fn flight(&self) -> Option<Flight> {
        match &self.stage {
            Stage::InFlight(_, flight) => Some(*flight),
            _ => None,
        }
    }

    /// Takes it off its link. Its place at the node is still its own.
    pub(crate) fn land(&mut self) -> Option<Flight> {
        match std::mem::replace(&mut self.stage, Stage::Unplaced) {
            Stage::InFlight(admission, flight) => {
                self.stage = admission.map_or(Stage::Unplaced, Stage::Admitted);
                Some(flight)
            }
            other => {
                self.stage = other;
                None
            }
        }
    }

    fn body_len(&self) -> usize {
        match &self.message {
            Message::Other(query) => query.body.len(),
            Message::Own | Message::Piece { .. } => 0,
        }
    }
}

/// All messages to nodes.
#[derive(Default)]
pub(crate) struct NodeRequests(SlotMap<NodeRequestKey, NodeRequest>);

impl NodeRequests {
    pub(crate) fn get(&self, key: NodeRequestKey) -> Option<&NodeRequest> {
        self.0.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: NodeRequestKey) -> Option<&mut NodeRequest> {
        self.0.get_mut(key)
    }

    pub(crate) fn insert(&mut self, memory: &Ledger, request: NodeRequest) -> NodeRequestKey {
        memory.add(request.body_len());
        self.0.insert(request)
    }

    /// Forgets one that is nowhere any more.
    pub(crate) fn remove(&mut self, memory: &Ledger, key: NodeRequestKey) -> Option<NodeRequest> {
        let request = self.0.remove(key)?;
        memory.sub(request.body_len());
        Some(request)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeRequestKey, &NodeRequest)> + Clone {
        self.0.iter()
    }
}

/// All that clients wait for, and all messages to nodes.
#[derive(Default)]
pub(crate) struct Requests {
    pub clients: SlotMap<ClientRequestKey, ClientRequest>,
    pub nodes: NodeRequests,
    /// Buffers of bodies, to be used again.
    spare_bodies: Vec<Vec<u8>>,
}

/// Buffers that are kept at most, and their capacity.
const SPARE_MAX: usize = 1_024;
const SPARE_BYTES_MAX: usize = 4_096;

impl Requests {
    /// A copy of a body.
    pub(crate) fn keep(&mut self, body: &[u8]) -> Vec<u8> {
        let mut kept = self.spare_bodies.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(body);
        kept
    }

    pub(crate) fn insert(&mut self, memory: &Ledger, request: ClientRequest) -> ClientRequestKey {
        memory.add(request.query.body.len());
        self.clients.insert(request)
    }

    /// Forgets a client request and what it holds; keeps its buffer for the next.
    pub(crate) fn remove(&mut self, memory: &Ledger, key: ClientRequestKey) -> Option<Ended> {
        let request = self.clients.remove(key)?;
        let body = request.query.body;
        memory.sub(body.len() + request.execution.byte_len());
        if body.capacity() <= SPARE_BYTES_MAX && self.spare_bodies.len() < SPARE_MAX {
            self.spare_bodies.push(body);
        }
        Some(Ended {
            ticket: request.ticket,
            turn: request.turn,
            condition_failed: request.condition_failed,
        })
    }

    /// What a message asks.
    pub(crate) fn query(&self, key: NodeRequestKey) -> Option<&Query> {
        self.query_of(self.nodes.get(key)?)
    }

    pub(crate) fn query_of<'a>(&'a self, request: &'a NodeRequest) -> Option<&'a Query> {
        match (&request.message, &request.owner) {
            (Message::Other(query), _) => Some(query),
            (_, owner) => Some(&self.clients.get(owner.client()?)?.query),
        }
    }

    /// The same, to be changed.
    pub(crate) fn query_mut(&mut self, key: NodeRequestKey) -> Option<&mut Query> {
        let request = self.nodes.get_mut(key)?;
        match (&mut request.message, &request.owner) {
            (Message::Other(query), _) => Some(query),
            (_, owner) => Some(&mut self.clients.get_mut(owner.client()?)?.query),
        }
    }

    /// What it takes to send a message.
    pub(crate) fn sending(&mut self, key: NodeRequestKey) -> Option<Sending<'_>> {
        let request = self.nodes.get_mut(key)?;
        let query = match (&request.message, &request.owner) {
            (Message::Other(query), _) => query,
            (_, owner) => &self.clients.get(owner.client()?)?.query,
        };
        Some(Sending {
            query,
            page: request.message.page(),
            work: request.work,
            stage: &mut request.stage,
            node: &mut request.node,
        })
    }

    pub(crate) fn len(&self) -> usize {
        let is_other = |(_, request): &(NodeRequestKey, &NodeRequest)| {
            !matches!(request.owner, Owner::Whole(_))
        };
        self.clients.len() + self.nodes.iter().filter(is_other).count()
    }
}

/// A message that is about to be sent.
pub(crate) struct Sending<'a> {
    pub query: &'a Query,
    /// The page to ask for, if not the one that the query asks for.
    pub page: Option<Page<'a>>,
    pub work: Work,
    pub stage: &'a mut Stage,
    pub node: &'a mut Option<NodeIndex>,
}

/// What a client request leaves behind.
pub(crate) struct Ended {
    pub ticket: Option<Ticket>,
    pub turn: Option<Turn>,
    pub condition_failed: bool,
}
