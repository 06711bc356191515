//! The experiment's faults of the nodes that this program started.

use super::compactions::Compactions;
use super::relay::Relays;
use anyhow::{Context, Result, ensure};
use helenus_cluster::{Cluster, DiskLimits};
use helenus_load::experiments::assignment::Faults;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How much is done to a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Severity {
    /// Round trip that a slow network adds.
    pub delay: Duration,
    /// Processes on each stressed node.
    pub processes: u32,
    /// Of a slow disk.
    pub disk_reads_per_second: u32,
}

/// Everything that it started ends when it is dropped; a frozen node is ended with its cluster.
pub(super) struct ClusterFaults<'a> {
    cluster: Option<&'a Cluster>,
    /// In front of the nodes, in their order, if the network can be slow.
    relays: Option<&'a Relays>,
    severity: Severity,
    /// All of the table is on the nodes' disks.
    flushed: bool,
    busy: Vec<Child>,
    compactions: Option<Compactions>,
}

impl<'a> ClusterFaults<'a> {
    pub(super) fn new(
        cluster: Option<&'a Cluster>,
        relays: Option<&'a Relays>,
        severity: Severity,
    ) -> Self {
        Self {
            cluster,
            relays,
            severity,
            flushed: false,
            busy: Vec::new(),
            compactions: None,
        }
    }

    fn cluster(&self) -> Result<&'a Cluster> {
        self.cluster
            .context("only nodes that this command started can be stressed or frozen")
    }

    /// Every second node: of three the second, of four the second and the fourth.
    fn affected(cluster: &Cluster) -> Result<Vec<u16>> {
        let nodes: Vec<u16> = cluster.nodes().into_iter().skip(1).step_by(2).collect();
        ensure!(!nodes.is_empty(), "at least two nodes are needed");
        Ok(nodes)
    }

    fn end_busy(&mut self) {
        for child in &mut self.busy {
            // An error only means that it has exited already.
            let _ = child.kill();
        }
        for mut child in self.busy.drain(..) {
            let _ = child.wait();
        }
    }
}

impl Faults for ClusterFaults<'_> {
    fn stress(&mut self) -> Result<()> {
        let cluster = self.cluster()?;
        let myself = std::env::current_exe().context("cannot find this program's own file")?;
        for node in Self::affected(cluster)? {
            for _ in 0..self.severity.processes {
                let child = Command::new(&myself)
                    .arg("busy")
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .context("cannot start `helenus busy`")?;
                let pid = child.id();
                self.busy.push(child);
                cluster.share_cpu_cap(node, pid)?;
            }
        }
        // All at once, now that each is limited.
        for child in &mut self.busy {
            if let Some(input) = &mut child.stdin {
                input.write_all(b"!").context("`helenus busy` has ended")?;
            }
        }
        Ok(())
    }

    fn relax(&mut self) -> Result<()> {
        self.end_busy();
        Ok(())
    }

    fn freeze(&mut self) -> Result<()> {
        let cluster = self.cluster()?;
        let node = Self::affected(cluster)?[0];
        Ok(cluster.pause(node)?)
    }

    fn thaw(&mut self) -> Result<()> {
        let cluster = self.cluster()?;
        let node = Self::affected(cluster)?[0];
        Ok(cluster.resume(node)?)
    }

    fn compact(&mut self, keyspace: &str, compacts: bool) -> Result<()> {
        let Some(compactions) = self.compactions.take() else {
            ensure!(compacts, "nothing compacts");
            let cluster = self.cluster()?;
            let node = Self::affected(cluster)?[0];
            let command = |what| cluster.nodetool_command(node, &[what, keyspace]);
            self.compactions = Some(Compactions::start(command("flush")?, command("compact")?));
            return Ok(());
        };
        ensure!(!compacts, "it compacts already");
        compactions.end()
    }

    fn slow_network(&mut self, is_slow: bool) -> Result<()> {
        let cluster = self.cluster()?;
        let node = Self::affected(cluster)?[0];
        let relays = self.relays.context("there are no relays")?;
        let place = cluster.nodes().iter().position(|&number| number == node);
        let delay = if is_slow {
            self.severity.delay / 2
        } else {
            Duration::ZERO
        };
        relays.delay(place.context("no such node")?, delay);
        Ok(())
    }

    fn flush(&mut self, keyspace: &str) -> Result<()> {
        let cluster = self.cluster()?;
        // Nothing writes to the table any more.
        if !std::mem::replace(&mut self.flushed, true) {
            for node in cluster.nodes() {
                cluster.nodetool(node, &["flush", keyspace])?;
            }
        }
        Ok(())
    }

    fn evict(&mut self, keyspace: &str) -> Result<()> {
        Ok(self.cluster()?.evict(keyspace)?)
    }

    fn slow_disk(&mut self, is_slow: bool) -> Result<()> {
        let cluster = self.cluster()?;
        let node = Self::affected(cluster)?[0];
        let limits = DiskLimits {
            reads: is_slow.then_some(self.severity.disk_reads_per_second.into()),
            ..DiskLimits::default()
        };
        cluster.disk_cap(node, limits)?;
        Ok(())
    }
}

impl Drop for ClusterFaults<'_> {
    fn drop(&mut self) {
        self.end_busy();
    }
}
