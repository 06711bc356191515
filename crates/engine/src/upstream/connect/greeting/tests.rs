use helenus_wire::{MAX_REQUEST_BODY, QueryView, code};

use super::*;
use crate::testing::{bytes_of, error};

const PASSWORD: &str = "org.apache.cassandra.auth.PasswordAuthenticator";
const TOKEN: &[u8] = b"\0app\0pw";

/// A node's answer to one request: the stream (`None`: that of the request), opcode and body.
type Answer = (Option<i16>, Opcode, Vec<u8>);

fn link(login: bool, keyspace: Option<&str>) -> Aim {
    Aim::Link {
        token: login.then(|| TOKEN.to_vec()),
        cluster: Some("ours".to_owned()),
        keyspace: keyspace.map(Into::into),
    }
}

fn check() -> Aim {
    Aim::Link {
        token: Some(TOKEN.to_vec()),
        cluster: None,
        keyspace: None,
    }
}

fn login() -> Aim {
    Aim::Login {
        asked: class(PASSWORD),
    }
}

fn class(name: &str) -> Vec<u8> {
    let mut body = Vec::new();
    write::string(&mut body, name);
    body
}

/// One row with the cluster's name.
fn name(of: &str) -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 2);
    write::u32(&mut body, 1);
    write::u32(&mut body, 1);
    write::string(&mut body, "system");
    write::string(&mut body, "local");
    write::string(&mut body, "cluster_name");
    write::u16(&mut body, 0x0D);
    write::i32(&mut body, 1);
    write::bytes(&mut body, Some(of.as_bytes()));
    body
}

fn answer(opcode: Opcode, body: &[u8]) -> Answer {
    (None, opcode, body.to_vec())
}

fn ready() -> Answer {
    answer(Opcode::Ready, &[])
}

fn asks() -> Answer {
    answer(Opcode::Authenticate, &class(PASSWORD))
}

fn accepts() -> Answer {
    answer(Opcode::AuthSuccess, &[0xff; 4])
}

/// A connection between a greeting and a node that answers with these, one after the other.
struct Talk {
    greeting: Greeting,
    version: Version,
    /// Bytes of the node that come at once.
    piece: usize,
    /// Requests to the node: a query's text, or the name of another request.
    sent: Vec<String>,
    stream: i16,
}

impl Talk {
    fn new(version: Version, aim: Aim, piece: usize) -> Talk {
        let authenticators = Authenticators::default();
        let mut greeting = Greeting::new(version, authenticators, aim);
        greeting.begin(false, "10.0.0.9:9042", &PayloadSettings::default());
        Talk {
            greeting,
            version,
            piece,
            sent: Vec::new(),
            stream: 0,
        }
    }

