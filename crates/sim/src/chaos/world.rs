//! One run: everything that happens, in the order of virtual time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_engine::client::credentials::Credentials;
use helenus_engine::client::login::{Answer as LoginAnswer, Met, Outcome};
use helenus_engine::client::session::Next;
use helenus_engine::config::{AggregationMode, Config};
use helenus_engine::node::link::{LinkKind, OpenError, OpenedLink};
use helenus_engine::output::{Alarm, Login, Opening, Output, Sent, Then};
use helenus_engine::shared::WorkerMessage;
use helenus_engine::{LinkKey, SessionKey, TICK};
use helenus_policy::ring::{Replication, Ring};
use helenus_policy::token::Partitioner;
use helenus_wire::{
    Compression, Decoder, Encoder, Flow, Header, MAX_REQUEST_BODY, MAX_RESPONSE_BODY, Opcode,
    PageStart, Version,
};

use super::cassandra::{self, Cluster, Health, Mutation, first_value};
use super::checks::{Registers, Violation};
use super::client::{Answer, Client, InFlight, Purpose, TEXTS, is_ambiguous, role_name};
use super::cql;
use super::pipe::Pipe;
use super::proxy::{At, Proxy, Worker, all_of, snapshot, specs};
use crate::dice::Dice;
use crate::events::Events;

/// Things go wrong until then.
const TROUBLE_US: u64 = 30_000_000;
/// By then everything that was asked has been answered.
const ANSWERED_US: u64 = TROUBLE_US + 45_000_000;
/// By then everything is quiet.
const QUIET_US: u64 = ANSWERED_US + 5_000_000;
/// A peer that has so much to read takes no more.
const UNREAD_MAX: usize = 256 * 1024;
/// More than one event can leave to be done.
const OUTPUTS_MAX: usize = 100_000;

/// How often things have happened.
pub type Covered = BTreeMap<String, u64>;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Proxy,
    Peer,
}

enum Event {
    Piece(usize, End),
    Closed(usize, End),
    Flush(At),
    Tick(At),
    Message(At, WorkerMessage),
    Alarm(At, Alarm),
    Opened(At, Box<Opening>),
    LoggedIn(At, Box<Login>),
    Serve(usize, Header, Vec<u8>),
    Reply(usize, Header, Vec<u8>),
    Mutate(Mutation),
    Act(usize),
    GiveUp(usize, usize, i16, u64),
    Fault,
    Heal(usize, bool),
    Answered,
    Quiet,
}

enum Peer {
    Client(usize, SessionKey),
    Node(Box<NodeEnd>),
}

/// A node's end of a connection.
struct NodeEnd {
    node: usize,
    peer: cassandra::Peer,
    link: LinkKey,
    decoder: Decoder,
    encoder: Encoder,
}

struct Connection {
    at: At,
    peer: Peer,
    to_proxy: Pipe,
    to_peer: Pipe,
    /// Whether the proxy, and the peer, still have it.
    proxy_has: bool,
    peer_has: bool,
    /// The proxy has been told that the peer sends nothing more.
    ended: Option<bool>,
}

struct World {
    events: Events<Event>,
    begin: Instant,
    dice: Dice,
    proxies: Vec<Proxy>,
    cluster: Cluster,
    clients: Vec<Client>,
    connections: Vec<Connection>,
    registers: Registers,
    /// Statements that must never be executed: their clients were told that they were not.
    refused: Vec<i64>,
    keys: i64,
    replication: Replication,
    version: Version,
    authenticated: bool,
    trouble: bool,
    violation: Option<Violation>,
    covered: Covered,
    log: Option<String>,
}

/// Runs one seed; `begin` is any instant. With `log`, what has happened is written down.
pub fn run(seed: u64, begin: Instant, log: bool) -> (Result<Covered, Violation>, String) {
    let mut world = World::new(seed, begin, log);
    world.begin();
    while world.violation.is_none()
        && let Some(event) = world.events.poll_next()
    {
        if matches!(event, Event::Quiet) {
            world.judge_quiet();
            break;
        }
        // The panic's own message has been written by then.
        if catch_unwind(AssertUnwindSafe(|| world.handle(event))).is_err() {
            world.violate("a panic".to_owned());
        }
    }
    let log = world.log.take().unwrap_or_default();
    match world.violation {
        Some(violation) => (Err(violation), log),
        None => (Ok(world.covered), log),
    }
}

fn config(dice: &mut Dice) -> Config {
    let mut config = Config::default();
    let mut pick = |choices: &[usize]| choices[dice.below(choices.len() as u64) as usize];
    config.links.in_flight_max = pick(&[4, 32, 1024]);
    config.links.node_in_flight_max = pick(&[16, 512]);
    config.links.bulk_bytes = pick(&[0, 64, 32 * 1024]);
    config.limits.client_in_flight_max = pick(&[2, 1024]);
    config.limits.node_queue_max = pick(&[2, 4096]);
    // Without it, what a node reads page by page may take ten minutes.
    config.limits.request_timeout_ms = Some(pick(&[3_000, 12_000]) as u64);
    config.scheduling.parallel_rows = pick(&[0, 8, 8]);
    config.scheduling.piece_kib = pick(&[0, 1, 64]);
    config.scheduling.window_max = pick(&[2, 64]) as u32;
    config.scheduling.window_min = 1;
    config.aggregation.mode = [
        AggregationMode::Timerless,
        AggregationMode::Window,
        AggregationMode::Adaptive,
    ][pick(&[0, 0, 1, 2])];
    config.aggregation.window_us = pick(&[0, 30, 500]) as u64;
    config.aggregation.share_in_flight_max = pick(&[0, 0, 2]);
    // Some wait for their turn for longer than they may take.
    config.aggregation.lwt_wait_max_ms = pick(&[100, 2_000, 10_000]) as u64;
    config.aggregation.lwt_grace_ms = pick(&[0, 20]) as u64;
    config
}

