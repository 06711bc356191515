//! How nodes are connected to; and a connection driven by `async` code, one exchange at a time, for
//! the control connection and its like. Links are the engine's.

mod advice;
pub(crate) mod node_access;
pub(crate) mod tls;
pub(crate) mod transport;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_wire::{
    Compression, Consistency, DecodeError, Decoder, Encoder, ErrorBody, Flow, Header,
    MAX_HANDSHAKE_ANSWER, MAX_RESPONSE_BODY, Opcode, Reader, Version, strip_prelude, write,
};
use rustix::io::Errno;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::net::TcpStream;

use self::advice::tls_error;
use self::transport::Transport;
use crate::config::Config;
use helenus_engine::output::NotDialed;
use helenus_engine::session::login::authenticator::{Authenticators, Unfit};
use helenus_engine::session::login::refusal::is_refusal;

pub(crate) use self::advice::Advice;

/// Why communication with a node failed.
#[derive(Debug, Error)]
pub(crate) enum ConnError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("the node sent bytes that are not CQL: {0}")]
    Undecodable(#[from] DecodeError),
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
    #[error("{0}")]
    Unfit(#[from] Unfit),
    /// A node has judged the credentials.
    #[error("{0} (code 0x0100)")]
    BadCredentials(String),
    /// A node was asked to judge them and could not.
    #[error("the node cannot check the credentials now: {message} (code 0x{code:04X})")]
    Unjudged { code: i32, message: String },
    /// Addresses get reassigned, and not always within the cluster.
    #[error(
        "this address belongs to the cluster \"{found}\" now, not to \"{own}\": if the node that had it \
         is gone, remove it from the cluster (nodetool removenode)"
    )]
    OtherCluster { found: String, own: String },
    #[error("the node has left the cluster, or was replaced")]
    HasLeft,
    #[error("the node closed the connection")]
    Closed,
    /// The node's certificate was refused.
    #[error("{error}: {advice}")]
    Certificate {
        error: io::Error,
        advice: &'static str,
    },
    /// The connection was lost before the node had said anything.
    #[error("{loss}, before its first answer: {advice}")]
    Refused {
        loss: Box<ConnError>,
        advice: &'static str,
    },
}

/// This machine has no file descriptor, port or memory left for a connection.
const NO_MEANS: [Errno; 5] = [
    Errno::MFILE,
    Errno::NFILE,
    Errno::NOBUFS,
    Errno::NOMEM,
    Errno::ADDRNOTAVAIL,
];

impl ConnError {
    /// As engines are told that a connection could not be made.
    pub(crate) fn not_dialed(&self) -> NotDialed {
        let errno = match self {
            ConnError::Io(error) => error.raw_os_error(),
            _ => None,
        };
        let is_own = errno.is_some_and(|errno| NO_MEANS.map(Errno::raw_os_error).contains(&errno));
        match is_own {
            true => NotDialed::NoMeans(self.to_string()),
            false => NotDialed::Lost(self.to_string()),
        }
    }
}

/// The first byte of a TLS alert, which has no meaning in CQL.
const TLS_ALERT: u8 = 21;

/// How to connect to nodes.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub connect_timeout: Duration,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Name to verify in the node's certificate instead of its address.
    pub tls_server_name: Option<String>,
    pub authenticators: Authenticators,
    /// `CLIENT_ID` sent to nodes: the proxy's advertised address.
    pub client_id: Arc<str>,
    /// Advice in errors.
    pub advice: &'static Advice,
}

/// One received envelope.
#[derive(Debug)]
pub(crate) struct Message {
    pub header: Header,
    pub body: Vec<u8>,
}

impl Message {
    pub(crate) fn opcode(&self) -> Option<Opcode> {
        Opcode::from_number(self.header.opcode)
    }

