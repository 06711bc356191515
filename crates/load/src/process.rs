//! CPU time and memory of processes, from `/proc`.

use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

/// A process whose CPU time is part of a measurement.
#[derive(Clone, Debug)]
pub struct Watched {
    pub name: String,
    pub pid: u32,
}

impl Watched {
    pub fn new(name: impl Into<String>, pid: u32) -> Self {
        Self {
            name: name.into(),
            pid,
        }
    }

    pub fn this_process() -> Self {
        Self::new("client", std::process::id())
    }
}

/// User and system time of a process and all its threads since it began, in steps of one clock tick
/// (10 ms on most machines).
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let ticks = parse_cpu_ticks(&stat).with_context(|| format!("{path} has an unknown form"))?;
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    Ok(Duration::from_secs_f64(
        ticks as f64 / ticks_per_second as f64,
    ))
}

/// Resident memory in KiB.
pub fn resident_kib(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    parse_resident_kib(&status).with_context(|| format!("{path} has no VmRSS"))
}

/// How many established TCP connections the process has to any of these remote ports.
/// Counted at the client's end, where each connection appears once.
pub fn connections_to(pid: u32, remote_ports: &[u16]) -> Result<usize> {
    let mut inodes = std::collections::HashSet::new();
    let folder = format!("/proc/{pid}/fd");
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {folder}"))? {
        // A descriptor may be closed between listing and reading.
        let Ok(target) = fs::read_link(entry?.path()) else {
            continue;
        };
        let target = target.to_string_lossy();
        if let Some(inode) = target
            .strip_prefix("socket:[")
            .and_then(|t| t.strip_suffix(']'))
        {
            inodes.insert(inode.to_owned());
        }
    }
    let mut count = 0;
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let Ok(text) = fs::read_to_string(table) else {
            continue;
        };
        count += text
            .lines()
            .filter_map(parse_established)
            .filter(|(port, inode)| remote_ports.contains(port) && inodes.contains(*inode))
            .count();
    }
    Ok(count)
}

/// Raises the limit of open files as far as this process may, for itself and its children.
pub fn raise_open_files_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}

/// Fields 14 and 15 of `/proc/<pid>/stat`. The second field is the program's name in parentheses
/// and may itself contain spaces and parentheses.
fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

fn parse_resident_kib(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Remote port and inode of a line of `/proc/net/tcp` in state ESTABLISHED (01).
fn parse_established(line: &str) -> Option<(u16, &str)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if *fields.get(3)? != "01" {
        return None;
    }
    let (_, port) = fields.get(2)?.rsplit_once(':')?;
    Some((u16::from_str_radix(port, 16).ok()?, fields.get(9)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_program_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 250 31 0 0 20 0 9 0 12345 0 0";
        assert_eq!(parse_cpu_ticks(&format!("42 (helenus) {rest}")), Some(281));
        assert_eq!(parse_cpu_ticks(&format!("42 (a) b (c) {rest}")), Some(281));
        assert_eq!(parse_cpu_ticks("42 (helenus) S 1 2"), None);
        assert_eq!(parse_cpu_ticks(""), None);
    }

    #[test]
    fn memory_line() {
        assert_eq!(
            parse_resident_kib("VmPeak:\t 9 kB\nVmRSS:\t  1234 kB\n"),
            Some(1234)
        );
        assert_eq!(parse_resident_kib("Name: x\n"), None);
    }

    #[test]
    fn only_established_connections_count() {
        let head = "   1: 0100007F:D431 0100007F:2352 ";
        let tail = " 00000000:00000000 00:00000000 00000000     0        0 987 1 0 20 4 30 10 -1";
        assert_eq!(
            parse_established(&format!("{head}01{tail}")),
            Some((9042, "987"))
        );
        assert_eq!(parse_established(&format!("{head}06{tail}")), None);
        assert_eq!(
            parse_established("  sl  local_address rem_address   st"),
            None
        );
    }

    #[test]
    fn this_process_can_be_measured() {
        let pid = std::process::id();
        assert!(resident_kib(pid).unwrap() > 100);
        let before = cpu_time(pid).unwrap();
        assert!(cpu_time(pid).unwrap() >= before);
    }
}
