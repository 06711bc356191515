//! What whoever runs the engine tells it of links, and asks of them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Encoder, Flow};

use crate::engine::Engine;
use crate::keys::{LinkKey, NodeRequestKey, PoolKey, SessionKey};
use crate::node::kind::{OpenError, OpenedLink};
use crate::node::opening::{Next, Opened};
use crate::node_request::Target;
use crate::output::{Opening, Sent};

impl Engine {
    /// A connection that was wanted is ready, or cannot be had. Returns the link that it has become,
    /// unless it is not needed any more.
    pub fn on_link_opened(
        &mut self,
        now: Instant,
        opening: &Opening,
        result: Result<OpenedLink, OpenError>,
    ) -> Option<LinkKey> {
        self.set_now(now);
        let failed = result.as_ref().err();
        if self.links.note_judgement(&mut self.cx, opening, failed) {
            self.check_credentials();
        }
        let opened = self.links.take_opened(&mut self.cx, opening, result);
        let link = opened.and_then(|opened| self.end_waiting(opening.pool, opened));
        self.settle();
        link
    }

    /// Goes on with the node requests that have waited for a link, which is returned if it is up.
    fn end_waiting(&mut self, pool: PoolKey, opened: Opened) -> Option<LinkKey> {
        let Opened {
            link,
            waiting,
            next,
        } = opened;
        for key in waiting {
            match &next {
                Next::Route => self.route(key),
                Next::AnyLink => self.resume(pool, key),
                Next::AnyNode => self.try_any_node(key),
                Next::NoLink => self.fail_unavailable(key),
                Next::Fail { code, message } => self.fail_untried(key, *code, message, &[]),
            }
        }
        link
    }

    /// Goes on with a node request that has waited for a link, now that one is up or has failed. It
    /// waits on for those that are still being opened if none that is up may serve it.
    fn resume(&mut self, pool: PoolKey, key: NodeRequestKey) {
        let patience = Duration::from_millis(self.cx.shared.config.links.connect_timeout_ms);
        let now = self.cx.now;
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return;
        };
        request.target = Target::ANY;
        let patient = now.saturating_duration_since(request.time_runs_since) < patience;
        let plan = self.plan(key);
        if plan.is_none_or(|plan| plan.is_empty()) && patient && self.links.wait_for_link(pool, key)
        {
            return;
        }
        if let Some(request) = self.requests.nodes.get_mut(key) {
            // It does not wait once more.
            request.attempts = 1;
        }
        self.route(key);
    }

    fn try_any_node(&mut self, key: NodeRequestKey) {
        if let Some(request) = self.requests.nodes.get_mut(key) {
            request.target = Target::ANY;
            // Or none of them will ever be.
            request.attempts += 1;
        }
        self.route(key);
    }

    /// Has credentials checked again that are in use, and closes what was opened with those that no
    /// longer stand.
    pub(crate) fn check_credentials(&mut self) {
        for pool in self.links.check_credentials(&mut self.cx) {
            self.clients.finish_all_of(&mut self.cx, pool);
            self.links.kill_all_of(&mut self.cx, pool);
        }
    }

    /// Bytes have come from a node.
    pub fn on_link_bytes(&mut self, now: Instant, key: LinkKey, bytes: &[u8]) {
        self.set_now(now);
        let Some((node, mut decoder)) = self.links.hear(now, key, bytes.len()) else {
            return;
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = decoder.feed(bytes, &mut scratch, |header, body| {
            self.on_node_envelope(key, header, body);
            self.settle();
            Flow::Continue
        });
        self.scratch = scratch;
        self.links.bring_back(key, node, decoder);
        if let Err(why) = result {
            self.on_link_lost(key, &why.to_string());
            self.settle();
        }
    }

    /// A node has closed its end, or the connection has broken.
    pub fn on_link_closed(&mut self, now: Instant, key: LinkKey, why: &str) {
        self.set_now(now);
        self.on_link_lost(key, why);
        self.settle();
    }

    /// Whether there is still something to be read from a link or written to it; if not, its
    /// connection is to be closed.
    pub fn is_link_open(&mut self, key: LinkKey) -> bool {
        if self.links.is_dead(key) {
            self.on_link_lost(key, "the connection broke");
            self.settle();
        }
        self.links.is_open(key)
    }

    fn on_link_lost(&mut self, key: LinkKey, why: &str) {
        let Some(lost) = self.links.lose(&mut self.cx, key, why) else {
            return;
        };
        for node_request in lost.node_requests() {
            self.on_node_request_lost(node_request, &lost, why);
        }
    }

    /// Probes links that have gone silent, and closes those that stay so.
    pub(crate) fn check_links(&mut self) {
        let found = self.links.check(&self.cx);
        for key in found.stuck {
            self.rescue_requests(key);
        }
        for (key, why) in found.lost {
            self.on_link_lost(key, why);
        }
    }

    /// A node can be reached again: no need to wait for the next try.
    pub(crate) fn on_node_up(&mut self, address: SocketAddr) {
        let mut nodes = self.cx.snapshot.nodes.iter();
        if let Some(at) = nodes.position(|node| node.address == address && !node.gone) {
            self.links.on_node_up(&mut self.cx, NodeIndex(at as u16));
        }
    }

    /// Whether the connection of a link waits to take more bytes.
    pub fn is_link_blocked(&self, key: LinkKey) -> bool {
        self.links.is_blocked(key)
    }

    /// What is to be written to a link, to be followed by [`Engine::on_link_sent`].
    pub fn link_bytes(&mut self, key: LinkKey) -> Option<&mut Encoder> {
        self.links.bytes(key)
    }

    /// What became of an attempt to write a link's bytes.
    pub fn on_link_sent(&mut self, key: LinkKey, sent: Sent) {
        self.links.note_sent(&mut self.cx, key, &sent);
    }

    /// Whether anything waits to be written.
    pub fn has_unsent(&self) -> bool {
        self.links.has_unsent() || self.clients.has_unsent()
    }

    /// Whether queries wait for others that come a little later.
    pub fn has_window(&self) -> bool {
        self.links.has_window()
    }

    /// Whether everything leaves behind one connection's bytes.
    pub fn is_immediate(&self) -> bool {
        self.links.is_immediate()
    }

    /// The next link to be written to.
    pub fn next_link_to_write(&mut self) -> Option<LinkKey> {
        self.links.next_to_write()
    }

    /// The links whose window has passed; also how long the next one must still wait.
    pub fn links_due(&mut self, now: Instant) -> (Vec<LinkKey>, Option<Duration>) {
        self.links.due(now)
    }

    /// The next client to be written to.
    pub fn next_client_to_write(&mut self) -> Option<SessionKey> {
        self.clients.next_to_write()
    }
}
