//! Finds the coefficients of a cluster from queries that were timed there, and says how far they can be
//! trusted.
//!
//! - Each query is timed once in each round, and its median counts: a pause of the node is in few rounds.
//! - The **spread** of a coefficient is what parts of the rounds give, each fitted alone.
//! - Some queries are **held out**: the fit does not know them, and what is predicted for them is compared
//!   with what they took.
//!
//! Limits: the spread tells how well the same run repeats. It says nothing of another hour, or of a node
//! with another load.

use crate::cost::{CONDITION_MAX, Coefficients, FitError, Measurement, Work, fit};
use crate::rank::rank_correlation;

/// The rounds are divided into so many parts to see how coefficients vary.
pub const PARTS: usize = 5;

/// A query and how long it took in each round, in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    pub work: Work,
    pub times_us: Vec<f64>,
    /// It only tests the fit.
    pub held_out: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    pub coefficients: Coefficients,
    /// The lowest and the highest value of each coefficient in [`PARTS`] parts of the rounds. None if there
    /// are too few rounds for that.
    pub spread: Option<[Coefficients; 2]>,
    /// See [`crate::Fit::condition`].
    pub condition: f64,
    /// How well the queries are predicted that were fitted to.
    pub fitted: Prediction,
    /// How well those are that were held out.
    pub held_out: Prediction,
    /// How well those are predicted with [`Coefficients::default`].
    pub held_out_default: Prediction,
}

/// How well times are predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    pub queries: usize,
    /// The median of |predicted − measured| ÷ measured.
    pub error_median: f64,
    /// Spearman's, of predicted and measured times. None if there are too few different ones.
    pub rank_correlation: Option<f64>,
}

impl Timed {
    /// The median of all rounds; None if there are none.
    pub fn median_us(&self) -> Option<f64> {
        median(self.times_us.iter().copied())
    }
}

/// # Errors
/// The queries are too few, or do not tell what costs what.
pub fn calibrate(queries: &[Timed]) -> Result<Calibration, FitError> {
    let measured = |held_out: bool| -> Vec<Measurement> {
        let of_kind = queries.iter().filter(|query| query.held_out == held_out);
        let measured = of_kind.filter_map(|query| {
            Some(Measurement {
                work: query.work,
                time_us: query.median_us()?,
            })
        });
        measured.collect()
    };
    let (fitted_to, held_out) = (measured(false), measured(true));
    let fitted = fit(&fitted_to)?;
    // Not the other way round: one that is no number is refused as well.
    let is_useful = fitted.condition <= CONDITION_MAX;
    if !is_useful {
        return Err(FitError::IllConditioned {
            condition: fitted.condition,
        });
    }
    let coefficients = fitted.coefficients;
    Ok(Calibration {
        coefficients,
        spread: spread(queries),
        condition: fitted.condition,
        fitted: Prediction::of(&coefficients, &fitted_to),
        held_out: Prediction::of(&coefficients, &held_out),
        held_out_default: Prediction::of(&Coefficients::default(), &held_out),
    })
}

/// The lowest and highest coefficients of parts of the rounds, each of them every fifth round.
fn spread(queries: &[Timed]) -> Option<[Coefficients; 2]> {
    let part = |part: usize| {
        let fitted_to = queries.iter().filter(|query| !query.held_out);
        let measurements = fitted_to.map(|query| {
            let times = query.times_us.iter().skip(part).step_by(PARTS).copied();
            Some(Measurement {
                work: query.work,
                time_us: median(times)?,
            })
        });
        let measurements: Vec<Measurement> = measurements.collect::<Option<_>>()?;
        Some(fit(&measurements).ok()?.coefficients.values())
    };
    let parts: Vec<_> = (0..PARTS).map(part).collect::<Option<_>>()?;
    let over = |pick: fn(f64, f64) -> f64, start: f64| {
        let of = |at: usize| parts.iter().map(|part| part[at]).fold(start, pick);
        Coefficients::of_values(std::array::from_fn(of))
    };
    Some([over(f64::min, f64::INFINITY), over(f64::max, 0.0)])
}

impl Prediction {
    /// Of measurements with a time above zero.
    pub fn of(coefficients: &Coefficients, measurements: &[Measurement]) -> Self {
        let pairs = measurements.iter().filter(|m| m.time_us > 0.0);
        let pairs: Vec<(f64, f64)> = pairs
            .map(|m| (coefficients.cost_us(&m.work), m.time_us))
            .collect();
        let errors = pairs
            .iter()
            .map(|(predicted, took)| (predicted / took - 1.0).abs());
        Prediction {
            queries: pairs.len(),
            error_median: median(errors).unwrap_or(0.0),
            rank_correlation: rank_correlation(&pairs),
        }
    }
}

