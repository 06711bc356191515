use super::*;

/// A smaller cluster, the same load.
fn small(cell: Cell, seed: u64) -> Setup {
    Setup {
        nodes: 40,
        proxies: 5,
        keys: 100_000,
        utilisation: 0.1,
        length_us: 6_000_000,
        ..Setup::new(cell, seed)
    }
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let setup = Setup {
        length_us: 500_000,
        ..small(Cell::Idle, 5)
    };
    let [a, b] = [0; 2].map(|_| run(&setup, Policy::EarliestFinish));
    assert_eq!(a.mean_us(), b.mean_us());
    assert_eq!(a.queue_max, b.queue_max);
}

#[test]
fn with_half_of_the_nodes_slow_earliest_finish_is_far_ahead() {
    for seed in 0..2 {
        let setup = small(Cell::HalfSlow, seed);
        let p99 = |policy| run(&setup, policy).quantile_us(0.99);
        let (own, drivers) = (p99(Policy::EarliestFinish), p99(Policy::TokenAware));
        assert!(2 * own <= drivers, "seed {seed}: {own} and {drivers}");
    }
}

#[test]
fn on_an_idle_cluster_nobody_is_better_and_nothing_herds() {
    for seed in 0..2 {
        let setup = small(Cell::Idle, seed);
        let own = run(&setup, Policy::EarliestFinish);
        let means = Policy::ALL.map(|policy| run(&setup, policy).mean_us());
        let best = means.into_iter().fold(f64::INFINITY, f64::min);
        let mean = own.mean_us();
        assert!(mean <= 1.01 * best, "seed {seed}: {mean} and {best}");
        let drivers = run(&setup, Policy::TokenAware).queue_max;
        let queue = own.queue_max;
        assert!(
            queue <= 2 * drivers,
            "seed {seed}: {queue} and {drivers} at one node"
        );
    }
}

#[test]
fn a_frozen_node_costs_few_requests() {
    let setup = small(Cell::Frozen, 1);
    let lost = |policy| run(&setup, policy).timed_out;
    let (own, drivers) = (lost(Policy::EarliestFinish), lost(Policy::TokenAware));
    assert!(own * 20 <= drivers, "{own} and {drivers}");
}

/// One slow node in five calls itself idle: whoever believes it sends it everything.
#[test]
fn a_node_that_lies_is_not_followed() {
    for seed in 0..2 {
        let setup = small(Cell::ReportsFalse, seed);
        let p99 = |policy| run(&setup, policy).quantile_us(0.99);
        let (believing, drivers) = (p99(Policy::ResourceV1), p99(Policy::TokenAware));
        println!("seed {seed}: {believing} and {drivers}");
        assert!(
            believing <= drivers,
            "seed {seed}: {believing} and {drivers}"
        );
    }
}

/// Three nodes that own everything.
fn three(proxies: usize, utilisation: f64, seed: u64) -> Setup {
    Setup {
        nodes: 3,
        proxies,
        utilisation,
        keys: 10_000,
        zipf: 0.0,
        length_us: 10_000_000,
        ..Setup::new(Cell::HotKey, seed)
    }
}

#[test]
fn explore() {
    for proxies in [1, 4, 20] {
        for utilisation in [0.1, 0.3, 0.6, 0.8, 0.9] {
            for (name, hot, spreads) in [
                ("none", 0.0, true),
                ("bound", 0.8, false),
                ("spread", 0.8, true),
            ] {
                let setup = Setup {
                    hot_share: hot,
                    spreads_hot: spreads,
                    ..three(proxies, utilisation, 1)
                };
                let of = run(&setup, Policy::EarliestFinish);
                println!(
                    "{proxies:3} {utilisation} {name:7} mean {:6.0} p99 {:6} others p99 {:6} queue {:4} at {:?}",
                    of.mean_us(),
                    of.quantile_us(0.99),
                    of.others_quantile_us(0.99),
                    of.queue_max,
                    of.hot_at
                );
            }
        }
    }
}
