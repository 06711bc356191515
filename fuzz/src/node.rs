//! The node's end of a link.

use std::collections::VecDeque;

use helenus_cql::Kind;
use helenus_engine::LinkKey;
use helenus_wire::{
    Compression, Decoder, Encoder, Flow, Header, MAX_REQUEST_BODY, Opcode, QueryView, Version,
    flags, strip_prelude,
};

use crate::answers::Nodes;
use crate::socket::Socket;

const CLUSTER_NAME: &str = "SELECT cluster_name FROM system.local";

/// See the module.
pub struct Link {
    pub key: LinkKey,
    pub node: usize,
    pub socket: Socket,
    pub is_closed: bool,
    version: Version,
    decoder: Decoder,
    encoder: Encoder,
    /// Messages that set the connection up, not answered.
    greetings: VecDeque<Request>,
    requests: Vec<Request>,
    /// How often USE has been asked for, and anything else.
    uses: usize,
    others: usize,
}

/// A request that has not been answered.
struct Request {
    header: Header,
    opcode: Opcode,
    /// The body behind its custom payload.
    content: Vec<u8>,
}

impl Link {
    pub fn new(key: LinkKey, node: usize, version: Version) -> Link {
        Link {
            key,
            node,
            socket: Socket::default(),
            is_closed: false,
            version,
            decoder: Decoder::new(MAX_REQUEST_BODY),
            encoder: Encoder::new(),
            greetings: VecDeque::new(),
            requests: Vec::new(),
            uses: 0,
            others: 0,
        }
    }

    /// Reads what the engine has sent.
    pub fn read(&mut self) {
        let bytes = std::mem::take(&mut self.socket.from_engine);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let mut decoder = std::mem::replace(&mut self.decoder, Decoder::new(0));
            let mut begins = false;
            let fed = decoder.feed(rest, &mut Vec::new(), |header, body| {
                begins = header.opcode == Opcode::Startup as u8;
                self.take_in(header, body);
                if begins { Flow::Pause } else { Flow::Continue }
            });
            rest = &rest[fed.expect("the proxy sends what a node cannot read")..];
            if begins {
                decoder.set_mode(self.version == Version::V5, Compression::None);
            }
            self.decoder = decoder;
        }
    }

    fn take_in(&mut self, header: Header, body: &[u8]) {
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
        let query = QueryView::parse(content, self.version);
        let text = query.ok().filter(|_| opcode == Opcode::Query);
        let text = text.map_or("", |view| view.text);
        let request = Request {
            header,
            opcode,
            content: content.to_vec(),
        };
        if matches!(opcode, Opcode::Startup | Opcode::AuthResponse) || text == CLUSTER_NAME {
            return self.greetings.push_back(request);
        }
        // Only the first message may bind a link to a keyspace. A link for USE carries nothing else, but
        // what may be one: what nobody here has prepared.
        match helenus_cql::facts(text).kind == Kind::Use {
            true => {
                assert_eq!(self.others, 0, "USE on a shared link");
                self.uses += 1;
            }
            false if !matches!(opcode, Opcode::Options | Opcode::Execute) => {
                assert!(self.uses < 2, "something else than USE behind USE");
                self.others += 1;
            }
            false => {}
        }
        self.requests.push(request);
    }

    /// The next request of the connection, which is being set up.
    pub fn greeting(&self) -> Option<Opcode> {
        self.greetings.front().map(|request| request.opcode)
    }

    /// Answers it.
    pub fn answer_greeting(&mut self, opcode: Opcode, body: &[u8]) {
        if let Some(request) = self.greetings.pop_front() {
            self.push(request.header.stream, opcode as u8, 0, body);
            if request.opcode == Opcode::Startup {
                let framed = self.version == Version::V5;
                self.encoder.set_mode(framed, Compression::None);
            }
        }
    }

    /// True if all that has been asked is a USE.
    pub fn is_at_first_use(&self) -> bool {
        self.uses == 1 && self.others == 0 && self.requests.len() == 1
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
