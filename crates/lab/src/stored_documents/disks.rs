//! Sizes of tables on the disks of the nodes that this program started.

use crate::nodetool::nodetool;
use anyhow::{Context, Result, ensure};
use helenus_cluster::Cluster;
use helenus_load::experiments::payload::{Disks, KEYSPACE};
use std::path::Path;
use std::time::{Duration, Instant};

/// Files that were merged are removed a moment later.
const REMOVED_WITHIN: Duration = Duration::from_secs(30);

pub(crate) struct OwnDisks<'a> {
    pub cluster: &'a Cluster,
    /// Merge all files of a table into one. Not needed where all rows fit into the nodes' memory.
    pub merges: bool,
}

impl Disks for OwnDisks<'_> {
    fn compact(&mut self) -> Result<()> {
        nodetool(self.cluster, &["flush", KEYSPACE])?;
        match self.merges {
            true => nodetool(self.cluster, &["compact", KEYSPACE]),
            false => Ok(()),
        }
    }

    fn data_bytes(&self, table: &str) -> Result<u64> {
        let began = Instant::now();
        loop {
            let mut total = 0;
            let mut is_merged = true;
            for number in self.cluster.nodes() {
                let folder = self.cluster.data_dir(number).join(KEYSPACE);
                let files = data_files(&folder, table)?;
                is_merged &= files.len() <= 1;
                total += files.iter().sum::<u64>();
            }
            if is_merged {
                return Ok(total);
            }
            ensure!(
                began.elapsed() < REMOVED_WITHIN,
                "{table} still has several files on a node"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Sizes of a table's files of data, without those of snapshots. Its folder is named after the table and its id.
fn data_files(keyspace: &Path, table: &str) -> Result<Vec<u64>> {
    let read = |folder: &Path| {
        let entries = std::fs::read_dir(folder);
        entries.with_context(|| format!("cannot read {}", folder.display()))
    };
    let mut sizes = Vec::new();
    for folder in read(keyspace)? {
        let folder = folder?;
        let name = folder.file_name();
        let named = name.to_str().and_then(|name| name.rsplit_once('-'));
        if named.is_none_or(|(name, _)| name != table) {
            continue;
        }
        for file in read(&folder.path())? {
            let file = file?;
            let is_data = file.file_name().to_string_lossy().ends_with("-Data.db");
            // Files that are removed meanwhile do not count.
            if let Some(metadata) = file.metadata().ok().filter(|_| is_data) {
                sizes.push(metadata.len());
            }
        }
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_data_of_the_table_itself_counts() {
        let folder = tempfile::tempdir().unwrap();
        for (file, bytes) in [
            ("t-0a1b/nb-7-big-Data.db", 100),
            ("t-0a1b/nb-7-big-Index.db", 10),
            ("t-0a1b/snapshots/dropped/nb-6-big-Data.db", 1_000),
            ("t-0c2d/nb-8-big-Data.db", 20),
            ("t_shape-0e3f/nb-9-big-Data.db", 10_000),
        ] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, vec![0; bytes]).unwrap();
        }
        let mut sizes = data_files(folder.path(), "t").unwrap();
        sizes.sort_unstable();
        assert_eq!(sizes, [20, 100]);
        assert!(data_files(folder.path(), "other").unwrap().is_empty());
        assert!(data_files(&folder.path().join("missing"), "t").is_err());
    }
}
