use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helenus_policy::route::{Locality, NodeTable};

use super::*;
use crate::config::Config;
use crate::keys::{LinkKey, SessionKey};
use crate::shared::{Common, Shared, WorkerMessage};
use crate::snapshot::Snapshot;
use crate::support::tick::TICK;
use crate::testing::{Envelope, bytes_of, envelopes, node, open_links, request_of, take};

const READ: &str = "SELECT value FROM app.things WHERE key = ?";
const ID: [u8; 4] = *b"read";
const VERSION: Version = Version::V4;
const TIMEOUT: Duration = Duration::from_secs(1);
const SILENCE: Duration = Duration::from_millis(100);
/// A node that does not answer a probe for as long is passed by.
const PASSED_BY: Duration = Duration::from_millis(400);
/// The answer to a read.
const VOID: [u8; 4] = 1_i32.to_be_bytes();

/// An engine, its one client, and nodes that say what the test has them say.
struct Pair {
    common: Arc<Common>,
    engine: Engine,
    now: Instant,
    client: SessionKey,
    links: Vec<(NodeIndex, LinkKey)>,
    /// Both directions of the links are framed.
    framed: bool,
}

impl Pair {
    /// With a link to each of so many nodes, and behind the client's STARTUP.
    fn new(nodes: u8) -> Pair {
        Pair::with_links_in(VERSION, nodes)
    }

    /// A pair whose nodes speak another version.
    fn with_links_in(version: Version, nodes: u8) -> Pair {
        let now = crate::testing::begin();
        let mut config = Config::default();
        config.links.per_node = 1;
        config.links.silence_ms = SILENCE.as_millis() as u64;
        config.limits.request_timeout_ms = Some(TIMEOUT.as_millis() as u64);
        let common = Arc::new(Common::new(config, 1 << 30, now));
        let places = (0..nodes).map(|_| Locality::LocalDc);
        let snapshot = Snapshot::builder()
            .epoch(1)
            .version(version)
            .nodes((0..nodes).map(node))
            .places(NodeTable::from_localities(places));
        common.store(snapshot.build());
        let shared = Arc::new(Shared::new(common.clone()));
        let mut engine = Engine::new(shared, 0, 1, 1, now, Duration::ZERO);
        let links = open_links(&mut engine, now, version);
        let permit = common.admit_client().expect("one client");
        let client = engine.open_session(now, SocketAddr::from(([127, 0, 0, 1], 4)), now, permit);
        let mut pair = Pair {
            common,
            engine,
            now,
            client,
            links,
            framed: version == Version::V5,
        };
        let mut startup = Vec::new();
        write::string_map(&mut startup, &[("CQL_VERSION", "3.0.0")]);
        pair.ask(Opcode::Startup, 0, &startup);
        assert_eq!(pair.answers(), [(Opcode::Ready, 0, Vec::new())]);
        pair
    }

    /// The control connection speaks this version by now.
    fn adopt(&mut self, version: Version) {
        let next = self.common.snapshot.load().successor();
        self.common.store(next.version(version).build());
        self.engine.on_message(self.now, WorkerMessage::Snapshot);
    }

    fn ask(&mut self, opcode: Opcode, stream: i16, body: &[u8]) {
        let bytes = request_of((VERSION, false), stream, opcode, body);
        self.engine.on_client_bytes(self.now, self.client, &bytes);
    }

    /// The envelopes that the client has been sent.
    fn answers(&mut self) -> Vec<Envelope> {
        let Some(outbox) = self.engine.client_bytes(self.client) else {
            return Vec::new();
        };
        let (bytes, sent) = take(outbox);
        self.engine.on_client_sent(self.now, self.client, sent);
        envelopes(false, &bytes)
    }

    /// The envelopes that each node has been sent, probes aside.
    fn at_nodes(&mut self) -> Vec<(NodeIndex, Envelope)> {
        let mut found = Vec::new();
        for (node, key) in self.links.clone() {
            let Some(encoder) = self.engine.link_bytes(key) else {
                continue;
            };
            let (bytes, sent) = take(encoder);
            self.engine.on_link_sent(self.now, key, sent);
            let asked = envelopes(self.framed, &bytes).into_iter();
            let asked = asked.filter(|(opcode, ..)| *opcode != Opcode::Options);
            found.extend(asked.map(|envelope| (node, envelope)));
        }
        found
    }

    fn answer(&mut self, node: NodeIndex, opcode: Opcode, stream: i16, body: &[u8]) {
        let link = self.links.iter().find(|(of, _)| *of == node);
        let (_, link) = link.expect("a link to the node");
        let version = if self.framed { Version::V5 } else { VERSION };
        let bytes = bytes_of((version, self.framed), stream, opcode, body);
        self.engine.on_link_bytes(self.now, *link, &bytes);
    }

