//! Kinds of links, and how opening one ends.

use std::rc::Rc;
use std::time::Duration;

use helenus_wire::{DecodeError, Decoder, Encoder, Malformed, Version};
use thiserror::Error;

use crate::session::login::authenticator::Unfit;

/// The use of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkKind {
    /// One of the shared links, at this place.
    Shared(usize),
    /// For statements without a keyspace of their own, to nodes whose protocol cannot carry one.
    Keyspace(Rc<str>),
    /// For `USE` itself: a node judges it, and no other request sees its effect.
    Use,
    /// For large requests and answers, which small ones would have to wait behind.
    Bulk,
    /// None at all: only to see whether a role's credentials still hold.
    Check,
}

/// A connection to a node that is ready for requests.
pub(crate) struct OpenedLink {
    pub(crate) decoder: Decoder,
    pub(crate) encoder: Encoder,
    pub(crate) version: Version,
}

/// Why a connection to a node could not be set up.
#[derive(Debug, Error)]
pub(crate) enum OpenError {
    /// It could not be made, or it broke.
    #[error("{0}")]
    Lost(String),
    /// It could not be made, for which this machine is to blame.
    #[error("{0}")]
    NoMeans(String),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The node was asked to judge the credentials, and has not answered.
    #[error("the node has not checked the credentials within {0:?}")]
    JudgesSlowly(Duration),
    /// Too late for the credentials to be checked in time.
    #[error("the node answered to STARTUP only after {0:?}")]
    AsksLate(Duration),
    #[error("the node sent bytes that are not CQL: {0}")]
    Undecodable(#[from] DecodeError),
    #[error("the node sent bytes that are not CQL: {0}")]
    Malformed(#[from] Malformed),
    #[error("the node answered {0} where {1} was expected")]
    Unexpected(&'static str, &'static str),
    /// The node has answered with this error.
    #[error("{message} (code 0x{code:04X})")]
    Node { code: i32, message: String },
    #[error(
        "the node asks for authentication ({0}) but no credentials are configured: set cluster.username and cluster.password"
    )]
    NoCredentials(String),
    #[error("{0}")]
    Unfit(#[from] Unfit),
    /// Happens while authentication is switched on or off node by node.
    #[error("this node requires no credentials, but others do")]
    NotAsked,
    #[error("the node has a different authenticator from the others; connect again")]
    AskedOtherwise,
    /// The node has judged the credentials.
    #[error("{0} (code 0x0100)")]
    BadCredentials(String),
    /// The node was asked to judge them and could not.
    #[error("the node cannot check the credentials now: {message} (code 0x{code:04X})")]
    Unjudged { code: i32, message: String },
    /// Addresses get reassigned, and not always within the cluster.
    #[error(
        "this address belongs to the cluster \"{found}\" now, not to \"{own}\": if the node that had it \
         is gone, remove it from the cluster (nodetool removenode)"
    )]
    OtherCluster { found: String, own: String },
}

impl OpenError {
    /// True if it is about the credentials, or their absence, and does not tell that the node cannot be reached.
    pub(crate) fn is_of_credentials(&self) -> bool {
        matches!(
            self,
            OpenError::NoCredentials(_)
                | OpenError::BadCredentials(_)
                | OpenError::Unjudged { .. }
                | OpenError::JudgesSlowly(_)
                | OpenError::NotAsked
                | OpenError::AskedOtherwise
        )
    }
}
