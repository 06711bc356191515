//! A connection without its stream: requests become bytes, bytes become answers.

use helenus_wire::{
    Compression, DecodeError, Decoder, Encoder, Flow, Header, MAX_HANDSHAKE_ANSWER,
    MAX_RESPONSE_BODY, Malformed,
};

use crate::answer::Answer;

/// The half that reads.
#[derive(Debug)]
pub struct Incoming {
    version: u8,
    compression: Compression,
    decoder: Decoder,
    scratch: Vec<u8>,
    /// STARTUP has been accepted: from then on requests are compressed, and in version 5 both directions are in frames.
    has_begun: bool,
    /// The server takes requests: until then its answers are short.
    is_ready: bool,
}

impl Incoming {
    pub fn new(version: u8, compression: Compression) -> Self {
        let mut decoder = Decoder::new(MAX_HANDSHAKE_ANSWER);
        // Already the answer to STARTUP may be compressed.
        decoder.set_mode(false, compression);
        Self {
            version,
            compression,
            decoder,
            scratch: Vec::new(),
            has_begun: false,
            is_ready: false,
        }
    }

    /// Passes each answer that is complete to `on_answer`.
    ///
    /// # Errors
    /// These are no bytes of a server. Nothing that comes behind them can be read.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut on_answer: impl FnMut(Answer),
    ) -> Result<(), DecodeError> {
        while !bytes.is_empty() {
            let has_begun = self.has_begun;
            let (mut begins, mut is_asked) = (false, false);
            let mut is_ready = self.is_ready;
            let used = self
                .decoder
                .feed(bytes, &mut self.scratch, |header, body| {
                    is_asked |= !header.response;
                    let answer = Answer::of(header, body);
                    begins = !has_begun && answer.accepts_startup();
                    let is_longer = !is_ready && answer.ends_handshake();
                    is_ready |= is_longer;
                    on_answer(answer);
                    match begins || is_longer {
                        true => Flow::Pause,
                        false => Flow::Continue,
                    }
                })?;
            if is_asked {
                return Err(Malformed("a request where an answer was expected").into());
            }
            if begins {
                self.has_begun = true;
                self.decoder.set_mode(self.version >= 5, self.compression);
            }
            if is_ready && !self.is_ready {
                self.is_ready = true;
                self.decoder.set_body_len_max(MAX_RESPONSE_BODY);
            }
            bytes = &bytes[used..];
        }
        Ok(())
    }
}

/// Both halves.
#[derive(Debug)]
pub struct Codec {
    encoder: Encoder,
    incoming: Incoming,
}

impl Codec {
    pub fn new(version: u8, compression: Compression) -> Self {
        Self {
            encoder: Encoder::new(),
            incoming: Incoming::new(version, compression),
        }
    }

    /// One for another handle of the same stream that only writes.
    pub(crate) fn sender(&self) -> Self {
        Self {
            encoder: self.encoder.like(),
            incoming: Incoming::new(self.incoming.version, self.incoming.compression),
        }
    }

    pub fn compression(&self) -> Compression {
        self.incoming.compression
    }

    /// Takes a request, whose body `write_body` appends. Those that are pushed together leave in as few frames as
    /// possible.
    pub fn push(
        &mut self,
        stream: i16,
        opcode: u8,
        flags: u8,
        write_body: impl FnOnce(&mut Vec<u8>),
    ) {
        let header = Header {
            version: self.incoming.version,
            response: false,
            flags,
            stream,
            opcode,
            body_len: 0,
        };
        self.encoder.push(header, 0, write_body);
    }

    /// Bytes to write next; none if all have been written.
    pub fn pending(&mut self) -> &[u8] {
        self.encoder.pending()
    }

    /// So many of them have been written.
    pub fn advance(&mut self, len: usize) {
        self.encoder.advance(len);
    }

