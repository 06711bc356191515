//! A proxy's place on its machine: its ports, who had them before, and who gets them next.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::UnixStream;

use crate::admin;
use crate::config::{Config, Listen};
use crate::handover::{self, Ports, Successor, Taken, Waiting};
use crate::process::Process;
use crate::records::events::Kind;

/// Connections that wait for a worker to accept them.
const BACKLOG: i32 = 1024;
/// A process that is dying has no sockets any more after that time.
const DYING: Duration = Duration::from_secs(2);

pub(crate) struct Place {
    /// The proxy that this one replaces, until it has left.
    predecessor: Option<UnixStream>,
    admin: Option<admin::Serving>,
    /// Until it is served.
    admin_port: Option<TcpListener>,
    /// `listen.handover`, and the ports for whoever comes next, until that path is listened on.
    handed_on: Option<(PathBuf, Ports)>,
    waiting: Option<Waiting>,
}

impl Place {
    /// Binds the ports of the settings, or takes those of a running proxy. Returns one for each worker, on which
    /// nobody listens before [`listen`] unless that proxy does.
    pub(crate) fn take(config: &Config) -> Result<(Place, Vec<TcpListener>)> {
        let (ports, predecessor) = ports_of(config)?;
        let handed_on = match &config.listen.handover {
            Some(path) => Some((path.clone(), ports.try_clone()?)),
            None => None,
        };
        let mut place = Place {
            predecessor,
            admin: None,
            admin_port: ports.admin.map(|(_, port)| port),
            handed_on,
            waiting: None,
        };
        if place.predecessor.is_none() {
            // Now, when nobody is served who would lose by an error.
            place.wait(false)?;
        }
        Ok((place, ports.clients))
    }

    /// Serves the admin port, unless another proxy's admin server answers there.
    pub(crate) fn begin(&mut self, common: &Arc<Process>) -> Result<()> {
        if self.predecessor.is_none() {
            self.admin = Some(admin::start(common, self.admin_port.take(), true)?);
        }
        Ok(())
    }

    /// Ends only with an error: the proxy before this one does not wait for it any more. If that one has
    /// died, this one is by itself.
    pub(crate) async fn watch(&mut self, common: &Arc<Process>) -> Error {
        if let Some(predecessor) = &self.predecessor {
            handover::closed(predecessor).await;
            if let Err(e) = self.is_alone("it has closed the connection").await {
                return e;
            }
            self.settle(common, false);
        }
        std::future::pending().await
    }

    /// Tells the proxy that this one replaces that it may go. Clients that come from now on wait for
    /// workers. Returns the connection over which it passes its clients on.
    pub(crate) async fn enter(&mut self, common: &Arc<Process>) -> Result<Option<UnixStream>> {
        let Some(predecessor) = self.predecessor.take() else {
            return Ok(None);
        };
        let left = match handover::finish(predecessor).await {
            Ok(stream) => {
                tracing::info!("the proxy before this one has left its ports");
                let text = "took over from the proxy before this one".to_owned();
                common.events.note(Kind::TookOver, text);
                Some(stream)
            }
            Err(e) => {
                self.is_alone(&format!("{e:#}")).await?;
                None
            }
        };
        self.settle(common, left.is_some());
        Ok(left)
    }

    /// True if no other proxy serves these ports; an error if one does.
    async fn is_alone(&mut self, why: &str) -> Result<()> {
        self.predecessor = None;
        if let Some((path, _)) = &self.handed_on {
            // The sockets of a process that dies are closed one after the other.
            let until = Instant::now() + DYING;
            while handover::is_served(path) {
                if Instant::now() > until {
                    bail!(
                        "the running proxy does not wait for this one any more ({why}), and goes on"
                    );
                }
                tokio::time::sleep(DYING / 20).await;
            }
        }
        tracing::warn!("the proxy before this one is gone: {why}");
        Ok(())
    }

    /// In the place of another, from where nothing is a reason to go back. `in_place`: that one still listens
    /// there for whoever is to take over.
    fn settle(&mut self, common: &Arc<Process>, in_place: bool) {
        match admin::start(common, self.admin_port.take(), false) {
            Ok(serving) => self.admin = Some(serving),
            Err(e) => tracing::error!("no admin server: {e:#}"),
        }
        if let Err(e) = self.wait(in_place) {
            tracing::error!("no proxy will be able to take over: {e:#}");
        }
    }

    /// Listens for a proxy that is to take over.
    fn wait(&mut self, in_place: bool) -> Result<()> {
        if let Some((path, ports)) = self.handed_on.take() {
            let waiting = Waiting::bind(&path, ports, in_place);
            let what = || format!("cannot listen on {} (listen.handover)", path.display());
            self.waiting = Some(waiting.with_context(what)?);
        }
        Ok(())
    }

