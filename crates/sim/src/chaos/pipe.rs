//! One direction of a connection: bytes in order, cut anywhere, each piece with a delay of its own.

use std::collections::VecDeque;

use crate::dice::Dice;

/// The least time that bytes take.
const LATENCY_US: u64 = 50;

#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// When each piece arrives.
    pieces: VecDeque<(u64, Vec<u8>)>,
    /// When the last one does.
    last_us: u64,
    /// Bytes that have not been read.
    pub unread: usize,
}

impl Pipe {
    /// Sends bytes; returns when each piece arrives.
    pub(super) fn send(&mut self, now_us: u64, mut bytes: &[u8], dice: &mut Dice) -> Vec<u64> {
        let mut arrivals = Vec::new();
        while !bytes.is_empty() {
            // Mostly whole: a cut costs an event.
            let len = match dice.below(8) {
                0 => 1 + dice.below(bytes.len() as u64) as usize,
                _ => bytes.len(),
            };
            let (piece, rest) = bytes.split_at(len.min(bytes.len()));
            self.unread += piece.len();
            let at_us = self.arrival(now_us, dice);
            self.pieces.push_back((at_us, piece.to_vec()));
            arrivals.push(at_us);
            bytes = rest;
        }
        arrivals
    }

    /// When what is sent now arrives: behind everything that was sent before.
    pub(super) fn arrival(&mut self, now_us: u64, dice: &mut Dice) -> u64 {
        let delay = LATENCY_US + dice.below(200);
        self.last_us = self.last_us.max(now_us + delay);
        self.last_us
    }

    /// Nothing that is sent from now on arrives before then.
    pub(super) fn hold(&mut self, until_us: u64) {
        self.last_us = self.last_us.max(until_us);
    }

    /// The next piece that has arrived.
    pub(super) fn take(&mut self, now_us: u64) -> Option<Vec<u8>> {
        let (at_us, _) = self.pieces.front()?;
        if *at_us > now_us {
            return None;
        }
        let (_, piece) = self.pieces.pop_front()?;
        self.unread -= piece.len();
        Some(piece)
    }
}
