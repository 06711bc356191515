//! What is lost on the nodes that this program started, and the commands that bring it back.

use super::nodes::bytes_in;
use crate::nodetool::nodetool;
use anyhow::{Context, Result, ensure};
use helenus_catalogue::stored::CREATE_SWEEPS;
use helenus_cluster::{Cluster, Connection, Consistency};
use helenus_load::experiments::layouts::{Losses, Rebuilt};
use helenus_migrate::layouts::create_progress;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// For how long a statement may take: as long as a TRUNCATE may.
const PATIENCE: Duration = Duration::from_secs(70);

pub(super) struct OwnLosses<'a> {
    cluster: &'a mut Cluster,
    /// The node that loses its replica.
    node: u16,
    /// Where the commands connect.
    contact: String,
}

impl<'a> OwnLosses<'a> {
    pub(super) fn of(cluster: &'a mut Cluster) -> Result<Self> {
        let nodes = cluster.nodes();
        let node = *nodes.get(1).context("at least two nodes are needed")?;
        Ok(Self {
            node,
            contact: cluster.address(node)?.to_string(),
            cluster,
        })
    }

    /// Creates what `layouts create` would have created in the keyspace of the catalogue, for the layouts that the
    /// experiment has created by itself.
    pub(super) fn complete_catalogue(&self) -> Result<()> {
        let mut connection = self.connect()?;
        for create in [&*create_progress(), CREATE_SWEEPS] {
            connection.query(create, Consistency::All)?;
        }
        Ok(())
    }

    fn connect(&self) -> Result<Connection> {
        Ok(self.cluster.connect_for(self.node, PATIENCE)?)
    }

    /// `helenus layouts` of this program. Returns what it prints.
    async fn layouts(&self, what: &str, table: &str) -> Result<Value> {
        let name = format!("helenus layouts {what} {table}");
        let output = ended(self.command_of_layouts(what, table)?, &name).await?;
        told(succeeded(output, &name)?)
    }

    fn command_of_layouts(&self, what: &str, table: &str) -> Result<Command> {
        let myself = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(myself);
        command.args(["layouts", what, table, "--contact", &self.contact, "--json"]);
        Ok(command)
    }

    /// `layouts status` fails here, because no sweep runs; but it tells the states.
    async fn check_ready(&self, table: &str) -> Result<()> {
        let output = ended(self.command_of_layouts("status", table)?, "layouts status").await?;
        let status = told(output.stdout)?;
        ensure!(
            is_ready(&status),
            "a layout of {table} is not read after `layouts rebuild`: {status}"
        );
        Ok(())
    }
}

impl Losses for OwnLosses<'_> {
    fn settle(&mut self) -> Result<()> {
        nodetool(self.cluster, &["flush"])?;
        nodetool(self.cluster, &["compact"])
    }

    fn lose_layout(&mut self, layout: &str) -> Result<u64> {
        let mut bytes = 0;
        for number in self.cluster.nodes() {
            for folder in folders_of(&self.cluster.data_dir(number), layout)? {
                bytes += bytes_in(&folder)?;
            }
        }
        let mut connection = self.connect()?;
        connection.query(&format!("TRUNCATE {layout}"), Consistency::All)?;
        let left =
            connection.query(&format!("SELECT * FROM {layout} LIMIT 1"), Consistency::All)?;
        ensure!(left.is_empty(), "{layout} is not empty after a TRUNCATE");
        Ok(bytes)
    }

    fn lose_replica(&mut self, table: &str) -> Result<u64> {
        // Else a slow answer of the node's own would be replaced by another's, and what it has lost not be seen.
        let alone = format!("ALTER TABLE {table} WITH speculative_retry = 'NEVER'");
        self.connect()?.query(&alone, Consistency::All)?;
        let data = self.cluster.data_dir(self.node);
        self.cluster.stop(self.node)?;
        let mut bytes = 0;
        for folder in folders_of(&data, table)? {
            bytes += bytes_in(&folder)?;
            empty(&folder)?;
        }
        self.cluster.start(self.node)?;
        Ok(bytes)
    }

    fn own_rows(&mut self, table: &str, branch: i32) -> Result<u64> {
        let count = format!("SELECT count(*) FROM {table} WHERE branch = {branch}");
        let rows = self.connect()?.query(&count, Consistency::One)?;
        let count = rows.first().and_then(|row| row.first()?.as_deref());
        let count = count.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        Ok(u64::from_be_bytes(count.context("no count has come")?))
    }

    async fn rebuild(&mut self, table: &str) -> Result<Rebuilt> {
        let told = self.layouts("rebuild", table).await?;
        rebuilt(&told).with_context(|| format!("not as expected: {told}"))
    }

    async fn repair(&mut self, table: &str) -> Result<()> {
        let (keyspace, table) = parts_of(table)?;
        let arguments = ["repair", "-full", keyspace, table];
        let command = self.cluster.nodetool_command(self.node, &arguments)?;
        let output = ended(command, "nodetool repair").await?;
        succeeded(output, "nodetool repair").map(drop)
    }

    async fn verify(&mut self, table: &str) -> Result<u64> {
        self.check_ready(table).await?;
        let told = self.layouts("verify", table).await?;
        let rows = told["rows"].as_u64();
        rows.with_context(|| format!("not as expected: {told}"))
    }
}

