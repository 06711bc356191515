//! Bytes of links: which are to be written, and what comes in.

use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Decoder, Encoder, Header};

use crate::context::Context;
use crate::keys::{LinkKey, NodeRequestKey, PoolKey};
use crate::output::{LinkEnd, Output, Sent, Then};
use crate::pipeline::node_request::Flight;
use crate::pipeline::retry::resendable::Loss;
use crate::stats::{add, sub};
use crate::upstream::connect::connection::Opening;
use crate::upstream::connect::kind::{LinkKind, OpenedLink};
use crate::upstream::link::{Closing, Link, Tenure};
use crate::upstream::links::Links;

/// A link with this much to send does not wait for more.
const ENOUGH_BYTES: usize = 64 * 1024;
/// A node that has just lost a link is tried last for so long.
const SUSPECT_AFTER_LOSS: Duration = Duration::from_secs(1);

/// A link that is gone.
pub(crate) struct Lost {
    link: Link,
    end: LinkEnd,
}

impl Lost {
    /// The node requests whose answers will not come.
    pub(crate) fn node_requests(&self) -> impl Iterator<Item = NodeRequestKey> + '_ {
        self.link.node_requests()
    }

    pub(crate) fn node(&self) -> NodeIndex {
        self.link.node
    }

    /// The loss of one of them.
    pub(crate) fn loss(&self, flight: &Flight) -> Loss {
        let may_have_reached_it = self.link.writes > flight.behind;
        match (may_have_reached_it, self.end) {
            (false, _) => Loss::NotBegun,
            (true, LinkEnd::ByNode) => Loss::Over,
            (true, LinkEnd::Cut) => Loss::MayCome,
        }
    }
}

impl Links {
    /// Takes over a connection that is ready.
    pub(super) fn insert(
        &mut self,
        cx: &Context,
        key: LinkKey,
        opening: &Opening,
        opened: OpenedLink,
    ) {
        add(&self.stats(opening.node).links_up, 1);
        let Opening {
            pool, node, kind, ..
        } = opening;
        let link = Link::new(cx, *pool, *node, kind.clone(), opened);
        self.open.insert(key, link);
    }

    /// Closes a link on purpose.
    pub(super) fn kill(&mut self, cx: &mut Context, key: LinkKey, why: Closing) {
        if let Some(link) = self.open.get_mut(key) {
            link.closing.get_or_insert(why);
            cx.ask(Output::Link(key));
        }
    }

    pub(crate) fn kill_all_of(&mut self, cx: &mut Context, pool: PoolKey, why: Closing) {
        // Those that have been replaced, too.
        let is_of = |(key, link): (LinkKey, &Link)| (link.pool == pool).then_some(key);
        let links: Vec<LinkKey> = self.open.iter().filter_map(is_of).collect();
        for link in links {
            self.kill(cx, link, why);
        }
    }

    /// A link's connection is gone.
    pub(crate) fn lose(
        &mut self,
        cx: &mut Context,
        key: LinkKey,
        end: LinkEnd,
        why: &str,
    ) -> Option<Lost> {
        let link = self.open.remove(key)?;
        self.forget(cx, key);
        let address = cx.snapshot.nodes().address_of(link.node);
        let what = match link.closing {
            None | Some(Closing::Broken) => "lost",
            Some(_) => "closed",
        };
        tracing::info!(node = %address, in_flight = link.in_flight(), "link {what}: {why}");
        let health = &mut self.health[link.node.as_usize()];
        sub(&health.stats().links_up, 1);
        // Links of a pool that is no more, and those that were replaced, were closed on purpose.
        let was_wanted = self.pools.contains_key(link.pool) && link.tenure != Tenure::Over;
        if matches!(link.kind, LinkKind::Shared(_)) && was_wanted {
            health.suspect(cx.now + SUSPECT_AFTER_LOSS);
        }
        if let Some(pool) = self.pools.get_mut(link.pool) {
            pool.empty_slot(key, link.node);
        }
        Some(Lost { link, end })
    }

    /// True if it is a link.
    pub(crate) fn is_up(&self, key: LinkKey) -> bool {
        self.open.contains_key(key)
    }

