//! Finds the coefficients of the cost model from measurements: least squares of the relative errors,
//! none of them negative.
//!
//! Relative, because the times span orders of magnitude and the shortest matter as much. Non-negative
//! least squares of six unknowns is solved exactly: of the 63 sets of unknowns that are allowed to be
//! above zero, the best whose solution is. (At the optimum, those above zero solve the unconstrained
//! problem among themselves.)
//!
//! Source: Lawson and Hanson, "Solving Least Squares Problems" (1974), chapter 23.

use crate::cost::{COEFFICIENTS as UNKNOWNS, Coefficients, Work};

/// With more, an error of a hundredth is one of the size of the coefficient.
pub const CONDITION_MAX: f64 = 100.0;

/// A query whose work is known and whose time was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    pub work: Work,
    pub time_us: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    pub coefficients: Coefficients,
    /// The median of |predicted − measured| ÷ measured.
    pub error_median: f64,
    /// How many times an error of the measurements may be magnified in the coefficients: the condition
    /// number of the matrix whose columns are the shares of each kind of work, scaled to the same length.
    /// Infinite if one of them cannot be told from the others.
    pub condition: f64,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    #[error("{found} measurements are too few, take {UNKNOWNS} different ones at least")]
    TooFew { found: usize },
    #[error("the measurements do not differ enough to tell what costs what")]
    AllAlike,
    #[error(
        "the measurements hardly tell what costs what: their condition number is {condition:.0}, and at most \
         {CONDITION_MAX} is useful. Take queries that differ more"
    )]
    IllConditioned { condition: f64 },
}

/// Measurements with a time that is not above zero are left out.
pub fn fit(measurements: &[Measurement]) -> Result<Fit, FitError> {
    let usable = measurements
        .iter()
        .filter(|m| m.time_us > 0.0 && m.time_us.is_finite());
    // Each row is divided by its time, so that all of them ask for 1.
    let rows: Vec<[f64; UNKNOWNS]> = usable
        .clone()
        .map(|m| features(&m.work).map(|f| f / m.time_us))
        .collect();
    if rows.len() < UNKNOWNS {
        return Err(FitError::TooFew { found: rows.len() });
    }
    let mut best: Option<(f64, [f64; UNKNOWNS])> = None;
    for set in 1..1u32 << UNKNOWNS {
        let Some(solution) = least_squares(&rows, set) else {
            continue;
        };
        let error: f64 = rows
            .iter()
            .map(|row| (dot(row, &solution) - 1.0).powi(2))
            .sum();
        let feasible = solution.iter().all(|x| *x >= 0.0);
        if feasible && best.is_none_or(|(least, _)| error < least) {
            best = Some((error, solution));
        }
    }
    let (_, values) = best.ok_or(FitError::AllAlike)?;
    let coefficients = Coefficients::of_values(values);
    let error = |m: &Measurement| (coefficients.cost_us(&m.work) / m.time_us - 1.0).abs();
    let mut errors: Vec<f64> = usable.map(error).collect();
    errors.sort_unstable_by(f64::total_cmp);
    Ok(Fit {
        coefficients,
        error_median: errors.get(errors.len() / 2).copied().unwrap_or(0.0),
        condition: condition(&rows),
    })
}

fn features(work: &Work) -> [f64; UNKNOWNS] {
    let Work {
        slices,
        rows,
        kept,
        blocks,
        comparisons,
    } = *work;
    [1.0, slices, rows, kept, blocks, comparisons]
}

fn dot(a: &[f64; UNKNOWNS], b: &[f64; UNKNOWNS]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The square root of the ratio of the largest and the smallest eigenvalue of the scaled normal matrix.
fn condition(rows: &[[f64; UNKNOWNS]]) -> f64 {
    let Some(mut matrix) = normal_matrix(rows) else {
        return f64::INFINITY;
    };
    diagonalise(&mut matrix);
    let values = (0..UNKNOWNS).map(|i| matrix[i][i]);
    let (least, most) = values.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), value| {
        (least.min(value), most.max(value))
    });
    // Below this, the rest of a zero after rounding.
    match least > 1e-12 {
        true => (most / least).sqrt(),
        false => f64::INFINITY,
    }
}

