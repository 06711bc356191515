use std::time::{Duration, Instant};

use anyhow::Result;
use helenus_capture::{
    Answer, Bound, Chunk, End, Mark, Reason, Request, Start, Statement, kinds, marks, push_value,
};
use helenus_wire::Opcode;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::server::{Server, further_state, page_bytes};
use crate::client::endpoint::{Endpoint, Policy};
use crate::mirror::{Limits, Mirror, Options, Outcome, Source};

const READ: &str = "SELECT v FROM ks.t WHERE k = ?";
/// How old the captures are that come here: requests of them are due at once.
const AGE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);

struct Channel(UnboundedReceiver<Vec<u8>>);

impl Source for Channel {
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(self.0.recv().await)
    }
}

fn options() -> Options {
    Options {
        connections: 2,
        in_flight_max: 8,
        limits: Limits {
            behind_max: 1_000,
            bytes_max: 1 << 20,
            lag_max: Duration::from_secs(600),
        },
        progress: Duration::from_millis(10),
    }
}

/// A mirror under way, and the proxy's end of its capture.
struct Running {
    capture: UnboundedSender<Vec<u8>>,
    stop: UnboundedSender<()>,
    mirror: JoinHandle<Result<Outcome>>,
}

impl Running {
    async fn begin(servers: &[&Server], options: Options, has_values: bool) -> Running {
        let endpoints = servers.iter().enumerate().map(|(number, server)| {
            let contact_points = vec![server.address.clone()];
            let mut endpoint =
                Endpoint::new(format!("e{number}"), contact_points, Policy::RoundRobin);
            endpoint.request_timeout = Duration::from_millis(300);
            endpoint
        });
        let endpoints: Vec<Endpoint> = endpoints.collect();
        let mirror = Mirror::open(&endpoints, options).await.expect("reached");
        let (capture, coming) = unbounded_channel();
        let (stop, mut stopped) = unbounded_channel();
        let stopping = async move { _ = stopped.recv().await };
        let mirror = tokio::spawn(mirror.run(Channel(coming), stopping, |_| {}));
        let running = Running {
            capture,
            stop,
            mirror,
        };
        let start = Start {
            has_values,
            classes: vec!["point".to_owned()],
            ..Start::default()
        };
        running.send(start.to_bytes());
        running.send(mark().to_bytes());
        running
    }

    fn send(&self, bytes: Vec<u8>) {
        // It may have ended because of what came before.
        let _ = self.capture.send(bytes);
    }

    /// The proxy has answered these.
    fn requests(&self, asked: &[Asked]) {
        let mut chunk = Chunk::new(0);
        for of in asked {
            let sent = of.sent.clone().or(Some(of.text.to_owned()));
            let is_read = of.text.starts_with("SELECT");
            let kind = if is_read { kinds::READ } else { kinds::WRITE };
            let statement = chunk.define(&Statement {
                text: of.text.to_owned(),
                kinds: kind | kinds::WHOLE,
                sent,
                ..Statement::default()
            });
            let mut values = Vec::new();
            push_value(&mut values, Some(of.value), false, true);
            let bound = Bound {
                statement,
                count: 1,
                values: &values,
                with_bytes: true,
            };
            let request = Request {
                connection: 5,
                arrived_us: (AGE - Duration::from_millis(1_500)).as_micros() as u64,
                opcode: of.opcode as u8,
                marks: of.marks,
                ..Request::default()
            };
            chunk.record(&request, of.answer.as_ref(), [bound].into_iter());
        }
        self.send(chunk.into_bytes());
    }

    /// The capture ends in time.
    async fn end(self) -> Outcome {
        let reason = Reason::Time;
        let mark = mark();
        self.send(End { reason, mark }.to_bytes());
        drop(self.capture);
        let ended = self.mirror.await.expect("no panic");
        ended.expect("an outcome")
    }
}

fn mark() -> Mark {
    let at_us = AGE.as_micros() as u64;
    Mark { at_us, lost: 3 }
}

#[derive(Clone)]
struct Asked {
    text: &'static str,
    /// None: the same.
    sent: Option<String>,
    opcode: Opcode,
    value: &'static [u8],
    marks: u8,
    answer: Option<Answer>,
}

fn asked(text: &'static str, value: &'static [u8]) -> Asked {
    let answer = Answer {
        took_us: 900,
        bytes: page_bytes(value),
        error: None,
    };
    Asked {
        text,
        sent: None,
        opcode: Opcode::Execute,
        value,
        marks: 0,
        answer: Some(answer),
    }
}

