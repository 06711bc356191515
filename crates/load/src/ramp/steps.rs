//! The loads of a ramp, each with its measured windows.

use crate::spread::Spread;
use serde::Serialize;
use std::collections::BTreeMap;

/// Clients of a closed loop, or operations per second offered by an open one.
pub type Load = u64;

/// What one window of measurement at one load has shown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Window {
    /// Successful operations per second.
    pub ops_per_second: f64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
    /// Failed operations over all, from 0 to 1.
    pub error_share: f64,
}

/// What makes a load too high, whether or not throughput still grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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

/// What a load has to keep.
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
pub struct Steps(BTreeMap<Load, Vec<Window>>);

impl Steps {
    pub fn add(&mut self, load: Load, window: Window) {
        self.0.entry(load).or_default().push(window);
    }

    pub fn windows(&self, load: Load) -> &[Window] {
        self.0.get(&load).map_or(&[], Vec::as_slice)
    }

    /// In ascending order.
    pub fn loads(&self) -> impl DoubleEndedIterator<Item = Load> + '_ {
        self.0.keys().copied()
    }

    pub fn spread(&self, load: Load, of: impl Fn(&Window) -> f64) -> Option<Spread> {
        Spread::of(&self.windows(load).iter().map(of).collect::<Vec<f64>>())
    }

    /// The median over the load's windows, so that a minority of disturbed ones changes nothing.
    pub fn throughput(&self, load: Load) -> f64 {
        let spread = self.spread(load, |window| window.ops_per_second);
        spread.map_or(0.0, |spread| spread.median)
    }

    /// What more than half of the load's windows break, most often; None if most are good.
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
