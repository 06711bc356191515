//! Each scenario in many orders of its steps. `HELENUS_SEED` replays a run of orders, `HELENUS_ORDERS` tries so many; one that
//! fails is printed by shuttle, too.

use helenus_interleavings::scenarios;
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner};

/// Of each of a scenario's threads: what is shared of a node is large.
const STACK_BYTES: usize = 1 << 20;

/// Tries orders by chance.
fn check(name: &str, scenario: fn()) {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let seed = number("HELENUS_SEED").or_else(|| number("HELENUS_SEED_EXTRA"));
    let seed: u64 = seed.unwrap_or(1);
    let orders: u64 = number("HELENUS_ORDERS").unwrap_or(1_000);
    println!("{name}: {orders} orders from HELENUS_SEED={seed}");
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    let scheduler = RandomScheduler::new_from_seed(seed, orders as usize);
    Runner::new(scheduler, config).run(scenario);
}

#[test]
fn logins_are_judged_in_turn() {
    check("logins", scenarios::logins);
}

#[test]
fn conditional_writes_have_their_turns() {
    check("turns", scenarios::turns);
}

#[test]
fn scans_are_counted() {
    check("scans", scenarios::scans);
}

#[test]
fn scan_permits_go_round() {
    check("permits", scenarios::permits);
}

#[test]
fn prepared_statements_are_the_newest_or_marked() {
    check("statements", scenarios::statements);
}

#[test]
fn memory_is_bounded_over_workers() {
    check("memory", scenarios::memory);
}
