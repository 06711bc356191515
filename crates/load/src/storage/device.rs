//! Device and file system of a folder.

use rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// As mounted, such as `/dev/nvme0n1p2`; the file system's name if it is on none.
    pub device: String,
    pub file_system: String,
    /// The kernel's word on the whole disk. Virtual disks often say that they rotate. None if
    /// there is no disk of its own: a memory, network or layered file system.
    pub rotational: Option<bool>,
}

impl Device {
    pub fn of(folder: &Path) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let folder = folder
            .canonicalize()
            .unwrap_or_else(|_| folder.to_path_buf());
        let (device, file_system) = mounted(&folder, &mounts);
        let rotational = disk(&folder, &device, Path::new("/sys"))
            .and_then(|disk| fs::read_to_string(disk.join("queue/rotational")).ok())
            .map(|text| text.trim() != "0");
        Self {
            device,
            file_system,
            rotational,
        }
    }

    /// Under which its figures are kept. Folders of users may be shared by machines.
    pub(super) fn key(&self) -> String {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{} {} {}", host.trim(), self.device, self.file_system)
    }

    pub fn describe(&self) -> String {
        let kind = match self.rotational {
            Some(false) => " (solid state)",
            Some(true) => " (rotating or unknown)",
            None => "",
        };
        match &*self.device {
            "" => "unknown".to_owned(),
            device => format!("{} on {device}{kind}", self.file_system),
        }
    }
}

/// Device and file system of the innermost mount point that contains `folder`. Of several at the
/// same point the last one is in force.
fn mounted(folder: &Path, mounts: &str) -> (String, String) {
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            Some((fields.next()?, fields.next()?, fields.next()?))
        })
        .filter(|(_, point, _)| folder.starts_with(point))
        .max_by_key(|(_, point, _)| point.len());
    mount.map_or_else(Default::default, |(device, _, kind)| {
        (device.to_owned(), kind.to_owned())
    })
}

/// The whole disk below a file system, in sysfs: by the folder's device number, or, where the file
/// system has numbers of its own, by the name of the device.
fn disk(folder: &Path, device: &str, sys: &Path) -> Option<PathBuf> {
    let number = fs::metadata(folder).ok()?.dev();
    let number = format!("{}:{}", major(number), minor(number));
    let by_number = fs::canonicalize(sys.join("dev/block").join(number));
    let by_name = || {
        let device = fs::canonicalize(device).unwrap_or_else(|_| device.into());
        fs::canonicalize(sys.join("class/block").join(device.file_name()?)).ok()
    };
    let known = by_number.ok().or_else(by_name)?;
    match known.join("partition").exists() {
        true => known.parent().map(Path::to_path_buf),
        false => Some(known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_innermost_mount_point_counts_and_of_two_the_later() {
        let mounts =
            "overlay / overlay rw 0 0\ntmpfs /dev tmpfs rw 0 0\n/dev/sda /dev ext4 rw 0 0\n";
        let of = |path: &str| mounted(Path::new(path), mounts);
        assert_eq!(of("/dev/x"), ("/dev/sda".into(), "ext4".into()));
        assert_eq!(of("/device"), ("overlay".into(), "overlay".into()));
        assert_eq!(mounted(Path::new("/"), ""), Default::default());
    }

    #[test]
    fn a_partition_is_part_of_a_disk_found_by_number_or_name() {
        let folder = std::env::temp_dir().join(format!("helenus-sys-{}", std::process::id()));
        let part = folder.join("devices/nvme0n1/nvme0n1p2");
        fs::create_dir_all(&part).unwrap();
        fs::write(part.join("partition"), "2\n").unwrap();
        fs::create_dir_all(folder.join("class/block")).unwrap();
        let whole = fs::canonicalize(part.parent().unwrap()).unwrap();
        let found = || disk(&folder, "/dev/nvme0n1p2", &folder);
        assert_eq!(found(), None);
        symlink(&part, folder.join("class/block/nvme0n1p2")).unwrap();
        assert_eq!(found(), Some(whole));
        let number = fs::metadata(&folder).unwrap().dev();
        let number = format!("{}:{}", major(number), minor(number));
        fs::create_dir_all(folder.join("dev/block")).unwrap();
        fs::create_dir_all(folder.join("devices/sdb")).unwrap();
        symlink(
            folder.join("devices/sdb"),
            folder.join("dev/block").join(number),
        )
        .unwrap();
        assert!(found().unwrap().ends_with("sdb"), "the number comes first");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_known_is_said() {
        let device = |rotational| Device {
            device: "/dev/sda".into(),
            file_system: "xfs".into(),
            rotational,
        };
        assert_eq!(
            device(Some(false)).describe(),
            "xfs on /dev/sda (solid state)"
        );
        assert_eq!(device(None).describe(), "xfs on /dev/sda");
        assert_eq!(Device::default().describe(), "unknown");
        let here = Device::of(Path::new("/"));
        assert!(!here.device.is_empty() && here.key().contains(&here.file_system));
    }
}
