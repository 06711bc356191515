//! Which places for shared links are filled next.
//!
//! A link of a role costs its node a login: one bcrypt, tens of milliseconds of CPU. After a handover, or
//! when a node is back, links of all roles are wanted at once. So a node is asked for few at a time; the
//! other places are postponed until one of these is up or has failed. Roles without any link come first,
//! with one each, and when these are on their way with one more at another node if the first hangs; among
//! equals those whose last attempt has not failed, then those that requests wait for, then those with the most
//! clients.

use std::cmp::Reverse;
use std::ops::Range;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use rustc_hash::FxHashMap;

use crate::context::Context;
use crate::keys::PoolKey;
use crate::upstream::connect::connection::Purpose;
use crate::upstream::connect::kind::LinkKind;
use crate::upstream::health::Health;
use crate::upstream::links::Links;
use crate::upstream::pool::Pool;
use crate::upstream::pool::slot::Slot;

/// How long a role's first link may be on its way before the role counts as one that has none.
const FIRST_LINK_GRACE: Duration = Duration::from_secs(1);

/// A role's first link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnItsWay {
    Soon,
    /// The node may not answer at all.
    TooLong,
}

/// A role, and the node and place of a link that is to be opened for it.
type Claim = (PoolKey, NodeIndex, usize);

/// Shared links of a role that each worker has to a node.
fn per_worker(cx: &Context) -> usize {
    let links = &cx.shared.config.links;
    links.per_node.div_ceil(cx.workers.max(1)).max(1)
}

/// True if a node has left, or may not serve any more.
pub(in crate::upstream) fn is_needless(cx: &Context, node: NodeIndex) -> bool {
    let remote = cx.snapshot.nodes().is_remote(node);
    cx.snapshot.nodes().is_gone(node) || remote && !cx.shared.config.cluster.allow_remote_dc
}

/// Logins for links that one worker has a node judge at a time: together with the other workers and nodes
/// `limits.logins_max`, but no fewer than one role wants.
fn logins_max(cx: &Context) -> usize {
    let nodes = cx.snapshot.nodes().by_index();
    let nodes = nodes.filter(|(node, _)| !is_needless(cx, *node));
    let sharers = (nodes.count() * cx.workers).max(1);
    let share = cx.shared.config.limits.logins_max / sharers;
    share.max(per_worker(cx))
}

impl Pool {
    /// True if a node may be connected to now.
    pub(in crate::upstream) fn may_connect(
        &self,
        cx: &Context,
        node: NodeIndex,
        health: &Health,
    ) -> bool {
        let pause = self.unjudged.get(&node);
        !is_needless(cx, node)
            && health.may_be_tried(cx.now)
            && pause.is_none_or(|pause| pause.until <= cx.now)
    }

    /// Empty places at a node that may be filled now, if logins do not matter.
    fn wanted(&self, cx: &Context, node: NodeIndex, health: &Health) -> usize {
        let Some(slots) = self.nodes.get(node.as_usize()) else {
            return 0;
        };
        if !self.may_connect(cx, node, health) {
            return 0;
        }
        let empty = slots.iter().filter(|slot| **slot == Slot::Empty).count();
        // A node that fails is tried with one connection at a time.
        match health.failures() {
            0 => empty,
            _ if slots.iter().any(|slot| slot.is_opening()) => 0,
            _ => empty.min(1),
        }
    }

    /// Marks an empty place at a node as connecting, and returns it.
    fn claim(&mut self, node: NodeIndex) -> Option<usize> {
        let slots = self.nodes.get_mut(node.as_usize())?;
        let place = slots.iter().position(|slot| *slot == Slot::Empty)?;
        slots[place] = Slot::Connecting;
        Some(place)
    }
}

impl Links {
    /// A login at a node is over, which makes room for others that were postponed.
    pub(crate) fn refill(&mut self, cx: &mut Context, node: NodeIndex) {
        if self.pools.values().any(|pool| pool.is_postponed) {
            let at = node.as_usize();
            self.open_places(cx, at..at + 1);
        }
    }

    /// Opens the links to these nodes that are missing, as far as there is room.
    pub(in crate::upstream) fn open_places(&mut self, cx: &mut Context, nodes: Range<usize>) {
        for (pool, node, place) in self.claim_places(cx, nodes) {
            self.ask_for(cx, pool, node, LinkKind::Shared(place));
        }
    }

