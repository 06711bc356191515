//! Which links are opened, and which are closed because nobody needs them.

#[cfg(test)]
mod tests;

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Locality;

use crate::context::Context;
use crate::keys::{LinkKey, PoolKey};
use crate::node::health::Health;
use crate::node::kind::LinkKind;
use crate::node::link::{Link, Tenure};
use crate::node::links::Links;
use crate::node::pool::Pool;
use crate::node::slot::Slot;

/// Shared links of a role that each worker has to a node.
fn per_worker(cx: &Context) -> usize {
    let links = &cx.shared.config.links;
    links.per_node.div_ceil(cx.workers.max(1)).max(1)
}

/// Whether a node has left, or may not serve any more.
fn is_needless(cx: &Context, node: NodeIndex) -> bool {
    let remote = cx.snapshot.places.locality(node) == Some(Locality::Remote);
    cx.snapshot.is_gone(node) || remote && !cx.shared.config.cluster.allow_remote_dc
}

impl Pool {
    /// Whether a node may be connected to now.
    fn may_connect(&self, cx: &Context, node: NodeIndex, health: &Health) -> bool {
        let pause = self.unjudged.get(&node);
        !is_needless(cx, node)
            && health.may_be_tried(cx.now)
            && pause.is_none_or(|pause| pause.until <= cx.now)
    }

    /// Marks the places as connecting whose links are to be opened now, and returns them.
    fn claim_places(&mut self, cx: &Context, health: &mut [Health]) -> Vec<(NodeIndex, usize)> {
        let mut claimed = Vec::new();
        let per_worker = per_worker(cx);
        let nodes = cx.snapshot.nodes.len();
        self.nodes
            .resize_with(nodes, || vec![Slot::Empty; per_worker]);
        for at in 0..nodes {
            let (node, health) = (NodeIndex(at as u16), &mut health[at]);
            if !self.may_connect(cx, node, health) {
                continue;
            }
            let slots = &mut self.nodes[at];
            // A node that fails is tried with one connection at a time.
            let at_once = match health.failures() {
                0 => usize::MAX,
                _ if slots.contains(&Slot::Connecting) => 0,
                _ => 1,
            };
            let places = slots.iter_mut().enumerate();
            let empty = places.filter(|(_, slot)| **slot == Slot::Empty);
            for (place, slot) in empty.take(at_once) {
                *slot = Slot::Connecting;
                health.note_try(cx.now);
                claimed.push((node, place));
            }
        }
        claimed
    }
}

impl Links {
    /// Opens what is missing, closes what nobody needs.
    pub(crate) fn maintain(&mut self, cx: &mut Context) {
        self.close_needless(cx);
        self.replace(cx);
        let (mut wanted, mut unused, mut idle) = (Vec::new(), Vec::new(), Vec::new());
        for (key, pool) in &mut self.pools {
            idle.extend(pool.drop_idle_special(&self.open, cx.now));
            if pool.is_unused(cx.now) {
                unused.push(key);
            } else if pool.may_open(&cx.snapshot) {
                let claimed = pool.claim_places(cx, &mut self.health);
                wanted.extend(claimed.into_iter().map(|place| (key, place)));
            }
        }
        for (pool, (node, place)) in wanted {
            self.ask_for(cx, pool, node, LinkKind::Shared(place));
        }
        for key in unused {
            self.close_pool(cx, key);
        }
        for link in idle {
            self.kill(cx, link);
        }
    }

    /// Closes links to nodes that have left, or that may not serve any more, and those that speak another
    /// version than nodes do by now, once they are idle.
    fn close_needless(&mut self, cx: &mut Context) {
        let is_needless = |link: &Link| {
            is_needless(cx, link.node)
                || link.version != cx.snapshot.version
                || link.tenure == Tenure::Over
        };
        let links = self.open.iter();
        let idle = links.filter(|(_, link)| link.in_flight == 0 && is_needless(link));
        let idle: Vec<LinkKey> = idle.map(|(key, _)| key).collect();
        for link in idle {
            self.kill(cx, link);
        }
    }

    /// Has the links to nodes replaced, one after the other.
    pub(crate) fn renew(&mut self, cx: &mut Context, is_meant: impl Fn(NodeIndex) -> bool) {
        for link in self.open.values_mut() {
            let shared = matches!(link.kind, LinkKind::Shared(_));
            if is_meant(link.node) && link.tenure == Tenure::Stays {
                // The others are closed as soon as they are idle, and opened again when they are wanted.
                link.tenure = match shared {
                    true => Tenure::Ends,
                    false => Tenure::Over,
                };
            }
        }
        self.maintain(cx);
    }

    /// Takes a link that is to be replaced out of its place, for each role one at a time: meanwhile requests go
    /// over the others, or wait for the new one.
    fn replace(&mut self, cx: &Context) {
        if self.open.values().all(|link| link.tenure != Tenure::Ends) {
            return;
        }
        for pool in self.pools.values_mut().filter(|pool| !pool.is_connecting()) {
            let open = &self.open;
            let mut nodes = (0..pool.nodes.len()).map(|at| NodeIndex(at as u16));
            let ending = |slots: &[Slot]| {
                slots.iter().position(|slot| {
                    let link = slot.link().and_then(|link| open.get(link));
                    link.is_some_and(|link| link.tenure == Tenure::Ends)
                })
            };
            let found = nodes.find_map(|node| {
                let health = self.health.get(node.as_usize())?;
                let at = ending(pool.nodes.get(node.as_usize())?)?;
                // Where no new one could be opened, the old one is better than none.
                pool.may_connect(cx, node, health).then_some((node, at))
            });
            if let Some((node, at)) = found
                && let Some(slot) = pool.nodes[node.as_usize()].get_mut(at)
                && let Slot::Up(link) = std::mem::replace(slot, Slot::Empty)
                && let Some(link) = self.open.get_mut(link)
            {
                link.tenure = Tenure::Over;
            }
        }
    }

    fn close_pool(&mut self, cx: &mut Context, key: PoolKey) {
        // What is being opened would find the pool gone, and what waits for it would be forgotten.
        if self.pools.get(key).is_none_or(Pool::is_opening) {
            return;
        }
        self.kill_all_of(cx, key);
        self.pools.remove(key);
    }
}
