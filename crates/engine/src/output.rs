//! Work that a worker's engine asks to be done outside of it, in the order in which it asks.
//!
//! The engine calls nobody: it moves no bytes, reads no clock and waits for nothing. Whoever runs it
//! hands it what has happened and the time at which it did, and then carries out what
//! [`crate::Engine::poll_output`] returns, until it returns nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_wire::{Encoder, Opcode, Version};

use crate::features;
use crate::keys::{ClientRequestKey, LinkKey, SessionKey};
use crate::shared::WorkerMessage;
use crate::worker_status::Report;

/// Something to be done.
pub enum Output {
    /// The way of a client's connection has changed: see [`crate::Engine::next_for_client`].
    Client(SessionKey),
    /// The way of a connection to a node has changed: see [`crate::Engine::is_link_open`].
    Link(LinkKey),
    /// A connection to this address is wanted; [`crate::Engine::on_dialed`] wants to hear of it.
    Dial(LinkKey, SocketAddr),
    /// To be kept until the nodes agree on the schema; then it is for [`crate::Engine::on_agreed`].
    Agree(HeldAnswer),
    /// A message for another worker.
    Tell(usize, WorkerMessage),
    /// A node shall tell about a prepared statement that nobody here knows.
    Recall(Box<[u8]>),
    /// The answer to a question about the worker, with the number of the question.
    Report(u64, Box<Report>),
    Feature(features::Output),
}

/// A connection that has been made, TLS included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dialed {
    /// The node has been shown a certificate of the proxy, if it has asked for one.
    pub shows_certificate: bool,
}

/// Why a connection could not be made.
#[derive(Clone, Debug)]
pub enum NotDialed {
    /// The node, or something on the way to it, does not take it.
    Lost(String),
    /// This machine has no file descriptor, port or memory left for it, which says nothing of the node.
    NoMeans(String),
}

/// How a connection to a node has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// The node has closed it, or its system has, as the node is no more.
    ByNode,
    /// It was given up, or nobody knows: the node may stand still, and read later what it was sent.
    Cut,
}

/// A node's answer to a schema change that its client does not get yet.
pub struct HeldAnswer {
    pub request: ClientRequestKey,
    /// The node that has answered.
    pub coordinator: SocketAddr,
    /// The schema change, without values.
    pub statement: Option<Arc<str>>,
    /// How long the nodes have to agree.
    pub limit: Duration,
    pub opcode: Opcode,
    pub header_flags: u8,
    pub body: Vec<u8>,
    pub version: Version,
}

/// How the wait for the nodes to agree on the schema has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agreement {
    Reached,
    /// The time was over. These lack the change, or do not say; none if nobody is known to.
    Missed(Vec<SocketAddr>),
}

/// Bytes that wait to be written.
pub trait Outgoing {
    /// The next of them; empty when there are none.
    fn pending(&mut self) -> &[u8];

    /// Notes that so many of them have been written.
    fn advance(&mut self, bytes: usize);
}

impl Outgoing for Encoder {
    fn pending(&mut self) -> &[u8] {
        Encoder::pending(self)
    }

    fn advance(&mut self, bytes: usize) {
        Encoder::advance(self, bytes);
    }
}

/// The result of an attempt to write what waits for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub writes: u64,
    pub bytes: u64,
    pub then: Then,
}

/// Where an attempt to write has left a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing waits any more.
    Done,
    /// The rest waits until it takes more; it is then written without being asked for.
    Blocked,
    Broken,
}
