//! A proxy's history of the time before somebody looked (`/api/history`).

use helenus_admin_api::history::{History, Step};
use serde::Deserialize;
use serde_json::Value;

use super::snapshot::{Histogram, Moment};

/// The moments of a proxy's answer, each about so many milliseconds long, the latest last. An answer that is not
/// understood has none.
pub(super) fn moments(answer: &Value, every_ms: u64) -> Vec<Moment> {
    let history = History::deserialize(answer).unwrap_or_default();
    let steps = history.fine.unwrap_or_default().steps;
    let mut moments = Vec::new();
    // From the end, so that the last is whole.
    let mut end = steps.len();
    while end > 0 {
        let (mut begin, mut ms) = (end, 0);
        // A step is rarely exactly a second.
        while begin > 0 && ms + 50 < every_ms {
            begin -= 1;
            ms += steps[begin].ms;
        }
        moments.extend(moment(&steps[begin..end]));
        end = begin;
    }
    moments.reverse();
    moments
}

fn moment(steps: &[Step]) -> Option<Moment> {
    let last = steps.last()?;
    let seconds = steps.iter().map(|step| step.ms).sum::<u64>() as f64 / 1e3;
    if seconds <= 0.0 {
        return None;
    }
    let of = |name: &str| {
        let mut sum = Histogram::default();
        for class in steps.iter().filter_map(|step| step.classes.get(name)) {
            sum.add(&Histogram::of_pairs(&class.latency));
        }
        sum
    };
    let rate = |names: &[&str]| {
        let counts = names.iter().map(|name| of(name).count());
        counts.sum::<u64>() as f64 / seconds
    };
    Some(Moment {
        reads_per_s: rate(&["point", "multi", "slice", "scan"]),
        writes_per_s: rate(&["write", "lwt"]),
        errors_per_s: None,
        point: of("point"),
        scan: of("scan"),
        waiting: last.gauges.queued,
        in_flight: last.gauges.in_flight,
        clients: last.gauges.clients,
        cpu_cores: steps.iter().map(|step| step.cpu_us).sum::<u64>() as f64 / 1e6 / seconds,
        resident_bytes: last.gauges.resident_bytes,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_become_moments_of_the_length_that_is_shown() {
        let step = |ms: u64, points: u64, clients: u64| {
            json!({
                "end_ms": 0, "ms": ms, "counters": [1, 2], "cpu_us": ms * 500,
                "classes": {"point": {"latency": [3, points], "waits": []}, "write": {"latency": [1, 4, 2, 4]}},
                "gauges": {"clients": clients, "nodes": 3, "queued": 2},
            })
        };
        let steps = [step(1_000, 50, 1), step(990, 1, 2), step(1_010, 3, 3)];
        let answer = json!({"fine": {"step_ms": 1000, "next": 3, "steps": steps}});
        let of = |every_ms| {
            let moments = moments(&answer, every_ms);
            let shown = moments
                .iter()
                .map(|of| (of.reads_per_s.round(), of.clients));
            shown.collect::<Vec<_>>()
        };
        assert_eq!(of(1_000), [(50.0, 1), (1.0, 2), (3.0, 3)]);
        assert_eq!(of(2_000), [(50.0, 1), (2.0, 3)]);
        let last = moments(&answer, 2_000).pop().expect("a moment");
        assert_eq!((last.writes_per_s, last.cpu_cores), (8.0, 0.5));
        assert_eq!(last.point.count(), 4);
    }

    #[test]
    fn what_is_not_understood_is_no_history() {
        for answer in [
            json!(null),
            json!({"fine": {"steps": 7}}),
            json!({"fine": {"steps": [{}]}}),
        ] {
            assert_eq!(moments(&answer, 1_000), []);
        }
    }
}
