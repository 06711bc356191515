//! A capacity curve: Gunther's Universal Scalability Law, fitted to the measured loads.
//!
//! X(N) = γN / (1 + σ(N − 1) + κN(N − 1)). γ is the throughput of one client alone, σ the share of
//! work that queues for something shared (contention), κ the cost of each pair of clients that has
//! to agree (coherency). κ > 0 makes throughput decline above N = √((1 − σ)/κ).
//!
//! N/X is linear in 1/γ, σ/γ and κ/γ, so the fit is a least-squares solution, with each point
//! weighted such that relative errors of X count, and with no negative coefficient. Four active
//! sets are possible; the best one that is feasible is taken.
//!
//! Limits: the law describes a closed loop. A cap on a node's CPU makes a sharper bend than the law
//! can follow, which shows in `error_share_max`.
//!
//! Source: N. J. Gunther, *A General Theory of Computational Scalability Based on Rational
//! Functions*, arXiv:0808.1431, equation 4.

use serde::{Deserialize, Serialize};

/// Fewer different loads determine nothing.
const LOADS_MIN: usize = 4;
/// Relative errors above which a fit is called poor.
const ERROR_SHARE_MEAN_MAX: f64 = 0.08;
const ERROR_SHARE_MAX: f64 = 0.2;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usl {
    /// Operations per second of one client alone.
    pub gamma: f64,
    pub sigma: f64,
    pub kappa: f64,
    /// Clients at the predicted maximum; None if the curve never declines.
    pub clients_at_maximum: Option<f64>,
    /// The predicted maximum, or its limit for ever more clients.
    pub ops_per_second_max: Option<f64>,
    /// Mean and greatest relative error over the loads.
    pub error_share_mean: f64,
    pub error_share_max: f64,
    /// The curve does not describe the measurements; its parameters mean little.
    pub is_poor: bool,
}

impl Usl {
    /// `points`: clients and operations per second, both above 0. None with too few of them.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let usable: Vec<(f64, f64)> = points
            .iter()
            .copied()
            .filter(|&(clients, ops)| clients > 0.0 && ops > 0.0)
            .collect();
        if usable.len() < LOADS_MIN {
            return None;
        }
        // Each row is the linear form over N/X, so that it should be 1.
        let rows: Vec<[f64; 3]> = usable
            .iter()
            .map(|&(n, x)| [x / n, (n - 1.0) * x / n, n * (n - 1.0) * x / n])
            .collect();
        let sets: [&[usize]; 4] = [&[0, 1, 2], &[0, 1], &[0, 2], &[0]];
        let feasible = sets.into_iter().filter_map(|set| solve(&rows, set));
        let best = feasible.min_by(|one, other| loss(&rows, one).total_cmp(&loss(&rows, other)))?;
        Some(Self::of(best, &usable))
    }

    fn of([inverse, contention, coherency]: [f64; 3], points: &[(f64, f64)]) -> Self {
        let (gamma, sigma, kappa) = (1.0 / inverse, contention / inverse, coherency / inverse);
        let mut curve = Self {
            gamma,
            sigma,
            kappa,
            clients_at_maximum: None,
            ops_per_second_max: (sigma > 0.0).then(|| gamma / sigma),
            error_share_mean: 0.0,
            error_share_max: 0.0,
            is_poor: false,
        };
        if kappa > 0.0 {
            let at = ((1.0 - sigma).max(0.0) / kappa).sqrt().max(1.0);
            curve.clients_at_maximum = Some(at);
            curve.ops_per_second_max = Some(curve.at(at));
        }
        let errors = points.iter().map(|&(n, x)| (curve.at(n) / x - 1.0).abs());
        let errors: Vec<f64> = errors.collect();
        curve.error_share_mean = errors.iter().sum::<f64>() / errors.len() as f64;
        curve.error_share_max = errors.into_iter().fold(0.0, f64::max);
        curve.is_poor = curve.error_share_mean > ERROR_SHARE_MEAN_MAX
            || curve.error_share_max > ERROR_SHARE_MAX;
        curve
    }

    /// Predicted operations per second.
    pub fn at(&self, clients: f64) -> f64 {
        let others = clients - 1.0;
        self.gamma * clients / (1.0 + self.sigma * others + self.kappa * clients * others)
    }
}

fn loss(rows: &[[f64; 3]], coefficients: &[f64; 3]) -> f64 {
    let error = |row: &[f64; 3]| {
        let sum: f64 = row.iter().zip(coefficients).map(|(x, c)| x * c).sum();
        (sum - 1.0).powi(2)
    };
    rows.iter().map(error).sum()
}

