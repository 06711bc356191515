//! A connection to a node driven by `async` code, one exchange at a time: for the control connection
//! and for the opening of links, where nothing is hot.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use helenus_wire::{
    Compression, Decoder, Encoder, ErrorBody, Flow, Header, MAX_RESPONSE_BODY, Opcode, Reader,
    Version, strip_prelude, write,
};
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::net::TcpStream;

use crate::transport::Transport;

/// Why a node cannot be talked to.
#[derive(Debug, Error)]
pub enum ConnError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("the node sent bytes that are not CQL: {0}")]
    Malformed(#[from] helenus_wire::Malformed),
    #[error("the node answered {0} where {1} was expected")]
    Unexpected(&'static str, &'static str),
    #[error("{message} (code 0x{code:04X})")]
    Node { code: i32, message: String },
    #[error(
        "the node asks for authentication ({0}) but no credentials are configured: set cluster.username and cluster.password"
    )]
    NoCredentials(String),
    #[error("the node closed the connection")]
    Closed,
    /// The connection was lost before the node had said anything.
    #[error("{loss}, before its first answer: {advice}")]
    Refused {
        loss: Box<ConnError>,
        advice: &'static str,
    },
}

const SHOW_CERTIFICATE: &str = "the node may require a client certificate \
    (require_client_auth); set cluster.tls.certificate and cluster.tls.key";
const USE_TLS: &str =
    "the node may require TLS; set cluster.tls.ca (and what else the node asks for)";
const LEAVE_TLS: &str = "the node does not seem to speak TLS on this port; remove [cluster.tls], or \
    enable client_encryption_options on the nodes";

/// How to reach nodes.
#[derive(Clone, Debug)]
pub struct Dialer {
    pub connect_timeout: Duration,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Name to verify in the node's certificate instead of its address.
    pub tls_server_name: Option<String>,
}

/// One received envelope.
#[derive(Debug)]
pub struct Message {
    pub header: Header,
    pub body: Vec<u8>,
}

impl Message {
    pub fn opcode(&self) -> Option<Opcode> {
        Opcode::from_number(self.header.opcode)
    }

