//! The nodes' processes: spawning, stopping, freezing, limiting.

use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::handle::Cluster;
use crate::disk::{DiskLimits, DiskThrottle};
use crate::error::{Result, invalid};
use crate::guard::Guard;
use crate::process::{Process, RunState};
use crate::{cgroup, disk, node, process, state};

const TERM_PATIENCE: Duration = Duration::from_secs(30);
const KILL_PATIENCE: Duration = Duration::from_secs(10);
const PAUSE_PATIENCE: Duration = Duration::from_secs(10);

impl Cluster {
    /// Stops node `number` gracefully (SIGTERM) and waits.
    pub fn stop(&mut self, number: u16) -> Result<()> {
        self.state.node(number)?;
        self.say(format!("stopping node {number}"));
        self.end(&[number])
    }

    /// Kills node `number` at once (SIGKILL).
    pub fn kill(&mut self, number: u16) -> Result<()> {
        if let Some(process) = self.process(number)? {
            process.signal(Signal::KILL)?;
            process.wait_gone(KILL_PATIENCE);
        }
        self.reap(number);
        Ok(())
    }

    /// Freezes node `number` (SIGSTOP): its connections stay open, but it does not respond.
    pub fn pause(&self, number: u16) -> Result<()> {
        self.signal_running(number, Signal::STOP)?;
        let stopped = self
            .process(number)?
            .is_none_or(|process| process.wait_paused(PAUSE_PATIENCE));
        if stopped {
            return Ok(());
        }
        Err(invalid(format!(
            "node {number} has not stopped within {PAUSE_PATIENCE:?} of SIGSTOP"
        )))
    }

    /// Resumes a frozen node (SIGCONT).
    pub fn resume(&self, number: u16) -> Result<()> {
        self.signal_running(number, Signal::CONT)
    }

    /// Limits node `number` to `cores` cores; none lifts the limit. It survives restarts.
    pub fn cpu_cap(&mut self, number: u16, cores: Option<f64>) -> Result<()> {
        let group = self.group(number);
        let process = self.process(number)?.filter(Process::is_alive);
        if let Some(process) = process {
            // Groups with processes cannot be removed, so a lifted limit is one that never applies.
            let all_cores = thread::available_parallelism().map_or(1024, usize::from);
            match cores {
                Some(cores) => cgroup::cap(&group, process.pid, cores)?,
                None if self.state.node(number)?.cpu_cores.is_some() => {
                    cgroup::cap(&group, process.pid, all_cores as f64)?;
                }
                None => {}
            }
        }
        self.state.node_mut(number)?.cpu_cores = cores;
        self.state.save(&self.dir)
    }

    /// Has process `pid` share the CPU limit of node `number`, which must have one
    /// ([`Self::cpu_cap`]). It must have ended before the cluster is taken down.
    pub fn share_cpu_cap(&self, number: u16, pid: u32) -> Result<()> {
        if self.state.node(number)?.cpu_cores.is_none() {
            return Err(invalid(format!("node {number} has no CPU limit to share")));
        }
        cgroup::join(&self.group(number), pid)
    }

    /// Limits how node `number` uses the disk that it is on, until its process ends. Earlier limits are
    /// lifted.
    pub fn disk_cap(&self, number: u16, limits: DiskLimits) -> Result<DiskThrottle> {
        match self.process(number)?.filter(Process::is_alive) {
            Some(process) => {
                let group = self.group(number);
                disk::cap(&group, process.pid, &self.dir, limits)
            }
            None => Err(invalid(format!("node {number} is not running"))),
        }
    }

    /// Has process `pid` share the limits of node `number` on the use of its disk ([`Self::disk_cap`]). It
    /// must have ended before the cluster is taken down.
    pub fn share_disk_cap(&self, number: u16, pid: u32) -> Result<()> {
        self.state.node(number)?;
        disk::join(&self.group(number), pid)
    }

