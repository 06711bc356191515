//! Clients with one plain connection each: protocol v4, uncompressed, one request at a time.

use super::{BindMarker, CqlType, Response};
use crate::endpoint::Endpoint;
use crate::failure::code_kind;
use crate::measure::ErrorKind;
use anyhow::{Context, Result, bail, ensure};
use helenus_wire::{
    ErrorBody, HEADER_LEN, Header, MAX_RESPONSE_BODY, Opcode, PreparedView, ResultKind, RowsView,
    Version, code, query_flags, result_kind, strip_prelude, write,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections opened concurrently: a listening socket's backlog is finite.
const OPENING_MAX: usize = 32;
pub(super) const UNREADABLE: ErrorKind = "unreadable answer";
pub(super) const BROKEN: ErrorKind = "connection broken";

#[derive(Debug)]
pub struct RawClients {
    /// None after a failure, until the client's next request.
    connections: Vec<Mutex<Option<Connection>>>,
    plan: Arc<Plan>,
    markers: Vec<Vec<BindMarker>>,
}

/// What every connection is opened with.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) contact_points: Vec<String>,
    pub(super) statements: Vec<String>,
    pub(super) credentials: Option<(String, String)>,
    pub(super) consistency: u16,
}

impl Plan {
    pub(super) fn new(endpoint: &Endpoint, statements: &[&str]) -> Result<Self> {
        ensure!(
            !endpoint.contact_points.is_empty(),
            "{} has no contact point",
            endpoint.name
        );
        Ok(Self {
            contact_points: endpoint.contact_points.clone(),
            statements: statements.iter().map(|text| (*text).to_owned()).collect(),
            credentials: endpoint.credentials.clone(),
            consistency: endpoint.consistency as u16,
        })
    }

    /// SASL PLAIN: no identity to act as, then user and password.
    pub(super) fn sasl_token(&self) -> Result<String> {
        let (user, password) = self
            .credentials
            .as_ref()
            .context("it requires a role and a password: give --username")?;
        Ok(format!("\0{user}\0{password}"))
    }
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    statements: Vec<Prepared>,
    /// Bytes received but not parsed yet.
    received: Vec<u8>,
    to_send: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Prepared {
    id: Vec<u8>,
    markers: Vec<BindMarker>,
}

#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) opcode: u8,
    pub(super) flags: u8,
    pub(super) body: Vec<u8>,
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
        let envelope = timeout(REQUEST_TIMEOUT, request)
            .await
            .map_err(|_| "client timeout")?
            .map_err(|_| BROKEN)?;
        *slot = Some(connection);
        drop(slot);
        response(&envelope)
    }
}

impl Connection {
    async fn open(plan: &Plan, client: usize) -> Result<Self> {
        let address = &plan.contact_points[client % plan.contact_points.len()];
        timeout(CONNECT_TIMEOUT, Self::open_at(plan, address))
            .await
            .with_context(|| format!("{address} did not answer in time"))?
            .with_context(|| format!("cannot open a connection to {address}"))
    }

    async fn open_at(plan: &Plan, address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut connection = Self {
            stream,
            statements: Vec::new(),
            received: Vec::new(),
            to_send: Vec::new(),
        };
        let startup = |body: &mut Vec<u8>| write::string_map(body, &[("CQL_VERSION", "3.0.0")]);
        let mut envelope = connection.request(Opcode::Startup, startup).await?;
        if envelope.opcode == Opcode::Authenticate as u8 {
            let token = plan.sasl_token()?;
            envelope = connection
                .request(Opcode::AuthResponse, |body| {
                    write::bytes(body, Some(token.as_bytes()))
                })
                .await?;
        }
        if envelope.opcode == Opcode::Error as u8 {
            bail!("{}", error_text(&envelope));
        }
        for text in &plan.statements {
            let prepared = connection.prepare(text).await?;
            connection.statements.push(prepared);
        }
        Ok(connection)
    }

    async fn prepare(&mut self, text: &str) -> Result<Prepared> {
        let envelope = self
            .request(Opcode::Prepare, |body| write::long_string(body, text))
            .await?;
        if envelope.opcode != Opcode::Result as u8 {
            bail!("cannot prepare: {text}: {}", error_text(&envelope));
        }
        let (_, body) = strip_prelude(envelope.flags, &envelope.body)?;
        let view = PreparedView::parse(body, Version::V4)?;
        let markers = view.markers.iter().map(|marker| BindMarker {
            name: marker.name.to_owned(),
            cql_type: cql_type(marker.column_type.id),
        });
        Ok(Prepared {
            id: view.id.to_vec(),
            markers: markers.collect(),
        })
    }

