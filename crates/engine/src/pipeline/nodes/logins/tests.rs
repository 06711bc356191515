use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_policy::route::{Locality, NodeTable};
use helenus_wire::{
    Compression, Decoder, Encoder, ErrorBody, Flow, Header, MAX_RESPONSE_BODY, Opcode, Version,
    code, write,
};

use super::*;
use crate::config::{Config, RuleSettings};
use crate::keys::LinkKey;
use crate::output::{LinkEnd, Outgoing, Output, Sent, Then};
use crate::shared::{Common, Shared};
use crate::snapshot::Snapshot;
use crate::support::tick::TICK;
use crate::testing::{bytes_of, dial_all, node, take_sent};

/// A worker without links, before this many nodes.
fn worker(nodes: u8) -> Engine {
    worker_with(Config::default(), nodes, None).0
}

fn worker_with(config: Config, nodes: u8, authenticate: Option<Vec<u8>>) -> (Engine, Arc<Common>) {
    let begin = crate::testing::begin();
    let common = Arc::new(Common::new(config, 1 << 30, begin));
    let places = (0..nodes).map(|_| Locality::LocalDc);
    let snapshot = Snapshot::builder()
        .epoch(1)
        .nodes((0..nodes).map(node))
        .places(NodeTable::from_localities(places))
        .authenticate(authenticate);
    common.store(snapshot.build());
    let shared = Arc::new(Shared::new(common.clone()));
    let engine = Engine::new(shared, 0, 1, 1, begin, Duration::ZERO);
    (engine, common)
}

#[test]
fn nodes_that_logins_could_not_reach_are_tried_last_until_they_answer() {
    let mut state = worker(5);
    let first = |state: &mut Engine| state.nodes_for_login()[0].0.0;
    let firsts = |state: &mut Engine| {
        let mut firsts: Vec<u16> = (0..20).map(|_| first(state)).collect();
        firsts.sort_unstable();
        firsts.dedup();
        firsts
    };
    assert_eq!(firsts(&mut state), [0, 1, 2, 3, 4]);
    let failed = |nodes: &[u16]| Met {
        failed: nodes
            .iter()
            .map(|node| (NodeIndex(*node), "refused".to_owned()))
            .collect(),
        answered: None,
    };
    // Ten at a time, before the next try is due.
    for _ in 0..10 {
        state.note_met(&failed(&[0, 1, 2]));
    }
    assert_eq!(state.links.failures(NodeIndex(0)), 1);
    assert_eq!(firsts(&mut state), [3, 4]);
    state.note_met(&failed(&[3, 4]));
    // All the same: nothing better is known.
    assert_eq!(firsts(&mut state), [0, 1, 2, 3, 4]);
    let until = state.cx.now + Duration::from_secs(60);
    state.links.suspect(NodeIndex(1), until);
    state.note_met(&Met {
        failed: Vec::new(),
        answered: Some(NodeIndex(1)),
    });
    assert_eq!(firsts(&mut state), [1]);
}

const PASSWORD: &str = "org.apache.cassandra.auth.PasswordAuthenticator";

/// The node's question for a token.
fn asked_by(class: &str) -> Vec<u8> {
    let mut body = Vec::new();
    write::string(&mut body, class);
    body
}

/// A worker before nodes that ask for a password, and clients that log in.
struct Door {
    engine: Engine,
    common: Arc<Common>,
    now: Instant,
    asked: Vec<u8>,
}

impl Door {
    fn new(nodes: u8, change: impl FnOnce(&mut Config)) -> Door {
        Door::of(PASSWORD, nodes, change)
    }

    /// Nodes have this authenticator.
    fn of(class: &str, nodes: u8, change: impl FnOnce(&mut Config)) -> Door {
        let mut config = Config::default();
        change(&mut config);
        let asked = asked_by(class);
        let (engine, common) = worker_with(config, nodes, Some(asked.clone()));
        let now = engine.now();
        Door {
            engine,
            common,
            now,
            asked,
        }
    }

