//! What engines ask for, done as the shell of a proxy does it.

use helenus_engine::client::credentials::Credentials;
use helenus_engine::node::link::{LinkKind, OpenError, OpenedLink};
use helenus_engine::output::{HeldAnswer, Opening, Output, Sent, Then};
use helenus_engine::{LinkKey, SessionKey};
use helenus_wire::{Compression, Decoder, Encoder, MAX_REQUEST_BODY, MAX_RESPONSE_BODY, Version};

use super::network::{Connection, End, NodeEnd, Peer};
use super::{Event, World};
use crate::chaos::cassandra::{self, Health};
use crate::chaos::proxy::{At, all_of};

/// A peer that has so much to read takes no more.
const UNREAD_MAX: usize = 256 * 1024;
/// More than one event can leave to be done.
const OUTPUTS_MAX: usize = 100_000;

impl World {
    /// Does what an engine asks for, behind every event that it was handed.
    pub(super) fn after(&mut self, at: At) {
        for done in 0.. {
            if done > OUTPUTS_MAX {
                return self.violate("an event leaves things to be done without end".to_owned());
            }
            let Some(output) = self.worker(at).engine.poll_output() else {
                break;
            };
            self.carry_out(at, output);
        }
        let worker = &mut self.proxies[at.proxy].workers[at.worker];
        if worker.engine.has_unsent() && !worker.flush_planned {
            worker.flush_planned = true;
            self.events.plan(self.dice.below(40), Event::Flush(at));
        }
    }

    pub(super) fn carry_out(&mut self, at: At, output: Output) {
        match output {
            Output::Client(key) => {
                if let Some(connection) = self.worker(at).clients.get(key).copied() {
                    self.events.plan(0, Event::Piece(connection, End::Proxy));
                }
            }
            Output::Link(key) => {
                if let Some(connection) = self.worker(at).links.get(key).copied() {
                    self.events.plan(0, Event::Piece(connection, End::Proxy));
                }
            }
            Output::Open(opening) => {
                let node = opening.node.as_usize();
                let delay = match self.cluster.nodes[node].health {
                    _ if self.is_partitioned(at.proxy, node) => 2_000_000,
                    // A frozen node takes the connection, and says nothing.
                    Health::Frozen(_) => 6_000_000,
                    _ => 200 + self.dice.below(3_000),
                };
                self.events
                    .plan(delay, Event::Opened(at, Box::new(opening)));
            }
            Output::LogIn(login) => {
                self.begin_login(at, login);
            }
            Output::Agree(held) => {
                self.worker(at).agreeing += 1;
                let until_us = self.now_us() + held.limit.as_micros() as u64;
                if self.dice.below(2) == 0 {
                    self.events.plan(self.dice.below(50_000), Event::Strike);
                }
                self.events
                    .plan(1_000, Event::Agree(at, Box::new(held), until_us));
            }
            Output::Alarm(after, alarm) => {
                self.events
                    .plan(after.as_micros() as u64, Event::Alarm(at, alarm));
            }
            Output::Tell(worker, message) => {
                let to = At { worker, ..at };
                let delay = 1 + self.dice.below(100);
                self.events.plan(delay, Event::Message(to, message));
            }
            Output::Recall(id) => self.proxies[at.proxy].common.forget_recall(&id),
        }
    }

