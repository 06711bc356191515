//! Assigns loopback addresses to clusters.
//!
//! Every cluster uses one prefix `127.x.y`. A reservation file per prefix in the user's state
//! folder names the cluster's folder, because the nodes bind their ports only seconds later; ports
//! are probed as well, since other programs make no reservations.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result, invalid};
use crate::paths;
use crate::process::Process;
use crate::spec::ClusterSpec;
use crate::state::State;

const JMX_PORT_MIN: u16 = 10_000;
const JMX_PORT_MAX: u16 = 29_999;

#[derive(Serialize, Deserialize)]
struct Note {
    dir: PathBuf,
    owner: Option<Process>,
}

impl Note {
    /// A reservation is valid while its cluster exists, or while the process that wrote it may
    /// still create the cluster.
    fn counts(&self) -> bool {
        if self.owner.is_some_and(|owner| owner.is_alive()) {
            return true;
        }
        match State::load(&self.dir) {
            Ok(None) => false,
            // Owner, guard and nodes are all gone: the machine crashed, and the rest is of no use.
            Ok(Some(state)) if state.spec.ephemeral && !state.runs() => {
                let _ = fs::remove_dir_all(&self.dir);
                false
            }
            Ok(Some(_)) | Err(_) => true,
        }
    }
}

fn folder() -> Result<PathBuf> {
    let folder = paths::state_dir()?.join("addresses");
    fs::create_dir_all(&folder).during("creating", &folder)?;
    Ok(folder)
}

fn note_path(folder: &Path, [a, b, c]: [u8; 3]) -> PathBuf {
    folder.join(format!("{a}.{b}.{c}"))
}

/// Chooses (or checks) the prefix of a new cluster in `dir` and reserves it.
pub(crate) fn reserve(spec: &ClusterSpec, dir: &Path) -> Result<[u8; 3]> {
    let folder = folder()?;
    let lock_path = folder.join("lock");
    let lock = File::create(&lock_path).during("creating", &lock_path)?;
    lock.lock().during("locking", &lock_path)?;
    let chosen = match spec.ip_prefix {
        Some(prefix) => {
            if let Some(reason) = taken(spec, &folder, dir, prefix)? {
                return Err(invalid(reason));
            }
            prefix
        }
        None => {
            let mut found = None;
            for c in 0..=254 {
                if taken(spec, &folder, dir, [127, 0, c])?.is_none() {
                    found = Some([127, 0, c]);
                    break;
                }
            }
            found.ok_or_else(|| {
                invalid("all addresses 127.0.0.x to 127.0.254.x are taken; choose one with --ip")
            })?
        }
    };
    let note = Note {
        dir: dir.to_owned(),
        owner: Process::of_pid(std::process::id()),
    };
    let path = note_path(&folder, chosen);
    let text = serde_json::to_string(&note).map_err(|error| Error::Io {
        what: format!("encoding {}", path.display()),
        source: error.into(),
    })?;
    fs::write(&path, text).during("writing", &path)?;
    Ok(chosen)
}

/// Removes the reservation, if it belongs to `dir`.
pub(crate) fn release(prefix: [u8; 3], dir: &Path) {
    let Ok(folder) = folder() else { return };
    let path = note_path(&folder, prefix);
    if read_note(&path).is_some_and(|note| note.dir == dir) {
        // A leftover reservation is harmless: it is not valid without its cluster.
        let _ = fs::remove_file(path);
    }
}

fn read_note(path: &Path) -> Option<Note> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

fn taken(spec: &ClusterSpec, folder: &Path, dir: &Path, prefix: [u8; 3]) -> Result<Option<String>> {
    let [a, b, c] = prefix;
    if let Some(note) = read_note(&note_path(folder, prefix))
        && note.dir != dir
        && note.counts()
    {
        return Ok(Some(format!(
            "addresses {a}.{b}.{c}.x belong to the cluster in {}",
            note.dir.display()
        )));
    }
    for number in 1..=spec.nodes {
        let address = node_address(prefix, number);
        for port in [spec.native_port, spec.storage_port] {
            if !is_free(SocketAddr::from((address, port))) {
                return Ok(Some(format!("{address}:{port} is in use")));
            }
        }
    }
    Ok(None)
}

/// Address of node `number`.
pub(crate) fn node_address([a, b, c]: [u8; 3], number: u16) -> Ipv4Addr {
    // `ClusterSpec::check` and `Cluster::add_node` keep numbers far below 255.
    Ipv4Addr::new(a, b, c, u8::try_from(number).unwrap_or(u8::MAX))
}

/// A free port on 127.0.0.1, where Cassandra's JMX always listens, none of `used`.
pub(crate) fn free_jmx_port(used: &[u16]) -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let span = u32::from(JMX_PORT_MAX - JMX_PORT_MIN) + 1;
    // Different processes start at different ports, so that they rarely collide.
    let start = std::process::id().wrapping_mul(7919);
    for _ in 0..span {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = JMX_PORT_MIN + (start.wrapping_add(step) % span) as u16;
        if !used.contains(&port) && is_free(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
            return Ok(port);
        }
    }
    Err(invalid(format!(
        "no free port between {JMX_PORT_MIN} and {JMX_PORT_MAX} on 127.0.0.1"
    )))
}

fn is_free(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_port_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        assert!(!is_free(address));
        let spec = ClusterSpec::new("t").native_port(address.port());
        let dir = tempfile::tempdir().expect("a folder");
        let reason = taken(&spec, dir.path(), dir.path(), [127, 0, 0]).expect("checked");
        assert_eq!(reason, Some(format!("{address} is in use")));
    }

    #[test]
    fn a_note_counts_while_its_writer_or_cluster_lives() {
        let dir = tempfile::tempdir().expect("a folder");
        let note = |owner| Note {
            dir: dir.path().to_owned(),
            owner,
        };
        assert!(!note(None).counts());
        assert!(note(Process::of_pid(std::process::id())).counts());
        fs::write(dir.path().join("cluster.json"), "").expect("written");
        assert!(note(None).counts());
    }

    #[test]
    fn what_an_ephemeral_cluster_left_behind_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        for (spec, stays) in [
            (ClusterSpec::new("kept"), true),
            (ClusterSpec::ephemeral(), false),
        ] {
            let dir = folder.path().join(&spec.name);
            fs::create_dir(&dir).expect("a folder");
            let state = State::new(spec, [127, 0, 9]);
            state.save(&dir).expect("saved");
            let owner = None;
            let note = Note { dir, owner };
            assert_eq!(note.counts(), stays);
            assert_eq!(note.dir.exists(), stays);
        }
    }

    #[test]
    fn jmx_ports_differ() {
        let first = free_jmx_port(&[]).expect("a port");
        let second = free_jmx_port(&[first]).expect("a port");
        assert_ne!(first, second);
    }
}
