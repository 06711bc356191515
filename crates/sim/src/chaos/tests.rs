use std::time::Instant;

use super::{Bounds, Broken, Covered, Violation, run, shortest};

/// Seeds that every test runs: 2,000 where `./test` does it on purpose, few beside all other tests.
const SEEDS: u64 = if cfg!(debug_assertions) { 50 } else { 2_000 };

#[test]
fn nothing_that_must_hold_is_broken() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let only = number("HELENUS_SEED");
    let count = number("HELENUS_SEEDS").unwrap_or(SEEDS);
    let seeds = only.map_or(0..count, |seed: u64| seed..seed + 1);
    let mut covered = Covered::default();
    for seed in seeds {
        let (result, log) = run(seed, begin(), only.is_some());
        match result {
            Ok(of_run) => covered.add(of_run),
            Err(violation) if only.is_some() => panic!("{log}\n{violation}"),
            Err(violation) => report(seed, violation),
        }
    }
    if only.is_none() && count >= 2_000 {
        let missing = covered.missing();
        let tables = covered.tables();
        let counts = covered.counts.iter();
        let counts = counts.map(|(what, times)| format!("{times:>10} {what}\n"));
        println!("{}\n{tables}", counts.collect::<String>());
        assert!(missing.is_empty(), "never: {missing:#?}");
    }
}

/// Tells what is broken, and the shortest history that breaks in the same way.
fn report(seed: u64, violation: Violation) -> ! {
    println!("{violation}\nreplay with HELENUS_SEED={seed}\n");
    let bounds = Bounds::default();
    let broken = Broken {
        seed,
        bounds,
        violation,
    };
    let least = shortest(broken, begin());
    let (log, command) = (least.log(begin()), least.command());
    panic!("{log}\n{}\nrepeat this with: {command}", least.violation);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let (first, second) = (run(7, begin(), true), run(7, begin(), true));
    assert_eq!(first.1, second.1);
    assert!(first.1.lines().count() > 100, "{}", first.1);
}

#[allow(clippy::disallowed_methods)]
fn begin() -> Instant {
    Instant::now()
}
