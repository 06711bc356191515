//! Requests that reach no node.

use helenus_wire::{Opcode, PageStart, Version, code};

use crate::config::Config;
use crate::testing::bench::{Asking, BIGINT, Bench, no_rows};

const V5: Version = Version::V5;
const MIB: usize = 1 << 20;

fn bench(memory_max: usize) -> Bench {
    let mut config = Config::default();
    config.limits.memory_max = Some(memory_max);
    Bench::with(config, (V5, V5))
}

/// A statement of a little more than twice so many tokens.
fn selection(columns: usize) -> String {
    format!("SELECT {} FROM app.others", vec!["x"; columns].join(","))
}

fn query(text: &str) -> Vec<u8> {
    Asking::default().query(V5, text)
}

#[test]
fn a_text_with_too_many_tokens_is_refused_whatever_asks_for_it() {
    let mut bench = bench(1 << 30);
    let long = selection(200_000);
    let batch = crate::testing::batch_of(V5, 1, &[Ok(&selection(90_000)), Ok(&selection(90_000))]);
    let mut prepare = Vec::new();
    helenus_wire::write::long_string(&mut prepare, &long);
    helenus_wire::write::u32(&mut prepare, 0);
    for (opcode, body) in [
        (Opcode::Query, query(&long)),
        (Opcode::Prepare, prepare),
        (Opcode::Batch, batch),
    ] {
        bench.ask(opcode, 1, &body);
        let (code, text) = bench.error();
        assert_eq!(code, code::INVALID, "{text}");
        assert!(text.contains("262144 tokens"), "{text}");
    }
    bench.is_done();
}

#[test]
fn a_long_text_of_few_tokens_is_sent() {
    let mut bench = bench(1 << 30);
    let document = "x".repeat(MIB);
    let text = format!("INSERT INTO app.others (customer, x) VALUES (1, '{document}')");
    bench.ask(Opcode::Query, 1, &query(&text));
    assert_eq!(bench.one_at_node().0, Opcode::Query);
}

#[test]
fn what_was_read_of_a_text_counts_until_its_request_is_answered() {
    let mut bench = bench(64 * MIB);
    for stream in 1..=100 {
        // Each is another text.
        let text = format!("{} WHERE customer = {stream}", selection(50_000));
        bench.ask(Opcode::Query, stream, &query(&text));
    }
    let held = bench.engine.bytes_held();
    assert!((32 * MIB..64 * MIB).contains(&held), "{held}");
    let refused = bench.answers();
    assert!(refused.len() > 50, "{}", refused.len());
    for (opcode, _, body) in refused {
        assert_eq!(opcode, Opcode::Error);
        assert_eq!(body[..4], code::OVERLOADED.to_be_bytes());
    }
    for (_, stream, _) in bench.at_node() {
        bench.say(Opcode::Result, stream, &no_rows("others", &[("x", BIGINT)]));
    }
    bench.answers();
    bench.is_done();
}

#[test]
fn a_paging_state_that_is_none_reaches_no_node() {
    let mut bench = bench(1 << 30);
    bench.prepare("SELECT x FROM app.orders", b"id", &[], &[("x", BIGINT)]);
    let truncated = PageStart::behind_partition(&[7; 8], 100).write();
    let of_layout = [&[0xff, 1, 0, 0, 0, 0, 0, 0, 0, 7][..], &truncated].concat();
    for forged in [
        &b"forged"[..],
        b"",
        &[0xff; 12],
        &truncated[..9],
        &of_layout,
    ] {
        let asking = Asking {
            state: Some(forged),
            page_size: Some(10),
            ..Asking::default()
        };
        for (opcode, body) in [
            (Opcode::Query, asking.query(V5, "SELECT x FROM app.others")),
            (Opcode::Execute, asking.execute(V5, b"id")),
            // Only nodes know it.
            (Opcode::Execute, asking.execute(V5, b"unknown")),
        ] {
            bench.ask(opcode, 3, &body);
            let (code, text) = bench.error();
            assert_eq!(
                (code, &*text),
                (code::PROTOCOL, "Invalid value for the paging state")
            );
        }
    }
    bench.is_done();
    let asking = Asking {
        state: Some(&truncated),
        page_size: Some(10),
        ..Asking::default()
    };
    bench.ask(
        Opcode::Query,
        4,
        &asking.query(V5, "SELECT x FROM app.others"),
    );
    assert_eq!(bench.one_at_node().0, Opcode::Query);
}
