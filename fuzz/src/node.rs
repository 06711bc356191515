//! A node that never was: enough of Cassandra for a proxy to start before it. What it answers to
//! data requests depends on nothing but their bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use helenus_wire::{
    Compression, Decoder, Encoder, Flow, Header, MAX_REQUEST_BODY, Opcode, Version, write,
};

use crate::answers;

/// Listens on a free port for as long as the process lives.
pub fn start() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            // A proxy that closes a connection ends its thread, nothing else.
            thread::spawn(move || serve(socket));
        }
    });
    Ok(address)
}

fn serve(mut socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut decoder = Decoder::new(MAX_REQUEST_BODY);
    let mut encoder = Encoder::new();
    let mut scratch = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let len = socket.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        let mut started = None;
        let fed = decoder.feed(&buffer[..len], &mut scratch, |header, body| {
            let (opcode, answer) = answer(&header, body);
            encoder.push_slice(
                Header {
                    response: true,
                    flags: 0,
                    opcode: opcode as u8,
                    ..header
                },
                &answer,
            );
            if header.opcode == Opcode::Startup as u8 {
                started = Some(header.version == Version::V5 as u8);
            }
            Flow::Continue
        });
        // The proxy has read these bytes before: what a node cannot read, it must not pass on.
        fed.expect("the proxy sends what a node cannot read");
        while !encoder.pending().is_empty() {
            let bytes = encoder.pending();
            let len = bytes.len();
            socket.write_all(bytes)?;
            encoder.advance(len);
        }
        if let Some(framed) = started {
            decoder.set_mode(framed, Compression::None);
            encoder.set_mode(framed, Compression::None);
        }
    }
}

fn answer(header: &Header, body: &[u8]) -> (Opcode, Vec<u8>) {
    let opcode = Opcode::from_number(header.opcode);
    let v5 = header.version == Version::V5 as u8;
    let mut out = Vec::new();
    match opcode {
        Some(Opcode::Options) => {
            write::u16(&mut out, 1);
            write::string(&mut out, "CQL_VERSION");
            write::string_list(&mut out, &["3.4.7"]);
            (Opcode::Supported, out)
        }
        Some(Opcode::Startup | Opcode::Register) => (Opcode::Ready, out),
        Some(Opcode::AuthResponse) => {
            write::bytes(&mut out, None);
            (Opcode::AuthSuccess, out)
        }
        Some(Opcode::Query) => answers::query(body, v5),
        Some(Opcode::Prepare) => (Opcode::Result, answers::prepared(body, v5)),
        _ => answers::by_chance(body, v5),
    }
}
