//! One proxy, its clients and nodes, in virtual time, from one seed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_engine::Engine;
use helenus_engine::config::{AggregationMode, Config};
use helenus_engine::output::LinkEnd;
use helenus_engine::shared::{Common, Shared};
use helenus_engine::snapshot::list_columns::ListColumns;
use helenus_engine::snapshot::{KeyColumn, Node, NodeFacts, Snapshot};
use helenus_policy::ring::{NodeSpec, Replication, Ring};
use helenus_policy::route::NodeTable;
use helenus_policy::token::{Partitioner, Token};
use helenus_sim::dice::Dice;
use helenus_wire::Version;

use crate::client::{Answers, Client};
use crate::counting::{held, inside, take_peak};
use crate::node::Known;
use crate::worker::{Around, Meter, Worker};

const MIB: usize = 1 << 20;
const WALL: Duration = Duration::from_secs(1_700_000_000);
const NODES: u8 = 3;
/// More turns than it takes until the workers are idle, while no time passes.
const TURNS_MAX: usize = 100_000;
/// Clients of all workers together.
const CLIENTS: usize = 12;

/// What a run has held.
pub(crate) struct Held {
    pub(crate) memory_max: usize,
    /// The most that a call has left held, and that was held in the middle of one.
    pub(crate) most: usize,
    pub(crate) peak: usize,
    pub(crate) calls: u64,
    pub(crate) calls_near: u64,
    pub(crate) answers: Answers,
    /// When all clients and links are gone; and when the proxy is, too.
    pub(crate) left: usize,
    pub(crate) leaked: usize,
}

struct Run {
    begin: Instant,
    now: Instant,
    version: Version,
    common: Arc<Common>,
    workers: Vec<Worker>,
    meter: Meter,
    dice: Dice,
    known: Known,
    answers: Answers,
    buffer: Vec<u8>,
}

/// Runs a seed for so much virtual time. `slack`: what may be held beside `limits.memory_max`.
pub(crate) fn run(seed: u64, time: Duration, slack: usize) -> Held {
    let before = held();
    let mut run = Run::new(seed, slack);
    take_peak();
    let end = run.now + time;
    while run.now < end {
        let millis = [2, 5, 20, 100][run.dice.below(4) as usize];
        run.step(Duration::from_millis(millis));
    }
    let peak = take_peak() - before;
    let left = run.leave() - before;
    let Run {
        meter,
        answers,
        common,
        workers,
        ..
    } = run;
    let memory_max = common.memory_max_of(&common.settings.load());
    drop((workers, common));
    Held {
        memory_max,
        most: meter.most - before,
        peak,
        calls: meter.calls,
        calls_near: meter.calls_near,
        answers,
        left,
        leaked: held() - before,
    }
}

/// Between two moments at which all clients leave.
const ROUND: Duration = Duration::from_secs(60);

/// Runs a seed for so many rounds, in each second of which clients ask once for what they want. Returns the bytes that
/// are held behind each round, when all clients and links are gone, and when the proxy is, too.
pub(crate) fn run_in_rounds(seed: u64, rounds: usize, slack: usize) -> (Vec<usize>, usize) {
    let before = held();
    let mut run = Run::new(seed, slack);
    let mut left = Vec::new();
    for _ in 0..rounds {
        let end = run.now + ROUND;
        while run.now < end {
            run.step(Duration::from_millis(100));
            (0..9).for_each(|_| run.step_quietly(Duration::from_millis(100)));
        }
        left.push(run.leave() - before);
    }
    assert!(run.answers.results > 0);
    println!(
        "{} bytes at most, of {} allowed",
        run.meter.most - before,
        run.meter.bound
    );
    drop(run);
    (left, held() - before)
}

