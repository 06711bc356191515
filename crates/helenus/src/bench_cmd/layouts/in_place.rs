//! Layouts in place of replicas: each node in a data center of its own, with a copy; and how long a lost copy
//! takes to come back.

use crate::nodetool::nodetool;
use anyhow::{Context, Result, bail, ensure};
use helenus_cluster::{Cluster, ClusterSpec, Consistency};
use helenus_load::layouts::{CLUSTERING, Copies, PARTITION};
use helenus_load::report::Report;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What a proxy needs to reach all copies.
pub(super) const SETTINGS: [&str; 2] = ["cluster.local_dc=dc1", "cluster.allow_remote_dc=true"];

pub(super) fn place(spec: ClusterSpec, nodes: u16) -> ClusterSpec {
    (1..=nodes).fold(spec, |spec, number| {
        spec.place(format!("dc{number}"), "rack1")
    })
}

/// The copies of an empty table, by the command that operators use.
pub(super) fn create(copies: &Copies, contact_points: &[String]) -> Result<()> {
    let mut arguments = vec!["create".to_owned(), table(copies)];
    arguments.extend(["--mode", "replace", "--no-proxies"].map(String::from));
    for (number, order) in copies.orders.iter().enumerate() {
        let columns: Vec<&str> = order.iter().map(|&column| CLUSTERING[column]).collect();
        let (columns, number) = (columns.join(","), number + 1);
        arguments.push("--layout".into());
        arguments.push(format!("{}={columns}@dc{number}", layout(number)));
    }
    layouts(&arguments, contact_points)
}

/// Once the single order's replica on the last node, restored by `nodetool repair`, and once the copy there,
/// restored by `helenus layouts rebuild` and proxies.
pub(super) fn lose_and_restore(
    cluster: &mut Cluster,
    single: &Copies,
    in_place: &Copies,
    report: &mut Report,
    say: &mut dyn FnMut(String),
) -> Result<()> {
    let number = *cluster.nodes().last().context("there is no node")?;
    say(format!("restoring the copy on node {number}"));
    let contact_points: Vec<String> = cluster
        .contact_points()
        .iter()
        .map(ToString::to_string)
        .collect();
    let began = Instant::now();
    let copy = layout(in_place.orders.len());
    let arguments = ["rebuild", &table(in_place), "--layout", &copy];
    layouts(&arguments.map(String::from), &contact_points)?;
    let rebuilt = began.elapsed();
    // Last, because a node that was restarted is slower at first.
    say(format!("losing the replica on node {number}"));
    nodetool(cluster, &["flush"])?;
    let rows = rows_at(cluster, number, single)?;
    cluster.stop(number)?;
    empty(&cluster.data_dir(number).join(&single.keyspace))?;
    cluster.start(number)?;
    say(format!("repairing the replica on node {number}"));
    let began = Instant::now();
    cluster.nodetool(number, &["repair", "-full", &single.keyspace])?;
    let repaired = began.elapsed();
    let restored = rows_at(cluster, number, single)?;
    ensure!(
        rows == restored,
        "nodetool repair has restored {restored} rows of {rows} on node {number}"
    );
    let ratio = rebuilt.as_secs_f64() / repaired.as_secs_f64();
    report.set_ratio("rebuild_vs_repair", &[ratio]);
    report.notes.push(format!(
        "{rows} rows were lost on one node. helenus layouts rebuild took {:.1} s until the copy was in sync again, \
         nodetool repair -full {:.1} s for the replica of the single order.",
        rebuilt.as_secs_f64(),
        repaired.as_secs_f64()
    ));
    Ok(())
}

/// Rows of the table, as the node itself has them: partition by partition, because a node gives up a count that takes long.
fn rows_at(cluster: &Cluster, number: u16, copies: &Copies) -> Result<i64> {
    let mut node = cluster.connect(number)?;
    let table = table(copies);
    let partitions = format!("SELECT DISTINCT {PARTITION} FROM {table}");
    let mut rows = 0;
    for partition in node.query(&partitions, Consistency::One)? {
        let key = partition.first().cloned().flatten();
        let key = key.and_then(|bytes| bytes.try_into().ok());
        let key = i32::from_be_bytes(key.context("a partition has no key")?);
        let text = format!("SELECT count(*) FROM {table} WHERE {PARTITION} = {key}");
        let counted = node.query(&text, Consistency::One)?;
        let count = counted.first().and_then(|row| row.first()?.clone());
        let count = count.and_then(|bytes| bytes.try_into().ok());
        rows += i64::from_be_bytes(count.context("no count came")?);
    }
    Ok(rows)
}

/// Removes all files of a keyspace, as on a disk that was lost.
fn empty(keyspace: &Path) -> Result<()> {
    let told = || format!("cannot empty {}", keyspace.display());
    for table in std::fs::read_dir(keyspace).with_context(told)? {
        let table = table?.path();
        std::fs::remove_dir_all(&table).with_context(told)?;
        std::fs::create_dir(&table).with_context(told)?;
    }
    Ok(())
}

fn table(copies: &Copies) -> String {
    format!("{}.orders", copies.keyspace)
}

/// Numbers begin with 1.
fn layout(number: usize) -> String {
    format!("l{number}")
}

/// `helenus layouts`, from this program.
fn layouts(arguments: &[String], contact_points: &[String]) -> Result<()> {
    let myself = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(myself);
    command.arg("layouts").args(arguments);
    for contact in contact_points {
        command.args(["--contact", contact]);
    }
    let output = command.stdin(Stdio::null()).output();
    let output = output.context("cannot start `helenus layouts`")?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        bail!(
            "helenus layouts {} failed: {}",
            arguments.join(" "),
            told.trim()
        );
    }
    Ok(())
}
