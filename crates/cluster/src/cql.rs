//! Just enough of the native protocol to check whether a node is ready.
//!
//! Independent on purpose: other parts of the project are measured on clusters that this crate
//! checks, so it shares no code with them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::error::{Error, Result};

const HEADER_LEN: usize = 9;
/// Responses to the queries used here are small; larger ones are rejected rather than buffered.
const BODY_LEN_MAX: usize = 64 << 20;

const OP_ERROR: u8 = 0x00;
const OP_STARTUP: u8 = 0x01;
const OP_READY: u8 = 0x02;
const OP_AUTHENTICATE: u8 = 0x03;
const OP_OPTIONS: u8 = 0x05;
const OP_SUPPORTED: u8 = 0x06;
const OP_QUERY: u8 = 0x07;
const OP_RESULT: u8 = 0x08;
const OP_AUTH_RESPONSE: u8 = 0x0F;
const OP_AUTH_SUCCESS: u8 = 0x10;

/// Consistency levels used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Consistency {
    /// One replica answers, or the node keeps hints for all of them.
    Any = 0x0000,
    /// One replica answers.
    One = 0x0001,
    /// More than half of the replicas answer.
    Quorum = 0x0004,
    /// Every replica answers.
    All = 0x0005,
}

/// Undecoded rows: cells are bytes or null.
pub type Rows = Vec<Vec<Option<Vec<u8>>>>;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// One blocking connection to one node.
pub struct Connection {
    stream: Box<dyn Stream>,
    version: u8,
}

/// How to connect.
#[derive(Clone, Default)]
pub(crate) struct Access {
    pub tls: Option<Arc<ClientConfig>>,
    pub login: Option<(String, String)>,
    pub version: u8,
}

impl Connection {
    /// Connects, sends OPTIONS, and starts a session.
    pub(crate) fn open(address: SocketAddr, access: &Access, patience: Duration) -> Result<Self> {
        let mut connection = Self::greet(address, access, patience)?;
        connection.log_in(address, access)?;
        Ok(connection)
    }

    /// Connects and sends OPTIONS, which needs no password.
    pub(crate) fn greet(address: SocketAddr, access: &Access, patience: Duration) -> Result<Self> {
        let socket = TcpStream::connect_timeout(&address, patience).map_err(|e| io(address, e))?;
        let settings = socket
            .set_read_timeout(Some(patience))
            .and_then(|()| socket.set_write_timeout(Some(patience)))
            .and_then(|()| socket.set_nodelay(true));
        settings.map_err(|e| io(address, e))?;
        let stream: Box<dyn Stream> = match &access.tls {
            None => Box::new(socket),
            Some(config) => {
                let name = ServerName::IpAddress(address.ip().into());
                let session = ClientConnection::new(config.clone(), name)
                    .map_err(|error| Error::Cql(format!("{address}: {error}")))?;
                Box::new(StreamOwned::new(session, socket))
            }
        };
        let mut connection = Self {
            stream,
            version: access.version,
        };
        connection.expect(OP_OPTIONS, &[], &[OP_SUPPORTED])?;
        Ok(connection)
    }

    fn log_in(&mut self, address: SocketAddr, access: &Access) -> Result<()> {
        let mut startup = vec![0, 1];
        put_string(&mut startup, "CQL_VERSION");
        put_string(&mut startup, "3.0.0");
        let (answer, _) = self.expect(OP_STARTUP, &startup, &[OP_READY, OP_AUTHENTICATE])?;
        if answer == OP_AUTHENTICATE {
            let (user, password) = access.login.clone().ok_or_else(|| {
                Error::Cql(format!("{address} requires a password, but none is set"))
            })?;
            let token = format!("\0{user}\0{password}");
            let mut body = (token.len() as i32).to_be_bytes().to_vec();
            body.extend_from_slice(token.as_bytes());
            self.expect(OP_AUTH_RESPONSE, &body, &[OP_AUTH_SUCCESS])?;
        }
        Ok(())
    }

    /// Runs one statement without paging. Statements without a result return no rows.
    pub fn query(&mut self, cql: &str, consistency: Consistency) -> Result<Rows> {
        let mut body = (cql.len() as i32).to_be_bytes().to_vec();
        body.extend_from_slice(cql.as_bytes());
        body.extend_from_slice(&(consistency as u16).to_be_bytes());
        body.push(0);
        let (_, answer) = self.expect(OP_QUERY, &body, &[OP_RESULT])?;
        read_result(&answer).ok_or_else(|| Error::Cql(format!("unreadable result of `{cql}`")))
    }

