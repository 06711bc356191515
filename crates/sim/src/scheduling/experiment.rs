//! One run: clients, proxies and nodes, and what passes between them.

use std::sync::Arc;
use std::time::Instant;

use super::agenda::{Agenda, Event, Job, ProcessId};
use super::answer::answer;
use super::clients::{Clients, Wish};
use super::cluster::Cluster;
use super::data::Data;
use super::driver::{Driver, Got};
use super::measured::Measured;
use super::processes::{Processes, machines};
use super::proxies::Proxies;
use super::queries::{Kind, PAGE_ROWS};
use super::request::{Origin, Reply};
use super::setup::{Arm, Setup};
use super::statement::{Asked, Of, filter_text, point_text, scan_text, write_text};
use crate::proxy::At;
use crate::times::Times;

/// All that is still under way when the last query has ended is over within this time.
const QUIET_WITHIN_US: u64 = 300_000_000;

struct Experiment {
    setup: Setup,
    data: Arc<Data>,
    agenda: Agenda,
    cluster: Cluster,
    clients: Clients,
    /// Without a proxy, drivers talk to the nodes.
    proxied: Option<Proxied>,
    processes: Processes,
    phase: Phase,
    /// Scans go to the nodes in turn.
    turn: usize,
}

struct Proxied {
    proxies: Proxies,
    /// By proxy, with the numbers of their connections.
    drivers: Vec<Vec<(usize, Driver)>>,
    /// Answers that drivers still wait for before clients begin.
    unanswered: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Preparing,
    WarmingUp,
    /// With what had been done by then.
    Measuring(Mark),
}

/// The time, and what the processors have done for nodes, proxies and clients.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mark {
    at_us: u64,
    busy_us: [f64; 3],
}

/// Runs one arm. The same setup and arm give the same figures. `begin` is any instant.
///
/// # Panics
/// If a query gets no answer, two, or a wrong one: an error of the simulation or of the proxy.
pub fn run(setup: &Setup, arm: &Arm, begin: Instant) -> Measured {
    let mut experiment = Experiment::new(setup, arm, begin);
    experiment.begin();
    while let Some(event) = experiment.agenda.poll_next() {
        experiment.handle(event);
        if let Some(measured) = experiment.step() {
            experiment.let_end();
            return measured;
        }
    }
    panic!("nothing happens any more, and clients still wait");
}

impl Experiment {
    fn new(setup: &Setup, arm: &Arm, begin: Instant) -> Self {
        let proxies = match arm {
            Arm::Direct => 0,
            Arm::Proxied(_) => setup.proxies as usize,
        };
        let (machines, processes) = machines(setup, proxies);
        let data = Data::new(
            setup.nodes as usize,
            setup.vnodes as usize,
            setup.rows.into(),
        );
        let data = Arc::new(data);
        let proxied = match arm {
            Arm::Direct => None,
            Arm::Proxied(config) => Some(Proxied {
                proxies: Proxies::new(setup, config, &processes.proxies, begin),
                drivers: Vec::new(),
                unanswered: 0,
            }),
        };
        Experiment {
            setup: *setup,
            agenda: Agenda::new(machines),
            cluster: Cluster::new(setup, data.clone(), &processes.nodes),
            clients: Clients::new(setup, data.clone(), processes.clients),
            data,
            proxied,
            processes,
            phase: Phase::Preparing,
            turn: 0,
        }
    }

