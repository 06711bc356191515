use helenus_wire::{
    Compression, Decoder, Encoder, ErrorBody, Flow, Header, Opcode, Version, code, flags, write,
};

use crate::config::Config;
use crate::testing::bench::{Asking, Bench};
use crate::testing::{envelopes, request_of, request_with_flags, take};

const READ: &str = "SELECT total FROM app.others WHERE customer = 5";
const VOID: [u8; 4] = 1_i32.to_be_bytes();
const MAX: usize = 300_000;

fn bench(version: Version) -> Bench {
    let mut config = Config::default();
    config.limits.request_bytes_max = MAX;
    Bench::with(config, (version, version))
}

/// A node answers the only request that it has.
fn answer_one(bench: &mut Bench) {
    let (_, stream, _) = bench.one_at_node();
    bench.say(Opcode::Result, stream, &VOID);
}

#[test]
fn a_request_that_is_too_long_is_refused_and_the_others_are_answered() {
    for version in [Version::V4, Version::V5] {
        // Of those that fit in one frame, and those that do not.
        for len in [MAX + 1, 3 * MAX] {
            let mut bench = bench(version);
            let query = Asking::default().query(version, READ);
            bench.ask(Opcode::Query, 1, &query);
            let mode = (version, version == Version::V5);
            let mut bytes = request_of(mode, 2, Opcode::Query, &vec![b' '; len]);
            bytes.extend(request_of(mode, 3, Opcode::Query, &query));
            // It comes in pieces.
            for piece in bytes.chunks(100_000) {
                bench.engine.on_client_bytes(bench.now, bench.client, piece);
                assert!(bench.engine.bytes_held() < 2 * MAX);
            }
            let refused = bench.answers();
            let [(Opcode::Error, 2, body)] = &refused[..] else {
                panic!("{refused:?}");
            };
            let error = ErrorBody::parse(body).expect("an error");
            assert_eq!(error.code, code::INVALID, "{}", error.message);
            let asked = bench.at_node();
            for (_, stream, _) in &asked {
                bench.say(Opcode::Result, *stream, &VOID);
            }
            let streams = bench.answers().into_iter().map(|(_, stream, _)| stream);
            let streams: Vec<i16> = streams.collect();
            assert!(streams.contains(&1) && streams.contains(&3), "{streams:?}");
            bench.is_done();
        }
    }
}

#[test]
fn a_small_frame_may_have_a_request_that_is_too_long() {
    let mut config = Config::default();
    config.limits.request_bytes_max = 2_000;
    let mut bench = Bench::with(config, (Version::V5, Version::V5));
    bench.ask(Opcode::Query, 2, &[b' '; 3_000]);
    assert_eq!(bench.error().0, code::INVALID);
    bench.ask(
        Opcode::Query,
        3,
        &Asking::default().query(Version::V5, READ),
    );
    answer_one(&mut bench);
    assert_eq!(bench.answer().0, Opcode::Result);
    bench.is_done();
}

#[test]
fn a_compressed_request_that_is_too_long_is_refused_too() {
    let version = Version::V4;
    for (compression, name) in [(Compression::Lz4, "lz4"), (Compression::Snappy, "snappy")] {
        let mut bench = bench(version);
        let permit = bench.common.admit_client().expect("one client more");
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 6));
        let (now, engine) = (bench.now, &mut bench.engine);
        let client = engine.open_session(now, peer, now, permit);
        let mut startup = Vec::new();
        write::string_map(
            &mut startup,
            &[("CQL_VERSION", "3.0.0"), ("COMPRESSION", name)],
        );
        let startup = request_of((version, false), 0, Opcode::Startup, &startup);
        engine.on_client_bytes(now, client, &startup);
        engine.client_bytes(client).map(take);
        let mut encoder = Encoder::new();
        encoder.set_mode(false, compression);
        let header = Header {
            version: version as u8,
            response: false,
            flags: 0,
            stream: 7,
            opcode: Opcode::Query as u8,
            body_len: 0,
        };
        encoder.push_slice(header, &vec![b' '; 2 * MAX]);
        engine.on_client_bytes(now, client, &encoder.take_pending());
        let (bytes, _) = take(engine.client_bytes(client).expect("it is there"));
        let mut decoder = Decoder::new(MAX);
        decoder.set_mode(false, compression);
        let mut codes = Vec::new();
        let fed = decoder.feed(&bytes, &mut Vec::new(), |header, body| {
            let error = ErrorBody::parse(body).expect("an error");
            codes.push((header.stream, error.code));
            Flow::Continue
        });
        assert_eq!((fed, codes), (Ok(bytes.len()), vec![(7, code::INVALID)]));
    }
}

/// As a node does.
#[test]
fn a_flag_of_compression_that_was_not_agreed_on_means_nothing() {
    for version in [Version::V3, Version::V4, Version::V5] {
        let mut bench = bench(version);
        let query = Asking::default().query(version, READ);
        let mode = (version, version == Version::V5);
        let bytes = request_with_flags(flags::COMPRESSED, mode, 1, Opcode::Query, &query);
        bench
            .engine
            .on_client_bytes(bench.now, bench.client, &bytes);
        answer_one(&mut bench);
        assert_eq!(bench.answer().0, Opcode::Result);
        bench.is_done();
    }
}

#[test]
fn who_wants_another_version_of_cql_is_told_that_there_is_none() {
    for wanted in ["2.0.0", "abc", ""] {
        let mut bench = bench(Version::V4);
        let permit = bench.common.admit_client().expect("one client more");
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 6));
        let (now, engine) = (bench.now, &mut bench.engine);
        let client = engine.open_session(now, peer, now, permit);
        let mut startup = Vec::new();
        write::string_map(&mut startup, &[("CQL_VERSION", wanted)]);
        let startup = request_of((Version::V4, false), 5, Opcode::Startup, &startup);
        engine.on_client_bytes(now, client, &startup);
        let (bytes, _) = take(engine.client_bytes(client).expect("it is there"));
        let answers = envelopes(false, &bytes);
        let [(Opcode::Error, 5, body)] = &answers[..] else {
            panic!("{answers:?}");
        };
        assert_eq!(
            ErrorBody::parse(body).expect("an error").code,
            code::PROTOCOL
        );
    }
}
