//! Clients that execute prepared statements, of two kinds.
//!
//! - **driver**: sessions of a real driver, which discover the cluster, pool connections to each
//!   host and choose a node for each request. Several clients share a session, as the threads of an
//!   application do.
//! - **raw**: one plain connection per client, with one request at a time: what a large fleet of
//!   small applications looks like to a cluster. A thousand driver sessions would open thousands of
//!   connections and control connections, and would themselves be the load. A raw client connects
//!   to one contact point and stays there; contact points are assigned round-robin.
//!
//! Beside these, [`shared`] is a plain client whose many simulated clients share a few connections.

use crate::client::endpoint::Endpoint;
use crate::measure::ErrorKind;
use anyhow::{Context, Result};
use scylla::client::session::Session;
use std::sync::Arc;

mod driver;
pub mod endpoint;
mod entrances;
pub mod failure;
pub mod idle;
pub mod java;
pub(crate) mod raw;
pub(crate) mod shared;
pub mod tls;
mod types;

pub use driver::DriverClients;
pub use helenus_wire::Compression;
pub use raw::RawClients;
pub use types::{BindMarker, CqlType, Response};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    Driver,
    Raw,
}

impl ClientKind {
    /// How many sessions or connections so many clients need at least.
    pub(crate) fn sessions(self, clients: usize) -> usize {
        match self {
            Self::Driver => 1,
            Self::Raw => clients,
        }
    }
}

#[derive(Debug)]
pub enum Clients {
    Driver(DriverClients),
    Raw(RawClients),
}

/// Executes statements that are not part of a load, such as those that change the schema.
#[derive(Debug)]
pub struct SchemaClient(Opened);

#[derive(Debug)]
enum Opened {
    Driver(Box<Session>),
    Raw(Box<raw::Once>),
}

impl SchemaClient {
    pub async fn open(endpoint: &Endpoint, client: ClientKind) -> Result<Self> {
        Ok(Self(match client {
            ClientKind::Driver => Opened::Driver(Box::new(endpoint.connect().await?)),
            ClientKind::Raw => Opened::Raw(Box::new(raw::Once::open(endpoint).await?)),
        }))
    }

    /// Also waits until the nodes agree on the schema.
    pub async fn execute(&mut self, text: &str) -> Result<()> {
        let done = match &mut self.0 {
            Opened::Driver(session) => session
                .query_unpaged(text, ())
                .await
                .map(drop)
                .map_err(Into::into),
            Opened::Raw(connection) => connection.execute(text).await,
        };
        done.with_context(|| format!("cannot execute: {text}"))
    }
}

impl Clients {
    /// `sessions` driver sessions or raw connections, each with all statements prepared.
    pub async fn open(
        endpoint: &Endpoint,
        client: ClientKind,
        statements: &[&str],
        sessions: usize,
    ) -> Result<Self> {
        let sessions = sessions.max(1);
        Ok(match client {
            ClientKind::Driver => {
                Self::Driver(DriverClients::open(endpoint, statements, sessions).await?)
            }
            ClientKind::Raw => Self::Raw(RawClients::open(endpoint, statements, sessions).await?),
        })
    }

    /// Sets the page size of driver sessions; raw connections read a result in one page.
    pub fn set_page_rows(&mut self, rows: i32) {
        if let Self::Driver(clients) = self {
            clients.set_page_rows(rows);
        }
    }

    /// The bind markers of a statement, in the order of its values.
    pub fn markers(&self, statement: usize) -> Vec<BindMarker> {
        match self {
            Self::Driver(clients) => clients.markers(statement),
            Self::Raw(clients) => clients.markers(statement),
        }
    }

    /// The driver's sessions; none with raw clients.
    pub fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        let driver = match self {
            Self::Driver(clients) => Some(clients),
            Self::Raw(_) => None,
        };
        driver.into_iter().flat_map(DriverClients::sessions)
    }

    /// Executes a statement as client number `client`.
    pub async fn execute(
        &self,
        client: usize,
        statement: usize,
        values: &[&[u8]],
    ) -> Result<Response, ErrorKind> {
        match self {
            Self::Driver(clients) => clients.execute(client, statement, values).await,
            Self::Raw(clients) => clients.execute(client, statement, values).await,
        }
    }
}
