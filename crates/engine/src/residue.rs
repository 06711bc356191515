//! What an engine has not given back, for checks that nothing leaks.

use std::fmt::Display;

use crate::engine::Engine;
use crate::node::link::Stream;
use crate::node::pool::Slot;

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
        check(self.sessions.is_empty(), &"clients");
        for (_, request) in &self.requests {
            let text = request.statement.as_ref().map(|s| &*s.text);
            check(false, &format!("request {:?} of {text:?}", request.origin));
        }
        check(self.backlog.is_empty(), &"work left to be done");
        check(self.outputs.is_empty(), &"outputs");
        check(self.repreparing.is_empty(), &"re-prepares");
        check(!self.shares.is_waiting(), &"reads that wait for others");
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
        let turns = self.shared.turns.waiting();
        check(turns == 0, &format!("{turns} turns waited for"));
        let held = self.held_for_requests();
        check(held == 0, &format!("{held} bytes"));
        found
    }

    /// Bytes held, less those in the buffers of links, which stay.
    fn held_for_requests(&self) -> usize {
        let links = self.links.values().map(|link| link.held_bytes());
        self.memory.held().saturating_sub(links.sum())
    }
}