impl World {
    fn new(seed: u64, begin: Instant, log: bool) -> World {
        let mut dice = Dice::of(seed, 1, 0);
        let nodes = 1 + dice.below(4) as usize;
        let version = [Version::V5, Version::V5, Version::V4][dice.below(3) as usize];
        let authenticated = dice.below(2) == 0;
        let replication = Replication::Simple {
            rf: [1, 2, 3][dice.below(3) as usize].min(nodes),
        };
        let keys = [1, 8, 60][dice.below(3) as usize];
        let proxies = 1 + dice.below(2);
        let proxies = (0..proxies).map(|number| {
            let workers = 1 + dice.below(3) as usize;
            let config = config(&mut dice);
            // Nodes join the cluster, or the proxy has not heard of all of them.
            let known = [1 + dice.below(nodes as u64) as usize, nodes][dice.below(2) as usize];
            let snapshot = snapshot(known, &replication, version, authenticated);
            Proxy::new(config, snapshot, workers, seed ^ number << 8, begin)
        });
        let proxies = proxies.collect();
        let ring = Ring::new(Partitioner::Murmur3, &specs(nodes));
        let replicas = ring.replica_sets(&replication);
        let mut registers = Registers::default();
        for key in 0..keys {
            registers.begin(key, first_value(key), 0);
            registers.acknowledge(key, first_value(key), 0);
        }
        let clients = (0..1 + dice.below(12)).map(|_| {
            let versions = [Version::V3, Version::V4, Version::V5];
            let client_version = versions[dice.below(3) as usize].min(version);
            Client::new(
                dice.below(2) as usize,
                client_version,
                5 + dice.below(60) as u32,
            )
        });
        World {
            clients: clients.collect(),
            events: Events::default(),
            begin,
            proxies,
            cluster: Cluster::new(nodes, ring, replicas, keys),
            connections: Vec::new(),
            registers,
            refused: Vec::new(),
            keys,
            replication,
            version,
            authenticated,
            trouble: true,
            violation: None,
            covered: Covered::new(),
            log: log.then(String::new),
            dice,
        }
    }

    fn begin(&mut self) {
        let workers = |(proxy, of): (usize, &Proxy)| {
            (0..of.workers.len()).map(move |worker| At { proxy, worker })
        };
        let all: Vec<At> = self.proxies.iter().enumerate().flat_map(workers).collect();
        for at in all {
            self.events.plan(self.dice.below(100_000), Event::Tick(at));
            self.after(at);
        }
        for client in 0..self.clients.len() {
            self.events
                .plan(self.dice.below(2_000_000), Event::Act(client));
        }
        self.events.plan(self.dice.below(3_000_000), Event::Fault);
        self.events.plan(ANSWERED_US, Event::Answered);
        self.events.plan(QUIET_US, Event::Quiet);
    }

    fn now_us(&self) -> u64 {
        self.events.now_us()
    }

    fn now(&self) -> Instant {
        self.begin + Duration::from_micros(self.now_us())
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        let now_us = self.now_us();
        if let Some(log) = &mut self.log {
            let _ = writeln!(log, "{:>12} {}", now_us, line());
        }
    }

    fn count(&mut self, what: &str) {
        match self.covered.get_mut(what) {
            Some(count) => *count += 1,
            None => _ = self.covered.insert(what.to_owned(), 1),
        }
    }

    fn violate(&mut self, what: String) {
        let at_us = self.now_us();
        self.note(|| format!("VIOLATION {what}"));
        self.violation.get_or_insert(Violation { at_us, what });
    }

    fn worker(&mut self, at: At) -> &mut Worker {
        &mut self.proxies[at.proxy].workers[at.worker]
    }

