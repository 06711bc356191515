//! CPU time and memory of processes, from `/proc`.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result};
use procfs::WithCurrentSystemInfo;
use procfs::net::TcpState;
use procfs::process::{FDTarget, Process, Stat};

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
    let stat = stat(pid)?;
    let ticks = (stat.utime + stat.stime) as f64;
    Ok(Duration::from_secs_f64(
        ticks / procfs::ticks_per_second() as f64,
    ))
}

/// Resident memory in KiB.
pub fn resident_kib(pid: u32) -> Result<u64> {
    Ok(stat(pid)?.rss_bytes().get() / 1024)
}

fn stat(pid: u32) -> Result<Stat> {
    let stat = process(pid)?.stat();
    stat.with_context(|| format!("cannot read what process {pid} uses"))
}

fn process(pid: u32) -> Result<Process> {
    let id = i32::try_from(pid).context("not a process")?;
    Process::new(id).with_context(|| format!("there is no process {pid}"))
}

/// How many established TCP connections the process has to any of these remote ports.
/// Counted at the client's end, where each connection appears once.
pub fn connections_to(pid: u32, remote_ports: &[u16]) -> Result<usize> {
    let process = process(pid)?;
    let open = process
        .fd()
        .with_context(|| format!("cannot list the files of process {pid}"))?;
    // A descriptor may be closed between listing and reading.
    let inodes: HashSet<u64> = open
        .filter_map(|fd| match fd.ok()?.target {
            FDTarget::Socket(inode) => Some(inode),
            _ => None,
        })
        .collect();
    let tables = [process.tcp(), process.tcp6()];
    let connections = tables.into_iter().flatten().flatten();
    let count = connections.filter(|c| {
        c.state == TcpState::Established
            && remote_ports.contains(&c.remote_address.port())
            && inodes.contains(&c.inode)
    });
    Ok(count.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_measured() {
        let pid = std::process::id();
        assert!(resident_kib(pid).unwrap() > 100);
        let before = cpu_time(pid).unwrap();
        assert!(cpu_time(pid).unwrap() >= before);
        assert!(cpu_time(u32::MAX).is_err());
    }

    #[test]
    fn only_established_connections_to_the_port_count() {
        let pid = std::process::id();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(connections_to(pid, &[port]).unwrap(), 0);
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert_eq!(connections_to(pid, &[port]).unwrap(), 1);
        assert_eq!(
            connections_to(pid, &[client.local_addr().unwrap().port()]).unwrap(),
            0
        );
    }
}
