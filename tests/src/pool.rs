//! Clusters that suites hand on to each other: starting a node costs more than most tests do with it.
//!
//! `HELENUS_POOL` names the folder that they are in; `scripts/pool.py` ends them when whoever made that folder ends.
//! Without it each taker starts nodes of its own, which end with it. A cluster is taken by its settings, by one taker at a
//! time, and is given back when it is dropped. Who takes one that others have used finds all nodes running and none of their
//! keyspaces. So this is for tests that leave the ring, the roles and what nodetool can switch as they were. Nodes may have
//! been killed and started again; whoever has changed the ring takes the cluster down.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use helenus_cluster::{Cluster, ClusterSpec, Connection, Consistency, Error};

const VARIABLE: &str = "HELENUS_POOL";
/// On a busy machine nodes take their time to agree on the schema.
const AGREEMENT_PATIENCE: Duration = Duration::from_secs(60);

/// A cluster with these settings.
pub fn take(spec: ClusterSpec) -> Result<Cluster> {
    match std::env::var_os(VARIABLE) {
        Some(pool) => take_from(&PathBuf::from(pool), spec),
        None => Ok(Cluster::up(spec)?),
    }
}

fn take_from(pool: &Path, spec: ClusterSpec) -> Result<Cluster> {
    let spec = spec.outliving();
    let mut hasher = DefaultHasher::new();
    format!("{spec:?}").hash(&mut hasher);
    let kind = hasher.finish();
    for number in 0..16 {
        let dir = pool.join(format!("{kind:016x}-{number}"));
        match used(&dir, &spec) {
            // Another process has it.
            Err(error) if matches!(error.downcast_ref(), Some(Error::Busy(_))) => {}
            Ok(cluster) => return Ok(cluster),
            Err(error) => {
                println!("{} is made anew: {error:#}", dir.display());
                Cluster::open(&dir, Arc::new(|_| {}))?.down(false)?;
                return Ok(Cluster::up(spec.dir(dir))?);
            }
        }
    }
    bail!("all clusters of {} are taken", pool.display())
}

fn used(dir: &Path, spec: &ClusterSpec) -> Result<Cluster> {
    match Cluster::open(dir, Arc::new(|_| {})) {
        Ok(cluster) if !all_run(&cluster)? => cluster.down(false)?,
        // Its nodes may be frozen (`scripts/pool.py freeze`): they are resumed below.
        Ok(_) | Err(Error::NoCluster(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let cluster = Cluster::up(spec.clone().dir(dir))?;
    let mut node = cluster.connect(cluster.nodes()[0])?;
    drop_keyspaces(&mut node)?;
    wait_for_agreement(&mut node)?;
    Ok(cluster)
}

fn all_run(cluster: &Cluster) -> Result<bool> {
    for number in cluster.nodes() {
        if !cluster
            .process(number)?
            .is_some_and(|process| process.is_alive())
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn texts(node: &mut Connection, select: &str) -> Result<Vec<String>> {
    let rows = node.query(select, Consistency::One)?;
    let cells = rows.into_iter().flatten().flatten();
    cells
        .map(|cell| String::from_utf8(cell).context("not a text"))
        .collect()
}

fn drop_keyspaces(node: &mut Connection) -> Result<()> {
    for name in texts(node, "SELECT keyspace_name FROM system_schema.keyspaces")? {
        if !name.starts_with("system") {
            let quoted = name.replace('"', "\"\"");
            node.query(&format!("DROP KEYSPACE \"{quoted}\""), Consistency::One)
                .with_context(|| format!("dropping {name}"))?;
        }
    }
    Ok(())
}

fn wait_for_agreement(node: &mut Connection) -> Result<()> {
    let begin = Instant::now();
    loop {
        let mut versions = Vec::new();
        for table in ["local", "peers"] {
            let select = format!("SELECT schema_version FROM system.{table}");
            versions.extend(node.query(&select, Consistency::One)?);
        }
        versions.dedup();
        if versions.len() == 1 {
            return Ok(());
        }
        if begin.elapsed() > AGREEMENT_PATIENCE {
            bail!("the nodes do not agree on the schema");
        }
        thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn script(arguments: &[&str]) -> Command {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/pool.py");
        let mut command = Command::new("python3");
        command.arg(path).args(arguments);
        command
    }

    /// A stand-in for a node of a cluster, which ends with the test.
    struct Node(Child);

    impl Drop for Node {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn node(cluster: &Path) -> Node {
        std::fs::create_dir_all(cluster).expect("a folder");
        std::fs::write(cluster.join("lock"), "").expect("a lock");
        let mark = format!("-Dhelenus.cluster={}", cluster.display());
        let mut command = Command::new("sh");
        // It waits without starting others: one that is just being started cannot be told from it.
        command.args(["-c", "echo; read -r _", "node", &mark]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("sh");
        // It runs by then, and can be found.
        let mut line = [0];
        let output = child.stdout.as_mut().expect("its output");
        std::io::Read::read_exact(output, &mut line).expect("a line");
        Node(child)
    }

    #[test]
    fn the_pool_ends_with_its_maker_and_no_other_cluster_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = folder.path().join("pool");
        let mut inside = node(&pool.join("kind-0"));
        let mut beside = node(&folder.path().join("pool-of-another"));
        let mut maker = Command::new("sleep").arg("600").spawn().expect("sleep");
        let path = pool.to_str().expect("a path");
        let mut keeper = script(&["keep", path, &maker.id().to_string()]);
        let mut keeper = keeper.spawn().expect("python3");
        assert!(inside.0.try_wait().expect("asked").is_none());
        maker.kill().expect("killed");
        maker.wait().expect("reaped");
        assert!(keeper.wait().expect("it ends").success());
        // By SIGKILL.
        assert_eq!(inside.0.wait().expect("reaped").signal(), Some(9));
        assert!(!pool.exists());
        assert!(beside.0.try_wait().expect("asked").is_none());
    }

    #[test]
    fn nodes_that_nobody_uses_stand_still() {
        let folder = tempfile::tempdir().expect("a folder");
        let (used, free) = (folder.path().join("used"), folder.path().join("free"));
        let (first, second) = (node(&used), node(&free));
        let lock = std::fs::File::open(used.join("lock")).expect("a lock");
        lock.lock().expect("locked");
        let path = folder.path().to_str().expect("a path");
        assert!(
            script(&["freeze", path])
                .status()
                .expect("python3")
                .success()
        );
        let state = |node: &Node| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", node.0.id()));
            let stat = stat.expect("a process");
            stat.rsplit_once(") ")
                .map(|(_, rest)| rest.starts_with('T'))
        };
        let begin = Instant::now();
        while state(&second) != Some(true) {
            assert!(begin.elapsed() < AGREEMENT_PATIENCE, "it goes on");
        }
        assert_eq!(state(&first), Some(false));
    }
}
