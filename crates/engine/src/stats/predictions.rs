//! How near predicted work comes to what answers take.
//!
//! Of each class the latest answers are kept that were learned from, each as a pair: predicted work, and
//! time from sending to the answer. Their figures are computed when somebody asks: the bias, the
//! geometric mean of actual ÷ predicted, and the rank correlation (Spearman's, ties share their mean
//! rank).
//!
//! All classes together have their latest pairs as well, but of neighbours of one class only few: the many pieces of
//! a scan are predicted alike, and would say little of how scans and points are told apart.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use helenus_policy::schedule::Class;

/// Pairs kept of each class.
pub const COMPARED: usize = 128;
/// Fewer pairs say nothing.
const COMPARED_MIN: usize = 16;
/// Of the answers of one class that follow each other, one of so many counts among all classes, besides
/// the first.
const REPEATS: u64 = 64;

/// The latest predictions and what became of them. Written by workers without locks.
#[derive(Debug, Default)]
pub struct Predictions {
    classes: [Latest; Class::COUNT],
    all: Latest,
    /// Of the last answer, plus 1.
    last_class: AtomicU8,
}

/// The quality of some predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// How many have been compared so far, of which the last [`COMPARED`] count.
    pub compared: u64,
    /// Above 1 if answers take longer than predicted; `None` if there are too few.
    pub bias: Option<f64>,
    /// From −1 to 1; also `None` if all predictions or all times are the same.
    pub rank_correlation: Option<f64>,
}

impl Predictions {
    /// An answer has taken so long from sending.
    pub(crate) fn note(&self, class: Class, predicted_us: u32, actual_us: u32) {
        let of_class = &self.classes[class as usize];
        of_class.note(predicted_us, actual_us);
        let this = class as u8 + 1;
        let is_other = self.last_class.swap(this, Ordering::Relaxed) != this;
        if is_other || of_class.compared().is_multiple_of(REPEATS) {
            self.all.note(predicted_us, actual_us);
        }
    }

    pub fn of_class(&self, class: Class) -> Quality {
        self.classes[class as usize].quality()
    }

    /// Of all classes.
    pub fn of_all(&self) -> Quality {
        self.all.quality()
    }
}

#[derive(Debug)]
struct Latest {
    compared: AtomicU64,
    /// Predicted in the upper half, actual in the lower; 0: none yet.
    pairs: [AtomicU64; COMPARED],
}

impl Default for Latest {
    fn default() -> Self {
        Latest {
            compared: AtomicU64::new(0),
            pairs: [const { AtomicU64::new(0) }; COMPARED],
        }
    }
}

impl Latest {
    fn note(&self, predicted_us: u32, actual_us: u32) {
        let at = self.compared.fetch_add(1, Ordering::Relaxed) as usize % COMPARED;
        let pair = u64::from(predicted_us.max(1)) << 32 | u64::from(actual_us.max(1));
        self.pairs[at].store(pair, Ordering::Relaxed);
    }

    fn compared(&self) -> u64 {
        self.compared.load(Ordering::Relaxed)
    }

    fn quality(&self) -> Quality {
        let pairs = self.pairs.iter().map(|pair| pair.load(Ordering::Relaxed));
        let pairs = pairs.filter(|pair| *pair != 0);
        let (predicted, actual): (Vec<u32>, Vec<u32>) =
            pairs.map(|pair| ((pair >> 32) as u32, pair as u32)).unzip();
        let is_enough = predicted.len() >= COMPARED_MIN;
        Quality {
            compared: self.compared(),
            bias: is_enough.then(|| bias(&predicted, &actual)),
            rank_correlation: is_enough
                .then(|| correlation(&ranks(&predicted), &ranks(&actual)))
                .flatten(),
        }
    }
}

fn bias(predicted: &[u32], actual: &[u32]) -> f64 {
    let logs = |values: &[u32]| values.iter().map(|us| f64::from(*us).ln()).sum::<f64>();
    ((logs(actual) - logs(predicted)) / predicted.len() as f64).exp()
}

