//! Asking prepared statements, with either of two clients.
//!
//! - **driver**: sessions of a real driver, which discover the cluster, pool connections to each
//!   host and choose a node for each request. Several clients share a session, as the threads of an
//!   application do.
//! - **raw**: one plain connection a client, one request at a time on it, and nothing else: what a
//!   large fleet of small applications looks like to a cluster. A thousand driver sessions would
//!   open thousands of connections and control connections and would themselves be the load. A
//!   plain client connects to one address and stays there; the clients take the contact points in
//!   turn.

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

/// What a statement's marker stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    /// None if it is not one of the simple types.
    pub kind: Option<Simple>,
}

/// The types that values are drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simple {
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

/// What a workload needs of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub rows: usize,
    /// The cells of the first row, as they stand on the wire.
    pub first: Vec<Option<Vec<u8>>>,
}

impl Answer {
    /// A cell of the first row; None if there is no row, or it is null.
    pub fn cell(&self, column: usize) -> Option<&[u8]> {
        self.first.get(column)?.as_deref()
    }
}

#[derive(Debug)]
pub enum Asker {
    Driver(DriverClients),
    Raw(RawClients),
}

impl Asker {
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

    /// A driver's answers come in pages of so many rows from now on; raw connections read all at once.
    pub fn page_by(&mut self, rows: i32) {
        if let Self::Driver(clients) = self {
            clients.page_by(rows);
        }
    }

    /// The markers of a statement, in the order in which values are given.
    pub fn parameters(&self, statement: usize) -> Vec<Parameter> {
        match self {
            Self::Driver(clients) => clients.parameters(statement),
            Self::Raw(clients) => clients.parameters(statement),
        }
    }

    /// Driver sessions, if that is how it asks.
    pub fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        let driver = match self {
            Self::Driver(clients) => Some(clients),
            Self::Raw(_) => None,
        };
        driver.into_iter().flat_map(DriverClients::sessions)
    }

    /// Executes a statement as client number `client`.
    pub async fn ask(
        &self,
        client: usize,
        statement: usize,
        values: &[&[u8]],
    ) -> Result<Answer, ErrorKind> {
        match self {
            Self::Driver(clients) => clients.ask(client, statement, values).await,
            Self::Raw(clients) => clients.ask(client, statement, values).await,
        }
    }
}
