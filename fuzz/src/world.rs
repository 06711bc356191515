//! A proxy between clients and nodes, in one thread and in virtual time. The fuzzer's bytes say what
//! happens, one step after the other.

mod steps;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use helenus_engine::Engine;
use helenus_engine::output::{Agreement, Dialed, NotDialed};
use helenus_engine::shared::{Common, Shared, WorkerMessage};
use helenus_engine::snapshot::Node;
use helenus_wire::{ErrorBody, Opcode, Version, code};

use crate::answers::Nodes;
use crate::client::{Client, End};
use crate::cluster;
use crate::input::Input;
use crate::node::Link;
use crate::worker::Worker;

const WORKERS: usize = 2;
const NODES: u8 = 3;
const NODES_MAX: usize = 6;
/// More turns than it takes until the workers are idle, while no time passes.
const TURNS_MAX: usize = 10_000;
/// How long workers wait that have nothing to do.
const STEP: Duration = Duration::from_millis(100);
/// Steps of an input; time that would take more of them passes at once.
const STEPS_MAX: u32 = 500;
/// Steps after which nothing waits for anything but answers.
const ROUNDS: usize = 150;
/// Longer than every time-out and every wait of the proxy.
const PATIENCE: Duration = Duration::from_secs(1_000);

/// The result of opening a connection to a node.
#[derive(Clone, Copy)]
enum Dial {
    Opens,
    /// Nothing, for as long as it is so.
    Hangs,
    Fails,
    RefusesRole,
    CannotJudgeRole,
    RefusesKeyspace,
}

/// The nodes' answer to a token.
#[derive(Clone, Copy)]
enum Judgement {
    Accepted,
    Hangs,
    Refused,
    Failed,
}

/// See the module.
pub struct World<'a> {
    input: Input<'a>,
    common: Arc<Common>,
    workers: Vec<Worker>,
    nodes: Nodes,
    now: Instant,
    steps: u32,
    /// The nodes answer everything in the end, or are lost.
    ends_well: bool,
    version: Version,
    /// Nodes have written bytes that are no answers to what they were asked.
    is_garbled: bool,
    /// The nodes ask for a role and its password.
    asks_who: bool,
    /// All nodes that ever were in the cluster.
    members: Vec<Node>,
    dials: [Dial; NODES_MAX],
    judgement: Judgement,
    /// Schema changes are agreed on at once.
    agrees: bool,
}

/// Takes one of these, if there are any.
fn on_one<T>(all: impl Iterator<Item = T>, which: usize, act: impl FnOnce(T)) {
    let mut all: Vec<T> = all.collect();
    if let Some(at) = which.checked_rem(all.len()) {
        act(all.swap_remove(at));
    }
}

/// Which of the nodes has this address.
fn number(address: SocketAddr) -> usize {
    match address.ip() {
        IpAddr::V4(address) => address.octets()[3].into(),
        IpAddr::V6(_) => panic!("{address} is no node"),
    }
}

fn error(code: i32, message: &str) -> (Opcode, Vec<u8>) {
    let mut body = Vec::new();
    let error = ErrorBody {
        code,
        message,
        fields: &[],
    };
    error.write(&mut body);
    (Opcode::Error, body)
}

/// When all inputs begin.
fn begin() -> Instant {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    *BEGIN.get_or_init(Instant::now)
}

