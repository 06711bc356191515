//! Resources that this process uses, as reported by Linux.

use std::time::{SystemTime, UNIX_EPOCH};

use procfs::WithCurrentSystemInfo;
use procfs::process::{LimitValue, Process};

use super::metrics::page::Page;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub resident_bytes: u64,
    /// User and system time of all threads.
    pub cpu_seconds: f64,
    pub open_files: u64,
    /// `None`: unlimited.
    pub open_files_max: Option<u64>,
}

/// `None` if there is no `/proc`.
pub(super) fn usage() -> Option<Usage> {
    let process = Process::myself().ok()?;
    let stat = process.stat().ok()?;
    let open_files_max = match process.limits().ok()?.max_open_files.soft_limit {
        LimitValue::Value(limit) => Some(limit),
        LimitValue::Unlimited => None,
    };
    let ticks = stat.utime + stat.stime;
    Some(Usage {
        resident_bytes: stat.rss_bytes().get(),
        cpu_seconds: ticks as f64 / procfs::ticks_per_second() as f64,
        open_files: process.fd_count().ok()? as u64,
        open_files_max,
    })
}

pub(super) fn render(page: &mut Page, started: SystemTime) {
    let start = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    page.gauge(
        "process_start_time_seconds",
        "Start of the process in seconds since 1970.",
        start.as_secs_f64(),
    );
    if let Some(usage) = usage() {
        page.gauge(
            "process_resident_memory_bytes",
            "Resident memory in bytes.",
            usage.resident_bytes,
        );
        page.counter(
            "process_cpu_seconds_total",
            "User and system CPU time in seconds.",
            usage.cpu_seconds,
        );
        page.gauge(
            "process_open_fds",
            "Open file descriptors.",
            usage.open_files,
        );
        if let Some(max) = usage.open_files_max {
            page.gauge(
                "process_max_fds",
                "Bound on process_open_fds (ulimit -n).",
                max,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory() {
        let usage = usage().expect("/proc is mounted");
        assert!(usage.resident_bytes > 100 * 1024);
        // Standard input, output and error.
        assert!(usage.open_files >= 3);
        let max = usage.open_files_max.unwrap_or(u64::MAX);
        assert!(usage.open_files <= max);
    }
}
