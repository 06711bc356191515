//! Compactions of one node, one after the other.

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, setpriority_process};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The tool itself is not what is measured.
const NICE: i32 = 19;
const LOOK: Duration = Duration::from_millis(20);
/// For how long a last compaction may go on.
const LAST: Duration = Duration::from_secs(60);

/// They end when this is dropped, but for one that the node has begun.
pub(super) struct Compactions {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Compactions {
    /// Runs `first`, and then `again` until it is to end.
    pub(super) fn start(first: Command, again: Command) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let seen = ends.clone();
        let thread = std::thread::spawn(move || run(first, again, &seen));
        Self {
            ends,
            thread: Some(thread),
        }
    }

    /// Waits for the last one.
    pub(super) fn end(mut self) -> Result<()> {
        self.ends.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result.context("the node was to compact"),
            _ => bail!("the thread that has the node compact has failed"),
        }
    }
}

impl Drop for Compactions {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

fn run(mut first: Command, mut again: Command, ends: &AtomicBool) -> Result<()> {
    perform(&mut first, ends)?;
    while !ends.load(Ordering::Relaxed) {
        perform(&mut again, ends)?;
    }
    Ok(())
}

fn perform(command: &mut Command, ends: &AtomicBool) -> Result<()> {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = quiet.spawn().context("cannot start nodetool")?;
    // Without the lower priority it would only disturb a little more.
    let _ = setpriority_process(Pid::from_raw(child.id() as i32), NICE);
    let status = wait(&mut child, ends);
    if status.is_err() {
        // An error only means that it has exited already.
        let _ = child.kill();
        let _ = child.wait();
    }
    status
}

fn wait(child: &mut Child, ends: &AtomicBool) -> Result<()> {
    let mut last_since = None;
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "nodetool has ended with {status}");
            return Ok(());
        }
        if ends.load(Ordering::Relaxed) {
            let since = *last_since.get_or_insert_with(Instant::now);
            ensure!(since.elapsed() < LAST, "nodetool does not end");
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    #[test]
    fn they_are_repeated_until_the_end_and_failures_are_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display();
        let again = shell(&format!("echo again >> {path}"));
        let compactions = Compactions::start(shell(&format!("echo first >> {path}")), again);
        let begin = Instant::now();
        let lines = || std::fs::read_to_string(file.path()).unwrap();
        while lines().lines().count() < 3 {
            assert!(begin.elapsed() < Duration::from_secs(30), "{}", lines());
            std::thread::sleep(LOOK);
        }
        compactions.end().unwrap();
        assert!(lines().starts_with("first\nagain\nagain\n"), "{}", lines());
        assert!(Compactions::start(shell("true"), shell("exit 3")).end_after_failure());
    }

    impl Compactions {
        /// Waits for the end; true if the thread has ended with an error.
        fn end_after_failure(mut self) -> bool {
            let thread = self.thread.take().unwrap();
            thread.join().unwrap().is_err()
        }
    }
}