    /// Drivers connect and prepare their statements: each once for each proxy.
    fn begin(&mut self) {
        let Some(proxied) = &mut self.proxied else {
            // Nobody has anything to prepare or to learn.
            self.phase = Phase::Measuring(self.mark());
            return self.clients.measure(&mut self.agenda);
        };
        proxied.proxies.begin(&mut self.agenda);
        for proxy in 0..self.setup.proxies as usize {
            let mut drivers = Vec::new();
            for number in 0..self.setup.connections as usize {
                let worker = number % self.setup.workers as usize;
                let at = At { proxy, worker };
                let Some(connection) = proxied.proxies.connect(&self.agenda, at) else {
                    continue;
                };
                let mut driver = Driver::new(self.data.clone());
                driver.start();
                proxied.unanswered += 1;
                if number == 0 {
                    for table in 0..self.setup.tables {
                        driver.prepare(&point_text(table));
                        driver.prepare(&scan_text(table));
                        proxied.unanswered += 2;
                        if self.setup.offered.is_some() {
                            driver.prepare(&write_text(table));
                            proxied.unanswered += 1;
                        }
                        if self.setup.filters_in_hundred > 0 {
                            driver.prepare(&filter_text(table));
                            proxied.unanswered += 1;
                        }
                    }
                }
                let bytes = driver.take_bytes();
                proxied.proxies.send(&mut self.agenda, connection, bytes);
                drivers.push((connection, driver));
            }
            proxied.drivers.push(drivers);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Machine(machine, generation) => {
                for job in self.agenda.ended(machine, generation) {
                    self.on_ended(job);
                }
            }
            Event::Request(key) => self.cluster.on_request(&mut self.agenda, key),
            Event::Read(key) => self.cluster.on_read(&mut self.agenda, key),
            Event::ReadBack(key) => self.cluster.on_read_back(&mut self.agenda, key),
            Event::Deadline(key) => self.cluster.on_deadline(&mut self.agenda, key),
            Event::ToWorker(at, input) => {
                if let Some(proxied) = &mut self.proxied {
                    proxied.proxies.wake(&mut self.agenda, at, input);
                }
            }
            Event::ToNode(connection, bytes) => self.at_node(connection, &bytes),
            Event::ToClients(connection, bytes) => self.at_driver(connection, &bytes),
            Event::ToClient(client, page, got) => {
                self.clients.on_page(&mut self.agenda, client, page, got);
            }
            Event::Offered { is_write } => self.clients.on_offered(&mut self.agenda, is_write),
            Event::TimeOut(client, number) => {
                self.clients.on_time_out(&mut self.agenda, client, number);
            }
        }
        for (origin, reply) in self.cluster.take_answered() {
            self.deliver(origin, reply);
        }
    }

    fn on_ended(&mut self, job: Job) {
        let agenda = &mut self.agenda;
        match job {
            Job::Send(_) | Job::Receive(_) => {
                if let Some(wish) = self.clients.on_worked(agenda, job) {
                    self.ask(&wish);
                }
            }
            Job::Worker(at) => {
                if let Some(proxied) = &mut self.proxied {
                    proxied.proxies.on_worker(agenda, at);
                }
            }
            Job::Begin(key) => self.cluster.on_begun(agenda, key),
            Job::Read(key) => self.cluster.on_read_done(agenda, key),
            Job::Answer(key) => self.cluster.on_answer(agenda, key),
        }
    }

    /// A client's request leaves.
    fn ask(&mut self, wish: &Wish) {
        if let Some(proxied) = &mut self.proxied {
            let proxy = wish.client % proxied.drivers.len();
            let drivers = &mut proxied.drivers[proxy];
            let at = wish.client / self.setup.proxies as usize % drivers.len();
            let (connection, driver) = &mut drivers[at];
            driver.execute(wish);
            let bytes = driver.take_bytes();
            return proxied.proxies.send(&mut self.agenda, *connection, bytes);
        }
        let (node, of) = match wish.query.kind {
            Kind::Point { row } => (self.data.node_of(row), Of::Key(self.data.key(row))),
            Kind::Write { row } => (self.data.node_of(row), Of::Write(self.data.key(row))),
            Kind::Scan { above, limit } => {
                self.turn += 1;
                let remaining = wish.behind.map_or(limit, |(_, remaining)| remaining);
                let of = Of::Range {
                    above,
                    up_to: i64::MAX,
                    behind: wish.behind.map(|(row, _)| self.data.key(row)),
                    remaining,
                    page_rows: PAGE_ROWS.min(remaining as usize),
                    filters: false,
                };
                (self.turn % self.setup.nodes as usize, of)
            }
            Kind::Filter { .. } => {
                self.turn += 1;
                let of = Of::Range {
                    above: i64::MIN,
                    up_to: i64::MAX,
                    behind: None,
                    remaining: i32::MAX as u32,
                    page_rows: PAGE_ROWS,
                    filters: true,
                };
                (self.turn % self.setup.nodes as usize, of)
            }
        };
        let origin = Origin::Client(wish.client, wish.page);
        let key = self.cluster.admit(node, Some(of), origin);
        self.agenda.plan(self.setup.delay_us(), Event::Request(key));
    }

    /// Bytes of a proxy have reached a node.
    fn at_node(&mut self, connection: usize, bytes: &[u8]) {
        let Some(proxied) = &mut self.proxied else {
            return;
        };
        let (node, got) = proxied
            .proxies
            .read_at_node(&mut self.agenda, connection, bytes);
        for (header, body) in got {
            let Some(asked) = Asked::read(&header, &body) else {
                panic!("a node does not know what {header:?} asks for");
            };
            let of = match &asked {
                Asked::Read(read) | Asked::Execute { read, .. } => Some(read.of),
                Asked::Options | Asked::Prepare { .. } => None,
            };
            let origin = Origin::Link(connection, header, asked);
            let key = self.cluster.admit(node, of, origin);
            self.cluster.on_request(&mut self.agenda, key);
        }
    }

