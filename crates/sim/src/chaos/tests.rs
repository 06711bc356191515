use std::time::Instant;

use super::{Bounds, Broken, Covered, Violation, run, shortest};

/// Seeds that every test runs: 2,000 where `./test` does it on purpose, few beside all other tests, for what only debug
/// assertions see.
const SEEDS: u64 = if cfg!(debug_assertions) { 40 } else { 2_000 };

/// What has failed once.
const CORPUS: &str = include_str!("../../seeds.txt");

/// The seeds of the corpus, with which every test begins.
fn corpus() -> impl Iterator<Item = u64> {
    let lines = CORPUS.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let seed = line.split(' ').next().and_then(|seed| seed.parse().ok());
        seed.unwrap_or_else(|| panic!("seeds.txt: {line}"))
    })
}

/// The corpus, where tests are optimized, and half of the seeds from 0 on. The other half goes on there, or begins at another point each time:
/// `HELENUS_SEED_EXTRA`, which `./test` takes from the commit.
fn of_every_test(extra: Option<u64>) -> Vec<u64> {
    let half = SEEDS / 2;
    let extra = extra.unwrap_or(half);
    println!("seeds 0 to {half}, and {half} from HELENUS_SEED_EXTRA={extra} on");
    let corpus = corpus().filter(|_| !cfg!(debug_assertions));
    corpus.chain(0..half).chain(extra..extra + half).collect()
}

#[test]
fn nothing_that_must_hold_is_broken() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let only: Option<u64> = number("HELENUS_SEED");
    let seeds: Vec<u64> = match (only, number("HELENUS_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, Some(count)) => {
            let from = number("HELENUS_SEED_FROM").unwrap_or(0);
            (from..from + count).collect()
        }
        (None, None) => of_every_test(number("HELENUS_SEED_EXTRA")),
    };
    let count = seeds.len();
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

#[allow(clippy::disallowed_methods)]
fn begin() -> Instant {
    Instant::now()
}
