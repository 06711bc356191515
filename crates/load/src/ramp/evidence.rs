//! Resources in use during a window: CPU of processes, their limits, the machine's disk and network.

use super::cgroup::{CpuLimit, Periods};
use crate::measure::Phase;
use crate::process::Watched;
use crate::report::spread::Spread;
use procfs::{CurrentSI, KernelStats};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Cores that a node uses, of its limit or of the machine's.
    NodeCpu,
    ProxyCpu,
    ClientCpu,
    OtherCpu,
    /// Cores in use, of all that the client's machine has; stolen time counts as used.
    MachineCpu,
    /// Share of time in which a disk of the client's machine was busy.
    Disk,
    /// Bytes per second over a network interface of the client's machine, one direction.
    Network,
    /// Threads of a node's pool at work.
    ThreadPool,
}

/// How much of something was used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Use {
    pub kind: Kind,
    pub name: String,
    pub used: f64,
    /// None if unknown.
    pub capacity: Option<f64>,
    /// Of a CPU limit: share of periods, from 0 to 1, in which the process was held back. Of a
    /// thread pool: tasks waiting.
    pub waiting: Option<f64>,
}

impl Use {
    /// From 0 to 1; None if the capacity is unknown.
    pub fn share(&self) -> Option<f64> {
        let capacity = self.capacity.filter(|&capacity| capacity > 0.0)?;
        Some(self.used / capacity)
    }

    /// Medians over windows.
    pub fn medians(windows: &[Vec<Use>]) -> Vec<Use> {
        let mut named: BTreeMap<(Kind, &str), Vec<&Use>> = BTreeMap::new();
        for each in windows.iter().flatten() {
            named.entry((each.kind, &each.name)).or_default().push(each);
        }
        let median = |uses: &[&Use], of: &dyn Fn(&Use) -> Option<f64>| {
            let values: Vec<f64> = uses.iter().filter_map(|each| of(each)).collect();
            Spread::of(&values).map(|spread| spread.median)
        };
        let merged = named.into_iter().map(|((kind, name), uses)| Use {
            kind,
            name: name.to_owned(),
            used: median(&uses, &|each| Some(each.used)).unwrap_or(0.0),
            capacity: median(&uses, &|each| each.capacity),
            waiting: median(&uses, &|each| each.waiting),
        });
        merged.collect()
    }
}

/// The watched processes and their CPU limits.
#[derive(Clone, Debug)]
pub struct Probe {
    pub watched: Vec<Watched>,
    limits: BTreeMap<String, CpuLimit>,
    cores: f64,
}

/// Counters at the start of a window.
#[derive(Debug)]
pub struct Mark {
    at: Instant,
    periods: BTreeMap<String, Periods>,
    machine: Counters,
}

/// Of the machine since it was started. Empty where they cannot be read.
#[derive(Clone, Debug, Default)]
struct Counters {
    /// Clock ticks of all cores: in use, and in all.
    cpu: Option<(u64, u64)>,
    /// Milliseconds in which a disk was busy.
    disks: BTreeMap<String, u64>,
    /// Bytes received and sent.
    interfaces: BTreeMap<String, (u64, u64)>,
}

impl Probe {
    pub fn new(watched: Vec<Watched>) -> Self {
        let limits = watched
            .iter()
            .filter_map(|process| Some((process.name.clone(), CpuLimit::of(process.pid)?)))
            .collect();
        Self {
            watched,
            limits,
            cores: std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64),
        }
    }

    pub fn mark(&self) -> Mark {
        Mark {
            at: Instant::now(),
            periods: self.periods(),
            machine: Counters::now(),
        }
    }

    fn periods(&self) -> BTreeMap<String, Periods> {
        let limits = self.limits.iter();
        limits
            .filter_map(|(name, limit)| Some((name.clone(), limit.periods()?)))
            .collect()
    }

    /// Use of resources since `mark`; CPU time of processes as recorded in the phase.
    pub fn since(&self, mark: &Mark, phase: &Phase) -> Vec<Use> {
        let mut uses = self.processes(mark, phase);
        let seconds = mark.at.elapsed().as_secs_f64();
        uses.extend(mark.machine.until(&Counters::now(), seconds, self.cores));
        uses
    }

    fn processes(&self, mark: &Mark, phase: &Phase) -> Vec<Use> {
        let now = self.periods();
        let each = phase.processes.iter().map(|(name, used)| {
            let throttled = || {
                let (before, after) = (mark.periods.get(name)?, now.get(name)?);
                let all = after.all.saturating_sub(before.all);
                let held_back = after.throttled.saturating_sub(before.throttled);
                (all > 0).then(|| held_back as f64 / all as f64)
            };
            Use {
                kind: kind_of(name),
                name: name.clone(),
                used: used.cpu_seconds / phase.seconds.max(1e-9),
                capacity: Some(
                    self.limits
                        .get(name)
                        .map_or(self.cores, |limit| limit.cores),
                ),
                waiting: throttled(),
            }
        });
        each.collect()
    }
}

fn kind_of(process: &str) -> Kind {
    match process {
        "client" => Kind::ClientCpu,
        "proxy" => Kind::ProxyCpu,
        name if name.starts_with("node") => Kind::NodeCpu,
        _ => Kind::OtherCpu,
    }
}

