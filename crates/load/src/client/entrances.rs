//! How the driver reaches an endpoint over TLS: see [`helenus_tunnel`]. Its own TLS would bring a second
//! cryptographic library into the program.

use crate::client::tls::{Tls, explain};
use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use futures::future::join_all;
use helenus_tunnel::{Encrypt, Limits, SILENCE_MAX, Tunnels};
use scylla::errors::TranslationError;
use scylla::policies::address_translator::{AddressTranslator, UntranslatedPeer};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

/// For a connection to open, and for its TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// An OPTIONS request of protocol v4, which a node answers before anybody has logged in.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];

/// The way to the nodes of an endpoint. Its ports are closed when the driver's session ends.
#[derive(Debug)]
pub(crate) struct Entrances(Tunnels<Encrypted>);

#[derive(Clone, Debug)]
struct Encrypted {
    tls: Tls,
    /// The contact points, as they were given: certificates may be for these names.
    given: Arc<BTreeMap<SocketAddr, String>>,
    /// Nodes of which was told that they cannot be reached.
    told: Arc<Mutex<BTreeSet<SocketAddr>>>,
}

impl Entrances {
    /// With the entrances to the contact points that answer.
    ///
    /// # Errors
    /// None of them does, and why.
    pub(crate) async fn open(
        tls: &Tls,
        contact_points: &[String],
    ) -> Result<(Arc<Entrances>, Vec<SocketAddr>)> {
        let mut given = BTreeMap::new();
        let mut problems = Vec::new();
        for point in contact_points {
            match lookup_host(point).await {
                Ok(found) => given.extend(found.map(|address| (address, point.clone()))),
                Err(e) => problems.push(format!("{point}: {e}")),
            }
        }
        let encrypted = Encrypted {
            tls: tls.clone(),
            given: Arc::new(given),
            told: Arc::default(),
        };
        let given = encrypted.given.clone();
        let limits = Limits {
            connect_timeout: CONNECT_TIMEOUT,
            silence_max: SILENCE_MAX,
        };
        let tried = join_all(given.keys().map(|node| encrypted.try_node(*node))).await;
        let entrances = Entrances(Tunnels::new(encrypted, limits));
        let mut found = Vec::new();
        for (node, outcome) in given.keys().zip(tried) {
            match outcome {
                Ok(()) => found.push(entrances.0.entrance(*node)?),
                Err(e) => problems.push(format!("{node}: {e:#}")),
            }
        }
        if found.is_empty() {
            bail!("{}", problems.join("; "));
        }
        Ok((Arc::new(entrances), found))
    }

    /// The node that the driver means by this address.
    pub(crate) fn node(&self, known: SocketAddr) -> SocketAddr {
        self.0.node(known)
    }
}

impl Encrypted {
    async fn handshake(&self, tcp: TcpStream, node: SocketAddr) -> Result<TlsStream<TcpStream>> {
        let given = self.given.get(&node);
        let address = given.cloned().unwrap_or_else(|| node.to_string());
        let shaken = timeout(CONNECT_TIMEOUT, self.tls.handshake(tcp, &address)).await;
        shaken.context("no answer to the TLS handshake in time")?
    }

    /// In TLS 1.3 it is not before its first answer that a node says it wants a certificate.
    async fn try_node(&self, node: SocketAddr) -> Result<()> {
        let tcp = timeout(CONNECT_TIMEOUT, TcpStream::connect(node)).await;
        let tcp = tcp.context("no connection in time")??;
        let mut stream = self.handshake(tcp, node).await?;
        let mut first = [0];
        let asking = async {
            stream.write_all(&OPTIONS).await?;
            stream.flush().await?;
            stream.read(&mut first).await
        };
        let answered = timeout(CONNECT_TIMEOUT, asking).await;
        let read = answered.context("no answer in time")?.map_err(explain)?;
        ensure!(read > 0, "it has closed the connection; does it speak CQL?");
        Ok(())
    }
}

impl Encrypt for Encrypted {
    type Stream = TlsStream<TcpStream>;

    async fn encrypt(&self, tcp: TcpStream, node: SocketAddr) -> Option<Self::Stream> {
        let shaken = self.handshake(tcp, node).await;
        // The driver goes on with the other nodes, and would not say why.
        if let Err(error) = &shaken
            && self.told.lock().is_ok_and(|mut told| told.insert(node))
        {
            eprintln!("{node} gets no queries: {error:#}.");
        }
        shaken.ok()
    }
}

/// For nodes of which the driver hears.
#[async_trait]
impl AddressTranslator for Entrances {
    async fn translate_address(
        &self,
        peer: &UntranslatedPeer,
    ) -> Result<SocketAddr, TranslationError> {
        let entrance = self.0.entrance_heard(peer.untranslated_address());
        entrance.map_err(|e| TranslationError::IoError(Arc::new(e)))
    }
}

#[cfg(test)]
mod tests;
