//! The designers against brute force, and against each other.

mod matrices;
mod place;

use crate::access::Access;
use crate::cost::{Coefficients, CostModel, IndependentModel, Selectivities};
use crate::design::{
    Anneal, Candidates, Certificate, Effort, Objective, Options, Problem, Solution, anneal,
    best_single, design, greedy, is_same_for, mean_cost_us, solve,
};
use crate::layout::Layout;
use crate::rng::Rng;
use crate::shape::Shape;
use crate::testing::{for_seeds, random_model};

/// Costs of all layouts, none left out, straight from the model.
fn every_layout(model: &dyn CostModel, columns: usize) -> Problem {
    let permuted: Vec<usize> = (0..columns).collect();
    let row = |layout: &Layout| {
        let cost = |query: usize| {
            let access = Access::of(&model.shape(query), layout);
            let work = model.work(query, &access).expect("this model answers all");
            model.coefficients().cost_us(&work)
        };
        (0..model.queries()).map(cost).collect()
    };
    let rows = Layout::all(columns, &permuted).iter().map(row).collect();
    Problem::new(
        (0..model.queries()).map(|q| model.weight(q)).collect(),
        rows,
    )
}

/// All sets with repetition.
fn sets(candidates: usize, size: usize) -> Vec<Vec<usize>> {
    if size == 0 {
        return vec![Vec::new()];
    }
    let shorter = sets(candidates, size - 1);
    let extended = |set: &Vec<usize>| -> Vec<Vec<usize>> {
        let from = set.last().copied().unwrap_or(0);
        (from..candidates)
            .map(|next| [&set[..], &[next]].concat())
            .collect()
    };
    shorter.iter().flat_map(extended).collect()
}

fn loss(problem: &Problem, set: &[usize]) -> f64 {
    let without = |at: usize| {
        let others = set.iter().enumerate().filter(|(other, _)| *other != at);
        problem.cost(&others.map(|(_, c)| *c).collect::<Vec<_>>())
    };
    (0..set.len()).map(without).fold(0.0, f64::max)
}

fn small(rng: &mut Rng) -> (IndependentModel, usize, usize) {
    let columns = 2 + rng.below(3);
    let replicas = 1 + rng.below(3);
    let queries = 1 + rng.below(12);
    (random_model(rng, columns, queries), columns, replicas)
}

fn candidates_of(model: &dyn CostModel, columns: usize) -> Candidates {
    let permuted: Vec<usize> = (0..columns).collect();
    Candidates::new(model, Layout::all(columns, &permuted), &[])
}

