//! The guard of an ephemeral cluster: stops it when the owning process dies, for whatever reason.
//!
//! A destructor does not run on SIGKILL, and the kernel's parent-death signal is tied to the thread
//! that started the child, which in a test runner ends early. A shell that waits for the end of its
//! input has neither problem: only the owner holds the other end of that pipe.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::error::{Error, Result};
use crate::node::cluster_mark;

/// `$1` is the argument that marks the cluster's processes, `$2` its folder.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
while read -r word; do [ "$word" = done ] && exit 0; done
for round in 1 2 3; do
  for folder in /proc/[0-9]*; do
    if tr '\0' '\n' <"$folder/cmdline" 2>/dev/null | grep -qxF -e "$1"; then
      pid=${folder#/proc/}
      [ "$pid" = "$$" ] || kill -9 "$pid" 2>/dev/null
    fi
  done
  sleep 0.3
done
rm -rf -- "$2"
"#;

pub(crate) struct Guard {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts guarding the cluster in `dir`.
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let start = || -> io::Result<Self> {
            let mut shell = Command::new("sh")
                .args(["-c", SCRIPT, "helenus-guard"])
                .arg(cluster_mark(dir))
                .arg(dir)
                .current_dir("/")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()?;
            let pipe = shell.stdin.take();
            Ok(Self { shell, pipe })
        };
        start().map_err(|source| Error::Io {
            what: "starting the guard of an ephemeral cluster".into(),
            source,
        })
    }

    /// Pid of the shell, which also has the cluster's mark on its command line.
    pub(crate) fn pid(&self) -> u32 {
        self.shell.id()
    }

    /// Dismisses the guard, because the cluster was brought down properly.
    pub(crate) fn dismiss(mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            let _ = io::Write::write_all(&mut pipe, b"done\n");
        }
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Process;
    use std::time::Duration;

    /// A stand-in for a node: a process with the cluster's mark on its command line.
    fn marked(dir: &Path) -> Child {
        let script = "while :; do sleep 0.05; done";
        let mut command = Command::new("sh");
        command.args(["-c", script, "x"]).arg(cluster_mark(dir));
        command.spawn().expect("sh runs")
    }

    #[test]
    fn the_owner_dies() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut node = marked(dir.path());
        let process = Process::of_pid(node.id()).expect("running");
        let mut guard = Guard::start(dir.path()).expect("started");
        // This is what the kernel does to the pipe when the owner is killed.
        drop(guard.pipe.take());
        assert!(process.wait_gone(Duration::from_secs(10)));
        guard.shell.wait().expect("ended");
        node.wait().expect("reaped");
        assert!(!dir.path().exists());
    }

    #[test]
    fn the_owner_is_orderly() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut node = marked(dir.path());
        Guard::start(dir.path()).expect("started").dismiss();
        assert!(dir.path().exists());
        assert!(node.try_wait().expect("asked").is_none());
        node.kill().expect("killed");
        node.wait().expect("reaped");
    }
}
