//! Rules before a whole engine: what gets past them, and what must not.

mod forbidden;
mod limited;

use helenus_wire::{Opcode, Version, write};

use crate::config::{Config, Names, RuleSettings};
use crate::testing::bench::{BIGINT, Bench, Spec, no_rows};

const MARKERS: [Spec; 1] = [("customer", BIGINT)];
const COLUMNS: [Spec; 1] = [("total", BIGINT)];
const VOID: [u8; 4] = 1_i32.to_be_bytes();
const ONE: u16 = 1;
const LOCAL_QUORUM: u16 = 6;
const SERIAL: u16 = 8;

fn bench_of(rules: impl IntoIterator<Item = RuleSettings>) -> Bench {
    bench_of_version(Version::V5, rules)
}

fn bench_of_version(version: Version, rules: impl IntoIterator<Item = RuleSettings>) -> Bench {
    let mut config = Config {
        rules: rules.into_iter().collect(),
        ..Config::default()
    };
    config.aggregation.lwt_turns = true;
    assert_eq!(crate::config::rules::problems(&config.rules), [""; 0]);
    let bench = Bench::with(config, (version, version));
    bench.adopt_none();
    let mut bench = bench;
    bench.wait(std::time::Duration::from_millis(100));
    bench
}

fn rule(name: &str) -> RuleSettings {
    RuleSettings {
        name: name.to_owned(),
        ..RuleSettings::default()
    }
}

/// A QUERY at a level, with a keyspace of its own if one is given, which only v5 can say.
fn query_in(version: Version, keyspace: Option<&str>, text: &str, level: u16) -> Vec<u8> {
    let mut body = Vec::new();
    write::long_string(&mut body, text);
    write::u16(&mut body, level);
    let flags = keyspace.map_or(0, |_| 0x80);
    match version {
        Version::V5 => write::u32(&mut body, flags),
        _ => body.push(flags as u8),
    }
    if let Some(keyspace) = keyspace {
        write::string(&mut body, keyspace);
    }
    body
}

fn query(text: &str, level: u16) -> Vec<u8> {
    query_in(Version::V5, None, text, level)
}

/// An unlogged BATCH of texts and ids.
fn batch(children: &[Result<&str, &[u8]>]) -> Vec<u8> {
    crate::testing::batch_of(Version::V5, 1, children)
}

/// An EXECUTE without values.
fn execute(id: &[u8]) -> Vec<u8> {
    let asking = crate::testing::bench::Asking::default();
    asking.execute(Version::V5, id)
}

/// The error for a request that reaches no node.
fn refused(bench: &mut Bench, opcode: Opcode, body: &[u8]) -> (i32, String) {
    bench.ask(opcode, 9, body);
    assert_eq!(bench.at_node(), [], "{}", String::from_utf8_lossy(body));
    bench.error()
}

fn refused_text(bench: &mut Bench, text: &str) -> (i32, String) {
    refused(bench, Opcode::Query, &query(text, LOCAL_QUORUM))
}

/// A request reaches the node, which answers it.
fn passes(bench: &mut Bench, opcode: Opcode, body: &[u8]) -> Vec<u8> {
    bench.ask(opcode, 9, body);
    let (_, stream, sent) = bench.one_at_node();
    let answer = match sent.windows(6).any(|at| at.eq_ignore_ascii_case(b"select")) {
        true => no_rows("others", &COLUMNS),
        false => VOID.to_vec(),
    };
    bench.say(Opcode::Result, stream, &answer);
    assert_eq!(bench.answer().0, Opcode::Result);
    sent
}

fn passes_text(bench: &mut Bench, text: &str) -> Vec<u8> {
    passes(bench, Opcode::Query, &query(text, LOCAL_QUORUM))
}
