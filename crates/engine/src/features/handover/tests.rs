//! Two engines, and clients that move from one to the other.

mod events;
mod statements;

use std::net::SocketAddr;
use std::time::Duration;

use helenus_wire::{
    Compression, Decoder, Encoder, Flow, Header, MAX_RESPONSE_BODY, Opcode, Version, write,
};

use super::*;
use crate::config::Config;
use crate::output::{Sent, Then};
use crate::session::connection::Next;
use crate::session::login::credentials::Credentials;
use crate::shared::WorkerMessage;
use crate::snapshot::Snapshot;
use crate::testing::bench::{Asking, BIGINT, Bench, Spec, rows};
use crate::testing::{Envelope, take};
use crate::worker_status::{ClientOrder, ClientRow, Report, Wanted};

const READ: &str = "SELECT total FROM others WHERE customer = 1";
const COLUMNS: [Spec; 1] = [("total", BIGINT)];
const VERSIONS: [Version; 3] = [Version::V3, Version::V4, Version::V5];
const SECOND: Duration = Duration::from_secs(1);

/// A client's end of its connection, whichever engine has the other one.
struct Client {
    key: SessionKey,
    version: Version,
    compression: Compression,
    decoder: Decoder,
}

fn bench(client: Version) -> Bench {
    let mut config = Config::default();
    config.aggregation.share_reads = false;
    Bench::with(config, (client, Version::V5))
}

