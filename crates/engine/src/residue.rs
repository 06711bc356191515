//! What an engine has not given back, and what in it contradicts itself: for checks from outside.

use std::fmt::Display;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::engine::{Engine, RequestKey, SessionKey};
use crate::gates::coalesce::Ticket;
use crate::gates::lwt_queue::Turn;
use crate::node::link::Stream;
use crate::node::pool::Slot;
use crate::request::{Origin, Request};

impl Engine {
    /// What is under way or held, in words. Nothing, once all clients have left and their requests have
    /// been answered or given up: then every place, permit, turn, stream and byte is back.
    pub fn residue(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut check = |is_clear: bool, what: &dyn Display| {
            if !is_clear {
                found.push(what.to_string());
            }
        };
        check(self.clients.is_empty(), &"clients");
        for (_, request) in &self.requests {
            let text = request.statement.as_ref().map(|s| &*s.text);
            check(false, &format!("request {:?} of {text:?}", request.origin));
        }
        check(self.backlog.is_empty(), &"work left to be done");
        check(self.cx.outputs.is_empty(), &"outputs");
        check(self.repreparing.is_empty(), &"re-prepares");
        check(!self.shares.is_waiting(), &"reads that wait for others");
        let counted = self.shares.counted();
        check(
            counted == 0,
            &format!("{counted} reads that others may join"),
        );
        for node in &self.nodes {
            let name = &node.stats.name;
            let (waiting, in_flight) = (node.schedule.waiting(), node.schedule.in_flight());
            check(waiting == 0, &format!("{waiting} in the queue of {name}"));
            check(in_flight == 0, &format!("{in_flight} at {name}"));
            check(node.inside.is_clear(), &format!("places at {name}"));
            let at_gate = node.gate.residue();
            check(at_gate.is_none(), &format!("{at_gate:?} of {name}"));
        }
        for (_, link) in &self.links {
            let in_flight = link.in_flight;
            let busy = link.streams.iter().filter_map(|stream| match stream {
                Stream::Busy(request) => Some((*request, self.requests.contains_key(*request))),
                _ => None,
            });
            let busy: Vec<_> = busy.collect();
            check(
                in_flight == 0,
                &format!("{in_flight} streams of a link to {:?}: {busy:?}", link.node),
            );
        }
        for (_, pool) in &self.pools {
            let waiting = pool.special.iter().map(|special| special.waiting.len());
            let waiting = pool.waiting.len() + waiting.sum::<usize>();
            check(waiting == 0, &"requests that wait for a link");
            check(pool.sessions == 0, &"clients of a role");
            let slots = pool.nodes.iter().flatten();
            let unknown =
                |slot: &Slot| matches!(slot, Slot::Up(link) if !self.links.contains_key(*link));
            check(
                !slots.clone().any(unknown),
                &"a place of a link that is gone",
            );
        }
        let turns = self.cx.shared.turns.waiting();
        check(turns == 0, &format!("{turns} turns waited for"));
        let turns = self.cx.shared.turns.partitions();
        check(turns == 0, &format!("{turns} turns taken"));
        let held = self.held_for_requests();
        check(held == 0, &format!("{held} bytes"));
        found
    }

    /// What does not fit together, in words; nothing between two events, whatever is under way.
    ///
    /// A request that is nowhere, in flight on no link and waiting for nothing, is one whose client never
    /// hears of it, or not before its time-out.
    pub fn contradictions(&self) -> Vec<String> {
        let mut found = self.requests_nowhere();
        for (key, link) in &self.links {
            let count = |is_wanted: fn(&Stream) -> bool| {
                let streams = link.streams.iter().skip(1);
                streams.filter(|stream| is_wanted(stream)).count()
            };
            let busy = count(|stream| matches!(stream, Stream::Busy(_)));
            let orphans = count(|stream| *stream == Stream::Orphan);
            let free = count(|stream| *stream == Stream::Free);
            let counted = (link.in_flight, link.orphans, link.free.len());
            if counted != (busy, orphans, free) {
                found.push(format!(
                    "a link counts {counted:?} streams in flight, orphaned and free; there are \
                     {:?}",
                    (busy, orphans, free)
                ));
            }
            for (id, stream) in link.streams.iter().enumerate() {
                let Stream::Busy(request) = stream else {
                    continue;
                };
                let at = self.requests.get(*request).map(|request| request.at);
                if at != Some(Some((key, id as i16))) {
                    found.push("a stream has a request that is not in flight there".to_owned());
                }
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let requests = self.requests.values();
            let waiting = |r: &&Request| r.waiting.is_some_and(|w| w.node.as_usize() == at);
            let inside = |r: &&Request| r.admitted.is_some_and(|p| p.node.as_usize() == at);
            let there = (
                requests.clone().filter(waiting).count(),
                requests.filter(inside).count(),
            );
            let counted = (node.schedule.waiting(), node.schedule.in_flight());
            if counted != there {
                let name = &node.stats.name;
                found.push(format!(
                    "{name} counts {counted:?} requests that wait and are in flight, and has {there:?}"
                ));
            }
        }
        let mut in_flight: FxHashMap<SessionKey, usize> = FxHashMap::default();
        for request in self.requests.values() {
            if matches!(request.origin, Origin::Client) {
                *in_flight.entry(request.session).or_default() += 1;
            }
            for follower in &request.followers {
                *in_flight.entry(follower.session).or_default() += 1;
            }
        }
        for (key, counted) in self.clients.in_flight() {
            let there = in_flight.get(&key).copied().unwrap_or(0);
            if counted != there {
                found.push(format!(
                    "a client counts {counted} requests, and has {there}"
                ));
            }
        }
        found
    }

    fn requests_nowhere(&self) -> Vec<String> {
        let special = self.pools.values().flat_map(|pool| &pool.special);
        let for_links = self.pools.values().flat_map(|pool| &pool.waiting);
        let for_links = for_links.chain(special.flat_map(|special| &special.waiting));
        let waiting: FxHashSet<RequestKey> = for_links
            .chain(self.repreparing.values().flatten())
            .copied()
            .collect();
        let is_somewhere = |(key, request): (RequestKey, &Request)| {
            let on_link = request.at.is_some_and(|(link, stream)| {
                let link = self.links.get(link);
                let stream = link.and_then(|link| link.streams.get(stream as usize));
                stream == Some(&Stream::Busy(key))
            });
            let parked = matches!(request.ticket, Some(Ticket::Parked(_)));
            let for_turn = matches!(request.turn, Some(Turn::Waits(_)));
            on_link
                || request.waiting.is_some()
                || waiting.contains(&key)
                || parked
                || for_turn
                || request.in_parts()
                || request.is_held
        };
        let nowhere = self.requests.iter().filter(|entry| !is_somewhere(*entry));
        let name = |request: &Request| {
            let text = request.statement.as_ref().map(|s| &*s.text);
            format!("request {:?} of {text:?} is nowhere", request.origin)
        };
        nowhere.map(|(_, request)| name(request)).collect()
    }

    /// Bytes held, less those in the buffers of links, which stay.
    fn held_for_requests(&self) -> usize {
        let links = self.links.values().map(|link| link.held_bytes());
        self.cx.memory.held().saturating_sub(links.sum())
    }
}
