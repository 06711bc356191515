//! Spread over rounds, geometric means, and the order of arms.

use crate::report::json::number;
use serde::{Deserialize, Serialize};

/// A value measured once per round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    #[serde(deserialize_with = "number")]
    pub median: f64,
    #[serde(deserialize_with = "number")]
    pub min: f64,
    #[serde(deserialize_with = "number")]
    pub max: f64,
}

impl Spread {
    /// None if no value is finite: a missing value must not look like zero.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Self { median, min, max })
    }
}

/// The geometric mean, in which twice as fast and half as fast cancel out.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|&v| !v.is_finite() || v <= 0.0) {
        return None;
    }
    Some((values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// The order of `arms` in a round: each arm comes first equally often, so that none always runs on
/// a freshly compacted or freshly disturbed cluster.
pub fn rotation(arms: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..arms).map(move |turn| (turn + round) % arms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_odd_even_and_broken_rounds() {
        let odd = Spread::of(&[3.0, 1.0, 2.0]);
        assert_eq!(
            odd,
            Some(Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            })
        );
        let even = Spread::of(&[4.0, 1.0, 2.0, 3.0]);
        assert_eq!(
            even,
            Some(Spread {
                median: 2.5,
                min: 1.0,
                max: 4.0
            })
        );
        let one_lost = Spread::of(&[f64::NAN, 5.0, f64::INFINITY]);
        assert_eq!(
            one_lost,
            Some(Spread {
                median: 5.0,
                min: 5.0,
                max: 5.0
            })
        );
        assert_eq!(Spread::of(&[f64::NAN]), None);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn geometric_mean_of_a_doubling_and_a_halving_is_even() {
        let mean = geometric_mean(&[2.0, 0.5]).unwrap();
        assert!((mean - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn every_arm_has_every_turn_once() {
        let rounds: Vec<Vec<usize>> = (0..3).map(|round| rotation(3, round).collect()).collect();
        assert_eq!(rounds, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
    }
}