    /// Has the kernel drop what it has cached of a keyspace's data files on all nodes, which is all that
    /// has been flushed. Nodes should read them with `disk_access_mode: mmap_index_only`.
    pub fn evict(&self, keyspace: &str) -> Result<()> {
        for number in self.nodes() {
            let folder = state::node_dir(&self.dir, number);
            disk::evict(&folder.join("data").join(keyspace))?;
        }
        Ok(())
    }

    pub(super) fn spawn(&mut self, number: u16) -> Result<()> {
        self.reap(number);
        let node = self.state.node(number)?;
        let child = node::spawn(&self.state, node, &self.dir, &self.lib)?;
        let process = Process::of_pid(child.id());
        self.children.insert(number, child);
        let node = self.state.node_mut(number)?;
        node.process = process;
        let cores = node.cpu_cores;
        self.state.save(&self.dir)?;
        if let (Some(process), Some(cores)) = (process, cores) {
            cgroup::cap(&self.group(number), process.pid, cores)?;
        }
        Ok(())
    }

    /// SIGTERM to all of `numbers`, then, after a wait, SIGKILL.
    pub(super) fn end(&mut self, numbers: &[u16]) -> Result<()> {
        let mut ending = Vec::new();
        for &number in numbers {
            if let Some(process) = self.process(number)? {
                // A frozen process would handle the signal only when resumed.
                if process.signal(Signal::TERM)? {
                    process.signal(Signal::CONT)?;
                }
                ending.push(process);
            }
        }
        for process in ending {
            if !process.wait_gone(TERM_PATIENCE) {
                process.signal(Signal::KILL)?;
                process.wait_gone(KILL_PATIENCE);
            }
        }
        for &number in numbers {
            self.reap(number);
        }
        Ok(())
    }

    /// Ends processes of this cluster that are not in the state: a caller crashed between starting
    /// one and recording it.
    pub(super) fn end_unknown(&self) -> Result<()> {
        let mut known: Vec<u32> = self
            .state
            .nodes
            .iter()
            .filter_map(|node| Some(node.process?.pid))
            .collect();
        known.extend(self.guard.as_ref().map(Guard::pid));
        end_orphans(&self.dir, &known, &*self.progress)
    }

    pub(super) fn reap(&mut self, number: u16) {
        if let Some(child) = self.children.get_mut(&number)
            && !matches!(child.try_wait(), Ok(None))
        {
            self.children.remove(&number);
        }
    }

    pub(super) fn run_state(&self, number: u16) -> Result<RunState> {
        let process = self.process(number)?;
        Ok(process.map_or(RunState::Gone, |process| process.state()))
    }

    pub(super) fn running(&self) -> Vec<u16> {
        let nodes = self.state.nodes.iter();
        nodes
            .filter(|node| node.process.is_some_and(|p| p.state() == RunState::Running))
            .map(|node| node.number)
            .collect()
    }

    fn signal_running(&self, number: u16, signal: Signal) -> Result<()> {
        let sent = match self.process(number)? {
            Some(process) => process.signal(signal)?,
            None => false,
        };
        if sent {
            return Ok(());
        }
        Err(invalid(format!(
            "node {number} is not running; start it with `helenus cluster start {number}`"
        )))
    }

    pub(super) fn group(&self, number: u16) -> String {
        let [a, b, c] = self.state.ip_prefix;
        format!("helenus-{a}.{b}.{c}.{number}")
    }
}

/// Ends stray nodes of a folder.
pub(super) fn end_orphans(dir: &Path, known: &[u32], progress: &dyn Fn(&str)) -> Result<()> {
    for orphan in process::with_argument(&node::cluster_mark(dir)) {
        if known.contains(&orphan.pid) {
            continue;
        }
        progress(&format!(
            "killing process {}, a node of this folder left over from an earlier run",
            orphan.pid
        ));
        orphan.signal(Signal::KILL)?;
        orphan.wait_gone(KILL_PATIENCE);
    }
    Ok(())
}
