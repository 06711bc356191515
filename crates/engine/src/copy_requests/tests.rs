//! Requests about copies in sync through a whole engine, with a client and three nodes that say what the test has
//! them say. The test is the control side, too: it publishes the lists.

mod asleep;
mod batches;
mod batches_bounded;
mod batches_random;
mod bounded;
mod choice;
mod failing;
mod given_up;
mod late;
mod listed;
mod listed_again;
mod listed_reads;
mod listed_scans;
mod overtaken;
mod parts;
mod parts_failing;
mod read;
mod read_again;
mod refused;
mod written;

use std::sync::Arc;
use std::time::Duration;

use helenus_layout::Layout;
use helenus_layout::insync::{Copies, Known, LISTED_MAX, Members, PROXIES_MAX, Proxies, Timing};
use helenus_layout::plan::{Copy, LogicalTable};
use helenus_policy::ring::{NodeIndex, NodeSpec, ReplicaSets, Replication, Ring};
use helenus_policy::token::{Partitioner, Token};
use helenus_wire::{Consistency, Opcode, Version, code, write};

use crate::config::Config;
use crate::copies::{Eviction, Lists, Member, Membership, OfTable};
use crate::copy_rings::RingId;
use crate::keys::LinkKey;
use crate::layouts::Layouts;
use crate::output::{NotDialed, Output};
use crate::shared::WorkerMessage;
use crate::snapshot::Snapshot;
use crate::testing::Envelope;
use crate::testing::bench::{Asking, Bench, TABLE, orders};

const COPIES: usize = 3;
const ME: usize = 4;
const TIMING: Timing = Timing {
    lease_us: 1_000_000,
    drift_ppm: 0,
    late_us: 0,
    patience_us: 300_000,
};
const INSERT: &str = "INSERT INTO app.orders (customer, day, status, total) VALUES (?, ?, ?, ?)";
const VALUES: [&[u8]; 4] = [&[1; 8], &[2; 8], b"open", &[3; 8]];
const VOID: [u8; 4] = 1_i32.to_be_bytes();

/// `app.orders` with three copies, each in a keyspace of its own and on a node of its own.
fn table() -> LogicalTable {
    let copy = |at: usize| Copy {
        keyspace: format!("app__{at}"),
        physical: TABLE.to_owned(),
        layout: Layout::new(if at == 0 { &[0, 1] } else { &[1, 0] }).expect("a permutation"),
        readable: true,
    };
    LogicalTable {
        copies: (0..COPIES).map(copy).collect(),
        ..orders(true)
    }
}

/// The statement on a copy.
fn on_copy(text: &str, copy: usize) -> String {
    text.replace("app.orders", &format!("app__{copy}.orders"))
}

/// A ring of nodes with so many tokens, and the owners in the keyspace of each copy, which that node holds.
fn owned(tokens: usize, holders: [usize; COPIES]) -> (Ring, Vec<(String, Arc<ReplicaSets>)>) {
    let apart = i64::MAX / (tokens * COPIES) as i64 * 2;
    let token = |at: usize| Token::Murmur3(i64::MIN.wrapping_add((at as i64).wrapping_mul(apart)));
    let spec = |at: usize| NodeSpec {
        dc: format!("dc{at}"),
        rack: String::new(),
        tokens: (0..tokens).map(|of| token(of * COPIES + at)).collect(),
    };
    let specs: Vec<NodeSpec> = (0..COPIES).map(spec).collect();
    let ring = Ring::new(Partitioner::Murmur3, &specs);
    let keyspaces = holders.iter().enumerate().map(|(copy, holder)| {
        let one = [(format!("dc{holder}"), 1)].into_iter().collect();
        let owners = ring.replica_sets(&Replication::NetworkTopology(one));
        (format!("app__{copy}"), Arc::new(owners))
    });
    let keyspaces = keyspaces.collect();
    (ring, keyspaces)
}

struct Scene {
    bench: Bench,
    list: Copies,
    copies: Known<LISTED_MAX>,
    proxies: Known<PROXIES_MAX>,
    member: Arc<Member>,
    /// Whether the catalogue takes intents; how many it was to take, and evictions that were asked for.
    takes_intents: bool,
    intents: usize,
    evictions: Vec<Eviction>,
    /// The buckets that were to be resynchronised.
    resyncs: Vec<usize>,
    /// Whether nodes refuse connections; those that were asked for and have neither been made nor refused.
    refuses: bool,
    /// Whether that is the proxy's own fault.
    lacks_means: bool,
    dialed: Vec<LinkKey>,
    /// The nodes of the copies, for each group of ranges that has a list: they all have the same.
    groups: Vec<Box<[NodeIndex]>>,
}

