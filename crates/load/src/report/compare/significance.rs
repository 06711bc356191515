//! Tests whether two runs differ by more than their rounds vary.
//!
//! Welch's t-test on the logarithms of the rounds' values: noise of throughput and latency is
//! multiplicative, so differences of logarithms are ratios, and the two runs may vary differently.
//! Its interval is that of the ratio of geometric means.
//!
//! Why not a rank or permutation test: with three rounds each, the usual number, the least p that
//! such a test can give is 0.1, and 0.008 with five, which no correction for dozens of cells
//! survives. The price is an assumption: that logarithms of rounds scatter about normally. A single
//! round that is far off makes the test more cautious, not less.
//!
//! Values are recorded with three digits, so rounds that agree entirely are taken to vary by that
//! much.
//!
//! The correction is Holm's: of m tests in ascending order of p, the i-th counts m − i + 1 times.
//! The probability that *any* difference is called significant by chance stays below 5 %.
//!
//! Sources: B. L. Welch, *Biometrika* 34 (1947); S. Holm, *Scandinavian Journal of Statistics* 6
//! (1979).

use statrs::distribution::{ContinuousCDF, StudentsT};

/// With fewer rounds, in either run, nothing can be told.
pub(super) const ROUNDS_MIN: usize = 3;
/// Significant below this, once corrected.
pub(super) const P_MAX: f64 = 0.05;
/// Standard deviation of a logarithm that is rounded to three digits.
const ROUNDING: f64 = 3e-4;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Test {
    /// Two-sided, not corrected.
    pub(super) p: f64,
    /// 95 % interval of the ratio of B to A.
    pub(super) ratio_low: f64,
    pub(super) ratio_high: f64,
}

/// None with too few rounds, or if a value is not positive.
pub(super) fn test(a: &[f64], b: &[f64]) -> Option<Test> {
    if a.len().min(b.len()) < ROUNDS_MIN {
        return None;
    }
    let (mean_a, error_a, freedom_a) = logarithms(a)?;
    let (mean_b, error_b, freedom_b) = logarithms(b)?;
    let difference = mean_b - mean_a;
    let error = error_a + error_b;
    // Welch and Satterthwaite.
    let freedom = error * error / (error_a * error_a / freedom_a + error_b * error_b / freedom_b);
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let t = difference.abs() / error.sqrt();
    let reach = student.inverse_cdf(0.975) * error.sqrt();
    Some(Test {
        p: (2.0 * student.sf(t)).min(1.0),
        ratio_low: (difference - reach).exp(),
        ratio_high: (difference + reach).exp(),
    })
}

/// Mean of the logarithms, its squared standard error, degrees of freedom.
fn logarithms(values: &[f64]) -> Option<(f64, f64, f64)> {
    if values
        .iter()
        .any(|&value| !value.is_finite() || value <= 0.0)
    {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().map(|value| value.ln()).sum::<f64>() / count;
    let squares = values.iter().map(|value| (value.ln() - mean).powi(2));
    let variance = (squares.sum::<f64>() / (count - 1.0)).max(ROUNDING * ROUNDING);
    Some((mean, variance / count, count - 1.0))
}

/// The corrected p values, in the order of the given ones.
pub(super) fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&one, &other| p[one].total_cmp(&p[other]));
    let mut corrected = vec![1.0; p.len()];
    let mut least: f64 = 0.0;
    for (rank, at) in order.into_iter().enumerate() {
        least = least.max(p[at] * (p.len() - rank) as f64).min(1.0);
        corrected[at] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn p_and_interval_are_those_of_the_textbook() {
        // By numerical integration of the density with 3.728 degrees of freedom, in another program.
        let test = test(&[1000.0, 1100.0, 1050.0], &[1200.0, 1300.0, 1210.0, 1260.0]).unwrap();
        assert!((test.p - 0.008_556_549).abs() < 1e-6, "{test:?}");
        assert!((test.ratio_low - 1.076_405).abs() < 1e-5, "{test:?}");
        assert!((test.ratio_high - 1.301_497).abs() < 1e-5, "{test:?}");
    }

    #[test]
    fn two_rounds_tell_nothing_and_neither_does_a_round_without_a_value() {
        assert_eq!(test(&[1.0, 1.1], &[9.0, 9.1, 9.2]), None);
        assert_eq!(test(&[1.0, 1.1, 0.0], &[9.0, 9.1, 9.2]), None);
        assert_eq!(test(&[1.0, 1.1, f64::NAN], &[9.0, 9.1, 9.2]), None);
    }

    #[test]
    fn rounds_that_agree_differ_only_beyond_what_is_recorded() {
        let same = test(&[500.0; 3], &[500.0; 3]).unwrap();
        assert!(same.p > 0.99, "{same:?}");
        let last_digit = test(&[500.0; 3], &[500.1; 3]).unwrap();
        assert!(last_digit.p > 0.05, "{last_digit:?}");
        let twice = test(&[500.0; 3], &[1000.0; 3]).unwrap();
        assert!(twice.p < 1e-6 && twice.ratio_low > 1.99, "{twice:?}");
    }

    #[test]
    fn by_chance_alone_hardly_any_of_many_cells_is_significant() {
        let seed = std::env::var("HELENUS_SEED").map_or(1, |seed| seed.parse().unwrap());
        println!("HELENUS_SEED={seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut round = || {
            // About normal, 5 %.
            let sum: f64 = (0..12).map(|_| rng.random::<f64>()).sum();
            1000.0 * (0.05 * (sum - 6.0)).exp()
        };
        let (mut runs, mut alarms, mut single) = (0, 0, 0);
        for _ in 0..400 {
            let p: Vec<f64> = (0..30)
                .map(|_| {
                    let [a, b] = [0; 2].map(|_| [round(), round(), round(), round()]);
                    test(&a, &b).unwrap().p
                })
                .collect();
            runs += 1;
            alarms += usize::from(holm(&p).iter().any(|&p| p < P_MAX));
            single += usize::from(p.iter().any(|&p| p < P_MAX));
        }
        assert!(alarms * 100 <= runs * 8, "{alarms} of {runs}");
        assert!(
            single * 2 > runs,
            "without a correction: {single} of {runs}"
        );
    }

    #[test]
    fn holm_counts_the_least_p_most() {
        let corrected = holm(&[0.04, 0.01, 0.03, 0.5]);
        let expected = [0.09, 0.04, 0.09, 0.5];
        for (is, should) in corrected.iter().zip(expected) {
            assert!((is - should).abs() < 1e-12, "{corrected:?}");
        }
        assert!(holm(&[]).is_empty());
    }
}
