//! The next events, by time, and work on machines.

use std::net::SocketAddr;

use helenus_engine::LinkKey;
use helenus_engine::shared::WorkerMessage;
use slotmap::new_key_type;

use super::machine::Machine;
use crate::events::Events;
use crate::proxy::At;

new_key_type! {
    /// A request at the node that coordinates it.
    pub(super) struct RequestKey;
    /// One of its reads.
    pub(super) struct ReadKey;
}

/// A node, a proxy or the clients' program: machine, and place on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessId {
    pub machine: usize,
    pub process: usize,
}

pub(super) enum Event {
    /// A thread has ended on a machine, unless something has changed there since.
    Machine(usize, u64),
    /// A request reaches its node.
    Request(RequestKey),
    /// A read reaches the node that carries it out; it is back where it is coordinated.
    Read(ReadKey),
    ReadBack(ReadKey),
    /// A coordinator waits no longer for its reads.
    Deadline(RequestKey),
    ToWorker(At, Input),
    ToNode(usize, Vec<u8>),
    ToClients(usize, Vec<u8>),
    /// A node's own answer reaches a client, by the number of its page.
    ToClient(usize, u64, Page),
    /// A query is due, a write or a point, of those that come at a rate.
    Offered {
        is_write: bool,
    },
    /// A client waits no longer for a query, by its number.
    TimeOut(usize, u64),
}

/// The answer to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// So many rows, and where the next page begins if there may be one: behind a row.
    Rows {
        rows: std::ops::Range<usize>,
        next: Option<usize>,
    },
    Failed,
}

/// An event that wakes a worker.
pub(super) enum Input {
    FromClient(usize, Vec<u8>),
    FromNode(usize, Vec<u8>),
    Dialed(LinkKey, SocketAddr),
    Message(WorkerMessage),
    Due,
    Flush,
}

/// The work of a thread, as it is named when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// A client sends what it asks for; it reads what it was answered.
    Send(usize),
    Receive(usize),
    Worker(At),
    /// A node begins with a request; it carries out a read; it writes the answer.
    Begin(RequestKey),
    Read(ReadKey),
    Answer(RequestKey),
}

pub(super) struct Agenda {
    events: Events<Event>,
    machines: Vec<Machine<Job>>,
}

impl Agenda {
    pub(super) fn new(machines: Vec<Machine<Job>>) -> Self {
        Agenda {
            events: Events::default(),
            machines,
        }
    }

    pub(super) fn now_us(&self) -> u64 {
        self.events.now_us()
    }

    pub(super) fn plan(&mut self, in_us: u64, event: Event) {
        self.events.plan(in_us, event);
    }

    pub(super) fn plan_at(&mut self, at_us: u64, event: Event) {
        self.events.plan(at_us.saturating_sub(self.now_us()), event);
    }

    pub(super) fn poll_next(&mut self) -> Option<Event> {
        self.events.poll_next()
    }

    /// A thread of a process wants to run for so long.
    pub(super) fn run(&mut self, process: ProcessId, work_us: f64, job: Job) {
        let now_us = self.now_us();
        self.machines[process.machine].start(now_us, process.process, work_us, job);
        self.watch(process.machine);
    }

    /// The threads that have ended.
    pub(super) fn ended(&mut self, machine: usize, generation: u64) -> Vec<Job> {
        let now_us = self.now_us();
        let of = &mut self.machines[machine];
        if of.generation != generation {
            return Vec::new();
        }
        let jobs: Vec<Job> = std::iter::from_fn(|| of.poll_end(now_us)).collect();
        self.watch(machine);
        jobs
    }

    pub(super) fn busy_us(&self, process: ProcessId) -> f64 {
        self.machines[process.machine].busy_us(process.process)
    }

    fn watch(&mut self, machine: usize) {
        let now_us = self.now_us();
        let of = &self.machines[machine];
        if let Some(end_us) = of.next_end_us(now_us) {
            let event = Event::Machine(machine, of.generation);
            self.events.plan(end_us - now_us, event);
        }
    }
}