/// Of what `layouts rebuild` prints.
fn rebuilt(told: &Value) -> Option<Rebuilt> {
    let seconds = told["seconds"].as_f64()?;
    Some(Rebuilt {
        rows: told["rows"].as_u64()?,
        filling: Duration::try_from_secs_f64(seconds).ok()?,
    })
}

/// True if there are layouts and proxies may read all of them, as `layouts status` prints it.
fn is_ready(status: &Value) -> bool {
    let tables = status["tables"].as_array();
    let layouts = tables.and_then(|tables| tables.first()?["layouts"].as_array());
    layouts.is_some_and(|layouts| {
        !layouts.is_empty() && layouts.iter().all(|layout| layout["state"] == "ready")
    })
}

/// Runs a command to its end, and waits on a thread of its own.
async fn ended(mut command: Command, what: &str) -> Result<Output> {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = piped.stderr(Stdio::piped()).spawn();
    let child = child.with_context(|| format!("cannot start {what}"))?;
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output()).await;
    ended
        .context("the thread that waits for it failed")?
        .with_context(|| format!("{what} was lost"))
}

/// What a command has printed, if it has done what it was to do.
fn succeeded(output: Output, what: &str) -> Result<Vec<u8>> {
    ensure!(
        output.status.success(),
        "{what} failed: {} {}",
        String::from_utf8_lossy(&output.stdout).trim(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(output.stdout)
}

fn told(printed: Vec<u8>) -> Result<Value> {
    let told = serde_json::from_slice(&printed);
    told.with_context(|| format!("no JSON: {}", String::from_utf8_lossy(&printed)))
}

/// Keyspace and table of a full name.
fn parts_of(table: &str) -> Result<(&str, &str)> {
    let parts = table.split_once('.');
    parts.with_context(|| format!("{table} is not of the form KEYSPACE.TABLE"))
}

/// Where a node keeps a table's files: one folder for each time that it was created.
fn folders_of(data: &Path, table: &str) -> Result<Vec<PathBuf>> {
    let (keyspace, table) = parts_of(table)?;
    let of_keyspace = data.join(keyspace);
    let entries = std::fs::read_dir(&of_keyspace)
        .with_context(|| format!("cannot read {}", of_keyspace.display()))?;
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        // The rest of the name is the table's id, without dashes.
        let id = name.and_then(|name| name.strip_prefix(table)?.strip_prefix('-'));
        if id.is_some_and(|id| !id.contains('-')) {
            folders.push(path);
        }
    }
    ensure!(
        !folders.is_empty(),
        "{} has no folder of {table}",
        of_keyspace.display()
    );
    Ok(folders)
}

fn empty(folder: &Path) -> Result<()> {
    let emptied = std::fs::remove_dir_all(folder).and_then(|()| std::fs::create_dir(folder));
    emptied.with_context(|| format!("cannot empty {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_loses_its_own_files_only() {
        let data = tempfile::tempdir().unwrap();
        for file in [
            "k/orders-0a1b/nb-1-big-Data.db",
            "k/orders-0a1b/backups/x",
            "k/orders__layout_a-0c/nb-1-big-Data.db",
            "other/orders-0d/nb-1-big-Data.db",
        ] {
            let path = data.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, [0; 10]).unwrap();
        }
        let folders = folders_of(data.path(), "k.orders").unwrap();
        assert_eq!(folders, [data.path().join("k/orders-0a1b")]);
        assert_eq!(bytes_in(&folders[0]).unwrap(), 20);
        empty(&folders[0]).unwrap();
        assert_eq!(bytes_in(&folders[0]).unwrap(), 0);
        assert_eq!(bytes_in(data.path()).unwrap(), 20);
        assert!(folders_of(data.path(), "k.missing").is_err());
        assert!(folders_of(data.path(), "orders").is_err());
    }

    #[test]
    fn what_rebuild_prints_is_understood_or_refused() {
        let told = serde_json::json!({
            "table": "k.t", "rebuilt": ["a"], "rows": 7, "seconds": 1.5
        });
        let expected = Rebuilt {
            rows: 7,
            filling: Duration::from_millis(1500),
        };
        assert_eq!(rebuilt(&told), Some(expected));
        assert_eq!(
            rebuilt(&serde_json::json!({ "rows": 7, "seconds": -1.0 })),
            None
        );
        assert_eq!(rebuilt(&serde_json::json!({ "seconds": 1.0 })), None);
    }

    #[test]
    fn only_layouts_that_proxies_may_read_are_ready() {
        let status = |states: &[&str]| {
            let layouts = states
                .iter()
                .map(|state| serde_json::json!({ "state": state }));
            serde_json::json!({ "tables": [{ "layouts": layouts.collect::<Vec<_>>() }] })
        };
        assert!(is_ready(&status(&["ready"])));
        for other in [&["ready", "writing"][..], &["behind"], &[]] {
            assert!(!is_ready(&status(other)), "{other:?}");
        }
        assert!(!is_ready(&serde_json::json!({ "tables": [] })));
    }
}
