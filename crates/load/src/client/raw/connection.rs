//! One connection of protocol v4 with one request at a time.

use super::message::{CONNECT_TIMEOUT, Envelope, Plan, error_code, error_text};
use super::stream::Stream;

use crate::client::{BindMarker, CqlType};
use anyhow::{Context, Result, bail, ensure};
use helenus_wire::{
    Compression, HEADER_LEN, Header, MAX_RESPONSE_BODY, Opcode, PreparedView, Version, code,
    compress_body, decompress_body, flags, query_flags, strip_prelude, write,
};
use tokio::time::timeout;

#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    pub(super) statements: Vec<Prepared>,
    /// Bytes received but not parsed yet.
    received: Vec<u8>,
    to_send: Vec<u8>,
    /// Of answers: already that to STARTUP is compressed.
    decompression: Compression,
    /// Of requests, once STARTUP has been answered.
    compression: Compression,
    /// A body before it is compressed.
    uncompressed: Vec<u8>,
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
            received: Vec::new(),
            to_send: Vec::new(),
            decompression: plan.compression,
            compression: Compression::None,
            uncompressed: Vec::new(),
        };
        let mut options = vec![("CQL_VERSION", "3.0.0")];
        options.extend(name(plan.compression).map(|name| ("COMPRESSION", name)));
        let startup = |body: &mut Vec<u8>| write::string_map(body, &options);
        let mut envelope = connection.request(Opcode::Startup, startup).await?;
        if envelope.opcode != Opcode::Error as u8 {
            connection.compression = plan.compression;
        }
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
    pub(super) async fn execute(
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
            let serial = plan.serial_consistency;
            let flags = serial.map_or(0, |_| query_flags::SERIAL_CONSISTENCY);
            body.push((query_flags::VALUES | flags) as u8);
            write::u16(body, values.len() as u16);
            for value in values {
                write::bytes(body, Some(value));
            }
            if let Some(serial) = serial {
                write::u16(body, serial);
            }
        };
        let envelope = self.request(Opcode::Execute, write_body).await;
        self.statements[statement].id = id;
        envelope
    }

    pub(super) async fn request(
        &mut self,
        opcode: Opcode,
        write_body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Envelope> {
        self.to_send.clear();
        let mut header = Header {
            version: Version::V4 as u8,
            response: false,
            flags: 0,
            stream: 0,
            opcode: opcode as u8,
            body_len: 0,
        };
        if self.compression != Compression::None {
            header.flags = flags::COMPRESSED;
        }
        header.write(&mut self.to_send);
        match self.compression {
            Compression::None => write_body(&mut self.to_send),
            compression => {
                self.uncompressed.clear();
                write_body(&mut self.uncompressed);
                compress_body(compression, &self.uncompressed, &mut self.to_send);
            }
        }
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
        let received = &self.received[HEADER_LEN..HEADER_LEN + body_len];
        let mut body = Vec::new();
        match header.flags & flags::COMPRESSED {
            0 => body.extend_from_slice(received),
            _ => decompress_body(self.decompression, received, MAX_RESPONSE_BODY, &mut body)?,
        }
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

/// The name of a compression in STARTUP.
fn name(compression: Compression) -> Option<&'static str> {
    match compression {
        Compression::None => None,
        Compression::Lz4 => Some("lz4"),
        Compression::Snappy => Some("snappy"),
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
