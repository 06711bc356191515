//! Errors on stream 0: a node has dropped a request, and does not say which.
//!
//! A 5.0 node does not begin with what has waited in its own queue for longer than `native_transport_timeout`. It
//! says so on stream 0, because it has not looked yet whose stream it is, and the request is never answered. So each
//! such word stands for one request of its link that is at least that old (`dropped.rs`).
//!
//! Only what a node tells of its time-outs is believed here: with a shorter one than is known, younger requests
//! might have been meant.

use std::time::Duration;

use helenus_wire::{ErrorBody, Header, Opcode, code};

use crate::keys::LinkKey;
use crate::pipeline::engine::Engine;

/// The message of each of them.
pub(crate) const TEXT: &str = "Query timed out before it could start";
/// How far a node's clock for such times may be behind.
const CLOCK_SLACK: Duration = Duration::from_millis(100);

impl Engine {
    /// A node has said something on stream 0.
    pub(crate) fn on_stream_zero(&mut self, link: LinkKey, header: Header, body: &[u8]) {
        let is_error = header.opcode == Opcode::Error as u8;
        let error = ErrorBody::parse(body).ok().filter(|_| is_error);
        if !error.is_some_and(|error| error.code == code::OVERLOADED && error.message == TEXT) {
            return;
        }
        let node = self.links.node_of(link);
        let node = node.and_then(|node| self.cx.snapshot.nodes().get(node));
        if let Some(timeouts) = node.and_then(|node| node.facts().timeouts)
            && let Some(sent_before) = self.cx.now.checked_sub(timeouts.queue())
        {
            self.links.note_dropped(link, sent_before + CLOCK_SLACK);
        }
    }
}
