//! The proxies: whole engines, with threads that do one thing after the other and connections that take
//! time.
//!
//! A worker that wakes up takes everything that has come for it. When it has had the processor for as long
//! as that takes, its engine is handed all of it, and what the engine has to send leaves: as the real
//! worker reads all sockets that are ready before it writes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_engine::config::Config;
use helenus_engine::output::{Dialed, Output, Sent, Then};
use helenus_engine::session::connection::Next;
use helenus_engine::shared::Common;
use helenus_engine::stats::Quality;
use helenus_engine::{Engine, LinkKey, SessionKey};
use helenus_wire::{
    Compression, Decoder, Encoder, ErrorBody, Flow, Header, MAX_REQUEST_BODY, Opcode, QueryView,
    Version, code,
};
use slotmap::SecondaryMap;

use super::agenda::{Agenda, Event, Input, Job, ProcessId};
use super::connection::{Connection, NodeEnd, Peer};
use super::setup::Setup;
use super::snapshot::snapshot;
use crate::proxy::{At, WALL, all_of, engines};

/// The time that it takes to open a connection, beside the way there and back.
const OPENING_US: u64 = 300;
/// The first query of a worker to a node that it has connected to.
const CLUSTER_NAME: &str = "SELECT cluster_name FROM system.local";
/// From one worker to another.
const TELLING_US: u64 = 5;

pub(super) struct Proxies {
    setup: Setup,
    begin: Instant,
    /// By proxy and worker.
    workers: Vec<Vec<Worker>>,
    commons: Vec<Arc<Common>>,
    connections: Vec<Connection>,
}

struct Worker {
    engine: Engine,
    process: ProcessId,
    clients: SecondaryMap<SessionKey, usize>,
    links: SecondaryMap<LinkKey, usize>,
    /// Messages that have come, and the one that it is busy with.
    inbox: Vec<Input>,
    running: Option<Vec<Input>>,
    flush_planned: bool,
    /// When it will look whether its engine's deadline has passed.
    alarm: Option<Instant>,
}

impl Proxies {
    /// One for each of `processes`.
    pub(super) fn new(
        setup: &Setup,
        config: &Config,
        processes: &[ProcessId],
        begin: Instant,
    ) -> Self {
        let mut proxies = Proxies {
            setup: *setup,
            begin,
            workers: Vec::new(),
            commons: Vec::new(),
            connections: Vec::new(),
        };
        for (proxy, process) in processes.iter().enumerate() {
            let common = Common::new(setup.config(config), 1 << 30, begin);
            let common = Arc::new(common);
            common.store(snapshot(setup));
            let seed = setup.seed ^ (proxy as u64) << 8;
            let worker = |engine| Worker {
                engine,
                process: *process,
                clients: SecondaryMap::new(),
                links: SecondaryMap::new(),
                inbox: Vec::new(),
                running: None,
                flush_planned: false,
                alarm: None,
            };
            let engines = engines(&common, setup.workers as usize, seed, begin);
            proxies.workers.push(engines.map(worker).collect());
            proxies.commons.push(common);
        }
        proxies
    }

    /// Begins with what workers do of themselves.
    pub(super) fn begin(&mut self, agenda: &mut Agenda) {
        for proxy in 0..self.workers.len() {
            for worker in 0..self.workers[proxy].len() {
                let at = At { proxy, worker };
                self.settle(agenda, at);
            }
        }
    }

    /// A connection of a driver; `None` if the proxy takes no more.
    pub(super) fn connect(&mut self, agenda: &Agenda, at: At) -> Option<usize> {
        let now = self.now(agenda);
        let permit = self.commons[at.proxy].admit_client()?;
        let number = self.connections.len();
        let peer = ([192, 168, 0, 1], 1024 + (number % 60_000) as u16).into();
        let worker = &mut self.workers[at.proxy][at.worker];
        let key = worker.engine.open_session(now, peer, now, permit);
        worker.clients.insert(key, number);
        self.connections
            .push(Connection::new(at, Peer::Clients(key)));
        Some(number)
    }

