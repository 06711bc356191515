//! Kinds of links, and how opening one ends.

use std::rc::Rc;

use helenus_wire::{Decoder, Encoder, Version};
use thiserror::Error;

/// What a link is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind {
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
pub struct OpenedLink {
    pub decoder: Decoder,
    pub encoder: Encoder,
    pub version: Version,
}

/// Why a connection to a node could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The node has judged the credentials.
    #[error("{0}")]
    BadCredentials(String),
    /// It is about the credentials, or their absence, and tells nothing of the node.
    #[error("{0}")]
    OfCredentials(String),
    /// The node has answered with this error.
    #[error("{message} (code 0x{code:04X})")]
    Node { code: i32, message: String },
    #[error("{0}")]
    Other(String),
}

impl OpenError {
    pub(crate) fn is_of_credentials(&self) -> bool {
        matches!(
            self,
            OpenError::BadCredentials(_) | OpenError::OfCredentials(_)
        )
    }
}
