//! Answers that are longer than a link or the memory takes.

use helenus_wire::{HEADER_LEN, Header, MAX_RESPONSE_BODY, Opcode, Version, code, flags};

use crate::config::Config;
use crate::testing::bench::{Asking, BIGINT, Bench, no_rows};
use crate::testing::bytes_with_flags;

const V4: Version = Version::V4;
const READ: &str = "SELECT total FROM app.orders WHERE customer = 1 AND day = 2 AND status = 'x'";
const WRITE: &str = "INSERT INTO app.orders (customer, day, status, total) VALUES (1, 2, 'x', 3)";
const MIB: usize = 1 << 20;

fn bench(memory_max: usize) -> Bench {
    let mut config = Config::default();
    config.limits.memory_max = Some(memory_max);
    config.assignment.hedging = false;
    let bench = Bench::with(config, (V4, V4));
    bench.adopt_none();
    bench
}

fn ask(bench: &mut Bench, stream: i16, text: &str) -> i16 {
    let query = Asking::default().query(V4, text);
    bench.ask(Opcode::Query, stream, &query);
    let (_, stream, _) = bench.one_at_node();
    stream
}

/// The header of a node's answer.
fn begin_answer(bench: &mut Bench, stream: i16, body_len: usize) {
    let header = Header {
        version: V4 as u8,
        response: true,
        flags: 0,
        stream,
        opcode: Opcode::Result as u8,
        body_len: body_len as u32,
    };
    let mut bytes = Vec::with_capacity(HEADER_LEN);
    header.write(&mut bytes);
    bench.say_bytes(&bytes);
}

fn say_zeros(bench: &mut Bench, mut bytes: usize) {
    let zeros = vec![0; MIB];
    while bytes > 0 {
        let part = bytes.min(MIB);
        bench.say_bytes(&zeros[..part]);
        bytes -= part;
    }
}

#[test]
fn an_answer_that_is_too_long_fails_its_request_and_no_other_of_its_link() {
    let mut bench = bench(1 << 30);
    let long = ask(&mut bench, 1, READ);
    let write = ask(&mut bench, 2, WRITE);
    begin_answer(&mut bench, long, MAX_RESPONSE_BODY + 1);
    let (code, text) = bench.error();
    assert_eq!(code, code::INVALID);
    assert!(text.contains("268435457 bytes"), "{text}");
    say_zeros(&mut bench, MAX_RESPONSE_BODY + 1);
    bench.say(Opcode::Result, write, &1_i32.to_be_bytes());
    assert_eq!(bench.answers(), [(Opcode::Result, 2, vec![0, 0, 0, 1])]);
    bench.is_done();
}

#[test]
fn a_write_whose_answer_is_too_long_may_have_taken_effect() {
    let mut bench = bench(1 << 30);
    let stream = ask(&mut bench, 1, WRITE);
    begin_answer(&mut bench, stream, MAX_RESPONSE_BODY + 1);
    assert_eq!(bench.error().0, code::WRITE_TIMEOUT);
}

#[test]
fn an_answer_for_which_there_is_no_memory_is_not_waited_for() {
    let mut bench = bench(16 * MIB);
    let long = ask(&mut bench, 1, READ);
    let write = ask(&mut bench, 2, WRITE);
    begin_answer(&mut bench, long, 100 * MIB);
    let mut held_max = 0;
    for _ in 0..100 {
        say_zeros(&mut bench, MIB);
        held_max = held_max.max(bench.engine.bytes_held());
    }
    assert!(held_max <= 33 * MIB, "{held_max}");
    let (code, text) = bench.error();
    assert_eq!(code, code::OVERLOADED);
    assert!(text.contains("limits.memory_max"), "{text}");
    bench.say(Opcode::Result, write, &1_i32.to_be_bytes());
    assert_eq!(bench.answers(), [(Opcode::Result, 2, vec![0, 0, 0, 1])]);
    let again = ask(&mut bench, 3, READ);
    let none = no_rows("orders", &[("total", BIGINT)]);
    bench.say(Opcode::Result, again, &none);
    assert_eq!(bench.answer().0, Opcode::Result);
    bench.is_done();
}

#[test]
fn a_compressed_answer_that_was_not_agreed_on_ends_its_link() {
    for version in [V4, Version::V5] {
        for flags in [flags::COMPRESSED, 0] {
            let bench = &mut Bench::with(Config::default(), (V4, version));
            bench.adopt_none();
            let stream = ask(bench, 1, READ);
            let rows = no_rows("orders", &[("total", BIGINT)]);
            let mode = (version, version == Version::V5);
            let bytes = bytes_with_flags(flags, mode, stream, Opcode::Result, &rows);
            bench.say_bytes(&bytes);
            let is_open = bench.engine.is_link_open(bench.links[0]);
            assert_eq!(is_open, flags == 0, "{version:?}");
            let has_answer = bench.answers().iter().any(|of| of.0 == Opcode::Result);
            assert_eq!(has_answer, flags == 0, "{version:?}");
        }
    }
}
