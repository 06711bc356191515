//! How a driver without TLS of its own reaches nodes as a proxy would: see [`helenus_tunnel`].

use std::io;
use std::net::SocketAddr;

use anyhow::Result;
use helenus_tunnel::{Encrypt, Limits, SILENCE_MAX, Tunnels};
use helenus_wire::{Opcode, Version};
use tokio::net::TcpStream;

use crate::config::Config;
use crate::conn::transport::Transport;
use crate::conn::{Advice, ConnError, Dialer};
use crate::control::contact;

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
    tunnels: Tunnels<Dialer>,
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
        let dialer = Dialer {
            advice,
            ..Dialer::new(config)?
        };
        let limits = Limits {
            connect_timeout: dialer.connect_timeout,
            silence_max: SILENCE_MAX,
        };
        Ok(NodeAccess {
            tunnels: Tunnels::new(dialer.clone(), limits),
            dialer,
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
        match self.dialer.tls {
            Some(_) => self.tunnels.entrance(node),
            None => Ok(node),
        }
    }

    /// [`Self::entrance`] for a node of which a driver has heard.
    ///
    /// # Errors
    /// As of [`Self::entrance`].
    pub fn entrance_heard(&self, heard: SocketAddr) -> io::Result<SocketAddr> {
        self.entrance(self.node(heard))
    }

    /// The node that a driver means by this address: see [`Tunnels::node`].
    pub fn node(&self, heard: SocketAddr) -> SocketAddr {
        self.tunnels.node(heard)
    }
}

impl Encrypt for Dialer {
    type Stream = Transport;

    async fn encrypt(&self, tcp: TcpStream, node: SocketAddr) -> Option<Transport> {
        self.handshake(tcp, node).await.ok()
    }
}

#[cfg(test)]
mod tests;
