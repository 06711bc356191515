//! A proxy's place on its machine: its ports, who had them before, and who gets them next.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UnixStream;

use crate::admin;
use crate::config::{Config, Listen};
use crate::events::Kind;
use crate::handover::{self, Ports, Successor, Taken, Waiting};
use crate::process::Process;

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
    /// Binds the ports of the settings, or takes those of a running proxy. Returns one for each worker.
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

    /// Tells the proxy that this one replaces that it may go. What comes from now on waits for workers.
    /// Returns the connection over which it passes its clients on.
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

    /// Whether no other proxy serves these ports; an error if one does.
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

/// One listener for each worker; the kernel spreads connections over them.
fn bind_all(listen: &Listen) -> Result<Vec<std::net::TcpListener>> {
    let address = listen.address;
    let workers = match listen.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    (0..workers)
        .map(|_| bind(address))
        .collect::<Result<Vec<_>>>()
        .with_context(|| format!("cannot listen on {address}: is the port in use?"))
}

fn bind(address: SocketAddr) -> Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}