impl Client {
    fn connect(bench: &mut Bench, version: Version, compression: Compression) -> Client {
        let permit = bench.common.admit_client().expect("room");
        let peer = SocketAddr::from(([10, 1, 1, 1], 4711));
        let engine = &mut bench.engine;
        let key = engine.open_session(bench.now, peer, bench.now, permit);
        let mut client = Client {
            key,
            version,
            compression: Compression::None,
            decoder: Decoder::new(MAX_RESPONSE_BODY),
        };
        let mut options = vec![("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "a driver")];
        match compression {
            Compression::None => {}
            Compression::Lz4 => options.push(("COMPRESSION", "lz4")),
            Compression::Snappy => options.push(("COMPRESSION", "snappy")),
        }
        let mut startup = Vec::new();
        write::string_map(&mut startup, &options);
        let startup = client.written(false, 0, Opcode::Startup, &startup);
        client.send(bench, &startup);
        assert_eq!(client.read(bench), [(Opcode::Ready, 0, Vec::new())]);
        client.compression = compression;
        client.decoder.set_mode(version == Version::V5, compression);
        client
    }

    fn written(&self, framed: bool, stream: i16, opcode: Opcode, body: &[u8]) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.set_mode(framed, self.compression);
        let header = Header {
            version: self.version as u8,
            response: false,
            flags: 0,
            stream,
            opcode: opcode as u8,
            body_len: 0,
        };
        encoder.push_slice(header, body);
        encoder.take_pending()
    }

    /// A request's bytes.
    fn request(&self, stream: i16, opcode: Opcode, body: &[u8]) -> Vec<u8> {
        self.written(self.version == Version::V5, stream, opcode, body)
    }

    fn query(&self, stream: i16, text: &str) -> Vec<u8> {
        let body = Asking::default().query(self.version, text);
        self.request(stream, Opcode::Query, &body)
    }

    fn send(&self, bench: &mut Bench, bytes: &[u8]) {
        bench.engine.on_client_bytes(bench.now, self.key, bytes);
    }

    fn next(&self, bench: &mut Bench) -> Option<Next> {
        bench.engine.next_for_client(bench.now, self.key)
    }

    fn read(&mut self, bench: &mut Bench) -> Vec<Envelope> {
        let Some(outbox) = bench.engine.client_bytes(self.key) else {
            return Vec::new();
        };
        let (bytes, sent) = take(outbox);
        bench.engine.on_client_sent(bench.now, self.key, sent);
        let mut found = Vec::new();
        let fed = self.decoder.feed(&bytes, &mut Vec::new(), |header, body| {
            let opcode = Opcode::from_number(header.opcode).expect("an opcode");
            found.push((opcode, header.stream, body.to_vec()));
            Flow::Continue
        });
        assert_eq!(fed, Ok(bytes.len()));
        found
    }

    /// Its connection takes nothing more.
    fn block(&self, bench: &mut Bench) {
        let sent = Sent {
            writes: 0,
            bytes: 0,
            then: Then::Blocked,
        };
        bench.engine.on_client_sent(bench.now, self.key, sent);
    }

    fn row(&self, bench: &mut Bench) -> ClientRow {
        let by = ClientOrder::Age;
        let Report::Clients(rows, _) = bench.report(Wanted::Clients { by, max: 10 }) else {
            panic!("clients were asked for");
        };
        let mut rows = rows.into_iter();
        rows.find(|row| row.key == self.key).expect("its row")
    }
}

fn timetable(bench: &Bench) -> Timetable {
    Timetable::new(bench.now, Duration::ZERO, 16 * SECOND)
}

/// Begins to pass this client on, and no other.
fn begin(bench: &mut Bench, client: &Client) -> Timetable {
    let (now, timetable) = (bench.now, timetable(bench));
    begin_passing(&mut bench.engine, now, |key| key == client.key);
    hold_clients(&mut bench.engine, now, &timetable);
    timetable
}

fn next(bench: &mut Bench) -> Option<PassedClient> {
    let (_, passed) = next_to_pass(&mut bench.engine, bench.now)?;
    Some(passed)
}

/// A passed client becomes a client of the other process.
fn adopt(bench: &mut Bench, passed: PassedClient) -> Result<SessionKey, NotAdopted> {
    let permit = bench.common.admit_client().expect("room");
    adopt_session(&mut bench.engine, bench.now, passed, permit)
}

fn pass(client: &mut Client, from: &mut Bench, to: &mut Bench) {
    begin(from, client);
    let passed = next(from).expect("it is quiet");
    to.now = to.now.max(from.now);
    let key = adopt(to, passed).expect("taken over");
    from.engine.close_session(from.now, client.key);
    assert!(!is_passing(&from.engine));
    client.key = key;
}

/// The node of a bench gets one request, in a keyspace, and answers it with a row.
fn answer(bench: &mut Bench, total: u64) {
    let (opcode, stream, body) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Query);
    assert!(body.ends_with(b"\0\x03app"), "the keyspace in use");
    let page = rows("others", &COLUMNS, None, &[&total.to_be_bytes()]);
    bench.say(Opcode::Result, stream, &page);
}

fn has_total(answers: &[Envelope], stream: i16, total: u64) -> bool {
    let [(Opcode::Result, of, body)] = answers else {
        return false;
    };
    *of == stream && body.ends_with(&total.to_be_bytes())
}

#[test]
fn a_client_goes_on_in_the_middle_of_a_message() {
    for version in VERSIONS {
        for compression in [Compression::None, Compression::Lz4, Compression::Snappy] {
            if version == Version::V5 && compression == Compression::Snappy {
                continue;
            }
            let (mut from, mut to) = (bench(version), bench(version));
            let mut client = Client::connect(&mut from, version, compression);
            from.engine
                .stations()
                .clients
                .set_keyspace(client.key, "app".into());
            client.send(&mut from, &client.query(1, READ));
            answer(&mut from, 1);
            assert!(has_total(&client.read(&mut from), 1, 1));
            let bytes = client.query(2, READ);
            for cut in [0, 1, 5, 9, bytes.len() - 1] {
                client.send(&mut from, &bytes[..cut]);
                pass(&mut client, &mut from, &mut to);
                client.send(&mut to, &bytes[cut..]);
                answer(&mut to, 7);
                let answers = client.read(&mut to);
                assert!(
                    has_total(&answers, 2, 7),
                    "{version:?} {compression:?} {cut}"
                );
                let row = client.row(&mut to);
                assert_eq!((row.version, row.compression), (Some(version), compression));
                assert_eq!(row.keyspace.as_deref(), Some("app"));
                assert_eq!(&*row.kind.driver, "a driver");
                assert_eq!(row.numbers.in_flight, 0);
                assert!(row.numbers.requests >= 2 && row.numbers.bytes_in > 0);
                // And back again.
                std::mem::swap(&mut from, &mut to);
            }
        }
    }
}

