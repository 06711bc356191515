//! Which requests their nodes have dropped, without saying which ([`crate::node::stream_zero`]).
//!
//! Each word of a node stands for one request of its link that is old enough. Once no more such requests are left on
//! the link than there were words, they are known, all of them, and each has the node's error as its answer. Until
//! then some that the node is carrying out are among them, and their answers will tell.
//!
//! Writes are left to their own time-out, which is about that of the queue: what is taken for dropped by mistake may
//! have been written. And no stream is used again because of all this, unless an answer comes on it after all, which
//! is nobody's.

use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Header, Opcode, Version, code};

use crate::engine::Engine;
use crate::keys::{LinkKey, NodeRequestKey};
use crate::node::link::{Link, RESERVED, Stream};
use crate::node::links::Links;
use crate::node::stream_zero::TEXT;
use crate::query::Query;

/// Where something was in flight, and for which node request.
struct Place {
    link: LinkKey,
    node: NodeIndex,
    version: Version,
    stream: i16,
    request: Option<NodeRequestKey>,
}

impl Link {
    /// What the node has dropped, if that is known by now: streams, and who waits there. `sent`: when a node request
    /// was.
    fn take_dropped(
        &mut self,
        sent: impl Fn(NodeRequestKey) -> Option<Instant>,
    ) -> Vec<(i16, Option<NodeRequestKey>)> {
        let Some(before) = self.dropped.sent_before() else {
            return Vec::new();
        };
        let may_be = |stream: &Stream| match stream {
            Stream::Free | Stream::Dropped => false,
            // When they were sent is not known.
            Stream::Orphan | Stream::Probe => true,
            Stream::Busy(request) => sent(*request).is_none_or(|sent| sent <= before),
        };
        let streams = self.streams.iter().enumerate().skip(RESERVED);
        let old = streams.filter(|(_, stream)| may_be(stream));
        let old: Vec<_> = old
            .map(|(id, stream)| (id as i16, stream.node_request()))
            .collect();
        match self.dropped.are_known(old.len()) {
            true => old,
            false => Vec::new(),
        }
    }
}

impl Links {
    /// A node will not answer what is in flight there.
    fn drop_stream(&mut self, place: &Place) {
        if let Some(link) = self.open.get_mut(place.link) {
            link.drop_stream(place.stream);
        }
    }

    fn take_dropped(&mut self, sent: impl Fn(NodeRequestKey) -> Option<Instant>) -> Vec<Place> {
        let mut found = Vec::new();
        for (key, link) in &mut self.open {
            for (stream, request) in link.take_dropped(&sent) {
                found.push(Place {
                    link: key,
                    node: link.node,
                    version: link.version,
                    stream,
                    request,
                });
            }
        }
        found
    }
}

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
            self.on_answer(place.link, (place.node, key), header, &body);
        }
    }
}
