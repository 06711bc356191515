//! Latencies and errors: recorded during a run, summarised per phase.

use crate::report::json::{number, numbers};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Ten minutes: far beyond any driver's time-out.
pub(crate) const LATENCY_US_MAX: u64 = 600_000_000;

/// The kind of an error, in one or two words: the key under which errors are counted.
pub type ErrorKind = &'static str;

/// Latencies and errors of the operations of some of the clients.
#[derive(Debug)]
pub struct Recorder {
    by_kind: Vec<Histogram<u64>>,
    failed: Vec<u64>,
    errors: BTreeMap<ErrorKind, u64>,
}

impl Recorder {
    pub fn new(kinds: usize) -> Self {
        let histogram = || Histogram::new_with_bounds(1, LATENCY_US_MAX, 3);
        Self {
            by_kind: (0..kinds)
                .map(|_| histogram().expect("the bounds are valid constants"))
                .collect(),
            failed: vec![0; kinds],
            errors: BTreeMap::new(),
        }
    }

    /// Only successful operations are timed. A failed one is counted: a quick refusal must not
    /// improve the percentiles.
    pub fn record(&mut self, kind: usize, latency: Duration, outcome: Result<(), ErrorKind>) {
        match outcome {
            Ok(()) => {
                let latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
                self.by_kind[kind].saturating_record(latency_us.max(1));
            }
            Err(error) => {
                self.failed[kind] += 1;
                self.count_error(error, 1);
            }
        }
    }

    /// Records one latency for so many successful operations.
    pub(crate) fn record_times(&mut self, kind: usize, latency: Duration, times: u64) {
        let latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.by_kind[kind].saturating_record_n(latency_us.max(1), times);
    }

    pub(crate) fn record_failed(&mut self, kind: usize, error: ErrorKind, times: u64) {
        self.failed[kind] += times;
        self.count_error(error, times);
    }

    /// How often what went wrong.
    pub(crate) fn errors(&self) -> &BTreeMap<ErrorKind, u64> {
        &self.errors
    }

    pub fn count_error(&mut self, error: ErrorKind, times: u64) {
        if times > 0 {
            *self.errors.entry(error).or_default() += times;
        }
    }

    pub fn merge(&mut self, other: &Recorder) {
        for (mine, theirs) in self.by_kind.iter_mut().zip(&other.by_kind) {
            mine.add(theirs)
                .expect("all recorders have the same bounds");
        }
        for (mine, theirs) in self.failed.iter_mut().zip(&other.failed) {
            *mine += theirs;
        }
        for (error, &times) in &other.errors {
            self.count_error(error, times);
        }
    }

    /// `window` is the measured time. With `failure_cost` each kind also has latencies in which
    /// every failed operation counts with that cost: a client that gives up has waited too.
    pub fn into_phase(
        self,
        kinds: &[&str],
        window: Duration,
        failure_cost: Option<Duration>,
    ) -> Phase {
        let cost_us = failure_cost.map(|cost| u64::try_from(cost.as_micros()).unwrap_or(u64::MAX));
        let mut all = Recorder::new(1);
        for histogram in &self.by_kind {
            all.by_kind[0]
                .add(histogram)
                .expect("all recorders have the same bounds");
        }
        let seconds = window.as_secs_f64();
        let ops = all.by_kind[0].len();
        Phase {
            ops,
            errors: self
                .errors
                .iter()
                .map(|(&kind, &times)| (kind.to_owned(), times))
                .collect(),
            seconds,
            ops_per_second: if seconds > 0.0 {
                ops as f64 / seconds
            } else {
                0.0
            },
            latency: Latency::of(&all.by_kind[0]),
            by_kind: kinds
                .iter()
                .zip(self.by_kind.iter().zip(&self.failed))
                .map(|(&kind, (histogram, &failed))| {
                    let with_failures = cost_us.map(|cost_us| {
                        let mut pooled = histogram.clone();
                        pooled.saturating_record_n(cost_us.max(1), failed);
                        Latency::of(&pooled)
                    });
                    let measured = Kind {
                        ops: histogram.len(),
                        failed,
                        latency: Latency::of(histogram),
                        with_failures,
                    };
                    (kind.to_owned(), measured)
                })
                .collect(),
            processes: BTreeMap::new(),
            extra: BTreeMap::new(),
        }
    }
}

/// In microseconds. All zero if nothing succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    #[serde(rename = "latency_us_mean", deserialize_with = "number")]
    pub us_mean: f64,
    #[serde(rename = "latency_us_p50")]
    pub us_p50: u64,
    #[serde(rename = "latency_us_p95")]
    pub us_p95: u64,
    #[serde(rename = "latency_us_p99")]
    pub us_p99: u64,
    #[serde(rename = "latency_us_p999")]
    pub us_p999: u64,
    #[serde(rename = "latency_us_max")]
    pub us_max: u64,
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            us_mean: histogram.mean(),
            us_p50: histogram.value_at_quantile(0.50),
            us_p95: histogram.value_at_quantile(0.95),
            us_p99: histogram.value_at_quantile(0.99),
            us_p999: histogram.value_at_quantile(0.999),
            us_max: histogram.max(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    pub ops: u64,
    pub failed: u64,
    /// Of the successful operations.
    #[serde(flatten)]
    pub latency: Latency,
    /// Of all operations, with failed ones counted at the experiment's failure cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_failures: Option<Latency>,
}

