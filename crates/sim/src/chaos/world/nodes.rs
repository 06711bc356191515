//! The ends of connections at peers: bytes for clients and nodes, and what nodes make of them.

use helenus_wire::{Compression, ErrorBody, Header, Opcode, Version, code};

use super::network::{Connection, End, Peer};
use super::strikes::Scope;
use super::{Event, World};
use crate::chaos::bounds::Cause;
use crate::chaos::cassandra::{self, Health, Served};
use crate::chaos::coverage::{Check, Failure, Fault, Kind};
use crate::chaos::load::Job;
use crate::chaos::proxy::all_of;

/// For so long, by their own time-outs, requests may wait in a node's queue.
const DROPPED_AFTER_US: u64 = 12_050_000;
/// What is never answered is missed for as long as any request may take.
const NEVER_US: u64 = 13_000_000;

impl World {
    pub(super) fn read_at_peer(&mut self, number: usize) {
        let now_us = self.now_us();
        let connection = &mut self.connections[number];
        if !connection.peer_has {
            return;
        }
        let (client, node) = match &connection.peer {
            Peer::Client(client, _) => (Some(*client), None),
            Peer::Node(end) => (None, Some(end.node)),
        };
        if client.is_some_and(|client| self.is_deaf(client)) {
            return;
        }
        let connection = &mut self.connections[number];
        if let Some(node) = node
            && let Health::Frozen(until_us) = self.cluster.nodes[node].health
        {
            let wait_us = until_us.saturating_sub(now_us) + 1;
            return self.events.plan(wait_us, Event::Piece(number, End::Peer));
        }
        let Some(bytes) = connection.to_peer.take(now_us) else {
            return;
        };
        // What waits at the proxy may go on.
        self.events.plan(1, Event::Piece(number, End::Proxy));
        match client {
            Some(client) => self.feed_client(client, number, &bytes),
            None => self.feed_node(number, &bytes),
        }
    }

    fn feed_node(&mut self, number: usize, bytes: &[u8]) {
        let mut got = Vec::new();
        if let Peer::Node(end) = &mut self.connections[number].peer
            && let Err(e) = end.feed(bytes, &mut got)
        {
            return self.violate(format!("the proxy sends a node what is no frame: {e}"));
        }
        for (header, body) in got {
            let in_range = header.opcode == Opcode::Prepare as u8
                && body.windows(6).any(|text| text == b"token(");
            if in_range && self.dice.below(10) == 0 {
                self.events.plan(self.dice.below(2_000), Event::Strike);
            }
            let slow = match self.dice.below(50) {
                0 if !self.is_calm && self.can(Cause::Slow) => {
                    let slow_us = self.dice.below(3_000_000);
                    self.note_silent(slow_us);
                    slow_us
                }
                _ => self.dice.below(2_000),
            };
            let slow = slow + self.greeting_us(header.opcode);
            let event = match (&self.connections[number].peer, self.loads.is_empty()) {
                (Peer::Node(end), false) => {
                    let connection = number;
                    let job = Job {
                        connection,
                        header,
                        body,
                    };
                    Event::Arrive(end.node, Box::new(job))
                }
                _ => Event::Serve(number, header, body),
            };
            self.events.plan(100 + slow, event);
        }
    }

    pub(super) fn serve(&mut self, number: usize, header: &Header, body: &[u8]) {
        let now_us = self.now_us();
        let connection = &self.connections[number];
        let Peer::Node(end) = &connection.peer else {
            return;
        };
        let node = end.node;
        match self.cluster.nodes[node].health {
            Health::Down => return,
            Health::Frozen(until_us) => {
                let wait_us = until_us.saturating_sub(now_us) + 1;
                let event = Event::Serve(number, *header, body.to_vec());
                return self.events.plan(wait_us, event);
            }
            Health::Up => {}
        }
        // What has waited for too long in its own queue a 5.0 node drops, and does not say whose it was.
        if self.may(Cause::Silence) && self.dice.below(1_000) == 0 {
            return self.drop_request(number, header, body);
        }
        self.judge_route(number, node, header, body);
        if !self.judge_derived(number, header, body) {
            self.note_silent(NEVER_US);
            return self.count("carried out no more");
        }
        // The connection may be gone by now; a node that has begun goes on all the same.
        let Some(served) = self.serve_by(number, node, header, body) else {
            return;
        };
        self.stay_away_with_hint();
        let kind = served.kind;
        if kind == Some(Kind::Alter) && served.opcode == Opcode::Result {
            self.spread_schema();
        }
        if let (Some(kind), Some(failure)) = (kind, served.failure()) {
            self.covered.fail(failure, kind);
        }
        let (stream, failure) = (header.stream, served.failure());
        self.note(|| {
            let kind = kind.map_or("?", Kind::name);
            let answer = failure.map_or("done", Failure::name);
            format!("node {node}, connection {number}, stream {stream}: {kind}: {answer}")
        });
        for mutation in served.later {
            let delay = match self.dice.below(4) {
                0 => self.dice.below(2_000_000),
                _ => self.dice.below(2_000),
            };
            self.events.plan(delay, Event::Mutate(mutation));
        }
        // A node that says nothing.
        if self.may(Cause::Silence) && self.dice.below(1_000) == 0 {
            if let Some(kind) = kind {
                self.covered.fail(Failure::Never, kind);
            }
            self.note_silent(NEVER_US);
            return self.count("never answered by its node");
        }
        // A node that does not speak the version says so on stream 0, for instance.
        let is_refused = header.opcode == Opcode::Startup as u8 && served.opcode == Opcode::Error;
        let stream = match is_refused && self.dice.below(2) == 0 {
            true => 0,
            false => header.stream,
        };
        let answer = Header {
            response: true,
            flags: 0,
            opcode: served.opcode as u8,
            stream,
            ..*header
        };
        // What has been read may be old by the time that it is sent.
        let delay = match self.dice.below(10) {
            0 => self.dice.below(50_000),
            _ => 0,
        };
        if let (Some(kind), 20_000..) = (kind, delay) {
            self.covered.fail(Failure::Late, kind);
        }
        self.events
            .plan(delay, Event::Reply(number, answer, served.body));
    }

