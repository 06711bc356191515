use std::time::Instant;

use helenus_policy::schedule::Variant;

use super::*;

/// The benchmark's machine and nodes with less data, so that debug builds are done soon.
fn small() -> Setup {
    Setup {
        clients: 32,
        queries: 200,
        warmup: 100,
        tables: 2,
        rows: 4_000,
        scan_rows_max: 4_000,
        connections: 4,
        ..Setup::bench()
    }
}

#[allow(clippy::disallowed_methods)]
fn simulate(setup: &Setup, arm: &Arm) -> Measured {
    run(setup, arm, Instant::now())
}

fn default() -> Arm {
    Arm::variant(Variant::Default)
}

/// One seed is one history: what holds in it may be its own.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

type Statistic = fn(&Times) -> f64;

/// Means hide what a few wait for: the mean, and the time within which all but one in a hundred have been answered.
const STATISTICS: [(&str, Statistic); 2] = [
    ("mean", Times::mean_us),
    ("p99", |times| times.quantile_us(0.99) as f64),
];

/// How much larger each statistic of some times is than that of others.
fn ratios(of: &Times, to: &Times) -> [f64; 2] {
    STATISTICS.map(|(_, statistic)| statistic(of) / statistic(to))
}

/// Each ratio is less than its bound.
#[track_caller]
fn below(seed: u64, what: &str, ratios: [f64; 2], bounds: [f64; 2]) {
    for (((name, _), ratio), bound) in STATISTICS.into_iter().zip(ratios).zip(bounds) {
        println!("seed {seed}: {what}, {name}: {ratio:.3} of {bound}");
        assert!(ratio < bound, "seed {seed}: {what}, {name}: {ratio}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn the_same_seed_gives_the_same_result() {
    let setup = Setup {
        proxies: 2,
        queries: 100,
        warmup: 50,
        ..small()
    };
    for (name, arm) in Arm::all() {
        let [a, b] = [0, 1].map(|_| format!("{:?}", simulate(&setup, &arm)));
        assert_eq!(a, b, "{name}");
        let other = Setup { seed: 2, ..setup };
        assert_ne!(a, format!("{:?}", simulate(&other, &arm)), "{name}");
    }
}

/// `run` itself asserts that each query gets its own rows, here over several pages.
#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn pages_that_end_within_a_part_go_on_behind_it() {
    let seed = 5;
    let setup = Setup {
        seed,
        nodes: 5,
        clients: 8,
        queries: 60,
        warmup: 30,
        tables: 1,
        rows: 12_000,
        points_in_ten: 0,
        scan_rows_max: 12_000,
        ..small()
    };
    for variant in [Variant::P, Variant::PRaS, Variant::A] {
        let outcome = simulate(&setup, &Arm::variant(variant));
        assert_eq!(outcome.scans_failed, 0, "seed {seed}, {variant}");
    }
}

/// `run` itself asserts that each query is answered once, with its own rows.
#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn every_query_ends_once_in_every_arm() {
    for seed in 0..6 {
        let setup = Setup {
            seed,
            nodes: 1 + seed as u32 % 4,
            one_machine: seed % 2 == 0,
            flushed: seed % 3 == 0,
            proxies: 1 + seed as u32 % 3,
            workers: 1 + seed as u32 % 2,
            clients: 1 + 30 * (seed as u32 % 4),
            queries: 100,
            warmup: 30,
            points_in_ten: 2 * seed as u32 % 11,
            ..small()
        };
        for (_, arm) in Arm::all() {
            let outcome = simulate(&setup, &arm);
            let ended = outcome.points.count() + outcome.scans.count();
            let failed = outcome.points_failed + outcome.scans_failed;
            assert_eq!((ended, failed), (100, 0), "seed {seed}");
        }
    }
}

/// Queries that fail count with the client's time-out, also when no node ever says so.
#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn what_takes_too_long_fails() {
    let setup = Setup {
        time_out_us: 100_000,
        clients: 100,
        points_in_ten: 0,
        queries: 200,
        ..small()
    };
    for (name, arm) in [("direct", Arm::Direct), ("default", default())] {
        let outcome = simulate(&setup, &arm);
        assert!(outcome.scans_failed > 0, "{name}");
        assert_eq!(outcome.scans.quantile_us(1.0), 100_000, "{name}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn a_lone_client_loses_little() {
    for seed in SEEDS {
        let setup = Setup {
            seed,
            clients: 1,
            ..small()
        };
        let (direct, default) = (simulate(&setup, &Arm::Direct), simulate(&setup, &default()));
        // One hop more, which is a good part of a point read that nothing delays.
        let points = ratios(&default.points, &direct.points);
        below(seed, "points", points, [1.6, 1.6]);
        below(
            seed,
            "scans",
            ratios(&default.scans, &direct.scans),
            [1.05, 1.05],
        );
    }
}

/// Where nothing waits, what is predicted to take longer does take longer.
#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn work_is_predicted() {
    let setup = Setup {
        clients: 1,
        points_in_ten: 5,
        queries: 1_000,
        ..small()
    };
    let predicted = simulate(&setup, &default()).predicted.expect("a proxy");
    assert!(predicted.compared > 1_000 / 32, "{predicted:?}");
    assert!(predicted.rank_correlation > Some(0.7), "{predicted:?}");
    let bias = predicted.bias.expect("enough of them");
    assert!((0.5..2.0).contains(&bias), "{predicted:?}");
    let direct = simulate(&setup, &Arm::Direct).predicted;
    assert!(direct.is_none_or(|of| of.compared == 0), "{direct:?}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn points_do_not_wait_for_scans() {
    for seed in SEEDS {
        let setup = Setup {
            seed,
            clients: 200,
            queries: 400,
            ..small()
        };
        let direct = simulate(&setup, &Arm::Direct);
        let of = |arm: &Arm| ratios(&simulate(&setup, arm).points, &direct.points);
        below(seed, "default", of(&default()), [0.1, 0.1]);
        let [order, points_first] = [Variant::O, Variant::ReS].map(|v| of(&Arm::variant(v)));
        below(seed, "points first, than in order", points_first, order);
    }
}

/// Nor for scans that read all of a large table for nothing. These end later, because they are passed, but
/// none costs the nodes more.
#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn nothing_waits_for_filters_that_find_nothing() {
    for seed in SEEDS {
        let setup = Setup {
            seed,
            clients: 40,
            queries: 600,
            rows: 100_000,
            scan_rows_max: 500,
            points_in_ten: 5,
            filters_in_hundred: 10,
            ..small()
        };
        let [direct, default] = [Arm::Direct, default()].map(|arm| simulate(&setup, &arm));
        let of = |of: fn(&Measured) -> &Times| ratios(of(&default), of(&direct));
        assert!(default.filters.count() > 10, "seed {seed}: {default:?}");
        below(seed, "points", of(|of| &of.points), [0.1, 0.1]);
        below(seed, "scans", of(|of| &of.scans), [0.3, 0.5]);
        below(seed, "filters", of(|of| &of.filters), [1.5, 1.5]);
        let cost = default.nodes_us_per_query / direct.nodes_us_per_query;
        assert!(cost < 1.1, "seed {seed}: {cost}");
    }
}