/// The least-squares solution with only the coefficients of `set`; None if one is negative, the
/// first is not positive, or they are not determined.
fn solve(rows: &[[f64; 3]], set: &[usize]) -> Option<[f64; 3]> {
    let size = set.len();
    // Normal equations, with the right-hand side as the last column. The columns are scaled to
    // length 1, because N(N − 1) is far greater than 1.
    let length = |column: usize| {
        rows.iter()
            .map(|row| row[column].powi(2))
            .sum::<f64>()
            .sqrt()
    };
    let scales: Vec<f64> = set.iter().map(|&column| length(column)).collect();
    if scales.iter().any(|&scale| scale <= 0.0) {
        return None;
    }
    let mut matrix = vec![vec![0.0; size + 1]; size];
    for row in rows {
        for (i, &left) in set.iter().enumerate() {
            for (j, &right) in set.iter().enumerate() {
                matrix[i][j] += row[left] / scales[i] * row[right] / scales[j];
            }
            matrix[i][size] += row[left] / scales[i];
        }
    }
    for pivot in 0..size {
        let greatest = (pivot..size)
            .max_by(|&a, &b| matrix[a][pivot].abs().total_cmp(&matrix[b][pivot].abs()))?;
        matrix.swap(pivot, greatest);
        if matrix[pivot][pivot].abs() < 1e-12 {
            return None;
        }
        let row = matrix[pivot].clone();
        for (other, values) in matrix.iter_mut().enumerate() {
            if other == pivot {
                continue;
            }
            let factor = values[pivot] / row[pivot];
            for (value, pivotal) in values.iter_mut().zip(&row) {
                *value -= factor * pivotal;
            }
        }
    }
    let mut solution = [0.0; 3];
    for (i, &column) in set.iter().enumerate() {
        solution[column] = matrix[i][size] / matrix[i][i] / scales[i];
    }
    let is_feasible = solution[0] > 0.0 && solution.iter().all(|&c| c >= 0.0);
    is_feasible.then_some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

    fn law(gamma: f64, sigma: f64, kappa: f64) -> Vec<(f64, f64)> {
        let at = |n: f64| gamma * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
        LOADS.iter().map(|&n| (n, at(n))).collect()
    }

    fn near(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 1e-6
    }

    #[test]
    fn exact_points_give_back_their_parameters() {
        let curve = Usl::fit(&law(500.0, 0.03, 0.0004)).unwrap();
        assert!(
            near(curve.gamma, 500.0) && near(curve.sigma, 0.03),
            "{curve:?}"
        );
        assert!(near(curve.kappa, 0.0004), "{curve:?}");
        let at = (0.97f64 / 0.0004).sqrt();
        assert!(near(curve.clients_at_maximum.unwrap(), at));
        assert!(near(curve.ops_per_second_max.unwrap(), curve.at(at)));
        assert!(!curve.is_poor && curve.error_share_max < 1e-6);
    }

    #[test]
    fn without_coherency_the_maximum_is_a_limit() {
        let curve = Usl::fit(&law(100.0, 0.1, 0.0)).unwrap();
        assert!(curve.kappa < 1e-9 && near(curve.sigma, 0.1), "{curve:?}");
        assert!(curve.ops_per_second_max.unwrap() <= 1_000.0 * 1.001);
        let linear = Usl::fit(&law(100.0, 0.0, 0.0)).unwrap();
        assert!(near(linear.at(1_000.0), 100_000.0), "{linear:?}");
    }

    #[test]
    fn no_coefficient_is_negative_even_if_throughput_is_superlinear() {
        let points: Vec<(f64, f64)> = LOADS.iter().map(|&n| (n, n.powf(1.2))).collect();
        let curve = Usl::fit(&points).unwrap();
        assert!(curve.sigma >= 0.0 && curve.kappa >= 0.0, "{curve:?}");
        assert!(curve.is_poor);
    }

    #[test]
    fn a_poor_fit_says_so_and_three_loads_are_too_few() {
        let zigzag: Vec<(f64, f64)> = LOADS
            .iter()
            .enumerate()
            .map(|(at, &n)| (n, if at % 2 == 0 { 100.0 } else { 900.0 }))
            .collect();
        assert!(Usl::fit(&zigzag).unwrap().is_poor);
        assert_eq!(Usl::fit(&law(1.0, 0.1, 0.1)[..3]), None);
        assert_eq!(Usl::fit(&[(1.0, 0.0); 9]), None);
    }
}
