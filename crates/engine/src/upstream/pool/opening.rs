//! How a connection to a node becomes a link.

use std::time::Duration;

use crate::context::Context;
use crate::keys::{LinkKey, NodeRequestKey};
use crate::stats::add;
use crate::upstream::connect::connection::Opening;
use crate::upstream::connect::kind::{LinkKind, OpenError, OpenedLink};
use crate::upstream::link::Tenure;
use crate::upstream::links::Links;
use crate::upstream::pool::slot::Special;

/// Until a link is to be replaced again whose replacement could not be opened.
const RENEWAL_PAUSE: Duration = Duration::from_secs(5);

/// The result of waiting for a connection.
pub(crate) struct Opened {
    /// The node requests that have waited for it.
    pub(crate) waiting: Vec<NodeRequestKey>,
    pub(crate) next: Next,
}

/// The next step for node requests that have waited for a link.
pub(crate) enum Next {
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
    pub(crate) fn take_opened(
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
                pool.end_opening(node, kind);
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
            let address = cx.snapshot.nodes().address_of(node);
            tracing::info!(node = %address, "connected again");
        }
        health.clear(cx.now);
        add(&health.stats().counters.links_opened, 1);
        self.insert(cx, key, opening, link);
        let pool = self.pools.get_mut(opening.pool)?;
        pool.has_failed = false;
        let replaced = pool.put_up(node, kind, key);
        if let Some(old) = replaced.and_then(|old| self.open.get_mut(old)) {
            old.tenure = Tenure::Over;
        }
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
        let pool = self.pools.get_mut(opening.pool);
        if let Some(kept) = pool.and_then(|pool| pool.end_opening(node, kind)) {
            return self.keep(cx, opening, kept, &why);
        }
        if !why.is_of_credentials() && is_shared {
            match &why {
                OpenError::NoMeans(why) => self.back_off_without_means(cx, node, why),
                why => self.back_off(cx, node, &why.to_string()),
            }
        }
        let pool = self.pools.get_mut(opening.pool)?;
        pool.has_failed |= is_shared;
        // Requests that wait for any link may still get another one.
        let waiting = match is_shared && pool.awaits_link() {
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

    /// A link could not be replaced: it is better than none.
    fn keep(
        &mut self,
        cx: &Context,
        opening: &Opening,
        kept: LinkKey,
        why: &OpenError,
    ) -> Option<Opened> {
        let (node, kind) = (opening.node, &opening.kind);
        if let Some(attempts) = self.stats(node).failed_renewals.note(cx.now) {
            let address = cx.snapshot.nodes().address_of(node);
            tracing::warn!(node = %address, attempts, "connections are kept, as no others can be opened: {why}");
        }
        if let Some(link) = self.open.get_mut(kept) {
            let from = cx.now + RENEWAL_PAUSE;
            link.tenure = Tenure::Ends { from };
        }
        let pool = self.pools.get_mut(opening.pool)?;
        Some(Opened {
            waiting: pool.take_waiting(node, kind),
            next: match kind {
                LinkKind::Shared(_) => Next::AnyLink,
                _ => Next::Route,
            },
        })
    }
}