    pub(super) fn open(&mut self, at: At, opening: &Opening) {
        let node = opening.node.as_usize();
        let up =
            self.cluster.nodes[node].health == Health::Up && !self.is_partitioned(at.proxy, node);
        let role = opening.identity.credentials().and_then(Credentials::role);
        let peer = cassandra::Peer {
            role: role.map(str::to_owned),
            keyspace: match &opening.kind {
                LinkKind::Keyspace(keyspace) => Some(keyspace.to_string()),
                _ => None,
            },
        };
        let codec = |max: usize| {
            let (mut decoder, mut encoder) = (Decoder::new(max), Encoder::new());
            let framed = opening.version == Version::V5;
            decoder.set_mode(framed, Compression::None);
            encoder.set_mode(framed, Compression::None);
            (decoder, encoder)
        };
        let result = match up && self.dice.below(20) > 0 {
            true => {
                let (decoder, encoder) = codec(MAX_RESPONSE_BODY);
                Ok(OpenedLink {
                    decoder,
                    encoder,
                    version: opening.version,
                })
            }
            _ if up && role.is_some_and(|role| self.is_dropped(role)) => Err(
                OpenError::BadCredentials("dropped, says the model".to_owned()),
            ),
            false => Err(OpenError::Other("refused, says the model".to_owned())),
        };
        self.count(if result.is_ok() {
            "link opened"
        } else {
            "link refused"
        });
        let now = self.now();
        let number = self.connections.len();
        let worker = self.worker(at);
        if let Some(link) = worker.engine.on_link_opened(now, opening, result) {
            worker.links.insert(link, number);
            let (decoder, encoder) = codec(MAX_REQUEST_BODY);
            self.connections.push(Connection::new(
                at,
                Peer::Node(Box::new(NodeEnd {
                    node,
                    peer,
                    link,
                    decoder,
                    encoder,
                })),
            ));
        }
        self.after(at);
    }

    /// Answers a schema change once the nodes agree.
    pub(super) fn agree(&mut self, at: At, held: Box<HeldAnswer>, until_us: u64) {
        if !self.cluster.agrees() && self.now_us() < until_us {
            return self.events.plan(20_000, Event::Agree(at, held, until_us));
        }
        let known = self.proxies[at.proxy].nodes_known;
        self.store_snapshot(at.proxy, known);
        let now = self.now();
        let worker = self.worker(at);
        worker.agreeing -= 1;
        worker.engine.on_agreed(now, &held);
        self.after(at);
    }

    pub(super) fn flush(&mut self, at: At) {
        let now = self.now();
        let worker = self.worker(at);
        worker.flush_planned = false;
        let mut wait = None;
        let links = match worker.engine.has_window() {
            true => {
                let (due, rest) = worker.engine.links_due(now);
                wait = rest;
                due
            }
            false => std::iter::from_fn(|| worker.engine.next_link_to_write()).collect(),
        };
        for link in links {
            self.write_link(at, link);
        }
        while let Some(key) = self.worker(at).engine.next_client_to_write() {
            self.write_client(at, key);
            let worker = self.worker(at);
            if worker.engine.is_client_held(key)
                && let Some(connection) = worker.clients.get(key).copied()
            {
                self.events.plan(0, Event::Piece(connection, End::Proxy));
            }
        }
        if let Some(wait) = wait {
            self.worker(at).flush_planned = true;
            let wait_us = wait.as_micros() as u64 + 1;
            self.events.plan(wait_us, Event::Flush(at));
        }
        self.after(at);
    }

    pub(super) fn write_link(&mut self, at: At, link: LinkKey) {
        let worker = &mut self.proxies[at.proxy].workers[at.worker];
        let Some(connection) = worker.links.get(link).copied() else {
            return;
        };
        let blocked = self.connections[connection].to_peer.unread > UNREAD_MAX;
        let Some(encoder) = worker.engine.link_bytes(link) else {
            return;
        };
        let bytes = if blocked { Vec::new() } else { all_of(encoder) };
        worker.engine.on_link_sent(link, sent(&bytes, blocked));
        self.send(connection, End::Peer, &bytes);
    }

    pub(super) fn write_client(&mut self, at: At, key: SessionKey) {
        let worker = &mut self.proxies[at.proxy].workers[at.worker];
        let Some(connection) = worker.clients.get(key).copied() else {
            return;
        };
        let blocked = self.connections[connection].to_peer.unread > UNREAD_MAX;
        let Some(outbox) = worker.engine.client_bytes(key) else {
            return;
        };
        let bytes = if blocked { Vec::new() } else { all_of(outbox) };
        worker.engine.on_client_sent(key, sent(&bytes, blocked));
        self.send(connection, End::Peer, &bytes);
    }
}

pub(super) fn sent(bytes: &[u8], blocked: bool) -> Sent {
    Sent {
        writes: u64::from(!bytes.is_empty()),
        bytes: bytes.len() as u64,
        then: if blocked { Then::Blocked } else { Then::Done },
    }
}