    /// A client that has handed in a token.
    fn enter(&mut self, token: &[u8]) -> SessionKey {
        let permit = self.common.admit_client().expect("one client more");
        let peer = SocketAddr::from(([127, 0, 0, 1], 4));
        let session = self.engine.open_session(self.now, peer, self.now, permit);
        let mut startup = Vec::new();
        write::string_map(&mut startup, &[("CQL_VERSION", "3.0.0")]);
        self.ask(session, Opcode::Startup, &startup);
        let asked = (Opcode::Authenticate, self.asked.clone());
        assert_eq!(self.answer(session), Some(asked));
        let mut body = Vec::new();
        write::bytes(&mut body, Some(token));
        self.ask(session, Opcode::AuthResponse, &body);
        session
    }

    fn ask(&mut self, session: SessionKey, opcode: Opcode, body: &[u8]) {
        let mut encoder = Encoder::new();
        let header = Header {
            version: Version::V4 as u8,
            response: false,
            flags: 0,
            stream: 1,
            opcode: opcode as u8,
            body_len: 0,
        };
        encoder.push_slice(header, body);
        self.engine
            .on_client_bytes(self.now, session, encoder.pending());
    }

    /// The answer that a client has got.
    fn answer(&mut self, session: SessionKey) -> Option<(Opcode, Vec<u8>)> {
        let outbox = self.engine.client_bytes(session)?;
        let bytes = outbox.pending().to_vec();
        outbox.advance(bytes.len());
        let sent = Sent {
            writes: 1,
            bytes: bytes.len() as u64,
            then: Then::Done,
        };
        self.engine.on_client_sent(self.now, session, sent);
        let mut found = None;
        let mut decoder = Decoder::new(MAX_RESPONSE_BODY);
        decoder.set_mode(false, Compression::None);
        let fed = decoder.feed(&bytes, &mut Vec::new(), |header, body| {
            let opcode = Opcode::from_number(header.opcode).expect("an opcode");
            assert!(found.replace((opcode, body.to_vec())).is_none(), "twice");
            Flow::Continue
        });
        assert_eq!(fed, Ok(bytes.len()));
        found
    }

    /// The error that a client has got.
    #[track_caller]
    fn error(&mut self, session: SessionKey) -> (i32, String) {
        let (opcode, body) = self.answer(session).expect("an answer");
        assert_eq!(opcode, Opcode::Error);
        let error = ErrorBody::parse(&body).expect("an error");
        (error.code, error.message.to_owned())
    }

    /// The connections that are wanted, made.
    fn dialed(&mut self) -> Vec<LinkKey> {
        let dialed = dial_all(&mut self.engine, self.now);
        for (_, key) in &dialed {
            assert!(!take_sent(&mut self.engine, *key).is_empty(), "no STARTUP");
        }
        dialed.into_iter().map(|(_, key)| key).collect()
    }

    /// A node says so on this stream.
    fn say(&mut self, link: LinkKey, stream: i16, opcode: Opcode, body: &[u8]) {
        let bytes = bytes_of((Version::V4, false), stream, opcode, body);
        self.engine.on_link_bytes(self.now, link, &bytes);
        assert_eq!(self.engine.contradictions(), Vec::<String>::new());
    }

    /// A node accepts the token.
    fn accept(&mut self, link: LinkKey) {
        self.say(link, 1, Opcode::Authenticate, &self.asked.clone());
        let sent = take_sent(&mut self.engine, link);
        assert_eq!(sent.get(4).copied(), Some(Opcode::AuthResponse as u8));
        self.say(link, 2, Opcode::AuthSuccess, &[0xff; 4]);
        assert!(!self.engine.is_link_open(link), "its work is done");
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += TICK;
            self.engine.on_deadline(self.now, Duration::ZERO);
        }
        assert_eq!(self.engine.contradictions(), Vec::<String>::new());
    }
}

