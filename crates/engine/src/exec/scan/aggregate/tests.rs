use std::time::Duration;

use helenus_wire::{Opcode, Version, code};

use crate::config::Config;
use crate::testing::bench::{Asking, BIGINT, Bench, TABLE, rows};

const COUNT: &str = "SELECT count(*) FROM app.orders";

fn bench() -> Bench {
    let mut config = Config::default();
    config.links.silence_ms = 600_000;
    Bench::with(config, (Version::V5, Version::V5))
}

/// Reads that the node is asked for until a count of nothing is answered, each of them after this time. It
/// prepares nothing.
fn reads(bench: &mut Bench, takes: Duration) -> usize {
    let body = Asking::default().query(Version::V5, COUNT);
    bench.ask(Opcode::Query, 1, &body);
    let counted = rows(TABLE, &[("count", BIGINT)], None, &[&0_i64.to_be_bytes()]);
    let mut reads = 0;
    loop {
        let asked = bench.at_node();
        if asked.is_empty() {
            break;
        }
        bench.wait(takes);
        for (opcode, stream, _) in asked {
            match opcode {
                Opcode::Query => {
                    reads += 1;
                    bench.say(Opcode::Result, stream, &counted);
                }
                _ => bench.say_error(stream, code::INVALID, "not prepared", &[]),
            }
        }
    }
    // Behind the warning that nodes give, too.
    let (opcode, body) = bench.answer();
    assert!(opcode == Opcode::Result && body.ends_with(&counted));
    bench.is_done();
    reads
}

#[test]
fn the_first_count_of_an_empty_table_takes_two_reads_and_later_ones_one() {
    let mut bench = bench();
    assert_eq!([0; 3].map(|_| reads(&mut bench, Duration::ZERO)), [2, 1, 1]);
}

/// It is taken to have gone over more rows than it has counted.
#[test]
fn a_count_that_takes_long_is_read_in_parts() {
    let mut bench = bench();
    assert!(reads(&mut bench, Duration::from_secs(1)) > 2);
}
