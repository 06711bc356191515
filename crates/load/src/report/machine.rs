//! The machine that a measurement was taken on.

use crate::storage::{Device, Storage};
use procfs::{Current, Meminfo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    pub cores: usize,
    pub processor: String,
    pub memory_mib: u64,
    /// In one line.
    pub storage: String,
    /// Absent in reports of versions that did not look at it, and if the nodes are elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_profile: Option<Storage>,
    pub kernel: String,
    /// Versions of the programs and libraries involved.
    pub versions: BTreeMap<String, String>,
}

impl Machine {
    /// Describes this machine; `data` is a folder on the storage the nodes use, whose figures are
    /// added by [`Machine::with_storage`].
    pub fn here(data: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            memory_mib: Meminfo::current().map_or(0, |memory| memory.mem_total >> 20),
            storage: Device::of(data).describe(),
            storage_profile: None,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            versions: BTreeMap::from([
                ("helenus".into(), env!("CARGO_PKG_VERSION").into()),
                (
                    "driver".into(),
                    format!("scylla {} (Rust)", driver_version()),
                ),
            ]),
        }
    }

    /// The storage of the nodes.
    pub fn with_storage(mut self, storage: Storage) -> Self {
        self.storage = storage.device.describe();
        self.storage_profile = Some(storage);
        self
    }
}

/// The driver's version, from the lock file that this program was built with.
fn driver_version() -> &'static str {
    let lock = include_str!("../../../../Cargo.lock");
    let package = lock
        .split("[[package]]")
        .find(|text| text.contains("name = \"scylla\"\n"));
    let line = package.and_then(|text| {
        text.lines()
            .find_map(|line| line.strip_prefix("version = "))
    });
    line.map_or("of unknown version", |version| version.trim_matches('"'))
}

/// The value of a `name : value` line, as in /proc.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names() {
        assert_eq!(
            field("a : 1\nmodel name\t: Fast 9\n", "model name").unwrap(),
            "Fast 9"
        );
        assert_eq!(field("a : 1\n", "b"), None);
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        let machine = Machine::here(Path::new("/"));
        assert!(driver_version().starts_with("1."), "{}", driver_version());
        assert!(machine.cores >= 1 && machine.memory_mib > 0, "{machine:?}");
    }
}
