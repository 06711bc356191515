//! The folder of a cluster: its owner, and who may use it.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Context, Error, Result, invalid};
use crate::process::Process;
use crate::spec::ClusterSpec;

pub(super) fn fresh_temporary_dir() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // The start time distinguishes this process from earlier ones with the same pid.
    let id = std::process::id();
    let start = Process::of_pid(id).map_or(0, |me| me.start_ticks);
    env::temp_dir().join(format!("helenus-cluster-{id}-{start}-{count}"))
}

/// A folder with other contents must not be filled, and above all not be removed.
pub(super) fn refuse_foreign(dir: &Path) -> Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.during("reading", dir)?,
    };
    let mut foreign = None;
    for entry in entries {
        let name = entry.during("reading", dir)?.file_name();
        if name == "cluster.json" {
            return Ok(());
        }
        if name != "lock" && name != "cluster.json.new" {
            foreign = Some(name);
        }
    }
    match foreign {
        None => Ok(()),
        Some(name) => Err(invalid(format!(
            "{} contains {name:?} but no cluster; choose an empty folder, or remove it",
            dir.display()
        ))),
    }
}

pub(super) fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("lock");
    let lock = File::create(&path).during("creating", &path)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::Busy(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(error).during("locking", &path),
    }
}

/// An existing cluster keeps its settings; requesting different ones is an error.
pub(super) fn check_same(wanted: &ClusterSpec, existing: &ClusterSpec, dir: &Path) -> Result<()> {
    let comparable = |spec: &ClusterSpec| ClusterSpec {
        dir: None,
        ready_timeout_s: 0,
        ip_prefix: wanted.ip_prefix.and(spec.ip_prefix),
        ..spec.clone()
    };
    if comparable(wanted) == comparable(existing) {
        return Ok(());
    }
    Err(invalid(format!(
        "{} holds a cluster with other settings ({} nodes, Cassandra {}); \
         use it with `helenus cluster start`, end it with `helenus cluster down`, \
         or choose another name",
        dir.display(),
        existing.nodes,
        existing.version
    )))
}

pub(super) fn remove_dir(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result.during("removing", dir),
    }
}
