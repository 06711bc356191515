use super::*;
use crate::queueing::Outcome;

fn run(setup: &Setup, policy: Policy) -> Outcome {
    crate::queueing::run(&Setup {
        policy,
        ..setup.clone()
    })
}

/// A smaller cluster, the same load.
fn small(cell: Cell, seed: u64) -> Setup {
    Setup {
        nodes: 40,
        proxies: 5,
        keys: 100_000,
        demand: Demand::Utilisation(0.1),
        extent: for_us(6_000_000),
        ..setup(cell, seed)
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn the_same_seed_gives_the_same_result() {
    let setup = Setup {
        extent: for_us(500_000),
        ..small(Cell::Idle, 5)
    };
    let [a, b] = [0; 2].map(|_| run(&setup, Policy::EarliestFinish));
    assert_eq!(a.times.mean_us(), b.times.mean_us());
    assert_eq!(a.present_max, b.present_max);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn with_half_of_the_nodes_slow_earliest_finish_is_far_ahead() {
    for seed in 0..2 {
        let setup = small(Cell::HalfSlow, seed);
        let p99 = |policy| run(&setup, policy).times.quantile_us(0.99);
        let (own, drivers) = (p99(Policy::EarliestFinish), p99(Policy::TokenAware));
        assert!(2 * own <= drivers, "seed {seed}: {own} and {drivers}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn on_an_idle_cluster_nobody_is_better_and_nothing_herds() {
    for seed in 0..2 {
        let setup = small(Cell::Idle, seed);
        let own = run(&setup, Policy::EarliestFinish);
        let means = Policy::ALL.map(|policy| run(&setup, policy).times.mean_us());
        let best = means.into_iter().fold(f64::INFINITY, f64::min);
        let mean = own.times.mean_us();
        assert!(mean <= 1.01 * best, "seed {seed}: {mean} and {best}");
        let drivers = run(&setup, Policy::TokenAware).present_max;
        let queue = own.present_max;
        assert!(
            queue <= 2 * drivers,
            "seed {seed}: {queue} and {drivers} at one node"
        );
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn a_frozen_node_costs_few_requests() {
    let setup = small(Cell::Frozen, 1);
    let lost = |policy| run(&setup, policy).timed_out;
    let (own, drivers) = (lost(Policy::EarliestFinish), lost(Policy::TokenAware));
    assert!(own * 20 <= drivers, "{own} and {drivers}");
}

/// One slow node in five calls itself idle: whoever believes it sends it everything.
#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn a_node_that_lies_is_not_followed() {
    for seed in 0..2 {
        let setup = small(Cell::ReportsFalse, seed);
        let p99 = |policy| run(&setup, policy).times.quantile_us(0.99);
        let (believing, drivers) = (p99(Policy::ResourceV1), p99(Policy::TokenAware));
        println!("seed {seed}: {believing} and {drivers}");
        assert!(
            believing <= drivers,
            "seed {seed}: {believing} and {drivers}"
        );
    }
}

/// Three nodes that own everything, and a key that gets so much.
fn three(proxies: usize, hot_share: f64, spreads_hot: bool, seed: u64) -> Setup {
    Setup {
        nodes: 3,
        proxies,
        demand: Demand::Utilisation(0.6),
        hot_share,
        spreads_hot,
        keys: 10_000,
        zipf: 0.0,
        ..setup(Cell::HotKey, seed)
    }
}

/// Bound to the replica that has it in its caches, a hot key leaves it only while a queue shows there.
#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn a_hot_key_that_is_spread_costs_nobody_anything() {
    for seed in 0..3 {
        for proxies in [1, 4] {
            let run = |hot_share, spreads| {
                let setup = three(proxies, hot_share, spreads, seed);
                run(&setup, Policy::EarliestFinish)
            };
            let (even, bound, spread) = (run(0.0, true), run(0.8, false), run(0.8, true));
            println!("{proxies} proxies, seed {seed}");
            for (name, of) in [("even", &even), ("bound", &bound), ("spread", &spread)] {
                let [p99, others] = [of.times.quantile_us(0.99), of.others.quantile_us(0.99)];
                let (mean, at) = (of.times.mean_us(), &of.hot_at);
                println!("  {name:6} mean {mean:.0} p99 {p99} others {others} at {at:?}");
            }
            let most = |of: &Outcome| of.hot_at.iter().max().copied().unwrap_or(0);
            let least = |of: &Outcome| of.hot_at.iter().min().copied().unwrap_or(0);
            assert!(most(&bound) > 3 * least(&bound) / 2, "it is bound without");
            assert!(10 * most(&spread) < 12 * least(&spread), "seed {seed}");
            assert!(
                spread.times.mean_us() < 0.98 * bound.times.mean_us(),
                "seed {seed}"
            );
            assert!(
                spread.times.mean_us() < 1.03 * even.times.mean_us(),
                "seed {seed}"
            );
            let p99 = |of: &Outcome| of.others.quantile_us(0.99) as f64;
            assert!(p99(&spread) < 1.1 * p99(&even), "seed {seed}");
        }
    }
}
