//! Decides how old a report is, and whether it is one of this node and newer than the last.
//!
//! Formula: age = what the agent says of its age when it was sent + time on the way, where time on the way =
//! (received − sent) − the lowest such difference so far, since the two clocks have begun at different
//! times. That lowest difference rises by [`DRIFT`] of the time that passes, because no two clocks run
//! equally fast.
//!
//! So what a network or a process that stood still has delayed is as old as it is, although it says that it
//! is young.
//!
//! Limits: a connection that is slow from its first report on looks as if it were not, by that much.

use std::time::{Duration, Instant};

use helenus_engine::snapshot::HostId;
use helenus_engine::upstream::node_reports::{NodeReport, Rejected};

use super::wire::Report;

/// An older report says nothing any more.
pub(crate) const AGE_MAX: Duration = Duration::from_secs(5);
const DRIFT: f64 = 0.0005;

/// The reports of one connection so far.
pub(crate) struct Timeline {
    host_id: HostId,
    began: Instant,
    sequence: u64,
    sampled_us: u64,
    received_us: i64,
    /// The lowest difference of the clocks, in microseconds.
    lowest_us: Option<i64>,
}

impl Timeline {
    pub(crate) fn new(host_id: HostId, began: Instant) -> Timeline {
        Timeline {
            host_id,
            began,
            sequence: 0,
            sampled_us: 0,
            received_us: 0,
            lowest_us: None,
        }
    }

    pub(crate) fn accept(&mut self, now: Instant, report: &Report) -> Result<NodeReport, Rejected> {
        if report.host_id != self.host_id {
            return Err(Rejected::Identity);
        }
        if report.sequence <= self.sequence || report.sampled_us < self.sampled_us {
            return Err(Rejected::Sequence);
        }
        self.sequence = report.sequence;
        self.sampled_us = report.sampled_us;
        let received_us = now.saturating_duration_since(self.began).as_micros() as i64;
        let passed_us = received_us - std::mem::replace(&mut self.received_us, received_us);
        let sent_us = (report.sampled_us as i64).saturating_add(report.age_us.into());
        let difference_us = received_us.saturating_sub(sent_us);
        let lowest_us = match self.lowest_us {
            Some(before) => {
                let drift_us = (passed_us as f64 * DRIFT) as i64;
                difference_us.min(before.saturating_add(drift_us))
            }
            None => difference_us,
        };
        self.lowest_us = Some(lowest_us);
        let on_the_way_us = difference_us.saturating_sub(lowest_us).unsigned_abs();
        let age_us = on_the_way_us.saturating_add(report.age_us.into());
        let age = Duration::from_micros(age_us);
        if age > AGE_MAX {
            return Err(Rejected::Late);
        }
        Ok(NodeReport {
            sampled: now.checked_sub(age).ok_or(Rejected::Late)?,
            resources: report.resources,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: HostId = [7; 16];

    fn report(sequence: u64, sampled_ms: u64, age_ms: u32) -> Report {
        Report {
            sequence,
            sampled_us: 1_000_000_000_000 + sampled_ms * 1_000,
            age_us: age_ms * 1_000,
            host_id: HOST,
            resources: Default::default(),
        }
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn what_is_delayed_is_as_old_as_it_is() {
        let began = Instant::now();
        let mut timeline = Timeline::new(HOST, began);
        let mut age = |sequence, received_ms, sampled_ms, age_ms| {
            let now = began + ms(received_ms);
            let report = report(sequence, sampled_ms, age_ms);
            let taken = timeline.accept(now, &report)?;
            Ok(now.duration_since(taken.sampled).as_millis())
        };
        assert_eq!(age(1, 100, 0, 5), Ok(5));
        assert_eq!(age(2, 300, 200, 5), Ok(5));
        // A millisecond less for the clocks' drift.
        assert_eq!(
            age(3, 2_500, 400, 5),
            Ok(2_003),
            "it was two seconds on the way"
        );
        assert_eq!(age(4, 9_000, 600, 0), Err(Rejected::Late));
        assert_eq!(
            age(5, 9_100, 3_000, 6_000),
            Err(Rejected::Late),
            "as it says itself"
        );
        assert_eq!(age(6, 9_300, 9_200, 0), Ok(0), "and then all is well again");
    }

    #[test]
    fn clocks_may_drift() {
        let began = Instant::now();
        let mut timeline = Timeline::new(HOST, began);
        // The node's clock loses 0.02 %: two seconds in three hours.
        for n in 1..=50_000_u64 {
            let now = began + ms(n * 200);
            let sampled_us = 1_000_000 + n * 200_000 - n * 40;
            let report = Report {
                sampled_us,
                ..report(n, 0, 0)
            };
            let taken = timeline.accept(now, &report).expect("a report");
            assert!(now.duration_since(taken.sampled) < ms(2), "report {n}");
        }
    }

    #[test]
    fn nothing_older_nor_of_others() {
        let began = Instant::now();
        let mut timeline = Timeline::new(HOST, began);
        let mut accept = |report: Report| timeline.accept(began, &report).err();
        assert_eq!(accept(report(5, 10, 0)), None);
        assert_eq!(accept(report(5, 11, 0)), Some(Rejected::Sequence));
        assert_eq!(accept(report(4, 12, 0)), Some(Rejected::Sequence));
        assert_eq!(
            accept(report(6, 9, 0)),
            Some(Rejected::Sequence),
            "time goes backwards"
        );
        let other = Report {
            host_id: [8; 16],
            ..report(7, 13, 0)
        };
        assert_eq!(accept(other), Some(Rejected::Identity));
        let extreme = Report {
            sampled_us: u64::MAX,
            age_us: u32::MAX,
            ..report(8, 0, 0)
        };
        assert_eq!(accept(extreme), Some(Rejected::Late));
    }
}
