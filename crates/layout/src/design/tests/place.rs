//! Placing against brute force over all layouts and places.

use crate::column_set::ColumnSet;
use crate::cost::Work;
use crate::design::{Asked, Held, PlaceOptions, Placement, cost_by_place, place, read_at};

use super::*;

/// Queries that bind columns by `=`: 100 rows, a tenth of them for each bound column at the layout's beginning, but 1
/// at least.
struct Bound(Vec<Vec<usize>>);

impl CostModel for Bound {
    fn queries(&self) -> usize {
        self.0.len()
    }

    fn shape(&self, query: usize) -> Shape {
        Shape {
            equal: self.0[query].iter().copied().collect::<ColumnSet>(),
            ..Shape::default()
        }
    }

    fn weight(&self, _: usize) -> f64 {
        1.0
    }

    fn work(&self, _: usize, access: &Access) -> Option<Work> {
        let rows = [100.0, 10.0, 1.0][access.prefix.len().min(2)];
        Some(Work::new(1.0, rows, 0.0))
    }

    fn coefficients(&self) -> Coefficients {
        Coefficients::linear(1.0, 0.0)
    }
}

fn layout(columns: &[usize]) -> Layout {
    Layout::new(columns).expect("a permutation")
}

fn held(columns: &[usize], places: &[bool]) -> Held {
    Held {
        layout: layout(columns),
        places: places.to_vec(),
    }
}

fn placed(
    model: &dyn CostModel,
    columns: usize,
    asked: &[Vec<f64>],
    copies_max: usize,
) -> Vec<Placement> {
    let options = PlaceOptions {
        permuted: (0..columns).collect(),
        known: Vec::new(),
        asked: asked.to_vec(),
        copies_max,
        effort: Effort::default(),
    };
    place(model, columns, &options)
}

