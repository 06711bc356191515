//! A process that takes over the clients of another one, with their roles.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use helenus_tests::proxy::{Options, Proxy, free_addresses};
use helenus_tests::raw::{Client, PATIENCE, envelope, op, value};
use helenus_tests::scripted::{self, Node, Verdict};
use helenus_wire::{Compression, HEADER_LEN, Header, decompress_body, flags};

use crate::{SETTINGS, eventually, metric, served_as};

const PASSWORD: &str = "hunter2-hunter2";
const READ: &str = "SELECT token FROM k.t WHERE k = 1";

struct Place<'a> {
    nodes: &'a [Node],
    addresses: (SocketAddr, SocketAddr),
    path: &'a Path,
}

impl Place<'_> {
    /// Starts a proxy here, whoever was here before.
    fn launch(&self, settings: &[&str]) -> Proxy {
        let points: Vec<_> = self.nodes.iter().map(|node| node.address).collect();
        let handover = format!("listen.handover={:?}", self.path.display().to_string());
        let own = ["log.filter=debug", handover.as_str()];
        Proxy::launch(&Options {
            contact_points: &points,
            settings: &[&SETTINGS[..], &own, settings].concat(),
            addresses: Some(self.addresses),
            ..Options::default()
        })
        .expect("spawned")
    }

    fn ready(&self, settings: &[&str]) -> Proxy {
        let mut proxy = self.launch(settings);
        proxy.wait_ready().expect("ready");
        proxy
    }
}

fn logged_in(address: SocketAddr, role: &str) -> Client<TcpStream> {
    let mut client = Client::connect(address, 4).expect("connect");
    let outcome = client.startup(Some((role, PASSWORD))).expect("an answer");
    outcome.unwrap_or_else(|fault| panic!("{role}: {fault:?}"));
    client
}

fn token(role: &str) -> String {
    format!("\0{role}\0{PASSWORD}")
}

fn leaves(proxy: &mut Proxy) {
    assert!(proxy.wait(PATIENCE).expect("it ends").success());
}

#[test]
fn clients_stay_connected_as_who_they_are() {
    let nodes = scripted::start(2).expect("nodes");
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place {
        nodes: &nodes,
        addresses: free_addresses("127.77.255.1").expect("ports"),
        path: &folder.path().join("handover.sock"),
    };
    let mut proxy = place.ready(&[]);
    let roles = ["app", "report", "app", "gone"];
    let mut clients = roles.map(|role| logged_in(proxy.address, role));
    // The request of this one begins before a change and ends behind it.
    let mut halved = logged_in(proxy.address, "half");
    let query = envelope(4, 7, op::QUERY, &halved.query_body(READ, 1));
    halved.stream.write_all(&query[..20]).expect("sent");
    let plain = Client::connect(proxy.address, 4).expect("connect");
    let mut compressed = Client::compressing(plain.stream, 4, Compression::Lz4);
    let asked = compressed.hello(&[]).expect("asked");
    assert_eq!(asked.opcode, op::AUTHENTICATE);
    let accepted = compressed.log_in(token("small").as_bytes());
    assert_eq!(accepted.expect("an answer").opcode, op::AUTH_SUCCESS);
    // A node does not make up its mind about this one before the first change.
    let may_judge = Arc::new(AtomicBool::new(false));
    for node in &nodes {
        let may_judge = may_judge.clone();
        node.set_judge(move |judged| {
            while judged == token("late").as_bytes() && !may_judge.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
            Verdict::Accept
        });
    }
    let mut late = Client::connect(proxy.address, 4).expect("connect");
    late.hello(&[]).expect("asked");
    let response = value(token("late").as_bytes());
    late.send(5, op::AUTH_RESPONSE, &response).expect("sent");

    for time in 0..3 {
        let next = place.ready(&[]);
        if time == 0 {
            eventually("the others are passed on", || {
                metric(&next, "helenus_clients ") == 6
            });
            may_judge.store(true, Ordering::Relaxed);
            let accepted = late.receive().expect("an answer");
            assert_eq!(accepted.opcode, op::AUTH_SUCCESS);
        }
        leaves(&mut proxy);
        proxy = next;
        for (client, role) in clients.iter_mut().zip(roles) {
            assert_eq!(served_as(client).expect("served"), token(role));
        }
        // As it comes, to see that it is compressed.
        let query = compressed.query_body(READ, 1);
        compressed.send(6, op::QUERY, &query).expect("sent");
        let mut header = [0; HEADER_LEN];
        compressed.stream.read_exact(&mut header).expect("served");
        let header = Header::parse(&header).expect("a header");
        assert!(header.flags & flags::COMPRESSED != 0);
        let mut answer = vec![0; header.body_len as usize];
        compressed.stream.read_exact(&mut answer).expect("a body");
        let mut body = Vec::new();
        decompress_body(Compression::Lz4, &answer, 1 << 20, &mut body).expect("LZ4");
        assert!(body.ends_with(token("small").as_bytes()));
    }
    // It has logged in through a process that is gone by now.
    assert_eq!(served_as(&mut late).expect("served"), token("late"));
    halved.stream.write_all(&query[20..]).expect("sent");
    let answer = halved.receive().expect("an answer");
    assert_eq!((answer.stream, answer.opcode), (7, op::RESULT));
    assert!(answer.body.ends_with(token("half").as_bytes()));
    assert_eq!(metric(&proxy, "helenus_clients "), 7);
    assert!(metric(&proxy, "helenus_clients_adopted_total") >= 6);

    // Logins that nodes no longer accept end here as they would have there.
    for node in &nodes {
        node.set_judge(|token| match token.windows(4).any(|word| word == b"gone") {
            true => Verdict::incorrect(),
            false => Verdict::Accept,
        });
    }
    let mut next = place.ready(&[]);
    leaves(&mut proxy);
    eventually("a role that is gone is disconnected", || {
        served_as(&mut clients[3]).is_err()
    });
    for (client, role) in clients.iter_mut().zip(&roles[..3]) {
        assert_eq!(served_as(client).expect("served"), token(role));
    }
    for log in [proxy.log(), next.log()] {
        assert!(!log.contains("hunter2"), "{log}");
    }
    drop((clients, halved, compressed, late));
    next.terminate().expect("SIGTERM");
    leaves(&mut next);
}

