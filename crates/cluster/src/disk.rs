//! Disks: limits on how a process uses one, by control groups, and files that are no longer to be cached.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Advice, fadvise, major, minor};

use crate::cgroup::{self, DISK};
use crate::error::{Context, Error, Result};

/// Limits on what a process does with its disk, per second. `None`: not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskLimits {
    /// Reads.
    pub reads: Option<u64>,
    /// Writes.
    pub writes: Option<u64>,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
}

/// The reads and writes that limits apply to, which depend on the version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskThrottle {
    /// Version 1: only what the process waits for itself (reads, fsync), not what the kernel writes back
    /// later.
    Waiting,
    /// Version 2: also that.
    All,
}

impl DiskLimits {
    /// Names of version 2, files of version 1, and values.
    fn all(&self) -> [(&'static str, &'static str, Option<u64>); 4] {
        [
            ("riops", "blkio.throttle.read_iops_device", self.reads),
            ("wiops", "blkio.throttle.write_iops_device", self.writes),
            ("rbps", "blkio.throttle.read_bps_device", self.read_bytes),
            ("wbps", "blkio.throttle.write_bps_device", self.write_bytes),
        ]
    }

    /// A line of `io.max`.
    fn line(&self, disk: &str) -> String {
        let limits = self.all().map(|(name, _, limit)| match limit {
            Some(limit) => format!("{name}={limit}"),
            None => format!("{name}=max"),
        });
        format!("{disk} {}", limits.join(" "))
    }
}

/// Limits how process `pid` uses the disk that `folder` is on. Reads from the page cache do not count.
pub(crate) fn cap(name: &str, pid: u32, folder: &Path, limits: DiskLimits) -> Result<DiskThrottle> {
    if limits.all().iter().any(|(_, _, limit)| *limit == Some(0)) {
        return Err(Error::DiskCap("choose limits of 1 a second or more".into()));
    }
    let limit = || {
        let disk = disk_of(folder, Path::new("/sys/dev/block"))?;
        let group = cgroup::create(name, &DISK)?;
        if group.v2 {
            group.write("io.max", &limits.line(&disk))?;
        } else {
            for (_, file, limit) in limits.all() {
                // 0 lifts it.
                let limit = limit.unwrap_or(0);
                group.write(file, &format!("{disk} {limit}"))?;
            }
        }
        group.add(pid)?;
        Ok(match group.v2 {
            true => DiskThrottle::All,
            false => DiskThrottle::Waiting,
        })
    };
    limit().map_err(Error::DiskCap)
}

/// Moves process `pid` into the group `name`, whose limits it then shares.
pub(crate) fn join(name: &str, pid: u32) -> Result<()> {
    let joined = cgroup::create(name, &DISK).and_then(|group| group.add(pid));
    joined.map_err(Error::DiskCap)
}

/// Has the kernel drop what it has cached of all files in a folder and those below, unless it is mapped or
/// not written yet.
pub(crate) fn evict(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).during("listing", folder)? {
        let path = entry.during("listing", folder)?.path();
        if path.is_dir() {
            evict(&path)?;
            continue;
        }
        // Files of data may be replaced at any time.
        if let Ok(file) = File::open(&path) {
            let advised = fadvise(&file, 0, None, Advice::DontNeed);
            let advised = advised.map_err(std::io::Error::from);
            advised.during("advising the kernel on", &path)?;
        }
    }
    Ok(())
}

/// The whole disk that a folder is on, as `major:minor`: partitions have no limits of their own.
fn disk_of(folder: &Path, devices: &Path) -> Result<String, String> {
    let metadata =
        fs::metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let device = metadata.dev();
    let number = format!("{}:{}", major(device), minor(device));
    let known = fs::canonicalize(devices.join(&number)).map_err(|_| {
        format!(
            "{} is not on a disk of its own (device {number}): a memory, network or layered file system",
            folder.display()
        )
    })?;
    if !known.join("partition").exists() {
        return Ok(number);
    }
    let whole = known.parent().map(|disk| disk.join("dev"));
    let whole = whole.ok_or_else(|| format!("device {number} belongs to no disk"))?;
    let number = fs::read_to_string(&whole).map_err(|e| format!("{}: {e}", whole.display()))?;
    Ok(number.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_partition_is_part_of_a_disk() {
        let sys = tempfile::tempdir().expect("a folder");
        let device = fs::metadata(sys.path()).expect("metadata").dev();
        let number = format!("{}:{}", major(device), minor(device));
        let devices = sys.path().join("dev");
        let disk = sys.path().join("disk");
        fs::create_dir_all(disk.join("part1")).expect("created");
        fs::create_dir_all(&devices).expect("created");
        let error = disk_of(sys.path(), &devices).expect_err("no such device");
        assert!(error.contains("not on a disk of its own"), "{error}");

        symlink(disk.join("part1"), devices.join(&number)).expect("linked");
        assert_eq!(disk_of(sys.path(), &devices), Ok(number));
        fs::write(disk.join("part1").join("partition"), "1\n").expect("written");
        fs::write(disk.join("dev"), "259:3\n").expect("written");
        assert_eq!(disk_of(sys.path(), &devices), Ok("259:3".to_owned()));
    }

    #[test]
    fn files_and_those_in_folders_below_are_no_longer_cached() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("below");
        fs::create_dir(&below).expect("created");
        fs::write(below.join("Data.db"), "x").expect("written");
        evict(folder.path()).expect("advised");
        assert!(evict(&folder.path().join("none")).is_err());
    }

    #[test]
    fn nothing_at_all_is_no_limit() {
        let none = DiskLimits {
            writes: Some(0),
            ..DiskLimits::default()
        };
        let refused = cap("helenus-test", 1, Path::new("/"), none);
        assert!(matches!(refused, Err(Error::DiskCap(_))));
    }

    #[test]
    fn a_line_names_all_limits_so_that_earlier_ones_are_lifted() {
        let limits = DiskLimits {
            writes: Some(200),
            read_bytes: Some(1 << 20),
            ..DiskLimits::default()
        };
        assert_eq!(
            limits.line("254:0"),
            "254:0 riops=max wiops=200 rbps=1048576 wbps=max"
        );
    }
}