    /// The body after tracing id, warnings and payload.
    pub(crate) fn content(&self) -> Result<&[u8], ConnError> {
        Ok(strip_prelude(self.header.flags, &self.body)?.1)
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub transport: Transport,
    pub decoder: Decoder,
    pub encoder: Encoder,
    pub version: Version,
    received: VecDeque<Message>,
    /// Events received while waiting for an answer.
    events: VecDeque<Message>,
    next_stream: i16,
    scratch: Vec<u8>,
    authenticators: Authenticators,
    client_id: Arc<str>,
    /// The proxy has a certificate; a node that does not request one does not see it.
    has_certificate: bool,
    /// Until the first answer.
    advice: Option<&'static str>,
}

impl Dialer {
    /// Fails if the files of `cluster.tls` cannot be used.
    pub(crate) fn new(config: &Config) -> anyhow::Result<Dialer> {
        Ok(Dialer {
            connect_timeout: Duration::from_millis(config.links.connect_timeout_ms),
            tls: config.cluster.tls.as_ref().map(tls::client).transpose()?,
            tls_server_name: config
                .cluster
                .tls
                .as_ref()
                .and_then(|t| t.server_name.clone()),
            authenticators: Authenticators::new(&config.cluster.authenticators),
            client_id: config.advertised().to_string().into(),
            advice: Advice::SETTINGS,
        })
    }

    /// A connection to a node, on which nothing has been said.
    pub(crate) async fn dial(
        &self,
        address: SocketAddr,
        version: Version,
    ) -> Result<Conn, ConnError> {
        Ok(Conn {
            transport: self.connect(address).await?,
            decoder: Decoder::new(MAX_HANDSHAKE_ANSWER),
            encoder: Encoder::new(),
            version,
            received: VecDeque::new(),
            events: VecDeque::new(),
            next_stream: 1,
            scratch: Vec::new(),
            authenticators: self.authenticators.clone(),
            client_id: self.client_id.clone(),
            has_certificate: self.has_certificate(),
            advice: self.advice(),
        })
    }

    /// Opens a TCP connection to a node and performs the TLS handshake, if configured.
    pub(crate) async fn connect(&self, address: SocketAddr) -> Result<Transport, ConnError> {
        let tcp = tokio::time::timeout(self.connect_timeout, TcpStream::connect(address))
            .await
            .map_err(|_| ConnError::Timeout(self.connect_timeout))??;
        tcp.set_nodelay(true)?;
        self.handshake(tcp, address).await
    }

    /// Performs the TLS handshake, if configured.
    pub(crate) async fn handshake(
        &self,
        tcp: TcpStream,
        address: SocketAddr,
    ) -> Result<Transport, ConnError> {
        let Some(config) = &self.tls else {
            return Ok(Transport::Plain(tcp));
        };
        let name = match &self.tls_server_name {
            Some(name) => ServerName::try_from(name.clone()).map_err(|_| {
                io::Error::other(format!(
                    "the name to look for in the nodes' certificates, {name:?}, is no host name or address: correct \
                     cluster.tls.server_name (or --tls-server-name)"
                ))
            })?,
            None => ServerName::IpAddress(address.ip().into()),
        };
        let handshake = Transport::connect(tcp, config.clone(), name);
        tokio::time::timeout(self.connect_timeout, handshake)
            .await
            .map_err(|_| ConnError::Timeout(self.connect_timeout))?
            .map_err(|e| match tls_error(&e) {
                Some(rustls::Error::InvalidMessage(_)) => refused(e.into(), self.advice.leave_tls),
                _ => match self.advice.on_certificate(&e) {
                    Some(advice) => ConnError::Certificate { error: e, advice },
                    None => advised(e.into(), self.advice()),
                },
            })
    }

    /// True if the proxy has a certificate; a node that does not request one does not see it.
    pub(crate) fn has_certificate(&self) -> bool {
        let config = self.tls.as_ref();
        config.is_some_and(|config| config.client_auth_cert_resolver.has_certs())
    }

    /// The setting that may be wrong if a node hangs up before its first answer: one that requires TLS, or a
    /// certificate, may do that.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        match (&self.tls, self.has_certificate()) {
            (None, _) => Some(self.advice.use_tls),
            (Some(_), false) => Some(self.advice.show_certificate),
            (Some(_), true) => None,
        }
    }
}

impl Conn {
    /// Sends STARTUP; returns READY, or AUTHENTICATE if the authenticator is supported. Frames
    /// start after it (v5).
    pub(crate) async fn startup(&mut self, options: &[(&str, &str)]) -> Result<Message, ConnError> {
        let mut body = Vec::new();
        let client_id = ("CLIENT_ID", &*self.client_id);
        write::string_map(&mut body, &[options, &[client_id]].concat());
        let answer = self.call(Opcode::Startup, &body).await?;
        if answer.opcode() == Some(Opcode::Authenticate) {
            let class = Reader::new(answer.content()?).string()?;
            self.authenticators.judge(class, self.has_certificate)?;
        }
        let framed = self.version == Version::V5;
        self.decoder.set_mode(framed, Compression::None);
        self.encoder.set_mode(framed, Compression::None);
        if answer.opcode() == Some(Opcode::Ready) {
            self.decoder.set_body_len_max(MAX_RESPONSE_BODY);
        }
        Ok(answer)
    }

