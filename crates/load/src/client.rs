//! Clients that execute prepared statements, of two kinds.
//!
//! - **driver**: sessions of a real driver, which discover the cluster, pool connections to each
//!   host and choose a node for each request. Several clients share a session, as the threads of an
//!   application do.
//! - **raw**: one plain connection per client, with one request at a time: what a large fleet of
//!   small applications looks like to a cluster. A thousand driver sessions would open thousands of
//!   connections and control connections, and would themselves be the load. A raw client connects
//!   to one contact point and stays there; contact points are assigned round-robin.

use crate::endpoint::Endpoint;
use crate::measure::ErrorKind;
use anyhow::Result;
use scylla::client::session::Session;
use std::sync::Arc;

mod driver;
mod raw;

pub use driver::DriverClients;
pub use raw::RawClients;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    Driver,
    Raw,
}

/// A bind marker of a prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMarker {
    pub name: String,
    /// None if no values can be generated for its type.
    pub cql_type: Option<CqlType>,
}

/// The types that values can be generated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CqlType {
    Text,
    Blob,
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Varint,
    Counter,
    Float,
    Double,
    Timestamp,
    Date,
    Time,
    Uuid,
    TimeUuid,
}

/// The part of a response that workloads check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub rows: usize,
    /// The cells of the first row, in wire encoding.
    pub first_row: Vec<Option<Vec<u8>>>,
}

impl Response {
    /// A cell of the first row; None if there is no row, or it is null.
    pub fn cell(&self, column: usize) -> Option<&[u8]> {
        self.first_row.get(column)?.as_deref()
    }
}

#[derive(Debug)]
pub enum Clients {
    Driver(DriverClients),
    Raw(RawClients),
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
