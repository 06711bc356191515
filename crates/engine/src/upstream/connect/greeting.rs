//! A connection to a node from its first byte until it is ready: STARTUP, a login if the node asks for
//! one, the cluster's name, a keyspace. The node's bytes go in; what is to be sent lies in the encoder.

use std::rc::Rc;

use helenus_wire::{
    Compression, Consistency, Decoder, Encoder, ErrorBody, Flow, Header, MAX_HANDSHAKE_ANSWER,
    MAX_RESPONSE_BODY, Opcode, Reader, RowsView, Version, strip_prelude, write,
};

use crate::config::PayloadSettings;
use crate::session::login::authenticator::Authenticators;
use crate::session::login::refusal::is_refusal;
use crate::upstream::connect::kind::{OpenError, OpenedLink};

const CLUSTER_NAME: &str = "SELECT cluster_name FROM system.local";

/// Streams that setting up a connection takes at most, from 1 on: STARTUP, the token, the cluster's name,
/// USE.
pub(in crate::upstream) const STREAMS: usize = 4;

/// The aim of setting up a connection.
pub(crate) enum Aim {
    Link {
        /// `None` where clients need no login.
        token: Option<Vec<u8>>,
        /// The cluster that the node must belong to. `None`: it is not asked.
        cluster: Option<String>,
        keyspace: Option<Rc<str>>,
    },
    /// A node judges a client's token over it, if it asks for that with the same words as the client was
    /// asked with.
    Login { asked: Vec<u8> },
}

/// An envelope from a node.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
}

/// A milestone to which a node's bytes have led.
#[derive(Debug)]
pub(crate) enum Milestone {
    /// It is ready for requests.
    Ready,
    /// The node asks for a token as it should: see [`Greeting::respond`].
    Asked,
    /// The node's answer to the token.
    Judged(Envelope),
}

/// The request whose answer is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// None: the connection is being made.
    Dialing,
    Startup,
    LogIn,
    ClusterName,
    Use,
    /// None: it is the proxy's turn.
    Asked,
    Judging,
    /// None: nothing more is to be asked.
    Over,
}

/// See the module.
pub(crate) struct Greeting {
    aim: Aim,
    version: Version,
    authenticators: Authenticators,
    /// The node has seen a certificate of the proxy.
    shows_certificate: bool,
    stage: Stage,
    /// Of the last request.
    stream: i16,
    decoder: Decoder,
    encoder: Encoder,
    /// Envelopes that have come behind the last answer, in the same bytes.
    behind: Vec<Envelope>,
}

/// DRIVER_NAME of connections to nodes.
pub const DRIVER_NAME: &str = "Helenus";
/// The end of DRIVER_VERSION if the proxy reads and writes encoded columns. Nodes list it with their clients, so that
/// nobody encodes a column while a proxy runs that would not understand it.
pub const VERSION_ENCODES: &str = "+payload";

/// STARTUP options of connections to nodes. They are fixed at opening, while the clients whose requests
/// a link carries change. THROW_ON_OVERLOAD: an error for one request instead of silence for all.
pub fn startup_options(payload: &PayloadSettings) -> [(&'static str, &'static str); 4] {
    let version = match payload.enabled {
        true => concat!(env!("CARGO_PKG_VERSION"), "+payload"),
        false => env!("CARGO_PKG_VERSION"),
    };
    [
        ("CQL_VERSION", "3.0.0"),
        ("DRIVER_NAME", DRIVER_NAME),
        ("DRIVER_VERSION", version),
        ("THROW_ON_OVERLOAD", "1"),
    ]
}

impl Greeting {
    pub(crate) fn new(version: Version, authenticators: Authenticators, aim: Aim) -> Greeting {
        Greeting {
            aim,
            version,
            authenticators,
            shows_certificate: false,
            stage: Stage::Dialing,
            stream: 0,
            decoder: Decoder::new(MAX_HANDSHAKE_ANSWER),
            encoder: Encoder::new(),
            behind: Vec::new(),
        }
    }

    /// The connection is there: sends STARTUP. `client_id`: the proxy's address, for the node's list of
    /// clients.
    pub(crate) fn begin(
        &mut self,
        shows_certificate: bool,
        client_id: &str,
        payload: &PayloadSettings,
    ) {
        self.shows_certificate = shows_certificate;
        let mut body = Vec::new();
        let client_id = ("CLIENT_ID", client_id);
        let options = startup_options(payload);
        write::string_map(&mut body, &[&options[..], &[client_id]].concat());
        self.send(Stage::Startup, Opcode::Startup, &body);
    }

