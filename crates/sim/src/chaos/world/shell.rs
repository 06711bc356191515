//! What engines ask for, done as the shell of a proxy does it.

use std::net::IpAddr;

use helenus_engine::output::{Agreement, Dialed, HeldAnswer, NotDialed, Output, Sent, Then};
use helenus_engine::{LinkKey, SessionKey};
use helenus_wire::{Decoder, Encoder, MAX_REQUEST_BODY};

use super::network::{Connection, End, NodeEnd, Peer};
use super::{Event, World};
use crate::chaos::bounds::Cause;
use crate::chaos::cassandra::{self, Health};
use crate::chaos::proxy::{At, FAR, all_of};
use crate::proxy::WALL;

/// A peer that has so much to read takes no more.
const UNREAD_MAX: usize = 256 * 1024;
/// `links.connect_timeout_ms`.
const CONNECT_TIMEOUT_US: u64 = 2_000_000;
/// More than one event can leave to be done.
const OUTPUTS_MAX: usize = 100_000;

impl World {
    /// Does what an engine asks for, behind every event that it was handed.
    pub(super) fn after(&mut self, at: At) {
        let now = self.now();
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
        let deadline = worker.engine.deadline();
        if deadline < worker.alarm {
            worker.alarm = deadline;
            let us = deadline.saturating_duration_since(now).as_micros() as u64;
            // Timers are late.
            let late_us = 1 + self.dice.below(1_000);
            self.events.plan(us + late_us, Event::Due(at));
        }
    }

    /// Calls an engine if its deadline has passed.
    pub(super) fn keep_time(&mut self, at: At) {
        let now = self.now();
        let wall = WALL + (now - self.begin);
        let worker = self.worker(at);
        // An earlier deadline may have come between.
        if worker.alarm > now {
            return;
        }
        worker.alarm = now + FAR;
        if worker.engine.deadline() <= now {
            worker.engine.on_deadline(now, wall);
        }
        self.after(at);
        self.judge_books(at);
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
            Output::Dial(link, address) => {
                let IpAddr::V4(address) = address.ip() else {
                    return self.violate(format!("{address} is no node"));
                };
                let node = usize::from(address.octets()[3]) - 1;
                let delay = match self.is_partitioned(at.proxy, node) {
                    true => CONNECT_TIMEOUT_US,
                    false => 100 + self.dice.below(2_000),
                };
                self.events.plan(delay, Event::Dialed(at, link, node));
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
            Output::Tell(worker, message) => {
                let to = At { worker, ..at };
                let delay = 1 + self.dice.below(100);
                self.events.plan(delay, Event::Message(to, message));
            }
            Output::Recall(id) => self.proxies[at.proxy].common.forget_recall(&id),
            // Nobody asks.
            Output::Report(..) => {}
            Output::Feature(news) => self.take_news(at, news),
        }
    }

    /// A frozen node takes the connection, and says nothing.
    pub(super) fn end_dial(&mut self, at: At, link: LinkKey, node: usize) {
        let result = match self.cluster.nodes[node].health {
            _ if self.is_partitioned(at.proxy, node) => Err("no answer within 2s, says the model"),
            Health::Down => Err("refused, says the model"),
            _ if self.cluster.nodes[node].closed => Err("refused, says the model"),
            _ if !self.is_calm && self.dice.below(30) == 0 && self.can(Cause::Unreached) => {
                Err("reset, says the model")
            }
            Health::Up | Health::Frozen(_) => Ok(Dialed::default()),
        };
        self.count(if result.is_ok() {
            "node connected to"
        } else {
            "node not reached"
        });
        if result.is_err() {
            let now_us = self.now_us();
            self.causes.note_lost(now_us, at.proxy);
        }
        let now = self.now();
        let number = self.connections.len();
        self.note(|| match &result {
            Ok(_) => format!("{at:?} reaches node {node}, connection {number}"),
            Err(why) => format!("{at:?} does not reach node {node}: {why}"),
        });
        let worker = self.worker(at);
        let result = result.map_err(|why| NotDialed::Lost(why.to_owned()));
        if worker.engine.on_dialed(now, link, result) {
            worker.links.insert(link, number);
            let end = NodeEnd {
                node,
                peer: cassandra::Peer::default(),
                link,
                decoder: Decoder::new(MAX_REQUEST_BODY),
                encoder: Encoder::new(),
            };
            let peer = Peer::Node(Box::new(end));
            self.connections.push(Connection::new(at, peer));
        }
        self.after(at);
    }

    /// Answers a schema change once the nodes agree.
    pub(super) fn agree(&mut self, at: At, held: Box<HeldAnswer>, until_us: u64) {
        let agrees = self.cluster.agrees();
        if !agrees && self.now_us() < until_us {
            return self.events.plan(20_000, Event::Agree(at, held, until_us));
        }
        let known = self.proxies[at.proxy].members.clone();
        self.store_snapshot(at.proxy, known);
        let now = self.now();
        let worker = self.worker(at);
        worker.agreeing -= 1;
        let agreement = match agrees {
            true => Agreement::Reached,
            false => Agreement::Missed(Vec::new()),
        };
        worker.engine.on_agreed(now, &held, &agreement);
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
        let now = self.now();
        let worker = &mut self.proxies[at.proxy].workers[at.worker];
        let Some(connection) = worker.links.get(link).copied() else {
            return;
        };
        let blocked = self.connections[connection].to_peer.unread > UNREAD_MAX;
        let Some(encoder) = worker.engine.link_bytes(link) else {
            return;
        };
        let bytes = if blocked { Vec::new() } else { all_of(encoder) };
        worker.engine.on_link_sent(now, link, sent(&bytes, blocked));
        self.send(connection, End::Peer, &bytes);
    }

    pub(super) fn write_client(&mut self, at: At, key: SessionKey) {
        let now = self.now();
        let worker = &mut self.proxies[at.proxy].workers[at.worker];
        let Some(connection) = worker.clients.get(key).copied() else {
            return;
        };
        let blocked = self.connections[connection].to_peer.unread > UNREAD_MAX;
        let Some(outbox) = worker.engine.client_bytes(key) else {
            return;
        };
        let bytes = if blocked { Vec::new() } else { all_of(outbox) };
        worker
            .engine
            .on_client_sent(now, key, sent(&bytes, blocked));
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
