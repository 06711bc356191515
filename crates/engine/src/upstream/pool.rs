//! The links of one role: a few connections a node, opened when needed, never lent to another role.

pub(crate) mod opening;
pub(in crate::upstream) mod places;
pub(in crate::upstream) mod renewals;
pub(in crate::upstream) mod roles;
pub(in crate::upstream) mod slot;
pub(crate) mod special;
pub(in crate::upstream) mod upkeep;

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use rustc_hash::FxHashMap;
use slotmap::SecondaryMap;

use crate::keys::{LinkKey, NodeRequestKey};
use crate::session::login::identity::Identity;
use crate::snapshot::Snapshot;
use crate::upstream::connect::kind::LinkKind;
use crate::upstream::link::Link;
use crate::upstream::pool::renewals::Renewals;
use crate::upstream::pool::slot::{Slot, Special};

/// Requests that may wait for one link.
pub(super) const WAITING_MAX: usize = 16_384;
/// A link outside the shared ones that nobody has wanted for so long is closed.
const IDLE_SPECIAL: Duration = Duration::from_secs(60);
const IDLE_POOL: Duration = Duration::from_secs(60);

/// Connections of one role.
pub(crate) struct Pool {
    pub(super) identity: Arc<Identity>,
    /// By node; links shared by all requests.
    pub(super) nodes: Vec<Vec<Slot>>,
    /// Links that carry a connection state of their own (a keyspace, or USE itself).
    pub(super) special: Vec<Special>,
    /// Clients of this role.
    pub(super) sessions: usize,
    pub(super) idle_since: Instant,
    /// Requests that came before the first link was up.
    pub(super) waiting: Vec<NodeRequestKey>,
    /// Links are not being opened yet, because the nodes have enough to do with others.
    pub(super) is_postponed: bool,
    /// The last attempt to open a shared link has failed: others come first.
    pub(super) has_failed: bool,
    /// Nodes that can be reached, but could not judge this role's credentials when they last had to.
    pub(super) unjudged: FxHashMap<NodeIndex, Pause>,
    /// Tables that this role may not read.
    pub(super) denied: Vec<Denied>,
    pub(super) renewals: Renewals,
}

/// A table that a role may not read, as a node has said.
pub(super) struct Denied {
    pub(super) keyspace: Box<str>,
    pub(super) table: Box<str>,
    /// Then it is tried again: the role's rights may be others.
    pub(super) until: Instant,
}

/// Until when a node is not tried, after failures in a row.
#[derive(Clone, Copy)]
pub(super) struct Pause {
    pub(super) failures: u32,
    pub(super) tried: Instant,
    pub(super) until: Instant,
}

impl Pool {
    pub(super) fn new(identity: Arc<Identity>, now: Instant) -> Pool {
        Pool {
            identity,
            nodes: Vec::new(),
            special: Vec::new(),
            sessions: 0,
            idle_since: now,
            waiting: Vec::new(),
            is_postponed: false,
            has_failed: false,
            unjudged: FxHashMap::default(),
            denied: Vec::new(),
            renewals: Renewals::default(),
        }
    }

