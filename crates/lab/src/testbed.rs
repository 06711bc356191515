//! The testbed of `demo` and `bench`: nodes, and a proxy run from this program.

use anyhow::{Context, Result, bail};
use helenus_cluster::{Cluster, ClusterSpec, find_agent};
use helenus_console::terminal::spinner;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const READY_TIMEOUT: Duration = Duration::from_secs(30);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(15);

/// Brings nodes up on a separate thread, so that signals are handled meanwhile.
pub(crate) async fn start_nodes(spec: ClusterSpec) -> Result<Cluster> {
    let bar = spinner("starting nodes");
    let shown = bar.clone();
    let tell = Arc::new(move |line: &str| shown.set_message(line.to_owned()));
    let started = tokio::task::spawn_blocking(move || Cluster::up_with(spec, tell)).await;
    bar.finish_and_clear();
    Ok(started.context("the thread that starts the nodes failed")??)
}

/// `$XDG_CACHE_HOME/helenus`, by default `~/.cache/helenus`: for what is fetched or built once.
pub(crate) fn cache_folder() -> Result<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    if let Some(cache) = absolute("XDG_CACHE_HOME") {
        return Ok(cache.join("helenus"));
    }
    match absolute("HOME") {
        Some(home) => Ok(home.join(".cache").join("helenus")),
        None => bail!("neither XDG_CACHE_HOME nor HOME is set, so there is no folder for caches"),
    }
}

/// The jar of Helenus's agent: the one given, or where it is usually found.
pub(crate) fn agent_jar(given: Option<PathBuf>) -> Result<PathBuf> {
    let jar = match given {
        Some(jar) => jar,
        None => find_agent()?,
    };
    // The nodes run in their own folders, where a relative path would mean another file.
    std::fs::canonicalize(&jar).with_context(|| format!("agent {}", jar.display()))
}

/// `helenus serve` as a child process; stopped when dropped, or when this process dies.
pub(crate) struct Proxy {
    child: Child,
    guard: Option<(Child, ChildStdin)>,
    log: tempfile::NamedTempFile,
    pub address: SocketAddr,
    pub admin: SocketAddr,
}

/// Kills process `$1` if its input ends without the word `done`.
const GUARD: &str = "trap '' INT TERM HUP; read -r word; [ \"$word\" = done ] || kill -9 \"$1\"";

impl Proxy {
    /// Starts a proxy in front of the nodes and waits until it is ready. It listens on the
    /// documented default ports if they are free.
    pub(crate) async fn start(nodes: &[String], settings: &[String]) -> Result<Self> {
        Self::start_at(nodes, settings, free_address(9142)?, free_address(9180)?).await
    }

    /// Starts a proxy on any free ports, with more settings as `section.key=value`.
    pub(crate) async fn start_with(nodes: &[String], settings: &[String]) -> Result<Self> {
        Self::start_at(nodes, settings, free_address(0)?, free_address(0)?).await
    }

    async fn start_at(
        nodes: &[String],
        settings: &[String],
        address: SocketAddr,
        admin: SocketAddr,
    ) -> Result<Self> {
        let log =
            tempfile::NamedTempFile::new().context("cannot create a file for the proxy's log")?;
        let myself = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(myself);
        // Settings in the environment are meant for another proxy, but for what all processes must agree on.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("HELENUS_") && text != helenus_catalogue::waits::VARIABLE {
                command.env_remove(name);
            }
        }
        command.arg("serve").args([
            "--listen",
            &address.to_string(),
            "--admin",
            &admin.to_string(),
        ]);
        for node in nodes {
            command.args(["--contact-points", node]);
        }
        for setting in settings {
            command.args(["--set", setting]);
        }
        // One file description for both, so that neither overwrites the other's lines.
        let output = log.reopen()?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Ctrl-C on the terminal must reach only this process, which then stops the proxy.
            .process_group(0)
            .spawn()
            .context("cannot start `helenus serve`")?;
        let guard = guard(child.id());
        let mut proxy = Self {
            child,
            guard: None,
            log,
            address,
            admin,
        };
        proxy.guard = Some(guard?);
        let begin = Instant::now();
        loop {
            if is_ready(admin) {
                return Ok(proxy);
            }
            let ended = proxy.child.try_wait()?;
            if ended.is_some() || begin.elapsed() > READY_TIMEOUT {
                let what = ended.map_or("is not ready after 30 s".into(), |status| {
                    format!("ended with {status}")
                });
                bail!(
                    "`helenus serve` {what}; the end of its log:\n{}",
                    tail(proxy.log.reopen()?)
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Its log file, which exists as long as the proxy runs.
    pub(crate) fn log(&self) -> &std::path::Path {
        self.log.path()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid
            && kill_process(pid, Signal::TERM).is_ok()
        {
            let begin = Instant::now();
            while begin.elapsed() < DRAIN_TIMEOUT && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // An error only means that it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some((mut shell, mut pipe)) = self.guard.take() {
            let _ = pipe.write_all(b"done\n");
            drop(pipe);
            let _ = shell.wait();
        }
    }
}

fn guard(pid: u32) -> Result<(Child, ChildStdin)> {
    let mut shell = Command::new("sh")
        .args(["-c", GUARD, "helenus-proxy-guard", &pid.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("cannot start the proxy's guard")?;
    let pipe = shell
        .stdin
        .take()
        .context("the proxy's guard has no input")?;
    Ok((shell, pipe))
}

/// The preferred port of 127.0.0.1 if it is free, otherwise any free one.
fn free_address(preferred: u16) -> Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", preferred))
        .or_else(|_| TcpListener::bind(("127.0.0.1", 0)))
        .context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr()?)
}

fn is_ready(admin: SocketAddr) -> bool {
    let probe = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&admin, Duration::from_millis(200))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        write!(
            stream,
            "GET /ready HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(answer.ends_with(b" 200"))
    };
    probe().unwrap_or(false)
}

/// The last twenty lines.
fn tail(mut log: File) -> String {
    let mut text = Vec::new();
    if log.read_to_end(&mut text).is_err() {
        return "(unreadable)".into();
    }
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
