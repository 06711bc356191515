//! Clients with one plain connection each: protocol v4, one request at a time.

use super::{BindMarker, Response};
use crate::client::endpoint::Endpoint;
use crate::client::failure::code_kind;
use crate::measure::ErrorKind;
use anyhow::{Context, Result};
use connection::Connection;
use helenus_client::{Answer, Opcode};
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

mod connection;
mod message;
mod once;
mod stream;

pub(super) use message::{CONNECT_TIMEOUT, Plan};
pub(super) use once::Once;
pub(super) use stream::{Reading, Stream, Writing};

/// Connections opened concurrently: a listening socket's backlog is finite.
pub(crate) const OPENING_MAX: usize = 32;
pub(super) const UNREADABLE: ErrorKind = "unreadable answer";
pub(super) const BROKEN: ErrorKind = "connection broken";

#[derive(Debug)]
pub struct RawClients {
    /// None after a failure, until the client's next request.
    connections: Vec<Mutex<Option<Connection>>>,
    plan: Arc<Plan>,
    markers: Vec<Vec<BindMarker>>,
}

impl RawClients {
    pub async fn open(endpoint: &Endpoint, statements: &[&str], clients: usize) -> Result<Self> {
        let plan = Arc::new(Plan::new(endpoint, statements)?);
        let mut connections: Vec<Mutex<Option<Connection>>> =
            (0..clients).map(|_| Mutex::new(None)).collect();
        let mut markers = Vec::new();
        let mut opening = JoinSet::new();
        for client in 0..clients + OPENING_MAX {
            if client < clients {
                let plan = plan.clone();
                opening.spawn(async move { (client, Connection::open(&plan, client).await) });
            }
            if client >= OPENING_MAX || client >= clients {
                let Some(opened) = opening.join_next().await else {
                    break;
                };
                let (client, connection) = opened.context("opening a connection failed")?;
                let connection =
                    connection.with_context(|| format!("raw client {client} of {clients}"))?;
                if markers.is_empty() {
                    let each = connection.statements.iter();
                    markers = each.map(|prepared| prepared.markers.clone()).collect();
                }
                *connections[client].get_mut() = Some(connection);
            }
        }
        Ok(Self {
            connections,
            plan,
            markers,
        })
    }

    pub fn markers(&self, statement: usize) -> Vec<BindMarker> {
        self.markers[statement].clone()
    }

    /// Waits for the client's previous request, if it is still in flight.
    pub async fn execute(
        &self,
        client: usize,
        statement: usize,
        values: &[&[u8]],
    ) -> Result<Response, ErrorKind> {
        let client = client % self.connections.len();
        let mut slot = self.connections[client].lock().await;
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => Connection::open(&self.plan, client)
                .await
                .map_err(|_| "no connection")?,
        };
        let request = connection.execute(&self.plan, statement, values);
        // After a time-out the connection is dropped, and the late response with it.
        let answer = timeout(self.plan.request_timeout, request)
            .await
            .map_err(|_| "client timeout")?
            .map_err(|_| BROKEN)?;
        *slot = Some(connection);
        drop(slot);
        response(&answer)
    }
}

fn response(answer: &Answer) -> Result<Response, ErrorKind> {
    if let Some(code) = answer.code() {
        return Err(code_kind(code));
    }
    if answer.opcode != Opcode::Result as u8 {
        return Err(UNREADABLE);
    }
    let Some(view) = answer.view().map_err(|_| UNREADABLE)? else {
        return Ok(Response::default());
    };
    let first = match view.rows().next() {
        Some(cells) => cells.map_err(|_| UNREADABLE)?,
        None => Vec::new(),
    };
    let first = first.into_iter().map(|cell| cell.map(<[u8]>::to_vec));
    Ok(Response {
        rows: view.row_count,
        first_row: first.collect(),
    })
}

#[cfg(test)]
mod tests;
