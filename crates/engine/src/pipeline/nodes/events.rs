//! Calls about links by whoever runs the engine: events, and questions.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use helenus_wire::{Encoder, Flow};

use crate::keys::{LinkKey, SessionKey};
use crate::output::{LinkEnd, Sent};
use crate::pipeline::engine::Engine;

impl Engine {
    /// Bytes have come from a node.
    pub fn on_link_bytes(&mut self, now: Instant, key: LinkKey, bytes: &[u8]) {
        self.set_now(now);
        let Some((node, mut decoder)) = self.links.hear(now, key, bytes.len()) else {
            return self.on_greeting_bytes(key, bytes);
        };
        let mut scratch = self.take_scratch();
        let result = decoder.feed(bytes, &mut scratch, |header, body| {
            self.on_node_envelope(key, header, body);
            self.settle();
            Flow::Continue
        });
        self.give_back_scratch(scratch);
        if let Some(header) = self.links.bring_back(&self.cx, key, node, decoder) {
            self.on_node_envelope(key, header, &[]);
            self.settle();
        }
        if let Err(why) = result {
            self.on_link_lost(key, LinkEnd::Cut, &why.to_string());
            self.settle();
        }
    }

    /// A connection has ended. `ended`: how, and why in words. `advice`: what may be wrong if that happens before
    /// the node has said anything.
    pub fn on_link_closed(
        &mut self,
        now: Instant,
        key: LinkKey,
        ended: (LinkEnd, &str),
        advice: Option<&str>,
    ) {
        let (end, why) = ended;
        self.set_now(now);
        match self.links.is_up(key) {
            true => self.on_link_lost(key, end, why),
            false => self.on_greeting_lost(key, why, advice),
        }
        self.settle();
    }

    /// True if there is still something to be read from a connection to a node or written to it; if not,
    /// it is to be closed.
    pub fn is_link_open(&mut self, key: LinkKey) -> bool {
        if let Some(closing) = self.links.closing(key) {
            self.on_link_lost(key, LinkEnd::Cut, closing.why());
            self.settle();
        }
        self.links.is_open(key)
    }

    fn on_link_lost(&mut self, key: LinkKey, end: LinkEnd, why: &str) {
        let Some(lost) = self.links.lose(&mut self.cx, key, end, why) else {
            return;
        };
        for node_request in lost.node_requests() {
            self.on_node_request_lost(node_request, &lost, why);
        }
        let until = match end {
            LinkEnd::ByNode => self.cx.now,
            LinkEnd::Cut => self.cx.now + self.page_of(Some(lost.node())),
        };
        self.queues.on_link_gone(key, until);
    }

    /// Probes links that have gone silent, and closes those that stay so.
    pub(crate) fn check_links(&mut self) {
        let found = self.links.check(&self.cx);
        for key in found.stuck {
            self.rescue_requests(key);
        }
        for (key, why) in found.lost {
            self.on_link_lost(key, LinkEnd::Cut, why);
        }
    }

    /// A node can be reached again: no need to wait for the next try.
    pub(crate) fn on_node_up(&mut self, address: SocketAddr) {
        if let Some(node) = self.cx.snapshot.nodes().at(address) {
            self.links.on_node_up(&mut self.cx, node);
        }
    }

    /// True if a connection to a node waits to take more bytes.
    pub fn is_link_blocked(&self, key: LinkKey) -> bool {
        self.links.is_blocked(key)
    }

    /// The bytes to be written to a node, to be followed by [`Engine::on_link_sent`].
    pub fn link_bytes(&mut self, key: LinkKey) -> Option<&mut Encoder> {
        self.push_open(key);
        self.links.bytes(key)
    }

    /// An attempt to write to a node has ended. If the connection is broken, [`Engine::on_link_closed`]
    /// may tell why, and has to where [`Engine::is_link_open`] does not know it.
    pub fn on_link_sent(&mut self, now: Instant, key: LinkKey, sent: Sent) {
        self.set_now(now);
        self.links.note_sent(&mut self.cx, key, &sent);
    }

    /// True if anything waits to be written.
    pub fn has_unsent(&self) -> bool {
        self.links.has_unsent() || self.clients.has_unsent()
    }

    /// True if queries wait for others that come a little later.
    pub fn has_window(&self) -> bool {
        self.links.has_window()
    }

    /// True if everything leaves behind one connection's bytes.
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