    /// Has the node that has asked for it judge this token.
    pub(crate) fn respond(&mut self, token: &[u8]) {
        let body = auth_response(token);
        self.send(Stage::Judging, Opcode::AuthResponse, &body);
    }

    /// Bytes have come. At most one milestone is reached at a time, because the next one takes a request.
    pub(crate) fn handle_bytes(
        &mut self,
        bytes: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<Option<Milestone>, OpenError> {
        let mut decoder = std::mem::replace(&mut self.decoder, Decoder::new(0));
        let (mut rest, mut reached) = (bytes, Ok(None));
        while !rest.is_empty() && reached.is_ok() {
            let fed = decoder.feed(rest, scratch, |header, body| {
                self.on_envelope(header, body, &mut reached)
            });
            match fed {
                Ok(used) => rest = &rest[used..],
                Err(e) => reached = Err(e.into()),
            }
            decoder.set_mode(self.is_framed(), Compression::None);
        }
        self.decoder = decoder;
        reached
    }

    /// The bytes to be sent.
    pub(crate) fn encoder(&mut self) -> &mut Encoder {
        &mut self.encoder
    }

    /// True if the node has asked for a link's token, and has not said what it is worth.
    pub(crate) fn is_judging_link(&self) -> bool {
        self.stage == Stage::LogIn
    }

    /// True if the node has said anything.
    pub(crate) fn has_heard(&self) -> bool {
        !matches!(self.stage, Stage::Dialing | Stage::Startup)
    }

    /// The link that it has become, and what has come over it already.
    pub(crate) fn into_link(mut self) -> (OpenedLink, Vec<Envelope>) {
        // From here on the connection is shared: one answer must not end it.
        self.decoder.skip_longer_than(MAX_RESPONSE_BODY);
        self.encoder.set_mode(self.is_framed(), Compression::None);
        let opened = OpenedLink {
            decoder: self.decoder,
            encoder: self.encoder,
            version: self.version,
        };
        (opened, self.behind)
    }

    /// Frames begin behind the answer to STARTUP.
    fn is_framed(&self) -> bool {
        self.version == Version::V5 && self.has_heard()
    }

    fn on_envelope(
        &mut self,
        header: Header,
        body: &[u8],
        reached: &mut Result<Option<Milestone>, OpenError>,
    ) -> Flow {
        if reached.is_err() {
            return Flow::Pause;
        }
        if self.stage == Stage::Over {
            let body = body.to_vec();
            self.behind.push(Envelope { header, body });
            return Flow::Continue;
        }
        if !self.is_answer(&header) {
            return Flow::Continue;
        }
        let was_framed = self.is_framed();
        match self.on_answer(header, body) {
            Ok(None) => {}
            answered => *reached = answered,
        }
        match was_framed == self.is_framed() {
            true => Flow::Continue,
            false => Flow::Pause,
        }
    }

    /// Some errors have stream 0 regardless of the request's stream, for instance that of a node that
    /// does not support the version. No request of ours uses that stream.
    fn is_answer(&self, header: &Header) -> bool {
        let is_error = header.opcode == Opcode::Error as u8;
        match self.stage {
            Stage::Dialing | Stage::Asked | Stage::Over => false,
            Stage::Judging => header.stream == self.stream,
            _ => header.stream == self.stream || is_error && header.stream == 0,
        }
    }

    fn on_answer(&mut self, header: Header, body: &[u8]) -> Result<Option<Milestone>, OpenError> {
        let opcode = Opcode::from_number(header.opcode);
        let content = || strip_prelude(header.flags, body).map(|(_, content)| content);
        match (self.stage, opcode) {
            (Stage::Judging, _) => {
                self.stage = Stage::Over;
                let body = body.to_vec();
                Ok(Some(Milestone::Judged(Envelope { header, body })))
            }
            (stage, Some(Opcode::Error)) => {
                let error = ErrorBody::parse(content()?)?;
                self.on_error(stage, error.code, error.message)
            }
            (Stage::Startup, Some(Opcode::Authenticate)) => {
                let class = Reader::new(content()?).string()?;
                self.authenticators.judge(class, self.shows_certificate)?;
                self.on_asked(body)
            }
            (Stage::Startup, other) => match (&self.aim, other) {
                // The role of such a link would be unknown: it may have been determined by a certificate.
                (Aim::Link { token: Some(_), .. }, Some(Opcode::Ready))
                | (Aim::Login { .. }, _) => Err(OpenError::NotAsked),
                (Aim::Link { .. }, Some(Opcode::Ready)) => Ok(self.ask_cluster_name()),
                (Aim::Link { .. }, other) => Err(unexpected(other, "READY")),
            },
            (Stage::LogIn, Some(Opcode::AuthSuccess)) => Ok(self.ask_cluster_name()),
            (Stage::LogIn, other) => Err(unexpected(other, "AUTH_SUCCESS")),
            (Stage::ClusterName, _) => {
                self.check_cluster(content()?)?;
                Ok(self.ask_keyspace())
            }
            (Stage::Use, _) => Ok(self.become_ready()),
            (Stage::Dialing | Stage::Asked | Stage::Over, _) => Ok(None),
        }
    }

    fn on_error(
        &mut self,
        stage: Stage,
        code: i32,
        message: &str,
    ) -> Result<Option<Milestone>, OpenError> {
        let message = message.to_owned();
        match stage {
            Stage::LogIn if is_refusal(code, &message) => Err(OpenError::BadCredentials(message)),
            Stage::LogIn => Err(OpenError::Unjudged { code, message }),
            // A node that cannot answer now is most likely still the same node.
            Stage::ClusterName => Ok(self.ask_keyspace()),
            _ => Err(OpenError::Node { code, message }),
        }
    }

    /// The node asks for a login, under an authenticator that can be relied on.
    fn on_asked(&mut self, body: &[u8]) -> Result<Option<Milestone>, OpenError> {
        let response = match &self.aim {
            Aim::Login { asked } if *asked == body => {
                self.stage = Stage::Asked;
                return Ok(Some(Milestone::Asked));
            }
            Aim::Login { .. } => return Err(OpenError::AskedOtherwise),
            Aim::Link { token: None, .. } => {
                let name = Reader::new(body).string().unwrap_or("?").to_owned();
                return Err(OpenError::NoCredentials(name));
            }
            Aim::Link {
                token: Some(token), ..
            } => auth_response(token),
        };
        self.send(Stage::LogIn, Opcode::AuthResponse, &response);
        Ok(None)
    }

    /// Requests must not reach another cluster, which would execute them.
    fn ask_cluster_name(&mut self) -> Option<Milestone> {
        match &self.aim {
            Aim::Link {
                cluster: Some(_), ..
            } => {
                self.query(Stage::ClusterName, CLUSTER_NAME);
                None
            }
            _ => self.ask_keyspace(),
        }
    }

    fn check_cluster(&self, content: &[u8]) -> Result<(), OpenError> {
        let rows = RowsView::parse(content)?;
        let mut columns = rows.columns.iter();
        let at = columns.position(|column| column.name == "cluster_name");
        let all: Vec<_> = rows.rows().collect::<Result<_, _>>()?;
        let cell = at.and_then(|at| *all.first()?.get(at)?);
        let found = cell.and_then(|cell| std::str::from_utf8(cell).ok());
        match (found, &self.aim) {
            (Some(found), Aim::Link { cluster, .. }) if cluster.as_deref() != Some(found) => {
                Err(OpenError::OtherCluster {
                    found: found.to_owned(),
                    own: cluster.clone().unwrap_or_default(),
                })
            }
            _ => Ok(()),
        }
    }

    fn ask_keyspace(&mut self) -> Option<Milestone> {
        let Aim::Link {
            keyspace: Some(keyspace),
            ..
        } = &self.aim
        else {
            return self.become_ready();
        };
        let text = format!("USE \"{}\"", keyspace.replace('"', "\"\""));
        self.query(Stage::Use, &text);
        None
    }

    fn become_ready(&mut self) -> Option<Milestone> {
        self.stage = Stage::Over;
        Some(Milestone::Ready)
    }

    fn query(&mut self, stage: Stage, text: &str) {
        let mut body = Vec::with_capacity(text.len() + 12);
        write::long_string(&mut body, text);
        write::u16(&mut body, Consistency::ONE.0);
        match self.version {
            Version::V5 => write::u32(&mut body, 0),
            _ => body.push(0),
        }
        self.send(stage, Opcode::Query, &body);
    }

    /// Sends a request, whose answer is awaited from now on.
    fn send(&mut self, stage: Stage, opcode: Opcode, body: &[u8]) {
        self.stage = stage;
        self.stream += 1;
        self.encoder.set_mode(self.is_framed(), Compression::None);
        let header = Header {
            version: self.version as u8,
            response: false,
            flags: 0,
            stream: self.stream,
            opcode: opcode as u8,
            body_len: 0,
        };
        self.encoder.push_slice(header, body);
    }
}

fn auth_response(token: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(token.len() + 4);
    write::bytes(&mut body, Some(token));
    body
}

fn unexpected(got: Option<Opcode>, expected: &'static str) -> OpenError {
    OpenError::Unexpected(got.map_or("an unknown message", Opcode::name), expected)
}

#[cfg(test)]
mod tests;
