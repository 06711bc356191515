//! A blocking client that shows every byte of the native protocol, versions 3 to 5.
//!
//! Written from the protocol's specification and shares no code with the proxy, which it judges.

mod answer;

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub use answer::{Answer, Fault, Spec, elements};

pub mod op {
    pub const ERROR: u8 = 0x00;
    pub const STARTUP: u8 = 0x01;
    pub const READY: u8 = 0x02;
    pub const AUTHENTICATE: u8 = 0x03;
    pub const OPTIONS: u8 = 0x05;
    pub const SUPPORTED: u8 = 0x06;
    pub const QUERY: u8 = 0x07;
    pub const RESULT: u8 = 0x08;
    pub const PREPARE: u8 = 0x09;
    pub const EXECUTE: u8 = 0x0A;
    pub const REGISTER: u8 = 0x0B;
    pub const EVENT: u8 = 0x0C;
    pub const BATCH: u8 = 0x0D;
    pub const AUTH_CHALLENGE: u8 = 0x0E;
    pub const AUTH_RESPONSE: u8 = 0x0F;
    pub const AUTH_SUCCESS: u8 = 0x10;
}

/// Most bytes in a frame of version 5.
const FRAME_MAX: usize = (1 << 17) - 1;

pub const ONE: u16 = 1;
pub const QUORUM: u16 = 4;

const SKIP_METADATA: u8 = 2;

/// Longest wait for an answer: generous, but no test hangs.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A prepared statement's names.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub id: Vec<u8>,
    pub result_id: Option<Vec<u8>>,
    /// Columns of its result.
    pub columns: i32,
}

pub struct Client<S> {
    pub stream: S,
    pub version: u8,
    framed: bool,
    received: Vec<u8>,
    next_stream: i16,
}

impl Client<TcpStream> {
    /// Opens a TCP connection and nothing more.
    pub fn connect(address: SocketAddr, version: u8) -> Result<Self> {
        Self::of(TcpStream::connect_timeout(&address, PATIENCE)?, version)
    }

    /// A client over a connection that is open already.
    pub fn of(stream: TcpStream, version: u8) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self::over(stream, version))
    }

    /// This connection once more, for a thread that only sends.
    pub fn sender(&self) -> Result<Self> {
        let mut sender = Self::over(self.stream.try_clone()?, self.version);
        sender.framed = self.framed;
        Ok(sender)
    }

    /// A connection that is ready for queries.
    pub fn ready(address: SocketAddr, version: u8) -> Result<Self> {
        let mut client = Self::connect(address, version)?;
        client.startup(None)?.map_err(Error::from)?;
        Ok(client)
    }
}

impl<S: Read + Write> Client<S> {
    pub fn over(stream: S, version: u8) -> Self {
        Self {
            stream,
            version,
            framed: false,
            received: Vec::new(),
            next_stream: 1,
        }
    }

    /// STARTUP and, if asked for, name and password.
    pub fn startup(
        &mut self,
        login: Option<(&str, &str)>,
    ) -> Result<std::result::Result<(), Fault>> {
        let answer = self.hello(&[])?;
        let answer = match (answer.opcode, login) {
            (op::AUTHENTICATE, Some((name, password))) => {
                self.log_in(format!("\0{name}\0{password}").as_bytes())?
            }
            _ => answer,
        };
        match answer.opcode {
            op::READY | op::AUTH_SUCCESS => Ok(Ok(())),
            op::ERROR => Ok(Err(answer.fault()?)),
            other => Err(invalid(format!("opcode {other} instead of READY"))),
        }
    }

    /// STARTUP with these options beside the version of CQL; READY, AUTHENTICATE or ERROR.
    pub fn hello(&mut self, options: &[(&str, &str)]) -> Result<Answer> {
        let mut body = Vec::new();
        short(&mut body, options.len() as u16 + 1);
        for (name, value) in [("CQL_VERSION", "3.0.0")].iter().chain(options) {
            string(&mut body, name);
            string(&mut body, value);
        }
        let answer = self.call(op::STARTUP, &body)?;
        if answer.opcode != op::ERROR {
            self.framed = self.version >= 5;
        }
        Ok(answer)
    }

    /// AUTH_RESPONSE with this token.
    pub fn log_in(&mut self, token: &[u8]) -> Result<Answer> {
        self.call(op::AUTH_RESPONSE, &value(token))
    }

    /// A query that may be answered by an error.
    pub fn try_query(
        &mut self,
        cql: &str,
        consistency: u16,
    ) -> Result<std::result::Result<Answer, Fault>> {
        let body = self.query_body(cql, consistency);
        self.call(op::QUERY, &body)?.judged()
    }

    /// A query that must work; the rows of its result, if any.
    pub fn query(&mut self, cql: &str) -> Result<Vec<Vec<Option<Vec<u8>>>>> {
        self.try_query(cql, ONE)?.map_err(Error::from)?.rows()
    }

