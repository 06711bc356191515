//! Connections between proxies and their peers.

use helenus_engine::{LinkKey, SessionKey};
use helenus_wire::{Compression, DecodeError, Decoder, Encoder, Flow, Header, Opcode, Version};

use super::strikes::Scope;
use super::{Event, World};
use crate::chaos::cassandra;
use crate::chaos::coverage::Fault;
use crate::chaos::pipe::Pipe;
use crate::chaos::proxy::At;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Proxy,
    Peer,
}

pub(super) enum Peer {
    Client(usize, SessionKey),
    Node(Box<NodeEnd>),
}

/// A node's end of a connection.
pub(super) struct NodeEnd {
    pub node: usize,
    pub peer: cassandra::Peer,
    pub link: LinkKey,
    pub decoder: Decoder,
    pub encoder: Encoder,
}

pub(super) struct Connection {
    pub at: At,
    pub peer: Peer,
    pub to_proxy: Pipe,
    pub to_peer: Pipe,
    /// Whether the proxy, and the peer, still have it.
    pub proxy_has: bool,
    pub peer_has: bool,
    /// The proxy has been told that the peer sends nothing more.
    pub ended: Option<bool>,
    /// It breaks in the middle of what is sent next to this end.
    pub cut: Option<End>,
    /// What is sent now is lost.
    pub broken: bool,
    /// When a worker that stops has closed it.
    pub drained_us: Option<u64>,
}

impl World {
    pub(super) fn send(&mut self, number: usize, to: End, bytes: &[u8]) {
        let now_us = self.now_us();
        let connection = &mut self.connections[number];
        if connection.broken || bytes.is_empty() {
            return;
        }
        if connection.cut == Some(to) {
            return self.cut(number, to, bytes);
        }
        let pipe = match to {
            End::Proxy => &mut connection.to_proxy,
            End::Peer => &mut connection.to_peer,
        };
        for at_us in pipe.send(now_us, bytes, &mut self.dice) {
            self.events.plan(at_us - now_us, Event::Piece(number, to));
        }
    }

    /// A connection breaks after a part of what is sent.
    fn cut(&mut self, number: usize, to: End, bytes: &[u8]) {
        let (fault, scope) = match self.connections[number].peer {
            Peer::Client(..) => (Fault::ClientIsCut, Scope::of(&self.connections[number])),
            Peer::Node(_) => (Fault::LinkIsCut, Scope::of(&self.connections[number])),
        };
        self.strike(fault, scope);
        self.note(|| format!("connection {number} breaks in what is sent to {to:?}"));
        let now_us = self.now_us();
        let connection = &mut self.connections[number];
        connection.broken = true;
        let part = self.dice.below(bytes.len() as u64) as usize;
        let (pipe, other) = match to {
            End::Proxy => (&mut connection.to_proxy, End::Peer),
            End::Peer => (&mut connection.to_peer, End::Proxy),
        };
        for at_us in pipe.send(now_us, &bytes[..part], &mut self.dice) {
            self.events.plan(at_us - now_us, Event::Piece(number, to));
        }
        let at_us = pipe.arrival(now_us, &mut self.dice);
        self.events.plan(at_us - now_us, Event::Closed(number, to));
        self.events
            .plan(self.dice.below(1_000), Event::Closed(number, other));
    }

    /// An end gives a connection up; the other one hears of it behind what was sent.
    pub(super) fn leave(&mut self, number: usize, end: End) {
        let now_us = self.now_us();
        let connection = &mut self.connections[number];
        let (has, pipe, other) = match end {
            End::Proxy => (
                &mut connection.proxy_has,
                &mut connection.to_peer,
                End::Peer,
            ),
            End::Peer => (
                &mut connection.peer_has,
                &mut connection.to_proxy,
                End::Proxy,
            ),
        };
        if std::mem::take(has) {
            let at_us = pipe.arrival(now_us, &mut self.dice);
            self.events
                .plan(at_us - now_us, Event::Closed(number, other));
        }
    }

    /// Both ends lose a connection; what is on its way is lost.
    pub(super) fn break_off(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        connection.to_proxy = Pipe::default();
        connection.to_peer = Pipe::default();
        connection.ended = Some(true);
        connection.broken = true;
        self.events
            .plan(self.dice.below(1_000), Event::Closed(number, End::Peer));
        self.events
            .plan(self.dice.below(1_000), Event::Closed(number, End::Proxy));
    }
}

impl NodeEnd {
    /// Takes bytes apart.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        got: &mut Vec<(Header, Vec<u8>)>,
    ) -> Result<(), DecodeError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut begun = None;
            let used = self.decoder.feed(rest, &mut Vec::new(), |header, body| {
                got.push((header, body.to_vec()));
                if header.opcode != Opcode::Startup as u8 {
                    return Flow::Continue;
                }
                begun = Some(header.version == Version::V5 as u8);
                Flow::Pause
            })?;
            rest = &rest[used..];
            if let Some(framed) = begun {
                self.decoder.set_mode(framed, Compression::None);
            }
        }
        Ok(())
    }
}

impl Connection {
    pub(super) fn new(at: At, peer: Peer) -> Connection {
        Connection {
            at,
            peer,
            to_proxy: Pipe::default(),
            to_peer: Pipe::default(),
            proxy_has: true,
            peer_has: true,
            ended: None,
            cut: None,
            broken: false,
            drained_us: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.proxy_has && self.peer_has && !self.broken
    }
}