#[test]
fn an_envelope_is_cut_between_two_of_its_frames() {
    let (mut from, mut to) = (bench(Version::V5), bench(Version::V5));
    let mut client = Client::connect(&mut from, Version::V5, Compression::None);
    let text = format!(
        "SELECT total FROM app.others WHERE customer = 1 /*{}*/",
        "x".repeat(140_000)
    );
    let bytes = client.query(3, &text);
    // The first frame is whole, the second is not.
    client.send(&mut from, &bytes[..135_000]);
    pass(&mut client, &mut from, &mut to);
    client.send(&mut to, &bytes[135_000..]);
    let (opcode, ..) = to.one_at_node();
    assert_eq!(opcode, Opcode::Query);

    // One that has sent more of a message is not held in the middle of it.
    let mut other = Client::connect(&mut from, Version::V5, Compression::None);
    let long = other.query(4, &"x".repeat(500_000));
    other.send(&mut from, &long[..400_000]);
    let timetable = begin(&mut from, &other);
    assert_eq!(other.next(&mut from), Some(Next::Read { leaving: false }));
    other.send(&mut from, &long[400_000..]);
    let (_, stream, _) = from.one_at_node();
    from.say_error(stream, 0x2000, "no such thing", &[]);
    assert_eq!(other.read(&mut from).len(), 1);
    hold_clients(&mut from.engine, from.now, &timetable);
    assert!(next(&mut from).is_some());
}

#[test]
fn what_is_in_flight_ends_first_and_nothing_more_is_read() {
    let mut from = bench(Version::V4);
    let mut client = Client::connect(&mut from, Version::V4, Compression::None);
    from.engine
        .stations()
        .clients
        .set_keyspace(client.key, "app".into());
    client.send(&mut from, &client.query(1, READ));
    begin(&mut from, &client);
    assert!(next(&mut from).is_none(), "it waits for an answer");
    assert_eq!(client.next(&mut from), Some(Next::Wait));
    answer(&mut from, 5);
    assert!(next(&mut from).is_none(), "that has not left");
    assert!(has_total(&client.read(&mut from), 1, 5));
    assert!(next(&mut from).is_some());
    assert!(next(&mut from).is_none(), "once");
    assert!(is_passing(&from.engine), "it may come back");
    assert_eq!(client.next(&mut from), Some(Next::Wait));
}

#[test]
fn a_client_that_is_long_in_coming_to_rest_is_served_in_between() {
    let mut from = bench(Version::V4);
    let client = Client::connect(&mut from, Version::V4, Compression::None);
    client.send(
        &mut from,
        &client.query(1, "SELECT total FROM app.others WHERE customer = 1"),
    );
    let timetable = begin(&mut from, &client);
    let began = from.now;
    let mut held = Vec::new();
    while from.now < began + 15 * SECOND {
        hold_clients(&mut from.engine, from.now, &timetable);
        held.push(client.next(&mut from) == Some(Next::Wait));
        from.now += SECOND;
    }
    // Two seconds each, and in the last quarter not at all.
    let (yes, no) = ([true; 2], [false; 2]);
    assert_eq!(
        held,
        [&yes[..], &no, &yes, &no, &yes, &no, &[false; 3]].concat()
    );
    assert!(!is_passing(&from.engine));
}