    /// Waits for another proxy that is ready in place of this one; for ever without `listen.handover`.
    pub(crate) fn successor(&mut self) -> Pin<Box<dyn Future<Output = Successor>>> {
        match self.waiting.take() {
            Some(waiting) => Box::pin(waiting.successor()),
            None => Box::pin(std::future::pending()),
        }
    }

    /// The one that was ready has gone: another one may be.
    pub(crate) fn wait_again(&mut self, gone: Successor) {
        self.waiting = Some(gone.into_waiting());
    }
}

/// The ports of the settings; those of the proxy that this one replaces, with the connection to it, if one
/// runs.
fn ports_of(config: &Config) -> Result<(Ports, Option<UnixStream>)> {
    let listen = &config.listen;
    if let Some(path) = &listen.handover {
        let asked = handover::take(path)
            .with_context(|| format!("cannot take over ({}, listen.handover)", path.display()))?;
        if let Some(taken) = asked {
            let Taken { mut ports, stream } = taken;
            if ports.address != listen.address {
                return Err(anyhow!(
                    "the running proxy listens on {}, this one is to listen on {}: give it another \
                     listen.handover, or stop the running one first",
                    ports.address,
                    listen.address
                ));
            }
            let same = ports.admin.as_ref().map(|(at, _)| *at) == config.admin.address;
            if !same {
                ports.admin = config.admin.address.zip(admin::bind(&config.admin)?);
            }
            let workers = ports.clients.len();
            tracing::info!(workers, "taking over from a running proxy");
            return Ok((ports, Some(stream)));
        }
    }
    let ports = Ports {
        address: listen.address,
        clients: bind_all(listen)?,
        admin: config.admin.address.zip(admin::bind(&config.admin)?),
    };
    Ok((ports, None))
}

/// One socket for each worker; the kernel spreads connections over them once they listen.
///
/// The first does not share the port until it listens, so a port on which anybody else listens is in use, also if
/// that is another proxy of the same user.
fn bind_all(listen: &Listen) -> Result<Vec<TcpListener>> {
    let address = listen.address;
    let workers = match listen.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    (0..workers)
        .map(|worker| bind(address, worker > 0))
        .collect::<Result<Vec<_>>>()
        .with_context(|| in_use(address))
}

fn bind(address: SocketAddr, shares_port: bool) -> Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shares_port)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Lets clients connect, who are refused before. Of several proxies that have bound the port, the first to do so has
/// it.
pub(crate) fn listen(address: SocketAddr, ports: &[TcpListener]) -> Result<()> {
    let listened: std::io::Result<()> = ports.iter().map(SockRef::from).try_for_each(|port| {
        port.listen(BACKLOG)?;
        port.set_reuse_port(true)
    });
    listened.with_context(|| in_use(address))
}

fn in_use(address: SocketAddr) -> String {
    format!("cannot listen on {address}: is the port in use?")
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpStream;

    use super::*;

    /// A port that is free, and sockets of so many workers.
    fn settings() -> Listen {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr());
        Listen {
            address: free.expect("a free port"),
            workers: 3,
            ..Listen::default()
        }
    }

    fn is_in_use(outcome: &Error) -> bool {
        let cause = outcome.root_cause().downcast_ref::<std::io::Error>();
        cause.is_some_and(|cause| cause.kind() == ErrorKind::AddrInUse)
    }

    #[test]
    fn two_proxies_never_share_a_port() {
        let settings = settings();
        // They start at the same time.
        let first = bind_all(&settings).expect("bound");
        let second = bind_all(&settings).expect("bound");
        listen(settings.address, &first).expect("the port is free");
        let refused = listen(settings.address, &second).expect_err("it has the port");
        assert!(is_in_use(&refused), "{refused:#}");
        drop(second);
        let third = bind_all(&settings).expect_err("it has the port");
        assert!(is_in_use(&third), "{third:#}");
        let everywhere = Listen {
            address: SocketAddr::from(([0, 0, 0, 0], settings.address.port())),
            ..settings.clone()
        };
        let fourth = bind_all(&everywhere).expect_err("it has the port");
        assert!(is_in_use(&fourth), "{fourth:#}");
        drop(first);
        listen(settings.address, &bind_all(&settings).expect("bound")).expect("it is free again");
    }

    #[test]
    fn clients_are_refused_until_the_port_is_listened_on_and_then_reach_all_workers() {
        let settings = settings();
        let ports = bind_all(&settings).expect("bound");
        let early = TcpStream::connect(settings.address).expect_err("nobody would accept it");
        assert_eq!(early.kind(), ErrorKind::ConnectionRefused);
        listen(settings.address, &ports).expect("the port is free");
        let clients = (0..200).map(|_| TcpStream::connect(settings.address));
        let clients: Vec<TcpStream> = clients.collect::<Result<_, _>>().expect("connected");
        let mut accepted = 0;
        for port in &ports {
            let before = accepted;
            while port.accept().is_ok() {
                accepted += 1;
            }
            assert!(accepted > before, "a worker gets nobody");
        }
        assert_eq!(accepted, clients.len());
    }
}
