//! The functions that are counted, each on input like a real cluster's.

use std::hint::black_box;

use helenus_policy::choice::{CANDIDATES_MAX, Choice, Request, Settings as Assignment};
use helenus_policy::hot::{Partition, Sampler, Sketch, Use};
use helenus_policy::ring::{NodeIndex, NodeSpec, Replication, Ring};
use helenus_policy::route::{Elsewhere, NodeTable, Preference, RouteInput, plan};
use helenus_policy::schedule::{Answered, Class, Job, Offer, Schedule, Settings};
use helenus_policy::token::{Partitioner, Token};
use helenus_wire::{
    Compression, Decoder, Encoder, ExecuteView, Flow, Header, MAX_REQUEST_BODY, Opcode,
    RequestContext, RowsView, Version, convert_request, convert_response, write,
};

/// Envelopes in a frame, as under load.
const PACKED: usize = 16;
const NODES: usize = 3;
const TOKENS_PER_NODE: usize = 16;

/// Runs something this many times.
pub(crate) type Work = fn(usize);

/// The nodes' id for the columns of results.
pub(crate) const METADATA_ID: [u8; 16] = [8; 16];

/// The benchmarks of single functions.
pub(crate) const ALL: &[(&str, Work)] = &[
    ("decode a packed EXECUTE", decode),
    ("encode a packed EXECUTE", encode),
    ("view an EXECUTE", view_execute),
    ("raise an EXECUTE from v4 to v5", raise_execute),
    ("lower a Rows answer from v5 to v4", lower_rows),
    ("view a Rows answer", view_rows),
    ("facts of a SELECT", facts),
    ("slot of a 16-byte key", slot),
    ("plan for three replicas", route),
    ("choice among three replicas", choose),
    ("choice: sent and answered", choice),
    ("schedule: in and out", schedule),
    ("hot: request to a known partition", hot_known),
    ("hot: request to a new partition", hot_new),
];

fn header(opcode: Opcode, stream: i16) -> Header {
    Header {
        version: Version::V5 as u8,
        response: false,
        flags: 0,
        stream,
        opcode: opcode as u8,
        body_len: 0,
    }
}

/// EXECUTE of a statement with these values.
pub(crate) fn execute_body(version: Version, id: [u8; 16], values: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    write::short_bytes(&mut body, &id);
    if version == Version::V5 {
        write::short_bytes(&mut body, &METADATA_ID);
    }
    write::u16(&mut body, 1);
    // Values and a default timestamp.
    match version {
        Version::V5 => write::u32(&mut body, 0x21),
        _ => body.push(0x21),
    }
    write::u16(&mut body, values.len() as u16);
    for value in values {
        write::i32(&mut body, value.len() as i32);
        body.extend_from_slice(value);
    }
    body.extend_from_slice(&1_700_000_000_000_000_i64.to_be_bytes());
    body
}

/// EXECUTE of `INSERT INTO … VALUES (?, ?)` with an 8-byte key and a 12-byte value.
fn insert_body(version: Version) -> Vec<u8> {
    execute_body(version, [7; 16], &[&[1; 8], &[2; 12]])
}

/// Rows of one row with one blob of 100 bytes that begins with these, its metadata left out.
pub(crate) fn rows_body(begin: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for word in [2, 4, 1, 1, 100] {
        write::i32(&mut body, word);
    }
    let end = body.len() + 100;
    body.extend_from_slice(begin);
    body.resize(end, 9);
    body
}

fn encode(times: usize) {
    let body = insert_body(Version::V5);
    let mut encoder = Encoder::new();
    encoder.set_mode(true, Compression::None);
    for at in 0..times {
        encoder.push_slice(header(Opcode::Execute, 1 + (at % 1_000) as i16), &body);
        if at % PACKED == PACKED - 1 {
            let len = black_box(encoder.pending()).len();
            encoder.advance(len);
        }
    }
}

fn decode(times: usize) {
    let body = insert_body(Version::V5);
    let mut encoder = Encoder::new();
    encoder.set_mode(true, Compression::None);
    for at in 0..PACKED {
        encoder.push_slice(header(Opcode::Execute, 1 + at as i16), &body);
    }
    let frame = encoder.pending().to_vec();
    let mut decoder = Decoder::new(MAX_REQUEST_BODY);
    decoder.set_mode(true, Compression::None);
    let mut scratch = Vec::new();
    let mut seen = 0;
    while seen < times {
        let fed = decoder.feed(&frame, &mut scratch, |header, body| {
            black_box((header, body));
            seen += 1;
            Flow::Continue
        });
        assert!(fed.is_ok(), "our own frame");
    }
}

fn view_execute(times: usize) {
    let body = insert_body(Version::V5);
    for _ in 0..times {
        let view = ExecuteView::parse(black_box(&body), Version::V5);
        let first = view.ok().and_then(|v| v.options.values.get(0));
        assert!(black_box(first).is_some(), "our own body");
    }
}

fn raise_execute(times: usize) {
    let body = insert_body(Version::V4);
    let mut out = Vec::new();
    let context = RequestContext {
        keyspace: None,
        result_metadata_id: Some(&[8; 16]),
        node_statement_id: None,
        page: None,
        full_metadata: false,
    };
    for _ in 0..times {
        out.clear();
        let (from, to) = (Version::V4, Version::V5);
        let body = black_box(&body);
        let done = convert_request(Opcode::Execute, 0, body, from, to, context, &mut out);
        assert!(done.is_ok(), "our own body");
        black_box(&out);
    }
}

