//! Which requests their nodes have dropped, without saying which ([`crate::pipeline::nodes::stream_zero`]).
//!
//! Each word of a node stands for one request of its link that is old enough. Once no more such requests are left on
//! the link than there were words, they are known, all of them, and each has the node's error as its answer. Until
//! then some that the node is carrying out are among them, and their answers will tell.
//!
//! Writes are left to their own time-out, which is about that of the queue: what is taken for dropped by mistake may
//! have been written. And no stream is used again because of all this, unless an answer comes on it after all, which
//! is nobody's.

use helenus_wire::{ErrorBody, Header, Opcode, code};

use crate::pipeline::engine::Engine;
use crate::pipeline::nodes::stream_zero::TEXT;
use crate::pipeline::query::Query;

impl Engine {
    /// Ends what nodes have dropped, as far as it is known what that is.
    pub(crate) fn end_dropped(&mut self) {
        let nodes = &self.requests.nodes;
        let sent = |key| Some(nodes.get(key)?.flight()?.sent);
        let error = ErrorBody {
            code: code::OVERLOADED,
            message: TEXT,
            fields: &[],
        };
        let mut body = Vec::new();
        error.write(&mut body);
        for place in self.links.take_dropped(sent) {
            let query = place.request.and_then(|key| self.requests.query(key));
            if place.request.is_some() && !query.is_some_and(Query::is_read) {
                continue;
            }
            self.links.drop_stream(&place);
            self.queues
                .on_late_answer(&mut self.cx, place.link, place.stream);
            let Some(key) = place.request else {
                continue;
            };
            let header = Header {
                version: place.version as u8,
                response: true,
                flags: 0,
                stream: place.stream,
                opcode: Opcode::Error as u8,
                body_len: body.len() as u32,
            };
            self.on_answer(place.link, place.node, key, header, &body);
        }
    }
}
