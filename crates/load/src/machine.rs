//! The machine that a measurement was taken on.

use procfs::{Current, Meminfo};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    pub cores: usize,
    pub processor: String,
    pub memory_mib: u64,
    pub storage: String,
    pub kernel: String,
    /// Versions of the programs and libraries involved.
    pub versions: BTreeMap<String, String>,
}

impl Machine {
    /// Describes this machine; `data` is a folder on the storage the nodes use.
    pub fn here(data: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            memory_mib: Meminfo::current().map_or(0, |memory| memory.mem_total >> 20),
            storage: storage(data, &read("/proc/self/mounts")),
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
}

/// The driver's version, from the lock file that this program was built with.
fn driver_version() -> &'static str {
    let lock = include_str!("../../../Cargo.lock");
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

/// File system and device of the innermost mount point that contains `data`.
fn storage(data: &Path, mounts: &str) -> String {
    let data = data.canonicalize().unwrap_or_else(|_| data.to_path_buf());
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            Some((fields.next()?, fields.next()?, fields.next()?))
        })
        .filter(|(_, point, _)| data.starts_with(point))
        .max_by_key(|(_, point, _)| point.len());
    let Some((device, _, kind)) = mount else {
        return "unknown".into();
    };
    let disk = device
        .trim_start_matches("/dev/")
        .trim_end_matches(|c: char| c.is_ascii_digit());
    let rotational = format!("/sys/block/{disk}/queue/rotational");
    match fs::read_to_string(rotational).as_deref().map(str::trim) {
        Ok("0") => format!("{kind} on {device} (solid state)"),
        Ok("1") => format!("{kind} on {device} (rotating or unknown)"),
        _ => format!("{kind} on {device}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_mounts() {
        assert_eq!(
            field("a : 1\nmodel name\t: Fast 9\n", "model name").unwrap(),
            "Fast 9"
        );
        assert_eq!(field("a : 1\n", "b"), None);
        let mounts = "overlay / overlay rw 0 0\ntmpfs /dev tmpfs rw 0 0\n";
        assert_eq!(storage(Path::new("/dev"), mounts), "tmpfs on tmpfs");
        assert_eq!(
            storage(Path::new("/nowhere/at/all"), mounts),
            "overlay on overlay"
        );
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        let machine = Machine::here(Path::new("/"));
        assert!(driver_version().starts_with("1."), "{}", driver_version());
        assert!(machine.cores >= 1 && machine.memory_mib > 0, "{machine:?}");
    }
}
