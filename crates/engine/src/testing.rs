//! What tests of several stations need.

pub(crate) mod bench;

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Compression, Encoder, ErrorBody, Header, Opcode, Version, code};

use crate::engine::Engine;
use crate::keys::LinkKey;
use crate::output::{Dialed, Outgoing, Output, Sent, Then};

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

/// Opens the links that an engine has asked for, to nodes that ask for no login and whose addresses end
/// with their number.
pub(crate) fn open_links(
    engine: &mut Engine,
    now: Instant,
    version: Version,
) -> Vec<(NodeIndex, LinkKey)> {
    let mut links = Vec::new();
    for (address, key) in dial_all(engine, now) {
        let mut error = Vec::new();
        let unable = ErrorBody {
            code: code::SERVER,
            message: "system.local cannot be read",
            fields: &[],
        };
        unable.write(&mut error);
        take_sent(engine, key);
        let ready = bytes_of((version, false), 1, Opcode::Ready, &[]);
        engine.on_link_bytes(now, key, &ready);
        take_sent(engine, key);
        let framed = version == Version::V5;
        let unable = bytes_of((version, framed), 2, Opcode::Error, &error);
        engine.on_link_bytes(now, key, &unable);
        let IpAddr::V4(address) = address.ip() else {
            panic!("an address of version 4");
        };
        links.push((NodeIndex(address.octets()[3].into()), key));
    }
    links
}

/// What an engine has sent to a node.
pub(crate) fn take_sent(engine: &mut Engine, key: LinkKey) -> Vec<u8> {
    let Some(encoder) = engine.link_bytes(key) else {
        return Vec::new();
    };
    let mut taken = Vec::new();
    while !Outgoing::pending(encoder).is_empty() {
        let len = Outgoing::pending(encoder).len();
        taken.extend_from_slice(Outgoing::pending(encoder));
        Outgoing::advance(encoder, len);
    }
    let sent = Sent {
        writes: u64::from(!taken.is_empty()),
        bytes: taken.len() as u64,
        then: Then::Done,
    };
    engine.on_link_sent(engine.now(), key, sent);
    taken
}

/// A node's answer.
pub(crate) fn bytes_of(
    (version, framed): (Version, bool),
    stream: i16,
    opcode: Opcode,
    body: &[u8],
) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.set_mode(framed, Compression::None);
    let header = Header {
        version: version as u8,
        response: true,
        flags: 0,
        stream,
        opcode: opcode as u8,
        body_len: 0,
    };
    encoder.push_slice(header, body);
    encoder.pending().to_vec()
}
