//! The node's end of a link.

use helenus_cql::Kind;
use helenus_engine::LinkKey;
use helenus_engine::node::link::{LinkKind, OpenedLink};
use helenus_engine::output::Opening;
use helenus_policy::ring::NodeIndex;
use helenus_wire::{
    Compression, Decoder, Encoder, Flow, Header, MAX_REQUEST_BODY, MAX_RESPONSE_BODY, Opcode,
    QueryView, Version, flags, strip_prelude,
};

use crate::answers::Nodes;
use crate::socket::Socket;

/// See the module.
pub struct Link {
    pub key: LinkKey,
    pub node: NodeIndex,
    pub socket: Socket,
    pub is_closed: bool,
    kind: LinkKind,
    version: Version,
    decoder: Decoder,
    encoder: Encoder,
    requests: Vec<Request>,
}

/// A request that has not been answered.
struct Request {
    header: Header,
    opcode: Opcode,
    /// The body behind its custom payload.
    content: Vec<u8>,
}

/// Both directions of a connection of this version behind its STARTUP.
fn ends(version: Version, body_len_max: usize) -> (Decoder, Encoder) {
    let (mut decoder, mut encoder) = (Decoder::new(body_len_max), Encoder::new());
    let framed = version == Version::V5;
    decoder.set_mode(framed, Compression::None);
    encoder.set_mode(framed, Compression::None);
    (decoder, encoder)
}

/// The engine's end.
pub fn opened(opening: &Opening) -> OpenedLink {
    let version = opening.version;
    let (decoder, encoder) = ends(version, MAX_RESPONSE_BODY);
    OpenedLink {
        decoder,
        encoder,
        version,
    }
}

impl Link {
    pub fn new(key: LinkKey, opening: &Opening) -> Link {
        let (decoder, encoder) = ends(opening.version, MAX_REQUEST_BODY);
        Link {
            key,
            node: opening.node,
            socket: Socket::default(),
            is_closed: false,
            kind: opening.kind.clone(),
            version: opening.version,
            decoder,
            encoder,
            requests: Vec::new(),
        }
    }

    /// Reads what the engine has sent.
    pub fn read(&mut self) {
        let bytes = std::mem::take(&mut self.socket.from_engine);
        let fed = self.decoder.feed(&bytes, &mut Vec::new(), |header, body| {
            assert_eq!(header.version, self.version as u8);
            let opcode = Opcode::from_number(header.opcode);
            let opcode = opcode.filter(|opcode| opcode.is_request() && !header.response);
            let opcode = opcode.expect("the proxy sends what is no request");
            let mut requests = self.requests.iter();
            let is_free = header.stream > 0 && requests.all(|r| r.header.stream != header.stream);
            assert!(is_free, "stream {} is used twice", header.stream);
            let payload = header.flags & flags::CUSTOM_PAYLOAD;
            let content = strip_prelude(payload, body)
                .expect("a payload that can be read")
                .1;
            let uses = opcode == Opcode::Query
                && QueryView::parse(content, self.version)
                    .is_ok_and(|view| helenus_cql::facts(view.text).kind == Kind::Use);
            assert!(!uses || self.kind == LinkKind::Use, "USE on a shared link");
            self.requests.push(Request {
                header,
                opcode,
                content: content.to_vec(),
            });
            Flow::Continue
        });
        fed.expect("the proxy sends what a node cannot read");
    }

    /// The node closes the connection, or it breaks.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.socket.woken = true;
    }

    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Answers one of the requests, if there are any.
    pub fn answer(&mut self, nodes: &mut Nodes, which: u8, choice: u8) {
        if let Some(request) = self.take(which) {
            let Request {
                header,
                opcode,
                content,
            } = request;
            let answer = nodes.answer(opcode, &content, self.version, choice);
            let (opcode, flags, body) = answer.expect("a node cannot read the request");
            self.push(header.stream, opcode as u8, flags, &body);
        }
    }

    /// Answers the oldest of them with this.
    pub fn answer_raw(&mut self, opcode: u8, flags: u8, body: &[u8]) {
        if let Some(request) = self.take(0) {
            self.push(
                request.header.stream,
                opcode,
                flags & !flags::COMPRESSED,
                body,
            );
        }
    }

    fn take(&mut self, which: u8) -> Option<Request> {
        let at = usize::from(which).checked_rem(self.requests.len())?;
        Some(self.requests.remove(at))
    }

    fn push(&mut self, stream: i16, opcode: u8, flags: u8, body: &[u8]) {
        let header = Header {
            version: self.version as u8,
            response: true,
            flags,
            stream,
            opcode,
            body_len: 0,
        };
        self.encoder.push_slice(header, body);
        self.socket.write_all(&mut self.encoder);
    }
}