#[test]
fn what_the_next_process_does_not_take_stays_until_it_is_idle() {
    let nodes = scripted::start(1).expect("a node");
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place {
        nodes: &nodes,
        addresses: free_addresses("127.77.255.2").expect("ports"),
        path: &folder.path().join("handover.sock"),
    };
    let mut proxy = place.ready(&["listen.drain_timeout_ms=3000"]);
    let mut clients: Vec<_> = (0..5).map(|_| logged_in(proxy.address, "app")).collect();
    let next = place.ready(&["limits.clients_max=2"]);
    eventually("two are there", || metric(&next, "helenus_clients ") == 2);
    for client in &mut clients {
        assert_eq!(served_as(client).expect("served"), token("app"));
    }
    leaves(&mut proxy);
    proxy.expect_logged("limits.clients_max is reached");
    let served = clients.iter_mut().map(served_as).filter(Result::is_ok);
    assert_eq!(served.count(), 2);
}

#[test]
fn many_clients_are_passed_on_in_groups() {
    let nodes = scripted::start(1).expect("a node");
    nodes[0].set_authenticator(None);
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place {
        nodes: &nodes,
        addresses: free_addresses("127.77.255.5").expect("ports"),
        path: &folder.path().join("handover.sock"),
    };
    let mut proxy = place.ready(&[]);
    let ready = |_| Client::ready(proxy.address, 4).expect("a client");
    let mut clients: Vec<_> = (0..400).map(ready).collect();
    // Some wait for an answer.
    for client in clients.iter_mut().step_by(3) {
        let body = client.query_body(READ, 1);
        client.send(9, op::QUERY, &body).expect("sent");
    }
    let next = place.ready(&[]);
    leaves(&mut proxy);
    assert_eq!(metric(&next, "helenus_clients_adopted_total "), 400);
    for client in clients.iter_mut().step_by(3) {
        assert_eq!(client.receive().expect("an answer").stream, 9);
    }
    for client in &mut clients {
        served_as(client).expect("served");
    }
}

/// One bcrypt for each role, node and worker, as many as fit at a time and no more.
#[test]
fn nodes_are_not_overrun_by_the_logins_of_many_roles() {
    const ROLES: usize = 120;
    let nodes = scripted::start(2).expect("nodes");
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place {
        nodes: &nodes,
        addresses: free_addresses("127.77.255.6").expect("ports"),
        path: &folder.path().join("handover.sock"),
    };
    let mut proxy = place.ready(&[]);
    let roles: Vec<String> = (0..ROLES).map(|number| format!("role{number}")).collect();
    let logged_in = |role: &String| logged_in(proxy.address, role);
    let mut clients: Vec<_> = roles.iter().map(logged_in).collect();
    let logins = || nodes.iter().map(|node| node.logins().len());
    // That of the client, and that of a link to each node: none of these comes later.
    eventually("every role has its links", || {
        logins().sum::<usize>() >= ROLES * (1 + nodes.len())
    });
    let before: Vec<usize> = logins().collect();
    for node in &nodes {
        node.set_delay(Duration::from_millis(20));
        node.judging_max();
    }
    let mut next = place.ready(&[]);
    leaves(&mut proxy);
    assert_eq!(
        metric(&next, "helenus_clients_adopted_total "),
        ROLES as u64
    );
    for (client, role) in clients.iter_mut().zip(&roles) {
        assert_eq!(served_as(client).expect("served"), token(role));
    }
    eventually("every role has a link to every node again", || {
        let mut new = nodes.iter().zip(&before);
        new.all(|(node, before)| {
            let logins = node.logins().split_off(*before);
            roles
                .iter()
                .all(|role| logins.contains(&token(role).into_bytes()))
        })
    });
    for node in &nodes {
        // limits.logins_max over two nodes, and what the control thread asks its nodes on connections of its own.
        let most = node.judging_max();
        assert!((2..=16 + 4).contains(&most), "{most} at a time");
    }
    drop(clients);
    next.terminate().expect("SIGTERM");
    leaves(&mut next);
}