impl Counters {
    fn now() -> Self {
        let cpu = KernelStats::current().ok().map(|stats| {
            let time = stats.total;
            let idle = time.idle + time.iowait.unwrap_or(0);
            let others = [time.irq, time.softirq, time.steal];
            let used: u64 = others.into_iter().flatten().sum();
            let used = used + time.user + time.nice + time.system;
            (used, used + idle)
        });
        let disks = procfs::diskstats().unwrap_or_default().into_iter();
        let interfaces = procfs::net::dev_status().unwrap_or_default().into_iter();
        Self {
            cpu,
            // Not partitions and images, whose time is part of a disk's.
            disks: disks
                .filter(|disk| {
                    fs::exists(format!("/sys/block/{}/device", disk.name)).unwrap_or(false)
                })
                .map(|disk| (disk.name, disk.time_in_progress))
                .collect(),
            interfaces: interfaces
                .filter(|(name, _)| name != "lo")
                .map(|(name, status)| (name, (status.recv_bytes, status.sent_bytes)))
                .collect(),
        }
    }

    fn until(&self, later: &Self, seconds: f64, cores: f64) -> Vec<Use> {
        let plain = |kind, name: &str, used, capacity| Use {
            kind,
            name: name.to_owned(),
            used,
            capacity,
            waiting: None,
        };
        let mut uses = Vec::new();
        if let (Some(before), Some(after)) = (self.cpu, later.cpu)
            && after.1 > before.1
        {
            let share = after.0.saturating_sub(before.0) as f64 / (after.1 - before.1) as f64;
            uses.push(plain(
                Kind::MachineCpu,
                "machine",
                share * cores,
                Some(cores),
            ));
        }
        let seconds = seconds.max(1e-9);
        for (name, &after) in &later.disks {
            let before = self.disks.get(name).copied().unwrap_or(after);
            let busy = after.saturating_sub(before) as f64 / 1000.0 / seconds;
            uses.push(plain(Kind::Disk, name, busy, Some(1.0)));
        }
        for (name, &after) in &later.interfaces {
            let before = self.interfaces.get(name).copied().unwrap_or(after);
            let more = after
                .0
                .saturating_sub(before.0)
                .max(after.1.saturating_sub(before.1));
            if more > 0 {
                let per_second = more as f64 / seconds;
                uses.push(plain(
                    Kind::Network,
                    name,
                    per_second,
                    bytes_per_second(name),
                ));
            }
        }
        uses
    }
}

/// Capacity of an interface in one direction, if it tells.
fn bytes_per_second(interface: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?;
    let mbit: f64 = text.trim().parse().ok()?;
    (mbit > 0.0).then(|| mbit * 1e6 / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{ProcessUse, Recorder};
    use std::time::Duration;

    #[test]
    fn cpu_time_becomes_cores_and_names_say_whose() {
        let mut phase = Recorder::new(1).into_phase(&["x"], Duration::from_secs(2), None);
        for (name, cpu_seconds) in [
            ("client", 1.0),
            ("node 2", 3.0),
            ("proxy", 0.5),
            ("db", 0.1),
        ] {
            let used = ProcessUse {
                cpu_seconds,
                cpu_us_per_op: 0.0,
                resident_kib: 0,
            };
            phase.processes.insert(name.into(), used);
        }
        let probe = Probe::new(vec![Watched::new("nobody", u32::MAX)]);
        let uses = probe.processes(&probe.mark(), &phase);
        let find = |kind| uses.iter().find(|each| each.kind == kind).unwrap();
        assert_eq!(
            (find(Kind::NodeCpu).used, find(Kind::ClientCpu).used),
            (1.5, 0.5)
        );
        assert_eq!(find(Kind::ProxyCpu).capacity, Some(probe.cores));
        assert_eq!(find(Kind::OtherCpu).name, "db");
    }

    #[test]
    fn counters_become_shares_and_rates() {
        let before = Counters {
            cpu: Some((100, 400)),
            disks: BTreeMap::from([("vda".into(), 1_000)]),
            interfaces: BTreeMap::from([("none0".into(), (10, 0))]),
        };
        let after = Counters {
            cpu: Some((250, 600)),
            disks: BTreeMap::from([("vda".into(), 2_500), ("new".into(), 9)]),
            interfaces: BTreeMap::from([("none0".into(), (30, 500))]),
        };
        let uses = before.until(&after, 2.0, 4.0);
        let used: Vec<(&str, f64)> = uses.iter().map(|each| (&*each.name, each.used)).collect();
        let expected = [
            ("machine", 3.0),
            ("new", 0.0),
            ("vda", 0.75),
            ("none0", 250.0),
        ];
        assert_eq!(used, expected);
        assert_eq!(uses[0].share(), Some(0.75));
        assert_eq!(uses[3].share(), None, "its speed is unknown");
        assert!(
            before
                .until(&before, 0.0, 4.0)
                .iter()
                .all(|each| each.used == 0.0)
        );
    }

    #[test]
    fn the_machine_can_be_read() {
        let counters = Counters::now();
        assert!(
            counters
                .cpu
                .is_some_and(|(used, all)| used > 0 && used <= all)
        );
    }

    #[test]
    fn medians_ignore_a_disturbed_window_and_keep_what_is_missing_missing() {
        let one = |used, waiting| {
            vec![Use {
                kind: Kind::NodeCpu,
                name: "node 1".into(),
                used,
                capacity: None,
                waiting,
            }]
        };
        let merged = Use::medians(&[one(0.3, Some(0.8)), one(0.4, None), one(9.0, Some(0.6))]);
        assert_eq!(merged.len(), 1);
        assert_eq!((merged[0].used, merged[0].capacity), (0.4, None));
        assert!((merged[0].waiting.unwrap() - 0.7).abs() < 1e-9);
    }
}