#[test]
fn clients_that_wait_for_nothing_do_not_wait_for_those_that_do() {
    let mut from = bench(Version::V4);
    let text = "SELECT total FROM app.others WHERE customer = 1";
    let busy: Vec<Client> = (0..200)
        .map(|stream| {
            let client = Client::connect(&mut from, Version::V4, Compression::None);
            client.send(&mut from, &client.query(stream, text));
            client
        })
        .collect();
    let idle = Client::connect(&mut from, Version::V4, Compression::None);
    let timetable = timetable(&from);
    let is_one = |key| key == idle.key || busy.iter().any(|client| client.key == key);
    begin_passing(&mut from.engine, from.now, is_one);
    hold_clients(&mut from.engine, from.now, &timetable);
    let first = next_to_pass(&mut from.engine, from.now).expect("one is idle");
    assert_eq!(first.0, idle.key);
    from.engine.close_session(from.now, idle.key);
    // Nor do all wait for the slowest.
    let began = from.now;
    let held = |bench: &mut Bench| {
        let waits = |client: &&Client| client.next(bench) == Some(Next::Wait);
        busy.iter().filter(waits).count()
    };
    assert_eq!(held(&mut from), 32);
    while from.now < began + SECOND {
        hold_clients(&mut from.engine, from.now, &timetable);
        assert!(held(&mut from) <= 200);
        from.now += SECOND / 20;
    }
    assert!(held(&mut from) > 64);
}

#[test]
fn what_could_not_be_passed_on_in_time_is_closed_when_it_is_quiet() {
    let mut from = bench(Version::V4);
    let held = Client::connect(&mut from, Version::V4, Compression::None);
    held.send(
        &mut from,
        &held.query(1, "SELECT total FROM app.others WHERE customer = 1"),
    );
    let offered = Client::connect(&mut from, Version::V4, Compression::None);
    let timetable = timetable(&from);
    let both = [held.key, offered.key];
    begin_passing(&mut from.engine, from.now, |key| both.contains(&key));
    hold_clients(&mut from.engine, from.now, &timetable);
    let (key, _) = next_to_pass(&mut from.engine, from.now).expect("one is idle");
    assert_eq!(key, offered.key);
    from.now += 12 * SECOND;
    hold_clients(&mut from.engine, from.now, &timetable);
    assert_eq!(held.next(&mut from), Some(Next::Read { leaving: false }));
    let (_, stream, _) = from.one_at_node();
    from.say_error(stream, 0x2000, "no such thing", &[]);
    let mut held = held;
    assert_eq!(held.read(&mut from).len(), 1);
    assert!(is_passing(&from.engine), "the other one may have one yet");
    assert_eq!(offered.next(&mut from), Some(Next::Wait));
    keep_client(&mut from.engine, from.now, offered.key);
    assert!(!is_passing(&from.engine));
    from.now += SECOND;
    from.engine.close_quiet_sessions(from.now, &timetable);
    for client in [&held, &offered] {
        assert_eq!(client.next(&mut from), Some(Next::Read { leaving: true }));
    }
}

#[test]
fn a_client_that_reads_nothing_takes_its_answers_along() {
    let (mut from, mut to) = (bench(Version::V5), bench(Version::V5));
    let mut client = Client::connect(&mut from, Version::V5, Compression::Lz4);
    from.engine
        .stations()
        .clients
        .set_keyspace(client.key, "app".into());
    client.send(&mut from, &client.query(1, READ));
    answer(&mut from, 9);
    client.block(&mut from);
    begin(&mut from, &client);
    assert!(next(&mut from).is_none(), "it may still read");
    from.now += SECOND;
    let passed = next(&mut from).expect("it has had its time");
    assert_eq!(
        client.read(&mut from),
        [],
        "they may be written by the other one"
    );
    let key = client.key;
    to.now = from.now;
    client.key = adopt(&mut to, passed).expect("taken over");
    assert!(has_total(&client.read(&mut to), 1, 9));
    // If it had not been taken over, they would be here.
    client.key = key;
    keep_client(&mut from.engine, from.now, key);
    client.decoder = Decoder::new(MAX_RESPONSE_BODY);
    client.decoder.set_mode(true, Compression::Lz4);
    assert!(has_total(&client.read(&mut from), 1, 9));
}

