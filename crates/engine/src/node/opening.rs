//! How a connection to a node becomes a link.

use crate::context::Context;
use crate::keys::{LinkKey, NodeRequestKey};
use crate::node::connection::Opening;
use crate::node::kind::{LinkKind, OpenError, OpenedLink};
use crate::node::links::Links;
use crate::node::slot::Slot;
use crate::node::slot::Special;
use crate::stats::add;

/// What has become of a connection that was wanted.
pub(super) struct Opened {
    /// The node requests that have waited for it.
    pub(super) waiting: Vec<NodeRequestKey>,
    pub(super) next: Next,
}

/// What is to be done with node requests that have waited for a link.
pub(super) enum Next {
    /// It is up: they are routed.
    Route,
    /// Whatever shared link is up may take them; otherwise they wait for the next one.
    AnyLink,
    /// Another node may be luckier.
    AnyNode,
    /// Their role has none any more.
    NoLink,
    /// They fail as the link did.
    Fail { code: i32, message: String },
}

impl Links {
    /// A connection that was wanted is ready, or cannot be had; `None` if nobody wants it any more.
    pub(super) fn take_opened(
        &mut self,
        cx: &mut Context,
        key: LinkKey,
        opening: &Opening,
        result: Result<OpenedLink, OpenError>,
    ) -> Option<Opened> {
        let (node, kind) = (opening.node, &opening.kind);
        let pool = self.pools.get_mut(opening.pool)?;
        match result {
            Ok(_) if *kind == LinkKind::Check => None,
            Ok(_) if opening.identity.has_ended() => {
                pool.set_slot(node, kind, Slot::Empty);
                Some(Opened {
                    waiting: pool.take_waiting(node, kind),
                    next: Next::NoLink,
                })
            }
            Ok(link) => self.take_link(cx, key, opening, link),
            Err(e) => self.take_failure(cx, opening, e),
        }
    }

    fn take_link(
        &mut self,
        cx: &Context,
        key: LinkKey,
        opening: &Opening,
        link: OpenedLink,
    ) -> Option<Opened> {
        let (node, kind) = (opening.node, &opening.kind);
        let health = &mut self.health[node.as_usize()];
        if health.failures() > 0 {
            let address = cx.snapshot.nodes[node.as_usize()].address;
            tracing::info!(node = %address, "connected again");
        }
        health.clear(cx.now);
        add(&health.stats().counters.links_opened, 1);
        self.insert(cx, key, opening, link);
        let pool = self.pools.get_mut(opening.pool)?;
        pool.set_slot(node, kind, Slot::Up(key));
        Some(Opened {
            waiting: pool.take_waiting(node, kind),
            next: match kind {
                LinkKind::Shared(_) => Next::AnyLink,
                _ => Next::Route,
            },
        })
    }

    fn take_failure(
        &mut self,
        cx: &mut Context,
        opening: &Opening,
        why: OpenError,
    ) -> Option<Opened> {
        let (node, kind) = (opening.node, &opening.kind);
        let is_shared = matches!(kind, LinkKind::Shared(_));
        add(&self.stats(node).counters.links_failed, 1);
        if !why.is_of_credentials() && is_shared {
            self.back_off(cx, node, &why.to_string());
        }
        let pool = self.pools.get_mut(opening.pool)?;
        pool.set_slot(node, kind, Slot::Empty);
        // What waits for any link may still get another one.
        let waiting = match is_shared && pool.is_connecting() {
            true => Vec::new(),
            false => pool.take_waiting(node, kind),
        };
        let is_its = |place: &Special| place.kind == *kind && place.node == node;
        pool.special.retain(|place| !is_its(place));
        let next = match (kind, why) {
            // The keyspace does not exist, most likely.
            (LinkKind::Keyspace(_), OpenError::Node { code, message }) => {
                Next::Fail { code, message }
            }
            (LinkKind::Shared(_), _) => Next::AnyLink,
            _ => Next::AnyNode,
        };
        Some(Opened { waiting, next })
    }
}
