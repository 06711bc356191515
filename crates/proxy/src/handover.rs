//! Taking the place of a running proxy on the same machine, without a client that is refused.
//!
//! A proxy with `listen.handover` listens on that Unix socket. One that is started with the same settings
//! connects to it first, and is sent the listening sockets themselves (SCM_RIGHTS): what connects meanwhile
//! waits in their queues, which belong to both. It connects to the cluster, starts its workers and says
//! `ready`. Then the old one takes no further clients, gives up its admin server, and says `left`, and the
//! new one listens on that Unix socket in its place. Until then it serves as if nothing were; if the new one
//! fails, after `ready` too, it goes on (but for the moment between a last look and `left`). There is one new one at a time: others are told so, and end.
//!
//! The new one says `clients` with the numbers of the states that it understands, and gets what clients have
//! prepared and then the clients themselves (`passing.rs`, `adopting.rs`). Those that it does not get are
//! closed as they become quiet.

pub(crate) mod adopting;
pub(crate) mod packets;
pub(crate) mod passing;
pub(crate) mod place;

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use helenus_engine::session::handover::passed::STATE_VERSION;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};
use rustix::process::geteuid;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::system::unix_socket::{self, SocketFile};

/// The beginning of the first line; the number is that of this protocol.
const GREETING: &str = "helenus handover 1";
/// In place of the addresses: another proxy, whose process number follows, is taking over already.
const TAKEN: &str = "taken";
const READY: &[u8] = b"ready\n";
const LEFT: &[u8] = b"left\n";
/// Before the numbers of the states of clients that a proxy understands.
const CLIENTS: &str = "clients";
/// Sockets in one message; the kernel's limit is 253.
const SOCKETS_MAX: usize = 250;
const LINE_BYTES_MAX: usize = 256;
/// For everything but the new proxy's way to the cluster.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a proxy may take to get ready before another may try.
const READY_PATIENCE: Duration = Duration::from_secs(600);

/// The ports of a proxy.
#[derive(Debug)]
pub(crate) struct Ports {
    pub address: SocketAddr,
    /// One for each worker.
    pub clients: Vec<TcpListener>,
    /// The admin server's, with its address.
    pub admin: Option<(SocketAddr, TcpListener)>,
}

impl Ports {
    pub(crate) fn try_clone(&self) -> Result<Ports> {
        let clients = self.clients.iter().map(TcpListener::try_clone);
        let admin = self.admin.as_ref();
        let admin = admin.map(|(address, port)| port.try_clone().map(|port| (*address, port)));
        Ok(Ports {
            address: self.address,
            clients: clients.collect::<Result<_, _>>()?,
            admin: admin.transpose()?,
        })
    }

    fn line(&self) -> String {
        let admin = self.admin.as_ref();
        let admin = admin.map_or("-".to_owned(), |(address, _)| address.to_string());
        format!("{GREETING} {} {admin}\n", self.address)
    }

    /// From what a running proxy has sent. Which socket is which is not believed, but looked at.
    fn of(line: &str, sockets: Vec<OwnedFd>) -> Result<Ports> {
        let words = line
            .strip_suffix('\n')
            .and_then(|line| line.strip_prefix(GREETING));
        let words: Option<Vec<&str>> = words.map(|words| words.split_whitespace().collect());
        let Some([address, admin]) = words.as_deref() else {
            bail!("it is no proxy of this version, or one that speaks otherwise");
        };
        ensure!(
            *address != TAKEN,
            "another process ({admin}) is taking over from it already: start this one again when that one \
             serves clients, or has ended"
        );
        let address: SocketAddr = address.parse().context("it names no address")?;
        let mut ports: Vec<TcpListener> = sockets.into_iter().map(TcpListener::from).collect();
        let admin = match *admin {
            "-" => None,
            admin => {
                let at: SocketAddr = admin.parse().context("it names no admin address")?;
                Some((at, ports.pop().context("it has sent too few sockets")?))
            }
        };
        ensure!(!ports.is_empty(), "it has sent no port for clients");
        for port in &ports {
            ensure!(
                port.local_addr().ok() == Some(address),
                "it has sent another socket than that of {address}"
            );
            port.set_nonblocking(true)?;
        }
        if let Some((at, port)) = &admin {
            ensure!(
                port.local_addr().ok() == Some(*at),
                "it has sent another socket than that of {at}"
            );
            port.set_nonblocking(true)?;
        }
        Ok(Ports {
            address,
            clients: ports,
            admin,
        })
    }
}

/// The ports of a running proxy, and the connection to it.
#[derive(Debug)]
pub(crate) struct Taken {
    pub ports: Ports,
    /// For [`finish`].
    pub stream: UnixStream,
}