    pub fn prepare(&mut self, cql: &str) -> Result<Prepared> {
        self.prepare_in(cql, None)
    }

    /// PREPARE that names a keyspace itself (v5).
    pub fn prepare_in(&mut self, cql: &str, keyspace: Option<&str>) -> Result<Prepared> {
        let answer = self.ask_to_prepare(cql, keyspace)?.map_err(Error::from)?;
        self.prepared(&answer)
    }

    /// PREPARE that may be answered by an error.
    pub fn try_prepare(&mut self, cql: &str) -> Result<std::result::Result<Prepared, Fault>> {
        match self.ask_to_prepare(cql, None)? {
            Ok(answer) => self.prepared(&answer).map(Ok),
            Err(fault) => Ok(Err(fault)),
        }
    }

    fn ask_to_prepare(
        &mut self,
        cql: &str,
        keyspace: Option<&str>,
    ) -> Result<std::result::Result<Answer, Fault>> {
        let mut body = Vec::new();
        long_string(&mut body, cql);
        if self.version >= 5 {
            body.extend(u32::from(keyspace.is_some()).to_be_bytes());
        }
        if let Some(keyspace) = keyspace {
            string(&mut body, keyspace);
        }
        self.call(op::PREPARE, &body)?.judged()
    }

    fn prepared(&self, answer: &Answer) -> Result<Prepared> {
        let mut at = answer.content()?;
        match at.int()? {
            4 => {
                let id = at.short_bytes()?.to_vec();
                let result_id = match self.version {
                    5.. => Some(at.short_bytes()?.to_vec()),
                    _ => None,
                };
                let (flags, markers) = (at.int()?, at.int()?);
                if self.version >= 4 {
                    for _ in 0..at.int()? {
                        at.short()?;
                    }
                }
                at.skip_columns(flags, markers)?;
                at.int()?;
                let columns = at.int()?;
                Ok(Prepared {
                    id,
                    result_id,
                    columns,
                })
            }
            kind => Err(invalid(format!(
                "RESULT of kind {kind} instead of PREPARED"
            ))),
        }
    }

    pub fn execute(
        &mut self,
        prepared: &Prepared,
        values: &[&[u8]],
        consistency: u16,
    ) -> Result<std::result::Result<Answer, Fault>> {
        let body = self.execute_body(prepared, values, consistency);
        self.call(op::EXECUTE, &body)?.judged()
    }

    /// As drivers do it: without the columns, which they know from PREPARE.
    pub fn execute_known(
        &mut self,
        prepared: &Prepared,
        values: &[&[u8]],
    ) -> Result<std::result::Result<Answer, Fault>> {
        let body = self.execute_body_with(prepared, values, ONE, SKIP_METADATA);
        self.call(op::EXECUTE, &body)?.judged()
    }

    pub fn execute_body(&self, prepared: &Prepared, values: &[&[u8]], consistency: u16) -> Vec<u8> {
        self.execute_body_with(prepared, values, consistency, 0)
    }

    fn execute_body_with(
        &self,
        prepared: &Prepared,
        values: &[&[u8]],
        consistency: u16,
        flags: u8,
    ) -> Vec<u8> {
        let mut body = Vec::new();
        short_bytes(&mut body, &prepared.id);
        if let Some(id) = &prepared.result_id {
            short_bytes(&mut body, id);
        }
        self.parameters(&mut body, consistency, flags | 1);
        short(&mut body, values.len() as u16);
        for value in values {
            bytes(&mut body, value);
        }
        body
    }

    pub fn query_body(&self, cql: &str, consistency: u16) -> Vec<u8> {
        let mut body = Vec::new();
        long_string(&mut body, cql);
        self.parameters(&mut body, consistency, 0);
        body
    }

    /// A logged batch of a prepared statement with its values, and of a text behind it.
    pub fn batch_body(&self, prepared: &Prepared, values: &[&[u8]], cql: &str) -> Vec<u8> {
        let mut body = vec![0];
        short(&mut body, 2);
        body.push(1);
        short_bytes(&mut body, &prepared.id);
        short(&mut body, values.len() as u16);
        for value in values {
            bytes(&mut body, value);
        }
        body.push(0);
        long_string(&mut body, cql);
        short(&mut body, 0);
        self.parameters(&mut body, ONE, 0);
        body
    }

    fn parameters(&self, body: &mut Vec<u8>, consistency: u16, flags: u8) {
        short(body, consistency);
        match self.version {
            5.. => body.extend(u32::from(flags).to_be_bytes()),
            _ => body.push(flags),
        }
    }

    /// One request and its answer.
    pub fn call(&mut self, opcode: u8, body: &[u8]) -> Result<Answer> {
        self.call_flagged(opcode, 0, body)
    }