    /// Bytes of a driver are on their way.
    pub(super) fn send(&mut self, agenda: &mut Agenda, number: usize, bytes: Vec<u8>) {
        self.send_to_proxy(agenda, number, bytes, Input::FromClient);
    }

    /// A node's answer is on its way.
    pub(super) fn answer(
        &mut self,
        agenda: &mut Agenda,
        number: usize,
        header: Header,
        body: &[u8],
    ) {
        let Peer::Node(end) = &mut self.connections[number].peer else {
            return;
        };
        end.encoder.push_slice(header, body);
        let bytes = all_of(&mut end.encoder);
        self.send_to_proxy(agenda, number, bytes, Input::FromNode);
    }

    /// The requests in bytes that have reached a node, and which node it is.
    pub(super) fn read_at_node(
        &mut self,
        agenda: &mut Agenda,
        number: usize,
        bytes: &[u8],
    ) -> (usize, Vec<(Header, Vec<u8>)>) {
        let mut got = Vec::new();
        let Peer::Node(end) = &mut self.connections[number].peer else {
            return (0, got);
        };
        let fed = end.decoder.feed(bytes, &mut Vec::new(), |header, body| {
            got.push((header, body.to_vec()));
            Flow::Continue
        });
        assert!(fed.is_ok(), "a proxy sends a node what is no frame");
        let node = end.node;
        got.retain(|(header, body)| self.greet(agenda, number, *header, body).is_none());
        (node, got)
    }

    /// Something has come for a worker.
    pub(super) fn wake(&mut self, agenda: &mut Agenda, at: At, input: Input) {
        self.workers[at.proxy][at.worker].inbox.push(input);
        self.run(agenda, at);
    }

    /// A worker has had the time that its inputs take.
    pub(super) fn on_worker(&mut self, agenda: &mut Agenda, at: At) {
        let now = self.now(agenda);
        let inputs = self.workers[at.proxy][at.worker].running.take();
        for input in inputs.into_iter().flatten() {
            let engine = &mut self.workers[at.proxy][at.worker].engine;
            match input {
                Input::FromClient(number, bytes) => {
                    self.connections[number].unread.push_back(bytes);
                    self.drive_client(agenda, number);
                }
                Input::FromNode(number, bytes) => {
                    if let Peer::Node(end) = &self.connections[number].peer
                        && engine.is_link_open(end.link)
                    {
                        engine.on_link_bytes(now, end.link, &bytes);
                    }
                }
                Input::Dialed(link, address) => self.open(agenda, at, link, address),
                Input::Message(message) => engine.on_message(now, message),
                Input::Due => {
                    let worker = &mut self.workers[at.proxy][at.worker];
                    worker.alarm = None;
                    if worker.engine.deadline() <= now {
                        worker.engine.on_deadline(now, WALL + (now - self.begin));
                    }
                }
                Input::Flush => self.workers[at.proxy][at.worker].flush_planned = false,
            }
            self.carry_out(agenda, at);
        }
        self.settle(agenda, at);
        self.run(agenda, at);
    }

    /// Of the first proxy, if there is one.
    pub(super) fn predicted(&self) -> Option<Quality> {
        let first = self.commons.first()?;
        Some(first.stats.predictions.of_all())
    }

    /// Requests that have not ended.
    pub(super) fn requests_in_flight(&self) -> usize {
        let workers = self.workers.iter().flatten();
        workers
            .map(|worker| worker.engine.requests_in_flight())
            .sum()
    }

    fn now(&self, agenda: &Agenda) -> Instant {
        self.begin + Duration::from_micros(agenda.now_us())
    }

    /// Has a worker run that has nothing else to do.
    fn run(&mut self, agenda: &mut Agenda, at: At) {
        let worker = &mut self.workers[at.proxy][at.worker];
        if worker.running.is_some() || worker.inbox.is_empty() {
            return;
        }
        let inputs = std::mem::take(&mut worker.inbox);
        let work_us = inputs.iter().map(|input| work_us(&self.setup, input)).sum();
        worker.running = Some(inputs);
        agenda.run(worker.process, work_us, Job::Worker(at));
    }

