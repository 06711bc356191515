//! `helenus probe-storage`: measures the storage of a folder in a process of its own, so that it can be held
//! back as a node is. For experiments; hidden from the help.

use anyhow::{Context, Result, ensure};
use clap::Args;
use helenus_cluster::Cluster;
use helenus_load::storage::{Figures, Measure, Storage};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Measure the storage of a folder and print the figures as JSON.
#[derive(Args, Debug)]
pub struct ProbeArgs {
    folder: PathBuf,
}

/// Starts with the first byte of the input, so that it can be moved into a control group before.
///
/// # Errors
/// The storage cannot be measured.
pub fn run(args: &ProbeArgs) -> Result<()> {
    let mut first = [0];
    if std::io::stdin().read(&mut first)? == 0 {
        return Ok(());
    }
    let storage = Storage::of(&args.folder, None, Measure::Anew);
    let figures = storage.figures.with_context(|| {
        storage
            .not_measured
            .unwrap_or_else(|| "there are no figures".into())
    })?;
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

/// Measures the storage of a cluster's folder under the limits on the disk of one of its nodes.
pub(crate) async fn measure_capped(cluster: &Cluster, node: u16) -> Result<Figures> {
    let myself = std::env::current_exe().context("cannot find this program's own file")?;
    let mut child = Command::new(myself)
        .arg("probe-storage")
        .arg(cluster.dir())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start `helenus probe-storage`")?;
    let mut input = child.stdin.take().context("it has no input")?;
    let joined = cluster.share_disk_cap(node, child.id());
    if joined.is_ok() {
        input.write_all(b".").context("it has ended")?;
    }
    drop(input);
    let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await;
    let output = output.context("the thread that waits for it failed")??;
    joined?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    serde_json::from_slice(&output.stdout).context("it printed no figures")
}
