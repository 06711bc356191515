//! Places for links in the pool of a role.

use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use slotmap::SecondaryMap;

use crate::keys::{LinkKey, NodeRequestKey};
use crate::node::kind::LinkKind;
use crate::node::link::Link;

/// A place for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Empty,
    Connecting,
    Up(LinkKey),
}

impl Slot {
    #[inline]
    pub(super) fn link(self) -> Option<LinkKey> {
        match self {
            Slot::Up(link) => Some(link),
            Slot::Empty | Slot::Connecting => None,
        }
    }
}

/// A link outside the shared ones.
pub(super) struct Special {
    pub(super) node: NodeIndex,
    pub(super) kind: LinkKind,
    pub(super) slot: Slot,
    pub(super) waiting: Vec<NodeRequestKey>,
    /// When it was last wanted.
    pub(super) used: Instant,
}

impl Special {
    /// Whether it could be closed without anybody noticing.
    pub(super) fn is_idle(&self, links: &SecondaryMap<LinkKey, Link>) -> bool {
        match self.slot {
            _ if !self.waiting.is_empty() => false,
            Slot::Connecting => false,
            Slot::Empty => true,
            Slot::Up(link) => links.get(link).is_none_or(|link| link.in_flight == 0),
        }
    }
}