    /// Does what an engine asks for, and sends what it has to send, until there is nothing.
    fn settle(&mut self, agenda: &mut Agenda, at: At) {
        self.carry_out(agenda, at);
        let worker = &self.workers[at.proxy][at.worker];
        if worker.engine.has_unsent() && !worker.flush_planned {
            self.flush(agenda, at);
            self.carry_out(agenda, at);
        }
    }

    fn carry_out(&mut self, agenda: &mut Agenda, at: At) {
        let now = self.now(agenda);
        while let Some(output) = self.workers[at.proxy][at.worker].engine.poll_output() {
            let worker = &mut self.workers[at.proxy][at.worker];
            match output {
                Output::Client(key) => {
                    if let Some(number) = worker.clients.get(key).copied() {
                        self.drive_client(agenda, number);
                    }
                }
                Output::Link(key) => {
                    if !worker.engine.is_link_open(key)
                        && let Some(number) = worker.links.remove(key)
                    {
                        self.connections[number].is_closed = true;
                    }
                }
                Output::Dial(link, address) => {
                    let input = Input::Dialed(link, address);
                    let delay_us = 2 * self.setup.delay_us() + OPENING_US;
                    agenda.plan(delay_us, Event::ToWorker(at, input));
                }
                Output::Tell(worker, message) => {
                    let event = Event::ToWorker(At { worker, ..at }, Input::Message(message));
                    agenda.plan(TELLING_US, event);
                }
                // Nobody changes the schema, or brings an id that is not known.
                Output::Agree(_) | Output::Recall(_) | Output::Report(..) | Output::Feature(_) => {}
            }
        }
        let worker = &mut self.workers[at.proxy][at.worker];
        let deadline = worker.engine.deadline();
        if worker.alarm.is_none_or(|alarm| deadline < alarm) {
            worker.alarm = Some(deadline);
            let wait = deadline.saturating_duration_since(now);
            let event = Event::ToWorker(at, Input::Due);
            agenda.plan(wait.as_micros() as u64 + 1, event);
        }
    }

    fn drive_client(&mut self, agenda: &Agenda, number: usize) {
        let now = self.now(agenda);
        let connection = &mut self.connections[number];
        let Peer::Clients(key) = connection.peer else {
            return;
        };
        let engine = &mut self.workers[connection.at.proxy][connection.at.worker].engine;
        while let Some(Next::Read { .. }) = engine.next_for_client(now, key)
            && let Some(bytes) = connection.unread.pop_front()
        {
            engine.on_client_bytes(now, key, &bytes);
        }
    }

    fn open(&mut self, agenda: &Agenda, at: At, link: LinkKey, address: SocketAddr) {
        let now = self.now(agenda);
        let worker = &mut self.workers[at.proxy][at.worker];
        if !worker.engine.on_dialed(now, link, Ok(Dialed::default())) {
            return;
        }
        worker.links.insert(link, self.connections.len());
        let end = NodeEnd {
            node: node_at(address),
            link,
            decoder: Decoder::new(MAX_REQUEST_BODY),
            encoder: Encoder::new(),
        };
        let peer = Peer::Node(Box::new(end));
        self.connections.push(Connection::new(at, peer));
    }

    /// The words of a node while a connection to it is set up, which costs it nothing here; `None` if it
    /// is asked for something else.
    fn greet(
        &mut self,
        agenda: &mut Agenda,
        number: usize,
        header: Header,
        body: &[u8],
    ) -> Option<()> {
        let version = Version::from_number(header.version)?;
        let mut said = Vec::new();
        let opcode = match Opcode::from_number(header.opcode)? {
            Opcode::Startup => Opcode::Ready,
            // Whoever cannot tell its cluster's name is taken for one of it.
            Opcode::Query
                if QueryView::parse(body, version)
                    .ok()?
                    .text
                    .starts_with(CLUSTER_NAME) =>
            {
                let unable = ErrorBody {
                    code: code::SERVER,
                    message: "no name",
                    fields: &[],
                };
                unable.write(&mut said);
                Opcode::Error
            }
            _ => return None,
        };
        let answer = Header {
            response: true,
            opcode: opcode as u8,
            ..header
        };
        self.answer(agenda, number, answer, &said);
        if opcode == Opcode::Ready
            && let Peer::Node(end) = &mut self.connections[number].peer
        {
            let is_framed = version == Version::V5;
            end.decoder.set_mode(is_framed, Compression::None);
            end.encoder.set_mode(is_framed, Compression::None);
        }
        Some(())
    }

