//! A proxy under test: `helenus serve` as a process of its own.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

const READY_PATIENCE: Duration = Duration::from_secs(30);
const END_PATIENCE: Duration = Duration::from_secs(15);

/// Kills the process `$1` when the input ends without the word `done`: destructors do not run in a
/// test that is killed itself.
const GUARD: &str = "trap '' INT TERM HUP; read -r word; [ \"$word\" = done ] || kill -9 \"$1\"";

/// A running proxy. Dropping it ends it; if that happens in a panic, its log is printed.
pub struct Proxy {
    child: Child,
    guard: Option<(Child, ChildStdin)>,
    log: tempfile::NamedTempFile,
    pub address: SocketAddr,
    pub admin: SocketAddr,
}

impl Proxy {
    /// Starts a proxy with these settings (`section.key=value`) and waits until it is ready.
    pub fn start(contact_points: &[SocketAddr], settings: &[&str]) -> Result<Self> {
        let mut proxy = Self::spawn(contact_points, settings)?;
        let begin = Instant::now();
        // The port is bound before the nodes are known, so being able to connect says nothing.
        while !proxy.log().contains("ready for clients") {
            if let Some(status) = proxy.child.try_wait()? {
                bail!("the proxy ended with {status}:\n{}", proxy.log());
            }
            if begin.elapsed() > READY_PATIENCE {
                bail!(
                    "the proxy is not ready after {READY_PATIENCE:?}:\n{}",
                    proxy.log()
                );
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(proxy)
    }

    /// Starts a proxy that may well never get ready.
    pub fn spawn(contact_points: &[SocketAddr], settings: &[&str]) -> Result<Self> {
        let (address, admin) = free_addresses()?;
        let log = tempfile::NamedTempFile::new().context("no file for the proxy's log")?;
        let mut command = Command::new(program()?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HELENUS_") {
                command.env_remove(name);
            }
        }
        command.arg("serve");
        command.args(["--listen", &address.to_string()]);
        command.args(["--admin", &admin.to_string()]);
        for point in contact_points {
            command.args(["--contact-points", &point.to_string()]);
        }
        for setting in settings {
            command.args(["--set", setting]);
        }
        let output = log.reopen()?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .context("cannot start `helenus serve`")?;
        let mut proxy = Self {
            guard: None,
            child,
            log,
            address,
            admin,
        };
        proxy.guard = Some(guard(proxy.pid())?);
        Ok(proxy)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has logged, less colours.
    pub fn log(&self) -> String {
        let text = fs::read(self.log.path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut plain = String::with_capacity(text.len());
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            if c == '\u{1b}' {
                rest.by_ref().find(|c| c.is_ascii_alphabetic());
            } else {
                plain.push(c);
            }
        }
        plain
    }

    /// Resident memory in KiB.
    pub fn resident_kib(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_ascii_whitespace().next());
        Ok(number.context("no VmRSS")?.parse()?)
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) -> Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("not a pid")?, Signal::TERM).context("cannot send SIGTERM")
    }

    /// Waits until it has ended by itself.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        let begin = Instant::now();
        while begin.elapsed() < patience {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(10));
        }
        bail!("the proxy still runs after {patience:?}:\n{}", self.log())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- log of the proxy\n{}--- end of it", self.log());
        }
        if self.is_running() && self.terminate().is_ok() {
            // It is killed next if it does not end.
            let _ = self.wait(END_PATIENCE);
        }
        // The results say only that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some((mut shell, mut pipe)) = self.guard.take() {
            let _ = pipe.write_all(b"done\n");
            drop(pipe);
            let _ = shell.wait();
        }
    }
}

/// Raises the limit of open files as far as it goes, for this process and its children.
pub fn raise_open_files_limit() -> Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let wanted = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, wanted).context("cannot raise the limit of open files")
}

fn guard(pid: u32) -> Result<(Child, ChildStdin)> {
    let mut shell = Command::new("sh")
        .args(["-c", GUARD, "helenus-test-guard", &pid.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("cannot start the proxy's guard")?;
    let pipe = shell.stdin.take().context("the guard has no input")?;
    Ok((shell, pipe))
}

/// `$HELENUS_BIN`, or the program that was built beside this test.
fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("HELENUS_BIN") {
        return Ok(path.into());
    }
    let test = std::env::current_exe().context("cannot find this test's own file")?;
    let beside = test.ancestors().skip(1).take(2).map(|d| d.join("helenus"));
    beside
        .into_iter()
        .find(|path| path.is_file())
        .with_context(|| {
            format!(
                "no program `helenus` near {}: build it with `cargo build -p helenus` (and the \
                 same profile as this test), or name it in HELENUS_BIN",
                test.display()
            )
        })
}

/// Two free ports; both are held until both are known, so that they differ.
fn free_addresses() -> Result<(SocketAddr, SocketAddr)> {
    let bind = || TcpListener::bind(("127.0.0.1", 0)).context("no free port on 127.0.0.1");
    let (one, other) = (bind()?, bind()?);
    Ok((one.local_addr()?, other.local_addr()?))
}