    /// Marks the places as connecting whose links are to be opened now, and returns them.
    fn claim_places(&mut self, cx: &Context, nodes: Range<usize>) -> Vec<Claim> {
        let (all_nodes, per_worker) = (cx.snapshot.nodes().count(), per_worker(cx));
        let mut roles = Vec::new();
        for (key, pool) in &mut self.pools {
            if pool.is_unused(cx.now) || !pool.may_open(&cx.snapshot) {
                continue;
            }
            pool.nodes
                .resize_with(all_nodes, || vec![Slot::Empty; per_worker]);
            let is_waited_for = !pool.waiting.is_empty();
            let rank = (pool.has_failed, Reverse((is_waited_for, pool.sessions)));
            roles.push((rank, key));
        }
        roles.sort_by_key(|(rank, _)| *rank);
        let mut room = self.room(cx);
        let mut claims = Vec::new();
        let on_their_way = self.on_their_way(cx.now);
        for state in [None, Some(OnItsWay::TooLong)] {
            for (_, key) in &roles {
                if on_their_way.get(key).copied() == state
                    && let Some(node) = self.first_node(cx, *key, &nodes, &room)
                {
                    self.claim(cx, *key, node, 1, &mut room, &mut claims);
                }
            }
        }
        for (_, key) in &roles {
            for at in nodes.clone() {
                let node = NodeIndex(at as u16);
                self.claim(cx, *key, node, usize::MAX, &mut room, &mut claims);
            }
        }
        claims
    }

    /// How many more logins each node may be asked for.
    pub(in crate::upstream) fn room(&self, cx: &Context) -> Vec<usize> {
        let mut room = vec![logins_max(cx); cx.snapshot.nodes().count()];
        for connecting in self.connecting.values() {
            if let Purpose::Link(opening) = &connecting.purpose
                && opening.kind != LinkKind::Check
                && !opening.identity.is_anonymous()
                && let Some(room) = room.get_mut(opening.node.as_usize())
            {
                *room = room.saturating_sub(1);
            }
        }
        room
    }

    /// Roles for which a link is on its way.
    fn on_their_way(&self, now: Instant) -> FxHashMap<PoolKey, OnItsWay> {
        let mut found = FxHashMap::default();
        for connecting in self.connecting.values() {
            let Purpose::Link(opening) = &connecting.purpose else {
                continue;
            };
            if !matches!(opening.kind, LinkKind::Shared(_)) {
                continue;
            }
            let state = found.entry(opening.pool).or_insert(OnItsWay::TooLong);
            if connecting.age(now) < FIRST_LINK_GRACE {
                *state = OnItsWay::Soon;
            }
        }
        found
    }

    /// Where a role that has no link gets its first one soonest: not at a node at which one is on its way.
    fn first_node(
        &self,
        cx: &Context,
        key: PoolKey,
        nodes: &Range<usize>,
        room: &[usize],
    ) -> Option<NodeIndex> {
        let pool = self.pools.get(key)?;
        let mut slots = pool.nodes.iter().flatten();
        if slots.any(|slot| slot.link().is_some()) {
            return None;
        }
        let usable = nodes.clone().filter_map(|at| {
            let (node, health, room) = (NodeIndex(at as u16), self.health.get(at)?, room.get(at)?);
            let is_awaited = pool.nodes.get(at)?.iter().any(|slot| slot.is_opening());
            let is_usable = *room > 0 && !is_awaited && pool.wanted(cx, node, health) > 0;
            let is_remote = cx.snapshot.nodes().is_remote(node);
            let rank = (health.failures() > 0, is_remote, Reverse(*room));
            is_usable.then_some((rank, node))
        });
        Some(usable.min_by_key(|(rank, _)| *rank)?.1)
    }

    /// Claims up to `most` places of a role at a node, as far as there is room.
    fn claim(
        &mut self,
        cx: &Context,
        key: PoolKey,
        node: NodeIndex,
        most: usize,
        room: &mut [usize],
        claims: &mut Vec<Claim>,
    ) {
        let at = node.as_usize();
        let (Some(pool), Some(health)) = (self.pools.get_mut(key), self.health.get_mut(at)) else {
            return;
        };
        let wanted = pool.wanted(cx, node, health).min(most);
        let mut granted = wanted;
        // Others need no login.
        if !pool.identity.is_anonymous() {
            granted = wanted.min(room[at]);
            room[at] -= granted;
        }
        for _ in 0..granted {
            let Some(place) = pool.claim(node) else {
                break;
            };
            health.note_try(cx.now);
            claims.push((key, node, place));
        }
        pool.is_postponed |= granted < wanted;
    }
}

#[cfg(test)]
mod tests;
