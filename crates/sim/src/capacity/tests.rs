use super::sweep::{Errors, knee, loads, rates, repeat, with_clients};
use super::*;
use crate::queueing::{Outcome, Point, run};

/// As a ramp would measure a node that follows Gunther's law, with log-normal latencies.
fn law(sigma: f64, kappa: f64, spread: f64) -> Curve {
    let points: Vec<Point> = [1, 2, 4, 8, 16, 32, 64, 128]
        .map(|clients| {
            let n = f64::from(clients);
            let ops = 400.0 * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
            let mean_us = n / ops * 1e6;
            let p50 = mean_us * (-spread * spread / 2.0).exp();
            Point {
                clients: n,
                ops_per_second: ops,
                latency_us_p50: p50,
                latency_us_p99: p50 * (2.326 * spread).exp(),
                weight: 1.0,
            }
        })
        .to_vec();
    Curve::of_endpoint(&points, 1).unwrap()
}

fn small(curve: Curve, demand: Demand) -> Setup {
    Setup {
        nodes: 12,
        proxies: 4,
        keys: 10_000,
        extent: Extent::Requests(30_000),
        ..setup(curve, demand)
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn one_node_repeats_the_curve_it_was_made_from() {
    for (seed, sigma, kappa, spread) in [(1, 0.05, 0.0, 0.3), (2, 0.1, 0.001, 0.6)] {
        let curve = law(sigma, kappa, spread);
        let repeated = repeat(&curve, seed);
        assert_eq!(repeated.len(), 8);
        let errors = Errors::of(&repeated);
        assert!(errors.ops_per_second < 0.02, "seed {seed}: {errors:?}");
        assert!(errors.latency_us_p50 < 0.05, "seed {seed}: {errors:?}");
        assert!(errors.latency_us_p99 < 0.10, "seed {seed}: {errors:?}");
        let mut other = repeated;
        other[3].measured.ops_per_second *= 1.5;
        assert!(
            Errors::of(&other).ops_per_second > 0.3,
            "it would be noticed"
        );
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn the_same_seed_gives_the_same_result_and_another_a_similar_one() {
    let setup = small(law(0.05, 0.0, 0.5), Demand::Rate(20_000.0));
    let figures = |seed| {
        let outcome = run(&Setup {
            seed,
            ..setup.clone()
        });
        (
            outcome.times.mean_us(),
            outcome.throughput(),
            outcome.herding,
        )
    };
    assert_eq!(figures(5), figures(5));
    let (one, other) = (figures(5), figures(6));
    assert_ne!(one.0, other.0);
    assert!((one.1 / other.1 - 1.0).abs() < 0.05, "{one:?} {other:?}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn many_nodes_carry_nearly_as_much_as_each_alone_and_the_knee_is_found() {
    let curve = law(0.05, 0.0, 0.5);
    let setup = small(curve.clone(), Demand::Clients(1));
    let outcomes: Vec<(usize, Outcome)> = loads(&curve, setup.nodes)
        .into_iter()
        .map(|clients| (clients, run(&with_clients(&setup, clients))))
        .collect();
    assert_eq!(outcomes.first().unwrap().0, 12);
    let (clients, at_knee) = knee(&outcomes).unwrap();
    let share = at_knee.throughput() / setup.bound();
    assert!((0.85..=1.02).contains(&share), "{share} with {clients}");
    assert!(*clients >= 12 * 16, "{clients}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn beyond_what_the_nodes_carry_requests_wait_and_time_out() {
    let setup = small(law(0.05, 0.0, 0.5), Demand::Rate(1.0));
    let at = |share: f64| {
        run(&Setup {
            demand: Demand::Rate(share * setup.bound()),
            timeout_us: 200_000,
            extent: Extent::Requests(60_000),
            ..setup.clone()
        })
    };
    let (low, high) = (at(0.3), at(1.4));
    assert_eq!(low.timed_out, 0);
    assert!((low.throughput() / (0.3 * setup.bound()) - 1.0).abs() < 0.03);
    assert!(high.times.quantile_us(0.99) > 4 * low.times.quantile_us(0.99));
    assert!(high.timed_out > 0, "{}", high.present_max);
    assert!(rates(&setup).iter().all(|&rate| rate > 0.0));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn a_write_costs_each_replica_and_a_hot_key_its_owners() {
    let reads = small(law(0.05, 0.0, 0.5), Demand::Rate(10_000.0));
    let writes = Setup {
        write_share: 1.0,
        ..reads.clone()
    };
    assert_eq!((reads.copies(), writes.copies()), (1.0, 3.0));
    assert!((reads.bound() / writes.bound() - 3.0).abs() < 1e-9);
    let (read, written) = (run(&reads), run(&writes));
    assert!(written.times.mean_us() > read.times.mean_us());
    let hot = run(&Setup {
        zipf: 1.2,
        policy: Policy::TokenAware,
        ..reads.clone()
    });
    assert!(read.busiest_vs_mean < 1.2, "{}", read.busiest_vs_mean);
    assert!(hot.busiest_vs_mean > 1.5, "{}", hot.busiest_vs_mean);
}

/// Several come within each microsecond, the unit of events.
#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn very_many_a_second_are_no_more_than_offered() {
    let setup = Setup {
        nodes: 1000,
        keys: 100_000,
        extent: Extent::Requests(60_000),
        ..small(law(0.05, 0.0, 0.5), Demand::Rate(2_500_000.0))
    };
    let outcome = run(&setup);
    assert!(outcome.throughput() / 2_500_000.0 < 1.05);
    assert!(outcome.throughput() / 2_500_000.0 > 0.9);
    assert_eq!(outcome.timed_out, 0);
}

/// Sending to the first owner of whatever is asked for is as good as chance.
#[test]
#[cfg_attr(debug_assertions, ignore = "./test runs it optimized")]
fn crowds_are_told_from_chance() {
    let herding = |policy| {
        let setup = Setup {
            policy,
            ..small(law(0.05, 0.0, 0.5), Demand::Rate(20_000.0))
        };
        run(&setup).herding
    };
    let chance = herding(Policy::First);
    assert!((0.9..1.1).contains(&chance), "{chance}");
    let chosen = herding(Policy::EarliestFinish);
    assert!(chosen < 1.5, "{chosen}");
}