/// Asks the proxy that listens there for its ports; `None` if none does.
pub(crate) fn take(path: &Path) -> Result<Option<Taken>> {
    let stream = match StdUnixStream::connect(path) {
        Ok(stream) => stream,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(e) => return Err(e).context("cannot connect"),
    };
    let user = socket_peercred(&stream)?.uid.as_raw();
    let own = geteuid().as_raw();
    ensure!(
        user == own || user == 0,
        "what listens there is of the user {user}, this proxy of {own}"
    );
    stream.set_read_timeout(Some(PATIENCE))?;
    let (line, sockets) = receive(&stream).context("the running proxy has sent nothing of use")?;
    let ports = Ports::of(&line, sockets)?;
    stream.set_nonblocking(true)?;
    Ok(Some(Taken {
        ports,
        stream: UnixStream::from_std(stream)?,
    }))
}

/// Tells the other proxy that this one serves its clients, and waits until it has left the ports.
pub(crate) async fn finish(mut stream: UnixStream) -> Result<UnixStream> {
    let said = async {
        stream.write_all(READY).await?;
        let mut answer = [0; LEFT.len()];
        stream.read_exact(&mut answer).await?;
        ensure!(answer == LEFT, "it has said something else");
        Ok(stream)
    };
    timeout(PATIENCE, said)
        .await
        .context("it has not left in time")?
}

/// Asks the proxy that has left its ports for its clients.
pub(crate) async fn ask_for_clients(stream: &mut UnixStream) -> Result<()> {
    let asked = format!("{CLIENTS} {STATE_VERSION}\n");
    timeout(PATIENCE, stream.write_all(asked.as_bytes())).await??;
    Ok(())
}

/// Waits until the other proxy asks for the clients of this one; whether it understands them.
async fn asked_for_clients(stream: &mut UnixStream) -> Result<bool> {
    let line = async {
        let mut line = Vec::new();
        let mut next = [0];
        // An older one says nothing, and closes.
        while !line.ends_with(b"\n") && line.len() < LINE_BYTES_MAX {
            match stream.read(&mut next).await? {
                0 => return Ok(None),
                _ => line.extend(next),
            }
        }
        Ok::<_, anyhow::Error>(Some(String::from_utf8(line)?))
    };
    let line = timeout(PATIENCE, line).await.context("it is silent")??;
    let Some(line) = line else {
        return Ok(false);
    };
    let numbers = line.strip_prefix(CLIENTS).context("it asks otherwise")?;
    let own = STATE_VERSION.to_string();
    Ok(numbers.split_whitespace().any(|number| number == own))
}

/// Ends when the other proxy has closed the connection: it has died, or does not wait any more.
pub(crate) async fn closed(stream: &UnixStream) {
    // It says nothing before it is told something, so whatever it says is as good as the end.
    loop {
        if stream.readable().await.is_err() {
            return;
        }
        match stream.try_read(&mut [0]) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            _ => return,
        }
    }
}

/// True if a proxy listens there.
pub(crate) fn is_served(path: &Path) -> bool {
    StdUnixStream::connect(path).is_ok()
}

/// The socket on which this proxy waits for another one.
pub(crate) struct Waiting {
    listener: UnixListener,
    ports: Ports,
    path: PathBuf,
    _file: SocketFile,
}

/// Another proxy serves this one's clients, and waits to be told that this one has left.
pub(crate) struct Successor {
    stream: UnixStream,
    waiting: Waiting,
}

impl Successor {
    /// Waits for something as long as this one waits as well, and tells all others that they come too late.
    pub(crate) async fn while_it_waits(&self, part: impl Future) {
        let part = async {
            tokio::select! {
                _ = part => {}
                () = closed(&self.stream) => {}
            }
        };
        self.waiting.refusing(pid_of(&self.stream), part).await;
    }

    /// True if it still waits: it has not died, nor given up.
    pub(crate) fn is_there(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let said = recv(&self.stream, &mut [0; 1], flags);
        said.is_err_and(|e| e == Errno::AGAIN)
    }

    /// It has gone: another one may take over.
    pub(crate) fn into_waiting(self) -> Waiting {
        self.waiting
    }

    /// Tells it that this one has left its ports, and waits until it asks for the clients; whether it
    /// understands them. By then it listens in this one's place.
    pub(crate) async fn tell_left(&mut self) -> Result<bool> {
        // If it does not hear of it, it goes on after a while.
        let _ = timeout(PATIENCE, self.stream.write_all(LEFT)).await;
        let pid = pid_of(&self.stream);
        let asked = asked_for_clients(&mut self.stream);
        self.waiting.refusing(pid, asked).await
    }

    /// For the clients. Nobody listens here any more.
    pub(crate) fn into_stream(self) -> UnixStream {
        self.stream
    }
}