impl Scene {
    /// Asks by text, without values, at this level.
    fn ask_text(&mut self, text: &str, level: Consistency) {
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        write::u16(&mut body, level.0);
        body.push(0);
        self.bench.ask(Opcode::Query, 2, &body);
        self.carry_out();
    }

    /// Only the first copy is in sync.
    fn evict_others(&mut self) {
        let others = self.list.evict(1).and_then(|list| list.evict(2));
        self.list = others.expect("one is in sync");
    }

    fn new(client: Version, node: Version) -> Scene {
        Scene::with(Config::default(), (client, node))
    }

    fn with(config: Config, versions: (Version, Version)) -> Scene {
        Scene::of_nodes(COPIES as u8, config, versions)
    }

    /// The first nodes hold the copies.
    fn of_nodes(nodes: u8, mut config: Config, versions: (Version, Version)) -> Scene {
        config.layouts.enabled = true;
        let mut bench = Bench::with_nodes(nodes, config, versions);
        // Times of lists begin with the engine; 0 is no time.
        bench.now += Duration::from_millis(10);
        bench.renew();
        let mut scene = Scene {
            bench,
            list: Copies::new(Members::first(COPIES), [1; LISTED_MAX]),
            copies: Known::new(TIMING),
            proxies: Known::new(TIMING),
            member: Arc::new(Member::new(ME)),
            takes_intents: true,
            intents: 0,
            evictions: Vec::new(),
            resyncs: Vec::new(),
            refuses: false,
            lacks_means: false,
            dialed: Vec::new(),
            groups: vec![(0..COPIES as u16).map(NodeIndex).collect()],
        };
        scene.adopt(table());
        scene.read();
        scene
    }

    /// The catalogue says that the table has these copies.
    fn adopt(&mut self, table: LogicalTable) {
        let known = self.bench.common.snapshot.load();
        let (ring, keyspaces) = owned(1, [0, 1, 2]);
        let mut all = known.keyspaces.clone();
        all.extend(keyspaces);
        let mut layouts = Layouts::default();
        layouts.add_replaced(Arc::new(table));
        let snapshot = Snapshot {
            epoch: known.epoch + 1,
            keyspaces: all,
            ring: Some(ring),
            layouts: Arc::new(layouts),
            ..Snapshot::clone(&known)
        };
        self.bench.common.store(snapshot);
    }

    /// The cluster has another ring: nodes with so many tokens, and the node that holds each copy.
    fn move_to(&mut self, tokens: usize, holders: [usize; COPIES]) {
        let known = self.bench.common.snapshot.load();
        let (ring, keyspaces) = owned(tokens, holders);
        let mut snapshot = Snapshot::clone(&known);
        snapshot.epoch += 1;
        snapshot.keyspaces.extend(keyspaces);
        snapshot.ring = Some(ring);
        self.bench.common.store(snapshot);
    }

    /// Both lists have been read, just now.
    fn read(&mut self) {
        let proxies = Proxies::new(Members::of(ME), [0; PROXIES_MAX]);
        self.read_with(proxies);
    }

    fn read_with(&mut self, proxies: Proxies) {
        self.bench.renew();
        self.read_lists_with(proxies);
    }

    /// The same, without the catalogue.
    fn read_lists(&mut self) {
        let proxies = Proxies::new(Members::of(ME), [0; PROXIES_MAX]);
        self.read_lists_with(proxies);
    }

    fn read_lists_with(&mut self, proxies: Proxies) {
        let now_us = self.bench.common.copies.us(self.bench.now);
        self.copies.adopt(self.list, now_us, now_us);
        self.proxies.adopt(proxies, now_us, now_us);
        self.publish();
    }

    fn publish(&mut self) {
        let known = self.bench.common.snapshot.load();
        self.publish_for(known.copy_rings.of("app", TABLE));
    }

    /// Lists that are about the ranges of this ring.
    fn publish_for(&mut self, ring: RingId) {
        let groups = self.groups.iter();
        let groups = groups
            .map(|owners| (owners.clone(), self.copies.clone()))
            .collect();
        let of_table = OfTable { ring, groups };
        let of_keyspace = [(TABLE.to_owned(), of_table)].into_iter().collect();
        let lists = Lists {
            membership: Some(Membership {
                member: self.member.clone(),
                proxies: self.proxies.clone(),
            }),
            tables: [("app".to_owned(), of_keyspace)].into_iter().collect(),
        };
        self.bench.common.copies.publish(lists);
        self.tell();
    }

    fn tell(&mut self) {
        let now = self.bench.now;
        self.bench.engine.on_message(now, WorkerMessage::InSync);
        self.carry_out();
    }

