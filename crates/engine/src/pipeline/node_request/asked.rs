//! A node request's content: for whose sake it is, what is sent and where, and how much work it is.

use std::fmt::{self, Display, Formatter};

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Plan;
use helenus_wire::Page;

use crate::keys::ClientRequestKey;
use crate::pipeline::nodes::errand::Errand;
use crate::pipeline::query::Query;
use crate::scheduler::PartJob;
use crate::statement::place::Place;

/// For whose sake a node request is sent to a node.
#[derive(Debug)]
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

/// The form in which it is sent.
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
    /// Learned from the statement's earlier answers.
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