    /// The body behind tracing id, warnings and payload.
    pub fn content(&self) -> Result<&[u8], ConnError> {
        Ok(strip_prelude(self.header.flags, &self.body)?.1)
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Conn {
    pub transport: Transport,
    pub decoder: Decoder,
    pub encoder: Encoder,
    pub version: Version,
    received: VecDeque<Message>,
    /// Events that came while an answer was awaited.
    events: VecDeque<Message>,
    next_stream: i16,
    scratch: Vec<u8>,
    /// What to advise if the connection is lost before the first answer: a node that wants TLS, or a
    /// certificate, may just hang up.
    advice: Option<&'static str>,
}

impl Dialer {
    /// Opens a TCP connection (and starts TLS) to a node.
    pub async fn dial(&self, address: SocketAddr, version: Version) -> Result<Conn, ConnError> {
        let tcp = tokio::time::timeout(self.connect_timeout, TcpStream::connect(address))
            .await
            .map_err(|_| ConnError::Timeout(self.connect_timeout))??;
        tcp.set_nodelay(true)?;
        let tls = match &self.tls {
            None => None,
            Some(config) => {
                let name = match &self.tls_server_name {
                    Some(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
                    None => ServerName::IpAddress(address.ip().into()),
                };
                Some((config, name))
            }
        };
        let shows_certificate = self
            .tls
            .as_ref()
            .is_some_and(|config| config.client_auth_cert_resolver.has_certs());
        let advice = match (&self.tls, shows_certificate) {
            (None, _) => Some(USE_TLS),
            (Some(_), false) => Some(SHOW_CERTIFICATE),
            (Some(_), true) => None,
        };
        Ok(Conn {
            transport: Transport::client(tcp, tls)?,
            decoder: Decoder::new(MAX_RESPONSE_BODY),
            encoder: Encoder::new(),
            version,
            received: VecDeque::new(),
            events: VecDeque::new(),
            next_stream: 1,
            scratch: Vec::new(),
            advice,
        })
    }
}

impl Conn {
    /// STARTUP; returns READY or AUTHENTICATE. Frames begin behind it (v5).
    pub async fn startup(&mut self, options: &[(&str, &str)]) -> Result<Message, ConnError> {
        let mut body = Vec::new();
        write::string_map(&mut body, options);
        let answer = self.call(Opcode::Startup, &body).await?;
        let framed = self.version == Version::V5;
        self.decoder.set_mode(framed, Compression::None);
        self.encoder.set_mode(framed, Compression::None);
        Ok(answer)
    }

    /// STARTUP and, if the node asks for it, SASL PLAIN.
    pub async fn open(
        &mut self,
        options: &[(&str, &str)],
        credentials: Option<&[u8]>,
    ) -> Result<(), ConnError> {
        let answer = self.startup(options).await?;
        match answer.opcode() {
            Some(Opcode::Ready) => Ok(()),
            Some(Opcode::Authenticate) => {
                let Some(token) = credentials else {
                    let name = Reader::new(&answer.body).string().unwrap_or("?").to_owned();
                    return Err(ConnError::NoCredentials(name));
                };
                let mut body = Vec::new();
                write::bytes(&mut body, Some(token));
                let answer = self.call(Opcode::AuthResponse, &body).await?;
                match answer.opcode() {
                    Some(Opcode::AuthSuccess) => Ok(()),
                    other => Err(unexpected(other, "AUTH_SUCCESS")),
                }
            }
            other => Err(unexpected(other, "READY")),
        }
    }

    /// One request and its answer; an ERROR answer becomes [`ConnError::Node`].
    pub async fn call(&mut self, opcode: Opcode, body: &[u8]) -> Result<Message, ConnError> {
        let answer = self.exchange(opcode, body).await;
        match self.advice.take() {
            None => answer,
            Some(advice) => answer.map_err(|e| advised(e, advice)),
        }
    }

    async fn exchange(&mut self, opcode: Opcode, body: &[u8]) -> Result<Message, ConnError> {
        let stream = self.send(opcode, body).await?;
        loop {
            let message = self.receive_any().await?;
            if message.header.stream == -1 {
                self.events.push_back(message);
                continue;
            }
            let failed = message.opcode() == Some(Opcode::Error);
            // Some errors come with stream 0 whatever the request's was: that of a node that does not
            // know the version, for instance. No request of ours has that stream.
            if message.header.stream != stream && !(failed && message.header.stream == 0) {
                continue;
            }
            if failed {
                let error = ErrorBody::parse(message.content()?)?;
                let message = error.message.to_owned();
                return Err(ConnError::Node {
                    code: error.code,
                    message,
                });
            }
            return Ok(message);
        }
    }

    /// Sends a request; returns its stream id.
    pub async fn send(&mut self, opcode: Opcode, body: &[u8]) -> Result<i16, ConnError> {
        let stream = self.next_stream;
        self.next_stream = if stream == 255 { 1 } else { stream + 1 };
        let header = Header {
            version: self.version as u8,
            response: false,
            flags: 0,
            stream,
            opcode: opcode as u8,
            body_len: 0,
        };
        self.encoder.push_slice(header, body);
        self.flush().await?;
        Ok(stream)
    }

    async fn flush(&mut self) -> Result<(), ConnError> {
        poll_fn(|cx| {
            loop {
                let pending = self.encoder.pending();
                let result = if pending.is_empty() {
                    if !self.transport.wants_write() {
                        return Poll::Ready(Ok(()));
                    }
                    self.transport.try_flush().map(|()| 0)
                } else {
                    self.transport.try_write(pending)
                };
                match result {
                    Ok(n) => self.encoder.advance(n),
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                        // A TLS handshake needs the peer's bytes before ours can leave.
                        if !self.transport.wants_write() {
                            return Poll::Ready(Ok(()));
                        }
                        std::task::ready!(self.transport.poll_write_ready(cx))?;
                    }
                    Err(e) => return Poll::Ready(Err(e.into())),
                }
            }
        })
        .await
    }

    /// The next envelope, whatever it is.
    pub async fn receive(&mut self) -> Result<Message, ConnError> {
        match self.events.pop_front() {
            Some(message) => Ok(message),
            None => self.receive_any().await,
        }
    }

    async fn receive_any(&mut self) -> Result<Message, ConnError> {
        loop {
            if let Some(message) = self.received.pop_front() {
                return Ok(message);
            }
            let mut chunk = vec![0; 16 * 1024];
            let n = poll_fn(|cx| {
                let read = self.transport.poll_read(cx, &mut chunk);
                if read.is_pending() && self.encoder.pending_len() > 0 {
                    // Bytes that waited for the handshake.
                    while let Ok(n) = self.transport.try_write(self.encoder.pending()) {
                        self.encoder.advance(n);
                        if n == 0 || self.encoder.pending_len() == 0 {
                            break;
                        }
                    }
                }
                read
            })
            .await?;
            if n == 0 {
                return Err(ConnError::Closed);
            }
            let received = &mut self.received;
            self.decoder
                .feed(&chunk[..n], &mut self.scratch, |header, body| {
                    received.push_back(Message {
                        header,
                        body: body.to_vec(),
                    });
                    Flow::Continue
                })?;
        }
    }
}

/// Adds advice to an error that it may explain.
fn advised(error: ConnError, advice: &'static str) -> ConnError {
    let advice = match &error {
        ConnError::Closed => advice,
        ConnError::Io(e) => match e.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => advice,
            _ => match e.get_ref().and_then(|e| e.downcast_ref()) {
                Some(rustls::Error::AlertReceived(_)) => advice,
                Some(rustls::Error::InvalidMessage(_)) => LEAVE_TLS,
                _ => return error,
            },
        },
        _ => return error,
    };
    ConnError::Refused {
        loss: Box::new(error),
        advice,
    }
}

fn unexpected(got: Option<Opcode>, expected: &'static str) -> ConnError {
    ConnError::Unexpected(got.map_or("an unknown message", Opcode::name), expected)
}

#[cfg(test)]
mod tests;
