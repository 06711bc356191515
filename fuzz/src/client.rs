//! A client. Whatever it sends, each of its requests is answered once, or its connection ends.

use std::collections::BTreeSet;

use helenus_engine::SessionKey;
use helenus_wire::{
    Compression, Decoder, Encoder, Flow, Header, MAX_RESPONSE_BODY, Opcode, Version, write,
};

use crate::socket::Socket;

/// How a client ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    Broken,
}

/// The other end of a session.
pub struct Client {
    pub key: SessionKey,
    pub socket: Socket,
    pub end: Option<End>,
    /// It does not keep to the protocol, so nothing can be said of what it gets.
    is_raw: bool,
    version: Version,
    compression: Compression,
    encoder: Encoder,
    decoder: Decoder,
    /// Streams of its requests that are not answered.
    waiting: BTreeSet<i16>,
    last_stream: i16,
    /// The last answer.
    answer: Option<Opcode>,
}

impl Client {
    /// `choice`: version and compression, or that it shakes no hands.
    pub fn new(key: SessionKey, choice: u8) -> Client {
        let version = match choice & 3 {
            0 => Version::V3,
            1 => Version::V4,
            _ => Version::V5,
        };
        let compression = match choice >> 2 & 3 {
            0 => Compression::Lz4,
            1 if version < Version::V5 => Compression::Snappy,
            _ => Compression::None,
        };
        let mut decoder = Decoder::new(MAX_RESPONSE_BODY);
        decoder.set_mode(false, compression);
        Client {
            key,
            socket: Socket::default(),
            end: None,
            is_raw: choice & 0x80 != 0,
            version,
            compression,
            encoder: Encoder::new(),
            decoder,
            waiting: BTreeSet::new(),
            last_stream: 0,
            answer: None,
        }
    }

    /// Begins the handshake, if it does so at all.
    pub fn start(&mut self) {
        if self.is_raw {
            return;
        }
        let mut options = vec![("CQL_VERSION", "3.0.0")];
        match self.compression {
            Compression::None => {}
            Compression::Lz4 => options.push(("COMPRESSION", "lz4")),
            Compression::Snappy => options.push(("COMPRESSION", "snappy")),
        }
        let mut body = Vec::new();
        write::string_map(&mut body, &options);
        self.send(Opcode::Startup as u8, 0, &body);
    }

    /// Goes on with the handshake when STARTUP has been answered: as this role, if the nodes ask.
    pub fn log_in(&mut self, role: u8) {
        let framed = self.version == Version::V5;
        if matches!(self.answer, Some(Opcode::Ready | Opcode::Authenticate)) {
            self.encoder.set_mode(framed, self.compression);
            self.decoder.set_mode(framed, self.compression);
        }
        if self.answer == Some(Opcode::Authenticate) {
            let mut body = Vec::new();
            write::bytes(&mut body, Some(&[0, b'a' + role, 0, b'p']));
            self.send(Opcode::AuthResponse as u8, 0, &body);
        }
    }

    /// Sends a request on a stream of its own.
    pub fn send(&mut self, opcode: u8, flags: u8, body: &[u8]) {
        self.last_stream = self.last_stream.wrapping_add(1).max(1);
        self.waiting.insert(self.last_stream);
        let header = Header {
            version: self.version as u8,
            response: false,
            // The compressed bit is the encoder's business.
            flags: flags & !helenus_wire::flags::COMPRESSED,
            stream: self.last_stream,
            opcode,
            body_len: 0,
        };
        self.encoder.push_slice(header, body);
        self.socket.write_all(&mut self.encoder);
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.is_raw = true;
        self.socket.write(bytes);
    }

    /// Ends its connection.
    pub fn leave(&mut self, end: End) {
        self.end = Some(end);
        self.socket.broken = end == End::Broken;
        self.socket.woken = true;
    }

    /// Reads what the engine has sent.
    pub fn read(&mut self) {
        let bytes = std::mem::take(&mut self.socket.from_engine);
        if self.is_raw {
            return;
        }
        let fed = self.decoder.feed(&bytes, &mut Vec::new(), |header, _| {
            assert!(header.response, "a request from the proxy");
            let is_event = header.stream == -1 && header.opcode == Opcode::Event as u8;
            // Stream 0 is for what cannot be told whose it is.
            let answers = self.waiting.remove(&header.stream) || header.stream == 0;
            assert!(is_event || answers, "a second answer on {}", header.stream);
            self.answer = Opcode::from_number(header.opcode);
            Flow::Continue
        });
        fed.expect("the proxy sends what a client cannot read");
    }

    /// True if it still waits for an answer that it may expect.
    pub fn is_waiting(&self) -> bool {
        !self.is_raw && !self.waiting.is_empty()
    }
}
