//! Every back end relays correctly: small requests under load, large ones against full sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use clap::ValueEnum;
use helenus_wire::Flow;

use super::Kind;
use crate::client::{Client, Load};
use crate::node;
use crate::relay::{LINKS, framed, header};

/// Nodes and a relay in threads of this process.
fn start(kind: Kind) -> SocketAddr {
    let links = (0..LINKS).map(|_| {
        let node = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let link = TcpStream::connect(node.local_addr().unwrap()).unwrap();
        link.set_nodelay(true).unwrap();
        link.set_nonblocking(true).unwrap();
        std::thread::spawn(move || node::serve(&node));
        link
    });
    let links = links.collect();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || kind.back_end().run(listener, links).unwrap());
    address
}

/// The back ends that this kernel has; the others must at least say why not.
fn kinds() -> impl Iterator<Item = Kind> {
    Kind::value_variants().iter().copied().filter(|kind| {
        kind.probe()
            .inspect_err(|e| eprintln!("without {}: {e:#}", kind.name()))
            .is_ok()
    })
}

#[test]
fn each_client_gets_its_own_answers() {
    for kind in kinds() {
        let relay = start(kind);
        // Connections come and go, so that places are used again.
        for load in ["1x1", "150x1", "40x8"] {
            let load: Load = load.parse().unwrap();
            let mut client = Client::connect(relay, load).unwrap();
            let slice = client.run(Duration::from_millis(100)).unwrap();
            let first = (load.connections * load.in_flight) as u64;
            assert!(slice.queries > first, "{kind:?}: {slice:?}");
        }
    }
}

#[test]
fn nothing_is_lost_when_sockets_are_full() {
    const REQUESTS: i16 = 400;
    for kind in kinds() {
        let mut tcp = TcpStream::connect(start(kind)).unwrap();
        let mut reading = tcp.try_clone().unwrap();
        let body = |stream: i16| vec![stream as u8; 50_000 + stream as usize];
        let writer = std::thread::spawn(move || {
            let (_, mut encoder) = framed();
            for stream in 0..REQUESTS {
                encoder.push_slice(header(stream, false), &body(stream));
            }
            tcp.write_all(encoder.pending()).unwrap();
        });
        // Long enough for every socket on the way to fill.
        std::thread::sleep(Duration::from_millis(300));
        let (mut decoder, _) = framed();
        let mut seen = vec![false; REQUESTS as usize];
        let (mut buf, mut scratch) = (vec![0; 64 * 1024], Vec::new());
        while seen.contains(&false) {
            let n = reading.read(&mut buf).unwrap();
            assert!(n > 0, "{kind:?}: closed early");
            let fed = decoder.feed(&buf[..n], &mut scratch, |answer, got| {
                assert_eq!(got, body(answer.stream), "{kind:?}");
                assert!(!std::mem::replace(&mut seen[answer.stream as usize], true));
                Flow::Continue
            });
            fed.unwrap();
        }
        writer.join().unwrap();
    }
}
