//! State of links that has not been given back, and contradictions in it: for checks from outside.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::keys::{LinkKey, NodeRequestKey, PoolKey, SessionKey};
use crate::pipeline::node_request::Flight;
use crate::upstream::connect::connection::Purpose;
use crate::upstream::connect::kind::LinkKind;
use crate::upstream::link::{Link, RESERVED, Stream};
use crate::upstream::links::Links;
use crate::upstream::pool::Pool;

/// Deadlines are looked at every tick.
const LATE_MAX: Duration = Duration::from_secs(1);

impl Link {
    /// Its contradictions. `flight`: where a node request is in flight.
    fn contradictions(
        &self,
        key: LinkKey,
        flight: impl Fn(NodeRequestKey) -> Option<Flight>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let count = |is_wanted: fn(&Stream) -> bool| {
            let streams = self.streams.iter().skip(RESERVED);
            streams.filter(|stream| is_wanted(stream)).count()
        };
        let busy = count(|stream| matches!(stream, Stream::Busy(_)));
        let orphans = count(|stream| matches!(stream, Stream::Orphan(_) | Stream::Dropped));
        let free = count(|stream| *stream == Stream::Free);
        let counted = (self.in_flight(), self.orphans, self.free.len());
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
    /// Places whose links are being opened.
    fn places_connecting(&self) -> usize {
        self.slots().filter(|slot| slot.is_opening()).count()
    }

    /// The node requests that wait for one of its links.
    fn waiting(&self) -> impl Iterator<Item = NodeRequestKey> + '_ {
        let special = self.special.iter().flat_map(|special| &special.waiting);
        self.waiting.iter().chain(special).copied()
    }
}

impl Links {
    /// State that is under way, in words. `is_known`: whether a node request is.
    pub(crate) fn leak_check(&self, is_known: impl Fn(NodeRequestKey) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        if !self.repreparing.is_empty() {
            found.push("re-prepares".to_owned());
        }
        for link in self.open.values().filter(|link| link.in_flight() > 0) {
            let busy: Vec<_> = link
                .node_requests()
                .map(|key| (key, is_known(key)))
                .collect();
            let (in_flight, node) = (link.in_flight(), link.node);
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
            if slots.any(|slot| slot.link().is_some_and(|link| !self.is_up(link))) {
                found.push("a place of a link that is gone".to_owned());
            }
        }
        found
    }

    /// Contradictions, in words. `flight`: where a node request is in flight.
    pub(crate) fn contradictions(
        &self,
        now: Instant,
        flight: impl Fn(NodeRequestKey) -> Option<Flight>,
    ) -> Vec<String> {
        let links = self.open.iter();
        let mut found: Vec<String> = links
            .flat_map(|(key, link)| link.contradictions(key, &flight))
            .collect();
        let mut opening: FxHashMap<PoolKey, usize> = FxHashMap::default();
        for connecting in self.connecting.values() {
            if let Purpose::Link(wanted) = &connecting.purpose
                && wanted.kind != LinkKind::Check
            {
                *opening.entry(wanted.pool).or_default() += 1;
            }
            if connecting.deadline + LATE_MAX < now {
                found.push("a connection is set up for longer than it may take".to_owned());
            }
        }
        for (key, pool) in &self.pools {
            let (places, there) = (pool.places_connecting(), opening.remove(&key).unwrap_or(0));
            if places != there {
                found.push(format!(
                    "{places} places wait for links, {there} are being opened"
                ));
            }
        }
        if !opening.is_empty() {
            found.push("links of a role that is gone are being opened".to_owned());
        }
        let (all, parts) = (self.keys.len(), (self.open.len(), self.connecting.len()));
        if all != parts.0 + parts.1 {
            found.push(format!("{all} connections are {parts:?} links and others"));
        }
        found
    }

    /// The logins that connections are set up for.
    pub(crate) fn logins(&self) -> impl Iterator<Item = SessionKey> + '_ {
        let connecting = self.connecting.values();
        connecting.filter_map(|connecting| match connecting.purpose {
            Purpose::Login(session) => Some(session),
            Purpose::Link(_) => None,
        })
    }

    /// The node requests that wait for a link, or for a node to be taught a statement.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = NodeRequestKey> + '_ {
        let pools = self.pools.values().flat_map(Pool::waiting);
        pools.chain(self.repreparing.waiting())
    }

    /// True if a node request is where it says that it is in flight.
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