    /// Prepares the statement again, once, if the node no longer knows it.
    async fn execute(
        &mut self,
        plan: &Plan,
        statement: usize,
        values: &[&[u8]],
    ) -> Result<Envelope> {
        let envelope = self.execute_once(plan, statement, values).await?;
        if error_code(&envelope) != Some(code::UNPREPARED) {
            return Ok(envelope);
        }
        self.statements[statement] = self.prepare(&plan.statements[statement]).await?;
        self.execute_once(plan, statement, values).await
    }

    async fn execute_once(
        &mut self,
        plan: &Plan,
        statement: usize,
        values: &[&[u8]],
    ) -> Result<Envelope> {
        let id = std::mem::take(&mut self.statements[statement].id);
        let write_body = |body: &mut Vec<u8>| {
            write::short_bytes(body, &id);
            write::u16(body, plan.consistency);
            body.push(query_flags::VALUES as u8);
            write::u16(body, values.len() as u16);
            for value in values {
                write::bytes(body, Some(value));
            }
        };
        let envelope = self.request(Opcode::Execute, write_body).await;
        self.statements[statement].id = id;
        envelope
    }

    async fn request(
        &mut self,
        opcode: Opcode,
        write_body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Envelope> {
        self.to_send.clear();
        let header = Header {
            version: Version::V4 as u8,
            response: false,
            flags: 0,
            stream: 0,
            opcode: opcode as u8,
            body_len: 0,
        };
        header.write(&mut self.to_send);
        write_body(&mut self.to_send);
        let body_len = u32::try_from(self.to_send.len() - HEADER_LEN)?;
        self.to_send[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&body_len.to_be_bytes());
        self.stream.write_all(&self.to_send).await?;
        self.read_envelope().await
    }

    async fn read_envelope(&mut self) -> Result<Envelope> {
        self.receive(HEADER_LEN).await?;
        let header = Header::parse(&self.received)?;
        ensure!(header.response, "a request where a response was expected");
        let body_len = header.body_len as usize;
        ensure!(body_len <= MAX_RESPONSE_BODY, "the answer is too long");
        self.receive(HEADER_LEN + body_len).await?;
        let body = self.received[HEADER_LEN..HEADER_LEN + body_len].to_vec();
        self.received.drain(..HEADER_LEN + body_len);
        Ok(Envelope {
            opcode: header.opcode,
            flags: header.flags,
            body,
        })
    }

    /// Reads until `wanted` bytes are buffered; usually one system call returns a whole response.
    async fn receive(&mut self, wanted: usize) -> Result<()> {
        while self.received.len() < wanted {
            self.received
                .reserve((wanted - self.received.len()).max(512));
            let got = self.stream.read_buf(&mut self.received).await?;
            ensure!(got > 0, "the connection was closed");
        }
        Ok(())
    }
}

fn response(envelope: &Envelope) -> Result<Response, ErrorKind> {
    if let Some(code) = error_code(envelope) {
        return Err(code_kind(code));
    }
    if envelope.opcode != Opcode::Result as u8 {
        return Err(UNREADABLE);
    }
    let (_, body) = strip_prelude(envelope.flags, &envelope.body).map_err(|_| UNREADABLE)?;
    if !matches!(result_kind(body), Ok(ResultKind::Rows)) {
        return Ok(Response::default());
    }
    let view = RowsView::parse(body).map_err(|_| UNREADABLE)?;
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

pub(super) fn error_code(envelope: &Envelope) -> Option<i32> {
    if envelope.opcode != Opcode::Error as u8 {
        return None;
    }
    let (_, body) = strip_prelude(envelope.flags, &envelope.body).ok()?;
    Some(ErrorBody::parse(body).ok()?.code)
}

pub(super) fn error_text(envelope: &Envelope) -> String {
    let parsed = strip_prelude(envelope.flags, &envelope.body)
        .and_then(|(_, body)| Ok(ErrorBody::parse(body)?.message.to_owned()));
    parsed.unwrap_or_else(|_| format!("unexpected answer, opcode {:#04x}", envelope.opcode))
}

/// The type of a `[option]` id of the native protocol.
fn cql_type(id: u16) -> Option<CqlType> {
    Some(match id {
        0x01 | 0x0A | 0x0D => CqlType::Text,
        0x02 => CqlType::BigInt,
        0x03 => CqlType::Blob,
        0x04 => CqlType::Boolean,
        0x05 => CqlType::Counter,
        0x07 => CqlType::Double,
        0x08 => CqlType::Float,
        0x09 => CqlType::Int,
        0x0B => CqlType::Timestamp,
        0x0C => CqlType::Uuid,
        0x0E => CqlType::Varint,
        0x0F => CqlType::TimeUuid,
        0x11 => CqlType::Date,
        0x12 => CqlType::Time,
        0x13 => CqlType::SmallInt,
        0x14 => CqlType::TinyInt,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