    fn expect(&mut self, opcode: u8, body: &[u8], wanted: &[u8]) -> Result<(u8, Vec<u8>)> {
        let (answer, body) = self.exchange(opcode, body).map_err(|source| Error::Io {
            what: "talking to the node".into(),
            source,
        })?;
        if wanted.contains(&answer) {
            return Ok((answer, body));
        }
        if answer == OP_ERROR {
            let mut reader = Reader(&body);
            let code = reader.i32().unwrap_or(0);
            let text = reader.string().unwrap_or_default();
            return Err(Error::Cql(format!("error 0x{code:04x}: {text}")));
        }
        Err(Error::Cql(format!("unexpected answer 0x{answer:02x}")))
    }

    fn exchange(&mut self, opcode: u8, body: &[u8]) -> std::io::Result<(u8, Vec<u8>)> {
        let mut message = vec![self.version, 0, 0, 1, opcode];
        message.extend_from_slice(&(body.len() as u32).to_be_bytes());
        message.extend_from_slice(body);
        self.stream.write_all(&message)?;
        self.stream.flush()?;
        let mut header = [0; HEADER_LEN];
        self.stream.read_exact(&mut header)?;
        let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
        if header[0] & 0x7F != self.version || length > BODY_LEN_MAX {
            let what = format!("not a protocol v{} answer: {header:02x?}", self.version);
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        // Warnings precede the body and are ignored.
        if header[1] & 0x08 != 0 {
            let mut reader = Reader(&answer);
            let skipped = (|| {
                for _ in 0..reader.u16()? {
                    reader.string()?;
                }
                Some(reader.0.len())
            })();
            if let Some(rest) = skipped {
                answer.drain(..answer.len() - rest);
            }
        }
        Ok((header[4], answer))
    }
}

fn io(address: SocketAddr, source: std::io::Error) -> Error {
    Error::Io {
        what: format!("connecting to {address}"),
        source,
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn read_result(body: &[u8]) -> Option<Rows> {
    let mut reader = Reader(body);
    if reader.i32()? != 2 {
        return Some(Vec::new());
    }
    let flags = reader.i32()?;
    let columns = reader.i32()?;
    if flags & 0x02 != 0 {
        reader.bytes()?;
    }
    if flags & 0x01 != 0 {
        reader.string()?;
        reader.string()?;
    }
    for _ in 0..columns {
        if flags & 0x01 == 0 {
            reader.string()?;
            reader.string()?;
        }
        reader.string()?;
        reader.skip_type(0)?;
    }
    let rows = reader.i32()?;
    let mut all = Vec::new();
    for _ in 0..rows {
        let row: Option<Vec<_>> = (0..columns).map(|_| reader.bytes()).collect();
        all.push(row?);
    }
    Some(all)
}

/// Reads the protocol's notations from the front of a slice.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn string(&mut self) -> Option<String> {
        let length = usize::from(self.u16()?);
        Some(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    /// The outer option is "was readable", the inner one "was not null".
    #[allow(clippy::option_option)]
    fn bytes(&mut self) -> Option<Option<Vec<u8>>> {
        match usize::try_from(self.i32()?) {
            Err(_) => Some(None),
            Ok(length) => Some(Some(self.take(length)?.to_vec())),
        }
    }

    fn skip_type(&mut self, depth: u8) -> Option<()> {
        if depth > 32 {
            return None;
        }
        match self.u16()? {
            0x0000 => drop(self.string()?),
            0x0020 | 0x0022 => self.skip_type(depth + 1)?,
            0x0021 => {
                self.skip_type(depth + 1)?;
                self.skip_type(depth + 1)?;
            }
            0x0030 => {
                self.string()?;
                self.string()?;
                for _ in 0..self.u16()? {
                    self.string()?;
                    self.skip_type(depth + 1)?;
                }
            }
            0x0031 => {
                for _ in 0..self.u16()? {
                    self.skip_type(depth + 1)?;
                }
            }
            _ => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_body() -> Vec<u8> {
        let mut body = vec![0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        put_string(&mut body, "ks");
        put_string(&mut body, "t");
        put_string(&mut body, "a");
        body.extend([0, 0x21, 0, 9, 0, 0x22, 0, 0x0D]); // map<int, set<varchar>>
        put_string(&mut body, "b");
        body.extend([0, 9]);
        body.extend([0, 0, 0, 1]); // one row
        body.extend([0, 0, 0, 2, 7, 8]);
        body.extend([0xFF; 4]);
        body
    }

    #[test]
    fn rows_are_read() {
        assert_eq!(
            read_result(&rows_body()),
            Some(vec![vec![Some(vec![7, 8]), None]])
        );
        assert_eq!(read_result(&[0, 0, 0, 1]), Some(vec![]));
    }

    #[test]
    fn every_truncation_is_noticed() {
        let body = rows_body();
        for length in 0..body.len() {
            assert_eq!(read_result(&body[..length]), None, "at {length}");
        }
    }
}