#[test]
fn nobody_is_closed_for_being_quiet_who_can_be_passed_on() {
    let mut from = bench(Version::V4);
    let passed_on = Client::connect(&mut from, Version::V4, Compression::None);
    let stays = Client::connect(&mut from, Version::V4, Compression::None);
    let timetable = begin(&mut from, &passed_on);
    from.now += 9 * SECOND;
    from.engine.close_quiet_sessions(from.now, &timetable);
    assert_eq!(stays.next(&mut from), Some(Next::Read { leaving: true }));
    assert_eq!(passed_on.next(&mut from), Some(Next::Wait));
    // Nor is anything else done to a client that the other process may have.
    next(&mut from).expect("it is quiet");
    from.engine.finish(from.now, passed_on.key);
    assert_eq!(passed_on.next(&mut from), Some(Next::Wait));
}

#[test]
fn who_is_cut_off_is_not_passed_on() {
    let (mut from, mut to) = (bench(Version::V5), bench(Version::V5));
    let anonymous = Client::connect(&mut from, Version::V5, Compression::None);
    begin(&mut from, &anonymous);
    let passed = next(&mut from).expect("it is quiet");
    let credentials = Credentials::of_token(b"app");
    let passed = passed.logged_in(credentials.clone(), SECOND);
    assert_eq!(adopt(&mut to, passed), Err(NotAdopted::LoggedIn));
    keep_client(&mut from.engine, from.now, anonymous.key);
    begin(&mut from, &anonymous);
    let passed = next(&mut from).expect("it is quiet");
    let passed = passed.logged_in(credentials.clone(), SECOND);
    let snapshot = to.common.snapshot.load_full();
    let newer = snapshot.successor().authenticate(Some(vec![0, 1, b'x']));
    to.common.store(newer.build());
    to.engine.on_message(to.now, WorkerMessage::Snapshot);
    let client = Client {
        key: adopt(&mut to, passed).expect("taken over"),
        ..anonymous
    };
    let identities = &to.common.identities;
    let member = identities.adopt(credentials, to.now, to.now, SECOND, 9);
    let identity = member.expect("room").identity().clone();
    assert_eq!(
        identity.accepted(),
        to.now.checked_sub(SECOND).unwrap_or(to.now)
    );
    begin(&mut to, &client);
    identity.end();
    assert!(next(&mut to).is_none(), "it would only go on elsewhere");
    to.wait(SECOND);
    assert!(next(&mut to).is_none());
    assert_ne!(client.next(&mut to), Some(Next::Wait), "it is being closed");
}

#[test]
fn a_client_is_refused_that_could_not_be_served() {
    let (mut from, mut to) = (bench(Version::V5), bench(Version::V4));
    let client = Client::connect(&mut from, Version::V5, Compression::None);
    begin(&mut from, &client);
    let passed = next(&mut from).expect("it is quiet");
    let snapshot = to.common.snapshot.load_full();
    let adopt_as = |to: &mut Bench, snapshot: Snapshot| {
        to.common.store(snapshot);
        to.engine.on_message(to.now, WorkerMessage::Snapshot);
    };
    let newer = snapshot.successor().version(Version::V4);
    adopt_as(&mut to, newer.build());
    assert_eq!(adopt(&mut to, passed), Err(NotAdopted::Version(5)));
    keep_client(&mut from.engine, from.now, client.key);

    begin(&mut from, &client);
    let passed = next(&mut from).expect("it is quiet");
    let newer = snapshot.successor().epoch(9);
    adopt_as(&mut to, newer.authenticate(Some(vec![0, 1, b'x'])).build());
    assert_eq!(adopt(&mut to, passed), Err(NotAdopted::NotLoggedIn));
    assert_eq!(
        to.common.clients.load(std::sync::atomic::Ordering::Relaxed),
        1
    );
}
