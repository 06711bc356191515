//! Processes and their identity.
//!
//! A pid alone is not an identity: the kernel reuses it. A pid together with the process's start
//! time is unique for as long as the machine is up, so signals are only sent to that pair.

use std::thread;
use std::time::{Duration, Instant};

use procfs::process::Stat;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A process: its pid and when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Field 22 of `/proc/<pid>/stat`: clock ticks from boot to the start of the process.
    pub start_ticks: u64,
}

/// The activity of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Running or waiting.
    Running,
    /// Stopped by SIGSTOP.
    Paused,
    /// Ended (a zombie counts as ended).
    Gone,
}

impl Process {
    /// The process that has `pid` now, if any.
    pub fn of_pid(pid: u32) -> Option<Self> {
        let stat = read_stat(pid)?;
        (!is_ended(stat.state, stat.num_threads)).then_some(Self {
            pid,
            start_ticks: stat.starttime,
        })
    }

    /// The state of this very process; if another process has its pid, it counts as gone.
    pub fn state(&self) -> RunState {
        match read_stat(self.pid) {
            Some(stat)
                if stat.starttime == self.start_ticks
                    && !is_ended(stat.state, stat.num_threads) =>
            {
                if matches!(stat.state, 'T' | 't') {
                    RunState::Paused
                } else {
                    RunState::Running
                }
            }
            _ => RunState::Gone,
        }
    }

    /// True if this very process still exists.
    pub fn is_alive(&self) -> bool {
        self.state() != RunState::Gone
    }

    /// Sends `signal`, unless the process is gone. Returns whether it was sent.
    pub(crate) fn signal(&self, signal: Signal) -> Result<bool> {
        if !self.is_alive() {
            return Ok(false);
        }
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Ok(false);
        };
        match kill_process(pid, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(errno) => Err(Error::Io {
                what: format!("sending {signal:?} to process {}", self.pid),
                source: errno.into(),
            }),
        }
    }

    /// Waits until the process is gone; false if it still exists at the end.
    pub(crate) fn wait_gone(&self, patience: Duration) -> bool {
        wait_until(patience, Duration::from_millis(20), || !self.is_alive())
    }

    /// Waits until all its threads are stopped: a signal reaches them one by one, while the others
    /// keep running. False if some are still running at the end.
    pub(crate) fn wait_paused(&self, patience: Duration) -> bool {
        let still = || !self.is_alive() || self.stands_still();
        wait_until(patience, Duration::from_millis(1), still)
    }

    fn stands_still(&self) -> bool {
        let threads = proc(self.pid).and_then(|process| process.tasks().ok());
        // A process that has exited counts as stopped, too.
        let mut stats = threads
            .into_iter()
            .flatten()
            .flatten()
            .flat_map(|t| t.stat());
        stats.all(|stat| matches!(stat.state, 'T' | 't' | 'Z' | 'X' | 'x'))
    }
}

/// Polls a condition; false if it still does not hold at the end.
fn wait_until(patience: Duration, pause: Duration, mut so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
    while !so() {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(pause);
    }
    true
}

/// Processes whose command line contains exactly `argument`, such as those left by a crashed
/// caller.
pub(crate) fn with_argument(argument: &str) -> Vec<Process> {
    let all = procfs::process::all_processes();
    all.into_iter()
        .flatten()
        .flatten()
        .filter(|process| {
            process
                .cmdline()
                .is_ok_and(|line| line.iter().any(|a| a == argument))
        })
        .filter_map(|process| Process::of_pid(u32::try_from(process.pid).ok()?))
        .collect()
}

fn proc(pid: u32) -> Option<procfs::process::Process> {
    procfs::process::Process::new(i32::try_from(pid).ok()?).ok()
}

fn read_stat(pid: u32) -> Option<Stat> {
    proc(pid)?.stat().ok()
}

/// The first thread of a killed process may be a zombie while others still tear down its memory and
/// sockets: ports are free only once they have exited, too.
fn is_ended(state: char, threads: i64) -> bool {
    matches!(state, 'X' | 'x') || state == 'Z' && threads <= 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_stopped_process_stands_still() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("a process");
        let process = Process::of_pid(child.id()).expect("it runs");
        assert!(!process.wait_paused(Duration::ZERO));
        assert!(process.signal(Signal::STOP).expect("sent"));
        assert!(process.wait_paused(Duration::from_secs(10)));
        assert_eq!(process.state(), RunState::Paused);
        child.kill().expect("killed");
        child.wait().expect("gone");
        assert!(process.wait_paused(Duration::ZERO), "nothing runs any more");
    }

    #[test]
    fn a_zombie_with_living_threads_still_holds_its_ports() {
        assert!(!is_ended('Z', 2));
        assert!(is_ended('Z', 1));
        assert!(!is_ended('S', 1));
    }

    #[test]
    fn a_recycled_pid_is_another_process() {
        let me = Process::of_pid(std::process::id()).expect("this process exists");
        assert_eq!(me.state(), RunState::Running);
        let earlier = Process {
            start_ticks: me.start_ticks - 1,
            ..me
        };
        assert_eq!(earlier.state(), RunState::Gone);
        // SIGTERM to a previous owner of our pid must not reach us.
        assert!(!earlier.signal(Signal::TERM).expect("no signal is sent"));
    }

    #[test]
    fn pause_resume_kill_of_a_child() {
        let marker = format!("7{}", std::process::id());
        let mut child = Command::new("sleep")
            .arg(&marker)
            .spawn()
            .expect("sleep runs");
        let process = Process::of_pid(child.id()).expect("the child exists");
        let wait_for = |wanted| {
            let end = Instant::now() + Duration::from_secs(5);
            while process.state() != wanted {
                assert!(
                    Instant::now() < end,
                    "not {wanted:?}: {:?}",
                    process.state()
                );
                thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for(RunState::Running);
        let end = Instant::now() + Duration::from_secs(5);
        while with_argument(&marker) != vec![process] {
            assert!(
                Instant::now() < end,
                "the child is not found by its argument"
            );
        }
        process.signal(Signal::STOP).expect("stop");
        wait_for(RunState::Paused);
        process.signal(Signal::CONT).expect("continue");
        wait_for(RunState::Running);
        process.signal(Signal::KILL).expect("kill");
        wait_for(RunState::Gone);
        child.wait().expect("reaped");
    }
}