/// Whoever comes while another process is taking over is told so, at once.
#[test]
fn one_process_takes_over_at_a_time() {
    let nodes = scripted::start(1).expect("a node");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("handover.sock");
    let place = Place {
        nodes: &nodes,
        addresses: free_addresses("127.77.255.7").expect("ports"),
        path: &path,
    };
    let mut proxy = place.ready(&["listen.drain_timeout_ms=3000"]);
    let mut client = logged_in(proxy.address, "app");
    // It has the ports, and is not ready.
    let mut taker = std::os::unix::net::UnixStream::connect(&path).expect("connected");
    taker.set_read_timeout(Some(PATIENCE)).expect("set");
    assert!(std::io::Read::read(&mut taker, &mut [0; 256]).expect("said") > 0);
    let mut other = place.launch(&[]);
    assert!(!other.wait(PATIENCE).expect("it ends").success());
    let log = other.log();
    let who = format!("({}) is taking over from it already", std::process::id());
    assert!(log.contains(&who), "{log}");
    assert_eq!(served_as(&mut client).expect("served"), token("app"));
    drop(taker);
    eventually("its end is noticed", || {
        proxy
            .log()
            .contains("a proxy that was to take over has not")
    });
    let mut next = place.ready(&[]);
    leaves(&mut proxy);
    assert_eq!(served_as(&mut client).expect("served"), token("app"));
    drop(client);
    next.terminate().expect("SIGTERM");
    leaves(&mut next);
    assert!(!path.exists(), "nothing is left");
}

/// A process that dies as soon as it is ready changes nothing, and the next one takes over.
#[test]
fn a_process_that_dies_when_it_is_ready_does_not_get_the_ports() {
    let nodes = scripted::start(1).expect("a node");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("handover.sock");
    let place = Place {
        nodes: &nodes,
        addresses: free_addresses("127.77.255.9").expect("ports"),
        path: &path,
    };
    let mut proxy = place.ready(&["listen.drain_timeout_ms=3000"]);
    let mut client = logged_in(proxy.address, "app");
    let mut taker = std::os::unix::net::UnixStream::connect(&path).expect("connected");
    taker.set_read_timeout(Some(PATIENCE)).expect("set");
    assert!(std::io::Read::read(&mut taker, &mut [0; 256]).expect("said") > 0);
    // It does not hear of the one before it has heard of the other.
    proxy.stop().expect("SIGSTOP");
    taker.write_all(b"ready\n").expect("said");
    drop(taker);
    proxy.resume().expect("SIGCONT");
    eventually("its end is noticed", || {
        proxy
            .log()
            .contains("a proxy that was ready to take over has ended")
    });
    assert_eq!(served_as(&mut client).expect("served"), token("app"));
    let mut other = logged_in(proxy.address, "other");
    assert_eq!(served_as(&mut other).expect("served"), token("other"));
    let mut next = place.ready(&[]);
    leaves(&mut proxy);
    for (client, role) in [(&mut client, "app"), (&mut other, "other")] {
        assert_eq!(served_as(client).expect("served"), token(role));
    }
    drop((client, other));
    next.terminate().expect("SIGTERM");
    leaves(&mut next);
}

