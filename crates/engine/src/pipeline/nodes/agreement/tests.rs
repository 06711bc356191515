use helenus_wire::{Opcode, Reader, Version, flags, write};

use crate::output::{Agreement, HeldAnswer, Output};
use crate::testing::bench::{Asking, Bench};

const CREATE: &str = "CREATE TABLE app.t (k int PRIMARY KEY)";

fn created() -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 5);
    for text in ["CREATED", "TABLE", "app", "t"] {
        write::string(&mut body, text);
    }
    body
}

/// A client makes a table, and a node has answered: the answer waits.
fn hold(bench: &mut Bench, warnings: &[&str]) -> HeldAnswer {
    let version = bench.versions.0;
    bench.ask(Opcode::Query, 3, &Asking::default().query(version, CREATE));
    let (_, stream, _) = bench.one_at_node();
    match warnings {
        [] => bench.say(Opcode::Result, stream, &created()),
        warnings => bench.say_warned(stream, warnings, &created()),
    }
    assert_eq!(bench.answers(), []);
    let mut outputs = std::iter::from_fn(|| bench.engine.poll_output());
    let held = outputs.find_map(|output| match output {
        Output::Agree(held) => Some(held),
        _ => None,
    });
    held.expect("a wait")
}

fn missed(nodes: &[u8]) -> Agreement {
    let nodes = nodes.iter();
    Agreement::Missed(nodes.map(|node| ([10, 0, 0, *node], 9042).into()).collect())
}

/// The warnings of the client's answer, which is that of the node otherwise.
fn warnings(bench: &mut Bench) -> Vec<String> {
    let (opcode, body) = bench.answer();
    assert_eq!(opcode, Opcode::Result);
    let mut reader = Reader::new(&body);
    let warnings = reader.string_list().expect("warnings");
    assert_eq!(reader.rest(), created());
    warnings.into_iter().map(str::to_owned).collect()
}

#[test]
fn a_client_hears_which_nodes_lack_its_change() {
    for version in [Version::V4, Version::V5] {
        for (nodes, expected) in [
            (&[2][..], "10.0.0.2:9042 lacks it, or does not say."),
            (
                &[2, 3],
                "10.0.0.2:9042, 10.0.0.3:9042 lack it, or do not say.",
            ),
            (&[], "some may lack it."),
        ] {
            let mut bench = Bench::new(version, Version::V5);
            let held = hold(&mut bench, &["of the node"]);
            bench.engine.on_agreed(bench.now, &held, &missed(nodes));
            let warnings = warnings(&mut bench);
            assert_eq!(warnings[0], "of the node");
            assert!(warnings[1].starts_with("Helenus:"), "{warnings:?}");
            assert!(warnings[1].contains(expected), "{warnings:?}");
            assert_eq!(warnings.len(), 2);
            bench.is_done();
        }
    }
}

#[test]
fn what_a_node_has_said_is_kept() {
    let mut bench = Bench::new(Version::V5, Version::V5);
    let mut held = hold(&mut bench, &[]);
    let (traced, id) = (flags::TRACING, [7; 16]);
    held.header_flags |= traced;
    held.body = [&id[..], &created()].concat();
    let (header_flags, body) = super::warned(&held, &missed(&[1])).expect("a warning");
    assert_eq!(header_flags, traced | flags::WARNING);
    let mut reader = Reader::new(&body);
    assert_eq!(reader.uuid(), Ok(id));
    assert_eq!(reader.string_list().map(|warnings| warnings.len()), Ok(1));
    assert_eq!(reader.rest(), created());
}

#[test]
fn who_agrees_or_speaks_v3_gets_the_answer_of_the_node() {
    let mut bench = Bench::new(Version::V5, Version::V5);
    let held = hold(&mut bench, &[]);
    bench
        .engine
        .on_agreed(bench.now, &held, &Agreement::Reached);
    assert_eq!(bench.answer(), (Opcode::Result, created()));
    let mut bench = Bench::new(Version::V3, Version::V5);
    let held = hold(&mut bench, &[]);
    bench.engine.on_agreed(bench.now, &held, &missed(&[1]));
    assert_eq!(bench.answer(), (Opcode::Result, created()));
}
