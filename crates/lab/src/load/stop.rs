//! Reasons to end a run before its time.

use super::parse::parse_time;
use anyhow::{Result, ensure};
use clap::Args;
use helenus_load::progress::{IntervalStats, Progress};
use std::time::Duration;

#[derive(Args, Debug)]
pub(super) struct StopArgs {
    /// Stop once so many queries have failed, those of the warm-up included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    stop_after_errors: Option<u64>,
    /// Stop when the 99th percentile of each second has been above this for --p99-above-for
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    stop_when_p99_above: Option<Duration>,
    /// How long the 99th percentile may be above --stop-when-p99-above
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5s",
        value_parser = parse_time,
        requires = "stop_when_p99_above"
    )]
    p99_above_for: Duration,
}

impl StopArgs {
    pub(super) fn check(&self) -> Result<()> {
        ensure!(
            self.stop_when_p99_above.is_none_or(|p99| !p99.is_zero()),
            "--stop-when-p99-above must be above 0"
        );
        ensure!(
            self.p99_above_for >= Duration::from_secs(1),
            "--p99-above-for must be at least 1s: percentiles are of whole seconds"
        );
        Ok(())
    }

    pub(super) fn progress(&self) -> Progress {
        Progress::with_latencies().stop_after_failed(self.stop_after_errors.unwrap_or(0))
    }

    pub(super) fn slow(&self) -> Slow {
        Slow {
            limit: self.stop_when_p99_above,
            allowed: self.p99_above_for,
            lasted: Duration::ZERO,
        }
    }

    /// Why it ended, if it was stopped.
    pub(super) fn reason(&self, progress: &Progress, slow: Option<&str>) -> Option<String> {
        if !progress.is_stopped() {
            return None;
        }
        Some(match (slow, self.stop_after_errors) {
            (Some(slow), _) => slow.to_owned(),
            (None, Some(errors)) => format!("{errors} queries have failed"),
            (None, None) => "it was told to".to_owned(),
        })
    }
}

/// How long the 99th percentile has been too high.
#[derive(Debug)]
pub(super) struct Slow {
    limit: Option<Duration>,
    allowed: Duration,
    lasted: Duration,
}

impl Slow {
    /// Takes the time since the last call into account. Returns why the run must stop, if it must.
    ///
    /// An interval in which nothing was answered is as slow as the one before it: a node that stands
    /// still must not look quick.
    pub(super) fn on_interval(
        &mut self,
        stats: &IntervalStats,
        passed: Duration,
    ) -> Option<String> {
        let limit = self.limit?;
        let is_silent = stats.ops_per_second == 0.0 && !self.lasted.is_zero();
        if stats.latency_us_p99 as f64 <= limit.as_secs_f64() * 1e6 && !is_silent {
            self.lasted = Duration::ZERO;
            return None;
        }
        self.lasted += passed;
        // Ticks are a little early or late.
        (self.lasted + passed / 10 >= self.allowed).then(|| {
            format!(
                "the 99th percentile was above {limit:?} for {:.0} s",
                self.lasted.as_secs_f64()
            )
        })
    }

    /// Another arm has its turn, or a warm-up begins.
    pub(super) fn reset(&mut self) {
        self.lasted = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(p99_ms: u64, ops_per_second: f64) -> IntervalStats {
        IntervalStats {
            latency_us_p99: p99_ms * 1000,
            ops_per_second,
            ..IntervalStats::default()
        }
    }

    #[test]
    fn only_slow_seconds_in_a_row_stop_a_run() {
        let mut slow = Slow {
            limit: Some(Duration::from_millis(50)),
            allowed: Duration::from_secs(3),
            lasted: Duration::ZERO,
        };
        let tick = Duration::from_millis(999);
        let mut next = |p99_ms, ops| slow.on_interval(&second(p99_ms, ops), tick);
        for (p99_ms, ops) in [
            (51, 9.0),
            (60, 9.0),
            (50, 9.0),
            (0, 0.0),
            (51, 9.0),
            (0, 0.0),
        ] {
            assert_eq!(next(p99_ms, ops), None, "{p99_ms}");
        }
        let why = next(70, 9.0).expect("three in a row");
        assert!(why.contains("50ms for 3 s"), "{why}");
        slow.reset();
        assert_eq!(slow.on_interval(&second(99, 9.0), tick), None);
        slow.limit = None;
        assert_eq!(slow.on_interval(&second(99, 9.0), tick * 99), None);
    }
}
