//! Nodes, and a proxy of the program under test in front of them.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use helenus_cluster::{Cluster, ClusterSpec, Consistency};
use helenus_wire::{Compression, Version};

use crate::client::{Client, Dialect};

pub struct Stand {
    proxy: Child,
    pub address: SocketAddr,
    pub cluster: Cluster,
    log: PathBuf,
}

impl Stand {
    pub fn up() -> Result<Stand> {
        let nodes = std::env::var("HELENUS_DIFFERENTIAL_NODES").map_or(Ok(3), |n| n.parse())?;
        let mut spec = ClusterSpec::ephemeral().nodes(nodes);
        if let Ok(version) = std::env::var("HELENUS_DIFFERENTIAL_CASSANDRA") {
            spec = spec.version(version);
        }
        // Time-outs would be differences that say nothing.
        for key in [
            "read_request_timeout",
            "range_request_timeout",
            "write_request_timeout",
            "counter_write_request_timeout",
            "cas_contention_timeout",
            "truncate_request_timeout",
            "request_timeout",
        ] {
            spec = spec.yaml(key, "60s");
        }
        let cluster = Cluster::up(spec).context("the nodes do not start")?;
        let address = free()?;
        let log = cluster.dir().join("proxy.log");
        let mut command = Command::new(program()?);
        // Settings meant for another proxy must not change this one.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HELENUS_") {
                command.env_remove(name);
            }
        }
        command.args(["serve", "--listen", &address.to_string()]);
        command.args(["--admin", &free()?.to_string()]);
        command.args(["--set", "limits.request_timeout_ms=80000"]);
        for point in cluster.contact_points() {
            command.args(["--contact-points", &point.to_string()]);
        }
        let output = File::create(&log)?;
        let proxy = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("the proxy does not start")?;
        let mut stand = Stand {
            proxy,
            address,
            cluster,
            log,
        };
        stand.wait()?;
        Ok(stand)
    }

    fn wait(&mut self) -> Result<()> {
        let dialect = Dialect {
            version: Version::V4,
            compression: Compression::None,
        };
        let began = Instant::now();
        loop {
            if Client::connect(self.address, dialect).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.proxy.try_wait()? {
                bail!("the proxy ended with {status}:\n{}", self.proxy_log());
            }
            if began.elapsed() > Duration::from_secs(60) {
                bail!("the proxy does not get ready:\n{}", self.proxy_log());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn proxy_log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until all nodes know the same schema, as every driver does after a change.
    pub fn agree(admin: &mut helenus_cluster::Connection) -> Result<()> {
        for _ in 0..600 {
            let mut ids = BTreeSet::new();
            for table in ["local", "peers"] {
                let text = format!("SELECT schema_version FROM system.{table}");
                ids.extend(admin.query(&text, Consistency::One)?);
            }
            if ids.len() <= 1 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the nodes do not agree on the schema")
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

fn free() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// The program under test: `HELENUS_BIN`, or what was built beside this test.
fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("HELENUS_BIN") {
        return Ok(path.into());
    }
    let mut path = std::env::current_exe()?;
    while path.pop() {
        let candidate = path.join("helenus");
        if candidate.is_file() {
            return Ok(candidate);
        }
    }
    bail!("no helenus program is built: run `cargo build -p helenus` or set HELENUS_BIN")
}