    /// [`Incoming::feed`].
    pub fn feed(&mut self, bytes: &[u8], on_answer: impl FnMut(Answer)) -> Result<(), DecodeError> {
        let had_begun = self.incoming.has_begun;
        self.incoming.feed(bytes, on_answer)?;
        if self.incoming.has_begun && !had_begun {
            let is_framed = self.incoming.version >= 5;
            self.encoder.set_mode(is_framed, self.incoming.compression);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_wire::Opcode;

    /// Sends a request over a codec to a server, which answers with the same body; the answer's, as it arrives.
    fn echo(
        codec: &mut Codec,
        decoder: &mut Decoder,
        encoder: &mut Encoder,
        opcode: Opcode,
        body: &[u8],
    ) -> Vec<u8> {
        codec.push(9, Opcode::Query as u8, 0, |out| out.extend(body));
        while !codec.pending().is_empty() {
            let sent = codec.pending().to_vec();
            codec.advance(sent.len());
            let fed = decoder.feed(&sent, &mut Vec::new(), |request, body| {
                let header = Header {
                    response: true,
                    opcode: opcode as u8,
                    ..request
                };
                encoder.push_slice(header, body);
                Flow::Continue
            });
            fed.unwrap();
        }
        let mut answers = Vec::new();
        for part in encoder.take_pending().chunks(1000) {
            codec.feed(part, |answer| answers.push(answer)).unwrap();
        }
        let [answer]: [Answer; 1] = answers.try_into().unwrap();
        assert_eq!((answer.stream, answer.opcode), (9, opcode as u8));
        answer.body
    }

    #[test]
    fn frames_and_compression_begin_where_startup_is_accepted() {
        let long = vec![7; 400_000];
        for (version, compression) in [
            (3, Compression::None),
            (4, Compression::Snappy),
            (4, Compression::Lz4),
            (5, Compression::None),
            (5, Compression::Lz4),
        ] {
            let mut codec = Codec::new(version, compression);
            let (mut decoder, mut encoder) = (Decoder::new(1 << 20), Encoder::new());
            let mut echo = |opcode, body: &[u8]| {
                let answer = echo(&mut codec, &mut decoder, &mut encoder, opcode, body);
                assert_eq!(answer, body, "v{version}, {compression:?}");
                if opcode == Opcode::Authenticate {
                    decoder.set_mode(version == 5, compression);
                    encoder.set_mode(version == 5, compression);
                }
            };
            for opcode in [Opcode::Supported, Opcode::Error, Opcode::Authenticate] {
                echo(opcode, b"before");
            }
            echo(Opcode::AuthSuccess, b"behind");
            echo(Opcode::Ready, b"of REGISTER");
            echo(Opcode::Result, &long);
        }
    }

    #[test]
    fn an_answer_before_the_server_takes_requests_is_short() {
        let said = |opcode: Opcode, len: u32| {
            let header = Header {
                version: 4,
                response: true,
                flags: 0,
                stream: 1,
                opcode: opcode as u8,
                body_len: len,
            };
            let mut bytes = Vec::new();
            header.write(&mut bytes);
            bytes
        };
        let long = MAX_HANDSHAKE_ANSWER as u32 + 1;
        for behind in [&[][..], &[Opcode::Supported], &[Opcode::Authenticate]] {
            let mut incoming = Incoming::new(4, Compression::None);
            let mut bytes: Vec<u8> = behind.iter().flat_map(|of| said(*of, 0)).collect();
            bytes.extend(said(Opcode::Error, long));
            assert!(incoming.feed(&bytes, |_| {}).is_err(), "{behind:?}");
        }
        for ready in [Opcode::Ready, Opcode::AuthSuccess] {
            let mut incoming = Incoming::new(4, Compression::None);
            let begun = [said(ready, 0), said(Opcode::Result, long)].concat();
            incoming.feed(&begun, |_| {}).unwrap();
            let mut len = None;
            let rest = vec![0; long as usize];
            incoming
                .feed(&rest, |of| len = Some(of.body.len()))
                .unwrap();
            assert_eq!(len, Some(rest.len()));
        }
    }

    #[test]
    fn bytes_that_are_no_answers_are_an_error() {
        let request = [4, 0, 0, 1, 5, 0, 0, 0, 0];
        for bytes in [&request[..], b"HTTP/1.1 "] {
            let mut incoming = Incoming::new(4, Compression::None);
            assert!(incoming.feed(bytes, |_| {}).is_err());
        }
    }
}