/// Products of the columns, each scaled to the length one. None if a column is zero.
fn normal_matrix(rows: &[[f64; UNKNOWNS]]) -> Option<[[f64; UNKNOWNS]; UNKNOWNS]> {
    let product = |a: usize, b: usize| rows.iter().map(|row| row[a] * row[b]).sum::<f64>();
    let lengths: [f64; UNKNOWNS] = std::array::from_fn(|i| product(i, i).sqrt());
    if lengths.iter().any(|length| *length <= 0.0) {
        return None;
    }
    let scaled = |a: usize, b: usize| product(a, b) / (lengths[a] * lengths[b]);
    Some(std::array::from_fn(|a| {
        std::array::from_fn(|b| scaled(a, b))
    }))
}

/// Jacobi's method: rotations bring one element after the other to zero, until the eigenvalues are left
/// on the diagonal. Five sweeps do for a matrix of this size; twenty cost nothing.
fn diagonalise(matrix: &mut [[f64; UNKNOWNS]; UNKNOWNS]) {
    let pairs = (0..UNKNOWNS).flat_map(|a| (a + 1..UNKNOWNS).map(move |b| (a, b)));
    for (a, b) in (0..20).flat_map(|_| pairs.clone()) {
        if matrix[a][b].abs() < f64::MIN_POSITIVE {
            continue;
        }
        let half = (matrix[b][b] - matrix[a][a]) / (2.0 * matrix[a][b]);
        let tangent = half.signum() / (half.abs() + (half * half + 1.0).sqrt());
        let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
        let sine = tangent * cosine;
        for line in matrix.iter_mut() {
            (line[a], line[b]) = (
                cosine * line[a] - sine * line[b],
                sine * line[a] + cosine * line[b],
            );
        }
        let (above, below) = (matrix[a], matrix[b]);
        for (column, (above, below)) in above.into_iter().zip(below).enumerate() {
            matrix[a][column] = cosine * above - sine * below;
            matrix[b][column] = sine * above + cosine * below;
        }
    }
}

/// The unconstrained solution with the unknowns of the set, all others zero. None if the rows do not
/// determine it.
fn least_squares(rows: &[[f64; UNKNOWNS]], set: u32) -> Option<[f64; UNKNOWNS]> {
    let chosen: Vec<usize> = (0..UNKNOWNS).filter(|i| set & 1 << i != 0).collect();
    let size = chosen.len();
    // Columns of length one: otherwise rows in millions and single requests do not mix.
    let length = |i: &usize| rows.iter().map(|row| row[*i] * row[*i]).sum::<f64>().sqrt();
    let lengths: Vec<f64> = chosen.iter().map(length).collect();
    if lengths.iter().any(|length| *length <= 0.0) {
        return None;
    }
    let mut matrix = vec![vec![0.0; size + 1]; size];
    for row in rows {
        for (a, line) in matrix.iter_mut().enumerate() {
            let left = row[chosen[a]] / lengths[a];
            for b in 0..size {
                line[b] += left * row[chosen[b]] / lengths[b];
            }
            line[size] += left;
        }
    }
    let scaled = eliminate(matrix)?;
    let mut solution = [0.0; UNKNOWNS];
    for (at, i) in chosen.into_iter().enumerate() {
        solution[i] = scaled[at] / lengths[at];
    }
    Some(solution)
}