    /// The client has a statement prepared, which all nodes know then.
    fn prepare(&mut self) {
        let mut body = Vec::new();
        write::long_string(&mut body, READ);
        self.ask(Opcode::Prepare, 1, &body);
        let nodes = self.links.len();
        let mut answered = 0;
        while answered < nodes {
            for (node, (opcode, stream, _)) in self.at_nodes() {
                assert_eq!(opcode, Opcode::Prepare);
                self.answer(node, Opcode::Result, stream, &prepared());
                answered += 1;
            }
        }
        assert_eq!(self.answers(), [(Opcode::Result, 1, prepared())]);
    }

    /// The client executes it. Returns where, and which stream it has there.
    fn execute(&mut self, stream: i16) -> (NodeIndex, i16) {
        let mut body = Vec::new();
        write::short_bytes(&mut body, &ID);
        write::u16(&mut body, 1);
        body.push(1);
        write::u16(&mut body, 1);
        write::bytes(&mut body, Some(&[7; 8]));
        self.ask(Opcode::Execute, stream, &body);
        let (node, (opcode, at, _)) = self.at_nodes().remove(0);
        assert_eq!(opcode, Opcode::Execute);
        (node, at)
    }

    /// A node has forgotten the statement.
    fn answer_unprepared(&mut self, node: NodeIndex, stream: i16) {
        let mut fields = Vec::new();
        write::short_bytes(&mut fields, &ID);
        let mut unprepared = Vec::new();
        let error = ErrorBody {
            code: code::UNPREPARED,
            message: "unknown",
            fields: &fields,
        };
        error.write(&mut unprepared);
        self.answer(node, Opcode::Error, stream, &unprepared);
    }

    fn errors_of(&self, node: NodeIndex) -> u64 {
        let stats = self.engine.links.stats(node);
        stats.counters.errors.load(Ordering::Relaxed)
    }

    /// The client executes it, and the node has forgotten it. Returns that node, and which stream its
    /// PREPARE has.
    fn execute_unprepared(&mut self, stream: i16) -> (NodeIndex, i16) {
        let (node, at) = self.execute(stream);
        self.answer_unprepared(node, at);
        let (taught, (opcode, at, _)) = self.at_nodes().remove(0);
        assert_eq!((taught, opcode), (node, Opcode::Prepare));
        (node, at)
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += TICK;
            self.engine.on_deadline(self.now, Duration::ZERO);
        }
    }
}

/// The answer to a PREPARE: a bigint is bound, a blob comes back.
fn prepared() -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 4);
    write::short_bytes(&mut body, &ID);
    for (name, column_type, partition_key) in [("key", 2, Some(0)), ("value", 3, None)] {
        write::u32(&mut body, 1);
        write::u32(&mut body, 1);
        if let Some(position) = partition_key {
            write::u32(&mut body, 1);
            write::u16(&mut body, position);
        }
        write::string(&mut body, "app");
        write::string(&mut body, "things");
        write::string(&mut body, name);
        write::u16(&mut body, column_type);
    }
    body
}

#[test]
fn what_waits_for_a_prepare_on_a_silent_node_goes_to_another() {
    let mut pair = Pair::new(2);
    pair.prepare();
    let (silent, _) = pair.execute_unprepared(2);
    pair.wait(PASSED_BY);
    assert_eq!(pair.answers(), []);
    let mut sent = pair.at_nodes();
    let (other, (opcode, stream, _)) = sent.remove(0);
    assert!(other != silent && opcode == Opcode::Execute && sent.is_empty());
    pair.answer(other, Opcode::Result, stream, &VOID);
    assert_eq!(pair.answers(), [(Opcode::Result, 2, VOID.to_vec())]);
    assert_eq!(pair.engine.requests_in_flight(), 0);
    assert_eq!(pair.engine.contradictions(), Vec::<String>::new());
}

#[test]
fn what_waits_for_a_prepare_without_another_node_times_out_as_any_other_request() {
    let mut pair = Pair::new(1);
    pair.prepare();
    pair.execute_unprepared(2);
    pair.wait(TIMEOUT);
    assert_eq!(pair.answers(), []);
    pair.wait(TICK);
    let answers = pair.answers();
    let [(Opcode::Error, 2, body)] = &answers[..] else {
        panic!("{answers:?}");
    };
    let error = ErrorBody::parse(body).expect("an error");
    assert_eq!(error.code, code::READ_TIMEOUT, "{}", error.message);
    assert_eq!(pair.engine.requests_in_flight(), 0);
}

