//! A *node request*: one request to one node. It belongs to a client request, or to the proxy itself.

use std::fmt::{self, Display, Formatter};
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Plan;
use helenus_policy::schedule::Class;
use helenus_wire::Page;

use crate::keys::{ClientRequestKey, LinkKey, NodeRequestKey};
use crate::memory::Ledger;
use crate::pipeline::nodes::errand::Errand;
use crate::pipeline::query::Query;
use crate::pipeline::retry::backoff::Missed;
use crate::scheduler::{Admission, PartJob, Waiting};
use crate::statement::place::Place;
use crate::support::registry::Registry;

/// For whose sake a node request is sent to a node.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    /// A client request, which waits for nothing else.
    Whole(ClientRequestKey),
    /// A client request, one of whose parts it is, by its number.
    Part(ClientRequestKey, u16),
    /// The proxy itself.
    Errand(Errand),
}

impl Owner {
    /// The client request that it belongs to.
    pub(crate) fn client(&self) -> Option<ClientRequestKey> {
        match self {
            Owner::Whole(client) | Owner::Part(client, _) => Some(*client),
            Owner::Errand(_) => None,
        }
    }

    /// The client request that waits for nothing else.
    #[inline]
    pub(crate) fn whole(&self) -> Option<ClientRequestKey> {
        match self {
            Owner::Whole(client) => Some(*client),
            Owner::Part(..) | Owner::Errand(_) => None,
        }
    }

    /// The client request one of whose parts it is, and its number.
    pub(crate) fn part(&self) -> Option<(ClientRequestKey, u16)> {
        match self {
            Owner::Part(client, part) => Some((*client, *part)),
            Owner::Whole(_) | Owner::Errand(_) => None,
        }
    }
}

impl Display for Owner {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Whole(_) => f.write_str("a whole request"),
            Owner::Part(_, number) => write!(f, "part {number}"),
            Owner::Errand(errand) => errand.fmt(f),
        }
    }
}

/// What is sent.
pub(crate) enum Form {
    /// The client's own request.
    Own,
    /// The client's own request, for another page.
    Piece { size: i32, state: Option<Vec<u8>> },
    /// Something else.
    Other(Box<Query>),
}

impl Form {
    /// The page to ask for, if not the one that the query asks for.
    pub(crate) fn page(&self) -> Option<Page<'_>> {
        match self {
            Form::Piece { size, state } => Some(Page {
                size: *size,
                state: state.as_deref(),
            }),
            Form::Own | Form::Other(_) => None,
        }
    }
}

/// Where a node request is to go.
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

    /// The Murmur3 token of its partition's key, if that is known.
    pub(crate) fn token(&self) -> Option<i64> {
        match self {
            Target::Place { place, .. } => place.as_ref()?.token,
            Target::At(_) | Target::Planned(_) => None,
        }
    }

    /// Who owns its place, as far as that is known.
    pub(crate) fn owners(&self) -> &[NodeIndex] {
        match self {
            Target::Place {
                place: Some(place), ..
            } => place.owners.of_slot(place.slot),
            _ => &[],
        }
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
pub(crate) enum Prediction {
    /// What is known of the statement.
    Learned,
    /// A piece of a page: of the rest of the page, and of this piece; and how many rows each is expected
    /// to have.
    Piece {
        work_us: u32,
        piece_us: u32,
        rows: u32,
        expected: u32,
    },
    /// A stretch of the ring, of so many tokens, in a scan that filters: of what is left of the ring, and
    /// of this stretch; and whether that is from answers to its statement.
    Stretch {
        work_us: u32,
        piece_us: u32,
        tokens: u64,
        known: bool,
    },
    /// A scan as it came.
    Scan { work_us: u32 },
    /// A part, of which more are to come.
    Part(PartJob),
}

/// How far a node request has come.
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
    /// The proxy's own node requests take no place there.
    InFlight(Option<Admission>, Flight),
}

/// Where a node request is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub link: LinkKey,
    pub stream: i16,
    pub sent: Instant,
    /// Writes of the link before it was put there.
    pub behind: u64,
}