/// The upper one of two in the middle.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::testing::for_seeds;

    /// Queries that differ in each kind of work, timed in some rounds on a node with these coefficients. One
    /// time in twenty is much too long.
    fn timed(truth: &Coefficients, rounds: usize, noise: f64, rng: &mut Rng) -> Vec<Timed> {
        let mut works = vec![Work::new(1.0, 1.0, 0.0)];
        for rows in [
            100.0, 200.0, 500.0, 1_000.0, 2_000.0, 3_000.0, 5_000.0, 10_000.0,
        ] {
            works.push(Work::new(1.0, rows, 0.0));
            works.push(Work::new(rows / 100.0, rows / 2.0, 0.0));
            works.push(Work {
                blocks: rows / 8.0,
                ..Work::new(1.0, rows, 0.0)
            });
            works.push(Work::new(1.0, rows, rows * rows.log2()));
            works.push(Work {
                kept: rows / 50.0,
                ..Work::new(1.0, rows, 0.0)
            });
        }
        let mut time = |work: &Work| {
            let late = if rng.below(20) == 0 { 30.0 } else { 1.0 };
            truth.cost_us(work) * late * (1.0 + noise * (2.0 * rng.unit() - 1.0))
        };
        let mut query = |(number, work): (usize, Work)| Timed {
            work,
            times_us: (0..rounds).map(|_| time(&work)).collect(),
            held_out: number % 6 == 4,
        };
        works.into_iter().enumerate().map(&mut query).collect()
    }

    fn random(rng: &mut Rng) -> Coefficients {
        let values = Coefficients::default().values();
        Coefficients::of_values(values.map(|value| value * 10f64.powf(2.0 * rng.unit() - 1.0)))
    }

    #[test]
    fn planted_coefficients_are_found_under_noise() {
        for_seeds(50, |_, rng| {
            let truth = random(rng);
            let queries = timed(&truth, 25, 0.1, rng);
            let found = calibrate(&queries).expect("they differ");
            assert!(found.condition < CONDITION_MAX, "{found:?}");
            for query in &queries {
                let expected = truth.cost_us(&query.work);
                let predicted = found.coefficients.cost_us(&query.work);
                let error = (predicted / expected - 1.0).abs();
                assert!(
                    error < 0.1,
                    "{error} for {query:?} with {found:?}, not {truth:?}"
                );
            }
            // A coefficient that makes up a good part of some query is found itself.
            let share = |at: usize| {
                let unit = Coefficients::of_values(std::array::from_fn(|other| {
                    if other == at { truth.values()[at] } else { 0.0 }
                }));
                let shares = queries
                    .iter()
                    .map(|q| unit.cost_us(&q.work) / truth.cost_us(&q.work));
                shares.fold(0.0, f64::max)
            };
            let both = found.coefficients.values().into_iter().zip(truth.values());
            for (at, (found_us, true_us)) in both.enumerate() {
                if share(at) > 0.5 {
                    let error = (found_us / true_us - 1.0).abs();
                    assert!(error < 0.25, "{at}: {found_us} is not {true_us}");
                }
            }
            let [low, high] = found.spread.expect("25 rounds");
            for (low, high) in low.values().into_iter().zip(high.values()) {
                assert!(0.0 <= low && low <= high, "{low} to {high}");
            }
            assert!(found.held_out.error_median < 0.1, "{found:?}");
            let ranks = found.held_out.rank_correlation.expect("they differ");
            assert!(ranks > 0.9, "{ranks}");
        });
    }

    #[test]
    fn held_out_queries_do_not_move_the_fit() {
        let truth = Coefficients::default();
        let mut queries = timed(&truth, 5, 0.0, &mut Rng::new(7));
        let before = calibrate(&queries).expect("they differ");
        for query in queries.iter_mut().filter(|query| query.held_out) {
            query.times_us.iter_mut().for_each(|time| *time *= 10.0);
        }
        let after = calibrate(&queries).expect("they differ");
        assert_eq!(after.coefficients, before.coefficients);
        assert_eq!(after.spread, before.spread);
        assert!(after.held_out.error_median > 0.8, "{after:?}");
        assert!(after.fitted.error_median < 0.01, "{after:?}");
    }

    #[test]
    fn what_does_not_tell_the_costs_apart_is_refused() {
        let truth = Coefficients::default();
        let query = |work: Work| Timed {
            work,
            times_us: vec![truth.cost_us(&work); 5],
            held_out: false,
        };
        // Each row is a slice, so nothing tells what either costs.
        let same = |n: usize| Work {
            kept: (n % 5) as f64,
            blocks: (n % 7) as f64,
            comparisons: (n % 3) as f64 * 1e4,
            ..Work::new(n as f64, n as f64, 0.0)
        };
        let queries: Vec<Timed> = (1..40).map(|n| query(same(n))).collect();
        let refused = calibrate(&queries);
        assert!(
            matches!(refused, Err(FitError::IllConditioned { .. })),
            "{refused:?}"
        );
        // Nothing is ever sorted.
        let unsorted = |n: usize| Work {
            kept: (n % 11) as f64,
            blocks: (n % 7) as f64,
            ..Work::new((n % 5) as f64, n as f64, 0.0)
        };
        let queries: Vec<Timed> = (1..40).map(|n| query(unsorted(n))).collect();
        let refused = calibrate(&queries);
        let Err(error) = refused else {
            panic!("{refused:?}")
        };
        assert!(
            error.to_string().contains("Take queries that differ more"),
            "{error}"
        );
        assert_eq!(calibrate(&[]), Err(FitError::TooFew { found: 0 }));
    }

    #[test]
    fn without_enough_rounds_there_is_no_spread() {
        let truth = Coefficients::default();
        let few = timed(&truth, PARTS - 1, 0.0, &mut Rng::new(3));
        assert_eq!(calibrate(&few).expect("they differ").spread, None);
    }
}