/// Gaussian elimination with pivoting; the last column is the right side.
fn eliminate(mut matrix: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = matrix.len();
    for column in 0..size {
        let magnitude = |row: &usize| matrix[*row][column].abs();
        let pivot = (column..size).max_by(|a, b| magnitude(a).total_cmp(&magnitude(b)))?;
        if matrix[pivot][column].abs() < 1e-9 {
            return None;
        }
        matrix.swap(column, pivot);
        let pivot_row = matrix[column].clone();
        for (row, line) in matrix.iter_mut().enumerate() {
            if row != column {
                let factor = line[column] / pivot_row[column];
                for (value, pivot) in line.iter_mut().zip(&pivot_row) {
                    *value -= factor * pivot;
                }
            }
        }
    }
    Some((0..size).map(|i| matrix[i][size] / matrix[i][i]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn measurements(truth: &Coefficients, seed: u64, noise: f64) -> Vec<Measurement> {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut one = || {
            let rows = 10f64.powf(rng.unit() * 5.0);
            let work = Work {
                slices: 1.0 + rng.below(20) as f64,
                rows,
                kept: rows / [1.0, 3.0, 50.0][rng.below(3)],
                blocks: 1.0 + rows * (20.0 + 200.0 * rng.unit()) / 16_384.0,
                comparisons: if rng.below(2) == 0 {
                    0.0
                } else {
                    rows * rows.log2()
                },
            };
            let time_us = truth.cost_us(&work) * (1.0 + noise * (2.0 * rng.unit() - 1.0));
            Measurement { work, time_us }
        };
        (0..200).map(|_| one()).collect()
    }

    #[test]
    fn exact_measurements_give_the_coefficients_back() {
        let truth = Coefficients::default();
        let fit = fit(&measurements(&truth, 1, 0.0)).expect("they differ");
        let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
        assert!(
            close(fit.coefficients.request_us, truth.request_us),
            "{fit:?}"
        );
        assert!(close(fit.coefficients.slice_us, truth.slice_us), "{fit:?}");
        assert!(close(fit.coefficients.row_us, truth.row_us), "{fit:?}");
        assert!(close(fit.coefficients.kept_us, truth.kept_us), "{fit:?}");
        assert!(close(fit.coefficients.block_us, truth.block_us), "{fit:?}");
        assert!(
            close(fit.coefficients.compare_us, truth.compare_us),
            "{fit:?}"
        );
    }

    #[test]
    fn the_condition_is_that_of_the_columns() {
        // Columns at a right angle, whatever their lengths: nothing is magnified.
        let apart =
            |i: usize, size: f64| std::array::from_fn(|at| if at == i { size } else { 0.0 });
        let sizes = [1.0, 1e6, 3.0, 1e-3, 7.0, 0.2];
        let rows: Vec<[f64; UNKNOWNS]> = (0..UNKNOWNS).map(|i| apart(i, sizes[i])).collect();
        assert!(
            (condition(&rows) - 1.0).abs() < 1e-9,
            "{}",
            condition(&rows)
        );
        // Two columns at an angle of which the cosine is c: eigenvalues 1 + c and 1 - c.
        let mut slanted = rows.clone();
        (slanted[0][1], slanted[1][1]) = (0.8, 0.6);
        let expected = ((1.0 + 0.8) / (1.0 - 0.8_f64)).sqrt();
        assert!(
            (condition(&slanted) - expected).abs() < 1e-9,
            "{}",
            condition(&slanted)
        );
        // A column of zeros, and two that say the same.
        let mut none = rows.clone();
        none[2][2] = 0.0;
        assert_eq!(condition(&none), f64::INFINITY);
        let twice = rows
            .iter()
            .map(|row| [row[0], row[0], row[2], row[3], row[4], row[5]]);
        assert_eq!(condition(&twice.collect::<Vec<_>>()), f64::INFINITY);
    }

    #[test]
    fn noisy_measurements_give_a_model_that_predicts_as_well_as_the_noise_allows() {
        let truth = Coefficients::default();
        let fitted = fit(&measurements(&truth, 2, 0.2)).expect("they differ");
        for m in measurements(&truth, 3, 0.0) {
            let predicted = fitted.coefficients.cost_us(&m.work);
            let error = (predicted / m.time_us - 1.0).abs();
            assert!(error < 0.15, "{error} for {m:?} with {fitted:?}");
        }
    }

    #[test]
    fn no_coefficient_is_negative() {
        // Time falls with the slices, and nothing costs less than nothing.
        let work = |slices: f64, rows: f64| Work {
            slices,
            rows,
            ..Work::default()
        };
        let point = |n: f64| Measurement {
            work: work(n, n * n),
            time_us: 100.0 + n * n - n,
        };
        let fit = fit(&(1..50).map(|n| point(f64::from(n))).collect::<Vec<_>>());
        let found = fit.expect("they differ").coefficients;
        assert!(found.slice_us == 0.0 && found.row_us > 0.0, "{found:?}");
    }

    #[test]
    fn too_little_is_said_to_be_too_little() {
        assert_eq!(fit(&[]), Err(FitError::TooFew { found: 0 }));
    }
}