    /// [`Self::call`] with flags in the header.
    pub fn call_flagged(&mut self, opcode: u8, flags: u8, body: &[u8]) -> Result<Answer> {
        let stream = self.next_stream;
        self.next_stream = (stream + 1) % 1000;
        self.send_flagged(stream, opcode, flags, body)?;
        loop {
            let answer = self.receive()?;
            if answer.stream == stream {
                return Ok(answer);
            }
            if answer.stream != -1 {
                return Err(invalid(format!("stream {} for {stream}", answer.stream)));
            }
        }
    }

    pub fn send(&mut self, stream: i16, opcode: u8, body: &[u8]) -> Result<()> {
        self.send_flagged(stream, opcode, 0, body)
    }

    fn send_flagged(&mut self, stream: i16, opcode: u8, flags: u8, body: &[u8]) -> Result<()> {
        let mut envelope = envelope(self.version, stream, opcode, body);
        envelope[1] = flags;
        if self.framed {
            self.stream.write_all(&frames(&envelope))?;
        } else {
            self.stream.write_all(&envelope)?;
        }
        self.stream.flush()
    }

    pub fn receive(&mut self) -> Result<Answer> {
        loop {
            if let Some(answer) = self.parse()? {
                return Ok(answer);
            }
            if self.framed {
                let mut header = [0; 6];
                self.stream.read_exact(&mut header)?;
                let word = u32::from_le_bytes([header[0], header[1], header[2], 0]);
                let crc = u32::from_le_bytes([header[3], header[4], header[5], 0]);
                check(crc24(&header[..3]) == crc, "CRC of a frame's header")?;
                let mut payload = vec![0; word as usize & 0x1_FFFF];
                self.stream.read_exact(&mut payload)?;
                let mut crc = [0; 4];
                self.stream.read_exact(&mut crc)?;
                check(crc32(&payload) == u32::from_le_bytes(crc), "CRC of a frame")?;
                self.received.extend(payload);
            } else {
                let mut chunk = [0; 16 * 1024];
                match self.stream.read(&mut chunk)? {
                    0 => return Err(ErrorKind::UnexpectedEof.into()),
                    n => self.received.extend(&chunk[..n]),
                }
            }
        }
    }

    fn parse(&mut self) -> Result<Option<Answer>> {
        let Some(header) = self.received.first_chunk::<9>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
        check(
            header[0] & 0x80 != 0 && len <= 256 << 20,
            "an answer's header",
        )?;
        if self.received.len() < 9 + len {
            return Ok(None);
        }
        let answer = Answer {
            version: header[0] & 0x7F,
            flags: header[1],
            stream: i16::from_be_bytes([header[2], header[3]]),
            opcode: header[4],
            body: self.received[9..9 + len].to_vec(),
        };
        self.received.drain(..9 + len);
        Ok(Some(answer))
    }
}

/// An envelope, header and body.
pub fn envelope(version: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![version, 0];
    out.extend(stream.to_be_bytes());
    out.push(opcode);
    out.extend((body.len() as u32).to_be_bytes());
    out.extend(body);
    out
}

/// A value of the type `[bytes]`: the body of an AUTH_RESPONSE.
pub fn value(of: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(&mut out, of);
    out
}

/// Uncompressed, self-contained frame of version 5.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    framed(payload, true)
}

/// An envelope in as many uncompressed frames as it takes.
fn frames(envelope: &[u8]) -> Vec<u8> {
    if envelope.len() <= FRAME_MAX {
        return frame(envelope);
    }
    let parts = envelope.chunks(FRAME_MAX);
    parts.flat_map(|part| framed(part, false)).collect()
}

fn framed(payload: &[u8], self_contained: bool) -> Vec<u8> {
    assert!(payload.len() <= FRAME_MAX, "one frame only");
    let word = (payload.len() as u32 | u32::from(self_contained) << 17).to_le_bytes();
    let mut out = word[..3].to_vec();
    out.extend(&crc24(&word[..3]).to_le_bytes()[..3]);
    out.extend(payload);
    out.extend(crc32(payload).to_le_bytes());
    out
}

fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = 0x87_5060;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x100_0000 != 0 {
                crc ^= 0x197_4F0B;
            }
        }
    }
    crc
}

fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[0xFA, 0x2D, 0x55, 0xCA]);
    hasher.update(payload);
    hasher.finalize()
}

fn short(out: &mut Vec<u8>, n: u16) {
    out.extend(n.to_be_bytes());
}

fn string(out: &mut Vec<u8>, text: &str) {
    short_bytes(out, text.as_bytes());
}

fn short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    short(out, bytes.len() as u16);
    out.extend(bytes);
}

fn long_string(out: &mut Vec<u8>, text: &str) {
    bytes(out, text.as_bytes());
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
}

fn check(ok: bool, what: &str) -> Result<()> {
    if ok {
        return Ok(());
    }
    Err(invalid(format!("{what} is wrong")))
}

fn invalid(text: String) -> Error {
    Error::new(ErrorKind::InvalidData, text)
}