#[test]
fn a_node_accepts_a_client_and_its_links_are_opened_with_the_same_words() {
    let mut door = Door::new(1, |config| config.links.per_node = 1);
    let client = door.enter(b"noise\0app\0pw");
    let link = door.dialed()[0];
    assert_eq!(door.answer(client), None);
    door.accept(link);
    let answer = (Opcode::AuthSuccess, vec![0xff; 4]);
    assert_eq!(door.answer(client), Some(answer));
    let link = door.dialed()[0];
    door.say(link, 1, Opcode::Authenticate, &asked_by(PASSWORD));
    let sent = take_sent(&mut door.engine, link);
    assert!(sent.ends_with(b"\0app\0pw") && !sent.ends_with(b"noise\0app\0pw"));
    door.say(link, 2, Opcode::AuthSuccess, &[0xff; 4]);
    assert!(door.engine.is_link_open(link));
}

#[test]
fn one_login_waits_for_the_other_if_only_one_may_be_judged() {
    let mut door = Door::new(1, |config| config.limits.logins_max = 1);
    let (first, second, third) = (
        door.enter(b"\0a\0p"),
        door.enter(b"\0b\0p"),
        door.enter(b"\0c\0p"),
    );
    let dialed = door.dialed();
    assert_eq!(dialed.len(), 1);
    // Who leaves while it waits is not judged; who leaves while a node judges keeps its place.
    door.engine.close_session(door.now, second);
    door.engine.close_session(door.now, first);
    assert_eq!(door.dialed(), []);
    door.accept(dialed[0]);
    let dialed = door.dialed();
    assert_eq!(dialed.len(), 1);
    let mut refusal = Vec::new();
    let error = ErrorBody {
        code: code::BAD_CREDENTIALS,
        message: "incorrect",
        fields: &[],
    };
    error.write(&mut refusal);
    door.say(dialed[0], 1, Opcode::Authenticate, &asked_by(PASSWORD));
    door.say(dialed[0], 2, Opcode::Error, &refusal);
    assert_eq!(
        door.error(third),
        (code::BAD_CREDENTIALS, "incorrect".to_owned())
    );
    assert_eq!(door.engine.cx.shared.logins.counts(), (0, 0));
}

#[test]
fn who_waits_for_too_long_is_told_so() {
    let mut door = Door::new(1, |config| {
        config.limits.logins_max = 1;
        config.limits.handshake_timeout_ms = 1_000;
    });
    let (_first, second) = (door.enter(b"\0a\0p"), door.enter(b"\0b\0p"));
    door.wait(Duration::from_millis(900));
    assert_eq!(door.answer(second), None);
    door.wait(Duration::from_millis(200));
    let (code, text) = door.error(second);
    assert_eq!(code, code::OVERLOADED);
    assert!(text.contains("limits.logins_max"), "{text}");
    assert_eq!(door.engine.cx.shared.logins.counts(), (1, 0));
}

#[test]
fn nodes_are_tried_one_after_the_other_and_the_last_failure_is_told() {
    let mut door = Door::new(2, |config| config.links.connect_timeout_ms = 500);
    let client = door.enter(b"\0a\0p");
    let silent = door.dialed()[0];
    door.wait(Duration::from_secs(1));
    assert!(!door.engine.is_link_open(silent));
    let hangs_up = door.dialed()[0];
    let why = "the node closed the connection";
    door.engine.on_link_closed(
        door.now,
        hangs_up,
        (LinkEnd::ByNode, why),
        Some("show a certificate"),
    );
    let (code, text) = door.error(client);
    assert_eq!(code, code::SERVER);
    let told = "the node closed the connection, before its first answer: show a certificate";
    assert!(text.ends_with(told), "{text}");
    let failures = |door: &Door, node| door.engine.links.failures(NodeIndex(node));
    assert_eq!((failures(&door, 0), failures(&door, 1)), (1, 1));
}

#[test]
fn a_node_that_does_not_judge_is_given_up() {
    let mut door = Door::new(2, |_| {});
    let client = door.enter(b"\0a\0p");
    let link = door.dialed()[0];
    door.say(link, 1, Opcode::Authenticate, &asked_by(PASSWORD));
    door.wait(Duration::from_millis(19_900));
    assert_eq!(door.answer(client), None);
    door.wait(Duration::from_millis(200));
    let (code, text) = door.error(client);
    assert_eq!(code, code::SERVER);
    assert!(
        text.contains("lost the node") && text.contains("within 20s"),
        "{text}"
    );
    // It would judge the same token twice.
    assert_eq!(door.dialed(), []);
}

