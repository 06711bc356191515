//! Nodes' reports of themselves (docs/agent.md): received by the shell, shared by all workers, which look at them
//! once a tick and without a lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use helenus_policy::choice;
use helenus_policy::ring::NodeIndex;

use crate::stats::{add, sub};

/// A node's use of its resources. Shares are 0 to 1, `None` if the node cannot measure them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Resources {
    /// Of the processors that the node may use: by it and all that shares them with it.
    pub cpu: Option<f32>,
    /// Of these processors, by Cassandra alone.
    pub cpu_process: Option<f32>,
    /// Of all processors of the machine.
    pub cpu_machine: Option<f32>,
    /// Of the time in which the busiest disk had something to do.
    pub disk: Option<f32>,
    /// Of the time in which the collector stopped the node.
    pub collecting: Option<f32>,
    /// Mean number of requests at that disk.
    pub disk_queue: f32,
    /// Processors that the node may use.
    pub cores: f32,
    pub heap_used: u64,
    pub heap_max: u64,
    pub collected_ms: u64,
    pub read_pending: u32,
    pub read_active: u32,
    pub read_max: u32,
    pub mutation_pending: u32,
    pub mutation_active: u32,
    pub mutation_max: u32,
    pub compactions_pending: u32,
}

impl Resources {
    /// The share of the heap in use.
    pub fn memory(&self) -> Option<f32> {
        (self.heap_max > 0).then(|| (self.heap_used as f64 / self.heap_max as f64) as f32)
    }

    /// As replicas are chosen by; none without the parts that every such policy needs.
    fn as_choice(&self, at_us: u64) -> Option<choice::Report> {
        Some(choice::Report {
            at_us,
            cpu: self.cpu?,
            memory: self.memory()?,
            disk: self.disk.unwrap_or(0.0),
            queue: self.read_pending as f32,
            ..choice::Report::default()
        })
    }
}

/// One report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeReport {
    /// When it was measured, by this machine's clock.
    pub sampled: Instant,
    pub resources: Resources,
}

/// Why a report is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Not a report at all, or one with bytes that should be zero.
    Format,
    Version,
    Length,
    /// A value that cannot be true.
    Range,
    /// Not from who has proved to know the secret.
    Authenticator,
    /// Not newer than the one before.
    Sequence,
    /// Of another node.
    Identity,
    /// Too old when it came.
    Late,
    /// More came than an agent sends.
    Rate,
}

impl Rejected {
    pub const ALL: [Rejected; 9] = [
        Rejected::Format,
        Rejected::Version,
        Rejected::Length,
        Rejected::Range,
        Rejected::Authenticator,
        Rejected::Sequence,
        Rejected::Identity,
        Rejected::Late,
        Rejected::Rate,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Rejected::Format => "format",
            Rejected::Version => "version",
            Rejected::Length => "length",
            Rejected::Range => "range",
            Rejected::Authenticator => "authenticator",
            Rejected::Sequence => "sequence",
            Rejected::Identity => "identity",
            Rejected::Late => "late",
            Rejected::Rate => "rate",
        }
    }
}

/// The reports of one node.
#[derive(Debug, Default)]
pub struct NodeReports {
    latest: ArcSwapOption<NodeReport>,
    /// The node's reporter is connected and has proved to know the secret.
    pub is_connected: AtomicBool,
    pub received: AtomicU64,
    rejected: [AtomicU64; Rejected::ALL.len()],
    /// Workers to whom the last report contradicts what they see of the node.
    pub contradicted: AtomicU64,
}

impl NodeReports {
    pub fn latest(&self) -> Option<Arc<NodeReport>> {
        self.latest.load_full()
    }

    pub fn on_report(&self, report: NodeReport) {
        self.latest.store(Some(Arc::new(report)));
        add(&self.received, 1);
    }

    pub fn on_rejected(&self, why: Rejected) {
        add(&self.rejected[why as usize], 1);
    }

    pub fn rejected(&self, why: Rejected) -> u64 {
        self.rejected[why as usize].load(Ordering::Relaxed)
    }

    /// Reports are not wanted any more.
    pub fn forget(&self) {
        self.latest.store(None);
    }

    /// For one worker's choice of replicas: the last report, unless it has been `seen`.
    pub(crate) fn news(
        &self,
        seen: &mut Option<Instant>,
        now: Instant,
        now_us: u64,
    ) -> Option<choice::Report> {
        let latest = self.latest.load();
        let report = latest.as_ref().filter(|r| *seen != Some(r.sampled))?;
        *seen = Some(report.sampled);
        let age_us = now.saturating_duration_since(report.sampled).as_micros() as u64;
        // One from before this worker began has the age that it could have at most.
        report.resources.as_choice(now_us.saturating_sub(age_us))
    }

    /// One worker finds that the last report contradicts what it sees, or does no longer.
    pub(crate) fn note_contradicted(&self, before: bool, now: bool) {
        match (before, now) {
            (false, true) => add(&self.contradicted, 1),
            (true, false) => sub(&self.contradicted, 1),
            _ => {}
        }
    }
}

/// Those of all nodes.
#[derive(Debug, Default)]
pub struct Reports(RwLock<Vec<Arc<NodeReports>>>);

impl Reports {
    /// Those of a node, made on first use. Workers keep the `Arc`.
    pub fn of(&self, node: NodeIndex) -> Arc<NodeReports> {
        let mut nodes = match self.0.write() {
            Ok(nodes) => nodes,
            Err(poisoned) => poisoned.into_inner(),
        };
        if nodes.len() <= node.as_usize() {
            nodes.resize_with(node.as_usize() + 1, Arc::default);
        }
        nodes[node.as_usize()].clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::begin;

    fn report(sampled: Instant) -> NodeReport {
        let resources = Resources {
            cpu: Some(0.5),
            heap_used: 1,
            heap_max: 4,
            read_pending: 3,
            ..Resources::default()
        };
        NodeReport { sampled, resources }
    }

    #[test]
    fn each_worker_is_told_each_report_once_with_its_age() {
        let reports = Reports::default().of(NodeIndex(2));
        let (mut one, mut other) = (None, None);
        let began = begin();
        let now = began + Duration::from_secs(1);
        assert_eq!(reports.news(&mut one, now, 5_000_000), None);
        reports.on_report(report(began));
        for seen in [&mut one, &mut other] {
            let told = reports.news(seen, now, 5_000_000).expect("news");
            assert_eq!((told.at_us, told.cpu, told.memory), (4_000_000, 0.5, 0.25));
            assert_eq!((told.disk, told.queue), (0.0, 3.0));
            assert_eq!(reports.news(seen, now, 5_000_000), None);
        }
        reports.on_report(report(now));
        assert!(reports.news(&mut one, now, 5_000_000).is_some());
        reports.forget();
        assert_eq!(reports.news(&mut other, now, 5_000_000), None);
        assert_eq!(reports.received.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_report_without_cpu_or_memory_says_nothing_to_the_choice() {
        let whole = report(begin()).resources;
        assert!(whole.as_choice(1).is_some());
        let without_cpu = Resources { cpu: None, ..whole };
        let without_heap = Resources {
            heap_max: 0,
            ..whole
        };
        assert_eq!(without_cpu.as_choice(1), None);
        assert_eq!(without_heap.as_choice(1), None);
    }
}
