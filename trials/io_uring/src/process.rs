//! A process of the trial: its lines, its CPU time, its end.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

/// Ends when dropped, since its standard input then does.
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program in a role.
    pub fn start(args: &[&str]) -> Result<Process> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", args.join(" ")))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Process {
            child,
            input,
            output,
        })
    }

    /// The next line that the process says.
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        let n = self.output.read_line(&mut line)?;
        ensure!(n > 0, "a process of the trial ended early");
        serde_json::from_str(&line).with_context(|| format!("not understood: {line}"))
    }

    /// Sends a line and waits for the answer.
    pub fn ask<T: DeserializeOwned>(&mut self, line: &str) -> Result<T> {
        let input = self.input.as_mut().context("already told to end")?;
        writeln!(input, "{line}")?;
        self.hear()
    }

    /// CPU time of all its threads so far, the kernel's for it included.
    pub fn cpu_us(&self) -> Result<u64> {
        cpu_us(self.child.id())
    }
}

/// CPU time of the kernel's threads to which it leaves network packets when there are many: work of
/// the trial that counts for none of its processes.
pub fn softirq_cpu_us() -> u64 {
    let threads = std::fs::read_dir("/proc").into_iter().flatten();
    threads
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.starts_with("ksoftirqd"))
        })
        .filter_map(|pid| cpu_us(pid).ok())
        .sum()
}

fn cpu_us(pid: u32) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The command, in parentheses, may hold anything; field 3 follows it.
    let (_, rest) = stat.rsplit_once(')').context("an odd stat file")?;
    let ticks: u64 = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<u64, _>>()?;
    Ok(ticks * 1_000_000 / rustix::param::clock_ticks_per_second())
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