fn read(value: &'static [u8]) -> Asked {
    asked(READ, value)
}

async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn reads_are_sent_and_compared_by_size_and_writes_are_not() {
    let server = Server::start(b"").await;
    let running = Running::begin(&[&server], options(), true).await;
    let mut other_size = read(b"two");
    let mut failed = read(b"three");
    let mut unanswered = read(b"four");
    if let (Some(other), Some(failed)) = (&mut other_size.answer, &mut failed.answer) {
        other.bytes += 1;
        failed.error = Some(0x1001);
    }
    unanswered.answer = None;
    let mut skipping = read(b"five");
    skipping.marks = marks::SKIPS_METADATA;
    let batch = Asked {
        opcode: Opcode::Batch,
        ..read(b"six")
    };
    let write = asked("UPDATE ks.t SET v = 1 WHERE k = ?", b"six");
    let gone = asked("SELECT v FROM ks.missing WHERE k = ?", b"seven");
    let private = "SELECT v FROM ks.missing WHERE k = ? AND name = 'private'";
    let with_value = Asked {
        sent: Some(private.to_owned()),
        ..asked(
            "SELECT v FROM ks.missing WHERE k = ? AND name = ?",
            b"eight",
        )
    };
    running.requests(&[
        read(b"one"),
        other_size,
        failed,
        unanswered,
        skipping,
        batch,
        write,
        gone,
        with_value,
    ]);
    let outcome = running.end().await;
    let mut seen: Vec<_> = server.seen();
    seen.sort_by(|one, other| one.value.cmp(&other.value));
    let values = seen.iter().map(|of| (&of.value[..], of.skips_metadata));
    assert_eq!(
        values.collect::<Vec<_>>(),
        [
            (&b"five"[..], true),
            (b"one", false),
            (b"three", false),
            (b"two", false)
        ]
    );
    let texts = server.prepared();
    assert!(
        texts.iter().all(|text| text.starts_with("SELECT")),
        "{texts:?}"
    );
    let all = &outcome.groups[0];
    assert_eq!((all.compared, all.same), (4, 2), "{outcome:#?}");
    assert_eq!((all.different, all.failed), (1, 1));
    assert_eq!((all.of[0].answered, all.of[1].answered), (3, 4));
    assert_eq!(all.of[0].errors.get("overloaded"), Some(&1));
    assert_eq!(outcome.arms, ["clients", "e0"]);
    assert_eq!((outcome.played, outcome.dropped, outcome.lost), (4, 0, 3));
    assert_eq!(outcome.broken_off, None);
    let count = |what: &str| {
        let found = outcome
            .not_played
            .iter()
            .find(|(why, _)| why.contains(what));
        found.map(|(_, count)| *count)
    };
    assert_eq!(count("never sent"), Some(1), "{outcome:#?}");
    assert_eq!(count("not answered"), Some(1));
    assert_eq!(count("batches"), Some(1));
    assert_eq!(count("table missing does not exist"), Some(1));
    // The endpoint repeats what it was sent; here that is a value of a client.
    assert!(texts.iter().any(|text| text == private), "{texts:?}");
    assert_eq!(count("(invalid): SELECT v FROM ks.missing"), Some(1));
    assert_eq!(count("private"), None, "{outcome:#?}");
    let statement = outcome.groups.iter().find(|of| of.kind == "statement");
    assert_eq!(
        statement.map(|of| (&*of.name, of.compared)),
        Some((READ, 4))
    );
}

#[tokio::test]
async fn answers_of_two_endpoints_are_compared_by_their_rows() {
    let (same, other) = (Server::start(b"").await, Server::start(b"x").await);
    for (servers, different) in [([&same, &same], 0), ([&same, &other], 3)] {
        let running = Running::begin(&servers, options(), true).await;
        let mut skipping = read(b"c");
        skipping.marks = marks::SKIPS_METADATA;
        running.requests(&[read(b"a"), read(b"b"), skipping]);
        let outcome = running.end().await;
        let all = &outcome.groups[0];
        assert_eq!(
            (all.compared, all.different),
            (3, different),
            "{outcome:#?}"
        );
        assert_eq!(outcome.arms, ["clients", "e0", "e1"]);
        assert_eq!(all.of[2].answered, 3);
    }
    // Names of columns are compared as well.
    assert!(other.seen().iter().all(|of| !of.skips_metadata));
}