    /// Reads what the greeting has sent.
    fn read(&mut self) {
        let framed = self.version == Version::V5 && !self.sent.is_empty();
        let mut decoder = Decoder::new(MAX_REQUEST_BODY);
        decoder.set_mode(framed, Compression::None);
        let bytes = self.greeting.encoder().pending().to_vec();
        self.greeting.encoder().advance(bytes.len());
        let mut got = Vec::new();
        let fed = decoder.feed(&bytes, &mut Vec::new(), |header, body| {
            assert_eq!(header.version, self.version as u8);
            let opcode = Opcode::from_number(header.opcode).expect("an opcode");
            let text = match opcode {
                Opcode::Query => QueryView::parse(body, self.version).expect("a QUERY").text,
                other => other.name(),
            };
            got.push((header.stream, text.to_owned()));
            Flow::Continue
        });
        assert_eq!(fed, Ok(bytes.len()));
        for (stream, text) in got {
            self.stream = stream;
            self.sent.push(text);
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<Option<Milestone>, OpenError> {
        let mut last = None;
        for piece in bytes.chunks(self.piece) {
            if let Some(reached) = self.greeting.handle_bytes(piece, &mut Vec::new())? {
                assert!(last.replace(reached).is_none(), "two milestones at once");
            }
        }
        Ok(last)
    }

    fn answer(&mut self, answer: Answer) -> Result<Option<Milestone>, OpenError> {
        let (stream, opcode, body) = answer;
        self.read();
        let framed = self.version == Version::V5 && self.sent.len() > 1;
        let stream = stream.unwrap_or(self.stream);
        let bytes = bytes_of((self.version, framed), stream, opcode, &body);
        self.hear(&bytes)
    }

    fn answer_all(
        &mut self,
        answers: impl IntoIterator<Item = Answer>,
    ) -> Result<Option<Milestone>, OpenError> {
        let mut last = None;
        for answer in answers {
            assert!(last.is_none(), "it goes on without a milestone");
            last = self.answer(answer)?;
        }
        Ok(last)
    }
}

/// The greeting becomes ready by these answers, in every version and however the bytes are cut, and has
/// sent these requests behind STARTUP.
#[track_caller]
fn is_ready(aim: impl Fn() -> Aim, answers: &[Answer], sent: &[&str]) {
    for version in [Version::V3, Version::V4, Version::V5] {
        for piece in [1, 2, 3, 7, 1_000] {
            let mut talk = Talk::new(version, aim(), piece);
            let reached = talk.answer_all(answers.to_vec());
            assert!(matches!(reached, Ok(Some(Milestone::Ready))), "{reached:?}");
            assert_eq!(talk.sent[0], "STARTUP");
            assert_eq!(talk.sent[1..], *sent);
            assert_eq!(talk.greeting.encoder().pending_len(), 0);
        }
    }
}

/// The greeting fails with the last of these answers, and with such a text.
#[track_caller]
fn fails(aim: impl Fn() -> Aim, answers: &[Answer], text: &str) -> OpenError {
    let mut found = None;
    for version in [Version::V4, Version::V5] {
        for piece in [1, 1_000] {
            let mut talk = Talk::new(version, aim(), piece);
            let (last, before) = answers.split_last().expect("answers");
            let reached = talk.answer_all(before.to_vec());
            assert!(matches!(reached, Ok(None)), "{reached:?}");
            let error = talk.answer(last.clone()).expect_err("a failure");
            assert!(error.to_string().contains(text), "{error}");
            found = Some(error);
        }
    }
    found.expect("an error")
}

#[test]
fn a_link_says_who_it_is_and_asks_whose_node_it_is() {
    let cluster = CLUSTER_NAME;
    let named = || answer(Opcode::Result, &name("ours"));
    is_ready(|| link(false, None), &[ready(), named()], &[cluster]);
    is_ready(
        || link(true, None),
        &[asks(), accepts(), named()],
        &["AUTH_RESPONSE", cluster],
    );
    is_ready(
        || link(true, Some("a \"b\"")),
        &[
            asks(),
            accepts(),
            named(),
            answer(Opcode::Result, &[0, 0, 0, 3]),
        ],
        &["AUTH_RESPONSE", cluster, "USE \"a \"\"b\"\"\""],
    );
    // Whoever cannot tell its cluster is taken for one of ours.
    let cannot = answer(Opcode::Error, &error(code::SERVER, "no"));
    is_ready(|| link(false, None), &[ready(), cannot], &[cluster]);
    is_ready(check, &[asks(), accepts()], &["AUTH_RESPONSE"]);
}

#[test]
fn a_node_of_another_cluster_is_left() {
    let other = answer(Opcode::Result, &name("theirs"));
    let why = fails(
        || link(false, None),
        &[ready(), other],
        "the cluster \"theirs\"",
    );
    assert!(!why.is_of_credentials());
}

#[test]
fn who_logs_in_wants_to_be_asked_and_nobody_else_does() {
    let named = answer(Opcode::Result, &name("ours"));
    let text = "requires no credentials";
    assert!(fails(|| link(true, None), &[ready()], text).is_of_credentials());
    assert!(fails(login, &[ready()], text).is_of_credentials());
    assert!(fails(login, std::slice::from_ref(&named), text).is_of_credentials());
    let why = fails(|| link(false, None), &[asks()], PASSWORD);
    assert!(matches!(why, OpenError::NoCredentials(_)));
    fails(
        || link(true, None),
        std::slice::from_ref(&named),
        "RESULT where READY",
    );
    fails(
        || link(true, None),
        &[asks(), named],
        "RESULT where AUTH_SUCCESS",
    );
}

#[test]
fn only_authenticators_that_judge_the_token_are_relied_on() {
    let own = || answer(Opcode::Authenticate, &class("com.example.Own"));
    let aims: [fn() -> Aim; 3] = [|| link(true, None), || link(false, None), login];
    for aim in aims {
        let why = fails(aim, &[own()], "does not know");
        assert!(!why.is_of_credentials());
    }
    let fallback = "org.apache.cassandra.auth.MutualTlsWithPasswordFallbackAuthenticator";
    let mut talk = Talk::new(Version::V4, link(true, None), 1_000);
    talk.greeting.shows_certificate = true;
    let asked = talk.answer(answer(Opcode::Authenticate, &class(fallback)));
    assert!(matches!(asked, Err(OpenError::Unfit(_))));
    // A client was asked by another than this.
    let why = fails(
        login,
        &[answer(Opcode::Authenticate, &class(fallback))],
        "a different authenticator",
    );
    assert!(why.is_of_credentials());
}

#[test]
fn what_a_node_says_of_credentials_is_told_from_what_it_cannot_say() {
    let said = |code, message| answer(Opcode::Error, &error(code, message));
    let wrong = said(code::BAD_CREDENTIALS, "incorrect");
    let why = fails(
        || link(true, None),
        &[asks(), wrong],
        "incorrect (code 0x0100)",
    );
    assert!(matches!(why, OpenError::BadCredentials(_)));
    for unable in [
        said(code::BAD_CREDENTIALS, "Unable to perform authentication"),
        said(code::OVERLOADED, "busy"),
    ] {
        let why = fails(|| link(true, None), &[asks(), unable], "cannot check");
        assert!(matches!(why, OpenError::Unjudged { .. }));
    }
    let missing = said(code::INVALID, "Keyspace 'k' does not exist");
    let named = answer(Opcode::Result, &name("ours"));
    let answers = [ready(), named, missing];
    let why = fails(|| link(false, Some("k")), &answers, "does not exist");
    assert!(matches!(
        why,
        OpenError::Node {
            code: code::INVALID,
            ..
        }
    ));
}

#[test]
fn an_error_on_stream_0_is_meant_for_us_and_other_streams_are_not() {
    let unsupported = (
        Some(0),
        Opcode::Error,
        error(code::PROTOCOL, "Invalid version"),
    );
    let why = fails(|| link(false, None), &[unsupported], "Invalid version");
    assert!(matches!(
        why,
        OpenError::Node {
            code: code::PROTOCOL,
            ..
        }
    ));
    let mut talk = Talk::new(Version::V4, link(false, None), 1_000);
    for (stream, opcode) in [(-1, Opcode::Event), (0, Opcode::Ready), (7, Opcode::Error)] {
        let heard = talk.answer((Some(stream), opcode, Vec::new()));
        assert!(matches!(heard, Ok(None)), "{heard:?}");
        assert!(!talk.greeting.has_heard());
    }
    assert!(matches!(talk.answer(ready()), Ok(None)));
    assert!(talk.greeting.has_heard());
}

#[test]
fn what_is_not_cql_fails() {
    // The last one announces 64 KiB and a byte, before there is a connection of use.
    for bytes in [
        &b"HTTP/1.1 400 Bad Request"[..],
        &[0x15, 3, 3, 0, 2, 2, 40],
        &[0x84, 0, 0, 1, 3, 0, 1, 0, 1],
    ] {
        let mut talk = Talk::new(Version::V4, link(false, None), 1_000);
        let error = talk.hear(bytes).expect_err("no CQL");
        assert!(error.to_string().contains("not CQL"), "{error}");
    }
    // A body that says less than it should.
    let half = answer(Opcode::Authenticate, &[0, 9, b'o']);
    fails(|| link(true, None), &[half], "not CQL");
    fails(
        || link(true, None),
        &[answer(Opcode::Error, &[0])],
        "not CQL",
    );
    let half = answer(Opcode::Result, &[0, 0, 0, 2, 0]);
    fails(|| link(false, None), &[ready(), half], "not CQL");
}

#[test]
fn what_comes_behind_the_last_answer_is_kept() {
    for version in [Version::V4, Version::V5] {
        let framed = version == Version::V5;
        let mut talk = Talk::new(version, link(false, None), 10_000);
        assert!(matches!(talk.answer(ready()), Ok(None)));
        talk.read();
        let message =
            |stream, body: &[u8]| bytes_of((version, framed), stream, Opcode::Result, body);
        let next = message(9, b"next");
        let mut bytes = message(2, &name("ours"));
        bytes.extend(message(8, b"behind"));
        bytes.extend(&next[..7]);
        assert!(matches!(talk.hear(&bytes), Ok(Some(Milestone::Ready))));
        let (mut opened, behind) = talk.greeting.into_link();
        let behind: Vec<_> = behind
            .iter()
            .map(|message| (message.header.stream, &message.body[..]))
            .collect();
        assert_eq!(behind, [(8, &b"behind"[..])]);
        let mut got = Vec::new();
        let fed = opened
            .decoder
            .feed(&next[7..], &mut Vec::new(), |header, body| {
                got.push((header.stream, body.to_vec()));
                Flow::Continue
            });
        assert_eq!(fed, Ok(next.len() - 7));
        assert_eq!(got, [(9, b"next".to_vec())]);
        // And what is sent over the link is as long as its version has frames.
        let header = Header {
            version: version as u8,
            response: false,
            flags: 0,
            stream: 1,
            opcode: Opcode::Options as u8,
            body_len: 0,
        };
        opened.encoder.push_slice(header, &[]);
        let len = opened.encoder.pending().len();
        assert_eq!(len, if framed { 9 + 6 + 4 } else { 9 });
    }
}

#[test]
fn a_login_hands_over_whatever_the_node_answers_to_the_token() {
    for piece in [1, 5, 1_000] {
        for version in [Version::V4, Version::V5] {
            let mut talk = Talk::new(version, login(), piece);
            let asked = talk.answer(asks());
            assert!(matches!(asked, Ok(Some(Milestone::Asked))), "{asked:?}");
            talk.greeting.respond(TOKEN);
            // Of streams that are not its own nothing counts, not even an error on stream 0.
            let other = talk.answer((Some(0), Opcode::Error, error(0, "dropped")));
            assert!(matches!(other, Ok(None)), "{other:?}");
            let judged = talk.answer(answer(Opcode::Error, &error(code::BAD_CREDENTIALS, "no")));
            let Ok(Some(Milestone::Judged(message))) = judged else {
                panic!("{judged:?}");
            };
            assert_eq!(message.header.opcode, Opcode::Error as u8);
            assert_eq!(message.body, error(code::BAD_CREDENTIALS, "no"));
            assert_eq!(talk.sent, ["STARTUP", "AUTH_RESPONSE"]);
        }
    }
}

#[test]
fn a_node_is_told_whether_columns_are_encoded() {
    let version = |enabled| {
        let options = startup_options(&PayloadSettings { enabled });
        let of = options
            .into_iter()
            .find(|(name, _)| *name == "DRIVER_VERSION");
        of.expect("it is told").1
    };
    assert!(version(true).ends_with(VERSION_ENCODES));
    assert!(!version(false).contains(VERSION_ENCODES));
}
