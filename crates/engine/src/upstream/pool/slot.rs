//! Places for links in the pool of a role.

use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use slotmap::SecondaryMap;

use crate::keys::{LinkKey, NodeRequestKey};
use crate::upstream::connect::kind::LinkKind;
use crate::upstream::link::Link;

/// A place for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream) enum Slot {
    Empty,
    Connecting,
    Up(LinkKey),
    /// Up, and another one is on its way that is to have its place.
    Renewing(LinkKey),
}

impl Slot {
    #[inline]
    pub(in crate::upstream) fn link(self) -> Option<LinkKey> {
        match self {
            Slot::Up(link) | Slot::Renewing(link) => Some(link),
            Slot::Empty | Slot::Connecting => None,
        }
    }

    /// True if a link is on its way.
    pub(in crate::upstream) fn is_opening(self) -> bool {
        matches!(self, Slot::Connecting | Slot::Renewing(_))
    }

    /// Without the link that it has.
    #[must_use]
    pub(in crate::upstream) fn without_link(self) -> Slot {
        match self {
            Slot::Renewing(_) => Slot::Connecting,
            Slot::Up(_) => Slot::Empty,
            other => other,
        }
    }

    /// Without the link that is on its way.
    #[must_use]
    pub(in crate::upstream) fn without_opening(self) -> Slot {
        match self {
            Slot::Renewing(link) => Slot::Up(link),
            Slot::Connecting => Slot::Empty,
            other => other,
        }
    }
}

/// A link outside the shared ones.
pub(in crate::upstream) struct Special {
    pub(in crate::upstream) node: NodeIndex,
    pub(in crate::upstream) kind: LinkKind,
    pub(in crate::upstream) slot: Slot,
    pub(in crate::upstream) waiting: Vec<NodeRequestKey>,
    /// When it was last wanted.
    pub(in crate::upstream) used: Instant,
}

impl Special {
    /// True if it could be closed without anybody noticing.
    pub(in crate::upstream) fn is_idle(&self, links: &SecondaryMap<LinkKey, Link>) -> bool {
        match self.slot {
            _ if !self.waiting.is_empty() => false,
            Slot::Connecting | Slot::Renewing(_) => false,
            Slot::Empty => true,
            Slot::Up(link) => links.get(link).is_none_or(|link| link.in_flight() == 0),
        }
    }
}