#[tokio::test]
async fn an_endpoint_that_dies_costs_errors_and_is_used_again_when_it_is_back() {
    let server = Server::start(b"").await;
    let running = Running::begin(&[&server], options(), true).await;
    running.requests(&[read(b"before")]);
    eventually("the first read", || !server.seen().is_empty()).await;
    server.kill();
    running.requests(&[read(b"lost")]);
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.restart().await;
    let is_back = || server.seen().iter().any(|of| of.value == b"after");
    let begun = Instant::now();
    while !is_back() {
        assert!(begun.elapsed() < PATIENCE, "it is not used again");
        running.requests(&[read(b"after")]);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let outcome = running.end().await;
    let endpoint = &outcome.groups[0].of[1];
    assert!(endpoint.answered >= 2, "{outcome:#?}");
    let errors: u64 = endpoint.errors.values().sum();
    assert!(errors >= 1, "{outcome:#?}");
    assert_eq!(outcome.groups[0].failed, errors);
    assert_eq!(outcome.broken_off, None);
}

#[tokio::test]
async fn what_a_slow_endpoint_cannot_take_is_dropped() {
    let server = Server::start(b"").await;
    let mut options = options();
    options.in_flight_max = 2;
    options.limits.behind_max = 3;
    let running = Running::begin(&[&server], options, true).await;
    running.requests(&[read(b"prepared")]);
    eventually("the first read", || !server.seen().is_empty()).await;
    server.be_silent();
    running.requests(&vec![read(b"v"); 10]);
    let outcome = running.end().await;
    let endpoint = &outcome.groups[0].of[1];
    // Two are sent at once and three wait, or one less while the first read is on its way.
    assert!((5..=6).contains(&outcome.dropped_behind), "{outcome:#?}");
    assert_eq!(outcome.played + outcome.dropped, 11, "{outcome:#?}");
    let timeouts = endpoint.errors.get("client timeout").copied();
    assert_eq!(timeouts.unwrap_or(0) + endpoint.answered, outcome.played);
}

/// Nobody else holds them, and they have up to 64 KiB each.
#[tokio::test]
async fn texts_that_were_not_prepared_count_as_memory() {
    let server = Server::start(b"").await;
    let running = Running::begin(&[&server], options(), true).await;
    let long = |number| {
        let more = "x".repeat(50_000);
        Asked {
            sent: Some(format!("{READ} AND name = '{number}{more}'")),
            opcode: Opcode::Query,
            ..read(b"v")
        }
    };
    let all: Vec<Asked> = (0..40).map(long).collect();
    running.requests(&all);
    let outcome = running.end().await;
    assert_eq!(
        (outcome.played, outcome.dropped_bytes),
        (10, 30),
        "{outcome:#?}"
    );
}

#[tokio::test]
async fn a_connection_that_says_nothing_any_more_is_replaced() {
    let server = Server::start(b"").await;
    let mut options = options();
    (options.connections, options.in_flight_max) = (1, 32);
    let running = Running::begin(&[&server], options, true).await;
    server.be_silent();
    assert_eq!(server.accepted(), 1);
    let begun = Instant::now();
    while server.accepted() < 2 {
        assert!(begun.elapsed() < PATIENCE, "it is not replaced");
        running.requests(&vec![read(b"v"); 8]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let outcome = running.end().await;
    let timeouts = outcome.groups[0].of[1].errors.get("client timeout");
    assert!(timeouts >= Some(&16), "{outcome:#?}");
}

#[tokio::test]
async fn further_pages_go_on_where_the_endpoints_own_page_ended() {
    let server = Server::start(b"").await;
    let running = Running::begin(&[&server], options(), true).await;
    let further = Asked {
        marks: marks::CONTINUES,
        ..read(b"more")
    };
    running.requests(std::slice::from_ref(&further));
    running.requests(&[read(b"more")]);
    let begun = Instant::now();
    while !server.seen().iter().any(|of| of.state.is_some()) {
        assert!(begun.elapsed() < PATIENCE, "no further page is asked for");
        running.requests(std::slice::from_ref(&further));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let outcome = running.end().await;
    assert!(
        server
            .seen()
            .iter()
            .any(|of| of.state == Some(further_state(b"more")))
    );
    let left_out = outcome
        .not_played
        .keys()
        .any(|why| why.contains("further pages"));
    assert!(left_out, "{outcome:#?}");
    // The size of a paging state says nothing, nor does where a further page begins.
    assert_eq!(outcome.groups[0].compared, 0, "{outcome:#?}");
}

/// Scans have no key, and it is their values that tell them apart.
#[tokio::test]
async fn pages_of_reads_with_other_values_are_not_taken_for_ones_own() {
    let server = Server::start(b"").await;
    let running = Running::begin(&[&server], options(), true).await;
    let values: [&[u8]; 2] = [b"more of one", b"more of another"];
    let reads = values.map(read);
    let further = reads.clone().map(|of| Asked {
        marks: marks::CONTINUES,
        ..of
    });
    let went_on = |value: &[u8]| {
        let mut seen = server.seen().into_iter();
        seen.any(|of| of.value == value && of.state.is_some())
    };
    let begun = Instant::now();
    while !values.iter().all(|value| went_on(value)) {
        assert!(begun.elapsed() < PATIENCE, "no further page is asked for");
        let before = server.seen().len();
        running.requests(&reads);
        eventually("the first pages", || server.seen().len() >= before + 2).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        running.requests(&further);
    }
    running.end().await;
    for of in server.seen() {
        let own = further_state(&of.value);
        assert!(
            of.state.as_ref().is_none_or(|state| *state == own),
            "{of:?}"
        );
    }
}

/// It is a node of another version now, and prepares what it is told to, but under other ids.
#[tokio::test]
async fn a_statement_that_has_another_id_now_is_prepared_anew() {
    let server = Server::start(b"").await;
    let running = Running::begin(&[&server], options(), true).await;
    running.requests(&[read(b"before")]);
    eventually("the first read", || !server.seen().is_empty()).await;
    server.change_ids();
    let is_known = || server.seen().iter().any(|of| of.value == b"after");
    let begun = Instant::now();
    while !is_known() {
        assert!(begun.elapsed() < PATIENCE, "it is not prepared anew");
        running.requests(&[read(b"after")]);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let outcome = running.end().await;
    let unprepared = outcome.groups[0].of[1].errors.get("unprepared");
    assert!(unprepared >= Some(&1), "{outcome:#?}");
}

#[tokio::test]
async fn stopping_leaves_what_has_not_been_sent() {
    let server = Server::start(b"").await;
    let mut options = options();
    options.in_flight_max = 1;
    let running = Running::begin(&[&server], options, true).await;
    server.be_silent();
    running.requests(&vec![read(b"v"); 5]);
    eventually("the first read", || !server.seen().is_empty()).await;
    running.stop.send(()).expect("running");
    let outcome = running.mirror.await.expect("no panic").expect("an outcome");
    assert_eq!(outcome.played + outcome.unfinished, 5, "{outcome:#?}");
    assert!(outcome.played >= 1 && outcome.broken_off.is_none());
}

#[tokio::test]
async fn captures_without_values_and_those_that_break_off_are_said() {
    let server = Server::start(b"").await;
    let running = Running::begin(&[&server], options(), false).await;
    let outcome = running.end().await;
    let why = outcome.broken_off.expect("it says why");
    assert!(why.contains("no values"), "{why}");
    let running = Running::begin(&[&server], options(), true).await;
    let end = End {
        reason: Reason::Time,
        mark: mark(),
    };
    running.send([&end.to_bytes()[..], &[0xff; 64]].concat());
    let outcome = running.mirror.await.expect("no panic").expect("an outcome");
    assert_eq!(outcome.broken_off, None);
    let running = Running::begin(&[&server], options(), true).await;
    running.requests(&[read(b"a")]);
    drop(running.capture);
    let outcome = running.mirror.await.expect("no panic").expect("an outcome");
    assert!(outcome.broken_off.is_some());
    // Requests that had come are played.
    assert_eq!(outcome.played, 1);
}

/// A capture has a mark every second.
#[tokio::test]
async fn a_capture_that_says_nothing_for_half_a_minute_breaks_off() {
    let server = Server::start(b"").await;
    let running = Running::begin(&[&server], options(), true).await;
    // From now on time goes on only where everybody waits for it, and at once.
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(20)).await;
    running.send(mark().to_bytes());
    let outcome = running.mirror.await.expect("no panic").expect("an outcome");
    assert_eq!(begun.elapsed().as_secs(), 50);
    let why = outcome.broken_off.expect("it says why");
    assert!(
        why.contains("nothing has come") && why.contains("30s"),
        "{why}"
    );
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_an_error_when_it_begins() {
    let server = Server::start(b"").await;
    server.kill();
    let endpoint =
        |address: &str| Endpoint::new("second", vec![address.to_owned()], Policy::RoundRobin);
    eventually("the port is closed", || {
        std::net::TcpStream::connect(&server.address).is_err()
    })
    .await;
    let refused = Mirror::open(&[endpoint(&server.address)], options()).await;
    let refused = format!("{:#}", refused.err().expect("refused"));
    assert!(refused.contains("second"), "{refused}");
}