    /// What comes of a request, of whatever kind.
    fn serve_by(
        &mut self,
        number: usize,
        node: usize,
        header: &Header,
        body: &[u8],
    ) -> Option<Served> {
        if let Some(served) = self.greet(number, header, body) {
            return Some(served);
        }
        let at = (node, self.now_us());
        let Peer::Node(end) = &mut self.connections[number].peer else {
            return None;
        };
        let (peer, dice) = (&mut end.peer, &mut self.dice);
        Some(self.cluster.serve(at, header, body, peer, dice))
    }

    fn drop_request(&mut self, number: usize, header: &Header, body: &[u8]) {
        self.note_silent(NEVER_US);
        if let Some(kind) = cassandra::kind_of(header, body) {
            self.covered.fail(Failure::Dropped, kind);
        }
        let (stream, at_us) = (header.stream, self.now_us());
        self.note(|| format!("connection {number}, stream {stream}: dropped at {at_us}"));
        let served = cassandra::dropped();
        let answer = Header {
            response: true,
            flags: 0,
            opcode: served.opcode as u8,
            stream: 0,
            ..*header
        };
        // By then it has waited for long enough.
        self.events
            .plan(DROPPED_AFTER_US, Event::Reply(number, answer, served.body));
    }

    /// A node has changed the schema; the others hear of it one after the other.
    fn spread_schema(&mut self) {
        self.strike(Fault::SchemaChanges, Scope::default());
        for node in 0..self.cluster.nodes.len() {
            let delay = match self.dice.below(3) {
                0 => self.dice.below(1_500_000),
                _ => self.dice.below(20_000),
            };
            self.events.plan(delay, Event::Learn(node));
        }
    }

    pub(super) fn reply(&mut self, number: usize, answer: Header, body: &[u8]) {
        let Connection {
            peer: Peer::Node(end),
            peer_has: true,
            ..
        } = &mut self.connections[number]
        else {
            return;
        };
        end.encoder.push_slice(answer, body);
        let opcode = Opcode::from_number(answer.opcode);
        if opcode == Some(Opcode::Error)
            && let Ok(error) = ErrorBody::parse(body)
        {
            let (proxy, said) = (self.connections[number].at.proxy, error.code);
            if self.only_grows() && said == code::UNAVAILABLE {
                self.checked(Check::Ring, true);
            }
            self.note_said(proxy, said);
        }
        let Peer::Node(end) = &mut self.connections[number].peer else {
            return;
        };
        if matches!(opcode, Some(Opcode::Ready | Opcode::Authenticate)) {
            // What follows the answer to STARTUP is framed.
            let framed = answer.version == Version::V5 as u8;
            end.encoder.set_mode(framed, Compression::None);
        }
        let bytes = all_of(&mut end.encoder);
        self.send(number, End::Proxy, &bytes);
    }

    pub(super) fn end_at_peer(&mut self, number: usize) {
        if !self.connections[number].peer_has {
            return;
        }
        self.leave(number, End::Peer);
        if let Peer::Client(client, _) = self.connections[number].peer {
            self.note(|| format!("client {client} is disconnected"));
            if self.clients[client].connection == Some(number) {
                self.judge_end(client, number);
            }
            self.clients[client].connection = None;
            self.clients[client].ready = false;
            let delay = 1_000 + self.dice.below(500_000);
            self.events.plan(delay, Event::Act(client));
        }
    }
}
