//! Which links are opened, and which are closed because nobody needs them.

#[cfg(test)]
mod tests;

use helenus_policy::ring::NodeIndex;

use crate::context::Context;
use crate::keys::{LinkKey, PoolKey};
use crate::upstream::connect::kind::LinkKind;
use crate::upstream::link::{Closing, Link, Tenure};
use crate::upstream::links::Links;
use crate::upstream::pool::Pool;
use crate::upstream::pool::places::is_needless;
use crate::upstream::pool::slot::Slot;

impl Links {
    /// Opens what is missing, closes what nobody needs.
    pub(crate) fn maintain(&mut self, cx: &mut Context) {
        self.close_needless(cx);
        for (pool, node, kind) in self.replace(cx) {
            self.ask_for(cx, pool, node, kind);
        }
        let (mut unused, mut idle) = (Vec::new(), Vec::new());
        for (key, pool) in &mut self.pools {
            idle.extend(pool.drop_idle_special(&self.open, cx.now));
            pool.is_postponed = false;
            if pool.is_unused(cx.now) {
                unused.push(key);
            }
        }
        let nodes = cx.snapshot.nodes().count();
        self.open_places(cx, 0..nodes);
        for key in unused {
            self.close_pool(cx, key);
        }
        for link in idle {
            self.kill(cx, link, Closing::NotNeeded);
        }
    }

    /// Closes links to nodes that have left, or that may not serve any more, and those that speak another
    /// version than nodes do by now, once they are idle.
    fn close_needless(&mut self, cx: &mut Context) {
        let is_needless = |link: &Link| {
            is_needless(cx, link.node)
                || link.version != cx.snapshot.version()
                || link.tenure == Tenure::Over
        };
        let links = self.open.iter();
        let idle = links.filter(|(_, link)| link.in_flight() == 0 && is_needless(link));
        let idle: Vec<LinkKey> = idle.map(|(key, _)| key).collect();
        for link in idle {
            self.kill(cx, link, Closing::NotNeeded);
        }
    }

    /// Has the links to nodes replaced, one after the other.
    pub(crate) fn renew(&mut self, cx: &mut Context, is_meant: impl Fn(NodeIndex) -> bool) {
        for link in self.open.values_mut() {
            if is_meant(link.node) && link.tenure != Tenure::Over {
                link.tenure = Tenure::Ends { from: cx.now };
            }
        }
        self.maintain(cx);
    }

    /// Links that are to be replaced and whose successors are to be opened now: for each role one at a time. They
    /// keep their places, and get requests, until those are there.
    fn replace(&mut self, cx: &Context) -> Vec<(PoolKey, NodeIndex, LinkKind)> {
        let due_since = |link: &Link| match link.tenure {
            Tenure::Ends { from } if from <= cx.now && link.closing.is_none() => Some(from),
            _ => None,
        };
        if !self.open.values().any(|link| due_since(link).is_some()) {
            return Vec::new();
        }
        let mut room = self.room(cx);
        let mut wanted = Vec::new();
        for (key, pool) in &mut self.pools {
            if pool.is_renewing() || !pool.may_open(&cx.snapshot) {
                continue;
            }
            let needs_login = !pool.identity.is_anonymous();
            // Where no new one could be opened, the old one is better than none. Those that could not be replaced
            // come after all that have not been tried.
            let open = &self.open;
            let due = pool.all_links().filter_map(|at| {
                let link = open.get(at)?;
                let since = due_since(link)?;
                let health = self.health.get(link.node.as_usize())?;
                let has_room = room.get(link.node.as_usize()).is_some_and(|room| *room > 0);
                let may = pool.may_connect(cx, link.node, health) && (has_room || !needs_login);
                may.then_some((since, link))
            });
            let first = due.min_by_key(|(since, _)| *since);
            let Some((node, kind)) = first.map(|(_, link)| (link.node, link.kind.clone())) else {
                continue;
            };
            if let Some(slot) = pool.slot_mut(node, &kind)
                && let Slot::Up(link) = *slot
            {
                *slot = Slot::Renewing(link);
                room[node.as_usize()] = room[node.as_usize()].saturating_sub(needs_login.into());
                self.health[node.as_usize()].note_try(cx.now);
                wanted.push((key, node, kind));
            }
        }
        wanted
    }

    fn close_pool(&mut self, cx: &mut Context, key: PoolKey) {
        // A link being opened would find the pool gone, and requests that wait for a link would be forgotten:
        // also where none is being opened, as it was postponed.
        let is_needed = |pool: &Pool| pool.is_opening() || !pool.waiting.is_empty();
        if self.pools.get(key).is_none_or(is_needed) {
            return;
        }
        self.kill_all_of(cx, key, Closing::NotNeeded);
        self.pools.remove(key);
    }
}
