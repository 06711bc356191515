//! How a driver without TLS of its own reaches nodes that want TLS.
//!
//! It connects to ports on the loopback interface, one for each node, and what it sends there goes on over the
//! program's own TLS. Only this process may connect to them: others would be a client with its certificate.

mod owner;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// For [`Limits::silence_max`]: a node whose machine is gone, or cut off.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Before another connection is accepted, if one could not be: there may be no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections about which it is found out at a time whose they are.
const LOOKS_MAX: usize = 4;

/// The least that the kernel counts in.
const PROBE_MIN: Duration = Duration::from_secs(1);

/// Encrypts connections to nodes.
pub trait Encrypt: Clone + Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin;

    /// The encrypted stream over a connection that has been made to a node; None if it has failed, within a time of
    /// the implementation's choice. Why is nobody's business here: a node should be tried before it is entered.
    fn encrypt(
        &self,
        tcp: TcpStream,
        node: SocketAddr,
    ) -> impl Future<Output = Option<Self::Stream>> + Send;
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For a TCP connection to open.
    pub connect_timeout: Duration,
    /// A connection ends whose node's machine has acknowledged nothing for about so long, 2 s at least: neither
    /// bytes nor, while there are none, probes; or whose node takes none of the bytes that wait for it. How long it
    /// takes to answer does not matter.
    pub silence_max: Duration,
}

/// The way to the nodes. Ports and their connections are closed when it is dropped.
#[derive(Debug)]
pub struct Tunnels<E> {
    encrypt: E,
    limits: Limits,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// By node.
    ports: HashMap<SocketAddr, SocketAddr>,
    tasks: JoinSet<()>,
}

impl<E: Encrypt> Tunnels<E> {
    pub fn new(encrypt: E, limits: Limits) -> Tunnels<E> {
        Tunnels {
            encrypt,
            limits,
            open: Mutex::default(),
        }
    }

    /// The port from which bytes go on to this node. Needs a tokio runtime.
    ///
    /// # Errors
    /// If no port can be opened, or `/proc` does not tell who connects to it.
    pub fn entrance(&self, node: SocketAddr) -> io::Result<SocketAddr> {
        let mut guard = self.lock();
        let Open { ports, tasks } = &mut *guard;
        match ports.entry(node) {
            Entry::Occupied(entry) => Ok(*entry.get()),
            Entry::Vacant(entry) => {
                let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                listener.set_nonblocking(true)?;
                let listener = TcpListener::from_std(listener)?;
                let port = listener.local_addr()?;
                owner::check_that_processes_are_told_apart(port)?;
                tasks.spawn(accept(listener, node, self.encrypt.clone(), self.limits));
                Ok(*entry.insert(port))
            }
        }
    }

    /// The port from which bytes go on to a node of which a driver has heard.
    ///
    /// # Errors
    /// As of [`Self::entrance`].
    pub fn entrance_heard(&self, heard: SocketAddr) -> io::Result<SocketAddr> {
        self.entrance(self.node(heard))
    }

    /// The node that has this IP address, on the port of the node whose entrance has this port: a driver
    /// takes the port of the node it knows for that of all.
    pub fn node(&self, heard: SocketAddr) -> SocketAddr {
        let guard = self.lock();
        let mut tunnels = guard.ports.iter();
        let found = tunnels.find(|(_, entrance)| entrance.port() == heard.port());
        SocketAddr::new(
            heard.ip(),
            found.map_or(heard.port(), |(node, _)| node.port()),
        )
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing that holds it panics.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, node: SocketAddr, encrypt: impl Encrypt, limits: Limits) {
    let mut streams = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((plain, peer)) => {
                streams.spawn(carry(plain, peer, node, encrypt.clone(), limits));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
        while streams.try_join_next().is_some() {}
    }
}

/// Until both ends have closed, or one is lost: then the driver sees its connection close, and asks the node
/// again when it wants to.
async fn carry(
    mut plain: TcpStream,
    peer: SocketAddr,
    node: SocketAddr,
    encrypt: impl Encrypt,
    limits: Limits,
) {
    /// Each look goes through all connections of the machine.
    static LOOKS: Semaphore = Semaphore::const_new(LOOKS_MAX);
    let Ok(own) = plain.local_addr() else { return };
    let Ok(look) = LOOKS.acquire().await else {
        return;
    };
    let asked = tokio::task::spawn_blocking(move || owner::is_of_this_process(peer, own)).await;
    drop(look);
    if !asked.is_ok_and(|answer| answer.is_ok_and(|ours| ours)) || plain.set_nodelay(true).is_err()
    {
        return;
    }
    if let Ok(tcp) = connect(node, limits).await
        && let Some(mut encrypted) = encrypt.encrypt(tcp, node).await
    {
        let _ = copy_bidirectional(&mut plain, &mut encrypted).await;
    }
}

/// A machine that is gone never says so: it is the kernel that notices, while requests may take as long as they
/// like.
async fn connect(node: SocketAddr, limits: Limits) -> io::Result<TcpStream> {
    let tcp = timeout(limits.connect_timeout, TcpStream::connect(node)).await??;
    tcp.set_nodelay(true)?;
    let socket = SockRef::from(&tcp);
    let probes = TcpKeepalive::new()
        .with_time((limits.silence_max / 2).max(PROBE_MIN))
        .with_interval((limits.silence_max / 6).max(PROBE_MIN));
    socket.set_tcp_keepalive(&probes)?;
    socket.set_tcp_user_timeout(Some(limits.silence_max))?;
    Ok(tcp)
}

#[cfg(test)]
mod tests;
