//! The logic of one worker as a value: everything that its clients' queries need, owned by it alone.
//!
//! Whoever runs it hands over what happens: clients and their bytes, connections to nodes and theirs,
//! messages, and the time, as `on_…`. The work that follows comes out of [`Engine::poll_output`] and of
//! the outboxes of connections. Bytes for sockets collect there; whoever runs the engine writes them
//! when everything that has come together has been handed over. So queries that arrive together leave
//! together, without any timer.

mod inputs;
mod leak_check;
pub(crate) mod lent;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::backlog::{Backlog, Failed, Work};
use crate::context::Context;
use crate::features;
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::output::Output;
use crate::pipeline::request::Requests;
use crate::pipeline::retry::backoff::Pauses;
use crate::scheduler::Queues;
use crate::session::clients::Clients;
use crate::shared::Shared;
use crate::statement::Statements;
use crate::support::tick::Beat;
use crate::upstream::links::Links;
use crate::upstream::pace::Completed;

/// A worker's whole state.
pub struct Engine {
    pub(super) cx: Context,
    pub(super) features: features::State,
    pub(super) clients: Clients,
    pub(super) links: Links,
    pub(super) requests: Requests,
    pub(super) statements: Statements,
    /// Requests that wait for nodes.
    pub(super) queues: Queues,
    pub(super) pauses: Pauses,
    backlog: Backlog,
    completed: Completed,
    /// Lent to whoever takes bytes apart.
    scratch: Vec<u8>,
    beat: Beat,
}

impl Engine {
    pub fn new(
        shared: Arc<Shared>,
        index: usize,
        workers: usize,
        seed: u64,
        now: Instant,
        since_1970: Duration,
    ) -> Engine {
        let statements = Statements::new(&shared.config, workers, seed);
        let links = Links::new(&shared.config.aggregation);
        let mut state = Engine {
            cx: Context::new(shared, index, workers, seed, now, since_1970),
            features: features::State::new(seed, now),
            clients: Clients::default(),
            links,
            requests: Requests::default(),
            statements,
            queues: Queues::default(),
            backlog: Backlog::default(),
            completed: Completed::default(),
            scratch: Vec::new(),
            pauses: Pauses::default(),
            beat: Beat::new(now),
        };
        state.adopt_all();
        if !state.cx.snapshot.protocol().asks_for_login() {
            state.links.anonymous_pool(&mut state.cx);
        }
        state
    }

    /// The time of the event that is being dealt with.
    pub fn now(&self) -> Instant {
        self.cx.now
    }

    /// Leaves this to be done behind what is being dealt with.
    pub(crate) fn later(&mut self, work: Work) {
        self.backlog.push(work);
    }

    /// A node request has come to nothing: whoever waits for it will hear why.
    pub(crate) fn fail_later(&mut self, key: NodeRequestKey, ended: Failed) {
        self.backlog.push_failure(key, ended);
    }

    /// A node request that has come to nothing, and of which nobody has heard.
    #[inline]
    pub(crate) fn next_failure(&mut self) -> Option<(NodeRequestKey, Failed)> {
        self.backlog.pop_failure()
    }

    /// The next piece of work, once nothing has failed.
    #[inline]
    pub(crate) fn next_work(&mut self) -> Option<Work> {
        self.backlog.pop()
    }

    /// A client has been answered after this time, in microseconds.
    #[inline]
    pub(crate) fn note_completed(&mut self, us: u64) {
        self.completed.queries += 1;
        self.completed.latency_sum_us += us;
    }

    /// A buffer for messages that come in pieces, to be [given back](Engine::give_back_scratch).
    #[inline]
    pub(crate) fn take_scratch(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.scratch)
    }

    #[inline]
    pub(crate) fn give_back_scratch(&mut self, scratch: Vec<u8>) {
        self.scratch = scratch;
    }

    /// Sends a node request to its next candidate.
    pub(crate) fn route(&mut self, key: NodeRequestKey) {
        self.backlog.push(Work::Route(key));
    }

    /// Begins to carry out a client request, in parts or whole.
    pub(crate) fn start(&mut self, key: ClientRequestKey) {
        self.backlog.push(Work::Start(key));
    }

    /// The time of what is handed over now. It never goes back.
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.cx.now = self.cx.now.max(now);
    }

    /// The next thing to be done.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.cx.outputs.pop_front()
    }

    /// Requests that have not ended: of clients, parts of these, and the engine's own.
    pub fn requests_in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Bytes that this worker holds for clients and nodes.
    pub fn bytes_held(&self) -> usize {
        self.cx.memory.held()
    }

    /// True if no client is left, of any worker: one that does its TLS handshake has no session yet.
    pub fn is_drained(&self) -> bool {
        self.clients.is_empty() && self.cx.shared.clients.load(Ordering::Acquire) == 0
    }
}
