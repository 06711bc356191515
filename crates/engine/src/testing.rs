//! Helpers for tests of several stations.

pub(crate) mod asking;
pub(crate) mod bench;
mod tables;

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{
    Compression, Consistency, Decoder, Encoder, ErrorBody, Flow, Header, MAX_RESPONSE_BODY, Opcode,
    Version, code, write,
};

use crate::keys::LinkKey;
use crate::output::{Dialed, Outgoing, Output, Sent, Then};
use crate::pipeline::engine::Engine;
use crate::snapshot::Node;

pub(crate) type Envelope = (Opcode, i16, Vec<u8>);

/// Some instant to begin from.
#[allow(clippy::disallowed_methods)]
pub(crate) fn begin() -> Instant {
    Instant::now()
}

/// The connections that an engine has asked for, made.
pub(crate) fn dial_all(engine: &mut Engine, now: Instant) -> Vec<(SocketAddr, LinkKey)> {
    let mut dialed = Vec::new();
    while let Some(output) = engine.poll_output() {
        if let Output::Dial(key, address) = output {
            assert!(engine.on_dialed(now, key, Ok(Dialed::default())));
            dialed.push((address, key));
        }
    }
    dialed
}

/// The body of an ERROR without fields.
pub(crate) fn error(code: i32, message: &str) -> Vec<u8> {
    let mut body = Vec::new();
    let error = ErrorBody {
        code,
        message,
        fields: &[],
    };
    error.write(&mut body);
    body
}

/// Opens the links that an engine has asked for, to nodes that ask for no login and whose addresses end
/// with their number.
pub(crate) fn open_links(
    engine: &mut Engine,
    now: Instant,
    version: Version,
) -> Vec<(NodeIndex, LinkKey)> {
    let mut links = Vec::new();
    for (address, key) in dial_all(engine, now) {
        let unable = error(code::SERVER, "system.local cannot be read");
        take_sent(engine, key);
        let ready = bytes_of((version, false), 1, Opcode::Ready, &[]);
        engine.on_link_bytes(now, key, &ready);
        take_sent(engine, key);
        let framed = version == Version::V5;
        let unable = bytes_of((version, framed), 2, Opcode::Error, &unable);
        engine.on_link_bytes(now, key, &unable);
        let IpAddr::V4(address) = address.ip() else {
            panic!("an address of version 4");
        };
        links.push((NodeIndex(address.octets()[3].into()), key));
    }
    links
}

/// A BATCH at LOCAL_QUORUM of statements by their texts or ids, without values; `batch_type`: 0 logged, 1 unlogged.
pub(crate) fn batch_of(
    version: Version,
    batch_type: u8,
    children: &[Result<&str, &[u8]>],
) -> Vec<u8> {
    let mut body = vec![batch_type];
    write::u16(&mut body, children.len() as u16);
    for child in children {
        body.push(u8::from(child.is_err()));
        match child {
            Ok(text) => write::long_string(&mut body, text),
            Err(id) => write::short_bytes(&mut body, id),
        }
        write::u16(&mut body, 0);
    }
    write::u16(&mut body, Consistency::LOCAL_QUORUM.0);
    match version {
        Version::V5 => write::u32(&mut body, 0),
        _ => body.push(0),
    }
    body
}

/// The node whose address ends with this number.
pub(crate) fn node(number: u8) -> Node {
    let address = SocketAddr::from(([10, 0, 0, number], 9042));
    Node::new(address, [number; 16], "", "")
}

/// The bytes that an engine has sent to a node.
pub(crate) fn take_sent(engine: &mut Engine, key: LinkKey) -> Vec<u8> {
    let Some(encoder) = engine.link_bytes(key) else {
        return Vec::new();
    };
    let (taken, sent) = take(encoder);
    engine.on_link_sent(engine.now(), key, sent);
    taken
}

/// Takes all that waits, as a socket with room for it does.
pub(crate) fn take(outgoing: &mut impl Outgoing) -> (Vec<u8>, Sent) {
    let mut taken = Vec::new();
    while !outgoing.pending().is_empty() {
        let len = outgoing.pending().len();
        taken.extend_from_slice(outgoing.pending());
        outgoing.advance(len);
    }
    let sent = Sent {
        writes: u64::from(!taken.is_empty()),
        bytes: taken.len() as u64,
        then: Then::Done,
    };
    (taken, sent)
}

/// A node's answer.
pub(crate) fn bytes_of(mode: (Version, bool), stream: i16, opcode: Opcode, body: &[u8]) -> Vec<u8> {
    written(mode, true, 0, stream, opcode, body)
}

/// A node's answer with these flags.
pub(crate) fn bytes_with_flags(
    flags: u8,
    mode: (Version, bool),
    stream: i16,
    opcode: Opcode,
    body: &[u8],
) -> Vec<u8> {
    written(mode, true, flags, stream, opcode, body)
}

/// A client's request.
pub(crate) fn request_of(
    mode: (Version, bool),
    stream: i16,
    opcode: Opcode,
    body: &[u8],
) -> Vec<u8> {
    request_with_flags(0, mode, stream, opcode, body)
}

/// A client's request with these flags.
pub(crate) fn request_with_flags(
    flags: u8,
    mode: (Version, bool),
    stream: i16,
    opcode: Opcode,
    body: &[u8],
) -> Vec<u8> {
    written(mode, false, flags, stream, opcode, body)
}

fn written(
    mode: (Version, bool),
    response: bool,
    flags: u8,
    stream: i16,
    opcode: Opcode,
    body: &[u8],
) -> Vec<u8> {
    let (version, framed) = mode;
    let mut encoder = Encoder::new();
    encoder.set_mode(framed, Compression::None);
    let header = Header {
        version: version as u8,
        response,
        flags,
        stream,
        opcode: opcode as u8,
        body_len: 0,
    };
    encoder.push_slice(header, body);
    encoder.take_pending()
}

/// The written bytes, envelope by envelope.
pub(crate) fn envelopes(framed: bool, bytes: &[u8]) -> Vec<Envelope> {
    let mut found = Vec::new();
    let mut decoder = Decoder::new(MAX_RESPONSE_BODY);
    decoder.set_mode(framed, Compression::None);
    let fed = decoder.feed(bytes, &mut Vec::new(), |header, body| {
        let opcode = Opcode::from_number(header.opcode).expect("an opcode");
        found.push((opcode, header.stream, body.to_vec()));
        Flow::Continue
    });
    assert_eq!(fed, Ok(bytes.len()));
    found
}