#[test]
fn each_place_gets_the_layout_of_its_own_queries_the_busier_first() {
    let model = Bound(vec![vec![1, 2], vec![2, 3]]);
    let asked = vec![vec![1.0, 0.0], vec![0.0, 3.0]];
    let found = placed(&model, 4, &asked, 5);
    let costs: Vec<f64> = found.iter().map(|of| of.cost_us).collect();
    assert_eq!(costs, [(100.0 + 3.0) / 4.0, 1.0]);
    assert!(found.iter().all(Placement::is_proven));
    assert_eq!(found[0].held, [held(&[2, 3, 0, 1], &[false, true])]);
    assert_eq!(
        found.iter().map(Placement::copies).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(found[1].held.len(), 2);
}

#[test]
fn a_place_reads_the_best_of_the_layouts_that_it_holds() {
    let model = Bound(vec![vec![1, 2]]);
    let asked = vec![vec![1.0], vec![1.0]];
    let (one, both) = (&[1, 0, 2][..], &[1, 2, 0][..]);
    let cost = |held: &[Held]| cost_by_place(&model, 3, held, &asked);
    let here = [true, false];
    assert_eq!(cost(&[]), [Some(100.0), Some(100.0)]);
    assert_eq!(cost(&[held(one, &here)]), [Some(10.0), Some(100.0)]);
    let there = held(both, &[false, true]);
    assert_eq!(
        cost(&[held(one, &here), there.clone()]),
        [Some(10.0), Some(1.0)]
    );
    let all = [held(one, &[true, true]), there];
    assert_eq!(cost(&all), [Some(10.0), Some(1.0)]);
    assert_eq!(cost_by_place(&model, 3, &[], &[vec![0.0]]), [None]);
}

#[test]
fn a_layout_that_is_known_stands_for_those_that_do_the_same() {
    let model = Bound(vec![vec![1, 2]]);
    let known = layout(&[2, 1, 0]);
    let options = PlaceOptions {
        permuted: (0..3).collect(),
        known: vec![known.clone()],
        asked: vec![vec![1.0], vec![1.0]],
        copies_max: 2,
        effort: Effort::default(),
    };
    let found = place(&model, 3, &options);
    assert_eq!(
        found.last().unwrap().held,
        [held(&[2, 1, 0], &[true, true])]
    );
}

#[test]
fn a_layout_is_read_where_it_is_the_best_for_what_is_asked() {
    let model = Bound(vec![vec![1], vec![1, 2], vec![0]]);
    let layouts = [layout(&[1, 2, 0]), layout(&[1, 0, 2]), layout(&[2, 0, 1])];
    let asked = vec![
        vec![1.0, 0.0, 0.0],
        vec![0.0, 1.0, 0.0],
        vec![0.0, 0.0, 1.0],
    ];
    let read = read_at(&model, 3, &layouts, &asked);
    let expected = [[true, true, false], [true, false, false], [false; 3]];
    assert_eq!(read, expected.map(|places| places.to_vec()));
}

#[test]
fn what_is_not_worth_it_is_not_placed() {
    let model = Bound(vec![vec![0]]);
    assert_eq!(placed(&model, 3, &[vec![1.0], vec![1.0]], 4), []);
    assert_eq!(placed(&model, 3, &[vec![0.0]], 4), []);
    assert_eq!(placed(&model, 3, &[], 4), []);
    let model = Bound(vec![vec![1]]);
    assert_eq!(placed(&model, 3, &[vec![1.0]], 0), []);
}

#[test]
fn more_copies_than_are_looked_for_at_one_place_are_not_called_the_best() {
    let mut queries: Vec<Vec<usize>> = (1..6).map(|column| vec![column]).collect();
    queries.push(vec![6, 7]);
    let asked = vec![
        vec![10.0, 10.0, 10.0, 10.0, 10.0, 5.0],
        vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    ];
    let found = placed(&Bound(queries), 8, &asked, 6);
    let (five, six) = (&found[4], &found[5]);
    assert!(five.copies() == 5 && five.is_proven());
    // A sixth at the first place would be better.
    assert!(six.copies() == 6 && !six.is_proven(), "{six:?}");
}

#[test]
fn one_layout_for_two_places_is_better_than_two() {
    let model = Bound(vec![vec![1], vec![1, 2]]);
    let asked = vec![vec![1.0, 0.0], vec![0.0, 1.0]];
    let found = placed(&model, 3, &asked, 2);
    let last = found.last().expect("it is worth it");
    assert_eq!(last.held, [held(&[1, 2, 0], &[true, true])]);
    assert_eq!((last.cost_us, last.is_proven()), (5.5, true));
}

#[test]
fn layouts_that_are_known_come_first_and_in_their_order() {
    let model = Bound(vec![vec![1, 3], vec![2, 3]]);
    let known = [layout(&[2, 3, 0, 1]), layout(&[1, 3, 0, 2])];
    for known in [known.to_vec(), known.iter().rev().cloned().collect()] {
        let options = PlaceOptions {
            permuted: (0..4).collect(),
            known: known.clone(),
            asked: vec![vec![1.0, 1.0], vec![1.0, 1.0]],
            copies_max: 4,
            effort: Effort::default(),
        };
        let found = place(&model, 4, &options);
        let last = found.last().expect("it is worth it");
        let layouts: Vec<Layout> = last.held.iter().map(|of| of.layout.clone()).collect();
        assert_eq!(layouts, known);
    }
}

/// The mean cost of all ways of holding layouts, the least for each number of copies.
fn brute_force(
    model: &dyn CostModel,
    columns: usize,
    asked: &[Vec<f64>],
    copies_max: usize,
) -> Vec<f64> {
    let problem = every_layout(model, columns);
    let own = Layout::all(columns, &(0..columns).collect::<Vec<_>>());
    let own = own
        .iter()
        .position(|layout| *layout == Layout::own(columns));
    let own = own.expect("it is one of all");
    let total: f64 = asked.iter().flatten().sum();
    let mut least = vec![f64::INFINITY; copies_max + 1];
    let mut ways = vec![vec![0_u32; problem.candidates()]];
    for at in 0..problem.candidates() {
        for way in std::mem::take(&mut ways) {
            for places in 0..1 << asked.len() {
                let mut way = way.clone();
                way[at] = places;
                if way.iter().map(|p| p.count_ones() as usize).sum::<usize>() <= copies_max {
                    ways.push(way);
                }
            }
        }
    }
    for way in ways {
        let mut cost = 0.0;
        for (place, weights) in asked.iter().enumerate() {
            for (query, weight) in weights.iter().enumerate() {
                let of_table = problem.row(own)[query];
                let held = (0..way.len()).filter(|layout| way[*layout] & 1 << place != 0);
                let costs = held.map(|layout| problem.row(layout)[query]);
                cost += weight * costs.fold(of_table, f64::min);
            }
        }
        let copies: usize = way.iter().map(|p| p.count_ones() as usize).sum();
        for least in &mut least[copies..] {
            *least = least.min(cost / total);
        }
    }
    least
}

#[test]
fn placing_finds_what_brute_force_finds() {
    let mut all = 0;
    for_seeds(300, |seed, rng| {
        let columns = 2 + rng.below(2);
        let places = 1 + rng.below(if columns == 2 { 3 } else { 2 });
        let queries = 1 + rng.below(6);
        let copies_max = 1 + rng.below(3);
        let model = random_model(rng, columns, queries);
        let mut weight = || {
            if rng.below(3) == 0 {
                0.0
            } else {
                0.1 + rng.unit()
            }
        };
        let asked: Asked = (0..places)
            .map(|_| (0..queries).map(|_| weight()).collect())
            .collect();
        let total: f64 = asked.iter().flatten().sum();
        let least = brute_force(&model, columns, &asked, copies_max);
        let found = placed(&model, columns, &asked, copies_max);
        if total == 0.0 {
            assert_eq!(found, [], "seed {seed}");
            return;
        }
        for placement in &found {
            let by_place = cost_by_place(&model, columns, &placement.held, &asked);
            let cost = asked.iter().zip(by_place).map(|(weights, cost)| {
                let weight: f64 = weights.iter().sum();
                weight * cost.unwrap_or(0.0)
            });
            let cost = cost.sum::<f64>() / total;
            assert!(same(cost, placement.cost_us), "seed {seed}");
            let least = least[placement.copies()];
            assert!(placement.cost_us >= least * (1.0 - 1e-9), "seed {seed}");
            let bound = placement.lower_bound_us;
            assert!(
                bound <= least * (1.0 + 1e-9),
                "seed {seed}: {bound} of {least}"
            );
            assert!(same(placement.cost_us, least), "seed {seed}");
            assert!(placement.is_proven(), "seed {seed}");
            all += 1;
        }
        // More copies are left out only where they save nothing.
        let last = found.last().map_or(least[0], |last| last.cost_us);
        assert!(last <= least[copies_max] * (1.0 + 1e-9), "seed {seed}");
    });
    assert!(
        all > 100 || std::env::var_os("HELENUS_SEED").is_some(),
        "{all} placements"
    );
}