/// CPU time that a process used during the phase, and its memory at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessUse {
    #[serde(deserialize_with = "number")]
    pub cpu_seconds: f64,
    #[serde(deserialize_with = "number")]
    pub cpu_us_per_op: f64,
    pub resident_kib: u64,
}

/// One arm's measurements of one cell in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Successful operations.
    pub ops: u64,
    pub errors: BTreeMap<String, u64>,
    #[serde(deserialize_with = "number")]
    pub seconds: f64,
    #[serde(deserialize_with = "number")]
    pub ops_per_second: f64,
    #[serde(flatten)]
    pub latency: Latency,
    pub by_kind: BTreeMap<String, Kind>,
    pub processes: BTreeMap<String, ProcessUse>,
    /// Figures that only some experiments measure, such as system calls per query.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "numbers"
    )]
    pub extra: BTreeMap<String, f64>,
}

impl Phase {
    pub fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_samples() {
        let mut recorder = Recorder::new(2);
        for latency_us in 1..=1000 {
            let kind = usize::from(latency_us > 500);
            recorder.record(kind, Duration::from_micros(latency_us), Ok(()));
        }
        recorder.record(0, Duration::from_micros(1), Err("overloaded"));
        let phase = recorder.into_phase(&["read", "write"], Duration::from_secs(2), None);
        assert_eq!(phase.ops, 1000);
        assert_eq!(phase.errors_total(), 1);
        assert!((phase.ops_per_second - 500.0).abs() < 1e-9);
        assert_eq!(phase.latency.us_p50, 500);
        assert_eq!(phase.latency.us_p99, 990);
        assert_eq!(phase.latency.us_max, 1000);
        assert!((phase.latency.us_mean - 500.5).abs() < 0.1);
        assert_eq!(phase.by_kind["read"].latency.us_max, 500);
        assert_eq!(phase.by_kind["write"].latency.us_p50, 750);
    }

    #[test]
    fn merging_equals_recording_together() {
        let (mut left, mut right, mut both) =
            (Recorder::new(1), Recorder::new(1), Recorder::new(1));
        for latency_us in [5, 70, 900, 12_000] {
            left.record(0, Duration::from_micros(latency_us), Ok(()));
            both.record(0, Duration::from_micros(latency_us), Ok(()));
            right.record(0, Duration::from_micros(latency_us * 3), Err("timeout"));
            both.record(0, Duration::from_micros(latency_us * 3), Err("timeout"));
        }
        left.merge(&right);
        let window = Duration::from_secs(1);
        let (merged, together) = (
            left.into_phase(&["x"], window, None),
            both.into_phase(&["x"], window, None),
        );
        assert_eq!(merged.ops, together.ops);
        assert_eq!(merged.errors, together.errors);
        assert_eq!(merged.latency.us_p99, together.latency.us_p99);
    }

    #[test]
    fn failures_are_counted_per_kind_and_priced_in_with_failures_only() {
        let mut recorder = Recorder::new(2);
        for _ in 0..98 {
            recorder.record(0, Duration::from_millis(10), Ok(()));
        }
        let mut other = Recorder::new(2);
        for error in ["overloaded", "client timeout"] {
            other.record(0, Duration::from_millis(1), Err(error));
        }
        other.record(1, Duration::from_millis(1), Err("overloaded"));
        recorder.merge(&other);
        let minute = Some(Duration::from_secs(60));
        let phase = recorder.into_phase(&["point", "scan"], Duration::from_secs(1), minute);
        assert_eq!((phase.ops, phase.errors["overloaded"]), (98, 2));
        let (point, scan) = (&phase.by_kind["point"], &phase.by_kind["scan"]);
        assert_eq!((point.ops, point.failed), (98, 2));
        assert!((point.latency.us_mean - 10_000.0).abs() < 10.0);
        let pooled = point.with_failures.unwrap();
        // (98 × 10 ms + 2 × 60 s) / 100
        assert!(
            (pooled.us_mean / 1_209_800.0 - 1.0).abs() < 0.001,
            "{pooled:?}"
        );
        assert!(
            pooled.us_p99 > 59_900_000 && pooled.us_p50 < 10_100,
            "{pooled:?}"
        );
        assert_eq!((scan.ops, scan.failed, scan.latency.us_max), (0, 1, 0));
        assert!(scan.with_failures.unwrap().us_p50 > 59_900_000);
    }

    #[test]
    fn beyond_the_bounds_saturates_and_nothing_is_zero() {
        let mut recorder = Recorder::new(1);
        recorder.record(0, Duration::from_secs(86_400), Ok(()));
        let phase = recorder.into_phase(&["x"], Duration::ZERO, None);
        assert!(phase.latency.us_max >= LATENCY_US_MAX * 99 / 100);
        assert_eq!(phase.ops_per_second, 0.0);
        let empty = Recorder::new(1).into_phase(&["x"], Duration::from_secs(1), None);
        assert_eq!((empty.ops, empty.latency.us_p99), (0, 0));
    }
}