    fn handle(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Piece(connection, End::Proxy) => self.read_at_proxy(connection),
            Event::Piece(connection, End::Peer) => self.read_at_peer(connection),
            Event::Closed(connection, End::Proxy) => self.end_at_proxy(connection),
            Event::Closed(connection, End::Peer) => self.end_at_peer(connection),
            Event::Flush(at) => self.flush(at),
            Event::Tick(at) => {
                let wall = Duration::from_secs(1_700_000_000) + (now - self.begin);
                self.worker(at).engine.on_tick(now, wall);
                self.after(at);
                self.judge_books(at);
                self.events.plan(TICK.as_micros() as u64, Event::Tick(at));
            }
            Event::Message(at, message) => {
                self.worker(at).engine.on_message(now, message);
                self.after(at);
            }
            Event::Alarm(at, alarm) => {
                self.worker(at).engine.on_alarm(now, alarm);
                self.after(at);
            }
            Event::Opened(at, opening) => self.open(at, &opening),
            Event::LoggedIn(at, login) => self.log_in(at, &login),
            Event::Serve(connection, header, body) => self.serve(connection, &header, &body),
            Event::Reply(connection, header, body) => self.reply(connection, header, &body),
            Event::Mutate(mutation) => self.cluster.apply(mutation),
            Event::Act(client) => self.act(client),
            Event::GiveUp(client, connection, stream, begun_us) => {
                let client = &mut self.clients[client];
                if client.connection == Some(connection)
                    && let Some(found) = client.in_flight.get_mut(&stream)
                    && found.begun_us == begun_us
                {
                    found.given_up = true;
                }
            }
            Event::Fault => self.fault(),
            Event::Heal(node, restarts) => {
                self.note(|| format!("node {node} is back"));
                match restarts {
                    true => self.cluster.restart(node),
                    false => self.cluster.nodes[node].health = Health::Up,
                }
                self.tell_node_up(node);
            }
            Event::Answered => self.judge_answered(),
            Event::Quiet => {}
        }
    }

    fn tell_node_up(&mut self, node: usize) {
        for proxy in 0..self.proxies.len() {
            for worker in 0..self.proxies[proxy].workers.len() {
                let address = SocketAddr::from(([10, 0, 0, node as u8 + 1], 9042));
                let message = WorkerMessage::NodeUp(address);
                let delay = self.dice.below(500_000);
                self.events
                    .plan(delay, Event::Message(At { proxy, worker }, message));
            }
        }
    }

    // --- what engines ask for

    /// Does what an engine asks for, behind every event that it was handed.
    fn after(&mut self, at: At) {
        for done in 0.. {
            if done > OUTPUTS_MAX {
                return self.violate("an event leaves things to be done without end".to_owned());
            }
            let Some(output) = self.worker(at).engine.poll_output() else {
                break;
            };
            self.carry_out(at, output);
        }
        let worker = &mut self.proxies[at.proxy].workers[at.worker];
        if worker.engine.has_unsent() && !worker.flush_planned {
            worker.flush_planned = true;
            self.events.plan(self.dice.below(40), Event::Flush(at));
        }
    }

    fn carry_out(&mut self, at: At, output: Output) {
        match output {
            Output::Client(key) => {
                if let Some(connection) = self.worker(at).clients.get(key).copied() {
                    self.events.plan(0, Event::Piece(connection, End::Proxy));
                }
            }
            Output::Link(key) => {
                if let Some(connection) = self.worker(at).links.get(key).copied() {
                    self.events.plan(0, Event::Piece(connection, End::Proxy));
                }
            }
            Output::Open(opening) => {
                let node = opening.node.as_usize();
                let delay = match self.cluster.nodes[node].health {
                    // A frozen node takes the connection, and says nothing.
                    Health::Frozen(_) => 6_000_000,
                    _ => 200 + self.dice.below(3_000),
                };
                self.events
                    .plan(delay, Event::Opened(at, Box::new(opening)));
            }
            Output::LogIn(login) => {
                let delay = 500 + self.dice.below(20_000);
                self.events
                    .plan(delay, Event::LoggedIn(at, Box::new(login)));
            }
            Output::Agree(_) => self.violate("no schema has changed".to_owned()),
            Output::Alarm(after, alarm) => {
                self.events
                    .plan(after.as_micros() as u64, Event::Alarm(at, alarm));
            }
            Output::Tell(worker, message) => {
                let to = At { worker, ..at };
                let delay = 1 + self.dice.below(100);
                self.events.plan(delay, Event::Message(to, message));
            }
            Output::Recall(id) => self.proxies[at.proxy].common.forget_recall(&id),
        }
    }

    fn open(&mut self, at: At, opening: &Opening) {
        let node = opening.node.as_usize();
        let up = self.cluster.nodes[node].health == Health::Up;
        let role = opening.identity.credentials().and_then(Credentials::role);
        let peer = cassandra::Peer {
            role: role.map(str::to_owned),
            keyspace: match &opening.kind {
                LinkKind::Keyspace(keyspace) => Some(keyspace.to_string()),
                _ => None,
            },
        };
        let codec = |max: usize| {
            let (mut decoder, mut encoder) = (Decoder::new(max), Encoder::new());
            let framed = opening.version == Version::V5;
            decoder.set_mode(framed, Compression::None);
            encoder.set_mode(framed, Compression::None);
            (decoder, encoder)
        };
        let result = match up && self.dice.below(20) > 0 {
            true => {
                let (decoder, encoder) = codec(MAX_RESPONSE_BODY);
                Ok(OpenedLink {
                    decoder,
                    encoder,
                    version: opening.version,
                })
            }
            false => Err(OpenError::Other("refused, says the model".to_owned())),
        };
        self.count(if result.is_ok() {
            "link opened"
        } else {
            "link refused"
        });
        let now = self.now();
        let number = self.connections.len();
        let worker = self.worker(at);
        if let Some(link) = worker.engine.on_link_opened(now, opening, result) {
            worker.links.insert(link, number);
            let (decoder, encoder) = codec(MAX_REQUEST_BODY);
            self.connections.push(Connection {
                at,
                peer: Peer::Node(Box::new(NodeEnd {
                    node,
                    peer,
                    link,
                    decoder,
                    encoder,
                })),
                to_proxy: Pipe::default(),
                to_peer: Pipe::default(),
                proxy_has: true,
                peer_has: true,
                ended: None,
            });
        }
        self.after(at);
    }

    fn log_in(&mut self, at: At, login: &Login) {
        let mut body = Vec::new();
        helenus_wire::write::i32(&mut body, -1);
        let answer = LoginAnswer {
            opcode: Opcode::AuthSuccess,
            header_flags: 0,
            body,
            version: login.version,
        };
        let outcome = match self.dice.below(10) {
            0 => Outcome::Failed(
                helenus_wire::code::SERVER,
                "no node, says the model".to_owned(),
            ),
            _ => Outcome::Accepted(Credentials::of_password(&login.token), answer),
        };
        let now = self.now();
        let engine = &mut self.worker(at).engine;
        engine.end_login(now, login, outcome, &Met::default());
        self.after(at);
    }

    fn flush(&mut self, at: At) {
        let now = self.now();
        let worker = self.worker(at);
        worker.flush_planned = false;
        let mut wait = None;
        let links = match worker.engine.has_window() {
            true => {
                let (due, rest) = worker.engine.links_due(now);
                wait = rest;
                due
            }
            false => std::iter::from_fn(|| worker.engine.next_link_to_write()).collect(),
        };
        for link in links {
            self.write_link(at, link);
        }
        while let Some(key) = self.worker(at).engine.next_client_to_write() {
            self.write_client(at, key);
            let worker = self.worker(at);
            if worker.engine.is_client_held(key)
                && let Some(connection) = worker.clients.get(key).copied()
            {
                self.events.plan(0, Event::Piece(connection, End::Proxy));
            }
        }
        if let Some(wait) = wait {
            self.worker(at).flush_planned = true;
            let wait_us = wait.as_micros() as u64 + 1;
            self.events.plan(wait_us, Event::Flush(at));
        }
        self.after(at);
    }

    fn write_link(&mut self, at: At, link: LinkKey) {
        let worker = &mut self.proxies[at.proxy].workers[at.worker];
        let Some(connection) = worker.links.get(link).copied() else {
            return;
        };
        let blocked = self.connections[connection].to_peer.unread > UNREAD_MAX;
        let Some(encoder) = worker.engine.link_bytes(link) else {
            return;
        };
        let bytes = if blocked { Vec::new() } else { all_of(encoder) };
        worker.engine.on_link_sent(link, sent(&bytes, blocked));
        self.send(connection, End::Peer, &bytes);
    }

    fn write_client(&mut self, at: At, key: SessionKey) {
        let worker = &mut self.proxies[at.proxy].workers[at.worker];
        let Some(connection) = worker.clients.get(key).copied() else {
            return;
        };
        let blocked = self.connections[connection].to_peer.unread > UNREAD_MAX;
        let Some(outbox) = worker.engine.client_bytes(key) else {
            return;
        };
        let bytes = if blocked { Vec::new() } else { all_of(outbox) };
        worker.engine.on_client_sent(key, sent(&bytes, blocked));
        self.send(connection, End::Peer, &bytes);
    }

    fn send(&mut self, number: usize, to: End, bytes: &[u8]) {
        let now_us = self.now_us();
        let connection = &mut self.connections[number];
        if connection.ended == Some(true) {
            // It is broken, and what is sent now is lost.
            return;
        }
        let pipe = match to {
            End::Proxy => &mut connection.to_proxy,
            End::Peer => &mut connection.to_peer,
        };
        for at_us in pipe.send(now_us, bytes, &mut self.dice) {
            self.events.plan(at_us - now_us, Event::Piece(number, to));
        }
    }

    // --- what reaches a proxy

    fn read_at_proxy(&mut self, number: usize) {
        if !self.connections[number].proxy_has {
            return;
        }
        let at = self.connections[number].at;
        match self.connections[number].peer {
            Peer::Client(_, key) => self.read_client(number, at, key),
            Peer::Node(ref end) => {
                let link = end.link;
                self.read_link(number, at, link);
            }
        }
        self.after(at);
    }

    fn read_client(&mut self, number: usize, at: At, key: SessionKey) {
        let now = self.now();
        let now_us = self.now_us();
        if self.worker(at).engine.is_client_blocked(key) {
            self.write_client(at, key);
        }
        loop {
            let worker = &mut self.proxies[at.proxy].workers[at.worker];
            worker.engine.set_now(now);
            let connection = &mut self.connections[number];
            match worker.engine.next_for_client(key) {
                None | Some(Next::Close) => return self.close_client(number, at, key),
                Some(Next::Wait) => return,
                Some(Next::ShutDown) => {
                    worker.engine.on_client_shut_down(key);
                    let at_us = connection.to_peer.arrival(now_us, &mut self.dice);
                    self.events
                        .plan(at_us - now_us, Event::Closed(number, End::Peer));
                }
                Some(Next::Linger) => {
                    while connection.to_proxy.take(now_us).is_some() {}
                    if connection.ended.is_none() {
                        return;
                    }
                    return self.close_client(number, at, key);
                }
                Some(Next::Read { leaving }) => match connection.to_proxy.take(now_us) {
                    Some(bytes) => worker.engine.on_client_bytes(now, key, &bytes),
                    None => match connection.ended {
                        Some(broken) => worker.engine.on_client_end(now, key, broken),
                        None if leaving => worker.engine.finish(key),
                        None => return,
                    },
                },
            }
        }
    }

    fn close_client(&mut self, number: usize, at: At, key: SessionKey) {
        let worker = self.worker(at);
        worker.clients.remove(key);
        worker.engine.close_session(key);
        self.leave(number, End::Proxy);
    }

    fn read_link(&mut self, number: usize, at: At, link: LinkKey) {
        let (now, now_us) = (self.now(), self.now_us());
        if self.worker(at).engine.is_link_blocked(link) {
            self.write_link(at, link);
        }
        loop {
            let worker = &mut self.proxies[at.proxy].workers[at.worker];
            worker.engine.set_now(now);
            if !worker.engine.is_link_open(link) {
                worker.links.remove(link);
                return self.leave(number, End::Proxy);
            }
            let connection = &mut self.connections[number];
            match connection.to_proxy.take(now_us) {
                Some(bytes) => worker.engine.on_link_bytes(now, link, &bytes),
                None if connection.ended.is_some() => {
                    worker
                        .engine
                        .on_link_closed(now, link, "reset, says the model");
                }
                None => return,
            }
        }
    }

    fn end_at_proxy(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        connection.ended.get_or_insert(false);
        self.read_at_proxy(number);
    }

    /// An end gives a connection up; the other one hears of it behind what was sent.
    fn leave(&mut self, number: usize, end: End) {
        let now_us = self.now_us();
        let connection = &mut self.connections[number];
        let (has, pipe, other) = match end {
            End::Proxy => (
                &mut connection.proxy_has,
                &mut connection.to_peer,
                End::Peer,
            ),
            End::Peer => (
                &mut connection.peer_has,
                &mut connection.to_proxy,
                End::Proxy,
            ),
        };
        if std::mem::take(has) {
            let at_us = pipe.arrival(now_us, &mut self.dice);
            self.events
                .plan(at_us - now_us, Event::Closed(number, other));
        }
    }

    // --- what reaches a peer

    fn read_at_peer(&mut self, number: usize) {
        let now_us = self.now_us();
        let connection = &mut self.connections[number];
        if !connection.peer_has {
            return;
        }
        let (client, node) = match &connection.peer {
            Peer::Client(client, _) => (Some(*client), None),
            Peer::Node(end) => (None, Some(end.node)),
        };
        if let Some(node) = node
            && let Health::Frozen(until_us) = self.cluster.nodes[node].health
        {
            let wait_us = until_us.saturating_sub(now_us) + 1;
            return self.events.plan(wait_us, Event::Piece(number, End::Peer));
        }
        let Some(bytes) = connection.to_peer.take(now_us) else {
            return;
        };
        // What waits at the proxy may go on.
        self.events.plan(1, Event::Piece(number, End::Proxy));
        match client {
            Some(client) => self.feed_client(client, number, &bytes),
            None => self.feed_node(number, &bytes),
        }
    }

    fn feed_node(&mut self, number: usize, bytes: &[u8]) {
        let mut got = Vec::new();
        if let Peer::Node(end) = &mut self.connections[number].peer {
            let fed = end.decoder.feed(bytes, &mut Vec::new(), |header, body| {
                got.push((header, body.to_vec()));
                Flow::Continue
            });
            if let Err(e) = fed {
                return self.violate(format!("the proxy sends a node what is no frame: {e}"));
            }
        }
        for (header, body) in got {
            let slow = match self.dice.below(50) {
                0 => self.dice.below(3_000_000),
                _ => self.dice.below(2_000),
            };
            self.events
                .plan(100 + slow, Event::Serve(number, header, body));
        }
    }

    fn serve(&mut self, number: usize, header: &Header, body: &[u8]) {
        let now_us = self.now_us();
        let connection = &self.connections[number];
        let Peer::Node(end) = &connection.peer else {
            return;
        };
        let node = end.node;
        match self.cluster.nodes[node].health {
            Health::Down => return,
            Health::Frozen(until_us) => {
                let wait_us = until_us.saturating_sub(now_us) + 1;
                let event = Event::Serve(number, *header, body.to_vec());
                return self.events.plan(wait_us, event);
            }
            Health::Up => {}
        }
        // The connection may be gone by now; a node that has begun goes on all the same.
        let at = (node, now_us);
        let Peer::Node(end) = &mut self.connections[number].peer else {
            return;
        };
        let served = self
            .cluster
            .serve(at, header, body, &mut end.peer, &mut self.dice);
        for mutation in served.later {
            let delay = match self.dice.below(4) {
                0 => self.dice.below(2_000_000),
                _ => self.dice.below(2_000),
            };
            self.events.plan(delay, Event::Mutate(mutation));
        }
        // A node that says nothing.
        if self.trouble && self.dice.below(2_000) == 0 {
            return self.count("never answered by its node");
        }
        let answer = Header {
            response: true,
            flags: 0,
            opcode: served.opcode as u8,
            ..*header
        };
        // What has been read may be old by the time that it is sent.
        let delay = match self.dice.below(10) {
            0 => self.dice.below(50_000),
            _ => 0,
        };
        self.events
            .plan(delay, Event::Reply(number, answer, served.body));
    }

    fn reply(&mut self, number: usize, answer: Header, body: &[u8]) {
        let Connection {
            peer: Peer::Node(end),
            peer_has: true,
            ..
        } = &mut self.connections[number]
        else {
            return;
        };
        end.encoder.push_slice(answer, body);
        let bytes = all_of(&mut end.encoder);
        self.send(number, End::Proxy, &bytes);
    }

    fn end_at_peer(&mut self, number: usize) {
        if !self.connections[number].peer_has {
            return;
        }
        self.leave(number, End::Peer);
        if let Peer::Client(client, _) = self.connections[number].peer {
            self.note(|| format!("client {client} is disconnected"));
            self.clients[client].connection = None;
            self.clients[client].ready = false;
            let delay = 1_000 + self.dice.below(500_000);
            self.events.plan(delay, Event::Act(client));
        }
    }

    // --- clients

    fn act(&mut self, client: usize) {
        if self.clients[client].connection.is_none() {
            if self.trouble && self.clients[client].left > 0 {
                self.connect(client);
            }
            return;
        }
        if !self.clients[client].ready {
            return;
        }
        let most = 1 + self.dice.below(6) as usize;
        while self.trouble
            && self.clients[client].left > 0
            && self.clients[client].in_flight.len() < most
        {
            self.clients[client].left -= 1;
            self.begin_request(client);
        }
        self.write_of_client(client);
        let done = self.clients[client].left == 0 || !self.trouble;
        match (done, self.clients[client].connection) {
            (true, Some(number)) if self.clients[client].in_flight.is_empty() => {
                self.clients[client].connection = None;
                self.leave(number, End::Peer);
            }
            (true, _) => {}
            _ => {
                let think = 100 + self.dice.below(600_000);
                self.events.plan(think, Event::Act(client));
            }
        }
    }

    fn connect(&mut self, client: usize) {
        let proxy = self.dice.below(self.proxies.len() as u64) as usize;
        let worker = self.dice.below(self.proxies[proxy].workers.len() as u64) as usize;
        let at = At { proxy, worker };
        let (now, now_us) = (self.now(), self.now_us());
        let Some(permit) = self.proxies[proxy].common.admit_client() else {
            return;
        };
        let number = self.connections.len();
        let peer = SocketAddr::from(([192, 168, 0, client as u8], 1024 + number as u16 % 60_000));
        let of = self.worker(at);
        of.engine.set_now(now);
        let key = of.engine.open_session(peer, now, permit);
        of.clients.insert(key, number);
        self.connections.push(Connection {
            at,
            peer: Peer::Client(client, key),
            to_proxy: Pipe::default(),
            to_peer: Pipe::default(),
            proxy_has: true,
            peer_has: true,
            ended: None,
        });
        self.count("client connected");
        self.note(|| format!("client {client} connects to {at:?}"));
        self.clients[client].connect(number);
        self.clients[client].start(now_us);
        self.write_of_client(client);
    }

    fn write_of_client(&mut self, client: usize) {
        let bytes = self.clients[client].take_bytes();
        if let Some(number) = self.clients[client].connection {
            self.send(number, End::Proxy, &bytes);
        }
    }

    fn begin_request(&mut self, number: usize) {
        let now_us = self.now_us();
        let count = self.clients.len() as i64;
        let any_key = self.dice.below(self.keys as u64) as i64;
        let keys = self.keys;
        let client = &mut self.clients[number];
        let dice = &mut self.dice;
        let unique = |client: &mut Client| {
            client.serial += 1;
            (number as i64 + 1) * 1_000_000_000_000 + client.serial
        };
        let bytes = |value: i64| value.to_be_bytes().to_vec();
        let one = (100, None);
        let stream = match dice.below(24) {
            0..=5 => {
                let values = [bytes(any_key)];
                client.statement(
                    now_us,
                    cql::READ,
                    &values,
                    one,
                    Purpose::Read(any_key),
                    dice,
                )
            }
            6..=9 => {
                let own = any_key - any_key.rem_euclid(count) + number as i64;
                if own >= keys || !client.writing.insert(own) {
                    return;
                }
                let value = unique(client);
                self.registers.begin(own, value, now_us);
                let values = [bytes(own), bytes(value)];
                let purpose = Purpose::Write(own, value);
                client.statement(now_us, cql::WRITE, &values, one, purpose, dice)
            }
            10 | 11 => {
                let id = unique(client);
                let values = [bytes(id), bytes(any_key)];
                client.statement(now_us, cql::ADD, &values, one, Purpose::Add(id), dice)
            }
            12 | 13 => {
                let key = any_key % 2;
                let value = unique(client);
                let expected = self.cluster.conditional.get(&key).copied().unwrap_or(0);
                let values = [bytes(value), bytes(key), bytes(expected)];
                let purpose = Purpose::Cas(key, value, expected);
                client.statement(now_us, cql::CAS, &values, one, purpose, dice)
            }
            14 => {
                let values = [bytes(any_key)];
                let purpose = Purpose::ReadCas(any_key);
                client.statement(now_us, cql::READ_CAS, &values, one, purpose, dice)
            }
            15 | 20 | 21 => {
                let size = page_size(dice);
                let text = [cql::SCAN, cql::SCAN, cql::SCAN_SOME][dice.below(3) as usize];
                let purpose = Purpose::Scan(text, Default::default());
                client.statement(now_us, text, &[], (size, None), purpose, dice)
            }
            16 => client.statement(now_us, cql::COUNT, &[], one, Purpose::Count, dice),
            17 | 22 => {
                let mut some: Vec<i64> = (0..1 + dice.below(6))
                    .map(|_| dice.below(keys as u64) as i64)
                    .collect();
                some.dedup();
                let values = [cql::list(&some)];
                client.statement(now_us, cql::MANY, &values, one, Purpose::Many(some), dice)
            }
            19 if client.in_keyspace => {
                let values = [bytes(any_key)];
                let purpose = Purpose::Read(any_key);
                client.statement(now_us, cql::READ_HERE, &values, one, purpose, dice)
            }
            19 => client.statement(now_us, cql::USE, &[], one, Purpose::Use, dice),
            18 => client.statement(now_us, cql::WHO, &[bytes(1)], one, Purpose::Who, dice),
            _ => {
                let text = TEXTS[dice.below(TEXTS.len() as u64) as usize];
                return client.prepare(now_us, text);
            }
        };
        if let Some(connection) = client.connection {
            let patience = 2_000_000 + dice.below(20_000_000);
            let give_up = Event::GiveUp(number, connection, stream, now_us);
            self.events.plan(patience, give_up);
        }
    }

    fn feed_client(&mut self, client: usize, number: usize, bytes: &[u8]) {
        let got = match self.clients[client].feed(bytes) {
            Ok(got) => got,
            Err(e) => return self.violate(format!("client {client} gets what is no frame: {e}")),
        };
        for (header, body) in got {
            self.answer(client, number, &header, &body);
        }
        self.write_of_client(client);
    }

    fn answer(&mut self, client: usize, number: usize, header: &Header, body: &[u8]) {
        let of = &mut self.clients[client];
        if of.connection != Some(number) {
            return;
        }
        let Some(request) = of.in_flight.remove(&header.stream) else {
            let what = format!(
                "client {client} gets an answer on stream {} that it has not asked on",
                header.stream
            );
            return self.violate(what);
        };
        if header.version != of.version as u8 || !header.response {
            return self.violate(format!("client {client} gets {header:?}"));
        }
        match of.read(&request, header, body) {
            Ok(answer) => {
                self.note(|| format!("client {client} {:?}: {answer:?}", request.purpose));
                self.judge(client, request, answer);
            }
            Err(e) => self.violate(format!("client {client}, {:?}: {e}", request.purpose)),
        }
    }

    fn judge(&mut self, number: usize, request: InFlight, answer: Answer) {
        let now_us = self.now_us();
        let span = (request.begun_us, now_us);
        let client = &mut self.clients[number];
        let label = match &answer {
            Answer::Error(code, _) => format!("{} error {code:#06x}", name(&request.purpose)),
            _ => name(&request.purpose).to_owned(),
        };
        let int = |cell: &[u8]| i64::from_be_bytes(cell.try_into().unwrap_or([0xEE; 8]));
        if let Purpose::Write(key, _) = request.purpose {
            client.writing.remove(&key);
        }
        if let (Purpose::Write(_, value), Answer::Error(code, _)) = (&request.purpose, &answer)
            && !is_ambiguous(*code)
        {
            self.refused.push(*value);
        }
        let verdict = match (&request.purpose, &answer) {
            (Purpose::Startup, Answer::Ready) | (Purpose::Login, Answer::Ready) => {
                client.ready = true;
                // Most applications prepare all that they use first.
                if self.dice.below(4) > 0 {
                    TEXTS.iter().for_each(|text| client.prepare(now_us, text));
                }
                self.events.plan(self.dice.below(5_000), Event::Act(number));
                Ok(())
            }
            (Purpose::Startup, Answer::Authenticate) => {
                client.log_in(now_us);
                Ok(())
            }
            // The connection ends behind it.
            (Purpose::Login, Answer::Error(..)) => Ok(()),
            (Purpose::Prepare(_), Answer::Prepared) => Ok(()),
            (Purpose::Add(id) | Purpose::Cas(_, id, _), Answer::Error(code, _)) => {
                if !is_ambiguous(*code) {
                    self.refused.push(*id);
                }
                Ok(())
            }
            (Purpose::Use, _) => Ok(()),
            // A node has said nothing to a PREPARE, the client's or one that its request waited for.
            (_, Answer::Error(_, text)) if text.contains(" within ") => Ok(()),
            (_, Answer::Error(code, text)) => match *code {
                helenus_wire::code::SERVER | helenus_wire::code::PROTOCOL => Err(text.clone()),
                helenus_wire::code::INVALID => Err(format!("the model does not know: {text}")),
                _ => Ok(()),
            },
            (Purpose::Write(key, value), Answer::Void) => {
                self.registers.acknowledge(*key, *value, now_us);
                Ok(())
            }
            (Purpose::Add(id), Answer::Void) => {
                self.cluster.once.acknowledge(*id);
                Ok(())
            }
            (Purpose::Cas(_, id, _), Answer::Rows(rows, _)) => {
                match rows.first().and_then(|row| row.first()).map(|cell| cell[0]) {
                    Some(1) => self.cluster.once.acknowledge(*id),
                    _ => self.refused.push(*id),
                }
                Ok(())
            }
            (Purpose::Read(key), Answer::Rows(rows, _)) => {
                let value = rows.first().map(|row| int(&row[0]));
                self.registers.judge(*key, value, span)
            }
            (Purpose::ReadCas(_), Answer::Rows(..)) => Ok(()),
            (Purpose::Many(keys), Answer::Rows(rows, _)) => {
                let found: Vec<i64> = rows.iter().map(|row| int(&row[0])).collect();
                let judged = rows.iter().try_for_each(|row| {
                    self.registers.judge(int(&row[0]), Some(int(&row[1])), span)
                });
                let mut wanted = keys.clone();
                // Their rows come in the order of the key's type.
                wanted.sort_unstable();
                wanted.dedup();
                match found == wanted {
                    true => judged,
                    false => Err(format!("keys {wanted:?} were asked for, {found:?} came")),
                }
            }
            (Purpose::Count, Answer::Rows(rows, _)) => {
                let counted = rows.first().map(|row| int(&row[0]));
                match counted == Some(self.keys) && rows.len() == 1 {
                    true => Ok(()),
                    false => Err(format!("{counted:?} rows were counted of {}", self.keys)),
                }
            }
            (Purpose::Who, Answer::Rows(rows, _)) => {
                let found = String::from_utf8_lossy(&rows[0][0]).into_owned();
                let wanted = match self.authenticated {
                    true => role_name(client.role),
                    false => "nobody".to_owned(),
                };
                match found == wanted {
                    true => Ok(()),
                    false => Err(format!("{wanted} sees an answer for {found}")),
                }
            }
            (Purpose::Scan(text, seen), Answer::Rows(rows, state)) => {
                self.judge_page(number, text, seen, rows, state.as_deref())
            }
            (purpose, answer) => Err(format!("{purpose:?} is answered with {answer:?}")),
        };
        self.count(&label);
        if let Err(what) = verdict {
            self.violate(format!(
                "client {number}, {}: {what}",
                name(&request.purpose)
            ));
        }
        if self.clients[number].ready && self.dice.below(2) == 0 {
            self.events.plan(self.dice.below(2_000), Event::Act(number));
        }
    }

    fn judge_page(
        &mut self,
        number: usize,
        text: &'static str,
        seen: &std::collections::BTreeSet<i64>,
        rows: &[Vec<Vec<u8>>],
        state: Option<&[u8]>,
    ) -> Result<(), String> {
        let now_us = self.now_us();
        let int = |cell: &[u8]| i64::from_be_bytes(cell.try_into().unwrap_or([0xEE; 8]));
        let mut seen = seen.clone();
        for row in rows {
            let (key, value) = (int(&row[0]), int(&row[1]));
            if !seen.insert(key) {
                return Err(format!("key {key} comes twice"));
            }
            if !self.registers.is_of(key, value) {
                return Err(format!("key {key} has {value}, which nobody wrote to it"));
            }
        }
        let limit = cql::limit(text).unwrap_or(i32::MAX as u32);
        if let Some(state) = state {
            let left = PageStart::parse(state).map(|start| start.remaining);
            if left.ok() != limit.checked_sub(seen.len() as u32) {
                return Err(format!(
                    "{left:?} rows left of {limit} behind {}",
                    seen.len()
                ));
            }
            let size = page_size(&mut self.dice);
            let client = &mut self.clients[number];
            let purpose = Purpose::Scan(text, seen);
            client.statement(
                now_us,
                text,
                &[],
                (size, Some(state)),
                purpose,
                &mut self.dice,
            );
            return Ok(());
        }
        let wanted = self.keys.min(i64::from(limit));
        match seen.len() as i64 == wanted {
            true => Ok(()),
            false => Err(format!("a scan has {} of {wanted} keys", seen.len())),
        }
    }

    // --- what goes wrong

    fn fault(&mut self) {
        if self.now_us() >= TROUBLE_US {
            return self.end_trouble();
        }
        let node = self.dice.below(self.cluster.nodes.len() as u64) as usize;
        let what = match self.dice.below(9) {
            0 => self.reset(true),
            1 => self.reset(false),
            2 if self.cluster.nodes[node].health == Health::Up => {
                let for_us = 200_000 + self.dice.below(6_000_000);
                self.cluster.nodes[node].health = Health::Frozen(self.now_us() + for_us);
                self.events.plan(for_us, Event::Heal(node, false));
                "node frozen"
            }
            3 if self.cluster.nodes[node].health == Health::Up => {
                self.cluster.nodes[node].health = Health::Down;
                self.reset_node(node);
                let for_us = 200_000 + self.dice.below(6_000_000);
                self.events.plan(for_us, Event::Heal(node, true));
                "node crashed"
            }
            4 | 5 => {
                self.cluster.evict(node, &mut self.dice);
                "prepared statement evicted"
            }
            6 => {
                self.cluster.errors_percent = [0, 2, 20][self.dice.below(3) as usize];
                "errors more or less often"
            }
            7 => {
                self.new_snapshot();
                "snapshot"
            }
            8 => {
                self.new_settings();
                "settings"
            }
            _ => "nothing",
        };
        self.count(what);
        self.note(|| format!("fault: {what} ({node})"));
        self.events
            .plan(20_000 + self.dice.below(1_500_000), Event::Fault);
    }

    fn end_trouble(&mut self) {
        self.trouble = false;
        self.cluster.errors_percent = 0;
        for node in 0..self.cluster.nodes.len() {
            if self.cluster.nodes[node].health != Health::Up {
                self.cluster.nodes[node].health = Health::Up;
                self.tell_node_up(node);
            }
        }
        for client in 0..self.clients.len() {
            self.events.plan(self.dice.below(1_000), Event::Act(client));
        }
    }

    /// Breaks one connection, of a client or to a node.
    fn reset(&mut self, of_client: bool) -> &'static str {
        let is_wanted = |connection: &Connection| {
            connection.peer_has
                && connection.proxy_has
                && matches!(connection.peer, Peer::Client(..)) == of_client
        };
        let open: Vec<usize> = (0..self.connections.len())
            .filter(|number| is_wanted(&self.connections[*number]))
            .collect();
        if open.is_empty() {
            return "nothing";
        }
        let number = open[self.dice.below(open.len() as u64) as usize];
        self.break_off(number);
        match of_client {
            true => "client's connection broken",
            false => "node's connection broken",
        }
    }

    fn reset_node(&mut self, node: usize) {
        for number in 0..self.connections.len() {
            let connection = &self.connections[number];
            let of_node = matches!(&connection.peer, Peer::Node(end) if end.node == node);
            if of_node && connection.peer_has && connection.proxy_has {
                self.break_off(number);
            }
        }
    }

    /// Both ends lose a connection; what is on its way is lost.
    fn break_off(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        connection.to_proxy = Pipe::default();
        connection.to_peer = Pipe::default();
        connection.ended = Some(true);
        self.events
            .plan(self.dice.below(1_000), Event::Closed(number, End::Peer));
        self.events
            .plan(self.dice.below(1_000), Event::Closed(number, End::Proxy));
    }

    fn new_snapshot(&mut self) {
        let nodes = self.cluster.nodes.len();
        let proxy = self.dice.below(self.proxies.len() as u64) as usize;
        let known = &mut self.proxies[proxy].nodes_known;
        *known = nodes.min(*known + self.dice.below(2) as usize);
        let mut new = snapshot(*known, &self.replication, self.version, self.authenticated);
        let common = self.proxies[proxy].common.clone();
        new.epoch = common.snapshot.load().epoch + 1;
        common.store(new);
        self.tell_all(proxy, &WorkerMessage::Snapshot);
    }

    fn new_settings(&mut self) {
        let proxy = self.dice.below(self.proxies.len() as u64) as usize;
        let config = Arc::new(config(&mut self.dice));
        let common = self.proxies[proxy].common.clone();
        common.settings.store(config.clone());
        common.turns.adopt(&config.aggregation);
        self.tell_all(proxy, &WorkerMessage::Settings(config));
    }

    fn tell_all(&mut self, proxy: usize, message: &WorkerMessage) {
        for worker in 0..self.proxies[proxy].workers.len() {
            let delay = 1 + self.dice.below(1_000);
            let at = At { proxy, worker };
            self.events.plan(delay, Event::Message(at, message.clone()));
        }
    }

    /// What an engine says of itself is true at any moment.
    fn judge_books(&mut self, at: At) {
        let found = self.worker(at).engine.contradictions();
        if !found.is_empty() {
            self.violate(format!("{at:?}: {}", found.join("; ")));
        }
    }

    // --- the end

    /// Whoever is still connected has had all answers; then everybody leaves.
    fn judge_answered(&mut self) {
        for client in 0..self.clients.len() {
            let Some(number) = self.clients[client].connection else {
                continue;
            };
            if let Some((stream, request)) = self.clients[client].in_flight.iter().next() {
                let at = self.connections[number].at;
                let residue = self.proxies[at.proxy].workers[at.worker].engine.residue();
                let what = format!(
                    "client {client} has no answer to {request:?} on stream {stream}; {residue:?}"
                );
                return self.violate(what);
            }
            self.clients[client].connection = None;
            self.leave(number, End::Peer);
        }
    }

    /// Everything that was taken has been given back.
    fn judge_quiet(&mut self) {
        for proxy in 0..self.proxies.len() {
            let counters = self.proxies[proxy].common.stats.global.list();
            for (name, value) in counters.into_iter().filter(|(_, value)| *value > 0) {
                *self.covered.entry(format!("counter {name}")).or_default() += value;
            }
        }
        let mut left = Vec::new();
        for (proxy, of) in self.proxies.iter().enumerate() {
            for (worker, of) in of.workers.iter().enumerate() {
                let residue = of.engine.residue();
                if !residue.is_empty() {
                    left.push(format!(
                        "{:?}: {}",
                        At { proxy, worker },
                        residue.join("; ")
                    ));
                }
            }
        }
        if !left.is_empty() {
            self.violate(left.join("\n"));
        }
        if let Err(what) = self.cluster.once.judge() {
            self.violate(what);
        }
        let cluster = &self.cluster;
        let executed = |id: &&i64| cluster.once.times(**id) > 0 || cluster.applied.contains(*id);
        if let Some(id) = self.refused.iter().find(executed) {
            self.violate(format!(
                "{id} was executed, and its client was told that it was not"
            ));
        }
    }
}

fn sent(bytes: &[u8], blocked: bool) -> Sent {
    Sent {
        writes: u64::from(!bytes.is_empty()),
        bytes: bytes.len() as u64,
        then: if blocked { Then::Blocked } else { Then::Done },
    }
}

/// What a client asks for: a few rows, as many as parts of the ring may happen to have, or all.
fn page_size(dice: &mut Dice) -> i32 {
    match dice.below(4) {
        0 => 3,
        1 => 100,
        _ => 8 + dice.below(40) as i32,
    }
}

fn name(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Startup => "startup",
        Purpose::Login => "login",
        Purpose::Prepare(_) => "prepare",
        Purpose::Read(_) => "read",
        Purpose::Use => "use",
        Purpose::Write(..) => "write",
        Purpose::Add(_) => "add",
        Purpose::Cas(..) => "conditional write",
        Purpose::ReadCas(_) => "read of a conditional",
        Purpose::Scan(..) => "page",
        Purpose::Count => "count",
        Purpose::Many(_) => "many keys",
        Purpose::Who => "who",
    }
}
