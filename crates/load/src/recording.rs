//! Records of one slice of a run, before they are summarised as a [`Phase`].
//!
//! A machine drifts: a compiler warms up, a disk gets busy. Arms measured seconds apart see
//! different machines. So a cell can be cut into many short slices in which the arms take turns;
//! the slices of an arm are merged here as if they had been one run.

use crate::measure::{Phase, ProcessUse, Recorder};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug)]
pub struct Recording {
    pub recorder: Recorder,
    /// Measured time.
    pub window: Duration,
    /// Per process: CPU time spent in the window, and resident KiB at its end. CPU time is reported
    /// in clock ticks; the rounding errors of slices cancel out in the sum.
    pub processes: BTreeMap<String, (Duration, u64)>,
}

impl Recording {
    /// Adds a later slice of the same workload.
    pub fn merge(&mut self, later: Recording) {
        self.recorder.merge(&later.recorder);
        self.window += later.window;
        for (name, (cpu, resident_kib)) in later.processes {
            let mine = self.processes.entry(name).or_default();
            *mine = (mine.0 + cpu, resident_kib);
        }
    }

    pub fn into_phase(self, kinds: &[&str]) -> Phase {
        self.into_phase_at_cost(kinds, None)
    }

    /// For `failure_cost` see [`Recorder::into_phase`].
    pub fn into_phase_at_cost(self, kinds: &[&str], failure_cost: Option<Duration>) -> Phase {
        let mut phase = self.recorder.into_phase(kinds, self.window, failure_cost);
        let answered = (phase.ops + phase.errors_total()).max(1) as f64;
        for (name, (cpu, resident_kib)) in self.processes {
            let cpu_seconds = cpu.as_secs_f64();
            let used = ProcessUse {
                cpu_seconds,
                cpu_us_per_op: cpu_seconds * 1e6 / answered,
                resident_kib,
            };
            phase.processes.insert(name, used);
        }
        phase
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(latency_us: u64, ops: usize, cpu_ms: u64, resident_kib: u64) -> Recording {
        let mut recorder = Recorder::new(1);
        for _ in 0..ops {
            recorder.record(0, Duration::from_micros(latency_us), Ok(()));
        }
        recorder.record(0, Duration::ZERO, Err("overloaded"));
        let used = (Duration::from_millis(cpu_ms), resident_kib);
        Recording {
            recorder,
            window: Duration::from_millis(500),
            processes: BTreeMap::from([("proxy".into(), used)]),
        }
    }

    #[test]
    fn slices_add_up_to_one_phase() {
        let mut all = slice(100, 29, 10, 700);
        all.merge(slice(300, 69, 30, 900));
        let phase = all.into_phase(&["read"]);
        assert_eq!((phase.ops, phase.errors_total()), (98, 2));
        assert!((phase.seconds - 1.0).abs() < 1e-9);
        assert!((phase.ops_per_second - 98.0).abs() < 1e-9);
        assert_eq!(phase.latency.us_p50, 300);
        let proxy = &phase.processes["proxy"];
        assert!((proxy.cpu_us_per_op - 400.0).abs() < 1e-9);
        assert_eq!(proxy.resident_kib, 900);
    }
}