    /// Bytes of a proxy have reached a driver.
    fn at_driver(&mut self, connection: usize, bytes: &[u8]) {
        let Some(proxied) = &mut self.proxied else {
            return;
        };
        let mut drivers = proxied.drivers.iter_mut().flatten();
        let Some((_, driver)) = drivers.find(|(of, _)| *of == connection) else {
            return;
        };
        for got in driver.feed(bytes) {
            match got {
                Got::Done => proxied.unanswered -= 1,
                Got::Page(client, page, got) => {
                    self.clients.on_page(&mut self.agenda, client, page, got);
                }
            }
        }
    }

    /// An answer leaves its node.
    fn deliver(&mut self, origin: Origin, reply: Reply) {
        match (origin, reply) {
            // Nobody is told, and the client waits until its time is over.
            (Origin::Client(..), Reply::Dropped) => {}
            (Origin::Client(client, page), Reply::Page(got)) => {
                let event = Event::ToClient(client, page, got);
                self.agenda.plan(self.setup.delay_us(), event);
            }
            (Origin::Client(..), _) => {}
            (Origin::Link(connection, header, asked), reply) => {
                let Some(proxied) = &mut self.proxied else {
                    return;
                };
                let (header, body) = answer(&self.setup, &self.data, header, &asked, reply);
                let agenda = &mut self.agenda;
                proxied.proxies.answer(agenda, connection, header, &body);
            }
        }
    }

    /// Goes on to the next phase when one is over; what has come of the last one.
    fn step(&mut self) -> Option<Measured> {
        match self.phase {
            Phase::Preparing => {
                let waits = self.proxied.as_ref().is_some_and(|of| of.unanswered > 0);
                if !waits {
                    self.phase = Phase::WarmingUp;
                    self.clients.warm_up(&mut self.agenda);
                }
                None
            }
            Phase::WarmingUp if self.clients.is_done() => {
                self.phase = Phase::Measuring(self.mark());
                self.clients.measure(&mut self.agenda);
                None
            }
            Phase::Measuring(since) if self.clients.is_done() => Some(self.measured(since)),
            _ => None,
        }
    }

    /// Lets requests end that clients have given up, or that proxies have sent in vain.
    fn let_end(&mut self) {
        let until_us = self.agenda.now_us() + QUIET_WITHIN_US;
        while !self.is_quiet() && self.agenda.now_us() < until_us {
            let Some(event) = self.agenda.poll_next() else {
                break;
            };
            self.handle(event);
        }
        assert!(self.is_quiet(), "a request was left over");
    }

    fn is_quiet(&self) -> bool {
        let proxied = self.proxied.as_ref();
        let in_flight = proxied.map_or(0, |of| of.proxies.requests_in_flight());
        self.cluster.is_idle() && in_flight == 0
    }

    fn mark(&self) -> Mark {
        let of =
            |processes: &[ProcessId]| processes.iter().map(|of| self.agenda.busy_us(*of)).sum();
        let processes = &self.processes;
        Mark {
            at_us: self.agenda.now_us(),
            busy_us: [
                of(&processes.nodes),
                of(&processes.proxies),
                of(&[processes.clients]),
            ],
        }
    }

    fn measured(&mut self, since: Mark) -> Measured {
        let mark = self.mark();
        let ended = std::mem::take(&mut self.clients.ended);
        let times = ended.times_us.map(Times::of);
        let asked: usize = times.iter().map(Times::count).sum();
        let wanted = u64::from(self.setup.queries) + self.clients.offered();
        assert_eq!(asked as u64, wanted, "every query ends once");
        let each = |at: usize| (mark.busy_us[at] - since.busy_us[at]) / asked.max(1) as f64;
        let [points, scans, filters, writes] = times;
        let [points_failed, scans_failed, filters_failed, writes_failed] = ended.failed;
        Measured {
            points,
            scans,
            filters,
            writes,
            points_failed,
            scans_failed: scans_failed + filters_failed,
            writes_failed,
            length_us: mark.at_us - since.at_us,
            nodes_us_per_query: each(0),
            proxies_us_per_query: each(1),
            clients_us_per_query: each(2),
            node_queue_most: self.cluster.queue_most(),
            predicted: self.proxied.as_ref().and_then(|of| of.proxies.predicted()),
        }
    }
}
