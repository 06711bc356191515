//! A proxy under test: `helenus serve` as a process of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

const READY_PATIENCE: Duration = Duration::from_secs(30);
const END_PATIENCE: Duration = Duration::from_secs(15);
const LOG_PATIENCE: Duration = Duration::from_secs(10);

/// Kills the process `$1` when the input ends without the word `done`: destructors do not run in a
/// test that is killed itself.
const GUARD: &str = "trap '' INT TERM HUP; read -r word; [ \"$word\" = done ] || kill -9 \"$1\"";

/// How a proxy under test is to be started.
#[derive(Default)]
pub struct Options<'a> {
    pub contact_points: &'a [SocketAddr],
    /// As `section.key=value`.
    pub settings: &'a [&'a str],
    pub config: Option<&'a Path>,
    /// Free ones on 127.0.0.1 if not given.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Where it reports to a service manager.
    pub notify_socket: Option<&'a Path>,
    /// Further variables.
    pub environment: &'a [(&'a str, &'a str)],
}

/// The output of `helenus check` for these settings, as JSON.
pub fn check(contact_points: &[SocketAddr], settings: &[&str]) -> Result<String> {
    let mut command = Command::new(program()?);
    command.args(["check", "--json"]);
    for point in contact_points {
        command.args(["--contact-points", &point.to_string()]);
    }
    for setting in settings {
        command.args(["--set", setting]);
    }
    let output = command.output().context("cannot start `helenus check`")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The program with these arguments, and nothing of this process's settings for it.
pub fn helenus(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(program()?);
    without_settings(&mut command);
    command.args(arguments);
    Ok(command)
}

/// All processes of a test wait as long for each other.
fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("HELENUS_") && text != helenus_catalogue::waits::VARIABLE {
            command.env_remove(name);
        }
    }
}

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
        proxy.wait_ready()?;
        Ok(proxy)
    }

    /// As [`Proxy::start`], for tests that claim nothing about nodes that fall silent: several nodes on few cores stand
    /// still for longer than a link waits for a sign of life.
    pub fn start_patient(contact_points: &[SocketAddr], settings: &[&str]) -> Result<Self> {
        let patient = ["links.probe_timeout_ms=30000"];
        Self::start(contact_points, &[&patient, settings].concat())
    }

    /// Waits until it serves clients.
    pub fn wait_ready(&mut self) -> Result<()> {
        let begin = Instant::now();
        // The port is bound before the nodes are known, so being able to connect says nothing.
        while !self.log().contains("ready for clients") {
            if let Some(status) = self.child.try_wait()? {
                bail!("the proxy ended with {status}:\n{}", self.log());
            }
            if begin.elapsed() > READY_PATIENCE {
                bail!(
                    "the proxy is not ready after {READY_PATIENCE:?}:\n{}",
                    self.log()
                );
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Starts a proxy that may well never get ready.
    pub fn spawn(contact_points: &[SocketAddr], settings: &[&str]) -> Result<Self> {
        Self::launch(&Options {
            contact_points,
            settings,
            ..Options::default()
        })
    }

    /// Starts a proxy without waiting for anything.
    pub fn launch(options: &Options<'_>) -> Result<Self> {
        let (address, admin) = match options.addresses {
            Some(addresses) => addresses,
            None => free_addresses("127.0.0.1")?,
        };
        let log = tempfile::NamedTempFile::new().context("no file for the proxy's log")?;
        let mut command = Command::new(program()?);
        without_settings(&mut command);
        command.arg("serve");
        match options.config {
            Some(path) => {
                command.arg("--config").arg(path);
            }
            None => {
                command.args(["--listen", &address.to_string()]);
                command.args(["--admin", &admin.to_string()]);
            }
        }
        for point in options.contact_points {
            command.args(["--contact-points", &point.to_string()]);
        }
        for setting in options.settings {
            command.args(["--set", setting]);
        }
        if let Some(path) = options.notify_socket {
            command.env("NOTIFY_SOCKET", path);
        }
        command.envs(options.environment.iter().copied());
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

    /// Everything it has logged.
    pub fn log(&self) -> String {
        let text = fs::read(self.log.path()).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Everything it has logged once this is among it. What it says is written by a thread of its own,
    /// so that an answer can come before the line that explains it.
    ///
    /// # Panics
    ///
    /// When it is not logged in time.
    #[track_caller]
    pub fn expect_logged(&self, text: &str) -> String {
        let begin = Instant::now();
        loop {
            let log = self.log();
            if log.contains(text) {
                return log;
            }
            assert!(begin.elapsed() < LOG_PATIENCE, "{text:?} is not logged");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Resident memory in KiB.
    pub fn resident_kib(&self) -> Result<u64> {
        self.status_kib("VmRSS:")
    }

    /// The most that it ever was.
    pub fn resident_peak_kib(&self) -> Result<u64> {
        self.status_kib("VmHWM:")
    }

    fn status_kib(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_ascii_whitespace().next());
        Ok(number.with_context(|| format!("no {name}"))?.parse()?)
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Status and body of the admin server's answer.
    pub fn admin_get(&self, path: &str, token: Option<&str>) -> Result<(u16, String)> {
        let token = token.map_or(String::new(), |t| format!("Authorization: Bearer {t}\r\n"));
        let (head, body) = self.admin_call(path, &format!("Host: {}\r\n{token}", self.admin))?;
        let status = head.split(' ').nth(1).context("no status")?;
        Ok((status.parse()?, body))
    }

    /// Head and body of the admin server's answer to a GET with these header lines.
    pub fn admin_call(&self, path: &str, headers: &str) -> Result<(String, String)> {
        self.admin_request("GET", path, headers)
    }

    /// [`Self::admin_call`] with another method.
    pub fn admin_request(
        &self,
        method: &str,
        path: &str,
        headers: &str,
    ) -> Result<(String, String)> {
        let mut stream = TcpStream::connect(self.admin).context("no admin server")?;
        stream.set_read_timeout(Some(READY_PATIENCE))?;
        let request = format!("{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no head")?;
        Ok((head.to_owned(), body.to_owned()))
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Ends it at once (SIGKILL).
    pub fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    /// Asks it to read its settings again (SIGHUP).
    pub fn reload(&self) -> Result<()> {
        self.signal(Signal::HUP)
    }

    /// Lets it do nothing until it is resumed (SIGSTOP).
    pub fn stop(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("not a pid")?, signal).context("cannot send a signal")
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

/// Below the range from which the system takes the ports of connections: a port that is free stays so
/// until the proxy listens on it.
const PORTS: std::ops::Range<u32> = 12_000..32_000;

/// Two free ports.
pub fn free_addresses(ip: &str) -> Result<(SocketAddr, SocketAddr)> {
    Ok((free_address(ip)?, free_address(ip)?))
}

/// Another one each time, beginning somewhere else in each process.
fn free_address(ip: &str) -> Result<SocketAddr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = PORTS.end - PORTS.start;
    let begin = std::process::id().wrapping_mul(7_919);
    for _ in 0..number {
        let step = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = (PORTS.start + step % number) as u16;
        if let Ok(listener) = TcpListener::bind((ip, port)) {
            return Ok(listener.local_addr()?);
        }
    }
    bail!("no free port on {ip}")
}
