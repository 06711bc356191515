//! The result of a ramp.

use super::evidence::Use;
use super::headroom::Headroom;
use super::saturation::Saturation;
use super::search::{Ended, Search};
use super::steps::{Broken, Load, Window};
use super::usl::Usl;
use crate::measure::Phase;
use crate::report::spread::Spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The unit of a ramp's loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Clients in a closed loop.
    Clients,
    /// Operations per second offered by an open loop.
    OpsPerSecond,
}

impl Unit {
    pub fn text(self, load: Load) -> String {
        match (self, load) {
            (Self::Clients, 1) => "1 client".into(),
            (Self::Clients, _) => format!("{load} clients"),
            (Self::OpsPerSecond, _) => format!("{load}/s"),
        }
    }
}

/// One load, with medians over its windows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    pub load: Load,
    pub windows: usize,
    pub ops_per_second: Spread,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
    pub error_share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<Broken>,
}

/// A load that breaks a limit.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TooMuch {
    pub load: Load,
    pub why: Broken,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Capacity {
    pub unit: Unit,
    /// The least load with almost the peak's throughput. None if even the least load breaks a
    /// limit, or nothing has succeeded.
    pub knee: Option<Step>,
    pub peak: Option<Step>,
    pub ended: Option<Ended>,
    pub first_broken: Option<TooMuch>,
    pub steps: Vec<Step>,
    /// None with an open loop, or too few loads.
    pub usl: Option<Usl>,
    pub saturation: Saturation,
    pub headroom: Option<Headroom>,
}

/// Resources in use, by load: an entry for each window.
pub type UsesByLoad = BTreeMap<Load, Vec<Vec<Use>>>;

impl Capacity {
    /// `today`: operations per second on a normal day.
    pub fn of(
        search: &Search,
        unit: Unit,
        uses: &UsesByLoad,
        nodes: Option<usize>,
        today: Option<f64>,
    ) -> Self {
        let steps: Vec<Step> = search
            .steps()
            .loads()
            .filter_map(|load| Step::of(search, load))
            .collect();
        let knee = search.knee();
        let step = |load: Load| steps.iter().find(|step| step.load == load).cloned();
        let knee_step = knee.and_then(|knee| step(knee.load));
        // From the knee to the peak throughput is about the same, and so is what limits it.
        let at_peak: Vec<Vec<Use>> = knee.map_or_else(Vec::new, |knee| {
            let (low, high) = (knee.load.min(knee.peak), knee.load.max(knee.peak));
            uses.range(low..=high)
                .flat_map(|(_, windows)| windows.iter().cloned())
                .collect()
        });
        let points: Vec<(f64, f64)> = steps
            .iter()
            .filter(|step| step.broken != Some(Broken::Errors))
            .map(|step| (step.load as f64, step.ops_per_second.median))
            .collect();
        Self {
            unit,
            peak: knee.and_then(|knee| step(knee.peak)),
            ended: knee.map(|knee| knee.ended),
            first_broken: search
                .first_broken()
                .map(|(load, why)| TooMuch { load, why }),
            usl: (unit == Unit::Clients).then(|| Usl::fit(&points)).flatten(),
            saturation: Saturation::of(Use::medians(&at_peak)),
            headroom: knee_step
                .as_ref()
                .map(|step| Headroom::of(step.ops_per_second.median, nodes, today)),
            knee: knee_step,
            steps,
        }
    }
}

impl Step {
    fn of(search: &Search, load: Load) -> Option<Self> {
        let steps = search.steps();
        let median = |of: fn(&Window) -> f64| Some(steps.spread(load, of)?.median);
        Some(Self {
            load,
            windows: steps.windows(load).len(),
            ops_per_second: steps.spread(load, |window| window.ops_per_second)?,
            latency_us_p50: median(|window| window.latency_us_p50)?,
            latency_us_p99: median(|window| window.latency_us_p99)?,
            error_share: median(|window| window.error_share)?,
            broken: steps.broken(load, &search.policy().limits),
        })
    }
}

