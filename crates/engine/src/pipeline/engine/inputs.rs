//! Inputs of a worker beside the bytes of its clients and nodes: messages, and the time.

mod adopt;
mod report;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;

use crate::backlog::Work;
use crate::features;
use crate::memory::Body;
use crate::output::{Agreement, HeldAnswer};
use crate::pipeline::engine::Engine;
use crate::pipeline::finish::Reply;
use crate::pipeline::nodes::agreement::warned;
use crate::rewrite::schema_reads::is_hidden_event;
use crate::shared::WorkerMessage;

impl Engine {
    /// When [`Engine::on_deadline`] is to be called next. Every input may bring it forward.
    pub fn deadline(&self) -> Instant {
        let tick = self.beat.next();
        let next = self.pauses.next_end().map_or(tick, |end| end.min(tick));
        features::deadline(self, next)
    }

    /// The [deadline](Engine::deadline) has passed. `since_1970`: the wall clock, which may be changed at
    /// any time.
    pub fn on_deadline(&mut self, now: Instant, since_1970: Duration) {
        self.set_now(now);
        self.end_pauses();
        features::on_deadline(self);
        self.settle();
        if now >= self.beat.next() {
            self.tick(since_1970);
        }
    }

    /// The nodes agree on the schema, or have had their time.
    pub fn on_agreed(&mut self, now: Instant, held: &HeldAnswer, agreement: &Agreement) {
        self.set_now(now);
        self.adopt_snapshot();
        let warned = warned(held, agreement);
        let (header_flags, body) = match &warned {
            Some((header_flags, body)) => (*header_flags, body),
            None => (held.header_flags, &held.body),
        };
        let reply = Reply {
            opcode: held.opcode,
            header_flags,
            body: Body::Borrowed(body),
            version: held.version,
        };
        self.answer_clients(held.request, reply);
        self.settle();
    }

    /// A message of the control side or another worker has come.
    pub fn on_message(&mut self, now: Instant, message: WorkerMessage) {
        self.set_now(now);
        match message {
            WorkerMessage::Snapshot => self.adopt_snapshot(),
            WorkerMessage::Settings(config) => self.adopt_settings(config),
            WorkerMessage::NodeUp(address) => self.on_node_up(address),
            WorkerMessage::Event { kind, body } if is_hidden_event(&self.cx, kind, &body) => {}
            WorkerMessage::Event { kind, body } => self.clients.emit(&mut self.cx, kind, &body),
            WorkerMessage::LogIn {
                session,
                is_granted,
            } => self.later(Work::LogIn {
                session,
                is_granted,
            }),
            WorkerMessage::Aggregate(request) => self.later(Work::Resume(request)),
            WorkerMessage::ScanPermit(node) => self.on_scan_permit(node),
            WorkerMessage::Renew(node) => self.renew_links(node),
            WorkerMessage::Report { ticket, wanted } => self.report(ticket, &wanted),
            WorkerMessage::Feature(message) => features::on_message(self, message),
        }
        self.settle();
    }

    /// Has links replaced: those to this node, or all.
    fn renew_links(&mut self, address: Option<SocketAddr>) {
        let snapshot = self.cx.snapshot.clone();
        let is_meant = |node: NodeIndex| {
            let node = snapshot.nodes().get(node);
            address.is_none_or(|meant| node.is_some_and(|node| node.address() == meant))
        };
        self.links.renew(&mut self.cx, is_meant);
    }

    /// The checks of every `TICK`.
    fn tick(&mut self, since_1970: Duration) {
        let now = self.cx.now;
        self.cx.wall = (since_1970, now);
        let may_judge = self.beat.tick(now);
        if self.cx.shared.is_newer_than(&self.cx.snapshot) {
            self.adopt_snapshot();
        }
        self.cancel_unwanted();
        if may_judge {
            self.refuse_late();
            self.expire_requests();
            features::on_late(self);
            self.check_links();
            self.expire_connecting();
            self.expire_logins();
        }
        self.end_dropped();
        self.queues.return_permits(&mut self.cx);
        self.queues.on_tick(&self.cx);
        features::on_tick(self);
        self.move_waiting_scans();
        self.clients.check(&mut self.cx);
        self.check_credentials();
        self.maintain_links();
        features::end_waits(self);
        self.settle();
        self.adapt_window();
        self.links.publish_gauges(&self.cx.shared.stats);
    }

    /// Adapts the window to what has been answered since the last tick.
    fn adapt_window(&mut self) {
        let done = std::mem::take(&mut self.completed);
        self.completed.since = Some(self.cx.now);
        self.links.adapt_window(self.cx.now, &done);
    }
}