    /// Sends STARTUP and, if the node requires it, SASL PLAIN.
    pub(crate) async fn open(
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
                self.log_in(token).await
            }
            other => Err(unexpected(other, "READY")),
        }
    }

    /// Answers AUTHENTICATE with a SASL token, in one round.
    pub(crate) async fn log_in(&mut self, token: &[u8]) -> Result<(), ConnError> {
        let mut body = Vec::new();
        write::bytes(&mut body, Some(token));
        let answer = self.call(Opcode::AuthResponse, &body).await;
        match answer.map(|message| message.opcode()) {
            Ok(Some(Opcode::AuthSuccess)) => {
                self.decoder.set_body_len_max(MAX_RESPONSE_BODY);
                Ok(())
            }
            Ok(other) => Err(unexpected(other, "AUTH_SUCCESS")),
            Err(ConnError::Node { code, message }) if is_refusal(code, &message) => {
                Err(ConnError::BadCredentials(message))
            }
            Err(ConnError::Node { code, message }) => Err(ConnError::Unjudged { code, message }),
            Err(e) => Err(e),
        }
    }

    /// A QUERY at consistency level ONE and its answer; an ERROR answer becomes
    /// [`ConnError::Node`].
    pub(crate) async fn query(&mut self, cql: &str) -> Result<Message, ConnError> {
        self.query_at(cql, Consistency::ONE).await
    }

    /// [`Self::query`] at another consistency level.
    pub(crate) async fn query_at(
        &mut self,
        cql: &str,
        consistency: Consistency,
    ) -> Result<Message, ConnError> {
        let mut body = Vec::with_capacity(cql.len() + 12);
        write::long_string(&mut body, cql);
        write::u16(&mut body, consistency.0);
        match self.version {
            Version::V5 => write::u32(&mut body, 0),
            _ => body.push(0),
        }
        self.call(Opcode::Query, &body).await
    }

    /// One request and its answer; an ERROR answer becomes [`ConnError::Node`].
    pub(crate) async fn call(&mut self, opcode: Opcode, body: &[u8]) -> Result<Message, ConnError> {
        let answer = self.exchange(opcode, body).await;
        let advice = self.advice.take();
        answer.map_err(|e| advised(e, advice))
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
            // Some errors have stream 0 regardless of the request's stream, for instance that of a
            // node that does not support the version. No request of ours uses that stream.
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
    pub(crate) async fn send(&mut self, opcode: Opcode, body: &[u8]) -> Result<i16, ConnError> {
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
        poll_fn(|cx| self.transport.poll_send(cx, &mut self.encoder, |_| {})).await?;
        Ok(())
    }

    /// The next envelope, whatever it is.
    pub(crate) async fn receive(&mut self) -> Result<Message, ConnError> {
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
            let n = poll_fn(|cx| self.transport.poll_read(cx, &mut chunk)).await?;
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

impl ConnError {
    /// True if a retry is useless until settings are changed.
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self,
            ConnError::NoCredentials(_) | ConnError::BadCredentials(_) | ConnError::Unfit(_)
        )
    }
}

/// True if the other end has hung up, in one way or another.
pub(crate) fn is_hang_up(error: &io::Error) -> bool {
    let hung_up = matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
    );
    hung_up || matches!(tls_error(error), Some(rustls::Error::AlertReceived(_)))
}

/// Adds advice, if any, to the loss of a connection.
fn advised(error: ConnError, advice: Option<&'static str>) -> ConnError {
    let lost = match &error {
        ConnError::Closed => true,
        ConnError::Io(e) => is_hang_up(e),
        // The alert of a node that has expected a TLS handshake.
        ConnError::Undecodable(DecodeError::Version(TLS_ALERT)) => true,
        _ => false,
    };
    match advice {
        Some(advice) if lost => refused(error, advice),
        _ => error,
    }
}

fn refused(loss: ConnError, advice: &'static str) -> ConnError {
    let loss = Box::new(loss);
    ConnError::Refused { loss, advice }
}

fn unexpected(got: Option<Opcode>, expected: &'static str) -> ConnError {
    ConnError::Unexpected(got.map_or("an unknown message", Opcode::name), expected)
}

#[cfg(test)]
mod tests;
