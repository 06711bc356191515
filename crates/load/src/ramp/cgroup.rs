//! The CPU limit of a process's control group, version 1 or 2, and how often it was held back.

use std::fs;
use std::path::{Path, PathBuf};

/// The group that limits a process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CpuLimit {
    folder: PathBuf,
    pub(super) cores: f64,
}

/// Since the group was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Periods {
    pub(super) all: u64,
    /// In which the group used up its share and had to wait.
    pub(super) throttled: u64,
}

impl CpuLimit {
    /// None if the process is not limited, or that cannot be read.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let folders = folders(&groups, &mounts).into_iter();
        let mut limited = folders.filter_map(|folder| {
            let cores = cores(&folder)?;
            Some(Self { folder, cores })
        });
        limited.next()
    }

    pub(super) fn periods(&self) -> Option<Periods> {
        parse_stat(&fs::read_to_string(self.folder.join("cpu.stat")).ok()?)
    }
}

fn cores(folder: &Path) -> Option<f64> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    if let Some(text) = read("cpu.max") {
        return parse_max(&text);
    }
    let quota: f64 = read("cpu.cfs_quota_us")?.trim().parse().ok()?;
    let period: f64 = read("cpu.cfs_period_us")?.trim().parse().ok()?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// `quota period`, or `max period` without a limit.
fn parse_max(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn parse_stat(text: &str) -> Option<Periods> {
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(' ')?;
            (key == name).then(|| value.trim().parse().ok())?
        })
    };
    Some(Periods {
        all: value("nr_periods")?,
        throttled: value("nr_throttled")?,
    })
}

/// The folders of the groups of a process (`/proc/<pid>/cgroup`) that may limit its CPU.
fn folders(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let is_cpu = |options: &str| options.split(',').any(|option| option == "cpu");
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let mount = mounts.lines().find_map(|mount| {
            let words: Vec<&str> = mount.split(' ').collect();
            let [_, at, kind, options, ..] = words[..] else {
                return None;
            };
            let fits = match controllers.is_empty() {
                true => kind == "cgroup2",
                false => kind == "cgroup" && is_cpu(controllers) && is_cpu(options),
            };
            fits.then_some(at)
        });
        if let Some(mount) = mount {
            found.push(Path::new(mount).join(path.trim_start_matches('/')));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found() {
        let mounts = "cgroup /c/cpu cgroup rw,relatime,cpu 0 0\ncgroup2 /c/u cgroup2 rw 0 0\n\
                      cgroup /c/set cgroup rw,cpuset 0 0\n";
        let groups = "5:cpuset:/x\n4:cpu:/helenus-1\n0::/y\nbroken\n";
        let expected = ["/c/cpu/helenus-1", "/c/u/y"].map(PathBuf::from);
        assert_eq!(folders(groups, mounts), expected);
        assert!(folders(groups, "").is_empty());
    }

    #[test]
    fn limits_are_read_and_their_absence_is_no_limit() {
        assert_eq!(parse_max("3500 10000\n"), Some(0.35));
        for none in ["max 100000\n", "", "5", "0 100"] {
            assert_eq!(parse_max(none), None, "{none:?}");
        }
        let folder = tempfile_folder();
        fs::write(folder.join("cpu.cfs_quota_us"), "5000\n").unwrap();
        fs::write(folder.join("cpu.cfs_period_us"), "10000\n").unwrap();
        assert_eq!(cores(&folder), Some(0.5));
        fs::write(folder.join("cpu.cfs_quota_us"), "-1\n").unwrap();
        assert_eq!(cores(&folder), None);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn throttled_periods_are_counted() {
        let text = "usage_usec 7\nnr_periods 40\nnr_throttled 30\nthrottled_time 9\n";
        let expected = Periods {
            all: 40,
            throttled: 30,
        };
        assert_eq!(parse_stat(text), Some(expected));
        assert_eq!(parse_stat("usage_usec 7\n"), None);
        assert_eq!(parse_stat("nr_periods x\nnr_throttled 1\n"), None);
    }

    fn tempfile_folder() -> PathBuf {
        let name = format!("helenus-cgroup-test-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }
}
