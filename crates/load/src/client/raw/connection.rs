//! One connection of protocol v4 with one request at a time.

use super::message::{CONNECT_TIMEOUT, Plan};
use super::stream::Stream;

use crate::client::{BindMarker, CqlType};
use anyhow::{Context, Result, bail, ensure};
use helenus_client::{
    Answer, Codec, Opcode, Options, PreparedIds, Statement, prepare, request, set_values, startup,
};
use helenus_wire::{PreparedView, Version, code};
use tokio::time::timeout;

pub(super) const VERSION: u8 = Version::V4 as u8;
/// Bytes that are read at a time, at first and at most.
const READ_BYTES: usize = 512;
const READ_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    pub(super) statements: Vec<Prepared>,
    codec: Codec,
    received: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct Prepared {
    id: Vec<u8>,
    pub(super) markers: Vec<BindMarker>,
}

impl Connection {
    pub(super) async fn open(plan: &Plan, client: usize) -> Result<Self> {
        let address = &plan.contact_points[client % plan.contact_points.len()];
        timeout(CONNECT_TIMEOUT, Self::open_at(plan, address))
            .await
            .with_context(|| format!("{address} did not answer in time"))?
            .with_context(|| format!("cannot open a connection to {address}"))
    }

    async fn open_at(plan: &Plan, address: &str) -> Result<Self> {
        let mut connection = Self {
            stream: Stream::connect(address, plan.tls.as_ref()).await?,
            statements: Vec::new(),
            codec: Codec::new(VERSION, plan.compression),
            received: Vec::new(),
        };
        let body = startup(plan.compression, &[]);
        let mut answer = connection.request(Opcode::Startup, &body).await?;
        if answer.opcode == Opcode::Authenticate as u8 {
            let body = plan.auth_response()?;
            answer = connection.request(Opcode::AuthResponse, &body).await?;
        }
        if answer.opcode == Opcode::Error as u8 {
            bail!("{}", answer.error_text());
        }
        for text in &plan.statements {
            let prepared = connection.prepare(text).await?;
            connection.statements.push(prepared);
        }
        Ok(connection)
    }

    async fn prepare(&mut self, text: &str) -> Result<Prepared> {
        let body = prepare(VERSION, text, None);
        let answer = self.request(Opcode::Prepare, &body).await?;
        if answer.opcode != Opcode::Result as u8 {
            bail!("cannot prepare: {text}: {}", answer.error_text());
        }
        let view = PreparedView::parse(answer.message()?, Version::V4)?;
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
    pub(super) async fn execute(
        &mut self,
        plan: &Plan,
        statement: usize,
        values: &[&[u8]],
    ) -> Result<Answer> {
        let answer = self.execute_once(plan, statement, values).await?;
        if answer.code() != Some(code::UNPREPARED) {
            return Ok(answer);
        }
        self.statements[statement] = self.prepare(&plan.statements[statement]).await?;
        self.execute_once(plan, statement, values).await
    }

    async fn execute_once(
        &mut self,
        plan: &Plan,
        statement: usize,
        values: &[&[u8]],
    ) -> Result<Answer> {
        let ids = PreparedIds {
            statement: &self.statements[statement].id,
            result_metadata: None,
        };
        let values = set_values(values);
        let options = Options {
            values: Some(&values),
            serial_consistency: plan.serial_consistency,
            ..Options::at(plan.consistency)
        };
        let body = request(VERSION, Statement::Prepared(ids), &options);
        self.request(Opcode::Execute, &body).await
    }

    pub(super) async fn request(&mut self, opcode: Opcode, body: &[u8]) -> Result<Answer> {
        let write_body = |out: &mut Vec<u8>| out.extend_from_slice(body);
        self.codec.push(0, opcode as u8, 0, write_body);
        loop {
            let bytes = self.codec.pending();
            let len = bytes.len();
            if len == 0 {
                return self.answer().await;
            }
            self.stream.write_all(bytes).await?;
            self.codec.advance(len);
        }
    }

    /// Usually one system call returns all of it.
    async fn answer(&mut self) -> Result<Answer> {
        let mut answer = None;
        loop {
            self.received.reserve(READ_BYTES);
            let got = self.stream.read_buf(&mut self.received).await?;
            ensure!(got > 0, "the connection was closed");
            self.codec
                .feed(&self.received, |found| answer = Some(found))?;
            self.received.clear();
            if let Some(answer) = answer {
                return Ok(answer);
            }
            let room = self.received.capacity();
            if got == room && room < READ_BYTES_MAX {
                self.received.reserve(2 * room);
            }
        }
    }
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
