//! nodetool on the nodes that this program started.

use anyhow::{Context, Result, bail};
use helenus_cluster::Cluster;
use std::process::Stdio;

/// Runs a command on all nodes at the same time, and waits for its end.
pub(crate) fn nodetool(cluster: &Cluster, arguments: &[&str]) -> Result<()> {
    let mut running = Vec::new();
    for number in cluster.nodes() {
        let mut command = cluster.nodetool_command(number, arguments)?;
        let piped = command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = piped.stderr(Stdio::piped()).spawn();
        running.push((number, child.context("cannot start nodetool")?));
    }
    for (number, child) in running {
        let output = child.wait_with_output().context("nodetool was lost")?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            let what = arguments.join(" ");
            bail!("nodetool {what} on node {number} failed: {}", told.trim());
        }
    }
    Ok(())
}