/// The code that a client gets which logs in with this token, and writes.
fn refusal(class: &str, token: &[u8], rules: &[RuleSettings]) -> Option<i32> {
    let mut door = Door::of(class, 1, |config| {
        config.rules = rules.to_vec();
        config.cluster.authenticators = vec!["com.example.Own".to_owned()];
    });
    assert_eq!(crate::config::rules::problems(rules), [""; 0]);
    let client = door.enter(token);
    let link = door.dialed()[0];
    door.accept(link);
    assert_eq!(
        door.answer(client).map(|(opcode, _)| opcode),
        Some(Opcode::AuthSuccess)
    );
    let mut body = Vec::new();
    write::long_string(&mut body, "INSERT INTO app.t (k) VALUES (1)");
    write::u16(&mut body, 1);
    body.push(0);
    door.ask(client, Opcode::Query, &body);
    let (opcode, body) = door.answer(client)?;
    assert_eq!(opcode, Opcode::Error);
    Some(ErrorBody::parse(&body).expect("an error").code)
}

#[test]
fn rules_that_forbid_something_to_a_role_hold_where_roles_cannot_be_told() {
    const OWN: &str = "com.example.Own";
    let of_role = |role: &str| RuleSettings {
        name: "r".to_owned(),
        role: role.into(),
        ..RuleSettings::default()
    };
    let deny = RuleSettings {
        deny: Some("closed".to_owned()),
        ..of_role("app")
    };
    let read_only = RuleSettings {
        read_only: true,
        ..of_role("app")
    };
    let levels = RuleSettings {
        consistency_min: Some("QUORUM".to_owned()),
        ..of_role("app")
    };
    for (rule, code) in [
        (&deny, code::UNAUTHORIZED),
        (&read_only, code::UNAUTHORIZED),
        (&levels, code::INVALID),
    ] {
        let refusal = |class, token: &[u8]| refusal(class, token, std::slice::from_ref(rule));
        for token in [&b"\0app\0pw"[..], b"\0app\0pw\xC3", b"\0app\xFF\0pw"] {
            assert_eq!(refusal(PASSWORD, token), Some(code), "{token:?}");
        }
        assert_eq!(refusal(PASSWORD, b"\0web\0pw\xC3"), None);
        assert_eq!(refusal(OWN, b"anything"), Some(code));
    }
    // Limits and exceptions are for those that are known.
    let full = RuleSettings {
        in_flight: Some(0),
        ..of_role("app")
    };
    assert_eq!(refusal(OWN, b"anything", &[full]), None);
    let exception = RuleSettings {
        name: "exception".to_owned(),
        consistency_min: Some("ONE".to_owned()),
        last: true,
        ..of_role("app")
    };
    let closed = RuleSettings {
        all: true,
        role: crate::config::Names::default(),
        ..deny
    };
    let rules = [exception, closed];
    assert_eq!(refusal(PASSWORD, b"\0app\0pw", &rules), None);
    assert_eq!(refusal(OWN, b"anything", &rules), Some(code::UNAUTHORIZED));
}

#[test]
fn what_comes_too_late_is_not_wanted() {
    let mut door = Door::new(1, |config| config.links.connect_timeout_ms = 500);
    let client = door.enter(b"\0a\0p");
    let mut late = None;
    while let Some(output) = door.engine.poll_output() {
        if let Output::Dial(key, _) = output {
            late = Some(key);
        }
    }
    let late = late.expect("a connection");
    door.wait(Duration::from_millis(1_100));
    assert_eq!(door.error(client).0, code::SERVER);
    let dialed = Ok(crate::output::Dialed::default());
    assert!(!door.engine.on_dialed(door.now, late, dialed));
}
