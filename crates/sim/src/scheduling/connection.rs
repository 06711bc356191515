//! Connections of proxies: to drivers and to nodes.

use std::collections::VecDeque;

use helenus_engine::{LinkKey, SessionKey};
use helenus_wire::{Decoder, Encoder};

use super::agenda::Agenda;
use super::setup::Setup;
use crate::proxy::At;

pub(super) struct Connection {
    pub at: At,
    pub peer: Peer,
    /// When the last byte that was sent has left, in each direction.
    pub to_proxy_us: u64,
    pub to_peer_us: u64,
    /// Bytes that the engine does not take yet.
    pub unread: VecDeque<Vec<u8>>,
    pub is_closed: bool,
}

pub(super) enum Peer {
    Clients(SessionKey),
    Node(Box<NodeEnd>),
}

pub(super) struct NodeEnd {
    pub node: usize,
    pub link: LinkKey,
    pub decoder: Decoder,
    pub encoder: Encoder,
}

impl Connection {
    pub(super) fn new(at: At, peer: Peer) -> Connection {
        Connection {
            at,
            peer,
            to_proxy_us: 0,
            to_peer_us: 0,
            unread: VecDeque::new(),
            is_closed: false,
        }
    }
}

impl Setup {
    /// When bytes arrive that are sent now, behind those that were sent before.
    pub(super) fn arrival(&self, agenda: &Agenda, sent_us: &mut u64, bytes: usize) -> u64 {
        let takes_us = match self.bytes_per_us {
            0 => 0.0,
            bytes_per_us => bytes as f64 * self.scale() / f64::from(bytes_per_us),
        };
        *sent_us = (*sent_us).max(agenda.now_us()) + takes_us as u64;
        *sent_us + self.delay_us()
    }
}
