//! Questions about a worker, and its answers. Asked by message ([`crate::shared::WorkerMessage::Report`]), answered
//! as an output ([`crate::output::Output::Report`]): they cost nothing while nobody asks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Compression, Version};

use crate::features;
use crate::keys::SessionKey;
use crate::session::names::Kind;

/// A question about a worker: at most so many of each.
#[derive(Clone, Debug)]
pub enum Wanted {
    Clients {
        by: ClientOrder,
        max: usize,
    },
    /// A client is to be disconnected.
    Kill(SessionKey),
    /// Clients that wait for nothing and have sent nothing for so long are to be disconnected.
    CloseIdle(Duration),
    Pools {
        max: usize,
    },
    Feature(features::Wanted),
}

/// A worker's answer to [`Wanted`].
#[derive(Debug)]
pub enum Report {
    /// Those that come first in that order, and how many there are.
    Clients(Vec<ClientRow>, usize),
    /// True if the client was there.
    Killed(bool),
    /// How many were.
    IdleClosed(usize),
    Pools(Vec<PoolRow>),
    Feature(features::Report),
}

/// Which clients come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientOrder {
    /// Those with the most requests in flight, and of these those with the most requests so far.
    #[default]
    InFlight,
    Requests,
    Bytes,
    /// The oldest connections.
    Age,
    /// Those that have been quiet for longest.
    Idle,
}

impl ClientOrder {
    /// Larger for those that come first.
    pub fn weight(self, of: &ClientNumbers) -> (u64, u64) {
        let requests = of.requests;
        match self {
            ClientOrder::InFlight => (of.in_flight as u64, requests),
            ClientOrder::Requests => (requests, 0),
            ClientOrder::Bytes => (of.bytes_in + of.bytes_out, requests),
            ClientOrder::Age => (of.age.as_micros() as u64, requests),
            ClientOrder::Idle => (of.idle.as_micros() as u64, requests),
        }
    }
}

/// Counts of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientNumbers {
    pub in_flight: usize,
    /// Requests so far, but for those that the proxy answers itself.
    pub requests: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Since it was accepted, and since it was last heard of or answered.
    pub age: Duration,
    pub idle: Duration,
}

/// A client that is connected.
#[derive(Clone, Debug)]
pub struct ClientRow {
    pub worker: usize,
    pub key: SessionKey,
    pub address: SocketAddr,
    /// Where it can be told.
    pub role: Option<Arc<str>>,
    /// Its driver and application, as it names them.
    pub kind: Kind,
    /// `CLIENT_ID`, by its word.
    pub client_id: Box<str>,
    /// None before anything is agreed.
    pub version: Option<Version>,
    pub compression: Compression,
    pub keyspace: Option<Box<str>>,
    /// It has logged in, or need not.
    pub is_ready: bool,
    pub numbers: ClientNumbers,
    /// Its connection is encrypted; whoever moves its bytes knows.
    pub is_encrypted: bool,
    /// Nothing is read from it: it has too much in flight, or does not read its answers.
    pub is_held: bool,
}

/// The links of a role to a node.
#[derive(Clone, Debug)]
pub struct PoolRow {
    pub worker: usize,
    /// Where it can be told.
    pub role: Option<Arc<str>>,
    pub role_number: u32,
    /// Clients of this worker in that role.
    pub clients: usize,
    pub node: NodeIndex,
    pub links: usize,
    /// Being opened.
    pub opening: usize,
    /// Links for keyspaces and for what is large.
    pub special: usize,
    pub in_flight: usize,
}
