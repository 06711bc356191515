//! Two ends in one process.

use std::net::TcpStream;
use std::os::unix::net::UnixListener as StdUnixListener;

use super::*;

fn port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port")
}

fn ports() -> Ports {
    let client = port();
    let admin = port();
    Ports {
        address: client.local_addr().expect("an address"),
        clients: vec![client.try_clone().expect("cloned"), client],
        admin: Some((admin.local_addr().expect("an address"), admin)),
    }
}

/// Both ends of a connection.
fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("a pair")
}

#[tokio::test]
async fn packets_carry_sockets_of_their_own() {
    let (mut here, mut there) = pair();
    let ports: Vec<TcpListener> = (0..64).map(|_| port()).collect();
    let addresses = ports
        .iter()
        .map(|port| port.local_addr().expect("an address"));
    let addresses: Vec<SocketAddr> = addresses.collect();
    let text = "x".repeat(1 << 20);
    let sent = tokio::spawn(async move {
        let sockets: Vec<_> = ports.iter().map(AsFd::as_fd).collect();
        for sockets in [&sockets[..], &[], &sockets[..1]] {
            packets::send(&mut here, &text, sockets)
                .await
                .expect("sent");
        }
    });
    for count in [64, 0, 1] {
        let received = packets::receive::<String>(&mut there).await;
        let (text, sockets) = received.expect("received").expect("a packet");
        assert_eq!((text.len(), sockets.len()), (1 << 20, count));
        for (socket, address) in sockets.into_iter().zip(&addresses) {
            let port = TcpListener::from(socket);
            assert_eq!(port.local_addr().ok(), Some(*address));
        }
    }
    sent.await.expect("no panic");
    let end = packets::receive::<String>(&mut there).await;
    assert!(end.expect("the end").is_none());
}

#[tokio::test]
async fn what_is_no_packet_is_an_error() {
    for bytes in [
        &b"\0\0"[..],
        b"\xFF\xFF\xFF\xFFx",
        b"\0\0\0\x08short",
        b"\0\0\0\x01\xC1",
    ] {
        let (mut here, mut there) = pair();
        here.write_all(bytes).await.expect("sent");
        drop(here);
        let received = packets::receive::<packets::Passed>(&mut there).await;
        assert!(received.is_err(), "{bytes:?}");
    }
    // A secret in the wrong place is not quoted.
    let (mut here, mut there) = pair();
    let secret = ("Clients", "hunter2");
    packets::send(&mut here, &secret, &[]).await.expect("sent");
    let error = packets::receive::<packets::Passed>(&mut there).await;
    let error = format!("{:?}", error.expect_err("no packet"));
    assert!(!error.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn clients_are_passed_on_to_whoever_understands_them() {
    let (mut here, mut there) = pair();
    ask_for_clients(&mut there).await.expect("asked");
    assert!(asked_for_clients(&mut here).await.expect("a line"));
    for (line, understood) in [
        ("clients 7 1\n", true),
        ("clients 7 11\n", false),
        ("clients\n", false),
        ("", false),
    ] {
        let (mut here, mut there) = pair();
        there.write_all(line.as_bytes()).await.expect("said");
        drop(there);
        let asked = asked_for_clients(&mut here).await;
        assert_eq!(asked.expect("a line"), understood, "{line}");
    }
    let (mut here, mut there) = pair();
    there.write_all(b"something else\n").await.expect("said");
    assert!(asked_for_clients(&mut here).await.is_err());
}

async fn taken(path: &Path) -> Result<Option<Taken>> {
    let path = path.to_owned();
    let handle = tokio::runtime::Handle::current();
    // It blocks, as it does before a proxy serves anybody.
    tokio::task::spawn_blocking(move || {
        let _entered = handle.enter();
        take(&path)
    })
    .await
    .expect("no panic")
}

#[tokio::test]
async fn the_ports_pass_on_and_what_waits_in_them_is_not_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("handover.sock");
    assert!(taken(&path).await.expect("nobody").is_none());
    let own = ports();
    let (address, at) = (own.address, own.admin.as_ref().expect("admin").0);
    let waiting = Waiting::bind(&path, own).expect("bound");
    let successor = tokio::spawn(waiting.successor());

    // One that dies before it is ready changes nothing.
    drop(taken(&path).await.expect("asked").expect("ports"));

    let client = TcpStream::connect(address).expect("it waits in the queue");
    let Taken { ports, stream } = taken(&path).await.expect("asked").expect("ports");
    assert_eq!((ports.address, ports.clients.len()), (address, 2));
    assert_eq!(ports.admin.as_ref().expect("admin").0, at);
    let finished = tokio::spawn(finish(stream));
    let successor = successor.await.expect("no panic");
    // The old one's sockets are closed by now, the new one's are not.
    successor.tell_left().await;
    finished.await.expect("no panic").expect("left");
    let (_, peer) = ports.clients[0].accept().expect("the client");
    assert_eq!(peer, client.local_addr().expect("an address"));
    assert!(!path.exists(), "its place is free for the next");
}

#[tokio::test]
async fn a_stranger_is_told_from_a_proxy() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, line) in ["", "hello\n", "helenus handover 1 127.0.0.1:1 -\n", "x"]
        .into_iter()
        .enumerate()
    {
        let path = folder.path().join(number.to_string());
        let stranger = StdUnixListener::bind(&path).expect("bound");
        let said = std::thread::spawn(move || {
            use std::io::Write;
            let (mut stream, _) = stranger.accept().expect("asked");
            stream.write_all(line.as_bytes()).expect("said");
        });
        let error = taken(&path).await.expect_err(line);
        assert!(!format!("{error:#}").is_empty());
        said.join().expect("no panic");
    }
}