fn lower_rows(times: usize) {
    let body = rows_body(&[9; 8]);
    let mut out = Vec::new();
    for _ in 0..times {
        out.clear();
        let (from, to) = (Version::V5, Version::V4);
        let done = convert_response(Opcode::Result, 0, black_box(&body), from, to, &mut out);
        assert!(done.is_ok(), "our own body");
        black_box(&out);
    }
}

fn view_rows(times: usize) {
    let body = rows_body(&[9; 8]);
    for _ in 0..times {
        let view = RowsView::parse(black_box(&body));
        let row = view.ok().and_then(|v| v.rows().next());
        assert!(black_box(row).is_some(), "our own body");
    }
}

fn facts(times: usize) {
    let text = "SELECT name, seen FROM app.people WHERE id = ? AND day > ? LIMIT 10";
    for _ in 0..times {
        black_box(helenus_cql::facts(black_box(text)));
    }
}

/// Nodes with their tokens in turn.
pub(crate) fn ring() -> (Ring, Vec<NodeSpec>) {
    let spacing = u64::MAX / (NODES * TOKENS_PER_NODE) as u64;
    let token = |at: usize| Token::Murmur3(i64::MIN.wrapping_add((at as u64 * spacing) as i64));
    let nodes: Vec<NodeSpec> = (0..NODES)
        .map(|node| NodeSpec {
            dc: "dc1".to_owned(),
            rack: "r1".to_owned(),
            tokens: (0..TOKENS_PER_NODE)
                .map(|t| token(t * NODES + node))
                .collect(),
        })
        .collect();
    (Ring::new(Partitioner::Murmur3, &nodes), nodes)
}

fn slot(times: usize) {
    let (ring, _) = ring();
    for at in 0..times {
        let key = (at as u128).to_be_bytes();
        assert!(black_box(ring.slot_of_key(black_box(&key))).is_some());
    }
}

fn route(times: usize) {
    let (ring, nodes) = ring();
    let table = NodeTable::new(&nodes, Some("dc1"), None);
    let replication = Replication::Simple { rf: 3 };
    let sets = ring.replica_sets(&replication);
    let usable = |_: NodeIndex| true;
    for at in 0..times {
        let input = RouteInput {
            replicas: sets.of_slot(at % ring.len()),
            nodes: &table,
            usable: &usable,
            rotation: at as u64,
            elsewhere: Elsewhere::Never,
            preference: Preference::Spread,
        };
        assert!(black_box(plan(black_box(&input))).next().is_some());
    }
}

/// A worker's choice among three nodes that have answered a moment ago.
fn known() -> Choice {
    let mut choice = Choice::new(Assignment::default());
    choice.grow_to(NODES);
    for at in 0..100 {
        let node = NodeIndex((at % NODES) as u16);
        let sent = choice.on_sent(at as u64, node, 150);
        choice.on_answer(at as u64, node, sent, 100 + at as u32);
    }
    choice
}

fn choose(times: usize) {
    let choice = known();
    let ring_order = [NodeIndex(2), NodeIndex(0), NodeIndex(1)];
    let mut candidates = [NodeIndex(0); CANDIDATES_MAX];
    for at in 0..times {
        let request = Request {
            now_us: 1_000,
            work_us: 150,
            rotation: at as u64,
            affinity: Some(at as u32),
            near: 0,
        };
        candidates[..NODES].copy_from_slice(&ring_order);
        choice.order(black_box(&request), &mut candidates[..NODES]);
        black_box(&candidates);
    }
}

fn choice(times: usize) {
    let mut choice = known();
    for at in 0..times {
        let node = black_box(NodeIndex((at % NODES) as u16));
        let sent = choice.on_sent(at as u64, node, 150);
        choice.on_answer(at as u64 + 100, node, black_box(sent), 100);
    }
}

fn schedule(times: usize) {
    let mut schedule = Schedule::new(Settings::default());
    for at in 0..times {
        let now_us = at as u64;
        let job = Job::of_work(black_box(150));
        let offered = schedule.offer(now_us, at as u32, Class::Point, job, false);
        assert!(offered == Offer::Dispatch, "there is room");
        let answered = Answered {
            is_error: false,
            predicted_us: 150,
            known_us: 150,
            service_us: 100,
        };
        schedule.on_done(now_us + 100, Class::Point, answered);
        assert!(black_box(schedule.poll_dispatch(now_us + 100, false)).is_none());
    }
}

/// Places of a sketch, as in a worker.
const PLACES: usize = 512;

fn hot_known(times: usize) {
    hot(times, |at| at % PLACES as u64);
}

/// The most expensive case: each that is looked at takes the place of another.
fn hot_new(times: usize) {
    hot(times, |at| at + PLACES as u64);
}

fn hot(times: usize, token: impl Fn(u64) -> u64) {
    let mut sketch: Sketch<[u64; 12]> = Sketch::new(PLACES, 10_000_000, 0);
    let mut sampler = Sampler::new(1);
    let mut note = |token: u64, at: u64| {
        let partition = Partition {
            table: 1,
            role: 1,
            token: token.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64,
        };
        let of = Use {
            work_us: 150,
            bytes: 100,
            ..Use::default()
        };
        sketch.note(black_box(partition), of, || [at; 12]);
    };
    // All places are taken.
    for at in 0..PLACES as u64 {
        note(at, at);
    }
    for at in 0..times as u64 {
        if sampler.takes() {
            note(token(at), at);
        }
    }
    black_box(sketch.len());
}
