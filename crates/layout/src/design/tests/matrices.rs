//! The exact solver against brute force on costs that no cost model makes: with nothing in common
//! between candidates, the bounds are loose and the search goes deep.

use super::*;

/// Whole numbers of 1 to 100.
fn random_matrix(rng: &mut Rng) -> Problem {
    let queries = 2 + rng.below(8);
    let candidates = 3 + rng.below(8);
    let mut row = || {
        (0..queries)
            .map(|_| (1 + rng.below(100)) as f64)
            .collect::<Vec<f64>>()
    };
    let rows = (0..candidates).map(|_| row()).collect();
    Problem::new(vec![1.0; queries], rows)
}

#[test]
fn a_candidate_late_in_the_order_may_save_most() {
    let rows = [
        [6, 68, 4, 49, 97],
        [55, 36, 85, 60, 74],
        [89, 83, 78, 2, 71],
        [20, 5, 10, 81, 96],
        [4, 76, 89, 10, 50],
        [87, 91, 1, 51, 35],
        [47, 5, 93, 64, 4],
    ];
    let rows = rows.map(|row| row.map(f64::from).to_vec()).to_vec();
    let problem = Problem::new(vec![1.0; 5], rows);
    let found = solved(&problem, 3, Objective::Cost);
    assert_eq!(found.certificate, Certificate::Optimal);
    assert!(same(found.cost, 4.2), "{}", found.cost);
}

#[test]
fn every_objective_is_exact_on_any_costs() {
    for_seeds(4000, |seed, rng| {
        let problem = random_matrix(rng);
        let replicas = 2 + rng.below(3);
        let sets: Vec<(f64, f64)> = sets(problem.candidates(), replicas)
            .iter()
            .map(|set| (problem.cost(set), loss(&problem, set)))
            .collect();
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);

        let cost = least(&mut sets.iter().map(|(cost, _)| *cost));
        let found = solved(&problem, replicas, Objective::Cost);
        assert_eq!(found.certificate, Certificate::Optimal, "seed {seed}");
        assert!(
            same(found.cost, cost),
            "seed {seed}: {} against {cost}",
            found.cost
        );

        for slack in [0.0, 0.05, 0.3] {
            let may = |(c, _): &&(f64, f64)| *c <= cost * (1.0 + slack + 1e-9);
            let wanted = least(&mut sets.iter().filter(may).map(|(_, loss)| *loss));
            let found = solved(&problem, replicas, Objective::CostThenLoss { slack });
            let loss = found.cost_with_worst_loss.expect("more than one");
            assert!(found.loss_proven, "seed {seed}");
            assert!(same(found.least_cost, cost), "seed {seed}");
            assert!(found.cost <= cost * (1.0 + slack + 2e-9), "seed {seed}");
            assert!(
                same(loss, wanted),
                "seed {seed}, slack {slack}: {loss} against {wanted}"
            );
        }

        for loss_weight in [0.1, 1.0] {
            let wanted = least(&mut sets.iter().map(|(cost, loss)| cost + loss_weight * loss));
            let found = solved(&problem, replicas, Objective::Weighted { loss_weight });
            let loss = found.cost_with_worst_loss.expect("more than one");
            let value = found.cost + loss_weight * loss;
            assert_eq!(found.certificate, Certificate::Optimal, "seed {seed}");
            assert!(
                same(value, wanted),
                "seed {seed}, weight {loss_weight}: {value} against {wanted}"
            );
        }
    });
}

/// Three candidates, each unable to answer one of three queries: whichever is lost of two, a query
/// stays unanswered.
fn unanswered() -> Problem {
    let row = |missing: usize| -> Vec<f64> {
        (0..3)
            .map(|query| match query == missing {
                true => f64::INFINITY,
                false => 1.0 + query as f64,
            })
            .collect()
    };
    Problem::new(vec![1.0; 3], (0..3).map(row).collect())
}

#[test]
fn no_objective_claims_a_proof_for_infinite_costs() {
    let problem = unanswered();
    for objective in [
        Objective::Cost,
        Objective::CostThenLoss { slack: 0.1 },
        Objective::Weighted { loss_weight: 0.0 },
        Objective::Weighted { loss_weight: 0.5 },
    ] {
        for replicas in 1..=3 {
            let found = solved(&problem, replicas, objective);
            let Certificate::AtLeast { lower_bound } = found.certificate else {
                panic!("{objective:?}, {replicas}: {found:?}");
            };
            assert!(lower_bound.is_finite(), "{objective:?}, {replicas}");
            assert!(
                replicas == 1 || objective == Objective::Cost || !found.loss_proven,
                "{objective:?}, {replicas}: {found:?}"
            );
        }
    }
}

#[test]
fn bounds_hold_where_some_costs_are_infinite() {
    for_seeds(1000, |seed, rng| {
        let queries = 2 + rng.below(6);
        let candidates = 3 + rng.below(5);
        let rows = (0..candidates).map(|_| {
            let mut cost = |_| match rng.below(5) {
                0 => f64::INFINITY,
                _ => (1 + rng.below(100)) as f64,
            };
            (0..queries).map(&mut cost).collect()
        });
        let problem = Problem::new(vec![1.0; queries], rows.collect());
        for (replicas, loss_weight) in [(2, 0.5), (3, 1.0)] {
            let sets = sets(candidates, replicas);
            let value = |set: &Vec<usize>| problem.cost(set) + loss_weight * loss(&problem, set);
            let wanted = sets.iter().map(value).fold(f64::INFINITY, f64::min);
            let found = solved(&problem, replicas, Objective::Weighted { loss_weight });
            let (own, bound) = (value(&found.chosen), found.certificate);
            match bound {
                Certificate::Optimal => assert!(same(own, wanted), "seed {seed}: {own}, {wanted}"),
                Certificate::AtLeast { lower_bound } => {
                    let above = wanted * (1.0 + 1e-9);
                    assert!(lower_bound <= above, "seed {seed}: {lower_bound}, {wanted}");
                }
            }
        }
    });
}