impl Window {
    pub fn of(phase: &Phase) -> Self {
        let failed = phase.errors_total() as f64;
        Self {
            ops_per_second: phase.ops_per_second,
            latency_us_p50: phase.latency.us_p50 as f64,
            latency_us_p99: phase.latency.us_p99 as f64,
            error_share: failed / (phase.ops as f64 + failed).max(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::evidence::Kind;
    use super::super::search::Policy;
    use super::super::steps::Limits;
    use super::*;
    use crate::measure::Recorder;
    use std::time::Duration;

    pub(crate) fn measured(load_max: Load, at: impl Fn(Load) -> f64) -> (Search, UsesByLoad) {
        let limits = Limits {
            latency_us_p99_max: None,
            error_share_max: 0.001,
            achieved_share_min: None,
        };
        let mut search = Search::new(Policy::new(1, load_max, limits));
        let mut uses = UsesByLoad::new();
        while let Some(load) = search.poll_load() {
            let window = Window {
                ops_per_second: at(load),
                latency_us_p50: 1_000.0,
                latency_us_p99: 5_000.0,
                error_share: 0.0,
            };
            search.on_window(load, window);
            let node = Use {
                kind: Kind::NodeCpu,
                name: "node 1".into(),
                used: at(load) / 1_000.0,
                capacity: Some(1.0),
                waiting: None,
            };
            uses.entry(load).or_default().push(vec![node]);
        }
        (search, uses)
    }

    #[test]
    fn knee_curve_cause_and_headroom_belong_together() {
        let law = |load: Load| {
            let n = load as f64;
            100.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.001 * n * (n - 1.0))
        };
        let (search, uses) = measured(256, law);
        let capacity = Capacity::of(&search, Unit::Clients, &uses, Some(3), Some(100.0));
        let (knee, peak) = (capacity.knee.unwrap(), capacity.peak.unwrap());
        assert!(knee.load <= peak.load && knee.ops_per_second.median > 850.0);
        assert_eq!(capacity.ended, Some(Ended::Flat));
        let usl = capacity.usl.unwrap();
        assert!((usl.sigma - 0.05).abs() < 1e-6 && !usl.is_poor, "{usl:?}");
        assert_eq!(capacity.saturation.saturated[0].name, "node 1");
        let headroom = capacity.headroom.unwrap();
        let expected = knee.ops_per_second.median * 2.0 / 3.0;
        assert!((headroom.add_node_at_ops_per_second - expected).abs() < 1e-9);
        assert!(capacity.steps.is_sorted_by_key(|step| step.load));
    }

    #[test]
    fn nothing_that_succeeds_has_neither_knee_nor_headroom() {
        let (search, uses) = measured(64, |_| 0.0);
        let capacity = Capacity::of(&search, Unit::OpsPerSecond, &uses, None, None);
        assert!(capacity.knee.is_none() && capacity.headroom.is_none());
        assert!(capacity.usl.is_none() && capacity.ended.is_none());
    }

    #[test]
    fn failed_operations_count_among_all() {
        let mut recorder = Recorder::new(1);
        for outcome in [Ok(()), Ok(()), Ok(()), Err("overloaded")] {
            recorder.record(0, Duration::from_millis(2), outcome);
        }
        let phase = recorder.into_phase(&["x"], Duration::from_secs(1), None);
        let window = Window::of(&phase);
        assert_eq!((window.ops_per_second, window.error_share), (3.0, 0.25));
        let silent = Recorder::new(1).into_phase(&["x"], Duration::from_secs(1), None);
        assert_eq!(Window::of(&silent).error_share, 0.0);
    }

    #[test]
    fn loads_are_named_by_their_unit() {
        assert_eq!(Unit::Clients.text(1), "1 client");
        assert_eq!(Unit::Clients.text(64), "64 clients");
        assert_eq!(Unit::OpsPerSecond.text(500), "500/s");
    }
}
