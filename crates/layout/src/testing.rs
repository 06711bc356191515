//! Random workloads for tests, from seeds that are printed when a test fails.

use crate::column_set::ColumnSet;
use crate::cost::{Coefficients, IndependentModel, Selectivities};
use crate::rng::Rng;
use crate::shape::Shape;

/// Runs `check` for seeds 0..`count`, or 0..`HELENUS_SEEDS`, or only for `HELENUS_SEED`; a failing
/// seed is printed.
pub(crate) fn for_seeds(count: u64, mut check: impl FnMut(u64, &mut Rng)) {
    struct ReplayHint(u64);
    impl Drop for ReplayHint {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("replay with HELENUS_SEED={}", self.0);
            }
        }
    }
    let number = |name: &str| -> Option<u64> {
        let text = std::env::var(name).ok()?;
        Some(text.parse().expect("a number"))
    };
    let count = number("HELENUS_SEEDS").unwrap_or(count);
    let seeds = number("HELENUS_SEED").map_or(0..count, |seed| seed..seed + 1);
    println!("seeds {seeds:?}");
    for seed in seeds {
        let _hint = ReplayHint(seed);
        check(seed, &mut Rng::new(seed));
    }
}

/// Queries with any restrictions on columns with 3 to 100,000 values, on 10 million rows.
pub(crate) fn random_model(rng: &mut Rng, columns: usize, queries: usize) -> IndependentModel {
    let distinct: Vec<f64> = (0..columns)
        .map(|_| 10f64.powf(0.5 + 4.5 * rng.unit()))
        .collect();
    let queries = (0..queries).map(|_| random_query(rng, &distinct)).collect();
    IndependentModel::new(10_000_000, queries, Coefficients::linear(1.0, 300.0))
}

fn random_query(rng: &mut Rng, distinct: &[f64]) -> Selectivities {
    let mut shape = Shape {
        ordered: rng.below(4) == 0,
        ..Shape::default()
    };
    let mut columns = vec![1.0; distinct.len()];
    let restricted: ColumnSet = (0..distinct.len()).filter(|_| rng.below(3) > 0).collect();
    for column in restricted.iter() {
        match rng.below(5) {
            0 | 1 => {
                shape.range = shape.range.with(column);
                columns[column] = 10f64.powf(-3.0 * rng.unit());
            }
            2 => {
                shape.listed = shape.listed.with(column);
                columns[column] = (3.0 / distinct[column]).min(1.0);
            }
            _ => {
                shape.equal = shape.equal.with(column);
                columns[column] = 1.0 / distinct[column];
            }
        }
    }
    Selectivities {
        shape,
        weight: 0.1 + rng.unit(),
        partitions: 1.0,
        columns,
    }
}