impl Waiting {
    /// Listens for a proxy that takes over these ports; `in_place` of the proxy that has left them.
    pub(crate) fn bind(path: &Path, ports: Ports, in_place: bool) -> Result<Waiting> {
        let sockets = ports.clients.len() + usize::from(ports.admin.is_some());
        ensure!(
            sockets <= SOCKETS_MAX,
            "more than {SOCKETS_MAX} sockets cannot be handed over: lower listen.workers"
        );
        let (listener, file) = match in_place {
            true => unix_socket::bind_in_place(path)?,
            false => unix_socket::bind(path)?,
        };
        Ok(Waiting {
            listener,
            ports,
            path: path.to_owned(),
            _file: file,
        })
    }

    /// Waits for a proxy that is ready in place of this one. While one is getting ready, others are refused.
    pub(crate) async fn successor(self) -> Successor {
        loop {
            let mut taker = self.next_taker().await;
            let pid = pid_of(&taker);
            match self.refusing(pid, self.offer(&mut taker)).await {
                Ok(()) => {
                    return Successor {
                        stream: taker,
                        waiting: self,
                    };
                }
                Err(e) if is_only_a_look(&e) => {}
                Err(e) => tracing::warn!("a proxy that was to take over has not: {e:#}"),
            }
        }
    }

    async fn next_taker(&self) -> UnixStream {
        loop {
            match self.listener.accept().await {
                Ok((taker, _)) => return taker,
                Err(e) => {
                    tracing::warn!(path = %self.path.display(), "cannot accept a proxy that is to take over (listen.handover): {e}; this is tried again");
                    tokio::time::sleep(PATIENCE).await;
                }
            }
        }
    }

    /// Waits for something that one process does, and tells all others that they come too late.
    async fn refusing<T>(&self, pid: Option<i32>, part: impl Future<Output = T>) -> T {
        let mut part = pin!(part);
        loop {
            tokio::select! {
                // First, as it may have ended before the other one came.
                biased;
                done = &mut part => return done,
                other = self.next_taker() => {
                    let pid = pid.map_or("-".to_owned(), |pid| pid.to_string());
                    let line = format!("{GREETING} {TAKEN} {pid}\n");
                    // Who has only looked whether a proxy listens is gone already.
                    if other.try_write(line.as_bytes()).is_ok() {
                        tracing::info!("one more proxy has asked to take over: another one is doing so");
                    }
                }
            }
        }
    }

    async fn offer(&self, taker: &mut UnixStream) -> Result<()> {
        let user = taker.peer_cred()?.uid();
        let own = geteuid().as_raw();
        ensure!(
            user == own || user == 0,
            "it is of the user {user}, this one of {own}"
        );
        timeout(PATIENCE, self.send(taker)).await??;
        tracing::info!("another proxy is starting to take over");
        let mut said = [0; READY.len()];
        timeout(READY_PATIENCE, taker.read_exact(&mut said))
            .await
            .context("it was not ready in time")?
            .context("it has ended")?;
        ensure!(said == READY, "it has said something else");
        Ok(())
    }

    async fn send(&self, taker: &UnixStream) -> Result<()> {
        let line = self.ports.line();
        let clients = self.ports.clients.iter().map(AsFd::as_fd);
        let admin = self.ports.admin.iter().map(|(_, port)| port.as_fd());
        let sockets: Vec<BorrowedFd<'_>> = clients.chain(admin).collect();
        let sent = taker.async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
            let bytes = [IoSlice::new(line.as_bytes())];
            Ok(sendmsg(taker, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?)
        });
        ensure!(sent.await? == line.len(), "it has been sent a part only");
        Ok(())
    }
}

/// The process at the other end.
fn pid_of(stream: &UnixStream) -> Option<i32> {
    stream.peer_cred().ok()?.pid()
}

/// True if somebody has only looked whether a proxy listens ([`is_served`]).
fn is_only_a_look(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(|e| e.kind());
    kind == Some(ErrorKind::BrokenPipe)
}

/// A line, and the sockets that came with it.
fn receive(stream: &StdUnixStream) -> Result<(String, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut line = [0; LINE_BYTES_MAX];
    let mut bytes = [IoSliceMut::new(&mut line)];
    let received = recvmsg(stream, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    ensure!(
        !received.flags.contains(ReturnFlags::CTRUNC),
        "not all sockets have come: is the limit of open files too low?"
    );
    let sockets = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
        _ => None,
    });
    let sockets: Vec<OwnedFd> = sockets.flatten().collect();
    let mut line = line.get(..received.bytes).unwrap_or_default().to_vec();
    // A line is short, but may come in parts all the same.
    let mut next = [0];
    while !line.is_empty() && !line.ends_with(b"\n") && line.len() < LINE_BYTES_MAX {
        let mut stream = stream;
        stream.read_exact(&mut next)?;
        line.extend(next);
    }
    Ok((String::from_utf8(line)?, sockets))
}

#[cfg(test)]
mod tests;
