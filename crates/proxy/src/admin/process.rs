//! Memory and processor time of this process, as Linux reports them.

/// Ticks a second in `/proc/self/stat` (USER_HZ): part of the kernel's interface, and 100 on all
/// architectures that Rust's Linux targets have.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub resident_bytes: u64,
    /// User and system time of all threads.
    pub cpu_seconds: f64,
}

/// `None` where there is no `/proc`.
pub fn usage() -> Option<Usage> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    Some(Usage {
        resident_bytes: resident_bytes(&status)?,
        cpu_seconds: cpu_seconds(&stat)?,
    })
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    // The second field is the program's name in parentheses and may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_understood() {
        let status = "Name:\thelenus\nVmHWM:\t  9 kB\nVmRSS:\t   12345 kB\nThreads:\t3\n";
        assert_eq!(resident_bytes(status), Some(12_345 * 1024));
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 3 4 20 0 3 0 99 1 2";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("nonsense"), None);
    }

    #[test]
    fn this_process_uses_memory() {
        let usage = usage().expect("/proc is mounted");
        assert!(usage.resident_bytes > 100 * 1024);
    }
}