impl<'a> World<'a> {
    /// The first bytes decide on settings and cluster.
    pub fn new(data: &'a [u8]) -> World<'a> {
        let mut input = Input(data);
        let choice = input.byte();
        let now = begin();
        let common = Common::new(cluster::config(&mut input), 1 << 30, now);
        let mut world = World {
            input,
            common: Arc::new(common),
            workers: Vec::new(),
            nodes: Nodes::default(),
            now,
            steps: 0,
            ends_well: choice & 1 == 0,
            version: match choice & 2 {
                0 => Version::V5,
                _ => Version::V4,
            },
            is_garbled: false,
            asks_who: choice & 4 != 0,
            members: (0..NODES).map(cluster::node).collect(),
            dials: [Dial::Opens; NODES_MAX],
            judgement: Judgement::Accepted,
            agrees: true,
        };
        world.publish();
        for index in 0..WORKERS {
            let shared = Arc::new(Shared::new(world.common.clone()));
            let engine = Engine::new(shared, index, WORKERS, 1, now, Duration::ZERO);
            world.workers.push(Worker::new(engine));
        }
        world.settle();
        world
    }

    /// Takes all steps, and then expects all answers, and that nothing is left behind.
    pub fn run(mut self) {
        while !self.input.is_empty() {
            self.step();
        }
        self.expect_answers();
        self.expect_nothing_left();
    }

    /// Puts the cluster as it is now in force.
    fn publish(&mut self) {
        let epoch = self.common.snapshot.epoch() + 1;
        let snapshot = cluster::snapshot(epoch, self.version, &self.members, self.asks_who);
        self.common.store(snapshot);
        self.tell(&WorkerMessage::Snapshot);
    }

    fn tell(&mut self, message: &WorkerMessage) {
        for worker in &mut self.workers {
            worker.messages.push_back(message.clone());
        }
    }

    /// Lets time pass, step by step.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now + STEP <= end && self.steps < STEPS_MAX {
            self.steps += 1;
            self.jump(STEP);
        }
        self.jump(end - self.now);
    }

    /// Lets time pass with one call at its end, as if the workers had not run meanwhile.
    fn jump(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        for worker in &mut self.workers {
            worker.engine.on_deadline(now, now - begin());
            let is_due = |at: &Instant| *at <= now;
            for (_, held) in worker.held.extract_if(.., |(at, _)| is_due(at)) {
                let late = Agreement::Missed(vec![held.coordinator]);
                worker.engine.on_agreed(now, &held, &late);
            }
        }
        self.settle();
    }

    /// Lets the workers run until they wait for something.
    fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let mut is_busy = false;
            for index in 0..self.workers.len() {
                let mut messages = Vec::new();
                let worker = &mut self.workers[index];
                is_busy |= worker.turn(self.now, |other, message| messages.push((other, message)));
                is_busy |= self.dial(index) | self.greet(index) | self.agree(index);
                for (other, message) in messages {
                    self.workers[other].messages.push_back(message);
                }
            }
            if !is_busy {
                let now = self.now;
                let workers = self.workers.iter_mut();
                return workers.for_each(|worker| worker.expect_rest(now));
            }
        }
        panic!("the workers keep each other busy");
    }

    /// Makes the connections that a worker wants; false if there is nothing to be done.
    fn dial(&mut self, index: usize) -> bool {
        let worker = &mut self.workers[index];
        let hangs = |address: SocketAddr| matches!(self.dials[number(address)], Dial::Hangs);
        let dials = worker.dials.extract_if(.., |(_, address)| !hangs(*address));
        let dials: Vec<_> = dials.collect();
        for (key, address) in &dials {
            let node = number(*address);
            let result = match self.dials[node] {
                Dial::Fails => Err(NotDialed::Lost("by chance".to_owned())),
                _ => Ok(Dialed::default()),
            };
            if worker.engine.on_dialed(self.now, *key, result) {
                worker.links.push(Link::new(*key, node, self.version));
            }
        }
        !dials.is_empty()
    }

    /// The nodes answer the connections of a worker that are being set up; false if there is nothing to
    /// be said.
    fn greet(&mut self, index: usize) -> bool {
        let mut is_busy = false;
        for link in &mut self.workers[index].links {
            let dial = self.dials[link.node];
            while let Some(asked) = link.greeting() {
                let answer = match asked {
                    Opcode::Startup if self.asks_who => {
                        (Opcode::Authenticate, cluster::authenticate())
                    }
                    Opcode::Startup => (Opcode::Ready, Vec::new()),
                    Opcode::AuthResponse => match (dial, self.judgement) {
                        (_, Judgement::Hangs) => break,
                        (Dial::RefusesRole, _) | (_, Judgement::Refused) => {
                            error(code::BAD_CREDENTIALS, "by chance")
                        }
                        (Dial::CannotJudgeRole, _) | (_, Judgement::Failed) => {
                            error(code::BAD_CREDENTIALS, "Unable to perform authentication")
                        }
                        // Null.
                        _ => (Opcode::AuthSuccess, vec![0xff; 4]),
                    },
                    // Who cannot tell the cluster's name is taken for one of it.
                    _ => error(code::OVERLOADED, "by chance"),
                };
                is_busy = true;
                link.answer_greeting(answer.0, &answer.1);
            }
            if matches!(dial, Dial::RefusesKeyspace) && link.is_at_first_use() {
                let (opcode, body) = error(code::INVALID, "by chance");
                link.answer_raw(opcode as u8, 0, &body);
                is_busy = true;
            }
        }
        is_busy
    }

    /// Lets a worker's clients know that their schema changes are agreed on.
    fn agree(&mut self, index: usize) -> bool {
        if !self.agrees {
            return false;
        }
        let worker = &mut self.workers[index];
        let held = std::mem::take(&mut worker.held);
        for (_, held) in &held {
            worker.engine.on_agreed(self.now, held, &Agreement::Reached);
        }
        !held.is_empty()
    }

    fn on_client(&mut self, which: usize, act: impl FnOnce(&mut Client)) {
        let clients = self.workers.iter_mut().flat_map(|w| &mut w.clients);
        on_one(clients, which, act);
    }

    fn on_link(&mut self, which: usize, act: impl FnOnce(&mut Link)) {
        let links = self.workers.iter_mut().flat_map(|w| &mut w.links);
        on_one(links, which, act);
    }

    /// Of the links whose nodes have something to answer.
    fn on_asked_link(&mut self, which: usize, act: impl FnOnce(&mut Link, &mut Nodes)) {
        let links = self.workers.iter_mut().flat_map(|w| &mut w.links);
        let asked = links.filter(|link| link.has_requests());
        on_one(asked, which, |link| act(link, &mut self.nodes));
    }

    /// The nodes answer all that they are asked, and what follows from that, as nodes would.
    fn answer_all(&mut self) {
        for _ in 0..TURNS_MAX {
            self.settle();
            self.now += cluster::WINDOW;
            self.settle();
            let links = self.workers.iter_mut().flat_map(|worker| &mut worker.links);
            let mut asked = links.filter(|link| link.has_requests()).peekable();
            if asked.peek().is_none() {
                return;
            }
            for link in asked {
                while link.has_requests() {
                    link.answer(&mut self.nodes, 0, 0);
                }
            }
        }
        panic!("the nodes are asked more and more");
    }

    /// Each request of a client that is still there is answered once, whether all goes well or not.
    fn expect_answers(&mut self) {
        self.dials.fill(match self.ends_well {
            true => Dial::Opens,
            false => Dial::Fails,
        });
        self.judgement = Judgement::Accepted;
        self.agrees = true;
        for worker in &mut self.workers {
            for client in &mut worker.clients {
                client.socket.unblock();
            }
            for link in &mut worker.links {
                link.socket.unblock();
                if !self.ends_well {
                    link.close();
                }
            }
        }
        let timed_out = self.timed_out();
        for time in std::iter::repeat_n(STEP, ROUNDS).chain([PATIENCE; 2]) {
            self.answer_all();
            if !self.is_awaited() {
                let is_late = self.timed_out() > timed_out;
                let all_answer = self.ends_well && !self.is_garbled;
                assert!(!(is_late && all_answer), "a request was forgotten");
                return;
            }
            self.jump(time);
        }
        panic!("a client waits for ever");
    }

    /// Requests that were given up.
    fn timed_out(&self) -> u64 {
        let counter = &self.common.stats.global.requests_timed_out;
        counter.load(Ordering::Relaxed)
    }

    /// True if a client waits for an answer.
    fn is_awaited(&self) -> bool {
        let mut clients = self.workers.iter().flat_map(|worker| &worker.clients);
        clients.any(Client::is_waiting)
    }

    /// When all clients and links are gone, so is everything else.
    fn expect_nothing_left(mut self) {
        self.dials.fill(Dial::Fails);
        for worker in &mut self.workers {
            for client in &mut worker.clients {
                client.leave(End::Broken);
            }
            worker.links.iter_mut().for_each(Link::close);
        }
        self.settle();
        self.jump(PATIENCE);
        for worker in &self.workers {
            assert_eq!((worker.clients.len(), worker.links.len()), (0, 0));
            assert_eq!(worker.engine.requests_in_flight(), 0, "requests");
            assert_eq!(worker.engine.contradictions(), Vec::<String>::new());
            let leak_check = worker.engine.leak_check();
            assert_eq!(worker.engine.bytes_held(), 0, "bytes, {leak_check:?}");
        }
        for node in self.common.stats.nodes() {
            let gauges = [&node.links_up, &node.in_flight, &node.scan_slots_taken];
            for gauge in gauges.into_iter().chain(&node.queued) {
                assert_eq!(gauge.load(Ordering::Relaxed), 0, "{node:?}");
            }
        }
        let turns = &self.common.features.lwt_turns;
        assert_eq!((turns.waiting(), turns.partitions()), (0, 0), "turns");
        self.workers.clear();
        assert_eq!(self.common.clients.load(Ordering::Relaxed), 0, "clients");
    }
}