    /// The node requests that nodes have, or will have with the next writes.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = NodeRequestKey> + '_ {
        let busy = self.open.values().filter(|link| link.in_flight() > 0);
        busy.flat_map(Link::node_requests)
    }

    /// The reason for which a link is of no use any more, and only waits to be closed; `None` if it is in use.
    pub(crate) fn closing(&self, key: LinkKey) -> Option<Closing> {
        self.open.get(key)?.closing
    }

    /// True if a connection waits to take more bytes.
    pub(crate) fn is_blocked(&self, key: LinkKey) -> bool {
        match self.open.get(key) {
            Some(link) => link.write_blocked,
            None => self.is_greeting_blocked(key),
        }
    }

    /// Bytes have come: the decoder that is to have them, and from which node they are.
    #[inline]
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        key: LinkKey,
        bytes: usize,
    ) -> Option<(NodeIndex, Decoder)> {
        let link = self.open.get_mut(key)?;
        let health = &mut self.health[link.node.as_usize()];
        let counters = &health.stats().counters;
        add(&counters.reads, 1);
        add(&counters.bytes_in, bytes as u64);
        link.last_heard = now;
        if link.probed.take().is_some() {
            health.trust(now);
        }
        Some((link.node, link.lend_decoder()))
    }

    /// Brings back the decoder that [`Links::hear`] has lent. If there is no memory for the answer that has come
    /// in part, it is skipped: its header is all that is left of it.
    #[inline]
    pub(crate) fn bring_back(
        &mut self,
        cx: &Context,
        key: LinkKey,
        node: NodeIndex,
        mut decoder: Decoder,
    ) -> Option<Header> {
        self.stats(node).packed_in.add(decoder.packed());
        self.open.get_mut(key)?.bring_back(&cx.memory, decoder)
    }

    /// True if any link has something to be written.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The next link to be written to.
    pub(crate) fn next_to_write(&mut self) -> Option<LinkKey> {
        self.dirty.pop()
    }

    /// The links whose window has passed; also how long the next one must still wait.
    pub(crate) fn due(&mut self, now: Instant) -> (Vec<LinkKey>, Option<Duration>) {
        let window = self.pace.window();
        let (mut due, mut rest) = (Vec::new(), None);
        self.dirty.retain(|&key| {
            let wait = self.open.get(key).and_then(|link| {
                let left = window.checked_sub(now.saturating_duration_since(link.dirty_since));
                left.filter(|left| !left.is_zero() && link.pending_len() < ENOUGH_BYTES)
            });
            match wait {
                Some(wait) => rest = Some(rest.map_or(wait, |rest: Duration| rest.min(wait))),
                None => due.push(key),
            }
            wait.is_some()
        });
        (due, rest)
    }

    /// The bytes to be written to a connection.
    #[inline]
    pub(crate) fn bytes(&mut self, key: LinkKey) -> Option<&mut Encoder> {
        if !self.open.contains_key(key) {
            return self.greeting_bytes(key);
        }
        let link = self.open.get_mut(key)?;
        link.dirty = false;
        Some(&mut link.encoder)
    }

    /// Notes the result of an attempt to write a connection's bytes.
    #[inline]
    pub(crate) fn note_sent(&mut self, cx: &mut Context, key: LinkKey, sent: &Sent) {
        let Some(link) = self.open.get_mut(key) else {
            return self.note_greeting_sent(cx, key, sent);
        };
        link.note_sent(sent, self.health[link.node.as_usize()].stats());
        if sent.then == Then::Broken {
            self.kill(cx, key, Closing::Broken);
        }
    }

    /// A connection has another keyspace now. Only USE may do that, over links of its own; whatever else
    /// has done it, nobody uses that connection again.
    pub(crate) fn quarantine(&mut self, cx: &mut Context, key: LinkKey) {
        let link = self.open.get(key);
        if link.is_some_and(|link| link.kind != LinkKind::Use) {
            tracing::error!("a shared connection has changed its keyspace: closing it");
            self.kill(cx, key, Closing::Keyspace);
        }
    }
}