    /// The shared links of a node that are up.
    #[inline]
    pub(super) fn links(&self, node: NodeIndex) -> impl Iterator<Item = LinkKey> + '_ {
        let slots = self.nodes.get(node.as_usize()).into_iter().flatten();
        slots.filter_map(|slot| slot.link())
    }

    /// All links that are up, shared or not.
    pub(super) fn all_links(&self) -> impl Iterator<Item = LinkKey> + '_ {
        self.slots().filter_map(|slot| slot.link())
    }

    /// All places, shared or not.
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> + '_ {
        let special = self.special.iter().map(|special| &special.slot);
        self.nodes.iter().flatten().chain(special)
    }

    #[inline]
    pub(crate) fn has_link(&self, node: NodeIndex) -> bool {
        self.links(node).next().is_some()
    }

    /// Nodes with a shared link that is up.
    pub(super) fn linked_nodes(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        let nodes = (0..self.nodes.len()).map(|at| NodeIndex(at as u16));
        nodes.filter(|node| self.has_link(*node))
    }

    /// True if it logs in though the nodes no longer ask for that, or does not though they do.
    pub(super) fn is_outdated(&self, snapshot: &Snapshot) -> bool {
        snapshot.is_known() && self.identity.is_anonymous() == snapshot.protocol().asks_for_login()
    }

    fn is_connecting(&self) -> bool {
        let mut slots = self.nodes.iter().flatten();
        slots.any(|slot| slot.is_opening())
    }

    /// True if a link is on its way that is to have the place of another.
    pub(super) fn is_renewing(&self) -> bool {
        self.slots().any(|slot| matches!(slot, Slot::Renewing(_)))
    }

    /// True if a shared link is on its way, or will be soon.
    pub(super) fn awaits_link(&self) -> bool {
        self.is_postponed || self.is_connecting()
    }

    /// True if a link of any kind is on its way.
    pub(super) fn is_opening(&self) -> bool {
        self.slots().any(|slot| slot.is_opening())
    }

    /// True if nobody will miss it.
    pub(super) fn is_unused(&self, now: Instant) -> bool {
        let idle = now.saturating_duration_since(self.idle_since) > IDLE_POOL;
        let over = self.identity.has_ended() || idle && !self.identity.is_anonymous();
        self.sessions == 0 && over
    }

    /// True if new links would be of use.
    pub(super) fn may_open(&self, snapshot: &Snapshot) -> bool {
        let outdated = self.sessions == 0 && self.is_outdated(snapshot);
        !self.identity.has_ended() && !outdated
    }

    /// The place of a link.
    pub(super) fn slot_mut(&mut self, node: NodeIndex, kind: &LinkKind) -> Option<&mut Slot> {
        match kind {
            LinkKind::Shared(place) => self.nodes.get_mut(node.as_usize())?.get_mut(*place),
            kind => Some(&mut self.special_mut(node, kind)?.slot),
        }
    }

    /// A link has its place; returns the one that has had it.
    pub(super) fn put_up(
        &mut self,
        node: NodeIndex,
        kind: &LinkKind,
        link: LinkKey,
    ) -> Option<LinkKey> {
        let slot = self.slot_mut(node, kind)?;
        std::mem::replace(slot, Slot::Up(link)).link()
    }

    /// No link is on its way any more to this place; returns the one that it has all the same.
    pub(super) fn end_opening(&mut self, node: NodeIndex, kind: &LinkKind) -> Option<LinkKey> {
        let slot = self.slot_mut(node, kind)?;
        *slot = slot.without_opening();
        slot.link()
    }

    /// Empties the place of a link that is gone, unless another has it by now.
    pub(super) fn empty_slot(&mut self, link: LinkKey, node: NodeIndex) {
        let shared = self.nodes.get_mut(node.as_usize()).into_iter().flatten();
        for slot in shared.filter(|slot| slot.link() == Some(link)) {
            *slot = slot.without_link();
        }
        self.special.retain_mut(|special| {
            let was_its = special.slot.link() == Some(link);
            if was_its {
                special.slot = special.slot.without_link();
            }
            !was_its || !special.waiting.is_empty() || special.slot.is_opening()
        });
    }

    /// The node requests that have waited for a link.
    pub(super) fn take_waiting(&mut self, node: NodeIndex, kind: &LinkKind) -> Vec<NodeRequestKey> {
        match kind {
            LinkKind::Shared(_) => std::mem::take(&mut self.waiting),
            kind => match self.special_mut(node, kind) {
                Some(special) => std::mem::take(&mut special.waiting),
                None => Vec::new(),
            },
        }
    }

    fn special_mut(&mut self, node: NodeIndex, kind: &LinkKind) -> Option<&mut Special> {
        let mut special = self.special.iter_mut();
        special.find(|special| special.kind == *kind && special.node == node)
    }

    /// Forgets the links that nobody has wanted for long, and returns those that are up.
    pub(super) fn drop_idle_special(
        &mut self,
        links: &SecondaryMap<LinkKey, Link>,
        now: Instant,
    ) -> Vec<LinkKey> {
        let mut idle = Vec::new();
        self.special.retain(|special| {
            let old = now.saturating_duration_since(special.used) > IDLE_SPECIAL;
            let is_idle = old && special.is_idle(links);
            if is_idle {
                idle.extend(special.slot.link());
            }
            !is_idle
        });
        idle
    }
}
