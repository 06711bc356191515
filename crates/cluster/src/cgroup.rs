//! Control groups, version 1 or 2, and the CPU limits of processes in them.

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

/// The controller of one kind of resource.
pub(crate) struct Controller {
    /// Its names in both versions.
    v1: &'static str,
    v2: &'static str,
    /// In version 2, only groups with this file have it.
    v2_file: &'static str,
}

pub(crate) const CPU: Controller = Controller {
    v1: "cpu",
    v2: "cpu",
    v2_file: "cpu.max",
};
pub(crate) const DISK: Controller = Controller {
    v1: "blkio",
    v2: "io",
    v2_file: "io.max",
};

/// Limits process `pid` and all its threads to `cores` in the group `name`.
pub(crate) fn cap(name: &str, pid: u32, cores: f64) -> Result<()> {
    if !cores.is_finite() || !(0.01..=1024.0).contains(&cores) {
        return Err(Error::CpuCap(format!("{cores} cores: choose 0.01 or more")));
    }
    let (quota_us, period_us) = quota(cores);
    let limit = || {
        let group = create(name, &CPU)?;
        if group.v2 {
            group.write("cpu.max", &format!("{quota_us} {period_us}"))?;
        } else {
            group.write("cpu.cfs_period_us", &period_us.to_string())?;
            group.write("cpu.cfs_quota_us", &quota_us.to_string())?;
        }
        group.add(pid)
    };
    limit().map_err(Error::CpuCap)
}

/// Moves process `pid` into the group `name`, whose CPU limit it then shares.
pub(crate) fn join(name: &str, pid: u32) -> Result<()> {
    let (root, _) = find_root(&CPU).map_err(Error::CpuCap)?;
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

/// Removes the group `name`; processes still in it keep their limits.
pub(crate) fn remove(name: &str) {
    for controller in [&CPU, &DISK] {
        if let Ok((root, _)) = find_root(controller) {
            // Absent, or briefly busy while the kernel cleans up a dead process: both harmless.
            let _ = fs::remove_dir(root.join(name));
        }
    }
}

/// A group in which processes have limits of one kind.
pub(crate) struct Group {
    folder: PathBuf,
    pub(crate) v2: bool,
}

impl Group {
    pub(crate) fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.folder.join(file);
        fs::write(&path, text).map_err(|error| {
            format!(
                "{} does not take {text:?} ({error}); run as root, or where control groups are delegated",
                path.display()
            )
        })
    }

    pub(crate) fn add(&self, pid: u32) -> Result<(), String> {
        self.write("cgroup.procs", &pid.to_string())
    }
}

/// The group `name`, made if there is none.
pub(crate) fn create(name: &str, controller: &Controller) -> Result<Group, String> {
    let (root, v2) = find_root(controller)?;
    let folder = root.join(name);
    // Of version 2, a group has limits of all kinds: those of a run that was killed would hold for this one.
    if is_left_over(&folder) {
        fs::remove_dir(&folder).map_err(|error| {
            format!(
                "{} is left over from another run and cannot be removed ({error})",
                folder.display()
            )
        })?;
    }
    let is_new = !folder.exists();
    fs::create_dir_all(&folder).map_err(|error| {
        format!(
            "cannot create {} ({error}); run as root, or where control groups are delegated",
            folder.display()
        )
    })?;
    if v2 && !folder.join(controller.v2_file).exists() {
        if is_new {
            let _ = fs::remove_dir(&folder);
        }
        let name = controller.v2;
        return Err(format!(
            "the {name} controller is not enabled in {}; \
             `echo +{name} > cgroup.subtree_control` there, as root",
            root.display()
        ));
    }
    Ok(Group { folder, v2 })
}

/// True if a group is there and has no processes.
fn is_left_over(folder: &Path) -> bool {
    fs::read_to_string(folder.join("cgroup.procs")).is_ok_and(|pids| pids.trim().is_empty())
}

/// The folder in which groups can be created, and whether it is version 2.
fn find_root(controller: &Controller) -> Result<(PathBuf, bool), String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    find_in(&mounts, controller, |path| path.exists()).ok_or_else(|| {
        format!(
            "no control group hierarchy with the {} controller is mounted",
            controller.v2
        )
    })
}

fn find_in(
    mounts: &str,
    controller: &Controller,
    exists: impl Fn(&Path) -> bool,
) -> Option<(PathBuf, bool)> {
    let entries: Vec<[&str; 3]> = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some([words.next()?, words.next()?, words.next()?])
        })
        .collect();
    let has = |options: &str| options.split(',').any(|option| option == controller.v1);
    let v1 = entries
        .iter()
        .find(|[_, kind, options]| *kind == "cgroup" && has(options))
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
        assert_eq!(find_in(v1, &CPU, |_| true), Some(("/c".into(), false)));
        assert_eq!(find_in(v1, &DISK, |_| true), Some(("/u".into(), true)));
        let v2 = "cgroup /s cgroup rw,name=systemd 0 0\ncgroup2 /u cgroup2 rw 0 0\n";
        assert_eq!(find_in(v2, &CPU, |_| true), Some(("/u".into(), true)));
        assert_eq!(find_in(v2, &DISK, |_| false), None);
        assert_eq!(find_in("", &CPU, |_| true), None);
    }

    #[test]
    fn a_group_without_processes_is_left_over() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(!is_left_over(&folder.path().join("none")));
        for (pids, expected) in [("", true), ("\n", true), ("17\n18\n", false)] {
            fs::write(folder.path().join("cgroup.procs"), pids).expect("written");
            assert_eq!(is_left_over(folder.path()), expected, "{pids:?}");
        }
    }

    #[test]
    fn senseless_limits_are_refused() {
        for cores in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(cap("helenus-test", 1, cores).is_err());
        }
    }
}
