//! What an event leaves to be done for other requests: one thing after the other, never by recursion.
//!
//! An answer may free a place at its node, end a turn, let parked reads go, and each of these may fail
//! and do the same again; the death of a node does it for thousands of requests at once. So nothing of
//! that is done where it is noticed. It is noted here, and [`Engine::settle`] does it before the engine
//! takes its next event. Whatever waits for a node goes before what is routed anew, or new requests
//! would take the places that others have waited for.

use std::collections::VecDeque;

use crate::engine::Engine;
use crate::gates::lwt_queue::Write;
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::request::Owner;

/// Something to be done for a request.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// It is carried out: in parts, or whole.
    Start(ClientRequestKey),
    /// It goes to its next candidate.
    Route(NodeRequestKey),
    /// A conditional write of this worker may go on, with its turn or without.
    Granted { write: Write, with_turn: bool },
}

/// What is left to be done.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    work: VecDeque<Work>,
}

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.work.is_empty()
    }
}

impl Engine {
    /// Begins to carry out a client request, in parts or whole.
    pub(crate) fn start(&mut self, key: ClientRequestKey) {
        self.backlog.work.push_back(Work::Start(key));
    }

    /// Sends a message to its next candidate.
    pub(crate) fn route(&mut self, key: NodeRequestKey) {
        self.backlog.work.push_back(Work::Route(key));
    }

    /// Lets a conditional write of this worker go on.
    pub(crate) fn let_go_on(&mut self, write: Write, with_turn: bool) {
        let granted = Work::Granted { write, with_turn };
        self.backlog.work.push_back(granted);
    }

    /// Does what is left to be done, and what that leaves. Called once behind every event, and by
    /// nothing that it calls itself.
    pub(crate) fn settle(&mut self) {
        loop {
            if let Some((node, may_scan)) = self.queues.poll_noted() {
                self.pump(node, may_scan);
                continue;
            }
            match self.backlog.work.pop_front() {
                None => return,
                Some(Work::Start(key)) => self.start_now(key),
                Some(Work::Route(key)) if self.is_orphaned(key) => self.drop_message(key),
                Some(Work::Route(key)) => self.route_now(key),
                Some(Work::Granted { write, with_turn }) => self.on_granted(write, with_turn),
            }
        }
    }

    /// Whether a message is for a part that nobody waits for any more.
    fn is_orphaned(&self, key: NodeRequestKey) -> bool {
        let Some(Owner::Part(client, part)) = self.requests.nodes.get(key).map(|r| &r.owner) else {
            return false;
        };
        let client = self.requests.clients.get(*client);
        !client.is_some_and(|client| client.execution.awaits(*part, key))
    }
}
