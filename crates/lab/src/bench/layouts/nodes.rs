//! The experiment's actions on the nodes that this program started.

use crate::nodetool::nodetool;
use anyhow::{Context, Result};
use helenus_cluster::Cluster;
use helenus_load::experiments::layouts::Nodes;
use std::path::Path;

pub(super) struct OwnNodes<'a> {
    cluster: &'a Cluster,
    paused: Option<u16>,
}

impl<'a> OwnNodes<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            paused: None,
        }
    }
}

impl Nodes for OwnNodes<'_> {
    fn flush(&mut self) -> Result<()> {
        nodetool(self.cluster, &["flush"])
    }

    fn compact(&mut self) -> Result<()> {
        nodetool(self.cluster, &["compact"])
    }

    fn disk_bytes(&self, keyspace: &str) -> Result<u64> {
        let mut total = 0;
        for number in self.cluster.nodes() {
            total += bytes_in(&self.cluster.data_dir(number).join(keyspace))?;
        }
        Ok(total)
    }

    /// The second one.
    fn pause(&mut self) -> Result<()> {
        let nodes = self.cluster.nodes();
        let number = *nodes.get(1).context("at least two nodes are needed")?;
        self.cluster.pause(number)?;
        self.paused = Some(number);
        Ok(())
    }

    fn resume(&mut self) -> Result<()> {
        match self.paused.take() {
            Some(number) => Ok(self.cluster.resume(number)?),
            None => Ok(()),
        }
    }
}

impl Drop for OwnNodes<'_> {
    fn drop(&mut self) {
        // An error only means that the node has ended.
        let _ = self.resume();
    }
}

/// Of all files in a folder. Files that are removed meanwhile do not count.
pub(super) fn bytes_in(folder: &Path) -> Result<u64> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut total = 0;
    for entry in entries {
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        total += match metadata.is_dir() {
            true => bytes_in(&entry.path())?,
            false => metadata.len(),
        };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_all_folders_below_count() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join("one"), [0; 100]).unwrap();
        std::fs::write(folder.path().join("a/b/two"), [0; 23]).unwrap();
        assert_eq!(bytes_in(folder.path()).unwrap(), 123);
        assert!(bytes_in(&folder.path().join("missing")).is_err());
    }
}
