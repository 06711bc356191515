//! The loads of a ramp, each with its measured windows.

use crate::report::spread::Spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Clients of a closed loop, or operations per second offered by an open one.
pub type Load = u64;

/// Measurements of one window at one load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Successful operations per second.
    pub ops_per_second: f64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
    /// Failed operations over all, from 0 to 1.
    pub error_share: f64,
}

/// Reasons for which a load is too high, whether or not throughput still grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Broken {
    /// More operations fail than are allowed.
    Errors,
    /// The 99th percentile is above the target.
    Latency,
    /// Fewer operations succeed than an open loop offers.
    Behind,
}

impl Broken {
    pub fn describe(self) -> &'static str {
        match self {
            Self::Errors => "operations fail",
            Self::Latency => "p99 is above the target",
            Self::Behind => "the offered rate is not reached",
        }
    }
}

/// The limits that a load has to keep.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub latency_us_p99_max: Option<f64>,
    /// From 0 to 1.
    pub error_share_max: f64,
    /// Loads are rates, of which at least this share must succeed; None for a closed loop.
    pub achieved_share_min: Option<f64>,
}

impl Limits {
    fn broken_in(&self, load: Load, window: &Window) -> Option<Broken> {
        let is_slow = |max: f64| window.latency_us_p99 > max;
        let is_behind = |share: f64| window.ops_per_second < share * load as f64;
        if window.error_share > self.error_share_max {
            Some(Broken::Errors)
        } else if self.latency_us_p99_max.is_some_and(is_slow) {
            Some(Broken::Latency)
        } else if self.achieved_share_min.is_some_and(is_behind) {
            Some(Broken::Behind)
        } else {
            None
        }
    }
}

/// All windows of a ramp, by load.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    by_load: BTreeMap<Load, Windows>,
}

#[derive(Clone, Debug, Default)]
struct Windows {
    all: Vec<Window>,
    /// How many of them were measured before the last call of [`Steps::begin_anew`].
    earlier: usize,
}

impl Steps {
    pub fn add(&mut self, load: Load, window: Window) {
        self.by_load.entry(load).or_default().all.push(window);
    }

    /// From now on, earlier windows of a load count only as long as it has no later ones: nodes
    /// that were cold are warm now.
    pub fn begin_anew(&mut self) {
        for windows in self.by_load.values_mut() {
            windows.earlier = windows.all.len();
        }
    }

    /// Those that count.
    pub fn windows(&self, load: Load) -> &[Window] {
        match self.fresh(load) {
            [] => self.by_load.get(&load).map_or(&[], |windows| &windows.all),
            fresh => fresh,
        }
    }

    /// Those since the last call of [`Self::begin_anew`].
    pub fn fresh(&self, load: Load) -> &[Window] {
        let windows = self.by_load.get(&load);
        windows.map_or(&[], |windows| &windows.all[windows.earlier..])
    }

    /// In ascending order.
    pub fn loads(&self) -> impl DoubleEndedIterator<Item = Load> + '_ {
        self.by_load.keys().copied()
    }

    pub fn spread(&self, load: Load, of: impl Fn(&Window) -> f64) -> Option<Spread> {
        Spread::of(&self.windows(load).iter().map(of).collect::<Vec<f64>>())
    }

    /// The median over the load's windows, so that a minority of disturbed ones changes nothing.
    pub fn throughput(&self, load: Load) -> f64 {
        let spread = self.spread(load, |window| window.ops_per_second);
        spread.map_or(0.0, |spread| spread.median)
    }

    /// The limit that more than half of the load's windows break, the most frequent one; None if most are good.
    pub fn broken(&self, load: Load, limits: &Limits) -> Option<Broken> {
        let windows = self.windows(load);
        let kinds = [Broken::Errors, Broken::Latency, Broken::Behind];
        let broken: Vec<Broken> = windows
            .iter()
            .filter_map(|window| limits.broken_in(load, window))
            .collect();
        if broken.len() * 2 <= windows.len() {
            return None;
        }
        let count = |kind: Broken| broken.iter().filter(|&&other| other == kind).count();
        // Of equally frequent ones, the first.
        kinds.into_iter().rev().max_by_key(|&kind| count(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        latency_us_p99_max: Some(20_000.0),
        error_share_max: 0.001,
        achieved_share_min: Some(0.9),
    };

    fn window(ops_per_second: f64, latency_us_p99: f64, error_share: f64) -> Window {
        Window {
            ops_per_second,
            latency_us_p50: 1.0,
            latency_us_p99,
            error_share,
        }
    }

    #[test]
    fn one_bad_window_of_three_breaks_nothing_two_do() {
        let mut steps = Steps::default();
        steps.add(100, window(99.0, 1_000.0, 0.0));
        steps.add(100, window(10.0, 90_000.0, 0.5));
        assert_eq!(steps.broken(100, &LIMITS), None, "half is not most");
        steps.add(100, window(97.0, 30_000.0, 0.0));
        assert_eq!(steps.broken(100, &LIMITS), Some(Broken::Errors));
        steps.add(100, window(98.0, 30_000.0, 0.0));
        steps.add(100, window(98.0, 30_000.0, 0.0));
        assert_eq!(steps.broken(100, &LIMITS), Some(Broken::Latency));
        assert_eq!(steps.throughput(100), 98.0);
    }

    #[test]
    fn earlier_windows_count_until_there_are_later_ones() {
        let mut steps = Steps::default();
        steps.add(1, window(50.0, 1.0, 0.0));
        steps.add(2, window(70.0, 1.0, 0.0));
        steps.begin_anew();
        steps.add(1, window(90.0, 1.0, 0.0));
        assert_eq!((steps.throughput(1), steps.throughput(2)), (90.0, 70.0));
        assert_eq!((steps.fresh(1).len(), steps.fresh(2).len()), (1, 0));
    }

    #[test]
    fn a_rate_that_is_not_reached_is_broken_a_number_of_clients_is_not() {
        let mut steps = Steps::default();
        steps.add(1000, window(899.0, 1.0, 0.0));
        assert_eq!(steps.broken(1000, &LIMITS), Some(Broken::Behind));
        let closed = Limits {
            achieved_share_min: None,
            ..LIMITS
        };
        assert_eq!(steps.broken(1000, &closed), None);
        assert_eq!(steps.broken(7, &LIMITS), None, "not measured");
    }
}