impl Run {
    #[allow(clippy::disallowed_methods)]
    fn new(seed: u64, slack: usize) -> Run {
        let mut dice = Dice::of(seed, 7, 0);
        let begin = Instant::now();
        let version = [Version::V4, Version::V5][dice.below(2) as usize];
        let memory_max = [8, 16, 32][dice.below(3) as usize] * MIB;
        let workers = 1 + dice.below(3) as usize;
        let config = config(memory_max, &mut dice);
        let snapshot = inside(|| snapshot(version));
        let (common, engines) = inside(|| {
            let common = Arc::new(Common::new(config, memory_max, begin));
            common.store(snapshot);
            let engine = |index| {
                let shared = Arc::new(Shared::new(common.clone()));
                Engine::new(shared, index, workers, seed, begin, WALL)
            };
            let engines: Vec<Engine> = (0..workers).map(engine).collect();
            (common, engines)
        });
        let mut run = Run {
            begin,
            now: begin,
            version,
            common,
            workers: engines.into_iter().map(Worker::new).collect(),
            meter: Meter {
                bound: memory_max + slack,
                most: 0,
                calls: 0,
                near: memory_max * 3 / 4,
                calls_near: 0,
                replay: format!("replay with HELENUS_SEED={seed}"),
            },
            dice,
            known: Known::new(),
            answers: Answers::default(),
            buffer: Worker::buffer(),
        };
        run.settle();
        run
    }

    fn around(&mut self) -> (&mut Vec<Worker>, Around<'_>) {
        let around = Around {
            now: self.now,
            now_ms: (self.now - self.begin).as_millis() as u64,
            version: self.version,
            meter: &mut self.meter,
            dice: &mut self.dice,
            known: &mut self.known,
            answers: &mut self.answers,
            buffer: &mut self.buffer,
        };
        (&mut self.workers, around)
    }

    fn step(&mut self, time: Duration) {
        self.now += time;
        let wall = WALL + (self.now - self.begin);
        let (workers, mut around) = self.around();
        for worker in &mut *workers {
            worker.keep_time(&mut around, wall);
            for link in &mut worker.links {
                link.answer(around.now_ms, around.dice);
                // Nodes stand still at times.
                let reads = around.dice.below(10) > 0;
                link.socket.carry(true, reads);
            }
            for client in &mut worker.clients {
                client.step(around.now_ms, around.dice);
            }
        }
        self.settle();
        self.come_and_go();
    }

    /// Clients leave now and then, also those that never read, and others come.
    fn come_and_go(&mut self) {
        let clients: usize = self.workers.iter().map(|worker| worker.clients.len()).sum();
        let at = self.dice.below(self.workers.len() as u64) as usize;
        if clients < CLIENTS && self.dice.below(10) == 0 {
            let (now, common) = (self.now, self.common.clone());
            let worker = &mut self.workers[at];
            let key = self.meter.call(&mut worker.engine, |engine| {
                let permit = common.admit_client().expect("one client more");
                let peer = SocketAddr::from(([127, 0, 0, 1], 4));
                engine.open_session(now, peer, now, permit)
            });
            worker.clients.push(Client::new(key, &mut self.dice));
        } else if self.dice.below(1_000) == 0 && !self.workers[at].clients.is_empty() {
            let which = self.dice.below(self.workers[at].clients.len() as u64) as usize;
            self.close_client(at, which);
        }
        self.settle();
    }

    fn close_client(&mut self, at: usize, which: usize) {
        let now = self.now;
        let worker = &mut self.workers[at];
        let client = worker.clients.remove(which);
        self.meter.call(&mut worker.engine, |engine| {
            engine.close_session(now, client.key)
        });
    }

