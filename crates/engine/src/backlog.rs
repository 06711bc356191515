//! Work that an event leaves for other requests: one thing after the other, never by recursion.
//!
//! An answer may free a place at its node, end a turn, let parked reads go, and each of these may fail
//! and do the same again; the death of a node does it for thousands of requests at once. So nothing of
//! that is done where it is noticed. It is noted here, and the engine does it before it takes its next
//! event ([`crate::pipeline::settle`]).

use std::collections::VecDeque;

use crate::features;
use crate::keys::{ClientRequestKey, NodeRequestKey, SessionKey};

/// Something to be done for a request.
#[derive(Debug)]
pub(crate) enum Work {
    /// It is carried out: in parts, or whole.
    Start(ClientRequestKey),
    /// A node request goes to its next candidate.
    Route(NodeRequestKey),
    /// It is the turn of a login of this worker, or its place was given to another.
    LogIn {
        session: SessionKey,
        is_granted: bool,
    },
    /// The prepares that an aggregate has waited for are answered, or refused.
    Resume(ClientRequestKey),
    Feature(features::Work),
}

/// Why a node request has come to nothing.
#[derive(Debug)]
pub(crate) struct Failed {
    pub how: How,
    pub code: i32,
    pub text: String,
    pub fields: Vec<u8>,
}

/// How a node request has come to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// This error is what its client hears.
    Answered,
    /// It was not tried; a write that a node before may have applied has timed out instead.
    Untried,
    /// It cannot be sent in this form, but maybe in another; else as if it was not tried.
    Unsendable,
    /// Nobody knows what became of it.
    TimedOut,
}

/// Work still to be done.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// They come first: what belongs to a request that has failed is not sent any more.
    failures: VecDeque<(NodeRequestKey, Failed)>,
    others: VecDeque<Work>,
}

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.failures.is_empty() && self.others.is_empty()
    }

    pub(crate) fn push(&mut self, work: Work) {
        self.others.push_back(work);
    }

    /// A node request has come to nothing: whoever waits for it hears why.
    pub(crate) fn push_failure(&mut self, key: NodeRequestKey, ended: Failed) {
        self.failures.push_back((key, ended));
    }

    pub(crate) fn pop_failure(&mut self) -> Option<(NodeRequestKey, Failed)> {
        self.failures.pop_front()
    }

    pub(crate) fn pop(&mut self) -> Option<Work> {
        self.others.pop_front()
    }
}
