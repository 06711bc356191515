//! One Cassandra node.

use std::net::SocketAddr;

use crate::snapshot::batch_limits::BatchLimits;
use crate::snapshot::hint_window::HintWindow;
use crate::snapshot::page_limits::PageLimits;
use crate::snapshot::timeouts::Timeouts;

/// Cassandra's name of a node, whatever its address.
pub type HostId = [u8; 16];

/// One Cassandra node. Its index never changes while the proxy runs, also when it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    address: SocketAddr,
    host_id: HostId,
    dc: String,
    rack: String,
    release_version: String,
    told: NodeFacts,
    is_gone: bool,
}

/// Facts that only a node itself knows: each is `None` until it has told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    pub processors: Option<u32>,
    pub timeouts: Option<Timeouts>,
    pub batches: Option<BatchLimits>,
    pub pages: Option<PageLimits>,
    pub hints: Option<HintWindow>,
}

/// A node that joins the cluster or leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mover {
    pub host_id: HostId,
    pub address: SocketAddr,
}

impl Node {
    /// One that is part of the cluster and has told nothing yet.
    pub fn new(
        address: SocketAddr,
        host_id: HostId,
        dc: impl Into<String>,
        rack: impl Into<String>,
    ) -> Node {
        Node {
            address,
            host_id,
            dc: dc.into(),
            rack: rack.into(),
            release_version: String::new(),
            told: NodeFacts::default(),
            is_gone: false,
        }
    }

    pub fn of_release(self, version: impl Into<String>) -> Node {
        let release_version = version.into();
        Node {
            release_version,
            ..self
        }
    }

    pub fn with_facts(self, told: NodeFacts) -> Node {
        Node { told, ..self }
    }

    /// It has told of itself.
    pub fn learn(&mut self, told: NodeFacts) {
        self.told = told;
    }

    /// It has left the cluster, or is there again.
    pub fn set_gone(&mut self, is_gone: bool) {
        self.is_gone = is_gone;
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn host_id(&self) -> HostId {
        self.host_id
    }

    pub fn dc(&self) -> &str {
        &self.dc
    }

    pub fn rack(&self) -> &str {
        &self.rack
    }

    pub fn release_version(&self) -> &str {
        &self.release_version
    }

    /// True if it is no longer part of the cluster.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// True if it is part of the cluster, at this address.
    pub fn serves_at(&self, address: SocketAddr) -> bool {
        self.address == address && !self.is_gone
    }

    /// As it joins or leaves.
    pub fn as_mover(&self) -> Mover {
        Mover {
            host_id: self.host_id,
            address: self.address,
        }
    }

    pub fn facts(&self) -> &NodeFacts {
        &self.told
    }

    /// Its time-outs: Cassandra's own until it has told.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.told.timeouts.unwrap_or_default()
    }
}

impl NodeFacts {
    /// These, and what it told before of which it says nothing now.
    pub fn or(self, before: &NodeFacts) -> NodeFacts {
        NodeFacts {
            processors: self.processors.or(before.processors),
            timeouts: self.timeouts.or(before.timeouts),
            batches: self.batches.or(before.batches),
            pages: self.pages.or(before.pages),
            hints: self.hints.or(before.hints),
        }
    }
}
