//! CPU limits by control groups, version 1 or 2.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A node that has used up its share stands still until the period ends. With the kernel's default of
/// 100 ms, that would dominate its response times.
const PERIOD_US: u64 = 10_000;
/// The kernel grants no less.
const QUOTA_MIN_US: u64 = 1_000;
/// The kernel's longest period.
const PERIOD_MAX_US: u64 = 1_000_000;

/// Limits process `pid` and all its threads to `cores` in the group `name`.
pub(crate) fn cap(name: &str, pid: u32, cores: f64) -> Result<()> {
    if !cores.is_finite() || !(0.01..=1024.0).contains(&cores) {
        return Err(Error::CpuCap(format!("{cores} cores: choose 0.01 or more")));
    }
    let (quota_us, period_us) = quota(cores);
    let group = create(name)?;
    let write = |file: &str, text: String| {
        let path = group.folder.join(file);
        fs::write(&path, text).map_err(|error| {
            Error::CpuCap(format!(
                "{} is not writable ({error}); run as root, or where control groups are delegated",
                path.display()
            ))
        })
    };
    if group.v2 {
        write("cpu.max", format!("{quota_us} {period_us}"))?;
    } else {
        write("cpu.cfs_period_us", period_us.to_string())?;
        write("cpu.cfs_quota_us", quota_us.to_string())?;
    }
    write("cgroup.procs", pid.to_string())
}

/// Moves process `pid` into the group `name`, whose limit it then shares.
pub(crate) fn join(name: &str, pid: u32) -> Result<()> {
    let (root, _) = find_root()?;
    let path = root.join(name).join("cgroup.procs");
    fs::write(&path, pid.to_string()).map_err(|error| {
        Error::CpuCap(format!(
            "process {pid} cannot join {} ({error}); does the node have a limit?",
            path.display()
        ))
    })
}

/// Microseconds of CPU time in each period, and the period.
fn quota(cores: f64) -> (u64, u64) {
    let shortest = (QUOTA_MIN_US as f64 / cores).ceil() as u64;
    let period_us = shortest.clamp(PERIOD_US, PERIOD_MAX_US);
    let quota_us = (cores * period_us as f64).round() as u64;
    (quota_us.max(QUOTA_MIN_US), period_us)
}

/// Removes the group `name`; processes still in it keep their limit.
pub(crate) fn remove(name: &str) {
    if let Ok((root, _)) = find_root() {
        // Absent, or briefly busy while the kernel cleans up a dead process: both harmless.
        let _ = fs::remove_dir(root.join(name));
    }
}

struct Group {
    folder: PathBuf,
    v2: bool,
}

fn create(name: &str) -> Result<Group> {
    let (root, v2) = find_root()?;
    let folder = root.join(name);
    fs::create_dir_all(&folder).map_err(|error| {
        Error::CpuCap(format!(
            "cannot create {} ({error}); run as root, or where control groups are delegated",
            folder.display()
        ))
    })?;
    if v2 && !folder.join("cpu.max").exists() {
        let _ = fs::remove_dir(&folder);
        return Err(Error::CpuCap(format!(
            "the cpu controller is not enabled in {}; \
             `echo +cpu > cgroup.subtree_control` there, as root",
            root.display()
        )));
    }
    Ok(Group { folder, v2 })
}

/// The folder in which groups can be created, and whether it is version 2.
fn find_root() -> Result<(PathBuf, bool)> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    find_in(&mounts, |path| path.exists()).ok_or_else(|| {
        Error::CpuCap("no control group hierarchy with the cpu controller is mounted".into())
    })
}

fn find_in(mounts: &str, exists: impl Fn(&Path) -> bool) -> Option<(PathBuf, bool)> {
    let entries: Vec<[&str; 3]> = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some([words.next()?, words.next()?, words.next()?])
        })
        .collect();
    let v1 = entries
        .iter()
        .find(|[_, kind, options]| *kind == "cgroup" && options.split(',').any(|o| o == "cpu"))
        .map(|[at, ..]| (PathBuf::from(at), false));
    v1.or_else(|| {
        entries
            .iter()
            .filter(|[_, kind, _]| *kind == "cgroup2")
            .map(|[at, ..]| PathBuf::from(at))
            .find(|at| exists(&at.join("cgroup.controllers")))
            .map(|at| (at, true))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_short_unless_the_share_is_small() {
        assert_eq!(quota(0.3), (3_000, 10_000));
        assert_eq!(quota(2.5), (25_000, 10_000));
        assert_eq!(quota(0.1), (1_000, 10_000));
        assert_eq!(quota(0.05), (1_000, 20_000));
        assert_eq!(quota(0.01), (1_000, 100_000));
    }

    #[test]
    fn only_groups_that_exist_can_be_joined() {
        assert!(join("helenus-test-of-no-group", std::process::id()).is_err());
    }

    #[test]
    fn hierarchies() {
        let v1 = "cgroup2 /u cgroup2 rw 0 0\ncgroup /c cgroup rw,cpuacct,cpu 0 0\n";
        assert_eq!(find_in(v1, |_| true), Some(("/c".into(), false)));
        let v2 = "cgroup /s cgroup rw,name=systemd 0 0\ncgroup2 /u cgroup2 rw 0 0\n";
        assert_eq!(find_in(v2, |_| true), Some(("/u".into(), true)));
        assert_eq!(find_in(v2, |_| false), None);
        assert_eq!(find_in("", |_| true), None);
    }

    #[test]
    fn senseless_limits_are_refused() {
        for cores in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(cap("helenus-test", 1, cores).is_err());
        }
    }
}
