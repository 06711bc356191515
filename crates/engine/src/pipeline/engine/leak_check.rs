//! Checks from outside: resources that an engine has not given back, and contradictions in it.

use std::fmt::Display;

use helenus_policy::ring::NodeIndex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::features;
use crate::keys::{NodeRequestKey, SessionKey};
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::{NodeRequest, Stage};

impl Engine {
    /// Work under way and resources held, in words. None, once all clients have left and their requests
    /// have been answered or given up: then every place, permit, turn, stream and byte is back.
    pub fn leak_check(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut check = |is_clear: bool, what: &dyn Display| {
            if !is_clear {
                found.push(what.to_string());
            }
        };
        check(self.clients.is_empty(), &"clients");
        for request in self.requests.clients.values() {
            let text = request.query.statement.as_ref().map(|s| &*s.text);
            check(false, &format!("a client's request of {text:?}"));
        }
        for (_, request) in self.requests.nodes.iter() {
            let owner = request.owner();
            match request.client() {
                Some(_) => check(false, &format!("a node request for {owner}")),
                None => check(false, owner),
            }
        }
        check(self.backlog.is_empty(), &"work left to be done");
        check(self.cx.outputs.is_empty(), &"outputs");
        for left in self.queues.leak_check() {
            check(false, &left);
        }
        let is_known = |key: NodeRequestKey| self.requests.nodes.get(key).is_some();
        for what in self.links.leak_check(is_known) {
            check(false, &what);
        }
        for (_, is_waiting) in self.clients.logins() {
            let what = match is_waiting {
                true => "a login that waits",
                false => "a login that a node judges",
            };
            check(false, &what);
        }
        let logins = self.cx.shared.logins.counts();
        check(
            logins == (0, 0),
            &format!("{logins:?} logins are judged and wait in all"),
        );
        for left in features::leak_check(self) {
            check(false, &left);
        }
        let held = self.held_for_requests();
        check(held == 0, &format!("{held} bytes"));
        found
    }

    /// Contradictions in the engine, in words; none between two events, whatever is under way.
    ///
    /// A request that is nowhere, in flight on no link and waiting for nothing, is one whose client never
    /// hears of it, or not before its time-out.
    pub fn contradictions(&self) -> Vec<String> {
        let mut found = self.requests_nowhere();
        let flight = |key: NodeRequestKey| self.requests.nodes.get(key)?.flight();
        found.extend(self.links.contradictions(self.cx.now, flight));
        found.extend(self.logins_astray());
        for at in 0..self.queues.len() {
            let (mut queued, mut inside) = (0, 0);
            for (_, request) in self.requests.nodes.iter() {
                match request.stage() {
                    Stage::Queued(waiting) => queued += usize::from(waiting.node.as_usize() == at),
                    Stage::Admitted(admission) | Stage::InFlight(Some(admission), _) => {
                        inside += usize::from(admission.place.node.as_usize() == at);
                    }
                    Stage::Unplaced | Stage::InFlight(None, _) => {}
                }
            }
            let there = (queued, inside);
            let counted = self.queues.counted(NodeIndex(at as u16));
            if counted != there {
                let name = self.cx.snapshot.nodes().address_of(NodeIndex(at as u16));
                found.push(format!(
                    "{name} counts {counted:?} requests that wait and are in flight, and has {there:?}"
                ));
            }
        }
        let mut in_flight: FxHashMap<SessionKey, usize> = FxHashMap::default();
        for request in self.requests.clients.values() {
            for caller in request.callers() {
                *in_flight.entry(caller.session).or_default() += 1;
            }
        }
        features::each_waiting(&self.features, |session| {
            *in_flight.entry(session).or_default() += 1;
        });
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

    /// Logins that nobody will go on with, and what others know of logins that are none.
    fn logins_astray(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut places = self.cx.shared.logins.of_worker(self.cx.index);
        let mut connections: Vec<SessionKey> = self.links.logins().collect();
        for (session, is_waiting) in self.clients.logins() {
            let has_permit = places.remove(&session);
            let at = connections.iter().position(|of| *of == session);
            let connected = at.map(|at| connections.swap_remove(at)).is_some();
            // Its permit may be on its way.
            let fits = match is_waiting {
                true => has_permit.is_some() && !connected,
                false => has_permit == Some(true) && connected,
            };
            if !fits {
                found.push(format!(
                    "a login that waits ({is_waiting}) has permit {has_permit:?}, connection {connected}"
                ));
            }
        }
        let (places, connections) = (places.len(), connections.len());
        if (places, connections) != (0, 0) {
            found.push(format!(
                "{places} places and {connections} connections of logins that have ended"
            ));
        }
        found
    }

    fn requests_nowhere(&self) -> Vec<String> {
        let waiting = self.links.waiting().chain(self.pauses.keys());
        let waiting: FxHashSet<NodeRequestKey> = waiting.collect();
        let is_somewhere = |(key, request): (NodeRequestKey, &NodeRequest)| match request.stage() {
            Stage::Queued(_) => true,
            Stage::InFlight(_, flight) => self.links.carries(key, flight),
            Stage::Unplaced | Stage::Admitted(_) => waiting.contains(&key),
        };
        let node_requests = self.requests.nodes.iter();
        let nowhere = node_requests.filter(|entry| !is_somewhere(*entry));
        let nowhere = nowhere
            .map(|(_, request)| format!("a node request for {} is nowhere", request.owner()));
        let clients = self.requests.clients.values();
        let forgotten = clients.filter(|request| {
            let whole = request.execution.whole();
            let is_sent = whole.is_some_and(|whole| self.requests.nodes.get(whole).is_some());
            let is_held = request.execution.is_held();
            !is_sent
                && !is_held
                && !request.execution.is_in_parts()
                && !request.is_waiting_to_begin()
                && !request.features.goes_with_another()
        });
        let forgotten = forgotten.map(|request| {
            let text = request.query.statement.as_ref().map(|s| &*s.text);
            format!("a client's request of {text:?} is nowhere")
        });
        nowhere.chain(forgotten).collect()
    }

    /// Bytes held, less those in the buffers of links, which stay.
    fn held_for_requests(&self) -> usize {
        let links = self.links.held_bytes();
        self.cx.memory.held().saturating_sub(links)
    }
}