    fn flush(&mut self, agenda: &mut Agenda, at: At) {
        let now = self.now(agenda);
        let engine = &mut self.workers[at.proxy][at.worker].engine;
        let mut wait = None;
        let links: Vec<LinkKey> = match engine.has_window() {
            true => {
                let (due, rest) = engine.links_due(now);
                wait = rest;
                due
            }
            false => std::iter::from_fn(|| engine.next_link_to_write()).collect(),
        };
        for link in links {
            let worker = &mut self.workers[at.proxy][at.worker];
            let bytes = worker.engine.link_bytes(link).map(all_of);
            if let (Some(bytes), Some(number)) = (bytes, worker.links.get(link).copied()) {
                worker.engine.on_link_sent(now, link, sent(&bytes));
                self.send_to_peer(agenda, number, bytes);
            }
        }
        while let Some(key) = self.workers[at.proxy][at.worker]
            .engine
            .next_client_to_write()
        {
            let worker = &mut self.workers[at.proxy][at.worker];
            let bytes = worker.engine.client_bytes(key).map(all_of);
            if let (Some(bytes), Some(number)) = (bytes, worker.clients.get(key).copied()) {
                worker.engine.on_client_sent(now, key, sent(&bytes));
                self.send_to_peer(agenda, number, bytes);
                // It may have been held back while so much was to be sent.
                self.drive_client(agenda, number);
            }
        }
        if let Some(wait) = wait {
            self.workers[at.proxy][at.worker].flush_planned = true;
            let event = Event::ToWorker(at, Input::Flush);
            agenda.plan(wait.as_micros() as u64 + 1, event);
        }
    }

    fn send_to_peer(&mut self, agenda: &mut Agenda, number: usize, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let connection = &mut self.connections[number];
        let at_us = self
            .setup
            .arrival(agenda, &mut connection.to_peer_us, bytes.len());
        let event = match connection.peer {
            Peer::Clients(_) => Event::ToClients(number, bytes),
            Peer::Node(_) => Event::ToNode(number, bytes),
        };
        agenda.plan_at(at_us, event);
    }

    fn send_to_proxy(
        &mut self,
        agenda: &mut Agenda,
        number: usize,
        bytes: Vec<u8>,
        input: fn(usize, Vec<u8>) -> Input,
    ) {
        let connection = &mut self.connections[number];
        if connection.is_closed {
            return;
        }
        let at_us = self
            .setup
            .arrival(agenda, &mut connection.to_proxy_us, bytes.len());
        agenda.plan_at(at_us, Event::ToWorker(connection.at, input(number, bytes)));
    }
}

/// The node at an address of the snapshot, where they count from 1.
fn node_at(address: SocketAddr) -> usize {
    match address.ip() {
        IpAddr::V4(ip) => {
            let [_, _, high, low] = ip.octets();
            (usize::from(high) << 8 | usize::from(low)) - 1
        }
        IpAddr::V6(_) => panic!("no node has such an address"),
    }
}

/// The cost of an input for a worker.
fn work_us(setup: &Setup, input: &Input) -> f64 {
    let costs = &setup.costs;
    match input {
        Input::FromClient(..) => costs.proxy_request_us / 2.0,
        Input::FromNode(_, bytes) => {
            let rows = (bytes.len() / setup.row_bytes_held()) as f64;
            let kib = bytes.len() as f64 * setup.scale() / 1024.0;
            costs.proxy_request_us / 2.0 + rows * costs.proxy_row_us + kib * costs.proxy_kib_us
        }
        _ => 0.0,
    }
}

fn sent(bytes: &[u8]) -> Sent {
    Sent {
        writes: u64::from(!bytes.is_empty()),
        bytes: bytes.len() as u64,
        then: Then::Done,
    }
}