    /// Does what the engine wants to have done.
    fn carry_out(&mut self) {
        while let Some(output) = self.bench.engine.poll_output() {
            match output {
                Output::Judge => self.bench.engine.judge_copies(self.bench.now),
                Output::Evict(eviction) => self.evictions.push(eviction),
                Output::Resync(member, bucket) => {
                    assert!(Arc::ptr_eq(&member, &self.member));
                    self.resyncs.push(bucket);
                }
                Output::Dial(key, _) if self.refuses => {
                    let why = match self.lacks_means {
                        true => NotDialed::NoMeans("too many open files".to_owned()),
                        false => NotDialed::Lost("connection refused".to_owned()),
                    };
                    self.bench.engine.on_dialed(self.bench.now, key, Err(why));
                }
                Output::Dial(key, _) => self.dialed.push(key),
                Output::Intent(member, change) => {
                    self.intents += 1;
                    if !self.takes_intents {
                        continue;
                    }
                    member.intents().on_changed(change);
                    let now = self.bench.now;
                    self.bench.engine.on_message(now, WorkerMessage::InSync);
                }
                _ => {}
            }
        }
    }

    fn wait(&mut self, ms: u64) {
        self.bench.wait(Duration::from_millis(ms));
        self.carry_out();
    }

    /// The same while the lists are read again and again.
    fn wait_and_read(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(200) {
            self.wait(200);
            self.read();
        }
    }

    fn ask(&mut self, text: &str, asking: &Asking<'_>) {
        let body = asking.query(self.bench.versions.0, text);
        self.bench.ask(Opcode::Query, 2, &body);
        self.carry_out();
    }

    /// Asks for a write of one row.
    fn insert(&mut self) {
        let asking = Asking {
            values: &VALUES,
            timestamp: Some(12),
            ..Asking::default()
        };
        self.ask(INSERT, &asking);
    }

    /// The only request that each node has been sent.
    fn one_each(&mut self) -> Vec<Envelope> {
        (0..COPIES).map(|node| self.one_at(node)).collect()
    }

    fn one_at(&mut self, node: usize) -> Envelope {
        let mut asked = self.bench.at(node);
        assert_eq!(asked.len(), 1, "at node {node}: {asked:?}");
        asked.remove(0)
    }

    /// No node has been sent anything.
    fn nothing_sent(&mut self) {
        for node in 0..self.bench.nodes() {
            assert!(self.bench.at(node).is_empty(), "at node {node}");
        }
    }

    fn void(&mut self, node: usize, stream: i16) {
        self.bench.say_as(node, Opcode::Result, stream, &VOID);
        self.carry_out();
    }

    /// What each of these nodes has been sent is acknowledged.
    fn answered_by(&mut self, nodes: impl IntoIterator<Item = usize>) {
        for node in nodes {
            let (_, stream, _) = self.one_at(node);
            self.void(node, stream);
        }
    }

    fn error(&mut self, node: usize, stream: i16, code: i32, message: &str) {
        self.bench.say_error_as(node, stream, code, message);
        self.carry_out();
    }

    /// Two copies acknowledge a write, the third is silent.
    fn insert_but_one(&mut self) {
        self.insert();
        self.answered_by([0, 1]);
    }

    /// The copies whose eviction was asked for.
    fn evicted(&self) -> Vec<usize> {
        self.evictions.iter().map(|of| of.copy).collect()
    }

    /// The client has not been answered.
    fn is_unanswered(&mut self) {
        assert!(self.bench.answers().is_empty());
    }

    fn is_acknowledged(&mut self) {
        assert_eq!(self.bench.answer(), (Opcode::Result, VOID.to_vec()));
    }

    /// Nothing is left of any write.
    fn is_done(&mut self) {
        self.nothing_sent();
        self.bench.is_done();
        assert_eq!(self.bench.engine.copied.len(), 0);
    }

    /// The client has been told why this statement is invalid, of which table, and what to do.
    fn is_refused(&mut self, text: &str, way_out: &str) {
        let (code, why) = self.bench.error();
        assert_eq!(code, code::INVALID, "{text}: {why}");
        assert!(
            why.contains("app.orders") && why.contains(way_out),
            "{text}: {why}"
        );
        self.is_done();
    }

    /// The code, text and numbers of the error that the client has got: level; received and asked for, or asked for
    /// and alive.
    fn counted(&mut self) -> (i32, String, (u16, i32, i32)) {
        let (opcode, body) = self.bench.answer();
        assert_eq!(opcode, Opcode::Error);
        let error = helenus_wire::ErrorBody::parse(&body).expect("an error");
        let mut reader = helenus_wire::Reader::new(error.fields);
        let (level, one, two) = (reader.u16(), reader.i32(), reader.i32());
        let numbers = (
            level.expect("a level"),
            one.expect("a number"),
            two.expect("a number"),
        );
        if error.code == code::WRITE_TIMEOUT {
            assert_eq!(reader.string(), Ok("SIMPLE"));
        }
        (error.code, error.message.to_owned(), numbers)
    }
}