#[test]
fn what_comes_to_wait_later_goes_to_another_node_with_what_came_before() {
    let mut pair = Pair::new(2);
    pair.prepare();
    let (silent, _) = pair.execute_unprepared(2);
    // The other node is asked until it has more to do.
    let mut elsewhere = Vec::new();
    let later = (3..100).find(|at| {
        let (node, stream) = pair.execute(*at);
        match node == silent {
            true => pair.answer_unprepared(node, stream),
            false => elsewhere.push((node, stream)),
        }
        node == silent
    });
    let later = later.expect("it is asked, too");
    assert_eq!(pair.at_nodes(), [], "it is taught only once");
    for (node, stream) in elsewhere.drain(..) {
        pair.answer(node, Opcode::Result, stream, &VOID);
    }
    assert_eq!(pair.answers().len(), usize::from(later.unsigned_abs()) - 3);
    pair.wait(PASSED_BY);
    let sent = pair.at_nodes();
    assert!(sent.len() == 2 && sent.iter().all(|(node, _)| *node != silent));
    for (node, (_, stream, _)) in sent {
        pair.answer(node, Opcode::Result, stream, &VOID);
    }
    let mut answered: Vec<_> = pair
        .answers()
        .into_iter()
        .map(|(opcode, at, _)| (opcode, at))
        .collect();
    answered.sort_unstable_by_key(|(_, at)| *at);
    assert_eq!(answered, [(Opcode::Result, 2), (Opcode::Result, later)]);
}

#[test]
fn what_waits_for_a_prepare_goes_to_the_node_that_has_answered_it() {
    let mut pair = Pair::new(2);
    pair.prepare();
    let (node, stream) = pair.execute_unprepared(2);
    pair.answer(node, Opcode::Result, stream, &prepared());
    let (again, (opcode, stream, _)) = pair.at_nodes().remove(0);
    assert_eq!((again, opcode), (node, Opcode::Execute));
    pair.answer(node, Opcode::Result, stream, &VOID);
    assert_eq!(pair.answers(), [(Opcode::Result, 2, VOID.to_vec())]);
}

#[test]
fn what_a_node_has_forgotten_is_an_error_of_it_only_if_it_cannot_be_taught() {
    let mut pair = Pair::new(1);
    pair.prepare();
    let (node, stream) = pair.execute_unprepared(2);
    pair.answer(node, Opcode::Result, stream, &prepared());
    let (_, (_, stream, _)) = pair.at_nodes().remove(0);
    pair.answer(node, Opcode::Result, stream, &VOID);
    assert_eq!(pair.answers().len(), 1);
    assert_eq!(pair.errors_of(node), 0, "its client has seen none");
    // A statement that is unprepared each time is passed on at last.
    let (_, mut stream) = pair.execute(3);
    let mut attempts = 0;
    while pair.answers().is_empty() {
        assert!(attempts < 20);
        attempts += 1;
        pair.answer_unprepared(node, stream);
        for (_, (opcode, at, _)) in pair.at_nodes() {
            assert_eq!(opcode, Opcode::Prepare);
            pair.answer(node, Opcode::Result, at, &prepared());
        }
        if let Some((_, (_, at, _))) = pair.at_nodes().pop() {
            stream = at;
        }
    }
    assert_eq!(pair.errors_of(node), 1, "after {attempts} attempts");
}

#[test]
fn an_answer_is_lowered_from_the_version_of_its_link() {
    let mut pair = Pair::with_links_in(Version::V5, 1);
    let mut body = Vec::new();
    write::long_string(&mut body, READ);
    pair.ask(Opcode::Prepare, 1, &body);
    let (node, (opcode, stream, _)) = pair.at_nodes().remove(0);
    assert_eq!(opcode, Opcode::Prepare);
    // Whatever comes to be spoken meanwhile.
    pair.adopt(VERSION);
    // In v5 the id of the result's metadata comes behind that of the statement.
    let mut answer = prepared();
    let behind_id = 4 + 2 + ID.len();
    let mut metadata_id = Vec::new();
    write::short_bytes(&mut metadata_id, b"metadata");
    answer.splice(behind_id..behind_id, metadata_id);
    pair.answer(node, Opcode::Result, stream, &answer);
    assert_eq!(pair.answers(), [(Opcode::Result, 1, prepared())]);
}

#[test]
fn a_node_that_repeats_the_answers_of_a_greeting_answers_no_request() {
    let mut pair = Pair::new(1);
    pair.prepare();
    let (node, stream) = pair.execute(2);
    for of_greeting in 0..=4 {
        pair.answer(node, Opcode::Result, of_greeting, &prepared());
    }
    assert_eq!(pair.answers(), []);
    pair.answer(node, Opcode::Result, stream, &VOID);
    assert_eq!(pair.answers(), [(Opcode::Result, 2, VOID.to_vec())]);
}