    /// Lets the workers run until they wait for something.
    fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let mut told = Vec::new();
            let (workers, mut around) = self.around();
            let mut is_busy = false;
            for worker in &mut *workers {
                is_busy |= worker.turn(&mut around, &mut told);
            }
            for (worker, message) in told {
                workers[worker].messages.push_back(message);
            }
            if !is_busy {
                return;
            }
        }
        panic!("the workers keep each other busy");
    }

    /// All clients leave, and all links are lost; what is held then.
    fn leave(&mut self) -> usize {
        let now = self.now;
        for at in 0..self.workers.len() {
            while !self.workers[at].clients.is_empty() {
                self.close_client(at, 0);
            }
            let worker = &mut self.workers[at];
            for link in std::mem::take(&mut worker.links) {
                let why = (LinkEnd::ByNode, "the node ends");
                self.meter.call(&mut worker.engine, |engine| {
                    engine.on_link_closed(now, link.key, why, None);
                });
            }
        }
        for _ in 0..200 {
            self.step_alone(Duration::from_secs(5));
        }
        for worker in &self.workers {
            assert_eq!(worker.engine.leak_check(), Vec::<String>::new());
        }
        held()
    }

    /// Time passes, in which clients ask for nothing more.
    fn step_quietly(&mut self, time: Duration) {
        let (workers, around) = self.around();
        let clients = workers.iter_mut().flat_map(|worker| &mut worker.clients);
        clients.for_each(|client| client.carry(around.now_ms, around.dice));
        self.step_alone(time);
    }

    /// A step without clients: time passes, and links are made anew.
    fn step_alone(&mut self, time: Duration) {
        self.now += time;
        let wall = WALL + (self.now - self.begin);
        let (workers, mut around) = self.around();
        for worker in &mut *workers {
            worker.keep_time(&mut around, wall);
            for link in &mut worker.links {
                link.answer(u64::MAX, around.dice);
                link.socket.carry(true, true);
            }
        }
        self.settle();
    }
}

/// Bounds that the run is about, and caches with room for little.
fn config(memory_max: usize, dice: &mut Dice) -> Config {
    let mut config = Config::default();
    let mut pick = |choices: &[usize]| choices[dice.below(choices.len() as u64) as usize];
    let limits = &mut config.limits;
    limits.memory_max = Some(memory_max);
    limits.prepared_bytes_max = MIB;
    limits.statements_bytes_max = MIB;
    limits.request_timeout_ms = Some(10_000);
    config.links.per_node = pick(&[1, 2]);
    config.links.node_in_flight_max = pick(&[16, 512]);
    config.links.node_bytes_max = pick(&[64 << 10, 16 * MIB]);
    config.scheduling.parallel_rows = 8;
    config.scheduling.piece_kib = pick(&[0, 1, 64]);
    config.aggregation.lwt_turns = pick(&[0, 1]) == 1;
    config.aggregation.share_in_flight_max = pick(&[0, 2]);
    if pick(&[0, 1]) == 1 {
        config.aggregation.merge_writes = vec!["ks".to_owned()];
    }
    if pick(&[0, 1]) == 1 {
        config.aggregation.mode = AggregationMode::Adaptive;
    }
    config
}

fn snapshot(version: Version) -> Snapshot {
    let spec = |number: u8| NodeSpec {
        dc: "dc1".to_owned(),
        rack: "r1".to_owned(),
        tokens: (0..4)
            .map(|at| u64::MAX / 12 * (u64::from(number) + 3 * at))
            .map(|token| Token::Murmur3(i64::MIN.wrapping_add_unsigned(token)))
            .collect(),
    };
    let specs: Vec<NodeSpec> = (0..NODES).map(spec).collect();
    let ring = Ring::new(Partitioner::Murmur3, &specs);
    let owners = Arc::new(ring.replica_sets(&Replication::Simple { rf: 2 }));
    let key = KeyColumn {
        name: "k".to_owned(),
        cql_type: "bigint".to_owned(),
        is_masked: false,
    };
    let mut lists = ListColumns::default();
    lists.note("ks", "t", "k", "bigint");
    lists.note("ks", "t", "v", "blob");
    let node = |number: u8| {
        let address = SocketAddr::from(([10, 0, 0, number + 1], 9042));
        let node = Node::new(address, [number; 16], "dc1", "r1").of_release("5.0.6");
        node.with_facts(NodeFacts {
            processors: Some(4),
            ..NodeFacts::default()
        })
    };
    Snapshot::builder()
        .epoch(1)
        .version(version)
        .nodes((0..NODES).map(node))
        .places(NodeTable::new(&specs, Some("dc1"), None))
        .keyspace("ks", owners)
        .table("ks", "t", [key])
        .lists(lists)
        .local_dc("dc1")
        .ring(Some(ring))
        .build()
}