/// Each value's place among them, from 0; equal values share the mean of their places.
fn ranks(values: &[u32]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = |value: &u32| {
        let below = sorted.partition_point(|other| other < value);
        let not_above = sorted.partition_point(|other| other <= value);
        (below + not_above - 1) as f64 / 2.0
    };
    values.iter().map(rank).collect()
}

/// Pearson's; `None` if either does not vary.
fn correlation(left: &[f64], right: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (left_mean, right_mean) = (mean(left), mean(right));
    let (mut both, mut left_squares, mut right_squares) = (0.0, 0.0, 0.0);
    for (left, right) in left.iter().zip(right) {
        let (x, y) = (left - left_mean, right - right_mean);
        both += x * y;
        left_squares += x * x;
        right_squares += y * y;
    }
    let varies = left_squares > 0.0 && right_squares > 0.0;
    varies.then(|| both / (left_squares * right_squares).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bias_and_order_are_told_apart() {
        let predictions = Predictions::default();
        for us in 1..=100 {
            predictions.note(Class::Point, us, 3 * us);
            predictions.note(Class::Scan, us, 10_000 / us);
        }
        let point = predictions.of_class(Class::Point);
        assert_eq!(point.compared, 100);
        let near = |of: Option<f64>, to: f64| of.is_some_and(|of| (of - to).abs() < 1e-9);
        assert!(near(point.bias, 3.0), "{point:?}");
        assert!(near(point.rank_correlation, 1.0), "{point:?}");
        let scan = predictions.of_class(Class::Scan);
        assert!(near(scan.rank_correlation, -1.0), "{scan:?}");
        assert_eq!(predictions.of_all().compared, 200);
    }

    #[test]
    fn many_alike_do_not_hide_the_others() {
        let predictions = Predictions::default();
        for us in 0..100 {
            predictions.note(Class::Point, 100, 90 + us % 20);
            // Pieces of a scan: alike as predicted, and not at all as they came.
            for piece in 0..50 {
                predictions.note(Class::Scan, 2_000, 1_000 + (us * 37 + piece * 101) % 2_000);
            }
        }
        let all = predictions.of_all();
        // Spearman's of two values against two groups that do not overlap is √¾.
        assert!(all.rank_correlation > Some(0.75), "{all:?}");
        assert!(all.compared < 300, "{all:?}");
        assert_eq!(predictions.of_class(Class::Scan).compared, 5_000);
    }

    #[test]
    fn equal_values_share_a_rank_as_in_the_textbook() {
        assert_eq!(ranks(&[30, 10, 20, 20, 40]), [3.0, 0.0, 1.5, 1.5, 4.0]);
        // Five pairs, by hand: 1 − 6 · 8 ÷ (5 · 24) without ties.
        let (left, right) = (ranks(&[1, 2, 3, 4, 5]), ranks(&[2, 1, 5, 3, 4]));
        let rho = correlation(&left, &right).expect("they vary");
        assert!((rho - 0.6).abs() < 1e-9, "{rho}");
    }

    #[test]
    fn too_few_and_what_does_not_vary_say_nothing() {
        let predictions = Predictions::default();
        for us in 1..COMPARED_MIN as u32 {
            predictions.note(Class::Point, 100, us);
        }
        assert_eq!(predictions.of_class(Class::Point).bias, None);
        predictions.note(Class::Point, 100, 100);
        let point = predictions.of_class(Class::Point);
        assert!(point.bias.is_some());
        assert_eq!(point.rank_correlation, None, "all predictions are the same");
    }

    #[test]
    fn old_pairs_are_forgotten() {
        let predictions = Predictions::default();
        for us in 1..=COMPARED as u32 {
            predictions.note(Class::Point, us, 50 * us);
        }
        for us in 1..=COMPARED as u32 {
            predictions.note(Class::Point, us, 0);
        }
        let point = predictions.of_class(Class::Point);
        assert!(point.bias < Some(1.0), "{point:?}");
        assert_eq!(point.compared, 2 * COMPARED as u64);
    }
}
