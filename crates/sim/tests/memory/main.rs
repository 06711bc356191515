//! Memory as the allocator sees it: what engines hold between two calls is at most `limits.memory_max` and one constant,
//! over all workers, however large requests, answers and texts are, however many wait for one answer, and however
//! slowly anybody reads.
//!
//! Windows of 4 to 64 KiB, short writes, values up to 1 MiB. `HELENUS_SEED` runs one seed, `HELENUS_SEEDS` so many,
//! `HELENUS_SECONDS` so much virtual time of each; `HELENUS_LONG` lets the test of rounds, of `HELENUS_SEED` or seed 1,
//! last an hour.

mod client;
mod counting;
mod node;
mod run;
mod socket;
mod worker;

use std::time::Duration;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const MIB: usize = 1 << 20;
/// Bytes that may be held beside `limits.memory_max` when a call is over: caches (2 MiB), tables of the engines, blocks
/// that are kept for the next messages (128 KiB each), and messages that come though the memory is full (1 MiB of an
/// answer on a link, 64 KiB of a client's message). 15 MiB were seen in five runs of an hour.
const SLACK: usize = 20 * MIB;
/// As `SLACK`, in the middle of a call, in which messages of up to 2 MiB are copied and taken apart. 23 MiB were seen.
const SLACK_WITHIN: usize = 32 * MIB;
/// Of what is allocated for a message nothing may stay: far less than the smallest of those that count.
const LEAKED_MAX: usize = 4 << 10;

/// Of a minute of virtual time each, behind which all clients leave: an hour with `HELENUS_LONG`, which takes long.
const ROUNDS: usize = 60;
const ROUNDS_SOME: usize = 5;

/// Caches (2 MiB) and what engines are made of, whose tables keep the room of their busiest moment. 4.2 MiB were seen.
const LEFT_MAX: usize = 6 * MIB;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn after_an_hour_no_more_is_left_than_after_a_minute() {
    let is_long = std::env::var_os("HELENUS_LONG").is_some();
    run::run(0, Duration::from_secs(1), SLACK);
    let seed = number("HELENUS_SEED").unwrap_or(1);
    let rounds = if is_long { ROUNDS } else { ROUNDS_SOME };
    let (left, leaked) = run::run_in_rounds(seed, rounds, SLACK);
    println!("seed {seed}: when all have left, every minute: {left:?} bytes; {leaked} leaked");
    assert!(left.iter().all(|of| *of < LEFT_MAX), "{left:?} bytes");
    assert!(leaked < LEAKED_MAX, "{leaked} bytes");
}

#[test]
fn engines_hold_no_more_than_they_may() {
    let seeds: Vec<u64> = match (number("HELENUS_SEED"), number("HELENUS_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, Some(count)) => (0..count).collect(),
        // Half of them are other ones with each commit.
        (None, None) => {
            let extra = number("HELENUS_SEED_EXTRA").unwrap_or(2);
            vec![0, extra]
        }
    };
    let time = Duration::from_secs(number("HELENUS_SECONDS").unwrap_or(5));
    // Memory that is allocated once for all engines is no leak of the first.
    run::run(0, Duration::from_secs(1), SLACK);
    let mut near = 0;
    for seed in seeds {
        let found = run::run(seed, time, SLACK);
        let mib = |bytes: usize| bytes as f64 / MIB as f64;
        println!(
            "seed {seed}: of {} MiB, {:.1} MiB at most behind a call, {:.1} MiB within one, {:.1} MiB when all have left; \
             {} calls, {} near the bound; {} results, {} refused for memory, {} other errors; {} bytes leaked",
            found.memory_max / MIB,
            mib(found.most),
            mib(found.peak),
            mib(found.left),
            found.calls,
            found.calls_near,
            found.answers.results,
            found.answers.refused,
            found.answers.other_errors,
            found.leaked,
        );
        let within = found.memory_max + SLACK_WITHIN;
        assert!(
            found.peak <= within,
            "seed {seed}: {} within a call",
            found.peak
        );
        assert!(
            found.leaked < LEAKED_MAX,
            "seed {seed}: {} bytes",
            found.leaked
        );
        assert!(
            found.left < LEFT_MAX,
            "seed {seed}: {} bytes are left",
            found.left
        );
        near += u64::from(found.calls_near > 1_000 && found.answers.refused > 0);
    }
    // A bound that nothing comes near holds by itself.
    assert!(near > 0, "no seed has come near to its bound");
}
