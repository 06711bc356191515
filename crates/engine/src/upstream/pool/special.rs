//! Links outside the shared ones: for one keyspace, for USE itself, for what is large.

use helenus_policy::ring::NodeIndex;

use crate::context::Context;
use crate::keys::{LinkKey, NodeRequestKey, PoolKey};
use crate::upstream::connect::kind::LinkKind;
use crate::upstream::link::{Closing, Tenure};
use crate::upstream::links::Links;
use crate::upstream::pool::WAITING_MAX;
use crate::upstream::pool::slot::{Slot, Special};

/// See [`Links::special_link`].
pub(crate) enum SpecialLink {
    Up(LinkKey),
    /// The request waits until it is open.
    Waits,
    /// There are as many as may be, all in use.
    TooMany,
    /// Too many requests wait for it to open.
    TooManyWait,
}

impl Links {
    /// The special link for a kind, opened on first use.
    pub(crate) fn special_link(
        &mut self,
        cx: &mut Context,
        pool: PoolKey,
        node: NodeIndex,
        kind: &LinkKind,
        request: NodeRequestKey,
    ) -> SpecialLink {
        let mut place = self.special_place(cx, pool, node, kind);
        if let Some(link) = place.as_ref().and_then(|place| place.slot.link()) {
            if self.closing(link).is_none() {
                return SpecialLink::Up(link);
            }
            // It is about to be closed.
            place = self.special_place(cx, pool, node, kind);
            if let Some(place) = &mut place {
                place.slot = place.slot.without_link();
            }
        }
        let Some(place) = place else {
            return SpecialLink::TooMany;
        };
        if place.waiting.len() >= WAITING_MAX {
            return SpecialLink::TooManyWait;
        }
        place.waiting.push(request);
        if place.slot == Slot::Empty {
            place.slot = Slot::Connecting;
            self.ask_for(cx, pool, node, kind.clone());
        }
        SpecialLink::Waits
    }

    /// The link for what is large; `None` while there is none, but then one is on its way.
    pub(crate) fn bulk_link(
        &mut self,
        cx: &mut Context,
        pool: PoolKey,
        node: NodeIndex,
    ) -> Option<LinkKey> {
        let place = self.special_place(cx, pool, node, &LinkKind::Bulk)?;
        match place.slot {
            Slot::Up(link) | Slot::Renewing(link) => return Some(link),
            Slot::Connecting => return None,
            Slot::Empty => place.slot = Slot::Connecting,
        }
        self.ask_for(cx, pool, node, LinkKind::Bulk);
        None
    }

    /// Special links of a pool that have given up their places and still carry something.
    fn special_replaced(&self, pool: PoolKey) -> usize {
        let replaced = self.open.values().filter(|link| {
            link.pool == pool
                && link.tenure == Tenure::Over
                && !matches!(link.kind, LinkKind::Shared(_))
        });
        replaced.count()
    }

    /// The place of a special link, made on first use. When there are too many, with those that have been replaced, the
    /// one goes that has not been wanted for longest; `None` if all are in use.
    fn special_place(
        &mut self,
        cx: &mut Context,
        pool: PoolKey,
        node: NodeIndex,
        kind: &LinkKind,
    ) -> Option<&mut Special> {
        let is_wanted = |special: &Special| special.kind == *kind && special.node == node;
        let known = self.pools.get(pool)?.special.iter().position(is_wanted);
        let at = match known {
            Some(at) => at,
            None => {
                let replaced = self.special_replaced(pool);
                let special = &mut self.pools.get_mut(pool)?.special;
                let mut closed = None;
                if special.len() + replaced >= cx.shared.config.limits.special_links_max {
                    let idle = special.iter().enumerate();
                    let (oldest, _) = idle
                        .filter(|(_, special)| special.is_idle(&self.open))
                        .min_by_key(|(_, special)| special.used)?;
                    closed = special.swap_remove(oldest).slot.link();
                }
                special.push(Special {
                    node,
                    kind: kind.clone(),
                    slot: Slot::Empty,
                    waiting: Vec::new(),
                    used: cx.now,
                });
                let at = special.len() - 1;
                if let Some(link) = closed {
                    self.kill(cx, link, Closing::NotNeeded);
                }
                at
            }
        };
        let place = self.pools.get_mut(pool)?.special.get_mut(at)?;
        place.used = cx.now;
        Some(place)
    }
}

#[cfg(test)]
mod tests;
