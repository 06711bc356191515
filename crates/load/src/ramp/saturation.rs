//! Which of the resources that were looked at was the limit.

use super::evidence::{Kind, Use};
use crate::report::svg::number;
use serde::{Deserialize, Serialize};

/// From this share of its capacity on, a resource counts as saturated: means over seconds hide
/// shorter moments in which it is full.
const SATURATED: f64 = 0.85;
/// Of an interface's nominal speed, because headers are not counted.
const NETWORK_SATURATED: f64 = 0.7;
/// Share of periods in which a CPU limit held a process back.
const HELD_BACK: f64 = 0.5;
/// Cores that other processes may use without a warning; the kernel's own work is among them.
const OTHERS: f64 = 0.3;

/// The resources that limited throughput at the peak.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Saturation {
    /// The likely cause first. Thread pools come last, because they also fill up when something
    /// else is slow.
    pub saturated: Vec<Use>,
    /// All that was looked at, at the peak.
    pub evidence: Vec<Use>,
}

impl Saturation {
    /// `evidence`: medians at the peak.
    pub fn of(evidence: Vec<Use>) -> Self {
        let mut saturated: Vec<Use> = evidence
            .iter()
            .filter(|each| is_saturated(each))
            .cloned()
            .collect();
        let share = |each: &Use| each.share().unwrap_or(0.0);
        saturated.sort_by(|one, other| {
            let by_share = share(other).total_cmp(&share(one));
            one.kind.cmp(&other.kind).then(by_share)
        });
        Self {
            saturated,
            evidence,
        }
    }

    /// One sentence a line.
    pub fn describe(&self) -> Vec<String> {
        let Some(first) = self.saturated.first() else {
            let looked = match self.evidence.is_empty() {
                true => "nothing could be looked at".to_owned(),
                false => "none of what was looked at was full".to_owned(),
            };
            return vec![format!(
                "{looked}: the limit is waiting, a lock, or a machine that is not visible from here"
            )];
        };
        let mut lines: Vec<String> = self.saturated.iter().map(describe).collect();
        let machine = self
            .saturated
            .iter()
            .find(|each| each.kind == Kind::MachineCpu);
        lines.extend(machine.map(|machine| self.cores_in_use(machine.used)));
        let client = self
            .evidence
            .iter()
            .find(|each| each.kind == Kind::ClientCpu);
        let client = client.map_or(0.0, |client| client.used);
        let others = machine.map_or(0.0, |machine| machine.used - self.known_cores());
        if others > client && others > OTHERS {
            lines.push(
                "other processes took much of this machine's CPU: repeat it when they are quiet"
                    .into(),
            );
        } else if matches!(first.kind, Kind::ClientCpu | Kind::MachineCpu) {
            lines.push(
                "the client is on a machine that was full, so this knee may be the client's: \
                 run it elsewhere, or on more cores"
                    .into(),
            );
        }
        lines
    }

    /// In use by the watched processes.
    fn known_cores(&self) -> f64 {
        let processes = self.evidence.iter().filter(|each| is_process(each));
        processes.map(|each| each.used).sum()
    }

    /// Which processes use the machine's cores, the others as one.
    fn cores_in_use(&self, all: f64) -> String {
        let mut named: Vec<(&str, f64)> = self
            .evidence
            .iter()
            .filter(|each| is_process(each))
            .map(|each| (&*each.name, each.used))
            .collect();
        named.push(("others", (all - self.known_cores()).max(0.0)));
        named.sort_by(|one, other| other.1.total_cmp(&one.1));
        let named = named
            .iter()
            .map(|(name, used)| format!("{name} {}", number(*used)));
        format!("cores in use: {}", Vec::from_iter(named).join(", "))
    }
}

fn is_process(each: &Use) -> bool {
    use Kind::{ClientCpu, NodeCpu, OtherCpu, ProxyCpu};
    matches!(each.kind, NodeCpu | ProxyCpu | ClientCpu | OtherCpu)
}

fn is_saturated(each: &Use) -> bool {
    let share = each.share().unwrap_or(0.0);
    let waiting = each.waiting.unwrap_or(0.0);
    match each.kind {
        Kind::ThreadPool => share >= SATURATED && waiting >= 1.0,
        Kind::Network => share >= NETWORK_SATURATED,
        Kind::MachineCpu | Kind::Disk => share >= SATURATED,
        _ => share >= SATURATED || waiting >= HELD_BACK,
    }
}