/// One request to one node, or to others if that one fails.
pub(crate) struct NodeRequest {
    pub owner: Owner,
    pub form: Form,
    pub target: Target,
    pub work: Prediction,
    pub stage: Stage,
    /// The node that it was last sent to.
    pub node: Option<NodeIndex>,
    /// Nodes tried.
    pub attempts: u8,
    /// How often a node was taught a statement for its sake.
    pub reprepares: u16,
    /// Predicted work of it as its node's schedule was told, in microseconds.
    pub work_us: u32,
    /// What it is to its node's schedule.
    pub lane: Class,
    /// Its time-out runs since then; not while it waits in a node's queue or pauses, where it has other bounds.
    pub time_runs_since: Instant,
    /// A node that it was sent to never answered: it may have taken effect there.
    pub maybe_applied: bool,
    /// What coordinators have said that miss replicas.
    pub missed: Option<Missed>,
    /// How long it has waited in queues of nodes, in microseconds, and been at nodes.
    pub queued_us: u32,
    pub at_node_us: u32,
}

/// A node request that is taken off its link.
pub(crate) struct Landed {
    pub flight: Flight,
    /// How long it has been there.
    pub us: u64,
}

impl NodeRequest {
    pub(crate) fn new(
        owner: Owner,
        form: Form,
        work: Prediction,
        target: Target,
        now: Instant,
    ) -> NodeRequest {
        NodeRequest {
            owner,
            form,
            target,
            work,
            stage: Stage::Unplaced,
            node: None,
            attempts: 0,
            reprepares: 0,
            work_us: 0,
            lane: Class::Other,
            time_runs_since: now,
            maybe_applied: false,
            missed: None,
            queued_us: 0,
            at_node_us: 0,
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

    /// What it has waited in a queue does not count as time at a node: that wait has a bound of its own. What
    /// has passed before still counts.
    pub(crate) fn end_wait(&mut self, now: Instant, now_us: u64) {
        if let Stage::Queued(waiting) = &self.stage {
            let waited_us = now_us.saturating_sub(waiting.since_us);
            let waited = Duration::from_micros(waited_us);
            self.queued_us = self.queued_us.saturating_add(waited_us as u32);
            self.time_runs_since = now.min(self.time_runs_since + waited);
        }
    }

    /// Whether it waits to be sent again a little later.
    pub(crate) fn is_pausing(&self) -> bool {
        self.missed.as_ref().is_some_and(Missed::is_pausing)
    }

    /// The same of a pause.
    pub(crate) fn end_pause(&mut self, now: Instant) {
        let missed = self.missed.as_mut();
        if let Some(waited) = missed.and_then(|missed| missed.end_pause(now)) {
            self.time_runs_since = now.min(self.time_runs_since + waited);
        }
    }

    /// Takes it off its link. Its place at the node is still its own.
    #[inline(always)]
    pub(crate) fn land(&mut self, now: Instant) -> Option<Landed> {
        match std::mem::replace(&mut self.stage, Stage::Unplaced) {
            Stage::InFlight(admission, flight) => {
                self.stage = admission.map_or(Stage::Unplaced, Stage::Admitted);
                let us = now.saturating_duration_since(flight.sent).as_micros() as u64;
                self.at_node_us = self.at_node_us.saturating_add(us as u32);
                Some(Landed { flight, us })
            }
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// Makes a node its next candidate.
    pub(crate) fn put_in_front(&mut self, node: NodeIndex) {
        let left = self.target.untried().map(|plan| plan.behind(node));
        self.target = Target::Planned(left.unwrap_or(Plan::only(node)));
        self.attempts = self.attempts.saturating_sub(1);
    }

    fn body_len(&self) -> usize {
        match &self.form {
            Form::Other(query) => query.body.len(),
            Form::Own | Form::Piece { .. } => 0,
        }
    }
}

/// All node requests to nodes.
#[derive(Default)]
pub(crate) struct NodeRequests(Registry<NodeRequestKey, NodeRequest>);

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

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeRequestKey, &NodeRequest)> + Clone {
        self.0.iter()
    }
}