fn solved(problem: &Problem, replicas: usize, objective: Objective) -> Solution {
    solve(problem, replicas, objective, Effort::default()).expect("there are candidates")
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

#[test]
fn the_exact_solver_finds_what_brute_force_finds() {
    for_seeds(400, |seed, rng| {
        let (model, columns, replicas) = small(rng);
        let every = every_layout(&model, columns);
        let sets = sets(every.candidates(), replicas);
        let least = sets
            .iter()
            .map(|set| every.cost(set))
            .fold(f64::INFINITY, f64::min);
        let candidates = candidates_of(&model, columns);
        let solution = solved(candidates.problem(), replicas, Objective::Cost);
        assert_eq!(solution.certificate, Certificate::Optimal, "seed {seed}");
        assert!(
            same(solution.cost, least),
            "seed {seed}: {} against {least}",
            solution.cost
        );
        assert_eq!(solution.chosen.len(), replicas);
        assert!(same(
            candidates.problem().cost(&solution.chosen),
            solution.cost
        ));
    });
}

#[test]
fn the_second_objective_is_exact_too() {
    for_seeds(200, |seed, rng| {
        let (model, columns, replicas) = small(rng);
        let replicas = replicas.max(2);
        let every = every_layout(&model, columns);
        let sets: Vec<(f64, f64)> = sets(every.candidates(), replicas)
            .iter()
            .map(|set| (every.cost(set), loss(&every, set)))
            .collect();
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        let cost = least(&mut sets.iter().map(|(cost, _)| *cost));
        let candidates = candidates_of(&model, columns);
        for slack in [0.0, 0.1] {
            let may = |(c, _): &&(f64, f64)| *c <= cost * (1.0 + slack + 1e-9);
            let wanted = least(&mut sets.iter().filter(may).map(|(_, loss)| *loss));
            let objective = Objective::CostThenLoss { slack };
            let found = solved(candidates.problem(), replicas, objective);
            assert!(found.loss_proven, "seed {seed}");
            assert!(found.cost <= cost * (1.0 + slack + 2e-9), "seed {seed}");
            let loss = found.cost_with_worst_loss.expect("more than one");
            assert!(
                same(loss, wanted),
                "seed {seed}, slack {slack}: {loss} against {wanted}"
            );
        }
        let loss_weight = 0.3;
        let wanted = least(&mut sets.iter().map(|(cost, loss)| cost + loss_weight * loss));
        let found = solved(
            candidates.problem(),
            replicas,
            Objective::Weighted { loss_weight },
        );
        let value = found.cost + loss_weight * found.cost_with_worst_loss.expect("more than one");
        assert_eq!(found.certificate, Certificate::Optimal, "seed {seed}");
        assert!(same(value, wanted), "seed {seed}: {value} against {wanted}");
    });
}

#[test]
fn a_search_that_is_cut_short_states_a_bound_that_holds() {
    let mut cut = 0;
    for_seeds(60, |seed, rng| {
        let columns = 5;
        let model = random_model(rng, columns, 30);
        let candidates = candidates_of(&model, columns);
        let optimum = solved(candidates.problem(), 3, Objective::Cost);
        assert_eq!(optimum.certificate, Certificate::Optimal, "seed {seed}");
        let effort = Effort {
            evaluations_max: 100,
        };
        let found = solve(candidates.problem(), 3, Objective::Cost, effort).expect("candidates");
        let bound = match found.certificate {
            Certificate::Optimal => optimum.cost,
            Certificate::AtLeast { lower_bound } => lower_bound,
        };
        cut += u32::from(found.certificate != Certificate::Optimal);
        assert!(bound <= optimum.cost * (1.0 + 1e-9), "seed {seed}");
        assert!(found.cost >= optimum.cost * (1.0 - 1e-9), "seed {seed}");
    });
    println!("{cut} were cut short");
}

#[test]
fn annealing_comes_within_a_percent_of_the_optimum() {
    let mut worst: f64 = 0.0;
    for_seeds(40, |seed, rng| {
        let columns = 2 + rng.below(5);
        let replicas = 1 + rng.below(5);
        let queries = 1 + rng.below(25);
        let model = random_model(rng, columns, queries);
        let gap = annealing_gap(&model, columns, replicas, seed);
        worst = worst.max(gap);
        assert!(
            gap < 0.01,
            "seed {seed}: {columns} columns, {replicas} replicas: {gap}"
        );
    });
    println!("worst gap {worst}");
}

fn annealing_gap(model: &IndependentModel, columns: usize, replicas: usize, seed: u64) -> f64 {
    let candidates = candidates_of(model, columns);
    let optimum = solved(candidates.problem(), replicas, Objective::Cost);
    assert_eq!(optimum.certificate, Certificate::Optimal, "seed {seed}");
    let permuted: Vec<usize> = (0..columns).collect();
    let parameters = Anneal {
        seed,
        ..Anneal::default()
    };
    let own = Layout::own(columns);
    let annealed = anneal(&candidates, &own, &permuted, replicas, &parameters);
    annealed.expect("a candidate").cost_us / optimum.cost - 1.0
}

#[test]
fn one_more_layout_never_costs_more() {
    for_seeds(100, |seed, rng| {
        let columns = 2 + rng.below(4);
        let model = random_model(rng, columns, 15);
        let candidates = candidates_of(&model, columns);
        let problem = candidates.problem();
        let (single, mut before) = best_single(problem).expect("a candidate");
        assert!(same(problem.cost(&[single]), before));
        for replicas in 1..=5 {
            let cost = solved(problem, replicas, Objective::Cost).cost;
            assert!(
                cost <= before * (1.0 + 1e-12),
                "seed {seed}: {replicas} replicas"
            );
            let greedy = problem.cost(&greedy(problem, replicas));
            assert!(
                greedy >= cost * (1.0 - 1e-12),
                "seed {seed}: greedy beats the optimum"
            );
            before = cost;
        }
    });
}

#[test]
fn a_layout_that_is_kept_is_never_worse_than_one_that_is_chosen_besides() {
    for_seeds(50, |seed, rng| {
        let columns = 2 + rng.below(3);
        let model = random_model(rng, columns, 10);
        let options = |replicas, kept| Options {
            replicas,
            permuted: (0..columns).collect(),
            kept,
            objective: Objective::Cost,
            effort: Effort::default(),
            anneal: None,
        };
        let own = || vec![Layout::own(columns)];
        let kept = design(&model, columns, &options(2, own())).expect("queries");
        let free = design(&model, columns, &options(3, Vec::new())).expect("queries");
        let fewer = design(&model, columns, &options(2, Vec::new())).expect("queries");
        assert!(kept.cost_us <= fewer.cost_us * (1.0 + 1e-12), "seed {seed}");
        assert!(kept.cost_us >= free.cost_us * (1.0 - 1e-12), "seed {seed}");
        for lost in &kept.cost_without_us {
            assert!(*lost <= kept.own_cost_us * (1.0 + 1e-12), "seed {seed}");
        }
    });
}

/// TPC-H orders at scale factor 1 with the paper's two queries: custkey, orderdate, clerk.
fn tpch() -> IndependentModel {
    let (custkey, orderdate, clerk) = (1.0 / 99_996.0, 1.0 / 2_406.0, 1.0 / 1_000.0);
    let q1 = Selectivities {
        shape: Shape {
            equal: [1, 2].into_iter().collect(),
            range: [0].into_iter().collect(),
            ..Shape::default()
        },
        weight: 250.0,
        partitions: 1.0,
        columns: vec![1.0, orderdate, clerk],
    };
    let q2 = Selectivities {
        shape: Shape {
            equal: [0, 2].into_iter().collect(),
            range: [1].into_iter().collect(),
            ..Shape::default()
        },
        weight: 250.0,
        partitions: 1.0,
        columns: vec![custkey, 1.0 / 3.0, clerk],
    };
    IndependentModel::new(1_500_000, vec![q1, q2], Coefficients::linear(1.0, 0.0))
}

#[test]
fn the_papers_example_gains_hundredfold_from_a_second_layout() {
    let model = tpch();
    let candidates = candidates_of(&model, 3);
    let (single, rows_single) = best_single(candidates.problem()).expect("a candidate");
    // Next to nothing for one query, a third of the clerk's 1,500 orders for the other.
    assert!((249.0..252.0).contains(&rows_single), "{rows_single}");
    let first = candidates.layouts()[single].columns().next();
    assert_eq!(first, Some(2));
    let two = solved(candidates.problem(), 2, Objective::Cost);
    assert!(two.cost * 400.0 < rows_single, "{}", two.cost);
    let layouts = two
        .chosen
        .iter()
        .map(|c| candidates.layouts()[*c].columns().last());
    let mut last: Vec<Option<usize>> = layouts.collect();
    last.sort_unstable();
    assert_eq!(
        last,
        [Some(0), Some(1)],
        "each query's range comes last in its layout"
    );
    let three = solved(candidates.problem(), 3, Objective::Cost);
    assert!(same(three.cost, two.cost), "two queries need two layouts");
}

#[test]
fn the_third_replica_makes_the_loss_of_one_harmless() {
    let candidates = candidates_of(&tpch(), 3);
    let two = solved(candidates.problem(), 2, Objective::Cost);
    let four = solved(
        candidates.problem(),
        4,
        Objective::CostThenLoss { slack: 0.0 },
    );
    assert!(two.cost_with_worst_loss.expect("two") > 100.0);
    assert!(same(four.cost_with_worst_loss.expect("four"), four.cost));
}

/// Prints how long eight columns and five replicas take. Times differ between machines: none is
/// asserted, only that the result is proven and annealing comes close. (With a fifth of the steps, it
/// is 15 % above the optimum for seed 1.)
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the time is printed and decides nothing"
)]
fn eight_columns_and_five_replicas() {
    for_seeds(3, |seed, rng| {
        let queries = 10 + rng.below(20);
        let model = random_model(rng, 8, queries);
        let start = std::time::Instant::now();
        let candidates = candidates_of(&model, 8);
        let enumerated = start.elapsed();
        let optimum = solved(candidates.problem(), 5, Objective::Cost);
        let solved = start.elapsed() - enumerated;
        assert_eq!(optimum.certificate, Certificate::Optimal, "seed {seed}");
        let start = std::time::Instant::now();
        let gap = annealing_gap(&model, 8, 5, seed);
        println!(
            "seed {seed}: {queries} queries, {} candidates; enumerated in {enumerated:?}, solved in \
             {solved:?}, annealed in {:?}, {:.4} % above",
            candidates.layouts().len(),
            start.elapsed(),
            gap * 100.0
        );
        assert!(gap < 0.01, "seed {seed}: {gap}");
    });
}

#[test]
fn layouts_that_exist_are_judged_as_a_design_is() {
    for_seeds(100, |seed, rng| {
        let (model, columns, replicas) = small(rng);
        let own = Layout::own(columns);
        let options = Options {
            replicas,
            permuted: (0..columns).collect(),
            kept: vec![own.clone()],
            objective: Objective::Cost,
            effort: Effort::default(),
            anneal: None,
        };
        let design = design(&model, columns, &options).expect("there is something to design");
        let all = [std::slice::from_ref(&own), &design.layouts].concat();
        let cost = mean_cost_us(&model, &all);
        assert!(
            same(cost, design.cost_us),
            "{cost}, not {}, seed {seed}",
            design.cost_us
        );
        assert!(
            same(mean_cost_us(&model, &[own]), design.own_cost_us),
            "seed {seed}"
        );
        // Those that are the same cost the same, each query.
        let orders = Layout::all(columns, &options.permuted);
        for other in orders
            .iter()
            .filter(|other| is_same_for(&model, other, &design.layouts[0]))
        {
            let replaced = [std::slice::from_ref(other), &all[2..], &all[..1]].concat();
            assert!(same(mean_cost_us(&model, &replaced), cost), "seed {seed}");
        }
    });
}
