//! A bare client: one request, one answer, bodies as they came.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use helenus_wire::{
    Compression, Decoder, Encoder, Flow, Header, MAX_RESPONSE_BODY, Opcode, Version, write,
};

/// Longer than any time-out of the nodes or the proxy in these tests.
const PATIENCE: Duration = Duration::from_secs(900);

/// A protocol version and a compression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    pub version: Version,
    pub compression: Compression,
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub flags: u8,
    pub opcode: u8,
    pub body: Vec<u8>,
}

impl Answer {
    fn of(header: Header, body: &[u8]) -> Answer {
        Answer {
            flags: header.flags,
            opcode: header.opcode,
            body: body.to_vec(),
        }
    }
}

pub(crate) struct Client {
    address: SocketAddr,
    dialect: Dialect,
    socket: TcpStream,
    encoder: Encoder,
    decoder: Decoder,
    scratch: Vec<u8>,
    stream: i16,
}

impl Client {
    /// Connects and gets ready.
    pub(crate) fn connect(address: SocketAddr, dialect: Dialect) -> Result<Client> {
        let socket = TcpStream::connect(address).with_context(|| format!("connect {address}"))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut client = Client {
            address,
            dialect,
            socket,
            encoder: Encoder::new(),
            decoder: Decoder::new(MAX_RESPONSE_BODY),
            scratch: Vec::new(),
            stream: 0,
        };
        let mut options = vec![("CQL_VERSION", "3.0.0")];
        match dialect.compression {
            Compression::None => {}
            Compression::Lz4 => options.push(("COMPRESSION", "lz4")),
            Compression::Snappy => options.push(("COMPRESSION", "snappy")),
        }
        let mut body = Vec::new();
        write::string_map(&mut body, &options);
        // READY may already be compressed.
        client.decoder.set_mode(false, dialect.compression);
        let answer = client.ask(Opcode::Startup, 0, &body)?;
        ensure!(
            answer.opcode == Opcode::Ready as u8,
            "{address} answers STARTUP with {answer:?}"
        );
        let framed = dialect.version == Version::V5;
        client.encoder.set_mode(framed, dialect.compression);
        client.decoder.set_mode(framed, dialect.compression);
        Ok(client)
    }

    /// Makes the connection anew, after the server has closed it.
    pub(crate) fn reconnect(&mut self) -> Result<()> {
        *self = Client::connect(self.address, self.dialect)?;
        Ok(())
    }

    /// Another connection to the same server, in the same dialect.
    pub(crate) fn again(&self) -> Result<Client> {
        Client::connect(self.address, self.dialect)
    }

    /// Sends requests without waiting for any answer: each on the stream of its number.
    pub(crate) fn send_all(&mut self, requests: &[(Opcode, Vec<u8>)]) -> Result<()> {
        for (stream, (opcode, body)) in (0..).zip(requests) {
            self.push(stream, *opcode, 0, body);
        }
        self.flush()
    }

    /// Their answers, in the order of the requests.
    pub(crate) fn receive_all(&mut self, number: usize) -> Result<Vec<Answer>> {
        let mut answers: Vec<Option<Answer>> = vec![None; number];
        let mut buffer = vec![0; 64 * 1024];
        while answers.iter().any(Option::is_none) {
            let len = self.read(&mut buffer)?;
            let mut strays = 0;
            self.decoder
                .feed(&buffer[..len], &mut self.scratch, |header, body| {
                    match answers.get_mut(header.stream as usize) {
                        Some(answer @ None) => *answer = Some(Answer::of(header, body)),
                        _ => strays += 1,
                    }
                    Flow::Continue
                })?;
            ensure!(
                strays == 0,
                "{} answers more than it was asked",
                self.address
            );
        }
        Ok(answers.into_iter().flatten().collect())
    }

    fn push(&mut self, stream: i16, opcode: Opcode, flags: u8, body: &[u8]) {
        let header = Header {
            version: self.dialect.version as u8,
            response: false,
            flags,
            stream,
            opcode: opcode as u8,
            body_len: 0,
        };
        self.encoder.push_slice(header, body);
    }

    fn flush(&mut self) -> Result<()> {
        loop {
            let bytes = self.encoder.pending().to_vec();
            if bytes.is_empty() {
                return Ok(());
            }
            self.encoder.advance(bytes.len());
            self.socket.write_all(&bytes)?;
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.socket.read(buffer);
        let len = read.with_context(|| format!("no answer from {}", self.address))?;
        if len == 0 {
            bail!("{} closed the connection without an answer", self.address);
        }
        Ok(len)
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn ask(&mut self, opcode: Opcode, flags: u8, body: &[u8]) -> Result<Answer> {
        self.stream = (self.stream + 1) % 1000;
        self.push(self.stream, opcode, flags, body);
        self.flush()?;
        let mut answer = None;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let len = self.read(&mut buffer)?;
            let mut strays = 0;
            self.decoder
                .feed(&buffer[..len], &mut self.scratch, |header, body| {
                    // A node that could not read a request at all may not know its stream.
                    let ours = header.stream == self.stream || header.stream == 0;
                    if ours && answer.is_none() {
                        answer = Some(Answer::of(header, body));
                    } else {
                        strays += 1;
                    }
                    Flow::Continue
                })?;
            ensure!(
                strays == 0,
                "{} answers more than it was asked",
                self.address
            );
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }
}
