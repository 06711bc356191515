//! How a driver without TLS of its own reaches nodes that want TLS.
//!
//! It connects to ports on the loopback interface, one for each node, and what it sends there goes on over the
//! proxy's own TLS. Only this process may connect to them: others would be a client with its certificate.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use helenus_wire::{Opcode, Version};
use procfs::process::{FDTarget, Process};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::conn::{Advice, ConnError, Dialer};
use crate::control::contact;

/// Before another connection is accepted, if one could not be: there may be no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections about which it is found out at a time whose they are.
const LOOKS_MAX: usize = 4;

/// Who has said how to connect, which decides the words of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenBy {
    /// A settings file.
    Settings,
    /// Options of a command.
    Options,
}

/// The way to the nodes. Ports and their connections are closed when it is dropped.
#[derive(Debug)]
pub struct NodeAccess {
    dialer: Dialer,
    tunnels: Mutex<Tunnels>,
}

#[derive(Debug, Default)]
struct Tunnels {
    /// By node.
    ports: HashMap<SocketAddr, SocketAddr>,
    tasks: JoinSet<()>,
}

impl NodeAccess {
    /// As `cluster.tls` and `links.connect_timeout_ms` say.
    ///
    /// # Errors
    /// If the files of `cluster.tls` cannot be used.
    pub fn new(config: &Config, by: GivenBy) -> Result<NodeAccess> {
        let advice = match by {
            GivenBy::Settings => Advice::SETTINGS,
            GivenBy::Options => Advice::OPTIONS,
        };
        let dialer = Dialer::new(config)?;
        Ok(NodeAccess {
            dialer: Dialer { advice, ..dialer },
            tunnels: Mutex::default(),
        })
    }

    /// All addresses of contact points, without those that cannot be resolved.
    pub async fn addresses(points: &[String]) -> Vec<SocketAddr> {
        contact::resolve(points).await
    }

    /// Connects to a node and asks what it supports.
    ///
    /// # Errors
    /// Why that fails, and what to do, within three times `links.connect_timeout_ms`.
    pub async fn try_node(&self, node: SocketAddr) -> Result<()> {
        let mut conn = self.dialer.dial(node, Version::V4).await?;
        let limit = self.dialer.connect_timeout;
        let answer = tokio::time::timeout(limit, conn.call(Opcode::Options, &[])).await;
        answer.map_err(|_| ConnError::Timeout(limit))??;
        Ok(())
    }

    /// Where to connect to reach this node without TLS: the node itself, or a port from which bytes go on to
    /// it. Needs a tokio runtime.
    ///
    /// # Errors
    /// If no port can be opened, or `/proc` does not tell who connects to it.
    pub fn entrance(&self, node: SocketAddr) -> io::Result<SocketAddr> {
        if self.dialer.tls.is_none() {
            return Ok(node);
        }
        let mut guard = self.lock();
        let Tunnels { ports, tasks } = &mut *guard;
        match ports.entry(node) {
            Entry::Occupied(entry) => Ok(*entry.get()),
            Entry::Vacant(entry) => {
                let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                listener.set_nonblocking(true)?;
                let listener = TcpListener::from_std(listener)?;
                let port = listener.local_addr()?;
                check_that_processes_are_told_apart(port)?;
                tasks.spawn(tunnel(listener, node, self.dialer.clone()));
                Ok(*entry.insert(port))
            }
        }
    }

    /// The node that has this IP address, on the port of the node to whose entrance `port` belongs: a driver
    /// takes the port of the node it knows for that of all.
    pub fn node(&self, ip: IpAddr, port: u16) -> SocketAddr {
        let guard = self.lock();
        let mut tunnels = guard.ports.iter();
        let found = tunnels.find(|(_, entrance)| entrance.port() == port);
        SocketAddr::new(ip, found.map_or(port, |(node, _)| node.port()))
    }

    fn lock(&self) -> MutexGuard<'_, Tunnels> {
        // Nothing that holds it panics.
        self.tunnels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn tunnel(listener: TcpListener, node: SocketAddr, dialer: Dialer) {
    let mut streams = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((plain, peer)) => {
                streams.spawn(carry(plain, peer, node, dialer.clone()));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
        while streams.try_join_next().is_some() {}
    }
}

/// Until both ends have closed, or one is lost: then the driver sees its connection close, and asks the node
/// again when it wants to.
async fn carry(mut plain: TcpStream, peer: SocketAddr, node: SocketAddr, dialer: Dialer) {
    /// Each look goes through all connections of the machine.
    static LOOKS: Semaphore = Semaphore::const_new(LOOKS_MAX);
    let Ok(own) = plain.local_addr() else { return };
    let Ok(look) = LOOKS.acquire().await else {
        return;
    };
    let asked = tokio::task::spawn_blocking(move || is_of_this_process(peer, own)).await;
    drop(look);
    if !asked.is_ok_and(|answer| answer.is_ok_and(|ours| ours)) || plain.set_nodelay(true).is_err()
    {
        return;
    }
    if let Ok(mut encrypted) = dialer.connect(node).await {
        let _ = copy_bidirectional(&mut plain, &mut encrypted).await;
    }
}

/// If it could not be seen that a connection is of this process, all would be closed.
fn check_that_processes_are_told_apart(listener: SocketAddr) -> io::Result<()> {
    let nobody = (Ipv4Addr::UNSPECIFIED, 0).into();
    let why = match is_of_this_process(listener, nobody) {
        Ok(true) => return Ok(()),
        Ok(false) => "it does not list this process's sockets".to_owned(),
        Err(e) => e.to_string(),
    };
    Err(io::Error::other(format!(
        "TLS needs /proc (net/tcp and self/fd), to let no other process use it: {why}"
    )))
}

/// Whether this process has the socket at the other end of a connection.
fn is_of_this_process(peer: SocketAddr, own: SocketAddr) -> procfs::ProcResult<bool> {
    let sockets = procfs::net::tcp()?;
    let ends = |entry: &&procfs::net::TcpNetEntry| (entry.local_address, entry.remote_address);
    let Some(found) = sockets.iter().find(|entry| ends(entry) == (peer, own)) else {
        return Ok(false);
    };
    let mut open = Process::myself()?.fd()?.flatten();
    Ok(open.any(|file| matches!(file.target, FDTarget::Socket(inode) if inode == found.inode)))
}

#[cfg(test)]
mod tests;
