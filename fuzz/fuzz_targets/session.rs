//! A client of a whole proxy: whatever it sends, each request is answered once or the connection is
//! closed, and the proxy lives on.
//!
//! The first byte chooses version and compression; then come messages: opcode, flags, length (two
//! bytes) and body. With bit 7 set there is no handshake, and the bytes go to the socket as they are.
#![no_main]

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use helenus_fuzz::node;
use helenus_proxy::Config;
use helenus_wire::{
    Compression, Decoder, Encoder, Flow, Header, MAX_RESPONSE_BODY, Opcode, Version, write,
};
use libfuzzer_sys::fuzz_target;

/// Far above the proxy's own time-out for requests, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(45);
const MESSAGES_MAX: usize = 64;

static PROXY: OnceLock<SocketAddr> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let proxy = *PROXY.get_or_init(start);
    let socket = TcpStream::connect(proxy).expect("the proxy does not accept a client");
    socket.set_nodelay(true).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    if choice & 0x80 != 0 {
        raw(socket, bytes);
        return;
    }
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
    Client::new(socket, version, compression).talk(bytes);
});

fn start() -> SocketAddr {
    let node = node::start().expect("no port for the node");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.expect("no port for the proxy");
    let mut config = Config::default();
    config.listen.address = address;
    config.listen.workers = 1;
    config.cluster.contact_points = vec![node.to_string()];
    config.limits.request_timeout_ms = Some(2_000);
    config.admin.address = None;
    thread::spawn(move || {
        let program = helenus_proxy::Program {
            load: Box::new(|| Ok(Config::default())),
            set_log_filter: Box::new(|_| Ok(())),
        };
        helenus_proxy::serve(config, program).expect("the proxy ends")
    });
    let mut client = loop {
        thread::sleep(Duration::from_millis(50));
        if let Ok(socket) = TcpStream::connect(address) {
            break Client::new(socket, Version::V5, Compression::None);
        }
    };
    // The port is bound before the node is known; the answer to this means that it is.
    client.talk(&[]);
    address
}

/// Bytes as they are: they may hold no whole request, so nothing need be answered.
fn raw(mut socket: TcpStream, bytes: &[u8]) {
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(std::net::Shutdown::Write);
    let mut buffer = [0; 4096];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the proxy keeps a connection that its client has closed")
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

struct Client {
    socket: TcpStream,
    version: Version,
    compression: Compression,
    encoder: Encoder,
    decoder: Decoder,
    scratch: Vec<u8>,
    waiting: BTreeSet<i16>,
}

impl Client {
    fn new(socket: TcpStream, version: Version, compression: Compression) -> Client {
        Client {
            socket,
            version,
            compression,
            encoder: Encoder::new(),
            decoder: Decoder::new(MAX_RESPONSE_BODY),
            scratch: Vec::new(),
            waiting: BTreeSet::new(),
        }
    }

    fn talk(&mut self, mut bytes: &[u8]) {
        let mut options = vec![("CQL_VERSION", "3.0.0")];
        match self.compression {
            Compression::None => {}
            Compression::Lz4 => options.push(("COMPRESSION", "lz4")),
            Compression::Snappy => options.push(("COMPRESSION", "snappy")),
        }
        let mut body = Vec::new();
        write::string_map(&mut body, &options);
        self.decoder.set_mode(false, self.compression);
        self.push(0, Opcode::Startup as u8, 0, &body);
        if let Err(closed) = self.exchange() {
            panic!("the proxy refuses a plain handshake: {closed}");
        }
        let framed = self.version == Version::V5;
        self.encoder.set_mode(framed, self.compression);
        self.decoder.set_mode(framed, self.compression);
        for stream in 1..=MESSAGES_MAX {
            let [opcode, flags, high, low, rest @ ..] = bytes else {
                break;
            };
            let len = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
            let (body, rest) = rest.split_at(len);
            // The compressed bit is the encoder's business.
            self.push(stream as i16, *opcode, flags & !1, body);
            bytes = rest;
            // Some requests arrive together, some after the answers to those before them.
            if flags & 0x40 != 0 && self.exchange().is_err() {
                return;
            }
        }
        // Closing is an answer, too.
        let _ = self.exchange();
    }

    fn push(&mut self, stream: i16, opcode: u8, flags: u8, body: &[u8]) {
        let header = Header {
            version: self.version as u8,
            response: false,
            flags,
            stream,
            opcode,
            body_len: 0,
        };
        self.encoder.push_slice(header, body);
        self.waiting.insert(stream);
    }

    /// Sends what is pending and waits for all answers; fails if the proxy has closed.
    fn exchange(&mut self) -> std::io::Result<()> {
        while !self.encoder.pending().is_empty() {
            let bytes = self.encoder.pending();
            let len = bytes.len();
            // The proxy may close before it has read everything.
            let sent = self.socket.write_all(bytes).is_ok();
            self.encoder.advance(len);
            if !sent {
                break;
            }
        }
        let mut buffer = vec![0; 64 * 1024];
        while !self.waiting.is_empty() {
            let len = match self.socket.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => len,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!("no answer on streams {:?}", self.waiting)
                }
                // libFuzzer's alarm clock.
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let waiting = &mut self.waiting;
            let fed = self
                .decoder
                .feed(&buffer[..len], &mut self.scratch, |header, _| {
                    assert!(header.response, "a request from the proxy");
                    let event = header.stream == -1;
                    // A request that cannot be read at all may be answered on stream 0.
                    let answered = waiting.remove(&header.stream) || header.stream == 0;
                    assert!(event || answered, "a second answer on {}", header.stream);
                    Flow::Continue
                });
            fed.expect("the proxy sends what a client cannot read");
        }
        Ok(())
    }
}
