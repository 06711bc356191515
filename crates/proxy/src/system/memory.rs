//! How much memory a proxy may use if no bound is set.

use std::fs;
use std::path::Path;

use procfs::{Current, Meminfo};

/// The default bound is the memory of the machine or control group divided by this.
const SHARE: u64 = 4;
/// The bound if the machine's memory is unknown.
const UNKNOWN_MACHINE: u64 = 1 << 30;

/// The default bound in bytes: a quarter of the machine's memory, or of what its control group
/// allows this process.
pub(crate) fn default_max() -> usize {
    let all = limit().unwrap_or(UNKNOWN_MACHINE * SHARE);
    usize::try_from(all / SHARE).unwrap_or(usize::MAX)
}

/// The memory of the machine, or what its control group allows this process; None if it is unknown.
pub(crate) fn limit() -> Option<u64> {
    let machine = Meminfo::current().ok().map(|memory| memory.mem_total);
    let group = cgroup_limit(
        &fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
        &|path| fs::read_to_string(Path::new("/sys/fs/cgroup").join(path)).ok(),
    );
    [machine, group].into_iter().flatten().min()
}

/// The smallest limit of this process's control groups and their ancestors, version 2 or 1.
fn cgroup_limit(groups: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let mut least: Option<u64> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("memory/", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mut path = path.trim_matches('/');
        loop {
            let slash = if path.is_empty() { "" } else { "/" };
            let limit = read(&format!("{root}{path}{slash}{file}"));
            if let Some(limit) = limit.and_then(|text| text.trim().parse().ok()) {
                least = Some(least.map_or(limit, |known| known.min(limit)));
            }
            if path.is_empty() {
                break;
            }
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let v2 = |path: &str| match path {
            "a/b/memory.max" => Some("max\n".to_owned()),
            "a/memory.max" => Some("2048\n".to_owned()),
            "memory.max" => Some("4096\n".to_owned()),
            _ => None,
        };
        assert_eq!(cgroup_limit("0::/a/b\n", &v2), Some(2048));
        let v1 = |path: &str| match path {
            "memory/docker/x/memory.limit_in_bytes" => Some("1000\n".to_owned()),
            "memory/memory.limit_in_bytes" => Some("9223372036854771712\n".to_owned()),
            _ => None,
        };
        let groups = "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n";
        assert_eq!(cgroup_limit(groups, &v1), Some(1000));
        assert_eq!(cgroup_limit("", &v1), None);
        assert!(default_max() > 1 << 20);
    }
}
