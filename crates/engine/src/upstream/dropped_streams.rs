//! Which streams of links wait for what their nodes have dropped.

use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_wire::Version;

use crate::keys::{LinkKey, NodeRequestKey};
use crate::upstream::link::{Link, RESERVED, Stream};
use crate::upstream::links::Links;

/// Where something was in flight, and for which node request.
pub(crate) struct Place {
    pub link: LinkKey,
    pub node: NodeIndex,
    pub version: Version,
    pub stream: i16,
    pub request: Option<NodeRequestKey>,
}

impl Link {
    /// The streams of requests that the node has dropped, if they are known by now, and who waits there. `sent`: when
    /// a node request was.
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
            Stream::Orphan(_) | Stream::Probe => true,
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
    /// The node of a link.
    pub(crate) fn node_of(&self, link: LinkKey) -> Option<NodeIndex> {
        Some(self.open.get(link)?.node)
    }

    /// A node has said on a link that it has dropped something that was sent before.
    pub(crate) fn note_dropped(&mut self, link: LinkKey, sent_before: Instant) {
        if let Some(link) = self.open.get_mut(link) {
            link.dropped.note(sent_before);
        }
    }

    /// A node will not answer what is in flight there.
    pub(crate) fn drop_stream(&mut self, place: &Place) {
        if let Some(link) = self.open.get_mut(place.link) {
            link.drop_stream(place.stream);
        }
    }

    pub(crate) fn take_dropped(
        &mut self,
        sent: impl Fn(NodeRequestKey) -> Option<Instant>,
    ) -> Vec<Place> {
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
