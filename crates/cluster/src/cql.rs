//! One blocking connection to a node: is it ready, and what do a few statements say?

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use helenus_client::{
    Answer, Client, Compression, Opcode, Row, auth_response, plain_token, startup,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::error::{Error, Result};

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
pub type Rows = Vec<Row>;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// One blocking connection to one node.
pub struct Connection(Client<Box<dyn Stream>>);

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
        let mut connection = Self(Client::over(stream, access.version));
        connection.expect(Opcode::Options, &[], &[Opcode::Supported])?;
        Ok(connection)
    }

    fn log_in(&mut self, address: SocketAddr, access: &Access) -> Result<()> {
        let body = startup(Compression::None, &[]);
        let wanted = [Opcode::Ready, Opcode::Authenticate];
        let answer = self.expect(Opcode::Startup, &body, &wanted)?;
        if answer.opcode == Opcode::Authenticate as u8 {
            let (user, password) = access.login.as_ref().ok_or_else(|| {
                Error::Cql(format!("{address} requires a password, but none is set"))
            })?;
            let body = auth_response(&plain_token(user, password));
            self.expect(Opcode::AuthResponse, &body, &[Opcode::AuthSuccess])?;
        }
        Ok(())
    }

    /// Runs one statement without paging. Statements without a result return no rows.
    pub fn query(&mut self, cql: &str, consistency: Consistency) -> Result<Rows> {
        let body = self.0.query_body(cql, consistency as u16);
        let answer = self.expect(Opcode::Query, &body, &[Opcode::Result])?;
        let rows = answer.rows();
        rows.map_err(|_| Error::Cql(format!("unreadable result of `{cql}`")))
    }

    fn expect(&mut self, asked: Opcode, body: &[u8], wanted: &[Opcode]) -> Result<Answer> {
        let answer = self.0.call(asked as u8, body).map_err(|source| Error::Io {
            what: "talking to the node".into(),
            source,
        })?;
        if wanted.iter().any(|opcode| *opcode as u8 == answer.opcode) {
            return Ok(answer);
        }
        Err(Error::Cql(match answer.code() {
            Some(code) => format!("error 0x{code:04x}: {}", answer.error_text()),
            None => format!("unexpected answer 0x{:02x}", answer.opcode),
        }))
    }
}

fn io(address: SocketAddr, source: std::io::Error) -> Error {
    Error::Io {
        what: format!("connecting to {address}"),
        source,
    }
}