/// How much of it was used.
pub fn describe(each: &Use) -> String {
    let of = |unit: &str| match each.capacity {
        Some(capacity) => format!("{} of {} {unit}", number(each.used), number(capacity)),
        None => format!("{} {unit}", number(each.used)),
    };
    let name = &each.name;
    match each.kind {
        Kind::ThreadPool => {
            let waiting = each.waiting.unwrap_or(0.0);
            format!(
                "{name}: {}, {} tasks waiting",
                of("threads"),
                number(waiting)
            )
        }
        Kind::Disk => format!("disk {name}: busy {:.0} % of the time", each.used * 100.0),
        Kind::Network => format!("network {name}: {}", of("bytes/s")),
        _ => {
            let held_back = each.waiting.map_or(String::new(), |share| {
                format!(
                    ", held back by its limit in {:.0} % of all periods",
                    share * 100.0
                )
            });
            format!("CPU of {name}: {}{held_back}", of("cores"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn using(kind: Kind, name: &str, used: f64, capacity: f64, waiting: Option<f64>) -> Use {
        Use {
            kind,
            name: name.into(),
            used,
            capacity: Some(capacity),
            waiting,
        }
    }

    #[test]
    fn a_node_at_its_limit_comes_before_the_pool_that_it_fills() {
        let saturation = Saturation::of(vec![
            using(Kind::ThreadPool, "ReadStage of a", 32.0, 32.0, Some(9.0)),
            using(Kind::ClientCpu, "client", 0.4, 2.0, None),
            using(Kind::NodeCpu, "node 1", 0.34, 0.35, Some(0.9)),
        ]);
        let names: Vec<&str> = saturation
            .saturated
            .iter()
            .map(|each| &*each.name)
            .collect();
        assert_eq!(names, ["node 1", "ReadStage of a"]);
        let lines = saturation.describe();
        assert!(
            lines[0].contains("0.34 of 0.35 cores, held back by its limit in 90 %"),
            "{lines:?}"
        );
        assert!(
            !lines.iter().any(|line| line.contains("run it elsewhere")),
            "{lines:?}"
        );
    }

    #[test]
    fn a_limit_that_holds_back_counts_even_if_the_mean_is_low() {
        let held = using(Kind::NodeCpu, "node 1", 0.2, 0.35, Some(0.6));
        assert_eq!(Saturation::of(vec![held]).saturated.len(), 1);
        let idle = using(Kind::NodeCpu, "node 1", 0.2, 0.35, Some(0.1));
        assert!(Saturation::of(vec![idle]).saturated.is_empty());
    }

    #[test]
    fn a_full_machine_is_blamed_with_its_processes_and_a_warning() {
        let lines = Saturation::of(vec![
            using(Kind::MachineCpu, "machine", 1.98, 2.0, None),
            using(Kind::ClientCpu, "client", 0.6, 2.0, None),
            using(Kind::NodeCpu, "node 1", 1.2, 2.0, None),
        ])
        .describe();
        assert_eq!(
            lines[1],
            "cores in use: node 1 1.20, client 0.60, others 0.18"
        );
        assert!(lines[2].contains("run it elsewhere"), "{lines:?}");
    }

    #[test]
    fn other_processes_that_filled_the_machine_are_not_taken_for_the_client() {
        let lines = Saturation::of(vec![
            using(Kind::MachineCpu, "machine", 2.0, 2.0, None),
            using(Kind::ClientCpu, "client", 0.1, 2.0, None),
        ])
        .describe();
        assert!(
            lines[1].starts_with("cores in use: others 1.90"),
            "{lines:?}"
        );
        assert!(lines[2].contains("when they are quiet"), "{lines:?}");
    }

    #[test]
    fn full_pools_without_waiting_tasks_and_unknown_capacities_prove_nothing() {
        let mut network = using(Kind::Network, "eth0", 9e9, 1.0, None);
        network.capacity = None;
        let full = using(Kind::ThreadPool, "p", 32.0, 32.0, Some(0.0));
        let saturation = Saturation::of(vec![network, full]);
        assert!(saturation.saturated.is_empty());
        assert!(saturation.describe()[0].contains("none of what was looked at"));
        let blind = Saturation::of(Vec::new()).describe();
        assert!(blind[0].contains("nothing could be looked at"), "{blind:?}");
    }
}
