//! Memory and CPU time of this process, as reported by Linux.

use procfs::WithCurrentSystemInfo;
use procfs::process::Process;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub resident_bytes: u64,
    /// User and system time of all threads.
    pub cpu_seconds: f64,
}

/// `None` if there is no `/proc`.
pub(super) fn usage() -> Option<Usage> {
    let stat = Process::myself().and_then(|process| process.stat()).ok()?;
    let ticks = stat.utime + stat.stime;
    Some(Usage {
        resident_bytes: stat.rss_bytes().get(),
        cpu_seconds: ticks as f64 / procfs::ticks_per_second() as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory() {
        let usage = usage().expect("/proc is mounted");
        assert!(usage.resident_bytes > 100 * 1024);
    }
}
