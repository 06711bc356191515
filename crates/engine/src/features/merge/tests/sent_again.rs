//! Lost batches, and their second sending.

use helenus_wire::{ErrorBody, Opcode, Version, code};

use crate::config::Config;
use crate::testing::bench::{Asking, BIGINT, Bench, VARCHAR};

const ID: &[u8] = &[3; 16];

fn bench() -> Bench {
    let mut config = Config::default();
    config.aggregation.merge_writes = vec!["app".to_owned()];
    Bench::with(config, (Version::V5, Version::V5))
}

/// The client writes two rows with the prepared statement at once: what the node gets.
fn write_two(bench: &mut Bench) -> Vec<(Opcode, i16)> {
    for customer in [1, 2] {
        let asking = Asking {
            values: &[&[customer; 8], b"v"],
            ..Asking::default()
        };
        let body = asking.execute(Version::V5, ID);
        bench.ask(Opcode::Execute, customer.into(), &body);
    }
    let at_node = bench.at_node().into_iter();
    at_node
        .map(|(opcode, stream, _)| (opcode, stream))
        .collect()
}

#[test]
fn writes_that_may_replace_lists_share_no_batch() {
    for (column, expected) in [
        ("status", vec![Opcode::Batch]),
        ("l", vec![Opcode::Execute; 2]),
    ] {
        let text = format!("INSERT INTO app.listed (customer, {column}) VALUES (?, ?)");
        let mut bench = bench();
        let markers = [("customer", BIGINT), (column, VARCHAR)];
        bench.prepare_of(("app", "listed"), &text, ID, &markers);
        let sent: Vec<Opcode> = write_two(&mut bench)
            .iter()
            .map(|(opcode, _)| *opcode)
            .collect();
        assert_eq!(sent, expected, "{text}");
    }
}

#[test]
fn merged_writes_without_a_clients_time_are_not_sent_again_once_they_have_left() {
    let mut bench = bench();
    let markers = [("customer", BIGINT), ("status", VARCHAR)];
    let text = "INSERT INTO app.listed (customer, status) VALUES (?, ?)";
    bench.prepare_of(("app", "listed"), text, ID, &markers);
    assert_eq!(write_two(&mut bench).len(), 1);
    bench.break_link();
    let codes = bench.answers().into_iter();
    let codes = codes.map(|(_, _, body)| ErrorBody::parse(&body).expect("an error").code);
    assert_eq!(codes.collect::<Vec<_>>(), [code::WRITE_TIMEOUT; 2]);
}
