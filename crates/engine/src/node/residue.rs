//! What of links has not been given back, and what in it contradicts itself: for checks from outside.

use crate::keys::{LinkKey, NodeRequestKey};
use crate::node::link::{Link, Stream};
use crate::node::links::Links;
use crate::node::pool::Pool;
use crate::node::slot::Slot;
use crate::node_request::Flight;

impl Link {
    /// What does not fit together of it. `flight`: where a node request is in flight.
    fn contradictions(
        &self,
        key: LinkKey,
        flight: impl Fn(NodeRequestKey) -> Option<Flight>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let count = |is_wanted: fn(&Stream) -> bool| {
            let streams = self.streams.iter().skip(1);
            streams.filter(|stream| is_wanted(stream)).count()
        };
        let busy = count(|stream| matches!(stream, Stream::Busy(_)));
        let orphans = count(|stream| *stream == Stream::Orphan);
        let free = count(|stream| *stream == Stream::Free);
        let counted = (self.in_flight, self.orphans, self.free.len());
        if counted != (busy, orphans, free) {
            found.push(format!(
                "a link counts {counted:?} streams in flight, orphaned and free; there are {:?}",
                (busy, orphans, free)
            ));
        }
        for (id, stream) in self.streams.iter().enumerate() {
            let Stream::Busy(request) = stream else {
                continue;
            };
            let flight = flight(*request).map(|flight| (flight.link, flight.stream));
            if flight != Some((key, id as i16)) {
                found.push("a stream has a node request that is not in flight there".to_owned());
            }
        }
        found
    }
}

impl Pool {
    /// The node requests that wait for one of its links.
    fn waiting(&self) -> impl Iterator<Item = NodeRequestKey> + '_ {
        let special = self.special.iter().flat_map(|special| &special.waiting);
        self.waiting.iter().chain(special).copied()
    }
}

impl Links {
    /// What is under way, in words. `is_known`: whether a node request is.
    pub(crate) fn residue(&self, is_known: impl Fn(NodeRequestKey) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        if !self.repreparing.is_empty() {
            found.push("re-prepares".to_owned());
        }
        for link in self.open.values().filter(|link| link.in_flight > 0) {
            let busy: Vec<_> = link
                .node_requests()
                .map(|key| (key, is_known(key)))
                .collect();
            let (in_flight, node) = (link.in_flight, link.node);
            found.push(format!(
                "{in_flight} streams of a link to {node:?}: {busy:?}"
            ));
        }
        for pool in self.pools.values() {
            if pool.waiting().next().is_some() {
                found.push("requests that wait for a link".to_owned());
            }
            if pool.sessions > 0 {
                found.push("clients of a role".to_owned());
            }
            let mut slots = pool.nodes.iter().flatten();
            if slots.any(|slot| matches!(slot, Slot::Up(link) if !self.is_open(*link))) {
                found.push("a place of a link that is gone".to_owned());
            }
        }
        found
    }

    /// What does not fit together, in words. `flight`: where a node request is in flight.
    pub(crate) fn contradictions(
        &self,
        flight: impl Fn(NodeRequestKey) -> Option<Flight>,
    ) -> Vec<String> {
        let links = self.open.iter();
        links
            .flat_map(|(key, link)| link.contradictions(key, &flight))
            .collect()
    }

    /// The node requests that wait for a link, or for a node to be taught a statement.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = NodeRequestKey> + '_ {
        let pools = self.pools.values().flat_map(Pool::waiting);
        pools.chain(self.repreparing.waiting())
    }

    /// Whether a node request is where it says that it is in flight.
    pub(crate) fn carries(&self, key: NodeRequestKey, flight: &Flight) -> bool {
        let link = self.open.get(flight.link);
        let stream = link.and_then(|link| link.streams.get(flight.stream as usize));
        stream == Some(&Stream::Busy(key))
    }

    /// Bytes in the buffers of links.
    pub(crate) fn held_bytes(&self) -> usize {
        self.open.values().map(Link::held_bytes).sum()
    }
}