/// Decisions by bytes come out alike.
#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn small_rows_in_memory_stand_for_large_ones() {
    for seed in SEEDS {
        let times = |shrink: u32| {
            let setup = Setup {
                seed,
                shrink,
                queries: 600,
                ..small()
            };
            simulate(&setup, &default())
        };
        let (small, large) = (times(16), times(1));
        // Points are few and their times differ much: three seeds of 2,000 queries differ by a tenth.
        let [point, _] = ratios(&small.points, &large.points);
        let [scan, scan_p99] = ratios(&small.scans, &large.scans);
        println!("seed {seed}: points {point}, scans {scan}, p99 {scan_p99}");
        assert!((0.8..1.25).contains(&point), "seed {seed}: {point}");
        assert!((0.95..1.05).contains(&scan), "seed {seed}: {scan}");
        // The third slowest of 300: a quarter more or less.
        assert!((0.75..1.33).contains(&scan_p99), "seed {seed}: {scan_p99}");
    }
}

/// A node of one core that serves 245 requests per second, and is offered 370 points and 25 writes.
fn overload() -> Setup {
    let costs = Calibration {
        coordinate_us: 4_000.0,
        ..Calibration::committed()
    };
    let offered = Offered {
        points_per_s: 370,
        writes_per_s: 25,
        for_us: 8_000_000,
    };
    Setup {
        nodes: 1,
        cores: 1,
        workers: 1,
        offered: Some(offered),
        clients: 2,
        warmup: 20,
        costs,
        ..Setup::overload()
    }
}

/// No more at the node than it serves while nobody notices.
fn little_at_node() -> Arm {
    let mut config = helenus_engine::config::Config::default();
    config.links.node_in_flight_max = 32;
    Arm::Proxied(Box::new(config))
}

#[test]
fn writes_are_answered_while_more_reads_come_than_the_node_serves() {
    for seed in 1..3 {
        let setup = Setup { seed, ..overload() };
        let outcome = simulate(&setup, &little_at_node());
        let (points, writes) = (outcome.points.count(), outcome.writes.count());
        let failed = (outcome.points_failed, outcome.writes_failed);
        println!("seed {seed}: {points} points, {writes} writes, failed {failed:?}");
        assert!(
            points > 2_000 && writes > 150,
            "seed {seed}: {points}, {writes}"
        );
        assert!(
            failed.0 as usize > points / 50,
            "seed {seed}: no overload, {failed:?}"
        );
        assert!(
            (failed.0 as usize) < points / 2,
            "seed {seed}: {failed:?} of {points}"
        );
        assert_eq!(failed.1, 0, "seed {seed}: of {writes} writes");
    }
}

/// Three proxies of eight workers, each of which has scans, before nodes that take 100 ms to answer although they have
/// little to do.
#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn scans_leave_each_of_many_workers_room_for_points() {
    let offered = Offered {
        points_per_s: 4_300,
        writes_per_s: 0,
        for_us: 4_000_000,
    };
    let setup = Setup {
        nodes: 3,
        vnodes: 16,
        cores: 8,
        proxies: 3,
        workers: 8,
        connections: 8,
        clients: 72,
        queries: 150,
        offered: Some(offered),
        warmup: 100,
        points_in_ten: 0,
        filters_in_hundred: 100,
        tables: 1,
        rows: 20_000,
        time_out_us: 60_000_000,
        hop_us: Some(50_000.0),
        bytes_per_us: 0,
        ..Setup::paper()
    };
    for seed in SEEDS {
        let setup = Setup { seed, ..setup };
        let outcome = simulate(&setup, &default());
        let (points, filters) = (outcome.points.count(), outcome.filters.count());
        let failed = outcome.points_failed;
        let p99_us = outcome.points.quantile_us(0.99);
        println!(
            "seed {seed}: {failed} of {points} points refused, p99 {p99_us} us, beside {filters} filters"
        );
        assert!(
            points > 10_000 && filters == 150,
            "seed {seed}: {outcome:?}"
        );
        assert_eq!(failed, 0, "seed {seed}: of {points}");
        // Twice what a node takes, in virtual time. With shares of the window and no floor it is 1.7 s.
        assert!(p99_us < 400_000, "seed {seed}: {p99_us}");
    }
}