/// A process that dies before it has said that it has a client leaves it to the one before it.
#[test]
fn a_process_that_dies_on_the_way_takes_nobody_with_it() {
    let nodes = scripted::start(1).expect("a node");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("handover.sock");
    let place = Place {
        nodes: &nodes,
        addresses: free_addresses("127.77.255.3").expect("ports"),
        path: &path,
    };
    let mut proxy = place.ready(&["listen.drain_timeout_ms=3000"]);
    let mut client = logged_in(proxy.address, "app");
    let mut taker = std::os::unix::net::UnixStream::connect(&path).expect("connected");
    let mut said = [0; 256];
    let wait = |taker: &mut std::os::unix::net::UnixStream, said: &mut [u8]| {
        taker.set_read_timeout(Some(PATIENCE)).expect("set");
        std::io::Read::read(taker, said).expect("said")
    };
    assert!(wait(&mut taker, &mut said) > 0, "its ports");
    taker.write_all(b"ready\n").expect("said");
    assert_eq!(wait(&mut taker, &mut said), 5, "left");
    taker.write_all(b"clients 2\n").expect("said");
    // The client's packet: its length, and its socket.
    assert_eq!(wait(&mut taker, &mut said[..4]), 4);
    client
        .send(3, op::QUERY, &client.query_body(READ, 1))
        .expect("sent");
    thread::sleep(Duration::from_millis(50));
    drop(taker);
    let answer = client.receive().expect("it is served");
    assert_eq!((answer.stream, answer.opcode), (3, op::RESULT));
    leaves(&mut proxy);
    proxy.expect_logged("no further clients are passed on");
}

/// The next packet: of so many clients.
fn clients_of_packet(taker: &mut std::os::unix::net::UnixStream) -> usize {
    let mut len = [0; 4];
    std::io::Read::read_exact(taker, &mut len).expect("its length");
    let mut packet = vec![0; u32::from_be_bytes(len) as usize];
    std::io::Read::read_exact(taker, &mut packet).expect("a packet");
    // MessagePack: a list in a map of one entry.
    let list = packet.strip_prefix(b"\x81\xA7Clients").expect("clients");
    match list[0] {
        0xDC => u16::from_be_bytes([list[1], list[2]]).into(),
        short => (short & 0xF).into(),
    }
}

/// Its answers before say nothing of the clients that it gets next.
#[test]
fn a_process_that_stalls_takes_nobody_with_it() {
    let nodes = scripted::start(1).expect("a node");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("handover.sock");
    let place = Place {
        nodes: &nodes,
        addresses: free_addresses("127.77.255.8").expect("ports"),
        path: &path,
    };
    let mut proxy = place.ready(&["listen.drain_timeout_ms=3000"]);
    // More than fit in one packet.
    let mut clients: Vec<_> = (0..70).map(|_| logged_in(proxy.address, "app")).collect();
    let mut taker = std::os::unix::net::UnixStream::connect(&path).expect("connected");
    taker.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut said = [0; 256];
    assert!(std::io::Read::read(&mut taker, &mut said).expect("said") > 0);
    taker.write_all(b"ready\n").expect("said");
    std::io::Read::read_exact(&mut taker, &mut said[..5]).expect("left");
    taker.write_all(b"clients 2\n").expect("said");
    let first = clients_of_packet(&mut taker);
    assert!((1..=64).contains(&first), "{first} clients");
    for client in &mut clients {
        let query = client.query_body(READ, 1);
        client.send(3, op::QUERY, &query).expect("sent");
    }
    // It has no room for any of these, and then says nothing more.
    let mut answer = b"\x81\xA7Clients\xDC\0".to_vec();
    answer.push(first as u8);
    answer.extend(b"\xA4full".repeat(first));
    let len = (answer.len() as u32).to_be_bytes();
    taker
        .write_all(&[&len[..], &answer].concat())
        .expect("said");
    assert!(clients_of_packet(&mut taker) > 0);
    for client in &mut clients {
        let answer = client.receive().expect("it is served");
        assert_eq!((answer.stream, answer.opcode), (3, op::RESULT));
    }
    leaves(&mut proxy);
    let log = proxy.expect_logged("no further clients are passed on");
    assert!(
        !log.contains("disconnected, because it is not known"),
        "{log}"
    );
}

/// A process that understands other states gets no clients.
#[test]
fn a_process_of_another_version_gets_the_ports_only() {
    let nodes = scripted::start(1).expect("a node");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("handover.sock");
    let place = Place {
        nodes: &nodes,
        addresses: free_addresses("127.77.255.4").expect("ports"),
        path: &path,
    };
    let mut proxy = place.ready(&["listen.drain_timeout_ms=3000"]);
    let mut client = logged_in(proxy.address, "app");
    let mut taker = std::os::unix::net::UnixStream::connect(&path).expect("connected");
    taker.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut said = [0; 256];
    assert!(std::io::Read::read(&mut taker, &mut said).expect("said") > 0);
    taker.write_all(b"ready\n").expect("said");
    std::io::Read::read_exact(&mut taker, &mut said[..5]).expect("left");
    taker.write_all(b"clients 0 999\n").expect("said");
    assert_eq!(std::io::Read::read(&mut taker, &mut said).expect("said"), 0);
    assert_eq!(served_as(&mut client).expect("served"), token("app"));
    leaves(&mut proxy);
    proxy.expect_logged("does not understand what this one says");
}
