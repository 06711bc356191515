//! `helenus capture` beside a proxy, and what is in its files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use helenus_capture::{Mark, Reader, Recorded, Statement};
use rustix::process::{Pid, Signal, kill_process};

use crate::proxy::helenus;

const PATIENCE: Duration = Duration::from_secs(20);

/// A capture under way. It is killed with this value.
pub struct Capturing {
    child: Child,
    pub file: PathBuf,
}

/// The content of a capture.
pub struct Captured {
    pub statements: Vec<Statement>,
    pub requests: Vec<Recorded>,
    pub mark: Mark,
    pub bytes: Vec<u8>,
}

impl Capturing {
    /// Begins a capture and waits until it has begun.
    pub fn begin(socket: &Path, file: PathBuf, options: &[&str]) -> Result<Capturing> {
        let (socket, named) = (socket.to_string_lossy(), file.to_string_lossy());
        let arguments = [&["capture", &named, "--socket", &socket], options].concat();
        let child = helenus(&arguments)?.stdout(Stdio::null()).spawn()?;
        let mut capturing = Capturing { child, file };
        let begun = Instant::now();
        // Its first mark.
        while !read(&capturing.file).is_ok_and(|of| of.mark != Mark::default()) {
            if let Some(status) = capturing.child.try_wait()? {
                bail!("the capture has ended: {status}");
            }
            if begun.elapsed() > PATIENCE {
                bail!("the capture has not begun");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(capturing)
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("not a pid")?, signal).context("cannot send a signal")
    }

    /// Waits until this is so of what has been captured.
    pub fn until(&self, what: &str, is_so: impl Fn(&Captured) -> bool) -> Result<Captured> {
        let begun = Instant::now();
        loop {
            let captured = read(&self.file)?;
            if is_so(&captured) {
                return Ok(captured);
            }
            if begun.elapsed() > PATIENCE {
                bail!(
                    "not in time: {what}; there are {} requests and {:?}",
                    captured.requests.len(),
                    captured.mark
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it as Ctrl-C does.
    pub fn end(mut self) -> Result<(ExitStatus, Captured)> {
        self.signal(Signal::INT)?;
        let status = self.child.wait()?;
        Ok((status, read(&self.file)?))
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(file: &Path) -> Result<Captured> {
    let bytes = std::fs::read(file)?;
    let mut reader = Reader::open(File::open(file)?)?;
    let mut requests = Vec::new();
    while reader.next_chunk(|recorded| requests.push(recorded))? {}
    Ok(Captured {
        statements: reader
            .statements()
            .iter()
            .map(|of| (**of).clone())
            .collect(),
        requests,
        mark: reader.mark(),
        bytes,
    })
}
